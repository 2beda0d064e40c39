//! Runs a scenario in many orders of its threads, drawn by chance: half of them step by step, half
//! by priorities that change at a few moments (PCT), which finds what takes a thread to be held up
//! long.
//!
//! Orders come in lots, each whole and of its own seed; the line that replays a failure names the
//! seed of its lot and asks for no other. `TABULITH_SCHEDULES` says how many orders there are, in
//! thousandths of what is usual, but at least a lot.

use crate::modelled;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay};

const LOT: u64 = 500;
/// A thousandth of what is usual.
const USUAL: u64 = 1000;
/// Moments at which priorities change.
const CHANGES: usize = 3;
/// The engine's stack frames are larger than shuttle's stacks.
const STACK_BYTES: usize = 512 << 10;
/// A thread that waits for another one by looking again and again gets there, or never does.
const STEPS_MAX: usize = 2_000_000;

/// Runs `scenario` in `orders` orders, or in more or fewer where that was asked for; returns how
/// many. `name` is its test's.
pub(super) fn holds(name: &str, orders: u64, scenario: fn()) -> u64 {
    let share = seed::number("TABULITH_SCHEDULES").unwrap_or(USUAL);
    let lots = (orders * share / USUAL).div_ceil(LOT).max(1);
    let first = seed::seed_or(1);
    let mut done = 0;
    for seed in first..first + lots {
        let _replay = Replay::new(seed, format!("TABULITH_SCHEDULES=1 cargo dev shuttle {name}"));
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        config.silence_warnings = true; // It knows one order of memory only; loom has the others.
        done += match seed % 2 {
            0 => Runner::new(RandomScheduler::new_from_seed(seed, LOT as usize), config)
                .run(scenario),
            _ => Runner::new(PctScheduler::new_from_seed(seed, CHANGES, LOT as usize), config)
                .run(scenario),
        } as u64;
    }
    counts::tell("shuttle", &[count("schedules", done, lots * LOT), count("scenarios", 1, 1)]);
    done
}

/// `scenario` does not hold where `place` is weakened: some of a lot of orders would see it.
pub(super) fn needs(scenario: fn(), place: &'static str) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    config.failure_persistence = FailurePersistence::None;
    let scheduler = RandomScheduler::new_from_seed(1, LOT as usize);
    let run = || Runner::new(scheduler, config).run(scenario);
    let seen = modelled::with_weakened(place, || catch_unwind(AssertUnwindSafe(run)));
    assert!(seen.is_err(), "nothing is wrong without {place:?}");
    counts::tell("shuttle", &[count("weakened", 1, 1)]);
}

//! Every target over its corpus and over inputs made from it; past failures are in the corpus.
//! `TABULITH_FUZZ_RUNS=100000` makes that many inputs for each target, `TABULITH_SEED=2` others.

#![allow(clippy::print_stderr, reason = "the counts are what the run is for")]

use tabulith_fuzz::drive;
use tabulith_fuzz::seeds;
use tabulith_fuzz::targets::list::{TARGETS, find};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed;

/// Inputs of all targets together.
const RUNS_MIN: u64 = 10_000_000;

fn check(name: &str) {
    let target = find(name).expect("a target of that name");
    let runs = seed::number("TABULITH_FUZZ_RUNS").unwrap_or(target.runs);
    let done = drive::run(target, seed::seed_or(1), 0, runs).expect("the corpus can be read");
    eprintln!("{name}: {done:?}");
    assert!(done.corpus >= 2, "{name} has a corpus of {} inputs", done.corpus);
    counts::tell("fuzz", &[count("executions", done.made, runs), count("targets", 1, 1)]);
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_run() {
            let listed: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(listed, [$(stringify!($name)),*]);
            let runs: u64 = TARGETS.iter().map(|target| target.runs).sum();
            assert!(runs >= RUNS_MIN, "{runs} inputs in all");
        }
    };
}

targets! {
    wal manifest block table_file blob_file group key_order entity folder engine_ops backup moment filter json batch
    address token authorization signature documents framing app
}

/// A seed that its own target refuses would be none: the makers are held against the readers.
#[test]
fn what_the_encoders_make_passes() {
    for (name, seed, input) in seeds::all().expect("a sound disk") {
        let target = find(name).expect("a target of that name");
        drive::one_input(target, format!("seed {seed}"), input);
    }
}

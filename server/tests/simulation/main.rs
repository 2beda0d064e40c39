//! The whole system on one thread: clients, connections, the service, the engine, its disk and all
//! clocks are simulated, so that a run depends on its seed alone.
//!
//! Each seed is a small world with a choice of troubles: more clients than there is room for,
//! kills, power losses, stops, clocks that are set, a slow disk, a full one, one that fails a sync
//! of the log, keys that are replaced, policies that are revoked, tables that are dropped. What the
//! clients were told must be linearizable, in all of it, and every request must end. Every 50th
//! seed runs twice and must be the same.
//!
//! `TABULITH_SIM_SEEDS` runs another number of seeds than 500, `TABULITH_SEED` begins elsewhere;
//! `TABULITH_SIM_EVENTS=1` tells everything that happens.
#![allow(clippy::disallowed_methods, reason = "tokio's clock is what the simulation turns")]
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/talk.rs"]
mod talk;

mod accounts;
mod stream;
mod world;
mod client;

use accounts::accounts;
use client::{Book, Client, Role};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tabulith::env::clock::Clock as _;
use tabulith_server::config::{Config, Throttling};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::register;
use tabulith_testkit::seed::{self, Replay, Rng};
use tabulith_testkit::wholes::{self, Wholes};
use tokio::time::{sleep, timeout};
use world::World;

const SEEDS_DEFAULT: u64 = 500;
const THREADS: usize = 2;
const TWICE_EVERY: u64 = 50;

/// What may happen to a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Kill,
    PowerLoss,
    Stop,
    ClockStep,
    SlowDisk,
    FullDisk,
    FailedSync,
    Rotation,
    Revocation,
}

const TROUBLES: [Trouble; 9] = [
    Trouble::Kill,
    Trouble::PowerLoss,
    Trouble::Stop,
    Trouble::ClockStep,
    Trouble::SlowDisk,
    Trouble::FullDisk,
    Trouble::FailedSync,
    Trouble::Rotation,
    Trouble::Revocation,
];

/// What a seed came to.
#[derive(Clone, Debug, Default)]
struct Outcome {
    hash: u64,
    calls: u64,
    wholes: Wholes,
    simulated: Duration,
    counts: BTreeMap<&'static str, u64>,
}

#[test]
fn every_seed_ends_well() {
    let seeds = seed::number("TABULITH_SIM_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let first = seed::seed_or(1);
    let next = AtomicU64::new(0);
    let all = Mutex::new((Outcome::default(), 0_u64));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= seeds {
                        break;
                    }
                    let seed = first + n;
                    let one = checked(seed);
                    let again = n.is_multiple_of(TWICE_EVERY);
                    if again {
                        let hash = checked(seed).hash;
                        assert_eq!(hash, one.hash, "seed {seed} went another way the second time");
                    }
                    let (all, twice) = &mut *all.lock();
                    *twice += u64::from(again);
                    all.calls += one.calls;
                    all.wholes.add(&one.wholes);
                    all.simulated += one.simulated;
                    for (what, count) in one.counts {
                        *all.counts.entry(what).or_default() += count;
                    }
                }
            });
        }
    });
    let (all, twice) = all.into_inner();
    eprintln!(
        "{seeds} seeds from {first}, {twice} of them twice: {} calls in {:.1} simulated hours, 0 anomalies\n{:#?}",
        all.calls,
        all.simulated.as_secs_f64() / 3600.0,
        all.counts
    );
    let seconds = all.simulated.as_secs();
    let counts = [
        count("seeds", seeds, 1),
        count("twice", twice, seeds.div_ceil(TWICE_EVERY)),
        count("calls", all.calls, seeds * 50),
        count("seconds", seconds, seeds / 20 * 100),
        count("pages", all.wholes.pages, seeds / 2),
        count("batches", all.wholes.batches, seeds / 20),
    ];
    counts::tell("simulation", &counts);
    for what in [
        "Kill",
        "PowerLoss",
        "Stop",
        "ClockStep",
        "SlowDisk",
        "FullDisk",
        "FailedSync",
        "Rotation",
        "Revocation",
        "answered",
        "busy",
        "commits that are far ahead",
        "dead credentials",
        "failed syncs",
        "half-closed",
        "policies revoked",
        "refused",
        "tables dropped",
        "unlucky connections",
        "without an answer",
    ] {
        let count = all.counts.get(what).copied().unwrap_or(0);
        assert!(count >= seeds / 25, "{what}: only {count} in {seeds} seeds");
    }
}

/// Runs a seed; a panic in it tells how to run it again.
fn checked(seed: u64) -> Outcome {
    let command = "TABULITH_SIM_SEEDS=1 cargo test -p tabulith-server --test simulation";
    let _replay = Replay::new(seed, command);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("an event loop");
    let local = tokio::task::LocalSet::new();
    let outcome = local.block_on(&runtime, run(seed));
    drop(local);
    runtime.shutdown_background();
    outcome
}

async fn run(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let is_crowded = rng.chance(20);
    let config = config(&mut rng, is_crowded);
    let mut troubles: Vec<Trouble> = TROUBLES.into_iter().filter(|_| rng.chance(40)).collect();
    // Policies go with their table: a world has the one trouble or the other.
    let drops = !troubles.contains(&Trouble::Revocation) && rng.chance(50);
    let guests = troubles.contains(&Trouble::Revocation);
    if troubles.is_empty() {
        troubles.push(Trouble::PowerLoss);
    }
    let world = World::new(rng.next_u64(), config);
    let book = Arc::new(Mutex::new(Book::default()));
    world.boot(&accounts(1));
    let mut owner = Client::new(&world, &book, Role::Owner, 0, false);
    owner.make_table().await;
    while guests && !owner.set_policy(true).await {
        sleep(Duration::from_millis(100)).await;
    }
    let unlucky = *rng.pick(&[0, 5, 30]);
    let (clients, ops, pause) = match is_crowded {
        true => (20, 12, 20),
        false => (rng.between(3, 6), 40, 400),
    };
    let mut working = Vec::new();
    for n in 0..clients {
        let role = if guests && n % 2 == 1 { Role::Guest } else { Role::Owner };
        let client = Client::new(&world, &book, role, unlucky, drops);
        working.push(tokio::task::spawn_local(client.run(ops, pause)));
    }
    for _ in 0..rng.between(2, 6) {
        sleep(Duration::from_millis(rng.below(3_000) as u64)).await;
        let trouble = *rng.pick(&troubles);
        book.lock().count(name(trouble));
        cause(&world, &mut owner, trouble, &mut rng).await;
        if world.is_far_behind() {
            book.lock().count("commits that are far ahead");
        }
    }
    for client in working {
        let ended = timeout(Duration::from_secs(3_600), client).await;
        match ended.expect("every request ends in bounded time") {
            Ok(()) => {}
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    Client::new(&world, &book, Role::Owner, 0, false).look().await;
    world.event(&(world.boots(), world.failed_syncs()));
    if world.failed_syncs() > 0 {
        book.lock().count("failed syncs");
    }
    let book = std::mem::take(&mut *book.lock());
    let checked = register::check(false, &book.calls);
    match checked.and_then(|checked| Ok((checked, wholes::check(&book.calls)?))) {
        Ok((checked, wholes)) => Outcome {
            hash: world.hash(),
            calls: checked.calls,
            wholes,
            simulated: world.clock.steady(),
            counts: book.counts,
        },
        Err(anomaly) => panic!("{anomaly}"),
    }
}

fn config(rng: &mut Rng, is_crowded: bool) -> Config {
    let mut config = Config::default();
    if is_crowded {
        config.body_bytes_max = 8 << 10;
        let most = NonZeroU32::new(rng.between(20, 200) as u32);
        config.throttling = Throttling { partition_entities: None, account_requests: most };
    }
    // Where it is, and dates are of no account, clients go on whatever it says.
    config.clock_believed = rng.chance(50);
    config.date_checked = !config.clock_believed;
    config
}

fn name(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Kill => "Kill",
        Trouble::PowerLoss => "PowerLoss",
        Trouble::Stop => "Stop",
        Trouble::ClockStep => "ClockStep",
        Trouble::SlowDisk => "SlowDisk",
        Trouble::FullDisk => "FullDisk",
        Trouble::FailedSync => "FailedSync",
        Trouble::Rotation => "Rotation",
        Trouble::Revocation => "Revocation",
    }
}

/// One trouble, from its beginning to its end.
async fn cause(world: &Arc<World>, owner: &mut Client, trouble: Trouble, rng: &mut Rng) {
    let mut rest = |most: usize| Duration::from_millis(rng.between(1, most) as u64);
    match trouble {
        Trouble::Kill | Trouble::PowerLoss => {
            world.begin(&trouble);
            world.kill(trouble == Trouble::PowerLoss);
            sleep(rest(2_000)).await;
            world.boot(&world.accounts());
            world.end();
        }
        Trouble::Stop => {
            world.begin(&trouble);
            world.stop().await;
            sleep(rest(500)).await;
            world.boot(&world.accounts());
            world.end();
        }
        Trouble::ClockStep => {
            world.begin(&trouble);
            let minute = 600_000_000;
            // After commits of more than a quarter of an hour ahead nobody is let in, and by an
            // hour back nothing goes on, but where the clock is believed all the same.
            let ahead = if world.believes_clock() { 60 } else { 14 };
            let minutes = [14, ahead, -14, -60][rest(4).as_millis() as usize - 1];
            world.clock.set_off(minutes * minute);
            sleep(rest(4_000)).await;
            world.clock.set_off(0);
            world.end();
        }
        Trouble::SlowDisk => {
            world.begin(&trouble);
            world.set_pace(rest(3_000));
            sleep(rest(10_000)).await;
            // A crash meets what a slow disk has gathered.
            if rest(3) == Duration::from_millis(1) {
                world.kill(true);
                world.boot(&world.accounts());
            }
            world.set_pace(Duration::from_millis(1));
            world.end();
        }
        Trouble::FullDisk => {
            world.begin(&trouble);
            world.set_room(Some(rest(20_000).as_millis() as u64));
            sleep(rest(6_000)).await;
            if rest(3) == Duration::from_millis(1) {
                world.kill(false);
                world.boot(&world.accounts());
            }
            world.set_room(None);
            // What had no room is written by then.
            sleep(Duration::from_secs(2)).await;
            world.end();
        }
        Trouble::FailedSync => {
            world.begin(&trouble);
            let before = world.failed_syncs();
            world.fail_log();
            let failed = timeout(rest(3_000), async {
                while world.failed_syncs() == before {
                    sleep(Duration::from_millis(10)).await;
                }
            });
            if failed.await.is_ok() {
                // What is in doubt by then is so for good, and there must not be too much of it.
                sleep(rest(500)).await;
            }
            world.kill(rest(2) == Duration::from_millis(1));
            world.boot(&world.accounts());
            world.end();
        }
        Trouble::Rotation => {
            world.event(&trouble);
            world.rotate();
        }
        Trouble::Revocation => {
            world.event(&trouble);
            owner.set_policy(false).await;
            sleep(rest(3_000)).await;
            let granted = timeout(Duration::from_secs(60), async {
                while !owner.set_policy(true).await {
                    sleep(Duration::from_millis(100)).await;
                }
            });
            granted.await.expect("a quiet server keeps a policy");
        }
    }
}

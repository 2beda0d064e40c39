//! A slow disk: each call takes ten seconds of the clock, or does not return until somebody heals
//! it. Nothing is acknowledged before its time, readers go on, and writers do when the call
//! returns.

use crate::faults::WORKLOADS;
use crate::opening::{DIR, open_on};
use crate::workload::small;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::SystemClock;
use tabulith::env::jobs::Threads;
use tabulith::options::Options;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::{Profile, SimFs};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::watch::{Watch, watched};

/// What one call takes.
const SLOW: Duration = Duration::from_secs(10);
/// How long what should wait may take to show that it does not.
const TIME_TO_GO_WRONG: Duration = Duration::from_millis(100);
const TABLE: &str = "t0";
const COMMITS: u32 = 120;

/// Every call of every workload takes ten seconds once: nothing is refused for that, and nothing is
/// lost.
#[test]
fn a_call_that_takes_ten_seconds_changes_nothing() {
    let mut slow = 0;
    for workload in WORKLOADS {
        watched(|watch| {
            watch.step(format!("no slow call, {}", workload.name));
            let (_, ops, calls) = workload.without_fault();
            let calls: u64 = calls.values().sum();
            for n in 0..calls {
                let name = format!("slow call {n} of {calls}, {}", workload.name);
                watch.step(name.clone());
                let mut case = workload.case(name);
                let (clock, taken) = (case.clock(), Arc::new(AtomicU32::new(0)));
                let own = Arc::clone(&taken);
                case.faults.interrupt(Rule::any().skip(n), move || {
                    clock.advance(SLOW);
                    own.fetch_add(1, Ordering::Relaxed);
                });
                case.must(&ops);
                slow += u64::from(taken.load(Ordering::Relaxed));
                case.end(slow);
            }
        });
    }
    counts::tell("slow", &[count("calls", slow, 600)]);
}

/// A writer that goes on until something does not return.
fn write(db: &Db, acknowledged: &AtomicU32) {
    let table = db.table(TABLE).expect("it is there");
    for n in 0..COMMITS {
        let written = table.upsert("p", format!("r{n:03}"), value(n));
        written.unwrap_or_else(|error| panic!("commit {n}: {error}"));
        acknowledged.store(n + 1, Ordering::SeqCst);
    }
}

fn value(n: u32) -> Vec<u8> {
    vec![n as u8; 40 + (n as usize % 7) * 90]
}

/// The first `count` rows are there, as they were written.
fn read(db: &Db, count: u32, name: &str) {
    let table = db.table(TABLE).expect("it is there");
    for n in 0..count {
        let row = table.get("p", format!("r{n:03}")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let right = row.is_some_and(|row| row.value == value(n));
        assert!(right, "{name}: row {n} of {count} acknowledged ones is wrong");
    }
    let rows = table.partition("p").count().unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(rows >= count.into(), "{name}: {rows} rows in a scan, {count} acknowledged");
}

/// One call does not return; gives how many commits had been acknowledged when it was entered, and
/// when it was left alone for a while. None where it is never made.
fn hold(name: &str, direct: bool, rule: Rule, watch: &Watch) -> Option<(u32, u32)> {
    watch.step(name);
    let sim = SimFs::new();
    if !direct {
        sim.refuse_direct();
    }
    let faults = FaultFs::new(Arc::new(sim.clone()));
    let options = small();
    let builder = Db::builder().options(options.clone());
    let clock = Arc::new(SystemClock::new());
    let builder = builder.parts(Arc::new(faults.clone()), clock, Arc::new(Threads));
    let db = builder.open(DIR).expect("the disk is well");
    db.table(TABLE).expect("the disk is well");
    let (enter, entered) = mpsc::channel();
    let (heal, healed) = mpsc::channel::<()>();
    faults.interrupt(rule, move || {
        let _ = enter.send(());
        let _ = healed.recv(); // Until somebody heals the disk, or lets go of it.
    });
    let acknowledged = AtomicU32::new(0);
    let held = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&db, &acknowledged));
        // Where the call is never made, the writer ends.
        while entered.try_recv().is_err() {
            if writer.is_finished() {
                return None;
            }
            std::thread::yield_now();
        }
        let before = acknowledged.load(Ordering::SeqCst);
        for _ in 0..20 {
            watch.tick();
            read(&db, acknowledged.load(Ordering::SeqCst), name);
        }
        // What is acknowledged by now survives whatever the held call may leave.
        let count = acknowledged.load(Ordering::SeqCst);
        for state in sim.crash_states(Profile::Hostile, 6, 1) {
            let fs = Arc::new(SimFs::after_crash(&state));
            let after = open_on(fs, &Options { threads: Some(1), ..options.clone() });
            let after = after.unwrap_or_else(|stop| panic!("{name}: {state:?}: {stop}"));
            read(&after, count, &format!("{name}: {state:?}"));
        }
        heal.send(()).expect("the call waits for it");
        writer.join().expect("every commit is acknowledged once the disk is healed");
        Some((before, count))
    });
    // A call that comes only now, or while it closes, finds the disk well.
    drop(heal);
    assert_eq!(acknowledged.load(Ordering::SeqCst), COMMITS, "{name}");
    read(&db, COMMITS, name);
    db.close().unwrap_or_else(|error| panic!("{name}: closing: {error}"));
    held
}

#[test]
fn a_call_that_does_not_return_holds_up_nobody_who_reads() {
    let sites = [
        (Call::Write, "*.wal"),
        (Call::Sync, "*.wal"),
        (Call::Create, "*.wal*"),
        (Call::Write, "*.sst"),
        (Call::Sync, "*.sst"),
        (Call::Create, "*.sst"),
        (Call::Write, "*.manifest-*"),
        (Call::Sync, "*.manifest-*"),
        (Call::SyncDir, "*"),
        (Call::Remove, "*"),
    ];
    let (mut held, mut stopped, mut went_on) = (0, 0, 0);
    watched(|watch| {
        for direct in [true, false] {
            for (call, file) in sites {
                for skip in [0, 1, 5, 20] {
                    let name = format!("held {call:?} of {file}, {skip} before, direct: {direct}");
                    let rule = Rule::fail(call).named(file).skip(skip);
                    let Some((before, after)) = hold(&name, direct, rule, watch) else { continue };
                    held += 1;
                    match before == after {
                        true => stopped += 1,
                        false => went_on += 1,
                    }
                }
            }
        }
    });
    counts::tell("held", &[count("calls", held, 40), count("waited", stopped, 16)]);
    eprintln!("{went_on} went on meanwhile");
}

/// A worker that merged has begun to remove a file and does not come back: whoever settles waits
/// for it, so that no byte of the file is counted by whoever looks at the folder then.
#[test]
fn settling_ends_after_a_removal_that_was_slow() {
    let sim = SimFs::new();
    let faults = FaultFs::new(Arc::new(sim.clone()));
    let builder = Db::builder().options(small());
    let clock = Arc::new(SystemClock::new());
    let db = builder.parts(Arc::new(faults.clone()), clock, Arc::new(Threads)).open(DIR);
    let db = db.expect("the disk is well");
    let table = db.table(TABLE).expect("the disk is well");
    let (enter, entered) = mpsc::channel();
    let (heal, healed) = mpsc::channel::<()>();
    faults.interrupt(Rule::fail(Call::Remove).named("*.sst"), move || {
        let _ = enter.send(());
        let _ = healed.recv();
    });
    // Writes until a worker is held; what it removes is the input of a merge.
    let mut n = 0;
    while entered.try_recv().is_err() {
        let written = table.upsert("p", format!("r{:03}", n % 200), value(n));
        written.unwrap_or_else(|error| panic!("commit {n}: {error}"));
        n += 1;
        assert!(n < 1_000_000, "no merge removed a file");
    }
    let is_well = AtomicU32::new(0);
    let (settle, settled) = mpsc::channel();
    std::thread::scope(|scope| {
        let settler = scope.spawn(|| {
            db.settle().expect("the disk is well");
            let _ = settle.send(());
            is_well.load(Ordering::SeqCst)
        });
        // A settler that does not wait has time to end.
        let _ = settled.recv_timeout(TIME_TO_GO_WRONG);
        is_well.store(1, Ordering::SeqCst);
        heal.send(()).expect("the removal waits for it");
        let settled_well = settler.join().expect("it settles");
        assert_eq!(settled_well, 1, "it had settled while a file was still being removed");
    });
    db.close().expect("the disk is well");
}

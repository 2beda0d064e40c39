//! Several threads commit, one reads, flush and compaction run beside them; then the power fails
//! after every effect. Groups and syncs overlap here as they do in production.
//!
//! Threads take turns as the machine likes, so a failure shows its state but does not replay.

use crate::explore::{Depth, Explorer, Tally};
use crate::finished::Finished;
use crate::kept::{Kept, Promise};
use crate::model::{Change, History, NEVER, Need};
use crate::opening::DIR;
use crate::workload::small;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::{ByHand, Threads};
use tabulith::options::{Durability, Options, Reach};
use tabulith::rows::{Catalog, RowStore, TableInfo};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::{Profile, SimFs, Trace};
use tabulith::{Batch, ScanRow};

const WRITERS: u8 = 4;
const COMMITS_PER_WRITER: u8 = 12;
const TABLE: &str = "t0";

/// Commits of one writer with their timestamps.
type Written = Vec<(u64, Change)>;

fn write(db: &Db, table: &TableInfo, trace: &Trace, writer: u8) -> Written {
    let pk = Bytes::from(format!("p{writer}"));
    let commit = |n: u8| {
        let rows: Vec<_> = (0..=n % 3)
            .map(|row| (Bytes::from(format!("r{}", (n + row) % 8)), Some(value(writer, n, row))))
            .collect();
        let ticket = db.update(table.id, &pk, None, Reach::Disk, &mut |partition| {
            rows.iter().try_for_each(|(rk, v)| partition.put(rk, v.as_deref().unwrap_or_default()))
        });
        let ticket = ticket.expect("nothing fails here");
        let ts = ticket.ts().0;
        ticket.wait().expect("nothing fails here");
        trace.mark(ts);
        (ts, Change::Rows { table: TABLE.to_owned(), pk: pk.clone(), rows, expires: NEVER })
    };
    (0..COMMITS_PER_WRITER).map(commit).collect()
}

fn value(writer: u8, n: u8, row: u8) -> Bytes {
    vec![writer ^ n; usize::from(n) * 37 + usize::from(row)].into()
}

/// Every mark is a timestamp that was acknowledged or visible.
fn run(direct: bool) -> Finished {
    let sim = SimFs::new();
    if !direct {
        sim.refuse_direct();
    }
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let options = small();
    let builder = Db::builder().options(options.clone());
    let db = builder.parts(Arc::new(sim.process()), clock, Arc::new(Threads)).open(DIR);
    let db = db.expect("nothing fails here");
    let table = db.create_table(TABLE, b"").expect("nothing fails here");
    let trace = sim.record();
    trace.mark(table.created.0);
    let done = AtomicBool::new(false);
    let mut written: Written = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                let visible = db.visible().0;
                if visible != seen {
                    trace.mark(visible);
                    seen = visible;
                }
                std::thread::yield_now();
            }
        });
        let (db, table, trace) = (&db, &table, &trace);
        let start = |writer| scope.spawn(move || write(db, table, trace, writer));
        let writers: Vec<_> = (0..WRITERS).map(start).collect();
        let written = writers.into_iter().flat_map(|w| w.join().expect("a writer")).collect();
        done.store(true, Ordering::Relaxed);
        reader.join().expect("the reader");
        written
    });
    sim.kill();
    drop(db);
    written.sort_by_key(|(ts, _)| *ts);
    let mut history = History::new();
    let created = Change::Create { table: TABLE.to_owned(), id: table.id.0 };
    for (ts, change) in [(table.created.0, created)].into_iter().chain(written) {
        history.push(ts, Durability::Synced, change).expect("timestamps are unique");
    }
    finished(trace, history, options)
}

/// A run of which everybody was told what is durable alone.
fn finished(trace: Trace, history: History, options: Options) -> Finished {
    Finished {
        trace,
        history,
        floor: Need::default(),
        options,
        told_is_safe: true,
        unsure: Vec::new(),
        copies: Vec::new(),
        long_logs: 0,
        kept: Kept::since(Promise::NONE),
        moments: 0,
        quiet_moments: 0,
    }
}

#[test]
fn a_crash_under_several_writers_keeps_what_each_was_told() {
    let mut all = Tally::default();
    for round in 0..4 {
        let run = run(round % 2 == 0);
        for profile in [Profile::Ordered, Profile::Hostile] {
            let depth = Depth {
                profile,
                states: 60,
                one_used_in: 64,
                one_nested_in: 4096,
                levels: 1,
                nested_states: 4,
            };
            match Explorer::new(&run, &depth).all() {
                Ok(tally) => all += tally,
                Err(violation) => panic!("round {round}, {profile:?}\n{violation}"),
            }
        }
    }
    eprintln!("crashes under {WRITERS} writers: {all}");
    assert!(all.opened > 4_000, "{all}");
}

/// Somebody looks what is visible in the middle of every write and every sync of the log.
fn run_with_looks() -> Finished {
    let sim = SimFs::new();
    sim.refuse_direct(); // Between writing and syncing there is time to look.
    let (faults, options) = (FaultFs::new(Arc::new(sim.clone())), small());
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let builder = Db::builder().options(options.clone());
    let db = builder.parts(Arc::new(faults.clone()), clock, Arc::new(ByHand)).open(DIR);
    let db = db.expect("nothing fails here");
    let table = db.create_table(TABLE, b"").expect("nothing fails here");
    let created = Change::Create { table: TABLE.to_owned(), id: table.id.0 };
    let (trace, mut history) = (sim.record(), History::new());
    trace.mark(table.created.0);
    history.push(table.created.0, Durability::Synced, created).expect("timestamps rise");
    for writer in 0..3 {
        for _ in 0..COMMITS_PER_WRITER {
            for call in [Call::Write, Call::Sync] {
                let (db, trace) = (db.clone(), trace.clone());
                let look = move || trace.mark(db.visible().0);
                faults.interrupt(Rule::fail(call).named("*.wal"), look);
            }
        }
        for (ts, change) in write(&db, &table, &trace, writer) {
            history.push(ts, Durability::Synced, change).expect("timestamps rise");
        }
    }
    sim.kill();
    finished(trace, history, options)
}

#[test]
fn what_a_reader_sees_between_write_and_sync_is_safe() {
    let run = run_with_looks();
    let mut all = Tally::default();
    for profile in [Profile::Ordered, Profile::Hostile] {
        let depth = Depth {
            profile,
            states: 60,
            one_used_in: 64,
            one_nested_in: u64::MAX,
            levels: 1,
            nested_states: 4,
        };
        match Explorer::new(&run, &depth).all() {
            Ok(tally) => all += tally,
            Err(violation) => panic!("a reader in between, {profile:?}: {violation}"),
        }
    }
    eprintln!("crashes where somebody looked in between: {all}");
    assert!(all.opened > 1_000, "{all}");
}

/// Rows of a commit that is seen at once, and how many such commits there are.
const ROWS: u32 = 60;
const BATCHES: u32 = 6_000;

/// What is applied row by row is seen as a whole.
#[test]
fn nobody_sees_half_a_batch() {
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let options = Options { durability: Durability::Buffered, ..Options::default() };
    let builder = Db::builder().options(options);
    let sim = Arc::new(SimFs::new().process());
    let db = builder.parts(sim, clock, Arc::new(Threads)).open(DIR).expect("nothing fails here");
    let partition = db.table(TABLE).expect("nothing fails here").partition("p");
    let write = |n: u32| {
        let row = |batch: Batch, rk: u32| batch.upsert(rk.to_be_bytes(), n.to_be_bytes());
        (0..ROWS).fold(partition.batch(), row).commit().expect("nothing fails here");
    };
    write(0);
    let (done, scans) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut met = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..BATCHES {
                // Each while a scan is under way, and not before one has ended.
                let before = scans.load(Ordering::Relaxed);
                write(n);
                while scans.load(Ordering::Relaxed) == before && !done.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut last = 0;
        while !done.load(Ordering::Relaxed) {
            let rows = partition.scan::<&[u8]>(..).expect("nothing fails here");
            let rows: Vec<_> = rows.map(|row| row.expect("nothing fails here")).collect();
            let number =
                |row: &ScanRow| row.value.first_chunk().map_or(0, |n| u32::from_be_bytes(*n));
            let n = rows.first().map_or(0, number);
            let whole = rows.len() == ROWS as usize && rows.iter().all(|row| number(row) == n);
            if !whole || n < last {
                done.store(true, Ordering::Relaxed);
                panic!("half a batch: after {met} batches, {} rows, {n} after {last}", rows.len());
            }
            met += u32::from(n > last);
            last = n;
            scans.fetch_add(1, Ordering::Relaxed);
        }
    });
    eprintln!("{} scans met {met} batches of {ROWS} rows", scans.into_inner());
    assert!(met * 4 > BATCHES, "only {met} batches met");
}

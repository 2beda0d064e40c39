//! A table file that cannot be written: it is given up and told, and the memtable is written to
//! another one half a second later. Commits go on for as long as memory has room for them, then
//! they wait; nobody has to open the database again.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::disallowed_methods, reason = "real threads take real time")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tabulith::env::clock::SystemClock;
use tabulith::env::jobs::Threads;
use tabulith::event::{Event, StallReason};
use tabulith::vfs::api::Vfs as _;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Db, Options, Table};

const CALLS: [Call; 3] = [Call::Create, Call::Write, Call::Sync];
/// Far more than memtables may hold.
const ROWS: u64 = 60;
/// For what takes a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A database with threads, and what it tells.
fn open(disk: &FaultFs) -> (Db, mpsc::Receiver<Event>) {
    let (tell, told) = mpsc::channel();
    let advanced = Advanced {
        memtable_bytes: Some(16 << 10),
        wal_segment_bytes: 64 << 10,
        sealed_memtables_max: 2,
        ..Advanced::default()
    };
    let options = Options { threads: Some(1), advanced, ..Options::default() };
    let builder = Db::builder().options(options);
    let builder = builder.on_event(move |event| drop(tell.send(event.clone())));
    let parts = (Arc::new(disk.clone()), Arc::new(SystemClock::new()), Arc::new(Threads));
    (builder.parts(parts.0, parts.1, parts.2).open("/db").unwrap(), told)
}

fn put(table: &Table, row: u64) {
    table.upsert("p", row.to_be_bytes(), vec![row as u8; 2 << 10]).unwrap();
}

fn has(table: &Table, row: u64) -> bool {
    let found = table.get("p", row.to_be_bytes()).unwrap();
    found.is_some_and(|found| found.value == vec![row as u8; 2 << 10])
}

/// Waits until something `wanted` is told.
fn hears(told: &mpsc::Receiver<Event>, mut wanted: impl FnMut(&Event) -> bool) -> bool {
    while let Ok(event) = told.recv_timeout(PATIENCE) {
        if wanted(&event) {
            return true;
        }
    }
    false
}

fn is_error(event: &Event) -> bool {
    matches!(event, Event::BackgroundError { error, .. } if error.contains(".sst"))
}

/// All of the rows are there, each failure was told once, and nothing of a file that was given up
/// is left; also after the next start.
fn ends_well(db: Db, disk: &FaultFs, mut errors: u64, told: &mpsc::Receiver<Event>, of: &str) {
    let table = db.table("rows").unwrap();
    db.flush().unwrap();
    db.settle().unwrap();
    assert!((0..ROWS).all(|row| has(&table, row)), "{of}");
    assert_eq!(table.count().unwrap(), ROWS, "{of}");
    while errors < disk.injected() && hears(told, is_error) {
        errors += 1;
    }
    assert_eq!(errors, disk.injected(), "{of}: each is told");
    assert_eq!(errors, db.stats().background_errors, "{of}: and counted");
    drop(table);
    db.close().unwrap();
    drop(db);
    assert_eq!(told.try_iter().filter(is_error).count(), 0, "{of}: once");
    let names = disk.list("/db".as_ref()).unwrap();
    let (db, _told) = open(disk);
    let table = db.table("rows").unwrap();
    assert!((0..ROWS).all(|row| has(&table, row)), "{of}, after a start");
    let files: usize = db.stats().levels.iter().map(|(files, _)| files).sum();
    let left = names.iter().filter(|name| name.ends_with(".sst")).count();
    assert_eq!(left, files, "{of}: what was given up is gone");
}

fn is_written_again(call: Call, times: u64) {
    let of = format!("{call:?} fails {times} times");
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (db, told) = open(&disk);
    let table = db.table("rows").unwrap();
    disk.add(Rule::fail(call).named("*.sst").times(times));
    (0..ROWS).for_each(|row| put(&table, row));
    for n in 1..=times {
        assert!(hears(&told, is_error), "{of}: told {} times", n - 1);
    }
    assert!(hears(&told, |event| matches!(event, Event::FlushEnd { .. })), "{of}: no flush");
    assert_eq!(disk.injected(), times, "{of}");
    // Whoever was told of a failure says so until it has gone well.
    let waits = (0..600).take_while(|_| db.stats().last_background_error.is_some());
    waits.for_each(|_| std::thread::sleep(PATIENCE / 600));
    assert_eq!(db.stats().last_background_error, None, "{of}");
    ends_well(db, &disk, times, &told, &of);
}

#[test]
fn a_table_file_that_could_not_be_written_is_written_again() {
    std::thread::scope(|scope| {
        for (call, times) in CALLS.into_iter().flat_map(|call| [(call, 1), (call, 3)]) {
            scope.spawn(move || is_written_again(call, times));
        }
    });
}

fn commits_wait_for(call: Call) {
    let of = format!("{call:?} fails until it is mended");
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (db, told) = open(&disk);
    let table = db.table("rows").unwrap();
    disk.add(Rule::fail(call).named("*.sst").forever());
    let acked = AtomicU64::new(0);
    let reason = StallReason::Memtables;
    let mut errors = 0;
    // Judged once all have ended: who waits for a flush would wait for as long as the disk fails.
    let (stopped, then, later, all_read, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for row in 0..ROWS {
                put(&table, row);
                acked.fetch_add(1, Ordering::SeqCst);
            }
        });
        let stopped = hears(&told, |event| {
            errors += u64::from(is_error(event));
            matches!(event, Event::StallBegin { reason: why, stopped: true, .. } if *why == reason)
        });
        let then = acked.load(Ordering::SeqCst);
        for _ in 0..4 {
            errors += u64::from(hears(&told, is_error));
        }
        let all_read = (0..then).all(|row| has(&table, row));
        let later = acked.load(Ordering::SeqCst);
        disk.clear();
        (stopped, then, later, all_read, writer.join())
    });
    assert!(written.is_ok(), "{of}: a commit was refused");
    assert!(stopped && then < ROWS, "{of}: commits stop at {then}");
    assert_eq!(then, later, "{of}: they wait");
    assert!(all_read, "{of}: reads go on");
    ends_well(db, &disk, errors, &told, &of);
}

#[test]
fn commits_wait_for_a_disk_that_takes_no_table_file_and_go_on_when_it_does() {
    std::thread::scope(|scope| {
        CALLS.into_iter().for_each(|call| drop(scope.spawn(move || commits_wait_for(call))));
    });
}

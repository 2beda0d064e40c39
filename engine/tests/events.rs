//! Events of a small scripted run, in order.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::disallowed_methods, reason = "a pause is measured by the real clock")]

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tabulith::env::clock::{Clock, ManualClock, SystemClock};
use tabulith::env::jobs::{ByHand, Threads};
use tabulith::event::{Compaction, Event, StallReason};
use tabulith::rows::RowStore;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::zone::{Cell, Extract};
use tabulith::{Advanced, Db, Options};

type Log = Arc<Mutex<Vec<Event>>>;

fn small() -> Options {
    let advanced = Advanced {
        memtable_bytes: Some(4 << 10),
        wal_segment_bytes: 16 << 10,
        file_bytes: 4 << 10,
        l0_compact_files: 2,
        sealed_memtables_max: 1,
        ..Advanced::default()
    };
    Options { advanced, ..Options::default() }
}

/// A database without threads, and what it tells.
fn open(disk: &SimFs) -> (Db, Log) {
    let (log, clock) = (Log::default(), Arc::new(ManualClock::at(16_950_000_000_000_000)));
    let listener = Arc::clone(&log);
    let builder = Db::builder().options(small());
    let builder = builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand));
    let builder = builder.on_event(move |event| listener.lock().unwrap().push(event.clone()));
    (builder.open("/db").unwrap(), log)
}

/// The kinds of what was told since the last call.
fn told(log: &Log) -> Vec<&'static str> {
    let name = |event: Event| match event {
        Event::Opened { .. } => "opened",
        Event::FlushBegin { .. } => "flush",
        Event::FlushEnd { .. } => "flushed",
        Event::CompactionEnd { what: Compaction::Merged, .. } => "merged",
        Event::CompactionEnd { what: Compaction::Moved, .. } => "moved",
        Event::CompactionEnd { what: Compaction::Dropped, .. } => "dropped",
        Event::Ingested { .. } => "ingested",
        Event::StallBegin { reason: StallReason::Memtables, stopped: true, .. } => "stopped",
        Event::StallEnd { reason: StallReason::Memtables, stopped: true, .. } => "goes on",
        Event::StallBegin { .. } => "slowed",
        Event::StallEnd { .. } => "as fast as before",
        Event::BackgroundError { .. } => "error",
        Event::Checkpoint { .. } => "checkpoint",
        Event::LogRolled { .. } => "log rolled",
        _ => "unknown",
    };
    log.lock().unwrap().drain(..).map(name).collect()
}

/// Some events are told in the midst of a commit, a flush, a merge: a listener that panics ends
/// none of them.
#[test]
fn a_listener_that_panics_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_owned();
    let (done, is_done) = mpsc::channel();
    let heard = Arc::new(Mutex::new(0));
    let listener = Arc::clone(&heard);
    std::thread::spawn(move || {
        let builder = Db::builder().options(small()).on_event(move |_| {
            *listener.lock().unwrap() += 1;
            std::panic::resume_unwind(Box::new("without a word"));
        });
        let db = builder.open(dir).unwrap();
        let rows = db.table("rows").unwrap();
        for n in 0..200u32 {
            rows.upsert("p", n.to_be_bytes(), [7; 400]).unwrap();
        }
        db.settle().unwrap();
        db.close().unwrap();
        done.send(rows).unwrap();
    });
    let _closed = is_done.recv_timeout(Duration::from_secs(60)).expect("it went on");
    assert!(*heard.lock().unwrap() > 20, "flushes, merges and segments of the log are told");
    let rows = Db::open(folder.path()).unwrap().table("rows").unwrap();
    assert_eq!(rows.partition("p").count().unwrap(), 200);
}

/// Columns of values that begin with a zero; asked for any other it panics.
#[derive(Debug)]
struct Zeros;

impl Extract for Zeros {
    fn columns(&self, value: &[u8], each: &mut dyn FnMut(&[u8], Cell)) -> bool {
        each(b"first", Cell { kind: 1, prefix: 0 });
        if value[0] != 0 {
            std::panic::resume_unwind(Box::new("without a word"));
        }
        true
    }
}

/// Flushes and merges ask for the columns of what they write.
#[test]
fn columns_that_panic_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_owned();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let db = Db::builder().options(small()).open(dir).unwrap();
        db.track(Arc::new(Zeros));
        let rows = db.table("rows").unwrap();
        for n in 0..200u32 {
            rows.upsert("p", n.to_be_bytes(), [(n % 7 / 6) as u8; 400]).unwrap();
        }
        db.settle().unwrap();
        done.send((rows.count().unwrap(), db.stats())).unwrap();
    });
    let (count, stats) = is_done.recv_timeout(Duration::from_secs(60)).expect("it went on");
    assert_eq!((count, stats.background_errors), (200, 0));
    assert!(stats.levels.iter().any(|(files, _)| *files > 0), "{:?}", stats.levels);
}

#[test]
fn a_run_tells_what_it_does_in_order() {
    let disk = SimFs::new();
    let (db, log) = open(&disk);
    assert_eq!(told(&log), ["opened"]);

    let rows = db.table("rows").unwrap();
    rows.upsert("p", "1", "first").unwrap();
    assert_eq!(told(&log), [""; 0], "a commit is no event");
    db.flush().unwrap();
    assert_eq!(told(&log), ["flush", "flushed"]);
    rows.upsert("p", "1", "second").unwrap();
    db.compact().unwrap();
    assert_eq!(told(&log), ["flush", "flushed", "merged"]);

    let mut ingest = rows.ingest().unwrap();
    ingest.add("q", "1", "ingested").unwrap();
    let ts = ingest.finish().unwrap();
    match log.lock().unwrap().as_slice() {
        [Event::Ingested { files: 1, ts: told, .. }] => assert_eq!(*told, ts),
        other => panic!("{other:?}"),
    }
    told(&log);
    db.checkpoint("/copy").unwrap();
    assert_eq!(told(&log), ["checkpoint"]);
    db.close().unwrap();
}

#[test]
fn commits_that_wait_say_when_and_for_what() {
    let (db, log) = open(&SimFs::new());
    let rows = db.table("rows").unwrap();
    told(&log);
    // Nobody flushes meanwhile, so a third full memtable has to wait for the first.
    for n in 0..12u32 {
        rows.upsert("p", n.to_be_bytes(), vec![n as u8; 2 << 10]).unwrap();
    }
    let told = told(&log);
    let at = |what| {
        told.iter().position(|told| *told == what).unwrap_or_else(|| panic!("{what}: {told:?}"))
    };
    assert!(at("stopped") < at("flush") && at("flushed") < at("goes on"), "{told:?}");
    assert!(told.contains(&"log rolled"), "{told:?}");
}

/// With threads.
fn open_on(disk: &FaultFs, on_event: impl Fn(&Event) + Send + Sync + 'static) -> Db {
    let clock = Arc::new(SystemClock::new());
    let builder = Db::builder().options(small()).on_event(on_event);
    builder.parts(Arc::new(disk.clone()), clock, Arc::new(Threads)).open("/db").unwrap()
}

#[test]
fn a_background_job_that_fails_is_told() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (tell, told) = mpsc::channel();
    let db = open_on(&disk, move |event| {
        if let Event::BackgroundError { error, .. } = event {
            tell.send(error.clone()).unwrap();
        }
    });
    let rows = db.table("rows").unwrap();
    disk.add(Rule::fail(Call::Create).named("*.sst"));
    for n in 0..4u32 {
        rows.upsert("p", n.to_be_bytes(), vec![n as u8; 2 << 10]).unwrap();
    }
    let error = told.recv().unwrap();
    assert!(error.contains(".sst"), "{error}");
    assert_eq!(db.stats().background_errors, 1);
}

/// A clock that panics when the thread for compaction asks it.
#[derive(Debug)]
struct Broken(SystemClock);

impl Clock for Broken {
    fn wall_ticks(&self) -> u64 {
        self.0.wall_ticks()
    }

    fn steady(&self) -> Duration {
        assert_ne!(std::thread::current().name(), Some("tabulith-compact"), "planted");
        self.0.steady()
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }
}

/// It was counted, and nobody who listens heard of it.
#[test]
fn a_background_job_that_panics_is_told_once() {
    let (tell, told) = mpsc::channel();
    let builder = Db::builder().options(small()).on_event(move |event| {
        if let Event::BackgroundError { error, .. } = event {
            let _ = tell.send(error.clone());
        }
    });
    let clock = Arc::new(Broken(SystemClock::new()));
    let builder = builder.parts(Arc::new(SimFs::new()), clock, Arc::new(Threads));
    let db = builder.open("/db").unwrap();
    let error = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(error, "background work panicked: open the database again");
    let stats = db.stats();
    assert_eq!((stats.background_errors, stats.last_background_error), (1, Some(error)));
    db.close().unwrap();
    assert!(told.try_recv().is_err());
}

/// The two threads that flush must not wake each other either.
#[test]
fn a_background_job_that_fails_rests_before_it_is_tried_again() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (tell, told) = mpsc::channel();
    let db = open_on(&disk, move |event| {
        if let Event::BackgroundError { .. } = event {
            let _ = tell.send(Instant::now());
        }
    });
    let rows = db.table("rows").unwrap();
    disk.add(Rule::fail(Call::Create).named("*.sst").forever());
    for n in 0..4u32 {
        rows.upsert("p", n.to_be_bytes(), vec![n as u8; 2 << 10]).unwrap();
    }
    let first = told.recv().unwrap();
    told.recv().unwrap(); // Of the other thread perhaps.
    assert!(told.recv().unwrap() - first >= Duration::from_millis(450));
}

//! Ingest as its user sees it: rows in key order, seen all at once or not at all, in their place
//! among the commits.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "tests look at real files and run real threads")]

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{ManualClock, SystemClock};
use tabulith::env::jobs::{ByHand, Jobs, Threads};
use tabulith::error::Kind;
use tabulith::ids::CommitTs;
use tabulith::options::{Advanced, Options};
use tabulith::rows::Catalog as _;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{If, Table, Transaction};

/// Files so small that 2,000 rows make many.
fn small() -> Options {
    let advanced = Advanced {
        file_bytes: 4 << 10,
        memtable_bytes: Some(16 << 10),
        level_base_bytes: 16 << 10,
        ..Advanced::default()
    };
    Options { advanced, ..Options::default() }
}

fn open(dir: &Path) -> Db {
    Db::builder().options(small()).open(dir).unwrap()
}

/// A database on a disk that may fail, or hold up an edit of the manifest.
fn open_on(disk: &FaultFs) -> Db {
    open_with(disk, Arc::new(Threads))
}

fn open_by_hand(disk: &FaultFs) -> Db {
    open_with(disk, Arc::new(ByHand))
}

fn open_with(disk: &FaultFs, jobs: Arc<dyn Jobs>) -> Db {
    let (disk, clock) = (Arc::new(disk.clone()), Arc::new(SystemClock::default()));
    Db::builder().options(small()).parts(disk, clock, jobs).open("/db").unwrap()
}

fn rk(i: u32) -> String {
    format!("{i:06}")
}

fn ingest(table: &Table, rows: impl Iterator<Item = u32>, value: &str) -> CommitTs {
    let mut ingest = table.ingest().unwrap();
    for i in rows {
        ingest.add("p", rk(i), format!("{value}-{i}")).unwrap();
    }
    ingest.finish().unwrap()
}

/// Row number, value and commit of every row.
fn rows(table: &Table) -> Vec<(u32, String, CommitTs)> {
    let mut all = Vec::new();
    for row in table.partition("p").scan::<&str>(..).unwrap() {
        let row = row.unwrap();
        let number = std::str::from_utf8(&row.row_key).unwrap().parse().unwrap();
        all.push((number, String::from_utf8(row.value.to_vec()).unwrap(), row.ts));
    }
    all
}

fn table_files(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".sst")).count()
}

#[test]
fn rows_come_as_one_commit_between_those_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    let before = table.upsert("p", rk(5), "before").unwrap();
    let snapshot = db.snapshot().unwrap();
    let ts = ingest(&table, 0..2000, "in");
    let after = table.upsert("p", rk(7), "after").unwrap();
    assert!(before < ts && ts < after);
    let expected = |i| match i {
        7 => (7, "after".to_owned(), after),
        _ => (i, format!("in-{i}"), ts),
    };
    let expected: Vec<_> = (0..2000).map(expected).collect();
    let check = |table: &Table| {
        assert_eq!(rows(table), expected);
        assert_eq!(table.get("p", rk(5)).unwrap().unwrap().ts, ts);
        assert!(table.get("p", rk(2000)).unwrap().is_none());
    };
    check(&table);
    let old: Vec<_> = snapshot.scan_partition::<&str>(&table.partition("p"), ..).unwrap().collect();
    assert_eq!(old.len(), 1, "a snapshot sees what was there");
    assert!(db.stats().ingested_files > 3);
    drop((old, snapshot));
    db.compact().unwrap();
    check(&table);
    // What an ingested row says of its commit can be held against it.
    table.replace("p", rk(9), "again", If::Match(ts)).unwrap();
    table.upsert("p", rk(9), "in-9").unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    assert_eq!(rows(&table).len(), 2000);
    assert!(table.upsert("p", rk(1), "x").unwrap() > after);
    db.close().unwrap();
    let report = tabulith::verify::check(dir.path()).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn the_newest_of_two_ingests_and_of_a_delete_counts() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    ingest(&table, 0..1000, "one");
    ingest(&table, (0..1000).filter(|i| i % 2 == 0), "two");
    table.delete("p", rk(4), If::Present).unwrap();
    ingest(&table, 10..12, "three");
    let check = || {
        for (i, value, _) in rows(&table) {
            let last = match i {
                10 | 11 => "three",
                i if i % 2 == 0 => "two",
                _ => "one",
            };
            assert_eq!(value, format!("{last}-{i}"));
            assert_ne!(i, 4);
        }
        assert_eq!(rows(&table).len(), 999);
    };
    check();
    db.settle().unwrap();
    check();
    db.compact().unwrap();
    check();
}

#[test]
fn what_is_not_in_order_is_refused_and_what_is_not_finished_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    db.compact().unwrap();
    let files = table_files(dir.path());
    let mut ingest = table.ingest().unwrap();
    for i in 0..2000 {
        ingest.add("p", rk(i), [b'v'; 50]).unwrap();
    }
    for (pk, rk) in [("p", rk(1999)), ("p", rk(3)), ("o", rk(9999))] {
        let error = ingest.add(pk, &rk, "v").unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.message().contains(&rk), "{error}");
    }
    drop(ingest);
    assert!(rows(&table).is_empty());
    db.settle().unwrap();
    assert_eq!(table_files(dir.path()), files);
    let empty = table.ingest().unwrap().finish().unwrap();
    assert!(empty <= db.visible());
}

#[test]
fn an_error_of_the_disk_is_repeated_until_the_end_and_nothing_is_seen() {
    for (call, files_before) in [(Call::Sync, 0), (Call::Sync, 3), (Call::Write, 2)] {
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let db = open_on(&disk);
        let table = db.table("t").unwrap();
        db.compact().unwrap();
        disk.add(Rule::fail(call).named("*.sst").skip(files_before));
        let mut ingest = table.ingest().unwrap();
        let added = (0..5000).try_for_each(|i| ingest.add("p", rk(i), [b'v'; 50]));
        assert_eq!(added.unwrap_err().kind(), Kind::Io, "{call:?}");
        assert_eq!(ingest.add("p", rk(9999), "v").unwrap_err().kind(), Kind::Io);
        assert_eq!(ingest.finish().unwrap_err().kind(), Kind::Io);
        assert!(rows(&table).is_empty());
        self::ingest(&table, 0..3000, "again");
        assert_eq!(rows(&table).len(), 3000);
    }
}

/// A database whose ingest of twenty rows failed at that call on the second copy of the manifest,
/// which cannot be written anew as long as it `stays` so.
fn with_a_failed_ingest(call: Call, stays: bool) -> (SimFs, FaultFs, Db, Table) {
    let sim = SimFs::new();
    let disk = FaultFs::new(Arc::new(sim.clone()));
    let db = open_by_hand(&disk);
    let table = db.table("t").unwrap();
    db.flush().unwrap();
    let mut ingest = table.ingest().unwrap();
    (0..20).try_for_each(|i| ingest.add("p", rk(i), "ingested")).unwrap();
    disk.add(Rule::fail(call).named("*.manifest-b"));
    if stays {
        disk.add(Rule::fail(Call::Create).named("*.manifest-a").forever());
    }
    assert_eq!(ingest.finish().unwrap_err().kind(), Kind::Io);
    (sim, disk, db, table)
}

/// The first copy of the manifest had the edit of the ingest, which failed at the second one. A
/// delete of its rows wrote nothing, as there were none, and the next open had all of them.
#[test]
fn an_ingest_that_failed_is_undone_before_anything_is_decided_without_it() {
    type Decide = fn(&Table) -> tabulith::Result<()>;
    let decisions: [(&str, Decide); 5] = [
        ("delete", |table| table.delete("p", rk(7), If::Any).map(drop)),
        ("range", |table| {
            table.partition("p").batch().delete_range(rk(5)..rk(9)).commit().map(drop)
        }),
        ("partition", |table| table.drop_partition("p").map(drop)),
        ("truncate", |table| table.truncate().map(drop)),
        ("insert", |table| table.insert("p", rk(7), "new").map(drop)),
    ];
    for (name, decide) in decisions {
        for (call, stays, closes) in [
            (Call::Sync, false, false),
            (Call::Write, false, true),
            (Call::Sync, true, false),
            (Call::Write, true, true),
        ] {
            let case = format!("{name}, {call:?}, {stays}, {closes}");
            let (sim, disk, db, table) = with_a_failed_ingest(call, stays);
            if stays {
                assert_eq!(decide(&table).unwrap_err().kind(), Kind::Io, "{case}");
                assert!(rows(&table).is_empty(), "{case}");
                disk.clear();
            }
            decide(&table).unwrap();
            let expected = rows(&table);
            if closes {
                db.close().unwrap();
            }
            let left = FaultFs::new(Arc::new(sim.fork()));
            let table = open_by_hand(&left).table("t").unwrap();
            assert_eq!(rows(&table), expected, "{case}");
        }
    }
}

/// The next open found the rows.
#[test]
fn a_close_undoes_an_ingest_that_failed_or_tells() {
    for stays in [false, true] {
        let (sim, disk, db, table) = with_a_failed_ingest(Call::Sync, true);
        drop(table);
        if !stays {
            disk.clear();
        }
        let closed = db.close();
        assert_eq!(closed.is_err(), stays, "{closed:?}");
        drop(db);
        let left = FaultFs::new(Arc::new(sim.fork()));
        let table = open_by_hand(&left).table("t").unwrap();
        assert!(stays || rows(&table).is_empty());
    }
}

#[test]
fn a_table_dropped_meanwhile_refuses_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    let mut ingest = table.ingest().unwrap();
    ingest.add("p", "r", "v").unwrap();
    assert!(db.drop_table("t").unwrap());
    assert_eq!(ingest.finish().unwrap_err().kind(), Kind::NotFound);
    assert_eq!(table.ingest().unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_condition_never_misses_an_ingest() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    std::thread::scope(|scope| {
        // Each row is inserted by one of the two; whoever comes second must notice.
        let inserter = scope.spawn(|| {
            let insert = |i| table.insert("p", rk(i), "own").map(|_| i);
            (0..600).filter_map(|i| insert(i).ok()).collect::<Vec<_>>()
        });
        let mut last = CommitTs(0);
        for round in 0..6 {
            let ts = ingest(&table, round * 100..round * 100 + 100, "in");
            assert!(ts > last);
            last = ts;
        }
        for i in inserter.join().unwrap() {
            // Inserted before the ingest, and replaced by it; never after it.
            let value = table.get("p", rk(i)).unwrap().unwrap().value;
            assert_eq!(&value[..], format!("in-{i}").as_bytes());
        }
    });
}

#[test]
fn an_ingest_that_outlives_its_database_takes_nothing_from_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let table = first.table("t").unwrap();
    table.upsert("p", "written", "before").unwrap();
    let mut ingest = table.ingest().unwrap();
    ingest.add("p", "a", "1").unwrap();
    first.close().unwrap();
    assert_eq!(ingest.add("p", "b", "2").unwrap_err().kind(), Kind::Closed);
    // It gives the same numbers to its files as the first one gave to those of the ingest.
    let second = open(dir.path());
    drop((ingest, table, first));
    second.close().unwrap();
    drop(second);
    let third = open(dir.path());
    let row = third.table("t").unwrap().get("p", "written").unwrap();
    assert_eq!(row.unwrap().value, "before");
}

#[test]
fn an_ingest_ends_beside_changes_of_the_catalogue() {
    let builder = Db::builder().options(small());
    let (clock, jobs) = (Arc::new(SystemClock::default()), Arc::new(Threads));
    let db = builder.parts(Arc::new(SimFs::new()), clock, jobs).open("/db").unwrap();
    let table = db.table("t").unwrap();
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for _ in 0..200 {
                // So large that its drop is written to files at once.
                let other = db.table("other").unwrap();
                ingest(&other, 0..500, "a value of some length");
                db.drop_table("other").unwrap();
                db.flush().unwrap();
            }
        });
        while !changes.is_finished() {
            ingest(&table, 0..1, "in");
        }
        changes.join().unwrap();
    });
}

#[test]
fn a_transaction_sees_all_of_an_ingest_or_none() {
    for writes in [false, true] {
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let table = open_on(&disk).table("t").unwrap();
        table.partition("p").batch().upsert("a", "old").upsert("b", "old").commit().unwrap();
        let (begun, has_begun) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel::<()>();
        let (thread, threads) = mpsc::channel();
        let partition = table.partition("p");
        let work = move |tx: &mut Transaction| {
            let a = match writes {
                false => tx.get("a")?.unwrap().value,
                true => tx.scan::<&str>(..)?[0].1.value.clone(),
            };
            let _ = begun.send(());
            let _ = has_ended.recv(); // A later attempt finds it ended.
            if writes {
                tx.put("seen", &a)?;
                return Ok((a.clone(), a));
            }
            Ok((a, tx.get("b")?.unwrap().value))
        };
        let mut ingest = table.ingest().unwrap();
        ingest.add("p", "a", "new").unwrap();
        ingest.add("p", "b", "new").unwrap();
        // The first edit is of the memtable, the second one of the ingest.
        disk.interrupt(Rule::fail(Call::Write).named("*.manifest-a").skip(1), move || {
            thread.send(std::thread::spawn(move || partition.transact(work))).unwrap();
            has_begun.recv().unwrap();
        });
        ingest.finish().unwrap();
        drop(ended);
        let (a, b) = threads.recv().unwrap().join().unwrap().unwrap();
        assert_eq!(a, b, "an ingest was seen in part");
        assert!(!writes || a == "new", "what was read before the ingest was written after it");
    }
}

#[test]
fn a_table_made_while_an_ingest_ends_is_not_there_without_it() {
    let inner = SimFs::new();
    let disk = FaultFs::new(Arc::new(inner.clone()));
    let db = open_on(&disk);
    let table = db.table("t").unwrap();
    table.upsert("p", "a", "old").unwrap();
    let mut ingest = table.ingest().unwrap();
    ingest.add("p", "b", "new").unwrap();
    let (thread, threads) = mpsc::channel();
    let own = db.clone();
    disk.interrupt(Rule::fail(Call::Write).named("*.manifest-a").skip(1), move || {
        thread.send(std::thread::spawn(move || own.table("made"))).unwrap();
        // It may take its time, or wait.
        for _ in 0..300 {
            let beside = Db::builder().read_only();
            let (disk, clock) = (Arc::new(inner.clone()), Arc::new(SystemClock::default()));
            let beside = beside.parts(disk, clock, Arc::new(ByHand)).open("/db").unwrap();
            if beside.find_table("made").unwrap().is_some() {
                let row = beside.table("t").unwrap().get("p", "b").unwrap();
                assert!(row.is_some(), "a later commit is there, the ingest is not");
            }
        }
    });
    ingest.finish().unwrap();
    threads.recv().unwrap().join().unwrap().unwrap();
    assert!(db.find_table("made").unwrap().is_some());
}

#[test]
fn an_ingest_that_ends_while_the_database_closes_is_shown() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let db = open_on(&disk);
    let table = db.table("t").unwrap();
    let mut ingest = table.ingest().unwrap();
    ingest.add("p", "a", "new").unwrap();
    let (thread, threads) = mpsc::channel();
    let own = db.clone();
    disk.interrupt(Rule::fail(Call::Write).named("*.manifest-a").skip(1), move || {
        let closing = own.clone();
        let (close, closed) = mpsc::channel();
        let closer = std::thread::spawn(move || {
            let outcome = closing.close();
            let _ = close.send(());
            outcome
        });
        thread.send(closer).unwrap();
        while own.obstacle().is_none() {
            std::thread::yield_now();
        }
        // It may end, or wait.
        let _ = closed.recv_timeout(Duration::from_millis(100));
    });
    ingest.finish().unwrap();
    threads.recv().unwrap().join().unwrap().unwrap();
    assert_eq!(table.get("p", "a").unwrap().unwrap().value, "new");
}

#[test]
fn ingests_wait_for_the_merges_that_their_files_need() {
    let advanced =
        Advanced { l0_compact_files: 1, l0_slow_files: 2, l0_stop_files: 3, ..Advanced::default() };
    let options = Options { advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let builder = Db::builder().options(options);
    let db = builder.parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand)).open("/db").unwrap();
    let table = db.table("t").unwrap();
    for round in 0..60u8 {
        let mut ingest = table.ingest().unwrap();
        (0..20u8).for_each(|n| ingest.add("p", [n], [round]).unwrap());
        ingest.finish().unwrap();
        // The catalogue's lies beside them, over no row's key.
        let newest = db.stats().levels[0].0 - 1;
        // Where commits stop: four times as many files as have them at their slowest.
        assert!(newest <= 12, "{newest} files that every read looks at, after {round}");
    }
    assert_eq!(table.get("p", [7]).unwrap().unwrap().value, &[59][..]);
    table.upsert("p", "r", "and a commit").unwrap();
}

/// A file of a flush from the first table to the last spans all that is ingested between the two,
/// so all of it goes to L0: a hundred files that lie beside each other, and no more than two over a
/// key.
#[test]
fn a_large_ingest_beneath_a_file_that_spans_it_stops_nobody() {
    let clock = Arc::new(ManualClock::at(17_000_000_000_000_000));
    let builder = Db::builder().options(small());
    let db = builder.parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand)).open("/db").unwrap();
    let tables = ["a", "b", "c"].map(|name| db.table(name).unwrap());
    tables[0].upsert("p", "r", "first").unwrap();
    tables[2].upsert("p", "r", "last").unwrap();
    ingest(&tables[1], 0..40_000, "in");
    let l0 = db.stats().levels[0].0;
    assert!(l0 > 96, "{l0} files in L0, where 96 over one key stop commits");
    tables[1].upsert("p", rk(7), "later").unwrap();
    let stalls = db.stats().stalls;
    assert_eq!([stalls.slowed_by_l0.times, stalls.stopped_by_l0.times], [0, 0]);
    db.settle().unwrap();
    assert_eq!(db.stats().levels[0].0, 0);
    let found = rows(&tables[1]);
    assert_eq!((found.len(), found[7].1.as_str()), (40_000, "later"));
    assert_eq!(tables.map(|table| table.count().unwrap()), [1, 40_000, 1]);
}

/// The drop is applied and not yet safe, and here never will be: the next start finds the table.
#[test]
fn nobody_is_told_of_a_drop_that_a_crash_undoes() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let db = open_by_hand(&disk);
    let mut rows = db.table("t").unwrap().ingest().unwrap();
    rows.add("p", "a", "x").unwrap();
    db.table("other").unwrap().upsert("p", "a", "x").unwrap(); // A memtable to flush.
    let (own_db, own_disk) = (db.clone(), disk.clone());
    // The file of that one: the ingest's own is made.
    disk.interrupt(Rule::fail(Call::Create).named("*.sst"), move || {
        own_disk.add(Rule::fail(Call::Write).named("*.spare"));
        own_db.drop_table("t").unwrap_err();
    });
    let told = rows.finish().unwrap_err();
    assert_eq!(disk.injected(), 1, "{told}");
    assert_ne!(told.kind(), Kind::NotFound, "{told}");
    drop(db.close());
    drop(db);
    assert!(open_by_hand(&disk).find("t").unwrap().is_some());
}

/// It was given the newest commit that was applied, in whatever state that was.
#[test]
fn an_ingest_of_nothing_answers_for_what_it_says() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let db = open_by_hand(&disk);
    let table = db.table("t").unwrap();
    let last = table.upsert("p", "a", "x").unwrap();
    assert_eq!(table.ingest().unwrap().finish().unwrap(), last);
    let nothing = table.ingest().unwrap();
    db.drop_table("t").unwrap();
    assert_eq!(nothing.finish().unwrap_err().kind(), Kind::NotFound);
    let other = db.table("other").unwrap();
    let nothing = other.ingest().unwrap();
    disk.add(Rule::fail(Call::Write).named("*.spare"));
    other.upsert("p", "a", "x").unwrap_err();
    nothing.finish().unwrap_err();
}

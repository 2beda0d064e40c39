//! Ingest as its user sees it: rows in key order, seen all at once or not at all, in their place
//! among the commits.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "tests look at real files and run real threads")]

use std::path::Path;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::SystemClock;
use tabulith::env::jobs::Threads;
use tabulith::error::Kind;
use tabulith::ids::CommitTs;
use tabulith::options::{Advanced, Options};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{If, Table};

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
        let builder = Db::builder().options(small());
        let parts = (Arc::new(disk.clone()), Arc::new(SystemClock::new()), Arc::new(Threads));
        let db = builder.parts(parts.0, parts.1, parts.2).open("/db").unwrap();
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

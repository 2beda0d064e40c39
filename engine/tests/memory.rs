//! One budget for all memory: what the shares hold together stays within it, whatever the database
//! does, and the caches give way.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use tabulith::env::clock::SystemClock;
use tabulith::env::jobs::ByHand;
use tabulith::stats::MemoryStats;
use tabulith::vfs::mem::SimFs;
use tabulith::{Db, Entity, Filter, If, Kind, Op, Options};
use tempfile::TempDir;

const BUDGET: usize = 32 << 20;

fn open(folder: &TempDir) -> Db {
    let options = Options { memory: Some(BUDGET), ..Options::default() };
    let options = Options { durability: tabulith::Durability::Buffered, ..options };
    Db::builder().options(options).open(folder.path()).unwrap()
}

#[track_caller]
fn check(db: &Db) -> MemoryStats {
    let memory = db.stats().memory;
    let shared = BUDGET - memory.uncounted;
    assert!(memory.bytes() <= shared, "{} bytes in use: {memory:#?}", memory.bytes());
    for used in [memory.memtables, memory.log, memory.work, memory.index_and_filters] {
        assert!(used.bytes <= used.bytes_max, "{memory:#?}");
    }
    memory
}

fn key(n: u64) -> String {
    format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Does not compress.
fn value(n: u64, len: usize) -> Vec<u8> {
    let mut state = n | 1;
    let byte = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(byte).collect()
}

#[test]
fn what_a_database_holds_stays_within_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder);
    let rows = db.table("rows").unwrap();
    // Twice the budget in rows, every sixteenth of them large enough for a blob file.
    let count: u64 = 64_000;
    let len = |n| if n % 16 == 0 { 8 << 10 } else { 500 };
    for n in 0..count {
        rows.upsert("p", key(n), value(n, len(n))).unwrap();
        if n % 256 == 0 {
            check(&db);
        }
    }
    db.flush().unwrap();
    for n in (0..count).chain(0..count / 8).chain(0..count / 8) {
        let row = rows.get("p", key(n)).unwrap().expect("it was written");
        assert!(row.value.len() == len(n));
        if n % 256 == 0 {
            check(&db);
        }
    }
    let full = check(&db);
    for used in [full.index_and_filters, full.blocks, full.rows] {
        assert!(used.bytes > 64 << 10, "every share is in use: {full:#?}");
    }
    assert!(full.bytes() > BUDGET / 3, "what there is for caches is used: {full:#?}");

    let mut ingest = rows.ingest().unwrap();
    let during = check(&db);
    assert!(during.work.bytes > 0 && during.blocks.bytes_max <= full.blocks.bytes_max);
    for n in 0..20_000u64 {
        ingest.add("q", n.to_be_bytes(), value(n, 500)).unwrap();
        if n % 256 == 0 {
            check(&db);
        }
    }
    ingest.finish().unwrap();
    db.compact().unwrap();
    db.settle().unwrap();
    let after = check(&db);
    assert_eq!(after.memtables.bytes, 0);
    db.close().unwrap();
}

#[test]
fn files_that_are_opened_push_out_caches() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder);
    let rows = db.table("rows").unwrap();
    db.flush().unwrap();
    let before = check(&db); // The catalogue is in a file from here on.
    // The filter of so many rows takes 10 bits for each.
    let mut ingest = rows.ingest().unwrap();
    for n in 0..200_000u64 {
        ingest.add("p", n.to_be_bytes(), n.to_be_bytes()).unwrap();
    }
    ingest.finish().unwrap();
    assert!(rows.get("p", 7u64.to_be_bytes()).unwrap().is_some());
    assert_eq!(rows.scan::<&str, &str>(..).unwrap().count(), 200_000);
    let after = check(&db);
    let caches = |memory: &MemoryStats| memory.blocks.bytes_max + memory.rows.bytes_max;
    let pinned = after.index_and_filters.bytes - before.index_and_filters.bytes;
    assert!(pinned > 200_000 * 10 / 8 && after.blocks.bytes > 1 << 20, "{after:#?}");
    assert_eq!(caches(&before) - caches(&after), pinned, "what they take, the caches lose");
    assert_eq!(rows.count().unwrap(), 200_000);
    let counted = check(&db);
    let sums = counted.index_and_filters.bytes - after.index_and_filters.bytes;
    assert!(sums > 2 << 10, "8 bytes for each block were read to count: {sums}");
    assert_eq!(caches(&after) - caches(&counted), sums);

    rows.truncate().unwrap();
    db.settle().unwrap();
    let empty = check(&db);
    let held = (empty.index_and_filters.bytes, empty.blocks.bytes);
    let catalogue = (before.index_and_filters.bytes, 0);
    assert_eq!(held, catalogue, "files that are gone hold nothing");
    assert_eq!(caches(&empty), caches(&before));
}

#[test]
fn ingests_that_memory_has_no_room_for_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder);
    let rows = db.table("rows").unwrap();
    let mut ingests = Vec::new();
    let refused = loop {
        match rows.ingest() {
            Ok(ingest) => ingests.push(ingest),
            Err(error) => break error,
        }
        assert!(ingests.len() < 20, "each of them takes more than a twentieth of the budget");
        check(&db);
    };
    assert_eq!(refused.kind(), Kind::Busy, "{refused}");
    assert!(!ingests.is_empty(), "one at a time is never refused");
    for (ingest, pk) in ingests.iter_mut().zip(["a", "b", "c"]) {
        (0..2_000u64).for_each(|n| ingest.add(pk, n.to_be_bytes(), value(n, 200)).unwrap());
    }
    // Flush and merge have their share beside them.
    for n in 0..20_000 {
        rows.upsert("p", key(n), value(n, 500)).unwrap();
        if n % 256 == 0 {
            check(&db);
        }
    }
    db.compact().unwrap();
    check(&db);
    for ingest in ingests.drain(..) {
        ingest.finish().unwrap();
        check(&db);
    }
    assert!(rows.ingest().is_ok());
}

#[test]
fn no_reader_waits_for_a_new_file_to_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder);
    let rows = db.table("rows").unwrap();
    let is_read_from_open_files = |count: u64| {
        let before = db.stats();
        assert!(before.levels.iter().any(|(files, _)| *files > 0), "{:?}", before.levels);
        assert_eq!(rows.scan::<&str, &str>(..).unwrap().count() as u64, count);
        assert!(rows.get("p", 0u64.to_be_bytes()).unwrap().is_some());
        assert_eq!(db.stats().table_files_opened, before.table_files_opened);
    };
    for n in 0..2_000u64 {
        rows.upsert("p", n.to_be_bytes(), value(n, 100)).unwrap();
    }
    db.flush().unwrap();
    is_read_from_open_files(2_000);
    db.compact().unwrap();
    is_read_from_open_files(2_000);
    let mut ingest = rows.ingest().unwrap();
    for n in 0..2_000u64 {
        ingest.add("q", n.to_be_bytes(), value(n, 100)).unwrap();
    }
    ingest.finish().unwrap();
    is_read_from_open_files(4_000);
}

#[test]
fn files_that_do_not_fit_are_opened_again() {
    const OPEN_BYTES: usize = 96 << 10;
    let folder = tempfile::tempdir().unwrap();
    let advanced = tabulith::Advanced {
        file_bytes: 256 << 10,
        index_and_filter_bytes: Some(OPEN_BYTES),
        ..tabulith::Advanced::default()
    };
    let durability = tabulith::Durability::Buffered;
    let options = Options { memory: Some(BUDGET), durability, advanced, ..Options::default() };
    let db = Db::builder().options(options).open(folder.path()).unwrap();
    let rows = db.table("rows").unwrap();
    db.flush().unwrap();
    let catalogue = check(&db); // Which is in a file from here on.
    let count = 200_000u64;
    let mut ingest = rows.ingest().unwrap();
    for n in 0..count {
        ingest.add("p", n.to_be_bytes(), value(n, 20)).unwrap();
    }
    ingest.finish().unwrap();
    let files = db.stats().levels.iter().map(|(files, _)| *files as u64).sum::<u64>();
    assert!(files > 10, "{files} files");

    let is_there = |n: u64| rows.get("p", n.to_be_bytes()).unwrap().unwrap().value == value(n, 20);
    for n in (0..4_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count) {
        assert!(is_there(n), "row {n}");
        check(&db);
    }
    let spread = check(&db);
    assert_eq!(spread.index_and_filters.bytes_max, OPEN_BYTES);
    assert!(spread.index_and_filters.bytes > OPEN_BYTES / 2, "the room is used: {spread:#?}");
    assert!(db.stats().table_files_opened > files * 4, "{:#?}", db.stats());

    // Nobody has asked for this file, and there is no room for it to stay.
    let opened = db.stats().table_files_opened;
    rows.upsert("q", "new", "row").unwrap();
    db.flush().unwrap();
    assert_eq!(db.stats().table_files_opened, opened);
    assert!(rows.get("q", "new").unwrap().is_some());

    // What is in use stays open, be there room for it from the first or not.
    for first in (0..count).step_by(count as usize / 10) {
        (first..first + 3).for_each(|n| assert!(is_there(n), "row {n}"));
        let before = db.stats().table_files_opened;
        (first..first + 100).for_each(|n| assert!(is_there(n), "row {n}"));
        assert_eq!(db.stats().table_files_opened, before, "rows from {first} on");
    }
    rows.delete("q", "new", If::Any).unwrap();
    assert_eq!(rows.scan::<&str, &str>(..).unwrap().count() as u64, count);
    assert_eq!(rows.count().unwrap(), count);
    check(&db);

    for n in (0..count).step_by(2) {
        rows.delete("p", n.to_be_bytes(), If::Any).unwrap();
    }
    db.compact().unwrap();
    check(&db);
    assert_eq!(rows.count().unwrap(), count / 2);
    rows.truncate().unwrap();
    db.settle().unwrap();
    let held = check(&db).index_and_filters.bytes;
    assert_eq!(held, catalogue.index_and_filters.bytes, "files that are gone hold nothing");
}

/// Sums and zones of files that stay open took the room of files that are opened for a while.
#[test]
fn what_is_learned_of_open_files_leaves_room_for_others() {
    const ROWS: i32 = 40_000;
    let folder = tempfile::tempdir().unwrap();
    let advanced = tabulith::Advanced {
        file_bytes: 64 << 10,
        block_bytes: 512,
        index_and_filter_bytes: Some(96 << 10),
        ..tabulith::Advanced::default()
    };
    let durability = tabulith::Durability::Buffered;
    let options = Options { memory: Some(BUDGET), durability, advanced, ..Options::default() };
    let db = Db::builder().options(options).open(folder.path()).unwrap();
    let things = db.entities("Things").unwrap();
    let name = |row: i32| format!("{row:06}");
    for row in 0..ROWS {
        let entity = Entity::new("p", name(row)).with("N", row / 7);
        things.upsert(entity.with("B", value(row as u64, 60))).unwrap();
    }
    db.compact().unwrap();
    let get_all_over = || {
        for row in (0..ROWS).step_by(150).chain((0..ROWS).step_by(220)) {
            assert!(things.get("p", &name(row)).unwrap().is_some(), "row {row}");
            check(&db);
        }
    };
    get_all_over();
    let opened = check(&db).index_and_filters;
    assert!(opened.bytes > opened.bytes_max / 2, "the room is used: {opened:?}");
    let files = db.stats().levels.iter().map(|(files, _)| *files as u64).sum::<u64>();
    assert!(db.stats().table_files_opened > files * 2, "some of {files} files do not stay");
    for number in 0..50 {
        let seven = things.query(Some(Filter::compare("N", Op::Eq, number * 100)));
        assert_eq!(seven.count(), 7);
        check(&db);
        assert_eq!(things.count().unwrap(), ROWS as u64);
        check(&db);
    }
    get_all_over();
}

/// Each scan that has gone on for a while holds some of what it will come to.
#[test]
fn what_scans_will_come_to_has_a_share_of_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder);
    let rows = db.table("rows").unwrap();
    let count = 60_000u64;
    let mut ingest = rows.ingest().unwrap();
    for n in 0..count {
        ingest.add("p", n.to_be_bytes(), value(n, 500)).unwrap();
    }
    ingest.finish().unwrap();
    db.settle().unwrap();
    let at_rest = check(&db).work.bytes;
    let mut scans: Vec<_> = (0..12).map(|_| rows.scan::<&str, &str>(..).unwrap()).collect();
    for scan in &mut scans {
        assert_eq!(scan.by_ref().take(10_000).filter(|row| row.is_ok()).count(), 10_000);
        let walks = check(&db).work.bytes - at_rest;
        assert!((1 << 20..=BUDGET / 16).contains(&walks), "{walks} bytes");
    }
    let left: usize = scans.into_iter().map(|scan| scan.filter(|row| row.is_ok()).count()).sum();
    assert_eq!(left as u64, 12 * (count - 10_000));
    assert_eq!(check(&db).work.bytes, at_rest);
}

/// How many files of a folder whose names end so this process has open.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "a list of the kernel's, no file of ours")]
fn open_files(folder: &std::path::Path, extension: &str) -> usize {
    let handles = std::fs::read_dir("/proc/self/fd").unwrap();
    let files = handles.filter_map(|handle| std::fs::read_link(handle.unwrap().path()).ok());
    files
        .filter(|file| file.starts_with(folder) && file.extension() == Some(extension.as_ref()))
        .count()
}

#[cfg(target_os = "linux")]
#[test]
fn no_more_files_stay_open_than_may() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let open = |open_files_max| {
        let advanced =
            tabulith::Advanced { file_bytes: 8 << 10, open_files_max, ..Default::default() };
        let durability = tabulith::Durability::Buffered;
        let options = Options { durability, advanced, ..Options::default() };
        Db::builder().options(options).open(&path).unwrap()
    };
    let count = 20_000u64;
    for (open_files_max, least, most) in [(Some(10), 10, 10 + 10 + 2), (None, 100, usize::MAX)] {
        let db = open(open_files_max);
        let rows = db.table("rows").unwrap();
        if rows.count().unwrap() == 0 {
            let mut ingest = rows.ingest().unwrap();
            for n in 0..count {
                ingest.add("p", n.to_be_bytes(), value(n, 100)).unwrap();
            }
            ingest.finish().unwrap();
        }
        for n in (0..count).step_by(10).chain((0..count).step_by(11)) {
            assert!(rows.get("p", n.to_be_bytes()).unwrap().is_some(), "row {n}");
        }
        assert_eq!(rows.scan::<&str, &str>(..).unwrap().count() as u64, count);
        let files = db.stats().levels.iter().map(|(files, _)| *files).sum::<usize>();
        let found = open_files(&path, "sst");
        assert!(files > 100 && (least..=most).contains(&found), "{found} of {files} files");
        db.close().unwrap();
    }
}

/// Each flush of a large value makes a file for it: their number has no bound of its own.
#[cfg(target_os = "linux")]
#[test]
fn no_more_files_of_large_values_stay_open_than_may() {
    const FILES: u64 = 100;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    for (open_files_max, mapped, least, most) in
        [(Some(10), false, 5, 5 + 1), (Some(10), true, 5, 5 + 1), (None, false, 100, 100)]
    {
        let advanced = tabulith::Advanced {
            blob_bytes_min: 1 << 10,
            mapped,
            compression: tabulith::Compression::NONE,
            open_files_max,
            ..Default::default()
        };
        let durability = tabulith::Durability::Buffered;
        let options = Options { durability, advanced, ..Options::default() };
        let db = Db::builder().options(options).open(&path).unwrap();
        let rows = db.table("rows").unwrap();
        if rows.count().unwrap() == 0 {
            for n in 0..FILES {
                rows.upsert("p", n.to_be_bytes(), value(n, 2000)).unwrap();
                db.flush().unwrap();
            }
        }
        assert_eq!(db.stats().blob_files as u64, FILES);
        for n in (0..FILES).chain((0..FILES).step_by(7)) {
            let found = rows.get("p", n.to_be_bytes()).unwrap().unwrap();
            assert_eq!(found.value, value(n, 2000), "row {n}");
        }
        let found = open_files(&path, "blob");
        assert!((least..=most).contains(&found), "{found} of {FILES} files");
        rows.drop_partition("p").unwrap();
        db.settle().unwrap();
        assert_eq!((db.stats().blob_files, open_files(&path, "blob")), (0, 0), "none is kept");
        db.close().unwrap();
    }
}

#[test]
fn a_budget_too_small_to_work_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let opened = Db::builder().memory(1 << 20).open(folder.path());
    let error = opened.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("option memory"), "{error}");
}

/// A cursor that stands still keeps what it shows, and that is to be seen.
#[test]
fn what_a_cursor_keeps_is_told_until_it_is_moved() {
    let options = Options { memory: Some(BUDGET), ..Options::default() };
    let (disk, clock) = (Arc::new(SimFs::new()), Arc::new(SystemClock::new()));
    let builder = Db::builder().options(options).parts(disk, clock, Arc::new(ByHand));
    let db = builder.open("db").unwrap();
    let rows = db.table("rows").unwrap();
    let pinned = || {
        let stats = db.stats();
        (stats.memory.pinned, stats.pinned_files, stats.pinned_file_bytes)
    };
    for n in 0..100 {
        rows.upsert("p", key(n), value(n, 2000)).unwrap();
    }
    let mut of_memory = rows.scan::<&str, &str>(..).unwrap();
    of_memory.next().unwrap().unwrap();
    let memtables = db.stats().memory.memtables.bytes;
    db.flush().unwrap();
    let (bytes, files, _) = pinned();
    assert!(bytes > 200_000 && bytes <= memtables, "{bytes} of {memtables}");
    assert_eq!(files, 0);
    let mut of_files = rows.scan::<&str, &str>(..).unwrap();
    of_files.next().unwrap().unwrap();
    for n in 0..100 {
        rows.upsert("p", key(n), value(n + 1, 2000)).unwrap();
    }
    db.compact().unwrap();
    let (_, files, bytes) = pinned();
    assert!(files == 1 && bytes > 1000, "the table file that was merged: {files}, {bytes}");
    assert_eq!(of_memory.count(), 99);
    of_files.next().unwrap().unwrap();
    let (bytes, files, file_bytes) = pinned();
    drop(of_files);
    assert_eq!((bytes, files, file_bytes), (0, 0, 0), "of the first, and of one that was moved");
    assert_eq!(pinned(), (0, 0, 0));
}

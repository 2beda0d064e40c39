//! Scans through the public API: every way to read a table shows the same rows; what a scan holds
//! on to while it is open.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, ManualClock, SystemClock};
use tabulith::env::jobs::{ByHand, Jobs, Threads};
use tabulith::error::{Error, Kind};
use tabulith::options::{Advanced, Options};
use tabulith::vfs::api::Vfs;
use tabulith::vfs::mem::SimFs;
use tabulith::{RowRef, Table};

const ROWS: usize = 2000;

/// A database with small files on a disk in memory, whose background work is done by hand.
fn open(disk: &SimFs) -> Db {
    open_with(disk, Arc::new(ByHand))
}

fn open_with(disk: &SimFs, jobs: Arc<dyn Jobs>) -> Db {
    let advanced = Advanced {
        memtable_bytes: Some(16 << 10),
        block_bytes: 512,
        file_bytes: 8 << 10,
        ..Advanced::default()
    };
    let options = Options { advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let disk = Arc::new(disk.clone());
    Db::builder().options(options).parts(disk, clock, jobs).open("db").unwrap()
}

fn write_all(db: &Db, value: &str) {
    let table = db.table("t").unwrap();
    for first in (0..ROWS).step_by(50) {
        let mut batch = table.partition("p").batch();
        for row in first..first + 50 {
            batch = batch.upsert(format!("{row:06}"), value);
        }
        batch.commit().unwrap();
    }
}

fn table_files(disk: &SimFs) -> usize {
    let names = disk.list(Path::new("db")).unwrap();
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

#[test]
fn an_open_scan_lets_go_of_files_that_were_replaced() {
    let disk = SimFs::new();
    let db = open(&disk);
    write_all(&db, "old");
    db.compact().unwrap();
    let mut scan = db.table("t").unwrap().scan::<&str, &str>(..).unwrap();
    for row in 0..ROWS / 2 {
        let found = scan.next().unwrap().unwrap();
        assert_eq!(
            (&found.row_key[..], &found.value[..]),
            (format!("{row:06}").as_bytes(), &b"old"[..])
        );
        if row % 200 == 100 {
            write_all(&db, &format!("new-{row}"));
            db.compact().unwrap();
        }
    }
    // The other end of the same scan opens now, and sees the same moment.
    let last = scan.next_back().unwrap().unwrap();
    assert_eq!((&last.row_key[..], &last.value[..]), (&b"001999"[..], &b"old"[..]));
    while db.step().unwrap() {}
    let live: usize = db.stats().levels.iter().map(|(files, _)| files).sum();
    let on_disk = table_files(&disk);
    assert!(live > 5, "one file would prove nothing: {live}");
    assert!(on_disk <= live + 1, "{on_disk} files on disk, {live} in use");
    assert_eq!(scan.count(), ROWS / 2 - 1, "the rest of the rows as they were");
}

/// A table of three partitions' worth of versions, deletes and rows in memory.
fn mixed(db: &Db) {
    let table = db.table("t").unwrap();
    for round in 0..4 {
        for partition in 0..12 {
            let mut batch = table.partition(format!("p\0{partition:02}")).batch();
            for row in 0..150 {
                batch = match (row + round + partition) % 5 {
                    0 => batch.delete(format!("{row:04}")),
                    1 => batch,
                    _ => batch.upsert(format!("{row:04}"), format!("{round}-{row}")),
                };
            }
            batch.commit().unwrap();
        }
        match round {
            0 => db.compact().unwrap(),
            1 | 2 => db.flush().unwrap(),
            _ => {}
        }
    }
}

type Kept = (Vec<u8>, Vec<u8>, u64, Vec<u8>);

fn kept(row: &RowRef<'_>) -> Kept {
    let value = row.value().unwrap().to_vec();
    (row.partition_key.to_vec(), row.row_key.to_vec(), row.ts.0, value)
}

#[test]
fn every_way_to_read_a_table_shows_the_same_rows() {
    let db = open(&SimFs::new());
    mixed(&db);
    let table = db.table("t").unwrap();
    let scan = table.scan::<&str, &str>(..).unwrap().map(Result::unwrap);
    let rows: Vec<Kept> = scan
        .map(|row| (row.partition_key.to_vec(), row.row_key.to_vec(), row.ts.0, row.value.to_vec()))
        .collect();
    assert!(rows.len() > 1000 && rows.is_sorted(), "{} rows", rows.len());

    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut cursor = table.cursor::<&str, &str>(..).unwrap();
    while let Some(row) = cursor.next().unwrap() {
        up.push(kept(&row));
    }
    while let Some(row) = cursor.prev().unwrap() {
        down.push(kept(&row));
    }
    down.reverse();
    assert!(up == rows && down == rows, "up, then down");
    let reversed = table.scan::<&str, &str>(..).unwrap().rev().map(Result::unwrap);
    let mut reversed: Vec<_> = reversed.map(|row| row.row_key.to_vec()).collect();
    reversed.reverse();
    let row_keys: Vec<_> = rows.iter().map(|row| row.1.clone()).collect();
    assert!(reversed == row_keys, "rev");

    for (i, row) in rows.iter().enumerate().step_by(97) {
        let found = cursor.seek(&row.0, &row.1).unwrap().map(|row| kept(&row));
        assert_eq!(found.as_ref(), Some(row));
        // Turning back after a seek, over a key with newer versions and deletes around it.
        assert_eq!(cursor.prev().unwrap().map(|row| kept(&row)).as_ref(), rows[..i].last());
        assert_eq!(cursor.next().unwrap().map(|row| kept(&row)).as_ref(), Some(row));
    }

    for parts in [1, 2, 3, 5, 100] {
        let mut cursors = db.snapshot().unwrap().split(&table, parts).unwrap();
        let mut all = Vec::new();
        let mut ends: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for cursor in &mut cursors {
            let before = all.len();
            while let Some(row) = cursor.next().unwrap() {
                all.push(kept(&row));
            }
            if let (Some(first), Some(last)) = (all.get(before), all.last()) {
                ends.push((first.0.clone(), last.0.clone()));
            }
        }
        assert!(all == rows, "{parts} parts");
        assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "no partition in two parts");
        assert!(cursors.len() <= parts && (parts > 12 || cursors.len() == parts), "{parts} parts");
        assert!(visited(&table, parts) == rows, "{parts} parts, one after the other");
    }
}

/// Every row in the order in which a parallel scan came to it.
fn visited(table: &Table, threads: usize) -> Vec<Kept> {
    let seen = Mutex::new(Vec::new());
    let visit = |row: RowRef<'_>| {
        seen.lock().unwrap().push(kept(&row));
        Ok(())
    };
    table.scan_parallel(threads, visit).unwrap();
    seen.into_inner().unwrap()
}

#[test]
fn several_threads_come_to_every_row_once() {
    let db = open_with(&SimFs::new(), Arc::new(Threads));
    mixed(&db);
    let table = db.table("t").unwrap();
    let rows = visited(&table, 1);
    assert!(rows.len() > 1000 && rows.is_sorted(), "{} rows", rows.len());
    for threads in [2, 3, 5, 100] {
        let mut seen = visited(&table, threads);
        seen.sort();
        assert!(seen == rows, "{threads} threads");
    }
}

#[test]
fn parts_are_of_like_size() {
    let db = open(&SimFs::new());
    let table = db.table("t").unwrap();
    for partition in 0..60 {
        let mut batch = table.partition(format!("{partition:02}")).batch();
        for row in 0..100 {
            batch = batch.upsert(format!("{row:04}"), [b'v'; 40]);
        }
        batch.commit().unwrap();
    }
    db.compact().unwrap();
    let mut counts = Vec::new();
    for mut cursor in db.snapshot().unwrap().split(&table, 4).unwrap() {
        let mut count = 0;
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
        counts.push(count);
    }
    assert_eq!(counts.iter().sum::<usize>(), 6000);
    assert!(counts.iter().all(|count| (1000..=2000).contains(count)), "{counts:?}");
}

#[test]
fn the_first_error_ends_a_parallel_scan() {
    let stop = |row: RowRef<'_>| match row.row_key {
        b"0070" => Err(Error::new(Kind::Busy, "enough")),
        _ => Ok(()),
    };
    let jobs: [Arc<dyn Jobs>; 2] = [Arc::new(ByHand), Arc::new(Threads)];
    for jobs in jobs {
        let db = open_with(&SimFs::new(), jobs);
        mixed(&db);
        let error = db.table("t").unwrap().scan_parallel(3, stop).unwrap_err();
        assert_eq!(error.kind(), Kind::Busy);
    }
}

/// The other threads read on to their ends before it was passed on.
#[test]
fn a_panic_ends_a_parallel_scan() {
    let db = open_with(&SimFs::new(), Arc::new(Threads));
    mixed(&db);
    let table = db.table("t").unwrap();
    let (both, calls) = (Barrier::new(2), AtomicUsize::new(0));
    let visit = |_: RowRef<'_>| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        if call < 2 {
            both.wait(); // Each of two threads has come to its first row.
        }
        assert!(call > 0, "the first row");
        SystemClock::new().sleep(Duration::from_millis(1));
        Ok(())
    };
    let panic = catch_unwind(AssertUnwindSafe(|| table.scan_parallel(2, visit))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the first row"));
    let (calls, rows) = (calls.into_inner(), table.count().unwrap());
    assert!(calls < 300 && rows > 1000, "{calls} of {rows} rows were visited");
}

/// A seek to a place that the scan had passed took it back there, and it gave rows a second time.
#[test]
fn a_seek_backwards_gives_no_row_twice() {
    let db = open(&SimFs::new());
    let table = db.table("t").unwrap();
    let batch = table.partition("p").batch();
    batch.upsert("a", "").upsert("b", "").upsert("c", "").upsert("d", "").commit().unwrap();
    let mut scan = table.partition("p").scan::<&str>(..).unwrap();
    let first: Vec<_> = scan.by_ref().take(2).map(|row| row.unwrap().row_key).collect();
    assert_eq!(first, ["a", "b"]);
    for passed in ["a", "b"] {
        scan.seek("p", passed).unwrap();
    }
    let rest: Vec<_> = scan.by_ref().map(|row| row.unwrap().row_key).collect();
    assert_eq!(rest, ["c", "d"]);
    scan.seek("p", "a").unwrap();
    assert!(scan.next().is_none(), "a scan that has ended stays so");
}

/// What is written while a cursor goes down is not seen, however often, and no row comes twice.
#[test]
fn a_row_that_is_written_twice_under_a_cursor_going_down_comes_once() {
    let db = open(&SimFs::new());
    for times in 0..4 {
        let table = db.table(&format!("t{times}")).unwrap();
        for row in ["a", "b", "c", "d"] {
            table.upsert("p", row, "old").unwrap();
        }
        let mut cursor = table.cursor::<&str, &str>(..).unwrap();
        let mut seen = Vec::new();
        while let Some(row) = cursor.prev().unwrap() {
            seen.push(String::from_utf8(row.row_key.to_vec()).unwrap());
            let here = seen.last().unwrap().clone();
            for _ in 0..times {
                table.upsert("p", &here, "new").unwrap();
            }
        }
        assert_eq!(seen, ["d", "c", "b", "a"], "each row written {times} times");
    }
}

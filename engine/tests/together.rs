//! Rows that are asked for together are waited for together: what memory lacks of them is asked of
//! the disk before any of it is read.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Db, Options, Table};

const ROWS: u64 = 2000;

/// Reads that one call has under way at most.
const READS_MAX: u64 = 64;

fn value(row: u64) -> Vec<u8> {
    let mut value = row.to_be_bytes().repeat(20); // About three rows in a block.
    value.truncate(150 + row as usize % 10);
    value
}

/// A database in files, and its disk, which counts the reads that are begun.
fn filled(block_cache_bytes: usize, blob_bytes_min: usize) -> (FaultFs, Db, Table) {
    let advanced = Advanced {
        block_bytes: 512,
        block_cache_bytes: Some(block_cache_bytes),
        blob_bytes_min,
        ..Advanced::default()
    };
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let builder = Db::builder().options(Options { advanced, ..Options::default() });
    let db = builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open("/db").unwrap();
    let table = db.table("t").unwrap();
    let mut batch = table.partition("p").batch();
    for row in 0..ROWS {
        batch = batch.upsert(row.to_be_bytes(), value(row));
    }
    batch.commit().unwrap();
    db.compact().unwrap();
    (disk, db, table)
}

/// Reads rows by one call; how many reads of files called so were begun before the first was done,
/// and how many by the end.
fn get_many(disk: &FaultFs, table: &Table, rows: &[u64], files: &str) -> (u64, u64) {
    let before = disk.begun_reads();
    let (at_first, seen) = (Arc::new(AtomicU64::new(0)), disk.clone());
    let noted = Arc::clone(&at_first);
    disk.interrupt(Rule::fail(Call::Read).named(files), move || {
        noted.store(seen.begun_reads(), Ordering::Relaxed);
    });
    let keys: Vec<_> = rows.iter().map(|row| ("p", row.to_be_bytes())).collect();
    for (row, found) in rows.iter().zip(table.get_many(&keys).unwrap()) {
        let expected = (*row < ROWS).then(|| value(*row));
        assert_eq!(found.map(|row| row.value.to_vec()), expected, "row {row}");
    }
    let at_first = at_first.load(Ordering::Relaxed).saturating_sub(before);
    (at_first, disk.begun_reads() - before)
}

/// Every so manyth row: each in a block of its own.
fn apart(count: u64) -> Vec<u64> {
    (0..count).map(|i| i * 9).collect()
}

#[test]
fn blocks_are_asked_of_the_disk_before_the_first_is_read() {
    let (disk, _db, table) = filled(0, 1 << 20);
    assert_eq!(get_many(&disk, &table, &apart(40), "*.sst"), (40, 40));
    assert_eq!(
        get_many(&disk, &table, &[7], "*.sst"),
        (0, 0),
        "there is nothing to wait for beside it"
    );
    assert_eq!(get_many(&disk, &table, &[7, ROWS + 1], "*.sst"), (0, 0), "the filter knows of one");
}

#[test]
fn no_more_reads_are_under_way_than_a_disk_works_on() {
    let (disk, _db, table) = filled(0, 1 << 20);
    let (at_first, all) = get_many(&disk, &table, &apart(200), "*.sst");
    assert!((READS_MAX / 2..=READS_MAX).contains(&at_first), "{at_first} under way");
    assert_eq!(all, 200);
}

#[test]
fn what_the_cache_has_is_not_asked_of_the_disk() {
    let (disk, _db, table) = filled(16 << 20, 1 << 20);
    let first = get_many(&disk, &table, &apart(40), "*.sst");
    assert_eq!((first, get_many(&disk, &table, &apart(40), "*.sst")), ((40, 40), (0, 0)));
}

#[test]
fn values_in_blob_files_are_asked_of_the_disk_before_the_first_is_read() {
    let (disk, _db, table) = filled(0, 100);
    let (at_first, all) = get_many(&disk, &table, &apart(40), "*.blob");
    assert!(
        at_first > 40 && all == at_first,
        "{at_first} of {all}: blocks of references, then values"
    );
    let (disk, _db, table) = filled(16 << 20, 100);
    get_many(&disk, &table, &apart(40), "*.blob");
    assert_eq!(get_many(&disk, &table, &apart(40), "*.blob"), (0, 0), "the cache has them");
}

/// With a partition go whole files that hold nothing else. Older versions of its rows stay in those
/// that hold more, hidden from everybody who reads the files of then, and not to be shown to who
/// reads the ones of before.
#[test]
fn who_reads_while_a_partition_is_dropped_meets_no_older_version_of_a_row() {
    let (disk, db, table) = filled(16 << 20, 1 << 20);
    table.upsert("q", "r", "beside").unwrap();
    db.compact().unwrap();
    let mut batch = table.partition("p").batch();
    for row in 0..ROWS {
        batch = batch.upsert(row.to_be_bytes(), "newer");
    }
    batch.commit().unwrap();
    db.flush().unwrap();
    let (first, last) = (0_u64.to_be_bytes(), (ROWS - 1).to_be_bytes());
    let looked = Arc::new(AtomicU64::new(0));
    let (others, of_others, also_looked) = (db.clone(), table.clone(), Arc::clone(&looked));
    disk.interrupt(Rule::fail(Call::Read).named("*.sst"), move || {
        of_others.drop_partition("p").unwrap();
        others.flush().unwrap();
        while others.stats().dropped_files == 0 {
            assert!(others.step().unwrap(), "the file of newer versions goes as a whole");
        }
        assert!(of_others.get("p", last).unwrap().is_none());
        also_looked.store(1, Ordering::Relaxed);
    });
    let found = table.get_many(&[("p", first), ("p", last)]).unwrap();
    assert_eq!(looked.load(Ordering::Relaxed), 1, "the partition went while the rows were read");
    for row in found {
        assert_eq!(row.map(|row| row.value.to_vec()).as_deref(), Some(&b"newer"[..]));
    }
    assert!(table.get("p", last).unwrap().is_none());
}

//! Counts of rows: exact at every moment, and mostly without reading a row.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::env::rng::Rng;
use tabulith::error::Kind;
use tabulith::options::{Advanced, Options};
use tabulith::vfs::mem::SimFs;
use tabulith::{Entity, If, Table};

const PARTITIONS: usize = 10;
const PARTITION_ROWS: usize = 2_000;
const ROWS: usize = PARTITIONS * PARTITION_ROWS;

/// A database with small blocks and files on a disk in memory, whose background work is done by
/// hand.
fn open(mapped: bool) -> Db {
    let advanced = Advanced {
        memtable_bytes: Some(256 << 10),
        block_bytes: 1 << 10,
        file_bytes: 64 << 10,
        mapped,
        ..Advanced::default()
    };
    let options = Options { advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let builder = Db::builder().options(options);
    builder.parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand)).open("db").unwrap()
}

fn pk(row: usize) -> String {
    format!("partition-{}", row / PARTITION_ROWS)
}

fn rk(row: usize) -> String {
    format!("row-{:06}", row % PARTITION_ROWS)
}

/// Writes the rows of these numbers.
fn write(table: &Table, rows: impl Iterator<Item = usize>) {
    let mut last = None;
    for row in rows {
        let value = format!("value {row}: {}", "x".repeat(60));
        let batch = table.partition(pk(row)).batch().upsert(rk(row), value);
        last = Some(batch.commit_async());
    }
    last.map(|ticket| ticket.wait().unwrap());
}

/// A table of all rows, settled in its files; beside it another one.
fn settled(db: &Db) -> Table {
    let table = db.table("rows").unwrap();
    write(&table, 0..ROWS);
    db.table("others").unwrap().upsert("p", "r", "").unwrap();
    db.compact().unwrap();
    table
}

/// What `work` returns, and how many blocks were asked for meanwhile.
fn blocks_read<T>(db: &Db, work: impl FnOnce() -> T) -> (T, u64) {
    let reads = || {
        let stats = db.stats();
        stats.cache_hits + stats.cache_misses
    };
    let before = reads();
    let done = work();
    (done, reads() - before)
}

fn scanned(table: &Table) -> u64 {
    table.scan::<&str, &str>(..).unwrap().count() as u64
}

#[test]
fn a_settled_table_is_counted_without_reading_a_block() {
    let db = open(false);
    let table = settled(&db);
    let (found, read) = blocks_read(&db, || scanned(&table));
    assert!(found == ROWS as u64 && read > 1_000, "a scan reads {read} blocks");
    let (count, read) = blocks_read(&db, || table.count().unwrap());
    assert_eq!((count, read), (ROWS as u64, 0));
    let held = db.snapshot().unwrap();
    let (count, read) = blocks_read(&db, || held.count::<&str, &str>(&table, ..).unwrap());
    assert_eq!((count, read), (ROWS as u64, 0));
}

#[test]
fn a_partition_is_counted_by_its_first_and_its_last_block() {
    let db = open(false);
    let table = settled(&db);
    for partition in 0..PARTITIONS {
        let partition = table.partition(format!("partition-{partition}"));
        let (count, read) = blocks_read(&db, || partition.count().unwrap());
        assert!(count == PARTITION_ROWS as u64 && read <= 2, "{count} rows by {read} blocks");
        let middle = || partition.count_range(rk(500)..rk(1_500)).unwrap();
        let (count, read) = blocks_read(&db, middle);
        assert!(count == 1_000 && read <= 2, "{count} rows by {read} blocks");
    }
    assert_eq!(table.partition("absent").count().unwrap(), 0);
}

#[test]
fn overwrites_cost_a_block_each_and_new_rows_next_to_none() {
    let db = open(false);
    let table = settled(&db);
    let changed = ROWS / 100;
    write(&table, (0..changed).map(|row| row * 100 + 7));
    for flushed in [false, true] {
        if flushed {
            db.flush().unwrap();
        }
        let (count, read) = blocks_read(&db, || table.count().unwrap());
        assert_eq!(count, ROWS as u64);
        // Those of the rows below, and where they are flushed their own.
        let own = if flushed { changed / 5 } else { 0 };
        assert!(read <= (changed + own) as u64, "{read} blocks for {changed} rows");
    }
    db.compact().unwrap();
    for row in 0..changed {
        table.insert(pk(row * 100), format!("{}-new", rk(row * 100)), "").unwrap();
    }
    let (count, read) = blocks_read(&db, || table.count().unwrap());
    assert_eq!(count, (ROWS + changed) as u64);
    // The filter takes one of a hundred for one that is there.
    assert!(read <= changed as u64 / 10, "{read} blocks for {changed} new rows");
}

#[test]
fn what_an_erasure_covers_is_not_read() {
    let db = open(false);
    let table = settled(&db);
    table.drop_partition("partition-4").unwrap();
    let (count, read) = blocks_read(&db, || table.count().unwrap());
    assert_eq!(count, (ROWS - PARTITION_ROWS) as u64);
    assert!(read <= 4, "{read} blocks");
    table.partition("partition-4").batch().upsert(rk(3), "again").commit().unwrap();
    assert_eq!(table.partition("partition-4").count().unwrap(), 1);
    table.truncate().unwrap();
    let (count, read) = blocks_read(&db, || table.count().unwrap());
    // One at either end of what was erased before, and one at the row that came then.
    assert!(count == 0 && read <= 4, "{count} rows by {read} blocks");
}

#[test]
fn what_outlived_its_table_is_not_read() {
    let db = open(false);
    let table = settled(&db);
    // As old as the row in the middle, as of now; writers that were held back have turned the
    // clock.
    let middle = table.get(pk(ROWS / 2), rk(ROWS / 2)).unwrap().expect("it was written").ts;
    let ticks = db.time().0 - middle.0;
    table.set_ttl(Some(Duration::from_nanos(100 * ticks))).unwrap();
    let (found, all) = blocks_read(&db, || scanned(&table));
    assert!((ROWS as u64 / 2 - 10..=ROWS as u64 / 2).contains(&found), "{found} rows");
    let (count, read) = blocks_read(&db, || table.count().unwrap());
    assert_eq!(count, found);
    // Of the one file that holds rows of both kinds.
    assert!(all > 1_000 && read < all / 5, "{read} blocks to count, {all} to scan");
    write(&table, (0..ROWS).step_by(1_000));
    assert_eq!(table.count().unwrap(), scanned(&table));
}

#[test]
fn every_moment_has_its_count() {
    for mapped in [false, true] {
        let db = open(mapped);
        let table = settled(&db);
        let first = db.snapshot().unwrap();
        for row in (0..ROWS).step_by(4) {
            table.delete(pk(row), rk(row), If::Present).unwrap();
        }
        let second = db.snapshot().unwrap();
        let mut ingest = table.ingest().unwrap();
        (0..300).for_each(|row| ingest.add("z", format!("{row:04}"), "").unwrap());
        ingest.finish().unwrap();
        write(&table, (0..ROWS).step_by(100));
        let quarter = ROWS as u64 / 4;
        for settle in [false, true] {
            if settle {
                db.compact().unwrap();
            }
            let count =
                |snapshot: &tabulith::Snapshot| snapshot.count::<&str, &str>(&table, ..).unwrap();
            assert_eq!(count(&first), ROWS as u64, "mapped {mapped}, settled {settle}");
            assert_eq!(count(&second), 3 * quarter, "mapped {mapped}, settled {settle}");
            let now = 3 * quarter + 300 + ROWS as u64 / 100;
            assert_eq!(table.count().unwrap(), now, "mapped {mapped}, settled {settle}");
            assert_eq!(scanned(&table), now);
        }
    }
}

#[test]
fn a_table_that_was_dropped_has_no_count() {
    let db = open(false);
    let table = db.table("rows").unwrap();
    assert_eq!(table.count().unwrap(), 0);
    db.drop_table("rows").unwrap();
    assert_eq!(table.count().unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn entities_are_counted_by_table_and_partition() {
    let db = open(false);
    let people = db.entities("People").unwrap();
    for row in 0..30 {
        let keys = (format!("ä{}", row % 3), format!("{row}"));
        people.insert(Entity::new(keys.0, keys.1).with("Age", row)).unwrap();
    }
    assert_eq!((people.count().unwrap(), people.count_partition("ä1").unwrap()), (30, 10));
}

#[test]
fn bytes_of_entities_are_those_of_their_table_and_of_a_partition_by_its_text() {
    let db = open(false);
    let (people, others) = (db.entities("People").unwrap(), db.entities("Others").unwrap());
    let mut rng = Rng::seeded(1);
    for row in 0..60 {
        for partition in ["a", "ä", "\u{10000}"] {
            // Keys of the last two do not sort as their bytes do; the middle one is most of the
            // table.
            let bytes = if partition == "ä" { 3000 } else { 500 };
            let photo: Vec<u8> = (0..bytes).map(|_| rng.next_u64() as u8).collect();
            people.insert(Entity::new(partition, format!("{row}")).with("Photo", photo)).unwrap();
        }
    }
    db.compact().unwrap();
    let whole = people.bytes_on_disk().unwrap();
    assert!((240_000..300_000).contains(&whole), "{whole}");
    let parts = ["a", "ä", "\u{10000}", "b"];
    let [a, most, last, none] = parts.map(|pk| people.bytes_on_disk_of_partition(pk).unwrap());
    assert!((180_000..225_000).contains(&most), "{most}");
    assert!((25_000..50_000).contains(&a) && (25_000..50_000).contains(&last), "{a}, {last}");
    assert!(none < 8192 && others.bytes_on_disk().unwrap() < 8192);
}

#[test]
fn bytes_on_disk_are_those_of_the_files_shared_out() {
    let db = open(false);
    let table = settled(&db);
    let large = db.table("large").unwrap();
    for row in 0..20 {
        large.upsert("p", format!("{row}"), vec![row as u8; 20_000]).unwrap();
    }
    db.compact().unwrap();
    let stats = db.stats();
    let files: u64 = stats.levels.iter().map(|(_, bytes)| bytes).sum::<u64>() + stats.blob_bytes;
    let (rows, values) = (table.bytes_on_disk().unwrap(), large.bytes_on_disk().unwrap());
    assert!(rows + values <= files && rows + values > files * 95 / 100, "{rows} {values} {files}");
    let partition = table.partition("partition-3").bytes_on_disk().unwrap() as usize;
    let share = rows as usize / PARTITIONS;
    assert!(partition.abs_diff(share) < share / 5, "{partition} of {share} bytes");
    assert_eq!(table.partition("absent").bytes_on_disk().unwrap() / 4096, 0);
}

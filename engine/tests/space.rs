//! What a database takes on disk once nothing happens any more, and after a range was compacted.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::SystemClock;
use tabulith::env::jobs::ByHand;
use tabulith::env::rng::Rng;
use tabulith::options::{Advanced, Durability, Options};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::vfs::os::OsVfs;
use tabulith::{If, Table};

/// Several levels with few rows.
fn small() -> Options {
    let advanced = Advanced {
        memtable_bytes: Some(32 << 10),
        file_bytes: 16 << 10,
        level_base_bytes: 64 << 10,
        ..Advanced::default()
    };
    Options { durability: Durability::Buffered, advanced, ..Options::default() }
}

fn open(dir: &std::path::Path) -> Db {
    Db::builder().options(small()).open(dir).unwrap()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    (0..100).map(|_| rng.next_u64() as u8).collect()
}

fn bytes(db: &Db) -> u64 {
    db.stats().levels.iter().map(|(_, bytes)| bytes).sum()
}

fn fill(table: &Table, pk: &str, rows: u64, rng: &mut Rng) {
    for i in 0..rows {
        table.upsert(pk, i.to_be_bytes(), value(rng)).unwrap();
    }
}

#[test]
fn rows_written_eight_times_take_little_more_than_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    let mut rng = Rng::seeded(7);
    for _ in 0..8 * 3000 {
        table.upsert("p", rng.below(3000).to_be_bytes(), value(&mut rng)).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
    let settled = bytes(&db);
    db.compact().unwrap();
    let least = bytes(&db);
    assert!(settled * 100 <= least * 115, "{settled} bytes for {least}");
}

#[test]
fn levels_over_their_targets_are_a_debt_until_they_are_settled() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    let mut rng = Rng::seeded(7);
    fill(&table, "p", 100, &mut rng);
    db.flush().unwrap();
    db.settle().unwrap();
    assert_eq!(db.stats().compaction_debt_bytes, 0, "one small file owes nothing");
    fill(&table, "q", 5_000, &mut rng);
    db.compact().unwrap();
    drop(db);
    // All of it lies in one level; where levels are to be smaller, most of that is too much.
    let advanced = Advanced { level_base_bytes: 16 << 10, level_fanout: 2, ..Advanced::default() };
    let advanced = Advanced { memtable_bytes: Some(32 << 10), file_bytes: 8 << 10, ..advanced };
    let options = Options { advanced, ..Options::default() };
    let small = Db::builder().options(options).read_only().open(dir.path()).unwrap();
    let (all, debt) = (bytes(&small), small.stats().compaction_debt_bytes);
    assert!(debt > all / 2 && debt < all, "{debt} of {all} bytes");
}

#[test]
fn a_compacted_range_gives_back_what_was_deleted_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table("t").unwrap();
    let mut rng = Rng::seeded(7);
    for pk in ["a", "b", "c"] {
        fill(&table, pk, 1500, &mut rng);
    }
    db.compact().unwrap();
    let all = bytes(&db);
    for pk in ["a", "b"] {
        for i in 0..1500u64 {
            table.delete(pk, i.to_be_bytes(), If::Any).unwrap();
        }
    }
    table.compact(("b", vec![])..("c", vec![])).unwrap();
    let after = bytes(&db);
    assert!(after * 100 <= all * 85, "a third of {all} bytes was deleted; {after} are left");
    for (pk, there) in [("a", false), ("b", false), ("c", true)] {
        assert_eq!(table.get(pk, 7u64.to_be_bytes()).unwrap().is_some(), there);
    }
}

/// Bytes of all files in the folder.
fn on_disk(dir: &std::path::Path) -> u64 {
    let vfs = OsVfs::new();
    let bytes = |name: String| vfs.open(&dir.join(name), Access::Read).unwrap().len().unwrap();
    vfs.list(dir).unwrap().into_iter().map(bytes).sum()
}

#[test]
fn a_settled_database_of_few_rows_takes_little_whatever_was_written_before() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().durability(Durability::Flushed).open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    let mut rng = Rng::seeded(7);
    for round in 0..2 {
        for i in 0..40u64 {
            let value: Vec<u8> = (0..512 << 10).map(|_| rng.next_u64() as u8).collect();
            table.upsert("large", i.to_be_bytes(), value).unwrap();
        }
        for i in 0..40u64 {
            table.delete("large", i.to_be_bytes(), If::Any).unwrap();
        }
        fill(&table, "p", 100, &mut rng);
        if round == 1 {
            db.flush().unwrap(); // Then there is nothing left for it to flush.
        }
        let before = on_disk(dir.path());
        assert!(before > 10 << 20, "a log of {before} bytes");
        db.settle().unwrap();
        let settled = on_disk(dir.path());
        assert!(settled < 3 << 20, "{settled} bytes for 100 rows");
    }
    db.settle().unwrap();
    fill(&table, "q", 100, &mut rng);
    db.close().unwrap();
    drop((table, db));
    let db = Db::open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    let there = |pk: &str| (0..100u64).all(|i| table.get(pk, i.to_be_bytes()).unwrap().is_some());
    assert!(there("p") && there("q") && table.get("large", 7u64.to_be_bytes()).unwrap().is_none());
}

#[test]
fn files_that_could_not_be_deleted_are_deleted_later() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let clock = Arc::new(SystemClock::new());
    let builder = Db::builder().options(small());
    let db = builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open("/db").unwrap();
    let table = db.table("t").unwrap();
    fill(&table, "p", 3000, &mut Rng::seeded(7));
    db.settle().unwrap();
    let files = || {
        let names = disk.list("/db".as_ref()).unwrap();
        names.into_iter().filter(|name| name.ends_with(".sst")).count()
    };
    let before = files();
    assert!(before > 8, "{before} files");
    table.truncate().unwrap();
    disk.add(Rule::fail(Call::Remove).named("*.sst").skip(2));
    db.settle().unwrap();
    fill(&table, "q", 1, &mut Rng::seeded(7));
    db.settle().unwrap();
    assert!(files() <= 1, "{} files for one row, {before} before", files());
}

/// A file ends by what its open block holds before it is compressed: with blocks as large as files,
/// eight tiny files became eight again, and again.
#[test]
fn tiny_files_of_values_that_compress_well_become_one() {
    let advanced = Advanced {
        memtable_bytes: Some(4 << 10),
        block_bytes: 4096,
        file_bytes: 4 << 10,
        level_base_bytes: 1 << 20,
        l0_compact_files: 1,
        filter_bits: 0,
        ..Advanced::default()
    };
    let options = Options { durability: Durability::Buffered, advanced, ..Options::default() };
    let clock = Arc::new(SystemClock::default());
    let parts = Db::builder().options(options);
    let db = parts.parts(Arc::new(SimFs::new()), clock, Arc::new(ByHand)).open("/db").unwrap();
    let table = db.table("t").unwrap();
    for pk in 0..40 {
        for rk in 0..16 {
            table.upsert(format!("{pk:02}"), [rk], [pk; 250]).unwrap();
        }
        db.flush().unwrap();
        let steps = (0..100).take_while(|_| db.step().unwrap()).count();
        assert!(steps < 100, "there is no end to the work after {pk} partitions");
    }
    let files: usize = db.stats().levels.iter().map(|(files, _)| files).sum();
    assert!(files < 20, "{:?} files of some hundred bytes", db.stats().levels);
}

/// A database on a disk that can be made to fail, worked by hand.
fn on_faulty_disk() -> (FaultFs, Db, Table) {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let builder = Db::builder().options(small());
    let builder =
        builder.parts(Arc::new(disk.clone()), Arc::new(SystemClock::default()), Arc::new(ByHand));
    let db = builder.open("/db").unwrap();
    let table = db.table("t").unwrap();
    db.flush().unwrap();
    (disk, db, table)
}

fn table_files(disk: &FaultFs) -> usize {
    let names = disk.list("/db".as_ref()).unwrap();
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

fn manifests(disk: &FaultFs) -> usize {
    let names = disk.list("/db".as_ref()).unwrap();
    names.iter().filter(|name| name.contains(".manifest-")).count()
}

fn only_live_table_files(disk: &FaultFs, db: &Db) {
    let live: u64 = db.stats().levels.iter().map(|(files, _)| *files as u64).sum();
    assert_eq!(table_files(disk) as u64, live);
}

#[test]
fn files_of_an_edit_that_failed_go_once_the_manifest_is_written_anew() {
    for failing in ["*.manifest-a", "*.manifest-b"] {
        let (disk, db, table) = on_faulty_disk();
        for round in 0..3_u64 {
            table.upsert("p", round.to_be_bytes(), [7; 5000]).unwrap();
            disk.add(Rule::fail(Call::Sync).named(failing));
            db.flush().unwrap_err();
            disk.clear();
            db.flush().unwrap();
        }
        // An ingest writes its files first.
        for round in 3..6_u64 {
            let mut ingest = table.ingest().unwrap();
            ingest.add("p", round.to_be_bytes(), [8; 5000]).unwrap();
            disk.add(Rule::fail(Call::Sync).named(failing));
            ingest.finish().unwrap_err();
            disk.clear();
        }
        db.settle().unwrap();
        only_live_table_files(&disk, &db);
        assert_eq!(table.partition("p").count().unwrap(), 3);
    }
}

#[test]
fn retries_leave_no_files_while_the_manifest_cannot_be_written() {
    let (disk, db, table) = on_faulty_disk();
    let before = table_files(&disk);
    disk.add(Rule::fail(Call::Create).named("*.manifest-a").forever());
    disk.add(Rule::fail(Call::Sync).named("*.manifest-a"));
    table.upsert("p", "a", [7; 5000]).unwrap();
    for _ in 0..20 {
        db.flush().unwrap_err();
    }
    assert_eq!(table_files(&disk), before + 1, "the one that the failed edit may name");
    disk.clear();
    db.flush().unwrap();
    db.settle().unwrap();
    only_live_table_files(&disk, &db);
    // Copies of the manifest that could not be made whole go, too.
    assert_eq!(manifests(&disk), 2);
    disk.add(Rule::fail(Call::Sync).named("*.manifest-b").forever());
    table.upsert("p", "b", [7; 5000]).unwrap();
    for _ in 0..20 {
        db.flush().unwrap_err();
    }
    assert_eq!(manifests(&disk), 2);
}

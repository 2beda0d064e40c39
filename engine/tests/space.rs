//! What a database takes on disk once nothing happens any more, and after a range was compacted.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use tabulith::db::Db;
use tabulith::env::rng::Rng;
use tabulith::options::{Advanced, Durability, Options};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::os::OsVfs;
use tabulith::{If, Table};

/// Several levels with few rows.
fn open(dir: &std::path::Path) -> Db {
    let advanced = Advanced {
        memtable_bytes: Some(32 << 10),
        file_bytes: 16 << 10,
        level_base_bytes: 64 << 10,
        ..Advanced::default()
    };
    let options = Options { durability: Durability::Buffered, advanced, ..Options::default() };
    Db::builder().options(options).open(dir).unwrap()
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

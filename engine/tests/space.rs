//! What a database takes on disk once nothing happens any more, and after a range was compacted.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use tabulith::db::Db;
use tabulith::embedded::rows::{If, Table};
use tabulith::env::rng::Rng;
use tabulith::options::{Advanced, Durability, Options};

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

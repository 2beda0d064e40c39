//! Rows that expire: gone at once for every read and condition, without letting an older version
//! show, and gone from the disk after one settle.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, CommitTs, Db, If, Kind, Options, Table};

const START_TICKS: u64 = 17_672_256_000_000_000;

struct Place {
    disk: SimFs,
    clock: Arc<ManualClock>,
}

impl Place {
    fn new() -> Place {
        Place { disk: SimFs::new(), clock: Arc::new(ManualClock::at(START_TICKS)) }
    }

    fn open(&self, history_s: u64) -> Db {
        let clock = Arc::clone(&self.clock);
        let advanced = Advanced {
            memtable_bytes: Some(256 << 10),
            file_bytes: 64 << 10,
            level_base_bytes: 256 << 10,
            blob_bytes_min: 1000,
            ..Advanced::default()
        };
        let history = Duration::from_secs(history_s);
        let options = Options { history, advanced, ..Options::default() };
        let builder = Db::builder().options(options);
        builder.parts(Arc::new(self.disk.clone()), clock, Arc::new(ByHand)).open("db").unwrap()
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn in_seconds(db: &Db, seconds: u64) -> CommitTs {
    db.time().after(Duration::from_secs(seconds))
}

fn put_until(table: &Table, rk: &str, value: &str, expires: CommitTs) -> CommitTs {
    table.partition("p").batch().upsert_until(rk, value, expires).commit().unwrap()
}

fn row_keys(table: &Table) -> Vec<String> {
    let rows = table.scan::<&str, &str>(..).unwrap();
    rows.map(|row| String::from_utf8(row.unwrap().row_key.to_vec()).unwrap()).collect()
}

fn bytes_on_disk(db: &Db) -> u64 {
    let stats = db.stats();
    stats.levels.iter().map(|(_, bytes)| bytes).sum::<u64>() + stats.blob_bytes
}

#[test]
fn an_expired_row_is_gone_for_every_read_and_condition_wherever_it_lies() {
    for stage in 0..4 {
        let place = Place::new();
        let mut db = place.open(0);
        let mut table = db.table("t").unwrap();
        table.upsert("p", "a", "older").unwrap();
        db.flush().unwrap();
        table.upsert("p", "stays", "x").unwrap();
        let large = "y".repeat(5000);
        put_until(&table, "a", &large, in_seconds(&db, 10));
        put_until(&table, "b", "b", in_seconds(&db, 20));
        match stage {
            0 => {}
            1 => db.flush().unwrap(),
            2 => db.compact().unwrap(),
            _ => {
                db.close().unwrap();
                db = place.open(0);
                table = db.table("t").unwrap();
            }
        }
        assert_eq!(table.get("p", "a").unwrap().unwrap().value, large);
        assert_eq!(row_keys(&table), ["a", "b", "stays"]);
        let held = db.snapshot().unwrap();
        place.pass(11); // Each commit since is a tick later than the clock.
        assert!(table.get("p", "a").unwrap().is_none(), "stage {stage}: not even the older one");
        assert_eq!(table.get_many(&[("p", "a"), ("p", "b")]).unwrap()[0], None);
        assert_eq!(row_keys(&table), ["b", "stays"]);
        let rows = table.scan::<&str, &str>(..).unwrap().rev();
        assert_eq!(rows.map(|row| row.unwrap().row_key).collect::<Vec<_>>(), ["stays", "b"]);
        let refused = table.replace("p", "a", "z", If::Present).unwrap_err();
        assert_eq!(refused.kind(), Kind::NotFound);
        db.compact().unwrap();
        assert_eq!(
            held.get(&table, "p", "a").unwrap().unwrap().value,
            large,
            "a snapshot is fixed"
        );
        assert_eq!(row_keys(&table), ["b", "stays"]);
        table.insert("p", "a", "anew").unwrap();
        place.pass(100);
        assert_eq!(row_keys(&table), ["a", "stays"], "what was put anew does not expire");
    }
}

#[test]
fn cold_rows_are_gone_from_the_disk_after_one_settle_past_their_expiry() {
    let place = Place::new();
    let db = place.open(0);
    let table = db.table("t").unwrap();
    let expires = in_seconds(&db, 3600);
    let value = "v".repeat(300);
    for n in 0..4000 {
        let value = if n % 100 == 0 { "large ".repeat(1000) } else { value.clone() };
        put_until(&table, &format!("row-{n:05}"), &value, CommitTs(expires.0 + n % 50));
    }
    table.upsert("p", "stays", "x").unwrap();
    db.flush().unwrap();
    db.settle().unwrap();
    let before = bytes_on_disk(&db);
    place.pass(3500);
    db.settle().unwrap();
    assert_eq!(row_keys(&table).len(), 4001, "nothing is due");
    assert!(bytes_on_disk(&db) >= before / 2);
    let read = db.stats().compaction_bytes_read;
    place.pass(200);
    db.settle().unwrap();
    let stats = db.stats();
    assert!(stats.dropped_files > 0, "whole files go");
    assert!(stats.compaction_bytes_read - read < before / 2, "unread");
    assert!(bytes_on_disk(&db) * 20 < before, "{} of {before} bytes stay", bytes_on_disk(&db));
    assert_eq!(stats.blob_files, 0);
    assert_eq!(row_keys(&table), ["stays"]);
}

#[test]
fn a_moment_within_the_history_window_still_reads_what_has_expired_since() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let at = put_until(&table, "a", "x", in_seconds(&db, 60));
    place.pass(120);
    let later = table.upsert("p", "b", "y").unwrap();
    db.compact().unwrap();
    assert_eq!(table.get_at(at, "p", "a").unwrap().unwrap().value, "x");
    assert!(table.get_at(later, "p", "a").unwrap().is_none(), "expired by then");
    place.pass(7200);
    table.upsert("p", "c", "z").unwrap();
    db.compact().unwrap();
    assert_eq!(table.get_at(at, "p", "a").unwrap_err().kind(), Kind::Invalid);
    assert_eq!(row_keys(&table), ["b", "c"]);
}

#[test]
fn a_transaction_goes_by_the_time_at_which_it_began() {
    let place = Place::new();
    let db = place.open(0);
    let table = db.table("t").unwrap();
    put_until(&table, "a", "x", in_seconds(&db, 60));
    let mut transaction = table.partition("p").begin().unwrap();
    place.pass(120);
    assert!(transaction.get("a").unwrap().is_some());
    transaction.put_until("b", "y", in_seconds(&db, 60)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(row_keys(&table), ["b"]);
}

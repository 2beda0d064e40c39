//! The history window: what was visible at a moment of the past reads the same until the window has
//! passed it, through flush, merge, drops and openings; after that it is refused.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::vfs::mem::SimFs;
use tabulith::{CommitTs, Db, Kind, Table};

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
        let builder = Db::builder().history(Duration::from_secs(history_s));
        builder.parts(Arc::new(self.disk.clone()), clock, Arc::new(ByHand)).open("db").unwrap()
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn value_at(db: &Db, table: &Table, at: CommitTs, rk: &str) -> Option<String> {
    let row = db.snapshot_at(at).unwrap().get(table, "p", rk).unwrap();
    row.map(|row| String::from_utf8(row.value.to_vec()).unwrap())
}

#[test]
fn every_moment_of_the_window_reads_as_it_was_after_flush_merge_and_reopening() {
    let place = Place::new();
    let mut db = place.open(3600);
    let mut table = db.table("t").unwrap();
    let mut moments = Vec::new();
    for round in 0..20 {
        place.pass(60);
        moments.push((table.upsert("p", "r", round.to_string()).unwrap(), round));
        match round % 4 {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            2 => {
                db.close().unwrap();
                db = place.open(3600);
                table = db.table("t").unwrap();
            }
            _ => db.settle().unwrap(),
        }
        for (at, round) in &moments {
            assert_eq!(value_at(&db, &table, *at, "r"), Some(round.to_string()));
            let between = CommitTs(at.0 + 10);
            if between <= db.visible() {
                assert_eq!(value_at(&db, &table, between, "r"), Some(round.to_string()));
            }
        }
    }
    assert_eq!(value_at(&db, &table, CommitTs(moments[0].0.0 - 1), "r"), None);
}

#[test]
fn deleted_erased_and_dropped_rows_are_there_for_the_past_also_after_an_opening() {
    let place = Place::new();
    let db = place.open(3600);
    let (kept, dropped) = (db.table("kept").unwrap(), db.table("dropped").unwrap());
    kept.upsert("p", "deleted", "1").unwrap();
    kept.upsert("p", "erased", "2").unwrap();
    kept.upsert("q", "large", "x".repeat(100_000)).unwrap();
    let before = dropped.upsert("p", "r", "3").unwrap();
    place.pass(10);
    kept.delete("p", "deleted", tabulith::If::Present).unwrap();
    kept.truncate().unwrap();
    assert!(db.drop_table("dropped").unwrap());
    let again = db.table("dropped").unwrap();
    let after = again.upsert("p", "r", "4").unwrap();
    db.compact().unwrap();
    db.settle().unwrap();
    db.close().unwrap();
    let db = place.open(3600);
    db.compact().unwrap();

    let snapshot = db.snapshot_at(before).unwrap();
    let kept = snapshot.table("kept").unwrap();
    let value = |rk| snapshot.get(&kept, "p", rk).unwrap().unwrap().value;
    assert_eq!((value("deleted"), value("erased")), ("1".into(), "2".into()));
    assert_eq!(snapshot.get(&kept, "q", "large").unwrap().unwrap().value, "x".repeat(100_000));
    let dropped = snapshot.table("dropped").unwrap();
    assert_eq!(snapshot.get(&dropped, "p", "r").unwrap().unwrap().value, "3");
    assert!(kept.get("p", "erased").unwrap().is_none());
    assert_eq!(dropped.get("p", "r").unwrap_err().kind(), Kind::NotFound);
    let again = db.snapshot_at(after).unwrap().table("dropped").unwrap();
    assert_eq!(again.get("p", "r").unwrap().unwrap().value, "4");

    // Behind the window nothing of it is left on the disk.
    place.pass(7200);
    again.upsert("p", "r", "5").unwrap();
    drop(snapshot);
    db.compact().unwrap();
    db.settle().unwrap();
    assert_eq!(db.stats().blob_files, 0, "the large value's file is gone");
}

#[test]
fn what_lies_before_the_window_is_refused_and_a_wider_window_brings_nothing_back() {
    let place = Place::new();
    let db = place.open(60);
    let table = db.table("t").unwrap();
    let old = table.upsert("p", "r", "old").unwrap();
    place.pass(30);
    table.upsert("p", "r", "new").unwrap();
    db.compact().unwrap();
    assert_eq!(value_at(&db, &table, old, "r"), Some("old".into()));
    let held = db.snapshot_at(old).unwrap();
    place.pass(3600);
    table.upsert("p", "s", "").unwrap(); // Something to compact.
    db.compact().unwrap();
    assert_eq!(held.get(&table, "p", "r").unwrap().unwrap().value, "old", "a snapshot holds it");
    let refused = db.snapshot_at(old).unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid);
    assert!(refused.to_string().contains("not kept any more"), "{refused}");
    drop(held);
    db.close().unwrap();

    let db = place.open(1_000_000);
    assert_eq!(db.snapshot_at(old).unwrap_err().kind(), Kind::Invalid);
    let later = CommitTs(db.visible().0 + 1);
    assert_eq!(db.snapshot_at(later).unwrap_err().kind(), Kind::Invalid, "nobody knows it yet");
    assert_eq!(value_at(&db, &db.table("t").unwrap(), db.visible(), "r"), Some("new".into()));
}

#[test]
fn without_a_window_outdated_versions_go() {
    let place = Place::new();
    let db = place.open(0);
    let table = db.table("t").unwrap();
    let old = table.upsert("p", "r", "old").unwrap();
    table.upsert("p", "r", "new").unwrap();
    assert_eq!(value_at(&db, &table, old, "r"), Some("old".into()), "nothing was reclaimed yet");
    db.compact().unwrap();
    assert_eq!(db.snapshot_at(old).unwrap_err().kind(), Kind::Invalid);
}

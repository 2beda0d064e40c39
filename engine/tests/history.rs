//! The history window: what was visible at a moment of the past reads the same until the window has
//! passed it, through flush, merge, drops and openings; after that it is refused.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::iter;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::Durability;
use tabulith::rows::RowStore;
use tabulith::table::error::TableError;
use tabulith::table::etag::IfMatch;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::store::{TableStore, TablesPage};
use tabulith::table::write::Write;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Builder, CommitTs, Db, Entity, Filter, If, Kind, Op as Compare, Table, Value};
use tabulith_testkit::counts;
use tabulith_testkit::seed::{self, Replay, Rng};

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
        self.open_with(Db::builder().history(Duration::from_secs(history_s)))
    }

    fn open_with(&self, builder: Builder) -> Db {
        let clock = Arc::clone(&self.clock);
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

/// An erasure goes when a newer one hides the same rows for whoever may still read: the moments
/// between the two can be read no more then, not by a later open either.
#[test]
fn an_erasure_that_a_newer_one_replaced_brings_nothing_back() {
    let place = Place::new();
    let db = place.open(60);
    let table = db.table("t").unwrap();
    let fill = |pk: &str, rows: u32| {
        for rk in 0..rows {
            table.upsert(pk, rk.to_be_bytes(), [7; 20]).unwrap();
        }
    };
    fill("p", 100);
    fill("q", 4000);
    place.pass(1);
    let first = table.partition("p").drop_rows().unwrap();
    place.pass(1);
    fill("p", 100);
    place.pass(1);
    table.partition("p").drop_rows().unwrap();
    db.flush().unwrap();
    place.pass(120);
    while db.step().unwrap() {}
    db.close().unwrap();

    let between = first.after(Duration::from_millis(500));
    let db = place.open(1_000_000);
    let table = db.table("t").unwrap();
    match db.snapshot_at(between) {
        Ok(past) => assert_eq!(past.get(&table, "p", 0u32.to_be_bytes()).unwrap(), None),
        Err(refused) => assert_eq!(refused.kind(), Kind::Invalid, "{refused}"),
    }
}

/// Whoever reads now does not make moments of the past poorer.
#[test]
fn a_snapshot_of_now_takes_no_row_from_the_past() {
    let place = Place::new();
    let db = place.open(60);
    let table = db.table("t").unwrap();
    table.set_ttl(Some(Duration::from_secs(55))).unwrap();
    let ts = table.upsert("p", "r", "v").unwrap();
    place.pass(100);
    let now = db.snapshot();
    db.compact().unwrap();
    drop(now);
    let quiet = ts.after(Duration::from_secs(50));
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("v".into()));
}

#[test]
fn a_snapshot_of_a_quiet_time_keeps_what_expires_after_it() {
    let place = Place::new();
    let db = place.open(60);
    let table = db.table("t").unwrap();
    let expires = CommitTs(START_TICKS).after(Duration::from_secs(75));
    let batch = table.partition("p").batch().upsert_until("r", "v", expires);
    let ts = batch.commit().unwrap();
    place.pass(70);
    let held = db.snapshot_at(ts.after(Duration::from_secs(60))).unwrap();
    assert!(held.get(&table, "p", "r").unwrap().is_some());
    place.pass(80);
    db.compact().unwrap();
    assert!(held.get(&table, "p", "r").unwrap().is_some(), "it is held");
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

#[test]
fn a_moment_after_the_last_commit_is_past_as_soon_as_time_has_gone_on() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let last = table.upsert("p", "r", "old").unwrap();
    place.pass(600);
    // Nobody has written for ten minutes: five minutes ago is a moment like any other.
    let quiet = last.after(Duration::from_secs(300));
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("old".into()));
    let held = db.snapshot_at(quiet).unwrap();
    table.upsert("p", "r", "new").unwrap();
    assert_eq!(held.get(&table, "p", "r").unwrap().unwrap().value, "old");
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("old".into()));
    // Now is not past: a commit of this very tick may come.
    let now = db.time();
    assert_eq!(value_at(&db, &table, now, "r"), Some("new".into()), "a commit has this place");
    let refused = db.snapshot_at(CommitTs(now.0 + 1)).unwrap_err();
    assert!(refused.to_string().contains("is not past"), "{refused}");
}

#[test]
fn a_moment_that_was_read_stays_as_it_was_when_the_clock_goes_back() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let last = table.upsert("p", "r", "old").unwrap();
    place.pass(600);
    let quiet = last.after(Duration::from_secs(300));
    let held = db.snapshot_at(quiet).unwrap();
    place.clock.set_wall(START_TICKS + 1);
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("old".into()), "it is past all the same");
    assert!(table.upsert("p", "r", "new").unwrap() > quiet);
    let mut rows = table.ingest().unwrap();
    rows.add("p", "s", "in").unwrap();
    assert!(rows.finish().unwrap() > quiet);
    assert_eq!(held.get(&table, "p", "r").unwrap().unwrap().value, "old");
    assert_eq!(held.get(&table, "p", "s").unwrap(), None);
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("old".into()));
}

#[test]
fn a_moment_that_was_read_stays_as_it_was_when_the_clock_goes_back_while_the_folder_is_closed() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let last = table.upsert("p", "r", "old").unwrap();
    place.pass(600);
    let quiet = last.after(Duration::from_secs(300));
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("old".into()));
    drop(table);
    db.close().unwrap();
    place.clock.set_wall(START_TICKS + 1);
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    assert!(table.upsert("p", "r", "new").unwrap() > quiet);
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("old".into()));
}

/// Reads go on after a close. It tells who opens the folder next how far they may go.
#[test]
fn a_moment_that_was_read_after_the_close_stays_as_it_was_when_the_clock_goes_back() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let last = table.upsert("p", "r", "old").unwrap();
    place.pass(600);
    db.close().unwrap();
    let quiet = last.after(Duration::from_secs(300));
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("old".into()), "it was past at the close");
    let end = db.moments_kept().1;
    assert_eq!(value_at(&db, &table, CommitTs(end.0 - 1), "r"), Some("old".into()));
    place.pass(600);
    assert_eq!(db.moments_kept().1, end, "it stands still");
    let refused = db.snapshot_at(end).unwrap_err();
    assert!(refused.to_string().contains("is not past"), "{refused}");
    drop((table, db));
    place.clock.set_wall(START_TICKS + 1);
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    assert!(table.upsert("p", "r", "new").unwrap() >= end);
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("old".into()));
}

#[test]
fn the_past_stands_still_after_a_close_that_failed_too() {
    let clock = Arc::new(ManualClock::at(START_TICKS));
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let builder = Db::builder().history(Duration::from_secs(3600));
    let parts = builder.parts(Arc::new(disk.clone()), Arc::clone(&clock) as _, Arc::new(ByHand));
    let db = parts.open("db").unwrap();
    let batch = db.table("t").unwrap().partition("p").batch().upsert("r", "v");
    batch.durability(Durability::Buffered).commit().unwrap();
    disk.add(Rule::fail(Call::Write).forever());
    db.close().unwrap_err();
    let end = db.moments_kept().1;
    clock.advance(Duration::from_secs(600));
    assert_eq!(db.moments_kept().1, end);
    assert_eq!(db.snapshot_at(end).unwrap_err().kind(), Kind::Invalid);
}

/// The rows of one partition, each deleted a minute after the one before, leave the window one by
/// one: their file is written anew for many of them at a time.
#[test]
fn what_leaves_the_window_one_by_one_costs_no_merge_each() {
    const WEEK_S: u64 = 7 * 86_400;
    let place = Place::new();
    let db = place.open(WEEK_S);
    let table = db.table("t").unwrap();
    for row in 0..1000_u64 {
        table.upsert("p", row.to_be_bytes(), "v").unwrap();
        table.upsert("q", row.to_be_bytes(), "stays").unwrap();
    }
    for row in 0..1000_u64 {
        place.pass(60);
        table.delete("p", row.to_be_bytes(), If::Any).unwrap();
    }
    let idle = || while db.step().unwrap() {};
    db.compact().unwrap();
    idle();
    place.pass(WEEK_S - 1000 * 60);
    let (before, bytes) = (db.stats().compactions, bytes_on_disk(&db));
    for _ in 0..1100 {
        place.pass(60);
        idle();
    }
    let merges = db.stats().compactions - before;
    assert!((1..=10).contains(&merges), "{merges} merges");
    // A day after they have left it the last of them are gone as well.
    place.pass(86_400);
    idle();
    assert!(bytes_on_disk(&db) < bytes * 2 / 3, "{} of {bytes} bytes", bytes_on_disk(&db));
    assert_eq!(table.partition("q").count().unwrap(), 1000);
    assert_eq!(table.partition("p").count().unwrap(), 0);
}

/// What was replaced within the window goes once it has left it, though no merge comes by: by
/// itself, and by a compaction.
#[test]
fn what_was_replaced_gives_its_space_back_when_it_has_left_the_window() {
    for compacts in [false, true] {
        let place = Place::new();
        let db = place.open(100);
        let table = overwritten(&place, &db, 20);
        let all = bytes_on_disk(&db);
        place.pass(200);
        match compacts {
            true => db.compact().unwrap(),
            false => while db.step().unwrap() {},
        }
        assert!(bytes_on_disk(&db) < all / 5, "{} of {all} bytes", bytes_on_disk(&db));
        assert_eq!(table.partition("p").count().unwrap(), 200);
        let merges = db.stats().compactions;
        db.compact().unwrap();
        assert_eq!(db.stats().compactions, merges, "nothing is left to do");
    }
}

/// Rounds of replaced rows leave the window one by one, and take their file's merges not one each.
#[test]
fn what_was_replaced_leaves_the_window_in_few_merges() {
    const DAY_S: u64 = 86_400;
    let place = Place::new();
    let db = place.open(DAY_S);
    let table = overwritten(&place, &db, 200);
    let before = db.stats().compactions;
    place.pass(DAY_S - 200);
    for _ in 0..250 {
        place.pass(1);
        while db.step().unwrap() {}
    }
    let merges = db.stats().compactions - before;
    assert!((1..=60).contains(&merges), "{merges} merges");
    assert_eq!(table.partition("p").count().unwrap(), 200);
}

/// 200 rows in a single run, written so many times, a round a second.
fn overwritten(place: &Place, db: &Db, rounds: u64) -> Table {
    let table = db.table("t").unwrap();
    for round in 0..rounds {
        for row in 0..200_u64 {
            let value = (round << 32 | row).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            table.upsert("p", row.to_be_bytes(), value).unwrap();
        }
        place.pass(1);
    }
    db.compact().unwrap();
    table
}

fn bytes_on_disk(db: &Db) -> u64 {
    db.stats().levels.iter().map(|(_, bytes)| bytes).sum()
}

#[test]
fn a_moment_waits_for_the_commits_before_it() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let ticket = table.partition("p").batch().upsert("r", "on its way").commit_async();
    place.pass(60);
    let later = CommitTs(START_TICKS).after(Duration::from_secs(30));
    assert!(!ticket.is_done(), "nobody has waited for it");
    assert_eq!(value_at(&db, &table, later, "r"), Some("on its way".into()));
}

/// A database over a disk whose calls can be held up.
fn open_on_faults(place: &Place) -> (FaultFs, Db) {
    let disk = FaultFs::new(Arc::new(place.disk.clone()));
    let builder = Db::builder().history(Duration::from_secs(3600));
    let clock = Arc::clone(&place.clock);
    let db = builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open("db").unwrap();
    (disk, db)
}

/// Holds up the next such call, which is one on the log, until a message comes; says when it has
/// begun.
fn hold_the_log(disk: &FaultFs, call: Call) -> (Receiver<()>, Sender<()>) {
    let (begin, begun) = mpsc::channel();
    let (heal, healed) = mpsc::channel();
    disk.interrupt(Rule::fail(call), move || {
        let _ = begin.send(());
        let _ = healed.recv();
    });
    (begun, heal)
}

/// A row, and a moment half a minute after it, which is past by then.
fn a_row_and_a_quiet_time(place: &Place, table: &Table) -> (CommitTs, CommitTs) {
    let first = table.upsert("p", "r", "before").unwrap();
    place.pass(60);
    (first, first.after(Duration::from_secs(30)))
}

/// It waited for the newest commit that was on its way, with none before the moment.
#[test]
fn a_moment_waits_for_no_commit_after_it() {
    let place = Place::new();
    let (disk, db) = open_on_faults(&place);
    let table = db.table("t").unwrap();
    let (_, quiet) = a_row_and_a_quiet_time(&place, &table);
    let (begun, heal) = hold_the_log(&disk, Call::Sync);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| table.upsert("p", "r", "on its way"));
        begun.recv().unwrap();
        let (tell, told) = mpsc::channel();
        let (db, table) = (&db, &table);
        scope.spawn(move || tell.send(value_at(db, table, quiet, "r")));
        let read = told.recv_timeout(Duration::from_secs(20));
        heal.send(()).unwrap();
        let last = writer.join().unwrap().unwrap();
        assert_eq!(read.expect("it does not wait"), Some("before".into()));
        assert_eq!(value_at(db, table, last, "r"), Some("on its way".into()));
    });
}

/// To know what is past it waited for the lock under which an unsynced commit is written.
#[test]
fn the_past_is_read_while_a_write_of_the_log_does_not_return() {
    let place = Place::new();
    let (disk, db) = open_on_faults(&place);
    let table = db.table("t").unwrap();
    let (first, quiet) = a_row_and_a_quiet_time(&place, &table);
    assert_eq!(value_at(&db, &table, quiet, "r"), Some("before".into()), "it is past for good");
    let (begun, heal) = hold_the_log(&disk, Call::Write);
    std::thread::scope(|scope| {
        let batch = table.partition("p").batch().upsert("r", "on its way");
        let writer = scope.spawn(|| batch.durability(Durability::Flushed).commit());
        begun.recv().unwrap();
        let (tell, told) = mpsc::channel();
        let (db, table) = (&db, &table);
        scope.spawn(move || {
            for at in [first, quiet] {
                tell.send(value_at(db, table, at, "r") == Some("before".into())).unwrap();
            }
            tell.send(db.moments_kept().1 > quiet).unwrap();
            tell.send(db.snapshot_at(CommitTs(u64::MAX >> 1)).is_err()).unwrap();
        });
        let answers: Vec<_> =
            (0..4).map_while(|_| told.recv_timeout(Duration::from_secs(20)).ok()).collect();
        heal.send(()).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(answers, [true; 4], "who reads the past waits");
    });
}

#[test]
fn tables_of_entities_are_read_as_of_a_moment() {
    let place = Place::new();
    let db = place.open(3600);
    let entity = |row: &str, n: i32| Entity::new("p", row).with("n", n);
    let flights = db.entities("flights").unwrap();
    flights.upsert(entity("a", 1)).unwrap();
    let before = flights.upsert(entity("b", 2)).unwrap().0;
    place.pass(60);
    flights.upsert(entity("a", 10)).unwrap();
    flights.delete("p", "b", IfMatch::Any).unwrap();
    let after = flights.upsert(entity("c", 3)).unwrap().0;
    let all = |past: &tabulith::embedded::entities::PastEntities| -> Vec<(String, Value)> {
        let found = past.query(None).map(|entity| entity.unwrap());
        found.map(|e| (e.row_key.clone(), e.property("n").unwrap().clone())).collect()
    };
    let (store, account) = (TableStore::new(Arc::new(db.clone())), account());
    let name = TableName::parse("flights").unwrap();
    store.delete_table(&account, &name).unwrap();
    db.compact().unwrap();

    let past = flights.as_of(before).unwrap();
    assert_eq!(all(&past), [("a".into(), Value::Int32(1)), ("b".into(), Value::Int32(2))]);
    assert_eq!(past.count().unwrap(), 2);
    assert_eq!(past.get("p", "b").unwrap().unwrap().ts, before);
    let past = flights.as_of(after).unwrap();
    assert_eq!(all(&past), [("a".into(), Value::Int32(10)), ("c".into(), Value::Int32(3))]);
    assert!(past.get("p", "b").unwrap().is_none());

    // The tables of then, too: one that is gone is listed, one that came later is not.
    let early = store.as_of(before).unwrap();
    let names = |page: TablesPage| -> Vec<String> {
        page.tables.iter().map(|table| table.name.to_string()).collect()
    };
    assert_eq!(names(early.list_tables(&account, None, 10, None).unwrap()), ["flights"]);
    assert!(names(store.list_tables(&account, None, 10, None).unwrap()).is_empty());
    let first = store.as_of(CommitTs(START_TICKS - 1)).unwrap();
    assert!(names(first.list_tables(&account, None, 10, None).unwrap()).is_empty());
    let nothing = first.get(&account, &name, "p", "a").unwrap_err();
    assert!(matches!(nothing, TableError::TableNotFound), "{nothing}");

    // Outside of the window the error tells the window.
    place.pass(7200);
    db.table("t").unwrap().upsert("p", "r", "").unwrap();
    db.compact().unwrap();
    for at in [before, db.time().after(Duration::from_secs(5))] {
        let refused = flights.as_of(at).unwrap_err();
        assert!(matches!(refused, TableError::MomentNotKept { at: of, .. } if of == at));
        assert!(refused.to_string().contains("the history begins at 2026-"), "{refused}");
    }
    drop((early, first, past));
}

/// More than two pages of them, and all of them gone by the second.
#[test]
fn entities_of_then_come_page_by_page_and_are_all_of_then() {
    let place = Place::new();
    let db = place.open(3600);
    let flights = db.entities("flights").unwrap();
    let mut before = CommitTs::ZERO;
    for chunk in (0..2_500).collect::<Vec<i32>>().chunks(100) {
        let entity = |n: &i32| Entity::new("p", format!("{n:05}")).with("n", *n).with("m", 7);
        let writes = chunk.iter().map(|n| Write::Insert(entity(n)));
        before = flights.transact(writes.collect()).unwrap()[0].ts;
    }
    let past = flights.as_of(before).unwrap();
    let mut found = past.query(None).select(&["n"]);
    let first = found.next().unwrap().unwrap();
    flights.truncate().unwrap();
    flights.upsert(Entity::new("p", "00001").with("n", -1)).unwrap();
    db.compact().unwrap();
    drop(past);
    let all: Vec<Entity> = iter::once(first).chain(found.map(Result::unwrap)).collect();
    let numbers: Vec<_> = all.iter().map(|entity| entity.property("n").unwrap().clone()).collect();
    assert_eq!(numbers, (0..2_500).map(Value::Int32).collect::<Vec<_>>());
    assert!(all.iter().all(|entity| entity.property("m").is_none()));
    let filter = Filter::compare("n", Compare::Ge, 2_400);
    let passing = flights.as_of(before).unwrap().query(Some(filter));
    assert_eq!(passing.map(Result::unwrap).count(), 100);
}

fn account() -> AccountName {
    AccountName::parse(tabulith::embedded::entities::ACCOUNT).unwrap()
}

/// Version by version: what a merge leaves is what some moment of the window shows, and no version
/// more.
#[test]
fn a_merge_keeps_what_the_window_needs_and_nothing_more() {
    let seed = seed::seed_or(5);
    let _replay = Replay::new(seed, "cargo nextest run -p tabulith --test history a_merge_keeps");
    let (rng, window_s) = (&mut Rng::new(seed), 200);
    let place = Place::new();
    let db = place.open(window_s);
    let table = db.table("t").unwrap();
    let mut rows: BTreeMap<String, Vec<(CommitTs, bool)>> = BTreeMap::new();
    let mut looks = 0;
    for step in 1..=1200 {
        place.pass(rng.below(3) as u64);
        let rk = format!("r{:02}", rng.below(40));
        let versions = rows.entry(rk.clone()).or_default();
        match versions.last().is_some_and(|(_, put)| *put) && rng.chance(30) {
            true => versions.push((table.delete("p", &rk, tabulith::If::Any).unwrap(), false)),
            false => versions.push((table.upsert("p", &rk, step.to_string()).unwrap(), true)),
        }
        if rng.chance(3) {
            db.flush().unwrap();
        }
        if step % 150 != 0 {
            continue;
        }
        db.compact().unwrap();
        let floor = CommitTs(db.time().0 - window_s * CommitTs::TICKS_PER_SECOND);
        let mut needed = 2; // The catalogue's.
        for versions in rows.values() {
            let older = versions.partition_point(|(ts, _)| *ts <= floor);
            needed += versions.len() - older;
            // Of what the window's first moment sees, a delete hides nothing any more.
            needed += usize::from(older > 0 && versions[older - 1].1);
        }
        let report = tabulith::verify::check_with(Arc::new(place.disk.clone()), Path::new("db"));
        assert_eq!(report.unwrap().versions, needed as u64, "seed {seed}, step {step}");
        looks += 1;
    }
    counts::tell("history", &[counts::count("looks", looks, 8)]);
}

/// Readers of the partition go by a row's other versions without a look at them, as of any moment:
/// a page has budgets of rows and time, and none of them ends a single move.
#[test]
fn a_row_of_many_versions_costs_its_readers_few_blocks() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let partition = table.partition("p");
    let rng = &mut Rng::new(1);
    table.upsert("p", "b", "beside it").unwrap();
    let mut moments = Vec::new();
    for version in 1..=20_000 {
        let ticket = partition.batch().upsert("a", rng.bytes(100)).commit_async();
        if [1, 7_000, 13_000, 20_000].contains(&version) {
            moments.push(ticket.wait().unwrap());
        }
    }
    place.pass(60);
    for compacts in [false, true] {
        match compacts {
            false => db.flush().unwrap(),
            true => db.compact().unwrap(),
        }
        let asked = |work: &dyn Fn() -> u64| {
            let blocks = || db.stats().cache_hits + db.stats().cache_misses;
            let before = blocks();
            (work(), blocks() - before)
        };
        for at in &moments {
            let past = db.snapshot_at(*at).unwrap();
            let scan = || past.scan_partition::<&str>(&partition, ..).unwrap();
            let ways: [(&str, &dyn Fn() -> u64); 3] = [
                ("up", &|| scan().filter(Result::is_ok).count() as u64),
                ("down", &|| scan().rev().filter(Result::is_ok).count() as u64),
                ("counted", &|| past.count_partition::<&str>(&partition, ..).unwrap()),
            ];
            for (way, work) in ways {
                let (rows, blocks) = asked(work);
                assert_eq!(rows, 2, "{way} at {at}, compacted: {compacts}");
                assert!(blocks <= 8, "{blocks} blocks {way} at {at}, compacted: {compacts}");
            }
        }
    }
}

/// Each with its commit, oldest first; `None` where the row was deleted.
type Versions = Vec<(CommitTs, Option<Vec<u8>>)>;

/// Rows of many versions in memory, in files that overlap and in files that do not, over several
/// blocks each: from either end, to and fro, and counted.
#[test]
fn rows_of_many_versions_read_as_they_were_at_every_moment() {
    let seed = seed::seed_or(11);
    let _replay = Replay::new(seed, "cargo nextest run -p tabulith --test history rows_of_many");
    let rng = &mut Rng::new(seed);
    let place = Place::new();
    let db = place.open(100_000);
    let table = db.table("t").unwrap();
    let partition = table.partition("p");
    let mut rows: BTreeMap<String, Versions> = BTreeMap::new();
    let mut commits = Vec::new();
    for step in 1..=6000 {
        place.pass(1);
        let rk = match rng.below(4) {
            0 => format!("r{:02}", rng.below(30)),
            hot => format!("r{hot}5 hot"),
        };
        let len = rng.below(400);
        let value = (!rng.chance(20)).then(|| rng.bytes(len));
        let batch = match &value {
            Some(value) => partition.batch().upsert(&rk, value),
            None => partition.batch().delete(&rk),
        };
        let ts = batch.commit().unwrap();
        rows.entry(rk).or_default().push((ts, value));
        commits.push(ts);
        match step % 3000 {
            0 => db.compact().unwrap(),
            700 | 2200 => db.flush().unwrap(),
            _ => {}
        }
        if step % 500 != 0 {
            continue;
        }
        place.pass(1);
        for _ in 0..12 {
            let at = *rng.pick(&commits);
            let past = db.snapshot_at(at).unwrap();
            let then = rows.iter().filter_map(|(rk, versions)| {
                let older = versions.partition_point(|(ts, _)| *ts <= at);
                Some((rk.clone().into_bytes(), versions[..older].last()?.1.clone()?))
            });
            let wanted: Vec<(Vec<u8>, Vec<u8>)> = then.collect();
            let scan = || past.scan_partition::<&str>(&partition, ..).unwrap();
            let pair = |row: tabulith::Result<tabulith::ScanRow>| {
                let row = row.unwrap();
                (row.row_key.to_vec(), row.value.to_vec())
            };
            let up: Vec<_> = scan().map(pair).collect();
            let mut down: Vec<_> = scan().rev().map(pair).collect();
            down.reverse();
            assert!(up == wanted && down == wanted, "seed {seed}, step {step}, at {at}");
            let count = past.count_partition::<&str>(&partition, ..).unwrap();
            assert_eq!(count, wanted.len() as u64, "seed {seed}, step {step}, at {at}");
            let mut cursor = past.cursor_partition::<&str>(&partition, ..).unwrap();
            let (mut here, end) = (-1, wanted.len() as isize);
            for _ in 0..100 {
                let goes_up = here < 0 || here < end && rng.chance(55);
                here += if goes_up { 1 } else { -1 };
                let row = if goes_up { cursor.next() } else { cursor.prev() };
                let row = row.unwrap();
                let row = row.map(|row| (row.row_key.to_vec(), row.value().unwrap().to_vec()));
                let want = usize::try_from(here).ok().and_then(|here| wanted.get(here));
                assert_eq!(row.as_ref(), want, "seed {seed}, step {step}, at {at}");
            }
        }
    }
}

#[test]
fn who_says_nothing_of_the_window_leaves_it_as_it_was() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let first = table.upsert("p", "r", "1").unwrap();
    place.pass(60);
    table.upsert("p", "r", "2").unwrap();
    drop((table, db));
    for round in 0..2 {
        let db = place.open_with(Db::builder());
        let table = db.table("t").unwrap();
        table.upsert("p", "another", "3").unwrap();
        db.compact().unwrap();
        assert_eq!(value_at(&db, &table, first, "r").unwrap(), "1", "round {round}");
        assert_eq!(db.history(), Duration::from_secs(3600));
        // A copy keeps it, too.
        let (copy, clock) = (format!("copy-{round}"), Arc::clone(&place.clock));
        db.checkpoint(&copy).unwrap();
        let parts = Db::builder().parts(Arc::new(place.disk.clone()), clock, Arc::new(ByHand));
        assert_eq!(parts.open(&copy).unwrap().history(), db.history());
    }
    let db = place.open(0);
    db.compact().unwrap();
    assert_eq!(db.snapshot_at(first).unwrap_err().kind(), Kind::Invalid);
    drop(db);
    let db = place.open_with(Db::builder());
    let table = db.table("t").unwrap();
    let last = table.upsert("p", "r", "4").unwrap();
    place.pass(1);
    table.upsert("p", "r", "5").unwrap();
    db.compact().unwrap();
    assert!(db.snapshot_at(last).is_err(), "no window came back");
}

//! What was acknowledged stays, also where a fault meets another one or a weaker commit: what is
//! acknowledged beside it, what the next open makes of it, and what a close says of it.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::sync::Arc;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::options::{Advanced, Durability, Options};
use tabulith::vfs::api::Vfs;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::{Profile, SimFs, SyncFailure};
use tabulith::{Db, Result, Table};

const DIR: &str = "db";
const ROWS: u64 = 60;
const VALUE: [u8; 700] = [7; 700];

/// A segment takes some twenty rows.
fn open(disk: &(impl Vfs + Clone + 'static)) -> Result<(Db, Table)> {
    let advanced = Advanced {
        memtable_bytes: Some(256 << 10),
        wal_segment_bytes: 16 << 10,
        ..Advanced::default()
    };
    let options = Options { advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let db = Db::builder().options(options).parts(Arc::new(disk.clone()), clock, Arc::new(ByHand));
    let db = db.open(DIR)?;
    let table = db.table("rows")?;
    Ok((db, table))
}

/// Puts rows until one is refused; those that were not.
fn fill(table: &Table, mut put: impl FnMut(&Table, u64) -> bool) -> BTreeSet<u64> {
    (0..ROWS).take_while(|row| put(table, *row)).collect()
}

fn put(table: &Table, row: u64) -> bool {
    table.upsert("p", row.to_be_bytes(), VALUE).is_ok()
}

fn lost(table: &Table, rows: &BTreeSet<u64>) -> Vec<u64> {
    let is_lost = |row: &u64| table.get("p", row.to_be_bytes()).unwrap().is_none();
    rows.iter().copied().filter(is_lost).collect()
}

/// Every write of the log fails once; then whatever seals a memtable must not name a segment that
/// was never begun. A segment is written under the name that it was made with.
#[test]
fn no_manifest_names_a_segment_that_could_not_be_begun() {
    for skip in 0..160 {
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let (db, table) = open(&disk).unwrap();
        let mut ingest = db.table("other").unwrap().ingest().unwrap();
        ingest.add("p", "r", "v").unwrap();
        disk.add(Rule::fail(Call::Write).named("*.spare").skip(skip));
        let rows = fill(&table, put);
        disk.clear();
        let _ = ingest.finish(); // It may be refused, and seals the memtable.
        drop(table);
        let _ = db.close();
        drop(db);
        let (_db, table) = open(&disk).unwrap_or_else(|error| panic!("write {skip}: {error}"));
        assert_eq!(lost(&table, &rows), [0; 0], "write {skip}");
    }
}

/// The same where commits are visible before they are written, so that a flush has nothing to wait
/// for.
#[test]
fn a_flush_after_the_log_failed_leaves_a_database_that_opens() {
    for skip in 0..60 {
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let (db, table) = open(&disk).unwrap();
        disk.add(Rule::fail(Call::Write).named("*.spare").skip(skip));
        fill(&table, |table, row| {
            let batch = table.partition("p").batch().upsert(row.to_be_bytes(), VALUE);
            batch.durability(Durability::Buffered).commit().is_ok() && db.step().is_ok()
        });
        disk.clear();
        let _ = db.flush();
        drop(table);
        let _ = db.close();
        drop(db);
        open(&disk).unwrap_or_else(|error| panic!("write {skip}: {error}"));
    }
}

/// Without syncs the log goes on in a segment of which nothing is durable, and a flush has the log
/// begin there. Whatever a power loss takes of it, what was flushed stays, then commits in order.
#[test]
fn a_flush_names_a_segment_that_no_sync_has_reached() {
    const FLUSHED: u64 = 30;
    let disk = SimFs::new();
    let (db, table) = open(&disk).unwrap();
    let put = |row: u64| {
        let batch = table.partition("p").batch().upsert(row.to_be_bytes(), VALUE);
        batch.durability(Durability::Flushed).commit().unwrap();
    };
    (0..FLUSHED).for_each(put);
    db.flush().unwrap();
    (FLUSHED..FLUSHED + 5).for_each(put);
    let mut kept = BTreeSet::new();
    for (n, state) in disk.crash_states(Profile::Hostile, 300, 11).enumerate() {
        let opened = open(&SimFs::after_crash(&state));
        let (_db, table) = opened.unwrap_or_else(|error| panic!("state {n}, {state:?}: {error}"));
        let is_there = |row: &u64| table.get("p", row.to_be_bytes()).unwrap().is_some();
        let rows = (0..ROWS).filter(is_there).count() as u64;
        assert_eq!(lost(&table, &(0..rows).collect()), [0; 0], "state {n}, {state:?}");
        kept.insert(rows);
    }
    assert_eq!(kept.first(), Some(&FLUSHED), "the rest may go");
    assert!(kept.len() > 3, "{kept:?}");
}

/// A sync of the manifest fails as some file systems fail it: what was not written counts as
/// written. The process dies, and the power goes at any moment of the next open.
#[test]
fn an_open_trusts_no_edit_whose_sync_failed_in_the_process_before() {
    for skip in 0.. {
        let sim = SimFs::new();
        let (db, table) = open(&sim).unwrap();
        let rows = fill(&table, put);
        sim.fail_sync(skip, SyncFailure::MarksClean);
        if db.flush().is_ok() {
            assert!(skip > 1, "a flush syncs the file and the manifest");
            break;
        }
        sim.kill();
        drop((db, table));
        let trace = sim.record();
        let (_db, table) = open(&sim).unwrap();
        assert_eq!(lost(&table, &rows), [0; 0], "sync {skip}");
        for effect in 0..trace.len() {
            for state in trace.at(effect).unwrap().crash_states(Profile::Ordered, 4, 1) {
                let place = || format!("sync {skip}, then power at effect {effect}");
                let opened = open(&SimFs::after_crash(&state));
                let (_db, table) = opened.unwrap_or_else(|error| panic!("{}: {error}", place()));
                assert_eq!(lost(&table, &rows), [0; 0], "{}", place());
            }
        }
    }
}

/// Nothing is to be done, because a commit that is not safe yet has done it: whoever is told so has
/// asked for more than that.
#[test]
fn what_finds_nothing_to_do_is_as_safe_as_it_asks_for() {
    type Act = fn(&Table) -> bool;
    let delete: Act = |table| table.partition("p").batch().delete("r").commit().is_ok();
    let drop_partition: Act = |table| table.partition("p").drop_rows().is_ok();
    let truncate: Act = |table| table.truncate().is_ok();
    for (name, act) in [("delete", delete), ("drop", drop_partition), ("truncate", truncate)] {
        for weak in [Durability::Buffered, Durability::Flushed] {
            let sim = SimFs::new();
            let (_db, table) = open(&sim).unwrap();
            table.upsert("p", "r", "v").unwrap();
            table.partition("p").batch().delete("r").durability(weak).commit().unwrap();
            assert!(act(&table), "{name}");
            for state in sim.crash_states(Profile::Ordered, 50, 1) {
                let (_db, table) = open(&SimFs::after_crash(&state)).unwrap();
                assert_eq!(table.get("p", "r").unwrap(), None, "{name} after {weak:?}");
            }
        }
    }
}

/// Where all commits ask for the same, what finds nothing to do writes nothing.
#[test]
fn what_finds_nothing_to_do_behind_equals_writes_nothing() {
    for durability in [Durability::Buffered, Durability::Flushed, Durability::Synced] {
        let (db, table) = open(&SimFs::new()).unwrap();
        let batch = || table.partition("p").batch().durability(durability);
        batch().upsert("r", "v").commit().unwrap();
        let deleted = batch().delete("r").commit().unwrap();
        while durability == Durability::Buffered && db.step().unwrap() {}
        assert_eq!(batch().delete("r").commit().unwrap(), deleted, "{durability:?}");
    }
}

#[test]
fn a_close_that_lost_commits_says_so_however_often_it_is_asked() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (db, table) = open(&disk).unwrap();
    let batch = table.partition("p").batch().upsert("r", "v");
    batch.durability(Durability::Buffered).commit().unwrap();
    disk.add(Rule::fail(Call::Write).named("*.spare"));
    let first = db.close().unwrap_err();
    let again = db.clone().close().unwrap_err();
    assert_eq!(again.to_string(), first.to_string());
    let (db, _table) = open(&SimFs::new()).unwrap();
    db.close().unwrap();
    db.close().unwrap();
}

//! Rows that expire by their own time or by their table's: gone at once for every read and
//! condition, without letting an older version show, and gone from the disk after one settle.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tabulith::env::clock::{Clock, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::table::error::TableError;
use tabulith::table::write::Write;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{
    Advanced, Bytes, CommitTs, Db, Entities, Entity, Filter, If, Kind, Op, Options, Table,
};

const START_TICKS: u64 = 17_672_256_000_000_000;

struct Place {
    disk: SimFs,
    clock: Arc<ManualClock>,
}

impl Place {
    fn new() -> Place {
        Place { disk: SimFs::new(), clock: Arc::new(ManualClock::at(START_TICKS)) }
    }

    /// The same for the process that runs now, which a kill ends.
    fn process(&self) -> Place {
        Place { disk: self.disk.process(), clock: Arc::clone(&self.clock) }
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
        let options = Options { history: Some(history), advanced, ..Options::default() };
        let builder = Db::builder().options(options);
        builder.parts(Arc::new(self.disk.clone()), clock, Arc::new(ByHand)).open("db").unwrap()
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// A wall clock that is a second further whenever it is asked.
#[derive(Debug)]
struct Hasty(ManualClock);

impl Clock for Hasty {
    fn wall_ticks(&self) -> u64 {
        self.0.advance(Duration::from_secs(1));
        self.0.wall_ticks()
    }

    fn steady(&self) -> Duration {
        self.0.steady()
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }
}

/// A wall clock before which something is done, once, when it is asked.
struct Interrupted {
    clock: ManualClock,
    work: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Debug for Interrupted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.clock.fmt(f)
    }
}

impl Clock for Interrupted {
    fn wall_ticks(&self) -> u64 {
        let work = self.work.lock().unwrap().take();
        if let Some(work) = work {
            work();
        }
        self.clock.wall_ticks()
    }

    fn steady(&self) -> Duration {
        self.clock.steady()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
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

/// When the rows of a table expire, as every kind of read says it.
fn told(table: &Table) -> Vec<Option<CommitTs>> {
    let rows: Vec<_> = table.scan::<&str, &str>(..).unwrap().map(Result::unwrap).collect();
    let told: Vec<_> = rows.iter().map(|row| row.expires).collect();
    let mut back: Vec<_> =
        table.scan::<&str, &str>(..).unwrap().rev().map(|row| row.unwrap().expires).collect();
    back.reverse();
    assert_eq!(back, told);
    let keys: Vec<_> = rows.iter().map(|row| (&row.partition_key, &row.row_key)).collect();
    let single = |(pk, rk): &(&Bytes, &Bytes)| table.get(pk, rk).unwrap().unwrap().expires;
    assert_eq!(keys.iter().map(single).collect::<Vec<_>>(), told);
    let many = table.get_many(&keys).unwrap().into_iter();
    assert_eq!(many.map(|row| row.unwrap().expires).collect::<Vec<_>>(), told);
    let mut cursor = table.cursor::<&str, &str>(..).unwrap();
    let mut seen = Vec::new();
    while let Some(row) = cursor.next().unwrap() {
        seen.push(row.expires().unwrap());
    }
    assert_eq!(seen, told);
    let mut seen_back = Vec::new();
    while let Some(row) = cursor.prev().unwrap() {
        seen_back.push(row.expires().unwrap());
    }
    seen_back.reverse();
    assert_eq!(seen_back, told);
    told
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
        let ends = [in_seconds(&db, 10), in_seconds(&db, 20)];
        put_until(&table, "a", &large, ends[0]);
        put_until(&table, "b", "b", ends[1]);
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
        assert_eq!(told(&table), [Some(ends[0]), Some(ends[1]), None], "stage {stage}");
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

/// Rows are reclaimed by a time, and no commit may be older than that, whatever the clock says
/// since.
#[test]
fn what_is_written_after_the_clock_went_back_has_not_outlived_its_table() {
    for stage in ["open", "closed", "killed"] {
        let place = Place::new();
        let mut db = place.process().open(0);
        let mut table = db.table("t").unwrap();
        table.set_ttl(Some(Duration::from_secs(60))).unwrap();
        table.upsert("p", "old", "x").unwrap();
        place.pass(600);
        db.settle().unwrap();
        db.compact().unwrap();
        match stage {
            "open" => {}
            "closed" => db.close().unwrap(),
            _ => place.disk.kill(),
        }
        place.clock.set_wall(START_TICKS);
        if stage != "open" {
            db = place.process().open(0);
            table = db.table("t").unwrap();
        }
        table.upsert("p", "a", "x").unwrap();
        assert!(table.get("p", "a").unwrap().is_some(), "{stage}");
        assert_eq!(row_keys(&table), ["a"], "{stage}");
        db.compact().unwrap();
        assert_eq!(row_keys(&table), ["a"], "{stage}: by a merge");
        table.set_ttl(None).unwrap();
        table.upsert("p", "b", "x").unwrap();
        db.compact().unwrap();
        assert_eq!(row_keys(&table), ["a", "b"], "{stage}: without a time to live");
    }
}

#[test]
fn rows_read_together_are_there_by_one_time() {
    let clock = Arc::new(Hasty(ManualClock::at(START_TICKS)));
    let parts = (Arc::new(SimFs::new()), Arc::clone(&clock), Arc::new(ByHand));
    let db = Db::builder().parts(parts.0, parts.1, parts.2).open("db").unwrap();
    let table = db.table("t").unwrap();
    let mut both_states = [false; 2];
    for delay_s in 0..=10 {
        table.set_ttl(Some(Duration::from_secs(1000))).unwrap();
        let outlives = table.upsert("p", "a", "x").unwrap().after(Duration::from_secs(1000));
        // Gone by the same time as the other.
        put_until(&table, "b", "y", outlives.after(Duration::from_nanos(100)));
        clock.0.set_wall(outlives.0 - (10 - delay_s) * 10_000_000 - 5_000_000);
        let rows = table.get_many(&[("p", "a"), ("p", "b")]).unwrap();
        assert_eq!(rows[0].is_some(), rows[1].is_some(), "after {delay_s} s");
        both_states[usize::from(rows[0].is_some())] = true;
        clock.0.set_wall(outlives.0 + 10_000_000_000);
    }
    assert_eq!(both_states, [true; 2]);
}

/// A reader waits for the disk while others renew what it looks for, and the old time goes by.
#[test]
fn what_is_renewed_before_it_expires_is_there_for_who_waits_for_the_disk() {
    for by_table in [false, true] {
        for replaced in [false, true] {
            let disk = FaultFs::new(Arc::new(SimFs::new()));
            let clock = Arc::new(ManualClock::at(START_TICKS));
            let advanced = Advanced { block_cache_bytes: Some(0), ..Advanced::default() };
            let builder = Db::builder().options(Options { advanced, ..Options::default() });
            let builder = builder.parts(Arc::new(disk.clone()), clock.clone(), Arc::new(ByHand));
            let db = builder.open("db").unwrap();
            let table = db.table("t").unwrap();
            if by_table {
                table.set_ttl(Some(Duration::from_secs(10))).unwrap();
            }
            let put = move |db: &Db, table: &Table, rk: &str| {
                let batch = table.partition("p").batch().delete("a");
                let batch = match by_table {
                    true => batch.upsert(rk, "x"),
                    false => batch.upsert_until(rk, "x", in_seconds(db, 10)),
                };
                batch.commit().unwrap();
            };
            put(&db, &table, "a");
            db.flush().unwrap();
            let (others, theirs) = (db.clone(), table.clone());
            disk.interrupt(Rule::fail(Call::Read).named("*.sst"), move || {
                clock.advance(Duration::from_secs(6));
                put(&others, &theirs, if replaced { "b" } else { "a" });
                clock.advance(Duration::from_secs(6));
            });
            let what = format!("by the table's: {by_table}, by another: {replaced}");
            match replaced {
                false => assert!(table.get("p", "a").unwrap().is_some(), "{what}"),
                true => {
                    let rows = table.get_many(&[("p", "a"), ("p", "b")]).unwrap();
                    assert_eq!(rows.iter().flatten().count(), 1, "{what}");
                }
            }
            assert!(db.time() > CommitTs(START_TICKS).after(Duration::from_secs(11)), "{what}");
        }
    }
}

#[test]
fn a_moment_shows_what_was_renewed_before_its_time() {
    type Read = fn(&Db, &Table) -> bool;
    let snapshot: Read = |db, table| db.snapshot().unwrap().get(table, "p", "a").unwrap().is_some();
    let scan: Read = |_, table| !row_keys(table).is_empty();
    let transact: Read =
        |_, table| table.partition("p").transact(|tx| Ok(tx.get("a")?.is_some())).unwrap();
    for (n, read) in [snapshot, scan, transact].into_iter().enumerate() {
        let (clock, work) = (ManualClock::at(START_TICKS), Mutex::default());
        let clock = Arc::new(Interrupted { clock, work });
        let vfs = Arc::new(SimFs::new());
        let builder = Db::builder().parts(vfs, clock.clone(), Arc::new(ByHand));
        let db = builder.open("db").unwrap();
        let table = db.table("t").unwrap();
        put_until(&table, "a", "x", in_seconds(&db, 10));
        let (others, theirs, turned) = (db.clone(), table.clone(), Arc::clone(&clock));
        *clock.work.lock().unwrap() = Some(Box::new(move || {
            put_until(&theirs, "a", "y", in_seconds(&others, 20));
            turned.clock.advance(Duration::from_secs(11));
        }));
        assert!(read(&db, &table), "read {n}");
        assert!(clock.work.lock().unwrap().is_none(), "read {n}");
    }
}

/// A clock that is set back shows expired rows again, and so does the past: what was told to remove
/// all rows of a range removes those too.
#[test]
fn what_removes_all_rows_removes_expired_ones_for_good() {
    type Remove = fn(&Table) -> CommitTs;
    let truncate: Remove = |table| table.truncate().unwrap();
    let drop_partition: Remove = |table| table.drop_partition("p").unwrap();
    let range: Remove =
        |table| table.partition("p").batch().delete_range("a".."b").commit().unwrap();
    for remove in [truncate, drop_partition, range] {
        for own in [true, false] {
            let place = Place::new();
            let db = place.open(3600);
            let table = db.table("t").unwrap();
            if own {
                put_until(&table, "a", "x", in_seconds(&db, 10));
            } else {
                table.set_ttl(Some(Duration::from_secs(10))).unwrap();
                table.upsert("p", "a", "x").unwrap();
            }
            place.pass(11);
            assert!(table.get("p", "a").unwrap().is_none());
            let removed = remove(&table);
            assert!(table.get_at(removed, "p", "a").unwrap().is_none());
            place.clock.set_wall(START_TICKS);
            assert!(table.get("p", "a").unwrap().is_none());
        }
    }
}

/// One who opens a database for each command does so more than once a second.
#[test]
fn openings_behind_a_close_do_not_move_the_time() {
    let place = Place::new();
    let db = place.open(0);
    let table = db.table("t").unwrap();
    put_until(&table, "a", "x", in_seconds(&db, 60));
    drop(table);
    db.close().unwrap();
    for n in 0..70 {
        place.clock.advance(Duration::from_millis(10));
        let db = place.open(0);
        if n % 2 == 0 {
            db.table("t").unwrap().upsert("p", "b", "y").unwrap();
        }
        db.close().unwrap();
    }
    let db = place.open(0);
    assert!(db.time().0 - place.clock.wall_ticks() < CommitTs::TICKS_PER_SECOND);
    assert_eq!(row_keys(&db.table("t").unwrap()), ["a", "b"]);
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

/// Has so much time pass whenever a merge makes a file.
fn pass_at_each_file(disk: &FaultFs, clock: &Arc<ManualClock>, seconds: u64) {
    let (here, turned) = (disk.clone(), Arc::clone(clock));
    disk.interrupt(Rule::fail(Call::Create).named("*.sst"), move || {
        turned.advance(Duration::from_secs(seconds));
        pass_at_each_file(&here, &turned, seconds);
    });
}

#[test]
fn who_waits_for_space_is_not_kept_by_what_goes_by_meanwhile() {
    const ROWS: u64 = 300;
    for by_table in [false, true] {
        for whole in [false, true] {
            let disk = FaultFs::new(Arc::new(SimFs::new()));
            let clock = Arc::new(ManualClock::at(START_TICKS));
            let (vfs, hands) = (Arc::new(disk.clone()), Arc::new(ByHand));
            let db = Db::builder().parts(vfs, clock.clone(), hands).open("db").unwrap();
            let table = db.table("t").unwrap();
            for n in 0..ROWS {
                let key = format!("{n:03}");
                if by_table {
                    table.upsert("p", key, "v").unwrap();
                } else {
                    put_until(&table, &key, "v", in_seconds(&db, 600));
                }
                clock.advance(Duration::from_secs(1));
            }
            if by_table {
                table.set_ttl(Some(Duration::from_secs(600))).unwrap();
            }
            db.table("other").unwrap().upsert("p", "stays", "x").unwrap();
            db.compact().unwrap();
            clock.advance(Duration::from_secs(320)); // The first 20 of them have gone by.
            pass_at_each_file(&disk, &clock, 10);
            let before = db.stats();
            if whole {
                db.compact().unwrap()
            } else {
                db.settle().unwrap()
            }
            let jobs = db.stats().compactions - before.compactions;
            assert!((1..=2).contains(&jobs), "{by_table} {whole}: {jobs} merges");
            assert!(!row_keys(&table).is_empty(), "others have not");
        }
    }
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

#[test]
fn rows_that_outlived_their_table_are_gone_for_every_read_and_condition_and_stay_so() {
    let place = Place::new();
    for stage in 0..3 {
        let db = place.open(0);
        let table = db.table(&format!("t{stage}")).unwrap();
        table.upsert("p", "old", "x").unwrap();
        place.pass(100);
        table.upsert("p", "new", "x").unwrap();
        let held = db.snapshot().unwrap();
        let minute = Some(Duration::from_secs(60));
        let table = match stage {
            0 => table,
            1 => {
                db.flush().unwrap();
                table
            }
            _ => {
                table.set_ttl(minute).unwrap();
                db.close().unwrap();
                place.open(0).table("t2").unwrap()
            }
        };
        table.set_ttl(minute).unwrap();
        assert_eq!(table.ttl(), minute);
        let wanted = ["new"];
        assert_eq!(row_keys(&table), wanted, "stage {stage}");
        assert_eq!(table.count().unwrap(), 1);
        let rows = table.scan::<&str, &str>(..).unwrap().rev();
        assert_eq!(rows.map(|row| row.unwrap().row_key).collect::<Vec<_>>(), wanted);
        assert!(table.get("p", "old").unwrap().is_none());
        let both = table.get_many(&[("p", "old"), ("p", "new")]).unwrap();
        assert!(both[0].is_none() && both[1].is_some());
        let mut cursor = table.partition("p").cursor::<&str>(..).unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().row_key, b"new");
        assert!(cursor.next().unwrap().is_none());
        let refused = table.replace("p", "old", "z", If::Present).unwrap_err();
        assert_eq!(refused.kind(), Kind::NotFound);
        if stage < 2 {
            assert!(held.get(&table, "p", "old").unwrap().is_some(), "a snapshot is fixed");
        }
        // Neither a longer life nor an endless one brings it back.
        table.set_ttl(Some(Duration::from_secs(3600))).unwrap();
        assert_eq!(row_keys(&table), wanted);
        table.set_ttl(None).unwrap();
        place.pass(36_000);
        assert_eq!((row_keys(&table), table.ttl()), (vec!["new".to_owned()], None));
        table.insert("p", "old", "anew").unwrap();
        assert_eq!(row_keys(&table), ["new", "old"]);
    }
}

/// A table of many rows, among which are large ones, and another table of one.
fn fill(db: &Db, table: &Table) -> u64 {
    // Noise, so that they fill files.
    let mut noise = 1u64;
    let mut value = |bytes: usize| -> Vec<u8> {
        let mut next = || {
            noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (noise >> 56) as u8
        };
        (0..bytes).map(|_| next()).collect()
    };
    for n in 0..4000 {
        let value = value(if n % 100 == 0 { 6000 } else { 300 });
        table.upsert("p", format!("row-{n:05}"), value).unwrap();
    }
    db.table("other").unwrap().upsert("p", "stays", "x").unwrap();
    db.flush().unwrap();
    db.settle().unwrap();
    bytes_on_disk(db)
}

#[test]
fn a_table_that_outlived_itself_leaves_the_disk_by_one_settle_mostly_unread() {
    let place = Place::new();
    let db = place.open(0);
    let table = db.table("t").unwrap();
    let before = fill(&db, &table);
    table.set_ttl(Some(Duration::from_secs(3600))).unwrap();
    place.pass(3500);
    db.settle().unwrap();
    assert_eq!(row_keys(&table).len(), 4000, "nothing is due");
    assert!(bytes_on_disk(&db) >= before / 2);
    let read = db.stats().compaction_bytes_read;
    place.pass(200);
    db.settle().unwrap();
    let stats = db.stats();
    assert!(stats.dropped_files > 0, "whole files go");
    assert!(stats.compaction_bytes_read - read < before / 4, "unread");
    assert!(bytes_on_disk(&db) * 20 < before, "{} of {before} bytes stay", bytes_on_disk(&db));
    assert_eq!((stats.blob_files, row_keys(&table).len()), (0, 0));
    assert_eq!(row_keys(&db.table("other").unwrap()), ["stays"]);
}

#[test]
fn space_of_outlived_rows_waits_for_snapshots_and_comes_back_while_others_live() {
    let place = Place::new();
    let db = place.open(0);
    let table = db.table("t").unwrap();
    let before = fill(&db, &table);
    let held = db.snapshot().unwrap();
    table.set_ttl(Some(Duration::from_secs(60))).unwrap();
    place.pass(120);
    for n in (0..4000).step_by(40) {
        table.upsert("p", format!("row-{n:05}"), "young").unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
    assert_eq!(held.scan::<&str, &str>(&table, ..).unwrap().count(), 4000);
    drop(held);
    db.settle().unwrap();
    let after = bytes_on_disk(&db);
    assert!(after * 20 < before, "{after} of {before} bytes stay");
    assert_eq!(row_keys(&table).len(), 100);
    let compactions = db.stats().compactions;
    db.settle().unwrap();
    assert_eq!(db.stats().compactions, compactions, "nothing is left to do");
}

#[test]
fn a_moment_of_the_past_goes_by_the_time_to_live_of_then() {
    let place = Place::new();
    let db = place.open(3600);
    let table = db.table("t").unwrap();
    let first = table.upsert("p", "a", "x").unwrap();
    place.pass(100);
    let second = table.upsert("p", "b", "y").unwrap();
    table.set_ttl(Some(Duration::from_secs(60))).unwrap();
    place.pass(100);
    let third = table.upsert("p", "c", "z").unwrap();
    db.compact().unwrap();
    assert_eq!(row_keys(&table), ["c"]);
    assert!(table.get_at(second, "p", "a").unwrap().is_some(), "there was none yet");
    assert!(table.get_at(third, "p", "b").unwrap().is_none());
    place.pass(7200);
    table.upsert("p", "d", "z").unwrap();
    db.compact().unwrap();
    assert_eq!(table.get_at(first, "p", "a").unwrap_err().kind(), Kind::Invalid);
    assert_eq!(row_keys(&table), ["d"]);
}

#[test]
fn an_entity_is_gone_when_its_own_time_or_its_tables_is_over() {
    let place = Place::new();
    let db = place.open(0);
    let table = db.entities("sessions").unwrap();
    let entity = |rk: &str, n: i32| Entity::new("p", rk).with("N", n);
    let minute = in_seconds(&db, 60);
    table.upsert(entity("a", 1)).unwrap();
    table.upsert_until(entity("a", 2), minute).unwrap();
    table.insert_until(entity("b", 1), minute).unwrap();
    table.insert_until(entity("c", 1), minute).unwrap();
    let exists = table.insert_until(entity("b", 3), minute).unwrap_err();
    assert!(matches!(exists, TableError::EntityExists));
    // A group with each its own end; a merge that says none leaves an entity that stays.
    let later = in_seconds(&db, 600);
    let writes = vec![
        Write::InsertOrMerge(Entity::new("p", "c").with("M", 5)),
        Write::InsertOrReplace(entity("d", 1)).until(later),
        Write::Insert(entity("e", 1)).until(minute).until(later),
    ];
    let written = table.transact(writes).unwrap();
    let told: Vec<_> = written.iter().map(|one| one.entity.as_ref().unwrap().expires).collect();
    assert_eq!(told, [None, Some(later), Some(minute)]);
    let is = |key: &str, text: &str| Filter::compare(key, Op::Eq, text);
    let point = Filter::And(vec![is("PartitionKey", "p"), is("RowKey", "b")]);
    let found: Vec<_> = table.query(Some(point)).map(Result::unwrap).collect();
    assert_eq!((found.len(), found[0].expires), (1, Some(minute)));
    let told: Vec<_> = table.query(None).map(|entity| entity.unwrap().expires).collect();
    assert_eq!(told, [Some(minute), Some(minute), None, Some(later), Some(minute)]);
    assert_eq!(table.count().unwrap(), 5);
    place.pass(61);
    let left = |table: &Entities| -> Vec<String> {
        table.query(None).map(|entity| entity.unwrap().row_key).collect()
    };
    assert_eq!(left(&table), ["c", "d"]);
    assert_eq!(table.count_partition("p").unwrap(), 2);
    assert!(table.get("p", "a").unwrap().is_none(), "not even the older one");
    let gone = table.merge(entity("a", 4), tabulith::table::etag::IfMatch::Any).unwrap_err();
    assert!(matches!(gone, TableError::EntityNotFound));
    table.insert(entity("a", 5)).unwrap();
    // The table's own time: of what is there already, too.
    assert_eq!(table.ttl().unwrap(), None);
    table.set_ttl(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(left(&table), ["a"]);
    db.close().unwrap();
    let db = place.open(0);
    let table = db.entities("Sessions").unwrap();
    assert_eq!(table.ttl().unwrap(), Some(Duration::from_secs(30)));
    place.pass(31);
    assert!(left(&table).is_empty());
}

#[test]
fn a_time_to_live_that_cannot_be_is_refused() {
    let place = Place::new();
    let db = place.open(0);
    let table = db.table("t").unwrap();
    let zero = table.set_ttl(Some(Duration::ZERO)).unwrap_err();
    assert_eq!(zero.kind(), Kind::Invalid);
    db.drop_table("t").unwrap();
    assert_eq!(table.set_ttl(None).unwrap_err().kind(), Kind::NotFound);
}

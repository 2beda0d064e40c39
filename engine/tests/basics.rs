//! What a user of the embedded engine relies on first, over a real folder.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::disallowed_methods, reason = "looks at the folder from outside")]

use tabulith::If;
use tabulith::db::Db;
use tabulith::error::Kind;
use tabulith::options::{Advanced, Durability, Options};

fn small() -> Options {
    let advanced = Advanced {
        memtable_bytes: Some(64 << 10),
        wal_segment_bytes: 256 << 10,
        file_bytes: 32 << 10,
        level_base_bytes: 128 << 10,
        block_bytes: 1 << 10,
        ..Advanced::default()
    };
    Options { durability: Durability::Flushed, advanced, ..Options::default() }
}

fn value(i: u32) -> Vec<u8> {
    format!("value {i} {}", "x".repeat(i as usize % 90)).into_bytes()
}

#[test]
fn rows_survive_flush_compaction_and_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().options(small()).open(dir.path()).unwrap();
    let table = db.table("orders").unwrap();
    for i in 0..5000u32 {
        let pk = format!("tenant-{:02}", i % 20);
        table.upsert(pk, i.to_be_bytes(), value(i)).unwrap();
    }
    for i in (0..5000u32).step_by(3) {
        table.delete(format!("tenant-{:02}", i % 20), i.to_be_bytes(), If::Present).unwrap();
    }
    let check = |table: &tabulith::Table| {
        for i in 0..5000u32 {
            let row = table.get(format!("tenant-{:02}", i % 20), i.to_be_bytes()).unwrap();
            let want = (i % 3 != 0).then(|| value(i));
            assert_eq!(row.map(|row| row.value.to_vec()), want, "row {i}");
        }
        let count = table.scan::<&str, &str>(..).unwrap().map(Result::unwrap).count();
        assert_eq!(count, 5000 - 1667);
        let back = table.scan::<&str, &str>(..).unwrap().rev().map(Result::unwrap).count();
        assert_eq!(back, count);
    };
    check(&table);
    db.compact().unwrap();
    check(&table);
    let stats = db.stats();
    assert!(stats.flushes > 0 && stats.compactions > 0, "{stats:?}");
    db.close().unwrap();
    drop((table, db));
    let db = Db::open(dir.path()).unwrap();
    check(&db.table("orders").unwrap());
}

#[test]
fn a_batch_is_all_or_nothing_and_says_what_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    let ts = table.insert("p", "a", "1").unwrap();
    let refused = table.partition("p").batch().upsert("b", "2").insert("a", "3").commit();
    assert_eq!(refused.unwrap_err().kind(), Kind::Exists);
    assert_eq!(table.get("p", "b").unwrap(), None);
    let newer = table.replace("p", "a", "4", If::Match(ts)).unwrap();
    let error = table.replace("p", "a", "5", If::Match(ts)).unwrap_err();
    assert_eq!((error.kind(), error.current()), (Kind::Changed, Some(newer)));
    assert_eq!(table.delete("p", "zz", If::Present).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn a_condition_that_fails_names_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let table = Db::open(dir.path()).unwrap().table("t").unwrap();
    let ts = table.insert("p", "b", "1").unwrap();
    let batch = || table.partition("p").batch().upsert("a", "").upsert("b", "2");
    let refused = |batch: tabulith::Batch| batch.commit().unwrap_err().message().to_owned();
    assert_eq!(refused(batch().insert("b", "3")), "row 'b' exists");
    let changed = refused(batch().put_if("b", "3", If::Match(ts)));
    assert_eq!(changed, "row 'b' has changed since it was read");
    assert_eq!(refused(batch().delete_if([b'c', 0], If::Present)), r"row 'c\x00' does not exist");
    let long = refused(batch().delete_if([b'x'; 1000], If::Present));
    assert_eq!(long, format!("row '{}…' does not exist", "x".repeat(64)));
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().options(small()).open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    for i in 0..100u32 {
        table.upsert("p", i.to_be_bytes(), "old").unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    for i in 0..100u32 {
        table.upsert("p", i.to_be_bytes(), "new").unwrap();
        table.upsert("q", i.to_be_bytes(), "new").unwrap();
    }
    db.compact().unwrap();
    let rows: Vec<_> =
        snapshot.scan::<&str, &str>(&table, ..).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 100);
    assert!(rows.iter().all(|row| row.value == "old"));
    assert_eq!(table.get("p", 7u32.to_be_bytes()).unwrap().unwrap().value, "new");
}

#[test]
fn both_ends_of_a_scan_meet_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    for i in 0..10u8 {
        table.upsert("p", [i], [i]).unwrap();
    }
    let partition = table.partition("p");
    let mut scan = partition.scan([2u8]..=[8u8]).unwrap();
    let mut seen = Vec::new();
    for step in 0.. {
        let row = if step % 3 == 0 { scan.next_back() } else { scan.next() };
        let Some(row) = row else { break };
        seen.push(row.unwrap().row_key[0]);
    }
    assert_eq!(seen, [8, 2, 3, 7, 4, 5, 6]);
    assert!(scan.next().is_none() && scan.next_back().is_none());
}

#[test]
fn a_dropped_table_is_gone_at_once_and_its_space_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().options(small()).open(dir.path()).unwrap();
    let (kept, dropped) = (db.table("kept").unwrap(), db.table("dropped").unwrap());
    kept.upsert("p", "r", "v").unwrap();
    for i in 0..3000u32 {
        dropped.upsert("p", i.to_be_bytes(), value(i)).unwrap();
    }
    assert!(db.drop_table("dropped").unwrap() && !db.drop_table("dropped").unwrap());
    let gone = dropped.get("p", 1u32.to_be_bytes()).unwrap_err();
    assert_eq!((gone.kind(), gone.message()), (Kind::NotFound, "table 2 does not exist"));
    assert_eq!(dropped.upsert("p", "r", "v").unwrap_err().kind(), Kind::NotFound);
    db.compact().unwrap();
    let bytes: u64 = db.stats().levels.iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes < 4096, "{bytes} bytes are left");
    let again = db.table("dropped").unwrap();
    assert_eq!(again.scan::<&str, &str>(..).unwrap().count(), 0);
    assert_eq!(kept.get("p", "r").unwrap().unwrap().value, "v");
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().options(small()).open(dir.path().join("a")).unwrap();
    let table = db.table("t").unwrap();
    for i in 0..2000u32 {
        table.upsert("p", i.to_be_bytes(), value(i)).unwrap();
    }
    db.checkpoint(dir.path().join("b")).unwrap();
    table.upsert("p", "later", "v").unwrap();
    let copy = Db::open(dir.path().join("b")).unwrap();
    let table = copy.table("t").unwrap();
    assert_eq!(table.scan::<&str, &str>(..).unwrap().count(), 2000);
    table.upsert("p", "own", "v").unwrap();
    assert_eq!(db.table("t").unwrap().get("p", "own").unwrap(), None);
    let error = db.checkpoint(dir.path().join("b")).unwrap_err();
    assert_eq!(error.kind(), Kind::Exists);
}

#[test]
fn one_process_writes_and_others_may_read() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    table.upsert("p", "r", "v").unwrap();
    assert_eq!(Db::open(dir.path()).unwrap_err().kind(), Kind::Locked);
    let reader = Db::builder().read_only().open(dir.path()).unwrap();
    let seen = reader.table("t").unwrap();
    assert_eq!(seen.get("p", "r").unwrap().unwrap().value, "v");
    assert_eq!(seen.upsert("p", "r", "v").unwrap_err().kind(), Kind::ReadOnly);
    db.close().unwrap();
    assert_eq!(table.upsert("p", "r", "v").unwrap_err().kind(), Kind::Closed);
    Db::open(dir.path()).unwrap();
}

#[test]
fn a_folder_that_is_not_ours_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let error = Db::open(dir.path()).unwrap_err();
    assert!(matches!(error.kind(), Kind::Corrupt | Kind::Invalid), "{error:?}");
    let error = Db::builder().must_exist().open(dir.path().join("none")).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

#[test]
fn a_batch_may_ask_for_less_than_the_database_promises() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    for (i, less) in [Durability::Buffered, Durability::Flushed].into_iter().enumerate() {
        let batch = table.partition("p").batch().upsert([i as u8], "v").durability(less);
        let ts = batch.commit().unwrap();
        assert_eq!(table.get("p", [i as u8]).unwrap().unwrap().ts, ts, "visible on return");
    }
    db.close().unwrap();
    let table = Db::open(dir.path()).unwrap().table("t").unwrap();
    assert_eq!(table.scan::<&str, &str>(..).unwrap().count(), 2, "a close loses nothing");
}

#[test]
fn a_scan_of_a_partition_that_is_not_there_reads_no_block() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().options(small()).open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    for i in (0..400u32).step_by(2) {
        table
            .partition(format!("{i:04}"))
            .batch()
            .upsert("a", "1")
            .upsert("b", "2")
            .commit()
            .unwrap();
    }
    db.compact().unwrap();
    let reads = || db.stats().cache_hits + db.stats().cache_misses;
    let before = reads();
    for i in (1..400u32).step_by(2) {
        assert_eq!(table.partition(format!("{i:04}")).scan::<&str>(..).unwrap().count(), 0);
    }
    // About one in a hundred passes the filter.
    assert!(reads() - before < 20, "{} blocks were asked for", reads() - before);
    assert_eq!(table.partition("0100").scan::<&str>(..).unwrap().count(), 2);
}

#[test]
fn check_names_damage_by_file_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().options(small()).open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    for i in 0..2000u32 {
        table.upsert("p", i.to_be_bytes(), value(i)).unwrap();
    }
    db.close().unwrap();
    let report = tabulith::verify::check(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.damage);
    assert!(report.files > 0 && report.versions + report.log_commits >= 2000, "{report:?}");

    let mut names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
    names.retain(|path| !path.ends_with("LOCK") && path.extension().is_none_or(|e| e != "wal"));
    assert!(names.len() >= 3);
    for path in names {
        let sound = std::fs::read(&path).unwrap();
        let mut broken = sound.clone();
        let middle = broken.len() / 2;
        broken[middle] ^= 0x20;
        std::fs::write(&path, &broken).unwrap();
        let report = tabulith::verify::check(dir.path()).unwrap();
        let named = report.damage.iter().any(|e| e.place().is_some_and(|(file, _)| file == path));
        assert!(named, "{}: {:?}", path.display(), report.damage);
        std::fs::write(&path, sound).unwrap();
    }
    assert!(tabulith::verify::check(dir.path()).unwrap().is_clean());
}

#[test]
fn a_closed_database_touches_its_folder_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().options(small()).open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    table.upsert("p", "a", "1").unwrap();
    db.close().unwrap();
    let next = Db::builder().options(small()).open(dir.path()).unwrap();
    next.table("t").unwrap().upsert("p", "b", "2").unwrap();
    let other = tempfile::tempdir().unwrap();
    let closed = [
        db.flush(),
        db.compact(),
        db.settle(),
        table.compact::<&str, &str>(..),
        db.step().map(drop),
        db.scrub_step().map(drop),
        db.checkpoint(other.path().join("checkpoint")),
        db.backup(other.path().join("backup")).map(drop),
        table.ingest().and_then(|mut rows| rows.add("q", "a", "3")),
    ];
    for (call, answer) in closed.into_iter().enumerate() {
        assert_eq!(answer.map_err(|error| error.kind()), Err(Kind::Closed), "call {call}");
    }
    assert_eq!(table.get("p", "a").unwrap().unwrap().value, "1", "reads go on");
    assert!(db.close().is_ok());
    drop((table, db));
    next.compact().unwrap();
    next.close().unwrap();
    drop(next);
    let last = Db::builder().options(small()).open(dir.path()).unwrap();
    assert_eq!(last.table("t").unwrap().scan::<&str, &str>(..).unwrap().count(), 2);
}

/// Reads when its thread ends, after all that the thread kept for reads is gone.
struct LastRead(tabulith::Table);

impl Drop for LastRead {
    fn drop(&mut self) {
        assert!(self.0.get("p", "r").unwrap().is_some());
    }
}

thread_local! {
    static LAST: std::cell::RefCell<Option<LastRead>> = const { std::cell::RefCell::new(None) };
}

/// A panic in what a thread drops at its end ends the process.
#[test]
fn a_thread_that_ends_may_still_read() {
    let dir = tempfile::tempdir().unwrap();
    let rows = Db::open(dir.path()).unwrap().table("rows").unwrap();
    rows.upsert("p", "r", "value").unwrap();
    let thread = std::thread::spawn(move || {
        LAST.with_borrow_mut(|last| *last = Some(LastRead(rows.clone()))); // Dropped last.
        rows.get("p", "r").unwrap().is_some()
    });
    assert!(thread.join().unwrap());
}

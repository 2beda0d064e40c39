//! Updates that may not wait: what would have to does nothing, and says so.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::error::{Kind, Result};
use tabulith::ids::TableId;
use tabulith::options::{Durability, Reach};
use tabulith::rows::{Catalog, PartitionUpdate, RowStore};
use tabulith::vfs::api::Vfs;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Db, Options};

/// A database without threads, and the number of its table.
fn open(disk: &(impl Vfs + Clone + 'static)) -> (Db, TableId) {
    let advanced = Advanced { memtable_bytes: Some(64 << 10), ..Advanced::default() };
    let options = Options { advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let builder = Db::builder().options(options);
    let db = builder.parts(Arc::new(disk.clone()), clock, Arc::new(ByHand)).open("/db").unwrap();
    db.table("rows").unwrap();
    let id = Catalog::tables(&db, "", None, 1).unwrap()[0].id;
    (db, id)
}

fn at_once(
    db: &Db,
    id: TableId,
    mut work: impl FnMut(&mut dyn PartitionUpdate) -> Result<()>,
) -> Result<()> {
    db.update(id, b"p", None, Reach::Memory, &mut work)?.wait()
}

fn value(db: &Db, row: &str) -> Option<Vec<u8>> {
    db.table("rows").unwrap().get("p", row).unwrap().map(|row| row.value.to_vec())
}

#[test]
fn what_lies_in_memory_is_changed() {
    let (db, id) = open(&SimFs::new());
    at_once(&db, id, |rows| rows.put(b"r", b"1")).unwrap();
    at_once(&db, id, |rows| {
        let old = rows.get(b"r")?.unwrap();
        rows.put(b"r", &[&old.value[..], b"2"].concat())
    })
    .unwrap();
    assert_eq!(value(&db, "r").as_deref(), Some(&b"12"[..]));
}

#[test]
fn a_row_on_disk_is_not_waited_for() {
    let disk = SimFs::new();
    let (db, _) = open(&disk);
    let rows = db.table("rows").unwrap();
    rows.upsert("p", "a", "old").unwrap();
    // More than a block of them: opening reads the first, where the catalogue is.
    for n in 0..40 {
        rows.upsert("p", format!("m{n:02}"), [n; 1 << 10]).unwrap();
    }
    rows.upsert("p", "z", "old").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let (db, id) = open(&disk);
    let mut change = |rows: &mut dyn PartitionUpdate| {
        rows.put(b"a", b"new")?;
        rows.get(b"z")?;
        rows.put(b"z", b"new")
    };
    let refused = at_once(&db, id, &mut change).unwrap_err();
    assert_eq!(refused.kind(), Kind::WouldBlock);
    assert_eq!(value(&db, "a").as_deref(), Some(&b"old"[..]), "nothing of it happened");
    // Those reads have brought the block into the cache.
    assert_eq!(value(&db, "z").as_deref(), Some(&b"old"[..]));
    at_once(&db, id, &mut change).unwrap();
    assert_eq!(value(&db, "z").as_deref(), Some(&b"new"[..]));
}

#[test]
fn who_is_at_work_on_the_partition_is_not_waited_for() {
    let (db, id) = open(&SimFs::new());
    let mut within = None;
    db.update(id, b"p", None, Reach::Disk, &mut |rows| {
        within = at_once(&db, id, |rows| rows.put(b"r", b"inner")).err();
        rows.put(b"r", b"outer")
    })
    .unwrap();
    assert_eq!(within.unwrap().kind(), Kind::WouldBlock);
    at_once(&db, id, |rows| rows.put(b"s", b"later")).unwrap();
    assert_eq!(value(&db, "r").as_deref(), Some(&b"outer"[..]));
}

#[test]
fn room_in_memory_is_not_waited_for() {
    let (db, id) = open(&SimFs::new());
    let put = |n: u32| at_once(&db, id, |rows| rows.put(&n.to_be_bytes(), &[7; 1 << 10]));
    // Nobody flushes, so sooner or later there is no room.
    let (row, refused) = (0..10_000u32).find_map(|n| Some((n, put(n).err()?))).unwrap();
    assert_eq!(refused.kind(), Kind::WouldBlock);
    let rows = db.table("rows").unwrap();
    assert!(rows.get("p", row.to_be_bytes()).unwrap().is_none());
    db.flush().unwrap();
    put(row).unwrap();
}

#[test]
fn a_scan_for_what_to_delete_is_not_begun() {
    let (db, id) = open(&SimFs::new());
    at_once(&db, id, |rows| rows.put(b"r", b"1")).unwrap();
    let all =
        |rows: &mut dyn PartitionUpdate| rows.delete_range(Bound::Unbounded, Bound::Unbounded);
    assert_eq!(at_once(&db, id, all).unwrap_err().kind(), Kind::WouldBlock);
    assert!(value(&db, "r").is_some());
}

#[test]
fn a_file_that_is_not_open_yet_is_not_opened_to_see_what_a_delete_hides() {
    let disk = SimFs::new();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let (db, id) = open(&faults);
    let rows = db.table("rows").unwrap();
    rows.upsert("p", "r", "row").unwrap();
    db.flush().unwrap();
    // Twice, so that the row cache has it for certain.
    (0..2).for_each(|_| assert!(value(&db, "r").is_some()));
    rows.upsert("p", "s", "more").unwrap();
    db.compact().unwrap();
    faults.add(Rule::fail(Call::Open).forever());
    at_once(&db, id, |rows| {
        assert!(rows.get(b"r")?.is_some());
        rows.delete(b"r")
    })
    .unwrap();
    faults.clear();
    assert_eq!(value(&db, "r"), None);
}

/// Holds up the next write of the log until a message comes; says when it has begun.
fn hold_a_write(disk: &FaultFs) -> (Receiver<()>, Sender<()>) {
    let (begin, begun) = mpsc::channel();
    let (heal, healed) = mpsc::channel();
    disk.interrupt(Rule::fail(Call::Write), move || {
        let _ = begin.send(());
        let _ = healed.recv();
    });
    (begun, heal)
}

#[test]
fn a_write_of_the_log_that_does_not_return_is_not_waited_for() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (db, id) = open(&disk);
    let put = |partition: &[u8], reach| {
        let flushed = Some(Durability::Flushed);
        db.update(id, partition, flushed, reach, &mut |rows| rows.put(b"r", b"1"))
    };
    let (begun, heal) = hold_a_write(&disk);
    let ticket = put(b"p", Reach::Memory).unwrap();
    assert!(begun.try_recv().is_err(), "whoever may not wait leaves the write to others");
    heal.send(()).unwrap();
    ticket.wait().unwrap();
    // Alone and free to wait, one writes at once, and is in the way of others meanwhile.
    let (begun, heal) = hold_a_write(&disk);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(b"p", Reach::Disk)?.wait());
        begun.recv().unwrap();
        let (tell, told) = mpsc::channel();
        scope.spawn(move || tell.send(put(b"q", Reach::Memory).map(drop)));
        let other = told.recv_timeout(Duration::from_secs(20));
        heal.send(()).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(other.expect("it does not wait").unwrap_err().kind(), Kind::WouldBlock);
    });
    put(b"q", Reach::Memory).unwrap().wait().unwrap();
}

/// Who asks how the database is, or to be told of a commit that is there, may be the thread of many
/// connections.
#[test]
fn a_write_of_the_log_that_does_not_return_holds_up_nobody_who_asks() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (db, id) = open(&disk);
    let put = |partition: &[u8]| {
        let flushed = Some(Durability::Flushed);
        db.update(id, partition, flushed, Reach::Disk, &mut |rows| rows.put(b"r", b"1"))
    };
    let visible = put(b"p").unwrap();
    let (begun, heal) = hold_a_write(&disk);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(b"q")?.wait());
        begun.recv().unwrap();
        let (tell, told) = mpsc::channel();
        let db = &db;
        scope.spawn(move || {
            let done = tell.clone();
            visible.notify(Box::new(move |result| done.send(result.is_ok()).unwrap()));
            tell.send(db.obstacle().is_none()).unwrap();
            tell.send(db.stats().memory.log.bytes < 1 << 20).unwrap();
            let mut nothing = |_: &mut dyn PartitionUpdate| Ok(());
            let nothing = db.update(id, b"p", None, Reach::Memory, &mut nothing);
            tell.send(nothing.is_err_and(|error| error.kind() == Kind::WouldBlock)).unwrap();
        });
        let answers: Vec<_> =
            (0..4).map_while(|_| told.recv_timeout(Duration::from_secs(20)).ok()).collect();
        heal.send(()).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(answers, [true; 4], "who asks waits");
    });
    assert_eq!(db.obstacle(), None);
}

/// A transaction once waited for the write with the lock that every snapshot needs at its begin and
/// end.
#[test]
fn a_write_of_the_log_that_does_not_return_holds_up_no_reader_beside_a_transaction() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (db, id) = open(&disk);
    let put = |partition: &[u8]| {
        let flushed = Some(Durability::Flushed);
        db.update(id, partition, flushed, Reach::Disk, &mut |rows| rows.put(b"r", b"1"))
    };
    put(b"p").unwrap().wait().unwrap();
    let rows = db.table("rows").unwrap();
    let (begun, heal) = hold_a_write(&disk);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| put(b"q")?.wait());
        begun.recv().unwrap();
        let (tell, told) = mpsc::channel();
        let (began, other) = (tell.clone(), rows.partition("other"));
        let transaction = scope.spawn(move || {
            other.transact(|tx| {
                began.send(tx.get("r")?.is_none()).unwrap();
                tx.put("r", "2")
            })
        });
        let first = told.recv_timeout(Duration::from_secs(20)).ok();
        let (db, rows) = (&db, &rows);
        scope.spawn(move || {
            let snapshot = db.snapshot().unwrap();
            tell.send(snapshot.get(rows, "p", "r").unwrap().is_some()).unwrap();
            tell.send(rows.scan::<&str, &str>(..).unwrap().count() == 1).unwrap();
            drop(snapshot);
            tell.send(db.stats().snapshots > 0).unwrap();
        });
        let others = (0..3).map_while(|_| told.recv_timeout(Duration::from_secs(20)).ok());
        let answers: Vec<_> = first.into_iter().chain(others).collect();
        heal.send(()).unwrap();
        writer.join().unwrap().unwrap();
        transaction.join().unwrap().unwrap();
        assert_eq!(answers, [true; 4], "readers wait");
    });
    assert!(rows.get("other", "r").unwrap().is_some());
}

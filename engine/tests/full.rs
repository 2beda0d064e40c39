//! A disk without room: a commit that was refused for it is not there, and never comes.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tabulith::env::clock::{ManualClock, SystemClock};
use tabulith::env::jobs::{ByHand, Jobs, Threads};
use tabulith::env::rng::Rng;
use tabulith::error::Kind;
use tabulith::health::Obstacle;
use tabulith::options::{Durability, Reach};
use tabulith::rows::{Catalog, CommitTicket, RowStore};
use tabulith::vfs::api::{Access, Vfs as _};
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Db, Options, Table};

/// A small log, so that it soon needs another segment.
fn options(durability: Durability) -> Options {
    let advanced = Advanced {
        memtable_bytes: Some(256 << 10),
        wal_segment_bytes: 16 << 10,
        ..Advanced::default()
    };
    Options { durability, advanced, ..Options::default() }
}

fn open(disk: &FaultFs, jobs: Arc<dyn Jobs>, durability: Durability) -> (Db, Table) {
    open_with(disk, jobs, options(durability))
}

fn open_with(disk: &FaultFs, jobs: Arc<dyn Jobs>, options: Options) -> (Db, Table) {
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    let builder = Db::builder().options(options);
    let db = builder.parts(Arc::new(disk.clone()), clock, jobs).open("/db").unwrap();
    let table = db.table("rows").unwrap();
    (db, table)
}

fn rows(table: &Table) -> BTreeSet<u64> {
    let (mut rows, mut cursor) =
        (BTreeSet::new(), table.partition("p").cursor::<&[u8]>(..).unwrap());
    while let Some(row) = cursor.next().unwrap() {
        rows.insert(u64::from_be_bytes(row.row_key.try_into().unwrap()));
    }
    rows
}

/// What is there now and after a start is what was acknowledged, and nothing that was refused.
fn only(acked: &BTreeSet<u64>, db: Db, table: Table, disk: &FaultFs, of: &str) {
    assert_eq!(&rows(&table), acked, "{of}");
    drop(table);
    db.close().unwrap();
    drop(db);
    let (_db, table) = open(disk, Arc::new(ByHand), Durability::Synced);
    assert_eq!(&rows(&table), acked, "{of}, after a start");
}

#[test]
fn what_was_refused_for_room_never_comes() {
    let mut refused_in_all = 0;
    let levels = [Durability::Synced, Durability::Flushed, Durability::Buffered];
    for (durability, before) in levels.into_iter().flat_map(|d| (0..24).map(move |n| (d, n))) {
        let of = format!("{durability:?}, after {before} rows");
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let (db, table) = open(&disk, Arc::new(ByHand), durability);
        let mut acked = BTreeSet::new();
        let mut next = 0_u64;
        let mut write = |bytes: usize, acked: &mut BTreeSet<u64>| {
            next += 1;
            match table.upsert("p", next.to_be_bytes(), vec![7; bytes]) {
                Ok(_) => acked.insert(next),
                Err(error) if error.kind() == Kind::NoSpace => false,
                Err(error) => panic!("{of}: {error}"),
            }
        };
        for _ in 0..before {
            assert!(write(700, &mut acked), "{of}: there is room");
        }
        for round in 0..3 {
            disk.set_room(Some(0));
            let mut refused = 0;
            // A large row is refused before a small one is.
            for n in 0..200 {
                refused += usize::from(!write(if n % 5 == 4 { 6000 } else { 900 }, &mut acked));
                assert_eq!(rows(&table), acked, "{of}, round {round}: reads go on");
                if refused == 4 {
                    break;
                }
            }
            assert_eq!(refused, 4, "{of}: the disk is full");
            refused_in_all += refused;
            disk.set_room(None);
            assert!(write(900, &mut acked), "{of}: there is room again");
            assert_eq!(rows(&table), acked, "{of}, round {round}: what was refused has come");
        }
        only(&acked, db, table, &disk, &of);
    }
    assert!(refused_in_all > 800, "{refused_in_all}");
}

/// Commits of which many go to the log together: those that have their place get through, the
/// others are told at once.
#[test]
fn a_ticket_that_was_given_is_kept_on_a_full_disk() {
    for before in 0..24 {
        let disk = FaultFs::new(Arc::new(SimFs::new()));
        let (db, table) = open(&disk, Arc::new(ByHand), Durability::Synced);
        let id = Catalog::tables(&db, "", None, 1).unwrap()[0].id;
        let mut acked = BTreeSet::new();
        for row in 0..before {
            table.upsert("p", u64::to_be_bytes(row), vec![7; 300]).unwrap();
            acked.insert(row);
        }
        disk.set_room(Some(0));
        let mut refused = 0;
        for group in 1..40_u64 {
            let mut tickets: Vec<(u64, Box<dyn CommitTicket>)> = Vec::new();
            for row in group * 100..group * 100 + group % 7 + 1 {
                let mut put = |rows: &mut dyn tabulith::rows::PartitionUpdate| {
                    rows.put(&row.to_be_bytes(), &[7; 900])
                };
                match db.update(id, b"p", None, Reach::Disk, &mut put) {
                    Ok(ticket) => tickets.push((row, ticket)),
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::NoSpace, "{error}");
                        refused += 1;
                    }
                }
            }
            for (row, ticket) in tickets {
                ticket.wait().unwrap();
                acked.insert(row);
            }
        }
        assert!(refused > 50, "{refused}");
        assert_eq!(rows(&table), acked);
        disk.set_room(None);
        table.upsert("p", 1_000_000_u64.to_be_bytes(), "more").unwrap();
        acked.insert(1_000_000);
        only(&acked, db, table, &disk, &format!("after {before} rows"));
    }
}

/// Writers that fight for the room that is left, while it comes and goes.
#[test]
fn threads_on_a_disk_that_fills_and_empties_are_told_the_truth() {
    const WRITERS: u64 = 4;
    const ROUNDS: u64 = 100;
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let builder = Db::builder().options(options(Durability::Synced));
    let parts =
        builder.parts(Arc::new(disk.clone()), Arc::new(SystemClock::new()), Arc::new(Threads));
    let db = parts.open("/db").unwrap();
    let table = db.table("rows").unwrap();
    let (mut acked, mut refused, mut next) = (BTreeSet::new(), 0, 0);
    for round in 0..ROUNDS {
        disk.set_room(Some(round * 97 % 4096));
        let enough = AtomicUsize::new(0);
        let told = std::thread::scope(|scope| {
            let writer = |writer: u64| {
                let (table, enough) = (&table, &enough);
                move || {
                    let mut told = Vec::new();
                    for n in 0..400 {
                        let row = next + WRITERS * n + writer;
                        let bytes = 200 + (row * 31 % 3000) as usize;
                        let done = table.upsert("p", row.to_be_bytes(), vec![7; bytes]);
                        if let Err(error) = &done {
                            assert!(matches!(error.kind(), Kind::NoSpace | Kind::Busy), "{error}");
                            enough.fetch_add(1, Ordering::Relaxed);
                        }
                        told.push((row, done.is_ok()));
                        if enough.load(Ordering::Relaxed) >= 8 {
                            break;
                        }
                    }
                    told
                }
            };
            let writers: Vec<_> = (0..WRITERS).map(|no| scope.spawn(writer(no))).collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        next += WRITERS * 400;
        refused += told.iter().filter(|(_, done)| !done).count();
        acked.extend(told.iter().filter(|(_, done)| *done).map(|(row, _)| *row));
        assert_eq!(rows(&table), acked, "round {round}: full");
        disk.set_room(None);
        while table.upsert("p", next.to_be_bytes(), "more").is_err() {}
        acked.insert(next);
        next += 1;
        assert_eq!(rows(&table), acked, "round {round}: there is room again");
    }
    assert!(refused >= 4 * ROUNDS as usize, "{refused} refused");
    only(&acked, db, table, &disk, "threads");
}

#[test]
fn memtables_are_written_where_the_log_gets_no_further_segment() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    // A memtable is full when its segment is more than half so, and the next is due.
    let advanced = Advanced {
        memtable_bytes: Some(40 << 10),
        wal_segment_bytes: 64 << 10,
        ..Advanced::default()
    };
    let options = Options { advanced, ..options(Durability::Flushed) };
    let (db, table) = open_with(&disk, Arc::new(ByHand), options);
    disk.add(Rule::fail(Call::Create).named("*.spare").with(Errno::NoSpace).forever());
    let mut row = 0u64;
    while db.stats().sealed_memtables == 0 {
        row += 1;
        table.upsert("p", row.to_be_bytes(), vec![7; 500]).unwrap();
    }
    for _ in 0..8 {
        let _ = db.step(); // It says that there is no room for a segment.
    }
    let stats = db.stats();
    assert!(stats.flushes > 0 && stats.sealed_memtables == 0, "{stats:#?}");
}

/// Bytes of the log's files.
fn log_bytes(disk: &SimFs) -> u64 {
    let names = disk.list(Path::new("/db")).unwrap();
    let segments = names.iter().filter(|name| name.ends_with(".wal"));
    let len = |name: &String| {
        disk.open(&Path::new("/db").join(name), Access::Read).unwrap().len().unwrap()
    };
    segments.map(len).sum()
}

/// A database with a log of segments of 64 KiB, in blocks of 512 bytes, and a memtable of 256 KiB.
fn open_to_count(disk: &FaultFs) -> (Db, Table) {
    let advanced = Advanced {
        memtable_bytes: Some(256 << 10),
        wal_segment_bytes: 64 << 10,
        ..Advanced::default()
    };
    let options = Options { advanced, ..options(Durability::Synced) };
    open_with(disk, Arc::new(ByHand), options)
}

/// Another version of a row takes some bytes of memory and a block of the log.
#[test]
fn a_row_that_is_counted_up_does_not_make_the_log_longer_and_longer() {
    let sim = SimFs::new();
    let (db, table) = open_to_count(&FaultFs::new(Arc::new(sim.clone())));
    let mut longest = 0;
    for n in 0..9_000_u64 {
        table.upsert("p", "counter", n.to_be_bytes()).unwrap();
        while db.step().unwrap() {}
        longest = longest.max(log_bytes(&sim));
    }
    assert!(longest < 2 << 20, "{longest} bytes of log");
}

/// What fills the disk is the log of a memtable that is far from full.
#[test]
fn a_disk_that_the_log_has_filled_heals_by_a_flush() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let (db, table) = open_to_count(&disk);
    disk.set_room(Some(512 << 10));
    let mut counted = 0_u64;
    let mut count = || {
        counted += 1;
        table.upsert("p", "counter", counted.to_be_bytes()).map_err(|error| error.kind())
    };
    while count().is_ok() {}
    assert_eq!(count(), Err(Kind::NoSpace));
    // Enough for a small file, and for no segment.
    disk.set_room(Some(32 << 10));
    while db.step().unwrap_or_default() {}
    for _ in 0..100 {
        count().unwrap();
    }
    assert_eq!(db.stats().flushes, 1);
}

/// Segments double; one that the disk has no room for is not waited for.
#[test]
fn a_segment_is_as_large_as_the_disk_has_room_for() {
    let sim = SimFs::new();
    let disk = FaultFs::new(Arc::new(sim.clone()));
    let advanced = Advanced {
        memtable_bytes: Some(64 << 20),
        wal_segment_bytes: 16 << 20,
        ..Advanced::default()
    };
    let options = Options { advanced, ..options(Durability::Synced) };
    let (db, table) = open_with(&disk, Arc::new(ByHand), options);
    let put = |row: u64| table.upsert("p", row.to_be_bytes(), vec![7; 256 << 10]);
    let mut rows = 0;
    // Of 1, 2, 4 and 8 MiB; the next one would have 16.
    while log_bytes(&sim) < 15 << 20 {
        put(rows).unwrap();
        rows += 1;
    }
    disk.set_room(Some(6 << 20));
    while put(rows).is_ok() {
        rows += 1;
    }
    let taken = log_bytes(&sim) >> 20;
    assert!(taken >= 18, "{taken} MiB of log, and {rows} rows");
    assert!(matches!(db.obstacle(), Some(Obstacle::DiskFull { .. })), "{:?}", db.obstacle());
}

/// The next edit was to write the manifest anew. For want of room none was taken any more, not even
/// that of the dropped table's files.
#[test]
fn a_table_goes_where_a_long_manifest_cannot_be_written_anew() {
    let sim = SimFs::new();
    let disk = FaultFs::new(Arc::new(sim.clone()));
    let (db, table) = open(&disk, Arc::new(ByHand), Durability::Synced);
    let names = |end: &str| {
        let names = sim.list(Path::new("/db")).unwrap().into_iter();
        names.filter(|name| name.ends_with(end)).collect::<BTreeSet<_>>()
    };
    let before = names(".sst");
    db.table("gone").unwrap().upsert("p", "r", "v").unwrap();
    db.flush().unwrap();
    let of_gone = names(".sst").difference(&before).cloned().collect::<Vec<_>>();
    let manifest_bytes = || {
        let names = names(".manifest-a");
        let path = Path::new("/db").join(names.last().unwrap());
        sim.open(&path, Access::Read).unwrap().len().unwrap()
    };
    for n in 0.. {
        let key = format!("{n:06}{}", "x".repeat(4_000));
        table.upsert(&key, &key, "v").unwrap();
        db.flush().unwrap();
        if manifest_bytes() > 1 << 20 {
            break; // The bytes of edits after which all is written anew.
        }
        assert!(n < 200, "no manifest of a MiB");
    }
    let manifests = names(".manifest-a");
    disk.add(Rule::fail(Call::Create).named("*.manifest-a").forever().with(Errno::NoSpace));
    assert!(db.drop_table("gone").unwrap());
    db.flush().unwrap();
    while db.step().unwrap() {}
    assert!(of_gone.len() == 1 && !names(".sst").contains(&of_gone[0]), "{:?}", names(".sst"));
    assert_eq!(names(".manifest-a"), manifests);
    disk.clear();
    table.upsert("p", "r", "v").unwrap();
    db.flush().unwrap();
    assert_ne!(names(".manifest-a"), manifests, "it is written anew as soon as that can be");
    drop(table);
    db.close().unwrap();
    drop(db);
    let (db, table) = open(&disk, Arc::new(ByHand), Durability::Synced);
    assert!(table.get("p", "r").unwrap().is_some() && db.find_table("gone").unwrap().is_none());
}

/// A merge that takes more than there is would take that at each try. What is smaller gives back
/// what was deleted, and the large one comes once there is room.
#[test]
fn a_merge_that_finds_no_room_keeps_no_smaller_one_from_making_some() {
    const ROOM: u64 = 64 << 10;
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let advanced = Advanced {
        memtable_bytes: Some(1 << 20),
        file_bytes: 16 << 10,
        l0_compact_files: 1,
        ..Advanced::default()
    };
    let options = Options { advanced, ..options(Durability::Flushed) };
    let (db, table) = open_with(&disk, Arc::new(ByHand), options);
    let mut rng = Rng::seeded(7);
    let mut put = |rows: &mut dyn Iterator<Item = u64>| {
        let value = |rng: &mut Rng| (0..100).map(|_| rng.next_u64() as u8).collect::<Vec<_>>();
        let batch = table.partition("p").batch();
        let batch = rows.fold(batch, |batch, row| batch.upsert(row.to_be_bytes(), value(&mut rng)));
        batch.commit().unwrap();
    };
    (0..40).for_each(|n| put(&mut (n * 100..n * 100 + 100)));
    let snapshot = db.snapshot().unwrap();
    for n in 0..5 {
        let batch = table.partition("p").batch();
        let deletes = (n * 100..n * 100 + 100_u64).map(u64::to_be_bytes);
        deletes.fold(batch, |batch, row| batch.delete(row)).commit().unwrap();
    }
    // All of it in L1, what was deleted too; and the log has the segment that is to follow.
    db.compact().unwrap();
    while db.step().unwrap() {}
    drop(snapshot);
    put(&mut (500..4000).step_by(100));
    db.flush().unwrap();
    let l1_bytes = || db.stats().levels[1].1;
    let before = l1_bytes();
    let mut refused = 0;
    for _ in 0..30 {
        disk.set_room(Some(ROOM)); // What was given up took it, and is gone.
        match db.step() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                assert_eq!(error.kind(), Kind::NoSpace, "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 1, "{:?}", db.stats());
    assert!(l1_bytes() * 100 < before * 95, "{} of {before} bytes are left", l1_bytes());
    let why = db.stats().last_background_error.unwrap();
    assert!(why.contains("waits for room"), "{why}");
    // Whoever waits for a merge is told.
    assert_eq!(db.compact().unwrap_err().kind(), Kind::NoSpace);
    disk.set_room(None);
    while db.step().unwrap() {}
    let stats = db.stats();
    assert_eq!((stats.levels[0].0, stats.last_background_error), (0, None));
    assert_eq!(rows(&table).len(), 3500);
}

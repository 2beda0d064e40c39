//! Backups of a folder that somebody writes to meanwhile, on the real disk with threads at work:
//! each holds a prefix of the commit order, with all that was acknowledged before it began.

use crate::common::{DEST, DIR, House, open, restored, small};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backups, Which};
use tabulith::env::jobs::ByHand;
use tabulith::vfs::api::Vfs as _;
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::{CommitTs, Db, Durability, Table};
use tabulith_testkit::counts::{self, count};

const KEYS: u64 = 300;
const BACKUPS: u64 = 12;

/// The number of the commit that a row is of.
fn number(table: &Table, rk: &str) -> Option<u64> {
    let row = table.get("p", rk).unwrap()?;
    Some(u64::from_le_bytes(row.value[..8].try_into().unwrap()))
}

/// Commit `n` writes the row of its number and, with it, that it was the last.
fn write(table: &Table, n: u64) {
    let mut value = n.to_le_bytes().to_vec();
    value.resize(if n.is_multiple_of(40) { 3000 } else { 150 }, n as u8);
    let batch = table.partition("p").batch().upsert(format!("k{:03}", n % KEYS), value);
    batch.upsert("last", n.to_le_bytes()).commit().unwrap();
}

#[test]
fn a_folder_that_is_written_to_is_backed_up_as_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let (data, dest) = (folder.path().join("data"), folder.path().join("backups"));
    let mut options = small(Duration::ZERO);
    options.durability = Durability::Flushed;
    // A flush now and then: a backup that meets one looks again.
    options.advanced.memtable_bytes = Some(256 << 10);
    options.advanced.wal_segment_bytes = 1 << 20;
    let db = Db::builder().options(options).open(&data).unwrap();
    let table = db.table("t").unwrap();
    let (written, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut promised = Vec::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 1.. {
                write(&table, n);
                written.store(n, Ordering::Release);
                if stop.load(Ordering::Acquire) {
                    return;
                }
            }
        });
        // A writer that has failed is not waited for.
        let wait_for = |n| {
            while written.load(Ordering::Acquire) < n && !writer.is_finished() {
                std::thread::yield_now();
            }
        };
        wait_for(2 * KEYS);
        let made = (0..BACKUPS).map(|backup| {
            let before = written.load(Ordering::Acquire);
            let sharing = if backup % 2 == 0 { Sharing::Link } else { Sharing::Copy };
            let made = match backup % 4 {
                3 => db.backup(&dest),
                _ => Backups::at(&dest).create(&data, sharing),
            };
            // What is behind it goes on for a while.
            wait_for(before + KEYS);
            made.map(|made| (before, made.backup.number))
        });
        promised.extend(made);
        stop.store(true, Ordering::Release);
        writer.join().unwrap();
    });
    assert!(Backups::at(&dest).verify().unwrap().damage.is_empty());
    let mut commits = 0;
    for made in promised {
        let (before, backup) =
            made.unwrap_or_else(|error| panic!("a backup beside a writer: {error}"));
        let new = folder.path().join(format!("new-{backup}"));
        Backups::at(&dest).restore(Which::Number(backup), &new, Sharing::Link).unwrap();
        let restored = Db::open(&new).unwrap();
        let table = restored.table("t").unwrap();
        let last = number(&table, "last").unwrap();
        assert!(last >= before, "backup {backup} lost {before}: it ends at {last}");
        assert!(last <= written.load(Ordering::Acquire));
        for key in 0..KEYS {
            let newest = last - (last + KEYS - key) % KEYS;
            assert_eq!(
                number(&table, &format!("k{key:03}")),
                Some(newest),
                "backup {backup}, key {key}"
            );
        }
        commits = commits.max(last);
    }
    db.close().unwrap();
    counts::tell(
        "backups beside a writer",
        &[count("backups", BACKUPS, BACKUPS), count("commits", commits, 3000)],
    );
}

#[test]
fn a_killed_database_is_backed_up_with_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let (data, dest) = (folder.path().join("data"), folder.path().join("backups"));
    let db = Db::builder().options(small(Duration::ZERO)).open(&data).unwrap();
    let table = db.table("t").unwrap();
    (1..=20).for_each(|n| write(&table, n));
    // Nothing was flushed, and the lock is held by somebody else: as after a kill, or beside a
    // server.
    let made = Backups::at(&dest).create(&data, Sharing::Link).unwrap();
    assert!(made.backup.to >= db.visible() && made.backup.to < CommitTs::MAX, "{made:?}");
    let new = folder.path().join("new");
    Backups::at(&dest).restore(Which::Newest, &new, Sharing::Link).unwrap();
    assert_eq!(number(&Db::open(&new).unwrap().table("t").unwrap(), "last"), Some(20));
}

/// A database of thirty rows, seen through a disk: when the log is opened there for the first time,
/// its owner commits `commits` rows, adds one past the log, and commits another one.
fn with_an_ingest_in_between(commits: u64) -> (House, FaultFs) {
    let mut house = House::new(Duration::ZERO);
    for n in 0..30 {
        house.put("one", "p", &format!("r{n}"), b"before");
    }
    let table = house.db.table("one").unwrap();
    let faults = FaultFs::new(Arc::new(house.disk.clone()));
    faults.interrupt(Rule::fail(Call::Open).named("*.wal"), move || {
        for n in 0..commits {
            table.upsert("q", format!("{n}"), "v").unwrap();
        }
        let mut ingest = table.ingest().unwrap();
        ingest.add("p", "ingested", "v").unwrap();
        ingest.finish().unwrap();
        table.upsert("p", "after", "v").unwrap();
    });
    (house, faults)
}

/// Whether what `db` shows is what it was after one of the commits of
/// [`with_an_ingest_in_between`].
fn assert_prefix(db: &Db, commits: u64) {
    let table = db.table("one").unwrap();
    let is_there = |rk: &str| table.get("p", rk).unwrap().is_some();
    let committed = table.partition("q").count().unwrap();
    let is_prefix = match (is_there("ingested"), is_there("after")) {
        (false, false) => committed <= commits,
        (true, _) => committed == commits,
        (false, true) => false,
    };
    assert!(
        is_prefix,
        "what came after an ingest is there without it, or it before what it followed"
    );
}

#[test]
fn an_ingest_beside_a_reader_is_seen_with_what_comes_after_it() {
    for commits in [0, 1, 40] {
        let (house, faults) = with_an_ingest_in_between(commits);
        let open = || {
            let builder = Db::builder().options(small(Duration::ZERO)).read_only();
            builder.parts(Arc::new(faults.clone()), house.clock.clone(), Arc::new(ByHand)).open(DIR)
        };
        assert_prefix(&open().unwrap(), commits);
        assert_eq!(open().unwrap().table("one").unwrap().partition("p").count().unwrap(), 32);
    }
}

#[test]
fn an_ingest_beside_a_backup_is_in_it_with_what_comes_after_it() {
    for commits in [0, 1, 40] {
        let (house, faults) = with_an_ingest_in_between(commits);
        let backups = Backups::with(Arc::new(faults), house.clock.clone(), Path::new(DEST));
        backups.create(DIR, Sharing::Link).unwrap();
        backups.restore(Which::Newest, "new", Sharing::Link).unwrap();
        let restored = open(&house.disk, &house.clock, "new", small(Duration::ZERO)).unwrap();
        assert_prefix(&restored, commits);
    }
}

/// Before every file that a backup copies its owner writes, and deletes every file that there was.
fn rewrite_at_each_copy(faults: &FaultFs, db: &Db, round: u64) {
    let (again, db) = (faults.clone(), db.clone());
    faults.interrupt(Rule::fail(Call::Create).named("copying.tmp"), move || {
        let table = db.table("one").unwrap();
        for n in 0..300 {
            table.upsert("p", format!("r{n:03}"), round.to_le_bytes().repeat(50)).unwrap();
        }
        db.flush().unwrap();
        db.compact().unwrap();
        rewrite_at_each_copy(&again, &db, round + 1);
    });
}

#[test]
fn a_backup_is_of_files_that_are_deleted_before_they_are_copied() {
    for sharing in [Sharing::Copy, Sharing::Link] {
        let mut house = House::new(Duration::ZERO);
        for n in 0..300 {
            house.put("one", "p", &format!("r{n:03}"), &[b'v'; 400]);
        }
        house.db.flush().unwrap();
        house.db.compact().unwrap();
        house.put("one", "p", "in-the-log", b"v");
        let faults = FaultFs::new(Arc::new(house.disk.clone()));
        rewrite_at_each_copy(&faults, &house.db, 1);
        if sharing == Sharing::Link {
            faults.add(Rule::fail(Call::HardLink).forever());
        }
        let backups = Backups::with(Arc::new(faults), house.clock.clone(), Path::new(DEST));
        let made = backups.create(DIR, sharing).unwrap();
        assert!(made.backup.files > 5, "{made:?}");
        assert_eq!(made.backup.to, house.model.last());
        assert!(restored(&house, Which::Newest, "new", sharing) == house.model.now);
    }
}

/// Where files cannot be held open they are opened one by one, and one that is gone by then makes
/// the run begin anew, with what it has brought.
#[test]
fn a_backup_that_begins_anew_copies_nothing_twice() {
    let mut house = House::new(Duration::ZERO);
    for n in 0..300 {
        house.put("one", "p", &format!("r{n:03}"), &[b'v'; 400]);
    }
    house.db.compact().unwrap();
    house.put("one", "z", "r", b"v");
    house.db.flush().unwrap();
    let faults = FaultFs::new(Arc::new(house.disk.clone()));
    let of =
        |dest: &str| Backups::with(Arc::new(faults.clone()), house.clock.clone(), dest.as_ref());
    let files = of("undisturbed").create(DIR, Sharing::Copy).unwrap().backup.files;
    assert!(files > 5);
    let too_many = Rule::fail(Call::Open).named("*.sst").with(Errno::TooManyFiles);
    faults.add(too_many.times(files));
    // The newest file comes last, and goes when only the one before it is still to be copied.
    let db = house.db.clone();
    let copying = Rule::fail(Call::Create).named("copying.tmp");
    faults.interrupt(copying.skip(files - 2), move || {
        let table = db.table("one").unwrap();
        table.upsert("z", "r", "w").unwrap();
        table.compact(("z", "")..("z", "z")).unwrap();
    });
    let copies = || faults.counts()[&(Call::Create, "copying.tmp".to_owned())];
    let before = copies();
    let made = of(DEST).create(DIR, Sharing::Copy).unwrap();
    assert!(made.backup.to > house.model.last(), "one round was enough: {made:?}");
    assert_eq!((made.backup.files, made.brought.files), (files, files));
    assert_eq!(copies() - before, files);
}

/// A copy began from nothing each time: of a large folder it never ended where something cut it.
#[test]
fn a_copy_uses_the_files_that_one_left_that_was_cut() {
    let mut house = House::new(Duration::ZERO);
    for n in 0..300 {
        house.put("one", "p", &format!("r{n:03}"), &[b'v'; 400]);
    }
    house.db.compact().unwrap();
    let faults = FaultFs::new(Arc::new(house.disk.clone()));
    let disk = Arc::new(faults.clone());
    let backups = Backups::with(disk, house.clock.clone(), Path::new(DEST));
    let create = || backups.create(DIR, Sharing::Copy).unwrap();
    let copies = || faults.counts()[&(Call::Create, "copying.tmp".to_owned())];
    let made = create();
    let first = copies();
    assert!(first > 1 && first == made.brought.files, "{made:?}");
    // Its manifest comes last.
    house.disk.remove(&Path::new(DEST).join("000001.backup")).unwrap();
    let made = create();
    assert_eq!((copies() - first, made.brought.files), (0, 0), "{made:?}");
    assert!(restored(&house, Which::Newest, "new", Sharing::Copy) == house.model.now);
}

/// The log's files are given up and written anew while a reader is about to read them.
#[test]
fn a_log_that_is_given_up_beside_a_reader_is_not_missed() {
    for opened_before in 0..3 {
        let mut house = House::new(Duration::ZERO);
        for n in 0..300 {
            house.put("one", "p", &format!("r{n}"), &[b'v'; 400]);
        }
        let (db, table) = (house.db.clone(), house.db.table("one").unwrap());
        let faults = FaultFs::new(Arc::new(house.disk.clone()));
        let opening = Rule::fail(Call::Open).named("*.wal").skip(opened_before);
        faults.interrupt(opening, move || {
            for n in 0..600 {
                table.upsert("q", format!("{n}"), [b'w'; 400]).unwrap();
            }
            db.flush().unwrap();
        });
        let builder = Db::builder().options(small(Duration::ZERO)).read_only();
        let builder = builder.parts(Arc::new(faults), house.clock.clone(), Arc::new(ByHand));
        let seen = builder.open(DIR).unwrap();
        assert_eq!(seen.table("one").unwrap().partition("p").count().unwrap(), 300);
    }
}

/// Rows that lie in files, some with values in blob files, are read after their owner deleted them
/// all.
#[test]
fn a_reader_keeps_the_files_that_it_shows() {
    let mut house = House::new(Duration::ZERO);
    for n in 0..300 {
        house.put("one", "p", &format!("r{n:03}"), &[b'v'; 400]);
        house.put("one", "large", &format!("r{n:03}"), &[b'w'; 3000]);
    }
    house.db.flush().unwrap();
    house.db.compact().unwrap();
    let builder = Db::builder().options(small(Duration::ZERO)).read_only();
    let disk = Arc::new(house.disk.clone());
    let seen = builder.parts(disk, house.clock.clone(), Arc::new(ByHand)).open(DIR).unwrap();
    let names = || house.disk.list(Path::new(DIR)).unwrap();
    let before = names();
    for partition in ["p", "large"] {
        house.db.table("one").unwrap().drop_partition(partition).unwrap();
    }
    house.db.compact().unwrap();
    let after = names();
    for kind in [".sst", ".blob"] {
        let mut shown = before.iter().filter(|name| name.ends_with(kind)).peekable();
        assert!(shown.peek().is_some(), "no {kind} among {before:?}");
        assert!(shown.all(|name| !after.contains(name)), "{kind} of {before:?} is in {after:?}");
    }
    let table = seen.table("one").unwrap();
    assert_eq!(table.partition("p").count().unwrap(), 300);
    for n in 0..300 {
        let row = table.get("large", format!("r{n:03}")).unwrap().unwrap();
        assert_eq!(row.value[..], [b'w'; 3000], "row {n}");
    }
}

//! Opening after a kill: what the log holds comes back, written by threads while it is read or by
//! one hand, and whatever the disk refuses on the way.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::{ByHand, Jobs, Threads};
use tabulith::options::{Advanced, Options};
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Db, If, Kind, Result, verify};
use tabulith_testkit::seed::Rng;

const DIR: &str = "db";
const COMMITS: u64 = 2500;
const ROWS: usize = 400;

type Rows = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

fn open(disk: Arc<dyn Vfs>, memtable_bytes: usize, jobs: Arc<dyn Jobs>) -> Result<Db> {
    let advanced = Advanced {
        memtable_bytes: Some(memtable_bytes),
        wal_segment_bytes: 256 << 10,
        ..Advanced::default()
    };
    let options = Options { advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(16_000_000_000_000_000));
    Db::builder().options(options).parts(disk, clock, jobs).open(DIR)
}

fn key(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let n = rng.below(ROWS);
    (format!("p{}", n % 7).into(), format!("row-{n:06}").into())
}

/// What a process wrote before it was killed, all of it in the log, and the rows that it meant.
fn killed() -> (SimFs, Rows) {
    let disk = SimFs::new();
    let db = open(Arc::new(disk.clone()), 64 << 20, Arc::new(ByHand)).unwrap();
    let table = db.table("rows").unwrap();
    let (mut rng, mut rows) = (Rng::new(7), Rows::new());
    for _ in 0..COMMITS {
        let (pk, rk) = key(&mut rng);
        match rng.below(100) {
            0..10 => {
                let _ = table.delete(&pk, &rk, If::Any);
                rows.remove(&(pk, rk));
            }
            10 => {
                table.partition(&pk).batch().delete_range(&rk[..]..).commit().unwrap();
                rows.retain(|(p, r), _| *p != pk || *r < rk);
            }
            // One commit that says two things of a row.
            11..20 => {
                let batch = table.partition(&pk).batch().upsert(&rk, b"first").upsert(&rk, b"last");
                batch.commit().unwrap();
                rows.insert((pk, rk), b"last".to_vec());
            }
            _ => {
                let len = if rng.chance(3) { 9000 } else { rng.between(0, 1500) };
                let value = rng.bytes(len);
                table.upsert(&pk, &rk, &value).unwrap();
                rows.insert((pk, rk), value);
            }
        }
    }
    assert_eq!(db.stats().flushes, 0, "all of it is in the log only");
    disk.kill();
    (disk.process(), rows)
}

#[track_caller]
fn check(db: &Db, rows: &Rows) {
    let table = db.table("rows").unwrap();
    let mut found = Rows::new();
    let mut cursor = table.cursor::<&[u8], &[u8]>(..).unwrap();
    while let Some(row) = cursor.next().unwrap() {
        let value = row.value().unwrap().to_vec();
        found.insert((row.partition_key.to_vec(), row.row_key.to_vec()), value);
    }
    assert!(found == *rows, "{} rows, wanted {}", found.len(), rows.len());
    for ((pk, rk), value) in rows {
        let row = table.get(pk, rk).unwrap().unwrap();
        assert!(row.value == value, "a get of {rk:?}");
    }
}

#[test]
fn threads_restore_what_one_hand_would() {
    let (disk, rows) = killed();
    for (memtable, jobs) in [
        (16 << 10, Arc::new(Threads) as Arc<dyn Jobs>),
        (300 << 10, Arc::new(Threads)),
        (64 << 20, Arc::new(Threads)),
        (16 << 10, Arc::new(ByHand)),
        (300 << 10, Arc::new(ByHand)),
    ] {
        let disk = disk.fork();
        let db = open(Arc::new(disk.clone()), memtable, jobs).unwrap();
        assert!(db.recovery().log_groups >= COMMITS / 2);
        check(&db, &rows);
        db.close().unwrap();
        let report = verify::check_with(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
        assert!(report.is_clean(), "{:?}", report.damage);
        check(&open(Arc::new(disk), 1 << 20, Arc::new(ByHand)).unwrap(), &rows);
    }
}

#[test]
fn a_reader_sees_what_the_next_writer_will() {
    let (disk, rows) = killed();
    let clock = Arc::new(ManualClock::at(16_000_000_000_000_000));
    let builder = Db::builder().read_only();
    let db = builder.parts(Arc::new(disk), clock, Arc::new(ByHand)).open(DIR).unwrap();
    check(&db, &rows);
}

#[test]
fn a_file_that_cannot_be_written_costs_the_open_and_nothing_else() {
    let (disk, rows) = killed();
    for skip in 0..5 {
        let disk = disk.fork();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        faults.add(Rule::fail(Call::Sync).named("*.sst").skip(skip));
        open(Arc::new(faults), 64 << 10, Arc::new(Threads)).unwrap_err();
        check(&open(Arc::new(disk), 64 << 10, Arc::new(Threads)).unwrap(), &rows);
    }
}

#[test]
fn opens_that_fail_leave_no_more_and_more_behind() {
    let (disk, rows) = killed();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    faults.add(Rule::fail(Call::Sync).named("*.sst").forever());
    let segments = || {
        let names = disk.list(Path::new(DIR)).unwrap();
        names.iter().filter(|name| name.ends_with(".wal")).count()
    };
    let mut counts = Vec::new();
    for _ in 0..6 {
        open(Arc::new(faults.clone()), 64 << 10, Arc::new(Threads)).unwrap_err();
        counts.push(segments());
    }
    assert!(counts.iter().all(|count| *count <= counts[0]), "log segments: {counts:?}");
    check(&open(Arc::new(disk), 64 << 10, Arc::new(Threads)).unwrap(), &rows);
}

/// What an open made goes with it, unless a root may name it.
#[test]
fn opens_that_cannot_write_the_manifest_leave_no_more_and_more_behind() {
    let (disk, rows) = killed();
    let full = |call, files| Rule::fail(call).named(files).with(Errno::NoSpace).forever();
    for rule in [
        full(Call::Create, "*.manifest-a"),
        full(Call::Write, "*.manifest-b"),
        full(Call::Sync, "*.manifest-b"),
        full(Call::Create, "*.tmp"),
        full(Call::Write, "*.tmp").half_done(),
        full(Call::Rename, "ROOT-A"),
    ] {
        let disk = disk.fork();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        faults.add(rule.clone());
        let mut counts = Vec::new();
        for _ in 0..6 {
            open(Arc::new(faults.clone()), 64 << 10, Arc::new(ByHand)).unwrap_err();
            counts.push(disk.list(Path::new(DIR)).unwrap().len());
        }
        assert!(counts.iter().all(|count| *count <= counts[0]), "{rule:?}: files: {counts:?}");
        check(&open(Arc::new(disk), 64 << 10, Arc::new(ByHand)).unwrap(), &rows);
    }
}

#[test]
fn a_log_that_a_root_may_name_stays() {
    let (disk, rows) = killed();
    // The first root is another one; that it is, the disk does not say.
    let fail = |root| Rule::fail(Call::Rename).named(root);
    for rule in [fail("ROOT-A").done(), fail("ROOT-B")] {
        let disk = disk.fork();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        faults.add(rule);
        open(Arc::new(faults), 64 << 10, Arc::new(ByHand)).unwrap_err();
        check(&open(Arc::new(disk), 64 << 10, Arc::new(ByHand)).unwrap(), &rows);
    }
}

#[test]
fn opens_that_cannot_begin_a_log_leave_nothing_of_it() {
    let (disk, rows) = killed();
    let segments = |disk: &SimFs| {
        let names = disk.list(Path::new(DIR)).unwrap();
        names.iter().filter(|name| name.ends_with(".wal") || name.ends_with(".spare")).count()
    };
    let before = segments(&disk);
    for call in [Call::Create, Call::Open, Call::Write, Call::Sync, Call::Rename] {
        for skip in 0.. {
            let disk = disk.fork();
            let faults = FaultFs::new(Arc::new(disk.clone()));
            // Its files keep the name that they were made under.
            faults.add(Rule::fail(call).named("*.spare").skip(skip));
            if open(Arc::new(faults), 64 << 10, Arc::new(ByHand)).is_ok() {
                assert!(skip > 0, "{call:?} was never met");
                break;
            }
            assert_eq!(segments(&disk), before, "{call:?} {skip}");
            check(&open(Arc::new(disk), 64 << 10, Arc::new(ByHand)).unwrap(), &rows);
        }
    }
}

#[test]
fn a_damaged_copy_is_put_right_by_the_next_open() {
    let (disk, rows) = killed();
    let reopen = |disk: &SimFs| open(Arc::new(disk.clone()), 64 << 20, Arc::new(ByHand)).unwrap();
    reopen(&disk).close().unwrap();
    let check = |disk: &SimFs| verify::check_with(Arc::new(disk.clone()), Path::new(DIR)).unwrap();
    let names = disk.list(Path::new(DIR)).unwrap();
    let is_copy = |name: &&String| name.starts_with("ROOT") || name.contains("manifest");
    let copies: Vec<_> = names.iter().filter(is_copy).collect();
    assert_eq!(copies.len(), 4, "{names:?}");
    for copy in copies {
        for damage in ["flipped", "removed", "longer than memory"] {
            let disk = disk.fork();
            let path = Path::new(DIR).join(copy);
            let file = disk.open(&path, Access::ReadWrite).unwrap();
            let at = file.len().unwrap() / 2;
            let byte = file.read_vec_at(1, at).unwrap()[0];
            match damage {
                "flipped" => file.write_all_at(&[byte ^ 4], at),
                "removed" => disk.remove(&path),
                _ => file.set_len(16 << 30),
            }
            .unwrap();
            assert!(!check(&disk).is_clean(), "{copy}: the check sees it");
            let db = reopen(&disk);
            assert_eq!(db.recovery().repairs.len(), 1, "{copy}: {:?}", db.recovery().repairs);
            assert_eq!(db.table("rows").unwrap().count().unwrap(), rows.len() as u64);
            db.close().unwrap();
            assert!(check(&disk).is_clean(), "{copy}: {:?}", check(&disk).damage);
        }
    }
}

/// Whoever is told of damage gives the folder to `salvage`, and has lost nothing.
#[test]
fn copies_that_cannot_be_read_now_are_no_damage() {
    let (disk, rows) = killed();
    let open = |disk: Arc<dyn Vfs>| open(disk, 64 << 10, Arc::new(ByHand));
    for call in [Call::Open, Call::Read] {
        let faults = FaultFs::new(Arc::new(disk.clone()));
        faults.add(Rule::fail(call).named("*.manifest-*").with(Errno::TooManyFiles).forever());
        let error = open(Arc::new(faults)).unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{call:?}: {error}");
        assert!(error.to_string().contains("manifest-a"), "{call:?}: {error}");
    }
    check(&open(Arc::new(disk.clone())).unwrap(), &rows);
    let names = disk.list(Path::new(DIR)).unwrap();
    let copies = names.iter().filter(|name| name.contains(".manifest-"));
    copies.for_each(|name| disk.remove(&Path::new(DIR).join(name)).unwrap());
    assert_eq!(open(Arc::new(disk)).unwrap_err().kind(), Kind::Corrupt, "nobody has them");
}

/// Without the word that the log's own thread puts behind it a commit that was damaged looks like
/// one that a power cut has torn, and is cut off in silence.
#[test]
fn damage_to_the_last_commit_of_an_idle_log_is_told() {
    const VALUE: &[u8] = b"the last commit before the process died";
    let disk = SimFs::new();
    let open = |disk: SimFs| open(Arc::new(disk), 1 << 20, Arc::new(Threads));
    let db = open(disk.process()).unwrap();
    db.table("rows").unwrap().upsert("p", "r", VALUE).unwrap();
    let (segment, at) = place_in_the_log(&disk, VALUE);
    let behind = at.next_multiple_of(512); // Of a block that was synced nothing is written anew.
    wait_for_bytes(&disk, &segment, behind);
    disk.kill();
    drop(db);
    let file = disk.open(&segment, Access::ReadWrite).unwrap();
    file.write_all_at(&[VALUE[0] ^ 1], at as u64).unwrap();
    let error = open(disk.process()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let (named, offset) = error.place().unwrap();
    assert_eq!(named, segment, "{error}");
    assert!(offset.is_some_and(|offset| offset <= at as u64), "{error}");
}

/// The segment of the log that holds `bytes`, and where.
fn place_in_the_log(disk: &SimFs, bytes: &[u8]) -> (PathBuf, usize) {
    let names = disk.list(Path::new(DIR)).unwrap();
    let mut segments = names.iter().filter(|name| name.ends_with(".wal"));
    let place = segments.find_map(|name| {
        let path = Path::new(DIR).join(name);
        let log = contents(disk, &path);
        let at = log.windows(bytes.len()).position(|found| found == bytes)?;
        Some((path, at))
    });
    place.expect("what was acknowledged is in the log")
}

/// Waits until the file holds something from `at` on.
#[expect(clippy::disallowed_methods, reason = "a thread of the database is waited for")]
fn wait_for_bytes(disk: &SimFs, file: &Path, at: usize) {
    for _ in 0..60_000 {
        if contents(disk, file)[at..].iter().any(|byte| *byte != 0) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("nothing comes behind the last commit");
}

fn contents(disk: &SimFs, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Access::Read).unwrap();
    file.read_vec_at(file.len().unwrap() as usize, 0).unwrap()
}

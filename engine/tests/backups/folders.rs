//! What a folder of backups is made of: how much each one copies, what pruning leaves, what is
//! refused.

use crate::common::{DEST, DIR, House, START_TICKS, backups, look, open, restored};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backups, Created, Which};
use tabulith::env::clock::ManualClock;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Db, Kind, Options};
use tabulith_testkit::seed::Rng;

/// A database of many rows, all in one sorted run. The model is left out: it keeps every state.
fn filled(rows: usize) -> House {
    let house = House::new(Duration::ZERO);
    let rng = &mut Rng::new(5);
    for row in 0..rows {
        put(&house, row % 50, row, rng);
    }
    house.db.compact().unwrap();
    house
}

fn put(house: &House, partition: usize, row: usize, rng: &mut Rng) {
    let table = house.db.table("one").unwrap();
    table.upsert(format!("p{partition:02}"), format!("r{row:05}"), rng.bytes(100)).unwrap();
}

fn share(created: &Created) -> f64 {
    100.0 * created.brought.bytes as f64 / created.backup.bytes as f64
}

#[test]
fn a_change_of_one_percent_is_copied_and_little_else() {
    let house = filled(10_000);
    let first = house.backups().create(DIR, Sharing::Copy).unwrap();
    assert_eq!(first.brought.bytes, first.backup.bytes);
    assert_eq!(first.brought.files, first.backup.files);
    // Spread over all partitions, and flushed.
    let rng = &mut Rng::new(6);
    for _ in 0..100 {
        let row = rng.below(10_000);
        put(&house, row % 50, row, rng);
    }
    house.db.flush().unwrap();
    let spread = house.backups().create(DIR, Sharing::Copy).unwrap();
    assert!(share(&spread) < 5.0, "{:.1} %: {spread:?}", share(&spread));
    // In two partitions, and merged with what lies there.
    for row in 0..100 {
        put(&house, row % 2, row, rng);
    }
    house.db.flush().unwrap();
    let near = house.backups().create(DIR, Sharing::Copy).unwrap();
    assert!(share(&near) < 5.0, "{:.1} %: {near:?}", share(&near));
    let nothing = house.backups().create(DIR, Sharing::Copy).unwrap();
    assert_eq!(nothing.brought.files, 0, "{nothing:?}");
    assert_eq!(nothing.backup.own_bytes, 0);
    // Without a flush the log is what is new.
    put(&house, 0, 0, rng);
    let log = house.backups().create(DIR, Sharing::Copy).unwrap();
    assert!(log.brought.files == 1 && share(&log) < 1.0, "{log:?}");
    assert!(restored(&house, Which::Newest, "new", Sharing::Copy) == look(&house.db));
}

#[test]
fn files_are_linked_where_that_is_to_be_had() {
    let house = filled(500);
    let created = house.backups().create(DIR, Sharing::Link).unwrap();
    assert!(created.brought.files > 1);
    assert_eq!(created.brought.linked, created.brought.files);
    let copied =
        Backups::with(Arc::new(house.disk.clone()), house.clock.clone(), Path::new("copies"));
    assert_eq!(copied.create(DIR, Sharing::Copy).unwrap().brought.linked, 0);
}

#[test]
fn what_is_pruned_takes_no_room_and_what_stays_is_whole() {
    let mut house = House::new(Duration::ZERO);
    let rng = &mut Rng::new(9);
    let mut made = Vec::new();
    for _ in 0..6 {
        for _ in 0..100 {
            house.step(rng);
        }
        made.push((house.db.backup(DEST).unwrap().backup, house.model.now.clone()));
    }
    let refused = house.backups().prune(0).unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid);
    let pruned = house.backups().prune(2).unwrap();
    assert_eq!(pruned.backups, [1, 2, 3, 4]);
    assert!(pruned.files > 0 && pruned.bytes > 0, "{pruned:?}");
    let left = house.backups().list().unwrap();
    assert_eq!(left.iter().map(|backup| backup.number).collect::<Vec<_>>(), [5, 6]);
    let report = house.backups().verify().unwrap();
    assert!(report.damage.is_empty() && report.unused == 0, "{report:?}");
    let needed: u64 = left.iter().map(|backup| backup.own_bytes).sum();
    assert_eq!(report.bytes, needed, "nothing is there twice");
    for (backup, world) in &made[4..] {
        let which = Which::Number(backup.number);
        assert!(
            restored(&house, which, &format!("left-{}", backup.number), Sharing::Link) == *world
        );
    }
    let gone = house.backups().restore(Which::Number(2), "gone", Sharing::Link).unwrap_err();
    assert_eq!(gone.kind(), Kind::NotFound);
    // Numbers go on.
    assert_eq!(house.db.backup(DEST).unwrap().backup.number, 7);
    assert_eq!(house.backups().prune(9).unwrap().backups, [0u64; 0]);
}

#[test]
fn the_list_tells_what_each_backup_can_be_restored_to() {
    let mut house = House::new(Duration::from_secs(1000));
    house.put("one", "p", "r", b"1");
    let first = house.backups().create(DIR, Sharing::Link).unwrap().backup;
    house.clock.advance(Duration::from_secs(10));
    house.put("one", "p", "r", b"2");
    let second = house.backups().create(DIR, Sharing::Link).unwrap().backup;
    assert_eq!(house.backups().list().unwrap(), [first.clone(), second.clone()]);
    assert_eq!((first.number, second.number), (1, 2));
    assert!(first.to < second.to && second.from <= first.to, "{first:?} {second:?}");
    assert_eq!(second.to, house.model.last());
    assert_eq!(second.made, house.now());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let house = filled(10);
    let none = house.backups().create("elsewhere", Sharing::Link).unwrap_err();
    assert_eq!(none.kind(), Kind::NotFound, "{none}");
    assert!(house.disk.list(Path::new(DEST)).is_err(), "no folder is made for nothing");
    assert_eq!(house.backups().list().unwrap_err().kind(), Kind::NotFound);
    assert_eq!(house.backups().prune(1).unwrap_err().kind(), Kind::NotFound);
    let inside = Backups::with(Arc::new(house.disk.clone()), house.clock.clone(), Path::new(DIR));
    assert_eq!(inside.create(DIR, Sharing::Link).unwrap_err().kind(), Kind::Invalid);
    house.backups().create(DIR, Sharing::Link).unwrap();
    let full = house.backups().restore(Which::Newest, DIR, Sharing::Link).unwrap_err();
    assert_eq!(full.kind(), Kind::Exists, "{full}");
    let below = Path::new(DIR).join("kept");
    let (disk, clock) = (Arc::new(house.disk.clone()), house.clock.clone());
    let below = Backups::with(disk, clock, &below);
    assert_eq!(below.create(DIR, Sharing::Link).unwrap_err().kind(), Kind::Invalid);
    let below = house.db.backup(Path::new(DIR).join("kept")).unwrap_err();
    assert_eq!(below.kind(), Kind::Invalid, "{below}");
    let lock = house.disk.lock(&Path::new(DEST).join("LOCK")).unwrap();
    assert_eq!(house.backups().create(DIR, Sharing::Link).unwrap_err().kind(), Kind::Locked);
    assert_eq!(house.backups().prune(1).unwrap_err().kind(), Kind::Locked);
    drop(lock);
    backups(&house.disk, &house.clock).create(DIR, Sharing::Link).unwrap();
    assert!(house.disk.open(&Path::new(DEST).join("000002.backup"), Access::Read).is_ok());
}

/// It was done, and the next run took the files of the restored database for those that a run
/// which was cut had left, and removed them.
#[test]
fn nothing_is_restored_into_the_backups() {
    let house = filled(10);
    house.backups().create(DIR, Sharing::Copy).unwrap();
    let dest = Path::new(DEST);
    let before = all_below(&house.disk, dest);
    for dir in [dest.join("staging"), dest.join("new/data"), dest.to_owned()] {
        let refused = house.backups().restore(Which::Newest, &dir, Sharing::Copy).unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
        assert!(refused.to_string().contains("lies in the folder of backups"), "{refused}");
    }
    assert_eq!(all_below(&house.disk, dest), before, "and no folder is made");
    // A name that begins alike is another one.
    house.backups().restore(Which::Newest, format!("{DEST}-2"), Sharing::Copy).unwrap();
}

/// Everything below a folder of the disk.
fn all_below(disk: &SimFs, dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for name in disk.list(dir).unwrap() {
        let path = dir.join(name);
        if disk.list(&path).is_ok() {
            all.extend(all_below(disk, &path));
        }
        all.push(path);
    }
    all.sort();
    all
}

/// Files called `*.tmp`, and all in a folder called `staging`, were deleted whosever they were.
#[test]
fn a_folder_of_other_things_is_refused_and_left_as_it_is() {
    let house = filled(10);
    let put = |name: &str| {
        let path = Path::new(name);
        house.disk.create_dir_all(path.parent().unwrap()).unwrap();
        house.disk.create(path).unwrap();
    };
    let of_files = format!("files/{:064x}", 7);
    for (number, (others, told)) in [
        (&["staging/x", "a.tmp", "photos/1"][..], ""),
        (&["a.tmp"], "a.tmp"),
        (&["staging/report.csv"], "staging/report.csv"),
        // A database called staging.
        (&["staging/000001.sst", "staging/ROOT-A"], "staging/ROOT-A"),
        (&["files/b.tmp"], "files/b.tmp"),
        (&["LOCK", of_files.as_str(), "000001.sst"], "000001.sst"),
        (&["1.backup"], "1.backup"),
    ]
    .into_iter()
    .enumerate()
    {
        let dest = format!("others-{number}");
        others.iter().for_each(|name| put(&format!("{dest}/{name}")));
        let dest = Path::new(&dest);
        let before = all_below(&house.disk, dest);
        let backups = Backups::with(Arc::new(house.disk.clone()), house.clock.clone(), dest);
        for error in [
            backups.create(DIR, Sharing::Link).unwrap_err(),
            house.db.backup(dest).unwrap_err(),
            backups.prune(1).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Invalid, "{others:?}: {error}");
            assert!(error.to_string().contains(told), "{error}");
        }
        assert_eq!(all_below(&house.disk, dest), before);
    }
    let other = open(&house.disk, &house.clock, "database", Options::default()).unwrap();
    other.table("one").unwrap();
    other.close().unwrap();
    let dest = Path::new("database");
    let before = all_below(&house.disk, dest);
    let refused = house.db.backup(dest).unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid);
    assert!(refused.to_string().contains("is a database"), "{refused}");
    assert_eq!(all_below(&house.disk, dest), before);
    assert!(open(&house.disk, &house.clock, "database", Options::default()).is_ok());
}

/// What others keep beside backups stays; a disk that is fresh is as good as empty.
#[test]
fn of_a_folder_of_backups_only_what_runs_leave_is_cleared_away() {
    let house = filled(10);
    let dest = Path::new(DEST);
    house.disk.create_dir_all(&dest.join("lost+found")).unwrap();
    house.backups().create(DIR, Sharing::Link).unwrap();
    let whole = all_below(&house.disk, dest);
    let theirs = ["notes.tmp", "files/notes.tmp", "staging/notes", "photos"];
    let left = ["000002.tmp", "files/copying.tmp", "staging/000009.sst", "staging/000010.blob"];
    theirs.iter().chain(&left).for_each(|name| drop(house.disk.create(&dest.join(name)).unwrap()));
    house.backups().prune(1).unwrap();
    let mut expected = whole;
    expected.extend(theirs.iter().map(|name| dest.join(name)));
    expected.sort();
    assert_eq!(all_below(&house.disk, dest), expected);
    house.backups().create(DIR, Sharing::Link).unwrap();
    house.db.backup(dest).unwrap();
    assert_eq!(house.backups().list().unwrap().len(), 3);
}

/// It was told that there is no database.
#[test]
fn a_folder_that_may_not_be_read_is_not_called_empty() {
    let house = filled(10);
    for call in [Call::Open, Call::List] {
        let faults = FaultFs::new(Arc::new(house.disk.clone()));
        faults.add(Rule::fail(Call::Open).with(Errno::Denied).forever());
        faults.add(Rule::fail(call).with(Errno::Denied).forever());
        let backups = Backups::with(Arc::new(faults), house.clock.clone(), Path::new(DEST));
        let error = backups.create(DIR, Sharing::Link).unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{error}");
        assert!(error.to_string().contains("denied"), "{error}");
        assert!(house.disk.list(Path::new(DEST)).is_err(), "no folder is made for nothing");
    }
}

#[test]
fn a_backup_that_misses_a_file_is_damaged() {
    let house = filled(10);
    house.backups().create(DIR, Sharing::Link).unwrap();
    let files = Path::new(DEST).join("files");
    for name in house.disk.list(&files).unwrap() {
        house.disk.remove(&files.join(name)).unwrap();
    }
    let error = house.backups().restore(Which::Newest, "new", Sharing::Link).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}

/// Two databases that were one go on with the same numbers for their files; what they write into
/// files of one number and length may differ anywhere.
#[test]
fn what_goes_on_as_a_copy_takes_no_file_of_the_first_for_its_own() {
    let (disk, clock) = (SimFs::new(), Arc::new(ManualClock::at(START_TICKS)));
    let options = Options::default;
    let mut values = Rng::new(3);
    let values: Vec<_> = (0..21).map(|_| values.bytes(8 << 10)).collect();
    // The first of 20 values of one blob file is `first`: its end is the same in all.
    let write = |db: &Db, first: usize| {
        let table = db.table("one").unwrap();
        let mut batch = table.partition("p").batch();
        for rk in 0..20 {
            let value = if rk == 0 { &values[first] } else { &values[rk] };
            batch = batch.upsert(format!("{rk:02}"), value);
        }
        batch.commit().unwrap();
        db.flush().unwrap();
    };
    let holds = |number: u64, to: &str, first: usize| {
        backups(&disk, &clock).restore(Which::Number(number), to, Sharing::Copy).unwrap();
        let db = open(&disk, &clock, to, options()).unwrap();
        let row = db.table("one").unwrap().get("p", "00").unwrap().unwrap();
        assert!(row.value == values[first], "backup {number}");
    };
    let db = open(&disk, &clock, DIR, options()).unwrap();
    db.table("one").unwrap();
    db.checkpoint("checkpoint").unwrap();
    let snapshot = db.snapshot().unwrap();
    snapshot.export("export").unwrap();
    write(&db, 0);
    db.backup(DEST).unwrap();
    for (number, copy) in [(2, "checkpoint"), (3, "export")] {
        let copy = open(&disk, &clock, copy, options()).unwrap();
        write(&copy, 20);
        copy.backup(DEST).unwrap();
        holds(number, &format!("back-{number}"), 20);
    }
    holds(1, "back-1", 0);
    // A salvaged folder numbers its files anew.
    db.table("one").unwrap().upsert("p", "00", &values[20]).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let vfs = Arc::new(disk.clone());
    tabulith::salvage::rebuild::salvage_with(vfs, Path::new(DIR), Path::new("salvaged"), 1)
        .unwrap();
    let salvaged = open(&disk, &clock, "salvaged", options()).unwrap();
    salvaged.backup(DEST).unwrap();
    holds(4, "back-4", 20);
    assert!(backups(&disk, &clock).verify().unwrap().damage.is_empty());
}

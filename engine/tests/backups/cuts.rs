//! Runs that are cut: after every effect of a backup, of a pruning and of a restore, to the newest
//! moment and to an earlier one, the process dies or the power fails. Older backups are whole, the
//! next run finishes, and the database is as ever.

use crate::absent::is_no_database;
use crate::common::{DEST, DIR, House, World, backups, look, open, small};
use crate::fates::fates;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Created, Which};
use tabulith::env::clock::ManualClock;
use tabulith::vfs::api::Vfs as _;
use tabulith::vfs::mem::SimFs;
use tabulith::{CommitTs, Db, Kind, Options};
use tabulith_testkit::counts::{self, count};

/// States that a power loss leaves, of each crash point and profile.
const STATES: usize = 8;

fn restore(disk: &SimFs, clock: &Arc<ManualClock>, which: Which, place: &str) -> World {
    let done = backups(disk, clock).restore(which, "new", Sharing::Link);
    done.unwrap_or_else(|error| panic!("{place}: {which:?}: {error}"));
    let options = Options { create_if_missing: false, ..small(Duration::ZERO) };
    let db = open(disk, clock, "new", options).unwrap_or_else(|error| panic!("{place}: {error}"));
    look(&db)
}

/// A disk that a crash has left.
pub(crate) struct Cut {
    pub(crate) place: String,
    pub(crate) disk: SimFs,
    /// The work had been done by then, and whoever asked for it was told so.
    pub(crate) is_done: bool,
}

/// Every disk that a crash under `work` may leave: after each effect by a kill, and by a loss of
/// power.
pub(crate) fn cut_anywhere(sim: &SimFs, work: impl FnOnce()) -> Vec<Cut> {
    let trace = sim.record();
    work();
    let mut all = Vec::new();
    for n in 0..=trace.len() {
        let disk = trace.at(n).expect("the trace goes that far");
        let place = |how: &str| format!("after effect {n} of {}, {how}", trace.len());
        let is_done = n == trace.len();
        let fates = fates(&disk, STATES, n as u64).into_iter();
        all.extend(fates.map(|(how, disk)| Cut { place: place(&how), disk, is_done }));
    }
    all
}

/// A database with one backup, and changes since: some in files, some in the log.
fn house() -> (House, World) {
    let mut house = House::new(Duration::ZERO);
    for row in 0..80 {
        let value = vec![row; if row % 20 == 0 { 900 } else { 60 }];
        house.put("one", "p", &format!("r{row:04}"), &value);
    }
    house.db.compact().expect("a compaction");
    house.backups().create(DIR, Sharing::Copy).expect("a backup");
    let first = house.model.now.clone();
    for row in 0..30 {
        house.put("one", "p", &format!("r{row:04}"), b"changed");
    }
    house.db.flush().expect("a flush");
    house.put("two", "p", "in the log", &[9; 1000]);
    (house, first)
}

/// How a backup is made.
type Way = fn(&House) -> tabulith::Result<Created>;

#[test]
fn a_backup_that_is_cut_leaves_older_ones_whole_and_is_finished_by_the_next() {
    let mut cuts = 0;
    let (mut absent, mut there) = (0, 0);
    let ways: [(Sharing, Way); 3] = [
        (Sharing::Copy, |house| house.backups().create(DIR, Sharing::Copy)),
        (Sharing::Link, |house| house.backups().create(DIR, Sharing::Link)),
        (Sharing::Link, |house| house.db.backup(DEST)),
    ];
    for (sharing, make) in ways {
        let (house, first) = house();
        let all = cut_anywhere(&house.disk, || {
            make(&house).expect("the second backup");
        });
        for Cut { place, disk, is_done } in &all {
            let backups = backups(disk, &house.clock);
            let report = backups.verify().unwrap_or_else(|error| panic!("{place}: {error}"));
            assert!(report.damage.is_empty(), "{place}: {:?}", report.damage);
            match backups.list().expect("a list").len() {
                1 if !is_done => absent += 1,
                2 => there += 1,
                others => panic!("{place}: {others} backups"),
            }
            // What is there of files is used; nothing is left over but what a backup needs.
            let next = backups.create(DIR, sharing);
            let next = next.unwrap_or_else(|error| panic!("{place}: the next run: {error}"));
            let report = backups.verify().expect("a look");
            assert!(report.damage.is_empty() && report.unused <= 1, "{place}: {report:?}");
            cuts += 1;
            // The rest takes longer, and is looked at for some.
            if cuts % 5 == 0 {
                assert!(restore(disk, &house.clock, Which::Number(1), place) == first, "{place}");
                let options = Options { create_if_missing: false, ..small(Duration::ZERO) };
                let db = open(disk, &house.clock, DIR, options);
                let db = db.unwrap_or_else(|error| panic!("{place}: the database: {error}"));
                assert!(look(&db) == house.model.now, "{place}: the database has changed");
            } else {
                let which = Which::Number(next.backup.number);
                assert!(restore(disk, &house.clock, which, place) == house.model.now, "{place}");
            }
        }
    }
    let counts = [count("cuts", cuts, 200), count("absent", absent, 100), count("there", there, 5)];
    counts::tell("backup cuts", &counts);
}

/// The folder has no backup then, and is no folder of other things all the same.
#[test]
fn a_first_backup_that_is_cut_is_finished_by_the_next() {
    let mut house = House::new(Duration::ZERO);
    for row in 0..20 {
        let value = vec![row; if row % 10 == 0 { 900 } else { 60 }];
        house.put("one", "p", &format!("r{row:04}"), &value);
    }
    house.db.flush().expect("a flush");
    house.put("two", "p", "in the log", &[9; 1000]);
    for sharing in [Sharing::Copy, Sharing::Link] {
        let disk = house.disk.fork();
        let all = cut_anywhere(&disk, || {
            backups(&disk, &house.clock).create(DIR, sharing).expect("the first backup");
        });
        let mut staged = 0;
        for Cut { place, disk, is_done } in &all {
            staged += u64::from(!files_in(disk, "staging").is_empty());
            let backups = backups(disk, &house.clock);
            let is_there = backups.list().is_ok_and(|there| there.len() == 1);
            assert!(is_there || !is_done, "{place}: the backup that was made");
            let next = backups.create(DIR, sharing);
            next.unwrap_or_else(|error| panic!("{place}: {error}"));
            assert!(files_in(disk, "staging").is_empty(), "{place}");
            let world = restore(disk, &house.clock, Which::Newest, place);
            assert!(world == house.model.now, "{place}");
        }
        assert!(staged > 5, "{staged} runs were cut while they had the log's rows in a file");
    }
}

fn files_in(disk: &SimFs, folder: &str) -> Vec<std::path::PathBuf> {
    let dir = Path::new(DEST).join(folder);
    if disk.list(&dir).is_ok() { crate::common::files(disk, &dir) } else { Vec::new() }
}

#[test]
fn a_pruning_that_is_cut_harms_nothing_that_stays() {
    let (mut house, _) = house();
    house.db.backup(DEST).expect("the second backup");
    house.db.compact().expect("a compaction");
    house.put("one", "p", "r0001", b"again");
    house.db.backup(DEST).expect("the third backup");
    let all = cut_anywhere(&house.disk, || {
        let pruned = house.backups().prune(1).expect("a pruning");
        assert!(pruned.files > 2, "{pruned:?}");
    });
    for Cut { place, disk, is_done } in &all {
        let backups = backups(disk, &house.clock);
        let numbers: Vec<u64> = backups.list().expect("a list").iter().map(|b| b.number).collect();
        assert!(numbers.ends_with(&[3]), "{place}: {numbers:?}");
        assert!(numbers.len() == 1 || !is_done, "{place}: {numbers:?} were given up");
        let report = backups.verify().expect("a look");
        assert!(report.damage.is_empty(), "{place}: {:?}", report.damage);
        let world = restore(disk, &house.clock, Which::Newest, place);
        assert!(world == house.model.now, "{place}");
        backups.prune(1).unwrap_or_else(|error| panic!("{place}: once more: {error}"));
        let report = backups.verify().expect("a look");
        assert!(report.damage.is_empty() && report.unused == 0, "{place}: {report:?}");
    }
    counts::tell("prune cuts", &[count("cuts", all.len() as u64, 50)]);
}

/// A database whose newest backup shows its past, and a moment of that: of the commits since then
/// one file has none, one some, one only such, and the log's are made a file of; a table lost all
/// its rows at once.
pub(crate) fn house_with_a_past() -> (House, CommitTs) {
    let mut house = House::new(Duration::from_secs(1000));
    for row in 0..40 {
        let value = vec![row; if row % 20 == 0 { 900 } else { 60 }];
        house.put("one", "p", &format!("r{row:04}"), &value);
    }
    // More than are removed row by row.
    for row in 0..70 {
        house.put("two", "p", &format!("r{row:04}"), b"there");
    }
    house.db.compact().expect("a compaction");
    house.backups().create(DIR, Sharing::Copy).expect("a backup");
    for row in 0..10 {
        house.put("one", "p", &format!("r{row:04}"), b"changed");
    }
    let at = house.model.last();
    for row in 5..15 {
        house.put("one", "p", &format!("r{row:04}"), b"changed again");
    }
    house.truncate("two");
    house.db.flush().expect("a flush");
    house.put("one", "p", "r0030", &[7; 900]);
    house.db.flush().expect("a second flush");
    house.put("two", "p", "in the log", &[9; 1000]);
    house.backups().create(DIR, Sharing::Copy).expect("a second backup");
    (house, at)
}

/// The names of the table files in a folder.
fn tables_in(disk: &SimFs, dir: &str) -> BTreeSet<String> {
    let names = disk.list(Path::new(dir)).unwrap_or_default();
    names.into_iter().filter(|name| name.ends_with(".sst")).collect()
}

#[test]
fn a_restore_that_is_cut_is_no_database_or_the_whole_one() {
    let (house, at) = house_with_a_past();
    let (mut cuts, mut none, mut whole, mut within) = (0, 0, 0, 0);
    let mut rewound = Vec::new();
    for sharing in [Sharing::Copy, Sharing::Link] {
        let mut of_newest = BTreeSet::new();
        for (which, moment) in [(Which::Newest, CommitTs::MAX), (Which::At(at), at)] {
            let (world, disk) = (house.model.at(moment), house.disk.fork());
            let all = cut_anywhere(&disk, || {
                let done = backups(&disk, &house.clock).restore(which, "whole", sharing);
                done.expect("a restore");
            });
            let made = tables_in(&disk, "whole");
            match which {
                Which::Newest => of_newest = made.clone(),
                _ => rewound.push((made.len(), of_newest.difference(&made).count())),
            }
            // Those that are written anew, without what came later.
            let anew: BTreeSet<_> = made.difference(&of_newest).collect();
            for Cut { place, disk, is_done } in &all {
                let place = format!("{which:?}, {sharing:?}: {place}");
                let cut = disk.fork();
                match open_whole(disk, &house.clock, "whole") {
                    Ok(db) => {
                        whole += 1;
                        assert!(look(&db) == world, "{place}");
                    }
                    Err(error) => {
                        assert!(is_no_database(&error) && !is_done, "{place}: {error}");
                        none += 1;
                        let there = tables_in(&cut, "whole");
                        within += u64::from(anew.iter().any(|name| there.contains(*name)));
                    }
                }
                assert!(disk_is_sound(disk, &house), "{place}: the backups");
                cuts += 1;
                // The rest takes longer, and is looked at for some.
                if cuts % 2 == 0 {
                    restore_again(&cut, &house, (which, sharing), &world, &place);
                }
            }
        }
    }
    for (files, gone) in rewound {
        assert!(files > 1 && gone > 2, "{files} files, {gone} of the newest are gone");
    }
    assert!(none > 20 && whole > 2, "{none} none, {whole} whole");
    let counts = [
        count("cuts", cuts, 1000),
        count("none", none, 800),
        count("whole", whole, 100),
        count("within the rewinding", within, 200),
    ];
    counts::tell("restore cuts", &counts);
}

/// What was cut is restored again: elsewhere always, and in its place where nothing lies there.
fn restore_again(
    disk: &SimFs,
    house: &House,
    (which, sharing): (Which, Sharing),
    world: &World,
    place: &str,
) {
    let backups = backups(disk, &house.clock);
    let is_free = disk.list(Path::new("whole")).is_ok_and(|names| names.is_empty());
    for dir in ["whole", "again"] {
        match backups.restore(which, dir, sharing) {
            Ok(_) => {
                let db = open_whole(disk, &house.clock, dir);
                let db = db.unwrap_or_else(|error| panic!("{place}: {dir}: {error}"));
                assert!(look(&db) == *world, "{place}: {dir}");
            }
            Err(error) => {
                let is_told = error.kind() == Kind::Exists && dir == "whole" && !is_free;
                assert!(is_told, "{place}: {dir}: {error}");
            }
        }
    }
}

pub(crate) fn open_whole(
    disk: &SimFs,
    clock: &Arc<ManualClock>,
    dir: &str,
) -> tabulith::Result<Db> {
    let options = Options { create_if_missing: false, ..small(Duration::from_secs(1000)) };
    open(disk, clock, dir, options)
}

fn disk_is_sound(disk: &SimFs, house: &House) -> bool {
    let there = tabulith::vfs::api::Vfs::list(disk, Path::new(DEST)).is_ok();
    there && backups(disk, &house.clock).verify().expect("a look").damage.is_empty()
}

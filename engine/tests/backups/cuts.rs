//! Runs that are cut: after every effect of a backup, and of a pruning, the process dies or the
//! power fails. Older backups are whole, the next run finishes, and the database is as ever.

use crate::common::{DEST, DIR, House, World, backups, look, open, small};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::Options;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::Which;
use tabulith::env::clock::ManualClock;
use tabulith::vfs::api::Vfs as _;
use tabulith::vfs::mem::{Profile, SimFs};
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

/// Every disk that a crash may leave: after each effect by a kill, and by a loss of power.
fn fates(sim: &SimFs, work: impl FnOnce()) -> Vec<(String, SimFs)> {
    let trace = sim.record();
    work();
    let mut all = Vec::new();
    for n in 0..=trace.len() {
        let disk = trace.at(n).expect("the trace goes that far");
        all.push((format!("killed after effect {n} of {}", trace.len()), disk.fork()));
        for profile in [Profile::Ordered, Profile::Hostile] {
            let states = disk.crash_states(profile, STATES, n as u64);
            for (at, state) in states.enumerate() {
                let place = format!("{profile:?} state {at} after effect {n} of {}", trace.len());
                all.push((place, SimFs::after_crash(&state)));
            }
        }
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

#[test]
fn a_backup_that_is_cut_leaves_older_ones_whole_and_is_finished_by_the_next() {
    let mut cuts = 0;
    let (mut absent, mut there) = (0, 0);
    for sharing in [Sharing::Copy, Sharing::Link] {
        let (house, first) = house();
        let all = fates(&house.disk, || {
            house.backups().create(DIR, sharing).expect("the second backup");
        });
        for (place, disk) in &all {
            let backups = backups(disk, &house.clock);
            let report = backups.verify().unwrap_or_else(|error| panic!("{place}: {error}"));
            assert!(report.damage.is_empty(), "{place}: {:?}", report.damage);
            match backups.list().expect("a list").len() {
                1 => absent += 1,
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
        let all = fates(&disk, || {
            backups(&disk, &house.clock).create(DIR, sharing).expect("the first backup");
        });
        let mut staged = 0;
        for (place, disk) in &all {
            staged += u64::from(!files_in(disk, "staging").is_empty());
            let next = backups(disk, &house.clock).create(DIR, sharing);
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
    let all = fates(&house.disk, || {
        let pruned = house.backups().prune(1).expect("a pruning");
        assert!(pruned.files > 2, "{pruned:?}");
    });
    for (place, disk) in &all {
        let backups = backups(disk, &house.clock);
        let numbers: Vec<u64> = backups.list().expect("a list").iter().map(|b| b.number).collect();
        assert!(numbers.ends_with(&[3]), "{place}: {numbers:?}");
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

#[test]
fn a_restore_that_is_cut_is_no_database_or_the_whole_one() {
    let (house, _) = house();
    house.backups().create(DIR, Sharing::Copy).expect("a backup");
    let all = fates(&house.disk, || {
        house.backups().restore(Which::Newest, "whole", Sharing::Copy).expect("a restore");
    });
    let (mut none, mut whole) = (0, 0);
    for (place, disk) in &all {
        let options = Options { create_if_missing: false, ..small(Duration::ZERO) };
        match open(disk, &house.clock, "whole", options) {
            Ok(db) => {
                whole += 1;
                assert!(look(&db) == house.model.now, "{place}");
            }
            Err(_) => none += 1,
        }
        assert!(disk_is_sound(disk, &house), "{place}: the backups");
    }
    assert!(none > 20 && whole > 2, "{none} none, {whole} whole");
}

fn disk_is_sound(disk: &SimFs, house: &House) -> bool {
    let there = tabulith::vfs::api::Vfs::list(disk, Path::new(DEST)).is_ok();
    there && backups(disk, &house.clock).verify().expect("a look").damage.is_empty()
}

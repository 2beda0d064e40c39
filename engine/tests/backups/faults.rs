//! Calls of the disk that fail: every call of a backup, of a pruning and of a restore, in every
//! way. Older backups stay whole, what failed can be done again, what says that it is done is, and
//! the database is as ever.

use crate::absent::is_no_database;
use crate::common::{DEST, DIR, House, World, backups, look, open, small};
use crate::cuts::{Cut, cut_anywhere, house_with_a_past, open_whole};
use crate::kinds::{KINDS, failures};
use std::error::Error as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backups, Which};
use tabulith::env::jobs::ByHand;
use tabulith::vfs::api::Vfs;
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{CommitTs, Db, Kind, Options, Result};
use tabulith_testkit::counts::{self, count};

/// Of so many runs one has all of it looked at.
const ONE_LOOKED_AT_IN: u64 = 4;

/// What was tried.
#[derive(Default)]
struct Tally {
    calls: u64,
    runs: u64,
    refused: u64,
}

/// Does `work` on copies of the disk on which another call fails each time, and has `judge` look at
/// what is left once the disk is well again. Whether it is to look at all of it goes with that.
fn each_fault<T>(
    house: &House,
    tally: &mut Tally,
    work: impl Fn(&Backups) -> Result<T>,
    judge: impl Fn(&str, &SimFs, Option<T>, bool),
) {
    let begin = |vfs| Backups::with(vfs, house.clock.clone(), Path::new(DEST));
    each_fault_after(house, tally, (begin, work), judge);
}

/// The same of work on what `begin` makes of a disk that is well.
fn each_fault_after<S, T>(
    house: &House,
    tally: &mut Tally,
    (begin, work): (impl Fn(Arc<dyn Vfs>) -> S, impl Fn(&S) -> Result<T>),
    judge: impl Fn(&str, &SimFs, Option<T>, bool),
) {
    let on = |disk: &SimFs| {
        let faults = FaultFs::new(Arc::new(disk.clone()));
        (faults.clone(), begin(Arc::new(faults)))
    };
    let (faults, means) = on(&house.disk.fork());
    let before = faults.calls();
    work(&means).expect("a disk that is well");
    let calls = faults.calls() - before;
    tally.calls += calls;
    // Of once and for ever, one in turn.
    let turns = failures(calls).enumerate().filter(|(number, _)| number % 2 == number / 2 % 2);
    for (_, (how, rule)) in turns {
        let disk = house.disk.fork();
        let (faults, means) = on(&disk);
        faults.add(rule);
        let done = work(&means).ok();
        assert!(faults.injected() > 0, "{how} is not reached");
        drop(means);
        tally.runs += 1;
        tally.refused += u64::from(done.is_none());
        judge(&how, &disk, done, tally.runs.is_multiple_of(ONE_LOOKED_AT_IN));
    }
}

impl Tally {
    fn tell(&self, layer: &str, calls: u64) {
        let runs = self.calls * KINDS.len() as u64;
        let counts = [
            count("calls", self.calls, calls),
            count("runs", self.runs, runs),
            count("refused", self.refused, runs / 4),
        ];
        counts::tell(layer, &counts);
    }
}

#[track_caller]
fn must_be_sound(backups: &Backups, place: &str) {
    let report = backups.verify().unwrap_or_else(|error| panic!("{place}: {error}"));
    assert!(report.damage.is_empty(), "{place}: {:?}", report.damage);
}

/// Restores a backup and looks at it.
#[track_caller]
fn must_show(disk: &SimFs, house: &House, which: Which, world: &World, place: &str) {
    let done = backups(disk, &house.clock).restore(which, "shown", Sharing::Link);
    done.unwrap_or_else(|error| panic!("{place}: {which:?}: {error}"));
    let db = open_whole(disk, &house.clock, "shown");
    let db = db.unwrap_or_else(|error| panic!("{place}: {which:?}: {error}"));
    assert!(look(&db) == *world, "{place}: {which:?}");
}

#[track_caller]
fn must_be_as_ever(disk: &SimFs, house: &House, place: &str) {
    let options = Options { create_if_missing: false, ..small(Duration::from_secs(1000)) };
    let db = open(disk, &house.clock, DIR, options);
    let db = db.unwrap_or_else(|error| panic!("{place}: the database: {error}"));
    assert!(look(&db) == house.model.now, "{place}: the database has changed");
}

/// Looks at what a third backup has left, and makes another one.
fn judge_backup(
    house: &House,
    (at, sharing): (CommitTs, Sharing),
) -> impl Fn(&str, &SimFs, Option<u64>, bool) {
    move |place, disk, done, all| {
        let backups = backups(disk, &house.clock);
        must_be_sound(&backups, place);
        let there = backups.list().expect("a list");
        assert!(there.len() >= 2, "{place}: {there:?}");
        if all {
            must_be_as_ever(&disk.fork(), house, place);
            must_show(&disk.fork(), house, Which::At(at), &house.model.at(at), place);
        }
        if let Some(number) = done {
            must_show(&disk.fork(), house, Which::Number(number), &house.model.now, place);
        }
        let next = backups.create(DIR, sharing);
        let next = next.unwrap_or_else(|error| panic!("{place}: once more: {error}"));
        must_be_sound(&backups, place);
        if all || done.is_none() {
            let which = Which::Number(next.backup.number);
            must_show(disk, house, which, &house.model.now, place);
        }
    }
}

#[test]
fn a_backup_whose_calls_fail_harms_nothing_and_can_be_made_again() {
    let (mut house, at) = house_with_a_past();
    house.put("three", "p", "after the backups", &[3; 700]);
    let mut tally = Tally::default();
    for sharing in [Sharing::Copy, Sharing::Link] {
        let work =
            |backups: &Backups| -> Result<u64> { Ok(backups.create(DIR, sharing)?.backup.number) };
        each_fault(&house, &mut tally, work, judge_backup(&house, (at, sharing)));
    }
    tally.tell("backup faults", 150);
}

/// It begins with a flush, and copies files that nobody deletes meanwhile.
#[test]
fn a_backup_by_its_database_whose_calls_fail_harms_nothing_and_can_be_made_again() {
    let (mut house, at) = house_with_a_past();
    house.put("three", "p", "after the backups", &[3; 700]);
    let begin = |vfs| {
        let builder = Db::builder().options(small(Duration::from_secs(1000)));
        let db = builder.parts(vfs, house.clock.clone(), Arc::new(ByHand)).open(DIR);
        db.expect("a disk that is well")
    };
    let work = |db: &Db| -> Result<u64> { Ok(db.backup(DEST)?.backup.number) };
    let mut tally = Tally::default();
    let judge = judge_backup(&house, (at, Sharing::Link));
    each_fault_after(&house, &mut tally, (begin, work), judge);
    tally.tell("database backup faults", 60);
}

/// It was removed before its like was there to take its place.
#[test]
fn a_file_of_earlier_backups_that_cannot_be_opened_stays_until_there_is_its_like() {
    let mut house = House::new(Duration::ZERO);
    house.put("one", "p", "r", b"row");
    house.db.flush().expect("a flush");
    house.backups().create(DIR, Sharing::Copy).expect("a backup");
    let kept = Rule::fail(Call::Open).named(&"?".repeat(64)).with(Errno::TooManyFiles).forever();
    let links = Rule::fail(Call::HardLink).forever();
    let copies = Rule::fail(Call::Create).named("copying.tmp").forever();
    for rules in [vec![&kept, &links, &copies], vec![&kept, &links], vec![&kept]] {
        let disk = house.disk.fork();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        rules.iter().for_each(|rule| faults.add((*rule).clone()));
        let on = Backups::with(Arc::new(faults), house.clock.clone(), Path::new(DEST));
        let cuts = cut_anywhere(&disk, || {
            let made = on.create(DIR, Sharing::Link);
            assert_eq!(made.is_ok(), rules.len() < 3, "{rules:?}: {made:?}");
        });
        for Cut { place, disk, .. } in &cuts {
            let place = format!("{rules:?}: {place}");
            must_be_sound(&backups(disk, &house.clock), &place);
            must_show(disk, &house, Which::Number(1), &house.model.now, &place);
        }
    }
}

/// All was tried again, up to five times: a draft was in the way of the next manifest, and what
/// failed last of all left one more whole backup each time.
#[test]
fn a_manifest_that_cannot_be_written_is_told_and_leaves_one_backup_at_most() {
    let (house, _) = house_with_a_past();
    let before = house.backups().list().expect("a list").len();
    let draft = format!("{:06}.tmp", before + 1);
    for rule in [
        Rule::fail(Call::Write).named(&draft),
        Rule::fail(Call::Sync).named(&draft).done(),
        Rule::fail(Call::Rename).named(&draft),
        Rule::fail(Call::SyncDir).named(DEST),
        Rule::fail(Call::SyncDir).named(DEST).forever(),
    ] {
        let disk = house.disk.fork();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        faults.add(rule.clone());
        let on = Backups::with(Arc::new(faults), house.clock.clone(), Path::new(DEST));
        let error = on.create(DIR, Sharing::Copy).expect_err("it cannot be written");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        let cause = cause.map(io::Error::to_string);
        assert_eq!(cause, Some(io::Error::from(Errno::Io).to_string()), "{rule:?}: {error}");
        let backups = backups(&disk, &house.clock);
        must_be_sound(&backups, "after the failure");
        assert!(backups.list().expect("a list").len() <= before + 1, "{rule:?}");
        backups.create(DIR, Sharing::Copy).unwrap_or_else(|error| panic!("{rule:?}: {error}"));
    }
}

#[test]
fn a_pruning_whose_calls_fail_leaves_what_it_keeps_and_can_be_done_again() {
    let (mut house, _) = house_with_a_past();
    house.put("three", "p", "after the backups", &[3; 700]);
    house.db.compact().expect("a compaction");
    let newest = house.db.backup(DEST).expect("the third backup").backup.number;
    let mut tally = Tally::default();
    let work = |backups: &Backups| backups.prune(1);
    each_fault(&house, &mut tally, work, |place, disk, _, all| {
        let backups = backups(disk, &house.clock);
        must_be_sound(&backups, place);
        let there = backups.list().expect("a list");
        assert!(there.last().is_some_and(|last| last.number == newest), "{place}: {there:?}");
        if all {
            must_be_as_ever(&disk.fork(), &house, place);
        }
        let pruned = backups.prune(1);
        pruned.unwrap_or_else(|error| panic!("{place}: once more: {error}"));
        let report = backups.verify().expect("a look");
        assert!(report.damage.is_empty() && report.unused == 0, "{place}: {report:?}");
        assert_eq!(report.backups, 1, "{place}");
        must_show(disk, &house, Which::Newest, &house.model.now, place);
    });
    tally.tell("prune faults", 20);
}

#[test]
fn a_restore_whose_calls_fail_is_no_database_or_the_whole_one() {
    let (house, at) = house_with_a_past();
    let mut tally = Tally::default();
    for (which, sharing) in [(Which::Newest, Sharing::Copy), (Which::At(at), Sharing::Link)] {
        let world = match which {
            Which::At(moment) => house.model.at(moment),
            _ => house.model.now.clone(),
        };
        let work = |backups: &Backups| backups.restore(which, "whole", sharing);
        each_fault(&house, &mut tally, work, |place, disk, done, all| {
            let again = backups(disk, &house.clock).restore(which, "whole", sharing);
            if let Err(error) = &again {
                assert_eq!(error.kind(), Kind::Exists, "{place}: once more: {error}");
            }
            let is_done = done.is_some() || again.is_ok();
            match open_whole(&disk.fork(), &house.clock, "whole") {
                Ok(db) => assert!(look(&db) == world, "{place}"),
                Err(error) => {
                    assert!(is_no_database(&error) && !is_done, "{place}: {error}");
                }
            }
            must_be_sound(&backups(disk, &house.clock), place);
            if all {
                must_be_as_ever(&disk.fork(), &house, place);
                must_show(disk, &house, which, &world, place);
            }
        });
    }
    tally.tell("restore faults", 100);
}

//! Restoring to random moments of a life: each shows what the model says of it, commit for commit.

use crate::common::{DEST, DIR, House, look, open, restored, small};
use std::time::Duration;
use tabulith::backup::depot::Sharing;
use tabulith::backup::folder::{Backup, Which};
use tabulith::{CommitTs, Durability, Kind};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const STEPS: usize = 1500;
/// Moments that are restored in each life.
const MOMENTS: usize = 20;
const LIVES: u64 = 4;

/// A life of many steps, with backups on the way: by the database itself, and of its folder while
/// it is open and its log holds what no file does.
fn live(rng: &mut Rng, history: Duration) -> (House, Vec<Backup>) {
    let mut house = House::new(history);
    let mut made = Vec::new();
    for step in 0..STEPS {
        house.step(rng);
        if step % 250 == 249 {
            let created = match rng.chance(50) {
                true => house.db.backup("backups").unwrap(),
                false => {
                    let sharing = *rng.pick(&[Sharing::Link, Sharing::Copy]);
                    house.backups().create(DIR, sharing).unwrap()
                }
            };
            made.push(created.backup);
        }
    }
    (house, made)
}

#[test]
fn random_moments_are_restored_as_they_were() {
    let first = seed::seed_or(1);
    let (mut moments, mut commits, mut rewound) = (0, 0, 0);
    for seed in first..first + LIVES {
        let _replay =
            Replay::new(seed, "cargo nextest run -p tabulith --test backups random_moments");
        let rng = &mut Rng::new(seed);
        let (house, made) = live(rng, Duration::from_secs(100_000));
        let newest = made.last().unwrap();
        assert!(newest.from <= CommitTs(crate::common::START_TICKS), "all of the life is kept");
        for moment in 0..MOMENTS {
            let span = (newest.to.0 - crate::common::START_TICKS) as usize;
            let at = CommitTs(crate::common::START_TICKS + rng.below(span) as u64);
            let sharing = *rng.pick(&[Sharing::Link, Sharing::Copy]);
            let world = restored(&house, Which::At(at), &format!("at-{moment}"), sharing);
            assert!(world == house.model.at(at), "seed {seed}: the moment {at} is not as it was");
            moments += 1;
            rewound += u64::from(!made.iter().any(|backup| backup.to == at));
        }
        for Backup { number, to, .. } in &made {
            let world =
                restored(&house, Which::Number(*number), &format!("whole-{number}"), Sharing::Link);
            assert!(world == house.model.at(*to), "seed {seed}: backup {number}");
        }
        assert_eq!(look(&house.db), house.model.now, "the first database goes on");
        assert!(house.backups().verify().unwrap().damage.is_empty());
        commits += house.model.commits() as u64;
    }
    let floor = LIVES * MOMENTS as u64;
    let counts = [
        count("moments", moments, floor),
        count("commits", commits, 1000),
        count("rewound", rewound, floor / 2),
    ];
    counts::tell("backups", &counts);
}

#[test]
fn a_short_window_restores_what_it_keeps_and_names_it_otherwise() {
    let seed = seed::seed_or(7);
    let _replay = Replay::new(seed, "cargo nextest run -p tabulith --test backups a_short_window");
    let rng = &mut Rng::new(seed);
    let (house, made) = live(rng, Duration::from_secs(30));
    let (mut kept, mut refused) = (0, 0);
    let end = made.last().unwrap().to.0;
    for moment in 0..60 {
        let at = CommitTs(
            crate::common::START_TICKS
                + rng.below((end - crate::common::START_TICKS) as usize) as u64,
        );
        let promised =
            made.iter().any(|b| (b.from..=b.to).contains(&at) || (b.to..=b.made).contains(&at));
        match promised {
            true => {
                kept += 1;
                let world = restored(&house, Which::At(at), &format!("at-{moment}"), Sharing::Link);
                assert!(world == house.model.at(at), "the moment {at}");
            }
            false => {
                refused += 1;
                let error =
                    house.backups().restore(Which::At(at), "none", Sharing::Link).unwrap_err();
                assert_eq!(error.kind(), Kind::Invalid, "{error}");
                assert!(error.to_string().contains(&format!("{} to ", made[0].from)), "{error}");
            }
        }
    }
    assert!(kept > 3 && refused > 3, "{kept} kept, {refused} refused");
}

#[test]
fn a_restored_database_goes_on_and_is_backed_up_where_the_first_is() {
    let rng = &mut Rng::new(seed::seed_or(3));
    let (mut house, made) = live(rng, Duration::from_secs(100_000));
    let at = CommitTs(made[2].to.0 - 10);
    assert!(restored(&house, Which::At(at), "again", Sharing::Link) == house.model.at(at));
    let db = open(&house.disk, &house.clock, "again", small(Duration::from_secs(100_000))).unwrap();
    // The past before the moment came along, and new commits lie above every one of the first life.
    let early = CommitTs(made[0].to.0);
    let snapshot = db.snapshot_at(early).unwrap();
    let table = snapshot.table("one").unwrap();
    let rows = snapshot.scan::<&str, &str>(&table, ..).unwrap().count();
    let then = house.model.at(early);
    assert_eq!(rows, then.rows.keys().filter(|(of, _, _)| of == "one").count());
    let table = db.table("one").unwrap();
    let new = table.upsert("p0", "r000", vec![7; 700]).unwrap();
    assert!(new > house.model.last(), "{new}");
    // The two lives write files of equal numbers now.
    for (rk, byte) in [("r001", 1), ("r002", 2)] {
        table.upsert("p0", rk, vec![byte; 700]).unwrap();
        house.put("one", "p0", rk, &[byte + 10; 700]);
    }
    let second = db.backup("backups").unwrap().backup;
    let first = house.db.backup("backups").unwrap().backup;
    let expected = look(&db);
    assert!(restored(&house, Which::Number(second.number), "second", Sharing::Copy) == expected);
    assert!(
        restored(&house, Which::Number(first.number), "first", Sharing::Copy) == house.model.now
    );
}

#[test]
fn a_quiet_time_before_a_backup_is_a_moment_of_it() {
    let mut house = House::new(Duration::ZERO);
    house.put("one", "p", "r", b"1");
    house.clock.advance(Duration::from_secs(3600));
    let quiet = CommitTs(house.now().0 - 10);
    house.db.backup(DEST).unwrap();
    house.clock.advance(Duration::from_secs(1));
    house.put("one", "p", "r", b"2");
    assert!(restored(&house, Which::At(quiet), "quiet", Sharing::Link) == house.model.at(quiet));
    let later = house.backups().restore(Which::At(house.now()), "later", Sharing::Link);
    assert_eq!(later.unwrap_err().kind(), Kind::Invalid, "nobody knows it");
}

#[test]
fn a_moment_whose_commits_another_process_did_not_see_yet_is_not_shown() {
    let mut house = House::new(Duration::ZERO);
    house.put("one", "p", "r", b"1");
    house.clock.advance(Duration::from_secs(1));
    let batch = house.db.table("one").unwrap().partition("p").batch();
    let batch = batch.upsert("r", "2").durability(Durability::Buffered);
    let seen = batch.commit().unwrap();
    house.clock.advance(Duration::from_secs(1));
    // The commit is acknowledged and visible, and the log does not have it.
    let backup = house.backups().create(DIR, Sharing::Link).unwrap().backup;
    assert!(backup.to < seen && backup.quiet == backup.to, "{backup:?}");
    let shown = house.backups().restore(Which::At(seen), "shown", Sharing::Link);
    assert_eq!(shown.unwrap_err().kind(), Kind::Invalid);
    let before = restored(&house, Which::At(backup.to), "before", Sharing::Link);
    assert!(before == house.model.now);
}

#[test]
fn a_moment_of_several_databases_is_restored_of_the_one_that_is_named() {
    let history = Duration::from_secs(1000);
    let mut house = House::new(history);
    house.put("one", "p", "r", b"of the first");
    house.clock.advance(Duration::from_secs(1)); // Which their ids are drawn from.
    let other = open(&house.disk, &house.clock, "other", small(history)).unwrap();
    other.table("one").unwrap().upsert("p", "r", "of the second").unwrap();
    house.clock.advance(Duration::from_secs(1));
    let at = house.now();
    house.clock.advance(Duration::from_secs(1));
    let first = house.db.backup(DEST).unwrap().backup.number;
    let second = other.backup(DEST).unwrap().backup.number;
    let refused = house.backups().restore(Which::At(at), "any", Sharing::Link).unwrap_err();
    assert!(refused.to_string().contains(&format!("which: {first}, {second}")), "{refused}");
    for (number, db) in [(first, &house.db), (second, &other)] {
        let world =
            restored(&house, Which::NumberAt(number, at), &format!("{number}"), Sharing::Link);
        assert!(world == look(db), "{number}");
    }
    let early = Which::NumberAt(second, CommitTs(1));
    assert_eq!(
        house.backups().restore(early, "early", Sharing::Link).unwrap_err().kind(),
        Kind::Invalid
    );
}

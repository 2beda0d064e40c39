//! Damage on disk, while the database is open: merges go round it, so that the rest keeps its shape
//! and commits go on; whoever asks for a merge of it is told.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::env::rng::Rng;
use tabulith::error::Kind;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, CommitTs, Db, Durability, If, Options, Table};

const ROWS: u64 = 4000;

fn open(disk: &SimFs) -> Db {
    open_with(Arc::new(disk.clone()), Arc::new(ManualClock::at(17_672_256_000_000_000)))
}

fn open_with(disk: Arc<dyn Vfs>, clock: Arc<ManualClock>) -> Db {
    let advanced = Advanced {
        memtable_bytes: Some(16 << 10),
        file_bytes: 16 << 10,
        level_base_bytes: 32 << 10,
        level_fanout: 4,
        block_cache_bytes: Some(0),
        blob_bytes_min: 2000,
        blob_file_bytes: 64 << 10,
        scrub_period_s: 0,
        ..Advanced::default()
    };
    let threads = Some(1); // So that the numbers of a merge's files follow their keys.
    let options =
        Options { durability: Durability::Buffered, threads, advanced, ..Options::default() };
    let builder = Db::builder().options(options);
    builder.parts(disk, clock, Arc::new(ByHand)).open("/db").unwrap()
}

/// Writes `count` rows in random places and does what work that makes; returns how often it failed.
fn write(db: &Db, table: &Table, rng: &mut Rng, count: u64) -> usize {
    let mut failed = 0;
    for _ in 0..count {
        let value: Vec<u8> = (0..100).map(|_| rng.next_u64() as u8).collect();
        table.upsert("p", rng.below(ROWS).to_be_bytes(), value).unwrap();
        loop {
            match db.step() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
                    failed += 1;
                    break;
                }
            }
        }
    }
    failed
}

/// The files of that kind that have at least `bytes`, in the order of their names.
fn files(disk: &SimFs, ending: &str, bytes: u64) -> Vec<PathBuf> {
    let mut names = disk.list("/db".as_ref()).unwrap();
    names.sort();
    let paths = names.iter().filter(|name| name.ends_with(ending));
    let len = |path: &PathBuf| disk.open(path, Access::Read).unwrap().len().unwrap();
    paths.map(|name| PathBuf::from("/db").join(name)).filter(|path| len(path) >= bytes).collect()
}

/// Flips a bit of a file.
fn flip(disk: &SimFs, path: &Path, at: u64) {
    let file = disk.open(path, Access::ReadWrite).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn merges_go_round_a_damaged_table_file_and_commits_go_on() {
    let disk = SimFs::new();
    let db = open(&disk);
    let table = db.table("t").unwrap();
    let mut rng = Rng::seeded(3);
    assert_eq!(write(&db, &table, &mut rng, 4 * ROWS), 0);
    // The oldest file of full size lies in the deepest level.
    let damaged = files(&disk, ".sst", 12 << 10).swap_remove(0);
    flip(&disk, &damaged, 3000);
    let failed = write(&db, &table, &mut rng, 8 * ROWS);
    assert!((1..5).contains(&failed), "{failed} merges met the damage");
    let stats = db.stats();
    assert!(stats.levels[0].0 < 8, "{:?}", stats.levels);
    let why = stats.last_background_error.unwrap();
    assert!(why.contains(damaged.to_str().unwrap()), "{why}");
    let rows = |n: u64| table.get("p", n.to_be_bytes());
    let lost = (0..ROWS).filter(|n| rows(*n).is_err()).count();
    assert!(lost < 100, "{lost} rows of {ROWS} are not read for one block");
    let error = db.compact().unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert_eq!(error.place().unwrap().0, damaged);
}

/// What one table has over a damaged file is no reason for another's to stay in L0, nor for deletes
/// elsewhere to stay.
#[test]
fn only_what_lies_over_the_damage_stays_where_it_is() {
    let disk = SimFs::new();
    let db = open(&disk);
    let (first, second) = (db.table("first").unwrap(), db.table("second").unwrap());
    let mut rng = Rng::seeded(5);
    assert_eq!(write(&db, &second, &mut rng, ROWS) + write(&db, &first, &mut rng, ROWS), 0);
    db.compact().unwrap();
    let lost =
        |table: &Table| (0..ROWS).filter(|n| table.get("p", n.to_be_bytes()).is_err()).count();
    let of_first = files(&disk, ".sst", 12 << 10).into_iter().find(|path| {
        flip(&disk, path, 3000);
        let is_it = lost(&first) > 0;
        if !is_it {
            flip(&disk, path, 3000);
        }
        is_it
    });
    assert!(of_first.is_some() && lost(&second) == 0);
    let mut failed = write(&db, &first, &mut rng, 400);
    db.flush().unwrap();
    failed += write(&db, &second, &mut rng, 8 * ROWS);
    assert!(failed < 5, "{failed} merges met the damage");
    let l0 = db.stats().levels[0].0;
    assert!(l0 < 8, "{l0} files in L0");
    assert!(lost(&first) > 0 && lost(&second) == 0);
}

/// Where all of L0 has to go through the damage, commits are refused in the end, and told why.
#[test]
fn a_commit_that_cannot_wait_for_more_room_is_refused_at_once() {
    let disk = SimFs::new();
    let db = open(&disk);
    let table = db.table("t").unwrap();
    // Each memtable has the first and the last key.
    let put = |n: u64| {
        let rows = table.partition("p").batch().upsert([0], [1; 500]).upsert([255], [2; 500]);
        rows.upsert(n.to_be_bytes(), [3; 500]).commit()
    };
    for n in 0..10 {
        put(n).unwrap();
    }
    db.flush().unwrap();
    let damaged = files(&disk, ".sst", 250).swap_remove(0);
    flip(&disk, &damaged, 40);
    let refused = (0..100_000).find_map(|n| {
        let _ = db.step();
        // The first merge is told to whoever waits for it by hand.
        put(n).err().filter(|error| error.kind() != Kind::Corrupt)
    });
    let refused = refused.expect("there is an end to L0");
    assert_eq!(refused.kind(), Kind::Busy, "{refused}");
    assert!(refused.to_string().contains(damaged.to_str().unwrap()), "{refused}");
}

/// A disk that gives an error for a file now and then is asked again after a while.
#[test]
fn a_file_that_the_disk_did_not_give_has_its_turn_again() {
    let (disk, clock) = (SimFs::new(), Arc::new(ManualClock::at(17_672_256_000_000_000)));
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let db = open_with(Arc::new(faults.clone()), Arc::clone(&clock));
    let table = db.table("t").unwrap();
    let mut rng = Rng::seeded(7);
    assert_eq!(write(&db, &table, &mut rng, ROWS), 0);
    faults.add(Rule::fail(Call::Read).named("*.sst").forever());
    let mut failed = false;
    for _ in 0..ROWS * 10 {
        // A commit that waits for work does it by hand.
        let written = table.upsert("p", rng.below(ROWS).to_be_bytes(), [9; 500]);
        failed = written.is_err() || db.step().is_err();
        if failed {
            break;
        }
    }
    faults.clear();
    assert!(failed, "no merge read a file");
    assert!(db.stats().last_background_error.is_some());
    clock.advance(Duration::from_secs(61));
    while db.step().unwrap() {}
    assert_eq!(db.stats().last_background_error, None);
    db.compact().unwrap();
}

/// Two hundred values of 3,000 bytes, or every second one of them anew.
fn put_values(table: &Table, rng: &mut Rng, step: usize) {
    for n in (0..200u64).step_by(step) {
        let value: Vec<u8> = (0..3000).map(|_| rng.next_u64() as u8).collect();
        table.upsert("b", n.to_be_bytes(), value).unwrap();
    }
}

/// Does the work in the background until none is due; each failure must be of `place`. Gives how
/// many there were, five at most.
fn failures(db: &Db, place: &Path) -> usize {
    let mut failed = 0;
    while failed < 5 {
        match db.step() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                assert_eq!(error.place().unwrap().0, place, "{error}");
                failed += 1;
            }
        }
    }
    failed
}

/// What it held is lost; everything else goes on, and the file has its turn again.
#[test]
fn a_blob_file_that_is_gone_holds_up_no_merge() {
    let (disk, mut rng) = (SimFs::new(), Rng::seeded(4));
    let db = open(&disk);
    put_values(&db.table("t").unwrap(), &mut rng, 1);
    db.close().unwrap();
    let gone = files(&disk, ".blob", 6000).swap_remove(0);
    let elsewhere = gone.with_file_name("elsewhere");
    disk.rename(&gone, &elsewhere).unwrap();
    let clock = Arc::new(ManualClock::at(17_672_256_000_000_000));
    let db = open_with(Arc::new(disk.clone()), Arc::clone(&clock));
    let table = db.table("t").unwrap();
    // Half of each file dies.
    put_values(&table, &mut rng, 2);
    db.flush().unwrap();
    assert_eq!(failures(&db, &gone), 1, "merges met the gap");
    let is_lost = |n: &u64| table.get("b", n.to_be_bytes()).is_err();
    assert!((0..200u64).step_by(2).all(|n| !is_lost(&n)) && (0..200u64).any(|n| is_lost(&n)));
    // A disk that gives it again has its space back.
    disk.rename(&elsewhere, &gone).unwrap();
    clock.advance(Duration::from_secs(61));
    db.compact().unwrap();
    assert!(!(0..200u64).any(|n| is_lost(&n)));
    while db.step().unwrap() {}
    assert!(disk.open(&gone, Access::Read).is_err(), "half of it was dead");
}

#[test]
fn values_of_a_damaged_blob_file_stay_where_they_are() {
    let (disk, mut rng) = (SimFs::new(), Rng::seeded(4));
    let db = open(&disk);
    let table = db.table("t").unwrap();
    put_values(&table, &mut rng, 1);
    db.flush().unwrap();
    let damaged = files(&disk, ".blob", 6000).swap_remove(0);
    flip(&disk, &damaged, 5000);
    // Half of each file dies, the value with the damage not.
    put_values(&table, &mut rng, 2);
    db.flush().unwrap();
    assert_eq!(failures(&db, &damaged), 1, "merges met the damage");
    let lost: Vec<_> = (0..200u64).filter(|n| table.get("b", n.to_be_bytes()).is_err()).collect();
    assert_eq!(lost, [1]);
}

/// Of a row that goes or is replaced nobody asks for the value.
#[test]
fn a_row_with_a_damaged_value_is_replaced_and_removed_as_any_other() {
    let (disk, mut rng) = (SimFs::new(), Rng::seeded(4));
    let db = open(&disk);
    let table = db.table("t").unwrap();
    put_values(&table, &mut rng, 1);
    db.flush().unwrap();
    let partition = table.partition("b");
    let key = |n: u64| n.to_be_bytes();
    let ts = table.get("b", key(1)).unwrap().unwrap().ts;
    let mut read = partition.begin().unwrap();
    assert!(read.get(key(2)).unwrap().is_some());
    let damaged = files(&disk, ".blob", 6000).swap_remove(0);
    for n in 0..3 {
        flip(&disk, &damaged, 2000 + n * 3016);
        assert_eq!(table.get("b", key(n)).unwrap_err().kind(), Kind::Corrupt, "{n}");
    }
    assert_eq!(table.insert("b", key(0), "anew").unwrap_err().kind(), Kind::Exists);
    partition.batch().delete_if(key(0), If::Present).commit().unwrap();
    let refused = table.replace("b", key(1), "other", If::Match(CommitTs(7))).unwrap_err();
    assert_eq!((refused.kind(), refused.current()), (Kind::Changed, Some(ts)));
    table.replace("b", key(1), "other", If::Match(ts)).unwrap();
    // Others have written since, so what it read is looked for.
    read.put(key(2), "third").unwrap();
    read.commit().unwrap();
    assert!(table.get("b", key(0)).unwrap().is_none());
    let values = table.get_many(&[("b", key(1)), ("b", key(2))]).unwrap();
    let values: Vec<_> = values.into_iter().map(|row| row.unwrap().value).collect();
    assert_eq!(values, ["other", "third"]);
}

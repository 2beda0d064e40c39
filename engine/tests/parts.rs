//! Merges that are divided among threads: the rows are those of an undivided one, one edit names
//! all files, and a part that fails leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::{ByHand, Jobs, Threads};
use tabulith::env::rng::Rng;
use tabulith::vfs::api::{Access, Vfs};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Db, Options, Table};

const DIR: &str = "/db";
const THREADS: usize = 4;

fn open(disk: &Arc<dyn Vfs>, jobs: Arc<dyn Jobs>, threads: usize) -> Db {
    open_with(disk, jobs, threads, small())
}

fn small() -> Advanced {
    Advanced {
        memtable_bytes: Some(64 << 10),
        wal_segment_bytes: 256 << 10,
        file_bytes: 16 << 10,
        level_base_bytes: 64 << 10,
        // Only who asks for a merge gets one.
        l0_compact_files: 60,
        l0_slow_files: 900,
        l0_stop_files: 1000,
        ..Advanced::default()
    }
}

fn open_with(disk: &Arc<dyn Vfs>, jobs: Arc<dyn Jobs>, threads: usize, advanced: Advanced) -> Db {
    let options = Options { threads: Some(threads), advanced, ..Options::default() };
    let clock = Arc::new(ManualClock::at(16_950_000_000_000_000));
    Db::builder().options(options).parts(Arc::clone(disk), clock, jobs).open(DIR).unwrap()
}

/// Rows in one partition and in many, some overwritten, some deleted, and what is left of them.
fn fill(table: &Table) -> BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>> {
    let (mut rng, mut rows) = (Rng::seeded(11), BTreeMap::new());
    for _ in 0..6000 {
        let pk = if rng.one_in(2) { b"one".to_vec() } else { vec![rng.below(200) as u8] };
        let rk = rng.below(3000).to_be_bytes().to_vec();
        if rng.one_in(10) {
            table.delete(&pk, &rk, tabulith::If::Any).ok();
            rows.remove(&(pk, rk));
        } else {
            let value: Vec<u8> = (0..60).map(|_| rng.next_u64() as u8).collect();
            table.upsert(&pk, &rk, value.clone()).unwrap();
            rows.insert((pk, rk), value);
        }
    }
    rows
}

#[track_caller]
fn check(db: &Db, rows: &BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>) {
    let table = db.table("t").unwrap();
    let mut expected = rows.iter();
    for row in table.scan::<&str, &str>(..).unwrap() {
        let row = row.unwrap();
        let ((pk, rk), value) = expected.next().unwrap();
        assert_eq!((&row.partition_key[..], &row.row_key[..]), (&pk[..], &rk[..]));
        assert_eq!(row.value[..], value[..]);
    }
    assert_eq!(expected.next(), None);
}

fn table_files(disk: &SimFs) -> usize {
    let names = disk.list(Path::new(DIR)).unwrap();
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

fn files(db: &Db) -> usize {
    db.stats().levels.iter().map(|(files, _)| files).sum()
}

#[test]
fn a_divided_merge_gives_the_rows_of_an_undivided_one() {
    let jobs: [(Arc<dyn Jobs>, usize); 3] =
        [(Arc::new(ByHand), 1), (Arc::new(ByHand), THREADS), (Arc::new(Threads), THREADS)];
    for (jobs, threads) in jobs {
        let sim = SimFs::new();
        let disk: Arc<dyn Vfs> = Arc::new(sim.clone());
        let db = open(&disk, jobs, threads);
        let rows = fill(&db.table("t").unwrap());
        db.compact().unwrap();
        let stats = db.stats();
        // Threads may have merged some of it before they were asked, which is divided less.
        let (merges, parts) = (stats.compactions, stats.compaction_parts);
        assert!(merges > 0 && parts < merges * threads as u64 + 1, "{stats:?}");
        assert!(parts >= merges + threads as u64 - 1, "{stats:?}");
        check(&db, &rows);
        assert_eq!(table_files(&sim), files(&db));
        let (_, bytes) = stats.levels.iter().copied().find(|(files, _)| *files > 0).unwrap();
        assert!(files(&db) as u64 <= bytes / (8 << 10), "parts leave small files: {stats:?}");
        drop(db);
        check(&open(&disk, Arc::new(ByHand), 1), &rows);
    }
}

/// Each file of L0 begins at the first of all keys, so that says nothing of where its bytes are.
#[test]
fn a_merge_of_many_files_of_l0_is_divided_in_the_middle() {
    let sim = SimFs::new();
    let disk: Arc<dyn Vfs> = Arc::new(sim.clone());
    let db = open_with(&disk, Arc::new(ByHand), 2, Advanced { block_bytes: 512, ..small() });
    let (table, mut rng) = (db.table("t").unwrap(), Rng::seeded(13));
    // So few keys that what each part writes fits into one file.
    for _ in 0..40 {
        for _ in 0..200 {
            let value: Vec<u8> = (0..60).map(|_| rng.next_u64() as u8).collect();
            table.upsert("p", rng.below(150).to_be_bytes(), value).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!((stats.compactions, stats.compaction_parts), (1, 2), "{stats:?}");
    let names = sim.list(Path::new(DIR)).unwrap();
    let len = |name: &String| sim.open(&Path::new(DIR).join(name), Access::Read)?.len();
    let parts = names.iter().filter(|name| name.ends_with(".sst"));
    let parts: Vec<_> = parts.map(|name| len(name).unwrap()).collect();
    let (least, all) = (parts.iter().min().unwrap(), parts.iter().sum::<u64>());
    assert!(parts.len() == 2 && least * 4 > all, "{parts:?}");
}

/// Every write of a table file fails in turn, so that each part is the one that fails.
#[test]
fn a_part_that_fails_takes_the_others_with_it() {
    let sim = SimFs::new();
    let faults = FaultFs::new(Arc::new(sim.clone()));
    let disk: Arc<dyn Vfs> = Arc::new(faults.clone());
    let db = open(&disk, Arc::new(ByHand), THREADS);
    let rows = fill(&db.table("t").unwrap());
    db.flush().unwrap();
    let (before, mut failed) = (files(&db), 0);
    // As many files as there are at most, or the merge fails for another reason.
    while failed < 200 {
        faults.add(Rule::fail(Call::Create).named("*.sst").skip(failed));
        let outcome = db.compact();
        faults.clear();
        if outcome.is_ok() {
            break;
        }
        failed += 1;
        while db.step().unwrap() {} // Empties the trash.
        assert_eq!((files(&db), table_files(&sim)), (before, before));
        check(&db, &rows);
    }
    let stats = db.stats();
    assert!(stats.compaction_parts > stats.compactions && failed > THREADS as u64, "{stats:?}");
    assert_eq!(table_files(&sim), files(&db));
    check(&db, &rows);
}

//! The whole engine: four writers, two readers, an ingest and a flush by hand, the log's thread,
//! flush and compaction, on a disk in memory.

use super::by_chance::holds;
use crate::db::Db;
use crate::embedded::decide::If;
use crate::env::clock::Clock;
use crate::env::jobs::{Jobs, Priority};
use crate::error::Kind;
use crate::options::{Advanced, Durability, Options};
use crate::vfs::mem::SimFs;
use shuttle::thread;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tabulith_testkit::counts::{self, count};

const WRITERS: usize = 4;
const ROUNDS: usize = 3;
const SUM: i64 = 100;
const INGESTED: u8 = 3;

/// Workers as shuttle's threads.
#[derive(Debug)]
struct Workers;

impl Jobs for Workers {
    fn start(
        &self,
        _name: &str,
        _priority: Priority,
        work: Box<dyn FnOnce() + Send>,
    ) -> io::Result<bool> {
        thread::spawn(work);
        Ok(true)
    }
}

/// A clock that goes on with every look.
#[derive(Debug, Default)]
struct Looks(AtomicU64);

impl Clock for Looks {
    fn wall_ticks(&self) -> u64 {
        17_672_256_000_000_000 + self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn steady(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn sleep(&self, _time: Duration) {
        thread::yield_now();
    }
}

fn open(disk: &SimFs) -> Db {
    let advanced = Advanced {
        memtable_bytes: Some(4 << 10),
        wal_segment_bytes: 16 << 10,
        block_bytes: 512,
        file_bytes: 4 << 10,
        level_base_bytes: 4 << 10,
        level_fanout: 2,
        l0_compact_files: 1,
        block_cache_bytes: Some(64 << 10),
        scrub_period_s: 0,
        ..Advanced::default()
    };
    let options = Options {
        durability: Durability::Synced,
        threads: Some(1),
        advanced,
        ..Options::default()
    };
    let builder = Db::builder().options(options);
    let builder =
        builder.parts(Arc::new(disk.process()), Arc::<Looks>::default(), Arc::new(Workers));
    builder.open("db").expect("a database")
}

fn number(value: &[u8]) -> i64 {
    i64::from_le_bytes(value[..8].try_into().expect("eight bytes"))
}

/// Numbers in rows so large that a few commits fill a memtable.
fn row(number: i64) -> Vec<u8> {
    let mut value = vec![7; 500];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// Adds one to the row that all writers share; tries again where another was first.
fn add_one(db: &Db) {
    let table = db.table("t").expect("a table");
    loop {
        let found = table.get("shared", "count").expect("sound files").expect("a row");
        let next = row(number(&found.value) + 1);
        match table.replace("shared", "count", next, If::Match(found.ts)) {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), Kind::Changed, "{error}"),
        }
    }
}

/// Moves one from one row to the other, of which the sum stays.
fn transfer(db: &Db) {
    let bank = db.table("t").expect("a table").partition("bank");
    let moved = bank.transact(|change| {
        let (a, b) = (change.get("a")?.expect("a row"), change.get("b")?.expect("a row"));
        change.put("a", row(number(&a.value) - 1))?;
        change.put("b", row(number(&b.value) + 1))
    });
    moved.expect("it happens at last");
}

/// All that must be so at any moment; returns the count.
fn look(db: &Db) -> i64 {
    let table = db.table("t").expect("a table");
    let rows: Vec<_> = table.partition("bank").scan::<&str>(..).expect("a scan").collect();
    let sum: i64 = rows.into_iter().map(|row| number(&row.expect("sound files").value)).sum();
    assert_eq!(sum, SUM, "half a transaction");
    number(&table.get("shared", "count").expect("sound files").expect("a row").value)
}

fn engine() {
    let disk = SimFs::new();
    let db = Arc::new(open(&disk));
    let table = db.table("t").expect("a table");
    table.upsert("shared", "count", row(0)).expect("a commit");
    let bank = table.partition("bank").batch().upsert("a", row(SUM)).upsert("b", row(0));
    bank.commit().expect("a commit");
    let writers: Vec<_> = (0..WRITERS)
        .map(|me| {
            let db = Arc::clone(&db);
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    if me == 0 {
                        transfer(&db);
                    } else {
                        add_one(&db);
                    }
                    let table = db.table("t").expect("a table");
                    let own = format!("{me}-{round}");
                    table.insert("own", &own, row(round as i64)).expect("a commit");
                    assert!(table.get("own", &own).expect("sound files").is_some(), "own write");
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let db = Arc::clone(&db);
            thread::spawn(move || {
                let counts: Vec<i64> = (0..3).map(|_| look(&db)).collect();
                assert!(counts.is_sorted(), "a count goes back: {counts:?}");
            })
        })
        .collect();
    let ingester = thread::spawn({
        let db = Arc::clone(&db);
        move || {
            let mut rows = db.table("t").expect("a table").ingest().expect("an open database");
            (0..INGESTED).for_each(|n| rows.add("in", [n], row(0)).expect("in order"));
            rows.finish().expect("a sound disk");
        }
    });
    db.flush().expect("a sound disk");
    for thread in writers.into_iter().chain(readers).chain([ingester]) {
        thread.join().expect("it ends");
    }
    whole(&db);
    let stats = db.stats();
    FLUSHES.fetch_add(stats.flushes, Ordering::Relaxed);
    MERGES.fetch_add(stats.compactions, Ordering::Relaxed);
    db.close().expect("nothing failed");
    drop(db);
    let again = open(&disk);
    whole(&again);
    again.close().expect("nothing failed");
}

static FLUSHES: AtomicU64 = AtomicU64::new(0);
static MERGES: AtomicU64 = AtomicU64::new(0);

fn whole(db: &Db) {
    assert_eq!(look(db), ((WRITERS - 1) * ROUNDS) as i64, "a commit is lost");
    let own = db.table("t").expect("a table").partition("own").count().expect("sound files");
    assert_eq!(own as usize, WRITERS * ROUNDS);
    let ingested = db.table("t").expect("a table").partition("in").count().expect("sound files");
    assert_eq!(ingested, u64::from(INGESTED));
}

#[test]
fn four_writers_two_readers_flush_and_compaction() {
    let orders = holds("four_writers_two_readers_flush_and_compaction", 1_000, engine);
    let (flushes, merges) = (FLUSHES.load(Ordering::Relaxed), MERGES.load(Ordering::Relaxed));
    counts::tell("shuttle", &[count("flushes", flushes, orders), count("merges", merges, orders)]);
}

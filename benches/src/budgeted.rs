//! Work whose memory is measured: each in a process of its own, on a database with one budget and
//! defaults for everything else.
//!
//! What is read is checked. Absent: the program that starts the processes; it is `bin/memory.rs`.

use crate::fixture::{self, BATCH_ROWS};
use crate::rows::{self, PARTITION_ROWS, VALUE_BYTES, Values};
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use tabulith::env::rng::Rng;
use tabulith::{Db, Durability, Table};

/// Bytes of a row's keys and value.
const ROW_BYTES: usize = 29 + VALUE_BYTES;

/// Large enough for blob files.
const LARGE_BYTES: usize = 64 << 10;

/// Single rows that are asked for, and scans, at most.
const GETS_MAX: u64 = 1_000_000;
const SCANS_MAX: u64 = 20_000;
const SCAN_ROWS: usize = 50;

/// One work.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// What it does.
    pub name: &'static str,
    /// Whether it reads what was filled in before.
    pub reads: bool,
    run: fn(&Db, usize) -> Result<()>,
}

/// All of them, in the order of the table.
pub const WORKS: [Work; 6] = [
    Work { name: "random fill, settled", reads: false, run: fill },
    Work { name: "gets all over", reads: true, run: gets },
    Work { name: "scans of 50 rows all over", reads: true, run: scans },
    Work { name: "full scan, both ways", reads: true, run: full_scans },
    Work { name: "gets by one thread, overwrites by another", reads: true, run: both },
    Work { name: "values of 64 KiB, put and read", reads: false, run: large },
];

/// Bytes of a process's memory, programs and mapped files included.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// Before the database was opened.
    pub before: u64,
    /// The most since the process began, never less than `before`.
    pub peak: u64,
}

impl Work {
    /// Does the work with `data` bytes of rows on the database in `dir`, which gets a budget of
    /// `budget` bytes.
    pub fn run(&self, dir: &Path, budget: usize, data: usize) -> Result<Resident> {
        let before = status_bytes("VmRSS:")?;
        let db = Db::builder().memory(budget).durability(Durability::Flushed).open(dir)?;
        (self.run)(&db, data).with_context(|| self.name)?;
        db.close()?;
        // Linux notes the high-water mark only where memory goes back, and from counters that lag
        // by pages for each processor: it can read below what was resident a moment ago.
        Ok(Resident { before, peak: before.max(status_bytes("VmHWM:")?) })
    }
}

/// A field of `/proc/self/status`, which counts in KiB.
fn status_bytes(field: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let value =
        status.lines().find_map(|line| line.strip_prefix(field)).context("no such field")?;
    let kib: u64 = value.trim().trim_end_matches(" kB").parse().context("a number of KiB")?;
    Ok(kib << 10)
}

fn row_count(data: usize) -> u64 {
    (data / ROW_BYTES) as u64 / PARTITION_ROWS * PARTITION_ROWS
}

/// Numbers of the rows of random batches, by their first ones.
fn random_batches(seed: u64, data: usize) -> impl Iterator<Item = u64> {
    let batches = row_count(data) / BATCH_ROWS;
    fixture::random(seed, batches, batches).map(|batch| batch * BATCH_ROWS)
}

fn put(table: &Table, first: u64, values: &mut Values) -> Result<()> {
    let mut batch = table.partition(rows::keys(first).0).batch();
    for i in first..first + BATCH_ROWS {
        batch = batch.upsert(rows::keys(i).1, values.value());
    }
    batch.commit()?;
    Ok(())
}

/// All rows once, batches in random order, and then as many batches again.
fn fill(db: &Db, data: usize) -> Result<()> {
    let (table, mut values) = (db.table("rows")?, Values::new(1));
    let mut once: Vec<_> = (0..row_count(data) / BATCH_ROWS).map(|i| i * BATCH_ROWS).collect();
    let mut rng = Rng::seeded(1);
    for last in (1..once.len()).rev() {
        once.swap(last, rng.below(last as u64 + 1) as usize);
    }
    for first in once.into_iter().chain(random_batches(2, data)) {
        put(&table, first, &mut values)?;
    }
    db.flush()?;
    Ok(db.settle()?)
}

fn get_all(table: &Table, seed: u64, data: usize) -> Result<()> {
    for i in fixture::random(seed, GETS_MAX.min(2 * row_count(data)), row_count(data)) {
        let (pk, rk) = rows::keys(i);
        let row = table.get(&pk, &rk)?.with_context(|| format!("{pk} {rk} is not there"))?;
        ensure!(row.value.len() == VALUE_BYTES, "{pk} {rk}");
    }
    Ok(())
}

fn gets(db: &Db, data: usize) -> Result<()> {
    get_all(&db.table("rows")?, 3, data)
}

fn scans(db: &Db, data: usize) -> Result<()> {
    let table = db.table("rows")?;
    for i in fixture::random(4, SCANS_MAX.min(row_count(data)), row_count(data) - SCAN_ROWS as u64)
    {
        let mut cursor = table.cursor(rows::keys(i)..)?;
        for _ in 0..SCAN_ROWS {
            let row = cursor.next()?.context("fifty rows")?;
            ensure!(row.value()?.len() == VALUE_BYTES, "a whole value");
        }
    }
    Ok(())
}

fn full_scans(db: &Db, data: usize) -> Result<()> {
    let table = db.table("rows")?;
    let mut cursor = table.cursor::<&str, &str>(..)?;
    let (mut up, mut down) = (0, 0);
    while let Some(row) = cursor.next()? {
        up += u64::from(row.value()?.len() == VALUE_BYTES);
    }
    while let Some(row) = cursor.prev()? {
        down += u64::from(row.value()?.len() == VALUE_BYTES);
    }
    ensure!((up, down) == (row_count(data), up), "{up} rows up, {down} down");
    Ok(())
}

fn both(db: &Db, data: usize) -> Result<()> {
    let table = db.table("rows")?;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| get_all(&table, 5, data));
        let mut values = Values::new(2);
        random_batches(6, data).try_for_each(|first| put(&table, first, &mut values))?;
        reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?
    })
}

fn large(db: &Db, data: usize) -> Result<()> {
    let (table, mut values) = (db.table("large")?, Values::new(8));
    let count = (data / LARGE_BYTES) as u64;
    let mut value = Vec::with_capacity(LARGE_BYTES);
    for i in 0..count {
        let (pk, rk) = rows::keys(i);
        value.clear();
        while value.len() < LARGE_BYTES {
            let piece = values.value();
            value.extend_from_slice(&piece[..piece.len().min(LARGE_BYTES - value.len())]);
        }
        table.upsert(pk, rk, &value)?;
    }
    for i in fixture::random(7, count, count) {
        let (pk, rk) = rows::keys(i);
        let row = table.get(&pk, &rk)?.with_context(|| format!("{pk} {rk} is not there"))?;
        ensure!(row.value.len() == LARGE_BYTES, "{pk} {rk}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_finds_what_it_looks_for() {
        let folder = fixture::folder().expect("a folder");
        for work in WORKS {
            let resident = work.run(folder.path(), 32 << 20, 1 << 20).expect(work.name);
            assert!(resident.peak >= resident.before && resident.before > 0);
        }
    }
}

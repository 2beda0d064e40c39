//! The operations whose instructions are counted, each prepared so that the same steps do the
//! same work.
//!
//! Reads are of one database of [`ROWS`] rows, all in one file, which [`make_rows`] writes
//! beforehand: what is made under valgrind takes fifty times as long. Every step checks what it
//! found, and keys are printed before the first step. Absent: threads. Nothing but the step runs.

use crate::fixture::{BATCH_ROWS, Store, hashed_key, key_values, properties, random};
use crate::rows::{self, PARTITION_ROWS, Values};
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use tabulith::Cursor;
use tabulith::options::Durability;
use tabulith::structures::{DataBlock, Memory, decode_entity, encode_entity};

/// Rows of the database that is read.
pub const ROWS: u64 = 50_000;

/// Caches that hold all of its blocks, and its rows beside them.
const CACHE_BYTES: usize = 32 << 20;

/// Rows of a block of 4 KiB.
const BLOCK_ROWS: u64 = 16;

/// Rows of a memtable of some 16 MiB.
const MEMTABLE_ROWS: u64 = 50_000;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// What a step does.
    pub name: &'static str,
    /// How many things a step does: rows of a commit or a block.
    pub units: u64,
    /// What one of them is.
    pub unit: &'static str,
    /// Steps that the lesser of two runs takes; the other takes twice as many.
    pub steps: u64,
    prepare: fn(&Path) -> Result<Step>,
}

/// Does step `i`.
pub type Step = Box<dyn FnMut(u64) -> Result<()>>;

pub(crate) const fn operation(
    name: &'static str,
    steps: u64,
    prepare: fn(&Path) -> Result<Step>,
) -> Operation {
    Operation { name, units: 1, unit: "operation", steps, prepare }
}

/// All of them.
pub const OPERATIONS: [Operation; 12] = [
    operation("get, row cache", 10_000, get_of_row_cache),
    operation("get, block cache", 10_000, get_of_block_cache),
    operation("get, absent", 10_000, get_absent),
    operation("get, memtable", 10_000, get_of_memtable),
    Operation {
        units: BATCH_ROWS,
        unit: "row",
        ..operation("commit of 100 rows, Flushed", 100, commit_of_many)
    },
    operation("commit of one row, Flushed", 5_000, commit_of_one),
    Operation { unit: "row", ..operation("cursor: next row and its value", 20_000, next_row) },
    operation("cursor: seek", 5_000, seek),
    Operation {
        units: 9,
        unit: "deleted row",
        ..operation("cursor: past nine deleted rows", 2_000, past_deleted)
    },
    Operation {
        units: 9,
        unit: "deleted row",
        ..operation("cursor: back past nine deleted rows", 2_000, back_past_deleted)
    },
    Operation {
        units: BLOCK_ROWS,
        unit: "row",
        ..operation("block of 16 rows: decode", 2_000, decode_block)
    },
    operation("entity of 10 properties: encode, decode", 5_000, entity),
];

impl Operation {
    /// Prepares the operation in `dir`, where [`make_rows`] was, and takes so many steps.
    pub fn run(&self, dir: &Path, steps: u64) -> Result<()> {
        let mut step = (self.prepare)(dir)?;
        (0..steps).try_for_each(|i| step(i).with_context(|| format!("{}, step {i}", self.name)))
    }
}

/// Writes the database that operations read.
pub fn make_rows(dir: &Path) -> Result<()> {
    let store = Store::open(&dir.join("rows"), Durability::Buffered, None)?;
    store.fill(ROWS)?;
    Ok(store.db.compact()?)
}

/// Opens a copy: an open database leaves another log than it found, and the next one to open it
/// would not take the same steps.
fn rows_of(dir: &Path, cache_bytes: Option<usize>) -> Result<Store> {
    let copy = tempfile::tempdir_in(dir)?.keep();
    for file in std::fs::read_dir(dir.join("rows"))? {
        let file = file?;
        std::fs::copy(file.path(), copy.join(file.file_name()))?;
    }
    Store::open(&copy, Durability::Buffered, cache_bytes)
}

/// An empty database beside the one that is read.
fn empty(dir: &Path, durability: Durability) -> Result<Store> {
    let folder = tempfile::tempdir_in(dir)?.keep();
    Store::open(&folder, durability, None)
}

/// Gets `keys` by turns and finds rows or finds none.
fn gets(store: Store, keys: Vec<(String, String)>, present: bool) -> Step {
    Box::new(move |i| {
        let (pk, rk) = &keys[i as usize % keys.len()];
        let found = store.table.get(pk, rk)?;
        ensure!(found.is_some() == present, "{pk} {rk}");
        Ok(())
    })
}

fn get_of_row_cache(dir: &Path) -> Result<Step> {
    let store = rows_of(dir, None)?;
    let keys: Vec<_> = random(1, 2000, ROWS).map(rows::keys).collect();
    let get_all = || keys.iter().try_for_each(|(pk, rk)| store.table.get(pk, rk).map(drop));
    get_all()?;
    let hits_before = store.db.stats().row_cache_hits;
    get_all()?;
    let hits = store.db.stats().row_cache_hits - hits_before;
    ensure!(hits == keys.len() as u64, "{hits} hits of the row cache");
    Ok(gets(store, keys, true))
}

/// Each row is asked for once: it is found in its block, which a row beside it has brought into the
/// cache, and kept as a row.
fn get_of_block_cache(dir: &Path) -> Result<Step> {
    let store = rows_of(dir, Some(CACHE_BYTES))?;
    for (pk, rk) in (0..ROWS).step_by(2).map(rows::keys) {
        store.table.get(pk, rk)?;
    }
    // Odd ones, in an order that leaps over blocks: the step and half of ROWS have no common
    // factor.
    let odd = (0..ROWS / 2).map(|i| i * 7919 % (ROWS / 2) * 2 + 1);
    let mut keys: Vec<_> = odd.map(rows::keys).collect();
    let before = store.db.stats();
    for (pk, rk) in keys.drain(..100) {
        store.table.get(pk, rk)?;
    }
    let after = store.db.stats();
    let hits = (after.row_cache_hits - before.row_cache_hits, after.cache_hits - before.cache_hits);
    ensure!(hits == (0, 100), "hits of rows and of blocks: {hits:?}");
    Ok(gets(store, keys, true))
}

fn get_absent(dir: &Path) -> Result<Step> {
    let store = rows_of(dir, None)?;
    let beside = |i| (rows::keys(i).0, rows::absent_row(i % PARTITION_ROWS));
    Ok(gets(store, random(3, 20_000, ROWS).map(beside).collect(), false))
}

fn get_of_memtable(_: &Path) -> Result<Step> {
    let memory = Memory::default();
    for (ts, (key, value)) in (1..).zip(key_values(0..MEMTABLE_ROWS)) {
        memory.insert(&key, ts, &value);
    }
    let keys: Vec<_> = random(4, 20_000, MEMTABLE_ROWS).map(|i| hashed_key(i).0).collect();
    Ok(Box::new(move |i| {
        let key = &keys[i as usize % keys.len()];
        ensure!(memory.get(key).is_some_and(|value| !value.is_empty()), "row of the memtable");
        Ok(())
    }))
}

fn commit_of_many(dir: &Path) -> Result<Step> {
    let store = empty(dir, Durability::Flushed)?;
    let starts: Vec<_> = random(5, 200, ROWS / BATCH_ROWS).map(|i| i * BATCH_ROWS).collect();
    let keys: Vec<_> = (0..PARTITION_ROWS).map(rows::row).collect();
    let mut values = Values::new(1);
    Ok(Box::new(move |i| {
        let first = starts[i as usize % starts.len()];
        let from = (first % PARTITION_ROWS) as usize;
        let mut batch = store.table.partition(rows::keys(first).0).batch();
        for key in &keys[from..from + BATCH_ROWS as usize] {
            batch = batch.upsert(key, values.value());
        }
        batch.commit()?;
        Ok(())
    }))
}

fn commit_of_one(dir: &Path) -> Result<Step> {
    let store = empty(dir, Durability::Flushed)?;
    let keys: Vec<_> = random(6, 10_000, ROWS).map(rows::keys).collect();
    let mut values = Values::new(1);
    Ok(Box::new(move |i| {
        let (pk, rk) = &keys[i as usize % keys.len()];
        store.table.upsert(pk, rk, values.value())?;
        Ok(())
    }))
}

/// Has every block read, so that it is in the cache.
fn warm(store: &Store) -> Result<()> {
    for (pk, rk) in (0..ROWS).step_by(BLOCK_ROWS as usize / 2).map(rows::keys) {
        store.table.get(pk, rk)?;
    }
    Ok(())
}

fn next_row(dir: &Path) -> Result<Step> {
    let store = rows_of(dir, None)?;
    warm(&store)?;
    let mut cursor = store.table.cursor::<&str, &str>(..)?;
    Ok(Box::new(move |_| {
        let row = cursor.next()?.context("a row")?;
        ensure!(row.value()?.len() == rows::VALUE_BYTES, "a whole value");
        Ok(())
    }))
}

fn seek(dir: &Path) -> Result<Step> {
    let store = rows_of(dir, None)?;
    warm(&store)?;
    let keys: Vec<_> = random(7, 10_000, ROWS).map(rows::keys).collect();
    let mut cursor = store.table.cursor::<&str, &str>(..)?;
    Ok(Box::new(move |i| {
        let (pk, rk) = &keys[i as usize % keys.len()];
        let row = cursor.seek(pk, rk)?.context("a row")?;
        ensure!(row.row_key == rk.as_bytes(), "another row than {pk} {rk}");
        Ok(())
    }))
}

/// A cursor over rows of which nine of ten are deleted, in files and in the memtable.
fn mostly_deleted(dir: &Path) -> Result<Cursor> {
    let store = rows_of(dir, None)?;
    warm(&store)?;
    store.delete_most(ROWS)?;
    Ok(store.table.cursor::<&str, &str>(..)?)
}

fn past_deleted(dir: &Path) -> Result<Step> {
    let mut cursor = mostly_deleted(dir)?;
    Ok(Box::new(move |_| cursor.next()?.context("a row").map(drop)))
}

fn back_past_deleted(dir: &Path) -> Result<Step> {
    let mut cursor = mostly_deleted(dir)?;
    Ok(Box::new(move |_| cursor.prev()?.context("a row").map(drop)))
}

fn decode_block(_: &Path) -> Result<Step> {
    let bytes = DataBlock::encode(&key_values(0..BLOCK_ROWS));
    Ok(Box::new(move |i| {
        let block = DataBlock::decode(&bytes)?;
        let value = block.value((i % BLOCK_ROWS) as usize)?;
        ensure!(value.len() == rows::VALUE_BYTES, "a whole value");
        Ok(())
    }))
}

fn entity(_: &Path) -> Result<Step> {
    let properties = properties();
    Ok(Box::new(move |_| {
        let decoded = decode_entity(&encode_entity(&properties))?;
        ensure!(decoded.len() == properties.len(), "all properties");
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_operation_finds_what_it_looks_for() {
        let folder = fixture::folder().expect("a folder");
        make_rows(folder.path()).expect("a database");
        for operation in OPERATIONS {
            operation.run(folder.path(), operation.steps / 10).expect(operation.name);
        }
    }
}

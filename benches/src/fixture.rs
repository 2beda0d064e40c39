//! What micro-benchmarks and counts of instructions work on: encoded keys, entities, and a database
//! without threads.

use crate::rows::{self, Values};
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use tabulith::Table;
use tabulith::db::Db;
use tabulith::env::clock::SystemClock;
use tabulith::env::jobs::ByHand;
use tabulith::env::rng::Rng;
use tabulith::ids::{CommitTs, TableId};
use tabulith::key::{hash, order};
use tabulith::options::Durability;
use tabulith::structures::KeyValue;
use tabulith::table::value::Value;
use tabulith::vfs::os::OsVfs;
use tempfile::TempDir;

/// Rows of a commit of many.
pub const BATCH_ROWS: u64 = 100;

/// The encoded key of row `i`, 37 bytes.
pub fn key(i: u64) -> Vec<u8> {
    let (pk, rk) = rows::keys(i);
    order::row_key(TableId(7), pk.as_bytes(), rk.as_bytes())
}

/// The same with its hash, as whoever looks a row up has it.
pub fn hashed_key(i: u64) -> (Vec<u8>, u64) {
    let key = key(i);
    let row_hash = hash::of_row(&key);
    (key, row_hash)
}

/// Numbers of `count` rows, each below `below`, that depend on nothing but `seed`.
pub fn random(seed: u64, count: u64, below: u64) -> impl Iterator<Item = u64> {
    let mut rng = Rng::seeded(seed);
    (0..count).map(move |_| rng.below(below))
}

/// Encoded keys and values of rows.
pub fn key_values(rows: impl Iterator<Item = u64>) -> Vec<KeyValue> {
    let mut values = Values::new(1);
    rows.map(|i| (key(i), values.value().to_vec())).collect()
}

/// Ten properties of five types.
pub fn properties() -> Vec<(String, Value)> {
    let of_type = |n: usize| match n % 5 {
        0 => Value::Int32(n as i32),
        1 => Value::Int64(1 << 40),
        2 => Value::Double(0.25),
        3 => Value::Boolean(true),
        _ => Value::String(format!("text of property {n}")),
    };
    (0..10).map(|n| (format!("Property{n}"), of_type(n))).collect()
}

/// A folder for files that vanish with it, on the disk of the build.
pub fn folder() -> Result<TempDir> {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
    std::fs::create_dir_all(target)?;
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(target)?)
}

/// A database with one table, in which nothing happens beside what is measured.
#[derive(Debug)]
pub struct Store {
    /// The database.
    pub db: Db,
    /// Its table.
    pub table: Table,
}

impl Store {
    /// Opens the one in `dir`, or makes it. `cache_bytes`: of blocks and rows; by default what the
    /// engine finds right.
    pub fn open(dir: &Path, durability: Durability, cache_bytes: Option<usize>) -> Result<Store> {
        let mut builder = Db::builder().durability(durability);
        if let Some(bytes) = cache_bytes {
            builder = builder.block_cache_bytes(bytes);
        }
        let (disk, clock) = (Arc::new(OsVfs::new()), Arc::new(SystemClock::new()));
        let db = builder.parts(disk, clock, Arc::new(ByHand)).open(dir)?;
        let table = db.table("bench")?;
        Ok(Store { db, table })
    }

    /// Puts the rows `first..first + BATCH_ROWS` by one commit. They must be of one partition.
    pub fn put_batch(&self, first: u64, values: &mut Values) -> Result<CommitTs> {
        let mut batch = self.table.partition(rows::keys(first).0).batch();
        for i in first..first + BATCH_ROWS {
            batch = batch.upsert(rows::keys(i).1, values.value());
        }
        Ok(batch.commit()?)
    }

    /// Deletes nine of ten of the first `count` rows; the deletes then are in the memtable.
    pub fn delete_most(&self, count: u64) -> Result<()> {
        for first in (0..count).step_by(BATCH_ROWS as usize) {
            let mut batch = self.table.partition(rows::keys(first).0).batch();
            for i in (first..first + BATCH_ROWS).filter(|i| !i.is_multiple_of(10)) {
                batch = batch.delete(rows::keys(i).1);
            }
            batch.commit()?;
        }
        Ok(())
    }

    /// Puts the first `count` rows, which then are in the memtable.
    pub fn fill(&self, count: u64) -> Result<()> {
        let mut values = Values::new(1);
        for first in (0..count).step_by(BATCH_ROWS as usize) {
            self.put_batch(first, &mut values)?;
        }
        Ok(())
    }
}

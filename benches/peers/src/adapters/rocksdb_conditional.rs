//! RocksDB as an `OptimisticTransactionDB`, for conditional updates. It keeps the history of its
//! memtables in memory for the checks at commit, which is why nothing else is measured with it.

use crate::adapters::rocksdb::{options, read_options, walk, write_options};
use crate::engine::{self, Change, Direction, Engine, Key, OnRow, Revise, Span};
use crate::settings::Settings;
use anyhow::{Context as _, Result};
use rocksdb::{
    ErrorKind, MultiThreaded, OptimisticTransactionDB, OptimisticTransactionOptions,
    WaitForCompactOptions, WriteBatchWithTransaction, WriteOptions,
};
use std::path::Path;
use std::time::Duration;

struct Conditional {
    db: OptimisticTransactionDB<MultiThreaded>,
    write: WriteOptions,
}

/// Opens or makes the database in `dir`.
pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let db = OptimisticTransactionDB::open(&options(settings, true), dir)?;
    Ok(Box::new(Conditional { db, write: write_options(settings.promise) }))
}

impl Engine for Conditional {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        let mut batch = WriteBatchWithTransaction::<true>::default();
        for change in changes {
            match change {
                Change::Put(key, value) => batch.put(key.whole, value),
                Change::Delete(key) => batch.delete(key.whole),
            }
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get_pinned(key.whole)?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        let ends = span.ends(direction);
        walk(self.db.raw_iterator_opt(read_options(&ends)), direction, row)
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        let txn = self.db.transaction_opt(&self.write, &OptimisticTransactionOptions::default());
        let mut value = Vec::new();
        revise(&txn.get_for_update(key.whole, true)?.context("no row")?, &mut value);
        txn.put(key.whole, &value)?;
        match txn.commit() {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn settle(&self) -> Result<Duration> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        self.db.wait_for_compact(&wait)?;
        Ok(Duration::ZERO)
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        engine::delete_one_by_one(self, Span::Partition(partition))?;
        Ok("row by row")
    }

    fn drop_table(&self) -> Result<&'static str> {
        engine::delete_one_by_one(self, Span::All)?;
        Ok("row by row")
    }
}

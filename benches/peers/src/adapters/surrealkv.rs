//! SurrealKV, an LSM engine with an asynchronous commit pipeline, driven by blocking threads.

use crate::engine::{
    self, Change, Direction, Engine, Key, OnRow, Pending, Promise, Revise, Seen, Span,
};
use crate::quiet;
use crate::settings::{BLOCK_BYTES, LARGE_VALUE_BYTES, SURREALKV_SEALED, Settings};
use anyhow::{Context as _, Result};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use surrealkv::{
    CompactRangeOptions, CompressionType, Durability, Error, LSMIterator, Mode, Options,
    ReadOptions, Transaction, Tree, TreeBuilder,
};
use tokio::runtime::Runtime;

struct Surreal {
    tree: Arc<Tree>,
    durability: Durability,
    runtime: Runtime,
}

/// Opens or makes the database in `dir`.
pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut options = Options::new()
        .with_path(dir.to_owned())
        .with_block_size(BLOCK_BYTES)
        .with_max_memtable_size(settings.memtable_bytes)
        .with_memtable_stall_threshold(SURREALKV_SEALED)
        .with_block_cache_capacity(settings.cache_bytes as u64)
        .with_compression_per_level(vec![CompressionType::SnappyCompression])
        .with_wal_preallocation(true);
    options.max_bytes_for_level = settings.level_base_bytes();
    let mut builder = TreeBuilder::with_options(options);
    if settings.large_values {
        builder = builder.with_enable_vlog(true).with_vlog_value_threshold(LARGE_VALUE_BYTES);
    }
    let tree = {
        let _inside = runtime.enter(); // It starts tasks.
        Arc::new(builder.build()?)
    };
    let durability = match settings.promise {
        Promise::Durable => Durability::Immediate,
        Promise::Unsynced => Durability::Eventual,
    };
    Ok(Box::new(Surreal { tree, durability, runtime }))
}

impl Surreal {
    fn transaction(&self, changes: &[Change<'_>]) -> Result<Transaction> {
        let mut txn = self.tree.begin_with_mode(Mode::WriteOnly)?.with_durability(self.durability);
        for change in changes {
            match change {
                Change::Put(key, value) => txn.set(key.whole, *value)?,
                Change::Delete(key) => txn.delete(key.whole)?,
            }
        }
        Ok(txn)
    }

    fn spawn(&self, change: Change<'_>) -> Result<Pending> {
        let (key, value) = match change {
            Change::Put(key, value) => (key.whole.to_vec(), Some(value.to_vec())),
            Change::Delete(key) => (key.whole.to_vec(), None),
        };
        let (tree, durability) = (Arc::clone(&self.tree), self.durability);
        let task = self.runtime.spawn(async move {
            loop {
                let mut txn = tree.begin_with_mode(Mode::WriteOnly)?.with_durability(durability);
                match &value {
                    Some(value) => txn.set(key.as_slice(), value.as_slice())?,
                    None => txn.delete(key.as_slice())?,
                }
                match txn.commit().await {
                    Err(error) if is_conflict(&error) => {}
                    done => return done,
                }
            }
        });
        let runtime = self.runtime.handle().clone();
        Ok(Box::new(move || Ok(runtime.block_on(task)??)))
    }
}

/// Whether a transaction only has to be tried again. It happens to blind writes too: of two
/// transactions that write one row at a time, the second one fails.
fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::TransactionWriteConflict | Error::TransactionRetry)
}

impl Engine for Surreal {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        loop {
            let mut txn = self.transaction(changes)?;
            match self.runtime.block_on(txn.commit()) {
                Err(error) if is_conflict(&error) => {}
                done => return Ok(done?),
            }
        }
    }

    fn begin(&self, change: Change<'_>) -> Option<Result<Pending>> {
        Some(self.spawn(change))
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let txn = self.tree.begin_with_mode(Mode::ReadOnly)?;
        let value = txn.get(key.whole)?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        let ends = span.ends(direction);
        let mut read = ReadOptions::new();
        if let Bound::Included(start) = ends.start() {
            read.set_iterate_lower_bound(Some(start.to_vec()));
        }
        match ends.end() {
            Bound::Excluded(end) => read.set_iterate_upper_bound(Some(end.to_vec())),
            // The bound is exclusive: the next string above the last key.
            Bound::Included(last) => read.set_iterate_upper_bound(Some([last, &[0]].concat())),
            Bound::Unbounded => {}
        }
        let txn = self.tree.begin_with_mode(Mode::ReadOnly)?;
        let mut rows = txn.range_with_options(&read)?;
        match direction {
            Direction::Forward => rows.seek_first()?,
            Direction::Reverse => rows.seek_last()?,
        };
        while rows.valid() {
            let value = rows.value_ref()?;
            let seen = Seen { partition: b"", key: rows.key().user_key(), value: &value };
            if row(seen).is_break() {
                break;
            }
            match direction {
                Direction::Forward => rows.next()?,
                Direction::Reverse => rows.prev()?,
            };
        }
        Ok(())
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        let mut txn = self.tree.begin()?.with_durability(self.durability);
        let mut value = Vec::new();
        revise(&txn.get_for_update(key.whole)?.context("no row")?, &mut value);
        txn.set(key.whole, value)?;
        match self.runtime.block_on(txn.commit()) {
            Ok(()) => Ok(true),
            Err(error) if is_conflict(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn settle(&self) -> Result<Duration> {
        // There is no flush besides this one; target level 0 merges nothing.
        let flush = CompactRangeOptions {
            flush_memtable: true,
            target_level: Some(0),
            rewrite_bottommost: false,
        };
        self.tree.compact_range(None, None, &flush)?;
        quiet::wait()
    }

    fn compact(&self) -> Result<bool> {
        self.tree.compact_range(None, None, &CompactRangeOptions::default())?;
        Ok(true)
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        let (start, end) = engine::partition_ends(partition);
        let mut txn = self.tree.begin()?.with_durability(self.durability);
        txn.delete_range(start, end)?;
        self.runtime.block_on(txn.commit())?;
        Ok("delete_range")
    }

    fn drop_table(&self) -> Result<&'static str> {
        let mut txn = self.tree.begin()?.with_durability(self.durability);
        txn.delete_range(vec![0], vec![0xff; 64])?;
        self.runtime.block_on(txn.commit())?;
        Ok("delete_range of everything")
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.runtime.block_on(self.tree.close())?)
    }
}

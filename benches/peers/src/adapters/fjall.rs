//! fjall 3.

use crate::engine::{
    self, Change, Direction, Engine, Key, OnRow, Promise, Revise, Rows, Seen, Span,
};
use crate::settings::{BLOCK_BYTES, LARGE_VALUE_BYTES, MERGE_THREADS, Settings};
use anyhow::{Context as _, Result, bail};
use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{
    CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, KvSeparationOptions,
    OptimisticTxDatabase, OptimisticTxKeyspace, PersistMode, Readable as _,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct Fjall {
    db: Database,
    rows: Keyspace,
    promise: Promise,
    transactions: Option<(OptimisticTxDatabase, OptimisticTxKeyspace)>,
}

/// Opens or makes the database in `dir`.
pub fn open(dir: &Path, settings: &Settings, compressed: bool) -> Result<Box<dyn Engine>> {
    let db = Database::builder(dir)
        .cache_size(settings.cache_bytes as u64)
        .worker_threads(MERGE_THREADS)
        .open()?;
    let rows = db.keyspace("rows", || keyspace(settings, compressed))?;
    Ok(Box::new(Fjall { db, rows, promise: settings.promise, transactions: None }))
}

/// The same with optimistic transactions.
pub fn open_conditional(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let db = OptimisticTxDatabase::builder(dir)
        .cache_size(settings.cache_bytes as u64)
        .worker_threads(MERGE_THREADS)
        .open()?;
    let rows = db.keyspace("rows", || keyspace(settings, true))?;
    Ok(Box::new(Fjall {
        db: db.inner().clone(),
        rows: rows.inner().clone(),
        promise: settings.promise,
        transactions: Some((db, rows)),
    }))
}

fn keyspace(settings: &Settings, compressed: bool) -> KeyspaceCreateOptions {
    let compression = match compressed {
        true => CompressionType::Lz4,
        false => CompressionType::None,
    };
    let large = KvSeparationOptions::default()
        .separation_threshold(LARGE_VALUE_BYTES as u32)
        .compression(compression);
    // L1 is of four tables.
    let levels = Leveled::default().with_table_target_size(settings.level_base_bytes() / 4);
    KeyspaceCreateOptions::default()
        .max_memtable_size(settings.memtable_bytes as u64)
        .compaction_strategy(Arc::new(levels))
        .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES as u32))
        .data_block_compression_policy(CompressionPolicy::all(compression))
        .with_kv_separation(settings.large_values.then_some(large))
}

impl Fjall {
    fn mode(&self) -> PersistMode {
        match self.promise {
            Promise::Durable => PersistMode::SyncData,
            Promise::Unsynced => PersistMode::Buffer,
        }
    }

    fn ingest_rows(&self, rows: &mut dyn Rows) -> Result<()> {
        let mut ingestion = self.rows.start_ingestion()?;
        while rows.next(&mut |key, value| Ok(ingestion.write(key.whole, value)?))? {}
        Ok(ingestion.finish()?)
    }
}

impl Engine for Fjall {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        match changes {
            // A single insert hands its bytes to the kernel by itself.
            [Change::Put(key, value)] if self.promise == Promise::Unsynced => {
                return Ok(self.rows.insert(key.whole, *value)?);
            }
            [Change::Delete(key)] if self.promise == Promise::Unsynced => {
                return Ok(self.rows.remove(key.whole)?);
            }
            _ => {}
        }
        let mut batch = self.db.batch().durability(Some(self.mode()));
        for change in changes {
            match change {
                Change::Put(key, value) => batch.insert(&self.rows, key.whole, *value),
                Change::Delete(key) => batch.remove(&self.rows, key.whole),
            }
        }
        Ok(batch.commit()?)
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.rows.get(key.whole)?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        let ends = span.ends(direction);
        let mut found = self.rows.range::<&[u8], _>(ends.range());
        loop {
            let next: Option<Guard> = match direction {
                Direction::Forward => found.next(),
                Direction::Reverse => found.next_back(),
            };
            let Some(guard) = next else { return Ok(()) };
            let (key, value) = guard.into_inner()?;
            if row(Seen { partition: b"", key: &key, value: &value }).is_break() {
                return Ok(());
            }
        }
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        let Some((db, rows)) = &self.transactions else { bail!("opened without transactions") };
        let mut txn = db.write_tx()?.durability(Some(self.mode()));
        let mut value = Vec::new();
        revise(&txn.get(rows, key.whole)?.context("no row")?, &mut value);
        txn.insert(rows, key.whole, value);
        Ok(txn.commit()?.is_ok())
    }

    fn settle(&self) -> Result<Duration> {
        self.rows.rotate_memtable_and_wait()?;
        // A compaction that is due may not have begun yet: nothing must be at work for a while.
        const REST: u32 = 10;
        const STEP: Duration = Duration::from_millis(5);
        let mut rest = 0;
        while rest < REST {
            std::thread::sleep(STEP);
            let busy = self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0;
            rest = if busy { 0 } else { rest + 1 };
        }
        Ok(STEP * REST)
    }

    fn compact(&self) -> Result<bool> {
        self.rows.major_compact()?;
        Ok(true)
    }

    fn ingest(&self, rows: &mut dyn Rows) -> Option<Result<()>> {
        Some(self.ingest_rows(rows))
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        engine::delete_one_by_one(self, Span::Partition(partition))?;
        Ok("row by row")
    }

    fn drop_table(&self) -> Result<&'static str> {
        self.db.delete_keyspace(self.rows.clone())?;
        Ok("delete_keyspace")
    }
}

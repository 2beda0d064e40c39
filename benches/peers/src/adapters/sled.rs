//! sled 1.0 alpha: a B+tree of leaves in memory over a heap of objects on disk.

use crate::engine::{self, Change, Direction, Engine, Key, OnRow, Promise, Revise, Seen, Span};
use crate::quiet;
use crate::settings::{SLED_ZSTD_LEVEL, Settings};
use anyhow::{Context as _, Result};
use sled::Db;
use std::cell::RefCell;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Keys of one leaf; sled's own default.
const LEAF_FANOUT: usize = 1024;

type Handle = Db<LEAF_FANOUT>;

struct Sled {
    first: Mutex<Handle>, // Cloned once by each thread: a handle cannot be shared.
    number: u64,
    promise: Promise,
}

/// Tells one database from another that a thread used before.
static OPENED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HANDLE: RefCell<Option<(u64, Handle)>> = const { RefCell::new(None) };
}

/// Opens or makes the database in `dir`.
pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let config = sled::Config::new()
        .path(dir)
        .cache_capacity_bytes(settings.cache_bytes)
        .zstd_compression_level(SLED_ZSTD_LEVEL);
    let first = Mutex::new(config.open()?);
    let number = OPENED.fetch_add(1, Ordering::Relaxed);
    Ok(Box::new(Sled { first, number, promise: settings.promise }))
}

impl Sled {
    /// Calls `work` with this thread's handle.
    fn with<T>(&self, work: impl FnOnce(&Handle) -> T) -> T {
        HANDLE.with_borrow_mut(|slot| match slot {
            Some((number, db)) if *number == self.number => work(db),
            slot => {
                let db = self.first.lock().unwrap_or_else(PoisonError::into_inner).clone();
                work(&slot.insert((self.number, db)).1)
            }
        })
    }

    fn synced(&self, db: &Handle) -> Result<()> {
        if self.promise == Promise::Durable {
            db.flush()?;
        }
        Ok(())
    }
}

impl Drop for Sled {
    fn drop(&mut self) {
        // The database ends with its last handle, and this thread lives on.
        HANDLE.with_borrow_mut(|slot| slot.take());
    }
}

impl Engine for Sled {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        self.with(|db| {
            match changes {
                [Change::Put(key, value)] => drop(db.insert(key.whole, *value)?),
                [Change::Delete(key)] => drop(db.remove(key.whole)?),
                changes => {
                    let mut batch = sled::Batch::default();
                    for change in changes {
                        match change {
                            Change::Put(key, value) => batch.insert(key.whole, *value),
                            Change::Delete(key) => batch.remove(key.whole),
                        }
                    }
                    db.apply_batch(batch)?;
                }
            }
            self.synced(db)
        })
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.with(|db| db.get(key.whole))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        // A range whose far end is below the table's walks on from there to the table's end
        // (1.0.0-alpha.124), so a partition's far end is looked for here.
        let ends = span.ends(direction);
        let bounds = match direction {
            Direction::Forward => (ends.start(), Bound::Unbounded),
            Direction::Reverse => (Bound::Unbounded, ends.end()),
        };
        let prefix = match span {
            Span::Partition(partition) => engine::partition_ends(partition).0,
            _ => Vec::new(),
        };
        let mut found = self.with(|db| db.range::<&[u8], _>(bounds));
        loop {
            let next = match direction {
                Direction::Forward => found.next(),
                Direction::Reverse => found.next_back(),
            };
            let Some(next) = next else { return Ok(()) };
            let (key, value) = next?;
            if !key.starts_with(&prefix)
                || row(Seen { partition: b"", key: &key, value: &value }).is_break()
            {
                return Ok(());
            }
        }
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        self.with(|db| {
            let old = db.get(key.whole)?.context("no row")?;
            let mut value = Vec::new();
            revise(&old, &mut value);
            let swapped = db.compare_and_swap(key.whole, Some(old), Some(value))?.is_ok();
            if swapped {
                self.synced(db)?;
            }
            Ok(swapped)
        })
    }

    fn settle(&self) -> Result<Duration> {
        self.with(|db| db.flush())?;
        quiet::wait()
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        engine::delete_one_by_one(self, Span::Partition(partition))?;
        Ok("row by row")
    }

    fn drop_table(&self) -> Result<&'static str> {
        self.with(|db| {
            db.clear()?;
            self.synced(db)
        })?;
        Ok("clear, row by row")
    }
}

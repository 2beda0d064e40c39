//! A skiplist in memory, crossbeam's: what an ordered map that many threads may write can do
//! without any disk.

use crate::engine::{self, Change, Direction, Engine, Key, OnRow, Revise, Seen, Span};
use anyhow::{Context as _, Result};
use crossbeam_skiplist::SkipMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// A value is replaced in its place: the map's own `insert` takes the old entry out first, and a
/// reader in between would find none.
#[derive(Default)]
struct Skiplist {
    rows: SkipMap<Box<[u8]>, RwLock<Box<[u8]>>>,
}

/// An empty one.
pub fn open() -> Box<dyn Engine> {
    Box::new(Skiplist::default())
}

fn read(value: &RwLock<Box<[u8]>>) -> RwLockReadGuard<'_, Box<[u8]>> {
    value.read().unwrap_or_else(PoisonError::into_inner)
}

fn written(value: &RwLock<Box<[u8]>>) -> RwLockWriteGuard<'_, Box<[u8]>> {
    value.write().unwrap_or_else(PoisonError::into_inner)
}

impl Engine for Skiplist {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        for change in changes {
            match change {
                Change::Put(key, value) => match self.rows.get(key.whole) {
                    Some(there) => *written(there.value()) = (*value).into(),
                    None => {
                        let value: Box<[u8]> = (*value).into();
                        self.rows.insert(key.whole.into(), RwLock::new(value));
                    }
                },
                Change::Delete(key) => drop(self.rows.remove(key.whole)),
            }
        }
        Ok(())
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let entry = self.rows.get(key.whole);
        Ok(entry.map(|entry| found(&read(entry.value()))).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        let ends = span.ends(direction);
        let mut found = self.rows.range::<[u8], _>(ends.range());
        loop {
            let next = match direction {
                Direction::Forward => found.next(),
                Direction::Reverse => found.next_back(),
            };
            let Some(entry) = next else { return Ok(()) };
            let value = read(entry.value());
            if row(Seen { partition: b"", key: entry.key(), value: &value }).is_break() {
                return Ok(());
            }
        }
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        let entry = self.rows.get(key.whole).context("no row")?;
        let mut old = written(entry.value());
        let mut value = Vec::new();
        revise(&old, &mut value);
        *old = value.into();
        Ok(true)
    }

    fn settle(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        engine::delete_one_by_one(self, Span::Partition(partition))?;
        Ok("row by row")
    }

    fn drop_table(&self) -> Result<&'static str> {
        self.rows.clear();
        Ok("clear, row by row")
    }
}

//! A skiplist in memory, crossbeam's: what an ordered map that many threads may write can do
//! without any disk.

use crate::engine::{self, Change, Direction, Engine, Key, OnRow, Revise, Seen, Span};
use anyhow::{Context as _, Result};
use crossbeam_skiplist::SkipMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Default)]
struct Skiplist {
    rows: SkipMap<Box<[u8]>, Box<[u8]>>,
}

/// An empty one.
pub fn open() -> Box<dyn Engine> {
    Box::new(Skiplist::default())
}

impl Engine for Skiplist {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    self.rows.insert(key.whole.into(), (*value).into());
                }
                Change::Delete(key) => drop(self.rows.remove(key.whole)),
            }
        }
        Ok(())
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let entry = self.rows.get(key.whole);
        Ok(entry.map(|entry| found(entry.value())).is_some())
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
            if row(Seen { partition: b"", key: entry.key(), value: entry.value() }).is_break() {
                return Ok(());
            }
        }
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        let old = self.rows.get(key.whole).context("no row")?;
        let mut value = Vec::new();
        revise(old.value(), &mut value);
        let unchanged = AtomicBool::new(false);
        self.rows.compare_insert(key.whole.into(), value.into(), |now| {
            unchanged.store(now == old.value(), Ordering::Relaxed);
            unchanged.load(Ordering::Relaxed)
        });
        Ok(unchanged.into_inner())
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

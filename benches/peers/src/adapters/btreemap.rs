//! A `BTreeMap` in memory behind a lock: what an ordered map costs at the least.

use crate::engine::{self, Change, Direction, Engine, Key, OnRow, Revise, Seen, Span};
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

type Map = BTreeMap<Box<[u8]>, Box<[u8]>>;

#[derive(Default)]
struct Ordered {
    rows: RwLock<Map>,
}

/// An empty one.
pub fn open() -> Box<dyn Engine> {
    Box::new(Ordered::default())
}

impl Ordered {
    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> RwLockWriteGuard<'_, Map> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Ordered {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        let mut rows = self.written();
        for change in changes {
            match change {
                Change::Put(key, value) => drop(rows.insert(key.whole.into(), (*value).into())),
                Change::Delete(key) => drop(rows.remove(key.whole)),
            }
        }
        Ok(())
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.read().get(key.whole).map(|value| found(value)).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        let rows = self.read();
        let ends = span.ends(direction);
        let mut found = rows.range::<[u8], _>(ends.range());
        loop {
            let next = match direction {
                Direction::Forward => found.next(),
                Direction::Reverse => found.next_back(),
            };
            let Some((key, value)) = next else { return Ok(()) };
            if row(Seen { partition: b"", key, value }).is_break() {
                return Ok(());
            }
        }
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        let mut rows = self.written();
        let old = rows.get_mut(key.whole).context("no row")?;
        let mut value = Vec::new();
        revise(old, &mut value);
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
        self.written().clear();
        Ok("clear, row by row")
    }
}

//! A scan as an iterator from both ends.

use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::key::order;
use crate::key::range::KeyRange;
use crate::rows::{RowCursor, RowSnapshot};
use bytes::Bytes;
use std::sync::Arc;

/// One row of a scan, with its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRow {
    /// PartitionKey.
    pub partition_key: Bytes,
    /// RowKey.
    pub row_key: Bytes,
    /// The commit that wrote it.
    pub ts: CommitTs,
    /// Its bytes.
    pub value: Bytes,
}

/// Rows of a range as of one moment, in the order of their keys; `rev()` for the other way. After
/// an error it ends.
pub struct Scan {
    rows: Arc<dyn RowSnapshot>,
    range: KeyRange,
    front: Option<Box<dyn RowCursor>>,
    back: Option<Box<dyn RowCursor>>,
    front_gave: bool, // The front cursor stands on the last row that it gave.
    back_gave: bool,
    ended: bool,
    partition: PartitionHere,
}

/// The partition of the row given last. Most rows lie in the partition of the row before, and then
/// their PartitionKey costs a comparison in place of a search, an allocation and a copy.
#[derive(Default)]
struct PartitionHere {
    prefix: Vec<u8>, // Empty before the first row; no other partition's keys start with it.
    key: Bytes,
}

/// Opens a scan; reads nothing yet.
pub(crate) fn open(rows: &Arc<dyn RowSnapshot>, range: KeyRange) -> Result<Scan> {
    let front = rows.scan(range.clone())?;
    Ok(Scan {
        rows: Arc::clone(rows),
        range,
        front: Some(front),
        back: None,
        front_gave: false,
        back_gave: false,
        ended: false,
        partition: PartitionHere::default(),
    })
}

impl Scan {
    /// Goes on from (`pk`, `rk`): later rows come from there, or from the next one above it. For
    /// the front end only.
    pub fn seek(&mut self, pk: impl AsRef<[u8]>, rk: impl AsRef<[u8]>) -> Result<()> {
        let table = order::table_of(&self.range.start)
            .ok_or_else(|| Error::new(Kind::Invalid, "a scan without a table"))?;
        let key = order::row_key(table, pk.as_ref(), rk.as_ref());
        if key > self.range.start {
            self.range.start = key;
            self.front = None;
            self.front_gave = false;
        }
        Ok(())
    }

    fn step_front(&mut self) -> Result<Option<ScanRow>> {
        let cursor = open_end(&mut self.front, &self.rows, &self.range)?;
        self.front_gave = cursor.next()?;
        let other = self.back.as_ref().filter(|_| self.back_gave);
        if !self.front_gave || other.is_some_and(|back| cursor.key() >= back.key()) {
            return Ok(None);
        }
        row_here(cursor, &mut self.partition).map(Some)
    }

    fn step_back(&mut self) -> Result<Option<ScanRow>> {
        let cursor = open_end(&mut self.back, &self.rows, &self.range)?;
        self.back_gave = cursor.prev()?;
        let other = self.front.as_ref().filter(|_| self.front_gave);
        if !self.back_gave
            || other.is_some_and(|front| cursor.key() <= front.key())
            || cursor.key() < self.range.start.as_slice()
        {
            return Ok(None);
        }
        row_here(cursor, &mut self.partition).map(Some)
    }

    fn settle(&mut self, step: Result<Option<ScanRow>>) -> Option<Result<ScanRow>> {
        self.ended = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

fn open_end<'a>(
    end: &'a mut Option<Box<dyn RowCursor>>,
    rows: &Arc<dyn RowSnapshot>,
    range: &KeyRange,
) -> Result<&'a mut dyn RowCursor> {
    let cursor = match end.take() {
        Some(cursor) => cursor,
        None => rows.scan(range.clone())?,
    };
    Ok(&mut **end.insert(cursor))
}

fn row_here(cursor: &mut dyn RowCursor, partition: &mut PartitionHere) -> Result<ScanRow> {
    let value = cursor.value()?;
    let (key, ts) = (cursor.key(), cursor.ts());
    let rk = match key.strip_prefix(partition.prefix.as_slice()) {
        Some(rk) if !partition.prefix.is_empty() => rk,
        _ => partition.enter(key)?,
    };
    let row_key = Bytes::copy_from_slice(rk);
    Ok(ScanRow { partition_key: partition.key.clone(), row_key, ts, value })
}

impl PartitionHere {
    /// Takes note of the partition of `key`; returns the RowKey.
    fn enter<'a>(&mut self, key: &'a [u8]) -> Result<&'a [u8]> {
        let parts = order::prefix_len(key).and_then(|len| key.split_at_checked(len));
        let (prefix, rk) = parts.ok_or_else(|| {
            Error::new(Kind::Corrupt, "a table file holds what is not a row's key")
        })?;
        prefix.clone_into(&mut self.prefix);
        self.key = Bytes::copy_from_slice(&order::partition_key(prefix));
        Ok(rk)
    }
}

impl Iterator for Scan {
    type Item = Result<ScanRow>;

    fn next(&mut self) -> Option<Result<ScanRow>> {
        if self.ended {
            return None;
        }
        let step = self.step_front();
        self.settle(step)
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Result<ScanRow>> {
        if self.ended {
            return None;
        }
        let step = self.step_back();
        self.settle(step)
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("range", &self.range).finish_non_exhaustive()
    }
}

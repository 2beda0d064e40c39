//! A scan as an iterator from both ends.

use crate::embedded::partition::KeptKeys;
use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::key::order;
use crate::key::range::KeyRange;
use crate::rows::RowCursor;
use crate::scan::DbCursor;
use crate::storage::DbSnapshot;
use bytes::Bytes;

/// One row of a scan, with its keys. Its value may hold on to the block of values that it lies in:
/// whoever keeps few rows of many for long copies them.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRow {
    /// PartitionKey.
    pub partition_key: Bytes,
    /// RowKey.
    pub row_key: Bytes,
    /// The commit that wrote it.
    pub ts: CommitTs,
    /// The time from which on it is gone, as in [`Row::expires`](crate::Row::expires).
    pub expires: Option<CommitTs>,
    /// Its bytes.
    pub value: Bytes,
}

/// Rows of a range as of one moment, in the order of their keys; `rev()` for the other way, at the
/// same cost. After an error it ends. Like a [`Cursor`](crate::embedded::cursor::Cursor), which
/// lends its rows and costs less, it holds on to no replaced file.
pub struct Scan {
    snapshot: DbSnapshot,
    /// The first key that a row from either end may have; [`Scan::seek`] raises it.
    start: Vec<u8>,
    front: End,
    /// Opened by the first row from there.
    back: Option<Box<End>>,
    ended: bool,
    keys: KeptKeys,
}

/// One end of a scan.
struct End {
    cursor: DbCursor,
    gave: bool,   // It stands on the last row that it gave.
    sought: bool, // The next row is the first from `start` on.
}

/// Opens a scan; reads nothing yet.
pub(crate) fn open(snapshot: DbSnapshot, range: KeyRange) -> Result<Scan> {
    let front = End { cursor: snapshot.cursor(range)?, gave: false, sought: false };
    Ok(Scan {
        snapshot,
        start: Vec::new(),
        front,
        back: None,
        ended: false,
        keys: KeptKeys::default(),
    })
}

impl Scan {
    /// Goes on from (`pk`, `rk`): later rows come from there, or from the next one above it. For
    /// the front end only, and forward only: nothing changes where it is past that already.
    pub fn seek(&mut self, pk: impl AsRef<[u8]>, rk: impl AsRef<[u8]>) -> Result<()> {
        let start = &self.front.cursor.range().start;
        let table = order::table_of(start)
            .ok_or_else(|| Error::new(Kind::Invalid, "a scan without a table"))?;
        let key = order::row_key(table, pk.as_ref(), rk.as_ref());
        let is_behind = self.front.gave && key.as_slice() <= self.front.cursor.key();
        if key > *start && key > self.start && !is_behind {
            self.start = key;
            (self.front.sought, self.front.gave) = (true, false);
        }
        Ok(())
    }

    fn step_front(&mut self) -> Result<Option<ScanRow>> {
        let End { cursor, gave, sought } = &mut self.front;
        *gave = match std::mem::take(sought) {
            true => cursor.seek(&self.start)?,
            false => cursor.next()?,
        };
        let other = self.back.as_ref().filter(|back| back.gave);
        if !*gave || other.is_some_and(|back| cursor.key() >= back.cursor.key()) {
            return Ok(None);
        }
        row_here(cursor, &mut self.keys).map(Some)
    }

    fn step_back(&mut self) -> Result<Option<ScanRow>> {
        let back = match &mut self.back {
            Some(back) => back,
            None => {
                let cursor = self.snapshot.cursor(self.front.cursor.range().clone())?;
                self.back.insert(Box::new(End { cursor, gave: false, sought: false }))
            }
        };
        back.gave = back.cursor.prev()?;
        let (front, key) = (&self.front, back.cursor.key());
        if !back.gave || (front.gave && key <= front.cursor.key()) || key < self.start.as_slice() {
            return Ok(None);
        }
        row_here(&mut back.cursor, &mut self.keys).map(Some)
    }

    fn settle(&mut self, step: Result<Option<ScanRow>>) -> Option<Result<ScanRow>> {
        self.ended = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

fn row_here(cursor: &mut DbCursor, keys: &mut KeptKeys) -> Result<ScanRow> {
    let (expires, value) = (cursor.expires()?, cursor.value()?);
    let (key, ts) = (cursor.key(), cursor.ts());
    let (partition_key, row_key) = keys.split(key)?;
    Ok(ScanRow { partition_key, row_key, ts, expires, value })
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
        let range = self.front.cursor.range();
        f.debug_struct("Scan").field("range", range).finish_non_exhaustive()
    }
}

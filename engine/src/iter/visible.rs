//! What a reader at one timestamp sees of a merge: per key the newest version not newer than it,
//! and no row where that version is a delete.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::key::range::KeyRange;
use bytes::Bytes;

/// The rows of a range as of a timestamp. Starts before the first row and after the last.
pub(crate) struct VisibleCursor<C> {
    merge: C,
    at: CommitTs,
    range: KeyRange,
    state: State,
    key: Vec<u8>,
    ts: CommitTs,
    value: Bytes, // Going down only: the merge has left the row when the row is known.
}

/// Where the cursor stands, and so where the merge below it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not yet on any row.
    Fresh,
    /// On a row, and so is the merge.
    OnRow,
    /// On a row; the merge is on some version of a smaller key, or on nothing.
    BelowRow,
    /// The last move up found no row.
    Above,
    /// The last move down found no row.
    Below,
}

impl<C: Cursor> VisibleCursor<C> {
    /// The rows of `range` that a reader at `at` sees.
    pub(crate) fn new(merge: C, at: CommitTs, range: KeyRange) -> VisibleCursor<C> {
        let state = State::Fresh;
        VisibleCursor {
            merge,
            at,
            range,
            state,
            key: vec![],
            ts: CommitTs::ZERO,
            value: Bytes::new(),
        }
    }

    /// Goes to the next row; false past the last.
    pub(crate) fn next(&mut self) -> Result<bool> {
        match self.state {
            State::Fresh | State::Below => {
                let start = std::mem::take(&mut self.range.start);
                let sought = self.merge.seek(&start, self.at);
                self.range.start = start;
                sought?;
            }
            State::OnRow => self.leave_key_upwards()?,
            State::BelowRow => {
                self.merge.seek(&self.key, CommitTs::ZERO)?;
                self.leave_key_upwards()?;
            }
            State::Above => return Ok(false),
        }
        self.settle_upwards()
    }

    /// Goes to the row before; false before the first.
    pub(crate) fn prev(&mut self) -> Result<bool> {
        match self.state {
            State::Fresh | State::Above => self.merge.seek_before(&self.range.end)?,
            State::OnRow => self.merge.seek_before(&self.key)?,
            State::BelowRow => {}
            State::Below => return Ok(false),
        }
        self.settle_downwards()
    }

    /// Goes to the first row at or after `key`; false where there is none in the range.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let from = key.max(&self.range.start).to_vec();
        self.merge.seek(&from, self.at)?;
        self.settle_upwards()
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn ts(&self) -> CommitTs {
        self.ts
    }

    pub(crate) fn value(&mut self) -> Result<Bytes> {
        match self.state {
            State::OnRow => self.merge.value(),
            _ => Ok(self.value.clone()),
        }
    }

    /// Moves the merge past every version of `self.key`.
    fn leave_key_upwards(&mut self) -> Result<()> {
        while self.merge.valid() && self.merge.key() == self.key.as_slice() {
            self.merge.next()?;
        }
        Ok(())
    }

    /// From the merge's place upwards, stands on the first row that is visible.
    fn settle_upwards(&mut self) -> Result<bool> {
        while self.merge.valid() && self.merge.key() < self.range.end.as_slice() {
            if self.merge.ts() > self.at {
                self.merge.next()?;
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            if self.merge.kind() == RowKind::Put {
                self.ts = self.merge.ts();
                self.state = State::OnRow;
                return Ok(true);
            }
            self.leave_key_upwards()?;
        }
        self.state = State::Above;
        Ok(false)
    }

    /// From the merge's place downwards, stands on the first row that is visible.
    fn settle_downwards(&mut self) -> Result<bool> {
        while self.merge.valid() && self.merge.key() >= self.range.start.as_slice() {
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            let mut newest = None;
            while self.merge.valid() && self.merge.key() == self.key.as_slice() {
                if self.merge.ts() <= self.at {
                    newest = match self.merge.kind() {
                        RowKind::Put => Some((self.merge.ts(), self.merge.value()?)),
                        RowKind::Delete => None,
                    };
                }
                self.merge.prev()?;
            }
            if let Some((ts, value)) = newest {
                (self.ts, self.value) = (ts, value);
                self.state = State::BelowRow;
                return Ok(true);
            }
        }
        self.state = State::Below;
        Ok(false)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::env::rng::Rng;
    use crate::iter::merge::MergeCursor;
    use crate::memtable::ordered::new_memtable;
    use std::collections::BTreeMap;

    #[test]
    fn any_walk_sees_the_model_at_that_time() {
        for seed in 0..40 {
            let mut rng = Rng::seeded(seed);
            let tables: Vec<_> = (0..3).map(|_| new_memtable()).collect();
            let at = rng.below(400);
            let mut model = BTreeMap::new();
            for ts in 1..400u64 {
                let key = vec![b'a' + rng.below(26) as u8];
                let put = !rng.one_in(3);
                let kind = if put { RowKind::Put } else { RowKind::Delete };
                // A newer table holds newer versions, as memtables and levels do.
                let value = Bytes::from(ts.to_string());
                tables[(ts / 134) as usize].insert(&key, CommitTs(ts), kind, value);
                if ts <= at {
                    match put {
                        true => model.insert(key, ts),
                        false => model.remove(&key),
                    };
                }
            }
            let range = KeyRange { start: vec![b'c'], end: vec![b'x'] };
            model.retain(|key, _| range.contains(key));
            let rows: Vec<_> = model.into_iter().collect();
            let merge = MergeCursor::new(tables.iter().map(|t| t.clone().cursor()).collect());
            let mut cursor = VisibleCursor::new(merge, CommitTs(at), range);
            // A fresh cursor stands at both ends: the first move says which.
            let mut place = match rng.one_in(2) {
                true => cursor.next().map(|_| 0).unwrap(),
                false => cursor.prev().map(|_| rows.len() as isize - 1).unwrap(),
            };
            for _ in 0..500 {
                let found = match rng.below(9) {
                    0 => {
                        let key = vec![b'a' + rng.below(26) as u8];
                        place = rows.partition_point(|(k, _)| *k < key) as isize;
                        cursor.seek(&key).unwrap()
                    }
                    n if n % 2 == 0 => {
                        place = (place + 1).min(rows.len() as isize);
                        cursor.next().unwrap()
                    }
                    _ => {
                        place = if place < 0 { -1 } else { place - 1 };
                        cursor.prev().unwrap()
                    }
                };
                let want = usize::try_from(place).ok().and_then(|i| rows.get(i));
                assert_eq!(found, want.is_some(), "seed {seed}");
                if let Some((key, ts)) = want {
                    assert_eq!((cursor.key(), cursor.ts().0), (key.as_slice(), *ts));
                    assert_eq!(cursor.value().unwrap(), ts.to_string().as_bytes());
                }
            }
        }
    }
}

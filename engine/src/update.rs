//! One partition while an update works on it: what is applied so far, with the update's own writes
//! over it, encoded as they come.
//!
//! A write goes straight into the bytes that the log will hold. Which of them a key was written by
//! is worked out only where something asks for a key that may be among them: a batch that names its
//! rows in ascending order, or asks for none, never pays for that.

use crate::batch::{Batch, Mark};
use crate::checks::{check_key_part, check_value};
use crate::commit::pipeline::would_wait;
use crate::db::Inner;
use crate::error::{Error, Result};
use crate::expiry;
use crate::ids::{CommitTs, RowKind};
use crate::iter::tree::{self, Scan};
use crate::key::hash;
use crate::key::order::{self, RowKeyBuf};
use crate::key::range::{KeyRange, half_open};
use crate::limits::{COMMIT_BYTES_MAX, COMMIT_ROWS_MAX, ERASED_BOUNDS_BYTES_MAX};
use crate::moment::{Moment, When};
use crate::options::Reach;
use crate::rows::{PartitionUpdate, Row};
use crate::view::View;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

/// So many rows of a range are deleted one by one: that costs later reads and compactions less than
/// an erasure, which all of them look at as long as it lives.
const ERASED_SINGLY_MAX: usize = 64;

/// So many keys in a row that hold nothing any more, or ranges of such that were erased, are passed
/// in search of those. Behind that many an erasure is the cheaper record, whatever follows, as it
/// lets reads and compactions pass them in one.
const HIDDEN_PER_ROW_MAX: usize = 1_024;

/// Opens a scan of the applied rows of a range, expired ones too: they come back where the clock is
/// set back, and for readers of the past. It gives up behind [`HIDDEN_PER_ROW_MAX`] keys without.
pub(crate) fn scan_applied(view: &View, range: KeyRange) -> Result<Scan> {
    let mut scan = tree::scan(view, range, Moment::applied(CommitTs::ZERO), CommitTs::ZERO)?;
    scan.stop_after(HIDDEN_PER_ROW_MAX);
    Ok(scan)
}

/// One partition's writes, not yet committed, in the order in which they were made. The last one of
/// a RowKey counts.
#[derive(Debug)]
pub(crate) struct Writes {
    batch: Batch,
    /// The greatest RowKey written; `None` once the RowKeys stopped ascending.
    ascending: Option<Vec<u8>>,
    /// The last write of each RowKey: its kind and where what is stored of it stands in the batch,
    /// `None` where it is removed. Covers the batch up to `indexed`.
    last: BTreeMap<Vec<u8>, Option<(RowKind, Range<usize>)>>,
    indexed: Mark,
    /// The ranges of RowKeys erased, each with the place in the batch after it. What was put in one
    /// before is deleted one by one, so only keys that no operation names are looked up here.
    erased: Vec<(Mark, RowKeys)>,
}

/// RowKeys from the first to before the second, or on.
#[derive(Clone, Debug)]
struct RowKeys(Vec<u8>, Option<Vec<u8>>);

impl RowKeys {
    fn between(from: Bound<&[u8]>, to: Bound<&[u8]>) -> RowKeys {
        let (from, to) = half_open(from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
        RowKeys(from.unwrap_or_default(), to)
    }

    fn is_empty(&self) -> bool {
        self.1.as_ref().is_some_and(|to| *to <= self.0)
    }

    fn hold(&self, rk: &[u8]) -> bool {
        self.0.as_slice() <= rk && self.1.as_ref().is_none_or(|to| rk < to.as_slice())
    }
}

/// A row as these writes leave it: its kind and what is stored of it, `None` where it is removed.
pub(crate) type Written<'a> = Option<(RowKind, &'a [u8])>;

/// The row that these writes leave, as they read it themselves.
pub(crate) fn own_row(written: Written<'_>) -> Option<Row> {
    written
        .map(|(kind, stored)| Row::own(expiry::value_of(kind, stored), expiry::told(kind, stored)))
}

impl Writes {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// None yet, for the partition of `prefix`.
    pub(crate) fn new(prefix: Vec<u8>) -> Writes {
        Writes {
            batch: Batch::new(prefix),
            ascending: Some(Vec::new()),
            last: BTreeMap::new(),
            indexed: Mark::default(),
            erased: Vec::new(),
        }
    }

    pub(crate) fn put(&mut self, rk: &[u8], value: &[u8]) -> Result<()> {
        check_key_part("RowKey", rk)?;
        check_value(value, false)?;
        self.note(rk);
        self.batch.put(rk, value);
        Ok(())
    }

    /// A put that is gone from `expires` on; these writes themselves read it as there.
    pub(crate) fn put_until(&mut self, rk: &[u8], value: &[u8], expires: CommitTs) -> Result<()> {
        check_key_part("RowKey", rk)?;
        check_value(value, true)?;
        self.note(rk);
        self.batch.put_until(rk, value, expires);
        Ok(())
    }

    pub(crate) fn delete(&mut self, rk: &[u8]) -> Result<()> {
        check_key_part("RowKey", rk)?;
        self.note(rk);
        self.batch.delete(rk);
        Ok(())
    }

    /// Removes all rows of a range. `range` is not empty.
    fn erase(&mut self, range: RowKeys) {
        for rk in self.own_rows(&range) {
            self.note(&rk);
            self.batch.delete(&rk);
        }
        self.batch.erase_rows(&range.0, range.1.as_deref());
        self.erased.push((self.batch.mark(), range));
    }

    /// The RowKeys of a range under which these writes left a row.
    fn own_rows(&mut self, range: &RowKeys) -> Vec<Vec<u8>> {
        self.index();
        let from = self.last.range::<[u8], _>((Bound::Included(&*range.0), Bound::Unbounded));
        let within = from.take_while(|(rk, _)| range.hold(rk));
        within.filter(|(_, value)| value.is_some()).map(|(rk, _)| rk.clone()).collect()
    }

    fn note(&mut self, rk: &[u8]) {
        if let Some(greatest) = &mut self.ascending {
            match self.batch.is_empty() || rk > greatest.as_slice() {
                true => {
                    greatest.clear();
                    greatest.extend_from_slice(rk);
                }
                false => self.ascending = None,
            }
        }
    }

    /// The row under `rk`, where one of these writes made or removed it.
    pub(crate) fn get(&mut self, rk: &[u8]) -> Option<Written<'_>> {
        if self.batch.is_empty() {
            return None;
        }
        let is_new = self.ascending.as_ref().is_some_and(|last| rk > last.as_slice());
        if !is_new {
            self.index();
        }
        match self.last.get(rk).filter(|_| !is_new) {
            Some(last) => Some(written(&self.batch, last)),
            None => self.erases(rk).then_some(None),
        }
    }

    /// Whether these writes erased the row under `rk`, unless one of them made it anew.
    fn erases(&self, rk: &[u8]) -> bool {
        self.erased.iter().any(|(_, range)| range.hold(rk))
    }

    /// The rows that these writes made or removed, by RowKey.
    pub(crate) fn all(&mut self) -> impl DoubleEndedIterator<Item = (&[u8], Written<'_>)> {
        self.index();
        let batch = &self.batch;
        self.last.iter().map(move |(rk, last)| (rk.as_slice(), written(batch, last)))
    }

    fn index(&mut self) {
        let last = &mut self.last;
        self.indexed = self.batch.each_since(self.indexed, |rk, kind, stored| {
            last.insert(rk.to_vec(), (kind != RowKind::Delete).then_some((kind, stored)));
        });
    }

    /// Where these writes stand now, for [`Writes::back_to`].
    pub(crate) fn mark(&self) -> Mark {
        self.batch.mark()
    }

    /// Forgets every write since `mark`.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.batch.back_to(mark);
        self.erased.retain(|(after, _)| *after <= mark);
        self.last.clear();
        self.indexed = Mark::default();
        self.ascending = None;
    }

    pub(crate) fn into_batch(self) -> Result<Batch> {
        let batch = self.batch;
        if batch.count() > COMMIT_ROWS_MAX || batch.bytes() > COMMIT_BYTES_MAX {
            let (rows, bytes) = (batch.count(), batch.bytes());
            return Err(Error::invalid(format!(
                "a commit of {rows} rows and {bytes} bytes is too large; \
                 at most {COMMIT_ROWS_MAX} rows and {COMMIT_BYTES_MAX} bytes are allowed"
            )));
        }
        if batch.bounds_bytes() > ERASED_BOUNDS_BYTES_MAX {
            let bytes = batch.bounds_bytes();
            return Err(Error::invalid(format!(
                "the ranges that a commit deletes have bounds of {bytes} bytes; \
                 at most {ERASED_BOUNDS_BYTES_MAX} are allowed"
            )));
        }
        Ok(batch)
    }
}

fn written<'a>(batch: &'a Batch, last: &Option<(RowKind, Range<usize>)>) -> Written<'a> {
    last.as_ref().map(|(kind, place)| (*kind, batch.slice(place.clone())))
}

/// One partition while an update works on it, its latch held.
pub(crate) struct Update<'a> {
    inner: &'a Inner,
    key: RowKeyBuf,
    writes: Writes,
    reach: Reach,
}

impl<'a> Update<'a> {
    pub(crate) fn new(inner: &'a Inner, prefix: Vec<u8>, reach: Reach) -> Update<'a> {
        let key = RowKeyBuf::new(prefix.clone());
        Update { inner, key, writes: Writes::new(prefix), reach }
    }

    pub(crate) fn into_batch(self) -> Result<Batch> {
        self.writes.into_batch()
    }

    /// The RowKeys of applied rows of a range, expired ones too, in order; `None` where they are
    /// better erased than deleted one by one. Cost: bounded, however many rows there are or were.
    fn few_stored_keys(&self, range: &RowKeys) -> Result<Option<Vec<Vec<u8>>>> {
        let prefix = self.key.prefix();
        let (start, end) = ([prefix, &range.0].concat(), range.1.as_ref());
        let end = end.map_or_else(|| order::partition_end(prefix), |to| [prefix, to].concat());
        let view = self.inner.tree.view_full();
        let mut scan = scan_applied(&view, KeyRange { start, end })?;
        let mut found = Vec::new();
        while scan.next()? {
            if found.len() == ERASED_SINGLY_MAX || scan.is_ruled_out() {
                return Ok(None);
            }
            found.push(self.key.rk_of(scan.key()).to_vec());
        }
        Ok(Some(found))
    }

    /// Whether there may be an applied row, by what memory knows.
    fn may_be_stored(&mut self, rk: &[u8]) -> Result<bool> {
        let key = self.key.row(rk);
        self.inner.tree.view().may_hold(key, hash::of_row(key), self.reach)
    }
}

impl PartitionUpdate for Update<'_> {
    fn get(&mut self, rk: &[u8]) -> Result<Option<Row>> {
        match self.writes.get(rk) {
            Some(own) => Ok(own_row(own)),
            None => self.inner.get(When::Applied, self.key.row(rk), self.reach),
        }
    }

    fn written(&mut self, rk: &[u8]) -> Result<Option<CommitTs>> {
        match self.writes.get(rk) {
            Some(own) => Ok(own.map(|_| CommitTs::ZERO)),
            None => self.inner.written(When::Applied, self.key.row(rk), self.reach),
        }
    }

    fn put(&mut self, rk: &[u8], value: &[u8]) -> Result<()> {
        self.writes.put(rk, value)
    }

    fn put_until(&mut self, rk: &[u8], value: &[u8], expires: CommitTs) -> Result<()> {
        self.writes.put_until(rk, value, expires)
    }

    fn delete(&mut self, rk: &[u8]) -> Result<()> {
        check_key_part("RowKey", rk)?;
        let inner = self.inner;
        let deletes = match self.writes.get(rk) {
            Some(own) => own.is_some(),
            None => inner.blind_deletes.deletes(|| self.may_be_stored(rk))?,
        };
        if deletes { self.writes.delete(rk) } else { Ok(()) }
    }

    fn delete_range(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        for bound in [from, to] {
            if let Bound::Included(rk) | Bound::Excluded(rk) = bound {
                check_key_part("RowKey", rk)?;
            }
        }
        let range = RowKeys::between(from, to);
        if range.is_empty() {
            return Ok(());
        }
        if self.reach == Reach::Memory {
            // A scan may need any block.
            return Err(would_wait());
        }
        let Some(stored) = self.few_stored_keys(&range)? else {
            self.writes.erase(range);
            return Ok(());
        };
        let mut rows = self.writes.own_rows(&range);
        rows.extend(stored.into_iter().filter(|rk| self.writes.get(rk).is_none()));
        rows.iter().try_for_each(|rk| self.writes.delete(rk))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::env::rng::Rng;

    #[test]
    fn own_writes_read_as_a_map_would_through_marks_and_returns() {
        let mut rng = Rng::seeded(5);
        for _ in 0..200 {
            let mut writes = Writes::new(vec![1]);
            let mut model: BTreeMap<Vec<u8>, Option<Row>> = BTreeMap::new();
            let mut marks = Vec::new();
            let random_order = rng.one_in(2);
            for step in 0..40u8 {
                let rk = vec![if random_order { rng.below(12) as u8 } else { step }];
                match rng.below(9) {
                    8 => {
                        let from = vec![rng.below(12) as u8];
                        let to = rng.one_in(2).then(|| vec![from[0] + 1 + rng.below(5) as u8]);
                        let range = RowKeys(from, to);
                        // No row is stored, so a range is what is known of it.
                        for rk in 0..=u8::MAX {
                            if range.hold(&[rk]) {
                                model.insert(vec![rk], None);
                            }
                        }
                        writes.erase(range);
                    }
                    0..4 => {
                        let value = vec![step; rng.below(3) as usize];
                        let expires = rng.one_in(2).then_some(CommitTs(u64::from(step)));
                        match expires {
                            Some(expires) => writes.put_until(&rk, &value, expires).unwrap(),
                            None => writes.put(&rk, &value).unwrap(),
                        }
                        model.insert(rk, Some(Row::own(&value, expires)));
                    }
                    4 => {
                        writes.delete(&rk).unwrap();
                        model.insert(rk, None);
                    }
                    5 => marks.push((writes.mark(), model.clone())),
                    6 if !marks.is_empty() => {
                        marks.truncate(rng.below(marks.len() as u64) as usize + 1);
                        let (mark, then) = marks.last().unwrap();
                        writes.back_to(*mark);
                        model = then.clone();
                    }
                    _ => {
                        let own = writes.get(&rk).map(own_row);
                        assert_eq!(own.as_ref(), model.get(&rk));
                    }
                }
            }
            for rk in (0..=u8::MAX).map(|rk| vec![rk]) {
                let own = writes.get(&rk).map(own_row);
                assert_eq!(own.as_ref(), model.get(&rk));
            }
            let rows = |row: &(Vec<u8>, Option<Row>)| row.1.is_some();
            let all = writes.all().map(|(rk, own)| (rk.to_vec(), own_row(own)));
            let all: Vec<_> = all.filter(rows).collect();
            assert_eq!(all, model.into_iter().filter(rows).collect::<Vec<_>>());
        }
    }
}

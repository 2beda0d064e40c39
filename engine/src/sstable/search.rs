//! Searches the columns of a block: for one key by fingerprints, for a place by halving.
//!
//! What is searched was proved by `check`; were it not, a search would end all the same, with some
//! row or none. Absent: values.

use crate::ids::CommitTs;
use crate::sstable::layout::{Columns, Run, Suffix};
use crate::words;
use std::cmp::Ordering;
use std::ops::Range;

impl Columns<'_> {
    /// The newest version of `key` that is not newer than `at`. `print` is the fingerprint of the
    /// key's hash; the block must have fingerprints.
    pub(crate) fn find(&self, key: &[u8], print: u8, at: CommitTs) -> Option<usize> {
        // Versions lie newest first, so the first row that matches is the newest.
        let newest = matches(self.fingerprints(), print).find(|row| self.is_key(*row, key))?;
        if self.ts(newest) <= at {
            return Some(newest);
        }
        let row = self.lower_bound(key, at, &[]);
        (row < self.layout.rows && self.is_key(row, key)).then_some(row)
    }

    /// The first row at or after (`key`, `ts`) in the order of rows; the number of rows where all
    /// lie before. `run_heads`: of each run's prefix the first 8 bytes, or nothing.
    pub(crate) fn lower_bound(&self, key: &[u8], ts: CommitTs, run_heads: &[u64]) -> usize {
        let rows = self.layout.rows;
        let Some(rest) = key.strip_prefix(self.common()) else {
            return if key < self.common() { 0 } else { rows };
        };
        let run = self.run_bound(rest, run_heads);
        if run == self.layout.runs {
            return rows;
        }
        let run = self.run(run);
        let bound = match rest.strip_prefix(run.prefix) {
            Some(row_key) => self.lower_bound_in(&run, row_key, ts),
            None => run.rows.start,
        };
        bound.min(rows) // In a block that changes under us a run may lie anywhere.
    }

    /// The first run that holds keys starting with `rest`, or else lies after them. `rest` is a key
    /// after the common bytes.
    fn run_bound(&self, rest: &[u8], run_heads: &[u64]) -> usize {
        let (mut low, mut high) = (0, self.layout.runs);
        if !run_heads.is_empty() {
            // A run whose head is above lies after; one whose head is below lies before, save for
            // the last of these, whose prefix may end where `rest` goes on.
            let wanted = Suffix::of(rest).head;
            low = run_heads.partition_point(|head| *head < wanted).saturating_sub(1);
            high = low + run_heads[low..].partition_point(|head| *head <= wanted);
        }
        partition_point(low, high, |run| {
            let prefix = self.run_prefix(run);
            *prefix < *rest.get(..prefix.len()).unwrap_or(rest)
        })
    }

    fn lower_bound_in(&self, run: &Run<'_>, row_key: &[u8], ts: CommitTs) -> usize {
        let Some(rest) = row_key.strip_prefix(run.share) else {
            return if row_key < run.share { run.rows.start } else { run.rows.end };
        };
        self.suffix_bound(run.rows.clone(), rest, |row| self.ts(row) > ts)
    }

    /// Of `rows`, which are of one run, the first that is not before `suffix`; the end where all
    /// are. Of those that have it, `is_before` says which are.
    pub(crate) fn suffix_bound(
        &self,
        rows: Range<usize>,
        suffix: &[u8],
        is_before: impl Fn(usize) -> bool,
    ) -> usize {
        let wanted = Suffix::of(suffix);
        let heads = self.heads().get(rows.clone()).unwrap_or_default();
        let first =
            rows.start + heads.partition_point(|head| u64::from_be_bytes(*head) < wanted.head);
        let before = |row| match self.suffix(row).cmp(&wanted) {
            Ordering::Equal => is_before(row),
            order => order.is_lt(),
        };
        // Mostly no other row has the same head, and this ends the search.
        if first == rows.end || self.head(first) > wanted.head || !before(first) {
            return first;
        }
        partition_point(first + 1, rows.end, before)
    }

    /// Whether the row's key is `key`.
    pub(crate) fn is_key(&self, row: usize, key: &[u8]) -> bool {
        let suffix = self.suffix(row);
        // What tells rows apart stands at the end of a key, so most wrong rows fail at the first
        // look.
        let start_len = key.len().wrapping_sub(suffix.head_len + suffix.tail.len());
        let Some((start, end)) = key.split_at_checked(start_len) else { return false };
        if suffix.head != Suffix::of(end).head || !end.ends_with(suffix.tail) {
            return false;
        }
        let run = self.run(self.run_of(row));
        let parts = [self.common(), run.prefix, run.share];
        let rest = parts.iter().try_fold(start, |rest, part| rest.strip_prefix(*part));
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// How the row's key lies to `key`.
    pub(crate) fn cmp_key(&self, row: usize, key: &[u8]) -> Ordering {
        let run = self.run(self.run_of(row));
        let mut rest = key;
        for part in [self.common(), run.prefix, run.share] {
            let (start, end) = rest.split_at_checked(part.len()).unwrap_or((rest, &[]));
            match part.cmp(start) {
                Ordering::Equal => rest = end,
                order => return order,
            }
        }
        self.suffix(row).cmp(&Suffix::of(rest))
    }
}

/// The first of `low..high` that is not `before`; `high` where all are.
fn partition_point(mut low: usize, mut high: usize, before: impl Fn(usize) -> bool) -> usize {
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// The places of `byte` in `bytes`, and now and then a place beside one: eight bytes are compared
/// at a time, and a match may carry into the next. Callers look at the row anyway.
fn matches(bytes: &[u8], byte: u8) -> impl Iterator<Item = usize> {
    let wanted = u64::from_ne_bytes([byte; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words = words.iter().enumerate().flat_map(move |(i, word)| {
        let mut zeros = words::zero_bytes(u64::from_le_bytes(*word) ^ wanted);
        std::iter::from_fn(move || {
            let at = i * 8 + zeros.trailing_zeros() as usize / 8;
            let any = zeros != 0;
            zeros &= zeros.wrapping_sub(1);
            any.then_some(at)
        })
    });
    let base = words.len() * 8;
    let in_rest = rest.iter().enumerate().filter(move |(_, b)| **b == byte);
    in_words.chain(in_rest.map(move |(i, _)| base + i))
}

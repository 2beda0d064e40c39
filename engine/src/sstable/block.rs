//! A block in memory: searched by key, read row by row in either direction, its values
//! decompressed when the first of them is asked for.
//!
//! Promise: no search and no walk touches a value; a row is reached in the same time from either
//! side. Absent: the file. What is wrong with the bytes is a [`Damage`]; the reader adds the place.

use super::check::{self, Facts};
use super::format::Damage;
use super::layout::{Columns, Layout, Run, Suffix};
use crate::compress::Codec;
use crate::ids::{CommitTs, RowKind};
use bytes::Bytes;
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::sync::OnceLock;

/// Bytes of bookkeeping per block, charged to the cache.
const OVERHEAD_BYTES: usize = 320;

/// One block, proved sound when it was parsed.
pub(crate) struct Block {
    keys: Bytes,
    layout: Layout,
    facts: Facts,
    values: OnceLock<Bytes>,
    // The values as stored, until they are decompressed; the lock lets one thread do it.
    stored: Mutex<Bytes>,
    // Of each run's prefix the first 8 bytes, for blocks with many runs that live long: those of
    // the index. Empty for blocks of data.
    run_heads: Box<[u64]>,
}

/// Which byte of a row's hash is its fingerprint. Not the bits that pick its filter line, so that
/// the two doubt a key for different reasons.
pub(crate) fn fingerprint(row_hash: u64) -> u8 {
    row_hash as u8
}

impl Block {
    /// Proves `bytes` to be a block.
    pub(crate) fn parse(bytes: Bytes) -> Result<Block, Damage> {
        let layout = Layout::read(&bytes)?;
        let keys_len = layout.keys_len();
        let facts = check::check(&Columns { bytes: &bytes[..keys_len], layout: &layout })?;
        if layout.codec == Codec::None {
            let values = OnceLock::from(bytes.slice(keys_len..));
            let keys = bytes.slice(..keys_len);
            let (stored, run_heads) = (Mutex::default(), Box::default());
            return Ok(Block { keys, layout, facts, values, stored, run_heads });
        }
        // Copied, so that the stored values can be let go once they are decompressed.
        let keys = Bytes::copy_from_slice(&bytes[..keys_len]);
        let stored = Mutex::new(bytes.slice(keys_len..));
        let (values, run_heads) = (OnceLock::new(), Box::default());
        Ok(Block { keys, layout, facts, values, stored, run_heads })
    }

    /// Proves `bytes` to be a block of an index, and prepares it for many searches.
    pub(crate) fn parse_index(bytes: Bytes) -> Result<Block, Damage> {
        let mut block = Block::parse(bytes)?;
        let columns = block.columns();
        let runs = 0..block.layout.runs;
        block.run_heads = runs.map(|run| Suffix::of(columns.run(run).prefix).head).collect();
        Ok(block)
    }

    /// Proves `bytes` to be a block of data, which has fingerprints.
    pub(crate) fn parse_data(bytes: Bytes) -> Result<Block, Damage> {
        let block = Block::parse(bytes)?;
        let marked = block.layout.fingerprints;
        if marked { Ok(block) } else { Err(Damage("data block without fingerprints")) }
    }

    /// Adds `ts_base` to every timestamp: see [`Layout::date`].
    pub(crate) fn dated(mut self, ts_base: u64) -> Block {
        self.layout.date(ts_base);
        self
    }

    /// Rows in it; at least 1.
    pub(crate) fn rows(&self) -> usize {
        self.layout.rows
    }

    /// Bytes of memory it takes once its values are decompressed.
    pub(crate) fn weight(&self) -> usize {
        self.keys.len() + self.layout.values_len + OVERHEAD_BYTES
    }

    /// Its counts, for those who print them.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The newest version of `key` that is not newer than `at`. `print` is the fingerprint of the
    /// key's hash; the block must have fingerprints.
    pub(crate) fn find(&self, key: &[u8], print: u8, at: CommitTs) -> Option<usize> {
        let columns = self.columns();
        // Versions lie newest first, so the first row that matches is the newest.
        let newest = matches(columns.fingerprints(), print).find(|row| self.is_key(*row, key))?;
        if columns.ts(newest) <= at {
            return Some(newest);
        }
        let row = self.lower_bound(key, at);
        (row < self.rows() && self.is_key(row, key)).then_some(row)
    }

    /// The first row at or after (`key`, `ts`) in the order of rows; the number of rows where all
    /// lie before.
    pub(crate) fn lower_bound(&self, key: &[u8], ts: CommitTs) -> usize {
        let columns = self.columns();
        let Some(rest) = key.strip_prefix(columns.common()) else {
            return if key < columns.common() { 0 } else { self.rows() };
        };
        let run = self.run_bound(rest);
        if run == self.layout.runs {
            return self.rows();
        }
        let run = columns.run(run);
        match rest.strip_prefix(run.prefix) {
            Some(row_key) => self.lower_bound_in(&run, row_key, ts),
            None => run.rows.start,
        }
    }

    /// The first run that holds keys starting with `rest`, or else lies after them. `rest` is a key
    /// after the common bytes.
    fn run_bound(&self, rest: &[u8]) -> usize {
        let columns = self.columns();
        let (mut low, mut high) = (0, self.layout.runs);
        if !self.run_heads.is_empty() {
            // A run whose head is above lies after; one whose head is below lies before, save for
            // the last of these, whose prefix may end where `rest` goes on.
            let wanted = Suffix::of(rest).head;
            low = self.run_heads.partition_point(|head| *head < wanted).saturating_sub(1);
            high = low + self.run_heads[low..].partition_point(|head| *head <= wanted);
        }
        partition_point(low, high, |run| {
            let prefix = columns.run_prefix(run);
            *prefix < *rest.get(..prefix.len()).unwrap_or(rest)
        })
    }

    fn lower_bound_in(&self, run: &Run<'_>, row_key: &[u8], ts: CommitTs) -> usize {
        let Some(rest) = row_key.strip_prefix(run.share) else {
            return if row_key < run.share { run.rows.start } else { run.rows.end };
        };
        let (columns, wanted) = (self.columns(), Suffix::of(rest));
        let heads = columns.heads().get(run.rows.clone()).unwrap_or_default();
        let first =
            run.rows.start + heads.partition_point(|head| u64::from_be_bytes(*head) < wanted.head);
        let before = |row| match columns.suffix(row).cmp(&wanted) {
            Ordering::Equal => columns.ts(row) > ts,
            order => order.is_lt(),
        };
        // Mostly no other row has the same head, and this ends the search.
        if first == run.rows.end || columns.head(first) > wanted.head || !before(first) {
            return first;
        }
        partition_point(first + 1, run.rows.end, before)
    }

    /// Whether the row's key is `key`.
    pub(crate) fn is_key(&self, row: usize, key: &[u8]) -> bool {
        let columns = self.columns();
        let suffix = columns.suffix(row);
        // What tells rows apart stands at the end of a key, so most wrong rows fail at the first look.
        let start_len = key.len().wrapping_sub(suffix.head_len + suffix.tail.len());
        let Some((start, end)) = key.split_at_checked(start_len) else { return false };
        if suffix.head != Suffix::of(end).head || !end.ends_with(suffix.tail) {
            return false;
        }
        let run = columns.run(columns.run_of(row));
        let parts = [columns.common(), run.prefix, run.share];
        let rest = parts.iter().try_fold(start, |rest, part| rest.strip_prefix(*part));
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// How the row's key lies to `key`.
    pub(crate) fn cmp_key(&self, row: usize, key: &[u8]) -> Ordering {
        let columns = self.columns();
        let run = columns.run(columns.run_of(row));
        let mut rest = key;
        for part in [columns.common(), run.prefix, run.share] {
            let (start, end) = rest.split_at_checked(part.len()).unwrap_or((rest, &[]));
            match part.cmp(start) {
                Ordering::Equal => rest = end,
                order => return order,
            }
        }
        columns.suffix(row).cmp(&Suffix::of(rest))
    }

    /// Whether the row and the one after it are versions of one key.
    pub(crate) fn continues(&self, row: usize) -> bool {
        if self.facts.distinct || row + 1 >= self.rows() {
            return false;
        }
        let columns = self.columns();
        columns.run_of(row) == columns.run_of(row + 1)
            && columns.suffix(row).cmp(&columns.suffix(row + 1)).is_eq()
    }

    /// Whether a reader at `at` sees every row of the block that no other block or file hides: all
    /// are puts of different keys, none newer.
    pub(crate) fn is_plain(&self, at: CommitTs) -> bool {
        self.facts.all_puts && self.facts.distinct && self.facts.max_ts <= at
    }

    /// The row's timestamp.
    pub(crate) fn ts(&self, row: usize) -> CommitTs {
        self.columns().ts(row)
    }

    /// Whether the row is a put or a delete.
    pub(crate) fn kind(&self, row: usize) -> RowKind {
        self.columns().kind(row)
    }

    /// The row's value; decompresses all of the block's values where none was asked for before.
    pub(crate) fn value(&self, row: usize) -> Result<Bytes, Damage> {
        let range = self.columns().value_range(row);
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        Ok(self.values()?.slice(range))
    }

    /// The same, borrowed.
    pub(crate) fn value_ref(&self, row: usize) -> Result<&[u8], Damage> {
        let range = self.columns().value_range(row);
        if range.is_empty() {
            return Ok(&[]);
        }
        Ok(self.values()?.get(range).unwrap_or_default())
    }

    /// All values, one after another.
    pub(crate) fn values(&self) -> Result<&Bytes, Damage> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let mut stored = self.stored.lock();
        if self.values.get().is_none() {
            let raw = self.layout.codec.unpack(&stored, self.layout.values_len).map_err(Damage)?;
            *stored = Bytes::new();
            let _ = self.values.set(Bytes::from(raw));
        }
        self.values.get().ok_or(Damage("block's values do not decompress"))
    }

    /// The value of a row whose block keeps its values uncompressed, as an index block does.
    pub(crate) fn plain_value(&self, row: usize) -> &[u8] {
        let values = self.values.get().map(|values| &values[..]).unwrap_or_default();
        values.get(self.columns().value_range(row)).unwrap_or_default()
    }

    /// Appends the row's key.
    pub(crate) fn put_key(&self, row: usize, out: &mut Vec<u8>) {
        self.put_run_start(self.columns().run_of(row), out);
        self.put_suffix(row, out);
    }

    /// Appends what the keys of a run share; returns its rows.
    pub(crate) fn put_run_start(&self, run: usize, out: &mut Vec<u8>) -> std::ops::Range<usize> {
        let columns = self.columns();
        let run = columns.run(run);
        for part in [columns.common(), run.prefix, run.share] {
            out.extend_from_slice(part);
        }
        run.rows
    }

    /// Appends what the row's key has beyond what its run shares.
    pub(crate) fn put_suffix(&self, row: usize, out: &mut Vec<u8>) {
        self.columns().suffix(row).put(out);
    }

    /// The run that a row belongs to.
    pub(crate) fn run_of(&self, row: usize) -> usize {
        self.columns().run_of(row)
    }

    /// Length of the partition prefix of a run's keys.
    pub(crate) fn prefix_len(&self, run: usize) -> usize {
        self.layout.common_len + self.columns().run(run).prefix.len()
    }

    fn columns(&self) -> Columns<'_> {
        Columns { bytes: &self.keys, layout: &self.layout }
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
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let wanted = ONES * u64::from(byte);
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words = words.iter().enumerate().flat_map(move |(i, word)| {
        let differs = u64::from_le_bytes(*word) ^ wanted;
        let mut zeros = differs.wrapping_sub(ONES) & !differs & HIGHS;
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

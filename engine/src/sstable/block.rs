//! A block in memory: searched by key, read row by row in either direction, its values
//! decompressed when the first of them is asked for.
//!
//! Promise: no search and no walk touches a value; a row is reached in the same time from either
//! side. Absent: the file. What is wrong with the bytes is a [`Damage`]; the reader adds the place.

use crate::compress::Codec;
use crate::cursor::Direction;
use crate::ids::{CommitTs, RowKind};
use crate::prefetch;
use crate::sstable::check::{self, Facts};
use crate::sstable::format::Damage;
use crate::sstable::layout::{Columns, Layout, Suffix};
use crate::sstable::piece::Piece;
use crate::sync::Mutex;
use crate::sync::OnceLock;
use bytes::Bytes;
use std::cmp::Ordering;

/// Bytes of bookkeeping per block, charged to the cache.
const OVERHEAD_BYTES: usize = 320;

/// Values fetched at once at most.
const VALUES_FETCHED: usize = 32;

const UNREADABLE: &str = "block's values do not decompress";

/// One block, proved sound when it was parsed.
pub(crate) struct Block {
    // The columns, and behind them the values, unless those are `packed`.
    bytes: Bytes,
    layout: Layout,
    facts: Facts,
    packed: Option<Box<Packed>>,
    // Bytes of memory that it takes, with its values.
    weight: usize,
    // Of each run's prefix the first 8 bytes, for blocks with many runs that live long: those of
    // the index. Empty for blocks of data.
    run_heads: Box<[u64]>,
}

/// Values that nobody has asked for yet.
struct Packed {
    values: OnceLock<Bytes>,
    // As stored, until they are decompressed; the lock lets one thread do it.
    stored: Mutex<Bytes>,
}

/// When the values of a block are decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unpack {
    /// With the block: somebody will ask for one. Costs one piece of memory for the whole block.
    Now,
    /// Once one is asked for.
    Later,
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
            return Ok(Block::in_place(bytes, layout, facts));
        }
        // Copied, so that the stored values can be let go once they are decompressed.
        let keys = Piece::copy_of(&bytes[..keys_len]);
        Ok(Block::packed(keys, bytes.slice(keys_len..), layout, facts))
    }

    /// Proves `bytes` to be a block of an index, and prepares it for many searches.
    pub(crate) fn parse_index(bytes: Bytes) -> Result<Block, Damage> {
        let mut block = Block::parse(bytes)?;
        let columns = block.columns();
        let runs = 0..block.layout.runs;
        block.run_heads = runs.map(|run| Suffix::of(columns.run(run).prefix).head).collect();
        Ok(block)
    }

    /// Proves `bytes` to be a block of data, which has fingerprints, and copies it; with its values
    /// decompressed where `unpack` says so. Values that cannot be are found out by whoever asks for
    /// them.
    pub(crate) fn copy_data(bytes: &[u8], unpack: Unpack) -> Result<Block, Damage> {
        let layout = Layout::read(bytes)?;
        if !layout.fingerprints {
            return Err(Damage("data block without fingerprints"));
        }
        let (keys, stored) = bytes.split_at(layout.keys_len());
        let facts = check::check(&Columns { bytes: keys, layout: &layout })?;
        match (layout.codec, unpack) {
            (Codec::None, _) => {
                let whole = Piece::copy_of(bytes);
                let weight = whole.weight();
                return Ok(Block { weight, ..Block::in_place(whole.share(), layout, facts) });
            }
            (codec, Unpack::Now) if codec.is_plausible(stored.len(), layout.values_len) => {
                let mut whole = Piece::of(keys.len() + layout.values_len);
                let (keys_here, values) = whole.split_at_mut(keys.len());
                keys_here.copy_from_slice(keys);
                if codec.unpack_over(stored, values).is_ok() {
                    let weight = whole.weight();
                    return Ok(Block { weight, ..Block::in_place(whole.share(), layout, facts) });
                }
            }
            _ => {}
        }
        let stored = Piece::copy_of(stored).share();
        Ok(Block::packed(Piece::copy_of(keys), stored, layout, facts))
    }

    fn packed(keys: Piece, stored: Bytes, layout: Layout, facts: Facts) -> Block {
        let weight = keys.weight() + layout.values_len;
        let packed = Packed { values: OnceLock::new(), stored: Mutex::new(stored) };
        let (bytes, packed) = (keys.share(), Some(Box::new(packed)));
        Block { bytes, layout, facts, packed, weight, run_heads: Box::default() }
    }

    /// A block of data that was proved before, its values not compressed, its timestamps as
    /// `layout` has them.
    pub(crate) fn in_place(bytes: Bytes, layout: Layout, facts: Facts) -> Block {
        let weight = bytes.len();
        Block { bytes, layout, facts, packed: None, weight, run_heads: Box::default() }
    }

    /// Adds `ts_base` to every timestamp: see [`Layout::date`].
    pub(crate) fn dated(mut self, ts_base: u64) -> Block {
        self.layout.date(ts_base);
        let newest = &mut self.facts.max_ts;
        *newest = CommitTs(newest.0.saturating_add(ts_base));
        self
    }

    /// Rows in it; at least 1.
    pub(crate) fn rows(&self) -> usize {
        self.layout.rows
    }

    /// Bytes of memory it takes once its values are decompressed.
    pub(crate) fn weight(&self) -> usize {
        self.weight + OVERHEAD_BYTES
    }

    /// Its counts, for those who print them.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The newest version of `key` that is not newer than `at`: see [`Columns::find`].
    pub(crate) fn find(&self, key: &[u8], print: u8, at: CommitTs) -> Option<usize> {
        self.columns().find(key, print, at)
    }

    /// The first row at or after (`key`, `ts`) in the order of rows; the number of rows where all
    /// lie before.
    pub(crate) fn lower_bound(&self, key: &[u8], ts: CommitTs) -> usize {
        self.columns().lower_bound(key, ts, &self.run_heads)
    }

    /// How the row's key lies to `key`.
    pub(crate) fn cmp_key(&self, row: usize, key: &[u8]) -> Ordering {
        self.columns().cmp_key(row, key)
    }

    /// How the row lies to the place of (`key`, `ts`) in the order of rows.
    pub(crate) fn cmp_row(&self, row: usize, (key, ts): (&[u8], CommitTs)) -> Ordering {
        self.cmp_key(row, key).then_with(|| ts.cmp(&self.ts(row)))
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

    /// No row is of an earlier commit.
    pub(crate) fn oldest(&self) -> CommitTs {
        CommitTs(self.layout.base_ts)
    }

    /// No row is of a later commit.
    pub(crate) fn newest(&self) -> CommitTs {
        self.facts.max_ts
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
        let (values, at) = self.values_at()?;
        let range = at + range.start..at + range.end;
        let inside = range.start <= range.end && range.end <= values.len();
        if inside { Ok(values.slice(range)) } else { Err(Damage("row's value lies outside")) }
    }

    /// The same, borrowed.
    #[inline]
    pub(crate) fn value_ref(&self, row: usize) -> Result<&[u8], Damage> {
        let range = self.columns().value_range(row);
        if self.packed.is_some() && !range.is_empty() {
            return self.values().map(|values| values.get(range).unwrap_or_default());
        }
        Ok(self.values_here().get(range).unwrap_or_default())
    }

    /// Whether nobody needs to decompress anything any more.
    pub(crate) fn is_unpacked(&self) -> bool {
        self.packed.as_ref().is_none_or(|packed| packed.values.get().is_some())
    }

    /// All values, one after another.
    pub(crate) fn values(&self) -> Result<&[u8], Damage> {
        let (bytes, at) = self.values_at()?;
        Ok(bytes.get(at..).unwrap_or_default())
    }

    /// The bytes that hold the values, and where in them those begin.
    fn values_at(&self) -> Result<(&Bytes, usize), Damage> {
        let Some(packed) = &self.packed else { return Ok((&self.bytes, self.layout.keys_len())) };
        if let Some(values) = packed.values.get() {
            return Ok((values, 0));
        }
        let mut stored = packed.stored.lock();
        if packed.values.get().is_none() {
            let (codec, len) = (self.layout.codec, self.layout.values_len);
            if !codec.is_plausible(stored.len(), len) {
                return Err(Damage(UNREADABLE));
            }
            let mut values = Piece::of(len);
            codec.unpack_over(&stored, &mut values).map_err(Damage)?;
            *stored = Bytes::new();
            let _ = packed.values.set(values.share());
        }
        packed.values.get().map(|values| (values, 0)).ok_or(Damage(UNREADABLE))
    }

    /// Starts fetching where each value begins of the rows that a walk in `direction` from `row`
    /// comes to, as far as they are there: one miss for all instead of one a row.
    pub(super) fn prefetch_values(&self, row: usize, direction: Direction) {
        if !self.is_unpacked() {
            return;
        }
        let Ok(values) = self.values() else { return };
        let rows = match direction {
            Direction::Up => row..self.rows().min(row + VALUES_FETCHED),
            Direction::Down => (row + 1).saturating_sub(VALUES_FETCHED)..row + 1,
        };
        for start in self.columns().value_starts(rows) {
            if let Some(first) = values.get(start) {
                prefetch::read(first);
            }
        }
    }

    /// The values of a block that has them behind its columns; nothing where they are packed.
    #[inline]
    pub(super) fn values_here(&self) -> &[u8] {
        self.bytes.get(self.layout.keys_len()..).unwrap_or_default()
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
    #[inline(always)] // A call costs as much as the eight bytes that most suffixes are.
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

    #[inline]
    pub(super) fn columns(&self) -> Columns<'_> {
        // A mapping may have changed under us: then there are no columns, and no row is found.
        let keys = self.bytes.get(..self.layout.keys_len()).unwrap_or_default();
        Columns { bytes: keys, layout: &self.layout }
    }
}

//! Which block holds which keys. Resident: a lookup reads no file.
//!
//! An entry is a *separator* (key, timestamp): all rows of its block are at or before it in the
//! order of rows, all rows of the next block after it. The timestamp is 0, which is after every
//! version of the key, except where a block ends between two versions of one key. Entries are the
//! rows of *index blocks* in the same columns as data, searched by the same code; the last
//! separators of the index blocks form the upper level, made when the file is opened.
//!
//! ```text
//! size  field    (little-endian)
//!    4  index blocks
//!   4n  length of each
//!       index blocks: without fingerprints, values uncompressed;
//!       a value is the offset u64 and the length u32 of a data block, checksum included,
//!       and its plain rows u16
//! ```
//!
//! *Plain rows*: how many rows the block has, where each of them is the only version of its key in
//! the file and holds a value that does not expire, so that they can be counted unread; 0 where
//! that is not so.

use crate::codec::Reader;
use crate::cursor::Direction;
use crate::ids::{CommitTs, RowKind};
use crate::key::fences::{Fences, common_len};
use crate::sstable::block::Block;
use crate::sstable::block_builder::{BlockBuilder, NewRow};
use crate::sstable::format::Damage;
use bytes::Bytes;

/// Raw bytes of one index block: some 400 entries, so that the upper level of a 32 MiB file has
/// about 40.
const INDEX_BLOCK_BYTES: usize = 16 << 10;

/// Where a data block lies; the length includes its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Handle {
    fn end(self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// What the index knows of a data block beside its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) handle: Handle,
    /// Rows that can be counted unread; 0 where the block must be read to be counted.
    pub(crate) plain_rows: u16,
}

/// Bytes of a stored [`Entry`].
const ENTRY_LEN: usize = 14;

impl Entry {
    fn encode(self) -> [u8; ENTRY_LEN] {
        let mut out = [0; ENTRY_LEN];
        out[..8].copy_from_slice(&self.handle.offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.handle.len.to_le_bytes());
        out[12..].copy_from_slice(&self.plain_rows.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Entry> {
        let mut reader = Reader::new(bytes);
        let handle = Handle { offset: reader.u64()?, len: reader.u32()? };
        let entry = Entry { handle, plain_rows: reader.u16()? };
        reader.is_empty().then_some(entry)
    }
}

/// Collects the entries of a file's index.
#[derive(Default)]
pub(crate) struct IndexBuilder {
    block: BlockBuilder,
    blocks: Vec<u8>,
    lens: Vec<u32>,
}

impl IndexBuilder {
    /// Adds a block's separator. Separators must ascend.
    pub(crate) fn add(&mut self, separator: &[u8], prefix_len: usize, ts: CommitTs, block: Entry) {
        let (prefix, row_key) = separator.split_at(prefix_len);
        let value = block.encode();
        let shared = self.block.shared_with_last(prefix, row_key);
        let kind = RowKind::Put;
        let row = NewRow { prefix, row_key, shared, ts, kind, print: 0, value: &value };
        if !self.block.fits(&row, INDEX_BLOCK_BYTES) {
            self.end_block();
        }
        self.block.push(&row);
    }

    /// Bytes it would take now, about.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() + self.block.raw_bytes()
    }

    /// Appends the index.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) {
        self.end_block();
        out.extend_from_slice(&(self.lens.len() as u32).to_le_bytes());
        for len in &self.lens {
            out.extend_from_slice(&len.to_le_bytes());
        }
        out.append(&mut self.blocks);
    }

    fn end_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let start = self.blocks.len();
        self.block.encode(false, None, &mut self.blocks);
        self.lens.push((self.blocks.len() - start) as u32);
        self.block.clear();
    }
}

/// The index of an open file.
pub(crate) struct Index {
    // Invariant: not empty.
    parts: Box<[Part]>,
    upper: Fences, // The last separators of the parts.
    bytes: usize,
}

struct Part {
    /// Data blocks of the parts before.
    blocks_before: usize,
    last_key: Box<[u8]>,
    last_ts: CommitTs,
    block: Block,
}

/// The place of a data block's entry in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryAt {
    part: usize,
    row: usize,
}

impl Index {
    /// Reads an index whose data blocks must fill the file's first `data_len` bytes.
    pub(crate) fn parse(bytes: &Bytes, data_len: u64) -> Result<Index, Damage> {
        let mut reader = Reader::new(bytes);
        let short = Damage("index ends early");
        let count = reader.u32().ok_or(short)? as usize;
        let lens = count.checked_mul(4).and_then(|len| reader.take(len)).ok_or(short)?;
        let (mut parts, mut blocks) = (Vec::<Part>::new(), 0);
        let mut at = bytes.len() - reader.rest().len();
        for len in lens.as_chunks::<4>().0 {
            let end = at + u32::from_le_bytes(*len) as usize;
            if end > bytes.len() {
                return Err(short);
            }
            let part = Part::parse(bytes.slice(at..end), blocks)?;
            blocks += part.block.rows();
            parts.push(part);
            at = end;
        }
        if at != bytes.len() || parts.is_empty() {
            return Err(Damage("index blocks do not fill the index"));
        }
        let upper = Fences::of(parts.iter().map(|part| &*part.last_key));
        let index = Index { parts: parts.into_boxed_slice(), upper, bytes: bytes.len() };
        index.check_handles(data_len)?;
        index.check_order()?;
        Ok(index)
    }

    fn check_handles(&self, data_len: u64) -> Result<(), Damage> {
        let mut end = 0u64;
        for part in &self.parts {
            for row in 0..part.block.rows() {
                let entry = part.entry(row).ok_or(Damage("index entry is not one"))?;
                let handle = entry.handle;
                if handle.offset != end || handle.len == 0 || data_len - end < handle.len.into() {
                    return Err(Damage("index entries do not follow one another"));
                }
                end = handle.end();
            }
        }
        if end == data_len { Ok(()) } else { Err(Damage("index does not cover the data")) }
    }

    fn check_order(&self) -> Result<(), Damage> {
        let mut first = Vec::new();
        for pair in self.parts.windows(2) {
            first.clear();
            pair[1].block.put_key(0, &mut first);
            if !pair[0].is_before(&first, pair[1].block.ts(0)) {
                return Err(Damage("index blocks are out of order"));
            }
        }
        Ok(())
    }

    /// The first block that may hold a row at or after (`key`, `ts`).
    pub(crate) fn seek(&self, key: &[u8], ts: CommitTs) -> Option<EntryAt> {
        let among = self.upper.narrow(key);
        let start = among.start;
        let part = start + self.parts[among].partition_point(|part| part.is_before(key, ts));
        let row = self.parts.get(part)?.block.lower_bound(key, ts);
        Some(EntryAt { part, row })
    }

    /// The first block.
    pub(crate) fn first(&self) -> EntryAt {
        EntryAt { part: 0, row: 0 }
    }

    /// The last block.
    pub(crate) fn last(&self) -> EntryAt {
        let part = self.parts.len() - 1;
        EntryAt { part, row: self.parts[part].block.rows() - 1 }
    }

    /// The block after.
    pub(crate) fn next(&self, at: EntryAt) -> Option<EntryAt> {
        let rows = self.parts.get(at.part)?.block.rows();
        if at.row + 1 < rows {
            return Some(EntryAt { row: at.row + 1, ..at });
        }
        (at.part + 1 < self.parts.len()).then_some(EntryAt { part: at.part + 1, row: 0 })
    }

    /// The block before.
    pub(crate) fn prev(&self, at: EntryAt) -> Option<EntryAt> {
        if at.row > 0 {
            return Some(EntryAt { row: at.row - 1, ..at });
        }
        let part = at.part.checked_sub(1)?;
        Some(EntryAt { part, row: self.parts.get(part)?.block.rows() - 1 })
    }

    /// The block that a walk in `direction` comes to after this one.
    pub(crate) fn step(&self, at: EntryAt, direction: Direction) -> Option<EntryAt> {
        match direction {
            Direction::Up => self.next(at),
            Direction::Down => self.prev(at),
        }
    }

    /// How many data blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.parts.last().map_or(0, |part| part.blocks_before + part.block.rows())
    }

    /// How many blocks lie before it.
    pub(crate) fn ordinal(&self, at: EntryAt) -> usize {
        self.parts.get(at.part).map_or(0, |part| part.blocks_before + at.row)
    }

    /// Where the block lies.
    pub(crate) fn handle(&self, at: EntryAt) -> Handle {
        let entry = self.entry(at);
        // Every entry was decoded when the index was parsed; a wrong place reads as no bytes.
        entry.map_or(Handle { offset: 0, len: 0 }, |entry| entry.handle)
    }

    /// Rows of the block that can be counted unread; 0 where it must be read.
    pub(crate) fn plain_rows(&self, at: EntryAt) -> u16 {
        self.entry(at).map_or(0, |entry| entry.plain_rows)
    }

    fn entry(&self, at: EntryAt) -> Option<Entry> {
        self.parts.get(at.part).and_then(|part| part.entry(at.row))
    }

    /// The entry of the block before which as many lie; `None` where there are not so many.
    pub(crate) fn at_ordinal(&self, ordinal: usize) -> Option<EntryAt> {
        let part =
            self.parts.partition_point(|part| part.blocks_before <= ordinal).checked_sub(1)?;
        let row = ordinal - self.parts[part].blocks_before;
        (row < self.parts[part].block.rows()).then_some(EntryAt { part, row })
    }

    /// The block's separator.
    pub(crate) fn separator(&self, at: EntryAt) -> (Vec<u8>, CommitTs) {
        let mut key = Vec::new();
        let Some(part) = self.parts.get(at.part) else { return (key, CommitTs::ZERO) };
        part.block.put_key(at.row, &mut key);
        (key, part.block.ts(at.row))
    }

    /// Whether versions of one key lie on both sides of the end of the block.
    pub(crate) fn splits_key_after(&self, at: EntryAt) -> bool {
        self.parts.get(at.part).is_some_and(|part| part.block.ts(at.row) != CommitTs::ZERO)
    }

    /// Bytes of memory it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same as [`PlainSums::run`] of a few blocks, one after the other from `entry` on.
    pub(crate) fn plain_run(&self, entry: EntryAt, to: usize) -> (usize, u64) {
        let (mut at, mut rows) = (Some(entry), 0);
        while let Some(entry) = at {
            let (block, plain) = (self.ordinal(entry), self.plain_rows(entry));
            if block >= to || plain == 0 {
                return (block.min(to), rows);
            }
            rows += u64::from(plain);
            at = self.next(entry);
        }
        (to, rows)
    }

    /// The sums of its plain rows. Cost: a pass over it.
    pub(crate) fn sums(&self) -> PlainSums {
        let (mut sums, mut rows) = (PlainSums::default(), 0);
        let mut entry = Some(self.first());
        while let Some(at) = entry {
            sums.before.push(rows);
            match self.plain_rows(at) {
                0 => sums.gaps.push(sums.before.len() - 1),
                plain => rows += u64::from(plain),
            }
            entry = self.next(at);
        }
        sums.before.push(rows);
        sums.before.shrink_to_fit();
        sums.gaps.shrink_to_fit();
        sums
    }
}

/// Plain rows of any stretch of blocks in two steps, however many blocks it has.
#[derive(Debug, Default)]
pub(crate) struct PlainSums {
    /// For each block, plain rows in the blocks before; at last those of all.
    before: Vec<u64>,
    /// The blocks without, ascending.
    gaps: Vec<usize>,
}

impl PlainSums {
    /// From block `from` on, up to block `to` (excluded) at most: the first block that must be
    /// read, or else `to`, and the rows before it.
    pub(crate) fn run(&self, from: usize, to: usize) -> (usize, u64) {
        let gap = self.gaps.get(self.gaps.partition_point(|gap| *gap < from));
        let to = gap.map_or(to, |gap| to.min(*gap));
        let rows = |block: usize| self.before.get(block).copied().unwrap_or(0);
        (to, rows(to).saturating_sub(rows(from)))
    }

    /// Bytes of memory they take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.before.as_slice()) + size_of_val(self.gaps.as_slice())
    }
}

impl Part {
    fn parse(bytes: Bytes, blocks_before: usize) -> Result<Part, Damage> {
        let block = Block::parse_index(bytes)?;
        let columns = block.columns();
        let is_entry = |row| columns.value_range(row).len() == ENTRY_LEN;
        if !(0..block.rows()).all(is_entry) {
            return Err(Damage("index entry is not one"));
        }
        let last = block.rows() - 1;
        let mut key = Vec::new();
        block.put_key(last, &mut key);
        Ok(Part { blocks_before, last_key: key.into_boxed_slice(), last_ts: block.ts(last), block })
    }

    /// Whether all its separators lie before (`key`, `ts`).
    fn is_before(&self, key: &[u8], ts: CommitTs) -> bool {
        match (*self.last_key).cmp(key) {
            std::cmp::Ordering::Equal => self.last_ts > ts,
            order => order.is_lt(),
        }
    }

    /// Where the row's value begins needs no look: all are of one length.
    fn entry(&self, row: usize) -> Option<Entry> {
        Entry::decode(self.block.values_here().get(row * ENTRY_LEN..)?.get(..ENTRY_LEN)?)
    }
}

/// A short key from `last` (included) to `next` (excluded) within the partition of `last`, whose
/// prefix has `prefix_len` bytes. Without `next`, or where it is of another partition, any key of
/// the partition from `last` on will do.
pub(crate) fn separator(last: &[u8], prefix_len: usize, next: Option<&[u8]>) -> Vec<u8> {
    let (prefix, row_key) = last.split_at(prefix_len);
    let next = next.and_then(|next| next.strip_prefix(prefix));
    let alike = next.map_or(0, |next| common_len(row_key, next));
    // `next` cut behind the first byte that differs is above `last`; below `next` if shorter.
    if let Some(cut) = next.and_then(|next| next.get(..=alike).filter(|cut| cut.len() < next.len()))
    {
        return [prefix, cut].concat();
    }
    // A byte raised behind the first difference keeps below `next` and goes above `last`.
    let raised_from = if next.is_some() { alike + 1 } else { 0 };
    let tail = row_key.get(raised_from..).unwrap_or_default();
    let raised = tail.iter().position(|byte| *byte != 0xff).map(|i| raised_from + i);
    match raised.filter(|raised| raised + 1 < row_key.len()) {
        Some(raised) => {
            let mut short = last[..=prefix_len + raised].to_vec();
            short[prefix_len + raised] += 1;
            short
        }
        None => last.to_vec(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(last: &[u8], next: Option<&[u8]>, short: &[u8]) {
        let keys = |rk: &[u8]| [b"pk", rk].concat();
        let found = separator(&keys(last), 2, next.map(keys).as_deref());
        assert_eq!(found, keys(short), "{last:?} to {next:?}");
        assert!(found >= keys(last) && next.is_none_or(|next| found < keys(next)));
    }

    #[test]
    fn separators_are_short_and_lie_between() {
        check(b"row-0001", Some(b"row-0400"), b"row-04");
        check(b"row-0001", Some(b"row-0002"), b"row-0001");
        check(b"row-1888", Some(b"row-2"), b"row-19");
        check(b"row-1\xff\xff8a", Some(b"row-2"), b"row-1\xff\xff9");
        check(b"row-1\xff\xff", Some(b"row-2"), b"row-1\xff\xff");
        check(b"row", Some(b"row\0"), b"row");
        check(b"row", Some(b"row\0\0"), b"row\0");
        check(b"", Some(b"a"), b"");
        check(b"row-0001", None, b"s");
        check(b"\xff\xff", None, b"\xff\xff");
        check(b"", None, b"");
    }

    #[test]
    fn the_next_partition_lies_after_every_separator() {
        let found = separator(b"p1\0\x01\xff\xffab", 4, Some(b"p2\0\x01x"));
        assert_eq!(found, b"p1\0\x01\xff\xffb");
    }

    fn parse(entries: &[(&[u8], u64, u32)], data_len: u64) -> Result<Index, Damage> {
        let (mut builder, mut bytes) = (IndexBuilder::default(), Vec::new());
        for (key, offset, len) in entries {
            let block = Handle { offset: *offset, len: *len };
            builder.add(key, 2, CommitTs::ZERO, Entry { handle: block, plain_rows: 7 });
        }
        builder.finish(&mut bytes);
        Index::parse(&Bytes::from(bytes), data_len)
    }

    #[test]
    fn blocks_are_found_by_their_number() {
        let keys: Vec<_> = (0..2000u32).map(|n| format!("pk{n:06}").into_bytes()).collect();
        let entries: Vec<_> = keys.iter().zip(0..).map(|(key, n)| (&key[..], n, 1)).collect();
        let index = parse(&entries, 2000).unwrap();
        let mut at = Some(index.first());
        for number in 0..2000 {
            assert_eq!(index.at_ordinal(number), at);
            assert_eq!(at.map(|at| (index.ordinal(at), index.plain_rows(at))), Some((number, 7)));
            at = at.and_then(|at| index.next(at));
        }
        assert_eq!((at, index.at_ordinal(2000)), (None, None));
    }

    #[test]
    fn entries_that_cannot_be_read_by_their_number_are_refused() {
        let mut builder = IndexBuilder::default();
        for (key, offset) in [(b"pka", 0), (b"pkb", 10)] {
            let handle = Handle { offset, len: 10 };
            builder.add(key, 2, CommitTs::ZERO, Entry { handle, plain_rows: 7 });
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let ends = [ENTRY_LEN as u8, 0, 2 * ENTRY_LEN as u8, 0];
        let at = bytes.windows(4).position(|window| window == ends).unwrap();
        let parse = |bytes: &[u8]| Index::parse(&Bytes::copy_from_slice(bytes), 20).map(drop);
        assert_eq!(parse(&bytes), Ok(()));
        let (mut uneven, mut packed) = (bytes.clone(), bytes);
        uneven[at] -= 1;
        packed[8 + 10] |= 2; // The flags of the first block: its values are LZ4.
        for bytes in [uneven, packed] {
            assert_eq!(parse(&bytes), Err(Damage("index entry is not one")));
        }
    }

    #[test]
    fn an_index_must_cover_the_data_without_gaps() {
        let (a, b) = (&b"pka"[..], &b"pkb"[..]);
        assert!(parse(&[(a, 0, 10), (b, 10, 5)], 15).is_ok());
        let gap = Err(Damage("index entries do not follow one another"));
        assert_eq!(parse(&[(a, 1, 9), (b, 10, 5)], 15).map(drop), gap, "starts late");
        assert_eq!(parse(&[(a, 0, 10), (b, 11, 4)], 15).map(drop), gap, "a gap");
        assert_eq!(parse(&[(a, 0, 10), (b, 9, 6)], 15).map(drop), gap, "an overlap");
        assert_eq!(parse(&[(a, 0, 10), (b, 10, 6)], 15).map(drop), gap, "past the data");
        assert_eq!(parse(&[(a, 0, 15), (b, 15, 0)], 15).map(drop), gap, "an empty block");
        let short = Err(Damage("index does not cover the data"));
        assert_eq!(parse(&[(a, 0, 10), (b, 10, 4)], 15).map(drop), short);
        assert!(parse(&[], 0).is_err(), "an index of nothing");
    }
}

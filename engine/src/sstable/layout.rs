//! The columns of a block: where each lies, and how one row's part of it is read.
//!
//! ```text
//! offset size  field    (little-endian)
//!      0    2  rows           1 to 65,535
//!      2    2  runs           partitions in the block: 1 to rows
//!      4    2  common_len     bytes that all partition prefixes start with
//!      6    2  text_len       bytes of all run texts
//!      8    2  tail_len       bytes of all RowKey tails
//!     10    1  flags          1 fingerprints, 2 values are LZ4, 4 value ends take 4 bytes, not 2,
//!                            8 values are zstd
//!     11    1  ts_width       bytes per timestamp: 0, 1, 2, 4 or 8
//!     12    4  values_len     bytes of the values
//!     16    4  stored_len     bytes of the values as stored
//!     20    8  base_ts        the lowest timestamp in the block
//!     28       common         common_len bytes
//!              runs           per run: first row u16, text end u16 twice: of its prefix, of its share
//!              texts          per run: rest of the partition prefix, then what its RowKeys share
//!              fingerprints   per row: u8 of the key's hash; absent without the flag
//!              heads          per row: the next 8 bytes of the RowKey, zeros where it is shorter
//!              metas          per row: u8, bits 0 to 3 the kind, bits 4 to 7 the length of the head
//!              stamps         per row: timestamp above base_ts, ts_width bytes
//!              tail ends      per row: u16
//!              value ends     per row: u16 or u32
//!              tails          per row: the RowKey after its head
//!              values         stored_len bytes
//! ```
//!
//! A key is common + run prefix + run share + head + tail. Heads are big-endian words, so that
//! comparing words is comparing bytes. A row costs 14 bytes beside its tail and value; partition
//! and shared bytes are paid once per run.
//!
//! Absent: trust. Reads of a row that is not there give any bytes or none, never a panic; `check`
//! proves the columns before anyone searches them.

use crate::compress::Codec;
use crate::ids::{CommitTs, RowKind};
use crate::limits::VALUE_BYTES_MAX;
use crate::sstable::format::Damage;
use std::cmp::Ordering;
use std::ops::Range;

/// Bytes of the header.
pub(crate) const HEADER_LEN: usize = 28;
/// Bytes of one run's entry.
pub(crate) const RUN_LEN: usize = 6;
/// Bytes of one head.
pub(crate) const HEAD_LEN: usize = 8;

/// Raw bytes at which a block ends even within one key's versions.
pub(crate) const BLOCK_BYTES_MAX: usize = 64 << 10;

/// The bits of a row's meta byte that are its kind; the others are the length of its head.
pub(crate) const KIND_BITS: u8 = 0x0f;

const HAS_FINGERPRINTS: u8 = 1;
const HAS_LZ4: u8 = 2;
const HAS_WIDE_ENDS: u8 = 4;
const HAS_ZSTD: u8 = 8;

/// The head of a block: its counts, and by them where each column begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) rows: usize,
    pub(crate) runs: usize,
    pub(crate) common_len: usize,
    pub(crate) text_len: usize,
    pub(crate) tail_len: usize,
    pub(crate) fingerprints: bool,
    pub(crate) codec: Codec,
    pub(crate) wide_ends: bool,
    pub(crate) ts_width: usize,
    pub(crate) values_len: usize,
    pub(crate) stored_len: usize,
    pub(crate) base_ts: u64,
    at: Starts,
}

/// Offsets of the columns in the block; they follow from the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Starts {
    runs: usize,
    texts: usize,
    fingerprints: usize,
    heads: usize,
    metas: usize,
    stamps: usize,
    tail_ends: usize,
    value_ends: usize,
    tails: usize,
    values: usize,
}

/// What a builder knows of a block before it writes the columns.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub(crate) rows: u16,
    pub(crate) runs: u16,
    pub(crate) common_len: u16,
    pub(crate) text_len: u16,
    pub(crate) tail_len: u16,
    pub(crate) fingerprints: bool,
    pub(crate) codec: Codec,
    pub(crate) ts_span: u64,
    pub(crate) values_len: u32,
    pub(crate) stored_len: u32,
    pub(crate) base_ts: u64,
}

impl Layout {
    /// Where the columns of such a block go.
    pub(crate) fn new(counts: &Counts) -> Layout {
        let mut layout = Layout {
            rows: counts.rows.into(),
            runs: counts.runs.into(),
            common_len: counts.common_len.into(),
            text_len: counts.text_len.into(),
            tail_len: counts.tail_len.into(),
            fingerprints: counts.fingerprints,
            codec: counts.codec,
            wide_ends: counts.values_len > u32::from(u16::MAX),
            ts_width: match counts.ts_span {
                0 => 0,
                1..=0xff => 1,
                0x100..=0xffff => 2,
                0x1_0000..=0xffff_ffff => 4,
                _ => 8,
            },
            values_len: counts.values_len as usize,
            stored_len: counts.stored_len as usize,
            base_ts: counts.base_ts,
            at: Starts::default(),
        };
        layout.at = layout.starts();
        layout
    }

    /// Appends the header.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let counts = [self.rows, self.runs, self.common_len, self.text_len, self.tail_len];
        for count in counts {
            out.extend_from_slice(&(count as u16).to_le_bytes());
        }
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        out.push(
            flag(self.fingerprints, HAS_FINGERPRINTS)
                | flag(self.codec == Codec::Lz4, HAS_LZ4)
                | flag(self.codec == Codec::Zstd, HAS_ZSTD)
                | flag(self.wide_ends, HAS_WIDE_ENDS),
        );
        out.push(self.ts_width as u8);
        out.extend_from_slice(&(self.values_len as u32).to_le_bytes());
        out.extend_from_slice(&(self.stored_len as u32).to_le_bytes());
        out.extend_from_slice(&self.base_ts.to_le_bytes());
    }

    /// Reads the header of `block`, whose columns and values must fill it exactly.
    pub(crate) fn read(block: &[u8]) -> Result<Layout, Damage> {
        let mut reader = crate::codec::Reader::new(block);
        let mut layout = read_header(&mut reader).ok_or(Damage("block ends in its header"))?;
        if layout.rows == 0 || layout.runs == 0 || layout.runs > layout.rows {
            return Err(Damage("block has impossible counts of rows and runs"));
        }
        if !matches!(layout.ts_width, 0 | 1 | 2 | 4 | 8) {
            return Err(Damage("block has an impossible timestamp width"));
        }
        layout.at = layout.starts();
        if layout.at.values + layout.stored_len != block.len() {
            return Err(Damage("block's columns do not fill it"));
        }
        layout.check_values_len()?;
        Ok(layout)
    }

    /// How many bytes the block takes whose header `bytes` begin with, by its own word; `None`
    /// where no header says so.
    pub(crate) fn claimed_len(bytes: &[u8]) -> Option<usize> {
        let mut layout = read_header(&mut crate::codec::Reader::new(bytes))?;
        let counts_fit = layout.rows > 0 && (1..=layout.rows).contains(&layout.runs);
        let width_fits = matches!(layout.ts_width, 0 | 1 | 2 | 4 | 8);
        if !counts_fit || !width_fits || layout.check_values_len().is_err() {
            return None;
        }
        layout.at = layout.starts();
        layout.at.values.checked_add(layout.stored_len)
    }

    /// Adds `ts_base` to every timestamp of the block.
    pub(crate) fn date(&mut self, ts_base: u64) {
        self.base_ts = self.base_ts.saturating_add(ts_base);
    }

    fn check_values_len(&self) -> Result<(), Damage> {
        let bounded = self.values_len <= VALUE_BYTES_MAX.max(BLOCK_BYTES_MAX);
        if bounded && self.codec.is_plausible(self.stored_len, self.values_len) {
            Ok(())
        } else {
            Err(Damage("block's values have an impossible length"))
        }
    }

    fn starts(&self) -> Starts {
        let mut end = HEADER_LEN + self.common_len;
        let mut column = |len: usize| {
            end += len;
            end - len
        };
        let rows = self.rows;
        Starts {
            runs: column(self.runs * RUN_LEN),
            texts: column(self.text_len),
            fingerprints: column(if self.fingerprints { rows } else { 0 }),
            heads: column(rows * HEAD_LEN),
            metas: column(rows),
            stamps: column(rows * self.ts_width),
            tail_ends: column(rows * 2),
            value_ends: column(rows * self.value_end_width()),
            tails: column(self.tail_len),
            values: column(0),
        }
    }

    fn value_end_width(&self) -> usize {
        if self.wide_ends { 4 } else { 2 }
    }

    /// Bytes of header and columns: where the values begin.
    pub(crate) fn keys_len(&self) -> usize {
        self.at.values
    }
}

fn read_header(reader: &mut crate::codec::Reader<'_>) -> Option<Layout> {
    let mut count = || reader.u16().map(usize::from);
    let (rows, runs) = (count()?, count()?);
    let (common_len, text_len, tail_len) = (count()?, count()?, count()?);
    let known = HAS_FINGERPRINTS | HAS_LZ4 | HAS_WIDE_ENDS | HAS_ZSTD;
    let flags = reader.u8().filter(|flags| flags & !known == 0)?;
    let codec = match flags & (HAS_LZ4 | HAS_ZSTD) {
        0 => Codec::None,
        HAS_LZ4 => Codec::Lz4,
        HAS_ZSTD => Codec::Zstd,
        _ => return None,
    };
    Some(Layout {
        rows,
        runs,
        common_len,
        text_len,
        tail_len,
        fingerprints: flags & HAS_FINGERPRINTS != 0,
        codec,
        wide_ends: flags & HAS_WIDE_ENDS != 0,
        ts_width: reader.u8()?.into(),
        values_len: reader.u32()? as usize,
        stored_len: reader.u32()? as usize,
        base_ts: reader.u64()?,
        at: Starts::default(),
    })
}

/// The columns of one block, read row by row.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) layout: &'a Layout,
}

/// The rows of one partition in a block and what their keys share.
#[derive(Clone, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) rows: Range<usize>,
    /// The partition prefix after the block's common bytes.
    pub(crate) prefix: &'a [u8],
    /// What every RowKey of the run starts with.
    pub(crate) share: &'a [u8],
}

/// The part of a RowKey after its run's share, split as the columns split it.
#[derive(Clone, Copy)]
pub(crate) struct Suffix<'a> {
    pub(crate) head: u64,
    pub(crate) head_len: usize,
    pub(crate) tail: &'a [u8],
}

impl<'a> Suffix<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Suffix<'a> {
        if let Some((head, tail)) = bytes.split_first_chunk::<HEAD_LEN>() {
            return Suffix { head: u64::from_be_bytes(*head), head_len: HEAD_LEN, tail };
        }
        let mut head = [0; HEAD_LEN];
        head[..bytes.len()].copy_from_slice(bytes);
        Suffix { head: u64::from_be_bytes(head), head_len: bytes.len(), tail: &[] }
    }

    /// Order of the bytes. Equal heads of different lengths differ by zeros at the end, so the
    /// shorter comes first.
    pub(crate) fn cmp(&self, other: &Suffix<'_>) -> Ordering {
        let heads = self.head.cmp(&other.head);
        heads.then(self.head_len.cmp(&other.head_len)).then_with(|| self.tail.cmp(other.tail))
    }

    /// Appends the bytes. A whole head is written and cut: to copy eight bytes is one instruction,
    /// to copy so many is a call.
    #[inline]
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head.to_be_bytes());
        out.truncate(out.len() - HEAD_LEN.saturating_sub(self.head_len));
        if !self.tail.is_empty() {
            out.extend_from_slice(self.tail);
        }
    }
}

impl<'a> Columns<'a> {
    pub(crate) fn common(&self) -> &'a [u8] {
        self.slice(HEADER_LEN, 0, self.layout.common_len)
    }

    pub(crate) fn run(&self, run: usize) -> Run<'a> {
        let (start, middle, end) = self.run_text(run);
        let texts = self.layout.at.texts;
        Run {
            rows: self.first_row(run)..self.first_row(run + 1),
            prefix: self.slice(texts, start, middle),
            share: self.slice(texts, middle, end),
        }
    }

    /// The partition prefix of a run after the block's common bytes.
    pub(crate) fn run_prefix(&self, run: usize) -> &'a [u8] {
        let (start, middle, _) = self.run_text(run);
        self.slice(self.layout.at.texts, start, middle)
    }

    /// Where the texts of a run begin, change and end.
    fn run_text(&self, run: usize) -> (usize, usize, usize) {
        let start = if run == 0 { 0 } else { self.run_field(run - 1, 2) };
        (start, self.run_field(run, 1), self.run_field(run, 2))
    }

    /// The first row of a run; for the run after the last, the number of rows.
    pub(crate) fn first_row(&self, run: usize) -> usize {
        if run < self.layout.runs { self.run_field(run, 0) } else { self.layout.rows }
    }

    /// The run that a row belongs to.
    pub(crate) fn run_of(&self, row: usize) -> usize {
        let (mut low, mut high) = (0, self.layout.runs);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.first_row(middle) <= row { low = middle } else { high = middle }
        }
        low
    }

    /// Empty for a block without fingerprints.
    pub(crate) fn fingerprints(&self) -> &'a [u8] {
        let at = &self.layout.at;
        self.slice(0, at.fingerprints, at.heads)
    }

    pub(crate) fn heads(&self) -> &'a [[u8; HEAD_LEN]] {
        self.slice(0, self.layout.at.heads, self.layout.at.metas).as_chunks().0
    }

    #[inline]
    pub(crate) fn head(&self, row: usize) -> u64 {
        let head = self.bytes.get(self.layout.at.heads + row * HEAD_LEN..);
        head.and_then(|head| head.first_chunk()).map_or(0, |head| u64::from_be_bytes(*head))
    }

    #[inline]
    pub(crate) fn meta(&self, row: usize) -> u8 {
        self.bytes.get(self.layout.at.metas + row).copied().unwrap_or(0)
    }

    pub(crate) fn kind(&self, row: usize) -> RowKind {
        RowKind::from_byte(self.meta(row) & KIND_BITS).unwrap_or(RowKind::Delete)
    }

    #[inline]
    pub(crate) fn suffix(&self, row: usize) -> Suffix<'a> {
        let tail = if self.layout.tail_len == 0 { &[] } else { self.tail(row) };
        Suffix { head: self.head(row), head_len: usize::from(self.meta(row) >> 4), tail }
    }

    fn tail(&self, row: usize) -> &'a [u8] {
        let start = if row == 0 { 0 } else { self.tail_end(row - 1) };
        self.slice(self.layout.at.tails, start, self.tail_end(row))
    }

    pub(crate) fn tail_end(&self, row: usize) -> usize {
        self.u16_at(self.layout.at.tail_ends + row * 2)
    }

    /// The timestamp above the block's base.
    #[inline]
    pub(crate) fn stamp(&self, row: usize) -> u64 {
        let width = self.layout.ts_width;
        if width == 0 {
            return 0;
        }
        let stamp = self.bytes.get(self.layout.at.stamps + row * width..).unwrap_or_default();
        // Other columns follow, four bytes a row at least: only a block of one row lacks a word.
        match stamp.first_chunk() {
            Some(word) => u64::from_le_bytes(*word) & u64::MAX >> (64 - 8 * width),
            None => stamp.iter().take(width).rfold(0, |stamp, byte| stamp << 8 | u64::from(*byte)),
        }
    }

    #[inline]
    pub(crate) fn ts(&self, row: usize) -> CommitTs {
        CommitTs(self.layout.base_ts.saturating_add(self.stamp(row)))
    }

    /// Where a row's value lies among the values.
    #[inline]
    pub(crate) fn value_range(&self, row: usize) -> Range<usize> {
        let ends = self.layout.at.value_ends;
        if row == 0 {
            return 0..if self.layout.wide_ends { self.u32_at(ends) } else { self.u16_at(ends) };
        }
        // The end before and its own, which lie side by side.
        match self.layout.wide_ends {
            false => {
                let both = self.u32_at(ends + (row - 1) * 2);
                both & 0xffff..both >> 16
            }
            true => self.u32_at(ends + (row - 1) * 4)..self.u32_at(ends + row * 4),
        }
    }

    /// Where the values of the rows begin, among the values.
    pub(crate) fn value_starts(&self, rows: Range<usize>) -> impl Iterator<Item = usize> {
        let (before, width) = (rows.start.saturating_sub(1), self.layout.value_end_width());
        let ends = self.slice(self.layout.at.value_ends, before * width, rows.end * width);
        let end = |end: &[u8]| match *end {
            [a, b] => u16::from_le_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        };
        let first = (rows.start == 0).then_some(0);
        first.into_iter().chain(ends.chunks_exact(width).map(end)).take(rows.len())
    }

    /// Where the run's prefix and its share end in the run texts.
    pub(crate) fn run_text_ends(&self, run: usize) -> (usize, usize) {
        (self.run_field(run, 1), self.run_field(run, 2))
    }

    fn run_field(&self, run: usize, field: usize) -> usize {
        self.u16_at(self.layout.at.runs + run * RUN_LEN + field * 2)
    }

    #[inline]
    fn slice(&self, at: usize, start: usize, end: usize) -> &'a [u8] {
        self.bytes.get(at + start..at + end).unwrap_or_default()
    }

    fn u16_at(&self, at: usize) -> usize {
        self.bytes
            .get(at..)
            .and_then(|b| b.first_chunk())
            .map_or(0, |b| u16::from_le_bytes(*b).into())
    }

    fn u32_at(&self, at: usize) -> usize {
        self.bytes
            .get(at..)
            .and_then(|b| b.first_chunk())
            .map_or(0, |b| u32::from_le_bytes(*b) as usize)
    }
}

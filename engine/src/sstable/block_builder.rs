//! Collects rows in order and writes them as a block.
//!
//! Promise: what it accepts fits the block's 16-bit columns; the caller asks [`fits`] first.
//!
//! [`fits`]: BlockBuilder::fits

use super::layout::{BLOCK_BYTES_MAX, Counts, HEAD_LEN, Layout, RUN_LEN, Suffix};
use crate::compress::Compressor;
use crate::ids::{CommitTs, RowKind};
use crate::limits::KEY_BYTES_MAX;

/// Bytes that a row takes beside its RowKey and its value: head padding is not counted, since
/// half of the keys have none.
const ROW_BYTES: usize = 10;

// Rows, runs, and all their key bytes are counted in 16 bits; a block of more than one row keeps
// below that by its size, a block of one row by the length of a key.
const _: () = assert!(BLOCK_BYTES_MAX - 2 * ROW_BYTES <= u16::MAX as usize);
const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize);

/// The rows of a block to be. Cleared and used again for the next one.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    rows: Vec<Row>,
    row_keys: Vec<u8>,
    runs: Vec<RunStart>,
    prefixes: Vec<u8>,
    values: Vec<u8>,
}

struct Row {
    key_end: u32,
    value_end: u32,
    ts: CommitTs,
    kind: RowKind,
    print: u8,
}

struct RunStart {
    row: usize,
    prefix_end: usize,
    share_len: usize,
}

/// One row for [`BlockBuilder::push`].
#[derive(Clone, Copy)]
pub(crate) struct NewRow<'a> {
    pub(crate) prefix: &'a [u8],
    pub(crate) row_key: &'a [u8],
    pub(crate) ts: CommitTs,
    pub(crate) kind: RowKind,
    pub(crate) print: u8,
    pub(crate) value: &'a [u8],
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// About as many bytes as the block will have, values uncompressed.
    pub(crate) fn raw_bytes(&self) -> usize {
        self.values.len()
            + self.row_keys.len()
            + self.prefixes.len()
            + self.rows.len() * ROW_BYTES
            + self.runs.len() * RUN_LEN
    }

    /// Whether a block of `bytes_max` raw bytes has room for the row. An empty one always has.
    pub(crate) fn fits(&self, row: &NewRow<'_>, bytes_max: usize) -> bool {
        let run = if self.last_prefix() == row.prefix { 0 } else { row.prefix.len() + RUN_LEN };
        let bytes = self.raw_bytes() + run + row.row_key.len() + row.value.len() + ROW_BYTES;
        self.is_empty() || bytes <= bytes_max.min(BLOCK_BYTES_MAX)
    }

    /// Adds a row. It must fit and come after the row before.
    pub(crate) fn push(&mut self, row: &NewRow<'_>) {
        if self.is_empty() || self.last_prefix() != row.prefix {
            self.prefixes.extend_from_slice(row.prefix);
            self.runs.push(RunStart {
                row: self.rows.len(),
                prefix_end: self.prefixes.len(),
                share_len: row.row_key.len(),
            });
        }
        self.narrow_share(row.row_key);
        self.row_keys.extend_from_slice(row.row_key);
        self.values.extend_from_slice(row.value);
        self.rows.push(Row {
            key_end: self.row_keys.len() as u32,
            value_end: self.values.len() as u32,
            ts: row.ts,
            kind: row.kind,
            print: row.print,
        });
    }

    /// The run shares what its first RowKey and every later one start with.
    fn narrow_share(&mut self, row_key: &[u8]) {
        let Some(run) = self.runs.last() else { return };
        if run.row == self.rows.len() {
            return;
        }
        let first = self.row_key(run.row);
        let share_len = common_len(&first[..run.share_len], row_key);
        if let Some(run) = self.runs.last_mut() {
            run.share_len = share_len;
        }
    }

    /// The partition prefix of the last row; empty where there is none.
    pub(crate) fn last_prefix(&self) -> &[u8] {
        self.runs.len().checked_sub(1).map_or(&[], |run| self.prefix(run))
    }

    /// Forgets all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.row_keys.clear();
        self.runs.clear();
        self.prefixes.clear();
        if self.values.capacity() > 16 * BLOCK_BYTES_MAX {
            self.values = Vec::new(); // One large value must not pin its size for good.
        }
        self.values.clear();
    }

    /// Appends the block; it must hold a row. Without a `compressor` values stay as they are.
    pub(crate) fn encode(
        &self,
        fingerprints: bool,
        compressor: Option<&mut Compressor>,
        out: &mut Vec<u8>,
    ) {
        debug_assert!(!self.is_empty(), "a block holds a row");
        let compressed = compressor.and_then(|c| c.compress(&self.values));
        let stored = compressed.unwrap_or(&self.values);
        let layout = self.layout(fingerprints, compressed.is_some(), stored.len());
        let start = out.len();
        layout.write(out);
        out.extend_from_slice(&self.prefix(0)[..layout.common_len]);
        self.put_runs(layout.common_len, out);
        self.put_columns(&layout, out);
        debug_assert_eq!(out.len() - start, layout.keys_len(), "columns are as long as counted");
        out.extend_from_slice(stored);
    }

    fn layout(&self, fingerprints: bool, lz4: bool, stored_len: usize) -> Layout {
        // Prefixes rise, so what the first and the last share all of them share.
        let common_len = common_len(self.prefix(0), self.last_prefix());
        let shares: usize = self.runs.iter().map(|run| run.share_len).sum();
        let tail_len: usize = (0..self.rows.len()).map(|row| self.suffix(row).tail.len()).sum();
        let stamps = self.rows.iter().map(|row| row.ts.0);
        let base_ts = stamps.clone().min().unwrap_or(0);
        Layout::new(&Counts {
            rows: self.rows.len() as u16,
            runs: self.runs.len() as u16,
            common_len: common_len as u16,
            text_len: (self.prefixes.len() - common_len * self.runs.len() + shares) as u16,
            tail_len: tail_len as u16,
            fingerprints,
            lz4,
            ts_span: stamps.max().unwrap_or(0) - base_ts,
            values_len: self.values.len() as u32,
            stored_len: stored_len as u32,
            base_ts,
        })
    }

    fn put_runs(&self, common_len: usize, out: &mut Vec<u8>) {
        let mut text_end = 0;
        for (i, run) in self.runs.iter().enumerate() {
            let prefix_end = text_end + self.prefix(i).len() - common_len;
            text_end = prefix_end + run.share_len;
            for field in [run.row, prefix_end, text_end] {
                out.extend_from_slice(&(field as u16).to_le_bytes());
            }
        }
        for (i, run) in self.runs.iter().enumerate() {
            out.extend_from_slice(&self.prefix(i)[common_len..]);
            out.extend_from_slice(&self.row_key(run.row)[..run.share_len]);
        }
    }

    fn put_columns(&self, layout: &Layout, out: &mut Vec<u8>) {
        let suffixes = || (0..self.rows.len()).map(|row| self.suffix(row));
        if layout.fingerprints {
            out.extend(self.rows.iter().map(|row| row.print));
        }
        out.extend(suffixes().flat_map(|suffix| suffix.head.to_be_bytes()));
        let metas = self.rows.iter().zip(suffixes());
        out.extend(metas.map(|(row, suffix)| row.kind as u8 | (suffix.head_len as u8) << 4));
        for row in &self.rows {
            let stamp = (row.ts.0 - layout.base_ts).to_le_bytes();
            out.extend_from_slice(&stamp[..layout.ts_width]);
        }
        let mut tail_end = 0;
        for suffix in suffixes() {
            tail_end += suffix.tail.len();
            out.extend_from_slice(&(tail_end as u16).to_le_bytes());
        }
        let width = if layout.wide_ends { 4 } else { 2 };
        for row in &self.rows {
            out.extend_from_slice(&row.value_end.to_le_bytes()[..width]);
        }
        suffixes().for_each(|suffix| out.extend_from_slice(suffix.tail));
    }

    fn prefix(&self, run: usize) -> &[u8] {
        let start = if run == 0 { 0 } else { self.runs[run - 1].prefix_end };
        &self.prefixes[start..self.runs[run].prefix_end]
    }

    fn row_key(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.rows[row - 1].key_end };
        &self.row_keys[start as usize..self.rows[row].key_end as usize]
    }

    fn suffix(&self, row: usize) -> Suffix<'_> {
        let run = self.runs.partition_point(|run| run.row <= row) - 1;
        Suffix::of(&self.row_key(row)[self.runs[run].share_len..])
    }
}

/// How many bytes `a` and `b` begin with alike.
pub(crate) fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

const _: () = assert!(HEAD_LEN <= 15, "a head's length fits 4 bits");

//! Collects rows in order and writes them as a block.
//!
//! Promise: what it accepts fits the block's 16-bit columns; the caller asks [`fits`] first.
//!
//! [`fits`]: BlockBuilder::fits

use crate::compress::{Codec, Compressor};
use crate::ids::{CommitTs, RowKind};
use crate::key::fences::common_len;
use crate::limits::KEY_BYTES_MAX;
use crate::sstable::layout::{BLOCK_BYTES_MAX, Counts, HEAD_LEN, Layout, RUN_LEN, Suffix};

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
    suffixes: Suffixes,
}

/// What is left of the RowKeys once the runs are known, as the columns want it. Scratch of one
/// `encode`.
#[derive(Default)]
struct Suffixes {
    heads: Vec<[u8; HEAD_LEN]>,
    head_lens: Vec<u8>,
    tail_ends: Vec<u16>,
    tails: Vec<u8>,
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
    /// How many bytes the RowKey begins with that the one before begins with too; `None` where
    /// that one is of another partition. Counts within a block only.
    pub(crate) shared: Option<usize>,
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
        let run = if row.shared.is_some() { 0 } else { row.prefix.len() + RUN_LEN };
        let bytes = self.raw_bytes() + run + row.row_key.len() + row.value.len() + ROW_BYTES;
        self.is_empty() || bytes <= bytes_max.min(BLOCK_BYTES_MAX)
    }

    /// Adds a row. It must fit and come after the row before.
    pub(crate) fn push(&mut self, row: &NewRow<'_>) {
        match (row.shared, self.runs.last_mut()) {
            // Keys rise, so what neighbours share bounds what all of a run share.
            (Some(shared), Some(run)) => run.share_len = run.share_len.min(shared),
            _ => {
                self.prefixes.extend_from_slice(row.prefix);
                self.runs.push(RunStart {
                    row: self.rows.len(),
                    prefix_end: self.prefixes.len(),
                    share_len: row.row_key.len(),
                });
            }
        }
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

    /// The partition prefix of the last row; empty where there is none.
    fn last_prefix(&self) -> &[u8] {
        self.runs.len().checked_sub(1).map_or(&[], |run| self.prefix(run))
    }

    /// [`NewRow::shared`] of a row, for those who do not know it.
    pub(crate) fn shared_with_last(&self, prefix: &[u8], row_key: &[u8]) -> Option<usize> {
        let last = self.rows.len().checked_sub(1).map(|row| self.row_key(row))?;
        (self.last_prefix() == prefix).then(|| common_len(last, row_key))
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
        &mut self,
        fingerprints: bool,
        compressor: Option<&mut Compressor>,
        out: &mut Vec<u8>,
    ) {
        debug_assert!(!self.is_empty(), "a block holds a row");
        self.split_suffixes();
        let packed = compressor.and_then(|c| Some((c.codec(), c.compress(&self.values)?)));
        let (codec, stored) = packed.unwrap_or((Codec::None, &self.values));
        let layout = self.layout(fingerprints, codec, stored.len());
        let start = out.len();
        layout.write(out);
        out.extend_from_slice(&self.prefix(0)[..layout.common_len]);
        self.put_runs(layout.common_len, out);
        self.put_columns(&layout, out);
        debug_assert_eq!(out.len() - start, layout.keys_len(), "columns are as long as counted");
        out.extend_from_slice(stored);
    }

    fn layout(&self, fingerprints: bool, codec: Codec, stored_len: usize) -> Layout {
        // Prefixes rise, so what the first and the last share all of them share.
        let common_len = common_len(self.prefix(0), self.last_prefix());
        let shares: usize = self.runs.iter().map(|run| run.share_len).sum();
        let stamps = self.rows.iter().map(|row| row.ts.0);
        let base_ts = stamps.clone().min().unwrap_or(0);
        Layout::new(&Counts {
            rows: self.rows.len() as u16,
            runs: self.runs.len() as u16,
            common_len: common_len as u16,
            text_len: (self.prefixes.len() - common_len * self.runs.len() + shares) as u16,
            tail_len: self.suffixes.tails.len() as u16,
            fingerprints,
            codec,
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
        let suffixes = &self.suffixes;
        if layout.fingerprints {
            out.extend(self.rows.iter().map(|row| row.print));
        }
        out.extend_from_slice(suffixes.heads.as_flattened());
        let metas = self.rows.iter().zip(&suffixes.head_lens);
        out.extend(metas.map(|(row, head_len)| row.kind as u8 | head_len << 4));
        for row in &self.rows {
            let stamp = (row.ts.0 - layout.base_ts).to_le_bytes();
            out.extend_from_slice(&stamp[..layout.ts_width]);
        }
        out.extend(suffixes.tail_ends.iter().flat_map(|end| end.to_le_bytes()));
        match layout.wide_ends {
            true => out.extend(self.rows.iter().flat_map(|row| row.value_end.to_le_bytes())),
            false => {
                out.extend(self.rows.iter().flat_map(|row| (row.value_end as u16).to_le_bytes()));
            }
        }
        out.extend_from_slice(&suffixes.tails);
    }

    /// Splits every RowKey behind its run's share.
    fn split_suffixes(&mut self) {
        let Suffixes { heads, head_lens, tail_ends, tails } = &mut self.suffixes;
        heads.clear();
        head_lens.clear();
        tail_ends.clear();
        tails.clear();
        let (mut row, mut start) = (0, 0);
        for (i, run) in self.runs.iter().enumerate() {
            let end = self.runs.get(i + 1).map_or(self.rows.len(), |next| next.row);
            for Row { key_end, .. } in &self.rows[row..end] {
                let suffix = Suffix::of(&self.row_keys[start + run.share_len..*key_end as usize]);
                heads.push(suffix.head.to_be_bytes());
                head_lens.push(suffix.head_len as u8);
                tails.extend_from_slice(suffix.tail);
                tail_ends.push(tails.len() as u16);
                start = *key_end as usize;
            }
            row = end;
        }
    }

    fn prefix(&self, run: usize) -> &[u8] {
        let start = if run == 0 { 0 } else { self.runs[run - 1].prefix_end };
        &self.prefixes[start..self.runs[run].prefix_end]
    }

    fn row_key(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.rows[row - 1].key_end };
        &self.row_keys[start as usize..self.rows[row].key_end as usize]
    }
}

const _: () = assert!(HEAD_LEN <= 15, "a head's length fits 4 bits");

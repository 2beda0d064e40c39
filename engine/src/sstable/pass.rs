//! One pass over a table file or a range of it, from the first row to the last, as a merge makes
//! it.
//!
//! Unlike a cursor it goes one way only and lends what it stands on: key and value lie in buffers
//! that are used again for the next block, so that a row costs no allocation and no reference
//! count. The block cache is left alone. Promise: a block is proved sound before a row of it is
//! shown, as the cursor proves it.

use crate::compress::Codec;
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::key::fences::common_len;
use crate::key::range::KeyRange;
use crate::sstable::check;
use crate::sstable::format::{Damage, Stretch, unseal};
use crate::sstable::index::{EntryAt, Handle};
use crate::sstable::layout::{Columns, Layout, Run};
use crate::sstable::reader::TableFile;
use std::ops::Range;
use std::sync::Arc;

/// A position in a table file that only moves up.
pub(crate) struct Pass {
    file: Arc<TableFile>,
    next: Option<EntryAt>,
    bounds: Option<Bounds>,
    ahead: Ahead,
    ahead_bytes: u64,
    block: Option<Open>,
    values: Vec<u8>, // Decompressed, where `Open::values` says so.
    row: usize,
    row_end: usize, // Rows of the block from here on are past the range.
    run: Range<usize>,
    // The key at `row`; its first `share_len` bytes are those of the whole run.
    key: Vec<u8>,
    share_len: usize,
    prefix_len: usize,
    last_key: Vec<u8>,
    shared: usize,
}

/// Where a pass begins and ends that is not over a whole file.
struct Bounds {
    range: KeyRange,
    /// The blocks that hold the first row of the range and the first one past it, where there are
    /// any.
    first: Option<EntryAt>,
    last: Option<EntryAt>,
}

/// What was read and not yet passed: `bytes` begin at `offset` of the file.
struct Ahead {
    bytes: Vec<u8>,
    offset: u64,
}

/// The block that the pass stands in.
struct Open {
    handle: Handle,
    layout: Layout,
    body: Range<usize>, // In `Ahead::bytes`.
    values: Values,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Plain,
    Packed,
    Unpacked,
}

impl TableFile {
    /// A pass over the file that reads `ahead_bytes` at once. It stands on nothing before the first
    /// [`Pass::next`].
    pub(crate) fn pass(self: &Arc<Self>, ahead_bytes: usize) -> Pass {
        Pass {
            next: Some(self.index().first()),
            file: Arc::clone(self),
            bounds: None,
            ahead: Ahead { bytes: Vec::new(), offset: 0 },
            ahead_bytes: ahead_bytes as u64,
            block: None,
            values: Vec::new(),
            row: 0,
            row_end: 0,
            run: 0..0,
            key: Vec::new(),
            share_len: 0,
            prefix_len: 0,
            last_key: Vec::new(),
            shared: 0,
        }
    }

    /// The same over the rows of `range`. All versions of a key are within it or none.
    pub(crate) fn pass_in(self: &Arc<Self>, ahead_bytes: usize, range: &KeyRange) -> Pass {
        let block_of = |key| self.index().seek(key, CommitTs::MAX);
        let (first, last) = (block_of(&range.start), block_of(&range.end));
        let bounds = Some(Bounds { range: range.clone(), first, last });
        Pass { next: first, bounds, ..self.pass(ahead_bytes) }
    }
}

impl Pass {
    /// Moves to the next version; false after the last, and then it stands on nothing.
    pub(crate) fn next(&mut self) -> Result<bool> {
        self.row += 1;
        while self.row >= self.row_end {
            let Some(entry) = self.next else {
                (self.block, self.row_end) = (None, 0);
                return Ok(false);
            };
            self.enter(entry)?;
        }
        self.show();
        Ok(true)
    }

    /// The encoded key here.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Length of its partition prefix.
    pub(crate) fn prefix_len(&self) -> usize {
        self.prefix_len
    }

    /// How many bytes at least the key begins with that the key before began with too.
    pub(crate) fn shared(&self) -> usize {
        self.shared
    }

    /// The commit timestamp here.
    pub(crate) fn ts(&self) -> CommitTs {
        self.columns().map_or(CommitTs::ZERO, |columns| columns.ts(self.row))
    }

    /// What kind of version is here.
    pub(crate) fn kind(&self) -> RowKind {
        self.columns().map_or(RowKind::Delete, |columns| columns.kind(self.row))
    }

    /// The key and the value here; the first value of a block decompresses all of them.
    pub(crate) fn key_and_value(&mut self) -> Result<(&[u8], &[u8])> {
        let Some(open) = &mut self.block else { return Ok((&[], &[])) };
        let body = self.ahead.bytes.get(open.body.clone()).unwrap_or_default();
        let (keys, stored) = body.split_at(open.layout.keys_len().min(body.len()));
        if open.values == Values::Packed {
            let Layout { codec, values_len, .. } = open.layout;
            let unpacked = codec.unpack_to(stored, values_len, &mut self.values);
            unpacked.map_err(|what| Damage(what).at(self.file.path(), open.handle.offset))?;
            open.values = Values::Unpacked;
        }
        let columns = Columns { bytes: keys, layout: &open.layout };
        let values = if open.values == Values::Plain { stored } else { &self.values };
        Ok((&self.key, values.get(columns.value_range(self.row)).unwrap_or_default()))
    }

    fn columns(&self) -> Option<Columns<'_>> {
        let open = self.block.as_ref()?;
        let keys = open.body.start..open.body.start + open.layout.keys_len();
        Some(Columns { bytes: self.ahead.bytes.get(keys)?, layout: &open.layout })
    }

    fn enter(&mut self, entry: EntryAt) -> Result<()> {
        let handle = self.file.index().handle(entry);
        let at = self.read_to(handle)?;
        let sealed = self.ahead.bytes.get(at..at + handle.len as usize).unwrap_or_default();
        let layout = open(&self.file, handle, sealed);
        let layout = layout.map_err(|damage| damage.at(self.file.path(), handle.offset))?;
        let len = layout.keys_len() + layout.stored_len;
        let values = match layout.codec {
            Codec::None => Values::Plain,
            _ => Values::Packed,
        };
        let rows = layout.rows;
        self.block = Some(Open { handle, layout, body: at..at + len, values });
        self.next = self.file.index().next(entry);
        (self.row, self.row_end, self.run) = (0, rows, 0..0);
        self.stay_in_bounds(entry);
        Ok(())
    }

    /// Leaves out the rows of the block at `entry` that are not in the range.
    fn stay_in_bounds(&mut self, entry: EntryAt) {
        let Some(Bounds { range, first, last }) = &self.bounds else { return };
        if ![first, last].contains(&&Some(entry)) {
            return;
        }
        let Some(columns) = self.columns() else { return };
        let rows_before = |key| columns.lower_bound(key, CommitTs::MAX, &[]);
        let start = if *first == Some(entry) { rows_before(&range.start) } else { self.row };
        let end = if *last == Some(entry) { rows_before(&range.end) } else { self.row_end };
        let ends = *last == Some(entry);
        (self.row, self.row_end) = (start, end);
        if ends {
            self.next = None;
        }
    }

    /// Where in `ahead` the bytes of a block begin, reading on where they are not there yet.
    fn read_to(&mut self, handle: Handle) -> Result<usize> {
        let (end, held) = (handle.offset + u64::from(handle.len), &mut self.ahead);
        if handle.offset < held.offset || end > held.offset + held.bytes.len() as u64 {
            let left = self.file.footer().data_len.saturating_sub(handle.offset);
            let len = u64::from(handle.len).max(self.ahead_bytes).min(left);
            let stretch = Stretch { offset: handle.offset, len };
            self.file.raw().read_into(stretch, &mut held.bytes)?;
            held.offset = handle.offset;
        }
        Ok((handle.offset - held.offset) as usize)
    }

    /// Makes `key` that of the present row.
    fn show(&mut self) {
        let Some(open) = &self.block else { return };
        let keys = open.body.start..open.body.start + open.layout.keys_len();
        let bytes = self.ahead.bytes.get(keys).unwrap_or_default();
        let columns = Columns { bytes, layout: &open.layout };
        if self.run.contains(&self.row) {
            let (before, here) = (columns.suffix(self.row - 1), columns.suffix(self.row));
            // Bytes of the head that are alike; a head that ended early is told by its zeros only.
            let alike = (before.head ^ here.head).leading_zeros() as usize / 8;
            self.shared = self.share_len + alike.min(before.head_len).min(here.head_len);
            self.key.truncate(self.share_len);
            here.put(&mut self.key);
            return;
        }
        std::mem::swap(&mut self.key, &mut self.last_key);
        self.key.clear();
        let run = columns.run_of(self.row);
        let Run { rows, prefix, share } = columns.run(run);
        for part in [columns.common(), prefix, share] {
            self.key.extend_from_slice(part);
        }
        self.run = rows;
        self.prefix_len = open.layout.common_len + prefix.len();
        self.share_len = self.key.len();
        columns.suffix(self.row).put(&mut self.key);
        self.shared = common_len(&self.last_key, &self.key);
    }
}

/// Proves a block to be one of data; the same questions as a reader's block answers.
fn open(file: &TableFile, handle: Handle, sealed: &[u8]) -> std::result::Result<Layout, Damage> {
    let body = unseal(file.no(), handle.offset, sealed)?;
    let mut layout = Layout::read(body)?;
    check::check(&Columns { bytes: &body[..layout.keys_len()], layout: &layout })?;
    layout.date(file.raw().ts_base);
    if layout.fingerprints { Ok(layout) } else { Err(Damage("data block without fingerprints")) }
}

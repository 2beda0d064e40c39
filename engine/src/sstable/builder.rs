//! Writes a table file from rows in order. Used by flush and compaction.
//!
//! Promise: when `finish` returns, the file's bytes survive power loss. Its name does so only
//! after the caller has synced the folder.
//! Absent: removing the file after a failure; whoever made it removes it.

use crate::compress::Compressor;
use crate::errands::Errands;
use crate::error::{Error, Result};
use crate::expiry;
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::key::fences::common_len;
use crate::key::hash;
use crate::key::order::TABLE_LEN;
use crate::lapsing::Lapsing;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::sstable::block::fingerprint;
use crate::sstable::block_builder::{BlockBuilder, NewRow};
use crate::sstable::filter::Filter;
use crate::sstable::format::{FileMeta, Footer, Props, TableOptions, seal};
use crate::sstable::index::{Entry, Handle, IndexBuilder, separator};
use crate::sstable::press::{Label, Press, Sheaf};
use crate::sstable::zone_builder::ZoneBuilder;
use crate::vfs::api::File;
use crate::zone::{Declared, Extract};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes gathered before they are written: large enough that the calls do not count.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes after which the disk is given something to do: it then writes while blocks are made, and
/// the sync at the end waits for the rest only.
const BEGIN_SYNC_BYTES: u64 = 4 << 20;

/// A table file being written.
pub(crate) struct TableBuilder {
    out: Output,
    options: TableOptions,
    block: BlockBuilder,
    compressor: Compressor,
    // Where blocks are made with another thread.
    press: Option<Press>,
    index: IndexBuilder,
    // The finished block whose separator waits for the next key.
    pending: Option<Ended>,
    plain: PlainRows,
    last: LastRow,
    row_hashes: Vec<u64>,
    partition_hashes: Vec<u64>,
    zones: ZoneBuilder,
    props: Props,
    replaced: Lapsing,
}

#[derive(Default)]
struct LastRow {
    key: Vec<u8>,
    prefix_len: usize,
    ts: CommitTs,
    hash: u64,
}

/// A block that is full.
#[derive(Clone, Copy)]
struct Ended {
    /// Where it was written; `None` while it is in the press.
    handle: Option<Handle>,
    plain_rows: u16,
}

/// Rows of the open block, as long as they can be counted unread.
#[derive(Clone, Copy)]
struct PlainRows(Option<u16>);

impl Default for PlainRows {
    fn default() -> PlainRows {
        PlainRows(Some(0))
    }
}

impl PlainRows {
    fn add(&mut self, kind: RowKind, step: Step) {
        let plain = kind.is_lasting() && !matches!(step, Step::Version);
        self.0 = self.0.filter(|_| plain).and_then(|rows| rows.checked_add(1));
    }
}

/// What a row is to the one before it.
#[derive(Clone, Copy)]
enum Step {
    /// There is none before.
    First,
    /// Another table begins.
    Table,
    /// Another partition begins.
    Partition,
    /// Another row of the partition, whose RowKey begins with as many of the last one's bytes.
    Row { shared: usize },
    /// An older version of the same row.
    Version,
}

impl TableBuilder {
    /// Writes file `no` into `file`, which is new and empty; `path` is for errors.
    pub(crate) fn new(
        file: Arc<dyn File>,
        path: &Path,
        no: FileNo,
        options: TableOptions,
    ) -> TableBuilder {
        TableBuilder {
            out: Output::new(file, path, no),
            compressor: Compressor::new(options.codec),
            options,
            press: None,
            block: BlockBuilder::default(),
            index: IndexBuilder::default(),
            pending: None,
            plain: PlainRows::default(),
            last: LastRow::default(),
            row_hashes: Vec::new(),
            partition_hashes: Vec::new(),
            zones: ZoneBuilder::default(),
            props: Props::default(),
            replaced: Lapsing::default(),
        }
    }

    /// Keeps zones of columns that `extract` finds in values, of those that are `declared` first.
    pub(crate) fn with_zones(
        self,
        extract: Option<Arc<dyn Extract>>,
        declared: Arc<Declared>,
    ) -> TableBuilder {
        TableBuilder { zones: ZoneBuilder::new(extract, declared), ..self }
    }

    /// Has its blocks made by two threads, where `errands` has one that helps.
    pub(crate) fn helped_by(self, errands: &Arc<Errands>) -> TableBuilder {
        TableBuilder { press: Press::new(errands, self.options.codec), ..self }
    }

    /// Adds a version of a row whose value is kept here.
    #[cfg(test)]
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        prefix_len: usize,
        ts: CommitTs,
        kind: RowKind,
        value: &[u8],
    ) -> Result<()> {
        self.add_placed(key, prefix_len, ts, (kind, value), expiry::given(kind, value))
    }

    /// Adds a version of a row, of whose value the file keeps what `place` gives.
    pub(crate) fn add_stored<'v>(
        &mut self,
        key: &[u8],
        prefix_len: usize,
        ts: CommitTs,
        (kind, value): (RowKind, &'v [u8]),
        place: impl FnOnce() -> Result<(RowKind, &'v [u8])>,
    ) -> Result<()> {
        // Of what came: of a value that goes to a blob file `place` gives the reference alone.
        let given = expiry::given(kind, value);
        self.add_placed(key, prefix_len, ts, place()?, given)
    }

    /// Adds a version of a row. Keys ascend; within a key, timestamps descend. The first
    /// `prefix_len` bytes of `key` are its partition prefix, and no partition's prefix starts with
    /// another's. `value` is what the file keeps, nothing for a delete; `given` is what a reader of
    /// the row will get, where it is at hand.
    pub(crate) fn add_placed(
        &mut self,
        key: &[u8],
        prefix_len: usize,
        ts: CommitTs,
        (kind, value): (RowKind, &[u8]),
        given: Option<&[u8]>,
    ) -> Result<()> {
        let step = self.step(key, prefix_len, ts, kind, value)?;
        let same_key = matches!(step, Step::Version);
        if same_key {
            self.replaced.count(self.last.ts);
        } else {
            self.note_key(key, prefix_len, step);
        }
        let (prefix, row_key) = key.split_at(prefix_len);
        let print = fingerprint(self.last.hash);
        let shared = match step {
            Step::First | Step::Table | Step::Partition => None,
            Step::Row { shared } => Some(shared),
            Step::Version => Some(row_key.len()),
        };
        let row = NewRow { prefix, row_key, shared, ts, kind, print, value };
        // Versions of a key stay together until their block is of the largest size.
        let bytes_max = if same_key { usize::MAX } else { self.options.block_bytes };
        if matches!(step, Step::Table) || !self.block.fits(&row, bytes_max) {
            self.end_block()?;
        }
        if let Some(block) = self.pending.take() {
            self.add_separator(block, Some((key, same_key)));
        }
        self.block.push(&row);
        self.plain.add(kind, step);
        self.zones.add(key, ts, kind, given);
        self.props.count(ts, kind, value);
        if !expiry::fits(kind, value.len()) {
            return Err(Error::invalid("a row that expires has no expiry"));
        }
        if kind.is_link() {
            self.props
                .count_link(expiry::value_of(kind, value))
                .map_err(|damage| Error::invalid(damage.0))?;
        }
        self.last.ts = ts;
        if !same_key {
            self.last.key.clear();
            self.last.key.extend_from_slice(key);
            self.last.prefix_len = prefix_len;
        }
        Ok(())
    }

    /// What the row is to the one before; an error where it may not follow.
    fn step(
        &self,
        key: &[u8],
        prefix_len: usize,
        ts: CommitTs,
        kind: RowKind,
        value: &[u8],
    ) -> Result<Step> {
        if prefix_len > key.len() || key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(Error::invalid("a row's key or value has an impossible length"));
        }
        if kind == RowKind::Delete && !value.is_empty() {
            return Err(Error::invalid("a delete has no value"));
        }
        if self.is_empty() {
            return Ok(Step::First);
        }
        // One look at the two keys answers all: their order, and what they share.
        let last = &self.last;
        let alike = common_len(&last.key, key);
        match (last.key.get(alike), key.get(alike)) {
            (None, None) if ts < last.ts && prefix_len == last.prefix_len => {
                return Ok(Step::Version);
            }
            (None, Some(_)) => {}
            (Some(old), Some(new)) if old < new => {}
            _ => return Err(Error::invalid("rows must ascend by key, then descend by timestamp")),
        }
        if prefix_len == last.prefix_len && alike >= prefix_len {
            return Ok(Step::Row { shared: alike - prefix_len });
        }
        if alike >= last.prefix_len && prefix_len > last.prefix_len {
            return Err(Error::invalid("a partition's prefix starts with another's"));
        }
        // A block holds rows of one table, so that what is known of a block is known of a table.
        Ok(if alike < TABLE_LEN { Step::Table } else { Step::Partition })
    }

    /// Takes note of a key that was not there before: hashes, and the first of all.
    fn note_key(&mut self, key: &[u8], prefix_len: usize, step: Step) {
        let new_partition = matches!(step, Step::First | Step::Table | Step::Partition);
        let row_hash = hash::of_row(key);
        self.last.hash = row_hash;
        if new_partition {
            self.props.partitions += 1;
        }
        if self.options.filter_bits > 0 {
            self.row_hashes.push(row_hash);
            if new_partition {
                self.partition_hashes.push(hash::of_partition(&key[..prefix_len]));
            }
        }
        if matches!(step, Step::First) {
            self.props.smallest = key.to_vec();
        }
    }

    /// Whether `key`, which comes next, is not of the last row's partition.
    pub(crate) fn ends_partition(&self, key: &[u8]) -> bool {
        !key.starts_with(&self.last.key[..self.last.prefix_len])
    }

    /// Whether no row was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.props.rows == 0
    }

    /// About as many bytes as the file would have if it ended now.
    pub(crate) fn bytes_so_far(&self) -> u64 {
        let keys = self.row_hashes.len() + self.partition_hashes.len();
        let filters = keys * self.options.filter_bits as usize / 8;
        let raw = self.block.raw_bytes() + self.press.as_ref().map_or(0, Press::raw_bytes);
        self.out.offset() + (raw + self.index.bytes() + filters + self.zones.bytes()) as u64
    }

    /// Writes what follows the data and syncs the file. It must hold a row.
    pub(crate) fn finish(mut self) -> Result<FileMeta> {
        if self.is_empty() {
            return Err(Error::invalid("a table file holds at least one row"));
        }
        self.end_block()?;
        if let Some(block) = self.pending.take() {
            self.add_separator(block, None);
        }
        self.write_pressed(Press::rest)?;
        self.props.largest = std::mem::take(&mut self.last.key);
        let mut footer = Footer { data_len: self.out.offset(), ..Footer::default() };
        let (index, bits) = (self.index, self.options.filter_bits);
        footer.index_len = self.out.section(|out| index.finish(out))?;
        self.out.write()?;
        self.out.begin_sync(); // The disk writes while filters are made.
        if bits > 0 {
            let rows = Filter::build(&self.row_hashes, bits);
            footer.row_filter_len = self.out.section(|out| rows.encode(out))?;
            let partitions = Filter::build(&self.partition_hashes, bits);
            footer.partition_filter_len = self.out.section(|out| partitions.encode(out))?;
        }
        if let Some(zones) = self.zones.finish() {
            footer.zones_len = self.out.section(|out| zones.encode(out))?;
        }
        footer.props_len = self.out.section(|out| self.props.encode(out))?;
        self.out.finish(&footer, self.props, self.replaced)
    }

    fn end_block(&mut self) -> Result<()> {
        self.write_pressed(Press::next)?;
        let handle = match &mut self.press {
            Some(press) => {
                press.add(&mut self.block);
                None
            }
            None => {
                let (block, compressor) = (&mut self.block, Some(&mut self.compressor));
                let handle = self.out.block(|out| block.encode(true, compressor, out))?;
                block.clear();
                Some(handle)
            }
        };
        let PlainRows(rows) = std::mem::take(&mut self.plain);
        self.pending = Some(Ended { handle, plain_rows: rows.unwrap_or(0) });
        self.props.blocks += 1;
        self.zones.end_block();
        Ok(())
    }

    /// Writes the sheaves that `next` gives.
    fn write_pressed(&mut self, next: fn(&mut Press) -> Result<Option<Sheaf>>) -> Result<()> {
        let Some(press) = &mut self.press else { return Ok(()) };
        while let Some(sheaf) = next(press)? {
            for block in sheaf.blocks() {
                let handle = self.out.block(|out| out.extend_from_slice(block))?;
                let unknown = || Error::invalid("a block was pressed before its end was known");
                let Label { separator, prefix_len, ts, plain_rows } =
                    press.next_label().ok_or_else(unknown)?;
                self.index.add(&separator, prefix_len, ts, Entry { handle, plain_rows });
            }
            press.recycle(sheaf);
        }
        Ok(())
    }

    /// Adds the index entry of the finished block: `next` is the key that follows it, and whether
    /// it is the block's last key again.
    fn add_separator(&mut self, block: Ended, next: Option<(&[u8], bool)>) {
        let LastRow { key, prefix_len, ts, .. } = &self.last;
        let (separator, ts, plain_rows) = match next {
            Some((_, true)) => (key.clone(), *ts, 0),
            next => {
                let next = next.map(|(key, _)| key);
                (separator(key, *prefix_len, next), CommitTs::ZERO, block.plain_rows)
            }
        };
        let prefix_len = *prefix_len;
        match (block.handle, &mut self.press) {
            (Some(handle), _) => {
                self.index.add(&separator, prefix_len, ts, Entry { handle, plain_rows });
            }
            (None, Some(press)) => press.label(Label { separator, prefix_len, ts, plain_rows }),
            (None, None) => debug_assert!(false, "a block without a place is in the press"),
        }
    }
}

/// The file as a stream: gathers bytes, writes them, digests them.
struct Output {
    file: Arc<dyn File>,
    path: PathBuf,
    no: FileNo,
    buffer: Vec<u8>,
    written: u64,
    /// Up to where the disk was told to write.
    begun: u64,
    digest: Xxh3Default,
}

impl Output {
    fn new(file: Arc<dyn File>, path: &Path, no: FileNo) -> Output {
        let digest = Xxh3Default::new();
        Output { file, path: path.to_owned(), no, buffer: Vec::new(), written: 0, begun: 0, digest }
    }

    fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends what `put` appends, and its checksum; returns the length of both.
    fn section(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<u64> {
        let (start, offset) = (self.buffer.len(), self.offset());
        put(&mut self.buffer);
        seal(self.no, offset, start, &mut self.buffer);
        let len = self.offset() - offset;
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(len)
    }

    /// Appends the block that `put` appends; where it lies.
    fn block(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<Handle> {
        let offset = self.offset();
        let len = self.section(put)?;
        // A block holds at most one value above 64 KiB, so its length is far below 4 GiB.
        Ok(Handle { offset, len: len as u32 })
    }

    fn write(&mut self) -> Result<()> {
        self.digest.update(&self.buffer);
        let written = self.file.write_all_at(&self.buffer, self.written);
        written.map_err(|e| Error::io("writing a table file", &self.path, e))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.written - self.begun >= BEGIN_SYNC_BYTES {
            self.begin_sync();
        }
        if self.buffer.capacity() > 4 * WRITE_BYTES {
            self.buffer = Vec::new(); // One large value must not pin its size for good.
        }
        Ok(())
    }

    /// Has the disk begin with what was written so far.
    fn begin_sync(&mut self) {
        self.file.begin_sync(self.begun, self.written - self.begun);
        self.begun = self.written;
    }

    fn finish(mut self, footer: &Footer, props: Props, replaced: Lapsing) -> Result<FileMeta> {
        footer.encode(self.no, self.offset(), &mut self.buffer);
        self.write()?;
        // Planted (`planted.rs`): the manifest names the file before its bytes are safe.
        if !crate::planted!("B07") {
            self.file.sync().map_err(|e| Error::io("syncing a table file", &self.path, e))?;
        }
        let meta = props.into_meta(self.no, self.written, self.digest.digest());
        Ok(FileMeta { replaced, ..meta })
    }
}

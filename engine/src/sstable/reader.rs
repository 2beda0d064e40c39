//! An open table file: point reads, filters, and blocks for the cursor.
//!
//! Index and filters are held in memory; so are the zones once a scan wanted them, where there is
//! room for them; blocks come from the cache or from the file. A damaged filter is left out and
//! counted (slower, and right), and so are damaged zones; a damaged footer, index or properties
//! fail the open; a damaged block fails the reads that need it and no others.
//!
//! Promise: a point read of a cached block allocates nothing.

use crate::cache::{BlockPlace, Cache};
use crate::cursor::{Direction, Found};
use crate::errands::Errands;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, FileNo};
use crate::options::Reach;
use crate::sstable::block::{Block, Unpack, fingerprint};
use crate::sstable::filter::Filter;
use crate::sstable::format::{FOOTER_LEN, FileMeta, Footer, Props};
use crate::sstable::index::{EntryAt, Handle, Index, PlainSums};
use crate::sstable::mapped::Mapped;
use crate::sstable::raw::RawFile;
use crate::sstable::zones::Zones;
use crate::sync::{Mutex, OnceLock};
use crate::vfs::api::File;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The cache that all table files of a database share.
pub(crate) type BlockCache = Cache<Block>;

/// Who keeps count of open files and of the memory that they hold.
pub(crate) trait Books: Send + Sync {
    /// One more is open, and holds so many bytes. Says whether it may stay so.
    fn opened(&self, bytes: usize) -> bool;
    /// One that stays would hold so many bytes more. Says whether it may, and counts them then.
    fn take(&self, bytes: usize) -> bool;
    /// One is closed that held so many, and stayed or not.
    fn closed(&self, bytes: usize, stays: bool);
    /// A walk over one would hold so many bytes of what it will come to. Says whether it may, and
    /// counts them then.
    fn walk_begins(&self, bytes: usize) -> bool;
    /// Such a walk has ended.
    fn walk_ended(&self, bytes: usize);
}

/// The leave of a walk to hold much of what it will come to, until it is dropped.
pub(super) struct Walking {
    books: Option<Arc<dyn Books>>,
}

/// What such a walk holds, about: the blocks of four batches, decompressed, and a batch's bytes for
/// each of the two threads; without the second one 512 KiB that it reads at once.
const WALK_BYTES: usize = 3 << 19;

impl Drop for Walking {
    fn drop(&mut self) {
        if let Some(books) = &self.books {
            books.walk_ended(WALK_BYTES);
        }
    }
}

/// What a file holds according to the books, as long as it is open.
struct Counted {
    books: Arc<dyn Books>,
    bytes: Mutex<usize>,
    stays: bool,
}

impl Counted {
    /// Sets what was not known when the file was opened, where its `bytes` have room; that there is
    /// nothing takes none. A file that does not stay is counted with what it held at first, so it
    /// learns nothing more.
    fn learn<T>(&self, cell: &OnceLock<T>, value: T, bytes: usize) {
        let mut held = self.bytes.lock();
        // Another thread may have been first; it found the same.
        if cell.get().is_none() && (bytes == 0 || self.stays && self.books.take(bytes)) {
            *held += bytes;
            let _ = cell.set(value);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.books.closed(*self.bytes.lock(), self.stays);
    }
}

/// An open table file.
pub(crate) struct TableFile {
    raw: RawFile,
    footer: Footer,
    props: Props,
    index: Index,
    row_filter: Option<Filter>,
    partition_filter: Option<Filter>,
    filters_ignored: u32,
    zones: OnceLock<StoredZones>,
    sums: OnceLock<Arc<PlainSums>>,
    cache: Arc<BlockCache>,
    mapped: Option<Mapped>,
    errands: Option<Arc<Errands>>,
    counted: Option<Counted>,
}

/// What the file's zones turned out to be.
enum StoredZones {
    Whole(Arc<Zones>),
    None,
    Damaged,
}

impl TableFile {
    /// Opens the file that the manifest means by `meta`; reads footer, index, filters, properties.
    pub(crate) fn open(
        file: Arc<dyn File>,
        path: PathBuf,
        meta: &FileMeta,
        cache: Arc<BlockCache>,
    ) -> Result<TableFile> {
        let mut raw = RawFile { file, path, no: meta.no, ts_base: 0 };
        let len = raw.len()?;
        if len != meta.bytes {
            let what = format!("table file has {len} bytes; the manifest says {}", meta.bytes);
            return Err(Error::corrupt(&raw.path, len.min(meta.bytes), what));
        }
        let (footer, mut props) = raw.read_ends(len)?;
        if !props.agree_with(meta) {
            let at = footer.props().offset;
            return Err(Error::corrupt(&raw.path, at, "the manifest means another table file"));
        }
        if props.is_undated() {
            raw.ts_base = meta.min_ts.0;
            (props.min_ts, props.max_ts) = (meta.min_ts, meta.max_ts);
        }
        let index = raw.read_index(&footer)?;
        let mut filters_ignored = 0;
        let mut filter = |stretch| match raw.read_filter(stretch) {
            Err(error) if error.kind() == Kind::Corrupt => {
                filters_ignored += 1;
                Ok(None)
            }
            other => other,
        };
        let row_filter = filter(footer.row_filter())?;
        let partition_filter = filter(footer.partition_filter())?;
        Ok(TableFile {
            raw,
            footer,
            props,
            index,
            row_filter,
            partition_filter,
            filters_ignored,
            zones: OnceLock::new(),
            sums: OnceLock::new(),
            cache,
            mapped: None,
            errands: None,
            counted: None,
        })
    }

    /// The file read in place, through a mapping, where the system gives one.
    pub(crate) fn in_place(self) -> TableFile {
        // As long as it was when it was opened: the first read behind its end would end the
        // process.
        let props = self.footer.props();
        let len = props.offset + props.len + FOOTER_LEN as u64;
        let whole = self.raw.file.map().ok().filter(|bytes| bytes.len() as u64 == len);
        let (blocks, newest) = (self.index.blocks(), self.props.max_ts);
        TableFile { mapped: whole.map(|bytes| Mapped::new(bytes, blocks, newest)), ..self }
    }

    /// The file with somebody who loads or proves what long walks over it will come to.
    pub(crate) fn read_ahead_by(self, errands: &Arc<Errands>) -> TableFile {
        TableFile { errands: Some(Arc::clone(errands)), ..self }
    }

    /// The file with its memory in the books, until it is closed.
    pub(crate) fn counted_in(self, books: Arc<dyn Books>) -> TableFile {
        let bytes = self.resident_bytes();
        let stays = books.opened(bytes);
        TableFile { counted: Some(Counted { books, bytes: Mutex::new(bytes), stays }), ..self }
    }

    /// Leave for a walk to hold much of what it will come to; `None` where others hold all that
    /// there is room for.
    pub(super) fn begin_walk(&self) -> Option<Walking> {
        let books = self.counted.as_ref().map(|counted| Arc::clone(&counted.books));
        let may = books.as_ref().is_none_or(|books| books.walk_begins(WALK_BYTES));
        may.then(|| Walking { books }) // One that is made is one that ends.
    }

    /// Whether the books had room for it to stay open.
    pub(crate) fn stays(&self) -> bool {
        self.counted.as_ref().is_none_or(|counted| counted.stays)
    }

    fn learn<T>(&self, cell: &OnceLock<T>, value: T, bytes: usize) {
        match &self.counted {
            Some(counted) => counted.learn(cell, value, bytes),
            None => drop(cell.set(value)),
        }
    }

    /// The newest version of `key` that is not newer than `at`. `row_hash` is the key's.
    ///
    /// Errors: [`Kind::WouldBlock`] where `reach` is memory and the block is not in the cache.
    #[inline]
    pub(crate) fn get(
        &self,
        key: &[u8],
        row_hash: u64,
        at: CommitTs,
        reach: Reach,
    ) -> Result<Option<Found>> {
        if self.may_hold_row(row_hash) { self.search(key, row_hash, at, reach) } else { Ok(None) }
    }

    #[inline(never)]
    fn search(
        &self,
        key: &[u8],
        row_hash: u64,
        at: CommitTs,
        reach: Reach,
    ) -> Result<Option<Found>> {
        let Some(entry) = self.index.seek(key, at) else { return Ok(None) };
        let handle = self.index.handle(entry);
        if let Some(mapped) = &self.mapped
            && let Some(block) =
                mapped.block(&self.raw, self.index.ordinal(entry), handle, reach)?
        {
            let found = block.find(key, fingerprint(row_hash), at);
            return found.map_err(|damage| damage.at(self.path(), handle.offset));
        }
        let block = self.block(handle, reach)?;
        let Some(row) = block.find(key, fingerprint(row_hash), at) else { return Ok(None) };
        let value = block.value(row).map_err(|damage| damage.at(self.path(), handle.offset))?;
        Ok(Some(Found { ts: block.ts(row), kind: block.kind(row), value }))
    }

    /// Has the disk begin to read the block that [`TableFile::get`] will ask for, where it asks for
    /// one that is not in the cache; whether it does.
    pub(crate) fn begin_get(&self, key: &[u8], row_hash: u64, at: CommitTs) -> bool {
        let seek = || self.index.seek(key, at).map(|entry| self.index.handle(entry));
        let handle = self.may_hold_row(row_hash).then(seek).flatten();
        let Some(handle) = handle.filter(|handle| self.cached(*handle).is_none()) else {
            return false;
        };
        self.raw.file.begin_read(handle.offset, u64::from(handle.len));
        true
    }

    /// Starts fetching what [`TableFile::may_hold_row`] will read.
    pub(crate) fn prefetch_row(&self, row_hash: u64) {
        if let Some(filter) = &self.row_filter {
            filter.prefetch(row_hash);
        }
    }

    /// False only where no version of a key of this hash is in the file.
    pub(crate) fn may_hold_row(&self, row_hash: u64) -> bool {
        self.row_filter.as_ref().is_none_or(|filter| filter.may_hold(row_hash))
    }

    /// False only where no row of a partition of this hash is in the file.
    pub(crate) fn may_hold_partition(&self, partition_hash: u64) -> bool {
        self.partition_filter.as_ref().is_none_or(|filter| filter.may_hold(partition_hash))
    }

    /// Its filters by name, those that are there and sound: of rows, of partitions.
    pub(crate) fn filters(&self) -> impl Iterator<Item = (&'static str, &Filter)> {
        let both = [("row filter", &self.row_filter), ("partition filter", &self.partition_filter)];
        both.into_iter().filter_map(|(name, filter)| Some((name, filter.as_ref()?)))
    }

    /// The file's number.
    pub(crate) fn no(&self) -> FileNo {
        self.raw.no
    }

    /// The file's path, for errors.
    pub(crate) fn path(&self) -> &Path {
        &self.raw.path
    }

    /// What the file says of itself.
    pub(crate) fn props(&self) -> &Props {
        &self.props
    }

    /// Above which timestamp no version in it is.
    pub(crate) fn newest(&self) -> CommitTs {
        self.props.max_ts
    }

    /// Below which timestamp no version in it is.
    pub(crate) fn oldest(&self) -> CommitTs {
        self.props.min_ts
    }

    /// Bytes of the blocks that may hold keys from `start` to before `end`, but for the last one.
    pub(crate) fn bytes_between(&self, start: &[u8], end: &[u8]) -> u64 {
        let offset = |key| match self.index.seek(key, CommitTs::MAX) {
            Some(entry) => self.index.handle(entry).offset,
            None => self.footer.data_len,
        };
        offset(end).saturating_sub(offset(start))
    }

    /// Of how many bytes of data the keys from `start` to before `end` have how many, about: their
    /// first block counts, their last one does not unless it is the file's. The whole is not 0.
    pub(crate) fn share_of(&self, start: &[u8], end: &[u8]) -> (u64, u64) {
        let whole = self.footer.data_len.max(1);
        let end = if self.props.largest.as_slice() < end { None } else { Some(end) };
        let offset =
            |key| self.index.seek(key, CommitTs::MAX).map(|at| self.index.handle(at).offset);
        let from = offset(start).unwrap_or(whole);
        let to = end.and_then(offset).unwrap_or(whole);
        (to.saturating_sub(from).min(whole), whole)
    }

    /// How many of its two filters were damaged and are not used; its zones too, once they were
    /// asked for.
    pub(crate) fn filters_ignored(&self) -> u32 {
        let damaged = matches!(self.zones.get(), Some(StoredZones::Damaged));
        self.filters_ignored + u32::from(damaged)
    }

    /// Whether [`TableFile::zones`] costs nothing.
    pub(super) fn has_read_zones(&self) -> bool {
        self.zones.get().is_some()
    }

    /// The zones of its blocks, where it has sound ones. Cost: the first call reads them, and so
    /// does each one where there is no room to keep them.
    pub(crate) fn zones(&self) -> Result<Option<Arc<Zones>>> {
        let whole = |stored: &StoredZones| match stored {
            StoredZones::Whole(zones) => Some(Arc::clone(zones)),
            StoredZones::None | StoredZones::Damaged => None,
        };
        if let Some(stored) = self.zones.get() {
            return Ok(whole(stored));
        }
        let stored = match self.raw.read_zones(self.footer.zones(), self.props.blocks) {
            Ok(Some(zones)) => StoredZones::Whole(Arc::new(zones)),
            Ok(None) => StoredZones::None,
            Err(error) if error.kind() == Kind::Corrupt => StoredZones::Damaged,
            Err(error) => return Err(error),
        };
        let zones = whole(&stored);
        self.learn(&self.zones, stored, zones.as_ref().map_or(0, |zones| zones.bytes()));
        Ok(zones)
    }

    /// Sums of the rows that can be counted unread. Cost: the first call goes over the index, and
    /// so does each one where there is no room to keep them.
    pub(crate) fn sums(&self) -> Arc<PlainSums> {
        if let Some(sums) = self.sums.get() {
            return Arc::clone(sums);
        }
        let sums = Arc::new(self.index.sums());
        self.learn(&self.sums, Arc::clone(&sums), sums.bytes());
        sums
    }

    /// Bytes of memory that the open file holds: index, filters, zones and sums that were asked
    /// for, and what is known of the blocks of a mapping, but not the mapping.
    pub(crate) fn resident_bytes(&self) -> usize {
        let filters = self.row_filter.iter().chain(&self.partition_filter);
        let zones = match self.zones.get() {
            Some(StoredZones::Whole(zones)) => zones.bytes(),
            _ => 0,
        };
        let mapped = self.mapped.as_ref().map_or(0, Mapped::resident_bytes);
        let sums = self.sums.get().map_or(0, |sums| sums.bytes());
        self.index.bytes() + filters.map(Filter::bytes).sum::<usize>() + zones + sums + mapped
    }

    /// About `count` keys from all over the file, ascending, each with the bytes of data from the
    /// one before up to it. Cost: a pass over the index, in memory.
    pub(crate) fn samples(&self, count: usize) -> Vec<(Vec<u8>, u64)> {
        let (step, mut start) = (self.footer.data_len / count.max(1) as u64, 0);
        let (mut samples, mut entry) = (Vec::new(), Some(self.index.first()));
        while let Some(at) = entry {
            let Handle { offset, len } = self.index.handle(at);
            let end = offset + u64::from(len);
            entry = self.index.next(at);
            if end - start >= step || entry.is_none() {
                samples.push((self.index.separator(at).0, end - start));
                start = end;
            }
        }
        samples
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(super) fn footer(&self) -> &Footer {
        &self.footer
    }

    pub(super) fn errands(&self) -> Option<&Arc<Errands>> {
        self.errands.as_ref()
    }

    pub(super) fn raw(&self) -> &RawFile {
        &self.raw
    }

    /// Starts fetching what a walk that comes to the block at `handle` reads first of it, where it
    /// `begins` there, and of the next one; nothing where blocks are not read in place.
    pub(super) fn prefetch(&self, handle: Handle, direction: Direction, begins: bool) {
        if let Some(mapped) = &self.mapped {
            mapped.prefetch(handle, direction, begins);
        }
    }

    /// Whether the block needs no proof any more, or will not be read in place.
    pub(super) fn is_proved(&self, entry: EntryAt) -> bool {
        self.mapped.as_ref().is_none_or(|mapped| mapped.is_proved(self.index.ordinal(entry)))
    }

    /// Proves the block, where it is to be read in place. One that is damaged stays unproved, for
    /// whoever reads it.
    pub(super) fn prove(&self, entry: EntryAt) {
        if let Some(mapped) = self.mapped.as_ref().filter(|_| !self.is_proved(entry)) {
            let (number, handle) = (self.index.ordinal(entry), self.index.handle(entry));
            let _ = mapped.block(&self.raw, number, handle, Reach::Disk);
        }
    }

    /// The block, if it can be read in place.
    pub(super) fn block_in_place(
        &self,
        entry: EntryAt,
        handle: Handle,
    ) -> Result<Option<Arc<Block>>> {
        let Some(mapped) = &self.mapped else { return Ok(None) };
        let block = mapped.block(&self.raw, self.index.ordinal(entry), handle, Reach::Disk)?;
        Ok(block.map(|block| Arc::new(Block::in_place(block.bytes(), block.layout, block.facts))))
    }

    /// The block's bytes with their checksum, where they need not be read.
    pub(super) fn sealed_in_place(&self, handle: Handle) -> Option<Bytes> {
        self.mapped.as_ref().and_then(|mapped| mapped.stretch(handle))
    }

    /// The block, if the cache holds it.
    pub(super) fn cached(&self, handle: Handle) -> Option<Arc<Block>> {
        self.cache.get(BlockPlace { file: self.raw.no, offset: handle.offset })
    }

    /// Gives a block that was read to the cache. Returns what the cache now has, or else the block.
    pub(super) fn keep(&self, handle: Handle, block: Arc<Block>) -> Arc<Block> {
        let place = BlockPlace { file: self.raw.no, offset: handle.offset };
        let weight = block.weight();
        self.cache.insert(place, block, weight)
    }

    /// The same for a block that pushes nothing out: the cache takes it where it has room.
    pub(super) fn keep_in_room(&self, handle: Handle, block: Arc<Block>) -> Arc<Block> {
        let place = BlockPlace { file: self.raw.no, offset: handle.offset };
        let weight = block.weight();
        self.cache.insert_in_room(place, block, weight)
    }

    /// The block from the cache or, as far as `reach` goes, from the file.
    pub(super) fn block(&self, handle: Handle, reach: Reach) -> Result<Arc<Block>> {
        let place = BlockPlace { file: self.raw.no, offset: handle.offset };
        if let Some(block) = self.cache.get(place) {
            return Ok(block);
        }
        if reach == Reach::Memory {
            return Err(Error::new(Kind::WouldBlock, "the block is not in the cache"));
        }
        let block = match self.sealed_in_place(handle) {
            Some(sealed) => self.raw.parse_block(handle, &sealed, Unpack::Now)?,
            None => self.raw.read_block(handle, Unpack::Now)?,
        };
        let (weight, block) = (block.weight(), Arc::new(block));
        Ok(self.cache.insert(place, block, weight))
    }
}

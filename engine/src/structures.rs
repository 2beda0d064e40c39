//! Doors to single structures of the engine, for the project's own benches. No promise: names and
//! results change with the code behind them.
//!
//! Each type is one structure with the calls that a hot path makes of it, and nothing in between,
//! so that a measurement says what the structure costs and not what stands around it.

use crate::cache::BlockPlace;
use crate::chunks::SpareChunks;
use crate::compaction::tournament::{Run, Tournament};
use crate::compress::Compressor;
use crate::cursor::{Cursor, Found};
use crate::error::{Error, Kind, Result};
use crate::expiry;
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::iter::merge::MergeCursor;
use crate::key::{hash, order};
use crate::memtable::api::Memtable;
use crate::memtable::table::new_memtable;
use crate::names::{self, FileKind};
use crate::options::Options;
use crate::row_cache::RowCache;
use crate::sstable::block::{Block, Unpack, fingerprint};
use crate::sstable::block_builder::{BlockBuilder, NewRow};
use crate::sstable::builder::TableBuilder;
use crate::sstable::filter::Filter;
use crate::sstable::format::{Damage, TableOptions};
use crate::sstable::index::{Entry, Handle, Index, IndexBuilder};
use crate::sstable::pass::Pass;
use crate::sstable::reader::{BlockCache, TableFile};
use crate::table::codec::{self, EntityBytes};
use crate::table::value::Value;
use crate::vfs::api::Vfs;
use crate::vfs::mem::SimFs;
use crate::vfs::os::OsVfs;
use crate::wal::buffer::FrameBuffer;
use crate::wal::format::LogFloor;
use crate::wal::replay;
use crate::wal::writer::{Group, LogWriter};
use bytes::Bytes;
use std::fmt::{Debug, Formatter};
use std::path::Path;
use std::sync::Arc;

/// Key and value of a row.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// What a pass reads of a file at once, as a merge of a few files does.
const AHEAD_BYTES: usize = 1 << 20;

fn damaged(damage: Damage) -> Error {
    Error::new(Kind::Corrupt, damage.0)
}

/// An encoded key as its partition prefix and its RowKey.
fn split(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at(order::prefix_len(key).unwrap_or(0))
}

/// A memtable, as the engine's writer and readers use it.
#[derive(Debug)]
pub struct Memory(Arc<dyn Memtable>);

impl Default for Memory {
    fn default() -> Memory {
        Memory(new_memtable(&SpareChunks::none()))
    }
}

impl Memory {
    /// Adds one row. `ts` must not be below that of any earlier call.
    pub fn insert(&self, key: &[u8], ts: u64, value: &[u8]) {
        self.0.insert(key, CommitTs(ts), RowKind::Put, value);
    }

    /// Bytes of the newest value of a row.
    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.0.get(key, hash::of_row(key), CommitTs::MAX).map(|found| found.value)
    }

    /// Walks at most `rows` versions from `key`, upwards or downwards; bytes of keys and values.
    pub fn scan(&self, key: &[u8], up: bool, rows: usize) -> Result<usize> {
        let mut cursor = Arc::clone(&self.0).cursor();
        match up {
            true => cursor.seek(key, CommitTs::MAX)?,
            false => cursor.seek_before(key)?,
        }
        let mut bytes = 0;
        for _ in 0..rows {
            if !cursor.valid() {
                break;
            }
            bytes += cursor.key().len() + cursor.value_ref()?.len();
            match up {
                true => cursor.next()?,
                false => cursor.prev()?,
            }
        }
        Ok(bytes)
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// A log in a folder of the real disk, on which nothing is synced but the change of segments.
#[derive(Debug)]
pub struct Log {
    writer: LogWriter,
    frame: FrameBuffer,
    ts: u64,
}

impl Log {
    /// An empty one, with segments of the default size.
    pub fn create(dir: &Path) -> Result<Log> {
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
        let found = replay::replay(&*vfs, dir, LogFloor::default(), &mut |_, _, _| Ok(()))?;
        let segment_bytes = Options::default().advanced.wal_segment_bytes;
        let writer = LogWriter::create(vfs, dir, segment_bytes, &found)?;
        Ok(Log { writer, frame: FrameBuffer::default(), ts: 0 })
    }

    /// Appends a group of one commit whose bytes are `payload`. Segments are made and released as
    /// they are due, as if every commit were in a table file at once.
    pub fn append(&mut self, payload: &[u8]) -> Result<()> {
        self.ts += 1;
        let (ts, frame) = (CommitTs(self.ts), &mut self.frame);
        frame.reserve(payload.len()).extend_from_slice(payload);
        self.writer.append(Group { first_ts: ts, last_ts: ts, frame, sync: false })?;
        self.frame.clear();
        if let Some(job) = self.writer.wants_spare() {
            self.writer.add_spare(job.run()?);
            self.writer.release(self.writer.current()).remove()?;
        }
        Ok(())
    }
}

/// A block of data in memory.
pub struct DataBlock(Arc<Block>);

impl Debug for DataBlock {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "DataBlock({} rows)", self.0.rows())
    }
}

impl DataBlock {
    /// The bytes of a block of these rows, in the order of their keys, as a table file has them
    /// before their checksum.
    pub fn encode(rows: &[KeyValue]) -> Bytes {
        let (mut builder, mut bytes) = (BlockBuilder::default(), Vec::new());
        for (ts, (key, value)) in (1..).zip(rows) {
            let (prefix, row_key) = split(key);
            builder.push(&NewRow {
                prefix,
                row_key,
                shared: builder.shared_with_last(prefix, row_key),
                ts: CommitTs(ts),
                kind: RowKind::Put,
                print: fingerprint(hash::of_row(key)),
                value,
            });
        }
        let mut compressor = Compressor::new(TableOptions::from(&Options::default()).codec);
        builder.encode(true, Some(&mut compressor), &mut bytes);
        bytes.into()
    }

    /// Proves the columns and decompresses the values: what a read of a block that no cache has
    /// costs beside the file and the checksum.
    pub fn decode(bytes: &Bytes) -> Result<DataBlock> {
        let block = Block::copy_data(bytes, Unpack::Now).map_err(damaged)?;
        block.values().map_err(damaged)?;
        Ok(DataBlock(Arc::new(block)))
    }

    /// The row of a key whose hash is `row_hash`.
    pub fn find(&self, key: &[u8], row_hash: u64) -> Option<usize> {
        self.0.find(key, fingerprint(row_hash), CommitTs::MAX)
    }

    /// The first row not before a key.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.0.lower_bound(key, CommitTs::MAX)
    }

    /// The value of a row.
    pub fn value(&self, row: usize) -> Result<&[u8]> {
        self.0.value_ref(row).map_err(damaged)
    }
}

/// A filter over rows.
pub struct RowFilter(Filter);

impl Debug for RowFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowFilter({} bytes)", self.0.bytes())
    }
}

impl RowFilter {
    /// One of the default bits per row.
    pub fn of(row_hashes: &[u64]) -> RowFilter {
        RowFilter(Filter::build(row_hashes, Options::default().advanced.filter_bits))
    }

    /// Whether a row of this hash may be there.
    pub fn may_hold(&self, row_hash: u64) -> bool {
        self.0.may_hold(row_hash)
    }
}

/// The index of a table file.
pub struct BlockIndex(Index);

impl Debug for BlockIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockIndex({} blocks)", self.0.blocks())
    }
}

impl BlockIndex {
    /// That of blocks which end with `last_keys`.
    pub fn of(last_keys: &[Vec<u8>]) -> Result<BlockIndex> {
        const BLOCK_BYTES: u32 = 4096;
        let (mut builder, mut bytes, mut offset) = (IndexBuilder::default(), Vec::new(), 0);
        for key in last_keys {
            let handle = Handle { offset, len: BLOCK_BYTES };
            let block = Entry { handle, plain_rows: 0 };
            builder.add(key, split(key).0.len(), CommitTs::ZERO, block);
            offset += u64::from(BLOCK_BYTES);
        }
        builder.finish(&mut bytes);
        Index::parse(&bytes.into(), offset).map(BlockIndex).map_err(damaged)
    }

    /// The number of the block that may hold a key, or the next one.
    pub fn seek(&self, key: &[u8]) -> Option<usize> {
        self.0.seek(key, CommitTs::MAX).map(|entry| self.0.ordinal(entry))
    }
}

/// The block cache.
#[derive(Debug)]
pub struct Blocks(BlockCache);

impl Blocks {
    /// One of at most so many bytes.
    pub fn new(capacity: usize) -> Blocks {
        Blocks(BlockCache::new(capacity))
    }

    fn place(number: u64) -> BlockPlace {
        BlockPlace { file: FileNo(1 + number / 8192), offset: number % 8192 * 4096 }
    }

    /// Takes a block under a number.
    pub fn insert(&self, number: u64, block: &DataBlock) {
        self.0.insert(Self::place(number), Arc::clone(&block.0), block.0.weight());
    }

    /// Looks a block up.
    pub fn get(&self, number: u64) -> Option<DataBlock> {
        self.0.get(Self::place(number)).map(DataBlock)
    }
}

/// The row cache.
#[derive(Debug)]
pub struct Rows(RowCache);

impl Rows {
    /// One of at most so many bytes.
    pub fn new(capacity: usize) -> Rows {
        Rows(RowCache::new(capacity))
    }

    /// Gives it a row that was read from a file.
    pub fn add(&self, key: &[u8], row_hash: u64, value: &Bytes) {
        let found = Found { ts: CommitTs(1), kind: RowKind::Put, value: value.clone() };
        self.0.add(key, row_hash, &found, 0);
    }

    /// The value of a row, if it is held.
    pub fn get(&self, key: &[u8], row_hash: u64) -> Option<Bytes> {
        self.0.get(key, row_hash, CommitTs::MAX).map(|found| found.value)
    }
}

/// Table files on a simulated disk, to be merged.
pub struct Runs(Vec<Arc<TableFile>>);

impl Debug for Runs {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runs({} files)", self.0.len())
    }
}

impl Runs {
    /// A file of each of `runs`, whose rows are in the order of their keys. The files share a block
    /// cache that holds them all.
    pub fn of(runs: &[Vec<KeyValue>]) -> Result<Runs> {
        let (disk, dir) = (SimFs::new(), Path::new("/structures"));
        disk.create_dir_all(dir).map_err(|error| Error::io("making a folder", dir, error))?;
        let cache = Arc::new(BlockCache::new(1 << 30));
        let file = |(no, rows): (u64, &Vec<KeyValue>)| {
            let (no, path) = (FileNo(no), names::path(dir, FileKind::Table, FileNo(no)));
            let file =
                disk.create(&path).map_err(|error| Error::io("making a file", &path, error))?;
            let options = TableOptions::from(&Options::default());
            let mut builder = TableBuilder::new(Arc::clone(&file), &path, no, options);
            for (key, value) in rows {
                let (kind, value) = (RowKind::Put, value.as_slice());
                let given = expiry::given(kind, value);
                builder.add_placed(
                    key,
                    split(key).0.len(),
                    CommitTs(no.0),
                    (kind, value),
                    given,
                )?;
            }
            let meta = builder.finish()?;
            TableFile::open(file, path, &meta, Arc::clone(&cache)).map(Arc::new)
        };
        Ok(Runs((1..).zip(runs).map(file).collect::<Result<_>>()?))
    }

    /// All rows as a scan merges them, from the block cache once it has them; bytes of keys and
    /// values.
    pub fn scan(&self) -> Result<usize> {
        let mut merge = MergeCursor::new(self.0.iter().map(TableFile::cursor).collect());
        let mut bytes = 0;
        merge.seek(&[], CommitTs::MAX)?;
        while merge.valid() {
            bytes += merge.key().len() + merge.value_ref()?.len();
            merge.next()?;
        }
        Ok(bytes)
    }

    /// All rows as a compaction merges them, read, verified and decompressed from the files; bytes
    /// of keys and values.
    pub fn compact(&self) -> Result<usize> {
        let passes = self.0.iter().map(|file| Passing(file.pass(AHEAD_BYTES)));
        let mut merge = Tournament::start(passes.collect())?;
        let mut bytes = 0;
        while let Some(Passing(pass)) = merge.winner() {
            let (key, value) = pass.key_and_value()?;
            bytes += key.len() + value.len();
            merge.next()?;
        }
        Ok(bytes)
    }
}

/// One file as a run of a merge.
struct Passing(Pass);

impl Run for Passing {
    fn next(&mut self) -> Result<bool> {
        self.0.next()
    }

    fn key(&self) -> &[u8] {
        self.0.key()
    }

    fn ts(&self) -> CommitTs {
        self.0.ts()
    }

    fn shared(&self) -> usize {
        self.0.shared()
    }
}

/// An entity's bytes.
pub fn encode_entity(properties: &[(String, Value)]) -> Vec<u8> {
    codec::encode(properties)
}

/// All properties of an entity. Errors: `Corrupt` where the bytes are none.
pub fn decode_entity(bytes: &[u8]) -> Result<Vec<(String, Value)>> {
    EntityBytes::open(bytes)?.decode(|_| true)
}

/// Whether an entity has a property, which a filter asks. Errors: as [`decode_entity`].
pub fn has_property(bytes: &[u8], name: &str) -> Result<bool> {
    Ok(EntityBytes::open(bytes)?.property(name)?.is_some())
}

//! RocksDB through the crate `rocksdb`.

use crate::engine::{
    self, Change, Direction, Engine, Key, OnRow, Promise, Revise, Rows, Seen, Span,
};
use crate::settings::{
    BLOCK_BYTES, FILTER_BITS, LARGE_VALUE_BYTES, MERGE_THREADS, ROCKSDB_JOBS, ROCKSDB_MEMTABLES,
    Settings,
};
use anyhow::{Context as _, Result, bail};
use rocksdb::{
    BlockBasedOptions, BoundColumnFamily, Cache, DBAccess, DBCompressionType, DBPinnableSlice,
    DBRawIteratorWithThreadMode, DBWithThreadMode, IngestExternalFileOptions, MultiThreaded,
    Options, ReadOptions, SstFileWriter, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Rows of a table that will be dropped; all others are in the default column family.
const DROPPABLE: &str = "droppable";

/// Rows of one file that is ingested: some 64 MiB.
const INGEST_FILE_ROWS: usize = 300_000;

/// Log files kept for the next ones: what is written over space that was written before is synced
/// in half the time.
const RECYCLED_LOGS: usize = 2;

struct Rocks {
    dir: PathBuf,
    db: DBWithThreadMode<MultiThreaded>,
    options: Options,
    write: WriteOptions,
    droppable: bool,
}

/// Opens or makes the database in `dir`.
pub fn open(dir: &Path, settings: &Settings, compressed: bool) -> Result<Box<dyn Engine>> {
    let options = options(settings, compressed);
    let db = match settings.droppable {
        true => DBWithThreadMode::open_cf_with_opts(&options, dir, [(DROPPABLE, options.clone())])?,
        false => DBWithThreadMode::open(&options, dir)?,
    };
    let write = write_options(settings.promise);
    let droppable = settings.droppable;
    Ok(Box::new(Rocks { dir: dir.to_owned(), db, options, write, droppable }))
}

/// The settings that `settings::describe` tells of.
pub fn options(settings: &Settings, compressed: bool) -> Options {
    let mut table = BlockBasedOptions::default();
    let cache = Cache::new_hyper_clock_cache(settings.cache_bytes, 0);
    table.set_block_cache(&cache);
    table.set_block_size(BLOCK_BYTES);
    table.set_bloom_filter(f64::from(FILTER_BITS), false);
    table.set_optimize_filters_for_memory(true);
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_format_version(6);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(settings.memtable_bytes);
    options.set_max_write_buffer_number(ROCKSDB_MEMTABLES);
    options.set_max_background_jobs(ROCKSDB_JOBS);
    options.set_max_subcompactions(MERGE_THREADS as u32);
    options.set_max_bytes_for_level_base(settings.level_base_bytes());
    options.set_target_file_size_base(settings.level_base_bytes() / 4);
    if settings.promise == Promise::Durable {
        options.set_recycle_log_file_num(RECYCLED_LOGS);
    }
    options.set_level_compaction_dynamic_level_bytes(true);
    options.set_bytes_per_sync(1 << 20);
    let compression = match compressed {
        true => DBCompressionType::Lz4,
        false => DBCompressionType::None,
    };
    options.set_compression_type(compression);
    if settings.large_values {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(LARGE_VALUE_BYTES as u64);
        options.set_blob_compression_type(compression);
        options.set_enable_blob_gc(true);
        options.set_blob_cache(&cache); // One budget with the blocks.
    }
    options
}

/// For commits of `promise`.
pub fn write_options(promise: Promise) -> WriteOptions {
    let mut write = WriteOptions::default();
    write.set_sync(promise == Promise::Durable);
    write
}

impl Rocks {
    fn family(&self) -> Result<Option<Arc<BoundColumnFamily<'_>>>> {
        match self.droppable {
            true => Ok(Some(self.db.cf_handle(DROPPABLE).context("no column family")?)),
            false => Ok(None),
        }
    }

    fn ingest_files(&self, rows: &mut dyn Rows) -> Result<()> {
        let (mut paths, mut more) = (Vec::new(), true);
        while more {
            let path = self.dir.join(format!("ingest-{}.sst", paths.len()));
            let mut writer = SstFileWriter::create(&self.options);
            writer.open(&path)?;
            let mut written = 0;
            while more && written < INGEST_FILE_ROWS {
                more = rows.next(&mut |key, value| {
                    written += 1;
                    Ok(writer.put(key.whole, value)?)
                })?;
            }
            if written > 0 {
                writer.finish()?;
                paths.push(path);
            }
        }
        let mut ingest = IngestExternalFileOptions::default();
        ingest.set_move_files(true);
        Ok(self.db.ingest_external_file_opts(&ingest, paths)?)
    }
}

impl Engine for Rocks {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        let family = self.family()?;
        match (changes, &family) {
            ([Change::Put(key, value)], None) => {
                Ok(self.db.put_opt(key.whole, value, &self.write)?)
            }
            ([Change::Delete(key)], None) => Ok(self.db.delete_opt(key.whole, &self.write)?),
            (changes, family) => {
                let mut batch = WriteBatch::default();
                for change in changes {
                    match (change, family) {
                        (Change::Put(key, value), None) => batch.put(key.whole, value),
                        (Change::Delete(key), None) => batch.delete(key.whole),
                        (Change::Put(key, value), Some(family)) => {
                            batch.put_cf(family, key.whole, value);
                        }
                        (Change::Delete(key), Some(family)) => batch.delete_cf(family, key.whole),
                    }
                }
                Ok(self.db.write_opt(batch, &self.write)?)
            }
        }
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value: Option<DBPinnableSlice<'_>> = match self.family()? {
            None => self.db.get_pinned(key.whole)?,
            Some(family) => self.db.get_pinned_cf(&family, key.whole)?,
        };
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        let ends = span.ends(direction);
        let read = read_options(&ends);
        match self.family()? {
            None => walk(self.db.raw_iterator_opt(read), direction, row),
            Some(family) => walk(self.db.raw_iterator_cf_opt(&family, read), direction, row),
        }
    }

    fn revise(&self, _: Key<'_>, _: &mut Revise<'_>) -> Result<bool> {
        bail!("see rocksdb_conditional")
    }

    fn settle(&self) -> Result<Duration> {
        if let Some(family) = self.family().ok().flatten() {
            self.db.flush_cf(&family)?;
        }
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        self.db.wait_for_compact(&wait)?;
        Ok(Duration::ZERO)
    }

    fn compact(&self) -> Result<bool> {
        const ALL: Option<&[u8]> = None;
        match self.family()? {
            None => self.db.compact_range(ALL, ALL),
            Some(family) => self.db.compact_range_cf(&family, ALL, ALL),
        }
        Ok(true)
    }

    fn ingest(&self, rows: &mut dyn Rows) -> Option<Result<()>> {
        Some(self.ingest_files(rows))
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        let (start, end) = engine::partition_ends(partition);
        let mut batch = WriteBatch::default();
        match self.family()? {
            None => batch.delete_range(start.as_slice(), end.as_slice()),
            Some(family) => batch.delete_range_cf(&family, start.as_slice(), end.as_slice()),
        }
        self.db.write_opt(batch, &self.write)?;
        Ok("DeleteRange")
    }

    fn drop_table(&self) -> Result<&'static str> {
        self.db.drop_cf(DROPPABLE)?;
        Ok("DropColumnFamily, which syncs its manifest whatever commits do")
    }
}

/// A read within two ends.
pub fn read_options(ends: &engine::Ends<'_>) -> ReadOptions {
    let mut read = ReadOptions::default();
    if let Bound::Included(start) = ends.start() {
        read.set_iterate_lower_bound(start);
    }
    match ends.end() {
        Bound::Excluded(end) => read.set_iterate_upper_bound(end),
        // The bound is exclusive: the next string above the last key.
        Bound::Included(last) => read.set_iterate_upper_bound([last, &[0]].concat()),
        Bound::Unbounded => {}
    }
    read
}

/// Gives the rows of an iterator that has its bounds.
pub fn walk<D: DBAccess>(
    mut rows: DBRawIteratorWithThreadMode<'_, D>,
    direction: Direction,
    row: &mut OnRow<'_>,
) -> Result<()> {
    match direction {
        Direction::Forward => rows.seek_to_first(),
        Direction::Reverse => rows.seek_to_last(),
    }
    while let Some((key, value)) = rows.item() {
        if row(Seen { partition: b"", key, value }).is_break() {
            return Ok(());
        }
        match direction {
            Direction::Forward => rows.next(),
            Direction::Reverse => rows.prev(),
        }
    }
    Ok(rows.status()?)
}

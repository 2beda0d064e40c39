//! Tabulith through its embedded API.

use crate::engine::{
    Change, Direction, Engine, Key, OnRow, Pending, Promise, Revise, Rows, Seen, Span,
};
use crate::settings::{MERGE_THREADS, Settings};
use anyhow::{Context as _, Result};
use std::path::Path;
use std::time::Duration;
use tabulith::embedded::cursor::Cursor;
use tabulith::{Advanced, Compression, Db, Durability, If, Kind, Options, Table};

/// How blocks are kept and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Compressed, read through the block cache: the defaults.
    Cached,
    /// The same without compression.
    Raw,
    /// Uncompressed, table files read in place.
    Mapped,
}

/// What an engine's name says.
pub fn mode_of(engine: &str) -> Mode {
    match engine {
        "ours-raw" => Mode::Raw,
        "ours-mapped" => Mode::Mapped,
        _ => Mode::Cached,
    }
}

const TABLE: &str = "rows";

struct Ours {
    db: Db,
    table: Table,
}

/// Opens or makes the database in `dir`.
pub fn open(dir: &Path, settings: &Settings, mode: Mode) -> Result<Box<dyn Engine>> {
    let db = open_db(dir, settings, mode)?;
    let table = db.table(TABLE)?;
    Ok(Box::new(Ours { db, table }))
}

/// The database alone, for what the other engines do not have.
pub fn open_db(dir: &Path, settings: &Settings, mode: Mode) -> Result<Db> {
    let durability = match settings.promise {
        Promise::Durable => Durability::Synced,
        Promise::Unsynced => Durability::Flushed,
    };
    let advanced = Advanced {
        block_cache_bytes: Some(settings.cache_bytes),
        memtable_bytes: Some(settings.memtable_bytes),
        // As large as a memtable, which is the default of both; smaller runs scale both.
        wal_segment_bytes: settings.memtable_bytes,
        compression: if mode == Mode::Cached { Compression::LZ4 } else { Compression::NONE },
        mapped: mode == Mode::Mapped,
        ..Advanced::default()
    };
    let threads = Some(MERGE_THREADS);
    let options = Options { durability, threads, advanced, ..Options::default() };
    Ok(Db::builder().options(options).open(dir)?)
}

impl Ours {
    fn ingest_rows(&self, rows: &mut dyn Rows) -> Result<()> {
        let mut ingest = self.table.ingest()?;
        while rows.next(&mut |key, value| Ok(ingest.add(key.partition(), key.row(), value)?))? {}
        ingest.finish()?;
        Ok(())
    }
}

impl Engine for Ours {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        match changes {
            [] => {}
            [Change::Put(key, value)] => {
                self.table.upsert(key.partition(), key.row(), value)?;
            }
            [Change::Delete(key)] => {
                self.table.delete(key.partition(), key.row(), If::Any)?;
            }
            [Change::Put(first, _) | Change::Delete(first), ..] => {
                let mut batch = self.table.partition(first.partition()).batch();
                for change in changes {
                    batch = match change {
                        Change::Put(key, value) => batch.upsert(key.row(), value),
                        Change::Delete(key) => batch.delete(key.row()),
                    };
                }
                batch.commit()?;
            }
        }
        Ok(())
    }

    fn begin(&self, change: Change<'_>) -> Option<Result<Pending>> {
        let ticket = match change {
            Change::Put(key, value) => {
                let batch = self.table.partition(key.partition()).batch();
                batch.upsert(key.row(), value).commit_async()
            }
            Change::Delete(key) => {
                let batch = self.table.partition(key.partition()).batch();
                batch.delete(key.row()).commit_async()
            }
        };
        Some(Ok(Box::new(move || ticket.wait().map(drop).map_err(Into::into))))
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let row = self.table.get(key.partition(), key.row())?;
        Ok(row.map(|row| found(&row.value)).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        fn pair(key: Key<'_>) -> (&[u8], &[u8]) {
            (key.partition(), key.row())
        }
        let rows = match (span, direction) {
            (Span::All, _) => self.table.cursor::<&[u8], &[u8]>(..)?,
            (Span::Partition(partition), _) => {
                self.table.partition(partition).cursor::<&[u8]>(..)?
            }
            (Span::From(key), Direction::Forward) => self.table.cursor(pair(key)..)?,
            (Span::From(key), Direction::Reverse) => self.table.cursor(..=pair(key))?,
        };
        walk(rows, direction, row)
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        let row = self.table.get(key.partition(), key.row())?.context("no row")?;
        let mut value = Vec::new();
        revise(&row.value, &mut value);
        match self.table.replace(key.partition(), key.row(), value, If::Match(row.ts)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == Kind::Changed => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn settle(&self) -> Result<Duration> {
        self.db.flush()?;
        self.db.settle()?;
        Ok(Duration::ZERO)
    }

    fn compact(&self) -> Result<bool> {
        self.db.compact()?;
        Ok(true)
    }

    fn held_back(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.db.stats().stalls.background_us()))
    }

    fn ingest(&self, rows: &mut dyn Rows) -> Option<Result<()>> {
        Some(self.ingest_rows(rows))
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        self.table.drop_partition(partition)?;
        Ok("drop_partition")
    }

    fn drop_table(&self) -> Result<&'static str> {
        self.db.drop_table(TABLE)?;
        Ok("drop_table")
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

fn walk(mut rows: Cursor, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
    loop {
        let next = match direction {
            Direction::Forward => rows.next()?,
            Direction::Reverse => rows.prev()?,
        };
        let Some(found) = next else { return Ok(()) };
        let (partition, key) = (found.partition_key, found.row_key);
        if row(Seen { partition, key, value: found.value()? }).is_break() {
            return Ok(());
        }
    }
}

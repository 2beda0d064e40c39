//! redb: a copy-on-write B+tree in one file, one writer.

use crate::engine::{self, Change, Direction, Engine, Key, OnRow, Promise, Revise, Seen, Span};
use crate::settings::{REDB_SYNC_EVERY, Settings};
use anyhow::{Context as _, Result};
use redb::{
    Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition,
    WriteTransaction,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

struct Redb {
    db: Database,
    promise: Promise,
    commits: AtomicU64,
}

/// Opens or makes the database in `dir`.
pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let mut builder = Database::builder();
    builder.set_cache_size(settings.cache_bytes);
    let db = builder.create(dir.join("rows.redb"))?;
    let txn = db.begin_write()?;
    txn.open_table(ROWS)?;
    txn.commit()?;
    Ok(Box::new(Redb { db, promise: settings.promise, commits: AtomicU64::new(0) }))
}

impl Redb {
    fn begin(&self) -> Result<WriteTransaction> {
        let mut txn = self.db.begin_write()?;
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        if self.promise == Promise::Unsynced && !number.is_multiple_of(REDB_SYNC_EVERY) {
            txn.set_durability(Durability::None)?;
        }
        Ok(txn)
    }
}

impl Engine for Redb {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        let txn = self.begin()?;
        {
            let mut rows = txn.open_table(ROWS)?;
            for change in changes {
                match change {
                    Change::Put(key, value) => drop(rows.insert(key.whole, *value)?),
                    Change::Delete(key) => drop(rows.remove(key.whole)?),
                }
            }
        }
        Ok(txn.commit()?)
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let rows = self.db.begin_read()?.open_table(ROWS)?;
        let value = rows.get(key.whole)?;
        Ok(value.map(|value| found(value.value())).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        let rows = self.db.begin_read()?.open_table(ROWS)?;
        let ends = span.ends(direction);
        let mut found = rows.range::<&[u8]>(ends.range())?;
        loop {
            let next = match direction {
                Direction::Forward => found.next(),
                Direction::Reverse => found.next_back(),
            };
            let Some(next) = next else { return Ok(()) };
            let (key, value) = next?;
            if row(Seen { partition: b"", key: key.value(), value: value.value() }).is_break() {
                return Ok(());
            }
        }
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        // One writer at a time: nobody else can change the row meanwhile.
        let txn = self.begin()?;
        {
            let mut rows = txn.open_table(ROWS)?;
            let mut value = Vec::new();
            revise(rows.get(key.whole)?.context("no row")?.value(), &mut value);
            rows.insert(key.whole, value.as_slice())?;
        }
        txn.commit()?;
        Ok(true)
    }

    fn settle(&self) -> Result<Duration> {
        self.db.begin_write()?.commit()?; // Durable, with all that came before.
        Ok(Duration::ZERO)
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        let (start, end) = engine::partition_ends(partition);
        let txn = self.begin()?;
        txn.open_table(ROWS)?.retain_in(start.as_slice()..end.as_slice(), |_, _| false)?;
        txn.commit()?;
        Ok("retain_in, row by row")
    }

    fn drop_table(&self) -> Result<&'static str> {
        let txn = self.begin()?;
        txn.delete_table(ROWS)?;
        txn.commit()?;
        Ok("delete_table")
    }
}

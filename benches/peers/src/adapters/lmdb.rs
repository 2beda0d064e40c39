//! LMDB through heed: a memory-mapped B+tree, one writer, readers in place.

use crate::engine::{Change, Direction, Engine, Key, OnRow, Promise, Revise, Rows, Seen, Span};
use crate::settings::{LMDB_MAP_BYTES, Settings};
use anyhow::{Context as _, Result};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags, WithTls};
use std::path::Path;
use std::time::Duration;

struct Lmdb {
    env: Env<WithTls>,
    rows: Database<'static, Bytes, Bytes>,
}

/// Opens or makes the database in `dir`.
pub fn open(dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(LMDB_MAP_BYTES).max_dbs(1).max_readers(128);
    // SAFETY: the flags are those that LMDB documents for unsynced writes; nobody but this process
    // opens or changes the file while it is mapped.
    let env = unsafe {
        if settings.promise == Promise::Unsynced {
            options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC);
        }
        options.open(dir)
    };
    let env = env.context("opening LMDB")?;
    let made = env.create_databases_and_commit(env.write_txn()?, |opener, txn| {
        let made = opener.create_database::<Bytes, Bytes>(txn, Some("rows"));
        made.map(CommitOrAbort::<_, ()>::Commit)
    });
    let rows = made?.unwrap_commit();
    Ok(Box::new(Lmdb { env, rows }))
}

impl Engine for Lmdb {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        for change in changes {
            match change {
                Change::Put(key, value) => self.rows.put(&mut txn, key.whole, value)?,
                Change::Delete(key) => drop(self.rows.delete(&mut txn, key.whole)?),
            }
        }
        Ok(txn.commit()?)
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let txn = self.env.read_txn()?;
        let value = self.rows.get(&txn, key.whole)?;
        Ok(value.map(found).is_some())
    }

    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()> {
        let txn = self.env.read_txn()?;
        let ends = span.ends(direction);
        match direction {
            Direction::Forward => walk(self.rows.range(&txn, &ends.range())?, row),
            Direction::Reverse => walk(self.rows.rev_range(&txn, &ends.range())?, row),
        }
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        // One writer at a time: nobody else can change the row meanwhile.
        let mut txn = self.env.write_txn()?;
        let mut value = Vec::new();
        revise(self.rows.get(&txn, key.whole)?.context("no row")?, &mut value);
        self.rows.put(&mut txn, key.whole, &value)?;
        txn.commit()?;
        Ok(true)
    }

    fn settle(&self) -> Result<Duration> {
        self.env.force_sync()?;
        Ok(Duration::ZERO)
    }

    fn ingest(&self, rows: &mut dyn Rows) -> Option<Result<()>> {
        Some(self.append(rows))
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        let ends = Span::Partition(partition).ends(Direction::Forward);
        let mut txn = self.env.write_txn()?;
        self.rows.delete_range(&mut txn, &ends.range())?;
        txn.commit()?;
        Ok("delete_range, row by row")
    }

    fn drop_table(&self) -> Result<&'static str> {
        let mut txn = self.env.write_txn()?;
        self.rows.clear(&mut txn)?;
        txn.commit()?;
        Ok("mdb_drop")
    }
}

impl Lmdb {
    fn append(&self, rows: &mut dyn Rows) -> Result<()> {
        let mut txn = self.env.write_txn()?;
        let mut put = |key: Key<'_>, value: &[u8]| {
            Ok(self.rows.put_with_flags(&mut txn, PutFlags::APPEND, key.whole, value)?)
        };
        while rows.next(&mut put)? {}
        Ok(txn.commit()?)
    }
}

fn walk<'t>(
    rows: impl Iterator<Item = heed::Result<(&'t [u8], &'t [u8])>>,
    row: &mut OnRow<'_>,
) -> Result<()> {
    for found in rows {
        let (key, value) = found?;
        if row(Seen { partition: b"", key, value }).is_break() {
            break;
        }
    }
    Ok(())
}

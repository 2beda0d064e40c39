//! [`Db`] as the row storage that the table layer asks for: point reads, updates of one partition
//! under its latch, snapshots and scans.

use crate::batch::Batch;
use crate::commit::pipeline::Ticket;
use crate::db::{Db, Inner, Writer};
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::iter::tree::{self, Scan};
use crate::key::range::KeyRange;
use crate::key::{hash, order};
use crate::limits::{COMMIT_BYTES_MAX, COMMIT_ROWS_MAX, KEY_PART_BYTES_MAX, VALUE_BYTES_MAX};
use crate::options::{Durability, Reach};
use crate::rows::{CommitTicket, PartitionUpdate, Row, RowCursor, RowSnapshot, RowStore};
use crate::view::View;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

impl RowStore for Db {
    fn get(&self, table: TableId, pk: &[u8], rk: &[u8], reach: Reach) -> Result<Option<Row>> {
        let tables = self.inner.tree.tables.load();
        if !tables.is_live(table) && !tables.is_readable_at(table, self.inner.visible()) {
            return Err(no_such_table());
        }
        let (key, prefix_len) = encode(table, pk, rk);
        self.inner.get(None, &key, prefix_len, reach)
    }

    fn snapshot(&self) -> Result<Box<dyn RowSnapshot>> {
        let at = self.inner.tree.snapshots.acquire(|| self.inner.visible());
        Ok(Box::new(DbSnapshot { inner: Arc::clone(&self.inner), at }))
    }

    fn update(
        &self,
        table: TableId,
        pk: &[u8],
        durability: Option<Durability>,
        work: &mut dyn FnMut(&mut dyn PartitionUpdate) -> Result<()>,
    ) -> Result<Box<dyn CommitTicket>> {
        let inner = &*self.inner;
        let writer = inner.writer()?;
        check_key_part("PartitionKey", pk)?;
        inner.admit(writer)?;
        let prefix = order::partition_prefix(table, pk);
        let latch = inner.latches.lock(hash::of_partition(&prefix));
        inner.check_writable(writer, table)?;
        let mut partition = Partition::new(inner, prefix);
        work(&mut partition)?;
        let batch = partition.into_batch()?;
        let bytes = batch.bytes();
        let ts = match batch.is_empty() {
            true => writer.pipeline.applied(),
            false => inner.commit(writer, batch, inner.durability(durability))?,
        };
        drop(latch);
        inner.slow_down(bytes);
        Ok(Box::new(Ticket { pipeline: Arc::clone(&writer.pipeline), ts }))
    }
}

fn encode(table: TableId, pk: &[u8], rk: &[u8]) -> (Vec<u8>, usize) {
    let mut key = Vec::with_capacity(pk.len() + rk.len() + 8);
    order::put_partition(&mut key, table, pk);
    let prefix_len = key.len();
    key.extend_from_slice(rk);
    (key, prefix_len)
}

fn check_key_part(which: &str, part: &[u8]) -> Result<()> {
    if part.len() <= KEY_PART_BYTES_MAX {
        return Ok(());
    }
    let len = part.len();
    Err(Error::invalid(format!(
        "{which} has {len} bytes; at most {KEY_PART_BYTES_MAX} are allowed"
    )))
}

/// One partition while an update works on it, its latch held.
struct Partition<'a> {
    inner: &'a Inner,
    prefix: Vec<u8>,
    key: Vec<u8>,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>, // None: deleted.
}

impl<'a> Partition<'a> {
    fn new(inner: &'a Inner, prefix: Vec<u8>) -> Partition<'a> {
        Partition { inner, key: prefix.clone(), prefix, writes: BTreeMap::new() }
    }

    fn into_batch(self) -> Result<Batch> {
        let mut batch = Batch::new(self.prefix);
        for (rk, value) in &self.writes {
            match value {
                Some(value) => batch.put(rk, value),
                None => batch.delete(rk),
            }
        }
        if batch.count() > COMMIT_ROWS_MAX || batch.bytes() > COMMIT_BYTES_MAX {
            let (rows, bytes) = (batch.count(), batch.bytes());
            return Err(Error::invalid(format!(
                "a commit of {rows} rows and {bytes} bytes is too large; \
                 at most {COMMIT_ROWS_MAX} rows and {COMMIT_BYTES_MAX} bytes are allowed"
            )));
        }
        Ok(batch)
    }

    fn stored(&mut self, rk: &[u8]) -> Result<Option<Row>> {
        self.key.truncate(self.prefix.len());
        self.key.extend_from_slice(rk);
        // Above every timestamp: all that is applied, durable yet or not.
        self.inner.get(Some(CommitTs::MAX), &self.key, self.prefix.len(), Reach::Disk)
    }
}

impl PartitionUpdate for Partition<'_> {
    fn get(&mut self, rk: &[u8]) -> Result<Option<Row>> {
        let own = self.writes.get(rk).map(|value| value.as_deref().map(Bytes::copy_from_slice));
        match own {
            Some(value) => Ok(value.map(|value| Row { ts: CommitTs::ZERO, value })),
            None => self.stored(rk),
        }
    }

    fn put(&mut self, rk: &[u8], value: &[u8]) -> Result<()> {
        check_key_part("RowKey", rk)?;
        if value.len() > VALUE_BYTES_MAX {
            let len = value.len();
            return Err(Error::invalid(format!(
                "a value has {len} bytes; at most {VALUE_BYTES_MAX} are allowed"
            )));
        }
        self.writes.insert(rk.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, rk: &[u8]) -> Result<()> {
        check_key_part("RowKey", rk)?;
        match self.stored(rk)? {
            Some(_) => self.writes.insert(rk.to_vec(), None),
            None => self.writes.remove(rk),
        };
        Ok(())
    }
}

/// What was visible at one moment.
struct DbSnapshot {
    inner: Arc<Inner>,
    at: CommitTs,
}

impl RowSnapshot for DbSnapshot {
    fn at(&self) -> CommitTs {
        self.at
    }

    fn get(&self, table: TableId, pk: &[u8], rk: &[u8]) -> Result<Option<Row>> {
        if !self.inner.tree.tables.load().is_readable_at(table, self.at) {
            return Err(no_such_table());
        }
        let (key, prefix_len) = encode(table, pk, rk);
        self.inner.get(Some(self.at), &key, prefix_len, Reach::Disk)
    }

    fn scan(&self, range: KeyRange) -> Result<Box<dyn RowCursor>> {
        let table = order::table_of(&range.start);
        let tables = self.inner.tree.tables.load();
        if !table.is_some_and(|table| tables.is_readable_at(table, self.at)) {
            return Err(no_such_table());
        }
        let view = self.inner.tree.view_full();
        let scan = tree::scan(&view, range, self.at)?;
        Ok(Box::new(DbCursor { scan, _view: view }))
    }
}

impl Drop for DbSnapshot {
    fn drop(&mut self) {
        self.inner.tree.snapshots.release(self.at);
    }
}

/// A scan, and the View that keeps its files from being deleted.
struct DbCursor {
    scan: Scan,
    _view: Arc<View>,
}

impl RowCursor for DbCursor {
    fn next(&mut self) -> Result<bool> {
        self.scan.next()
    }

    fn prev(&mut self) -> Result<bool> {
        self.scan.prev()
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.scan.seek(key)
    }

    fn key(&self) -> &[u8] {
        self.scan.key()
    }

    fn ts(&self) -> CommitTs {
        self.scan.ts()
    }

    fn value(&mut self) -> Result<Bytes> {
        self.scan.value()
    }
}

impl Inner {
    fn check_writable(&self, writer: &Writer, table: TableId) -> Result<()> {
        let tables = self.tree.tables.load();
        if table != TableId::CATALOG && tables.is_live(table) {
            return Ok(());
        }
        if tables.is_readable_at(table, self.visible()) {
            writer.pipeline.wait(tables.changed())?; // A crash may yet undo the drop.
        }
        Err(no_such_table())
    }
}

fn no_such_table() -> Error {
    Error::new(Kind::NotFound, "the table does not exist")
}

//! What the table layer needs of storage, and no more: rows of bytes under a table's number, read
//! at a snapshot, changed atomically within one partition. The engine stands behind it today; a
//! distributed store can stand behind it later.
//!
//! Promise: for those who call these traits that of the whole crate; none for those who implement
//! them, for whom any minor version may add methods, with a default where there can be one.

use crate::error::Result;
use crate::ids::{CommitTs, TableId};
use crate::key::range::KeyRange;
use crate::options::{Durability, Reach};
use crate::zone::{Extract, ZoneScan};
use bytes::Bytes;
use std::ops::Bound;
use std::sync::Arc;

/// One stored row, without its key.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The commit that wrote it.
    pub ts: CommitTs,
    /// The time from which on it is gone, where it was written with one. A time to live of its
    /// table may end it before.
    pub expires: Option<CommitTs>,
    /// Its bytes.
    pub value: Bytes,
}

impl Row {
    /// A row that stays, for those who implement [`RowStore`].
    pub fn new(ts: CommitTs, value: Bytes) -> Row {
        Row { ts, expires: None, value }
    }

    /// The row with that expiry, or with none.
    #[must_use]
    pub fn with_expiry(self, expires: Option<CommitTs>) -> Row {
        Row { expires, ..self }
    }

    /// As whoever writes it reads it before its commit.
    pub(crate) fn own(value: &[u8], expires: Option<CommitTs>) -> Row {
        Row { ts: CommitTs::ZERO, expires, value: Bytes::copy_from_slice(value) }
    }
}

/// PartitionKey and RowKey.
pub type KeyPair<'a> = (&'a [u8], &'a [u8]);

/// Rows in clustered order, changed atomically within a partition.
pub trait RowStore: Send + Sync + 'static {
    /// The row as of now, if there is one.
    ///
    /// Cost: a lookup in memory; on a miss one filter probe per level and one block read.
    fn get(&self, table: TableId, pk: &[u8], rk: &[u8], reach: Reach) -> Result<Option<Row>>;

    /// The rows under many pairs of (PartitionKey, RowKey), in the order asked for.
    ///
    /// Cost: less than as many gets where the store can wait for several misses of memory at once.
    fn get_many(
        &self,
        table: TableId,
        keys: &[KeyPair<'_>],
        reach: Reach,
    ) -> Result<Vec<Option<Row>>> {
        keys.iter().map(|(pk, rk)| self.get(table, pk, rk, reach)).collect()
    }

    /// Keeps zones of the columns that `extract` finds in rows written to files from now on. The
    /// first call counts, and whoever makes a table of entities makes one: for values that it does
    /// not know, entities among them, `extract` has to say so. A store that knows no zones does
    /// nothing.
    fn track(&self, _extract: Arc<dyn Extract>) {}

    /// All that was visible at one moment, for as long as the snapshot lives.
    fn snapshot(&self) -> Result<Box<dyn RowSnapshot>>;

    /// All that was visible at a moment of the past, tables dropped since included.
    ///
    /// Errors: `Invalid` where `at` lies before what is kept, or is not past yet.
    fn snapshot_at(&self, at: CommitTs) -> Result<Box<dyn RowSnapshot>>;

    /// The newest commit that is visible; before the first one, the time of the opening where that
    /// is later than all commits. Waits for nobody.
    fn newest(&self) -> CommitTs;

    /// The moments of which [`RowStore::snapshot_at`] gives a snapshot now: from the first, which
    /// rises as time passes, to before the second.
    fn moments_kept(&self) -> (CommitTs, CommitTs);

    /// Changes one partition: runs `work` alone on the partition, against everything applied so
    /// far, then commits what it wrote as one commit; nothing where `work` fails.
    ///
    /// `durability`: what this commit needs where that is less than the store's own. `reach`: with
    /// [`Reach::Memory`] an update that would have to wait, for the disk, for somebody at work on
    /// the partition or for what others have written, does nothing and is
    /// [`Kind::WouldBlock`](crate::error::Kind::WouldBlock). The returned ticket is not yet
    /// durable. A `work` that wrote nothing gives a ticket that is done as soon as what it read is
    /// durable.
    ///
    /// `work` must not write to the store in another way, change its catalogue or close it: it
    /// holds what those wait for.
    fn update(
        &self,
        table: TableId,
        pk: &[u8],
        durability: Option<Durability>,
        reach: Reach,
        work: &mut dyn FnMut(&mut dyn PartitionUpdate) -> Result<()>,
    ) -> Result<Box<dyn CommitTicket>>;

    /// Removes all rows of a table by one record, as one commit; the table stays. `durability` and
    /// the ticket are those of [`RowStore::update`].
    ///
    /// Cost: waits for the updates under way, of whatever table, and holds up others meanwhile;
    /// nothing depends on how many rows there are.
    fn truncate(
        &self,
        table: TableId,
        durability: Option<Durability>,
    ) -> Result<Box<dyn CommitTicket>>;
}

/// One partition during [`RowStore::update`].
pub trait PartitionUpdate {
    /// The row as applied so far, this update's own writes included; those have the timestamp 0.
    fn get(&mut self, rk: &[u8]) -> Result<Option<Row>>;

    /// The commit that wrote that row, if there is one.
    ///
    /// Cost: no read of its value, where the store keeps that apart.
    fn written(&mut self, rk: &[u8]) -> Result<Option<CommitTs>> {
        Ok(self.get(rk)?.map(|row| row.ts))
    }

    /// Writes a row.
    fn put(&mut self, rk: &[u8], value: &[u8]) -> Result<()>;

    /// Writes a row that is gone, as if it had been deleted, for reads from the time `expires` on:
    /// ticks of 100 ns since 1970. The row that it replaces does not come back.
    fn put_until(&mut self, rk: &[u8], value: &[u8], expires: CommitTs) -> Result<()>;

    /// Removes a row; nothing where there is none.
    fn delete(&mut self, rk: &[u8]) -> Result<()>;

    /// Removes the rows whose RowKey lies between the bounds, this update's own writes so far
    /// included; what it writes later stays.
    ///
    /// Cost: looks for up to 64 rows; where there are more, one record whatever their number.
    fn delete_range(&mut self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()>;
}

/// A commit that has its place in the order and waits to become as safe as it asked for.
pub trait CommitTicket: Send {
    /// The commit's timestamp; for an update that wrote nothing, that of the newest commit.
    fn ts(&self) -> CommitTs;

    /// Whether waiting would return at once.
    fn is_done(&self) -> bool;

    /// Returns once the commit is as safe as it asked for and visible to every later read. The
    /// caller's thread may do the disk's work for all who wait.
    fn wait(self: Box<Self>) -> Result<()>;

    /// Has the commit made safe soon though nobody waits for it; returns at once. For many commits
    /// under way from one thread: they share syncs that run while the thread goes on.
    fn urge(&self);

    /// Calls `done` with what [`CommitTicket::wait`] would return, from another thread or from
    /// this one where it is done already. `done` must not block.
    fn notify(self: Box<Self>, done: Box<dyn FnOnce(Result<()>) + Send>);
}

/// Rows as of one moment.
pub trait RowSnapshot: Send + Sync {
    /// The newest commit it shows.
    fn at(&self) -> CommitTs;

    /// The table that had that name then, dropped since or not.
    fn find_table(&self, name: &str) -> Result<Option<TableInfo>>;

    /// The tables of then, as [`Catalog::tables`] lists those of now.
    fn tables(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<TableInfo>>;

    /// The row, if there was one.
    fn get(&self, table: TableId, pk: &[u8], rk: &[u8]) -> Result<Option<Row>>;

    /// The rows under many pairs of (PartitionKey, RowKey), in the order asked for.
    fn get_many(&self, table: TableId, keys: &[KeyPair<'_>]) -> Result<Vec<Option<Row>>> {
        keys.iter().map(|(pk, rk)| self.get(table, pk, rk)).collect()
    }

    /// A cursor over the rows of `range`, not yet on any. `range` lies in one table.
    fn scan(&self, range: KeyRange) -> Result<Box<dyn RowCursor>>;

    /// The same for a caller who drops the rows that do not pass a filter: the cursor may leave out
    /// such rows, as many as zones rule out, and shows all others.
    fn scan_where(&self, range: KeyRange, _zones: Arc<ZoneScan>) -> Result<Box<dyn RowCursor>> {
        self.scan(range)
    }

    /// How many rows of `range` it shows. `range` lies in one table.
    ///
    /// Cost: less than a scan where the store knows how many rows its blocks have.
    fn count(&self, range: KeyRange) -> Result<u64> {
        let (mut cursor, mut rows) = (self.scan(range)?, 0);
        while cursor.next()? {
            rows += 1;
        }
        Ok(rows)
    }
}

/// A position among the rows of a range, as of a snapshot. Starts before the first row and after
/// the last: the first `next` gives the first row, the first `prev` the last one.
pub trait RowCursor: Send {
    /// Goes to the next row; false where the range ends.
    fn next(&mut self) -> Result<bool>;

    /// Goes to the row before; false where the range begins.
    fn prev(&mut self) -> Result<bool>;

    /// Goes to the first row of the range at or after the encoded `key`
    /// ([`order`](crate::key::order)); false where there is none. This is how a scan skips from
    /// partition to partition.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;

    /// The encoded key here.
    fn key(&self) -> &[u8];

    /// The commit that wrote the row here.
    fn ts(&self) -> CommitTs;

    /// The time from which on the row here is gone, where it was written with one; `None` in a
    /// store whose rows stay.
    ///
    /// A cursor over another one passes this on. Cost: nothing for a row that stays; else that of
    /// [`RowCursor::value_ref`], without the reads of a value that the store keeps apart.
    fn expires(&self) -> Result<Option<CommitTs>> {
        Ok(None)
    }

    /// From here on a move up may stop on a row that nobody sees, once it has passed so many of
    /// them, or of ranges that were erased. Such a row is ruled out. Without this a move passes as
    /// many as there are.
    fn stop_after(&mut self, _hidden: usize) {}

    /// Whether the row is known not to pass the filter of the scan, so that its bytes need not be
    /// asked for. False where that is not known.
    fn is_ruled_out(&self) -> bool {
        false
    }

    /// Passes the rows after the one here that are `unwanted`, given a row's commit and its bytes,
    /// as far as they are at hand, `rows_max` at most; stands on the last of them and returns how
    /// many. Rows that are ruled out are passed unasked. It may stop before the first one that is
    /// wanted: then, too, [`RowCursor::next`] goes on from here.
    ///
    /// Cost: a fraction of as many moves.
    fn pass_over(
        &mut self,
        _rows_max: usize,
        _unwanted: &mut dyn FnMut(CommitTs, &[u8]) -> bool,
    ) -> usize {
        0
    }

    /// The row's bytes, to be kept: may hold on to a whole block of them.
    fn value(&mut self) -> Result<Bytes>;

    /// The row's bytes, borrowed until the next move.
    fn value_ref(&self) -> Result<&[u8]>;
}

/// Tables by name.
pub trait Catalog: Send + Sync + 'static {
    /// Makes a table and returns once it is durable. `note`: text or bytes of the caller's, kept
    /// with it. [`Kind::Exists`](crate::error::Kind::Exists) where the name is taken.
    fn create_table(&self, name: &str, note: &[u8]) -> Result<TableInfo>;

    /// The table of that name, if there is one. Cost: a lookup in memory.
    fn find_table(&self, name: &str) -> Result<Option<TableInfo>>;

    /// Drops a table and all its rows in one record; false where there is none. Its rows are gone
    /// for every read that begins later; their space comes back with compaction.
    fn drop_table(&self, name: &str) -> Result<bool>;

    /// At most `limit` tables whose name starts with `prefix` and lies after `after`, by name.
    fn tables(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<TableInfo>>;
}

/// A table of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its number, never given to another table.
    pub id: TableId,
    /// Its name: any text of 1 to [`TABLE_NAME_BYTES_MAX`](crate::limits::TABLE_NAME_BYTES_MAX)
    /// bytes.
    pub name: String,
    /// What the caller keeps with it.
    pub note: Bytes,
    /// The commit that made it.
    pub created: CommitTs,
}

//! [`Db`] as the row storage that the table layer asks for: point reads, updates of one partition
//! under its latch, snapshots and scans.

use crate::batch::Batch;
use crate::catalog::no_such_table;
use crate::checks::check_key_part;
use crate::commit::pipeline::would_wait;
use crate::commit::ticket::Ticket;
use crate::db::{Db, Inner, Writer};
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::iter::count;
use crate::iter::split;
use crate::key::list::KeyList;
use crate::key::range::KeyRange;
use crate::key::{hash, order};
use crate::moment::{Moment, When};
use crate::options::{Durability, Reach};
use crate::rows::{
    CommitTicket, KeyPair, PartitionUpdate, Row, RowCursor, RowSnapshot, RowStore, TableInfo,
};
use crate::scan::{DbCursor, Pin};
use crate::update::{Update, scan_applied};
use crate::zone::{Extract, ZoneScan};
use std::cell::Cell;
use std::sync::Arc;

impl RowStore for Db {
    fn get(&self, table: TableId, pk: &[u8], rk: &[u8], reach: Reach) -> Result<Option<Row>> {
        let row = with_key(table, pk, rk, |key| self.inner.get(When::Now, key, reach));
        self.inner.check_readable(table)?;
        row
    }

    /// All rows are as of one moment.
    fn get_many(
        &self,
        table: TableId,
        keys: &[KeyPair<'_>],
        reach: Reach,
    ) -> Result<Vec<Option<Row>>> {
        let rows = self.inner.get_many(When::Now, &KeyList::new(table, keys), reach);
        self.inner.check_readable(table)?;
        rows
    }

    fn snapshot(&self) -> Result<Box<dyn RowSnapshot>> {
        Ok(Box::new(DbSnapshot::now(self)))
    }

    fn snapshot_at(&self, at: CommitTs) -> Result<Box<dyn RowSnapshot>> {
        Ok(Box::new(DbSnapshot::past(self, at)?))
    }

    fn newest(&self) -> CommitTs {
        self.visible()
    }

    fn moments_kept(&self) -> (CommitTs, CommitTs) {
        (self.inner.tree.snapshots.floor(), self.inner.past_ends())
    }

    fn track(&self, extract: Arc<dyn Extract>) {
        // The first one counts.
        let _ = self.inner.tree.shelf.extract.set(extract);
    }

    fn update(
        &self,
        table: TableId,
        pk: &[u8],
        durability: Option<Durability>,
        reach: Reach,
        work: &mut dyn FnMut(&mut dyn PartitionUpdate) -> Result<()>,
    ) -> Result<Box<dyn CommitTicket>> {
        let inner = &*self.inner;
        check_key_part("PartitionKey", pk)?;
        let prefix = order::partition_prefix(table, pk);
        let ts = inner.update(table, &prefix, durability, reach, |_| {
            let mut partition = Update::new(inner, prefix.clone(), reach);
            work(&mut partition)?;
            partition.into_batch()
        })?;
        Ok(Box::new(Ticket::new(&inner.writer()?.pipeline, ts)))
    }

    fn truncate(
        &self,
        table: TableId,
        durability: Option<Durability>,
    ) -> Result<Box<dyn CommitTicket>> {
        let inner = &*self.inner;
        let writer = inner.writer()?;
        writer.admit()?;
        let latches = inner.latches.lock_all();
        if inner.check_writable(writer, table, Reach::Memory).is_err() {
            drop(latches); // Nobody else waits for the sync of a drop.
            inner.check_writable(writer, table, Reach::Disk)?;
            return Err(no_such_table(table));
        }
        // A commit names a partition, if only that of the empty PartitionKey.
        let mut batch = Batch::new(order::partition_prefix(table, b""));
        if inner.may_have_rows(table)? {
            batch.erase_table(table);
        }
        let ts = inner.commit_or_follow(writer, batch, durability, Reach::Disk)?;
        drop(latches);
        inner.after_erasing(writer);
        Ok(Box::new(Ticket::new(&writer.pipeline, ts)))
    }
}

thread_local! {
    static KEY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Runs `work` with the encoded key, which is built in memory that the thread keeps: a get
/// allocates nothing but what it returns.
fn with_key<T>(table: TableId, pk: &[u8], rk: &[u8], work: impl FnOnce(&[u8]) -> T) -> T {
    // A thread that ends has nothing kept any more, and may still read in what it drops.
    let mut key = KEY.try_with(Cell::take).unwrap_or_default();
    key.clear();
    order::put_partition(&mut key, table, pk);
    key.extend_from_slice(rk);
    let result = work(&key);
    let _ = KEY.try_with(|kept| kept.set(key));
    result
}

/// What was visible at one moment.
#[derive(Clone)]
pub(crate) struct DbSnapshot {
    pin: Arc<Pin>,
}

impl DbSnapshot {
    /// All that is visible now.
    pub(crate) fn now(db: &Db) -> DbSnapshot {
        DbSnapshot { pin: Pin::now(&db.inner) }
    }

    /// All that was visible at a moment of the past: [`Pin::past`].
    pub(crate) fn past(db: &Db, at: CommitTs) -> Result<DbSnapshot> {
        Ok(DbSnapshot { pin: Pin::past(&db.inner, at)? })
    }

    /// The table of that name, as it was.
    pub(crate) fn table(&self, name: &str) -> Option<TableInfo> {
        self.pin.inner.tree.tables.load().find_at(name, self.pin.moment.at).cloned()
    }

    /// The database.
    pub(crate) fn db(&self) -> Db {
        Db { inner: Arc::clone(&self.pin.inner) }
    }

    /// Whether it is of `db`.
    pub(crate) fn is_of(&self, db: &Db) -> bool {
        Arc::ptr_eq(&self.pin.inner, &db.inner)
    }

    /// A cursor over the rows of `range`, not yet on any.
    pub(crate) fn cursor(&self, range: KeyRange) -> Result<DbCursor> {
        self.cursor_where(range, None)
    }

    fn cursor_where(&self, range: KeyRange, zones: Option<Arc<ZoneScan>>) -> Result<DbCursor> {
        self.check_table_of(&range)?;
        DbCursor::open_where(&self.pin, range, zones)
    }

    fn check_table_of(&self, range: &KeyRange) -> Result<()> {
        let none = || Error::new(Kind::NotFound, "the range is of no table");
        self.check_table(order::table_of(&range.start).ok_or_else(none)?)
    }

    fn check_table(&self, table: TableId) -> Result<()> {
        self.pin.inner.tree.check_readable_at(table, self.pin.moment.at)
    }

    /// Bytes of table and blob files that the rows of `range` take, about: see
    /// [`Version::bytes_between`](crate::version::files::Version::bytes_between).
    pub(crate) fn bytes_on_disk(&self, range: &KeyRange) -> Result<u64> {
        self.check_table_of(range)?;
        self.pin.inner.tree.view_full().version.bytes_between(range)
    }

    /// Cursors over parts of `range`, at most `parts`, cut between partitions.
    pub(crate) fn split(&self, range: KeyRange, parts: usize) -> Result<Vec<DbCursor>> {
        let view = self.pin.inner.tree.view_full();
        let ranges = split::split(&view, &range, parts)?;
        ranges.into_iter().map(|range| self.cursor(range)).collect()
    }
}

impl RowSnapshot for DbSnapshot {
    fn at(&self) -> CommitTs {
        self.pin.moment.at
    }

    fn find_table(&self, name: &str) -> Result<Option<TableInfo>> {
        Ok(self.table(name))
    }

    fn tables(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<TableInfo>> {
        let tables = self.pin.inner.tree.tables.load();
        Ok(tables.list_at(prefix, after, limit, self.pin.moment.at))
    }

    fn get(&self, table: TableId, pk: &[u8], rk: &[u8]) -> Result<Option<Row>> {
        self.check_table(table)?;
        let Pin { inner, moment } = &*self.pin;
        with_key(table, pk, rk, |key| inner.get(When::At(*moment), key, Reach::Disk))
    }

    fn get_many(&self, table: TableId, keys: &[KeyPair<'_>]) -> Result<Vec<Option<Row>>> {
        self.check_table(table)?;
        let Pin { inner, moment } = &*self.pin;
        inner.get_many(When::At(*moment), &KeyList::new(table, keys), Reach::Disk)
    }

    fn scan(&self, range: KeyRange) -> Result<Box<dyn RowCursor>> {
        Ok(Box::new(self.cursor(range)?))
    }

    fn scan_where(&self, range: KeyRange, zones: Arc<ZoneScan>) -> Result<Box<dyn RowCursor>> {
        Ok(Box::new(self.cursor_where(range, Some(zones))?))
    }

    fn count(&self, range: KeyRange) -> Result<u64> {
        self.check_table_of(&range)?;
        let view = self.pin.inner.tree.view_full();
        let Moment { at, now } = self.pin.moment;
        let outlived_to = self.pin.inner.outlived_to(&range.start, at, Some(now));
        count::count(&view, &range, self.pin.moment, outlived_to)
    }
}

impl Inner {
    /// Commits what `work` makes, alone on the partition of `prefix`. `work` gets a timestamp not
    /// below that of the partition's last commit since the database was opened. Gives the commit,
    /// or for an empty batch the newest that is applied.
    pub(crate) fn update(
        &self,
        table: TableId,
        prefix: &[u8],
        durability: Option<Durability>,
        reach: Reach,
        work: impl FnOnce(CommitTs) -> Result<Batch>,
    ) -> Result<CommitTs> {
        let writer = self.writer()?;
        let hash = hash::of_partition(prefix);
        let mut last_commit = match reach {
            Reach::Disk => {
                writer.admit()?;
                self.latches.lock(hash, &*self.clock)
            }
            Reach::Memory if !writer.takes_at_once() => return Err(would_wait()),
            Reach::Memory => self.latches.try_lock(hash).ok_or_else(would_wait)?,
        };
        self.check_writable(writer, table, reach)?;
        let batch = work(*last_commit)?;
        let (bytes, erases, is_empty) = (batch.bytes(), batch.erases(), batch.is_empty());
        let ts = self.commit_or_follow(writer, batch, durability, reach)?;
        if !is_empty {
            *last_commit = ts;
        }
        drop(last_commit);
        if erases {
            self.after_erasing(writer);
        }
        if reach == Reach::Disk {
            writer.pacing.slow_down(bytes);
        }
        Ok(ts)
    }

    /// Commits `batch`; where that is empty, gives the newest applied commit. Whoever waits for it
    /// trusts what it has read as `durability` says, so behind a weaker commit, whichever it was,
    /// an empty one takes a place and is refused like any other.
    fn commit_or_follow(
        &self,
        writer: &Writer,
        batch: Batch,
        durability: Option<Durability>,
        reach: Reach,
    ) -> Result<CommitTs> {
        let durability = self.durability(durability);
        self.check_settled()?;
        if batch.is_empty()
            && let Some(applied) = writer.pipeline.applied_as_safe_as(durability, reach)?
        {
            return Ok(applied);
        }
        self.commit(writer, batch, durability, reach)
    }

    /// Whether a table may have rows that are applied, expired ones too. Cost: bounded, however
    /// many were deleted.
    fn may_have_rows(&self, table: TableId) -> Result<bool> {
        let view = self.tree.view_full();
        scan_applied(&view, KeyRange::table(table))?.next()
    }

    /// Sees to it that the space of what was erased comes back soon where it is much: files go once
    /// the erasure is on disk, so the memtable that has it is sealed at once.
    pub(crate) fn after_erasing(&self, writer: &Writer) {
        if self.tree.erasures_free_files() {
            self.tree.seal_now(&writer.pipeline);
        }
        writer.work.poke();
    }

    /// Fails for a table that readers see no more. Asked once a row was looked for: it may have
    /// gone with its table meanwhile, and a table that is there then was there at the time or had
    /// no row yet.
    fn check_readable(&self, table: TableId) -> Result<()> {
        match self.tree.is_live(table) {
            true => Ok(()),
            false => self.tree.check_readable_at(table, self.visible()),
        }
    }

    pub(crate) fn check_writable(
        &self,
        writer: &Writer,
        table: TableId,
        reach: Reach,
    ) -> Result<()> {
        if table != TableId::CATALOG && self.tree.is_live(table) {
            return Ok(());
        }
        let tables = self.tree.tables.load();
        if tables.is_readable_at(table, self.visible()) {
            // A crash may yet undo the drop.
            match reach {
                Reach::Memory => return Err(would_wait()),
                Reach::Disk => writer.pipeline.wait(tables.changed())?,
            }
        }
        Err(no_such_table(table))
    }
}

//! Tables of byte rows: get, insert, replace, upsert, delete, batches within one partition,
//! snapshots.

use crate::db::{Db, Inner};
use crate::embedded::cursor::Cursor;
use crate::embedded::scan::{self, Scan};
use crate::embedded::ticket::Ticket;
use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::ingest::Ingest;
use crate::key::range::KeyRange;
use crate::moment::Moment;
use crate::options::{Durability, Reach};
use crate::rows::{
    Catalog, CommitTicket, KeyPair, PartitionUpdate, Row, RowSnapshot, RowStore, TableInfo,
};
use crate::storage::DbSnapshot;
use crate::transaction::Transaction;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

/// Attempts of [`Partition::transact`]. One of those who meet always commits, so this many
/// failures in a row need a thousand other commits.
const ATTEMPTS_MAX: usize = 1000;

/// What a row must be like for a change to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum If {
    /// Anything, or nothing.
    Any,
    /// It must not exist.
    Absent,
    /// It must exist.
    Present,
    /// It must be as this commit left it.
    Match(CommitTs),
}

impl If {
    fn check(self, row: Option<&Row>) -> Result<()> {
        match (self, row) {
            (If::Any, _) | (If::Absent, None) | (If::Present, Some(_)) => Ok(()),
            (If::Absent, Some(_)) => Err(Error::new(Kind::Exists, "the row exists")),
            (If::Match(ts), Some(row)) if row.ts == ts => Ok(()),
            (If::Match(_), Some(row)) => Err(Error::changed(Some(row.ts))),
            (_, None) => Err(Error::new(Kind::NotFound, "the row does not exist")),
        }
    }
}

impl Db {
    /// The table of byte rows called `name`, made where there is none.
    ///
    /// Cost: a lookup in memory; making one is a durable commit.
    pub fn table(&self, name: &str) -> Result<Table> {
        let found = match self.find_table(name)? {
            Some(info) => Ok(info),
            None => self.create_table(name, b""),
        };
        let info = match found {
            Err(error) if error.kind() == Kind::Exists => self.find_table(name)?.ok_or(error)?,
            found => found?,
        };
        Ok(Table { db: self.clone(), info: Arc::new(info) })
    }

    /// Drops a table with all its rows in one record; false where there is none. Snapshots taken
    /// before still read it.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        Catalog::drop_table(self, name)
    }

    /// The same as [`Table::ingest`].
    pub fn ingest(&self, table: &Table) -> Result<Ingest> {
        Ingest::new(self, table.info.id)
    }

    /// All that is visible now, across tables, for as long as the snapshot lives.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot { rows: DbSnapshot::now(self) })
    }

    /// All that was visible at a moment of the past, tables dropped since included. `at` is a
    /// commit's timestamp or any other: ticks of 100 ns since 1970.
    ///
    /// Moments younger than [`Options::history`](crate::Options::history) are kept. A window that is
    /// widened at an opening does not bring back what was given up before.
    ///
    /// Errors: `Invalid` where `at` lies before what is kept, or after what is visible.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let hour = std::time::Duration::from_secs(3600);
    /// let db = tabulith::Db::builder().history(hour).open(folder.path())?;
    /// let table = db.table("prices")?;
    /// let before = table.upsert("fruit", "apple", "3")?;
    /// table.upsert("fruit", "apple", "4")?;
    /// let row = db.snapshot_at(before)?.get(&table, "fruit", "apple")?;
    /// assert_eq!(row.unwrap().value, "3");
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot_at(&self, at: CommitTs) -> Result<Snapshot> {
        Ok(Snapshot { rows: DbSnapshot::past(self, at)? })
    }
}

/// A handle on a table of byte rows.
#[derive(Clone, Debug)]
pub struct Table {
    db: Db,
    info: Arc<TableInfo>,
}

impl Table {
    /// The table's name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// The row under the two keys, if there is one.
    pub fn get(&self, pk: impl AsRef<[u8]>, rk: impl AsRef<[u8]>) -> Result<Option<Row>> {
        RowStore::get(&self.db, self.info.id, pk.as_ref(), rk.as_ref(), Reach::Disk)
    }

    /// The row under the two keys as of a moment of the past, if there was one:
    /// [`Db::snapshot_at`].
    pub fn get_at(
        &self,
        at: CommitTs,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
    ) -> Result<Option<Row>> {
        self.db.snapshot_at(at)?.get(self, pk, rk)
    }

    /// The rows under many pairs of (PartitionKey, RowKey), in the order asked for, all as of one
    /// moment. Costs less than as many gets: misses of memory are waited for together.
    pub fn get_many<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        keys: &[(P, R)],
    ) -> Result<Vec<Option<Row>>> {
        RowStore::get_many(&self.db, self.info.id, &key_pairs(keys), Reach::Disk)
    }

    /// Adds a row; [`Kind::Exists`] where there is one.
    pub fn insert(
        &self,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<CommitTs> {
        self.change(pk.as_ref(), rk.as_ref(), value.as_ref(), What::Put(If::Absent))
    }

    /// Replaces a row that is as `condition` says.
    pub fn replace(
        &self,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        condition: If,
    ) -> Result<CommitTs> {
        self.change(pk.as_ref(), rk.as_ref(), value.as_ref(), What::Put(condition))
    }

    /// Adds or replaces a row.
    pub fn upsert(
        &self,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<CommitTs> {
        self.change(pk.as_ref(), rk.as_ref(), value.as_ref(), What::Put(If::Any))
    }

    /// Removes a row that is as `condition` says.
    pub fn delete(
        &self,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
        condition: If,
    ) -> Result<CommitTs> {
        self.change(pk.as_ref(), rk.as_ref(), &[], What::Delete(condition))
    }

    /// One change, without a batch: its value is copied once less.
    fn change(&self, pk: &[u8], rk: &[u8], value: &[u8], what: What) -> Result<CommitTs> {
        commit(decide(self, pk, None, &mut |rows| what.apply(rk, value, rows)))
    }

    /// Removes all rows of the table in one record; the table stays. Snapshots taken before still
    /// read them.
    ///
    /// Cost: nothing depends on how many rows there are; other writers wait for a moment. The space
    /// comes back with compaction, that of whole files without reading them.
    pub fn truncate(&self) -> Result<CommitTs> {
        let ticket = self.db.truncate(self.info.id, None)?;
        let ts = ticket.ts();
        ticket.wait().map(|()| ts)
    }

    /// Removes all rows of a partition in one record: [`Partition::drop_rows`].
    pub fn drop_partition(&self, pk: impl AsRef<[u8]>) -> Result<CommitTs> {
        self.partition(pk).drop_rows()
    }

    /// Rewrites the files that hold rows between two pairs of (PartitionKey, RowKey), without what
    /// is outdated or deleted: [`Db::compact_range`].
    pub fn compact<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<()> {
        self.db.compact_range(&self.range(&range))
    }

    /// Rows in key order straight into table files, seen all at once at its end: several times
    /// as fast as batches. See [`Ingest`].
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::new(&self.db, self.info.id)
    }

    /// Sets how long rows live, counted from the commit that wrote them; `None` for ever, as at first.
    /// A row that has outlived it is gone, as if it had been deleted, for every read and condition,
    /// also where it was written before the setting; compaction gives back its space, that of whole
    /// files unread. A setting is kept with the table, holds from this call's return on, and may be
    /// changed at any time; what was gone stays gone. Snapshots taken before go by what was then.
    ///
    /// Cost: one commit; none where the setting is as it was, so a program may ask for it whenever it
    /// starts. Changes of one's own for a single row: [`Batch::upsert_until`].
    ///
    /// Errors: `Invalid` for a time of less than 100 ns; `NotFound` where the table was dropped;
    /// otherwise as [`Batch::commit`].
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// let events = db.table("events")?;
    /// events.set_ttl(Some(std::time::Duration::from_secs(30 * 24 * 3600)))?;
    /// # assert_eq!(events.ttl().unwrap().as_secs(), 2_592_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_ttl(&self, ttl: Option<Duration>) -> Result<()> {
        self.db.set_ttl(&self.info, ttl)
    }

    /// Declares up to eight columns of which every table file written from now on keeps zones, so that a
    /// scan with a filter on one of them passes over blocks unread; an empty list declares none. Columns
    /// that are not declared are chosen by what the rows have, as far as eight leave room. What columns
    /// a row has is known for entities, [`Entities::set_zone_columns`](crate::Entities::set_zone_columns),
    /// and where a program tells it by [`RowStore::track`].
    ///
    /// Files that are there get such zones when a merge writes them anew. Cost: one commit; none where
    /// they are declared already. The setting is kept with the table.
    ///
    /// Errors: `Invalid` for more than eight, for one that comes twice, and for a name that has no byte
    /// or more than 1,024; `NotFound` where the table was dropped; otherwise as [`Batch::commit`].
    pub fn set_zone_columns(&self, columns: &[&str]) -> Result<()> {
        self.db.set_zone_columns(&self.info, columns)
    }

    /// The columns that are declared: [`Table::set_zone_columns`].
    pub fn zone_columns(&self) -> Vec<String> {
        self.db.zone_columns(self.info.id)
    }

    /// How long rows live: [`Table::set_ttl`].
    pub fn ttl(&self) -> Option<Duration> {
        self.db.ttl(self.info.id)
    }

    /// One partition of the table.
    pub fn partition(&self, pk: impl AsRef<[u8]>) -> Partition {
        Partition { table: self.clone(), pk: pk.as_ref().to_vec() }
    }

    /// The rows between two pairs of (PartitionKey, RowKey), as of now, from either end.
    pub fn scan<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<Scan> {
        self.db.snapshot()?.scan(self, range)
    }

    /// The same as a cursor that lends its rows: the cheapest way to read many.
    pub fn cursor<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<Cursor> {
        self.db.snapshot()?.cursor(self, range)
    }

    /// How many rows there are, as of now: exactly, and mostly without reading them.
    ///
    /// Cost: where compaction has settled the table, a step for each of its files; no row is read.
    /// What was written since and lies above the deepest level is read (a tenth of the table at
    /// most, as levels grow tenfold), and below it a block for each row that it replaces or removes.
    /// A [`Snapshot`] that is older than the last compaction reads the keys of what that wrote.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// let orders = db.table("orders")?;
    /// orders.partition("tenant-7").batch().insert("0001", "").insert("0002", "").commit()?;
    /// orders.insert("tenant-8", "0001", "")?;
    /// assert_eq!((orders.count()?, orders.partition("tenant-7").count()?), (3, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(&self) -> Result<u64> {
        self.db.snapshot()?.rows.count(self.all())
    }

    /// How many rows lie between two pairs of (PartitionKey, RowKey), as of now: [`Table::count`].
    pub fn count_range<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<u64> {
        self.db.snapshot()?.count(self, range)
    }

    /// Bytes that the table takes on the disk, about: those of its blocks in table files, with their
    /// share of index and filters, and of values in blob files. Versions that compaction has not
    /// reclaimed yet are among them, what is only in log and memtable is not. Where a file has rows
    /// of other tables too, its large values are shared out by the bytes of the blocks.
    ///
    /// Cost: a step per file; reads no row.
    pub fn bytes_on_disk(&self) -> Result<u64> {
        self.db.snapshot()?.rows.bytes_on_disk(&self.all())
    }

    pub(super) fn snapshot(&self) -> Result<Snapshot> {
        self.db.snapshot()
    }

    /// The keys of all its rows.
    pub(super) fn all(&self) -> KeyRange {
        KeyRange::table(self.info.id)
    }

    fn range<P: AsRef<[u8]>, R: AsRef<[u8]>>(&self, range: &impl RangeBounds<(P, R)>) -> KeyRange {
        let from = range.start_bound().map(|(pk, rk)| (pk.as_ref(), rk.as_ref()));
        let to = range.end_bound().map(|(pk, rk)| (pk.as_ref(), rk.as_ref()));
        KeyRange::between(self.info.id, from, to)
    }
}

/// A handle on one partition: what changes together.
#[derive(Clone, Debug)]
pub struct Partition {
    table: Table,
    pk: Vec<u8>,
}

impl Partition {
    /// Its PartitionKey.
    pub fn key(&self) -> &[u8] {
        &self.pk
    }

    /// The row under `rk`, if there is one.
    pub fn get(&self, rk: impl AsRef<[u8]>) -> Result<Option<Row>> {
        self.table.get(&self.pk, rk)
    }

    /// Its rows between two RowKeys, as of now, from either end.
    pub fn scan<R: AsRef<[u8]>>(&self, range: impl RangeBounds<R>) -> Result<Scan> {
        self.table.db.snapshot()?.scan_partition(self, range)
    }

    /// The same as a cursor that lends its rows: the cheapest way to read many.
    pub fn cursor<R: AsRef<[u8]>>(&self, range: impl RangeBounds<R>) -> Result<Cursor> {
        self.table.db.snapshot()?.cursor_partition(self, range)
    }

    /// How many rows it has, as of now: exactly, and mostly without reading them. [`Table::count`]
    /// says at which cost; the blocks in which the partition begins and ends are read.
    pub fn count(&self) -> Result<u64> {
        self.count_range::<&[u8]>(..)
    }

    /// How many of its rows lie between two RowKeys, as of now.
    pub fn count_range<R: AsRef<[u8]>>(&self, range: impl RangeBounds<R>) -> Result<u64> {
        self.table.db.snapshot()?.count_partition(self, range)
    }

    /// Bytes that it takes on the disk, about: [`Table::bytes_on_disk`]. To within a block for each
    /// level.
    pub fn bytes_on_disk(&self) -> Result<u64> {
        let range = self.range::<&[u8]>(&(..));
        self.table.db.snapshot()?.rows.bytes_on_disk(&range)
    }

    /// Removes all its rows in one record. Snapshots taken before still read them.
    ///
    /// Cost: nothing depends on how many rows there are. The space comes back with compaction, that
    /// of whole files without reading them.
    pub fn drop_rows(&self) -> Result<CommitTs> {
        self.batch().delete_range::<&[u8]>(..).commit()
    }

    fn range<R: AsRef<[u8]>>(&self, range: &impl RangeBounds<R>) -> KeyRange {
        let (from, to) = (range.start_bound(), range.end_bound());
        KeyRange::rows(self.table.info.id, &self.pk, from.map(R::as_ref), to.map(R::as_ref))
    }

    /// Begins a transaction that reads what is visible now. Other transactions and batches go on
    /// meanwhile; where one of them changes what this one read, its commit fails with
    /// [`Kind::Changed`], and so it does where such a change was under way already. For many
    /// threads on one partition use [`Partition::transact`].
    pub fn begin(&self) -> Result<Transaction> {
        self.table.db.transaction(self.table.info.id, &self.pk)
    }

    /// Runs `work` in a transaction and commits it, again and again until nothing that it read has
    /// changed meanwhile; returns once the commit is safe. Where `work` fails, so does this, once
    /// what it read is safe, and nothing is written.
    ///
    /// It reads what is applied, safe or not, so that transactions of one partition need not wait
    /// for the disk one after the other. What `work` sees counts only once this has returned: it
    /// should change nothing outside.
    ///
    /// Errors: those of `work`; `Changed` after a thousand attempts; otherwise as
    /// [`Batch::commit`].
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// # let accounts = db.table("accounts")?;
    /// # accounts.upsert("bank", "ann", 70u64.to_be_bytes())?;
    /// # accounts.upsert("bank", "bob", 5u64.to_be_bytes())?;
    /// let amount = 30;
    /// let moved = accounts.partition("bank").transact(|tx| {
    ///     let balance = |row: Option<tabulith::Row>| {
    ///         row.and_then(|row| row.value.as_ref().try_into().ok()).map_or(0, u64::from_be_bytes)
    ///     };
    ///     let (ann, bob) = (balance(tx.get("ann")?), balance(tx.get("bob")?));
    ///     if ann < amount {
    ///         return Ok(false);
    ///     }
    ///     tx.put("ann", (ann - amount).to_be_bytes())?;
    ///     tx.put("bob", (bob + amount).to_be_bytes())?;
    ///     Ok(true)
    /// })?;
    /// assert!(moved);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact<T>(&self, mut work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let table = &self.table;
        for _ in 1..ATTEMPTS_MAX {
            if let Some(done) = self.attempt(table, &mut work)? {
                return Ok(done);
            }
            std::thread::yield_now();
        }
        Err(Error::new(Kind::Changed, format!("others were faster {ATTEMPTS_MAX} times")))
    }

    /// `None`: what `work` read has changed.
    fn attempt<T>(
        &self,
        table: &Table,
        work: &mut impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<Option<T>> {
        let applied = |inner: &Inner| {
            let at = inner.applied();
            Moment { at, now: inner.tree.time(at) }
        };
        let mut transaction = Transaction::begin(&table.db, table.info.id, &self.pk, applied)?;
        let outcome = match work(&mut transaction) {
            Ok(outcome) => outcome,
            Err(error) => {
                transaction.ticket(transaction.at())?.wait()?;
                return Err(error);
            }
        };
        match transaction.decide(None) {
            Ok((_, ticket)) => ticket.wait().map(|()| Some(outcome)),
            Err(error) if error.kind() == Kind::Changed => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes of this partition that happen together or not at all. A batch cannot name another
    /// partition.
    pub fn batch(&self) -> Batch {
        Batch {
            partition: self.clone(),
            bytes: Vec::new(),
            operations: Vec::new(),
            durability: None,
        }
    }
}

/// Changes of one partition, in order; later ones see earlier ones.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `commit`"]
pub struct Batch {
    partition: Partition,
    bytes: Vec<u8>, // RowKey and value of each operation, one after the other.
    operations: Vec<Operation>,
    durability: Option<Durability>,
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    rk_bytes: usize,
    value_bytes: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Put(If),
    PutUntil(If, CommitTs),
    Delete(If),
    /// RowKey and value are the bounds, as far as they are there.
    DeleteRange(Bound<()>, Bound<()>),
}

impl What {
    fn apply(&self, rk: &[u8], value: &[u8], rows: &mut dyn PartitionUpdate) -> Result<()> {
        if let What::Put(condition) | What::PutUntil(condition, _) | What::Delete(condition) = self
            && *condition != If::Any
        {
            condition.check(rows.get(rk)?.as_ref())?;
        }
        match self {
            What::Put(_) => rows.put(rk, value),
            What::PutUntil(_, expires) => rows.put_until(rk, value, *expires),
            What::Delete(_) => rows.delete(rk),
            What::DeleteRange(from, to) => rows.delete_range(from.map(|()| rk), to.map(|()| value)),
        }
    }
}

impl Batch {
    /// Adds a row; the batch fails where there is one.
    pub fn insert(self, rk: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Batch {
        self.put_if(rk, value, If::Absent)
    }

    /// Adds or replaces a row.
    pub fn upsert(self, rk: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Batch {
        self.put_if(rk, value, If::Any)
    }

    /// Writes a row if the one there is as `condition` says.
    pub fn put_if(mut self, rk: impl AsRef<[u8]>, value: impl AsRef<[u8]>, condition: If) -> Batch {
        self.push(rk.as_ref(), value.as_ref(), What::Put(condition));
        self
    }

    /// Adds or replaces a row that is gone, as if it had been deleted, for reads from the time
    /// `expires` on; its space comes back with compaction. What it replaces does not come back. Times
    /// are ticks of 100 ns since 1970: `db.time().after(span)`.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// let sessions = db.table("sessions")?.partition("users");
    /// let hour = std::time::Duration::from_secs(3600);
    /// sessions.batch().upsert_until("ann", "token", db.time().after(hour)).commit()?;
    /// assert!(sessions.get("ann")?.is_some());
    /// sessions.batch().upsert_until("ann", "token", db.time()).commit()?;
    /// assert!(sessions.get("ann")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn upsert_until(
        self,
        rk: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: CommitTs,
    ) -> Batch {
        self.put_until_if(rk, value, expires, If::Any)
    }

    /// The same if the row there is as `condition` says; one that has expired is absent.
    pub fn put_until_if(
        mut self,
        rk: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: CommitTs,
        condition: If,
    ) -> Batch {
        self.push(rk.as_ref(), value.as_ref(), What::PutUntil(condition, expires));
        self
    }

    /// Removes a row, if there is one.
    pub fn delete(self, rk: impl AsRef<[u8]>) -> Batch {
        self.delete_if(rk, If::Any)
    }

    /// Removes a row if it is as `condition` says.
    pub fn delete_if(mut self, rk: impl AsRef<[u8]>, condition: If) -> Batch {
        self.push(rk.as_ref(), &[], What::Delete(condition));
        self
    }

    /// Removes the rows between two RowKeys, those included that this batch has written so far; what
    /// it writes later stays.
    ///
    /// Cost: one record, however many rows there are; their space comes back with compaction.
    pub fn delete_range<R: AsRef<[u8]>>(mut self, range: impl RangeBounds<R>) -> Batch {
        let (from, to) = (range.start_bound(), range.end_bound());
        let key = |bound: Bound<&R>| match bound {
            Bound::Included(rk) | Bound::Excluded(rk) => rk.as_ref().to_vec(),
            Bound::Unbounded => Vec::new(),
        };
        let what = What::DeleteRange(from.map(|_| ()), to.map(|_| ()));
        self.push(&key(from), &key(to), what);
        self
    }

    fn push(&mut self, rk: &[u8], value: &[u8], what: What) {
        self.bytes.extend_from_slice(rk);
        self.bytes.extend_from_slice(value);
        self.operations.push(Operation { rk_bytes: rk.len(), value_bytes: value.len(), what });
    }

    fn apply(&self, rows: &mut dyn PartitionUpdate) -> Result<()> {
        let mut rest = self.bytes.as_slice();
        for Operation { rk_bytes, value_bytes, what } in &self.operations {
            let (rk, behind) = rest.split_at(*rk_bytes);
            let (value, behind) = behind.split_at(*value_bytes);
            rest = behind;
            what.apply(rk, value, rows)?;
        }
        Ok(())
    }

    /// Asks for less than the database promises, for this batch alone; it cannot ask for more. It
    /// becomes visible in its place in the order: behind a synced commit, after that one's sync.
    pub fn durability(mut self, durability: Durability) -> Batch {
        self.durability = Some(durability);
        self
    }

    /// Commits the changes and returns once they are as safe as the database promises.
    ///
    /// Errors: `Exists`, `NotFound` or `Changed` of the first condition that does not hold, and
    /// then nothing has changed; `Invalid` for a key or value that is too long; `Busy`; `Closed`;
    /// after `Io` and `NoSpace` the outcome is known only after the next open.
    pub fn commit(self) -> Result<CommitTs> {
        commit(self.decide())
    }

    /// Decides and applies the changes and returns at once: they are safe and visible when the
    /// ticket is done, and fail there as [`Batch::commit`] does. Many tickets of one thread share
    /// syncs, which run while the thread goes on.
    ///
    /// Batches that follow see these changes in their conditions, in whichever partition they are.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// let log = db.table("log")?;
    /// let tickets: Vec<_> = (0..100u32)
    ///     .map(|n| log.partition("day 1").batch().insert(n.to_be_bytes(), "line").commit_async())
    ///     .collect();
    /// for ticket in tickets {
    ///     ticket.wait()?; // Or `.await`, or `notify(callback)`.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit_async(self) -> Ticket {
        match self.decide() {
            Ok((ts, ticket)) => Ticket::new(Ok(ts), Some(ticket)),
            Err((error, read)) => Ticket::new(Err(error), read),
        }
    }

    fn decide(self) -> Decided {
        let Partition { table, pk } = &self.partition;
        decide(table, pk, self.durability, &mut |rows| self.apply(rows))
    }
}

/// What was applied, with its ticket; or why nothing was, with what is to be waited for before that
/// is told.
type Decided = Result<(CommitTs, Box<dyn CommitTicket>), (Error, Option<Box<dyn CommitTicket>>)>;

/// Applies changes of one partition. An error comes with what is to be waited for before it is told:
/// the row that refused may not be durable yet, and what a crash can still take away is not told.
fn decide(
    table: &Table,
    pk: &[u8],
    durability: Option<Durability>,
    changes: &mut dyn FnMut(&mut dyn PartitionUpdate) -> Result<()>,
) -> Decided {
    let (db, id) = (&table.db, table.info.id);
    match db.update(id, pk, durability, changes) {
        Ok(ticket) => Ok((ticket.ts(), ticket)),
        // An update that writes nothing waits for all that it could read.
        Err(error) if is_condition(&error) => match db.update(id, pk, None, &mut |_| Ok(())) {
            Ok(read) => Err((error, Some(read))),
            Err(closed) => Err((closed, None)),
        },
        Err(error) => Err((error, None)),
    }
}

/// Waits until what was decided is as safe as was asked for.
fn commit(decided: Decided) -> Result<CommitTs> {
    match decided {
        Ok((ts, ticket)) => ticket.wait().map(|()| ts),
        Err((error, None)) => Err(error),
        Err((error, Some(read))) => read.wait().and(Err(error)),
    }
}

fn is_condition(error: &Error) -> bool {
    matches!(error.kind(), Kind::Exists | Kind::NotFound | Kind::Changed)
}

/// All that was visible at one moment. Keeps outdated rows from being reclaimed while it lives.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) rows: DbSnapshot,
}

impl Snapshot {
    /// The newest commit that it shows.
    pub fn at(&self) -> CommitTs {
        self.rows.at()
    }

    /// The table that had that name then, to be read by this snapshot; dropped since or not.
    pub fn table(&self, name: &str) -> Option<Table> {
        let info = Arc::new(self.rows.find_table(name)?);
        Some(Table { db: self.rows.db(), info })
    }

    /// The row under the two keys, if there was one.
    pub fn get(
        &self,
        table: &Table,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
    ) -> Result<Option<Row>> {
        self.rows.get(table.info.id, pk.as_ref(), rk.as_ref())
    }

    /// The rows under many pairs of (PartitionKey, RowKey), in the order asked for.
    pub fn get_many<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: &[(P, R)],
    ) -> Result<Vec<Option<Row>>> {
        self.rows.get_many(table.info.id, &key_pairs(keys))
    }

    /// The rows of `table` between two pairs of (PartitionKey, RowKey), from either end.
    pub fn scan<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        table: &Table,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<Scan> {
        scan::open(self.rows.clone(), table.range(&range))
    }

    /// The rows of `partition` between two RowKeys, from either end.
    pub fn scan_partition<R: AsRef<[u8]>>(
        &self,
        partition: &Partition,
        range: impl RangeBounds<R>,
    ) -> Result<Scan> {
        scan::open(self.rows.clone(), partition.range(&range))
    }

    /// A cursor over the rows of `table` between two pairs of (PartitionKey, RowKey).
    pub fn cursor<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        table: &Table,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<Cursor> {
        self.rows.cursor(table.range(&range)).map(Cursor::new)
    }

    /// A cursor over the rows of `partition` between two RowKeys.
    pub fn cursor_partition<R: AsRef<[u8]>>(
        &self,
        partition: &Partition,
        range: impl RangeBounds<R>,
    ) -> Result<Cursor> {
        self.rows.cursor(partition.range(&range)).map(Cursor::new)
    }

    /// How many rows of `table` lie between two pairs of (PartitionKey, RowKey): [`Table::count`].
    pub fn count<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        table: &Table,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<u64> {
        self.rows.count(table.range(&range))
    }

    /// How many rows of `partition` lie between two RowKeys.
    pub fn count_partition<R: AsRef<[u8]>>(
        &self,
        partition: &Partition,
        range: impl RangeBounds<R>,
    ) -> Result<u64> {
        self.rows.count(partition.range(&range))
    }
}

fn key_pairs<P: AsRef<[u8]>, R: AsRef<[u8]>>(keys: &[(P, R)]) -> Vec<KeyPair<'_>> {
    keys.iter().map(|(pk, rk)| (pk.as_ref(), rk.as_ref())).collect()
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.at())
    }
}

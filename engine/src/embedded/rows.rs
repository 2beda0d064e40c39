//! Tables of byte rows and their partitions: get, insert, replace, upsert, delete, scans, counts.

use crate::catalog;
use crate::db::{Db, Inner};
use crate::embedded::batch::{Batch, What};
use crate::embedded::cursor::Cursor;
use crate::embedded::decide::{self, If};
use crate::embedded::scan::{self, Scan};
use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::ingest::Ingest;
use crate::key::range::KeyRange;
use crate::options::Reach;
use crate::rows::{Catalog, KeyPair, Row, RowSnapshot, RowStore, TableInfo};
use crate::storage::DbSnapshot;
use crate::table::name::is_reserved;
use crate::transaction::Transaction;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

/// Attempts of [`Partition::transact`]. One of those who meet always commits, so this many
/// failures in a row need a thousand other commits.
const ATTEMPTS_MAX: usize = 1000;

impl Db {
    /// The table of byte rows called `name`, made where there is none.
    ///
    /// Cost: a lookup in memory; making one is a durable commit.
    ///
    /// Errors: `Invalid` for a name of no byte or more than [`TABLE_NAME_BYTES_MAX`], for one with
    /// a `/`, as tables of entities ([`Db::entities`]) have them in the catalogue, and for one that
    /// begins with `$`, as those of their settings do; `NotFound` where there is none and the
    /// database was opened read-only.
    ///
    /// [`TABLE_NAME_BYTES_MAX`]: crate::limits::TABLE_NAME_BYTES_MAX
    pub fn table(&self, name: &str) -> Result<Table> {
        check_name(name)?;
        loop {
            if let Some(table) = self.find(name)? {
                return Ok(table);
            }
            match self.create_table(name, b"") {
                Ok(info) => return Ok(Table { db: self.clone(), info: Arc::new(info) }),
                // Somebody else was quicker, and may have dropped it again.
                Err(error) if error.kind() == Kind::Exists => {}
                Err(error) if error.kind() == Kind::ReadOnly => return Err(Error::no_table(name)),
                Err(error) => return Err(error),
            }
        }
    }

    /// The table called `name`, if there is one. Cost: a lookup in memory. One of entities is found
    /// too, by the name that the catalogue has for it, and its rows as the bytes that they are: for
    /// tools that look at all. [`Db::find_entities`] is for those who write to it.
    ///
    /// Errors: `Invalid` for a name of no byte or too many.
    pub fn find(&self, name: &str) -> Result<Option<Table>> {
        catalog::check_name(name)?;
        let found = self.find_table(name)?;
        Ok(found.map(|info| Table { db: self.clone(), info: Arc::new(info) }))
    }

    /// The names of all tables of byte rows, in order.
    pub fn table_names(&self) -> Result<Vec<String>> {
        let names = self.tables("", None, usize::MAX)?.into_iter().map(|info| info.name);
        Ok(names.filter(|name| !is_reserved(name)).collect())
    }

    /// Drops a table of byte rows with all of them in one record; false where there is none.
    /// Snapshots taken before still read it. Tables of entities: [`Db::drop_entities`].
    ///
    /// Errors: `Invalid` for a name that [`Db::table`] refuses.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        Catalog::drop_table(self, name)
    }
}

/// Refuses a name under which no table of byte rows is.
fn check_name(name: &str) -> Result<()> {
    catalog::check_name(name)?;
    match is_reserved(name) {
        true => Err(Error::invalid("a table of byte rows has no '/' in its name and no '$' first")),
        false => Ok(()),
    }
}

/// A handle on a table of byte rows.
///
/// It is bound to this table, not to its name: once the table is dropped all that it does is
/// [`Kind::NotFound`], also where another one of that name was made.
#[derive(Clone, Debug)]
pub struct Table {
    pub(super) db: Db,
    pub(super) info: Arc<TableInfo>,
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
    /// moment. Costs less than as many gets: misses of memory, and reads of the disk, are waited
    /// for together. Only where the system's cache has all of them, some 8 % more.
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

    /// Writes a row if the one there is as `condition` says, as [`Batch::put_if`] does: with
    /// [`If::Any`] or [`If::Absent`] where there is none, too. A row that must be there to be
    /// replaced is [`If::Present`] or [`If::Match`].
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// use tabulith::{If, Kind};
    /// let orders = db.table("orders")?;
    /// let missing = orders.replace("tenant-7", "0001", "3 apples", If::Present);
    /// assert_eq!(missing.map_err(|error| error.kind()), Err(Kind::NotFound));
    /// let ts = orders.replace("tenant-7", "0001", "3 apples", If::Any)?;
    /// orders.replace("tenant-7", "0001", "4 apples", If::Match(ts))?;
    /// # Ok(())
    /// # }
    /// ```
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

    /// Removes a row that is as `condition` says; with [`If::Any`] it need not be there.
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
        let place = (&self.db, self.info.id, pk);
        decide::commit(decide::decide(place, None, &mut |rows| what.apply(rk, value, rows)))
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
    ///
    /// Errors: `Busy` where other ingests are under way and
    /// [`Options::memory`](crate::Options::memory) has no room for the buffers of one more;
    /// `NotFound` where the table was dropped.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::new(&self.db, self.info.id)
    }

    /// Sets how long rows live, counted from the commit that wrote them; `None` for ever, as at
    /// first. A row that has outlived it is gone, as if it had been deleted, for every read and
    /// condition, also where it was written before the setting; compaction gives back its space,
    /// that of whole files unread. A setting is kept with the table, holds from this call's return
    /// on, and may be changed at any time; what was gone stays gone. Snapshots taken before go by
    /// what was then.
    ///
    /// Cost: one commit; none where the setting is as it was, so a program may ask for it whenever
    /// it starts. Changes of one's own for a single row: [`Batch::upsert_until`].
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

    /// Declares up to eight columns of which every table file written from now on keeps zones, so
    /// that a scan with a filter on one of them passes over blocks unread; an empty list declares
    /// none. Columns that are not declared are chosen by what the rows have, as far as eight leave
    /// room. What columns a row has is known for entities,
    /// [`Entities::set_zone_columns`](crate::Entities::set_zone_columns), and where a program tells
    /// it by [`RowStore::track`].
    ///
    /// Files that are there get such zones when a merge writes them anew. Cost: one commit; none
    /// where they are declared already. The setting is kept with the table.
    ///
    /// Errors: `Invalid` for more than eight, for one that comes twice, and for a name that has no
    /// byte or more than 1,024; `NotFound` where the table was dropped; otherwise as
    /// [`Batch::commit`].
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
        scan::open(self.now(), self.range(&range))
    }

    /// A cursor over the rows between two pairs of keys: it lends its rows, the cheapest way to
    /// read many.
    pub fn cursor<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<Cursor> {
        self.now().cursor(self.range(&range)).map(Cursor::new)
    }

    /// How many rows there are, as of now: exactly, and mostly without reading them.
    ///
    /// Cost: where compaction has settled the table, a step for each of its files; no row is read.
    /// What was written since and lies above the deepest level is read (a tenth of the table at
    /// most, as levels grow tenfold), and below it a block for each row that it replaces or
    /// removes. A snapshot that is older than the last compaction reads the keys of what that
    /// wrote.
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
        self.now().count(self.all())
    }

    /// How many rows lie between two pairs of (PartitionKey, RowKey), as of now: [`Table::count`].
    pub fn count_range<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<u64> {
        self.now().count(self.range(&range))
    }

    /// Bytes that the table takes on the disk, to within a block for each level: those of its
    /// blocks in table files, with their share of index and filters, and of values in blob files.
    /// Versions that compaction has not reclaimed yet are among them, what is only in log and
    /// memtable is not. Where a file has rows of other tables too, its large values are shared out
    /// by the bytes of the blocks.
    ///
    /// Cost: a step per file; reads no row.
    pub fn bytes_on_disk(&self) -> Result<u64> {
        self.now().bytes_on_disk(&self.all())
    }

    /// All that is visible now.
    fn now(&self) -> DbSnapshot {
        DbSnapshot::now(&self.db)
    }

    /// The keys of all its rows.
    pub(super) fn all(&self) -> KeyRange {
        KeyRange::table(self.info.id)
    }

    pub(super) fn range<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        range: &impl RangeBounds<(P, R)>,
    ) -> KeyRange {
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
        scan::open(self.table.now(), self.range(&range))
    }

    /// A cursor over its rows between two RowKeys: it lends its rows, the cheapest way to read
    /// many.
    pub fn cursor<R: AsRef<[u8]>>(&self, range: impl RangeBounds<R>) -> Result<Cursor> {
        self.table.now().cursor(self.range(&range)).map(Cursor::new)
    }

    /// How many rows it has, as of now: exactly, and mostly without reading them. [`Table::count`]
    /// says at which cost; the blocks in which the partition begins and ends are read.
    pub fn count(&self) -> Result<u64> {
        self.count_range::<&[u8]>(..)
    }

    /// How many of its rows lie between two RowKeys, as of now.
    pub fn count_range<R: AsRef<[u8]>>(&self, range: impl RangeBounds<R>) -> Result<u64> {
        self.table.now().count(self.range(&range))
    }

    /// Bytes that it takes on the disk, about: [`Table::bytes_on_disk`]. To within a block for each
    /// level.
    pub fn bytes_on_disk(&self) -> Result<u64> {
        let range = self.range::<&[u8]>(&(..));
        self.table.now().bytes_on_disk(&range)
    }

    /// Removes all its rows, in one record where there are more than 64. Snapshots taken before
    /// still read them.
    ///
    /// Cost: nothing depends on how many rows there are or were: the first 64 are looked for, past
    /// 1,024 keys without a row at a time at most. The space comes back with compaction, that of
    /// whole files without reading them.
    pub fn drop_rows(&self) -> Result<CommitTs> {
        self.batch().delete_range::<&[u8]>(..).commit()
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn range<R: AsRef<[u8]>>(&self, range: &impl RangeBounds<R>) -> KeyRange {
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
        for _ in 0..ATTEMPTS_MAX {
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
        let (db, id) = (&table.db, table.info.id);
        let mut transaction = Transaction::begin(db, id, &self.pk, Inner::readable)?;
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
        Batch::new(self.table.db.clone(), self.table.info.id, self.pk.clone())
    }
}

pub(super) fn key_pairs<P: AsRef<[u8]>, R: AsRef<[u8]>>(keys: &[(P, R)]) -> Vec<KeyPair<'_>> {
    keys.iter().map(|(pk, rk)| (pk.as_ref(), rk.as_ref())).collect()
}

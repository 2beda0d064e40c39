//! Snapshots: all that was visible at one moment, across tables.

use crate::db::Db;
use crate::embedded::cursor::Cursor;
use crate::embedded::rows::{Partition, Table, key_pairs};
use crate::embedded::scan::{self, Scan};
use crate::error::{Error, Result};
use crate::ids::CommitTs;
use crate::rows::{Row, RowSnapshot};
use crate::storage::DbSnapshot;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;

impl Db {
    /// All that is visible now, across tables, for as long as the snapshot lives.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot { rows: DbSnapshot::now(self) })
    }

    /// All that was visible at a moment of the past, tables dropped since included. `at` is a
    /// commit's timestamp or any other: ticks of 100 ns since 1970. That of an hour ago is
    /// `db.time().before(hour)`, that of a moment of the system's clock `CommitTs::from(time)`.
    ///
    /// Moments younger than [`Options::history`](crate::Options::history) are kept. A window that
    /// is widened at an opening does not bring back what was given up before.
    ///
    /// Cost: waits for commits up to `at` that are on their way to the disk. Where `at` is younger
    /// than all that is visible, and was not read before, also for an unsynced one that is just
    /// being written.
    /// Errors: `Invalid` where `at` lies before what is kept, or is not past yet. No moment after a
    /// close ever is: the next start's commits may have it.
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

/// All that was visible at one moment. Keeps outdated rows from being reclaimed while it lives.
///
/// It reads by handles of its own database: one of another, also of the same folder opened again,
/// is `Invalid`.
#[derive(Clone)]
pub struct Snapshot {
    rows: DbSnapshot,
}

impl Snapshot {
    /// The newest commit that it shows.
    pub fn at(&self) -> CommitTs {
        self.rows.at()
    }

    /// The table that had that name then, to be read by this snapshot; dropped since or not. Of
    /// which tables: [`Db::find`](crate::Db::find).
    pub fn table(&self, name: &str) -> Option<Table> {
        let info = Arc::new(self.rows.table(name)?);
        Some(Table { db: self.rows.db(), info })
    }

    /// Its rows, for who asks for those of `table`. Tables are read by their numbers, which each
    /// database gives out for itself.
    pub(super) fn rows_of(&self, table: &Table) -> Result<&DbSnapshot> {
        match self.rows.is_of(&table.db) {
            true => Ok(&self.rows),
            false => Err(Error::invalid(format!("table {} is of another database", table.name()))),
        }
    }

    /// The row under the two keys, if there was one.
    pub fn get(
        &self,
        table: &Table,
        pk: impl AsRef<[u8]>,
        rk: impl AsRef<[u8]>,
    ) -> Result<Option<Row>> {
        self.rows_of(table)?.get(table.info.id, pk.as_ref(), rk.as_ref())
    }

    /// The rows under many pairs of (PartitionKey, RowKey), in the order asked for.
    pub fn get_many<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        table: &Table,
        keys: &[(P, R)],
    ) -> Result<Vec<Option<Row>>> {
        self.rows_of(table)?.get_many(table.info.id, &key_pairs(keys))
    }

    /// The rows of `table` between two pairs of (PartitionKey, RowKey), from either end.
    pub fn scan<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        table: &Table,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<Scan> {
        scan::open(self.rows_of(table)?.clone(), table.range(&range))
    }

    /// The rows of `partition` between two RowKeys, from either end.
    pub fn scan_partition<R: AsRef<[u8]>>(
        &self,
        partition: &Partition,
        range: impl RangeBounds<R>,
    ) -> Result<Scan> {
        scan::open(self.rows_of(partition.table())?.clone(), partition.range(&range))
    }

    /// A cursor over the rows of `table` between two pairs of (PartitionKey, RowKey).
    pub fn cursor<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        table: &Table,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<Cursor> {
        self.rows_of(table)?.cursor(table.range(&range)).map(Cursor::new)
    }

    /// A cursor over the rows of `partition` between two RowKeys.
    pub fn cursor_partition<R: AsRef<[u8]>>(
        &self,
        partition: &Partition,
        range: impl RangeBounds<R>,
    ) -> Result<Cursor> {
        self.rows_of(partition.table())?.cursor(partition.range(&range)).map(Cursor::new)
    }

    /// Makes a database in `dir`, which must be empty or absent, that shows what this snapshot
    /// shows, with every timestamp as it is. Files are shared by hard links, so `dir` must be on
    /// the same disk. It is a database like any other: what has expired by the wall clock is gone
    /// for its readers.
    ///
    /// Cost: one flush and one link per file; files that hold later commits too are written anew
    /// without those. Errors: `Exists` where `dir` is not empty; `ReadOnly` where the database is.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (live, copy) = (folder.path().join("live"), folder.path().join("copy"));
    /// let db = tabulith::Db::open(live)?;
    /// let table = db.table("prices")?;
    /// table.upsert("fruit", "apple", "3")?;
    /// let snapshot = db.snapshot()?;
    /// table.upsert("fruit", "apple", "4")?;
    /// snapshot.export(&copy)?;
    /// let row = tabulith::Db::open(copy)?.table("prices")?.get("fruit", "apple")?;
    /// assert_eq!(row.unwrap().value, "3");
    /// # Ok(())
    /// # }
    /// ```
    pub fn export(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.rows.db().export(self.at(), dir.as_ref())
    }

    /// How many rows of `table` lie between two pairs of (PartitionKey, RowKey): [`Table::count`].
    pub fn count<P: AsRef<[u8]>, R: AsRef<[u8]>>(
        &self,
        table: &Table,
        range: impl RangeBounds<(P, R)>,
    ) -> Result<u64> {
        self.rows_of(table)?.count(table.range(&range))
    }

    /// How many rows of `partition` lie between two RowKeys.
    pub fn count_partition<R: AsRef<[u8]>>(
        &self,
        partition: &Partition,
        range: impl RangeBounds<R>,
    ) -> Result<u64> {
        self.rows_of(partition.table())?.count(partition.range(&range))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.at())
    }
}

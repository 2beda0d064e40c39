//! Batches: changes of one partition that happen together or not at all.

use crate::db::Db;
use crate::embedded::decide::{self, Decided, If};
use crate::embedded::ticket::Ticket;
use crate::error::Result;
use crate::ids::{CommitTs, TableId};
use crate::options::Durability;
use crate::rows::PartitionUpdate;
use std::ops::{Bound, RangeBounds};

/// Changes of one partition, in order; later ones see earlier ones.
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `commit`"]
pub struct Batch {
    db: Db,
    table: TableId,
    pk: Vec<u8>,
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
pub(super) enum What {
    Put(If),
    PutUntil(If, CommitTs),
    Delete(If),
    /// RowKey and value are the bounds, as far as they are there.
    DeleteRange(Bound<()>, Bound<()>),
}

impl What {
    pub(super) fn apply(
        &self,
        rk: &[u8],
        value: &[u8],
        rows: &mut dyn PartitionUpdate,
    ) -> Result<()> {
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
    pub(super) fn new(db: Db, table: TableId, pk: Vec<u8>) -> Batch {
        Batch { db, table, pk, bytes: Vec::new(), operations: Vec::new(), durability: None }
    }

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
    /// Cost: as [`Partition::drop_rows`](crate::Partition::drop_rows).
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
    /// then nothing has changed; `Invalid` for a key or value that is too long; `Busy` and `NoSpace`,
    /// and then nothing has changed either; after `Io` and `Closed` the outcome is known only after the
    /// next open.
    pub fn commit(self) -> Result<CommitTs> {
        decide::commit(self.decide())
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
        let place = (&self.db, self.table, self.pk.as_slice());
        decide::decide(place, self.durability, &mut |rows| self.apply(rows))
    }
}

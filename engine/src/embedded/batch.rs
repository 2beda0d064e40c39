//! Batches: changes of one partition that happen together or not at all.

use crate::db::Db;
use crate::embedded::decide::{self, Decided, If};
use crate::embedded::ticket::Ticket;
use crate::error::Result;
use crate::ids::{CommitTs, TableId};
use crate::options::{Durability, Reach};
use crate::rows::{PartitionUpdate, Row, RowStore};
use crate::savepoint::{Savepoint, Savepoints};
use std::ops::{Bound, RangeBounds};

/// Changes of one partition, in order; later ones see earlier ones.
#[derive(Clone)]
#[must_use = "nothing happens before `commit`"]
pub struct Batch {
    db: Db,
    table: TableId,
    pk: Vec<u8>,
    bytes: Vec<u8>, // RowKey and value of each operation, one after the other.
    operations: Vec<Operation>,
    savepoints: Savepoints<Mark>,
    durability: Option<Durability>,
}

/// How far a batch is.
#[derive(Clone, Copy, Debug)]
struct Mark {
    bytes: usize,
    operations: usize,
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
            condition.check(rk, rows.written(rk)?)?;
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
        let (bytes, operations, savepoints) = (Vec::new(), Vec::new(), Savepoints::default());
        Batch { db, table, pk, bytes, operations, savepoints, durability: None }
    }

    /// Adds a row; the batch fails where there is one.
    pub fn insert(self, rk: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Batch {
        self.put_if(rk, value, If::Absent)
    }

    /// Adds or replaces a row. It stays, also where the one before it would have expired.
    pub fn upsert(self, rk: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Batch {
        self.put_if(rk, value, If::Any)
    }

    /// Writes a row if the one there is as `condition` says.
    pub fn put_if(mut self, rk: impl AsRef<[u8]>, value: impl AsRef<[u8]>, condition: If) -> Batch {
        self.push(rk.as_ref(), value.as_ref(), What::Put(condition));
        self
    }

    /// Adds or replaces a row that is gone, as if it had been deleted, for reads from the time
    /// `expires` on; its space comes back with compaction. What it replaces does not come back.
    /// Times are ticks of 100 ns since 1970: `db.time().after(span)`.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// let sessions = db.table("sessions")?.partition("users");
    /// let ends = db.time().after(std::time::Duration::from_secs(3600));
    /// sessions.batch().upsert_until("ann", "token", ends).commit()?;
    /// assert_eq!(sessions.get("ann")?.unwrap().expires, Some(ends));
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

    /// Puts a row until then if the row there is as `condition` says; one that has expired is
    /// absent.
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

    /// Removes the rows between two RowKeys, those included that this batch has written so far;
    /// what it writes later stays. The ends of all ranges of a batch, the PartitionKey counted for
    /// each, have 16 MiB at most.
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

    /// How many changes it has.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it has no change.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Bytes of the RowKeys and values of its changes. The log has up to 8 more for each of them,
    /// 16 with an expiry, and for a range of few rows a deletion of each; what the log has counts
    /// against [`COMMIT_BYTES_MAX`].
    ///
    /// [`COMMIT_BYTES_MAX`]: crate::limits::COMMIT_BYTES_MAX
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Remembers the changes so far.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = tabulith::Db::open(folder.path())?;
    /// # let orders = db.table("orders")?;
    /// let mut batch = orders.partition("tenant-7").batch().insert("order", "open");
    /// let without_lines = batch.savepoint();
    /// batch = batch.insert("line 1", "3 apples").insert("line 2", "no pears");
    /// if batch.get("line 2")?.is_some_and(|line| line.value.starts_with(b"no")) {
    ///     batch.rollback_to(without_lines)?;
    /// }
    /// batch.commit()?;
    /// # assert_eq!(orders.count()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        let Batch { bytes, operations, .. } = self;
        self.savepoints.add(Mark { bytes: bytes.len(), operations: operations.len() })
    }

    /// Forgets the changes since `savepoint`, which may be used again.
    ///
    /// Errors: `Invalid` for one of another batch, or one made after another that was returned to
    /// since.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let Mark { bytes, operations } = self.savepoints.back_to(savepoint)?;
        self.bytes.truncate(bytes);
        self.operations.truncate(operations);
        Ok(())
    }

    /// The row under `rk` as the batch would leave it if it were committed now and its conditions
    /// held: what it has written so far, with the timestamp 0, and under that what everybody sees.
    /// A row of its own whose time is over is absent here and later, though conditions of the same
    /// batch still find it there. A read is no condition:
    /// [`Partition::transact`](crate::Partition::transact) commits only if what it read is still
    /// so.
    ///
    /// Cost: a look at each change of the batch, before that of
    /// [`Partition::get`](crate::Partition::get).
    pub fn get(&self, rk: impl AsRef<[u8]>) -> Result<Option<Row>> {
        let rk = rk.as_ref();
        match self.written(rk) {
            Some(own) => Ok(own),
            None => RowStore::get(&self.db, self.table, &self.pk, rk, Reach::Disk),
        }
    }

    /// What the batch leaves under `rk`, if it changes it.
    fn written(&self, rk: &[u8]) -> Option<Option<Row>> {
        let mut rest = self.bytes.as_slice();
        self.operations.iter().rev().find_map(|operation| {
            let (before, value) = rest.split_at(rest.len() - operation.value_bytes);
            let (before, own) = before.split_at(before.len() - operation.rk_bytes);
            rest = before;
            match operation.what {
                What::Put(_) if own == rk => Some(Some(Row::own(value, None))),
                What::PutUntil(_, expires) if own == rk => {
                    let row = || Row::own(value, Some(expires));
                    Some((self.db.time() < expires).then(row))
                }
                What::Delete(_) if own == rk => Some(None),
                What::DeleteRange(from, to) => {
                    let range = (from.map(|()| own), to.map(|()| value));
                    RangeBounds::<[u8]>::contains(&range, rk).then_some(None)
                }
                What::Put(_) | What::PutUntil(..) | What::Delete(_) => None,
            }
        })
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
    /// then nothing has changed; `Invalid` beyond one of the [limits](crate#limits); `Busy`, after
    /// 30 seconds in which flushes or merges stayed too far behind, and `NoSpace`, and then nothing
    /// has changed either; after `Io` and `Closed` the outcome is known only after the next open.
    pub fn commit(self) -> Result<CommitTs> {
        decide::commit(self.decide())
    }

    /// Decides and applies the changes and returns without waiting for the disk to have them: they
    /// are safe and visible when the ticket is done, and fail there as [`Batch::commit`] does. Many
    /// tickets of one thread share syncs, which run while the thread goes on.
    ///
    /// Until the changes are applied it blocks as [`Batch::commit`] does: for other commits of the
    /// partition, for rows on the disk that its conditions ask for, for room in the log, and up to
    /// 30 seconds each for flushes and for merges that are too far behind. Async code calls it
    /// where a thread may block.
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

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (operations, bytes) = (self.operations.len(), self.bytes.len());
        write!(f, "Batch(table {}, {operations} operations, {bytes} bytes)", self.table.0)
    }
}

//! Transactions over one partition: reads of one moment with the transaction's own writes over
//! them, savepoints, and a commit that happens only if what was read is still so.
//!
//! Optimistic: nothing is locked while it runs. It keeps what it read: rows with the commit that
//! wrote them, rows that were absent, and ranges with how many rows they held. The commit compares
//! that with the applied state under the partition's latch, so two transactions that each read what
//! the other writes cannot both commit. Where no commit came to the partition since the
//! transaction began, which the latch knows, nothing is compared.

use crate::batch::Mark;
use crate::checks::{check_key_part, name_of};
use crate::commit::ticket::Ticket;
use crate::db::{Db, Inner};
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::iter::tree;
use crate::key::order::{self, RowKeyBuf};
use crate::key::range::KeyRange;
use crate::moment::{Moment, When};
use crate::options::{Durability, Reach};
use crate::rows::{CommitTicket, Row, RowCursor};
use crate::savepoint::{Savepoint, Savepoints};
use crate::scan::{DbCursor, Pin};
use crate::update::{Writes, own_row};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// Reads and writes of one partition that take effect together, if nothing they read has changed
/// by then. Made by [`Partition::begin`](crate::Partition::begin) and
/// [`Partition::transact`](crate::Partition::transact); dropping it changes nothing.
///
/// Cost: a key and a timestamp of memory for each row read, so it is for work of milliseconds on
/// some rows. While it lives, outdated versions of rows that it could read are kept.
#[must_use = "nothing happens before `commit`"]
pub struct Transaction {
    pin: Arc<Pin>,
    table: TableId,
    key: RowKeyBuf,
    writes: Writes,
    rows_read: BTreeMap<Vec<u8>, Option<CommitTs>>, // None: absent.
    ranges_read: Vec<(KeyRange, usize)>,            // With how many rows were there.
    savepoints: Savepoints<Mark>,
}

impl Db {
    /// Begins a transaction over the partition `pk` of a table that is known by its number; see
    /// [`Partition::begin`](crate::Partition::begin).
    pub fn transaction(&self, table: TableId, pk: &[u8]) -> Result<Transaction> {
        Transaction::begin(self, table, pk, Inner::present)
    }
}

impl Transaction {
    /// `at`: the moment to read.
    pub(crate) fn begin(
        db: &Db,
        table: TableId,
        pk: &[u8],
        at: impl FnOnce(&Inner) -> Moment,
    ) -> Result<Transaction> {
        check_key_part("PartitionKey", pk)?;
        db.inner.writer()?;
        let prefix = order::partition_prefix(table, pk);
        let transaction = Transaction {
            table,
            key: RowKeyBuf::new(prefix.clone()),
            pin: Pin::at(&db.inner, || at(&db.inner)),
            writes: Writes::new(prefix),
            rows_read: BTreeMap::new(),
            ranges_read: Vec::new(),
            savepoints: Savepoints::default(),
        };
        db.inner.tree.check_readable_at(table, transaction.at())?;
        Ok(transaction)
    }

    /// The newest commit that its reads see.
    pub fn at(&self) -> CommitTs {
        self.pin.moment.at
    }

    /// The row under `rk`, as of when the transaction began, its own writes over that; those have
    /// the timestamp 0.
    pub fn get(&mut self, rk: impl AsRef<[u8]>) -> Result<Option<Row>> {
        let rk = rk.as_ref();
        if let Some(own) = self.writes.get(rk) {
            return Ok(own_row(own));
        }
        let when = When::At(self.pin.moment);
        let row = self.pin.inner.get(when, self.key.row(rk), Reach::Disk)?;
        if !self.rows_read.contains_key(rk) {
            self.rows_read.insert(rk.to_vec(), row.as_ref().map(|row| row.ts));
        }
        Ok(row)
    }

    /// The rows between two RowKeys with their RowKeys, ascending, as [`Transaction::get`] sees
    /// them. All of the range counts as read, rows that are not there included.
    ///
    /// Cost: holds all rows of the range.
    pub fn scan<R: AsRef<[u8]>>(
        &mut self,
        range: impl RangeBounds<R>,
    ) -> Result<Vec<(Bytes, Row)>> {
        let prefix = self.key.prefix();
        let bound = |bound: Bound<&R>| bound.map(|rk| [prefix, rk.as_ref()].concat());
        let (from, to) = (bound(range.start_bound()), bound(range.end_bound()));
        let range = KeyRange::in_partition(prefix, from, to);
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = BTreeMap::new();
        let mut cursor = DbCursor::open(&self.pin, range.clone())?;
        while cursor.next()? {
            let rk = Bytes::copy_from_slice(self.key.rk_of(cursor.key()));
            let expires = cursor.expires()?;
            rows.insert(rk, Row { ts: cursor.ts(), expires, value: cursor.value()? });
        }
        let stored = rows.len();
        for (rk, own) in self.writes.all() {
            if range.contains(self.key.row(rk)) {
                match own_row(own) {
                    Some(row) => rows.insert(Bytes::copy_from_slice(rk), row),
                    None => rows.remove(rk),
                };
            }
        }
        self.ranges_read.push((range, stored));
        Ok(rows.into_iter().collect())
    }

    /// Writes a row, which stays: one that was read and would have expired does not go any more.
    /// Who is to keep a row's expiry ([`Row::expires`]) writes by [`Transaction::put_until`].
    pub fn put(&mut self, rk: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.writes.put(rk.as_ref(), value.as_ref())
    }

    /// Writes a row that is gone from `expires` on:
    /// [`Batch::upsert_until`](crate::Batch::upsert_until).
    pub fn put_until(
        &mut self,
        rk: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: CommitTs,
    ) -> Result<()> {
        self.writes.put_until(rk.as_ref(), value.as_ref(), expires)
    }

    /// Removes a row, whether there is one or not.
    pub fn delete(&mut self, rk: impl AsRef<[u8]>) -> Result<()> {
        self.writes.delete(rk.as_ref())
    }

    /// Remembers the writes so far.
    pub fn savepoint(&mut self) -> Savepoint {
        self.savepoints.add(self.writes.mark())
    }

    /// Forgets the writes since `savepoint`, which may be used again; what was read since stays
    /// read. `Invalid` for one of another transaction, or one made after another that was returned
    /// to since.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let mark = self.savepoints.back_to(savepoint)?;
        self.writes.back_to(mark);
        Ok(())
    }

    /// Commits the writes and returns once they are as safe as the database promises. One that
    /// wrote nothing commits as of the moment it read.
    ///
    /// Errors: `Changed` where something that it read is not so any more, and then nothing has
    /// changed: begin again. Otherwise as [`Batch::commit`](crate::Batch::commit).
    pub fn commit(self) -> Result<CommitTs> {
        let (ts, ticket) = self.decide(None)?;
        ticket.wait().map(|()| ts)
    }

    /// Checks and applies; what is left is to wait.
    pub(crate) fn decide(
        mut self,
        durability: Option<Durability>,
    ) -> Result<(CommitTs, Box<dyn CommitTicket>)> {
        let inner = Arc::clone(&self.pin.inner);
        if self.writes.is_empty() {
            return Ok((self.pin.moment.at, self.ticket(self.pin.moment.at)?));
        }
        let prefix = self.key.prefix().to_vec();
        let empty = Writes::new(Vec::new());
        let ts = inner.update(self.table, &prefix, durability, Reach::Disk, |last_commit| {
            if last_commit > self.pin.moment.at {
                self.check()?;
            }
            std::mem::replace(&mut self.writes, empty).into_batch()
        })?;
        Ok((ts, self.ticket(ts)?))
    }

    /// A ticket for what it read: done once that is safe.
    pub(crate) fn ticket(&self, ts: CommitTs) -> Result<Box<dyn CommitTicket>> {
        Ok(Box::new(Ticket::new(&self.pin.inner.writer()?.pipeline, ts)))
    }

    /// Compares what was read with what is applied. The partition's latch is held.
    fn check(&mut self) -> Result<()> {
        // By the time that it read by: what has expired since is no change.
        let applied = Moment::applied(self.pin.moment.now);
        for (rk, ts) in &self.rows_read {
            let when = When::At(applied);
            if self.pin.inner.written(when, self.key.row(rk), Reach::Disk)? != *ts {
                return Err(changed(&name_of(rk)));
            }
        }
        for (range, rows) in &self.ranges_read {
            // A row that came or was replaced is newer than what was read; one that went makes
            // them fewer.
            let mut left = *rows;
            let view = self.pin.inner.tree.view_full();
            let inner = &self.pin.inner;
            let outlived_to = inner.outlived_to(&range.start, applied.at, Some(applied.now));
            let mut scan = tree::scan(&view, range.clone(), applied, outlived_to)?;
            let row_of = |key: &[u8]| name_of(self.key.rk_of(key));
            while scan.next()? {
                let old = scan.ts() <= self.pin.moment.at;
                let rest = left.checked_sub(1).filter(|_| old);
                left = rest.ok_or_else(|| changed(&row_of(scan.key())))?;
            }
            if left > 0 {
                let from = row_of(&range.start);
                let what = format!("{left} of the rows that were read from {from} on are gone");
                return Err(Error::new(Kind::Changed, what));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rows, ranges) = (self.rows_read.len(), self.ranges_read.len());
        write!(f, "Transaction(at {}, read {rows} rows and {ranges} ranges)", self.pin.moment.at)
    }
}

fn changed(row: &str) -> Error {
    Error::new(Kind::Changed, format!("{row} is not as it was read"))
}

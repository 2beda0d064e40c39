//! A transaction under way beside what the model says that it sees, and its end: refused if and
//! only if what it read has changed.

use crate::ops::Part;
use crate::rows::{Difference, said};
use crate::walk::same;
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use tabulith::Db;
use tabulith::error::Kind;
use tabulith::ids::{CommitTs, TableId};
use tabulith::rows::Row;
use tabulith::transaction::Transaction;
use tabulith_testkit::oracle::{Change, Oracle, Stored};

/// A value and when it is gone, if it ever is.
type Held = (Vec<u8>, Option<u64>);

/// The last write of each RowKey by a transaction.
type Own = BTreeMap<Vec<u8>, Option<Held>>;

/// A transaction under way, beside what the model said of its partition when it began.
pub(crate) struct Open<'a> {
    transaction: Transaction,
    before: &'a Oracle,
    table: TableId,
    pk: &'a [u8],
    own: Own,
    read: Vec<Vec<u8>>,
    scanned: Vec<Part>,
}

impl<'a> Open<'a> {
    pub(crate) fn begin(
        db: &Db,
        before: &'a Oracle,
        table: TableId,
        pk: &'a [u8],
    ) -> Result<Open<'a>, Difference> {
        let transaction = db.transaction(table, pk).map_err(said)?;
        let (own, read, scanned) = (Own::new(), Vec::new(), Vec::new());
        Ok(Open { transaction, before, table, pk, own, read, scanned })
    }

    /// Reads the row of each change, then makes it. A transaction removes no ranges.
    pub(crate) fn write(&mut self, changes: &[Change]) -> Result<(), Difference> {
        for change in changes {
            let (rk, value) = match change {
                Change::Put(rk, value) => (rk, Some((value.clone(), None))),
                Change::PutUntil(rk, value, expires) => (rk, Some((value.clone(), Some(*expires)))),
                Change::Delete(rk) => (rk, None),
                Change::DeleteRange(..) => continue,
            };
            let found = self.transaction.get(rk).map_err(said)?;
            match self.own.get(rk) {
                None => {
                    same(found.as_ref(), self.before.get(self.table.0, self.pk, rk))?;
                    self.read.push(rk.clone());
                }
                Some(own) if found.as_ref().map(held_in) == *own => {}
                Some(_) => return Err(format!("own write reads as {found:?}")),
            }
            match &value {
                Some((value, None)) => self.transaction.put(rk, value),
                Some((value, Some(expires))) => {
                    self.transaction.put_until(rk, value, CommitTs(*expires))
                }
                None => self.transaction.delete(rk),
            }
            .map_err(said)?;
            self.own.insert(rk.clone(), value);
        }
        Ok(())
    }

    /// The same, and back to before: what was read stays read.
    pub(crate) fn write_and_take_back(&mut self, changes: &[Change]) -> Result<(), Difference> {
        let (savepoint, own) = (self.transaction.savepoint(), self.own.clone());
        self.write(changes)?;
        self.transaction.rollback_to(savepoint).map_err(said)?;
        self.own = own;
        Ok(())
    }

    /// Reads the rows between two RowKeys.
    pub(crate) fn scan(&mut self, part: &Part) -> Result<(), Difference> {
        self.scanned.push(part.clone());
        let found = self.transaction.scan::<Vec<u8>>(part.clone()).map_err(said)?;
        let found: BTreeMap<_, _> =
            found.into_iter().map(|(rk, row)| (rk.to_vec(), held_in(&row))).collect();
        let mut wanted: BTreeMap<_, _> = rows_of(self.before, self.table, self.pk, part)
            .into_iter()
            .map(|(rk, stored)| (rk.to_vec(), held_by(stored)))
            .collect();
        for (rk, value) in self.own.iter().filter(|(rk, _)| part.contains(*rk)) {
            match value {
                Some(own) => drop(wanted.insert(rk.clone(), own.clone())),
                None => drop(wanted.remove(rk)),
            }
        }
        match found == wanted {
            true => Ok(()),
            false => Err(format!("a scan found {} rows of {}", found.len(), wanted.len())),
        }
    }

    /// Commits it, of which the model says `now` what others have done meanwhile. Gives what it has
    /// changed and when; `None` where that is nothing, be it because it was refused.
    pub(crate) fn commit(
        self,
        now: &Oracle,
    ) -> Result<Option<(CommitTs, Vec<Change>)>, Difference> {
        let changed = self.reads_changed(now);
        match self.transaction.commit() {
            Err(error) if changed && error.kind() == Kind::Changed && !self.own.is_empty() => {
                Ok(None)
            }
            Ok(_) if self.own.is_empty() => Ok(None),
            Ok(ts) if !changed => {
                let change = |(rk, own)| match own {
                    Some((value, Some(expires))) => Change::PutUntil(rk, value, expires),
                    Some((value, None)) => Change::Put(rk, value),
                    None => Change::Delete(rk),
                };
                Ok(Some((ts, self.own.into_iter().map(change).collect())))
            }
            other => {
                Err(format!("what was read has changed: {changed}; the commit gave {other:?}"))
            }
        }
    }

    /// Commits it after its table was dropped.
    pub(crate) fn commit_without_table(self) -> Result<(), Difference> {
        match self.transaction.commit() {
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            Ok(_) if self.own.is_empty() => Ok(()),
            other => Err(format!("the table was dropped; the commit gave {other:?}")),
        }
    }

    fn reads_changed(&self, now: &Oracle) -> bool {
        let Open { before, table, pk, .. } = *self;
        let differs = |rk: &Vec<u8>| before.get(table.0, pk, rk) != now.get(table.0, pk, rk);
        self.read.iter().any(differs)
            || self
                .scanned
                .iter()
                .any(|part| rows_of(before, table, pk, part) != rows_of(now, table, pk, part))
    }
}

fn held_in(row: &Row) -> Held {
    (row.value.to_vec(), row.expires.map(|expires| expires.0))
}

fn held_by(stored: &Stored) -> Held {
    (stored.value.clone(), (stored.expires < u64::MAX).then_some(stored.expires))
}

/// Some rows of one partition.
fn rows_of<'a>(
    model: &'a Oracle,
    table: TableId,
    pk: &[u8],
    (from, to): &Part,
) -> Vec<(&'a [u8], &'a Stored)> {
    let rows =
        model.rows(table.0, pk, from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
    rows.map(|(place, stored)| (place.rk.as_slice(), stored)).collect()
}

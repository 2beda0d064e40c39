//! Changes of one partition inside an update: each row read before its change, own changes
//! included.

use crate::entity::end_of;
use crate::rows::Difference;
use crate::walk::{same, slice};
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use tabulith::error::Error;
use tabulith::ids::{CommitTs, TableId};
use tabulith::rows::PartitionUpdate;
use tabulith_testkit::oracle::{Change, Oracle};

/// Whether anything remains of `changes` once each row's last one has replaced those before it.
pub(crate) fn changes_something(
    model: &Oracle,
    table: TableId,
    pk: &[u8],
    changes: &[Change],
) -> bool {
    let mut last = BTreeMap::new();
    for change in changes {
        match change {
            Change::Put(rk, _) | Change::PutUntil(rk, ..) => drop(last.insert(rk, true)),
            Change::Delete(rk) => drop(last.insert(rk, false)),
            Change::DeleteRange(from, to) => {
                let range = (from.as_ref(), to.as_ref());
                let held = |rk: &Vec<u8>| RangeBounds::<Vec<u8>>::contains(&range, rk);
                let stored = model.rows(table.0, pk, slice(from), slice(to));
                last.extend(stored.map(|(place, _)| (&place.rk, false)));
                last.iter_mut().filter(|(rk, _)| held(rk)).for_each(|(_, is_put)| *is_put = false);
            }
        }
    }
    last.into_iter().any(|(rk, is_put)| is_put || model.get(table.0, pk, rk).is_some())
}

/// Makes the changes inside an update, and reads each row before and after.
pub(crate) fn rehearse(
    partition: &mut dyn PartitionUpdate,
    model: &Oracle,
    table: TableId,
    pk: &[u8],
    changes: &[Change],
) -> Result<Option<Difference>, Error> {
    let mut staged: Vec<&Change> = Vec::new();
    for change in changes {
        let rk = match change {
            Change::Put(rk, _) | Change::PutUntil(rk, ..) | Change::Delete(rk) => rk,
            Change::DeleteRange(from, to) => {
                partition.delete_range(slice(from), slice(to))?;
                staged.push(change);
                continue;
            }
        };
        let before = partition.get(rk)?;
        let difference = match staged.iter().rev().find_map(|own| left_by(own, rk)) {
            None => same(before.as_ref(), model.get(table.0, pk, rk)).err(),
            Some(own) => {
                let found = before.as_ref().map(|row| (&row.value[..], end_of(row.expires)));
                (found != own).then(|| format!("own write reads as {found:?}"))
            }
        };
        if difference.is_some() {
            return Ok(difference);
        }
        match change {
            Change::Put(_, value) => partition.put(rk, value)?,
            Change::PutUntil(_, value, expires) => {
                partition.put_until(rk, value, CommitTs(*expires))?;
            }
            _ => partition.delete(rk)?,
        }
        staged.push(change);
    }
    Ok(None)
}

/// What a change leaves under `rk`, if it says: a value and when it expires, or nothing.
pub(crate) fn left_by<'a>(change: &'a Change, rk: &[u8]) -> Option<Option<(&'a [u8], u64)>> {
    match change {
        Change::Put(own, value) => (own == rk).then_some(Some((value, u64::MAX))),
        Change::PutUntil(own, value, expires) => (own == rk).then_some(Some((value, *expires))),
        Change::Delete(own) => (own == rk).then_some(None),
        Change::DeleteRange(from, to) => {
            let range = (slice(from), slice(to));
            RangeBounds::<[u8]>::contains(&range, rk).then_some(None)
        }
    }
}

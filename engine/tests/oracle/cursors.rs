//! Reads that a user makes through the public types: cursors that are held while the store goes on,
//! scans from both ends, tables in parts and by several threads.

use crate::ops::{Keys, Range, Step};
use crate::rows::{Difference, Listed, listed, said, same_row};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Mutex;
use tabulith::{Cursor, RowRef, Scan, Snapshot, Table};
use tabulith_testkit::oracle::{Oracle, Stored};

/// A cursor, what it must show, and where it is.
pub(crate) struct Held {
    cursor: Cursor,
    rows: Listed,
    at: At,
}

/// Where a cursor stands. Past an end, moves go on to say so; the other way the last row of that
/// end comes first.
#[derive(Clone, Copy, Debug)]
enum At {
    Fresh,
    Row(usize),
    Above,
    Below,
}

impl Held {
    /// Opens a cursor over `range` of `table` as of `snapshot`, of which `model` is a copy.
    pub(crate) fn open(
        snapshot: &Snapshot,
        model: &Oracle,
        (table, id): (&Table, u32),
        range: &Range,
    ) -> Result<Held, Difference> {
        let cursor = match range {
            Range::Table => snapshot.cursor::<&[u8], &[u8]>(table, ..),
            Range::Between(from, to) => snapshot.cursor(table, (from.clone(), to.clone())),
            Range::Rows(pk, from, to) => {
                snapshot.cursor_partition(&table.partition(pk), (from.clone(), to.clone()))
            }
        };
        Ok(Held { cursor: cursor.map_err(said)?, rows: listed(model, id, range), at: At::Fresh })
    }

    pub(crate) fn walk(&mut self, steps: &[Step]) -> Result<(), Difference> {
        for step in steps {
            let (moves, up) = match step {
                Step::Next(moves) => (*moves, true),
                Step::Prev(moves) => (*moves, false),
                Step::Seek(keys) => {
                    self.seek(keys)?;
                    continue;
                }
            };
            for _ in 0..moves {
                if !self.step(up)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// One move; whether it led to a row.
    fn step(&mut self, up: bool) -> Result<bool, Difference> {
        let target = match (self.at, up) {
            (At::Fresh | At::Below, true) => Some(0),
            (At::Row(i), true) => Some(i + 1),
            (At::Above, true) | (At::Below, false) => None,
            (At::Fresh | At::Above, false) => self.rows.len().checked_sub(1),
            (At::Row(i), false) => i.checked_sub(1),
        };
        let target = target.filter(|i| *i < self.rows.len());
        let row = if up { self.cursor.next() } else { self.cursor.prev() }.map_err(said)?;
        compare(row, &self.rows, target)?;
        self.at = match (target, up) {
            (Some(i), _) => At::Row(i),
            (None, true) => At::Above,
            (None, false) => At::Below,
        };
        Ok(target.is_some())
    }

    fn seek(&mut self, keys: &Keys) -> Result<(), Difference> {
        let target = self.rows.partition_point(|(other, _)| other < keys);
        let target = Some(target).filter(|i| *i < self.rows.len());
        let row = self.cursor.seek(&keys.0, &keys.1).map_err(said)?;
        compare(row, &self.rows, target)?;
        self.at = target.map_or(At::Above, At::Row);
        Ok(())
    }
}

fn compare(
    row: Option<RowRef<'_>>,
    rows: &Listed,
    target: Option<usize>,
) -> Result<(), Difference> {
    match (row, target) {
        (None, None) => Ok(()),
        (None, Some(i)) => Err(format!("no row, expected {:02x?}", rows[i].0)),
        (Some(row), target) => same_here(row, target.and_then(|i| rows.get(i))),
    }
}

fn same_here(row: RowRef<'_>, expected: Option<&(Keys, Stored)>) -> Result<(), Difference> {
    let (expires, value) = (row.expires().map_err(said)?, row.value().map_err(said)?);
    same_row((row.partition_key, row.row_key), (row.ts, expires, value), expected)
}

/// Takes rows from both ends of a scan, `true` from the front, until they meet.
pub(crate) fn iterate(
    snapshot: &Snapshot,
    model: &Oracle,
    (table, id): (&Table, u32),
    range: &Range,
    (fronts, seek): (&[bool], &Keys),
) -> Result<(), Difference> {
    let mut scan = open_scan(snapshot, table, range)?;
    let mut rows: VecDeque<_> = listed(model, id, range).into();
    for (n, front) in fronts.iter().enumerate() {
        if n == 20 {
            scan.seek(&seek.0, &seek.1).map_err(said)?;
            rows.retain(|(keys, _)| keys >= seek);
        }
        let (found, expected) = match front {
            true => (scan.next(), rows.pop_front()),
            false => (scan.next_back(), rows.pop_back()),
        };
        match (found.transpose().map_err(said)?, expected) {
            (None, None) => return Ok(()), // A scan that has ended stays so.
            (None, Some((keys, _))) => return Err(format!("the scan ended before {keys:02x?}")),
            (Some(row), expected) => {
                let keys = (&row.partition_key[..], &row.row_key[..]);
                same_row(keys, (row.ts, row.expires, &row.value), expected.as_ref())?;
            }
        }
    }
    Ok(())
}

fn open_scan(snapshot: &Snapshot, table: &Table, range: &Range) -> Result<Scan, Difference> {
    let all: (Bound<Keys>, Bound<Keys>) = (Bound::Unbounded, Bound::Unbounded);
    let scan = match range {
        Range::Table => snapshot.scan(table, all),
        Range::Between(from, to) => snapshot.scan(table, (from.clone(), to.clone())),
        Range::Rows(pk, from, to) => {
            snapshot.scan_partition(&table.partition(pk), (from.clone(), to.clone()))
        }
    };
    scan.map_err(said)
}

/// The parts of a table, in their order, are the table; no partition is in two.
pub(crate) fn split(
    snapshot: &Snapshot,
    model: &Oracle,
    (table, id): (&Table, u32),
    parts: usize,
) -> Result<(), Difference> {
    let cursors = snapshot.split(table, parts).map_err(said)?;
    if cursors.len() > parts.max(1) {
        return Err(format!("{} parts in place of {parts}", cursors.len()));
    }
    let rows = listed(model, id, &Range::Table);
    let mut at = 0;
    for mut cursor in cursors {
        let begin = at;
        while let Some(row) = cursor.next().map_err(said)? {
            let pk = row.partition_key;
            same_here(row, rows.get(at))?;
            if at == begin && at > 0 && rows[at - 1].0.0 == pk {
                return Err(format!("partition {pk:02x?} is in two parts"));
            }
            at += 1;
        }
        // The other way, a part is the same.
        let mut back = at;
        while let Some(row) = cursor.prev().map_err(said)? {
            back = back.checked_sub(1).filter(|n| *n >= begin).ok_or("a part grows")?;
            same_here(row, rows.get(back))?;
        }
        if back != begin {
            return Err(format!("a part of {} rows gave {} backwards", at - begin, at - back));
        }
    }
    match rows.get(at) {
        None => Ok(()),
        Some((keys, _)) => Err(format!("the parts end before {keys:02x?}")),
    }
}

/// Every row comes to some thread once.
pub(crate) fn scan_parallel(
    model: &Oracle,
    (table, id): (&Table, u32),
    threads: usize,
) -> Result<(), Difference> {
    let found = Mutex::new(Vec::new());
    let visit = |row: RowRef<'_>| {
        let keys = (row.partition_key.to_vec(), row.row_key.to_vec());
        let row = (keys, row.ts, row.expires()?, row.value()?.to_vec());
        found.lock().expect("no thread panics with the lock held").push(row);
        Ok(())
    };
    table.scan_parallel(threads, visit).map_err(said)?;
    let mut found = found.into_inner().expect("no thread panicked");
    found.sort();
    let rows = listed(model, id, &Range::Table);
    for (n, ((pk, rk), ts, expires, value)) in found.iter().enumerate() {
        same_row((pk, rk), (*ts, *expires, value), rows.get(n))?;
    }
    match rows.get(found.len()) {
        None => Ok(()),
        Some((keys, _)) => Err(format!("several threads do not see {keys:02x?}")),
    }
}

//! Walks of a cursor beside the model's rows of the same range.

use crate::entity::end_of;
use crate::ops::{Range, Step};
use crate::rows::{Difference, said, slices};
use crate::zones;
use std::ops::Bound;
use tabulith::ids::TableId;
use tabulith::key::order;
use tabulith::key::range::KeyRange;
use tabulith::rows::{Row, RowCursor, RowSnapshot};
use tabulith_testkit::oracle::{Oracle, Place, Stored};

/// Walks a cursor and a list of the model's rows side by side.
pub(crate) fn scan(
    snapshot: &dyn RowSnapshot,
    model: &Oracle,
    table: TableId,
    range: &Range,
    steps: &[Step],
) -> Result<(), Difference> {
    let mut cursor = snapshot.scan(key_range(table, range)).map_err(said)?;
    let expected = expected_rows(model, table, range);
    // Every second walk is made with zones too.
    if steps.len().is_multiple_of(2) {
        zones::scan(snapshot, &key_range(table, range), &expected, expected.len())?;
    }
    let counted = snapshot.count(key_range(table, range)).map_err(said)?;
    if counted != expected.len() as u64 {
        return Err(format!("{counted} rows are counted, expected {}", expected.len()));
    }
    // Where the cursor stands; `None` before the first move.
    let mut at: Option<usize> = None;
    for step in steps {
        let (moves, is_next) = match step {
            Step::Next(moves) => (*moves, true),
            Step::Prev(moves) => (*moves, false),
            Step::Seek((pk, rk)) => {
                let key = order::row_key(table, pk, rk);
                let target = expected.partition_point(|(other, _)| *other < key);
                let found = cursor.seek(&key).map_err(said)?;
                at = here(&mut *cursor, found, &expected, Some(target))?;
                if at.is_none() {
                    return Ok(());
                }
                continue;
            }
        };
        for _ in 0..moves {
            let target = match (at, is_next) {
                (None, true) => Some(0),
                (None, false) => expected.len().checked_sub(1),
                (Some(i), true) => Some(i + 1),
                (Some(i), false) => i.checked_sub(1),
            };
            let found = if is_next { cursor.next() } else { cursor.prev() }.map_err(said)?;
            at = here(&mut *cursor, found, &expected, target)?;
            if at.is_none() {
                return Ok(()); // Past an end, only the end is promised.
            }
        }
    }
    Ok(())
}

/// Compares the row under the cursor with row `target` of the model; `None` past either end.
fn here(
    cursor: &mut dyn RowCursor,
    found: bool,
    expected: &[(Vec<u8>, &Stored)],
    target: Option<usize>,
) -> Result<Option<usize>, Difference> {
    let row = target.and_then(|i| expected.get(i).map(|row| (i, row)));
    match (found, row) {
        (false, None) => Ok(None),
        (false, Some((_, (key, _)))) => Err(format!("the scan ended before {key:02x?}")),
        (true, None) => Err(format!("a row past the end: {:02x?}", cursor.key())),
        (true, Some((i, (key, stored)))) => {
            if cursor.key() != key.as_slice() {
                return Err(format!("row {:02x?}, expected {key:02x?}", cursor.key()));
            }
            let found = Row::new(cursor.ts(), cursor.value().map_err(said)?);
            let found = found.with_expiry(cursor.expires().map_err(said)?);
            same(Some(&found), Some(stored))?;
            Ok(Some(i))
        }
    }
}

pub(crate) fn key_range(table: TableId, range: &Range) -> KeyRange {
    match range {
        Range::Table => KeyRange::table(table),
        Range::Rows(pk, from, to) => KeyRange::rows(table, pk, slice(from), slice(to)),
        Range::Between(from, to) => KeyRange::between(table, slices(from), slices(to)),
    }
}

fn expected_rows<'a>(
    model: &'a Oracle,
    table: TableId,
    range: &Range,
) -> Vec<(Vec<u8>, &'a Stored)> {
    let encoded = |(place, stored): (&Place, &'a Stored)| {
        (order::row_key(table, &place.pk, &place.rk), stored)
    };
    match range {
        Range::Table => model.table(table.0).map(encoded).collect(),
        Range::Between(from, to) => {
            model.between(table.0, slices(from), slices(to)).map(encoded).collect()
        }
        Range::Rows(pk, from, to) => {
            model.rows(table.0, pk, slice(from), slice(to)).map(encoded).collect()
        }
    }
}

pub(crate) fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

pub(crate) fn same(found: Option<&Row>, expected: Option<&Stored>) -> Result<(), Difference> {
    let is_same = |row: &Row, stored: &Stored| {
        (row.ts.0, end_of(row.expires)) == (stored.ts, stored.expires) && row.value == stored.value
    };
    match (found, expected) {
        (None, None) => Ok(()),
        (Some(row), Some(stored)) if is_same(row, stored) => Ok(()),
        (found, expected) => {
            let short = |len: usize, ts: u64, expires: u64| {
                format!("{len} bytes of commit {ts} until {expires}")
            };
            Err(format!(
                "found {:?}, expected {:?}",
                found.map(|row| short(row.value.len(), row.ts.0, end_of(row.expires))),
                expected.map(|stored| short(stored.value.len(), stored.ts, stored.expires))
            ))
        }
    }
}

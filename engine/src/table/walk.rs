//! The walk over a plan's rows: one lookup per row for plans of single rows, otherwise one cursor
//! that seeks over what the plan leaves out.
//!
//! Every move is one row or one lookup, so that the caller can stop anywhere and count.

use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::key::order;
use crate::key::range::KeyRange;
use crate::rows::{Row, RowCursor, RowSnapshot};
use crate::table::keyset::KeySet;
use crate::table::plan::Plan;
use crate::table::spans::above;
use crate::zone::ZoneScan;
use std::sync::Arc;

/// Rows outside the plan that are stepped over before the cursor seeks. A step costs a tenth of a
/// seek, and most gaps between wanted rows are short.
const STEPS_BEFORE_SEEK: u32 = 4;

/// Rows passed by one move that are deleted or have expired: some tens of microseconds.
const HIDDEN_PER_MOVE: usize = 256;

/// What a move led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A row of the plan.
    Row,
    /// A row of the plan that zones say does not pass, or one that is not there any more.
    RuledOut,
    /// A row outside the plan, or a single row of the plan that does not exist.
    Miss,
    /// There is nothing more.
    End,
}

/// A walk over the rows of a plan, as of a snapshot.
pub(crate) enum Walk<'a> {
    Points(Points<'a>),
    Ranges(Ranges<'a>),
}

impl<'a> Walk<'a> {
    /// A walk that starts before the first row of `plan` at or after `from`, a PartitionKey and a
    /// RowKey. It may leave out rows that do not pass the filter of `zones`.
    pub(crate) fn start(
        snapshot: &'a dyn RowSnapshot,
        table: TableId,
        plan: &'a Plan,
        from: (&[u8], &[u8]),
        zones: Option<&Arc<ZoneScan>>,
    ) -> Result<Walk<'a>> {
        match plan.points() {
            Some(mut points) => {
                points.drain(..points.partition_point(|point| *point < from));
                let rest = points.into_iter();
                Ok(Walk::Points(Points { snapshot, table, rest, key: (&[], &[]), row: None }))
            }
            None => Ranges::start(snapshot, table, plan, from, zones).map(Walk::Ranges),
        }
    }

    /// Moves on by one row or one lookup.
    pub(crate) fn advance(&mut self) -> Result<Move> {
        match self {
            Walk::Points(points) => points.advance(),
            Walk::Ranges(ranges) => ranges.advance(),
        }
    }

    /// Passes the rows after the one here that are `unwanted`, as far as they are at hand and of
    /// the plan for certain: [`RowCursor::pass_over`].
    pub(crate) fn pass_over(
        &mut self,
        rows_max: usize,
        unwanted: &mut dyn FnMut(CommitTs, &[u8]) -> bool,
    ) -> usize {
        match self {
            Walk::Ranges(ranges) if ranges.in_one_range => {
                ranges.cursor.pass_over(rows_max, unwanted)
            }
            _ => 0,
        }
    }

    /// PartitionKey and RowKey here, in key bytes.
    pub(crate) fn key(&self) -> Result<(std::borrow::Cow<'_, [u8]>, &[u8])> {
        match self {
            Walk::Points(points) => Ok((points.key.0.into(), points.key.1)),
            Walk::Ranges(ranges) => split(ranges.cursor.key()),
        }
    }

    /// The row here, lent: most rows that are looked at are not asked for, and a count of those who
    /// hold a block, up and down per row, is a tenth of what a row takes.
    pub(crate) fn row(&self) -> Result<(CommitTs, &[u8])> {
        match self {
            Walk::Points(points) => {
                let row = points.row.as_ref().map(|row| (row.ts, &row.value[..]));
                row.ok_or_else(|| Error::invalid("the walk is not on a row"))
            }
            Walk::Ranges(ranges) => Ok((ranges.cursor.ts(), ranges.cursor.value_ref()?)),
        }
    }

    /// When the row here expires, where it does.
    pub(crate) fn expires(&self) -> Result<Option<CommitTs>> {
        match self {
            Walk::Points(points) => Ok(points.row.as_ref().and_then(|row| row.expires)),
            Walk::Ranges(ranges) => ranges.cursor.expires(),
        }
    }
}

fn split(key: &[u8]) -> Result<(std::borrow::Cow<'_, [u8]>, &[u8])> {
    let (_, partition_key, row_key) = order::split(key)
        .ok_or_else(|| Error::new(Kind::Corrupt, "a stored key is not a row's key"))?;
    Ok((partition_key, row_key))
}

/// Single rows, looked up one by one.
pub(crate) struct Points<'a> {
    snapshot: &'a dyn RowSnapshot,
    table: TableId,
    rest: std::vec::IntoIter<(&'a [u8], &'a [u8])>,
    key: (&'a [u8], &'a [u8]),
    row: Option<Row>,
}

impl Points<'_> {
    fn advance(&mut self) -> Result<Move> {
        let Some(key) = self.rest.next() else {
            return Ok(Move::End);
        };
        self.key = key;
        self.row = self.snapshot.get(self.table, key.0, key.1)?;
        Ok(if self.row.is_some() { Move::Row } else { Move::Miss })
    }
}

/// Ranges of rows, visited with one cursor.
pub(crate) struct Ranges<'a> {
    table: TableId,
    keys: &'a KeySet,
    cursor: Box<dyn RowCursor>,
    /// Whether the cursor comes to rows of the plan alone, so that nobody needs to look where they
    /// lie.
    in_one_range: bool,
    /// The first piece of `keys` that does not end before the cursor.
    piece: usize,
    misses: u32,
    /// The encoded key to go to, where the cursor is outside the plan.
    target: Vec<u8>,
}

/// Where a key lies in the plan.
enum Place {
    Inside,
    /// Outside; the plan goes on at or after the target.
    Before,
    /// After everything.
    Past,
}

impl<'a> Ranges<'a> {
    fn start(
        snapshot: &dyn RowSnapshot,
        table: TableId,
        plan: &'a Plan,
        from: (&[u8], &[u8]),
        zones: Option<&Arc<ZoneScan>>,
    ) -> Result<Ranges<'a>> {
        let keys = plan.keys();
        let (mut piece, mut start) = (0, Vec::new());
        let end = match place(table, keys, &mut piece, from.0, from.1, &mut start) {
            Place::Past => {
                // Nothing, but of this table: the snapshot asks whether it is there.
                start = order::table_start(table);
                Vec::new()
            }
            Place::Before => end_of(table, keys),
            Place::Inside => {
                start = order::row_key(table, from.0, from.1);
                end_of(table, keys)
            }
        };
        let range = KeyRange { start, end };
        let mut cursor = match zones {
            Some(zones) => snapshot.scan_where(range, Arc::clone(zones))?,
            None => snapshot.scan(range)?,
        };
        cursor.stop_after(HIDDEN_PER_MOVE);
        let in_one_range = plan.shape().is_one_range();
        Ok(Ranges { table, keys, cursor, in_one_range, piece, misses: 0, target: Vec::new() })
    }

    fn advance(&mut self) -> Result<Move> {
        let found = if self.misses < STEPS_BEFORE_SEEK {
            self.cursor.next()?
        } else {
            self.misses = 0;
            self.cursor.seek(&self.target)?
        };
        if !found {
            return Ok(Move::End);
        }
        if self.in_one_range {
            return Ok(self.here());
        }
        let (partition_key, row_key) = split(self.cursor.key())?;
        let (piece, target) = (&mut self.piece, &mut self.target);
        match place(self.table, self.keys, piece, &partition_key, row_key, target) {
            Place::Inside => {
                self.misses = 0;
                Ok(self.here())
            }
            Place::Before => {
                self.misses += 1;
                Ok(Move::Miss)
            }
            Place::Past => Ok(Move::End),
        }
    }

    fn here(&self) -> Move {
        if self.cursor.is_ruled_out() { Move::RuledOut } else { Move::Row }
    }
}

/// Where (`partition_key`, `row_key`) lies in `keys`. `piece` moves on to the first piece that does
/// not end before it; `target` becomes the next key of the plan where that is another.
fn place(
    table: TableId,
    keys: &KeySet,
    piece: &mut usize,
    partition_key: &[u8],
    row_key: &[u8],
    target: &mut Vec<u8>,
) -> Place {
    let pieces = keys.pieces();
    while pieces.get(*piece).is_some_and(|(span, _)| !span.ends_after(partition_key)) {
        *piece += 1;
    }
    let Some((partitions, rows)) = pieces.get(*piece) else {
        return Place::Past;
    };
    let mut go_to = |partition_key: &[u8], row_key: &[u8]| {
        target.clear();
        order::put_partition(target, table, partition_key);
        target.extend_from_slice(row_key);
        Place::Before
    };
    let first_row = |piece: usize| pieces.get(piece).and_then(|(_, rows)| rows.start());
    if *partition_key < *partitions.start {
        return go_to(&partitions.start, first_row(*piece).unwrap_or_default());
    }
    let spans = rows.pieces();
    match spans.get(spans.partition_point(|(span, ())| !span.ends_after(row_key))) {
        Some((span, ())) if *span.start <= *row_key => Place::Inside,
        Some((span, ())) => go_to(partition_key, &span.start),
        None => {
            // No row is left in this partition.
            let next = above(partition_key);
            if partitions.ends_after(&next) {
                return go_to(&next, first_row(*piece).unwrap_or_default());
            }
            match pieces.get(*piece + 1) {
                Some((span, _)) => go_to(&span.start, first_row(*piece + 1).unwrap_or_default()),
                None => Place::Past,
            }
        }
    }
}

/// The first encoded key above all of `keys`.
fn end_of(table: TableId, keys: &KeySet) -> Vec<u8> {
    let Some((partitions, rows)) = keys.pieces().last() else {
        return Vec::new();
    };
    match (partitions.point(), rows.end(), &partitions.end) {
        (Some(partition_key), Some(row_key), _) => order::row_key(table, partition_key, row_key),
        // The least end there is: one above it would not say that this is one partition alone.
        (Some(partition_key), None, _) => {
            order::partition_end(&order::partition_prefix(table, partition_key))
        }
        (_, _, Some(end)) => order::partition_prefix(table, end),
        (_, _, None) => order::table_end(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::filter::ast::{Filter, Op};
    use crate::table::value::Value;

    /// Filters of partitions are asked only where a scan is known to be of one partition.
    #[test]
    fn a_walk_over_one_partition_ends_where_the_partition_does() {
        let table = TableId(7);
        let key = |name: &str, op, key: &str| Filter::compare(name, op, Value::String(key.into()));
        let partition = || key("PartitionKey", Op::Eq, "p");
        let prefix = order::partition_prefix(table, b"p");
        for filter in [
            partition(),
            Filter::And(vec![partition(), key("RowKey", Op::Ge, "r")]),
            Filter::And(vec![partition(), key("RowKey", Op::Ne, "r")]),
        ] {
            let plan = Plan::of(Some(&filter));
            assert_eq!(end_of(table, plan.keys()), order::partition_end(&prefix), "{filter}");
        }
        let below = Filter::And(vec![partition(), key("RowKey", Op::Lt, "r")]);
        let plan = Plan::of(Some(&below));
        assert_eq!(end_of(table, plan.keys()), order::row_key(table, b"p", b"r"));
    }
}

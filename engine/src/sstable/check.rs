//! Proves the columns of a block once, when it is loaded: every offset in its bounds and rising,
//! every row in order. What passes can be searched without further doubt.
//!
//! Cost: one pass over the columns, about 5 ns per row; values are not touched.

use crate::expiry;
use crate::ids::{CommitTs, RowKind};
use crate::sstable::format::Damage;
use crate::sstable::layout::{Columns, HEAD_LEN, KIND_BITS};
use std::cmp::Ordering;

/// What the proof of a block finds out beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Every row is a put that holds its value itself, for good.
    pub(crate) all_puts: bool,
    /// No key has two versions in the block.
    pub(crate) distinct: bool,
    /// The newest timestamp.
    pub(crate) max_ts: CommitTs,
}

/// Proves that every column of the block holds what the format says.
pub(crate) fn check(columns: &Columns<'_>) -> Result<Facts, Damage> {
    let mut facts = Facts { all_puts: true, distinct: true, max_ts: CommitTs::ZERO };
    check_runs(columns)?;
    check_row_bounds(columns, &mut facts)?;
    (0..columns.layout.runs).try_for_each(|run| check_order(columns, run, &mut facts))?;
    Ok(facts)
}

/// Runs begin at row 0, are not empty, rise, and none is a prefix of the next, which is what lets
/// a search treat "starts with" as "is in".
fn check_runs(columns: &Columns<'_>) -> Result<(), Damage> {
    let mut text_end = 0;
    let mut before: Option<&[u8]> = None;
    for index in 0..columns.layout.runs {
        let run = columns.run(index);
        let starts_right = if index == 0 { run.rows.start == 0 } else { true };
        if !starts_right || run.rows.start >= run.rows.end || run.rows.end > columns.layout.rows {
            return Err(Damage("block's runs do not divide its rows"));
        }
        let (middle, end) = columns.run_text_ends(index);
        if middle < text_end || end < middle {
            return Err(Damage("block's run texts go backwards"));
        }
        text_end = end;
        if before.is_some_and(|before| before >= run.prefix || run.prefix.starts_with(before)) {
            return Err(Damage("block's partitions are out of order"));
        }
        before = Some(run.prefix);
    }
    if text_end != columns.layout.text_len {
        return Err(Damage("block's run texts do not fill their column"));
    }
    Ok(())
}

/// Each row's pieces lie in their columns, and what a row does not have is zero.
fn check_row_bounds(columns: &Columns<'_>, facts: &mut Facts) -> Result<(), Damage> {
    let (mut tail_end, mut value_end, mut max_stamp) = (0, 0, 0);
    for row in 0..columns.layout.rows {
        let (meta, value) = (columns.meta(row), columns.value_range(row));
        let head_len = usize::from(meta >> 4);
        let next_tail_end = columns.tail_end(row);
        let kind = RowKind::from_byte(meta & KIND_BITS).ok_or(Damage("row has an unknown kind"))?;
        if head_len > HEAD_LEN {
            return Err(Damage("row's head has an impossible length"));
        }
        if next_tail_end < tail_end || (next_tail_end > tail_end && head_len < HEAD_LEN) {
            return Err(Damage("row's key has an impossible length"));
        }
        if head_len < HEAD_LEN && columns.head(row) << (8 * head_len) != 0 {
            return Err(Damage("row's key goes on after its end"));
        }
        if value.end < value_end || (kind == RowKind::Delete && value.end != value_end) {
            return Err(Damage("row's value has an impossible length"));
        }
        if !expiry::fits(kind, value.end - value_end) {
            return Err(Damage("row's value is too short for an expiry"));
        }
        if columns.layout.base_ts.checked_add(columns.stamp(row)).is_none() {
            return Err(Damage("row's timestamp overflows"));
        }
        (tail_end, value_end) = (next_tail_end, value.end);
        facts.all_puts &= kind == RowKind::Put;
        max_stamp = max_stamp.max(columns.stamp(row));
    }
    facts.max_ts = CommitTs(columns.layout.base_ts + max_stamp);
    if tail_end != columns.layout.tail_len || value_end != columns.layout.values_len {
        return Err(Damage("block's rows do not fill their columns"));
    }
    Ok(())
}

/// Rows of a run rise by key and, within a key, fall by timestamp.
fn check_order(columns: &Columns<'_>, run: usize, facts: &mut Facts) -> Result<(), Damage> {
    let rows = columns.run(run).rows;
    for row in rows.start + 1..rows.end {
        let keys = match columns.head(row - 1).cmp(&columns.head(row)) {
            Ordering::Equal => columns.suffix(row - 1).cmp(&columns.suffix(row)),
            order => order,
        };
        let newer_first = || columns.stamp(row - 1) > columns.stamp(row);
        if !(keys.is_lt() || keys.is_eq() && newer_first()) {
            return Err(Damage("block's rows are out of order"));
        }
        facts.distinct &= keys.is_lt();
    }
    Ok(())
}

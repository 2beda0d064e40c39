//! Plans as text: one line, for people and for tests.
//!
//! `partition scan PartitionKey='JFK-B6', filter: Delay gt 60`

use crate::table::error::Key;
use crate::table::keys;
use crate::table::plan::{Plan, Shape};
use crate::table::spans::Span;
use std::fmt::{self, Write};

/// How many points or ranges are written out before the rest is only counted.
const SHOWN_MAX: usize = 3;

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Nothing => "nothing",
            Shape::Point => "point",
            Shape::MultiPoint => "multi-point",
            Shape::RowRange => "row range",
            Shape::MultiRange => "multi-range",
            Shape::PartitionScan => "partition scan",
            Shape::PartitionRange => "partition range",
            Shape::SkipScan => "skip scan",
            Shape::TableScan => "table scan",
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape())?;
        let mut shown = 0;
        for (partitions, rows) in self.keys().pieces() {
            for (row_span, ()) in rows.pieces().iter().take(SHOWN_MAX.saturating_sub(shown)) {
                f.write_str(if shown == 0 { "" } else { ";" })?;
                let partition = text_of(Key::Partition, partitions);
                let row = text_of(Key::Row, row_span);
                let comma = if partition.is_empty() || row.is_empty() { "" } else { "," };
                write!(f, "{partition}{comma}{row}")?;
                shown += 1;
            }
        }
        let hidden = self.keys().len() - shown;
        if hidden > 0 {
            write!(f, "; and {hidden} more")?;
        }
        match self.rest() {
            Some(rest) => write!(f, ", filter: {rest}"),
            None => Ok(()),
        }
    }
}

/// ` Key='a'` or ` Key>='a' Key<'b'`; empty for all keys.
fn text_of(key: Key, span: &Span) -> String {
    let mut out = String::new();
    if let Some(point) = span.point() {
        put(&mut out, key, "=", point);
        return out;
    }
    match span.start.strip_suffix(&[0]) {
        Some(below) => put(&mut out, key, ">", below),
        None if span.start.is_empty() => {}
        None => put(&mut out, key, ">=", &span.start),
    }
    match span.end.as_deref().map(|end| (end, end.strip_suffix(&[0]))) {
        Some((_, Some(last))) => put(&mut out, key, "<=", last),
        Some((end, None)) => put(&mut out, key, "<", end),
        None => {}
    }
    out
}

fn put(out: &mut String, key: Key, op: &str, bytes: &[u8]) {
    let text = keys::decode(bytes).unwrap_or_else(|| String::from_utf8_lossy(bytes));
    // Writing to a string does not fail.
    let _ = write!(out, " {key}{op}'{}'", text.replace('\'', "''"));
}

//! Half-open ranges of encoded keys.

use crate::ids::TableId;
use crate::key::order;
use std::ops::Bound;

/// Keys from `start` (included) to `end` (excluded). Empty where `start >= end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may be in the range.
    pub start: Vec<u8>,
    /// The first key that is past the range.
    pub end: Vec<u8>,
}

impl KeyRange {
    /// All rows of a table.
    pub fn table(table: TableId) -> KeyRange {
        KeyRange { start: order::table_start(table), end: order::table_end(table) }
    }

    /// The rows of one partition whose RowKey lies between the bounds.
    pub fn rows(table: TableId, pk: &[u8], from: Bound<&[u8]>, to: Bound<&[u8]>) -> KeyRange {
        let key = |rk: &[u8]| order::row_key(table, pk, rk);
        KeyRange::in_partition(&order::partition_prefix(table, pk), from.map(key), to.map(key))
    }

    /// The rows of a table whose (PartitionKey, RowKey) lies between the bounds.
    pub fn between(
        table: TableId,
        from: Bound<(&[u8], &[u8])>,
        to: Bound<(&[u8], &[u8])>,
    ) -> KeyRange {
        let key = |(pk, rk): (&[u8], &[u8])| order::row_key(table, pk, rk);
        let (start, end) = half_open(from.map(key), to.map(key));
        let start = start.unwrap_or_else(|| order::table_start(table));
        KeyRange { start, end: end.unwrap_or_else(|| order::table_end(table)) }
    }

    /// The keys between the bounds, in the partition whose keys all start with `prefix`.
    pub(crate) fn in_partition(
        prefix: &[u8],
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
    ) -> KeyRange {
        let (start, end) = half_open(from, to);
        let start = start.unwrap_or_else(|| prefix.to_vec());
        KeyRange { start, end: end.unwrap_or_else(|| order::partition_end(prefix)) }
    }

    /// From `first` to `last`, both included.
    pub(crate) fn spanning(first: Vec<u8>, last: Vec<u8>) -> KeyRange {
        KeyRange { start: first, end: after(last) }
    }

    /// Whether no key can be in it.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Whether `key` is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && key < self.end.as_slice()
    }
}

/// The first key between the bounds and the first one behind; `None` where there is no bound.
pub(crate) fn half_open(
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let from = match from {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(key),
        Bound::Excluded(key) => Some(after(key)),
    };
    let to = match to {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(after(key)),
        Bound::Excluded(key) => Some(key),
    };
    (from, to)
}

/// The first string of bytes above `key`.
fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_rows() {
        let t = TableId(1);
        let range = KeyRange::rows(t, b"p", Bound::Excluded(b"b"), Bound::Included(b"d"));
        let inside = |rk: &[u8]| range.contains(&order::row_key(t, b"p", rk));
        assert!(!inside(b"b") && inside(b"b\0") && inside(b"c") && inside(b"d") && !inside(b"d\0"));
        assert!(KeyRange::rows(t, b"p", Bound::Included(b"x"), Bound::Excluded(b"x")).is_empty());
    }
}

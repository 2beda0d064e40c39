//! The operations of one commit, as the log stores them. One commit changes one partition, so the
//! partition's prefix stands once.
//!
//! ```text
//! part    field
//! commit  ts u64 | prefix_len varint, prefix | operations varint | operation…
//! operation  kind u8 (0 delete, 1 put) | rk_len varint, rk | put only: value_len varint, value
//!            kind u8 = 3 (put until) | rk_len varint, rk | 8 + value_len varint, expiry u64, value
//!            kind u8 = 5 (erase) | scope u8 | by scope:
//!              0 RowKeys from..to:  from_len varint, from | to_len varint, to
//!              1 RowKeys from..:    from_len varint, from
//!              2 a whole table:     table id u32
//! ```
//!
//! An erase hides what is older than its commit, so its place among the commit's operations says
//! nothing: whoever builds a batch deletes what it has put before where a later erase covers it.

use crate::codec::{self, Reader};
use crate::erasure::set::Erasure;
use crate::expiry;
use crate::ids::{CommitTs, RowKind, TableId};
use crate::key::order;
use crate::key::range::KeyRange;
use crate::limits::{COMMIT_ROWS_MAX, KEY_BYTES_MAX, KEY_PART_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use std::ops::Range;

/// A value of this many bytes or more stays in the buffer of its commit for as long as a memtable
/// has it.
pub(crate) const KEPT_BYTES_MIN: usize = 16 << 10;

/// The kind byte of an erase; those below are of [`RowKind`].
const ERASE: u8 = 5;
const SCOPE_ROWS: u8 = 0;
const SCOPE_ROWS_FROM: u8 = 1;
const SCOPE_TABLE: u8 = 2;

/// Bytes of a put beside its RowKey and value at most: its kind and their lengths.
const OPERATION_BYTES: usize = 8;

/// A bound is a RowKey, or the first string of bytes above one.
const BOUND_BYTES_MAX: usize = KEY_PART_BYTES_MAX + 1;

/// One commit's operations, encoded outside of every lock.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    prefix: Vec<u8>,
    operations: Vec<u8>,
    count: usize,
    erases: usize,
    bounds_bytes: usize, // Of the ranges that it erases.
}

/// A place between two operations of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    at: usize,
    count: usize,
    erases: usize,
    bounds_bytes: usize,
}

impl Batch {
    /// An empty batch for the partition of `prefix`.
    pub(crate) fn new(prefix: Vec<u8>) -> Batch {
        Batch { prefix, operations: Vec::new(), count: 0, erases: 0, bounds_bytes: 0 }
    }

    pub(crate) fn put(&mut self, rk: &[u8], value: &[u8]) {
        self.count += 1;
        // At once: a large value would otherwise make the bytes move, or be twice as many.
        self.operations.reserve(OPERATION_BYTES + rk.len() + value.len());
        self.operations.push(RowKind::Put as u8);
        codec::put_slice(&mut self.operations, rk);
        codec::put_slice(&mut self.operations, value);
    }

    /// A put that is gone from `expires` on.
    pub(crate) fn put_until(&mut self, rk: &[u8], value: &[u8], expires: CommitTs) {
        self.count += 1;
        self.operations.push(RowKind::PutUntil as u8);
        codec::put_slice(&mut self.operations, rk);
        codec::put_varint(&mut self.operations, (expiry::LEN + value.len()) as u64);
        expiry::put(expires, &mut self.operations);
        self.operations.extend_from_slice(value);
    }

    pub(crate) fn delete(&mut self, rk: &[u8]) {
        self.count += 1;
        self.operations.push(RowKind::Delete as u8);
        codec::put_slice(&mut self.operations, rk);
    }

    /// Removes the rows of the partition from `from` to before `to`, or from `from` on. The range
    /// holds a key.
    pub(crate) fn erase_rows(&mut self, from: &[u8], to: Option<&[u8]>) {
        debug_assert!(to.is_none_or(|to| from < to), "an erase has a range");
        self.count += 1;
        self.erases += 1;
        self.bounds_bytes += 2 * self.prefix.len() + from.len() + to.map_or(0, <[u8]>::len);
        self.operations.push(ERASE);
        self.operations.push(if to.is_some() { SCOPE_ROWS } else { SCOPE_ROWS_FROM });
        codec::put_slice(&mut self.operations, from);
        if let Some(to) = to {
            codec::put_slice(&mut self.operations, to);
        }
    }

    /// Removes all rows of a table, which need not be the partition's.
    pub(crate) fn erase_table(&mut self, table: TableId) {
        self.count += 1;
        self.erases += 1;
        self.operations.extend_from_slice(&[ERASE, SCOPE_TABLE]);
        self.operations.extend_from_slice(&table.0.to_le_bytes());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it erases anything.
    pub(crate) fn erases(&self) -> bool {
        self.erases > 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the bounds of all ranges that it erases.
    pub(crate) fn bounds_bytes(&self) -> usize {
        self.bounds_bytes
    }

    /// Where the batch ends now.
    pub(crate) fn mark(&self) -> Mark {
        let Batch { count, erases, bounds_bytes, .. } = *self;
        Mark { at: self.operations.len(), count, erases, bounds_bytes }
    }

    /// Forgets every operation since `mark`, which this batch gave.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        debug_assert!(mark.at <= self.operations.len() && mark.count <= self.count);
        self.operations.truncate(mark.at);
        (self.count, self.erases) = (mark.count, mark.erases);
        self.bounds_bytes = mark.bounds_bytes;
    }

    /// Calls `row` with each operation on a row since `from`, in order: RowKey, kind, and where the
    /// value stands ([`Batch::slice`]). Returns the end.
    pub(crate) fn each_since(
        &self,
        from: Mark,
        mut row: impl FnMut(&[u8], RowKind, Range<usize>),
    ) -> Mark {
        let mut reader = Reader::new(self.operations.get(from.at..).unwrap_or_default());
        while let Some(operation) = read_operation(&mut reader) {
            let Operation::Row(kind, rk, value) = operation else { continue };
            let end = self.operations.len() - reader.rest().len();
            row(rk, kind, end - value.len()..end);
        }
        self.mark()
    }

    /// The bytes of a value.
    pub(crate) fn slice(&self, place: Range<usize>) -> &[u8] {
        self.operations.get(place).unwrap_or_default()
    }

    /// Bytes that the commit takes in the log, frame and padding aside; a few more at most.
    pub(crate) fn bytes(&self) -> usize {
        self.operations.len() + self.prefix.len() + 24
    }

    /// The batch as what a memtable takes; values share one buffer.
    pub(crate) fn into_commit(self, ts: CommitTs) -> Commit {
        let Batch { prefix, mut operations, count, erases, .. } = self;
        // A memtable may keep the buffer; room that it grew by is not worth keeping with it.
        if operations.len() >= KEPT_BYTES_MIN && operations.capacity() > operations.len() * 5 / 4 {
            operations.shrink_to_fit();
        }
        Commit { ts, prefix, operations: operations.into(), count, erases }
    }
}

/// One commit with its place in the order.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) ts: CommitTs,
    prefix: Vec<u8>,
    operations: Bytes,
    count: usize,
    erases: usize,
}

impl Commit {
    /// Appends to a group what stands before the commit's [`Commit::operations`].
    pub(crate) fn put_head(&self, group: &mut Vec<u8>) {
        group.extend_from_slice(&self.ts.0.to_le_bytes());
        codec::put_slice(group, &self.prefix);
        codec::put_varint(group, self.count as u64);
    }

    /// The rest of what a group holds of it.
    pub(crate) fn operations(&self) -> &Bytes {
        &self.operations
    }

    /// Calls `row` with each operation on a row: encoded key, kind, value. False where the bytes
    /// are not what [`Batch`] writes, which only a damaged log can cause.
    #[must_use]
    pub(crate) fn each(&self, mut row: impl FnMut(&[u8], RowKind, &[u8])) -> bool {
        let mut key = self.prefix.clone();
        self.lent().each(|rk, kind, value| {
            key.truncate(self.prefix.len());
            key.extend_from_slice(rk);
            row(&key, kind, value);
        })
    }

    /// What the commit erases. Cost: nothing but a branch for a commit without erases.
    pub(crate) fn erasures(&self) -> Vec<Erasure> {
        self.lent().erasures()
    }

    /// The same, lent.
    pub(crate) fn lent(&self) -> LentCommit<'_> {
        let Commit { ts, prefix, operations, count, erases } = self;
        LentCommit { ts: *ts, prefix, operations, count: *count, erases: *erases }
    }

    /// A value that [`Commit::each`] gave, as a share of the commit's buffer, which lives as long.
    pub(crate) fn share(&self, value: &[u8]) -> Bytes {
        self.operations.slice_ref(value)
    }

    /// The commits of a group, in order; `None` where the bytes are not what [`Batch`] writes.
    pub(crate) fn read_group(group: &Bytes) -> Option<Vec<Commit>> {
        let (mut commits, mut reader) = (Vec::new(), Reader::new(group));
        while !reader.is_empty() {
            let LentCommit { ts, prefix, operations, count, erases } =
                LentCommit::read(&mut reader)?;
            let (prefix, operations) = (prefix.to_vec(), group.slice_ref(operations));
            commits.push(Commit { ts, prefix, operations, count, erases });
        }
        Some(commits)
    }
}

/// A commit where it lies in a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LentCommit<'a> {
    pub(crate) ts: CommitTs,
    /// What the keys of all its rows begin with.
    pub(crate) prefix: &'a [u8],
    operations: &'a [u8],
    count: usize,
    erases: usize,
}

impl<'a> LentCommit<'a> {
    /// The next commit of a group; `None` where the bytes are not what [`Batch`] writes.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<LentCommit<'a>> {
        let ts = CommitTs(reader.u64()?);
        let prefix = reader.slice(KEY_BYTES_MAX)?;
        if order::prefix_len(prefix) != Some(prefix.len()) {
            return None;
        }
        let count = reader.varint_max(COMMIT_ROWS_MAX)?;
        let start = reader.rest();
        let mut erases = 0;
        for _ in 0..count {
            let operation = read_operation(reader)?;
            erases += usize::from(matches!(operation, Operation::Erase(_)));
        }
        let operations = start.get(..start.len() - reader.rest().len())?;
        Some(LentCommit { ts, prefix, operations, count, erases })
    }

    /// Calls `row` with each operation on a row: RowKey, kind, value. False where the bytes are not
    /// what [`Batch`] writes.
    #[must_use]
    pub(crate) fn each(&self, mut row: impl FnMut(&'a [u8], RowKind, &'a [u8])) -> bool {
        let mut reader = Reader::new(self.operations);
        for _ in 0..self.count {
            match read_operation(&mut reader) {
                Some(Operation::Row(kind, rk, value)) => row(rk, kind, value),
                Some(Operation::Erase(_)) => {}
                None => return false,
            }
        }
        reader.is_empty()
    }

    /// The commit with memory of its own.
    pub(crate) fn copied(&self) -> Commit {
        let LentCommit { ts, prefix, operations, count, erases } = *self;
        let operations = Bytes::copy_from_slice(operations);
        Commit { ts, prefix: prefix.to_vec(), operations, count, erases }
    }

    /// What the commit erases.
    pub(crate) fn erasures(&self) -> Vec<Erasure> {
        let mut erasures = Vec::new();
        let mut reader = Reader::new(self.operations);
        while erasures.len() < self.erases {
            match read_operation(&mut reader) {
                Some(Operation::Erase(scope)) => {
                    erasures.push(Erasure::new(&scope.range(self.prefix), self.ts));
                }
                Some(Operation::Row(..)) => {}
                None => break,
            }
        }
        erasures
    }
}

/// One operation as it is stored.
enum Operation<'a> {
    Row(RowKind, &'a [u8], &'a [u8]),
    Erase(Scope<'a>),
}

/// What an erase removes.
enum Scope<'a> {
    Rows(&'a [u8], Option<&'a [u8]>),
    Table(TableId),
}

impl Scope<'_> {
    fn range(&self, prefix: &[u8]) -> KeyRange {
        match self {
            Scope::Rows(from, to) => {
                let end = to.map(|to| [prefix, to].concat());
                let end = end.unwrap_or_else(|| order::partition_end(prefix));
                KeyRange { start: [prefix, from].concat(), end }
            }
            Scope::Table(table) => KeyRange::table(*table),
        }
    }
}

fn read_operation<'a>(reader: &mut Reader<'a>) -> Option<Operation<'a>> {
    let kind = reader.u8()?;
    if kind == ERASE {
        return read_erase(reader).map(Operation::Erase);
    }
    let kind = RowKind::from_byte(kind)?;
    let rk = reader.slice(KEY_PART_BYTES_MAX)?;
    let value = match kind {
        RowKind::Put | RowKind::PutUntil => reader.slice(VALUE_BYTES_MAX)?,
        RowKind::Delete => &[],
        RowKind::Link | RowKind::LinkUntil => return None,
    };
    if !expiry::fits(kind, value.len()) {
        return None;
    }
    Some(Operation::Row(kind, rk, value))
}

fn read_erase<'a>(reader: &mut Reader<'a>) -> Option<Scope<'a>> {
    match reader.u8()? {
        SCOPE_ROWS => {
            let (from, to) = (reader.slice(BOUND_BYTES_MAX)?, reader.slice(BOUND_BYTES_MAX)?);
            (from < to).then_some(Scope::Rows(from, Some(to)))
        }
        SCOPE_ROWS_FROM => Some(Scope::Rows(reader.slice(BOUND_BYTES_MAX)?, None)),
        SCOPE_TABLE => Some(Scope::Table(TableId(reader.u32()?))),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::ids::TableId;

    /// Commit, key, kind, value.
    type Expected = (u64, Vec<u8>, RowKind, Vec<u8>);

    fn group() -> (Vec<u8>, Vec<Expected>) {
        let (mut bytes, mut rows) = (Vec::new(), Vec::new());
        for (ts, pk) in [(5u64, &b"a"[..]), (9, b"\0b")] {
            let prefix = order::partition_prefix(TableId(7), pk);
            let mut batch = Batch::new(prefix);
            batch.put(b"", b"empty row key");
            batch.delete(b"x");
            batch.put(b"y", b"");
            batch.erase_rows(b"a", Some(b"c"));
            batch.erase_rows(b"x", None);
            batch.erase_table(TableId(9));
            let commit = batch.into_commit(CommitTs(ts));
            commit.put_head(&mut bytes);
            bytes.extend_from_slice(commit.operations());
            let key = |rk| order::row_key(TableId(7), pk, rk);
            rows.push((ts, key(b""), RowKind::Put, b"empty row key".to_vec()));
            rows.push((ts, key(b"x"), RowKind::Delete, vec![]));
            rows.push((ts, key(b"y"), RowKind::Put, vec![]));
        }
        (bytes, rows)
    }

    #[test]
    fn a_group_comes_back_as_it_was() {
        let (bytes, want) = group();
        let mut rows = Vec::new();
        for commit in Commit::read_group(&bytes.into()).unwrap() {
            let ts = commit.ts.0;
            assert!(commit.each(|k, kind, v| rows.push((ts, k.to_vec(), kind, v.to_vec()))));
        }
        assert_eq!(rows, want);
    }

    #[test]
    fn erases_come_back_as_ranges_of_keys() {
        let (bytes, _) = group();
        let commits = Commit::read_group(&bytes.into()).unwrap();
        let key = |rk| order::row_key(TableId(7), b"a", rk);
        let end = order::partition_end(&order::partition_prefix(TableId(7), b"a"));
        let ranges = [
            KeyRange { start: key(b"a"), end: key(b"c") },
            KeyRange { start: key(b"x"), end },
            KeyRange::table(TableId(9)),
        ];
        let want: Vec<_> = ranges.iter().map(|range| Erasure::new(range, CommitTs(5))).collect();
        assert_eq!(commits[0].erasures(), want);
        let batch = Batch::new(order::partition_prefix(TableId(7), b"a"));
        assert_eq!(batch.into_commit(CommitTs(1)).erasures(), []);
    }

    #[test]
    fn a_damaged_group_is_refused_or_read_but_never_panics() {
        let (bytes, _) = group();
        for cut in 0..bytes.len() {
            let commits = Commit::read_group(&Bytes::copy_from_slice(&bytes[..cut]));
            assert!(commits.is_none_or(|c| c.len() < 2), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                for commit in Commit::read_group(&bytes.into()).into_iter().flatten() {
                    assert!(commit.each(|_, _, _| {}));
                    assert!(commit.erasures().iter().all(|erasure| erasure.start < erasure.end));
                }
            }
        }
    }
}

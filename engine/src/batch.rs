//! The operations of one commit, as the log stores them. One commit changes one partition, so the
//! partition's prefix stands once.
//!
//! ```text
//! part    field
//! commit  ts u64 | prefix_len varint, prefix | operations varint | operation…
//! operation  kind u8 (0 delete, 1 put) | rk_len varint, rk | put only: value_len varint, value
//! ```

use crate::codec::{self, Reader};
use crate::ids::{CommitTs, RowKind};
use crate::key::order;
use crate::limits::{COMMIT_ROWS_MAX, KEY_BYTES_MAX, KEY_PART_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use std::ops::Range;

/// One commit's operations, encoded outside of every lock.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    prefix: Vec<u8>,
    operations: Vec<u8>,
    count: usize,
}

/// A place between two operations of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    at: usize,
    count: usize,
}

impl Batch {
    /// An empty batch for the partition of `prefix`.
    pub(crate) fn new(prefix: Vec<u8>) -> Batch {
        Batch { prefix, operations: Vec::new(), count: 0 }
    }

    pub(crate) fn put(&mut self, rk: &[u8], value: &[u8]) {
        self.count += 1;
        self.operations.push(RowKind::Put as u8);
        codec::put_slice(&mut self.operations, rk);
        codec::put_slice(&mut self.operations, value);
    }

    pub(crate) fn delete(&mut self, rk: &[u8]) {
        self.count += 1;
        self.operations.push(RowKind::Delete as u8);
        codec::put_slice(&mut self.operations, rk);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Where the batch ends now.
    pub(crate) fn mark(&self) -> Mark {
        Mark { at: self.operations.len(), count: self.count }
    }

    #[allow(dead_code, reason = "transactions")]
    /// Forgets every operation since `mark`, which this batch gave.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        debug_assert!(mark.at <= self.operations.len() && mark.count <= self.count);
        self.operations.truncate(mark.at);
        self.count = mark.count;
    }

    /// Calls `row` with each operation since `from`, in order: RowKey, kind, and where the value
    /// stands ([`Batch::slice`]). Returns the end.
    pub(crate) fn each_since(
        &self,
        from: Mark,
        mut row: impl FnMut(&[u8], RowKind, Range<usize>),
    ) -> Mark {
        let mut reader = Reader::new(self.operations.get(from.at..).unwrap_or_default());
        while let Some((kind, rk, value)) = read_operation(&mut reader) {
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

    /// Appends the commit of `ts` to a group.
    pub(crate) fn put_commit(&self, ts: CommitTs, group: &mut Vec<u8>) {
        group.extend_from_slice(&ts.0.to_le_bytes());
        codec::put_slice(group, &self.prefix);
        codec::put_varint(group, self.count as u64);
        group.extend_from_slice(&self.operations);
    }

    /// The batch as what a memtable takes; values share one buffer.
    pub(crate) fn into_commit(self, ts: CommitTs) -> Commit {
        Commit { ts, prefix: self.prefix, operations: self.operations.into(), count: self.count }
    }
}

/// One commit with its place in the order.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) ts: CommitTs,
    prefix: Vec<u8>,
    operations: Bytes,
    count: usize,
}

impl Commit {
    /// Calls `row` with each operation: encoded key, kind, value. False where the bytes are not
    /// what [`Batch`] writes, which only a damaged log can cause.
    #[must_use]
    pub(crate) fn each(&self, mut row: impl FnMut(&[u8], RowKind, Bytes)) -> bool {
        let mut key = self.prefix.clone();
        let mut reader = Reader::new(&self.operations);
        for _ in 0..self.count {
            let Some((kind, rk, value)) = read_operation(&mut reader) else { return false };
            key.truncate(self.prefix.len());
            key.extend_from_slice(rk);
            let value =
                if value.is_empty() { Bytes::new() } else { self.operations.slice_ref(value) };
            row(&key, kind, value);
        }
        reader.is_empty()
    }

    /// The commits of a group, in order; `None` where the bytes are not what [`Batch`] writes.
    pub(crate) fn read_group(group: &Bytes) -> Option<Vec<Commit>> {
        let mut commits = Vec::new();
        let mut reader = Reader::new(group);
        while !reader.is_empty() {
            let ts = CommitTs(reader.u64()?);
            let prefix = reader.slice(KEY_BYTES_MAX)?.to_vec();
            if order::prefix_len(&prefix) != Some(prefix.len()) {
                return None;
            }
            let count = reader.varint_max(COMMIT_ROWS_MAX)?;
            let start = reader.rest();
            for _ in 0..count {
                read_operation(&mut reader)?;
            }
            let operations = group.slice_ref(start.get(..start.len() - reader.rest().len())?);
            commits.push(Commit { ts, prefix, operations, count });
        }
        Some(commits)
    }
}

fn read_operation<'a>(reader: &mut Reader<'a>) -> Option<(RowKind, &'a [u8], &'a [u8])> {
    let kind = RowKind::from_byte(reader.u8()?)?;
    let rk = reader.slice(KEY_PART_BYTES_MAX)?;
    let value = match kind {
        RowKind::Put => reader.slice(VALUE_BYTES_MAX)?,
        RowKind::Delete => &[],
    };
    Some((kind, rk, value))
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
            batch.put_commit(CommitTs(ts), &mut bytes);
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
                }
            }
        }
    }
}

//! Rows of the log for a table file: gathered as they are replayed, sorted once.
//!
//! A memtable would serve, but whoever only writes its rows out need not find any of them
//! meanwhile. Gathered and sorted they cost a fifth of the insertions, and values stay where the
//! log was read to.

use crate::batch::LentCommit;
use crate::cursor::Cursor;
use crate::erasure::set::Erasures;
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use bytes::Bytes;
use std::cmp::Ordering;

/// Bytes of a key that one comparison of numbers settles.
const CODE_BYTES: usize = 8;

/// Where values are less than this part of what the log was read in, they are copied out of it:
/// small commits that were synced one by one have a block of the log each.
const VALUES_PER_WINDOW: usize = 4;

/// Commits of the log, not yet in order.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    rows: Vec<Row>,
    keys: Vec<u8>,
    /// What all keys begin with.
    common_len: usize,
    windows: Vec<Bytes>,
    /// Rows, and bytes of values, that were there before the last window.
    before_window: (usize, usize),
    value_bytes: usize,
    pub(crate) erased: Erasures,
    pub(crate) last_ts: CommitTs,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// The first bytes of the key behind what all have in common.
    code: u64,
    ts: CommitTs,
    /// Where the key is among all keys; rises in the order of the log.
    key_at: usize,
    key_len: u32,
    window: u32,
    value_at: u32,
    value_len: u32,
    kind: RowKind,
}

impl Replayed {
    /// Adds a commit, newer than those before it, which lies in `window`. False where its bytes are
    /// not what [`Batch`](crate::batch::Batch) writes.
    #[must_use]
    pub(crate) fn add(&mut self, commit: &LentCommit<'_>, window: &Bytes) -> bool {
        // Planted: what a commit erased is not replayed.
        for erasure in commit.erasures().into_iter().filter(|_| !crate::planted!("B12")) {
            self.erased.insert(erasure);
        }
        if self.windows.last().is_none_or(|last| last.as_ptr() != window.as_ptr()) {
            self.end_window();
            self.windows.push(window.clone());
        }
        let place = self.windows.len() as u32 - 1;
        let start = window.as_ptr() as usize;
        self.last_ts = commit.ts;
        commit.each(|rk, kind, value| {
            let key_at = self.keys.len();
            self.keys.extend_from_slice(commit.prefix);
            self.keys.extend_from_slice(rk);
            self.note_common(key_at);
            self.value_bytes += value.len();
            // Lengths of keys and values are far below 4 GiB, and so is that of a window: a frame's
            // at most. A delete's empty value may lie anywhere.
            let value_at = if value.is_empty() { 0 } else { value.as_ptr() as usize - start };
            self.rows.push(Row {
                code: 0,
                ts: commit.ts,
                key_at,
                key_len: (self.keys.len() - key_at) as u32,
                window: place,
                value_at: value_at as u32,
                value_len: value.len() as u32,
                kind,
            });
        })
    }

    /// Nothing more comes out of the last window: keeps its values alone where they are little of
    /// it.
    fn end_window(&mut self) {
        let (first_row, first_value) = self.before_window;
        self.before_window = (self.rows.len(), self.value_bytes);
        let Some(window) = self.windows.last_mut() else { return };
        let bytes = self.value_bytes - first_value;
        // Without a row since, it may be what is left of it already.
        if first_row == self.rows.len() || bytes * VALUES_PER_WINDOW > window.len() {
            return;
        }
        let mut values = Vec::with_capacity(bytes);
        for row in &mut self.rows[first_row..] {
            let (start, len) = (row.value_at as usize, row.value_len as usize);
            row.value_at = values.len() as u32;
            values.extend_from_slice(&window[start..start + len]);
        }
        *window = values.into();
    }

    /// Bytes of memory that the rows take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Row>() + self.keys.len() + self.value_bytes
    }

    /// Whether there is neither a row nor an erasure.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.erased.is_empty()
    }

    /// Puts the rows in order.
    pub(crate) fn sort(&mut self) {
        self.end_window();
        let (keys, common_len) = (&self.keys, self.common_len);
        for row in &mut self.rows {
            row.code = code(key_of(keys, row).get(common_len..).unwrap_or_default());
        }
        // Of a key's versions the newest comes first, and so does the last one of a commit.
        let order = |a: &Row, b: &Row| {
            let by_code = a.code.cmp(&b.code);
            let by_key = by_code.then_with(|| key_of(keys, a).cmp(key_of(keys, b)));
            by_key.then_with(|| b.ts.cmp(&a.ts)).then_with(|| b.key_at.cmp(&a.key_at))
        };
        self.rows.sort_by(order); // Finds the runs that there are: a load in order is one.
        self.rows.dedup_by(|b, a| {
            let same = a.code == b.code && a.ts == b.ts;
            same && key_of(keys, a).cmp(key_of(keys, b)) == Ordering::Equal
        });
    }

    /// A cursor over the rows, which are sorted.
    pub(crate) fn cursor(&self) -> ReplayedCursor<'_> {
        ReplayedCursor { of: self, at: self.rows.len() }
    }

    /// Takes the key at `key_at`, the last one, into account.
    fn note_common(&mut self, key_at: usize) {
        let (before, key) = self.keys.split_at(key_at);
        if before.is_empty() {
            self.common_len = key.len();
            return;
        }
        let len = self.common_len.min(key.len());
        if before[..len] != key[..len] {
            self.common_len = before.iter().zip(key).take_while(|(a, b)| a == b).count();
        } else {
            self.common_len = len;
        }
    }
}

fn key_of<'a>(keys: &'a [u8], row: &Row) -> &'a [u8] {
    &keys[row.key_at..row.key_at + row.key_len as usize]
}

/// The first bytes as a number in the same order; zeros where there are fewer.
fn code(bytes: &[u8]) -> u64 {
    let mut first = [0; CODE_BYTES];
    let len = bytes.len().min(CODE_BYTES);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

/// A position among sorted rows.
#[derive(Debug)]
pub(crate) struct ReplayedCursor<'a> {
    of: &'a Replayed,
    /// The row's number; that of rows where it stands on none.
    at: usize,
}

impl ReplayedCursor<'_> {
    fn row(&self) -> Option<&Row> {
        self.of.rows.get(self.at)
    }
}

impl Cursor for ReplayedCursor<'_> {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        let before = |row: &Row| match key_of(&self.of.keys, row).cmp(key) {
            Ordering::Equal => row.ts > ts,
            order => order.is_lt(),
        };
        self.at = self.of.rows.partition_point(before);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let rows = &self.of.rows;
        let end = rows.partition_point(|row| key_of(&self.of.keys, row) < key);
        self.at = end.checked_sub(1).unwrap_or(rows.len());
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at = self.of.rows.len().min(self.at + 1);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self.at.checked_sub(1).unwrap_or(self.of.rows.len());
        Ok(())
    }

    fn valid(&self) -> bool {
        self.at < self.of.rows.len()
    }

    fn key(&self) -> &[u8] {
        self.row().map(|row| key_of(&self.of.keys, row)).unwrap_or_default()
    }

    fn ts(&self) -> CommitTs {
        self.row().map_or(CommitTs::ZERO, |row| row.ts)
    }

    fn kind(&self) -> RowKind {
        self.row().map_or(RowKind::Delete, |row| row.kind)
    }

    fn value(&mut self) -> Result<Bytes> {
        let value = self.value_ref()?;
        Ok(self.row().map_or(Bytes::new(), |row| match value {
            [] => Bytes::new(),
            value => self.of.windows[row.window as usize].slice_ref(value),
        }))
    }

    fn value_ref(&self) -> Result<&[u8]> {
        let Some(row) = self.row() else { return Ok(&[]) };
        let window = &self.of.windows[row.window as usize];
        let (start, len) = (row.value_at as usize, row.value_len as usize);
        Ok(&window[start..start + len])
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::codec::Reader;
    use crate::ids::TableId;
    use crate::key::order;

    type Version = (Vec<u8>, u64, Vec<u8>);

    /// Timestamp, PartitionKey, RowKeys put.
    type Puts<'a> = (u64, &'a [u8], &'a [&'a [u8]]);

    fn replayed(commits: &[Puts<'_>]) -> Replayed {
        let mut rows = Replayed::default();
        for (ts, pk, keys) in commits {
            let mut batch = Batch::new(order::partition_prefix(TableId(1), pk));
            for (n, rk) in keys.iter().enumerate() {
                batch.put(rk, format!("{ts}.{n}").as_bytes());
            }
            let commit = batch.into_commit(CommitTs(*ts));
            let mut window = b"what is before it".to_vec();
            let start = window.len();
            commit.put_head(&mut window);
            window.extend_from_slice(commit.operations());
            let window = Bytes::from(window);
            let lent = LentCommit::read(&mut Reader::new(&window[start..])).unwrap();
            assert!(rows.add(&lent, &window));
        }
        rows.sort();
        rows
    }

    fn walk(rows: &Replayed) -> Vec<Version> {
        let (mut cursor, mut found) = (rows.cursor(), Vec::new());
        cursor.seek(b"", CommitTs::MAX).unwrap();
        while cursor.valid() {
            let value = cursor.value().unwrap().to_vec();
            found.push((cursor.key().to_vec(), cursor.ts().0, value));
            cursor.next().unwrap();
        }
        found
    }

    fn version(pk: &[u8], rk: &[u8], ts: u64, value: &str) -> Version {
        (order::row_key(TableId(1), pk, rk), ts, value.into())
    }

    #[test]
    fn rows_come_by_key_and_then_newest_first_and_the_last_word_of_a_commit_counts() {
        let rows = replayed(&[
            (3, b"p", &[b"row-00000002", b"row-00000001"]),
            (5, b"p", &[b"row-00000001", b"row-00000001", b"", b"row"]),
            (9, b"a", &[b"z"]),
        ]);
        let want = [
            version(b"a", b"z", 9, "9.0"),
            version(b"p", b"", 5, "5.2"),
            version(b"p", b"row", 5, "5.3"),
            version(b"p", b"row-00000001", 5, "5.1"),
            version(b"p", b"row-00000001", 3, "3.1"),
            version(b"p", b"row-00000002", 3, "3.0"),
        ];
        assert_eq!(walk(&rows), want);
    }

    #[test]
    fn of_what_holds_little_the_values_alone_are_kept() {
        let commit = |ts: u64, padding: usize, rows: &mut Replayed| {
            let mut batch = Batch::new(order::partition_prefix(TableId(1), b"p"));
            (0..3).for_each(|n| batch.put(&[n, ts as u8], format!("{ts}.{n}").as_bytes()));
            batch.delete(b"gone");
            let commit = batch.into_commit(CommitTs(ts));
            let mut window = vec![0; padding];
            commit.put_head(&mut window);
            window.extend_from_slice(commit.operations());
            window.resize(window.len() + padding, 0);
            let window = Bytes::from(window);
            let lent = LentCommit::read(&mut Reader::new(&window[padding..])).unwrap();
            assert!(rows.add(&lent, &window));
        };
        for padding in [0, 1 << 20] {
            let mut rows = Replayed::default();
            (1..=40).for_each(|ts| commit(ts, padding, &mut rows));
            let held = |rows: &Replayed| rows.windows.iter().map(Bytes::len).sum::<usize>();
            assert!(held(&rows) < (3 << 20), "all windows but the last one: {}", held(&rows));
            rows.sort();
            rows.end_window();
            assert!(held(&rows) < 10_000, "{} bytes", held(&rows));
            let found = walk(&rows);
            assert_eq!(found.len(), 160);
            for (key, ts, value) in found {
                let deleted = key.ends_with(b"gone");
                let n = key[key.len() - 2];
                let want = if deleted { String::new() } else { format!("{ts}.{n}") };
                assert_eq!(value, want.into_bytes());
            }
        }
    }

    #[test]
    fn a_cursor_finds_its_place_and_goes_both_ways() {
        let rows = replayed(&[(3, b"p", &[b"a", b"c"]), (5, b"p", &[b"a"])]);
        let key = |rk| order::row_key(TableId(1), b"p", rk);
        let mut cursor = rows.cursor();
        assert!(!cursor.valid() && cursor.key().is_empty());
        assert!(cursor.value_ref().unwrap().is_empty() && cursor.value().unwrap().is_empty());
        cursor.seek(&key(b"a"), CommitTs(4)).unwrap();
        assert_eq!(cursor.ts(), CommitTs(3));
        cursor.prev().unwrap();
        assert_eq!((cursor.key(), cursor.ts()), (&key(b"a")[..], CommitTs(5)));
        cursor.prev().unwrap();
        assert!(!cursor.valid());
        cursor.seek_before(&key(b"c")).unwrap();
        assert_eq!((cursor.key(), cursor.ts()), (&key(b"a")[..], CommitTs(3)));
        cursor.seek(&key(b"b"), CommitTs::MAX).unwrap();
        assert_eq!(cursor.key(), key(b"c"));
        cursor.next().unwrap();
        assert!(!cursor.valid());
    }
}

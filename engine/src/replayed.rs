//! Rows of the log for a table file: gathered as they are replayed, sorted once.
//!
//! A memtable would serve, but whoever only writes its rows out need not find any of them
//! meanwhile. Gathered and sorted they cost a fifth of the insertions, and values stay where the
//! log was read to.

use crate::batch::LentCommit;
use crate::cursor::Cursor;
use crate::erasure::set::{Erasure, Erasures};
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::key::fences;
use crate::prefetch;
use bytes::Bytes;
use std::cmp::Ordering;

/// Bytes of a key that one comparison of numbers settles.
const CODE_BYTES: usize = 8;

/// So many rows with the same code are put in order by comparing keys; more get the next code.
const COMPARED_ROWS_MAX: usize = 8;

/// After so many codes whole keys are compared: keys that part one by one, as an enemy may have
/// them, would cost a look at all of them for each, and stack.
const CODES_MAX: usize = 8;

/// How far ahead of a cursor rows are fetched that will be asked for, and how much of each key and
/// value: in the order of keys they lie all over the log.
const ROWS_AHEAD: usize = 6;
const BYTES_AHEAD: usize = 512;

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
    erasures: Vec<Erasure>,
    /// What was erased, once they are sorted.
    pub(crate) erased: Erasures,
    pub(crate) last_ts: CommitTs,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// Eight bytes of the key, behind those that it shares with all rows it was last sorted with.
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
        // Planted (`planted.rs`): what a commit erased is not replayed.
        let erasures = commit.erasures().into_iter().filter(|_| !crate::planted!("B12"));
        self.erasures.extend(erasures);
        if self.windows.last().is_none_or(|last| last.as_ptr() != window.as_ptr()) {
            self.end_window();
            self.windows.push(window.clone());
        }
        let window_no = self.windows.len() as u32 - 1;
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
                window: window_no,
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
        self.rows.is_empty() && self.erasures.is_empty()
    }

    /// Puts the rows in order, and the erasures.
    pub(crate) fn sort(&mut self) {
        self.end_window();
        self.erased = Erasures::of(std::mem::take(&mut self.erasures));
        let keys = &self.keys;
        // A load in order is left as it is.
        if !self.rows.is_sorted_by(|a, b| by_key_and_age(a, b, keys).is_le()) {
            sort_behind(&mut self.rows, keys, self.common_len, CODES_MAX);
        }
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
        // The first key is where they begin.
        self.common_len = fences::common_len(&before[..self.common_len], key);
    }
}

fn key_of<'a>(keys: &'a [u8], row: &Row) -> &'a [u8] {
    &keys[row.key_at..row.key_at + row.key_len as usize]
}

/// Sorts rows whose keys have their first `len` bytes in common, by up to `codes` codes. Numbers
/// settle most of it, so that a key is looked at once for its eight bytes, not at every comparison;
/// rows that share a number are sorted by what comes behind it. The last number stays in
/// [`Row::code`]: rows of one key have the same.
///
/// After Bentley and Sedgewick, "Fast Algorithms for Sorting and Searching Strings", 1997, by eight
/// bytes at a time.
fn sort_behind(rows: &mut [Row], keys: &[u8], len: usize, codes: usize) {
    for row in &mut *rows {
        row.code = fences::head(key_of(keys, row).get(len..).unwrap_or_default());
    }
    rows.sort_by_key(|row| row.code); // Stable: it makes use of the runs that there are.
    for run in rows.chunk_by_mut(|a, b| a.code == b.code) {
        let is_worth_it = run.len() > COMPARED_ROWS_MAX && codes > 1;
        let shared = if is_worth_it { common_len(run, keys) } else { 0 };
        // A shorter key has zeros in its code that another one may have of its own.
        if shared >= len + CODE_BYTES {
            sort_behind(run, keys, shared, codes - 1);
        } else {
            run.sort_by(|a, b| by_key_and_age(a, b, keys));
        }
    }
}

/// Of a key's versions the newest comes first, and so does the last one of a commit.
fn by_key_and_age(a: &Row, b: &Row, keys: &[u8]) -> Ordering {
    let by_key = key_of(keys, a).cmp(key_of(keys, b));
    by_key.then_with(|| b.ts.cmp(&a.ts)).then_with(|| b.key_at.cmp(&a.key_at))
}

/// How many bytes the keys of all rows begin with.
fn common_len(rows: &[Row], keys: &[u8]) -> usize {
    let first = rows.first().map(|row| key_of(keys, row)).unwrap_or_default();
    rows.iter().fold(first.len(), |len, row| fences::common_len(&first[..len], key_of(keys, row)))
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

    /// Has key and value of a row to come on their way into the processor's cache.
    fn fetch_ahead(&self) {
        let Some(row) = self.of.rows.get(self.at + ROWS_AHEAD) else { return };
        let key = key_of(&self.of.keys, row);
        prefetch::read_from(key, BYTES_AHEAD.min(key.len()));
        if let Some(value) = self.of.windows[row.window as usize].get(row.value_at as usize) {
            prefetch::read_from(value, BYTES_AHEAD.min(row.value_len as usize));
        }
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
        self.fetch_ahead();
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
    use std::cmp::Reverse;

    type Version = (Vec<u8>, u64, Vec<u8>);

    /// Timestamp, PartitionKey, RowKeys put.
    type Puts<'a> = (u64, &'a [u8], &'a [&'a [u8]]);

    fn replayed(commits: &[Puts<'_>]) -> Replayed {
        let mut rows = Replayed::default();
        commits.iter().for_each(|puts| add(&mut rows, puts));
        rows.sort();
        rows
    }

    /// Adds a commit, whose values say which it is and where in it they stand.
    fn add(rows: &mut Replayed, (ts, pk, keys): &Puts<'_>) {
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

    /// Keys that share much or little, of which one begins as another, with many versions of some.
    #[test]
    fn rows_are_sorted_as_by_a_look_at_whole_keys() {
        let mut rng = crate::env::rng::Rng::seeded(5);
        for round in 0..40 {
            let mut rows = Replayed::default();
            let mut want = Vec::new();
            for ts in 1..=300 {
                let mut rk = vec![b'r'; rng.below(3) as usize * (round % 13)];
                rk.extend((0..rng.below(12)).map(|_| [0, 0, b'r', 255][rng.below(4) as usize]));
                add(&mut rows, &(ts, [&b"p"[..], b"q"][rng.below(2) as usize], &[&rk]));
                let key = rows.keys[rows.rows.last().unwrap().key_at..].to_vec();
                want.push((key, Reverse(ts)));
            }
            rows.sort();
            want.sort();
            let found = walk(&rows).into_iter().map(|(key, ts, _)| (key, Reverse(ts)));
            assert_eq!(found.collect::<Vec<_>>(), want, "round {round}");
        }
    }

    /// Each key goes on where the one before it ends: whoever writes such keys must not make the
    /// next open run out of stack.
    #[test]
    fn keys_that_part_one_by_one_are_sorted_on_a_small_stack() {
        let mut rows = Replayed::default();
        let long = |len: usize| vec![b'r'; len];
        for n in (1..=500).rev() {
            add(&mut rows, &(1000 - n, b"p", &[&long(n as usize * CODE_BYTES)]));
        }
        for n in 0..20 {
            add(&mut rows, &(2000 - n, b"p", &[&long(500 * CODE_BYTES + 1 + n as usize)]));
        }
        let sort = move || {
            rows.sort();
            let lens: Vec<_> = rows.rows.iter().map(|row| row.key_len).collect();
            (lens.len(), lens.is_sorted())
        };
        let small = std::thread::Builder::new().stack_size(64 << 10).spawn(sort).unwrap();
        assert_eq!(small.join().unwrap(), (520, true));
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

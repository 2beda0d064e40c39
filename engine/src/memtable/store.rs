//! Rows of a memtable in one arena, with their two indexes.
//!
//! A key's first version is added to the tree and to the hash index; a further one only to its
//! row's chain, and now and then to the marks.

use crate::batch::Commit;
use crate::chunks::SpareChunks;
use crate::cursor::Found;
use crate::ids::{CommitTs, RowKind};
use crate::key::hash;
use crate::memtable::arena::{Arena, Bump, Ref};
use crate::memtable::hash_index::{Fill, HashIndex, Looked};
use crate::memtable::marks::{MARK_BYTES, Marks, VERSIONS_BEFORE_MARKS};
use crate::memtable::row::{self, NewVersion, Row, SHARED_BYTES_MIN, Version};
use crate::memtable::shared::SharedValues;
use crate::memtable::tree::{Finger, Tree};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use bytes::Bytes;
use std::sync::Arc;

/// Operations whose memory is fetched at once: as many misses as a processor keeps under way.
const GROUP_OPERATIONS: usize = 10;

/// Versions of rows. One writer; readers take no lock and wait for nobody, unless they look for an
/// old version among many newer ones: see [`Marks`].
#[derive(Debug)]
pub(super) struct ArenaMemtable {
    pub(super) arena: Arena,
    pub(super) tree: Tree,
    pub(super) shared: SharedValues,
    hashes: HashIndex,
    marks: Marks,
    writer: Mutex<Writer>, // Never waited for: one thread inserts at a time.
    bytes: AtomicUsize,
}

#[derive(Debug)]
struct Writer {
    bump: Bump,
    fill: Fill,
    finger: Finger,
    kept_bytes: usize, // Of the buffers that large values keep, and of marks.
    keys: Vec<u8>,     // Kept for the next commit.
}

impl ArenaMemtable {
    pub(super) fn new(spare: Arc<SpareChunks>) -> ArenaMemtable {
        let (arena, mut bump) = Arena::new(spare);
        let tree = Tree::new(&arena, &mut bump);
        let (fill, finger) = (Fill::new(), Finger::default());
        let writer = Writer { bump, fill, finger, kept_bytes: 0, keys: Vec::new() };
        ArenaMemtable {
            arena,
            tree,
            shared: SharedValues::default(),
            hashes: HashIndex::new(),
            marks: Marks::default(),
            writer: Mutex::new(writer),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Adds the operations of a commit; false where its bytes are damaged. One thread at a time.
    pub(super) fn apply_commit(&self, commit: &Commit) -> bool {
        let mut writer = self.writer.lock();
        let mut group = Group { keys: std::mem::take(&mut writer.keys), ..Group::default() };
        let shared_before = self.shared.len();
        let lent = commit.lent();
        let whole = lent.each(|rk, kind, value| {
            if group.len == GROUP_OPERATIONS {
                self.add_group(&mut writer, commit, &mut group);
            }
            group.push(lent.prefix, rk, kind, value);
        });
        self.add_group(&mut writer, commit, &mut group);
        writer.keys = group.keys;
        if self.shared.len() > shared_before {
            writer.kept_bytes += commit.operations().len(); // One value keeps all of them.
        }
        self.count_bytes(&writer);
        whole
    }

    /// Adds the operations of a group and empties it. Their rows are looked for together, so that
    /// the processor waits for several at once.
    fn add_group(&self, writer: &mut Writer, commit: &Commit, group: &mut Group<'_>) {
        let operations = &group.operations[..group.len];
        if operations.len() > 1 {
            for operation in operations {
                self.hashes.prefetch_slot(&self.arena, operation.row_hash);
            }
            for operation in operations {
                self.hashes.prefetch_row(&self.arena, operation.row_hash);
            }
        }
        let mut start = 0;
        for &GroupOperation { key_end, row_hash, kind, value } in operations {
            let key = &group.keys[start..key_end];
            start = key_end;
            let shared = share(&self.shared, value, || commit.share(value));
            let version = NewVersion { ts: commit.ts, kind, value, shared };
            self.add(writer, key, row_hash, version);
        }
        group.keys.clear();
        group.len = 0;
    }

    /// Adds one version. One thread at a time.
    pub(super) fn insert_version(&self, key: &[u8], ts: CommitTs, kind: RowKind, value: &[u8]) {
        let mut writer = self.writer.lock();
        let copy = || Bytes::copy_from_slice(value);
        let shared = share(&self.shared, value, copy);
        writer.kept_bytes += shared.map_or(0, |_| value.len());
        self.add(&mut writer, key, hash::of_row(key), NewVersion { ts, kind, value, shared });
        self.count_bytes(&writer);
    }

    /// The newest version of `key` not newer than `at`.
    pub(super) fn find(&self, key: &[u8], row_hash: u64, at: CommitTs) -> Option<Found> {
        let arena = &self.arena;
        let row = self.row_of(key, row_hash)?;
        let version = self.newest_at(row, at)?;
        let value = row::value_of(arena, &self.shared, version);
        let version = arena.get(version);
        Some(Found { ts: version.ts(), kind: version.kind(), value })
    }

    /// The newest version of `row` not newer than `at`.
    #[inline]
    pub(super) fn newest_at(&self, row: Ref<Row>, at: CommitTs) -> Option<Ref<Version>> {
        self.walk_to(row, at).0
    }

    /// The same, and how many newer ones were looked at.
    #[inline]
    fn walk_to(&self, row: Ref<Row>, at: CommitTs) -> (Option<Ref<Version>>, usize) {
        let (arena, mut looked) = (&self.arena, 0);
        let mut version = arena.get(row).newest();
        while let Some(here) = version.filter(|here| arena.get(*here).ts() > at) {
            version = arena.get(here).older();
            looked += 1;
            if looked == VERSIONS_BEFORE_MARKS {
                version = version.map(|version| self.marked_behind(version, row, at));
            }
        }
        (version, looked)
    }

    /// The last marked version behind this one that is newer than `at`; this one where there is
    /// none.
    #[cold]
    fn marked_behind(&self, here: Ref<Version>, row: Ref<Row>, at: CommitTs) -> Ref<Version> {
        let is_behind =
            |mark: &Ref<Version>| self.arena.get(*mark).ts() < self.arena.get(here).ts();
        self.marks.above(row, at).filter(is_behind).unwrap_or(here)
    }

    /// Bytes that were handed out, indexes and shared values included; 0 before the first insert.
    pub(super) fn bytes_used(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    #[inline]
    fn row_of(&self, key: &[u8], hash: u64) -> Option<Ref<Row>> {
        match self.hashes.find(&self.arena, key, hash) {
            Looked::Found(row) => Some(row),
            Looked::Absent => None,
            Looked::Crowded => self.row_in_tree(key),
        }
    }

    #[cold]
    fn row_in_tree(&self, key: &[u8]) -> Option<Ref<Row>> {
        let (_, row) = self.tree.seek(&self.arena, key)?;
        (row::key_of(&self.arena, row) == key).then_some(row)
    }

    fn add(&self, writer: &mut Writer, key: &[u8], hash: u64, version: NewVersion<'_>) {
        let (arena, Writer { bump, fill, finger, kept_bytes, .. }) = (&self.arena, writer);
        if let Some(row) = self.row_of(key, hash) {
            let made = arena.get(row).push(arena, bump, version);
            if Marks::is_due(version.ts) {
                self.marks.add(row, version.ts, made);
                *kept_bytes += MARK_BYTES;
            }
            return;
        }
        let row = Row::create(arena, bump, key, version);
        self.tree.insert(arena, bump, finger, row);
        self.hashes.insert(arena, bump, fill, hash, row);
    }

    fn count_bytes(&self, writer: &Writer) {
        let bytes = writer.bump.used_bytes() + writer.kept_bytes;
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Operations of a commit that are added together.
#[derive(Default)]
struct Group<'a> {
    keys: Vec<u8>, // One after the other.
    operations: [GroupOperation<'a>; GROUP_OPERATIONS],
    len: usize,
}

#[derive(Clone, Copy)]
struct GroupOperation<'a> {
    key_end: usize,
    row_hash: u64,
    kind: RowKind,
    value: &'a [u8],
}

impl Default for GroupOperation<'_> {
    fn default() -> Self {
        GroupOperation { key_end: 0, row_hash: 0, kind: RowKind::Delete, value: &[] }
    }
}

impl<'a> Group<'a> {
    /// Adds an operation to a group that is not full.
    fn push(&mut self, prefix: &[u8], rk: &[u8], kind: RowKind, value: &'a [u8]) {
        let start = self.keys.len();
        self.keys.extend_from_slice(prefix);
        self.keys.extend_from_slice(rk);
        let row_hash = hash::of_row(&self.keys[start..]);
        let operation = GroupOperation { key_end: self.keys.len(), row_hash, kind, value };
        self.operations[self.len] = operation;
        self.len += 1;
    }
}

/// Keeps a large value outside the arena.
fn share(values: &SharedValues, value: &[u8], keep: impl FnOnce() -> Bytes) -> Option<u32> {
    (value.len() >= SHARED_BYTES_MIN).then(|| values.push(keep()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::hash_index::PROBES_MAX;
    use tabulith_testkit::fewer::fewer;

    /// Adds `count` rows whose hashes `hash` says, and holds every answer against them.
    fn check(count: u64, hash: impl Fn(u64) -> u64) -> ArenaMemtable {
        let table = ArenaMemtable::new(SpareChunks::new(0));
        let key = |n: u64| n.to_be_bytes();
        for (round, ts) in [(0u8, 1), (1, 2)] {
            for n in 0..count {
                let (ts, value) = (CommitTs(ts), &[round]);
                let version = NewVersion { ts, kind: RowKind::Put, value, shared: None };
                table.add(&mut table.writer.lock(), &key(n), hash(n), version);
                let absent = table.find(&key(n + count), hash(n), CommitTs::MAX);
                assert!(absent.is_none(), "row {n} of {count} and no other");
            }
            for n in 0..count {
                let found = table.find(&key(n), hash(n), CommitTs::MAX).map(|row| row.value);
                assert_eq!(found.as_deref(), Some(&[round][..]), "row {n} of {count}");
                let first = table.find(&key(n), hash(n), CommitTs(1)).map(|row| row.value);
                assert_eq!(first.as_deref(), Some(&[0][..]), "row {n} of {count}");
            }
        }
        table
    }

    #[test]
    fn rows_of_one_hash_are_found_without_a_look_at_all_of_them() {
        for count in [1, 5, 200, fewer(3000, 200)] {
            let table = check(count, |_| 7);
            let looked = |n: u64| table.hashes.find(&table.arena, &n.to_be_bytes(), 7);
            let is_found = |n: &u64| matches!(looked(*n), Looked::Found(_));
            assert_eq!((0..count).filter(is_found).count() as u64, count.min(5), "{count} rows");
            assert_eq!(looked(count) == Looked::Crowded, count >= 5, "{count} rows");
        }
    }

    #[test]
    fn an_old_version_is_found_without_a_look_at_all_newer_ones() {
        const VERSIONS: u64 = fewer(100_000, 2_000);
        let table = ArenaMemtable::new(SpareChunks::new(0));
        for n in 1..=VERSIONS {
            for key in [b"a", b"b"] {
                table.insert_version(key, CommitTs(2 * n), RowKind::Put, &n.to_be_bytes());
            }
        }
        let row = table.row_of(b"a", hash::of_row(b"a")).expect("it is there");
        let (mut looked_in_all, mut asked) = (0, 0);
        for at in (0..=2 * VERSIONS + 1).step_by(97) {
            let (found, looked) = table.walk_to(row, CommitTs(at));
            let found = found.map(|version| table.arena.get(version).ts().0);
            assert_eq!(found, Some(at / 2 * 2).filter(|ts| *ts > 0));
            looked_in_all += looked;
            asked += 1;
        }
        assert!(looked_in_all < 200 * asked, "{looked_in_all} versions for {asked} looks");
    }

    #[test]
    fn rows_of_one_slot_are_found_without_a_look_at_all_of_them() {
        // Tags that differ in bits which no table of so many rows looks at.
        let table = check(3000, |n| n << 16);
        let looked = |n: u64| table.hashes.find(&table.arena, &n.to_be_bytes(), n << 16);
        let is_found = |n: &u64| matches!(looked(*n), Looked::Found(_));
        assert_eq!((0..3000).filter(is_found).count(), PROBES_MAX);
        assert_eq!(
            table.hashes.find(&table.arena, &[9], 9999),
            Looked::Crowded,
            "in the same table"
        );
        assert_eq!(table.hashes.find(&table.arena, &[9], u64::MAX), Looked::Absent);
    }
}

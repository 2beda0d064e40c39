//! Rows of a memtable in one arena, with their two indexes.
//!
//! A key's first version is added to the tree and to the hash index; a further one only to its row's
//! chain.

use crate::batch::Commit;
use crate::cursor::Found;
use crate::ids::{CommitTs, RowKind};
use crate::key::hash;
use crate::memtable::arena::{Arena, Bump};
use crate::memtable::hash_index::{Fill, HashIndex};
use crate::memtable::row::{self, NewVersion, Row, SHARED_BYTES_MIN};
use crate::memtable::shared::SharedValues;
use crate::memtable::tree::{Finger, Tree};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Versions of rows. One writer; readers take no lock and wait for nobody.
#[derive(Debug)]
pub(super) struct ArenaMemtable {
    pub(super) arena: Arena,
    pub(super) tree: Tree,
    pub(super) shared: SharedValues,
    hashes: HashIndex,
    writer: Mutex<Writer>, // Never waited for: one thread inserts at a time.
    bytes: AtomicUsize,
}

#[derive(Debug)]
struct Writer {
    bump: Bump,
    fill: Fill,
    finger: Finger,
    shared_bytes: usize,
}

impl ArenaMemtable {
    pub(super) fn new() -> ArenaMemtable {
        let (arena, mut bump) = Arena::new();
        let tree = Tree::new(&arena, &mut bump);
        let writer = Writer { bump, fill: Fill::new(), finger: Finger::default(), shared_bytes: 0 };
        ArenaMemtable {
            arena,
            tree,
            shared: SharedValues::default(),
            hashes: HashIndex::new(),
            writer: Mutex::new(writer),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Adds the operations of a commit; false where its bytes are damaged. One thread at a time.
    pub(super) fn apply_commit(&self, commit: &Commit) -> bool {
        let mut writer = self.writer.lock();
        let whole = commit.each(|key, kind, value| {
            let shared = share(&mut writer, &self.shared, value, || commit.share(value));
            self.add(&mut writer, key, NewVersion { ts: commit.ts, kind, value, shared });
        });
        self.count_bytes(&writer);
        whole
    }

    /// Adds one version. One thread at a time.
    pub(super) fn insert_version(&self, key: &[u8], ts: CommitTs, kind: RowKind, value: &[u8]) {
        let mut writer = self.writer.lock();
        let copy = || Bytes::copy_from_slice(value);
        let shared = share(&mut writer, &self.shared, value, copy);
        self.add(&mut writer, key, NewVersion { ts, kind, value, shared });
        self.count_bytes(&writer);
    }

    /// The newest version of `key` not newer than `at`.
    pub(super) fn find(&self, key: &[u8], row_hash: u64, at: CommitTs) -> Option<Found> {
        let arena = &self.arena;
        let row = self.hashes.find(arena, key, row_hash)?;
        let version = arena.get(row).newest_at(arena, at)?;
        let value = row::value_of(arena, &self.shared, version);
        let version = arena.get(version);
        Some(Found { ts: version.ts(), kind: version.kind(), value })
    }

    /// Bytes that were handed out, indexes and shared values included; 0 before the first insert.
    pub(super) fn bytes_used(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn add(&self, writer: &mut Writer, key: &[u8], version: NewVersion<'_>) {
        let (arena, Writer { bump, fill, finger, .. }) = (&self.arena, writer);
        let hash = hash::of_row(key);
        if let Some(row) = self.hashes.find(arena, key, hash) {
            arena.get(row).push(arena, bump, version);
            return;
        }
        let row = Row::create(arena, bump, key, version);
        self.tree.insert(arena, bump, finger, row);
        self.hashes.insert(arena, bump, fill, hash, row);
    }

    fn count_bytes(&self, writer: &Writer) {
        let bytes = writer.bump.used_bytes() + writer.shared_bytes;
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Keeps a large value outside the arena.
fn share(
    writer: &mut Writer,
    values: &SharedValues,
    value: &[u8],
    keep: impl FnOnce() -> Bytes,
) -> Option<u32> {
    if value.len() < SHARED_BYTES_MIN {
        return None;
    }
    writer.shared_bytes += value.len();
    Some(values.push(keep()))
}

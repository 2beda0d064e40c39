//! A row of a memtable: its key once, and a chain of versions, newest first.

use crate::batch::KEPT_BYTES_MIN;
use crate::ids::{CommitTs, RowKind};
use crate::limits::VALUE_BYTES_MAX;
use crate::memtable::arena::{Arena, AtomicRef, Bump, Node, Ref};
use crate::memtable::shared::SharedValues;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use bytes::Bytes;

/// A value of this many bytes or more stays in the buffer that it came in. Below, a copy costs less
/// than what counting references to that buffer does, and the buffer is free at once.
pub(super) const SHARED_BYTES_MIN: usize = KEPT_BYTES_MIN;

const KIND_BITS: u32 = 4;
const SHARED_BIT: u32 = 1 << KIND_BITS;
const LEN_SHIFT: u32 = KIND_BITS + 1;
const _: () = assert!(VALUE_BYTES_MAX < 1 << (32 - LEN_SHIFT), "a value's length fits");

/// A key, its newest and its oldest version. The key's bytes stand behind.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Row {
    newest: AtomicRef<Version>,
    oldest: AtomicRef<Version>,
    key_len: AtomicU32,
}

// SAFETY: atomics only; zero is the default of each.
unsafe impl Node for Row {}

/// One version. Its value's bytes stand behind, or the number of its shared value.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Version {
    ts: AtomicU64,
    older: AtomicRef<Version>,
    meta: AtomicU32, // kind 4 bits | shared 1 bit | length of the value
}

// SAFETY: atomics only; zero is the default of each.
unsafe impl Node for Version {}

/// A version as it comes in.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewVersion<'a> {
    pub(super) ts: CommitTs,
    pub(super) kind: RowKind,
    pub(super) value: &'a [u8],
    /// The number of the same value, kept outside the arena.
    pub(super) shared: Option<u32>,
}

impl Row {
    /// Makes a row with its first version.
    pub(super) fn create(
        arena: &Arena,
        bump: &mut Bump,
        key: &[u8],
        first: NewVersion<'_>,
    ) -> Ref<Row> {
        let at = arena.node_with::<Row>(bump, key);
        let row = arena.get(at);
        row.key_len.store(key.len() as u32, Ordering::Relaxed);
        let first = Version::create(arena, bump, first, None);
        row.oldest.store(Some(first));
        row.newest.store(Some(first));
        at
    }

    /// Adds a version, newer than all there are, or one that replaces the newest of the same
    /// commit. Returns it.
    pub(super) fn push(
        &self,
        arena: &Arena,
        bump: &mut Bump,
        version: NewVersion<'_>,
    ) -> Ref<Version> {
        let newest = self.newest.load();
        let older = newest.and_then(|at| {
            let newest = arena.get(at);
            debug_assert!(newest.ts() <= version.ts, "timestamps of a key rise");
            if newest.ts() == version.ts { newest.older() } else { Some(at) }
        });
        let made = Version::create(arena, bump, version, older);
        if older.is_none() {
            self.oldest.store(Some(made));
        }
        self.newest.store(Some(made));
        made
    }

    pub(super) fn oldest(&self) -> Option<Ref<Version>> {
        self.oldest.load()
    }

    pub(super) fn newest(&self) -> Option<Ref<Version>> {
        self.newest.load()
    }
}

/// The key of a row.
#[inline]
pub(super) fn key_of(arena: &Arena, at: Ref<Row>) -> &[u8] {
    let len = arena.get(at).key_len.load(Ordering::Relaxed) as usize;
    // SAFETY: every row is made by `Row::create`, which stored the length of the bytes behind it
    // before it gave the row to anybody.
    unsafe { arena.bytes_behind(at, len) }
}

impl Version {
    fn create(
        arena: &Arena,
        bump: &mut Bump,
        new: NewVersion<'_>,
        older: Option<Ref<Version>>,
    ) -> Ref<Version> {
        let mut meta = (new.value.len() as u32) << LEN_SHIFT | new.kind as u32;
        let at = match new.shared {
            None => arena.node_with::<Version>(bump, new.value),
            Some(number) => {
                meta |= SHARED_BIT;
                arena.node_with::<Version>(bump, &number.to_le_bytes())
            }
        };
        let version = arena.get(at);
        version.ts.store(new.ts.0, Ordering::Relaxed);
        version.older.store(older);
        version.meta.store(meta, Ordering::Relaxed);
        at
    }

    pub(super) fn ts(&self) -> CommitTs {
        CommitTs(self.ts.load(Ordering::Relaxed))
    }

    pub(super) fn older(&self) -> Option<Ref<Version>> {
        self.older.load()
    }

    pub(super) fn kind(&self) -> RowKind {
        let kind = self.meta.load(Ordering::Relaxed) & (SHARED_BIT - 1);
        RowKind::from_byte(kind as u8).expect("the kind that it was made with")
    }
}

/// A version's value, for as long as the memtable lives.
#[inline]
pub(super) fn value_at<'a>(
    arena: &'a Arena,
    shared: &'a SharedValues,
    at: Ref<Version>,
) -> &'a [u8] {
    let meta = arena.get(at).meta.load(Ordering::Relaxed);
    match meta & SHARED_BIT {
        // SAFETY: every version is made by `Version::create`, which stored the length of the bytes
        // behind it before it gave the version to anybody.
        0 => unsafe { arena.bytes_behind(at, (meta >> LEN_SHIFT) as usize) },
        _ => shared_at(arena, shared, at).map(|value| &value[..]).unwrap_or_default(),
    }
}

/// A version's value to keep: a copy of a small one, a share of a large one.
pub(super) fn value_of(arena: &Arena, shared: &SharedValues, at: Ref<Version>) -> Bytes {
    match arena.get(at).meta.load(Ordering::Relaxed) & SHARED_BIT {
        0 => Bytes::copy_from_slice(value_at(arena, shared, at)),
        _ => shared_at(arena, shared, at).cloned().unwrap_or_default(),
    }
}

/// The shared value of a version that has one.
fn shared_at<'a>(arena: &Arena, shared: &'a SharedValues, at: Ref<Version>) -> Option<&'a Bytes> {
    // SAFETY: the number's four bytes stand behind every version with the bit.
    let number = unsafe { arena.bytes_behind(at, size_of::<u32>()) };
    shared.get(number.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?)
}

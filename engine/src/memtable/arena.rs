//! Memory of one memtable: grows, never moves, is given back at once; the engine's atomics over raw
//! bytes.
//!
//! One writer allocates and fills, any number of threads read. What is allocated is either a
//! *node*, a struct of atomics that may change for ever, or *bytes*, which are written once, before
//! anybody can know of them. A [`Ref`] names an allocation; it reaches another thread only through
//! an [`AtomicRef`] or one of its kin, stored with Release and loaded with Acquire, so whoever
//! holds one sees what was written before it was published.
//!
//! Promise: a `Ref` stays good as long as its arena lives. Nothing is freed earlier, so readers pin
//! nothing but the memtable. Absent: a check that a `Ref` or a `Bump` belongs to this arena. They
//! never leave `memtable`, where every table has one arena.

use crate::chunks::{Chunk, SpareChunks};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sync::{IS_MODEL, weakened};
use std::cmp;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

/// Everything lies at a multiple of this; a `Ref` counts in it, so that 32 bits reach 32 GiB.
const UNIT_BYTES: usize = 8;

/// Chunk `k` holds the units `2^k..2^(k+1)`: the first is small, each further one doubles, and the
/// chunk of a unit is the place of its highest bit. A model's are small, so that they come in its
/// way.
const CHUNK_FIRST: u32 = if IS_MODEL { 6 } else { 12 };
const CHUNKS: usize = 32;

/// A struct of atomics that lives in an arena.
///
/// # Safety
///
/// All-zero bytes are its default, but for a model's atomics. It consists of atomics of this file
/// or of `crate::sync`, in structs and arrays, so that shared references to it may be used while
/// another thread changes it. It needs no drop. Its alignment is 8 at most.
pub(super) unsafe trait Node: Default {}

// SAFETY: one atomic of 8 bytes; zero is its default.
unsafe impl<T> Node for AtomicTagged<T> {}

/// Where something lies in an arena.
#[derive(Debug)]
pub(super) struct Ref<T>(u32, PhantomData<fn() -> T>);

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Ref<T> {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Ref<T>) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Ref<T> {}

/// By their places, which mean nothing: so that a `Ref` can be looked for.
impl<T> Ord for Ref<T> {
    fn cmp(&self, other: &Ref<T>) -> cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> PartialOrd for Ref<T> {
    fn partial_cmp(&self, other: &Ref<T>) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ref<T> {
    fn new(unit: u32) -> Ref<T> {
        Ref(unit, PhantomData)
    }

    /// The same place as another type.
    ///
    /// # Safety
    ///
    /// A `U` must lie there: it was made as one, or as a `repr(C)` struct of which `U` is the first
    /// field.
    pub(super) unsafe fn cast<U>(self) -> Ref<U> {
        Ref::new(self.0)
    }
}

/// A `Ref` that changes, or nothing. Zero is nothing.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct AtomicRef<T>(AtomicU32, PhantomData<fn() -> T>);

impl<T> Default for AtomicRef<T> {
    fn default() -> AtomicRef<T> {
        AtomicRef(AtomicU32::new(0), PhantomData)
    }
}

impl<T> AtomicRef<T> {
    #[inline]
    pub(super) fn load(&self) -> Option<Ref<T>> {
        let unit = self.0.load(Ordering::Acquire);
        (unit != 0).then(|| Ref::new(unit))
    }

    #[inline]
    pub(super) fn store(&self, to: Option<Ref<T>>) {
        let order = if weakened!("ref") { Ordering::Relaxed } else { Ordering::Release };
        self.0.store(to.map_or(0, |to| to.0), order);
    }
}

/// A `Ref` and a number beside it that change at once, or nothing. Zero is nothing.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct AtomicTagged<T>(AtomicU64, PhantomData<fn() -> T>);

impl<T> Default for AtomicTagged<T> {
    fn default() -> AtomicTagged<T> {
        AtomicTagged(AtomicU64::new(0), PhantomData)
    }
}

impl<T> AtomicTagged<T> {
    #[inline]
    pub(super) fn load(&self) -> Option<(u32, Ref<T>)> {
        let word = self.0.load(Ordering::Acquire);
        (word != 0).then(|| ((word >> 32) as u32, Ref::new(word as u32)))
    }

    #[inline]
    pub(super) fn store(&self, tag: u32, to: Ref<T>) {
        let order = if weakened!("tagged") { Ordering::Relaxed } else { Ordering::Release };
        self.0.store(u64::from(tag) << 32 | u64::from(to.0), order);
    }
}

/// A row of nodes that changes as a whole, or none.
#[derive(Debug)]
pub(super) struct AtomicSpan<T>(AtomicTagged<T>);

impl<T: Node> AtomicSpan<T> {
    pub(super) fn new() -> AtomicSpan<T> {
        AtomicSpan(AtomicTagged::default())
    }

    /// The nodes; empty where there are none.
    #[inline]
    pub(super) fn load<'a>(&self, arena: &'a Arena) -> &'a [T] {
        let Some((count, at)) = self.0.load() else { return &[] };
        // SAFETY: as `Arena::get`; `store` got a span that has so many nodes in one allocation,
        // which lies in one chunk.
        unsafe { std::slice::from_raw_parts(arena.address(at.0).cast::<T>(), count as usize) }
    }

    pub(super) fn store(&self, span: Span<T>) {
        self.0.store(span.count, span.first);
    }
}

/// A row of nodes not yet published.
#[derive(Debug)]
pub(super) struct Span<T> {
    first: Ref<T>,
    count: u32,
}

impl<T: Node> Span<T> {
    pub(super) fn nodes<'a>(&self, arena: &'a Arena) -> &'a [T] {
        // SAFETY: as `AtomicSpan::load`.
        unsafe {
            let first = arena.address(self.first.0).cast::<T>();
            std::slice::from_raw_parts(first, self.count as usize)
        }
    }
}

/// The memory. Sync: all that is shared is atomic, or written before it is shared.
#[derive(Debug)]
pub(super) struct Arena {
    /// By the place of a unit's highest bit: the chunk's address less that of its first unit, so
    /// that the unit's bytes are added to it. Null where there is no such chunk.
    chunks: [AtomicPtr<u8>; CHUNKS],
    /// Where chunks come from, and go to.
    spare: Arc<SpareChunks>,
}

/// What its one writer knows of an arena: where it goes on.
#[derive(Debug)]
pub(super) struct Bump {
    next: u32,
    end: u32,
    used_bytes: usize,
    /// Whether what was not handed out yet is zeros.
    is_zeros: bool,
}

impl Bump {
    /// Bytes handed out.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes
    }
}

impl Arena {
    /// An empty arena and the one right to allocate in it.
    pub(super) fn new(spare: Arc<SpareChunks>) -> (Arena, Bump) {
        let start = 1 << CHUNK_FIRST;
        let bump = Bump { next: start, end: start, used_bytes: 0, is_zeros: true };
        (Arena { chunks: std::array::from_fn(|_| AtomicPtr::default()), spare }, bump)
    }

    /// A node of zeros.
    pub(super) fn node<T: Node>(&self, bump: &mut Bump) -> Ref<T> {
        const { assert!(align_of::<T>() <= UNIT_BYTES) };
        let unit = self.allocate(bump, size_of::<T>(), 0);
        self.make_nodes::<T>(unit, 1);
        Ref::new(unit)
    }

    /// `count` nodes of zeros, one behind the other.
    pub(super) fn span<T: Node>(&self, bump: &mut Bump, count: u32) -> Span<T> {
        const { assert!(align_of::<T>() <= UNIT_BYTES) };
        let unit = self.allocate(bump, size_of::<T>() * count as usize, 0);
        self.make_nodes::<T>(unit, count);
        Span { first: Ref::new(unit), count }
    }

    /// A node of zeros with `bytes` behind it.
    pub(super) fn node_with<T: Node>(&self, bump: &mut Bump, bytes: &[u8]) -> Ref<T> {
        const { assert!(align_of::<T>() <= UNIT_BYTES) };
        let unit = self.allocate(bump, size_of::<T>(), bytes.len());
        self.make_nodes::<T>(unit, 1);
        // SAFETY: the allocation has room for both, and as nobody has its `Ref` yet, nobody reads
        // or writes it meanwhile. `bytes` is borrowed memory, which an unnamed allocation is not.
        unsafe {
            let to = self.address(unit).add(size_of::<T>());
            ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ref::new(unit)
    }

    /// The node.
    #[inline]
    pub(super) fn get<T: Node>(&self, at: Ref<T>) -> &T {
        // SAFETY: `at` was made by `node` or `node_with` of this arena, or by `cast`, whose caller
        // vouches for a `T` there. So there is one, zeroed or written through its atomics; shared
        // references are all that is ever made to it, and it is freed only with the arena, which is
        // borrowed.
        unsafe { &*self.address(at.0).cast::<T>() }
    }

    /// The first `len` bytes behind the node.
    ///
    /// # Safety
    ///
    /// `at` was made by [`Arena::node_with`] with at least so many bytes.
    #[inline]
    pub(super) unsafe fn bytes_behind<T: Node>(&self, at: Ref<T>, len: usize) -> &[u8] {
        // SAFETY: `node_with` wrote them before `at` was published, and nothing writes them again.
        unsafe {
            let from = self.address(at.0).add(size_of::<T>());
            std::slice::from_raw_parts(from, len)
        }
    }

    /// Makes nodes of zeros. A model checker's atomics are more than their bytes, so it makes them
    /// one by one; all others are there already.
    #[inline]
    fn make_nodes<T: Node>(&self, unit: u32, count: u32) {
        if IS_MODEL {
            let first = self.address(unit).cast::<T>();
            for i in 0..count as usize {
                // SAFETY: the allocation has room for so many, and nobody has its `Ref` yet.
                unsafe { first.add(i).write(T::default()) };
            }
        }
    }

    #[inline]
    fn address(&self, unit: u32) -> *mut u8 {
        // Relaxed: a reader got its `Ref` by an Acquire that comes after the chunk's store. The
        // writer has the `Bump`: it made the chunk, or was handed the `Bump` by who did.
        let chunk = self.chunks[(unit | 1).ilog2() as usize].load(Ordering::Relaxed);
        debug_assert!(!chunk.is_null(), "whoever has a Ref knows of its chunk");
        chunk.wrapping_add(unit as usize * UNIT_BYTES)
    }

    /// So many zeros, and behind them room for so many bytes.
    fn allocate(&self, bump: &mut Bump, zeros: usize, bytes: usize) -> u32 {
        let units = (zeros + bytes).div_ceil(UNIT_BYTES);
        while ((bump.end - bump.next) as usize) < units {
            self.add_chunk(bump);
        }
        let unit = bump.next;
        bump.next += units as u32;
        bump.used_bytes += units * UNIT_BYTES;
        if !bump.is_zeros {
            // SAFETY: the chunk has room for it, and nobody has its `Ref` yet.
            unsafe { ptr::write_bytes(self.address(unit), 0, zeros) };
        }
        unit
    }

    /// What is left of the last chunk stays unused: little, as chunks are much larger than nodes.
    fn add_chunk(&self, bump: &mut Bump) {
        let place = bump.end.ilog2();
        assert!(place + 1 < CHUNKS as u32, "a memtable stays below 16 GiB");
        let chunk = self.spare.take(UNIT_BYTES << place);
        bump.is_zeros = chunk.is_zeros();
        let biased = chunk.into_raw().wrapping_sub(UNIT_BYTES << place);
        // Relaxed: what publishes a `Ref` into the chunk publishes this with it.
        self.chunks[place as usize].store(biased, Ordering::Relaxed);
        (bump.next, bump.end) = (1 << place, 2 << place);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for (place, chunk) in (0..).zip(&self.chunks) {
            let biased = chunk.load(Ordering::Relaxed);
            if !biased.is_null() {
                let chunk = biased.wrapping_add(UNIT_BYTES << place);
                // SAFETY: `add_chunk` took one of this size; no reference into it outlives the
                // arena. A `Node` needs no drop, nor do bytes.
                let chunk = unsafe { Chunk::from_raw(chunk, UNIT_BYTES << place) };
                chunk.into_iter().for_each(|chunk| self.spare.give_back(chunk));
            }
        }
    }
}

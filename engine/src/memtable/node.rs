//! Nodes of a memtable's tree: up to 15 rows each, in slots that are written once, and one word
//! that says which slots count and in which order.
//!
//! A row is added by filling a free slot and then storing the word: a reader who loaded it has the
//! node as it was at that moment, for as long as it likes. That word is the permutation of Mao,
//! Kohler and Morris, "Cache craftiness for fast multicore key-value storage", EuroSys 2012.
//!
//! Beside each row stands its *head*: eight bytes of its key behind those that all keys of the
//! node's range share. Most searches compare heads alone and touch no row.

use crate::memtable::arena::{Arena, AtomicRef, Bump, Node, Ref};
use crate::memtable::row::{self, Row};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{IS_MODEL, weakened};
use std::cmp::Ordering::{Equal, Greater, Less};

/// Rows of a node. A model's are soon full.
pub(super) const SLOTS: usize = if IS_MODEL { 3 } else { 15 };

/// Which slots are filled, by rank: from the low end, four bits of count, then four bits per rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permutation(u64);

impl Permutation {
    /// The first `count` slots, in their own order.
    fn identity(count: usize) -> Permutation {
        (0..count).fold(Permutation(0), |order, rank| order.with(rank))
    }

    #[inline]
    pub(super) fn count(self) -> usize {
        (self.0 & 15) as usize
    }

    pub(super) fn is_full(self) -> bool {
        self.count() == SLOTS
    }

    #[inline]
    fn slot(self, rank: usize) -> usize {
        (self.0 >> (4 * (rank + 1)) & 15) as usize
    }

    /// With the next free slot, which is the one after all filled ones, at `rank`.
    fn with(self, rank: usize) -> Permutation {
        debug_assert!(!self.is_full() && rank <= self.count());
        let at = 4 * (rank + 1);
        let below = self.0 & ((1 << at) - 1);
        let above = (self.0 ^ below) << 4;
        Permutation((above | (self.count() as u64) << at | below) + 1)
    }
}

/// What leaves and inner nodes have in common: rows in order.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Slots {
    order: AtomicU64,
    heads: [AtomicU64; SLOTS],
    rows: [AtomicRef<Row>; SLOTS],
    skip: AtomicU32, // level 16 bits | bytes that all keys of the range share 16 bits
}

/// The rows of one range.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Leaf {
    pub(super) slots: Slots,
    pub(super) prev: AtomicRef<Leaf>,
    pub(super) next: AtomicRef<Leaf>,
}

/// Separators, and one child more: the first for what is below all separators, then for each slot
/// the child whose least key is at or above its separator.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Inner {
    pub(super) slots: Slots,
    children: [AtomicRef<Slots>; SLOTS + 1],
}

// SAFETY: atomics only; zero is the default of each.
unsafe impl Node for Slots {}
// SAFETY: as above.
unsafe impl Node for Leaf {}
// SAFETY: as above.
unsafe impl Node for Inner {}

/// A node as what it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Leaf(Ref<Leaf>),
    Inner(Ref<Inner>),
}

/// What `at` is.
#[inline]
pub(super) fn kind_of(arena: &Arena, at: Ref<Slots>) -> Kind {
    match arena.get(at).level() {
        // SAFETY: nodes are made by `Leaf::create` with level 0 and by `Inner::create` with a
        // higher one, before anybody has their `Ref`; the level never changes.
        0 => Kind::Leaf(unsafe { at.cast() }),
        // SAFETY: as above.
        _ => Kind::Inner(unsafe { at.cast() }),
    }
}

/// The part of a leaf that every node has.
pub(super) fn of_leaf(leaf: Ref<Leaf>) -> Ref<Slots> {
    // SAFETY: its first field, at its own place (`repr(C)`).
    unsafe { leaf.cast() }
}

/// The part of an inner node that every node has.
pub(super) fn of_inner(inner: Ref<Inner>) -> Ref<Slots> {
    // SAFETY: as above.
    unsafe { inner.cast() }
}

/// The keys of a node's range lie at or above the first row's and below the second's, where there
/// is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) low: Option<Ref<Row>>,
    pub(super) high: Option<Ref<Row>>,
}

impl Range {
    /// Bytes that all keys of the range have in common: what its ends share.
    fn shared_len(self, arena: &Arena) -> usize {
        let (Some(low), Some(high)) = (self.low, self.high) else { return 0 };
        let (low, high) = (row::key_of(arena, low), row::key_of(arena, high));
        low.iter().zip(high).take_while(|(a, b)| a == b).count()
    }
}

/// A row on its way from one node to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    head: u64,
    pub(super) row: Ref<Row>,
}

impl Slots {
    #[inline]
    pub(super) fn order(&self) -> Permutation {
        Permutation(self.order.load(Ordering::Acquire))
    }

    /// 0 for a leaf, one more than its children's for an inner node.
    pub(super) fn level(&self) -> u32 {
        self.skip.load(Ordering::Relaxed) >> 16
    }

    /// Bytes that the keys of the node's range are known to share; heads begin behind them.
    pub(super) fn shared_len(&self) -> usize {
        (self.skip.load(Ordering::Relaxed) & 0xffff) as usize
    }

    /// The row at `rank`, which must be below the order's count.
    #[inline]
    pub(super) fn row(&self, order: Permutation, rank: usize) -> Option<Ref<Row>> {
        self.rows.get(order.slot(rank))?.load()
    }

    /// How many rows lie below `key`, a key of the node's range, and whether the next is `key`'s.
    #[inline]
    pub(super) fn rank(&self, arena: &Arena, order: Permutation, key: &[u8]) -> (usize, bool) {
        let head = head_of(key, self.shared_len());
        let (mut below, mut same) = (0, 0);
        for other in self.heads.iter().take(order.count()) {
            let other = other.load(Ordering::Relaxed);
            below += usize::from(other < head);
            same += usize::from(other == head);
        }
        let (mut low, mut high) = (below, below + same);
        while low < high {
            let middle = (low + high) / 2;
            let Some(row) = self.row(order, middle) else { break };
            match key.cmp(row::key_of(arena, row)) {
                Less => high = middle,
                Greater => low = middle + 1,
                Equal => return (middle, true),
            }
        }
        (low, false)
    }

    pub(super) fn entry(&self, arena: &Arena, row: Ref<Row>) -> Entry {
        Entry { head: head_of(row::key_of(arena, row), self.shared_len()), row }
    }

    /// Fills the next free slot and shows it at `rank`. The node must not be full.
    fn add(&self, order: Permutation, rank: usize, entry: Entry) {
        self.put(order.count(), entry);
        let release = if weakened!("order") { Ordering::Relaxed } else { Ordering::Release };
        self.order.store(order.with(rank).0, release);
    }

    fn put(&self, slot: usize, entry: Entry) {
        self.heads[slot].store(entry.head, Ordering::Relaxed);
        self.rows[slot].store(Some(entry.row));
    }

    /// The rows in order, with `new` at `rank`.
    pub(super) fn entries_with(&self, rank: usize, new: Entry) -> [Entry; SLOTS + 1] {
        let order = self.order();
        debug_assert!(order.is_full());
        std::array::from_fn(|i| {
            if i == rank {
                return new;
            }
            let slot = order.slot(if i < rank { i } else { i - 1 });
            let head = self.heads[slot].load(Ordering::Relaxed);
            Entry { head, row: self.rows[slot].load().expect("a slot in the order has a row") }
        })
    }

    /// Fills a node that nobody knows of. `shared_len`: at which the entries' heads were taken; a
    /// longer one is looked for where they do not tell the rows apart.
    fn fill(&self, arena: &Arena, level: u32, range: Range, shared_len: usize, entries: &[Entry]) {
        let mut shared_len = shared_len;
        let ties = entries.windows(2).any(|pair| pair[0].head == pair[1].head);
        let longer = if ties { range.shared_len(arena) } else { shared_len };
        let retake = longer > shared_len;
        if retake {
            shared_len = longer;
        }
        self.skip.store(level << 16 | shared_len as u32, Ordering::Relaxed);
        for (slot, entry) in entries.iter().enumerate() {
            self.put(slot, if retake { self.entry(arena, entry.row) } else { *entry });
        }
        self.order.store(Permutation::identity(entries.len()).0, Ordering::Release);
    }
}

/// Eight bytes of `key` as a number that orders like them; zeros where it ends.
#[inline]
fn head_of(key: &[u8], from: usize) -> u64 {
    let rest = key.get(from..).unwrap_or_default();
    match rest.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => rest
            .iter()
            .fold(0, |head, byte| head << 8 | u64::from(*byte))
            .checked_shl(64 - 8 * rest.len() as u32)
            .unwrap_or(0),
    }
}

impl Leaf {
    pub(super) fn create(
        arena: &Arena,
        bump: &mut Bump,
        range: Range,
        shared_len: usize,
        entries: &[Entry],
    ) -> Ref<Leaf> {
        let at = arena.node::<Leaf>(bump);
        arena.get(at).slots.fill(arena, 0, range, shared_len, entries);
        at
    }

    /// Adds a row; the leaf must not be full.
    pub(super) fn add(&self, arena: &Arena, rank: usize, row: Ref<Row>) {
        self.slots.add(self.slots.order(), rank, self.slots.entry(arena, row));
    }
}

impl Inner {
    /// Makes a node of some of the separators and children of `from`, a full one.
    pub(super) fn create(
        arena: &Arena,
        bump: &mut Bump,
        from: &Inner,
        range: Range,
        (separators, children): (&[Entry], &[Ref<Slots>]),
    ) -> Ref<Inner> {
        let at = arena.node::<Inner>(bump);
        let (level, shared_len) = (from.slots.level(), from.slots.shared_len());
        arena.get(at).fill(arena, level, range, shared_len, (separators, children));
        at
    }

    /// Makes a node of two children.
    pub(super) fn create_root(
        arena: &Arena,
        bump: &mut Bump,
        level: u32,
        children: [Ref<Slots>; 2],
        separator: Ref<Row>,
    ) -> Ref<Inner> {
        let at = arena.node::<Inner>(bump);
        let root = arena.get(at);
        let separator = root.slots.entry(arena, separator);
        root.fill(arena, level, Range::default(), 0, (&[separator], &children));
        at
    }

    fn fill(
        &self,
        arena: &Arena,
        level: u32,
        range: Range,
        shared_len: usize,
        (separators, children): (&[Entry], &[Ref<Slots>]),
    ) {
        debug_assert_eq!(separators.len() + 1, children.len());
        for (to, child) in self.children.iter().zip(children) {
            to.store(Some(*child));
        }
        self.slots.fill(arena, level, range, shared_len, separators);
    }

    /// The child of that rank: 0 for what is below all separators.
    #[inline]
    pub(super) fn child(&self, order: Permutation, rank: usize) -> Option<Ref<Slots>> {
        self.children.get(Inner::place(order, rank))?.load()
    }

    fn place(order: Permutation, rank: usize) -> usize {
        rank.checked_sub(1).map_or(0, |rank| order.slot(rank) + 1)
    }

    /// Shows that the child of `rank` is now two, with `separator` between them; the node must not
    /// be full. The upper one first: a reader who finds the lower one finds the separator, too.
    pub(super) fn split_child(
        &self,
        rank: usize,
        separator: Entry,
        [lower, upper]: [Ref<Slots>; 2],
    ) {
        let order = self.slots.order();
        self.children[order.count() + 1].store(Some(upper));
        self.slots.add(order, rank, separator);
        self.children[Inner::place(order, rank)].store(Some(lower));
    }

    /// The children in order, with the one of `rank` replaced by two.
    pub(super) fn children_with(
        &self,
        rank: usize,
        [lower, upper]: [Ref<Slots>; 2],
    ) -> [Ref<Slots>; SLOTS + 2] {
        let order = self.slots.order();
        std::array::from_fn(|i| match i {
            i if i == rank => lower,
            i if i == rank + 1 => upper,
            i => {
                let child = self.child(order, if i < rank { i } else { i - 1 });
                child.expect("a place in the order has a child")
            }
        })
    }
}

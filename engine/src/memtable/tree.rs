//! The order of a memtable's rows: a B-tree that only grows, with one writer and readers without
//! locks.
//!
//! A full node is replaced by two new ones and stays as it was, links included: who reads it goes
//! on in what the tree was then, which holds every row that was there before. Rows that came later
//! it may miss; those are newer than the reader's timestamp.
//!
//! Rows that come in ascending order go behind the last one without a search, and leave full
//! leaves.

use crate::memtable::arena::{Arena, AtomicRef, Bump, Ref};
use crate::memtable::node::{self, Inner, Kind, Leaf, Permutation, Range, SLOTS, Slots};
use crate::memtable::row::{self, Row};
use crate::sync::weakened;

/// The tree. Never empty of leaves.
#[derive(Debug)]
pub(super) struct Tree {
    root: AtomicRef<Slots>,
}

/// What the writer remembers: the place of its last row, and the way to a leaf.
#[derive(Debug, Default)]
pub(super) struct Finger {
    last: Option<Last>,
    path: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    leaf: Ref<Leaf>,
    rank: usize,
    row: Ref<Row>,
    high: Option<Ref<Row>>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    inner: Ref<Inner>,
    rank: usize,
    range: Range,
}

/// A row's place, as its leaf was at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    leaf: Ref<Leaf>,
    order: Permutation,
    rank: usize,
}

impl Tree {
    pub(super) fn new(arena: &Arena, bump: &mut Bump) -> Tree {
        let leaf = Leaf::create(arena, bump, Range::default(), 0, &[]);
        let root = AtomicRef::default();
        root.store(Some(node::of_leaf(leaf)));
        Tree { root }
    }

    /// Adds a row whose key is not there. One thread at a time.
    pub(super) fn insert(
        &self,
        arena: &Arena,
        bump: &mut Bump,
        finger: &mut Finger,
        row: Ref<Row>,
    ) {
        let key = row::key_of(arena, row);
        if let Some(last) = finger.last.filter(|last| last.precedes(arena, key)) {
            let leaf = arena.get(last.leaf);
            if !leaf.slots.order().is_full() {
                leaf.add(arena, last.rank + 1, row);
                finger.last = Some(Last { rank: last.rank + 1, row, ..last });
                return;
            }
        }
        let Some((at, range)) = self.descend(arena, key, &mut finger.path) else { return };
        let leaf = arena.get(at);
        let order = leaf.slots.order();
        let rank = leaf.slots.rank(arena, order, key).0;
        finger.last = Some(match order.is_full() {
            true => self.split(arena, bump, finger, (at, range), rank, row),
            false => {
                leaf.add(arena, rank, row);
                Last { leaf: at, rank, row, high: range.high }
            }
        });
    }

    /// The leaf for `key` and its range; the way to it is left in `path`.
    fn descend(
        &self,
        arena: &Arena,
        key: &[u8],
        path: &mut Vec<Step>,
    ) -> Option<(Ref<Leaf>, Range)> {
        path.clear();
        let (mut at, mut range) = (self.root.load()?, Range::default());
        loop {
            let inner = match node::kind_of(arena, at) {
                Kind::Leaf(leaf) => return Some((leaf, range)),
                Kind::Inner(inner) => inner,
            };
            let here = arena.get(inner);
            let order = here.slots.order();
            let rank = child_rank(arena, &here.slots, order, key);
            path.push(Step { inner, rank, range });
            if rank > 0 {
                range.low = here.slots.row(order, rank - 1);
            }
            if rank < order.count() {
                range.high = here.slots.row(order, rank);
            }
            at = here.child(order, rank)?;
        }
    }

    /// Adds a row to a full leaf; `finger` holds the way to it.
    fn split(
        &self,
        arena: &Arena,
        bump: &mut Bump,
        finger: &mut Finger,
        (at, range): (Ref<Leaf>, Range),
        rank: usize,
        row: Ref<Row>,
    ) -> Last {
        let leaf = arena.get(at);
        let order = leaf.slots.order();
        let before = rank.checked_sub(1).and_then(|rank| leaf.slots.row(order, rank));
        let ascending = before.is_some() && before == finger.last.map(|last| last.row);
        let entries = leaf.slots.entries_with(rank, leaf.slots.entry(arena, row));
        let shared_len = leaf.slots.shared_len();
        let (prev, next) = (leaf.prev.load(), leaf.next.load());
        // Ascending rows go on behind this one: it ends its leaf, or begins one where it stands
        // behind all rows, which then stay.
        let stays = ascending && rank == SLOTS;
        let cut = match ascending {
            true => SLOTS.min(rank + 1),
            false => entries.len() / 2,
        };
        let separator = entries[cut].row;
        let upper_range = Range { low: Some(separator), high: range.high };
        let upper = Leaf::create(arena, bump, upper_range, shared_len, &entries[cut..]);
        let lower = if stays {
            at
        } else {
            let lower_range = Range { low: range.low, high: Some(separator) };
            let lower = Leaf::create(arena, bump, lower_range, shared_len, &entries[..cut]);
            arena.get(lower).prev.store(prev);
            lower
        };
        arena.get(upper).prev.store(Some(lower));
        arena.get(upper).next.store(next);
        arena.get(lower).next.store(Some(upper));
        if let Some(prev) = prev.filter(|_| !stays) {
            arena.get(prev).next.store(Some(lower));
        }
        if let Some(next) = next {
            arena.get(next).prev.store(Some(upper));
        }
        let nodes = [node::of_leaf(lower), node::of_leaf(upper)];
        self.replace(arena, bump, &mut finger.path, nodes, separator);
        match rank < cut {
            true => Last { leaf: lower, rank, row, high: Some(separator) },
            false => Last { leaf: upper, rank: rank - cut, row, high: range.high },
        }
    }

    /// Shows two nodes in place of the one that `path` leads to.
    fn replace(
        &self,
        arena: &Arena,
        bump: &mut Bump,
        path: &mut Vec<Step>,
        nodes: [Ref<Slots>; 2],
        separator: Ref<Row>,
    ) {
        let Some(Step { inner, rank, range }) = path.pop() else {
            let level = arena.get(nodes[0]).level() + 1;
            let root = Inner::create_root(arena, bump, level, nodes, separator);
            self.root.store(Some(node::of_inner(root)));
            return;
        };
        let here = arena.get(inner);
        let entry = here.slots.entry(arena, separator);
        if !here.slots.order().is_full() {
            here.split_child(rank, entry, nodes);
            return;
        }
        let entries = here.slots.entries_with(rank, entry);
        let children = here.children_with(rank, nodes);
        // The separator at the cut goes up. Behind the last child more will follow.
        let cut = if rank == SLOTS { SLOTS - 1 } else { SLOTS / 2 };
        let middle = entries[cut].row;
        let lower = (&entries[..cut], &children[..=cut]);
        let upper = (&entries[cut + 1..], &children[cut + 1..]);
        let lower_range = Range { low: range.low, high: Some(middle) };
        let upper_range = Range { low: Some(middle), high: range.high };
        let halves = [(lower_range, lower), (upper_range, upper)]
            .map(|(range, half)| node::of_inner(Inner::create(arena, bump, here, range, half)));
        self.replace(arena, bump, path, halves, middle);
    }

    /// The leaf for `key`, for a reader.
    fn leaf(&self, arena: &Arena, key: &[u8]) -> Option<Ref<Leaf>> {
        let mut at = self.root.load()?;
        loop {
            let inner = match node::kind_of(arena, at) {
                Kind::Leaf(leaf) => return Some(leaf),
                Kind::Inner(inner) => arena.get(inner),
            };
            at = loop {
                let order = inner.slots.order();
                let child = inner.child(order, child_rank(arena, &inner.slots, order, key));
                // `split_child` stores the upper child, then the order with the separator, then
                // the lower child in the old one's place, each by a Release: whoever loads the
                // lower one sees another order here, and looks again. The same order says that
                // the child was whole yet, and covers all of its range. A full node is never
                // changed but replaced: whoever stands in the old one sees old children, which
                // hold every row that was there when it began.
                if inner.slots.order() == order || weakened!("look again") {
                    break child?;
                }
            };
        }
    }

    /// The first row whose key is not below `key`.
    pub(super) fn seek(&self, arena: &Arena, key: &[u8]) -> Option<(Place, Ref<Row>)> {
        let leaf = self.leaf(arena, key)?;
        let slots = &arena.get(leaf).slots;
        let order = slots.order();
        let rank = slots.rank(arena, order, key).0;
        let place = Place { leaf, order, rank };
        if let Some(row) = place.row(arena) {
            return Some((place, row));
        }
        // Rows that were added meanwhile may stand first in the next leaf and belong below `key`.
        let mut here = place.next_leaf(arena)?;
        while row::key_of(arena, here.1) < key {
            here = here.0.next(arena)?;
        }
        Some(here)
    }

    /// The last row whose key is below `key`.
    pub(super) fn seek_before(&self, arena: &Arena, key: &[u8]) -> Option<(Place, Ref<Row>)> {
        let leaf = self.leaf(arena, key)?;
        let slots = &arena.get(leaf).slots;
        let order = slots.order();
        let rank = slots.rank(arena, order, key).0;
        Place { leaf, order, rank }.prev(arena)
    }
}

/// The rank of the child that `key` belongs to: a separator is the least key of its child.
#[inline]
fn child_rank(arena: &Arena, slots: &Slots, order: Permutation, key: &[u8]) -> usize {
    let (rank, equal) = slots.rank(arena, order, key);
    rank + usize::from(equal)
}

impl Last {
    /// Whether `key` comes next behind the last row, in its leaf.
    fn precedes(&self, arena: &Arena, key: &[u8]) -> bool {
        if row::key_of(arena, self.row) >= key {
            return false;
        }
        let slots = &arena.get(self.leaf).slots;
        let order = slots.order();
        let next = match self.rank + 1 < order.count() {
            true => slots.row(order, self.rank + 1),
            false => self.high,
        };
        next.is_none_or(|next| key < row::key_of(arena, next))
    }
}

impl Place {
    fn row(&self, arena: &Arena) -> Option<Ref<Row>> {
        let inside = self.rank < self.order.count();
        inside.then(|| arena.get(self.leaf).slots.row(self.order, self.rank)).flatten()
    }

    fn at_start(arena: &Arena, leaf: Ref<Leaf>) -> Place {
        Place { leaf, order: arena.get(leaf).slots.order(), rank: 0 }
    }

    /// The row behind this one.
    pub(super) fn next(mut self, arena: &Arena) -> Option<(Place, Ref<Row>)> {
        self.rank += 1;
        match self.row(arena) {
            Some(row) => Some((self, row)),
            None => self.next_leaf(arena),
        }
    }

    fn next_leaf(self, arena: &Arena) -> Option<(Place, Ref<Row>)> {
        let place = Place::at_start(arena, arena.get(self.leaf).next.load()?);
        Some((place, place.row(arena)?))
    }

    /// The row before this one.
    pub(super) fn prev(mut self, arena: &Arena) -> Option<(Place, Ref<Row>)> {
        if self.rank == 0 {
            self = Place::at_start(arena, arena.get(self.leaf).prev.load()?);
            self.rank = self.order.count();
        }
        self.rank = self.rank.checked_sub(1)?;
        Some((self, self.row(arena)?))
    }
}

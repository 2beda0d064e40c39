//! Finds a row of a memtable by the hash of its key: open addressing, one writer, readers without
//! locks.
//!
//! The rows are spread over 64 small tables by the top bits of their hash, and each grows by
//! itself: a doubling copies a 64th of the index, a few microseconds. A slot holds the low 32 bits
//! of the hash, which also say where in the table it belongs, so that growing reads no row.

use crate::memtable::arena::{Arena, AtomicSpan, AtomicTagged, Bump, Ref};
use crate::memtable::row::{self, Row};
use crate::prefetch;
use crate::sync::IS_MODEL;

const TABLE_BITS: u32 = if IS_MODEL { 1 } else { 6 };
const TABLES: usize = 1 << TABLE_BITS;
const SLOTS_FIRST: u32 = if IS_MODEL { 4 } else { 8 };

/// Low half of a hash and a row; nothing where it is free.
type Slot = AtomicTagged<Row>;

/// The index. An outgrown table stays in the arena for those who read it.
#[derive(Debug)]
pub(super) struct HashIndex {
    tables: [AtomicSpan<Slot>; TABLES],
}

/// What the writer knows beside: rows per table.
#[derive(Debug)]
pub(super) struct Fill([u32; TABLES]);

impl Fill {
    pub(super) fn new() -> Fill {
        Fill([0; TABLES])
    }
}

fn table_of(hash: u64) -> usize {
    (hash >> (64 - TABLE_BITS)) as usize
}

impl HashIndex {
    pub(super) fn new() -> HashIndex {
        HashIndex { tables: std::array::from_fn(|_| AtomicSpan::new()) }
    }

    /// The row of `key`.
    pub(super) fn find(&self, arena: &Arena, key: &[u8], hash: u64) -> Option<Ref<Row>> {
        let slots = self.tables[table_of(hash)].load(arena);
        let mask = slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let (tag, row) = slots[at].load()?;
            if tag == hash as u32 && row::key_of(arena, row) == key {
                return Some(row);
            }
            at = (at + 1) & mask;
        }
    }

    /// Starts fetching the slot at which the search for a row begins.
    pub(super) fn prefetch_slot(&self, arena: &Arena, hash: u64) {
        let slots = self.tables[table_of(hash)].load(arena);
        if let Some(mask) = slots.len().checked_sub(1) {
            prefetch::read(&slots[hash as usize & mask]);
        }
    }

    /// Starts fetching the row that the first slot names, if it may be the one.
    pub(super) fn prefetch_row(&self, arena: &Arena, hash: u64) {
        let slots = self.tables[table_of(hash)].load(arena);
        let Some(mask) = slots.len().checked_sub(1) else { return };
        if let Some((_, row)) =
            slots[hash as usize & mask].load().filter(|(tag, _)| *tag == hash as u32)
        {
            prefetch::read(arena.get(row));
        }
    }

    /// Adds a row that is not there. One thread at a time.
    pub(super) fn insert(
        &self,
        arena: &Arena,
        bump: &mut Bump,
        fill: &mut Fill,
        hash: u64,
        row: Ref<Row>,
    ) {
        let table = table_of(hash);
        let count = &mut fill.0[table];
        let slots = self.tables[table].load(arena);
        // Three quarters full at most: a free slot ends every search.
        if *count as usize * 4 < slots.len() * 3 {
            put(slots, hash as u32, row);
        } else {
            let grown = arena.span(bump, (slots.len() as u32 * 2).max(SLOTS_FIRST));
            for (tag, row) in slots.iter().filter_map(Slot::load) {
                put(grown.nodes(arena), tag, row);
            }
            put(grown.nodes(arena), hash as u32, row);
            self.tables[table].store(grown);
        }
        *count += 1;
    }
}

fn put(slots: &[Slot], tag: u32, row: Ref<Row>) {
    let mask = slots.len() - 1;
    let mut at = tag as usize & mask;
    while slots[at].load().is_some() {
        at = (at + 1) & mask;
    }
    slots[at].store(tag, row);
}

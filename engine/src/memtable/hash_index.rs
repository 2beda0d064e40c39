//! Finds a row of a memtable by the hash of its key: open addressing, one writer, readers without
//! locks.
//!
//! The rows are spread over 64 small tables by the top bits of their hash, and each grows by
//! itself: a doubling copies a 64th of the index, a few microseconds. A slot holds the low 32 bits
//! of the hash, which also say where in the table it belongs, so that growing reads no row.
//!
//! The hash is no secret, so whoever chooses keys can make many of one hash. No search takes longer
//! for that: it gives up where it has met too many others, and a row that finds no slot near its
//! own is left out. Whoever asks looks in the tree then.

use crate::memtable::arena::{Arena, AtomicSpan, AtomicTagged, Bump, Ref};
use crate::memtable::row::{self, Row};
use crate::prefetch;
use crate::sync::IS_MODEL;
use crate::sync::atomic::{AtomicBool, Ordering};

const TABLE_BITS: u32 = if IS_MODEL { 1 } else { 6 };
const TABLES: usize = 1 << TABLE_BITS;
const SLOTS_FIRST: u32 = if IS_MODEL { 4 } else { 8 };

/// Slots that a search looks at. At three quarters full chance needs as many once in some 10^16
/// searches.
pub(super) const PROBES_MAX: usize = 1024;

/// Other rows of the same tag that a search compares. Of a million rows some two have that of
/// another one of their table.
const OTHERS_MAX: usize = 4;

/// Low half of a hash and a row; nothing where it is free.
type Slot = AtomicTagged<Row>;

/// The index. An outgrown table stays in the arena for those who read it.
#[derive(Debug)]
pub(super) struct HashIndex {
    tables: [AtomicSpan<Slot>; TABLES],
    /// Whether rows of a table are left out.
    lacking: [AtomicBool; TABLES],
}

/// What the index knows of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Looked {
    Found(Ref<Row>),
    Absent,
    /// Too many others are in the way: the tree knows.
    Crowded,
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
        HashIndex {
            tables: std::array::from_fn(|_| AtomicSpan::new()),
            lacking: std::array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    /// The row of `key`.
    pub(super) fn find(&self, arena: &Arena, key: &[u8], hash: u64) -> Looked {
        let slots = self.tables[table_of(hash)].load(arena);
        let Some(mask) = slots.len().checked_sub(1) else { return Looked::Absent };
        let (first, mut others) = (hash as u32 as usize, 0);
        for at in first..first + PROBES_MAX {
            let Some((tag, row)) = slots[at & mask].load() else {
                // One that was left out was so before its commit could be seen.
                let lacking = self.lacking[table_of(hash)].load(Ordering::Acquire);
                return if lacking { Looked::Crowded } else { Looked::Absent };
            };
            if tag == hash as u32 {
                if row::key_of(arena, row) == key {
                    return Looked::Found(row);
                }
                others += 1;
                if others > OTHERS_MAX {
                    break;
                }
            }
        }
        Looked::Crowded
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
        // Three quarters full at most: a free slot ends nearly every search.
        if *count as usize * 4 < slots.len() * 3 {
            self.put(table, slots, hash as u32, row);
        } else {
            let grown = arena.span(bump, (slots.len() as u32 * 2).max(SLOTS_FIRST));
            for (tag, row) in slots.iter().filter_map(Slot::load) {
                self.put(table, grown.nodes(arena), tag, row);
            }
            self.put(table, grown.nodes(arena), hash as u32, row);
            self.tables[table].store(grown);
        }
        *count += 1;
    }

    /// Puts a row into the first free slot that a search for it comes to, or notes that it is left
    /// out.
    fn put(&self, table: usize, slots: &[Slot], tag: u32, row: Ref<Row>) {
        let (mask, first) = (slots.len() - 1, tag as usize);
        let mut near = first..first + PROBES_MAX;
        match near.find(|at| slots[at & mask].load().is_none()) {
            Some(at) => slots[at & mask].store(tag, row),
            None => self.lacking[table].store(true, Ordering::Release),
        }
    }
}

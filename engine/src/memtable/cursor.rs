//! A cursor over a memtable: walks its rows where they lie and copies nothing but values asked for.

use crate::cursor::{Cursor, Direction, Found};
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::memtable::arena::{Arena, Ref};
use crate::memtable::row::{self, Row, Version};
use crate::memtable::store::ArenaMemtable;
use crate::memtable::tree::Place;
use crate::prefetch;
use bytes::Bytes;
use std::sync::Arc;

/// Of a row, what is fetched before the cursor comes to it: its key and its first version lie one
/// behind the other, and mostly end within this.
const ROW_BYTES_FETCHED: usize = 320;

/// A position among the versions of a memtable that may go on growing.
pub(super) struct MemCursor {
    table: Arc<ArenaMemtable>,
    here: Option<Here>,
    /// Versions of the row here that are newer than the one here, the newest first. Chains lead
    /// to older versions only, so walking back needs a list.
    newer: Vec<Ref<Version>>,
    newer_is_known: bool,
}

#[derive(Clone, Copy)]
struct Here {
    place: Place,
    row: Ref<Row>,
    version: Ref<Version>,
}

impl MemCursor {
    pub(super) fn new(table: Arc<ArenaMemtable>) -> MemCursor {
        MemCursor { table, here: None, newer: Vec::new(), newer_is_known: false }
    }

    /// Goes to the newest version of a row.
    fn enter(&mut self, row: Option<(Place, Ref<Row>)>) {
        self.newer.clear();
        self.newer_is_known = false;
        self.here = row.and_then(|(place, row)| {
            let version = self.table.arena.get(row).newest()?;
            Some(Here { place, row, version })
        });
    }

    /// Goes to the row behind, and has the next one fetched: rows lie in the order in which they
    /// came, so each of them is a miss.
    fn enter_next(&mut self, from: Place) {
        let next = from.next(self.arena());
        self.enter(next);
        if let Some((_, row)) = next.and_then(|(place, _)| place.next(self.arena())) {
            prefetch::read_from(self.arena().get(row), ROW_BYTES_FETCHED);
        }
    }

    /// Goes to the oldest version of a row.
    fn enter_last(&mut self, row: Option<(Place, Ref<Row>)>) {
        self.enter(row);
        let Some(here) = &mut self.here else { return };
        let newest = here.version;
        here.version = self.table.arena.get(here.row).oldest().unwrap_or(newest);
        // Settled now: whoever was told that the key ends here does not want to meet versions that
        // are added later.
        self.newer_is_known = here.version == newest;
    }

    /// Fills `newer`.
    fn know_newer(&mut self, here: Here) {
        let arena = &self.table.arena;
        let ts = arena.get(here.version).ts();
        let newest = arena.get(here.row).newest();
        let chain = std::iter::successors(newest, |at| arena.get(*at).older());
        self.newer.clear();
        self.newer.extend(chain.take_while(|at| arena.get(*at).ts() > ts));
        self.newer_is_known = true;
    }

    fn arena(&self) -> &Arena {
        &self.table.arena
    }
}

impl Cursor for MemCursor {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        let found = self.table.tree.seek(self.arena(), key);
        self.enter(found);
        let arena = &self.table.arena;
        let Some(here) = &mut self.here else { return Ok(()) };
        if row::key_of(arena, here.row) != key {
            return Ok(());
        }
        match self.table.newest_at(here.row, ts) {
            Some(version) => here.version = version,
            None => {
                let next = here.place.next(arena);
                self.enter(next);
            }
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let found = self.table.tree.seek_before(self.arena(), key);
        self.enter_last(found);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let arena = &self.table.arena;
        let Some(here) = &mut self.here else { return Ok(()) };
        match arena.get(here.version).older() {
            Some(older) => {
                if self.newer_is_known {
                    self.newer.push(here.version);
                }
                here.version = older;
            }
            None => {
                let place = here.place;
                self.enter_next(place);
            }
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let Some(here) = self.here else { return Ok(()) };
        if !self.newer_is_known {
            self.know_newer(here);
        }
        match self.newer.pop() {
            Some(version) => self.here = Some(Here { version, ..here }),
            None => {
                let prev = here.place.prev(self.arena());
                self.enter_last(prev);
            }
        }
        Ok(())
    }

    fn valid(&self) -> bool {
        self.here.is_some()
    }

    fn key(&self) -> &[u8] {
        self.here.map_or(&[], |here| row::key_of(self.arena(), here.row))
    }

    fn ts(&self) -> CommitTs {
        self.here.map_or(CommitTs::ZERO, |here| self.arena().get(here.version).ts())
    }

    fn kind(&self) -> RowKind {
        self.here.map_or(RowKind::Delete, |here| self.arena().get(here.version).kind())
    }

    fn value(&mut self) -> Result<Bytes> {
        let table = &self.table;
        let value = self.here.map(|here| row::value_of(&table.arena, &table.shared, here.version));
        Ok(value.unwrap_or_default())
    }

    fn value_ref(&self) -> Result<&[u8]> {
        let table = &self.table;
        let value = |here: Here| row::value_at(&table.arena, &table.shared, here.version);
        Ok(self.here.map(value).unwrap_or_default())
    }

    fn ends_key(&self, direction: Direction) -> bool {
        let arena = &self.table.arena;
        self.here.is_none_or(|here| match direction {
            Direction::Up => arena.get(here.version).older().is_none(),
            Direction::Down if self.newer_is_known => self.newer.is_empty(),
            Direction::Down => arena.get(here.row).newest() == Some(here.version),
        })
    }

    /// One step, however many versions the key has: a row that is written often has thousands.
    fn leave_key(&mut self, _scratch: &mut Vec<u8>) -> Result<()> {
        if let Some(here) = self.here {
            self.enter_next(here.place);
        }
        Ok(())
    }

    /// No look at keys, nor at most of the versions where there are many.
    fn pass_newer(&mut self, at: CommitTs, _scratch: &mut Vec<u8>) -> Result<bool> {
        let Some(here) = &mut self.here else { return Ok(false) };
        match self.table.newest_at(here.row, at) {
            Some(version) => {
                here.version = version;
                self.newer.clear();
                self.newer_is_known = false;
                Ok(true)
            }
            None => {
                let place = here.place;
                self.enter_next(place);
                Ok(false)
            }
        }
    }

    /// One step, too.
    fn pass_key(&mut self, at: CommitTs, _scratch: &mut Vec<u8>) -> Result<Option<Found>> {
        let Some(here) = self.here else { return Ok(None) };
        let table = &self.table;
        let found = table.newest_at(here.row, at).map(|at| {
            let version = table.arena.get(at);
            let value = row::value_of(&table.arena, &table.shared, at);
            Found { ts: version.ts(), kind: version.kind(), value }
        });
        let prev = here.place.prev(self.arena());
        self.enter_last(prev);
        Ok(found)
    }
}

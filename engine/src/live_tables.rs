//! Which tables are live, for what asks at every read and write: one load of a word that hardly
//! ever changes, where holding [`Tables`] takes two exchanges of one, a tenth of a get that finds
//! nothing.
//!
//! A live table's number stands in one place of a few; of two that share a place the first one has
//! it.
//!
//! Promise: a table that is said to be live is so in the [`Tables`] that are shown, or in those
//! before them while the change is under way. Whoever has seen anything of a drop is not told of
//! its table any more. Absent: an answer for every table. Of one that is not known here, [`Tables`]
//! are to be asked.

use crate::catalog::Tables;
use crate::ids::TableId;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{IS_MODEL, weakened};

/// Numbers that so many lie between share a place.
const PLACES: usize = if IS_MODEL { 2 } else { 1 << 10 };

/// What a place holds that no table has. The catalogue, whose number it is, is always live.
const NOBODY: u32 = TableId::CATALOG.0;

/// The numbers of live tables.
#[derive(Debug)]
pub(crate) struct LiveTables {
    places: Box<[AtomicU32]>,
}

impl Default for LiveTables {
    fn default() -> LiveTables {
        LiveTables { places: (0..PLACES).map(|_| AtomicU32::new(NOBODY)).collect() }
    }
}

impl LiveTables {
    /// Whether the table is live; false also where that is not known.
    #[inline]
    pub(crate) fn knows(&self, table: TableId) -> bool {
        self.place(table).load(Ordering::Acquire) == table.0
    }

    /// Takes over `tables`, which `show` shows to everybody. One caller at a time.
    pub(crate) fn follow(&self, tables: &Tables, show: impl FnOnce()) {
        for place in &self.places {
            let table = TableId(place.load(Ordering::Relaxed));
            if !tables.is_live(table) && !weakened!("gone") {
                place.store(NOBODY, Ordering::Release);
            }
        }
        show();
        let release = if weakened!("known") { Ordering::Relaxed } else { Ordering::Release };
        for table in tables.live() {
            let place = self.place(table);
            if place.load(Ordering::Relaxed) == NOBODY {
                place.store(table.0, release);
            }
        }
    }

    fn place(&self, table: TableId) -> &AtomicU32 {
        &self.places[table.0 as usize % self.places.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::rng::Rng;
    use crate::ids::CommitTs;
    use crate::rows::TableInfo;
    use bytes::Bytes;

    #[test]
    fn what_is_known_is_live_and_a_place_goes_to_the_next_who_wants_it() {
        let (live, mut tables) = (LiveTables::default(), Tables::new());
        let (mut rng, mut known) = (Rng::seeded(1), 0);
        for ts in 1..2000 {
            // Three share each place.
            let id = TableId(1 + rng.below(3 * PLACES as u64) as u32);
            let name = id.0.to_string();
            match tables.is_live(id) {
                true => tables.remove(&name, CommitTs(ts)),
                false => {
                    tables.add(TableInfo { id, name, note: Bytes::new(), created: CommitTs(ts) })
                }
            }
            let was_known = live.knows(id);
            live.follow(&tables, || {
                assert!(!was_known || !live.knows(id), "shown before it is forgotten")
            });
            let of = |id: TableId| id.0 as usize % PLACES;
            let rivals: Vec<_> = tables.live().filter(|other| of(*other) == of(id)).collect();
            let told = rivals.iter().filter(|other| live.knows(**other)).count();
            assert_eq!(told, rivals.len().min(1), "of those that share a place");
            known += usize::from(live.knows(id));
            assert!(!live.knows(id) || tables.is_live(id));
        }
        assert!(known > 300, "only {known} times");
    }
}

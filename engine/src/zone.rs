//! Zone maps: what the values of a stretch of rows are, in short, so that a scan with a filter can
//! pass over the stretch unread. The engine knows neither the form of a value nor what a filter
//! means; here is what it asks of those who do.
//!
//! Promise asked of both sides: a zone says at least what is there, and a filter says no only where
//! no row that the zone describes can pass. Then a scan with zones finds the rows that one without
//! finds.

use crate::ids::{CommitTs, TableId};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::fmt;

/// One row's value in one column, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its type: 1 to 14. Only values of one type are ordered among themselves.
    pub kind: u8,
    /// At least as great as the prefix of every smaller value of the type, at most as great as that
    /// of every greater one. 0 for types without an order.
    pub prefix: u64,
}

/// The values of one column in a stretch of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Bit `k`: a value of type `k` is there. Bit 0: a row without the column is there.
    pub kinds: u16,
    /// No prefix is below. 0 where values of several types are there.
    pub min: u64,
    /// No prefix is above. `u64::MAX` where values of several types are there.
    pub max: u64,
}

impl Zone {
    /// The bit of [`Zone::kinds`] for rows without the column.
    pub const ABSENT: u16 = 1;

    /// Says nothing: any values may be there.
    pub const ANY: Zone = Zone { kinds: 0x7fff, min: 0, max: u64::MAX };

    /// Whether there is a value of the type.
    pub fn has(&self, kind: u8) -> bool {
        self.kinds >> kind & 1 == 1
    }

    /// The same with one value more.
    pub(crate) fn with(self, cell: Cell) -> Zone {
        let kind = cell.kind.clamp(1, 14);
        self.joined(Zone { kinds: 1 << kind, min: cell.prefix, max: cell.prefix })
    }

    /// What is in either.
    pub(crate) fn joined(self, other: Zone) -> Zone {
        let kinds = self.kinds | other.kinds;
        match (self.is_ordered(), other.is_ordered()) {
            (true, true) if (kinds & !Zone::ABSENT).is_power_of_two() => {
                Zone { kinds, min: self.min.min(other.min), max: self.max.max(other.max) }
            }
            (true, false) if other.has_no_value() => Zone { kinds, ..self },
            (false, true) if self.has_no_value() => Zone { kinds, ..other },
            _ if kinds & !Zone::ABSENT == 0 => Zone { kinds, min: 0, max: 0 },
            _ => Zone { kinds, min: 0, max: u64::MAX },
        }
    }

    /// Whether all its values are of one type, so that `min` and `max` say something.
    pub(crate) fn is_ordered(&self) -> bool {
        (self.kinds & !Zone::ABSENT).is_power_of_two()
    }

    fn has_no_value(&self) -> bool {
        self.kinds & !Zone::ABSENT == 0
    }
}

/// Takes columns from the values of rows, for the zones of the files that they are written to.
pub trait Extract: fmt::Debug + Send + Sync + 'static {
    /// Gives `each` the name and the cell of every column that the row has, each name once. False
    /// where the value is none that it knows: any column may be there then.
    fn columns(&self, value: &[u8], each: &mut dyn FnMut(&[u8], Cell)) -> bool;
}

/// By a table's number, the names of the columns that it wants zones of before all others.
pub(crate) type Declared = BTreeMap<TableId, Vec<Vec<u8>>>;

/// A condition that can be asked of zones.
pub trait ZoneFilter: Send + Sync + 'static {
    /// The names of the columns that it asks for.
    fn columns(&self) -> &[String];

    /// False only where no row can pass that was written between the two commits, both included,
    /// and whose values lie in `zones`, one for each of [`ZoneFilter::columns`]; of a column
    /// without a zone nothing is known.
    fn may_pass(&self, written: (CommitTs, CommitTs), zones: &[Option<Zone>]) -> bool;
}

/// A filter on its way through the files of one scan, and what it has spared so far.
pub struct ZoneScan {
    filter: Box<dyn ZoneFilter>,
    skipped: AtomicU64,
    read: AtomicU64,
}

impl ZoneScan {
    /// A scan of rows that pass `filter`.
    pub fn new(filter: impl ZoneFilter) -> ZoneScan {
        ZoneScan { filter: Box::new(filter), skipped: AtomicU64::new(0), read: AtomicU64::new(0) }
    }

    /// The filter.
    pub fn filter(&self) -> &dyn ZoneFilter {
        &*self.filter
    }

    /// Blocks that were passed over unread.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Relaxed)
    }

    /// Blocks whose rows were looked at, in files with zones.
    pub fn read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    pub(crate) fn count_skipped(&self, blocks: u64) {
        self.skipped.fetch_add(blocks, Relaxed);
    }

    pub(crate) fn count_read(&self) {
        self.read.fetch_add(1, Relaxed);
    }
}

impl fmt::Debug for ZoneScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ZoneScan { skipped, read, .. } = self;
        f.debug_struct("ZoneScan").field("skipped", skipped).field("read", read).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_says_at_least_what_is_there() {
        let cell = |kind, prefix| Cell { kind, prefix };
        let zone = Zone::default().with(cell(3, 9)).with(cell(3, 5));
        assert_eq!(zone, Zone { kinds: 8, min: 5, max: 9 });
        let absent = Zone { kinds: Zone::ABSENT, min: 0, max: 0 };
        assert_eq!(zone.joined(absent), Zone { kinds: 9, min: 5, max: 9 });
        assert_eq!(absent.joined(zone), zone.joined(absent));
        assert_eq!(absent.joined(Zone::default()), absent);
        let mixed = zone.with(cell(4, 7));
        assert_eq!(mixed, Zone { kinds: 24, min: 0, max: u64::MAX });
        assert_eq!(mixed.with(cell(3, 1)), mixed, "stays open to both sides");
        assert_eq!(zone.joined(mixed), mixed);
    }
}

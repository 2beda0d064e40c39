//! How many versions of a table file are needed up to some moment only, and about when: rows that
//! expire, and versions that others of the file replace.

use crate::codec::{Reader, put_varint};
use crate::ids::CommitTs;

/// How many versions of a table file lapse, and from when to when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lapsing {
    pub(crate) rows: u64,
    /// Zero where there is none, as is the next.
    pub(crate) from: CommitTs,
    pub(crate) to: CommitTs,
}

impl Lapsing {
    /// Counts a version that lapses at `end`; the end of time stands for none.
    pub(crate) fn count(&mut self, end: CommitTs) {
        if end == CommitTs::MAX {
            return;
        }
        self.from = if self.rows == 0 { end } else { self.from.min(end) };
        self.to = self.to.max(end);
        self.rows += 1;
    }

    /// About how many have lapsed by `now`, if they do evenly; at least one where any has.
    pub(crate) fn lapsed_by(&self, now: CommitTs) -> u64 {
        if self.rows == 0 || now < self.from {
            return 0;
        }
        let (span, passed) = (self.to.0 - self.from.0, now.0 - self.from.0);
        if passed >= span {
            return self.rows;
        }
        let share = u128::from(self.rows) * u128::from(passed) / u128::from(span);
        (share as u64).max(1)
    }

    /// Whether the counts can be, where so many versions could lapse.
    pub(crate) fn is_plausible(&self, rows: u64) -> bool {
        self.rows <= rows && self.from <= self.to
    }

    /// Appends how many, and where there are any, from when to when; varints.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.rows);
        if self.rows > 0 {
            put_varint(out, self.from.0);
            put_varint(out, self.to.0);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Lapsing> {
        let rows = reader.varint()?;
        if rows == 0 {
            return Some(Lapsing::default());
        }
        let (from, to) = (CommitTs(reader.varint()?), CommitTs(reader.varint()?));
        Some(Lapsing { rows, from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_has_lapsed_rises_from_the_first_to_the_last() {
        let mut lapsing = Lapsing::default();
        assert_eq!(lapsing.lapsed_by(CommitTs(5)), 0);
        for end in [200, 100, 110, 190, u64::MAX] {
            lapsing.count(CommitTs(end));
        }
        let by = |now| lapsing.lapsed_by(CommitTs(now));
        assert_eq!([by(99), by(100), by(150), by(199), by(200), by(900)], [0, 1, 2, 3, 4, 4]);
    }
}

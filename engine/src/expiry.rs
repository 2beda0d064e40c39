//! The expiry that a row may carry: before its value, or before the reference to it, as ticks in 8
//! bytes, little-endian. From that time on the row is gone for whoever reads.

use crate::codec::{Reader, put_varint};
use crate::ids::{CommitTs, RowKind};

/// Bytes of an expiry.
pub(crate) const LEN: usize = 8;

/// When a row stored as `stored` expires; the end of time for one that does not. Whoever loads a
/// block or a log has refused what is too short for its kind.
pub(crate) fn of(kind: RowKind, stored: &[u8]) -> CommitTs {
    match stored.first_chunk::<LEN>().filter(|_| kind.expires()) {
        Some(ticks) => CommitTs(u64::from_le_bytes(*ticks)),
        None => CommitTs::MAX,
    }
}

/// Appends an expiry; the value follows.
pub(crate) fn put(expires: CommitTs, out: &mut Vec<u8>) {
    out.extend_from_slice(&expires.0.to_le_bytes());
}

/// What lies behind the expiry, if there is one.
pub(crate) fn value_of(kind: RowKind, stored: &[u8]) -> &[u8] {
    stored.get(value_start(kind)..).unwrap_or_default()
}

/// What a reader of the row gets, where it is at hand.
pub(crate) fn given(kind: RowKind, stored: &[u8]) -> Option<&[u8]> {
    matches!(kind, RowKind::Put | RowKind::PutUntil).then(|| value_of(kind, stored))
}

/// Where the value, or the reference to it, begins.
pub(crate) fn value_start(kind: RowKind) -> usize {
    if kind.expires() { LEN } else { 0 }
}

/// Whether what is stored is long enough for its kind.
pub(crate) fn fits(kind: RowKind, stored_len: usize) -> bool {
    stored_len >= value_start(kind)
}

/// The rows of a table file that expire: how many, and from when to when they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expiring {
    pub(crate) rows: u64,
    /// Zero where there is none, as is the next.
    pub(crate) from: CommitTs,
    pub(crate) to: CommitTs,
}

impl Expiring {
    /// Counts a row of that expiry; the end of time stands for none.
    pub(crate) fn count(&mut self, expires: CommitTs) {
        if expires == CommitTs::MAX {
            return;
        }
        self.from = if self.rows == 0 { expires } else { self.from.min(expires) };
        self.to = self.to.max(expires);
        self.rows += 1;
    }

    /// About how many have expired by `now`, if they expire evenly; at least one where any has.
    pub(crate) fn expired_by(&self, now: CommitTs) -> u64 {
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

    /// Whether the counts can be those of a file with so many rows that are no deletes.
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

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Expiring> {
        let rows = reader.varint()?;
        if rows == 0 {
            return Some(Expiring::default());
        }
        let (from, to) = (CommitTs(reader.varint()?), CommitTs(reader.varint()?));
        Some(Expiring { rows, from, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_has_expired_rises_from_the_first_to_the_last() {
        let mut expiring = Expiring::default();
        assert_eq!(expiring.expired_by(CommitTs(5)), 0);
        for expires in [200, 100, 110, 190, u64::MAX] {
            expiring.count(CommitTs(expires));
        }
        let by = |now| expiring.expired_by(CommitTs(now));
        assert_eq!([by(99), by(100), by(150), by(199), by(200), by(900)], [0, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn what_is_stored_reads_as_it_was_put() {
        let mut stored = Vec::new();
        put(CommitTs(7), &mut stored);
        stored.extend_from_slice(b"value");
        assert_eq!(of(RowKind::PutUntil, &stored), CommitTs(7));
        assert_eq!(value_of(RowKind::PutUntil, &stored), b"value");
        assert_eq!(
            (of(RowKind::Put, &stored), value_of(RowKind::Put, b"x")),
            (CommitTs::MAX, &b"x"[..])
        );
        assert!(
            !fits(RowKind::LinkUntil, 7) && fits(RowKind::LinkUntil, 8) && fits(RowKind::Put, 0)
        );
    }
}

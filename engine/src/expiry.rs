//! The expiry that a row may carry: before its value, or before the reference to it, as ticks in 8
//! bytes, little-endian. From that time on the row is gone for whoever reads.

use crate::ids::{CommitTs, RowKind};

/// Bytes of an expiry.
pub(crate) const LEN: usize = 8;

/// When a row stored as `stored` expires; the end of time for one that does not. Whoever loads a
/// block or a log has refused what is too short for its kind.
pub(crate) fn of(kind: RowKind, stored: &[u8]) -> CommitTs {
    told(kind, stored).unwrap_or(CommitTs::MAX)
}

/// The same as readers are told it: `None` for a row that does not expire.
pub(crate) fn told(kind: RowKind, stored: &[u8]) -> Option<CommitTs> {
    let ticks = stored.first_chunk::<LEN>().filter(|_| kind.expires())?;
    Some(CommitTs(u64::from_le_bytes(*ticks)))
}

/// Appends an expiry; the value follows.
pub(crate) fn put(expires: CommitTs, out: &mut Vec<u8>) {
    out.extend_from_slice(&expires.0.to_le_bytes());
}

/// The expiry's bytes, none where there is none, and what lies behind them.
pub(crate) fn split(kind: RowKind, stored: &[u8]) -> (&[u8], &[u8]) {
    stored.split_at(value_start(kind).min(stored.len()))
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(told(RowKind::LinkUntil, &stored), Some(CommitTs(7)));
        assert_eq!(told(RowKind::Put, &stored), None);
        assert!(
            !fits(RowKind::LinkUntil, 7) && fits(RowKind::LinkUntil, 8) && fits(RowKind::Put, 0)
        );
    }
}

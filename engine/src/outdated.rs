//! Which cached rows an edit outdates: the newest versions in the files change where rows are
//! added, not where files are merged or moved, which drops what newer versions hide. A merge also
//! drops newest versions, those that are erased or have outlived their table; what is older then
//! is as hidden, and nobody has cached it (`view`).
//!
//! Absent: memtables. They are asked before the row cache, so what they hold outdates nothing
//! there.

use crate::erasure::set::Erasures;
use crate::error::Result;
use crate::ids::CommitTs;
use crate::key::hash;
use crate::manifest::edit::Edit;
use crate::memtable::api::Memtable;
use crate::row_cache::RowCache;
use std::sync::Arc;

/// The rows that one edit outdates.
pub(crate) struct Outdated<'a> {
    flushed: Option<&'a Arc<dyn Memtable>>,
    /// Files that came from elsewhere: first and last key, in order, no two overlapping.
    added: Vec<(Vec<u8>, Vec<u8>)>,
    /// What these hid is in no file any more, and must not come back from the cache.
    retired: Erasures,
}

impl<'a> Outdated<'a> {
    /// Those of `edit`, by which the memtable `flushed` comes to files.
    pub(crate) fn by(edit: &Edit, flushed: Option<&'a Arc<dyn Memtable>>) -> Outdated<'a> {
        let from_elsewhere = flushed.is_none() && edit.removed.is_empty();
        let added = edit.added.iter().filter(|_| from_elsewhere);
        let added = added.map(|(_, meta)| (meta.smallest.clone(), meta.largest.clone())).collect();
        let retired = Erasures::of(edit.retired.iter().cloned());
        Outdated { flushed, added: joined(added), retired }
    }

    fn covers(&self, key: &[u8], ts: CommitTs) -> bool {
        let at = self.added.partition_point(|(first, _)| **first <= *key);
        let came = at.checked_sub(1).is_some_and(|at| *key <= *self.added[at].1);
        came || ts < self.retired.newest_at(key, CommitTs::MAX)
    }

    /// Drops the rows; returns the edition of the View that shows the edit where that is a new one.
    pub(crate) fn forget(&self, rows: &RowCache) -> Option<u64> {
        let mut edition = None;
        if !self.added.is_empty() || !self.retired.is_empty() {
            edition = Some(rows.forget_where(|key, ts| self.covers(key, ts)));
        }
        if let Some(memtable) = self.flushed {
            let hashes = if rows.is_used() { row_hashes(memtable).ok() } else { None };
            edition = Some(match hashes {
                Some(hashes) => rows.forget(&hashes),
                None => rows.forget_where(|_, _| true),
            });
        }
        edition
    }
}

/// Ranges with both ends included, in order, those that overlap made one.
fn joined(mut ranges: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        let overlaps = next.0 <= range.1;
        if overlaps && next.1 > range.1 {
            range.1 = std::mem::take(&mut next.1);
        }
        overlaps
    });
    ranges
}

/// The hashes of a memtable's keys.
fn row_hashes(memtable: &Arc<dyn Memtable>) -> Result<Vec<u64>> {
    let (mut cursor, mut hashes) = (Arc::clone(memtable).cursor(), Vec::new());
    cursor.seek(b"", CommitTs::MAX)?;
    while cursor.valid() {
        hashes.push(hash::of_row(cursor.key()));
        cursor.next()?;
    }
    hashes.dedup(); // Versions of one key follow one another.
    Ok(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::erasure::set::Erasure;

    #[test]
    fn what_many_files_and_erasures_cover_is_what_one_of_them_does() {
        let ranges = [("d", "f"), ("b", "c"), ("e", "k"), ("m", "m"), ("x", "z"), ("x", "y")];
        let erased = [("a", "h", 3), ("g", "q", 7), ("g", "i", 2)].map(|(start, end, ts)| {
            let (start, end) = (start.as_bytes().into(), end.as_bytes().into());
            Erasure { start, end, ts: CommitTs(ts) }
        });
        let added = ranges.map(|(first, last)| (first.into(), last.into())).to_vec();
        let retired = Erasures::default();
        let adds = Outdated { flushed: None, added: joined(added), retired };
        let retired = Erasures::of(erased.clone());
        let retires = Outdated { flushed: None, added: Vec::new(), retired };
        for letter in 'a'..='z' {
            let key = letter.to_string().into_bytes();
            let within = |(first, last): &(&str, &str)| {
                first.as_bytes() <= &key[..] && &key[..] <= last.as_bytes()
            };
            for ts in (0..9).map(CommitTs) {
                assert_eq!(adds.covers(&key, ts), ranges.iter().any(within), "{letter}");
                let hid = |e: &Erasure| *e.start <= key[..] && key[..] < *e.end && ts < e.ts;
                assert_eq!(retires.covers(&key, ts), erased.iter().any(hid), "{letter}, {ts}");
            }
        }
    }
}

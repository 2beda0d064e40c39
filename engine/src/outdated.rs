//! Which cached rows an edit outdates: the newest versions in the files change where rows are added, not
//! where files are merged or moved, which drops what newer versions hide.
//!
//! Absent: memtables. They are asked before the row cache, so what they hold outdates nothing there.

use crate::erasure::set::Erasure;
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
    /// Files that came from elsewhere: first and last key.
    added: Vec<(Vec<u8>, Vec<u8>)>,
    /// What these hid is in no file any more, and must not come back from the cache.
    retired: Vec<Erasure>,
}

impl<'a> Outdated<'a> {
    /// Those of `edit`, by which the memtable `flushed` comes to files.
    pub(crate) fn by(edit: &Edit, flushed: Option<&'a Arc<dyn Memtable>>) -> Outdated<'a> {
        let from_elsewhere = flushed.is_none() && edit.removed.is_empty();
        let added = edit.added.iter().filter(|_| from_elsewhere);
        let added = added.map(|(_, meta)| (meta.smallest.clone(), meta.largest.clone())).collect();
        Outdated { flushed, added, retired: edit.retired.clone() }
    }

    fn covers(&self, key: &[u8], ts: CommitTs) -> bool {
        self.added.iter().any(|(first, last)| **first <= *key && *key <= **last)
            || self.retired.iter().any(|e| *e.start <= *key && *key < *e.end && ts < e.ts)
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

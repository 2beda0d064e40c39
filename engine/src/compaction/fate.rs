//! What becomes of a version in a merge: it is written again, or dropped for a reason.
//!
//! A version is dropped where its table was dropped, where a newer version serves every reader that
//! could ask for it, and where it is a delete with nothing left below it to hide.

use crate::catalog::Readable;
use crate::ids::{CommitTs, RowKind};
use crate::key::order;
use crate::limits::LEVELS;
use crate::snapshot::{Boundaries, Retain};
use crate::version::files::{LiveFile, Version};
use std::sync::Arc;

/// What becomes of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    /// Its table was dropped.
    OfDroppedTable,
    /// A newer version serves every reader that could ask for it.
    Shadowed,
    /// It is a delete, and nothing is left that it hides.
    DeleteDone,
}

/// Decides about the versions of one merge, in their order.
pub(crate) struct Judge<'a> {
    boundaries: &'a Boundaries,
    readable: &'a Readable,
    retain: Retain<'a>,
    below: Below<'a>,
    table_is_readable: bool,
}

impl<'a> Judge<'a> {
    /// For a merge into level `out_level` of `version`.
    pub(crate) fn new(
        out_level: usize,
        version: &'a Version,
        boundaries: &'a Boundaries,
        readable: &'a Readable,
    ) -> Judge<'a> {
        Judge {
            boundaries,
            readable,
            retain: Retain::new(boundaries),
            below: Below::new(out_level + 1, version),
            table_is_readable: false,
        }
    }

    /// The versions that follow are of another key.
    pub(crate) fn next_key(&mut self, key: &[u8]) {
        let table = order::table_of(key);
        self.table_is_readable = table.is_some_and(|table| self.readable.contains(table));
        self.retain.next_key();
    }

    /// What becomes of the next older version of `key`.
    pub(crate) fn of(&mut self, key: &[u8], ts: CommitTs, kind: RowKind) -> Fate {
        if !self.table_is_readable {
            return Fate::OfDroppedTable;
        }
        if !self.retain.keeps(ts) {
            return Fate::Shadowed;
        }
        let hides_nothing = kind == RowKind::Delete && ts <= self.boundaries.oldest();
        match hides_nothing && !self.below.may_hold(key) {
            true => Fate::DeleteDone,
            false => Fate::Keep,
        }
    }
}

/// Whether files below the output level may hold older versions of a key. Keys are asked in order,
/// so each level is walked once.
struct Below<'a> {
    levels: Vec<std::slice::Iter<'a, Arc<LiveFile>>>,
}

impl<'a> Below<'a> {
    fn new(first: usize, version: &'a Version) -> Below<'a> {
        let levels = version.levels.get(first.min(LEVELS)..).unwrap_or_default();
        Below { levels: levels.iter().map(|files| files.iter()).collect() }
    }

    fn may_hold(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().any(|files| {
            while files.as_slice().first().is_some_and(|f| f.meta.largest.as_slice() < key) {
                files.next();
            }
            files.as_slice().first().is_some_and(|f| f.meta.smallest.as_slice() <= key)
        })
    }
}

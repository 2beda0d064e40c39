//! What becomes of one version of a row when a flush or a merge comes by it: the one place that
//! decides.
//!
//! A version is dropped for one of five reasons: its table was dropped; it has outlived its table's
//! time to live for every reader, and so has all that it might hide; a newer version serves every
//! reader that could ask for it; every such reader finds it erased; it is a delete, or has expired
//! for all of them, with nothing left below it to hide. Where an expired one may have something to
//! hide, a delete takes its place. Reasons are asked in this order, and each holds by itself.
//!
//! Only erasures that are on disk, or get there with the same edit as the outcome, may be given:
//! what a crash takes back must not have cost a row.

use crate::catalog::Readable;
use crate::erasure::set::{Erasures, Fragment};
use crate::ids::{CommitTs, RowKind};
use crate::key::order;
use crate::limits::LEVELS;
use crate::snapshot::{Boundaries, Retain};
use crate::version::files::{LiveFile, Version};
use std::sync::Arc;

/// What becomes of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays. `erased_at`: the earliest erasure that hides it all the same, from readers that
    /// come later than the one it stays for.
    Keep { erased_at: Option<CommitTs> },
    /// Its table was dropped.
    OfDroppedTable,
    /// Every reader finds that it has outlived its table's time to live, as what it may hide has.
    Outlived,
    /// A newer version serves every reader.
    Shadowed,
    /// Every reader finds it erased.
    Erased,
    /// Every reader finds it expired, and it may hide what they must not see: a delete stays for
    /// it.
    Expired { erased_at: Option<CommitTs> },
    /// A delete, or expired, and has nothing to hide.
    DeleteDone,
}

/// Decides for versions in the order of a cursor: keys ascending, newest first.
pub(crate) struct Judge<'a> {
    boundaries: &'a Boundaries,
    readable: Option<&'a Readable>, // All tables where there is none.
    below: Option<Below<'a>>,       // Anything may be below where there is none.
    fragments: std::slice::Iter<'a, Fragment>,
    here: Option<&'a Fragment>, // Covers the present key.
    table_is_readable: bool,
    outlived_to: CommitTs,
    retain: Retain<'a>,
}

impl<'a> Judge<'a> {
    /// For the flush of a memtable that comes with `erasures`.
    pub(crate) fn of_flush(boundaries: &'a Boundaries, erasures: &'a Erasures) -> Judge<'a> {
        Judge {
            boundaries,
            readable: None,
            below: None,
            fragments: erasures.fragments().iter(),
            here: None,
            table_is_readable: true,
            outlived_to: CommitTs::ZERO,
            retain: Retain::new(boundaries),
        }
    }

    /// For a merge into level `out_level` of `version`.
    pub(crate) fn of_merge(
        out_level: usize,
        version: &'a Version,
        boundaries: &'a Boundaries,
        readable: &'a Readable,
    ) -> Judge<'a> {
        Judge {
            readable: Some(readable),
            below: Some(Below::new(out_level + 1, version)),
            ..Judge::of_flush(boundaries, &version.erasures)
        }
    }

    /// The versions that follow are of another key, above all before.
    pub(crate) fn next_key(&mut self, key: &[u8]) {
        while self.fragments.as_slice().first().is_some_and(|f| *f.end <= *key) {
            self.fragments.next();
        }
        self.here = self.fragments.as_slice().first().filter(|f| *f.start <= *key);
        if let Some((readable, table)) = self.readable.zip(order::table_of(key)) {
            self.table_is_readable = readable.contains(table);
            self.outlived_to = readable.outlived_to(table);
        }
        self.retain.next_key();
    }

    /// What becomes of the next older version of `key`; `expires`: when it does, the end of time
    /// for one that does not.
    pub(crate) fn fate(
        &mut self,
        key: &[u8],
        ts: CommitTs,
        kind: RowKind,
        expires: CommitTs,
    ) -> Fate {
        if !self.table_is_readable {
            return Fate::OfDroppedTable;
        }
        if ts <= self.outlived_to {
            return Fate::Outlived;
        }
        if !self.retain.keeps(ts) {
            return Fate::Shadowed;
        }
        let erased_at = self.here.and_then(|fragment| fragment.oldest_above(ts));
        if erased_at.is_some_and(|erased| !self.boundaries.may_read_between(ts, erased)) {
            return Fate::Erased;
        }
        let expired = kind != RowKind::Delete
            && expires != CommitTs::MAX
            && !self.boundaries.may_see_before(ts, expires);
        let gone = expired || kind == RowKind::Delete;
        let hides_nothing = gone && ts <= self.boundaries.oldest();
        match hides_nothing && self.below.as_mut().is_some_and(|below| !below.may_hold(key)) {
            true => Fate::DeleteDone,
            false if expired => Fate::Expired { erased_at },
            false => Fate::Keep { erased_at },
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

/// Up to where a file is free of erased versions, as its versions are written one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErasedTo(CommitTs);

impl ErasedTo {
    /// A file without a version, made with knowledge of `erasures`.
    pub(crate) fn all_of(erasures: &Erasures) -> ErasedTo {
        ErasedTo(erasures.newest())
    }

    /// A version was kept.
    pub(crate) fn keep(&mut self, erased_at: Option<CommitTs>) {
        if let Some(CommitTs(ts)) = erased_at {
            self.0 = self.0.min(CommitTs(ts.saturating_sub(1)));
        }
    }

    /// For [`FileMeta`](crate::sstable::format::FileMeta).
    pub(crate) fn ts(self) -> CommitTs {
        self.0
    }
}

//! Marks in the chains of a memtable's versions: where to begin for an old one among thousands of
//! newer ones.
//!
//! One version in 64 has a mark, drawn by its timestamp, so that nobody need count the versions of
//! a row. Readers look for one only behind many newer versions than they ask for; only they take a
//! lock.

use crate::ids::CommitTs;
use crate::memtable::arena::Ref;
use crate::memtable::row::{Row, Version};
use crate::sync::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Newer versions that are passed one by one before a mark is looked for: nearly all rows have
/// fewer, and the look costs as much.
pub(super) const VERSIONS_BEFORE_MARKS: usize = 32;

/// Bytes that a mark takes, its share of a node that is not full included.
pub(super) const MARK_BYTES: usize = 40;

/// Each marked version by its row and its commit.
type ByRow = BTreeMap<(Ref<Row>, CommitTs), Ref<Version>>;

/// The marked versions of all rows.
#[derive(Debug, Default)]
pub(super) struct Marks(RwLock<ByRow>);

impl Marks {
    /// Whether a version of this commit gets a mark: one in 64, in no rhythm that commits could
    /// have too.
    #[inline]
    pub(super) fn is_due(ts: CommitTs) -> bool {
        let mixed = (ts.0 ^ ts.0 >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58 == 0
    }

    /// Marks a version of `row`.
    pub(super) fn add(&self, row: Ref<Row>, ts: CommitTs, version: Ref<Version>) {
        self.0.write().insert((row, ts), version);
    }

    /// The oldest marked version of `row` that is newer than `at`.
    pub(super) fn above(&self, row: Ref<Row>, at: CommitTs) -> Option<Ref<Version>> {
        let newer = (Bound::Excluded((row, at)), Bound::Included((row, CommitTs::MAX)));
        self.0.read().range(newer).next().map(|(_, version)| *version)
    }
}

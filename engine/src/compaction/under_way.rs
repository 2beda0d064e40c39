//! Where the result of a merge under way will lie, and so which level a file from elsewhere may
//! take.

use crate::compaction::job::Job;
use crate::compaction::picker;
use crate::limits::LEVELS;
use crate::sstable::format::FileMeta;
use crate::version::files::Version;

/// The level and the keys between which a merge will write its files.
#[derive(Debug)]
pub(crate) struct Merging {
    level: usize,
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl Merging {
    /// Those of `job`; `None` where it writes none.
    pub(crate) fn of(job: &Job) -> Option<Merging> {
        let Job::Merge(merge) = job else { return None };
        let (smallest, largest) = picker::span(merge.inputs());
        Some(Merging { level: merge.level + 1, smallest, largest })
    }

    /// Whether the level must not get the file: it may lie in a gap that the result will span.
    fn is_in_the_way(&self, level: usize, file: &FileMeta) -> bool {
        // Planted (`planted.rs`) with the first condition: work under way does not stand in the way
        // of other work.
        !crate::planted!("B20")
            && level == self.level
            && file.smallest <= self.largest
            && self.smallest <= file.largest
    }
}

/// The deepest level that may take a file whose rows are newer than all others of their keys.
pub(crate) fn level_for(version: &Version, merging: Option<&Merging>, file: &FileMeta) -> usize {
    let mut deepest = 0;
    for level in 0..LEVELS {
        if !version.overlapping(level, &file.smallest, &file.largest).is_empty() {
            break;
        }
        if !merging.is_some_and(|merging| merging.is_in_the_way(level, file)) {
            deepest = level;
        }
    }
    deepest
}

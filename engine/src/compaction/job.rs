//! What one compaction does.

use crate::erasure::set::Erasure;
use crate::ids::FileNo;
use crate::version::files::LiveFile;
use std::sync::Arc;

/// A file that is merged or moved to its level overlaps at most this many output files' worth of
/// the level below that; otherwise it only makes the next merge expensive.
pub(crate) const GRANDPARENT_FILES_MAX: u64 = 10;

/// A piece of compaction work, chosen by the picker.
#[derive(Debug)]
pub(crate) enum Job {
    /// Forget files of which no row can be read any more.
    Drop { files: Vec<(usize, FileNo)> },
    /// Forget erasures that hide nothing any more.
    Retire { erasures: Vec<Erasure> },
    /// Move a file one level down as it is: nothing there overlaps it.
    Move { file: Arc<LiveFile>, from: usize },
    /// Merge files of `level` with those of the next level that overlap them.
    Merge(Merge),
}

/// A merge of files into the level below.
#[derive(Debug)]
pub(crate) struct Merge {
    /// The level that gives files; the next one takes the result.
    pub(crate) level: usize,
    /// Files of `level`: for L0 newest first, otherwise by key. None where `lower` is written anew
    /// in its place.
    pub(crate) upper: Vec<Arc<LiveFile>>,
    /// Files of the next level, by key.
    pub(crate) lower: Vec<Arc<LiveFile>>,
    /// Files of the level after that: an output ends before it overlaps too many of them.
    pub(crate) grandparents: Vec<Arc<LiveFile>>,
}

impl Job {
    /// Whether it reads no file that a merge could not read. A move reads nothing.
    pub(crate) fn is_readable(&self) -> bool {
        match self {
            Job::Drop { .. } | Job::Retire { .. } | Job::Move { .. } => true,
            Job::Merge(merge) => merge.inputs().all(|file| file.unreadable().is_none()),
        }
    }
}

impl Merge {
    /// Whether it writes files anew that are no more than one of `file_bytes` together.
    pub(crate) fn fits_one_file(&self, file_bytes: u64) -> bool {
        let in_place = self.upper.is_empty() && self.grandparents.is_empty();
        in_place && self.lower.iter().map(|file| file.meta.bytes).sum::<u64>() <= file_bytes
    }

    /// About the most that it writes: what its files have, and what those refer to in blob files
    /// that are `worn`.
    pub(crate) fn bytes(&self, worn: &[FileNo]) -> u64 {
        self.inputs().map(|file| file.meta.bytes + worn_bytes(file, worn)).sum()
    }

    /// The files that it reads.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Arc<LiveFile>> {
        self.upper.iter().chain(&self.lower)
    }

    /// Files of which it stands in one at a time: each of L0, and each deeper level as a whole.
    pub(crate) fn runs(&self) -> usize {
        if self.level == 0 { self.upper.len() + 1 } else { 2 }
    }
}

/// Bytes of values in blob files that are `worn`, to which the file refers.
pub(crate) fn worn_bytes(file: &LiveFile, worn: &[FileNo]) -> u64 {
    worn.iter().filter_map(|no| file.meta.blobs.get(no)).map(|used| used.bytes).sum()
}

//! Merges that no level's size asks for, for times when nothing else is due: worn blob files, new
//! files that are little but references, and runs of tiny files. Pure.
//!
//! With values in blob files a flush leaves a table file of some ten KiB for a memtable of many
//! MiB. Merging it down at once costs next to nothing and finds the values that it overwrote, so
//! that a settled tree has no garbage that is not counted; and without a rule against it a level
//! would fill with such files.
//!
//! Every job makes what asked for it smaller: it leaves fewer references to worn files, fewer files
//! in L0, or fewer files in a level. So upkeep ends.

use crate::compaction::job::{Job, Merge, worn_bytes};
use crate::compaction::picker;
use crate::options::Options;
use crate::version::files::{LiveFile, Version};
use std::sync::Arc;

/// Files of L0 are merged down at once where what that writes is at most one part in this many of
/// the values that they refer to.
const VALUES_PER_WRITTEN: u64 = 8;

/// So many neighbours that are tiny together become one: each row is then written again at most
/// once per factor of this many in size. Not where they are apart because of what lies below them.
const TINY_FILES: usize = 8;

/// The next job that may be done, if any upkeep is due.
pub(crate) fn pick(
    version: &Version,
    options: &Options,
    may: &dyn Fn(&Job) -> bool,
) -> Option<Job> {
    worn_blobs(version, options, may)
        .or_else(|| light_l0(version, options, may))
        .or_else(|| tiny_files(version, options, may))
}

/// Brings references to worn blob files, whose values a merge writes anew, to an end: first those
/// in L0 sink, then the file with most of them is written anew in its place.
pub(crate) fn worn_blobs(
    version: &Version,
    options: &Options,
    may: &dyn Fn(&Job) -> bool,
) -> Option<Job> {
    let worn = version.blobs.worn(options.advanced.blob_dead_percent);
    if worn.is_empty() {
        return None;
    }
    let worn_bytes = |file: &LiveFile| worn_bytes(file, &worn);
    if version.levels[0].iter().any(|file| worn_bytes(file) > 0)
        && let Some(job) = picker::from_l0(version, options, may)
    {
        return Some(job);
    }
    let below = version.files().filter(|(level, file)| *level > 0 && worn_bytes(file) > 0);
    let mut most: Vec<_> = below.map(|(level, file)| (worn_bytes(file), level, file)).collect();
    most.sort_by_key(|(bytes, ..)| *bytes);
    let mut jobs =
        most.into_iter().rev().map(|(_, level, file)| anew(level, vec![Arc::clone(file)]));
    jobs.find(may)
}

fn light_l0(version: &Version, options: &Options, may: &dyn Fn(&Job) -> bool) -> Option<Job> {
    let job = picker::from_l0(version, options, may)?;
    let (files, written) = match &job {
        Job::Merge(Merge { upper, lower, .. }) => {
            (upper.as_slice(), upper.iter().chain(lower).map(|file| file.meta.bytes).sum())
        }
        Job::Move { file, .. } => (std::slice::from_ref(file), file.meta.bytes),
        Job::Drop { .. } | Job::Retire { .. } => return None,
    };
    let values: u64 =
        files.iter().flat_map(|file| file.meta.blobs.values()).map(|used| used.bytes).sum();
    (values > 0 && written * VALUES_PER_WRITTEN <= values).then_some(job)
}

fn tiny_files(version: &Version, options: &Options, may: &dyn Fn(&Job) -> bool) -> Option<Job> {
    let file_bytes = options.advanced.file_bytes as u64;
    version.levels.iter().enumerate().skip(1).find_map(|(level, files)| {
        let bytes = |files: &[Arc<LiveFile>]| files.iter().map(|f| f.meta.bytes).sum::<u64>();
        let largest = |files: &[Arc<LiveFile>]| files.iter().map(|f| f.meta.bytes).max();
        // Of like size, or a file that grew would be written again for every few that join it.
        let tiny = |files: &&[Arc<LiveFile>]| {
            let (sum, largest) = (bytes(files), largest(files).unwrap_or(0));
            sum <= file_bytes && largest * 2 <= sum
        };
        // Where outputs ended for the sake of the level below, one would bring much of it along.
        let few_below =
            |files: &&[Arc<LiveFile>]| picker::are_over_little(version, level, files, options);
        let tiny = files.windows(TINY_FILES).filter(tiny).filter(few_below);
        tiny.map(|files| anew(level, files.to_vec())).find(may)
    })
}

/// A merge of neighbours of one level, from L1 down, into that level.
fn anew(level: usize, files: Vec<Arc<LiveFile>>) -> Job {
    let (level, upper, grandparents) = (level - 1, Vec::new(), Vec::new());
    Job::Merge(Merge { level, upper, lower: files, grandparents })
}

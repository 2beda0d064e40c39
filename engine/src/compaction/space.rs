//! Which compaction gives back the space of what was deleted or has expired. Pure but for the
//! indexes of files that an erasure overlaps.
//!
//! In the order of their cost: files in which no reader finds a row are forgotten unread; an
//! erasure with nothing left to hide is retired; files with many or old deletes sink towards the
//! rows that those hide, and lose them where there are none; so do files with many expired rows;
//! files with many versions that others of theirs replace, or that have outlived their table's time
//! to live, are rewritten where they lie, as are those with rows under an erasure.
//!
//! Promise: what is picked makes progress, so that whoever picks until there is nothing more comes
//! to an end. A snapshot that still reads what was deleted holds its job back.

use crate::catalog::Readable;
use crate::compaction::job::{Job, Merge};
use crate::erasure::set::Erasure;
use crate::ids::{CommitTs, FileNo, TableId};
use crate::key::order;
use crate::key::range::KeyRange;
use crate::limits::LEVELS;
use crate::snapshot::Boundaries;
use crate::sstable::format::FileMeta;
use crate::version::files::{LiveFile, Version};
use std::sync::Arc;

/// Live erasures from which on files are rewritten for the oldest of them, however little that
/// frees: each read looks them up, each flush and each erasure copies their list.
const ERASURES_MAX: usize = 1 << 10;

/// Bytes of the bounds of erasures that are retired by one edit, about.
const RETIRED_BYTES: usize = 1 << 20;

/// How eagerly space is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Where it pays: from a tenth of a file on, or once it is old.
    Background,
    /// All but a hundredth of a file's versions in deletes, and everything erased.
    Settle,
    /// Everything.
    Full,
}

impl Effort {
    /// Deletes, or what else goes, of a thousand versions above which a file is worth a compaction.
    fn deletes_per_mille(self) -> u64 {
        match self {
            Effort::Background => 100,
            Effort::Settle => 10,
            Effort::Full => 0,
        }
    }
}

/// What deciding takes beside the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) boundaries: &'a Boundaries,
    pub(crate) readable: &'a Readable,
    pub(crate) effort: Effort,
    /// Deletes and erasures up to here are due, however few.
    pub(crate) due: CommitTs,
    /// What nobody needs any more only because time goes on is left: what was deleted, erased or
    /// replaced later, or has expired since.
    pub(crate) until: CommitTs,
}

/// What costs nothing: files to forget, erasures to retire.
pub(crate) fn free(version: &Version, scene: &Scene<'_>) -> Option<Job> {
    forget(version, scene).or_else(|| retire(version, scene))
}

/// What costs a rewrite: the first that `job` makes one of.
pub(crate) fn reclaim(
    version: &Version,
    scene: &Scene<'_>,
    job: &dyn Fn(Reclaim) -> Option<Job>,
) -> Option<Job> {
    deletes(version, scene, job)
        .or_else(|| replaced(version, scene, job))
        .or_else(|| expired(version, scene, job))
        .or_else(|| outlived(version, scene, job))
        .or_else(|| erased(version, scene, job))
}

/// What `job` makes of the file with the largest share that it makes anything of.
fn largest<'a>(
    files: impl Iterator<Item = (u64, usize, &'a Arc<LiveFile>)>,
    job: impl Fn(usize, &Arc<LiveFile>) -> Option<Job>,
) -> Option<Job> {
    let mut files: Vec<_> = files.collect();
    files.sort_by_key(|(share, ..)| *share);
    files.into_iter().rev().find_map(|(_, level, file)| job(level, file))
}

/// A file to be compacted for the space that it gives back.
#[derive(Debug)]
pub(crate) enum Reclaim {
    /// Together with the level below it.
    Down(usize, Arc<LiveFile>),
    /// By itself.
    Rewrite(Merge),
}

fn forget(version: &Version, scene: &Scene<'_>) -> Option<Job> {
    let of_no_table = |file: &LiveFile| {
        tables(file).is_some_and(|(first, last)| !scene.readable.any_in(first, last))
    };
    let erased = |file: &LiveFile| {
        let meta = &file.meta;
        let from = version.erasures.all_covered_from(&meta.smallest, &meta.largest, meta.max_ts);
        from.is_some_and(|from| !scene.boundaries.may_read_between(meta.min_ts, from))
    };
    let dead = version.files().filter(|(level, file)| {
        of_no_table(file)
            || is_outlived(scene, file)
            || erased(file)
            || is_expired(version, scene, *level, file)
    });
    let files: Vec<(usize, FileNo)> = dead.map(|(level, file)| (level, file.meta.no)).collect();
    (!files.is_empty()).then_some(Job::Drop { files })
}

/// The first and the last table that rows of the file may be of.
fn tables(file: &LiveFile) -> Option<(TableId, TableId)> {
    order::table_of(&file.meta.smallest).zip(order::table_of(&file.meta.largest))
}

/// Whether every row of the file has outlived its table's time to live for every reader. What it
/// may hide is older.
fn is_outlived(scene: &Scene<'_>, file: &LiveFile) -> bool {
    let to = tables(file).map(|(first, last)| scene.readable.outlived_in_all(first, last));
    to.is_some_and(|to| file.meta.max_ts <= to)
}

/// Whether every row of the file has expired for every reader, or is a delete, with nothing older
/// left to hide.
fn is_expired(version: &Version, scene: &Scene<'_>, level: usize, file: &LiveFile) -> bool {
    let meta = &file.meta;
    meta.expiring.rows > 0
        && meta.expiring.rows + meta.deletes == meta.rows
        && !scene.boundaries.may_see_before(meta.min_ts, meta.expiring.to)
        && meta.max_ts <= scene.boundaries.oldest()
        && !has_older_below(version, level, file)
        && (level > 0 || !has_older_beside(version, file))
}

/// Whether another file of L0 may hold older versions of the keys of `file`, which is one. Their
/// numbers do not say: one that was ingested is newer than what was flushed after it was begun.
fn has_older_beside(version: &Version, file: &LiveFile) -> bool {
    let overlapping = version.overlapping(0, &file.meta.smallest, &file.meta.largest);
    overlapping.iter().any(|o| o.meta.no != file.meta.no && o.meta.min_ts <= file.meta.max_ts)
}

/// Whether `file` may hold a version that `erasure` hides.
fn may_hide_in(erasure: &Erasure, file: &LiveFile) -> bool {
    let meta = &file.meta;
    meta.min_ts < erasure.ts
        && meta.erased_to < erasure.ts
        && erasure.overlaps(&meta.smallest, &meta.largest)
}

/// Whatever is older than a recorded erasure is in files, so those alone decide.
fn retire(version: &Version, scene: &Scene<'_>) -> Option<Job> {
    let erasures = &version.erasures;
    let idle = |erasure: &&Erasure| {
        !overlapped(version, erasure).any(|(_, file)| may_hide_in(erasure, file))
    };
    // Newer ones cover all that it covers, for every reader.
    let outdone = |erasure: &&Erasure| {
        let first = erasures.fragment_from(&erasure.start);
        let within = erasures.fragments()[first..].iter().take_while(|f| f.start < erasure.end);
        let mut newer = within.map(|fragment| fragment.oldest_above(erasure.ts));
        newer.all(|newer| {
            newer.is_some_and(|newer| !scene.boundaries.may_read_between(erasure.ts, newer))
        })
    };
    let (mut done, mut bytes) = (Vec::new(), 0);
    for erasure in erasures.iter().filter(|e| idle(e) || outdone(e)) {
        bytes += erasure.start.len() + erasure.end.len();
        done.push(erasure.clone());
        if bytes > RETIRED_BYTES {
            break; // The next job has the rest.
        }
    }
    (!done.is_empty()).then_some(Job::Retire { erasures: done })
}

/// The files that may hold a key of `erasure`, with their levels.
fn overlapped<'a>(
    version: &'a Version,
    erasure: &'a Erasure,
) -> impl Iterator<Item = (usize, &'a Arc<LiveFile>)> {
    version.levels.iter().enumerate().flat_map(move |(level, files)| {
        let first = match level {
            0 => 0,
            _ => files.partition_point(|file| *file.meta.largest < *erasure.start),
        };
        let last = match level {
            0 => files.len(),
            _ => files.partition_point(|file| *file.meta.smallest < *erasure.end).max(first),
        };
        let files = files[first..last].iter();
        files
            .filter(|file| erasure.overlaps(&file.meta.smallest, &file.meta.largest))
            .map(move |file| (level, file))
    })
}

/// The file with the largest share of deletes that are worth it.
fn deletes(
    version: &Version,
    scene: &Scene<'_>,
    job: &dyn Fn(Reclaim) -> Option<Job>,
) -> Option<Job> {
    let oldest = scene.boundaries.oldest().min(scene.until);
    let worth_it = |(_, file): &(usize, &Arc<LiveFile>)| {
        let count = deletes_by(&file.meta, oldest);
        let is_dense = count * 1000 > file.meta.rows * scene.effort.deletes_per_mille();
        count > 0 && (is_dense || file.meta.oldest_delete <= scene.due)
    };
    // A flush is followed by more of them, so L0 waits for its turn unless there is no later.
    let in_turn = |(level, file): &(usize, &Arc<LiveFile>)| {
        *level > 0 || scene.effort != Effort::Background || file.meta.oldest_delete <= scene.due
    };
    let share = |file: &LiveFile| deletes_by(&file.meta, oldest) * 1000 / file.meta.rows;
    let files = version.files().filter(in_turn).filter(worth_it);
    let files = files.map(|(level, file)| (share(file), level, file));
    largest(files, |level, file| job(down_or_anew(version, level, file)))
}

/// About how many of a file's deletes no reader needs who sees `oldest`, if they lie evenly between
/// the first of them and the newest commit. Not those that are younger: with a history window it
/// would be rewritten for each of them, one after the other.
fn deletes_by(meta: &FileMeta, oldest: CommitTs) -> u64 {
    if meta.deletes == 0 || oldest < meta.oldest_delete {
        return 0;
    }
    let passed = oldest.min(meta.max_ts).0 - meta.oldest_delete.0 + 1;
    let span = meta.max_ts.0 - meta.oldest_delete.0 + 1;
    let count = u128::from(meta.deletes) * u128::from(passed) / u128::from(span);
    (count as u64).max(1)
}

/// The file with the largest share of versions that others of it replace for every reader, where
/// that is worth it: what was replaced within a history window and has left it. One of them at
/// least goes. In the background only where no merge comes by, with nothing older below.
fn replaced(
    version: &Version,
    scene: &Scene<'_>,
    job: &dyn Fn(Reclaim) -> Option<Job>,
) -> Option<Job> {
    let oldest = scene.boundaries.oldest().min(scene.until);
    let count = |file: &LiveFile| file.meta.replaced.lapsed_by(oldest);
    let worth_it = |(level, file): &(usize, &Arc<LiveFile>)| {
        *level > 0
            && count(file) * 1000 > file.meta.rows * scene.effort.deletes_per_mille()
            && (scene.effort != Effort::Background || !has_older_below(version, *level, file))
    };
    let files = version.files().filter(worth_it);
    let files = files.map(|(level, file)| (count(file) * 1000 / file.meta.rows, level, file));
    largest(files, |level, file| job(Reclaim::Rewrite(alone(version, level, file))))
}

/// Down where a level below may hold what the file's deletes or expired rows hide, and out of L0.
fn down_or_anew(version: &Version, level: usize, file: &Arc<LiveFile>) -> Reclaim {
    match level == 0 || has_older_below(version, level, file) {
        true => Reclaim::Down(level, Arc::clone(file)),
        false => Reclaim::Rewrite(alone(version, level, file)),
    }
}

/// The file with the largest share of expired rows that are worth it. One of them at least goes, or
/// becomes a delete.
fn expired(
    version: &Version,
    scene: &Scene<'_>,
    job: &dyn Fn(Reclaim) -> Option<Job>,
) -> Option<Job> {
    let now = scene.boundaries.floor().min(scene.until);
    let worth_it = |file: &LiveFile| {
        let meta = &file.meta;
        let count = meta.expiring.lapsed_by(now);
        count * 1000 > meta.rows * scene.effort.deletes_per_mille()
            && !scene.boundaries.may_see_before(meta.min_ts, meta.expiring.from)
    };
    let share = |file: &LiveFile| file.meta.expiring.lapsed_by(now) * 1000 / file.meta.rows;
    let files = version.files().filter(|(_, file)| worth_it(file));
    let files = files.map(|(level, file)| (share(file), level, file));
    largest(files, |level, file| job(down_or_anew(version, level, file)))
}

/// The file with the largest share of rows that have outlived their table's time to live.
fn outlived(
    version: &Version,
    scene: &Scene<'_>,
    job: &dyn Fn(Reclaim) -> Option<Job>,
) -> Option<Job> {
    // One that changes with every tick is never reached.
    let worth_it = scene.effort.deletes_per_mille().max(Effort::Settle.deletes_per_mille());
    let files = version.files().map(|(level, file)| (outlived_per_mille(scene, file), level, file));
    let files = files.filter(|(share, ..)| *share > worth_it);
    largest(files, |level, file| job(out_of_l0_or_anew(version, level, file)))
}

fn out_of_l0_or_anew(version: &Version, level: usize, file: &Arc<LiveFile>) -> Reclaim {
    match level {
        0 => Reclaim::Down(0, Arc::clone(file)),
        _ => Reclaim::Rewrite(alone(version, level, file)),
    }
}

/// About how many rows of a thousand of a file have outlived their table's time to live since it
/// was written, if its commits lie evenly between the first and the last. None once it was written
/// anew with what holds now.
fn outlived_per_mille(scene: &Scene<'_>, file: &LiveFile) -> u64 {
    let Some((first, last)) = tables(file) else { return 0 };
    let meta = &file.meta;
    let from = meta.min_ts.max(meta.aged_to);
    // One that was written since then has what has outlived itself meanwhile.
    let meanwhile = scene.boundaries.floor().0.saturating_sub(scene.until.0);
    let share = |(table, to): &(TableId, CommitTs)| {
        if to.0.saturating_sub(meanwhile) <= meta.aged_to.0 || *to < meta.min_ts {
            return 0;
        }
        let (passed, span) = (to.0 - from.0 + 1, meta.max_ts.0.saturating_sub(from.0) + 1);
        let in_time = u128::from(passed.min(span)) * 1000 / u128::from(span);
        let bytes = match first == last {
            true => meta.bytes,
            // A file that cannot be opened tells at its next use.
            false => file.table().map_or(0, |file| {
                let range = KeyRange::table(*table);
                file.bytes_between(&range.start, &range.end)
            }),
        };
        (in_time * u128::from(bytes) / u128::from(meta.bytes)) as u64
    };
    scene.readable.aging(first, last).map(share).sum()
}

/// Whether more of a file's versions are deletes than it should keep.
pub(crate) fn is_dense(file: &LiveFile, effort: Effort) -> bool {
    file.meta.deletes * 1000 > file.meta.rows * effort.deletes_per_mille()
}

/// Whether a level below that of `file` may hold older versions of its keys.
pub(crate) fn has_older_below(version: &Version, level: usize, file: &LiveFile) -> bool {
    let (smallest, largest) = (&file.meta.smallest, &file.meta.largest);
    (level + 1..LEVELS).any(|below| !version.overlapping(below, smallest, largest).is_empty())
}

/// A file with rows under an erasure, by the oldest erasure first.
fn erased(
    version: &Version,
    scene: &Scene<'_>,
    job: &dyn Fn(Reclaim) -> Option<Job>,
) -> Option<Job> {
    let mut erasures: Vec<_> = version.erasures.iter().collect();
    erasures.retain(|erasure| erasure.ts <= scene.until);
    erasures.sort_by_key(|erasure| erasure.ts);
    let too_many = erasures.len() > ERASURES_MAX;
    erasures.into_iter().find_map(|erasure| {
        let must = too_many || scene.effort != Effort::Background || erasure.ts <= scene.due;
        let mut files = overlapped(version, erasure).filter(|(_, file)| {
            may_hide_in(erasure, file)
                && !scene.boundaries.may_read_between(file.meta.min_ts, erasure.ts)
                && (must || holds_much_of(erasure, file))
        });
        files.find_map(|(level, file)| job(out_of_l0_or_anew(version, level, file)))
    })
}

/// Whether a tenth of the file's rows lie in the erasure's range. A file that cannot be opened
/// tells at its next use.
fn holds_much_of(erasure: &Erasure, file: &LiveFile) -> bool {
    let share = file.table().map(|table| table.bytes_between(&erasure.start, &erasure.end));
    share.is_ok_and(|bytes| bytes * 10 >= file.meta.bytes)
}

/// The merge of nothing with one file, back into its level, which is not L0: there, other files may
/// hold older versions.
fn alone(version: &Version, level: usize, file: &Arc<LiveFile>) -> Merge {
    let (smallest, largest) = (&file.meta.smallest, &file.meta.largest);
    let grandparents = match level + 1 < LEVELS {
        true => version.overlapping(level + 1, smallest, largest),
        false => Vec::new(),
    };
    let lower = vec![Arc::clone(file)];
    Merge { level: level.saturating_sub(1), upper: Vec::new(), lower, grandparents }
}

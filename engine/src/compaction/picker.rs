//! Which compaction to do next. Pure: a Version and the settings in, a job out.
//!
//! What gives back space for nothing goes first. Then the level that is fullest in relation to its
//! target gives one file (L0: the oldest file and all that overlap it, as newer versions must not
//! sink below older ones). Then what gives back space for a rewrite.
//!
//! A merge that could not read a file would fail again: what goes on by itself goes round the file
//! from there on ([`Schedule::avoid`]), so that the rest of the tree keeps its shape. One that
//! found no room would fill the disk again: it is left out, as are those that write as much, so
//! that smaller ones make room ([`Schedule::avoid_large`]). Whoever waits for an aim is told
//! instead.

use crate::compaction::job::{GRANDPARENT_FILES_MAX, Job, Merge};
use crate::compaction::space::{self, Effort, Reclaim, Scene};
use crate::error::Error;
use crate::ids::CommitTs;
use crate::key::range::KeyRange;
use crate::limits::LEVELS;
use crate::options::Options;
use crate::version::blobs::LiveBlob;
use crate::version::files::{LiveFile, Version};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// At rest, what lies above the deepest level may be this share of it: it is the most that outdated
/// versions can take.
const ABOVE_PER_DEEPEST: (u64, u64) = (1, 10);

/// What a step towards one run of all files reads, about, in files of full size: commits may wait
/// for other merges, which have their turn in between, and the disk needs no room for more.
const STEP_FILES: u64 = 32;

/// Where each level's next compaction begins, so that all parts of a level take turns; and which
/// files have no turn for now.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Whether the deepest level stays the deepest, as somebody makes it the only one.
    pub(crate) keep_deepest: bool,
    next: [Vec<u8>; LEVELS],
    avoided: Avoided<LiveFile>,
    avoided_blobs: Avoided<LiveBlob>,
    too_large: Option<TooLarge>,
}

/// From how many bytes on merges find no room, and until when.
#[derive(Debug)]
struct TooLarge {
    bytes: u64,
    /// What the disk has to have before; `None` where it said that it had it.
    room: Option<u64>,
    until: Duration,
}

/// Files by when each gets a turn again. What is dropped meanwhile goes all the same.
#[derive(Debug)]
struct Avoided<T>(Vec<(Weak<T>, Duration)>);

impl Schedule {
    /// Notes that files up to `largest` of `level` had their turn.
    pub(crate) fn done(&mut self, level: usize, largest: &[u8]) {
        self.next[level] = largest.to_vec();
    }

    /// Has the work that goes on by itself go round a file that a merge could not read, until the
    /// time `until` of a steady clock.
    pub(crate) fn avoid(&mut self, file: &Arc<LiveFile>, why: &Error, until: Duration) {
        file.set_unreadable(Some(why));
        self.avoided.add(file, until);
    }

    /// The same for a blob file: its values stay where they are, so that nothing has to read them.
    pub(crate) fn avoid_blob(&mut self, blob: &Arc<LiveBlob>, why: &Error, until: Duration) {
        blob.set_unreadable(Some(why));
        self.avoided_blobs.add(blob, until);
    }

    /// Has the work that goes on by itself leave out merges of as many `bytes` as one that found no
    /// room, until the disk has it, or the time `until` of a steady clock has come. `available`:
    /// what the disk says that it has without what that one wrote.
    pub(crate) fn avoid_large(&mut self, bytes: u64, available: u64, until: Duration) {
        let bytes = self.too_large.as_ref().map_or(bytes, |known| known.bytes.min(bytes));
        let room = (available < bytes).then_some(bytes);
        self.too_large = Some(TooLarge { bytes, room, until });
    }

    /// Whether merges are left out for want of room.
    pub(crate) fn lacks_room(&self) -> bool {
        self.too_large.is_some()
    }

    /// Whether a merge of so many bytes has a turn.
    fn has_room_for(&self, bytes: u64) -> bool {
        self.too_large.as_ref().is_none_or(|known| bytes < known.bytes)
    }

    /// Gives those files a turn again that are avoided until `now`, and large merges where the disk
    /// has what they lacked.
    pub(crate) fn readmit(&mut self, now: Duration, available: impl FnOnce() -> u64) {
        let fits = |room: u64| room <= available();
        self.too_large.take_if(|known| known.until <= now || known.room.is_some_and(fits));
        self.avoided.take_until(now).for_each(|file| file.set_unreadable(None));
        self.avoided_blobs.take_until(now).for_each(|blob| blob.set_unreadable(None));
    }
}

impl<T> Default for Avoided<T> {
    fn default() -> Avoided<T> {
        Avoided(Vec::new())
    }
}

impl<T> Avoided<T> {
    /// Adds a file, or puts off the turn of one that is there; never to an earlier time.
    fn add(&mut self, file: &Arc<T>, until: Duration) {
        self.0.retain(|(known, _)| known.strong_count() > 0);
        match self.0.iter_mut().find(|(known, _)| known.as_ptr() == Arc::as_ptr(file)) {
            Some((_, known)) => *known = until.max(*known),
            None => self.0.push((Arc::downgrade(file), until)),
        }
    }

    /// Takes out those that get a turn again by `now`.
    fn take_until(&mut self, now: Duration) -> impl Iterator<Item = Arc<T>> {
        self.0
            .extract_if(.., move |(_, until)| *until <= now)
            .filter_map(|(file, _)| file.upgrade())
    }
}

/// What compaction is to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim<'a> {
    /// No level above its size: what commits wait for.
    Balance,
    /// That, and little above the deepest level, so that little space is taken by what is outdated:
    /// what is worth doing when nothing else happens.
    Rest,
    /// That, and the space back of all that was deleted or had expired up to there.
    Settled(CommitTs),
    /// One sorted run of what was committed up to there, and of what comes into it on the way: who
    /// never stops writing keeps nobody waiting.
    OneRun(CommitTs),
    /// Of a range, nothing in this level where a deeper one has any of it.
    Range(&'a KeyRange, usize),
}

impl Aim<'_> {
    /// Whether somebody waits until it is reached.
    pub(crate) fn is_awaited(self) -> bool {
        match self {
            Aim::Balance | Aim::Rest => false,
            Aim::Settled(_) | Aim::OneRun(_) | Aim::Range(..) => true,
        }
    }

    /// Whoever waits is not kept by what expires or leaves a history window of so many ticks
    /// meanwhile.
    pub(crate) fn until(self, history: u64) -> CommitTs {
        match self {
            Aim::Settled(began) | Aim::OneRun(began) => CommitTs(began.0.saturating_sub(history)),
            _ => CommitTs::MAX,
        }
    }

    /// How eagerly space is reclaimed on the way.
    pub(crate) fn effort(self) -> Effort {
        match self {
            Aim::Balance | Aim::Rest | Aim::Range(..) => Effort::Background,
            Aim::Settled(_) => Effort::Settle,
            Aim::OneRun(_) => Effort::Full,
        }
    }
}

/// Whether a job may be done on the way to `aim`: one that will fail only where somebody waits to
/// be told.
pub(crate) fn may(
    aim: Aim<'_>,
    version: &Version,
    options: &Options,
    schedule: &Schedule,
) -> impl Fn(&Job) -> bool {
    let worn = match schedule.lacks_room() {
        true => version.blobs.worn(options.advanced.blob_dead_percent),
        false => Vec::new(),
    };
    let deepest = if schedule.keep_deepest { deepest(version).unwrap_or(0).max(1) } else { LEVELS };
    move |job| {
        let fits = || match job {
            Job::Merge(merge) => merge.level < deepest && schedule.has_room_for(merge.bytes(&worn)),
            Job::Move { from, .. } => *from < deepest,
            Job::Drop { .. } | Job::Retire { .. } => true,
        };
        aim.is_awaited() || (job.is_readable() && fits())
    }
}

/// The next job towards `aim`, if any is needed. `may`: what [`may`] says for it.
pub(crate) fn pick(
    aim: Aim<'_>,
    version: &Version,
    options: &Options,
    scene: &Scene<'_>,
    schedule: &Schedule,
    may: &dyn Fn(&Job) -> bool,
) -> Option<Job> {
    let shape = || match aim {
        Aim::Balance => fullest(version, options, schedule, may),
        Aim::Rest | Aim::Settled(_) => fullest(version, options, schedule, may)
            .or_else(|| sink(version, options, schedule, may)),
        Aim::OneRun(up_to) => one_run(version, up_to, options),
        Aim::Range(range, level) => sink_range(version, range, level, options),
    };
    let came_since = |file: &LiveFile| match aim {
        Aim::OneRun(up_to) => file.meta.min_ts > up_to,
        _ => false,
    };
    let job = |reclaim| match reclaim {
        Reclaim::Rewrite(merge) => Some(Job::Merge(merge)).filter(may),
        Reclaim::Down(_, file) if came_since(&file) => None,
        Reclaim::Down(0, _) => from_level(version, 0, options, schedule, may),
        Reclaim::Down(level, file) => {
            Some(merge_or_move(version, level, vec![file], options)).filter(may)
        }
    };
    let reclaim = || match aim {
        Aim::Range(..) => None,
        _ => space::reclaim(version, scene, &job),
    };
    let free = || match aim {
        Aim::Range(..) => None,
        _ => space::free(version, scene),
    };
    free().or_else(shape).or_else(reclaim)
}

/// A job that brings what was committed up to there one step closer to a single run, whatever its
/// sizes.
fn one_run(version: &Version, up_to: CommitTs, options: &Options) -> Option<Job> {
    let deepest = deepest(version)?;
    // Level 0 is a run of its own where there is nothing below.
    (0..deepest.max(1)).find_map(|level| {
        let files = &version.levels[level];
        let first = files.iter().position(|file| file.meta.min_ts <= up_to)?;
        let upper = match level {
            0 => oldest_runs(files.clone()),
            _ => one_step(version, level, first, options),
        };
        Some(Job::Merge(merge(version, level, upper)))
    })
}

/// Neighbours of a sorted level from the `first` on, as many as one step takes: to where no file
/// below would be read by two steps, if that is not far.
fn one_step(
    version: &Version,
    level: usize,
    first: usize,
    options: &Options,
) -> Vec<Arc<LiveFile>> {
    let step_bytes = STEP_FILES * options.advanced.file_bytes as u64;
    let (mut step, mut below_to): (Vec<Arc<LiveFile>>, Vec<u8>) = Default::default();
    let mut bytes = 0;
    for file in &version.levels[level][first..] {
        let from = step.last().map_or(&file.meta.smallest, |last| &last.meta.largest);
        let below = version.overlapping(level + 1, from, &file.meta.largest);
        let come_in = below.iter().filter(|below| below.meta.smallest > below_to);
        let more = file.meta.bytes + come_in.map(|below| below.meta.bytes).sum::<u64>();
        let is_apart = below_to < file.meta.smallest;
        let is_full = bytes + more > 2 * step_bytes || (bytes >= step_bytes && is_apart);
        if is_full && !step.is_empty() {
            break;
        }
        bytes += more;
        below_to = below.last().map_or(below_to, |below| below.meta.largest.clone());
        step.push(Arc::clone(file));
    }
    step
}

/// Takes the shallowest level down one where the levels above the deepest hold much of its size.
fn sink(
    version: &Version,
    options: &Options,
    schedule: &Schedule,
    may: &dyn Fn(&Job) -> bool,
) -> Option<Job> {
    let deepest = deepest(version)?;
    let above: u64 = (0..deepest).map(|level| version.bytes(level)).sum();
    let (part, whole) = ABOVE_PER_DEEPEST;
    let much = above * whole > version.bytes(deepest) * part;
    let mut above = (0..deepest).filter(|level| much && !version.levels[*level].is_empty());
    above.find_map(|level| from_level(version, level, options, schedule, may))
}

fn sink_range(version: &Version, range: &KeyRange, level: usize, options: &Options) -> Option<Job> {
    // The end is excluded, so this may be a file too many; that does no harm.
    let holding = |level| version.overlapping(level, &range.start, &range.end);
    let mut upper = holding(level);
    if upper.is_empty() || (level > 0 && (level + 1..LEVELS).all(|l| holding(l).is_empty())) {
        return None;
    }
    if level == 0 {
        upper = all_overlapping(&version.levels[0], upper);
    }
    Some(merge_or_move(version, level, upper, options))
}

fn deepest(version: &Version) -> Option<usize> {
    (0..LEVELS).rev().find(|level| !version.levels[*level].is_empty())
}

/// A job of the level that is fullest in relation to its target, as far as one is over it.
fn fullest(
    version: &Version,
    options: &Options,
    schedule: &Schedule,
    may: &dyn Fn(&Job) -> bool,
) -> Option<Job> {
    // Parts per thousand of the target; whole numbers compare exactly.
    let fullness = |level: usize| match level {
        0 => version.levels[0].len() as u64 * 1000 / options.advanced.l0_compact_files as u64,
        _ => version.bytes(level).saturating_mul(1000) / level_bytes(level, options),
    };
    let is_over = |(full, level): &(u64, usize)| *full > 1000 || (*full == 1000 && *level == 0);
    let levels = (0..LEVELS - 1).map(|level| (fullness(level), level));
    let mut over: Vec<_> = levels.filter(is_over).collect();
    over.sort_by_key(|(full, level)| (std::cmp::Reverse(*full), *level));
    over.into_iter().find_map(|(_, level)| from_level(version, level, options, schedule, may))
}

/// Bytes that a level below L0 should hold: see [`Advanced::level_base_bytes`].
///
/// [`Advanced::level_base_bytes`]: crate::options::Advanced::level_base_bytes
fn level_bytes(level: usize, options: &Options) -> u64 {
    let advanced = &options.advanced;
    let merged_at_once = advanced.l0_compact_files as u64 * advanced.memtable() as u64;
    let base = advanced.level_base_bytes.min(merged_at_once.max(advanced.file_bytes as u64));
    base.saturating_mul(advanced.level_fanout.saturating_pow(level.saturating_sub(1) as u32))
}

/// Bytes that have to go down a level before every level is within its target; each of them costs
/// about the fanout in bytes written.
pub(crate) fn debt_bytes(version: &Version, options: &Options) -> u64 {
    let l0_is_due = version.levels[0].len() >= options.advanced.l0_compact_files;
    let of_l0 = if l0_is_due { version.bytes(0) } else { 0 };
    let over = |level| version.bytes(level).saturating_sub(level_bytes(level, options));
    of_l0 + (1..LEVELS - 1).map(over).sum::<u64>()
}

/// Files of L0 that one merge reads at once, each a run with a handle and buffers of its own: more
/// than there are unless commits are slowed, or files of an ingest lie beside each other.
const L0_RUNS_MAX: usize = 48;

/// The merge that brings the oldest file of L0 down that may go, with all of L0 that overlaps it.
pub(crate) fn from_l0(
    version: &Version,
    options: &Options,
    may: &dyn Fn(&Job) -> bool,
) -> Option<Job> {
    let files = &version.levels[0];
    let oldest_first = files.iter().rev();
    let mut jobs = oldest_first.map(|file| {
        let upper = oldest_runs(all_overlapping(files, vec![Arc::clone(file)]));
        merge_or_move(version, 0, upper, options)
    });
    jobs.find(may)
}

/// A job that takes of a level what it may, if it may any: of L0 what [`from_l0`] does, of others
/// the next file in turn.
fn from_level(
    version: &Version,
    level: usize,
    options: &Options,
    schedule: &Schedule,
    may: &dyn Fn(&Job) -> bool,
) -> Option<Job> {
    if level == 0 {
        return from_l0(version, options, may);
    }
    let files = &version.levels[level];
    let next = files.partition_point(|f| f.meta.smallest <= schedule.next[level]);
    let in_turn = files[next..].iter().chain(&files[..next]);
    let mut jobs =
        in_turn.map(|file| merge_or_move(version, level, vec![Arc::clone(file)], options));
    jobs.find(may)
}

fn merge_or_move(
    version: &Version,
    level: usize,
    upper: Vec<Arc<LiveFile>>,
    options: &Options,
) -> Job {
    let merge = merge(version, level, upper);
    let grandparent_bytes: u64 = merge.grandparents.iter().map(|file| file.meta.bytes).sum();
    let codecs = options.advanced.table_codecs();
    let may_move = grandparent_bytes <= GRANDPARENT_FILES_MAX * options.advanced.file_bytes as u64
        // Moved there, it would stay as the levels above are compressed.
        && (codecs.upper == codecs.bottom || !version.ends_at(level + 1));
    match merge.upper.as_slice() {
        [file] if merge.lower.is_empty() && may_move && !sheds_deletes(version, level, file) => {
            Job::Move { file: Arc::clone(file), from: level }
        }
        _ => Job::Merge(merge),
    }
}

/// The merge of files of `level` with what they overlap in the next one.
fn merge(version: &Version, level: usize, upper: Vec<Arc<LiveFile>>) -> Merge {
    let (smallest, largest) = span(&upper);
    let lower = version.overlapping(level + 1, &smallest, &largest);
    let (smallest, largest) = span(upper.iter().chain(&lower));
    let grandparents = match level + 2 < LEVELS {
        true => version.overlapping(level + 2, &smallest, &largest),
        false => Vec::new(),
    };
    Merge { level, upper, lower, grandparents }
}

/// Whether neighbours of a level lie, as one file, over so little of the level below it that a
/// merge takes few files along.
pub(crate) fn are_over_little(
    version: &Version,
    level: usize,
    files: &[Arc<LiveFile>],
    options: &Options,
) -> bool {
    let (smallest, largest) = span(files);
    let below = match level + 1 < LEVELS {
        true => version.overlapping(level + 1, &smallest, &largest),
        false => Vec::new(),
    };
    let bytes: u64 = below.iter().map(|file| file.meta.bytes).sum();
    bytes <= GRANDPARENT_FILES_MAX * options.advanced.file_bytes as u64
}

/// Whether a merge of the file with nothing would drop deletes that a move would take along.
fn sheds_deletes(version: &Version, level: usize, file: &LiveFile) -> bool {
    space::is_dense(file, Effort::Background) && !space::has_older_below(version, level, file)
}

/// `taken`, and of `files` every other one that overlaps what is taken so far.
fn all_overlapping(files: &[Arc<LiveFile>], mut taken: Vec<Arc<LiveFile>>) -> Vec<Arc<LiveFile>> {
    loop {
        let (smallest, largest) = span(&taken);
        let overlapping: Vec<_> = files
            .iter()
            .filter(|f| f.meta.smallest <= largest && smallest <= f.meta.largest)
            .cloned()
            .collect();
        if overlapping.len() == taken.len() {
            return overlapping;
        }
        taken = overlapping;
    }
}

/// Of files of L0, of which all that overlap one another are there: the oldest, as many as a merge
/// reads at once. What is newer may stay above them.
fn oldest_runs(mut files: Vec<Arc<LiveFile>>) -> Vec<Arc<LiveFile>> {
    files.drain(..files.len().saturating_sub(L0_RUNS_MAX));
    files
}

/// The smallest and the largest key of some files.
pub(crate) fn span<'a>(files: impl IntoIterator<Item = &'a Arc<LiveFile>>) -> (Vec<u8>, Vec<u8>) {
    let mut span: Option<(&[u8], &[u8])> = None;
    for file in files {
        let (smallest, largest) = (file.meta.smallest.as_slice(), file.meta.largest.as_slice());
        span = Some(match span {
            None => (smallest, largest),
            Some((a, b)) => (a.min(smallest), b.max(largest)),
        });
    }
    span.map(|(a, b)| (a.to_vec(), b.to_vec())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Advanced;

    fn level_mib(level: usize, memtable_mib: usize) -> u64 {
        let memtable_bytes = Some(memtable_mib << 20);
        let advanced = Advanced { memtable_bytes, ..Advanced::default() };
        level_bytes(level, &Options { advanced, ..Options::default() }) >> 20
    }

    #[test]
    fn a_level_is_in_proportion_to_what_is_merged_into_it() {
        assert_eq!([1, 2, 3].map(|level| level_mib(level, 64)), [256, 2560, 25600]);
        assert_eq!([1, 2, 3].map(|level| level_mib(level, 12)), [48, 480, 4800]);
        assert_eq!(level_mib(1, 512), 256, "never above what the option says");
        assert_eq!(level_mib(1, 1), 32, "never below one file");
    }

    #[test]
    fn merges_that_found_no_room_wait_for_it_or_for_a_while() {
        let second = Duration::from_secs;
        let mut schedule = Schedule::default();
        schedule.avoid_large(100, 40, second(60));
        schedule.avoid_large(200, 40, second(60)); // Somebody waited for it.
        assert!(schedule.has_room_for(99) && !schedule.has_room_for(100));
        schedule.readmit(second(59), || 99);
        assert!(schedule.lacks_room());
        schedule.readmit(second(59), || 100);
        assert!(!schedule.lacks_room() && schedule.has_room_for(100));
        // The disk said that there was enough, and will again.
        schedule.avoid_large(100, 100, second(60));
        schedule.readmit(second(59), || u64::MAX);
        assert!(!schedule.has_room_for(100));
        schedule.readmit(second(60), || 0);
        assert!(schedule.has_room_for(100));
    }
}

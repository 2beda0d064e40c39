//! How a database divides its memory: one budget in, the share of each use out. Pure.
//!
//! Memtables, the log's buffers and the buffers of background work are set aside whole, so that a
//! writer never waits for a cache; so is a little for what nobody counts. Index and filters of open
//! files take what they need of the rest, up to three quarters; the caches have what is left, so
//! they are what gives way.
//!
//! Absent: what is beyond the budget by nature. One commit may be larger than a memtable, and a
//! reader that keeps a cursor keeps the memtables that it began with.

use crate::options::{Advanced, Options};

/// The budget where nothing says how much: a quarter of what the process may use, or so many bytes
/// where that is less.
const USABLE_SHARE: usize = 4;
const BUDGET_BYTES_MIN: usize = 128 << 20;
/// So many bytes leave two thirds of what the process may use to everything else in it.
const USABLE_SHARE_MAX: usize = 3;
/// What such a budget leaves beside the shares of writers, whatever these are set to: without room
/// for index and filters, a get takes a hundred times as long.
const LEFT_BYTES_MIN: usize = 32 << 20;

/// Of the budget for memtables: a quarter. Larger ones merge less; the reads of a cache gain more.
const MEMTABLES_SHARE: usize = 4;
/// Beyond this a memtable leaves the processor's caches and gains little.
const MEMTABLE_BYTES_MAX: usize = 64 << 20;
const MEMTABLE_BYTES_MIN: usize = 256 << 10;

/// A group of commits that holds this much takes no further one before it is written.
const GROUP_BYTES_MAX: usize = 8 << 20;
const GROUP_SHARE: usize = 64;
/// Groups in memory: one gathers, one is written, and their buffers grow by halves.
const GROUPS: usize = 3;

/// Of the budget for flush and merge: an eighth, within what makes reads and writes large.
const WORK_SHARE: usize = 8;
const WORK_BYTES_MIN: usize = 6 << 20;
const WORK_BYTES_MAX: usize = 96 << 20;

/// Of the budget for what long walks will come to: a sixteenth, one walk's at least. It is not set
/// aside: beside flushes and merges that have all of theirs, caches give way.
const WALKS_SHARE: usize = 16;

/// A merge reads at most this much of a file at once.
const AHEAD_BYTES_MAX: usize = 1 << 20;
const AHEAD_BYTES_MIN: usize = 64 << 10;

/// What the writer of a table file gathers before it writes.
const BUILDER_BYTES: usize = 1 << 20;
/// It also keeps 8 bytes per row of some 128 until the file ends.
const BUILDER_SHARE: usize = 16;

/// Set aside for what no share counts: what the allocator keeps of buffers that are gone and
/// between the rows of a cache, stacks, the program's own pages. With the C library's allocator it
/// is a tenth of 64 MiB and little more of 512.
const UNCOUNTED_SHARE: usize = 16;
const UNCOUNTED_BYTES_MAX: usize = 8 << 20;

/// The part of the caches' bytes, in percent, that rows read singly may take; blocks have the rest.
/// A row held as such is found three times as fast as in its block, but serves no scan.
const ROWS_PERCENT: usize = 50;
/// The same of a mapped database, whose blocks are read in place and mostly need no cache.
const ROWS_PERCENT_MAPPED: usize = 75;

/// The part of what writers leave, in percent, that index and filters of open files may take: a
/// block that is not in memory costs a read of 4 KiB, an index one of a hundred times that.
const OPEN_PERCENT: usize = 75;
/// The part of that, in percent, for files that are opened for a while.
const PASSING_PERCENT: usize = 33;
/// At most so many of those at a time, and no more than may stay open.
const PASSING_FILES_MAX: usize = 64;

/// The shares of one budget, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) bytes: usize,
    /// Active and sealed memtables together, with room for one that is passed over.
    pub(crate) memtables: usize,
    pub(crate) memtable: usize,
    pub(crate) log: usize,
    pub(crate) group: usize,
    /// Buffers of flush and merge.
    pub(crate) work: usize,
    /// What no share counts.
    pub(crate) uncounted: usize,
    /// Index and filters of open files.
    pub(crate) open: usize,
    /// No bytes: table files that stay open.
    pub(crate) open_files: usize,
    /// What the caches may have at most.
    caches: usize,
    file: usize,
    mapped: bool,
}

/// What each cache may hold now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheShares {
    /// Blocks and rows together.
    pub(crate) both: usize,
    /// Of these, rows.
    pub(crate) rows: usize,
}

impl Budget {
    /// The shares of a database in a process that may use `usable` bytes (0: nobody says). Settings
    /// that name a share are followed; without [`Options::memory`] the budget grows to hold them.
    pub(crate) fn of(options: &Options, usable: usize) -> Budget {
        let Advanced { memtable_bytes, block_cache_bytes, .. } = options.advanced;
        let memtables = options.advanced.sealed_memtables_max + 2;
        let wanted = options.memory.unwrap_or_else(|| unasked(usable));
        let memtable = memtable_bytes.unwrap_or_else(|| {
            let share = wanted / MEMTABLES_SHARE / memtables;
            share.clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX)
        });
        let group = (wanted / GROUP_SHARE).min(GROUP_BYTES_MAX);
        let mut budget = Budget {
            bytes: wanted,
            memtables: memtables * memtable,
            memtable,
            log: GROUPS * group,
            group,
            work: (wanted / WORK_SHARE).clamp(WORK_BYTES_MIN, WORK_BYTES_MAX),
            uncounted: (wanted / UNCOUNTED_SHARE).min(UNCOUNTED_BYTES_MAX),
            open: 0,
            open_files: options.advanced.open_files_max.unwrap_or(usize::MAX),
            caches: block_cache_bytes.unwrap_or(usize::MAX),
            file: options.advanced.file_bytes,
            mapped: options.advanced.mapped,
        };
        if options.memory.is_none() {
            let left = block_cache_bytes.unwrap_or(0).max(LEFT_BYTES_MIN);
            let asked = budget.set_aside().saturating_add(left);
            budget.bytes = wanted.max(asked);
        }
        let open = || budget.left(0, 0) / 100 * OPEN_PERCENT;
        budget.open = options.advanced.index_and_filter_bytes.unwrap_or_else(open);
        budget
    }

    /// No memory for caches and any for index and filters, for whoever reads everything once.
    pub(crate) fn without_caches() -> Budget {
        Budget { open: usize::MAX, open_files: usize::MAX, ..Budget::default() }
    }

    /// Of the index and filters of open files, those of files that stay open.
    pub(crate) fn staying(&self) -> usize {
        self.open - self.passing()
    }

    /// Of the index and filters of open files, those of files that are opened for a while.
    pub(crate) fn passing(&self) -> usize {
        self.open / 100 * PASSING_PERCENT
    }

    /// What a file of `bytes` of index and filters counts among those that are opened for a while.
    pub(crate) fn passing_weight(&self, bytes: usize) -> usize {
        bytes.max(self.passing() / self.open_files.clamp(1, PASSING_FILES_MAX))
    }

    /// What long walks together may hold of what they will come to.
    pub(crate) fn walks(&self) -> usize {
        self.bytes / WALKS_SHARE
    }

    /// How many blob files stay open: half as many as table files, which are asked far more often.
    pub(crate) fn staying_blobs(&self) -> usize {
        (self.open_files / 2).max(1)
    }

    /// How many blob files are open for a while.
    pub(crate) fn passing_blobs(&self) -> usize {
        (self.staying_blobs() / 4).clamp(1, PASSING_FILES_MAX)
    }

    fn set_aside(&self) -> usize {
        self.memtables + self.log + self.work + self.uncounted
    }

    /// What is left for caches beside `pinned` bytes of index and filters and `working` bytes of
    /// background work.
    pub(crate) fn left(&self, pinned: usize, working: usize) -> usize {
        let beyond = working.saturating_sub(self.work);
        self.bytes.saturating_sub(self.set_aside() + beyond).saturating_sub(pinned)
    }

    /// The caches' shares at that.
    pub(crate) fn caches(&self, pinned: usize, working: usize) -> CacheShares {
        let both = self.left(pinned, working).min(self.caches);
        let percent = if self.mapped { ROWS_PERCENT_MAPPED } else { ROWS_PERCENT };
        CacheShares { both, rows: both / 100 * percent }
    }

    /// What writing a table file of `raw` bytes holds.
    pub(crate) fn builder(&self, raw: usize) -> usize {
        BUILDER_BYTES + raw / BUILDER_SHARE
    }

    /// How much each of `parts` of a merge of so many `runs` reads of each at once; they share
    /// their part of the memory with a flush.
    pub(crate) fn ahead(&self, runs: usize, parts: usize) -> usize {
        let builders = parts * self.builder(self.file) + self.builder(self.memtable);
        let each = self.work.saturating_sub(builders) / (runs * parts).max(1);
        each.clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX)
    }

    /// What a merge of so many `runs` holds that is done in `parts`.
    pub(crate) fn merge(&self, runs: usize, parts: usize) -> usize {
        parts * (runs * self.ahead(runs, parts) + self.builder(self.file))
    }

    /// In how many parts, up to `wanted`, a merge may be done within its share of the memory.
    pub(crate) fn merge_parts(&self, runs: usize, wanted: usize) -> usize {
        let fits =
            |parts: &usize| self.merge(runs, *parts) + self.builder(self.memtable) <= self.work;
        (1..=wanted).rev().find(fits).unwrap_or(1)
    }
}

/// The budget of a process that may use `usable` bytes (0: nobody says).
fn unasked(usable: usize) -> usize {
    let least = match usable {
        0 => BUDGET_BYTES_MIN,
        usable => BUDGET_BYTES_MIN.min(usable / USABLE_SHARE_MAX),
    };
    least.max(usable / USABLE_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(memory: usize) -> Options {
        Options { memory: Some(memory), ..Options::default() }
    }

    fn sum(budget: &Budget, pinned: usize, working: usize) -> usize {
        let CacheShares { both, rows } = budget.caches(pinned, working);
        assert!(rows <= both);
        let working = working.max(budget.work);
        budget.memtables + budget.log + working + budget.uncounted + pinned + both
    }

    #[test]
    fn the_shares_add_up_to_the_budget() {
        for memory in [32 << 20, 128 << 20, 1 << 30, 20 << 30] {
            let budget = Budget::of(&options(memory), 0);
            assert_eq!(sum(&budget, 0, 0), memory, "{budget:?}");
            assert_eq!(sum(&budget, 1 << 20, 0), memory, "index and filters push out caches");
            assert_eq!(sum(&budget, 0, budget.work + (1 << 20)), memory);
            assert!(budget.caches(0, 0).both > memory / 8, "{budget:?}");
            for wanted in 1..9 {
                let parts = budget.merge_parts(12, wanted);
                assert!((1..=wanted).contains(&parts));
                let working = budget.merge(12, parts) + budget.builder(budget.memtable);
                assert!(working <= budget.work, "{parts} parts, {budget:?}");
            }
        }
    }

    #[test]
    fn merges_are_divided_where_there_is_memory() {
        assert_eq!(Budget::of(&options(32 << 20), 0).merge_parts(12, 8), 1);
        assert_eq!(Budget::of(&options(4 << 30), 0).merge_parts(12, 8), 8);
    }

    #[test]
    fn caches_end_where_nothing_is_left_for_them() {
        let budget = Budget::of(&options(32 << 20), 0);
        let none = CacheShares { both: 0, rows: 0 };
        assert_eq!(budget.caches(1 << 30, 0), none);
        assert_eq!(Budget::without_caches().caches(0, 0), none);
    }

    #[test]
    fn without_a_word_it_is_a_quarter_of_what_there_is() {
        let defaults = Options::default();
        assert_eq!(Budget::of(&defaults, 16 << 30).bytes, 4 << 30);
        assert_eq!(Budget::of(&defaults, 0).bytes, BUDGET_BYTES_MIN);
        assert_eq!(Budget::of(&defaults, 16 << 30).memtable, MEMTABLE_BYTES_MAX);
    }

    /// Of 256 MiB half went to the database, and its server had 194 to 229 in use.
    #[test]
    fn with_little_memory_most_of_it_is_left_to_others() {
        let bytes = |usable| Budget::of(&Options::default(), usable).bytes;
        assert_eq!(bytes(400 << 20), BUDGET_BYTES_MIN);
        assert_eq!(bytes(240 << 20), 80 << 20);
        assert!(bytes(128 << 20) < 64 << 20, "with room for index and filters");
    }

    #[test]
    fn index_and_filters_have_room_beside_large_memtables() {
        let advanced = Advanced { memtable_bytes: Some(1 << 30), ..Advanced::default() };
        let options = Options { advanced, ..Options::default() };
        for usable in [0, 1 << 30, 64 << 30] {
            let budget = Budget::of(&options, usable);
            assert!(budget.open > 20 << 20 && budget.passing() > 6 << 20, "{budget:?}");
            assert!(budget.open < budget.left(0, 0), "the caches have the rest");
        }
    }

    #[test]
    fn a_share_that_was_named_is_given() {
        let advanced = Advanced {
            memtable_bytes: Some(100 << 20),
            block_cache_bytes: Some(1 << 30),
            ..Advanced::default()
        };
        let options = Options { advanced, ..Options::default() };
        let budget = Budget::of(&options, 0);
        let both = budget.caches(0, 0).both;
        assert_eq!((budget.memtable, both), (100 << 20, 1 << 30));
        assert_eq!(sum(&budget, 0, 0), budget.bytes, "the budget grew to hold them");
        let capped = Budget::of(&Options { memory: Some(700 << 20), ..options }, 0);
        assert_eq!(sum(&capped, 0, 0), 700 << 20, "a budget that was named stays: the cache gives");
    }
}

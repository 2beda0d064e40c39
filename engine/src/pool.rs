//! The memory that one database holds, by use: what files and background work take is counted here,
//! and the caches are kept within what that leaves.
//!
//! Promise: after every call the caches hold no more than the [`Budget`] leaves them. What a file
//! takes is counted once it is open, so for that moment the sum may pass the budget by one file's
//! index and filters; and by those that are read again for each use, as long as that lasts.
//! Absent: zones and sums that one walk made for itself, where there was no room to keep them.

use crate::budget::Budget;
use crate::cache::Lender;
use crate::chunks::SpareChunks;
use crate::errands::Errands;
use crate::row_cache::RowCache;
use crate::sstable::reader::{BlockCache, Books};
use crate::stats::Counter;
use crate::sync::{Mutex, weakened};
use std::sync::Arc;

/// The caches of a database and what limits them.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) budget: Budget,
    pub(crate) blocks: Arc<BlockCache>,
    pub(crate) rows: RowCache,
    /// Of memtables that are in files.
    pub(crate) spare: Arc<SpareChunks>,
    pub(crate) errands: Arc<Errands>,
    /// Table files whose index and filters were read.
    pub(crate) opened: Counter,
    taken: Mutex<Taken>,
}

/// Files, and bytes beside memtables and log, that are in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Open table files.
    pub(crate) files: usize,
    /// Of these, those that do not stay open.
    pub(crate) passing_files: usize,
    /// Index and filters of open files.
    pub(crate) pinned: usize,
    /// Of these, of files that do not stay open.
    pub(crate) passing: usize,
    /// Buffers of flush, merge, ingest and long walks.
    pub(crate) working: usize,
    /// Of these, of ingests.
    pub(crate) ingests: usize,
    /// Of these, of long walks.
    pub(crate) walks: usize,
    /// Open blob files that stay open. They hold a handle each, and little else.
    pub(crate) blob_files: usize,
}

/// Memory of background work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    pool: Arc<Pool>,
    bytes: usize,
    of_ingest: usize,
}

impl Pool {
    pub(crate) fn new(budget: Budget) -> Arc<Pool> {
        let shares = budget.caches(0, 0);
        let blocks = Arc::new(BlockCache::new(shares.both));
        let lender: Arc<dyn Lender> = Arc::<BlockCache>::clone(&blocks);
        let errands: Arc<Errands> = Arc::default();
        // As much as the next memtable takes; it was that of one before, so together they stay
        // within their share.
        let spare_bytes = budget.memtable + (budget.memtable >> 1);
        let memtable_bytes = budget.memtable;
        Arc::new(Pool {
            budget,
            blocks,
            spare: SpareChunks::made_ahead(spare_bytes, memtable_bytes, Arc::clone(&errands)),
            errands,
            rows: RowCache::new(shares.rows).borrowing_from(lender),
            opened: Counter::default(),
            taken: Mutex::default(),
        })
    }

    /// What is in use now.
    pub(crate) fn taken(&self) -> Taken {
        *self.taken.lock()
    }

    /// Whether there is room for one more file that stays open, of the size that others have.
    pub(crate) fn may_stay(&self) -> bool {
        let taken = self.taken();
        let mean = taken.pinned / taken.files.max(1);
        self.has_place(&taken) && self.has_room(&taken, mean.max(1))
    }

    /// Whether the number of files allows one more that stays open.
    fn has_place(&self, taken: &Taken) -> bool {
        taken.files.saturating_sub(taken.passing_files) < self.budget.open_files
    }

    /// Whether files that stay open may hold so many bytes more. The rest of the share is for files
    /// that do not stay: they come whenever somebody reads them.
    fn has_room(&self, taken: &Taken, bytes: usize) -> bool {
        let staying = taken.pinned.saturating_sub(taken.passing);
        staying.saturating_add(bytes) <= self.budget.staying()
    }

    /// One more blob file is open. Says whether it may stay so, and counts it then.
    pub(crate) fn blob_opened(&self) -> bool {
        let mut taken = self.taken.lock();
        let stays = taken.blob_files < self.budget.staying_blobs();
        taken.blob_files += usize::from(stays);
        stays
    }

    /// A blob file is closed that stayed open.
    pub(crate) fn blob_closed(&self) {
        let mut taken = self.taken.lock();
        debug_assert!(taken.blob_files > 0, "{taken:?}");
        taken.blob_files = taken.blob_files.saturating_sub(1);
    }

    /// Background work begins that holds `bytes`.
    pub(crate) fn claim(self: &Arc<Self>, bytes: usize) -> Claim {
        self.change(|taken| taken.working += bytes);
        Claim { pool: Arc::clone(self), bytes, of_ingest: 0 }
    }

    /// An ingest begins that holds `bytes` until it ends: how many do, their user says, so beside
    /// others it gets them only where flush and merge can have their share as well.
    pub(crate) fn claim_for_ingest(self: &Arc<Self>, bytes: usize) -> Option<Claim> {
        let is_granted = self.change(|taken| {
            let is_granted = taken.ingests == 0 || self.left_with(taken, bytes) > 0;
            if is_granted {
                taken.working += bytes;
                taken.ingests += bytes;
            }
            is_granted
        });
        is_granted.then(|| Claim { pool: Arc::clone(self), bytes, of_ingest: bytes })
    }

    /// What is left for the caches where ingests and walks take so many bytes more, and flush and
    /// merge have their share as well.
    fn left_with(&self, taken: &Taken, bytes: usize) -> usize {
        let Taken { pinned, ingests, walks, .. } = *taken;
        self.budget.left(pinned, self.budget.work + ingests + walks + bytes)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Taken) -> T) -> T {
        // Held while the caches change, so that the last change has the last word.
        let mut taken = self.taken.lock();
        let before = self.budget.caches(taken.pinned, taken.working);
        let changed = change(&mut taken);
        let after = self.budget.caches(taken.pinned, taken.working);
        if weakened!("books") {
            drop(taken);
        }
        if after != before {
            self.blocks.set_capacity(after.both);
            self.rows.set_capacity(after.rows);
        }
        changed
    }
}

impl Books for Pool {
    fn opened(&self, bytes: usize) -> bool {
        self.change(|taken| {
            let stays = self.has_place(taken) && self.has_room(taken, bytes);
            taken.files += 1;
            taken.pinned += bytes;
            if !stays {
                taken.passing_files += 1;
                taken.passing += bytes;
            }
            stays
        })
    }

    fn take(&self, bytes: usize) -> bool {
        self.change(|taken| {
            let is_granted = self.has_room(taken, bytes);
            if is_granted {
                taken.pinned += bytes;
            }
            is_granted
        })
    }

    fn closed(&self, bytes: usize, stays: bool) {
        self.change(|taken| {
            debug_assert!(taken.files > 0 && bytes <= taken.pinned, "{taken:?}");
            taken.files = taken.files.saturating_sub(1);
            taken.pinned = taken.pinned.saturating_sub(bytes);
            if !stays {
                debug_assert!(taken.passing_files > 0 && bytes <= taken.passing, "{taken:?}");
                taken.passing_files = taken.passing_files.saturating_sub(1);
                taken.passing = taken.passing.saturating_sub(bytes);
            }
        });
    }

    fn walk_begins(&self, bytes: usize) -> bool {
        self.change(|taken| {
            let are_few = taken.walks + bytes <= self.budget.walks();
            let may = taken.walks == 0 || are_few && self.left_with(taken, bytes) > 0;
            if may {
                taken.walks += bytes;
                taken.working += bytes;
            }
            may
        })
    }

    fn walk_ended(&self, bytes: usize) {
        self.change(|taken| {
            debug_assert!(bytes <= taken.walks, "{taken:?}");
            taken.walks = taken.walks.saturating_sub(bytes);
            taken.working = taken.working.saturating_sub(bytes);
        });
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.pool.change(|taken| {
            taken.working = taken.working.saturating_sub(self.bytes);
            taken.ingests = taken.ingests.saturating_sub(self.of_ingest);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Advanced, Options};

    fn pool(open: usize, open_files_max: usize) -> Arc<Pool> {
        let advanced = Advanced {
            index_and_filter_bytes: Some(open),
            open_files_max: Some(open_files_max),
            ..Advanced::default()
        };
        Pool::new(Budget::of(&Options { advanced, ..Options::default() }, 0))
    }

    #[test]
    fn who_stays_and_who_passes_do_not_take_from_each_other() {
        let pool = pool(1_000, 100);
        assert_eq!((pool.budget.staying(), pool.budget.passing()), (670, 330));
        assert!(pool.opened(300) && pool.opened(300), "both stay");
        assert!(!pool.may_stay(), "one of their size would not");
        assert!(!pool.opened(200), "which passes");
        assert!(pool.take(70) && !pool.take(1), "it takes nothing of those that stay");
        pool.closed(300, true);
        assert!(pool.may_stay() && pool.opened(230), "what one gives back another has");
        for (bytes, stays) in [(370, true), (230, true), (200, false)] {
            pool.closed(bytes, stays);
        }
        let Taken { files, passing_files, pinned, passing, .. } = pool.taken();
        assert_eq!((files, passing_files, pinned, passing), (0, 0, 0, 0));
    }

    #[test]
    fn files_that_pass_take_no_places_of_those_that_stay() {
        let pool = pool(1 << 20, 2);
        assert!(pool.opened(10) && pool.opened(10));
        assert!(!pool.opened(10) && !pool.opened(10));
        pool.closed(10, true);
        assert!(pool.opened(10), "though three are open");
    }
}

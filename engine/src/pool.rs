//! The memory that one database holds, by use: what files and background work take is counted here,
//! and the caches are kept within what that leaves.
//!
//! Promise: after every call the caches hold no more than the [`Budget`] leaves them. What a file
//! takes is counted once it is open, so for that moment the sum may pass the budget by one file's
//! index and filters; and by those that are read again for each use, as long as that lasts.

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
    /// Index and filters of open files.
    pub(crate) pinned: usize,
    /// Of these, of files that do not stay open.
    pub(crate) passing: usize,
    /// Buffers of flush, merge and ingest.
    pub(crate) working: usize,
    /// Of these, of ingests.
    pub(crate) ingests: usize,
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

    /// Whether there is room for one more file that stays open.
    pub(crate) fn may_stay(&self) -> bool {
        let taken = self.taken();
        taken.files < self.budget.open_files && self.has_room(&taken, 1)
    }

    /// Whether files that stay open may hold so many bytes more. What those may hold that do not
    /// stay is theirs alone: they come whenever somebody reads them.
    fn has_room(&self, taken: &Taken, bytes: usize) -> bool {
        let staying = taken.pinned.saturating_sub(taken.passing);
        staying.saturating_add(bytes) <= self.budget.staying()
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
            let Taken { pinned, ingests, .. } = *taken;
            let left = self.budget.left(pinned, self.budget.work + ingests + bytes);
            let is_granted = ingests == 0 || left > 0;
            if is_granted {
                taken.working += bytes;
                taken.ingests += bytes;
            }
            is_granted
        });
        is_granted.then(|| Claim { pool: Arc::clone(self), bytes, of_ingest: bytes })
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
            let stays = taken.files < self.budget.open_files && self.has_room(taken, bytes);
            taken.files += 1;
            taken.pinned += bytes;
            if !stays {
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
            taken.files = taken.files.saturating_sub(1);
            taken.pinned = taken.pinned.saturating_sub(bytes);
            if !stays {
                taken.passing = taken.passing.saturating_sub(bytes);
            }
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

//! Latches of partitions: one writer at a time reads, checks and applies to a partition. Each knows
//! the last commit made under it, so that whoever read before can tell that nothing has changed.
//!
//! A fixed number of locks, one chosen by the partition's hash; two partitions may share one, which
//! costs time and nothing else. A holder never takes a second latch, except whoever takes all, in their
//! order: so there is no deadlock.

use crate::ids::CommitTs;
use crate::sync::{Mutex, MutexGuard};

/// Enough that 32 writers on random partitions rarely meet: 6 % of the time.
const LATCHES: usize = 512;

/// All latches of a database.
#[derive(Debug)]
pub(crate) struct Latches(Vec<Mutex<CommitTs>>);

impl Latches {
    pub(crate) fn new() -> Latches {
        Latches(std::iter::repeat_with(|| Mutex::new(CommitTs::ZERO)).take(LATCHES).collect())
    }

    /// Waits for all partitions. Whoever read any of them before looks again.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, CommitTs>> {
        let lock = |latch| {
            let mut last_commit = Mutex::lock(latch);
            *last_commit = CommitTs::MAX;
            last_commit
        };
        self.0.iter().map(lock).collect()
    }

    /// The partition whose prefix hashes to `hash`, unless somebody has it.
    pub(crate) fn try_lock(&self, hash: u64) -> Option<MutexGuard<'_, CommitTs>> {
        self.0[hash as usize % LATCHES].try_lock()
    }

    /// Waits for the partition whose prefix hashes to `hash`.
    pub(crate) fn lock(&self, hash: u64) -> MutexGuard<'_, CommitTs> {
        self.0[hash as usize % LATCHES].lock()
    }
}

//! Latches of partitions: one writer at a time reads, checks and applies to a partition.
//!
//! A fixed number of locks, one chosen by the partition's hash; two partitions may share one, which
//! costs time and nothing else. A holder never takes a second latch, except whoever takes all, in their
//! order: so there is no deadlock.

use parking_lot::{Mutex, MutexGuard};

/// Enough that 32 writers on random partitions rarely meet: 6 % of the time.
const LATCHES: usize = 512;

/// All latches of a database.
#[derive(Debug)]
pub(crate) struct Latches(Vec<Mutex<()>>);

impl Latches {
    pub(crate) fn new() -> Latches {
        Latches(std::iter::repeat_with(|| Mutex::new(())).take(LATCHES).collect())
    }

    /// Waits for all partitions.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, ()>> {
        self.0.iter().map(Mutex::lock).collect()
    }

    /// Waits for the partition whose prefix hashes to `hash`.
    pub(crate) fn lock(&self, hash: u64) -> MutexGuard<'_, ()> {
        self.0[hash as usize % LATCHES].lock()
    }
}

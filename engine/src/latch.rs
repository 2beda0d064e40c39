//! Latches of partitions: one writer at a time reads, checks and applies to a partition. Each knows
//! the last commit made under it, so that whoever read before can tell that nothing has changed.
//!
//! A fixed number of locks, one chosen by the partition's hash; two partitions may share one, which
//! costs time and nothing else. A holder never takes a second latch, except whoever takes all, in
//! their order: so there is no deadlock.

use crate::env::clock::Clock;
use crate::ids::CommitTs;
use crate::sync::{Mutex, MutexGuard, lock_soon};
use crate::waits::{WaitCounter, Waits};

/// Enough that 32 writers on random partitions rarely meet: 6 % of the time.
const LATCHES: usize = 512;

/// All latches of a database.
#[derive(Debug)]
pub(crate) struct Latches {
    latches: Vec<Mutex<CommitTs>>,
    waits: WaitCounter,
}

impl Latches {
    pub(crate) fn new() -> Latches {
        let latch = || Mutex::new(CommitTs::ZERO);
        let latches = std::iter::repeat_with(latch).take(LATCHES).collect();
        Latches { latches, waits: WaitCounter::default() }
    }

    /// Waits for all partitions. Whoever read any of them before looks again.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, CommitTs>> {
        let lock = |latch| {
            let mut last_commit = Mutex::lock(latch);
            *last_commit = CommitTs::MAX;
            last_commit
        };
        self.latches.iter().map(lock).collect()
    }

    /// The partition whose prefix hashes to `hash`, unless somebody has it.
    pub(crate) fn try_lock(&self, hash: u64) -> Option<MutexGuard<'_, CommitTs>> {
        self.of(hash).try_lock()
    }

    /// Waits for the partition whose prefix hashes to `hash`. A wait is counted, by `clock`.
    pub(crate) fn lock(&self, hash: u64, clock: &dyn Clock) -> MutexGuard<'_, CommitTs> {
        self.try_lock(hash).unwrap_or_else(|| {
            let start = clock.steady();
            let last_commit = lock_soon(self.of(hash));
            self.waits.add(clock.steady().saturating_sub(start));
            last_commit
        })
    }

    /// Waits for single partitions.
    pub(crate) fn waits(&self) -> Waits {
        self.waits.get()
    }

    fn of(&self, hash: u64) -> &Mutex<CommitTs> {
        &self.latches[hash as usize % LATCHES]
    }
}

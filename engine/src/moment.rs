//! When somebody reads: which commits they see, and what has expired for them.
//!
//! The two are apart because a row expires by the wall clock: with no commit for an hour, readers
//! see the same commits all that time and less and less of what expires. Both stay as they are for
//! the life of a snapshot, so that it gives the same answer twice.

use crate::ids::CommitTs;
use std::time::Duration;

/// What one reader goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// The newest commit that it sees.
    pub(crate) at: CommitTs,
    /// What expires at or before this is gone for it. Not below `at`, unless that is above every
    /// commit.
    pub(crate) now: CommitTs,
}

impl Moment {
    /// A reader of the past: as a reader of that time.
    pub(crate) fn past(at: CommitTs) -> Moment {
        Moment { at, now: at }
    }

    /// Whoever goes by all that is applied, durable yet or not, at the time `now`.
    pub(crate) fn applied(now: CommitTs) -> Moment {
        Moment { at: CommitTs::MAX, now }
    }
}

/// When a read of single rows is. The time is asked for only where a row may have expired.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// Now: of what is visible.
    Now,
    /// Now: of all that is applied, as [`Moment::applied`].
    Applied,
    /// At a moment that somebody keeps.
    At(Moment),
}

impl When {
    /// The newest commit that it sees.
    pub(crate) fn at(self, visible: impl FnOnce() -> CommitTs) -> CommitTs {
        match self {
            When::Now => visible(),
            When::Applied => CommitTs::MAX,
            When::At(moment) => moment.at,
        }
    }

    /// The time by which rows expire for it, where that is not now.
    pub(crate) fn now(self) -> Option<CommitTs> {
        match self {
            When::Now | When::Applied => None,
            When::At(moment) => Some(moment.now),
        }
    }
}

/// The span of so many ticks.
pub(crate) fn span(ticks: u64) -> Duration {
    let (seconds, rest) = (ticks / CommitTs::TICKS_PER_SECOND, ticks % CommitTs::TICKS_PER_SECOND);
    Duration::new(seconds, (rest * 100) as u32)
}

/// A span of time in ticks of 100 ns; the longest there is where it is longer.
pub(crate) fn ticks(span: Duration) -> u64 {
    u64::try_from(span.as_nanos() / 100).unwrap_or(u64::MAX)
}

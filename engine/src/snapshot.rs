//! Live snapshots and the history window: which versions of a row some reader may still ask for.
//!
//! Every moment from the *floor* on stays readable: it lies the history window before now and rises
//! only. Of the time below it, the moments of live snapshots do.

use crate::ids::CommitTs;
use crate::moment::Moment;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, weakened};
use std::collections::BTreeMap;

/// The moments that live snapshots read at, with how many read at each.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    live: Mutex<BTreeMap<Moment, usize>>,
    /// Below it, background work may have dropped what no live snapshot reads. Rises under the
    /// lock.
    floor: AtomicU64,
}

impl Snapshots {
    /// No snapshot; what lies below `floor` was dropped by whoever had the database open before.
    pub(crate) fn new(floor: CommitTs) -> Snapshots {
        Snapshots { live: Mutex::default(), floor: AtomicU64::new(floor.0) }
    }

    /// The oldest moment that may be read without being registered already.
    pub(crate) fn floor(&self) -> CommitTs {
        CommitTs(self.floor.load(Ordering::Acquire))
    }

    /// Registers a snapshot of what `present` says under the lock, so that no compaction fixes its
    /// boundaries between the reading and the registering.
    pub(crate) fn acquire(&self, present: impl FnOnce() -> Moment) -> Moment {
        let (moment, mut live) = if weakened!("moment") {
            (present(), self.live.lock())
        } else {
            let live = self.live.lock();
            (present(), live)
        };
        *live.entry(moment).or_default() += 1;
        moment
    }

    /// Registers a snapshot of a moment in the past; where that may not be whole any more, the
    /// oldest one that is comes back instead.
    pub(crate) fn acquire_past(&self, at: CommitTs) -> Result<Moment, CommitTs> {
        let early = weakened!("floor").then(|| self.floor());
        let mut live = self.live.lock();
        let floor = early.unwrap_or_else(|| self.floor());
        if at < floor {
            return Err(floor);
        }
        let moment = Moment::past(at);
        *live.entry(moment).or_default() += 1;
        Ok(moment)
    }

    /// Ends a snapshot.
    pub(crate) fn release(&self, moment: Moment) {
        let mut live = self.live.lock();
        if let Some(count) = live.get_mut(&moment) {
            *count -= 1;
            if *count == 0 {
                live.remove(&moment);
            }
        }
    }

    /// What must stay readable, with every moment from `floor` on. No snapshot of an earlier one is
    /// given out from here on.
    pub(crate) fn boundaries(
        &self,
        visible: impl FnOnce() -> CommitTs,
        floor: CommitTs,
    ) -> Boundaries {
        let live = self.live.lock();
        let floor = CommitTs(self.floor.fetch_max(floor.0, Ordering::AcqRel)).max(floor);
        let last = Moment { at: visible().min(floor), now: floor };
        let mut readers: Vec<Moment> = Vec::with_capacity(live.len() + 1);
        // Of those who see the same commits, the earliest sees most.
        for moment in live.keys().take_while(|moment| moment.at <= last.at).chain([&last]) {
            match readers.last_mut().filter(|before| before.at == moment.at) {
                Some(before) => before.now = before.now.min(moment.now),
                None => readers.push(*moment),
            }
        }
        let above: Vec<_> = live.keys().filter(|moment| moment.at > last.at).copied().collect();
        let above_from = above.iter().map(|moment| moment.now).fold(floor, CommitTs::min);
        let mut earliest = above_from;
        let times = readers.iter().rev().map(|reader| {
            earliest = earliest.min(reader.now);
            earliest
        });
        let mut times: Vec<_> = times.collect();
        times.reverse();
        Boundaries { readers, above, times, above_from, floor }
    }

    /// How many snapshots live.
    pub(crate) fn len(&self) -> usize {
        self.live.lock().values().sum()
    }
}

/// Moments that must stay readable: some, ascending, and every one from the floor on.
#[derive(Clone, Debug)]
pub(crate) struct Boundaries {
    readers: Vec<Moment>, // The last sees all commits up to the floor, as far as there are any.
    /// Snapshots of what has come since the last, or of a quiet time after it: every version that
    /// they read stays, but rows expire for them by times of their own.
    above: Vec<Moment>,
    /// Of each reader and those after it, the earliest time.
    times: Vec<CommitTs>,
    /// The earliest time of those above and of those to come.
    above_from: CommitTs,
    floor: CommitTs,
}

impl Boundaries {
    /// The newest commit that every reader sees.
    pub(crate) fn oldest(&self) -> CommitTs {
        self.readers.first().map_or(CommitTs::ZERO, |reader| reader.at)
    }

    /// What must stay readable: the moments of snapshots, and last the earliest one that readers to
    /// come may have.
    pub(crate) fn readers(&self) -> impl Iterator<Item = Moment> {
        self.above.iter().chain(&self.readers).copied()
    }

    /// From here on every moment stays readable, and before it only those of live snapshots.
    pub(crate) fn floor(&self) -> CommitTs {
        self.floor
    }

    /// Whether some reader, of now or to come, may be at a moment from `ts` to before `to`.
    pub(crate) fn may_read_between(&self, ts: CommitTs, to: CommitTs) -> bool {
        self.reader_of(ts).and_then(|at| self.readers.get(at)).is_none_or(|reader| reader.at < to)
    }

    /// Whether some reader who sees the commit `ts` may be there before the time `expires`.
    pub(crate) fn may_see_before(&self, ts: CommitTs, expires: CommitTs) -> bool {
        let times = self.reader_of(ts).and_then(|at| self.times.get(at));
        *times.unwrap_or(&self.above_from) < expires
    }

    /// The boundary at which a version of `ts` is read if it is the newest up to there; `None` for
    /// one newer than all boundaries, which a reader to come may stop at.
    fn reader_of(&self, ts: CommitTs) -> Option<usize> {
        let at = self.readers.partition_point(|reader| reader.at < ts);
        (at < self.readers.len()).then_some(at)
    }
}

/// Decides, for the versions of one key from newest to oldest, which must stay.
#[derive(Debug)]
pub(crate) struct Retain<'a> {
    boundaries: &'a Boundaries,
    served: Option<usize>, // The boundary that the version before serves.
}

impl<'a> Retain<'a> {
    pub(crate) fn new(boundaries: &'a Boundaries) -> Retain<'a> {
        Retain { boundaries, served: None }
    }

    /// A new key begins.
    pub(crate) fn next_key(&mut self) {
        self.served = None;
    }

    /// Whether the version of `ts` must stay: some boundary reads it and no newer version.
    pub(crate) fn keeps(&mut self, ts: CommitTs) -> bool {
        match self.boundaries.reader_of(ts) {
            None => true,
            reader if reader == self.served => false,
            reader => {
                self.served = reader;
                true
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn kept(boundaries: &Boundaries, versions: &[CommitTs]) -> Vec<CommitTs> {
        let mut retain = Retain::new(boundaries);
        versions.iter().copied().filter(|ts| retain.keeps(*ts)).collect()
    }

    #[test]
    fn every_boundary_still_reads_what_it_read() {
        let snapshots = Snapshots::default();
        for at in [30, 10, 30] {
            snapshots.acquire(|| Moment::past(CommitTs(at)));
        }
        snapshots.release(Moment::past(CommitTs(30)));
        let boundaries = snapshots.boundaries(|| CommitTs(50), CommitTs(55));
        let versions = [70, 60, 50, 45, 30, 29, 11, 10, 9, 1].map(CommitTs);
        let kept = kept(&boundaries, &versions);
        assert_eq!(kept, [70, 60, 50, 30, 10].map(CommitTs));
        for boundary in [10, 30, 50] {
            let read = |all: &[CommitTs]| all.iter().copied().find(|ts| ts.0 <= boundary);
            assert_eq!(read(&kept), read(&versions));
        }
        assert_eq!(snapshots.len(), 2);
        assert_eq!(boundaries.oldest(), CommitTs(10));
    }

    #[test]
    fn a_row_lives_for_who_may_read_it_before_it_expires() {
        let snapshots = Snapshots::default();
        // Nothing was committed between 20 and 80: the first of these saw it at 60, the other at
        // 30.
        snapshots.acquire(|| Moment { at: CommitTs(20), now: CommitTs(60) });
        snapshots.acquire(|| Moment { at: CommitTs(30), now: CommitTs(30) });
        let boundaries = snapshots.boundaries(|| CommitTs(80), CommitTs(90));
        let seen = |ts, expires| boundaries.may_see_before(CommitTs(ts), CommitTs(expires));
        assert!(seen(10, 31) && !seen(10, 30), "the second reads the commit too");
        assert!(seen(31, 91) && !seen(31, 90), "only readers to come do");
        assert!(seen(85, 91) && !seen(85, 90), "and of what comes later");
    }

    #[test]
    fn a_snapshot_above_the_newest_commit_keeps_its_time() {
        let snapshots = Snapshots::default();
        snapshots.acquire_past(CommitTs(60)).unwrap();
        let boundaries = snapshots.boundaries(|| CommitTs(50), CommitTs(90));
        let seen = |ts, expires| boundaries.may_see_before(CommitTs(ts), CommitTs(expires));
        assert!(seen(40, 61) && !seen(40, 60), "it reads the commit at 60");
        assert!(seen(55, 61) && !seen(55, 60), "and one that comes until then");
        let readers: Vec<_> = boundaries.readers().map(|reader| reader.now.0).collect();
        assert_eq!(readers, [60, 90]);
    }

    #[test]
    fn a_snapshot_of_the_newest_commit_does_not_stand_for_earlier_times() {
        let snapshots = Snapshots::default();
        snapshots.acquire(|| Moment { at: CommitTs(20), now: CommitTs(100) });
        let boundaries = snapshots.boundaries(|| CommitTs(20), CommitTs(40));
        let readers: Vec<_> = boundaries.readers().map(|reader| reader.now.0).collect();
        assert_eq!(readers, [40], "a moment to come may be at 40");
    }

    #[test]
    fn every_moment_from_the_floor_on_stays_readable_and_earlier_ones_are_refused() {
        let snapshots = Snapshots::new(CommitTs(5));
        assert_eq!(snapshots.acquire_past(CommitTs(4)), Err(CommitTs(5)));
        snapshots.acquire_past(CommitTs(12)).unwrap();
        let boundaries = snapshots.boundaries(|| CommitTs(50), CommitTs(30));
        let versions = [50, 45, 31, 29, 20, 12, 11].map(CommitTs);
        let kept = kept(&boundaries, &versions);
        assert_eq!(kept, [50, 45, 31, 29, 12].map(CommitTs));
        for at in (30..60).chain([12]) {
            let read = |all: &[CommitTs]| all.iter().copied().find(|ts| ts.0 <= at);
            assert_eq!(read(&kept), read(&versions), "{at}");
        }
        assert!(boundaries.may_read_between(CommitTs(29), CommitTs(31)));
        assert!(!boundaries.may_read_between(CommitTs(29), CommitTs(30)));
        assert!(boundaries.may_read_between(CommitTs(40), CommitTs(41)), "within the window");
        assert_eq!(snapshots.acquire_past(CommitTs(29)), Err(CommitTs(30)));
        let earlier = snapshots.boundaries(|| CommitTs(50), CommitTs(20));
        assert_eq!(earlier.floor(), CommitTs(30), "what was given up does not come back");
    }
}

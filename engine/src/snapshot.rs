//! Live snapshots, and which versions of a row some reader may still ask for.

use crate::ids::CommitTs;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The timestamps that live snapshots read at, with how many read at each.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<BTreeMap<CommitTs, usize>>);

impl Snapshots {
    /// Registers a snapshot at what `visible` says under the lock, so that no compaction fixes its
    /// boundaries between the reading and the registering.
    pub(crate) fn acquire(&self, visible: impl FnOnce() -> CommitTs) -> CommitTs {
        let mut live = self.0.lock();
        let at = visible();
        *live.entry(at).or_default() += 1;
        at
    }

    /// Ends a snapshot.
    pub(crate) fn release(&self, at: CommitTs) {
        let mut live = self.0.lock();
        if let Some(count) = live.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                live.remove(&at);
            }
        }
    }

    /// The timestamps that must stay readable: those of live snapshots and what is visible now.
    pub(crate) fn boundaries(&self, visible: impl FnOnce() -> CommitTs) -> Boundaries {
        let live = self.0.lock();
        let visible = visible();
        let mut at: Vec<_> = live.keys().copied().filter(|ts| *ts < visible).collect();
        at.push(visible);
        Boundaries(at)
    }

    /// How many snapshots live.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().values().sum()
    }
}

/// Timestamps that must stay readable, ascending; the last is what is visible to new readers.
#[derive(Clone, Debug)]
pub(crate) struct Boundaries(Vec<CommitTs>);

impl Boundaries {
    /// The oldest timestamp that must stay readable.
    pub(crate) fn oldest(&self) -> CommitTs {
        self.0.first().copied().unwrap_or(CommitTs::ZERO)
    }

    /// Whether some reader, of now or to come, may be at a moment from `ts` to before `to`.
    pub(crate) fn may_read_between(&self, ts: CommitTs, to: CommitTs) -> bool {
        self.reader_of(ts).and_then(|at| self.0.get(at)).is_none_or(|reader| *reader < to)
    }

    /// The boundary at which a version of `ts` is read if it is the newest up to there; `None` for
    /// one newer than all boundaries, which a reader to come may stop at.
    fn reader_of(&self, ts: CommitTs) -> Option<usize> {
        let at = self.0.partition_point(|boundary| *boundary < ts);
        (at < self.0.len()).then_some(at)
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
mod tests {
    use super::*;

    #[test]
    fn every_boundary_still_reads_what_it_read() {
        let snapshots = Snapshots::default();
        for at in [30, 10, 30] {
            snapshots.acquire(|| CommitTs(at));
        }
        snapshots.release(CommitTs(30));
        let boundaries = snapshots.boundaries(|| CommitTs(50));
        let versions = [70, 60, 50, 45, 30, 29, 11, 10, 9, 1].map(CommitTs);
        let mut retain = Retain::new(&boundaries);
        let kept: Vec<_> = versions.into_iter().filter(|ts| retain.keeps(*ts)).collect();
        assert_eq!(kept, [70, 60, 50, 30, 10].map(CommitTs));
        for boundary in [10, 30, 50] {
            let read = |all: &[CommitTs]| all.iter().copied().find(|ts| ts.0 <= boundary);
            assert_eq!(read(&kept), read(&versions));
        }
        assert_eq!(snapshots.len(), 2);
        assert_eq!(boundaries.oldest(), CommitTs(10));
    }
}

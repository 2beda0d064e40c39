//! The timestamps of all erasures that cover the same keys, in little memory where neighbours have
//! nearly the same ones.
//!
//! Whoever trims a partition again and again, each time a little further, covers the first keys n
//! times, the next ones n - 1 times and so on: with a list for each that is n² / 2 timestamps.
//! Where those of a fragment follow one another among the times of all erasures around, they are a
//! stretch of one list. Where they do not, as of two partitions that are trimmed in turn and then
//! dropped with their table, they are a version of a tree: it differs from that of the fragment
//! before by what begins and ends between the two, and shares the rest with it (Driscoll, Sarnak,
//! Sleator and Tarjan, "Making data structures persistent", 1989; here by copies of paths). n
//! erasures take n log n of memory then, and so much time.

use crate::ids::CommitTs;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Timestamps, ascending, at least one.
#[derive(Clone, Debug)]
pub(super) enum Times {
    /// A stretch of a list that others have stretches of.
    Stretch { list: Arc<[CommitTs]>, within: Range<usize> },
    /// Those of a list whose places are in a version of a set.
    Chosen { places: Arc<Places>, version: Version },
}

impl Times {
    /// A list of its own.
    pub(super) fn of(list: impl Into<Arc<[CommitTs]>>) -> Times {
        let list = list.into();
        let within = 0..list.len();
        Times::Stretch { list, within }
    }

    pub(super) fn get(&self) -> Cow<'_, [CommitTs]> {
        match self {
            Times::Stretch { list, within } => Cow::Borrowed(&list[within.clone()]),
            Times::Chosen { places, version } => {
                let mut times = Vec::new();
                places.each(*version, |at| times.push(places.list[at]));
                Cow::Owned(times)
            }
        }
    }

    /// The list of which they are a stretch, if they are, and which one.
    pub(super) fn stretch(&self) -> Option<(&Arc<[CommitTs]>, &Range<usize>)> {
        match self {
            Times::Stretch { list, within } => Some((list, within)),
            Times::Chosen { .. } => None,
        }
    }

    /// The newest that is not newer than `at`.
    pub(super) fn newest_at(&self, at: CommitTs) -> Option<CommitTs> {
        match self {
            Times::Stretch { list, within } => {
                let times = &list[within.clone()];
                times[..times.partition_point(|ts| *ts <= at)].last().copied()
            }
            Times::Chosen { places, version } => {
                let below = places.list.partition_point(|ts| *ts <= at);
                places.last_below(*version, below).map(|at| places.list[at])
            }
        }
    }

    /// The oldest that is newer than `ts`.
    pub(super) fn oldest_above(&self, ts: CommitTs) -> Option<CommitTs> {
        match self {
            Times::Stretch { list, within } => {
                let times = &list[within.clone()];
                times.get(times.partition_point(|e| *e <= ts)).copied()
            }
            Times::Chosen { places, version } => {
                let from = places.list.partition_point(|e| *e <= ts);
                places.first_from(*version, from).map(|at| places.list[at])
            }
        }
    }
}

impl PartialEq for Times {
    fn eq(&self, other: &Times) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Times {}

/// A version of a set of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(u32);

impl Version {
    /// That of the empty set.
    pub(super) const EMPTY: Version = Version(0);
}

/// Places in a list of timestamps, as binary trees by the bits of a place, the highest first. A
/// node is never changed; 0 is one without a place below, and below the lowest bit 1 is a place.
#[derive(Debug)]
pub(super) struct Places {
    list: Arc<[CommitTs]>,
    bits: u32,
    nodes: Vec<[u32; 2]>,
}

impl Places {
    pub(super) fn in_list(list: &Arc<[CommitTs]>) -> Places {
        let bits = usize::BITS - list.len().saturating_sub(1).leading_zeros();
        Places { list: Arc::clone(list), bits, nodes: vec![[0; 2]; 2] }
    }

    /// The version with `place`, or without it, that is otherwise as `version`.
    pub(super) fn changed(&mut self, version: Version, place: usize, is_in: bool) -> Version {
        Version(self.changed_below(version.0, self.bits, place, is_in))
    }

    fn changed_below(&mut self, node: u32, bits: u32, place: usize, is_in: bool) -> u32 {
        let Some(bits) = bits.checked_sub(1) else { return u32::from(is_in) };
        let mut halves = self.nodes[node as usize];
        let half = &mut halves[place >> bits & 1];
        *half = self.changed_below(*half, bits, place, is_in);
        if halves == [0; 2] {
            return 0;
        }
        self.nodes.push(halves);
        self.nodes.len() as u32 - 1
    }

    /// It, to which no version will be added.
    pub(super) fn whole(mut self) -> Places {
        self.nodes.shrink_to_fit();
        self
    }

    /// The last place of a version before `end`.
    fn last_below(&self, version: Version, end: usize) -> Option<usize> {
        self.last_of(version.0, self.bits, 0, end)
    }

    /// The same of those below `node`, the first of which is `from`.
    fn last_of(&self, node: u32, bits: u32, from: usize, end: usize) -> Option<usize> {
        if node == 0 || end <= from {
            return None;
        }
        let Some(bits) = bits.checked_sub(1) else { return Some(from) };
        let [low, high] = self.nodes[node as usize];
        let found = self.last_of(high, bits, from + (1 << bits), end);
        found.or_else(|| self.last_of(low, bits, from, end))
    }

    /// The first place of a version from `start` on.
    fn first_from(&self, version: Version, start: usize) -> Option<usize> {
        self.first_of(version.0, self.bits, 0, start)
    }

    /// The same of those below `node`, the first of which is `from`.
    fn first_of(&self, node: u32, bits: u32, from: usize, start: usize) -> Option<usize> {
        if node == 0 || from + (1 << bits) <= start {
            return None;
        }
        let Some(bits) = bits.checked_sub(1) else { return Some(from) };
        let [low, high] = self.nodes[node as usize];
        let found = self.first_of(low, bits, from, start);
        found.or_else(|| self.first_of(high, bits, from + (1 << bits), start))
    }

    fn each(&self, version: Version, mut visit: impl FnMut(usize)) {
        let mut next = self.first_from(version, 0);
        while let Some(place) = next {
            visit(place);
            next = self.first_from(version, place + 1);
        }
    }

    /// How much memory it takes, in timestamps.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.list.len() + self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn every_version_keeps_the_places_that_it_had() {
        for len in [1, 2, 3, 7, 8, 9, 64, 65] {
            let mut rng = Rng::seeded(len);
            let list: Arc<[CommitTs]> = (0..len).map(|at| CommitTs(10 * at)).collect();
            let mut places = Places::in_list(&list);
            let mut versions = vec![(Version::EMPTY, BTreeSet::new())];
            for _ in 0..200 {
                let (version, mut model) =
                    versions[rng.below(versions.len() as u64) as usize].clone();
                let (place, is_in) = (rng.below(len) as usize, !rng.one_in(3));
                match is_in {
                    true => model.insert(place),
                    false => model.remove(&place),
                };
                versions.push((places.changed(version, place, is_in), model));
            }
            let places = Arc::new(places);
            for (version, model) in versions {
                assert_eq!(version == Version::EMPTY, model.is_empty());
                let times = Times::Chosen { places: Arc::clone(&places), version };
                let all: Vec<_> = model.iter().map(|at| list[*at]).collect();
                let plain = Times::of(all.clone());
                assert_eq!(*times.get(), all);
                for ts in (0..10 * len + 2).map(CommitTs) {
                    assert_eq!(times.newest_at(ts), plain.newest_at(ts), "{ts} in {all:?}");
                    assert_eq!(times.oldest_above(ts), plain.oldest_above(ts), "{ts} in {all:?}");
                }
            }
        }
    }
}

//! Sets of erasures that never change, cut into fragments so that a lookup is one binary search.
//!
//! An *erasure* (start, end, ts) hides every version of a key in `start..end` that is older than
//! `ts`, for readers at `ts` or later. It is no version of any row: it lives in a list of the
//! memtable that it came with, and from the flush on in the manifest.
//!
//! Fragments are what the bounds of all erasures cut the keys into: sorted, disjoint, each with the
//! timestamps of all erasures that cover it. n erasures make at most 2n - 1 of them.

use crate::ids::CommitTs;
use crate::key::range::KeyRange;
use std::sync::Arc;

/// All versions older than `ts` of the keys from `start` to before `end` are gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Erasure {
    pub(crate) start: Arc<[u8]>,
    pub(crate) end: Arc<[u8]>,
    pub(crate) ts: CommitTs,
}

impl Erasure {
    pub(crate) fn new(range: &KeyRange, ts: CommitTs) -> Erasure {
        Erasure { start: range.start.as_slice().into(), end: range.end.as_slice().into(), ts }
    }

    /// Whether a file with keys from `smallest` to `largest` may hold a key of it.
    pub(crate) fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        *self.start <= *largest && *smallest < *self.end
    }
}

/// Keys that the same erasures cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) start: Arc<[u8]>,
    pub(crate) end: Arc<[u8]>,
    times: Arc<[CommitTs]>, // Ascending, never empty.
}

impl Fragment {
    fn new(start: &Arc<[u8]>, end: &Arc<[u8]>, times: &Arc<[CommitTs]>) -> Fragment {
        Fragment { start: Arc::clone(start), end: Arc::clone(end), times: Arc::clone(times) }
    }

    /// The newest erasure not newer than `at`; zero where there is none.
    pub(crate) fn newest_at(&self, at: CommitTs) -> CommitTs {
        let below = self.times.partition_point(|ts| *ts <= at);
        below.checked_sub(1).map_or(CommitTs::ZERO, |i| self.times[i])
    }

    /// The oldest erasure that is newer than `ts`.
    pub(crate) fn oldest_above(&self, ts: CommitTs) -> Option<CommitTs> {
        self.times.get(self.times.partition_point(|e| *e <= ts)).copied()
    }
}

/// A set of erasures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Erasures {
    all: Vec<Erasure>, // Ascending, no two equal.
    fragments: Vec<Fragment>,
}

impl Erasures {
    /// The set of `all`.
    pub(crate) fn of(all: impl IntoIterator<Item = Erasure>) -> Erasures {
        let mut set = Erasures::default();
        all.into_iter().for_each(|erasure| set.insert(erasure));
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All of them, by start, end and time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Erasure> {
        self.all.iter()
    }

    pub(crate) fn contains(&self, erasure: &Erasure) -> bool {
        self.all.binary_search(erasure).is_ok()
    }

    /// The newest erasure in it; zero where it is empty.
    pub(crate) fn newest(&self) -> CommitTs {
        self.all.iter().map(|erasure| erasure.ts).max().unwrap_or_default()
    }

    /// Adds one. Cost: moves what lies behind it, and cuts what it overlaps.
    pub(crate) fn insert(&mut self, erasure: Erasure) {
        let Err(place) = self.all.binary_search(&erasure) else { return };
        if erasure.start >= erasure.end {
            return;
        }
        let first = self.fragments.partition_point(|f| f.end <= erasure.start);
        let last = self.fragments.partition_point(|f| f.start < erasure.end);
        let cut = cut(&self.fragments[first..last], &erasure);
        self.fragments.splice(first..last, cut);
        self.all.insert(place, erasure);
    }

    /// The set without `removed`.
    pub(crate) fn without(&self, removed: &[Erasure]) -> Erasures {
        let mut removed: Vec<&Erasure> = removed.iter().collect();
        removed.sort_unstable();
        let stays = |erasure: &&Erasure| removed.binary_search(erasure).is_err();
        Erasures::of(self.all.iter().filter(stays).cloned())
    }

    /// The first fragment that ends above `key`: the one that covers it, if any does.
    pub(crate) fn fragment_from(&self, key: &[u8]) -> usize {
        self.fragments.partition_point(|f| *f.end <= *key)
    }

    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The fragment that covers `key`.
    pub(crate) fn covering(&self, key: &[u8]) -> Option<&Fragment> {
        self.fragments.get(self.fragment_from(key)).filter(|f| *f.start <= *key)
    }

    /// The newest erasure of `key` not newer than `at`; zero where there is none.
    pub(crate) fn newest_at(&self, key: &[u8], at: CommitTs) -> CommitTs {
        self.covering(key).map_or(CommitTs::ZERO, |fragment| fragment.newest_at(at))
    }

    /// Where every key of `smallest..=largest` is covered by an erasure newer than `ts`: the
    /// earliest moment from which all of them are.
    pub(crate) fn all_covered_from(
        &self,
        smallest: &[u8],
        largest: &[u8],
        ts: CommitTs,
    ) -> Option<CommitTs> {
        let (mut from, mut covered_to) = (CommitTs::ZERO, smallest);
        for fragment in &self.fragments[self.fragment_from(smallest)..] {
            if *fragment.start > *covered_to {
                return None;
            }
            from = from.max(fragment.oldest_above(ts)?);
            covered_to = &fragment.end;
            if covered_to > largest {
                return Some(from);
            }
        }
        None
    }
}

/// What `fragments`, all of which overlap `erasure`, become with it.
fn cut(fragments: &[Fragment], erasure: &Erasure) -> Vec<Fragment> {
    let alone: Arc<[CommitTs]> = [erasure.ts].into();
    let mut out = Vec::with_capacity(2 * fragments.len() + 3);
    let mut from = &erasure.start;
    for fragment in fragments {
        let (start, end) = (&fragment.start, &fragment.end);
        if start < from {
            out.push(Fragment::new(start, from, &fragment.times));
        } else if from < start {
            out.push(Fragment::new(from, start, &alone));
            from = start;
        }
        let to = end.min(&erasure.end);
        out.push(Fragment::new(from, to, &with(&fragment.times, erasure.ts)));
        if to < end {
            out.push(Fragment::new(to, end, &fragment.times));
        }
        from = to;
    }
    if *from < erasure.end {
        out.push(Fragment::new(from, &erasure.end, &alone));
    }
    out
}

fn with(times: &Arc<[CommitTs]>, ts: CommitTs) -> Arc<[CommitTs]> {
    match times.binary_search(&ts) {
        Ok(_) => Arc::clone(times),
        Err(at) => [&times[..at], &[ts], &times[at..]].concat().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::rng::Rng;

    pub(crate) fn erasure(start: &[u8], end: &[u8], ts: u64) -> Erasure {
        Erasure { start: start.into(), end: end.into(), ts: CommitTs(ts) }
    }

    fn random(rng: &mut Rng) -> Vec<Erasure> {
        let bound = |rng: &mut Rng| vec![b'a' + rng.below(12) as u8; rng.below(2) as usize + 1];
        let one = |rng: &mut Rng| {
            let (a, b) = (bound(rng), bound(rng));
            let (start, end) = if a < b { (a, b) } else { (b.clone(), [b, vec![0]].concat()) };
            erasure(&start, &end, rng.below(9) + 1)
        };
        (0..rng.below(12)).map(|_| one(rng)).collect()
    }

    fn keys() -> Vec<Vec<u8>> {
        let twice = |b: u8| [vec![b], vec![b, 0], vec![b, b], vec![b, b, 0]];
        (b'a' - 1..b'n').flat_map(twice).collect()
    }

    #[test]
    fn every_answer_is_that_of_the_plain_list() {
        for seed in 0..300 {
            let list = random(&mut Rng::seeded(seed));
            let set = Erasures::of(list.clone());
            for key in keys() {
                let covering = |ts: &dyn Fn(u64) -> bool| {
                    let here = list.iter().filter(|e| *e.start <= *key && *key < *e.end);
                    here.map(|e| e.ts.0).filter(|e| ts(*e)).collect::<Vec<_>>()
                };
                for at in 0..11 {
                    let want = covering(&|e| e <= at).into_iter().max().unwrap_or(0);
                    assert_eq!(set.newest_at(&key, CommitTs(at)).0, want, "seed {seed} {key:?}");
                    let want = covering(&|e| e > at).into_iter().min();
                    let found = set.covering(&key).and_then(|f| f.oldest_above(CommitTs(at)));
                    assert_eq!(found.map(|ts| ts.0), want, "seed {seed} {key:?}");
                }
            }
            let bounds = set.fragments().windows(2).all(|pair| pair[0].end <= pair[1].start);
            assert!(bounds && set.fragments().iter().all(|f| f.start < f.end), "seed {seed}");
        }
    }

    #[test]
    fn a_file_is_covered_where_each_of_its_keys_is() {
        for seed in 0..200 {
            let mut rng = Rng::seeded(seed);
            let set = Erasures::of(random(&mut rng));
            let keys = keys();
            for _ in 0..200 {
                let a = rng.below(keys.len() as u64) as usize;
                let b = a + rng.below((keys.len() - a) as u64) as usize;
                let ts = CommitTs(rng.below(10));
                let each = keys[a..=b].iter().map(|key| {
                    let from = set.covering(key).and_then(|f| f.oldest_above(ts));
                    from.map(|from| from.0)
                });
                let each: Option<Vec<_>> = each.collect();
                let found = set.all_covered_from(&keys[a], &keys[b], ts).map(|from| from.0);
                // Between the keys of the list there are others, which bounds may leave out.
                let gaps = set.fragments().windows(2).any(|pair| {
                    let (end, start) = (&pair[0].end, &pair[1].start);
                    end < start && **end > *keys[a] && **end <= *keys[b]
                });
                match each {
                    Some(each) if !gaps => assert_eq!(found, each.into_iter().max(), "{seed}"),
                    Some(_) => {}
                    None => assert_eq!(found, None, "seed {seed}"),
                }
            }
        }
    }

    #[test]
    fn what_is_taken_out_leaves_no_trace() {
        for seed in 0..100 {
            let mut rng = Rng::seeded(seed);
            let (stay, go) = (random(&mut rng), random(&mut rng));
            let both = Erasures::of(stay.iter().chain(&go).cloned());
            let go: Vec<_> = go.into_iter().filter(|erasure| !stay.contains(erasure)).collect();
            assert_eq!(both.without(&go), Erasures::of(stay), "seed {seed}");
        }
    }
}

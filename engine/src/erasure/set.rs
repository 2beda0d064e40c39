//! Sets of erasures that never change, cut into fragments so that a lookup is one binary search.
//!
//! An *erasure* (start, end, ts) hides every version of a key in `start..end` that is older than
//! `ts`, for readers at `ts` or later. It is no version of any row: it lives in a list of the
//! memtable that it came with, and from the flush on in the manifest.
//!
//! Fragments are what the bounds of all erasures cut the keys into: sorted, disjoint, each with the
//! timestamps of all erasures that cover it. n erasures make at most 2n - 1 of them.
//!
//! A fragment of many erasures that overlap one another shares with others what memory its
//! timestamps take, see `times`.

use crate::erasure::times::{Places, Times, Version};
use crate::ids::CommitTs;
use crate::key::range::KeyRange;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Up to so many erasures that overlap one another, each fragment may have a list of its own.
const OWN_LISTS_MAX: usize = 32;

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
    times: Times, // Never empty.
}

impl Fragment {
    fn new(start: &Arc<[u8]>, end: &Arc<[u8]>, times: Times) -> Fragment {
        Fragment { start: Arc::clone(start), end: Arc::clone(end), times }
    }

    /// The newest erasure not newer than `at`; zero where there is none.
    pub(crate) fn newest_at(&self, at: CommitTs) -> CommitTs {
        self.times.newest_at(at).unwrap_or_default()
    }

    /// The oldest erasure that is newer than `ts`.
    pub(crate) fn oldest_above(&self, ts: CommitTs) -> Option<CommitTs> {
        self.times.oldest_above(ts)
    }
}

/// A timestamp on its way to the fragments that it covers.
struct Newcomer {
    ts: CommitTs,
    grown: Option<Grown>,
}

/// A list with a newer timestamp behind what fragments need of it.
struct Grown {
    before: Arc<[CommitTs]>,
    from: usize,
    list: Arc<[CommitTs]>,
}

impl Newcomer {
    /// One that comes to `fragments`.
    fn new(ts: CommitTs, fragments: &[Fragment]) -> Newcomer {
        let mut newcomer = Newcomer { ts, grown: None };
        if let Some(first) = fragments.iter().position(|f| grows(&f.times, ts).is_some()) {
            newcomer.joined(&fragments[first..]);
        }
        newcomer
    }

    /// It alone.
    fn alone(&self) -> Times {
        let Some(Grown { list, .. }) = &self.grown else { return Times::of([self.ts]) };
        Times::Stretch { list: Arc::clone(list), within: list.len() - 1..list.len() }
    }

    /// The times of the first of `fragments`, with it. Others of them may share its list.
    fn joined(&mut self, fragments: &[Fragment]) -> Times {
        let Some(Fragment { times, .. }) = fragments.first() else { return self.alone() };
        let here = times.get();
        let Err(at) = here.binary_search(&self.ts) else { return times.clone() };
        let Some((list, start)) = grows(times, self.ts) else {
            return Times::of([&here[..at], &[self.ts], &here[at..]].concat());
        };
        let known = self.grown.take();
        let known = known.filter(|g| Arc::ptr_eq(&g.before, list) && g.from <= start);
        let grown = known.unwrap_or_else(|| {
            let stretches = fragments.iter().map_while(|fragment| fragment.times.stretch());
            let sharing = stretches.take_while(|(other, _)| Arc::ptr_eq(other, list));
            let from = sharing.map(|(_, within)| within.start).min().unwrap_or_default();
            let longer = [&list[from..], &[self.ts]].concat().into();
            Grown { before: Arc::clone(list), from, list: longer }
        });
        let within = start - grown.from..grown.list.len();
        let joined = Times::Stretch { list: Arc::clone(&grown.list), within };
        self.grown = Some(grown);
        joined
    }
}

/// Where `ts` has its place behind `times` and their list: that list, and where in it they begin.
fn grows(times: &Times, ts: CommitTs) -> Option<(&Arc<[CommitTs]>, usize)> {
    let (list, within) = times.stretch()?;
    let is_behind = within.end == list.len() && list.last().is_some_and(|last| *last < ts);
    is_behind.then_some((list, within.start))
}

/// A set of erasures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Erasures {
    all: Vec<Erasure>, // Ascending, no two equal.
    fragments: Vec<Fragment>,
}

impl Erasures {
    /// The set of `all`. Cost: sorts them, and visits what they cut the keys into once.
    pub(crate) fn of(all: impl IntoIterator<Item = Erasure>) -> Erasures {
        let mut all: Vec<_> =
            all.into_iter().filter(|erasure| erasure.start < erasure.end).collect();
        all.sort_unstable();
        all.dedup();
        let (mut fragments, mut rest) = (Vec::new(), all.as_slice());
        while let Some(first) = rest.first() {
            // Those that overlap one another, some by others between them.
            let (mut end, mut len) = (&first.end, 1);
            while let Some(next) = rest.get(len).filter(|next| next.start < *end) {
                end = end.max(&next.end);
                len += 1;
            }
            let (cluster, behind) = rest.split_at(len);
            cut_cluster(cluster, &mut fragments);
            rest = behind;
        }
        Erasures { all, fragments }
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

    /// The set without `removed`, and with `added`. Cost: that of making it.
    pub(crate) fn changed(&self, removed: &[Erasure], added: &[Erasure]) -> Erasures {
        let mut removed: Vec<&Erasure> = removed.iter().collect();
        removed.sort_unstable();
        let stays = |erasure: &&Erasure| removed.binary_search(erasure).is_err();
        Erasures::of(self.all.iter().filter(stays).chain(added).cloned())
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
    let mut newcomer = Newcomer::new(erasure.ts, fragments);
    let mut out = Vec::with_capacity(2 * fragments.len() + 3);
    let mut from = &erasure.start;
    for (at, fragment) in fragments.iter().enumerate() {
        let (start, end) = (&fragment.start, &fragment.end);
        if start < from {
            out.push(Fragment::new(start, from, fragment.times.clone()));
        } else if from < start {
            out.push(Fragment::new(from, start, newcomer.alone()));
            from = start;
        }
        let to = end.min(&erasure.end);
        out.push(Fragment::new(from, to, newcomer.joined(&fragments[at..])));
        if to < end {
            out.push(Fragment::new(to, end, fragment.times.clone()));
        }
        from = to;
    }
    if *from < erasure.end {
        out.push(Fragment::new(from, &erasure.end, newcomer.alone()));
    }
    out
}

/// Appends the fragments of erasures, at least one, that cover all keys from the first to the last
/// bound of them.
fn cut_cluster(erasures: &[Erasure], out: &mut Vec<Fragment>) {
    let mut times: Vec<CommitTs> = erasures.iter().map(|erasure| erasure.ts).collect();
    times.sort_unstable();
    times.dedup();
    let list: Arc<[CommitTs]> = times.into();
    let bounds = erasures.iter().flat_map(|erasure| {
        let at = list.partition_point(|ts| *ts < erasure.ts);
        [(&erasure.start, at, true), (&erasure.end, at, false)]
    });
    let mut bounds: Vec<_> = bounds.collect();
    bounds.sort_by_key(|(bound, ..)| *bound);
    let mut covering = Covering { list: &list, counts: BTreeMap::new(), tree: None };
    let shares = erasures.len() > OWN_LISTS_MAX;
    let mut chosen = Vec::new();
    let mut from = &erasures[0].start;
    for (bound, at, begins) in bounds {
        if from < bound {
            let times = match covering.stretch() {
                Some(times) => times,
                None if shares => {
                    chosen.push((out.len(), covering.version()));
                    Times::of([]) // Until the tree is whole.
                }
                None => covering.own(),
            };
            out.push(Fragment::new(from, bound, times));
            from = bound;
        }
        covering.change(at, begins);
    }
    let Some((places, _)) = covering.tree else { return };
    let places = Arc::new(places.whole());
    for (at, version) in chosen {
        out[at].times = Times::Chosen { places: Arc::clone(&places), version };
    }
}

/// What covers the keys that come next, on a way through the bounds of erasures.
struct Covering<'a> {
    list: &'a Arc<[CommitTs]>,
    /// How many erasures of each time do, by the place of the time in the list.
    counts: BTreeMap<usize, usize>,
    /// Those places once more, from where it was first asked for.
    tree: Option<(Places, Version)>,
}

impl Covering<'_> {
    fn change(&mut self, at: usize, begins: bool) {
        let count = self.counts.entry(at).or_default();
        let before = *count;
        *count = if begins { before + 1 } else { before - 1 };
        let is_in = *count > 0;
        if !is_in {
            self.counts.remove(&at);
        }
        if let Some((places, version)) = &mut self.tree
            && is_in != (before > 0)
        {
            *version = places.changed(*version, at, is_in);
        }
    }

    /// The times, at least one, where they follow one another in the list.
    fn stretch(&self) -> Option<Times> {
        let ends = self.counts.first_key_value().zip(self.counts.last_key_value());
        let within = ends.map_or(0..0, |((first, _), (last, _))| *first..*last + 1);
        let follow = within.len() == self.counts.len();
        follow.then(|| Times::Stretch { list: Arc::clone(self.list), within })
    }

    /// A list of their own.
    fn own(&self) -> Times {
        Times::of(self.counts.keys().map(|at| self.list[*at]).collect::<Vec<_>>())
    }

    /// Their places in the tree.
    fn version(&mut self) -> Version {
        let (list, counts) = (self.list, &self.counts);
        let (_, version) = self.tree.get_or_insert_with(|| {
            let mut places = Places::in_list(list);
            let with = |version, at: &usize| places.changed(version, *at, true);
            let version = counts.keys().fold(Version::EMPTY, with);
            (places, version)
        });
        *version
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
        let most = if rng.one_in(3) { 4 * OWN_LISTS_MAX as u64 } else { 12 };
        let times = most * 3 / 4;
        let bound = |rng: &mut Rng| vec![b'a' + rng.below(12) as u8; rng.below(2) as usize + 1];
        let one = |rng: &mut Rng| {
            let (a, b) = (bound(rng), bound(rng));
            let (start, end) = if a < b { (a, b) } else { (b.clone(), [b, vec![0]].concat()) };
            erasure(&start, &end, rng.below(times) + 1)
        };
        (0..rng.below(most)).map(|_| one(rng)).collect()
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
                for at in 0..4 * OWN_LISTS_MAX as u64 {
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
            assert_eq!(both.changed(&go, &[]), Erasures::of(stay.clone()), "seed {seed}");
            assert_eq!(Erasures::of(stay).changed(&[], &go), both, "seed {seed}");
        }
    }

    fn one_by_one(all: &[Erasure]) -> Erasures {
        let mut set = Erasures::default();
        all.iter().for_each(|erasure| set.insert(erasure.clone()));
        set
    }

    #[test]
    fn one_by_one_they_make_the_same_set_as_together() {
        for seed in 0..300 {
            let mut list = random(&mut Rng::seeded(seed));
            assert_eq!(one_by_one(&list), Erasures::of(list.clone()), "seed {seed}");
            list.sort_by_key(|erasure| erasure.ts);
            assert_eq!(one_by_one(&list), Erasures::of(list), "seed {seed}");
        }
    }

    /// Timestamps that the fragments of a set hold, those of a list or a tree that some share once.
    fn times_held(set: &Erasures) -> usize {
        let held = set.fragments.iter().map(|fragment| match &fragment.times {
            Times::Stretch { list, .. } => (list.as_ptr().cast::<u8>(), list.len()),
            Times::Chosen { places, .. } => (Arc::as_ptr(places).cast(), places.len()),
        });
        held.collect::<BTreeMap<_, _>>().into_values().sum()
    }

    #[test]
    fn what_is_trimmed_again_and_again_takes_as_much_as_there_are_erasures() {
        const N: u32 = 600;
        let bound = |n: u32| (1000 + n).to_be_bytes();
        type Bounds = fn(u32) -> (u32, u32);
        let shapes: [(&str, Bounds); 5] = [
            ("from the start", |n| (0, n + 1)),
            ("to the end", |n| (N - n, N + 1)),
            ("the same", |_| (3, 9)),
            ("a window that moves", |n| (n, n + 5)),
            ("apart", |n| (2 * n, 2 * n + 1)),
        ];
        // Those of a fragment do not follow one another.
        let mixed: [(&str, Bounds); 4] = [
            ("all of it, then from the start", |n| (0, if n == 0 { N } else { n })),
            ("two in turn, then both", |n| match n {
                599 => (0, 4 * N),
                _ => (n % 2 * 2 * N, n % 2 * 2 * N + n + 1),
            }),
            ("now and then less far", |n| (0, if n % 10 == 0 { n / 2 + 1 } else { n + 1 })),
            ("anywhere", |n| (n * 389 % N, n * 389 % N + 1 + n * 211 % N)),
        ];
        let all = |range: Bounds| -> Vec<_> {
            let one = |n| {
                let (start, end) = range(n);
                erasure(&bound(start), &bound(end), u64::from(n) + 1)
            };
            (0..N).map(one).collect()
        };
        for (shape, range) in shapes {
            for set in [Erasures::of(all(range)), one_by_one(&all(range))] {
                let held = times_held(&set);
                assert!(held <= 6 * N as usize, "{shape}: {held} timestamps");
            }
        }
        for (shape, range) in mixed {
            let set = Erasures::of(all(range));
            assert!(set.fragments.iter().any(|f| f.times.stretch().is_none()), "{shape}");
            let held = times_held(&set);
            assert!(held <= 2 * N as usize * 11, "{shape}: {held} timestamps");
            assert_eq!(set, one_by_one(&all(range)), "{shape}");
        }
    }
}

//! Erasures as readers meet them: the growing list beside a memtable, and all lists of a View as
//! one.
//!
//! Where nothing is erased, a reader pays one branch per memtable and file set.

use crate::cursor::Direction;
use crate::erasure::set::{Erasure, Erasures};
use crate::ids::CommitTs;
use crate::sync::ArcSwap;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// Bytes that one erasure of a memtable counts for beside its keys.
const ERASURE_OVERHEAD_BYTES: usize = 256;

/// So many stretches are looked at to pass them in one: each is a search in memory, and a pass a
/// seek of every source.
const JOINED_MAX: usize = 64;

/// Of a commit with more erasures the set is made anew: one by one, each would move or cut all that
/// there are.
const ONE_BY_ONE_MAX: usize = 8;

/// The erasures of one memtable. One thread adds at a time; any number read meanwhile, and a reader
/// at a timestamp finds every erasure up to it that was added before the reader began.
#[derive(Debug, Default)]
pub(crate) struct ErasureList {
    any: AtomicBool,
    set: ArcSwap<Erasures>,
    bytes: AtomicUsize,
}

impl ErasureList {
    /// Adds the erasures of one commit.
    pub(crate) fn add(&self, erasures: Vec<Erasure>) {
        let set = self.set.load();
        let set = match erasures.len() {
            0..=ONE_BY_ONE_MAX => {
                let mut set = Erasures::clone(&set);
                erasures.into_iter().for_each(|erasure| set.insert(erasure));
                set
            }
            _ => set.changed(&[], &erasures),
        };
        let one = |e: &Erasure| ERASURE_OVERHEAD_BYTES + e.start.len() + e.end.len();
        self.bytes.store(set.iter().map(one).sum(), Ordering::Relaxed);
        self.set.store(Arc::new(set));
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// What was added so far.
    pub(crate) fn get(&self) -> Arc<Erasures> {
        self.set.load_full()
    }

    pub(crate) fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.set.load().len() }
    }

    /// Bytes of memory that they take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The newest erasure of `key` not newer than `at`; zero where there is none.
    pub(crate) fn newest_at(&self, key: &[u8], at: CommitTs) -> CommitTs {
        if self.is_empty() { CommitTs::ZERO } else { self.set.load().newest_at(key, at) }
    }
}

/// What is erased for one scan: its timestamp, and the sets that are not empty.
#[derive(Debug)]
pub(crate) struct Cover {
    sets: Vec<Arc<Erasures>>,
    at: CommitTs,
    here: Stretch,
}

/// Keys whose versions before a moment are hidden.
#[derive(Clone, Debug)]
pub(crate) struct Hidden {
    pub(crate) before: CommitTs,
    pub(crate) start: Arc<[u8]>,
    pub(crate) end: Arc<[u8]>,
}

/// Keys around the one last asked for that have the same answer. A missing bound has no key beyond.
#[derive(Debug, Default)]
struct Stretch {
    start: Option<Arc<[u8]>>,
    end: Option<Arc<[u8]>>,
    newest: CommitTs,
    known: bool,
}

impl Stretch {
    fn holds(&self, key: &[u8]) -> bool {
        self.known
            && self.end.as_ref().is_none_or(|end| key < &**end)
            && self.start.as_ref().is_none_or(|start| &**start <= key)
    }
}

impl Cover {
    /// What `sets` hide from a reader at `at`.
    pub(crate) fn new(sets: impl Iterator<Item = Arc<Erasures>>, at: CommitTs) -> Cover {
        let sets = sets.filter(|set| !set.is_empty()).collect();
        Cover { sets, at, here: Stretch::default() }
    }

    /// Whether nothing is.
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// How far in `direction` from `key` on nothing is hidden, `fence` at most: below the answer on
    /// the way up, above it on the way down. `None` where something may be hidden at `key`.
    pub(crate) fn clear_to<'a>(
        &'a mut self,
        direction: Direction,
        key: &[u8],
        fence: &'a [u8],
    ) -> Option<&'a [u8]> {
        if self.newest(key) > CommitTs::ZERO {
            return None;
        }
        let bound = match direction {
            Direction::Up => self.here.end.as_deref().map(|end| end.min(fence)),
            Direction::Down => self.here.start.as_deref().map(|start| start.max(fence)),
        };
        Some(bound.unwrap_or(fence))
    }

    /// Whether the version of `ts` is hidden. Cost: a branch where nothing is erased; two
    /// comparisons while the keys asked for stay between the same bounds.
    pub(crate) fn hides(&mut self, key: &[u8], ts: CommitTs) -> bool {
        !self.sets.is_empty() && ts < self.newest(key)
    }

    /// From `key` on, up to `fence` at most: before which timestamp versions are hidden (zero where
    /// nothing is), and the first key where the answer may be another.
    pub(crate) fn hidden_to<'a>(&'a mut self, key: &[u8], fence: &'a [u8]) -> (CommitTs, &'a [u8]) {
        if self.sets.is_empty() {
            return (CommitTs::ZERO, fence);
        }
        let before = self.newest(key);
        (before, self.here.end.as_deref().map_or(fence, |end| end.min(fence)))
    }

    fn newest(&mut self, key: &[u8]) -> CommitTs {
        if !self.here.holds(key) {
            self.find(key);
        }
        self.here.newest
    }

    /// After [`Cover::hides`] said yes: the moment of the erasure, and the keys around that it
    /// covers, from and to before. Above the key that is beyond bounds of older erasures, as of
    /// ranges that were deleted again and again, each a little further.
    pub(crate) fn hidden(&mut self) -> Hidden {
        for _ in 0..JOINED_MAX {
            let Some(end) = self.here.end.as_deref() else { break };
            let next = self.stretch_of(end);
            if next.newest != self.here.newest {
                break;
            }
            self.here.end = next.end;
        }
        // An erasure has both bounds, and no stretch reaches beyond those of one that covers it.
        let bound = |bound: &Option<Arc<[u8]>>| bound.clone().unwrap_or_default();
        Hidden {
            before: self.here.newest,
            start: bound(&self.here.start),
            end: bound(&self.here.end),
        }
    }

    fn find(&mut self, key: &[u8]) {
        self.here = self.stretch_of(key);
    }

    fn stretch_of(&self, key: &[u8]) -> Stretch {
        let mut here = Stretch { known: true, ..Stretch::default() };
        let raise = |start: &mut Option<Arc<[u8]>>, to: &Arc<[u8]>| {
            if start.as_ref().is_none_or(|start| start < to) {
                *start = Some(Arc::clone(to));
            }
        };
        let lower = |end: &mut Option<Arc<[u8]>>, to: &Arc<[u8]>| {
            if end.as_ref().is_none_or(|end| to < end) {
                *end = Some(Arc::clone(to));
            }
        };
        for set in &self.sets {
            let at = set.fragment_from(key);
            if let Some(before) = at.checked_sub(1).and_then(|at| set.fragments().get(at)) {
                raise(&mut here.start, &before.end);
            }
            let Some(fragment) = set.fragments().get(at) else { continue };
            if *fragment.start <= *key {
                raise(&mut here.start, &fragment.start);
                lower(&mut here.end, &fragment.end);
                here.newest = here.newest.max(fragment.newest_at(self.at));
            } else {
                lower(&mut here.end, &fragment.start);
            }
        }
        here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::rng::Rng;

    #[test]
    fn a_walk_in_any_order_is_answered_as_by_the_sets() {
        for seed in 0..200 {
            let mut rng = Rng::seeded(seed);
            let set = |rng: &mut Rng| {
                let one = |rng: &mut Rng| {
                    let start = rng.below(20) as u8;
                    let end = start + 1 + rng.below(6) as u8;
                    let ts = CommitTs(rng.below(9) + 1);
                    Erasure { start: [start].into(), end: [end].into(), ts }
                };
                let all: Vec<_> = (0..rng.below(5)).map(|_| one(rng)).collect();
                Arc::new(Erasures::of(all))
            };
            let sets: Vec<_> = (0..3).map(|_| set(&mut rng)).collect();
            let at = CommitTs(rng.below(10));
            let mut cover = Cover::new(sets.iter().cloned(), at);
            for _ in 0..200 {
                let (key, ts) = ([rng.below(27) as u8], CommitTs(rng.below(10)));
                let want = sets.iter().any(|set| ts < set.newest_at(&key, at));
                assert_eq!(cover.hides(&key, ts), want, "seed {seed} {key:?}");
                if want {
                    let hidden = cover.hidden();
                    assert!(
                        *hidden.start <= key[..] && key[..] < *hidden.end && ts < hidden.before
                    );
                }
            }
        }
    }

    #[test]
    fn what_was_trimmed_again_and_again_is_passed_in_few_steps() {
        const N: u32 = 1_000;
        let bound = |n: u32| Arc::<[u8]>::from(n.to_be_bytes());
        let trim = |n: u32| Erasure { start: bound(0), end: bound(n), ts: CommitTs(n.into()) };
        let sets = [Erasures::of((1..=N).map(trim)), Erasures::of([trim(N / 2)])];
        let mut cover = Cover::new(sets.into_iter().map(Arc::new), CommitTs::MAX);
        let (mut at, mut steps) = (bound(0), 0);
        while cover.hides(&at, CommitTs(1)) {
            let hidden = cover.hidden();
            assert!(hidden.before == CommitTs(N.into()) && hidden.end > at);
            (at, steps) = (hidden.end, steps + 1);
        }
        assert_eq!(at, bound(N));
        assert!(steps <= 2 + N as usize / JOINED_MAX, "{steps} steps");
    }

    #[test]
    fn a_reader_finds_what_was_added_before() {
        let list = ErasureList::default();
        assert!(list.is_empty() && list.bytes() == 0);
        let erasure =
            Erasure { start: b"b".as_slice().into(), end: b"d".as_slice().into(), ts: CommitTs(5) };
        list.add(vec![erasure.clone(), erasure]);
        assert_eq!((list.len(), list.is_empty()), (1, false));
        let found = |key: &[u8], at| list.newest_at(key, CommitTs(at)).0;
        assert_eq!([found(b"a", 9), found(b"b", 4), found(b"b", 5), found(b"d", 9)], [0, 0, 5, 0]);
    }
}

//! The most frequent names of a stream, in a fixed number of places: the Space-Saving sketch.
//!
//! After Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
//! Data Streams", ICDT 2005. A name that has a place is counted there. One that has none takes the
//! place with the lowest count and goes on from that count, which is then the most that it may be
//! wrong by.
//!
//! Promise: with N counted at m places, no count is below the truth, none is above it by more than
//! its error, no error is above N/m, and every name counted more than N/m times has a place.

/// A name's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<T> {
    /// What was kept with the name.
    pub kept: T,
    /// How often it came, at most.
    pub count: u64,
    /// By how much that may be too much.
    pub error: u64,
}

/// The sketch. Names are told apart by a hash of 64 bits that strangers cannot foresee.
#[derive(Clone, Debug)]
pub struct Sketch<T> {
    /// By place, as the next two: a look for a name goes through these alone.
    hashes: Vec<u64>,
    counts: Vec<u64>,
    rest: Vec<(T, u64)>,
    places: usize,
    total: u64,
}

impl<T> Sketch<T> {
    /// One with so many places, at least one.
    pub fn new(places: usize) -> Sketch<T> {
        let places = places.max(1);
        Sketch {
            hashes: Vec::with_capacity(places),
            counts: Vec::with_capacity(places),
            rest: Vec::with_capacity(places),
            places,
            total: 0,
        }
    }

    /// Counts a name `times` times; `keep` is asked for what is to be kept where it gets a new
    /// place.
    pub fn add(&mut self, hash: u64, times: u64, keep: impl FnOnce() -> T) {
        self.total = self.total.saturating_add(times);
        if let Some(place) = place_of(&self.hashes, hash) {
            self.counts[place] = self.counts[place].saturating_add(times);
            return;
        }
        if self.hashes.len() < self.places {
            self.hashes.push(hash);
            self.counts.push(times);
            self.rest.push((keep(), 0));
            return;
        }
        let place = lowest(&self.counts);
        let before = self.counts[place];
        self.hashes[place] = hash;
        self.counts[place] = before.saturating_add(times);
        self.rest[place] = (keep(), before);
    }

    /// All that was counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The names with the highest counts, highest first, `most` at most.
    pub fn top(&self, most: usize) -> Vec<Counted<&T>> {
        let places = self.counts.iter().zip(&self.rest);
        let mut all: Vec<_> = places
            .map(|(count, (kept, error))| Counted { kept, count: *count, error: *error })
            .collect();
        all.sort_by_key(|counted| std::cmp::Reverse(counted.count));
        all.truncate(most);
        all
    }
}

/// Blocks of this many are compared without a branch in between, which the compiler makes one step
/// of.
const LANES: usize = 8;

fn place_of(hashes: &[u64], hash: u64) -> Option<usize> {
    let blocks = hashes.chunks_exact(LANES);
    let behind = hashes.len() - blocks.remainder().len();
    for (number, block) in blocks.enumerate() {
        if block.iter().fold(false, |found, own| found | (*own == hash)) {
            return block.iter().position(|own| *own == hash).map(|at| number * LANES + at);
        }
    }
    hashes[behind..].iter().position(|own| *own == hash).map(|at| behind + at)
}

/// The place of the lowest count.
fn lowest(counts: &[u64]) -> usize {
    let least = counts.iter().copied().min().unwrap_or_default();
    place_of(counts, least).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use tabulith::env::rng::Rng;
    use tabulith_testkit::seed;

    /// A stream in which low names come often, the more so the higher `skew` is; and what a map
    /// says of it.
    fn stream(rng: &mut Rng, skew: u32) -> (Vec<(u64, u64)>, HashMap<u64, u64>) {
        let names = 1 + rng.next_u64() % 2_000;
        let mut truth = HashMap::new();
        let stream: Vec<_> = (0..5_000)
            .map(|_| {
                let name = (0..=skew).map(|_| rng.next_u64() % names).min().unwrap_or_default();
                let times =
                    1 + if rng.next_u64().is_multiple_of(10) { rng.next_u64() % 100 } else { 0 };
                *truth.entry(name).or_insert(0) += times;
                (name, times)
            })
            .collect();
        (stream, truth)
    }

    #[test]
    fn counts_are_as_good_as_the_paper_says() {
        let mut held = 0;
        let first = seed::seed_or(1);
        for seed in first..first + 60 {
            let mut rng = Rng::seeded(seed);
            let places = 1 + (rng.next_u64() % 200) as usize;
            let (stream, truth) = stream(&mut rng, (seed % 8) as u32);
            let mut sketch = Sketch::new(places);
            for (name, times) in &stream {
                sketch.add(*name, *times, || *name);
            }
            let replay = format!("replay: TABULITH_SEED={seed}");
            let total: u64 = truth.values().sum();
            assert_eq!(sketch.total(), total, "{replay}");
            let all = sketch.top(usize::MAX);
            assert_eq!(all.iter().map(|own| own.count).sum::<u64>(), total, "{replay}");
            assert!(all.is_sorted_by(|a, b| a.count >= b.count), "{replay}");
            for Counted { kept, count, error } in &all {
                let true_count = truth[*kept];
                assert!(true_count <= *count && count - error <= true_count, "{replay}: {kept}");
                assert!(*error <= total / places as u64, "{replay}: {kept} by {error}");
                held += 1;
            }
            for (name, _) in truth.iter().filter(|(_, n)| **n > total / places as u64) {
                assert!(all.iter().any(|own| own.kept == name), "{replay}: {name} has no place");
            }
            assert!(all.len() <= places, "{replay}");
        }
        assert!(held > 1_000, "{held}");
    }

    #[test]
    fn with_places_for_all_nothing_is_wrong() {
        let mut sketch = Sketch::new(19);
        for name in 0..19_u64 {
            for _ in 0..=name {
                sketch.add(name * 7, 1, || name);
            }
        }
        let top = sketch.top(3);
        let exact = |kept: &'static u64| Counted { kept, count: kept + 1, error: 0 };
        assert_eq!(top, [exact(&18), exact(&17), exact(&16)]);
    }

    #[test]
    fn a_name_is_found_at_every_place() {
        for len in 0..40_u64 {
            let hashes: Vec<u64> = (0..len).collect();
            for hash in 0..len + 2 {
                assert_eq!(place_of(&hashes, hash), (hash < len).then_some(hash as usize));
            }
        }
    }
}

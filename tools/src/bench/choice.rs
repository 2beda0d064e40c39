//! Which row an operation is about: in order, each once in no order, uniform, zipfian, latest.

use crate::args::bench::Choice;
use tabulith::env::rng::Rng;

/// A number from 0 up to 1, 1 excluded.
pub(crate) fn fraction(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Every number below a count once, in an order that looks like none: a Feistel network over the
/// bits that the count needs, walked on where it leaves the range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Shuffle {
    /// The order of `seed`.
    pub(crate) fn new(count: u64, seed: u64) -> Shuffle {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Shuffle { count: count.max(1), half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// The number at a place; places beyond the count begin anew.
    pub(crate) fn at(&self, place: u64) -> u64 {
        let mut number = place % self.count;
        loop {
            number = self.round(number);
            if number < self.count {
                return number;
            }
        }
    }

    fn round(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 0..4_u64 {
            let mixed = Rng::seeded(self.seed ^ (round << 56) ^ right).next_u64() & mask;
            (left, right) = (right, left ^ mixed);
        }
        (left << self.half_bits) | right
    }
}

/// How skewed YCSB's zipfian distribution is.
pub(crate) const THETA: f64 = 0.99;

/// Ranks from 0, each as likely as 1 / (rank + 1)^[`THETA`], drawn without a table.
///
/// Source: Hörmann, Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", 1996. YCSB itself approximates all but the first two ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    count: u64,
    first: f64,
    last: f64,
    accept: f64,
}

impl Zipf {
    /// Of so many ranks.
    pub(crate) fn new(count: u64) -> Zipf {
        let count = count.max(1);
        let accept = 2.0 - inverse(integral(2.5) - weight(2.0));
        Zipf { count, first: integral(1.5) - 1.0, last: integral(count as f64 + 0.5), accept }
    }

    /// One rank.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.last + fraction(rng) * (self.first - self.last);
            let x = inverse(u);
            let k = x.round().clamp(1.0, self.count as f64);
            if k - x <= self.accept || u >= integral(k + 0.5) - weight(k) {
                return k as u64 - 1;
            }
        }
    }
}

fn weight(x: f64) -> f64 {
    (-THETA * x.ln()).exp()
}

/// The integral of [`weight`], 0 at 1.
fn integral(x: f64) -> f64 {
    ((1.0 - THETA) * x.ln()).exp_m1() / (1.0 - THETA)
}

fn inverse(y: f64) -> f64 {
    ((y * (1.0 - THETA)).ln_1p() / (1.0 - THETA)).exp()
}

/// Draws rows of a growing set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chooser {
    choice: Choice,
    zipf: Zipf,
    spread: Shuffle,
}

impl Chooser {
    /// Of `rows` rows that are there in the beginning.
    pub(crate) fn new(choice: Choice, rows: u64, seed: u64) -> Chooser {
        let rows = rows.max(1);
        let spread = Shuffle::new(rows, seed ^ 0x5ca7_7e2e);
        Chooser { choice, zipf: Zipf::new(rows), spread }
    }

    /// One row of those numbered below `newest`, which is what has been added meanwhile.
    pub(crate) fn draw(&self, newest: u64, rng: &mut Rng) -> u64 {
        match self.choice {
            Choice::Uniform => rng.below(newest.max(1)),
            Choice::Zipfian => self.spread.at(self.zipf.draw(rng)),
            Choice::Latest => newest.max(1) - 1 - self.zipf.draw(rng).min(newest.max(1) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabulith_testkit::seed::{Replay, seed_or};

    const DRAWS: usize = 400_000;

    /// How often each number came.
    fn counted(numbers: u64, draw: impl FnMut() -> u64) -> Vec<usize> {
        let mut counts = vec![0; numbers as usize];
        std::iter::repeat_with(draw).take(DRAWS).for_each(|at| counts[at as usize] += 1);
        counts
    }

    /// Pearson's chi-square against the probabilities, in standard deviations above its mean.
    fn deviation(counts: &[usize], probabilities: &[f64]) -> f64 {
        let each = counts.iter().zip(probabilities).map(|(seen, p)| {
            let wanted = p * DRAWS as f64;
            (*seen as f64 - wanted).powi(2) / wanted
        });
        let freedom = (counts.len() - 1) as f64;
        (each.sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
    }

    fn zipf_probabilities(ranks: u64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=ranks).map(|rank| (rank as f64).powf(-THETA)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    fn seeded() -> (Rng, Replay) {
        let seed = seed_or(20_261_122);
        (Rng::seeded(seed), Replay::new(seed, "cargo test -p tabulith-tools --bin tabulith choice"))
    }

    #[test]
    fn a_shuffle_has_every_number_once_and_in_no_order() {
        for count in [1, 2, 3, 7, 100, 1_000, 65_537] {
            let shuffle = Shuffle::new(count, 7);
            let mut seen: Vec<u64> = (0..count).map(|place| shuffle.at(place)).collect();
            let rising = seen.windows(2).filter(|pair| pair[0] < pair[1]).count();
            if count >= 1_000 {
                let share = rising as f64 / count as f64;
                assert!((0.45..0.55).contains(&share), "{count}: {share} rise");
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
            assert_eq!(shuffle.at(count), shuffle.at(0), "beyond the end it begins anew");
        }
    }

    #[test]
    fn zipfian_ranks_come_as_often_as_the_distribution_says() {
        let (mut rng, _replay) = seeded();
        for ranks in [2, 10, 1_000] {
            let zipf = Zipf::new(ranks);
            let off =
                deviation(&counted(ranks, || zipf.draw(&mut rng)), &zipf_probabilities(ranks));
            assert!(off.abs() < 5.0, "{ranks} ranks: {off} standard deviations");
        }
        // A distribution that is slightly another one is told from it.
        let zipf = Zipf::new(1_000);
        let mut other = zipf_probabilities(1_000);
        let moved = other[0] * 0.05;
        (other[0], other[999]) = (other[0] - moved, other[999] + moved);
        assert!(deviation(&counted(1_000, || zipf.draw(&mut rng)), &other) > 20.0);
    }

    #[test]
    fn latest_is_zipfian_from_the_newest_on_and_follows_it() {
        let (mut rng, _replay) = seeded();
        let chooser = Chooser::new(Choice::Latest, 1_000, 1);
        let mut counts = counted(1_000, || chooser.draw(1_000, &mut rng));
        counts.reverse();
        let off = deviation(&counts, &zipf_probabilities(1_000));
        assert!(off.abs() < 5.0, "{off} standard deviations");
        let grown = (0..1_000).map(|_| chooser.draw(5_000, &mut rng)).min();
        assert!(grown >= Some(4_000), "the newest rows, not the first ones: {grown:?}");
    }

    #[test]
    fn uniform_and_spread_choices_stay_within_the_rows() {
        let (mut rng, _replay) = seeded();
        let uniform = Chooser::new(Choice::Uniform, 100, 1);
        let off = deviation(&counted(100, || uniform.draw(100, &mut rng)), &[0.01; 100]);
        assert!(off.abs() < 5.0, "{off}");
        let zipfian = Chooser::new(Choice::Zipfian, 1_000, 1);
        let mut counts = counted(1_000, || zipfian.draw(1_000, &mut rng));
        let first = counts.iter().position(|count| Some(count) == counts.iter().max());
        assert_ne!(first, Some(0), "hot rows are spread");
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let share = counts[0] as f64 / DRAWS as f64;
        assert!((share - zipf_probabilities(1_000)[0]).abs() < 0.01, "{share}");
    }
}

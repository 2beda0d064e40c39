//! Seeds: every random choice of a test comes from one number, and a failure prints that number.

use std::env;

/// The variable that replays a run: `TABULITH_SEED=7 cargo test …`.
pub const SEED_VARIABLE: &str = "TABULITH_SEED";

/// The seed of the environment, or `default` where there is none.
pub fn seed_or(default: u64) -> u64 {
    number(SEED_VARIABLE).unwrap_or(default)
}

/// The number in an environment variable, if it holds one; blanks and `_` between digits are fine.
pub fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | ' ' | ',')).collect();
    digits.parse().ok()
}

/// Prints how to replay the run when the test panics while it lives.
#[derive(Debug)]
pub struct Replay {
    seed: u64,
    command: String,
}

impl Replay {
    /// Guards a test that `command` runs, such as `cargo test -p tabulith --test oracle`.
    pub fn new(seed: u64, command: impl Into<String>) -> Replay {
        Replay { seed, command: command.into() }
    }
}

impl Drop for Replay {
    #[allow(clippy::print_stderr, reason = "the reader of a failed test needs the line")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: {SEED_VARIABLE}={} {}", self.seed, self.command);
        }
    }
}

/// A small generator (SplitMix64): equal seeds give equal choices on every machine, for ever.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        assert!(end > 0, "no number is below 0");
        // The bias of the remainder is below 2^-32 for every `end` that a test uses.
        (self.next_u64() % end as u64) as usize
    }

    /// A number from `start` to `last`, both included.
    pub fn between(&mut self, start: usize, last: usize) -> usize {
        start + self.below(last - start + 1)
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A number below `end` that is small more often than large: half the time in the first
    /// eighth. Gives hot keys beside rare ones.
    pub fn skewed_below(&mut self, end: usize) -> usize {
        if self.chance(50) { self.below(end.div_ceil(8)) } else { self.below(end) }
    }

    /// `len` bytes of any value.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_choices_for_ever() {
        let mut rng = Rng::new(7);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        let known = [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c, 0xe698_4080_bab1_2a02];
        assert_eq!(first, known);
    }

    #[test]
    fn choices_stay_in_their_range_and_reach_its_ends() {
        let mut rng = Rng::new(1);
        let found: std::collections::BTreeSet<_> = (0..1000).map(|_| rng.between(3, 6)).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert!((0..1000).all(|_| rng.skewed_below(10) < 10));
        assert_eq!(rng.bytes(11).len(), 11);
        assert!(!rng.chance(0) && rng.chance(100));
    }
}

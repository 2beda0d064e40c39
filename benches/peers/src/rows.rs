//! The rows: composite keys such as `tenant-000123` / `order-0000001234`, values of some 200 bytes
//! or 1 KiB that LZ4 halves, each of which says whose it is.

use crate::engine::{Key, SEPARATOR};
use anyhow::{Result, ensure};
use tabulith::env::rng::Rng;

/// Rows of one partition.
pub const PARTITION_ROWS: u64 = 1000;

/// Bytes of a key: 13 and 16, and the separator.
pub const KEY_BYTES: usize = 30;

/// Bytes of a PartitionKey.
pub const PARTITION_BYTES: usize = 13;

/// Bytes of a value, unless a line's name says otherwise.
pub const SMALL: usize = 200;

/// Bytes of a value where a line's name says 1 KiB.
pub const MEDIUM: usize = 1024;

/// What a line's name says of the size of its values.
pub fn size_of(value_bytes: usize) -> &'static str {
    match value_bytes {
        MEDIUM => ", 1 KiB",
        _ => "",
    }
}

/// What every value begins with: the row's number, its revision, its tag.
pub const VALUE_HEAD_BYTES: usize = 24;

/// The key of one row after the other, written in place: formatting one with `format!` takes a good
/// part of what a read takes.
#[derive(Clone, Debug)]
pub struct KeyBuf([u8; KEY_BYTES]);

impl Default for KeyBuf {
    fn default() -> KeyBuf {
        let mut bytes = *b"tenant-000000.order-0000000000";
        bytes[PARTITION_BYTES] = SEPARATOR;
        KeyBuf(bytes)
    }
}

impl KeyBuf {
    /// The key of row `i`. Keys rise with `i`.
    pub fn row(&mut self, i: u64) -> Key<'_> {
        // Even numbers: between any two rows there is room for one that does not exist.
        self.set(i / PARTITION_ROWS, i % PARTITION_ROWS * 2)
    }

    /// A key that no row has, next to the key of row `i`.
    pub fn absent(&mut self, i: u64) -> Key<'_> {
        self.set(i / PARTITION_ROWS, i % PARTITION_ROWS * 2 + 1)
    }

    /// The key that was written last.
    pub fn key(&self) -> Key<'_> {
        Key { whole: &self.0, partition_bytes: PARTITION_BYTES }
    }

    /// Row `order` of partition `partition`, which may have more than [`PARTITION_ROWS`].
    pub fn set(&mut self, partition: u64, order: u64) -> Key<'_> {
        digits(&mut self.0[7..PARTITION_BYTES], partition);
        digits(&mut self.0[PARTITION_BYTES + 7..], order);
        self.key()
    }
}

fn digits(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// PartitionKey of partition `p`.
pub fn partition(p: u64) -> Vec<u8> {
    KeyBuf::default().set(p, 0).partition().to_vec()
}

/// Makes values: half of each is random, and in no other one, the other half one letter.
#[derive(Clone, Debug)]
pub struct Values {
    pool: Vec<u8>,
    at: usize,
    value: Vec<u8>,
    masks: Rng,
}

impl Values {
    /// Values of `bytes` each, at least [`VALUE_HEAD_BYTES`] times two.
    pub fn new(bytes: usize, seed: u64) -> Values {
        let mut rng = Rng::seeded(seed);
        let words = (bytes.max(64 << 10) * 2).div_ceil(8);
        let pool = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        let value = vec![b'v'; bytes.max(2 * VALUE_HEAD_BYTES)];
        Values { pool, at: 0, value, masks: rng }
    }

    /// The value of row `i` after `revision` changes.
    pub fn value(&mut self, i: u64, revision: u64) -> &[u8] {
        let half = self.value.len() / 2;
        self.at = (self.at + 97) % (self.pool.len() - half);
        let (random, _) = self.value[..half].as_chunks_mut::<8>();
        let (pool, _) = self.pool[self.at..self.at + half].as_chunks::<8>();
        // Nearly as fast as a copy; places of the pool overlap, and what lies there would be found
        // again by who compresses several values together.
        let mask = self.masks.next_u64();
        for (to, from) in random.iter_mut().zip(pool) {
            *to = (u64::from_le_bytes(*from) ^ mask).to_le_bytes();
        }
        self.value[..8].copy_from_slice(&i.to_le_bytes());
        self.value[8..16].copy_from_slice(&revision.to_le_bytes());
        &self.value
    }

    /// The value of row `i` with the tag `tag`, by which [`tag_of`] finds it.
    pub fn tagged(&mut self, i: u64, tag: u64) -> &[u8] {
        self.value(i, 0);
        self.value[16..24].copy_from_slice(&tag.to_le_bytes());
        &self.value
    }
}

/// The tag of a value made by [`Values::tagged`].
pub fn tag_of(value: &[u8]) -> u64 {
    number_at(value, 16)
}

/// The row that a value belongs to.
pub fn row_of(value: &[u8]) -> u64 {
    number_at(value, 0)
}

/// How often a row had been changed when it got this value.
pub fn revision_of(value: &[u8]) -> u64 {
    number_at(value, 8)
}

fn number_at(value: &[u8], at: usize) -> u64 {
    let bytes = value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(u64::MAX, u64::from_le_bytes)
}

/// Adds up what a scan saw, to be held against what it should have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Rows.
    pub rows: u64,
    /// Sum of their numbers.
    pub numbers: u64,
    /// Bytes of their values.
    pub bytes: u64,
}

impl Sum {
    /// Rows `from` to `to`, without `to`, with values of `value_bytes`.
    pub fn of(from: u64, to: u64, value_bytes: usize) -> Sum {
        let rows = to - from;
        let numbers = (u128::from(from + to).saturating_sub(1) * u128::from(rows) / 2) as u64;
        Sum { rows, numbers, bytes: rows * value_bytes as u64 }
    }

    /// One more row.
    pub fn add(&mut self, value: &[u8]) {
        self.rows += 1;
        self.numbers = self.numbers.wrapping_add(row_of(value));
        self.bytes += value.len() as u64;
    }

    /// An error unless all is as it should be.
    pub fn check(self, expected: Sum) -> Result<()> {
        ensure!(self == expected, "read {self:?}, should be {expected:?}");
        Ok(())
    }
}

/// A Zipfian distribution with YCSB's constant of 0.99.
///
/// Source: Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994.
#[derive(Clone, Copy, Debug)]
pub struct Zipfian {
    rows: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipfian {
    /// Over `rows` rows.
    pub fn over(rows: u64) -> Zipfian {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let (n, zeta_n) = (rows as f64, zeta(rows));
        let eta = (1.0 - (2.0 / n).powf(1.0 - THETA)) / (1.0 - zeta(2) / zeta_n);
        Zipfian { rows, zeta: zeta_n, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// `count` numbers of rows of which few are asked for often, and these are no neighbours:
    /// YCSB's scrambled distribution, drawn before the clock runs.
    pub fn scrambled(&self, count: usize, seed: u64) -> Vec<u32> {
        let scramble = |rank: u32| Rng::seeded(u64::from(rank)).next_u64() % self.rows;
        self.ranks(count, seed).into_iter().map(|rank| scramble(rank) as u32).collect()
    }

    /// `count` ranks, small ones most often.
    pub fn ranks(&self, count: usize, seed: u64) -> Vec<u32> {
        let mut rng = Rng::seeded(seed);
        let mut draw = || {
            let u = rng.next_u64() as f64 / u64::MAX as f64;
            let rank = match u * self.zeta {
                uz if uz < 1.0 => 0,
                uz if uz < 1.0 + 0.5f64.powf(THETA) => 1,
                _ => (self.rows as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64,
            };
            rank.min(self.rows - 1) as u32
        };
        (0..count).map(|_| draw()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Values;
    use std::collections::HashSet;

    /// Else who compresses several values together finds one in the other.
    #[test]
    fn the_random_half_of_a_value_is_in_no_other_one() {
        for (bytes, values) in [(200, 5000), (1024, 1000), (64 << 10, 20)] {
            let (mut made, mut seen) = (Values::new(bytes, 1), HashSet::new());
            for i in 0..values {
                let random = &made.value(i, 0)[24..bytes / 2 / 8 * 8];
                for window in random.windows(8) {
                    assert!(seen.insert(window.to_vec()), "value {i} of {bytes} bytes");
                }
            }
        }
    }
}

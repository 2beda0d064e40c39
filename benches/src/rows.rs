//! The rows that are written and read: keys with a prefix in common, values that compress to half.

use tabulith::env::rng::Rng;

/// Rows of one partition.
pub const PARTITION_ROWS: u64 = 1000;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 200;

/// PartitionKey and RowKey of row `i` of a table: 13 and 16 bytes, rising with `i`.
pub fn keys(i: u64) -> (String, String) {
    (partition(i / PARTITION_ROWS), row(i % PARTITION_ROWS))
}

/// PartitionKey of partition `p`.
pub fn partition(p: u64) -> String {
    format!("tenant-{p:06}")
}

/// RowKey of row `r` of its partition.
pub fn row(r: u64) -> String {
    format!("order-{r:010}")
}

/// A RowKey between those of rows `r` and `r + 1`, which no row has.
pub fn absent_row(r: u64) -> String {
    format!("order-{r:010}x")
}

/// Values one after the other from a pool of random bytes: half of each value is random, the other
/// half one letter, so that LZ4 brings it to about half.
#[derive(Debug)]
pub struct Values {
    pool: Vec<u8>,
    at: usize,
}

impl Values {
    /// Values that depend on nothing but `seed`.
    pub fn new(seed: u64) -> Values {
        let mut rng = Rng::seeded(seed);
        let pool = (0..64 << 10).map(|_| rng.below(256) as u8).collect();
        Values { pool, at: 0 }
    }

    /// The next value.
    pub fn value(&mut self) -> [u8; VALUE_BYTES] {
        const RANDOM: usize = VALUE_BYTES / 2;
        self.at = (self.at + 97) % (self.pool.len() - RANDOM);
        let mut value = [b'v'; VALUE_BYTES];
        value[..RANDOM].copy_from_slice(&self.pool[self.at..self.at + RANDOM]);
        value
    }
}

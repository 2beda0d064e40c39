//! The rows that a benchmark writes: keys by number, and values that compress to about a half.

use tabulith::env::rng::Rng;

/// Bytes that values are cut from.
const POOL_BYTES: usize = 1 << 20;

/// The keys of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowName {
    /// Its PartitionKey.
    pub(crate) partition: String,
    /// Its RowKey.
    pub(crate) row: String,
}

/// Rows by number: so many to a partition, in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    /// Rows of a partition.
    pub(crate) of_partition: u64,
}

impl Names {
    /// The keys of a row.
    pub(crate) fn row(&self, number: u64) -> RowName {
        let (partition, row) = (number / self.of_partition, number % self.of_partition);
        RowName { partition: Names::partition(partition), row: format!("r{row:09}") }
    }

    /// Keys beside a row that is there, of one that never is.
    pub(crate) fn missing(&self, number: u64) -> RowName {
        let mut name = self.row(number);
        name.row.push('x');
        name
    }

    /// A PartitionKey.
    pub(crate) fn partition(number: u64) -> String {
        format!("p{number:09}")
    }

    /// Bytes of the keys of a row.
    pub(crate) const KEY_BYTES: u64 = 20;
}

/// Where values are cut from. One pool serves all threads.
#[derive(Debug)]
pub(crate) struct Values {
    pool: String,
    bytes: usize,
}

impl Values {
    /// Values of so many bytes each.
    pub(crate) fn new(bytes: usize, seed: u64) -> Values {
        const LETTERS: &[u8; 64] =
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
        let mut rng = Rng::seeded(seed ^ 0x7a1e_5eed);
        let mut pool = String::with_capacity(POOL_BYTES + bytes);
        while pool.len() < POOL_BYTES + bytes {
            // 32 letters by chance, then 32 times one of them: LZ4 halves it.
            let mut last = 'a';
            for _ in 0..32 {
                last = char::from(LETTERS[rng.below(64) as usize]);
                pool.push(last);
            }
            (0..32).for_each(|_| pool.push(last));
        }
        Values { pool, bytes }
    }

    /// A value.
    pub(crate) fn draw(&self, rng: &mut Rng) -> &str {
        let at = rng.below((POOL_BYTES / 8) as u64) as usize * 8;
        &self.pool[at..at + self.bytes]
    }

    /// Bytes of each.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_numbers_and_of_one_length() {
        let names = Names { of_partition: 100 };
        let all: Vec<RowName> = (0..1_000).map(|number| names.row(number)).collect();
        assert!(all.is_sorted());
        assert_eq!(
            (all[123].partition.as_str(), all[123].row.as_str()),
            ("p000000001", "r000000023")
        );
        assert!(
            all.iter()
                .all(|name| (name.partition.len() + name.row.len()) as u64 == Names::KEY_BYTES)
        );
        assert!(!all.contains(&names.missing(5)));
        assert_eq!(names.missing(5).partition, all[5].partition);
    }

    #[test]
    fn values_have_their_size_and_halve() {
        let mut rng = Rng::seeded(1);
        for bytes in [1, 100, 4_096, crate::args::bench::VALUE_BYTES_MAX as usize] {
            let values = Values::new(bytes, 1);
            assert_eq!(values.draw(&mut rng).len(), bytes);
            assert_eq!(values.bytes(), bytes);
        }
        let value = Values::new(64 << 10, 1);
        let mut packed =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, value.draw(&mut rng).as_bytes()).expect("memory");
        let share = packed.finish().expect("memory").len() as f64 / (64 << 10) as f64;
        assert!((0.3..0.6).contains(&share), "{share}");
    }
}

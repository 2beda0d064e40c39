//! Hashes of keys for filters and shards. Stored in files: the function never changes.

use xxhash_rust::xxh3::xxh3_64;

/// The two hashes of a row's key: of the whole key and of its partition prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    /// XXH3-64 of the whole encoded key.
    pub row: u64,
    /// XXH3-64 of the partition prefix.
    pub partition: u64,
}

/// Hashes `key`, whose partition prefix is its first `prefix_len` bytes.
pub fn of(key: &[u8], prefix_len: usize) -> KeyHash {
    KeyHash { row: xxh3_64(key), partition: xxh3_64(&key[..prefix_len]) }
}

/// Hash of a whole key alone.
pub fn of_row(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Hash of a partition prefix alone.
pub fn of_partition(prefix: &[u8]) -> u64 {
    xxh3_64(prefix)
}

//! LZ4 of the values of a block. Floor 0; used by the builder and by the block.
//!
//! Promise: nothing is kept compressed that does not pay for its decompression, and no length is
//! believed that LZ4 could not have reached.

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

/// Stored bytes may be at most this share of the raw ones, in percent. Above it the bytes saved
/// cost more in decompression (8 GB/s) than they save in reading and in cache.
const STORED_PERCENT_MAX: usize = 88;

/// The most that one stored byte can stand for: a match is extended by 255 per byte.
const EXPANSION_MAX: usize = 255;

/// A scratch buffer above this is given back after use, so that one large value does not pin it.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;

/// How bytes are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Codec {
    /// As they are.
    #[default]
    None = 0,
    Lz4 = 1,
}

impl Codec {
    /// The codec stored as `byte`, if there is one.
    pub(crate) fn from_byte(byte: u8) -> Option<Codec> {
        [Codec::None, Codec::Lz4].into_iter().find(|codec| *codec as u8 == byte)
    }

    /// Whether `stored_len` bytes can stand for `raw_len` bytes.
    pub(crate) fn is_plausible(self, stored_len: usize, raw_len: usize) -> bool {
        match self {
            Codec::None => stored_len == raw_len,
            Codec::Lz4 => is_plausible(stored_len, raw_len),
        }
    }

    /// The `raw_len` bytes that `stored` was made from; otherwise what is wrong.
    pub(crate) fn decompress(
        self,
        stored: Vec<u8>,
        raw_len: usize,
    ) -> Result<Vec<u8>, &'static str> {
        let raw = match self {
            Codec::None => Some(stored).filter(|stored| stored.len() == raw_len),
            Codec::Lz4 => decompress(&stored, raw_len),
        };
        raw.ok_or("value does not decompress")
    }
}

/// Compresses one buffer after another, reusing its table and its output.
pub(crate) struct Compressor {
    table: CompressTable,
    out: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> Compressor {
        Compressor { table: CompressTable::small(), out: Vec::new() }
    }

    /// The compressed form of `raw`, or `None` where keeping `raw` itself is better.
    pub(crate) fn compress(&mut self, raw: &[u8]) -> Option<&[u8]> {
        if self.out.len() > SCRATCH_BYTES_KEPT {
            self.out = Vec::new();
        }
        let room = get_maximum_output_size(raw.len());
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        let len = compress_into_with_table(raw, &mut self.out, &mut self.table).ok()?;
        let pays = len * 100 <= raw.len() * STORED_PERCENT_MAX && !raw.is_empty();
        self.out.get(..len).filter(|_| pays)
    }
}

/// Whether `stored_len` bytes can be the compressed form of `raw_len` bytes.
pub(crate) fn is_plausible(stored_len: usize, raw_len: usize) -> bool {
    raw_len / EXPANSION_MAX <= stored_len
}

/// The `raw_len` bytes that `stored` was made from; `None` where it was not made from that many.
pub(crate) fn decompress(stored: &[u8], raw_len: usize) -> Option<Vec<u8>> {
    let mut raw = Vec::new();
    decompress_to(stored, raw_len, &mut raw)?;
    Some(raw)
}

/// As [`decompress`], into a buffer that is used again: `raw` holds exactly the bytes, or after
/// `None` nothing of use.
pub(crate) fn decompress_to(stored: &[u8], raw_len: usize, raw: &mut Vec<u8>) -> Option<()> {
    if !is_plausible(stored.len(), raw_len) {
        return None;
    }
    raw.resize(raw_len, 0);
    let len = decompress_into(stored, raw).ok()?;
    (len == raw_len).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::rng::Rng;

    #[test]
    fn what_repeats_is_compressed_and_comes_back() {
        let mut compressor = Compressor::new();
        for len in [200, 4 << 10, 70_000, 3 << 20, 300] {
            let raw: Vec<u8> = (0..len).map(|i| (i % 97) as u8).collect();
            let stored = compressor.compress(&raw).expect("repeats every 97 bytes").to_vec();
            assert!(stored.len() < raw.len() * STORED_PERCENT_MAX / 100);
            assert!(decompress(&stored, raw.len()) == Some(raw));
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let mut rng = Rng::seeded(1);
        let noise: Vec<u8> = (0..4096).map(|_| rng.next_u64() as u8).collect();
        assert_eq!(Compressor::new().compress(&noise), None);
        assert_eq!(Compressor::new().compress(b""), None);
    }

    #[test]
    fn a_lying_length_is_refused() {
        let stored = Compressor::new().compress(&[7; 1000]).expect("one byte repeated").to_vec();
        for raw_len in [0, 999, 1001, usize::MAX] {
            assert_eq!(decompress(&stored, raw_len), None, "{raw_len}");
        }
    }
}

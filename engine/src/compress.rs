//! Compression of values, of a block together or of a large one alone.
//!
//! Promise: nothing is kept compressed that does not pay for its decompression, and no length is
//! believed that the codec could not have reached.

use crate::error::Error;
use crate::zstandard;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use std::path::Path;

/// Stored bytes may be at most this share of the raw ones, in percent. Above it the bytes saved
/// cost more in decompression (8 GB/s) than they save in reading and in cache.
const STORED_PERCENT_MAX: usize = 88;

/// The most that one byte of LZ4 can stand for: a match is extended by 255 per byte.
const LZ4_EXPANSION_MAX: usize = 255;

/// The most that one byte of zstd can stand for: 128 KiB of one byte take a block of 4.
const ZSTD_EXPANSION_MAX: usize = 32 << 10;

/// A scratch buffer above this is given back after use, so that one large value does not pin it.
const SCRATCH_BYTES_KEPT: usize = 1 << 20;

const BROKEN: &str = "values do not decompress";

/// How values are stored.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// As they are.
    #[default]
    None = 0,
    /// LZ4: halves text, at 0.7 GB/s in and several GB/s out.
    Lz4 = 1,
    /// zstd: smaller by a quarter than LZ4, several times slower both ways. Takes the cargo feature
    /// `zstd`: options that name it are refused without.
    Zstd = 2,
}

impl Codec {
    /// The codec stored as `byte`, if there is one.
    pub(crate) fn from_byte(byte: u8) -> Option<Codec> {
        [Codec::None, Codec::Lz4, Codec::Zstd].into_iter().find(|codec| *codec as u8 == byte)
    }

    /// Whether `stored_len` bytes can stand for `raw_len` bytes.
    pub(crate) fn is_plausible(self, stored_len: usize, raw_len: usize) -> bool {
        match self {
            Codec::None => stored_len == raw_len,
            Codec::Lz4 => raw_len / LZ4_EXPANSION_MAX <= stored_len,
            Codec::Zstd => raw_len / ZSTD_EXPANSION_MAX <= stored_len,
        }
    }

    /// Whether this build cannot read what is stored so.
    pub(crate) fn is_lacking(self) -> bool {
        self == Codec::Zstd && cfg!(not(feature = "zstd"))
    }

    /// The `raw_len` bytes that `stored` was made from; otherwise what is wrong.
    pub(crate) fn decompress(
        self,
        stored: Vec<u8>,
        raw_len: usize,
    ) -> Result<Vec<u8>, &'static str> {
        match self {
            Codec::None if stored.len() == raw_len => Ok(stored),
            _ => self.unpack(&stored, raw_len),
        }
    }

    /// The same of bytes that somebody else keeps.
    pub(crate) fn unpack(self, stored: &[u8], raw_len: usize) -> Result<Vec<u8>, &'static str> {
        let mut raw = Vec::new();
        self.unpack_to(stored, raw_len, &mut raw)?;
        Ok(raw)
    }

    /// Fills `raw` with what `stored` was made from.
    pub(crate) fn unpack_over(self, stored: &[u8], raw: &mut [u8]) -> Result<(), &'static str> {
        match self.is_plausible(stored.len(), raw.len()) {
            true => self.unpack_into(stored, raw),
            false => Err(BROKEN),
        }
    }

    /// The same into a buffer that is used again: `raw` holds exactly the bytes, or after an error
    /// nothing of use.
    pub(crate) fn unpack_to(
        self,
        stored: &[u8],
        raw_len: usize,
        raw: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        if !self.is_plausible(stored.len(), raw_len) {
            return Err(BROKEN);
        }
        raw.resize(raw_len, 0);
        self.unpack_into(stored, raw)
    }

    /// Fills `raw`, which must be what `stored` stands for and of plausible length.
    fn unpack_into(self, stored: &[u8], raw: &mut [u8]) -> Result<(), &'static str> {
        let len = match self {
            Codec::None => {
                raw.copy_from_slice(stored);
                raw.len()
            }
            Codec::Lz4 => decompress_into(stored, raw).map_err(|_| BROKEN)?,
            Codec::Zstd => zstandard::decompress_into(stored, raw)?,
        };
        if len == raw.len() { Ok(()) } else { Err(BROKEN) }
    }
}

/// The error of what is wrong with bytes of `file` at `offset`: damage, unless it is this build
/// that lacks their codec.
pub(crate) fn error_at(what: &'static str, file: &Path, offset: u64) -> Error {
    match what == zstandard::LACKING {
        true => Error::unsupported(file, offset, what),
        false => Error::corrupt(file, offset, what),
    }
}

/// Compresses one buffer after another, reusing its memory.
pub(crate) struct Compressor {
    engine: Engine,
    out: Vec<u8>,
}

enum Engine {
    None,
    Lz4(Lz4Tables),
    Zstd(zstandard::Encoder),
}

/// LZ4 wants a larger table for long inputs and would keep it for short ones, which then cost more
/// and come out otherwise than from a new compressor.
struct Lz4Tables {
    short: CompressTable,
    long: Option<CompressTable>,
}

impl Lz4Tables {
    fn of(&mut self, raw_len: usize) -> &mut CompressTable {
        match raw_len < usize::from(u16::MAX) {
            true => &mut self.short,
            false => self.long.get_or_insert_with(CompressTable::large),
        }
    }
}

impl Compressor {
    /// One that leaves everything as it is for [`Codec::None`].
    pub(crate) fn new(codec: Codec) -> Compressor {
        let engine = match codec {
            Codec::None => Engine::None,
            Codec::Lz4 => Engine::Lz4(Lz4Tables { short: CompressTable::small(), long: None }),
            Codec::Zstd => Engine::Zstd(zstandard::Encoder::new()),
        };
        Compressor { engine, out: Vec::new() }
    }

    /// How [`Compressor::compress`] compresses.
    pub(crate) fn codec(&self) -> Codec {
        match self.engine {
            Engine::None => Codec::None,
            Engine::Lz4(_) => Codec::Lz4,
            Engine::Zstd(_) => Codec::Zstd,
        }
    }

    /// The compressed form of `raw`, or `None` where keeping `raw` itself is better.
    pub(crate) fn compress(&mut self, raw: &[u8]) -> Option<&[u8]> {
        if matches!(self.engine, Engine::None) {
            return None;
        }
        if self.out.len() > SCRATCH_BYTES_KEPT {
            self.out = Vec::new();
        }
        let room = get_maximum_output_size(raw.len());
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        let len = match &mut self.engine {
            Engine::None => None,
            Engine::Lz4(tables) => {
                compress_into_with_table(raw, &mut self.out, tables.of(raw.len())).ok()
            }
            Engine::Zstd(encoder) => encoder.compress_into(raw, &mut self.out),
        }?;
        let pays = len * 100 <= raw.len() * STORED_PERCENT_MAX && !raw.is_empty();
        self.out.get(..len).filter(|_| pays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::rng::Rng;

    /// The codecs of this build that compress.
    fn codecs() -> Vec<Codec> {
        if cfg!(feature = "zstd") { vec![Codec::Lz4, Codec::Zstd] } else { vec![Codec::Lz4] }
    }

    #[test]
    fn what_repeats_is_compressed_and_comes_back() {
        for codec in codecs() {
            let mut compressor = Compressor::new(codec);
            assert_eq!(compressor.codec(), codec);
            for len in [200, 4 << 10, 70_000, 3 << 20, 300] {
                let raw: Vec<u8> = (0..len).map(|i| (i % 97) as u8).collect();
                let stored = compressor.compress(&raw).expect("repeats every 97 bytes").to_vec();
                assert!(stored.len() < raw.len() * STORED_PERCENT_MAX / 100);
                assert!(codec.is_plausible(stored.len(), raw.len()));
                assert!(codec.decompress(stored, raw.len()) == Ok(raw));
            }
        }
    }

    #[test]
    fn what_comes_out_does_not_depend_on_what_came_before() {
        let mut rng = Rng::seeded(2);
        let text: Vec<u8> = (0..4096).map(|_| b'a' + rng.below(4) as u8).collect();
        for codec in codecs() {
            let fresh = Compressor::new(codec).compress(&text).expect("four letters").to_vec();
            let mut used = Compressor::new(codec);
            for len in [100, 4000, 300_000] {
                used.compress(&vec![7; len]);
                assert!(used.compress(&text) == Some(&fresh), "{codec:?} after {len}");
            }
        }
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let mut rng = Rng::seeded(1);
        let noise: Vec<u8> = (0..4096).map(|_| rng.next_u64() as u8).collect();
        for codec in codecs() {
            assert_eq!(Compressor::new(codec).compress(&noise), None);
            assert_eq!(Compressor::new(codec).compress(b""), None);
        }
        assert_eq!(Compressor::new(Codec::None).compress(&[7; 1000]), None);
    }

    #[test]
    fn a_lying_length_is_refused() {
        for codec in codecs() {
            let stored = Compressor::new(codec).compress(&[7; 1000]).expect("one byte").to_vec();
            for raw_len in [0, 999, 1001, usize::MAX] {
                assert!(codec.unpack(&stored, raw_len).is_err(), "{codec:?} {raw_len}");
            }
        }
    }

    #[test]
    fn the_most_that_a_byte_stands_for_is_plausible() {
        for codec in codecs() {
            let raw = vec![0; 64 << 20];
            let stored = Compressor::new(codec).compress(&raw).expect("zeros").len();
            assert!(codec.is_plausible(stored, raw.len()), "{codec:?}: {stored}");
        }
    }

    #[test]
    #[cfg(not(feature = "zstd"))]
    fn a_build_without_zstd_says_so() {
        assert_eq!(Codec::Zstd.unpack(&[1; 9], 90), Err(zstandard::LACKING));
    }
}

//! Digests of a file: BLAKE3 of all of it, and a CRC-32 of each MiB that tells where it differs.

use crate::error::{Error, Result};
use crate::vfs::api::File;
use std::fmt::Write as _;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes that one CRC-32 is of, and that are read at once.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// The BLAKE3 hash of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hash(pub(crate) [u8; 32]);

impl Hash {
    pub(crate) fn of(bytes: &[u8]) -> Hash {
        Hash(*blake3::hash(bytes).as_bytes())
    }

    /// As `b3sum` prints it.
    pub(crate) fn hex(&self) -> String {
        to_hex(&self.0)
    }

    pub(crate) fn parse(text: &str) -> Option<Hash> {
        from_hex(text)?.try_into().ok().map(Hash)
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.hex())
    }
}

/// What is known of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) bytes: u64,
    pub(crate) hash: Hash,
    /// CRC-32 of each MiB, the last one of what is left.
    pub(crate) pieces: Vec<u32>,
    /// XXH3-64 of all of it, as the engine's manifest has it of table files.
    pub(crate) xxh3: u64,
}

/// Reads all of `file`, and gives `each` piece with its offset.
pub(crate) fn read(
    file: &dyn File,
    path: &Path,
    each: &mut dyn FnMut(&[u8], u64) -> Result<()>,
) -> Result<Digest> {
    let failed = |error| Error::io("reading a file of a backup", path, error);
    let bytes = file.len().map_err(failed)?;
    let (mut hasher, mut xxh3) = (blake3::Hasher::new(), Xxh3Default::new());
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < bytes {
        let len = (bytes - at).min(PIECE_BYTES as u64);
        let piece = file.read_vec_at(len as usize, at).map_err(failed)?;
        hasher.update(&piece);
        xxh3.update(&piece);
        pieces.push(crc32fast::hash(&piece));
        each(&piece, at)?;
        at += len;
    }
    let hash = Hash(*hasher.finalize().as_bytes());
    Ok(Digest { bytes, hash, pieces, xxh3: xxh3.digest() })
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // A String takes everything.
        text
    })
}

/// The bytes that lower-case hexadecimal digits stand for.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_comes_back_and_nothing_else_is_hex() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!(from_hex(""), Some(Vec::new()));
        for text in ["0", "0g", "AB", "é", " 00"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
        // The published value for no bytes.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Hash::of(&[]).hex(), empty);
        assert_eq!(Hash::parse(empty), Some(Hash::of(&[])));
        assert_eq!(Hash::parse(&empty[2..]), None);
    }
}

//! The parts of a blob file, and the reference by which a row of a table file names a value in one.
//!
//! ```text
//! header, 24 bytes:
//!   0    8  mark "tblblobs"
//!   8    4  version, 1
//!  12    8  file number
//!  20    4  checksum
//! values, each:
//!   0    4  stored_len     bytes of the value as stored; at least 1
//!   4    4  raw_len        bytes of the value
//!   8    1  codec          0 as it is, 1 LZ4, 2 zstd
//!   9    3  zero
//!  12    4  checksum       over the 12 bytes before and the stored bytes
//!  16       stored bytes
//! footer, 28 bytes:
//!   0    8  mark "tblblobe"
//!   8    8  values
//!  16    8  bytes of all values, their heads included
//!  24    4  checksum
//!
//! reference: file number, offset of the value's head, raw_len (varints) | codec u8 |
//!            stored_len varint, absent where the codec is 0 | the value's checksum u32
//! ```
//!
//! Checksums are CRC-32 over the file's number, the offset of the part, and its bytes, so that a
//! value in the wrong place or of another file does not verify. A reference repeats all of the
//! head, so a value costs one read of exactly its bytes.

use crate::checksum;
use crate::codec::{Reader, put_varint};
use crate::compress::Codec;
use crate::ids::FileNo;
use crate::limits::{NUMBER_MAX, VALUE_BYTES_MAX};
use std::collections::BTreeMap;

/// Bytes of the header.
pub(crate) const HEADER_LEN: u64 = 24;
/// Bytes before each value.
pub(crate) const HEAD_LEN: u64 = 16;
/// Bytes of the footer.
pub(crate) const FOOTER_LEN: u64 = 28;

const HEADER_MARK: [u8; 8] = *b"tblblobs";
const FOOTER_MARK: [u8; 8] = *b"tblblobe";
const VERSION: u32 = 1;

/// A blob file as the manifest records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobMeta {
    /// Names the file and salts its checksums.
    pub(crate) no: FileNo,
    /// Length of the whole file.
    pub(crate) bytes: u64,
    /// Values in it.
    pub(crate) values: u64,
}

impl BlobMeta {
    /// Bytes of its values, heads included: what can be referred to.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.bytes.saturating_sub(HEADER_LEN + FOOTER_LEN)
    }
}

/// How much of one blob file somebody refers to. Every value is referred to by one row, so uses by
/// different table files add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) values: u64,
    /// Stored bytes, heads included.
    pub(crate) bytes: u64,
}

impl Use {
    /// Adds what another refers to; `None` where that is more than a number holds.
    pub(crate) fn plus(self, other: Use) -> Option<Use> {
        Some(Use {
            values: self.values.checked_add(other.values)?,
            bytes: self.bytes.checked_add(other.bytes)?,
        })
    }

    /// Takes away what was added before.
    pub(crate) fn less(self, other: Use) -> Use {
        Use {
            values: self.values.saturating_sub(other.values),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// The blob files that rows of a table file refer to.
pub(crate) type Uses = BTreeMap<FileNo, Use>;

/// Appends uses: how many, then file number, values and bytes of each, all varints.
pub(crate) fn put_uses(uses: &Uses, out: &mut Vec<u8>) {
    put_varint(out, uses.len() as u64);
    for (no, used) in uses {
        for number in [no.0, used.values, used.bytes] {
            put_varint(out, number);
        }
    }
}

/// Reads uses: file numbers rise, and nothing is used by none.
pub(crate) fn read_uses(reader: &mut Reader<'_>) -> Option<Uses> {
    let mut uses = Uses::new();
    for _ in 0..reader.varint()? {
        let no = FileNo(reader.varint().filter(|no| *no <= NUMBER_MAX)?);
        let used = Use { values: reader.varint()?, bytes: reader.varint()? };
        let rises = uses.last_key_value().is_none_or(|(last, _)| *last < no);
        if !rises || used.values == 0 || used.bytes / HEAD_LEN < used.values {
            return None;
        }
        uses.insert(no, used);
    }
    Some(uses)
}

/// A reference to a value in a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) file: FileNo,
    /// Where the value's head begins.
    pub(crate) offset: u64,
    pub(crate) stored_len: u32,
    pub(crate) raw_len: u32,
    pub(crate) codec: Codec,
    pub(crate) checksum: u32,
}

impl Link {
    /// The reference to the value stored as `stored` at `offset` of `file`.
    pub(crate) fn new(
        file: FileNo,
        offset: u64,
        codec: Codec,
        raw_len: usize,
        stored: &[u8],
    ) -> Link {
        let (mut stored_len, mut raw_len) = (stored.len() as u32, raw_len as u32);
        if crate::planted!("B14") {
            // Planted (`planted.rs`): two bytes.
            (stored_len, raw_len) = (stored_len & 0xffff, raw_len & 0xffff);
        }
        let mut link = Link { file, offset, stored_len, raw_len, codec, checksum: 0 };
        link.checksum = link.checksum_of(stored);
        link
    }

    /// The checksum that the value has if it is stored as `stored`.
    pub(crate) fn checksum_of(&self, stored: &[u8]) -> u32 {
        checksum::placed(self.file.0, self.offset, &[&self.lengths(), stored])
    }

    /// What it adds to the use of its file.
    pub(crate) fn uses(&self) -> Use {
        Use { values: 1, bytes: HEAD_LEN + u64::from(self.stored_len) }
    }

    /// Where the value ends, and the next one begins.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(HEAD_LEN + u64::from(self.stored_len))
    }

    /// Appends the reference.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        put_varint(out, self.offset);
        put_varint(out, self.raw_len.into());
        out.push(self.codec as u8);
        if self.codec != Codec::None {
            put_varint(out, self.stored_len.into());
        }
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    /// The reference that `bytes` are; `None` where they are not exactly one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Link> {
        let mut reader = Reader::new(bytes);
        let file = FileNo(reader.varint().filter(|no| *no <= NUMBER_MAX)?);
        let offset = reader.varint().filter(|offset| *offset <= NUMBER_MAX)?;
        let raw_len = reader.varint_max(VALUE_BYTES_MAX)? as u32;
        let codec = Codec::from_byte(reader.u8()?)?;
        let stored_len = match codec {
            Codec::None => raw_len,
            _ => reader.varint_max(VALUE_BYTES_MAX)? as u32,
        };
        let link = Link { file, offset, stored_len, raw_len, codec, checksum: reader.u32()? };
        (reader.is_empty() && link.is_plausible()).then_some(link)
    }

    /// The bytes before the value.
    pub(crate) fn head(&self) -> [u8; HEAD_LEN as usize] {
        let mut head = [0; HEAD_LEN as usize];
        head[..12].copy_from_slice(&self.lengths());
        head[12..].copy_from_slice(&self.checksum.to_le_bytes());
        head
    }

    /// The reference to the value whose head lies at `offset` of `file`; `None` where the bytes are
    /// no head.
    pub(crate) fn of_head(file: FileNo, offset: u64, head: &[u8]) -> Option<Link> {
        let mut reader = Reader::new(head);
        let (stored_len, raw_len) = (reader.u32()?, reader.u32()?);
        let codec = Codec::from_byte(reader.u8()?)?;
        let zero = reader.array::<3>()? == [0; 3];
        let link = Link { file, offset, stored_len, raw_len, codec, checksum: reader.u32()? };
        (zero && link.is_plausible()).then_some(link)
    }

    fn lengths(&self) -> [u8; 12] {
        let mut lengths = [0; 12];
        lengths[..4].copy_from_slice(&self.stored_len.to_le_bytes());
        lengths[4..8].copy_from_slice(&self.raw_len.to_le_bytes());
        lengths[8] = self.codec as u8;
        lengths
    }

    fn is_plausible(&self) -> bool {
        let fits = match self.codec {
            Codec::None => self.stored_len == self.raw_len,
            codec => codec.is_plausible(self.stored_len as usize, self.raw_len as usize),
        };
        fits && self.stored_len > 0 && self.raw_len as usize <= VALUE_BYTES_MAX
    }
}

/// The header of file `no`.
pub(crate) fn header(no: FileNo) -> Vec<u8> {
    let mut out = HEADER_MARK.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&no.0.to_le_bytes());
    let sum = checksum::placed(no.0, 0, &[&out]);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// The footer of the file that `meta` describes.
pub(crate) fn footer(meta: &BlobMeta) -> Vec<u8> {
    let mut out = FOOTER_MARK.to_vec();
    out.extend_from_slice(&meta.values.to_le_bytes());
    out.extend_from_slice(&meta.value_bytes().to_le_bytes());
    let sum = checksum::placed(meta.no.0, HEADER_LEN + meta.value_bytes(), &[&out]);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn links() -> Vec<Link> {
        let plain = Link::new(FileNo(7), 24, Codec::None, 5, b"value");
        let packed = Link::new(FileNo(NUMBER_MAX), 1 << 40, Codec::Lz4, 900, b"packed");
        vec![plain, packed]
    }

    #[test]
    fn references_and_heads_come_back_in_one_form() {
        for link in links() {
            let mut bytes = Vec::new();
            link.put(&mut bytes);
            assert_eq!(Link::read(&bytes), Some(link));
            for cut in 0..bytes.len() {
                assert_eq!(Link::read(&bytes[..cut]), None, "cut at {cut}");
            }
            for at in 0..bytes.len() {
                for value in 0..=u8::MAX {
                    let mut other = bytes.clone();
                    other[at] = value;
                    let Some(read) = Link::read(&other) else { continue };
                    let mut again = Vec::new();
                    read.put(&mut again);
                    assert_eq!(again, other, "byte {at} = {value}");
                }
            }
            assert_eq!(Link::of_head(link.file, link.offset, &link.head()), Some(link));
        }
    }

    #[test]
    fn a_value_of_another_place_or_length_does_not_verify() {
        let link = links()[0];
        assert_eq!(link.checksum_of(b"value"), link.checksum);
        let others = [
            Link { file: FileNo(8), ..link },
            Link { offset: 25, ..link },
            Link { raw_len: 6, ..link },
            Link { codec: Codec::Lz4, ..link },
        ];
        for other in others {
            assert_ne!(other.checksum_of(b"value"), link.checksum, "{other:?}");
        }
        assert_ne!(link.checksum_of(b"valuf"), link.checksum);
    }

    #[test]
    fn uses_come_back_and_nonsense_does_not() {
        let uses =
            Uses::from([(FileNo(3), Use { values: 2, bytes: 90 }), (FileNo(9), links()[0].uses())]);
        let mut bytes = Vec::new();
        put_uses(&uses, &mut bytes);
        assert_eq!(read_uses(&mut Reader::new(&bytes)).unwrap(), uses);
        for nonsense in [&[1, 3, 0, 90][..], &[1, 3, 9, 90], &[2, 3, 1, 90, 3, 1, 90]] {
            assert_eq!(read_uses(&mut Reader::new(nonsense)), None, "{nonsense:?}");
        }
    }
}

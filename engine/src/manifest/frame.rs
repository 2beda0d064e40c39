//! The bytes of a manifest file. Pure.
//!
//! ```text
//! file header              (little-endian)
//! offset size  field
//!      0    4  magic       "TLM1"
//!      4    4  crc         of bytes 8..32, placed at (generation, 0)
//!      8    8  generation  the file's own number
//!     16   16  db_id       that of the root
//!
//! frame, from offset 32 on, one behind the other without padding
//!      0    4  crc         of bytes 4..16+len, placed at (generation, offset of the frame)
//!      4    4  len         bytes of the edit
//!      8    8  number      1 for the first, which makes the whole state; then rising by 1
//!     16  len  edit        see `edit`
//! ```
//!
//! Both copies of a generation have the same bytes.

use crate::checksum::placed;
use crate::codec::Reader;

pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const FRAME_HEADER_BYTES: usize = 16;

/// Most bytes of one edit: a state of a million files.
pub(crate) const EDIT_BYTES_MAX: usize = 256 << 20;

/// Edits may take this many times the room of the first, whole state before all is written anew:
/// at 4 the manifest is at most 5 times as long as it must be, and rewriting costs a fourth.
const GROWTH_MAX: u64 = 4;
/// Below this a manifest is not worth rewriting.
const REWRITE_BYTES_MIN: u64 = 1 << 20;

/// No state is longer, which is the first edit of its manifest: a frame has no room for more.
pub(crate) const STATE_BYTES_MAX: usize = u32::MAX as usize;

const MAGIC: [u8; 4] = *b"TLM1";

/// Bytes of edits behind the first one, which ends at `state_end`: with more than these no other is
/// added before all is written anew.
pub(crate) fn edits_bytes_max(state_end: u64) -> u64 {
    (GROWTH_MAX * state_end).max(REWRITE_BYTES_MIN)
}

/// The longest that a file may be which begins with `head`: its header and that of its first frame.
pub(crate) fn file_bytes_max(head: &[u8]) -> u64 {
    let first = head.get(HEADER_BYTES + 4..).unwrap_or_default();
    let first = Reader::new(first).u32().unwrap_or_default();
    let state_end = (HEADER_BYTES + FRAME_HEADER_BYTES) as u64 + u64::from(first);
    // The last edit may begin just where there is still room for one.
    let last = (FRAME_HEADER_BYTES + EDIT_BYTES_MAX) as u64;
    state_end + edits_bytes_max(state_end) + last
}

pub(crate) fn encode_header(generation: u64, db_id: u128) -> Vec<u8> {
    let body = [&generation.to_le_bytes()[..], &db_id.to_le_bytes()].concat();
    let crc = placed(generation, 0, &[&body]);
    [&MAGIC[..], &crc.to_le_bytes(), &body].concat()
}

/// Generation and database of a manifest file; `None` where `bytes` do not begin with its header.
pub(crate) fn decode_header(bytes: &[u8]) -> Option<(u64, u128)> {
    let mut reader = Reader::new(bytes.get(8..HEADER_BYTES)?);
    let (generation, db_id) = (reader.u64()?, u128::from_le_bytes(reader.array()?));
    bytes.starts_with(&encode_header(generation, db_id)).then_some((generation, db_id))
}

pub(crate) fn encode_frame(generation: u64, offset: u64, number: u64, edit: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_HEADER_BYTES + edit.len());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(edit.len() as u32).to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(edit);
    let crc = placed(generation, offset, &[&out[4..]]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The edit in the frame `number` at `offset`; `bytes` begin there. `None` where no such frame
/// verifies.
pub(crate) fn decode_frame(
    generation: u64,
    offset: u64,
    number: u64,
    bytes: &[u8],
) -> Option<&[u8]> {
    let mut reader = Reader::new(bytes);
    let (crc, len, at) = (reader.u32()?, reader.u32()? as usize, reader.u64()?);
    let edit = reader.take(len)?;
    let summed = &bytes[4..FRAME_HEADER_BYTES + len];
    (at == number && crc == placed(generation, offset, &[summed])).then_some(edit)
}

/// Whether `bytes` say that they begin with the frame `number`, be it whole or not.
pub(crate) fn claims(number: u64, bytes: &[u8]) -> bool {
    bytes.get(8..FRAME_HEADER_BYTES).is_some_and(|said| said == number.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_holds_only_whole_and_in_its_place() {
        let bytes = encode_frame(3, 32, 1, b"edit");
        assert_eq!(decode_frame(3, 32, 1, &bytes), Some(&b"edit"[..]));
        assert_eq!(decode_frame(4, 32, 1, &bytes), None, "another generation");
        assert_eq!(decode_frame(3, 33, 1, &bytes), None, "another offset");
        assert_eq!(decode_frame(3, 32, 2, &bytes), None, "another number");
        for cut in 0..bytes.len() {
            assert_eq!(decode_frame(3, 32, 1, &bytes[..cut]), None, "cut at {cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_frame(3, 32, 1, &bad), None, "bit {bit}");
        }
        assert_eq!(encode_header(3, 7).len(), HEADER_BYTES);
    }
}

//! The bytes of a log segment. Pure.
//!
//! A segment is a file of a length fixed before its first use: one block that says what it is,
//! then frames. A block is 4096 bytes, 512 in segments below 1 MiB. A frame begins either at the
//! first multiple of 8 behind the one before, or on the next block boundary: always there where a
//! sync may cover the one before, so that writing a frame can never tear one that was promised,
//! and always where it is the first to carry a higher `durable`, so that this is found behind
//! damage.
//!
//! ```text
//! segment header, at offset 0            (little-endian)
//! offset size  field
//!      0    4  magic     "TLS1"
//!      4    4  crc       of bytes 8..40, placed at (segment, 0)
//!      8    4  block     bytes of a block: 512 or 4096
//!     12    4  salt      chosen by chance for this use of the file
//!     16    8  segment   this segment's id; a reused file gets a new one
//!     24    8  origin    id of the first segment of this log: a recovery starts a new log
//!     32    8  bytes     length of the file; a shorter file is damaged
//!
//! frame, on a block boundary or a multiple of 8 behind another frame
//!      0    4  magic     "TLF1"; "TLN1": the log goes on in another segment; "TLE1": it has ended
//!      4    4  crc       of bytes 8..56+len, placed at (segment, offset of the frame), xor the salt
//!      8    4  len       payload bytes; 0 is a seal, which only carries the watermark
//!     12    4  prev_crc  crc of the frame before, in whichever segment; 0 before the first
//!     16    8  segment   rejects what an earlier use of the file left behind
//!     24    8  number    1 for the log's first frame, then rising by 1
//!     32    8  durable   every frame up to this number was synced before this one was written
//!     40    8  first_ts  of the group's commits; in a seal the log's last, in an end that or later
//!     48    8  last_ts
//!     56  len  payload   the group's commits, opaque here; of "TLN1" the next segment's id, u64
//!          ..  zeros     to the next multiple of 8, to the end of the block where the frame began
//!                        one; not under the crc
//! ```
//!
//! The salt is why no value passes for a frame: one that was torn is searched for later ones, and
//! whoever chose the value in it cannot have known the checksum.
//!
//! "a1" as the log's second frame, commits 5 to 6, in segment 1 without salt at offset 1024, after
//! frame 1 was synced (the test `worked_example` has the same bytes):
//!
//! ```text
//! 544c4631 1818de8b 02000000 07000000 0100000000000000 0200000000000000
//! 0100000000000000 0500000000000000 0600000000000000 6131
//! ```

use crate::checksum::{Beginnings, placed};
use crate::codec::Reader;
use crate::ids::{CommitTs, SegmentId};
use crate::limits::{COMMIT_BYTES_MAX, NUMBER_MAX};

pub(crate) const SEGMENT_HEADER_BYTES: usize = 40;
pub(crate) const FRAME_HEADER_BYTES: usize = 56;

/// Most payload bytes of one frame: a group of the largest commit and its neighbours.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 2 * COMMIT_BYTES_MAX;

const SEGMENT_MAGIC: [u8; 4] = *b"TLS1";
const FRAME_MAGIC: [u8; 4] = *b"TLF1";
const NEXT_MAGIC: [u8; 4] = *b"TLN1";
const END_MAGIC: [u8; 4] = *b"TLE1";

/// Where the bytes under a checksum begin, in both headers.
const SUMMED_FROM: usize = 8;

/// Frames that share a block begin at multiples of this, and none takes less than its header.
pub(crate) const FRAME_ALIGN_BYTES: usize = 8;

/// The page size: what file systems write whole, and what costs the same to flush as less.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// The smallest unit that disks write whole; keeps segments of a few KiB useful.
pub(crate) const BLOCK_BYTES_SMALL: usize = 512;
const SMALL_SEGMENT_BYTES: usize = 1 << 20;

const _: () = assert!(PAYLOAD_BYTES_MAX + BLOCK_BYTES < u32::MAX as usize, "a frame's length fits");
const _: () = assert!(SEGMENT_HEADER_BYTES <= BLOCK_BYTES_SMALL, "a header is one block");
const _: () = assert!(FRAME_HEADER_BYTES <= BLOCK_BYTES_SMALL, "a seal is one block");

/// Bytes of a block in logs whose segments have `segment_bytes`.
pub(crate) fn block_bytes(segment_bytes: usize) -> usize {
    if segment_bytes < SMALL_SEGMENT_BYTES { BLOCK_BYTES_SMALL } else { BLOCK_BYTES }
}

/// A frame as the next one names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) number: u64,
    pub(crate) crc: u32,
    /// The last commit up to there.
    pub(crate) ts: CommitTs,
}

/// Where the log begins that is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogFloor {
    /// 0 before there is a log.
    pub(crate) segment: SegmentId,
    /// The frame before the segment's first, where that one may be lost; otherwise it is durable.
    pub(crate) after: Option<Link>,
}

impl LogFloor {
    /// A segment whose first frame is durable.
    pub(crate) fn at(segment: SegmentId) -> LogFloor {
        LogFloor { segment, after: None }
    }
}

/// What the first block of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) block_bytes: usize,
    pub(crate) salt: u32,
    pub(crate) segment: SegmentId,
    pub(crate) origin: SegmentId,
    pub(crate) file_bytes: u64,
}

impl SegmentHeader {
    /// The header's whole block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.block_bytes);
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.block_bytes as u32).to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&self.segment.0.to_le_bytes());
        out.extend_from_slice(&self.origin.0.to_le_bytes());
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        debug_assert_eq!(out.len(), SEGMENT_HEADER_BYTES);
        let crc = placed(self.segment.0, 0, &[&out[SUMMED_FROM..]]);
        out[4..SUMMED_FROM].copy_from_slice(&crc.to_le_bytes());
        out.resize(self.block_bytes, 0);
        out
    }

    /// The header in the first bytes of the file of segment `segment`; `None` where they are not
    /// one.
    pub(crate) fn decode(segment: SegmentId, bytes: &[u8]) -> Option<SegmentHeader> {
        let header = bytes.get(..SEGMENT_HEADER_BYTES)?;
        let mut reader = Reader::new(header);
        let (magic, crc) = (reader.array::<4>()?, reader.u32()?);
        if magic != SEGMENT_MAGIC || crc != placed(segment.0, 0, &[&header[SUMMED_FROM..]]) {
            return None;
        }
        let block_bytes = reader.u32()? as usize;
        let header = SegmentHeader {
            block_bytes,
            salt: reader.u32()?,
            segment: SegmentId(reader.u64()?),
            origin: SegmentId(reader.u64()?),
            file_bytes: reader.u64()?,
        };
        let sound = [BLOCK_BYTES_SMALL, BLOCK_BYTES].contains(&block_bytes)
            && header.segment == segment
            && (1..=segment.0).contains(&header.origin.0)
            && header.file_bytes > block_bytes as u64
            && header.file_bytes.is_multiple_of(block_bytes as u64);
        sound.then_some(header)
    }
}

/// Where a frame stands. Its checksum covers that, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FramePlace {
    pub(crate) segment: SegmentId,
    /// The segment's.
    pub(crate) salt: u32,
    pub(crate) offset: u64,
}

impl FramePlace {
    /// The checksum of a frame here.
    pub(crate) fn sum(&self, parts: &[&[u8]]) -> u32 {
        placed(self.segment.0, self.offset, parts) ^ self.salt
    }

    /// The same, of one of `len` bytes, from the sums of its file.
    pub(crate) fn sum_in<E>(
        &self,
        file: &Beginnings,
        len: u64,
        read: &mut impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
    ) -> Result<u32, E> {
        let summed = self.offset + SUMMED_FROM as u64..self.offset + len;
        Ok(file.placed(self.segment.0, self.offset, summed, read)? ^ self.salt)
    }
}

/// What a frame says besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) prev_crc: u32,
    pub(crate) segment: SegmentId,
    pub(crate) number: u64,
    pub(crate) durable: u64,
    pub(crate) first_ts: CommitTs,
    pub(crate) last_ts: CommitTs,
}

/// Bytes that a frame with `payload_bytes` takes in a segment, in units of [`FRAME_ALIGN_BYTES`]
/// or of a block.
pub(crate) fn frame_bytes(payload_bytes: usize, unit_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + payload_bytes).next_multiple_of(unit_bytes)
}

/// The block boundary behind `at`.
pub(crate) fn next_block(at: u64, block_bytes: usize) -> u64 {
    (at + 1).next_multiple_of(block_bytes as u64)
}

/// What the payload of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Commits; none in a seal.
    Group,
    /// The id of the segment that the log goes on in. The last frame of its segment.
    Next,
    /// Nothing: a seal behind which no commit was given a place. The last frame of the log.
    End,
}

/// The header of a frame whose payload is `parts`, `payload_bytes` together, and its checksum.
pub(crate) fn frame_header(
    header: &FrameHeader,
    kind: FrameKind,
    place: &FramePlace,
    payload_bytes: usize,
    parts: &[&[u8]],
) -> ([u8; FRAME_HEADER_BYTES], u32) {
    debug_assert_eq!(header.segment, place.segment, "a frame stands in the segment that it names");
    let mut out = [0; FRAME_HEADER_BYTES];
    out[0..4].copy_from_slice(match kind {
        FrameKind::Group => &FRAME_MAGIC,
        FrameKind::Next => &NEXT_MAGIC,
        FrameKind::End => &END_MAGIC,
    });
    out[8..12].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
    out[12..16].copy_from_slice(&header.prev_crc.to_le_bytes());
    out[16..24].copy_from_slice(&header.segment.0.to_le_bytes());
    out[24..32].copy_from_slice(&header.number.to_le_bytes());
    out[32..40].copy_from_slice(&header.durable.to_le_bytes());
    out[40..48].copy_from_slice(&header.first_ts.0.to_le_bytes());
    out[48..56].copy_from_slice(&header.last_ts.0.to_le_bytes());
    let mut summed = vec![&out[SUMMED_FROM..]];
    summed.extend_from_slice(parts);
    let crc = place.sum(&summed);
    out[4..SUMMED_FROM].copy_from_slice(&crc.to_le_bytes());
    (out, crc)
}

/// The payload length in the first bytes of a frame of `segment`, not yet verified; `None` where
/// they do not even claim to be one. A cheap test before the payload is read.
pub(crate) fn claimed_payload_bytes(segment: SegmentId, bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(bytes);
    let magic = reader.array::<4>()?;
    let (_crc, len, _prev) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let ours = [FRAME_MAGIC, NEXT_MAGIC, END_MAGIC].contains(&magic);
    let claims = ours && reader.u64()? == segment.0;
    (claims && len as usize <= PAYLOAD_BYTES_MAX).then_some(len as usize)
}

/// A frame that verifies at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) header: FrameHeader,
    pub(crate) crc: u32,
    /// The commits; empty in all but groups.
    pub(crate) payload: &'a [u8],
    /// Bytes of the payload as it stands in the file.
    pub(crate) payload_bytes: usize,
    /// The segment that the log goes on in, where this frame says so.
    pub(crate) next: Option<SegmentId>,
    /// Whether the log ends here.
    pub(crate) ends: bool,
}

/// The checksum that a frame says it has; `header` begins with its own bytes.
pub(crate) fn claimed_sum(header: &[u8]) -> Option<u32> {
    header.first_chunk::<SUMMED_FROM>().map(|[_, _, _, _, sum @ ..]| u32::from_le_bytes(*sum))
}

/// The frame that begins at `place`; `bytes` begin there. `None` where it is not whole, not of this
/// segment, not at its place or not what was written.
pub(crate) fn decode_frame<'a>(place: &FramePlace, bytes: &'a [u8]) -> Option<Frame<'a>> {
    let segment = place.segment;
    let len = claimed_payload_bytes(segment, bytes)?;
    let frame = bytes.get(..FRAME_HEADER_BYTES + len)?;
    let mut reader = Reader::new(&frame[4..]);
    let crc = reader.u32()?;
    if crc != place.sum(&[&frame[SUMMED_FROM..]]) {
        return None;
    }
    let _len = reader.u32()?;
    let header = FrameHeader {
        prev_crc: reader.u32()?,
        segment: SegmentId(reader.u64()?),
        number: reader.u64()?,
        durable: reader.u64()?,
        first_ts: CommitTs(reader.u64()?),
        last_ts: CommitTs(reader.u64()?),
    };
    let sound = header.durable < header.number
        && header.number <= NUMBER_MAX
        && header.last_ts.0 <= NUMBER_MAX
        && header.first_ts <= header.last_ts;
    let payload = reader.rest();
    let ends = bytes.starts_with(&END_MAGIC);
    let frame = Frame { header, crc, payload, payload_bytes: len, next: None, ends };
    if ends || bytes.starts_with(&FRAME_MAGIC) {
        return (sound && !(ends && len > 0)).then_some(frame);
    }
    let next = SegmentId(reader.u64()?);
    let sound = sound && reader.is_empty() && (segment.0..=NUMBER_MAX).contains(&next.0);
    let next = (next > segment).then_some(next)?;
    sound.then_some(Frame { payload: &[], next: Some(next), ..frame })
}

/// The header as one line.
pub(crate) fn dump_segment(header: &SegmentHeader) -> String {
    let SegmentHeader { block_bytes, salt: _, segment, origin, file_bytes } = header;
    format!(
        "{:>10}  segment {} of the log from {}  {file_bytes} bytes in blocks of {block_bytes}",
        0, segment.0, origin.0
    )
}

/// The frame as one line.
pub(crate) fn dump_frame(offset: u64, frame: &Frame<'_>) -> String {
    let FrameHeader { number, durable, first_ts, last_ts, .. } = frame.header;
    let what = match frame.payload.len() {
        _ if frame.next.is_some() => {
            let next = frame.next.unwrap_or_default();
            format!("next   after commit {last_ts} the log goes on in segment {}", next.0)
        }
        0 if frame.ends => format!("end    closed; what comes later comes after {last_ts}"),
        0 => format!("seal   after commit {last_ts}"),
        len => format!("group  {len} bytes, commits {first_ts} to {last_ts}"),
    };
    format!("{offset:>10}  frame {number}  durable {durable}  crc {:08x}  {what}", frame.crc)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: FrameHeader = FrameHeader {
        prev_crc: 7,
        segment: SegmentId(1),
        number: 2,
        durable: 1,
        first_ts: CommitTs(5),
        last_ts: CommitTs(6),
    };

    const PLACE: FramePlace = FramePlace { segment: SegmentId(1), salt: 0, offset: 1024 };

    fn frame() -> Vec<u8> {
        let mut out = vec![0; frame_bytes(2, 512)];
        out[FRAME_HEADER_BYTES..][..2].copy_from_slice(b"a1");
        let (head, _) = frame_header(&HEADER, FrameKind::Group, &PLACE, 2, &[b"a", b"1"]);
        out[..FRAME_HEADER_BYTES].copy_from_slice(&head);
        out
    }

    #[test]
    fn worked_example() {
        let text: String = frame()[..58].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            text,
            "544c46311818de8b0200000007000000010000000000000002000000000000000100000000000000\
             050000000000000006000000000000006131"
        );
        assert!(frame()[58..].iter().all(|byte| *byte == 0), "padding is zeros");
        let line = dump_frame(1024, &decode_frame(&PLACE, &frame()).expect("whole"));
        assert!(line.contains("frame 2  durable 1") && line.contains("commits 5 to 6"), "{line}");
    }

    #[test]
    fn a_frame_holds_only_whole_and_in_its_place() {
        let bytes = frame();
        let read = decode_frame(&PLACE, &bytes).expect("whole");
        assert_eq!((read.header, read.payload), (HEADER, &b"a1"[..]));
        for elsewhere in [
            FramePlace { segment: SegmentId(2), ..PLACE },
            FramePlace { offset: 512, ..PLACE },
            FramePlace { salt: 1, ..PLACE },
        ] {
            assert_eq!(decode_frame(&elsewhere, &bytes), None, "{elsewhere:?}");
        }
        for cut in 0..58 {
            assert_eq!(decode_frame(&PLACE, &bytes[..cut]), None, "cut at {cut}");
        }
        for bit in 0..58 * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_frame(&PLACE, &bad), None, "bit {bit}");
        }
    }

    #[test]
    fn a_header_says_what_can_be() {
        let header = SegmentHeader {
            block_bytes: BLOCK_BYTES_SMALL,
            salt: 5,
            segment: SegmentId(3),
            origin: SegmentId(2),
            file_bytes: 4096,
        };
        let read = |header: SegmentHeader| SegmentHeader::decode(SegmentId(3), &header.encode());
        assert_eq!(read(header), Some(header));
        for wrong in [
            SegmentHeader { block_bytes: 1024, ..header },
            SegmentHeader { segment: SegmentId(4), ..header },
            SegmentHeader { origin: SegmentId(0), ..header },
            SegmentHeader { origin: SegmentId(4), ..header },
            SegmentHeader { file_bytes: 512, ..header },
            SegmentHeader { file_bytes: 4097, ..header },
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_frame_that_names_the_next_segment_names_a_later_one() {
        let with = |header: &FrameHeader, name: &[u8]| {
            let len = name.len();
            let mut out = vec![0; frame_bytes(len, 512)];
            out[FRAME_HEADER_BYTES..][..len].copy_from_slice(name);
            let (head, _) = frame_header(header, FrameKind::Next, &PLACE, len, &[name]);
            out[..FRAME_HEADER_BYTES].copy_from_slice(&head);
            let frame = decode_frame(&PLACE, &out)?;
            assert!(frame.payload.is_empty() && dump_frame(512, &frame).contains("segment 7"));
            frame.next
        };
        let named = |next: u64| with(&HEADER, &next.to_le_bytes());
        assert_eq!(named(7), Some(SegmentId(7)));
        assert_eq!([named(0), named(1), named(NUMBER_MAX + 1)], [None; 3]);
        // As sound as any frame, and nothing behind the name.
        let durable = FrameHeader { durable: HEADER.number, ..HEADER };
        assert_eq!(with(&durable, &7_u64.to_le_bytes()), None);
        assert_eq!(with(&HEADER, &[7, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn a_header_holds_only_unchanged_and_in_its_file() {
        let header = SegmentHeader {
            block_bytes: 512,
            salt: 0x8000_0001,
            segment: SegmentId(9),
            origin: SegmentId(4),
            file_bytes: 16384,
        };
        let bytes = header.encode();
        assert_eq!(bytes.len(), 512);
        assert_eq!(SegmentHeader::decode(SegmentId(9), &bytes), Some(header));
        assert_eq!(SegmentHeader::decode(SegmentId(8), &bytes), None, "another file");
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(SegmentId(9), &bad), None, "bit {bit}");
        }
    }
}

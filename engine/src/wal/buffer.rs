//! The bytes of a frame while it is put together: room for the header, then the payload as it
//! comes, padded to whole blocks when it is written. From here the log is written without a copy.
//! A large piece of the payload is not even copied to here: it is lent, and written from its place.
//!
//! The bytes begin at an address that is a multiple of the block: a file that is opened past the
//! system's cache takes no others.

use crate::wal::format::{
    self, BLOCK_BYTES, FRAME_HEADER_BYTES, FrameHeader, FrameKind, FramePlace,
};
use bytes::Bytes;
use std::ops::Range;

/// A buffer above this is given back after its frame.
const KEPT_BYTES: usize = 4 << 20;

/// One frame's bytes, reused from frame to frame.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    /// `start` bytes that align the rest, the header, the payload.
    bytes: Vec<u8>,
    start: usize,
    /// Pieces that lie elsewhere, each with the place in the frame's own bytes that it belongs to.
    lent: Vec<(usize, Bytes)>,
    lent_bytes: usize,
}

impl FrameBuffer {
    /// Bytes of payload so far.
    pub(crate) fn len(&self) -> usize {
        let own = self.bytes.len().saturating_sub(self.start + FRAME_HEADER_BYTES);
        own + self.lent_bytes
    }

    /// Bytes of memory.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether there is no payload.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload so far.
    #[cfg(test)]
    pub(crate) fn payload(&self) -> Vec<u8> {
        self.parts_from(FRAME_HEADER_BYTES).concat()
    }

    /// The whole frame, piece after piece.
    pub(crate) fn parts(&self) -> Vec<&[u8]> {
        self.parts_from(0)
    }

    fn parts_from(&self, from: usize) -> Vec<&[u8]> {
        let (mut parts, mut at) = (Vec::with_capacity(2 * self.lent.len() + 1), from);
        for (place, piece) in &self.lent {
            parts.push(self.own(at..*place));
            parts.push(piece);
            at = *place;
        }
        parts.push(self.own(at..self.bytes.len() - self.start.min(self.bytes.len())));
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// A stretch of the frame's own bytes.
    fn own(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(self.start + range.start..self.start + range.end).unwrap_or_default()
    }

    /// Appends a piece of payload that stays where it is.
    pub(crate) fn lend(&mut self, piece: Bytes) {
        let place = self.reserve(0).len() - self.start;
        self.lent_bytes += piece.len();
        self.lent.push((place, piece));
    }

    /// Takes a copy of what was lent, so that the frame is one piece.
    pub(crate) fn join(&mut self) {
        if self.lent.is_empty() {
            return;
        }
        let mut joined = FrameBuffer::default();
        let room = joined.reserve(self.len());
        self.parts_from(FRAME_HEADER_BYTES).iter().for_each(|part| room.extend_from_slice(part));
        *self = joined;
    }

    /// Completes the frame for its place in the log: its header, and zeros up to `len` bytes.
    /// Returns its checksum.
    pub(crate) fn seal(
        &mut self,
        header: &FrameHeader,
        kind: FrameKind,
        place: &FramePlace,
        len: usize,
    ) -> u32 {
        let payload = self.parts_from(FRAME_HEADER_BYTES);
        let (head, crc) = format::frame_header(header, kind, place, self.len(), &payload);
        self.padded(len)[..FRAME_HEADER_BYTES].copy_from_slice(&head);
        crc
    }

    /// Where more payload is appended, with room for `more` bytes. Beyond that it works as well,
    /// but the frame is copied once more.
    pub(crate) fn reserve(&mut self, more: usize) -> &mut Vec<u8> {
        let padding = BLOCK_BYTES;
        if self.bytes.capacity() < self.bytes.len().max(BLOCK_BYTES) + more + padding {
            self.grow(more + padding);
        }
        if self.bytes.len() < self.start + FRAME_HEADER_BYTES {
            self.bytes.resize(self.start + FRAME_HEADER_BYTES, 0);
        }
        &mut self.bytes
    }

    /// Moves the frame to a larger place, to an address that is a multiple of the block. By a
    /// quarter: of two that are full both are within the share of memory that is one and a half.
    fn grow(&mut self, more: usize) {
        let frame = self.bytes.get(self.start..).unwrap_or_default();
        let needed = FRAME_HEADER_BYTES + frame.len() + more;
        let mut bytes: Vec<u8> = Vec::with_capacity(needed + needed / 4 + 4 * BLOCK_BYTES);
        let address = bytes.as_ptr() as usize;
        let start = address.next_multiple_of(BLOCK_BYTES) - address;
        bytes.resize(start, 0);
        bytes.extend_from_slice(frame);
        (self.bytes, self.start) = (bytes, start);
    }

    /// The frame's own bytes, zeros behind the payload so that all of it is `len` bytes long.
    /// [`FrameBuffer::unpad`] takes them away again.
    pub(crate) fn padded(&mut self, len: usize) -> &mut [u8] {
        self.reserve(0);
        debug_assert!(len >= FRAME_HEADER_BYTES + self.len());
        let len = len - self.lent_bytes;
        if self.bytes.capacity() < self.start + len
            || !(self.bytes.as_ptr() as usize + self.start).is_multiple_of(BLOCK_BYTES)
        {
            self.grow(len);
        }
        self.bytes.resize(self.start + len, 0);
        &mut self.bytes[self.start..]
    }

    /// Cuts the frame back to `payload` bytes.
    pub(crate) fn unpad(&mut self, payload: usize) {
        self.bytes.truncate(self.start + FRAME_HEADER_BYTES + payload - self.lent_bytes);
    }

    /// Forgets the frame and keeps its room, unless that is much.
    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            *self = FrameBuffer::default();
        }
        self.bytes.truncate(self.start);
        self.lent.clear();
        self.lent_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_takes_half_as_much_again_as_it_holds_at_most() {
        for piece in [100, 600, 5000] {
            let mut buffer = FrameBuffer::default();
            while buffer.len() < 1 << 20 {
                buffer.reserve(piece).extend_from_slice(&vec![7; piece]);
                let (len, capacity) = (buffer.len(), buffer.capacity());
                assert!(len < 150 << 10 || capacity <= len + len / 2, "{capacity} for {len}");
            }
        }
    }

    #[test]
    fn the_frame_is_aligned_and_keeps_its_payload_as_it_grows() {
        let mut buffer = FrameBuffer::default();
        for round in 0..3 {
            buffer.clear();
            assert!(buffer.is_empty() && buffer.payload().is_empty());
            let mut want = Vec::new();
            for n in 0..200usize {
                let piece = vec![n as u8; n * 37 % 1500];
                // Every third piece is larger than was said, every seventh is lent.
                match n % 7 {
                    6 => buffer.lend(Bytes::from(piece.clone())),
                    _ => buffer
                        .reserve(if n % 3 == 0 { 0 } else { piece.len() })
                        .extend_from_slice(&piece),
                }
                want.extend_from_slice(&piece);
                if n % 20 == round {
                    let len = (FRAME_HEADER_BYTES + want.len()).next_multiple_of(BLOCK_BYTES);
                    buffer.padded(len);
                    assert_eq!(buffer.parts()[0].as_ptr() as usize % BLOCK_BYTES, 0);
                    let frame = buffer.parts().concat();
                    assert_eq!(frame.len(), len);
                    let (payload, padding) = frame[FRAME_HEADER_BYTES..].split_at(want.len());
                    assert!(payload == want && padding.iter().all(|byte| *byte == 0));
                    buffer.unpad(want.len());
                }
                assert_eq!((buffer.payload(), buffer.len()), (want.clone(), want.len()));
            }
            buffer.join();
            assert!(buffer.payload() == want && buffer.parts().len() == 1);
        }
        buffer.reserve(KEPT_BYTES + 1);
        buffer.clear();
        assert_eq!(buffer.bytes.capacity(), 0, "a large buffer is given back");
    }

    #[test]
    fn a_payload_far_beyond_its_room_and_padding_far_beyond_it_are_aligned() {
        // What the allocator gives for such a payload lies otherwise in its block than what it gave
        // before.
        for n in 1..=16usize {
            let mut buffer = FrameBuffer::default();
            let payload = vec![n as u8; n * 100_000];
            buffer.reserve(n).extend_from_slice(&payload);
            let len = (FRAME_HEADER_BYTES + payload.len()).next_multiple_of(BLOCK_BYTES);
            for len in [len, 2 * len + 64 * BLOCK_BYTES] {
                let padded = buffer.padded(len);
                assert_eq!((padded.len(), padded.as_ptr() as usize % BLOCK_BYTES), (len, 0));
                buffer.unpad(payload.len());
                assert!(buffer.payload() == payload, "round {n}");
            }
        }
    }
}

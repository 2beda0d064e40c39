//! The bytes of a frame while it is put together: room for the header, then the payload as it
//! comes, padded to whole blocks when it is written. From here the log is written without a copy.
//!
//! The bytes begin at an address that is a multiple of the block: a file that is opened past the
//! system's cache takes no others.

use crate::wal::format::{BLOCK_BYTES, FRAME_HEADER_BYTES};

/// A buffer above this is given back after its frame.
const KEPT_BYTES: usize = 4 << 20;

/// One frame's bytes, reused from frame to frame.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    /// `start` bytes that align the rest, the header, the payload.
    bytes: Vec<u8>,
    start: usize,
}

impl FrameBuffer {
    /// Bytes of payload so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len().saturating_sub(self.start + FRAME_HEADER_BYTES)
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
    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(self.start + FRAME_HEADER_BYTES..).unwrap_or_default()
    }

    /// Where more payload is appended, with room for `more` bytes. Beyond that it works as well,
    /// but the frame is copied once more.
    pub(crate) fn room(&mut self, more: usize) -> &mut Vec<u8> {
        let padding = BLOCK_BYTES;
        if self.bytes.capacity() < self.bytes.len().max(BLOCK_BYTES) + more + padding {
            self.grow(more + padding);
        }
        if self.bytes.len() < self.start + FRAME_HEADER_BYTES {
            self.bytes.resize(self.start + FRAME_HEADER_BYTES, 0);
        }
        &mut self.bytes
    }

    /// Moves the frame to a larger place, to an address that is a multiple of the block.
    fn grow(&mut self, more: usize) {
        let frame = self.bytes.get(self.start..).unwrap_or_default();
        let needed = FRAME_HEADER_BYTES + frame.len() + more;
        let mut bytes: Vec<u8> = Vec::with_capacity(needed + needed / 2 + 4 * BLOCK_BYTES);
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES);
        // The address of every allocation can be aligned; were it not, the log would be written
        // through the system's cache.
        let start = if start < BLOCK_BYTES { start } else { 0 };
        bytes.resize(start, 0);
        bytes.extend_from_slice(frame);
        (self.bytes, self.start) = (bytes, start);
    }

    /// The whole frame, `len` bytes long, zeros behind the payload. [`FrameBuffer::unpad`] takes
    /// them away again.
    pub(crate) fn padded(&mut self, len: usize) -> &mut [u8] {
        self.room(0);
        debug_assert!(len >= FRAME_HEADER_BYTES + self.len());
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
        self.bytes.truncate(self.start + FRAME_HEADER_BYTES + payload);
    }

    /// Forgets the frame and keeps its room, unless that is much.
    pub(crate) fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            *self = FrameBuffer::default();
        }
        self.bytes.truncate(self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_is_aligned_and_keeps_its_payload_as_it_grows() {
        let mut buffer = FrameBuffer::default();
        for round in 0..3 {
            buffer.clear();
            assert!(buffer.is_empty() && buffer.payload().is_empty());
            let mut want = Vec::new();
            for n in 0..200usize {
                let piece = vec![n as u8; n * 37 % 1500];
                // Every third piece is larger than was said.
                buffer.room(if n % 3 == 0 { 0 } else { piece.len() }).extend_from_slice(&piece);
                want.extend_from_slice(&piece);
                if n % 20 == round {
                    let len = (FRAME_HEADER_BYTES + want.len()).next_multiple_of(BLOCK_BYTES);
                    let frame = buffer.padded(len);
                    assert_eq!(frame.as_ptr() as usize % BLOCK_BYTES, 0);
                    assert_eq!(frame.len(), len);
                    let (payload, padding) = frame[FRAME_HEADER_BYTES..].split_at(want.len());
                    assert!(payload == want && padding.iter().all(|byte| *byte == 0));
                    buffer.unpad(want.len());
                }
                assert_eq!((buffer.payload(), buffer.len()), (want.as_slice(), want.len()));
            }
        }
        buffer.room(KEPT_BYTES + 1);
        buffer.clear();
        assert_eq!(buffer.bytes.capacity(), 0, "a large buffer is given back");
    }
}

//! Reads one segment file: what it says it is, and which frames verify in it.
//!
//! What a frame holds is lent as a part of the memory that it was read into, so that whoever keeps
//! it need not copy it.
//!
//! Promise: no allocation beyond the file's own length, and time in proportion to it, whatever was
//! written there; an error of the disk is never taken for the end of the log. Absent: judgement.
//! What a missing frame means is decided in `replay`.

use crate::checksum::Beginnings;
use crate::error::{Error, Result};
use crate::ids::SegmentId;
use crate::names;
use crate::vfs::api::{Access, File, Vfs};
use crate::wal::format::{
    self, BLOCK_BYTES, FRAME_ALIGN_BYTES, FRAME_HEADER_BYTES, Frame, FramePlace, SegmentHeader,
    claimed_payload_bytes, claimed_sum, decode_frame, frame_bytes, next_block,
};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read from a segment at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// What stands where a frame may begin.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    /// A frame that verifies, and what its bytes are a part of.
    Frame(Frame<'a>, &'a Bytes),
    /// No frame. If the bytes claim to be one of this segment, the bytes it would take.
    Nothing { claimed_bytes: u64 },
    /// The end of the segment.
    End,
}

/// A segment file open for reading.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    pub(crate) path: PathBuf,
    segment: SegmentId,
    file: Arc<dyn File>,
    file_bytes: u64,
    /// From where on the disk knows of zeros only.
    zeros_from: u64,
    window: Bytes,
    window_at: u64,
    /// Bytes of what claimed to be frames and was summed in vain.
    pub(super) summed_in_vain: u64,
    /// The sums of the file, once that was more than its length.
    beginnings: Option<Beginnings>,
}

impl SegmentReader {
    pub(crate) fn open(vfs: &dyn Vfs, dir: &Path, segment: SegmentId) -> Result<SegmentReader> {
        let path = names::segment_path(dir, segment);
        let opened = vfs.open(&path, Access::Read).and_then(|file| {
            // Before anything is read: what lies in the system's cache may be anything.
            Ok((file.len()?, file.zeros_from()?, file))
        });
        let (file_bytes, zeros_from, file) =
            opened.map_err(|error| Error::io("opening a log segment", &path, error))?;
        Ok(SegmentReader {
            path,
            segment,
            file,
            file_bytes,
            zeros_from,
            window: Bytes::new(),
            window_at: 0,
            summed_in_vain: 0,
            beginnings: None,
        })
    }

    /// What the segment says of itself. It was synced before the file had its name, so anything
    /// else is damage.
    pub(crate) fn header(&mut self) -> Result<SegmentHeader> {
        let segment = self.segment;
        let bytes = self.bytes(0, BLOCK_BYTES)?;
        let header = SegmentHeader::decode(segment, bytes);
        let Some(header) = header else {
            return Err(Error::corrupt(&self.path, 0, "the header of a log segment"));
        };
        if self.file_bytes < header.file_bytes {
            let what = format!("a log segment ends here; it had {} bytes", header.file_bytes);
            return Err(Error::corrupt(&self.path, self.file_bytes, what));
        }
        self.file_bytes = header.file_bytes;
        Ok(header)
    }

    /// Shows what stands at every place where a frame may begin, and the end, in order of their
    /// offsets: at every block boundary that is not inside a frame that verifies, and behind every
    /// such frame; but where the disk knows of nothing but zeros, only once. `header`: the
    /// segment's.
    pub(crate) fn scan(
        &mut self,
        header: &SegmentHeader,
        see: &mut dyn FnMut(&Path, u64, Seen<'_>) -> Result<()>,
    ) -> Result<()> {
        let SegmentHeader { block_bytes, salt, .. } = *header;
        let path = self.path.clone();
        let mut at = block_bytes as u64;
        // Behind the first block of zeros that go on to the end there is nothing to be seen.
        while at < self.file_bytes.min(next_block(self.zeros_from, block_bytes)) {
            // Planted (`planted.rs`): a block of zeros passes for room that nothing was written to.
            if crate::planted!("B04") && self.is_zeros(at, next_block(at, block_bytes))? {
                at = next_block(at, block_bytes);
                continue;
            }
            at = match self.look(at, salt)? {
                Seen::Frame(frame, window) => {
                    let len = frame_bytes(frame.payload_bytes, FRAME_ALIGN_BYTES);
                    see(&path, at, Seen::Frame(frame, window))?;
                    at + len as u64
                }
                other => {
                    see(&path, at, other)?;
                    next_block(at, block_bytes)
                }
            };
        }
        see(&path, self.file_bytes, Seen::End)
    }

    fn look(&mut self, at: u64, salt: u32) -> Result<Seen<'_>> {
        let mut segment = self.segment;
        let rest = self.file_bytes - at;
        // Planted: a frame is one of whichever segment it says.
        if crate::planted!("B03") {
            let said = self.bytes(at, FRAME_HEADER_BYTES)?.get(16..24).unwrap_or_default();
            segment = SegmentId(said.iter().rev().fold(0, |id, byte| id << 8 | u64::from(*byte)));
        }
        let Some(payload) = claimed_payload_bytes(segment, self.bytes(at, FRAME_HEADER_BYTES)?)
        else {
            return Ok(Seen::Nothing { claimed_bytes: 0 });
        };
        let len = FRAME_HEADER_BYTES + payload;
        if len as u64 > rest {
            return Ok(Seen::Nothing { claimed_bytes: rest });
        }
        let place = FramePlace { segment, salt, offset: at };
        if self.summed_in_vain > self.file_bytes && !self.has_its_sum(&place, len)? {
            return Ok(Seen::Nothing { claimed_bytes: len as u64 });
        }
        self.bytes(at, len)?;
        let window = &self.window;
        let frame = window.get((at - self.window_at) as usize..).unwrap_or_default();
        Ok(match decode_frame(&place, frame) {
            Some(frame) => Seen::Frame(frame, window),
            None => {
                self.summed_in_vain += len as u64;
                Seen::Nothing { claimed_bytes: len as u64 }
            }
        })
    }

    /// Whether the `len` bytes at `place`, which are in the file, have the checksum that they
    /// claim; reads few of them. What somebody wrote may look like a frame at every block of the
    /// file, each to the end of it.
    fn has_its_sum(&mut self, place: &FramePlace, len: usize) -> Result<bool> {
        let claimed = claimed_sum(self.bytes(place.offset, FRAME_HEADER_BYTES)?);
        let (file, path) = (&self.file, &self.path);
        let mut read = |at, len| {
            let read = file.read_vec_at(len, at);
            read.map_err(|error| Error::io("reading the log", path, error))
        };
        let beginnings = match self.beginnings.take() {
            Some(beginnings) => beginnings,
            None => Beginnings::of(self.file_bytes, &mut read)?,
        };
        let sum = place.sum_in(&beginnings, len as u64, &mut read)?;
        self.beginnings = Some(beginnings);
        Ok(claimed == Some(sum))
    }

    /// Whether the bytes from `at` to `end` are nothing but zeros.
    fn is_zeros(&mut self, at: u64, end: u64) -> Result<bool> {
        Ok(self.bytes(at, (end - at) as usize)?.iter().all(|byte| *byte == 0))
    }

    /// `len` bytes from `at`, fewer where the file ends first.
    fn bytes(&mut self, at: u64, len: usize) -> Result<&[u8]> {
        let end = self.file_bytes.min(at.saturating_add(len as u64));
        let len = end.saturating_sub(at);
        let covered = self.window_at <= at && end <= self.window_at + self.window.len() as u64;
        if !covered {
            let fetched = len.max(WINDOW_BYTES).min(self.file_bytes.saturating_sub(at));
            self.window = Bytes::new(); // Its memory serves again, unless somebody keeps it.
            let read = self.file.read_vec_at(fetched as usize, at);
            let read = read.map_err(|error| Error::io("reading the log", &self.path, error))?;
            (self.window, self.window_at) = (read.into(), at);
        }
        let from = (at - self.window_at) as usize;
        Ok(&self.window[from..from + len as usize])
    }
}

/// Tells every frame of the segment in `dir`, one line each, the header first.
pub(crate) fn dump(
    vfs: &dyn Vfs,
    dir: &Path,
    segment: SegmentId,
    line: &mut dyn FnMut(String),
) -> Result<()> {
    let mut reader = SegmentReader::open(vfs, dir, segment)?;
    let header = reader.header()?;
    line(format::dump_segment(&header));
    reader.scan(&header, &mut |_, at, seen| {
        match seen {
            Seen::Frame(frame, _) => line(format::dump_frame(at, &frame)),
            Seen::Nothing { claimed_bytes: 1.. } => line(format!("{at:>10}  a frame that fails")),
            Seen::Nothing { .. } | Seen::End => {}
        }
        Ok(())
    })
}

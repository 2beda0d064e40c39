//! Making the files that log segments live in, ahead of need and off the commit path.
//!
//! Promise: a file named `*.wal` is whole: header, length and contents were synced under another
//! name first, then the name. Where syncs are many its blocks have been written before, so a
//! later overwrite changes no metadata and a sync of it costs one flush (80 us against 109 for
//! growing a file, and 147 for space that was reserved and never written). Where they are few for
//! what is written, or a commit waits for the segment, the space is only reserved: zeros would
//! double what the log writes. What of a reused file was never written stays so.

use crate::error::{Error, Result};
use crate::ids::{FileNo, SegmentId};
use crate::names::{self, FileKind};
use crate::vfs::api::{Access, File, Vfs};
use crate::wal::buffer::FrameBuffer;
use crate::wal::format::SegmentHeader;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Syncs of one segment that may be under way at once, each on a handle of its own.
///
/// The kernel reports a failed write-back once per open handle: of two concurrent syncs on one
/// handle only one would learn of it. For the same reason the handles are opened before the first
/// write, not when they are needed: one opened after a failure was reported elsewhere is clean.
pub(crate) const SYNC_LANES: usize = 8;

/// Zeros are written in pieces of this many bytes: large enough that calls do not matter.
const ZEROS_BYTES: usize = 256 << 10;

/// Zeros that are synced at once: syncs of commits beside them wait for the disk no longer than
/// these take, and not for a whole segment.
const ZEROS_SYNCED_BYTES: u64 = 1 << 20;

/// Work that makes one segment file; [`SpareJob::run`] may be called on any thread.
#[derive(Debug)]
pub(crate) struct SpareJob {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: PathBuf,
    /// What the file shall say; a reused file may keep a greater length.
    pub(crate) header: SegmentHeader,
    /// A reused file that is longer is cut.
    pub(crate) file_bytes_max: u64,
    /// Whether the blocks are to be written once before they are used, for the sake of syncs.
    pub(crate) zeroed: bool,
    /// Whether it can be done without: it is not begun where the disk says that it has no room, for
    /// what is written until it ends would be missing elsewhere.
    pub(crate) is_ahead: bool,
    /// The segment whose file is taken over; nobody needs its frames any more.
    pub(crate) reuse: Option<SegmentId>,
}

/// A segment file ready for its first frame.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) header: SegmentHeader,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
    /// For frames that are synced as they are written, where the disk takes such writes: one call
    /// of 75 us instead of two of 92, and no copy through the system's cache.
    pub(crate) direct: Option<Arc<dyn File>>,
    pub(crate) lanes: Vec<Arc<dyn File>>,
}

impl SpareJob {
    /// Makes the file. After an error none is left, under neither name, if it can be removed: what
    /// stays is ignored by recovery and only takes room.
    pub(crate) fn run(self) -> Result<Spare> {
        let (under, path) = (self.path_before(), self.path());
        let made = self.make(&under, path.clone());
        if made.is_err() {
            let _ = self.vfs.remove(&under);
            let _ = self.vfs.remove(&path);
        }
        made
    }

    fn path(&self) -> PathBuf {
        names::segment_path(&self.dir, self.header.segment)
    }

    fn path_before(&self) -> PathBuf {
        match self.reuse {
            Some(old) => names::segment_path(&self.dir, old),
            None => names::path(&self.dir, FileKind::Spare, FileNo(self.header.segment.0)),
        }
    }

    fn make(&self, under: &Path, path: PathBuf) -> Result<Spare> {
        let failed = |error| Error::io("preparing a log segment", under, error);
        let file = match self.reuse {
            Some(_) => self.vfs.open(under, Access::ReadWrite),
            None if self.is_ahead && self.lacks_room() => Err(io::ErrorKind::StorageFull.into()),
            None => self.vfs.create(under),
        }
        .map_err(failed)?;
        let mut header = self.header;
        header.file_bytes = self.fit(&*file).map_err(failed)?;
        let direct = self.vfs.open_direct(under).map_err(failed)?;
        let direct = write_header(&*file, direct, &header).map_err(failed)?;
        // Planted (`planted.rs`): the file is used though its length may not survive.
        if !crate::planted!("B09") {
            file.sync().map_err(failed)?;
        }
        self.vfs.rename(under, &path).map_err(failed)?;
        self.vfs.sync_dir(&self.dir).map_err(failed)?;
        let lanes = (0..SYNC_LANES).map(|_| self.vfs.open(&path, Access::ReadWrite));
        let lanes = lanes.collect::<io::Result<_>>().map_err(failed)?;
        Ok(Spare { header, path, file, direct, lanes })
    }

    /// Where the disk does not say how full it is, writing will.
    fn lacks_room(&self) -> bool {
        let available = self.vfs.bytes_available(&self.dir);
        available.is_ok_and(|available| available < self.header.file_bytes)
    }

    /// Brings the file to a length within bounds, its space taken, and returns that length.
    fn fit(&self, file: &dyn File) -> io::Result<u64> {
        let wanted = self.header.file_bytes;
        let len = file.len()?;
        if len < wanted {
            self.extend(file, len)?;
        } else if len <= self.file_bytes_max && len.is_multiple_of(self.header.block_bytes as u64) {
            return Ok(len);
        } else {
            file.set_len(wanted)?;
        }
        Ok(wanted)
    }

    /// Extends the file of `len` bytes by zeros to the length that is wanted.
    fn extend(&self, file: &dyn File, len: u64) -> io::Result<()> {
        let wanted = self.header.file_bytes;
        if !self.zeroed {
            match file.reserve(wanted) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                outcome => return outcome,
            }
            if !self.is_ahead {
                return write_zeros(file, len, wanted); // Somebody waits for nothing else.
            }
        }
        let mut at = len;
        while at < wanted {
            let end = wanted.min(at + ZEROS_SYNCED_BYTES);
            write_zeros(file, at, end)?;
            if end < wanted {
                file.sync()?; // The last ones are synced with the header.
            }
            at = end;
        }
        Ok(())
    }
}

/// Writes the header, and returns the direct handle if that took it: not every file system that
/// opens a file for direct writes takes blocks of this size.
fn write_header(
    file: &dyn File,
    direct: Option<Arc<dyn File>>,
    header: &SegmentHeader,
) -> io::Result<Option<Arc<dyn File>>> {
    let block = header.encode();
    let Some(direct) = direct else { return file.write_all_at(&block, 0).map(|()| None) };
    let mut buffer = FrameBuffer::default();
    let aligned = buffer.padded(block.len());
    aligned.copy_from_slice(&block);
    match direct.write_synced_at(aligned, 0) {
        Ok(()) => Ok(Some(direct)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            file.write_all_at(&block, 0).map(|()| None)
        }
        Err(error) => Err(error),
    }
}

fn write_zeros(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut at = from;
    while at < to {
        let piece = (to - at).min(ZEROS_BYTES as u64);
        file.write_all_at(&zeros[..piece as usize], at)?;
        at += piece;
    }
    Ok(())
}

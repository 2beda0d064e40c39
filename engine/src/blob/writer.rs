//! Writes one blob file, value after value.
//!
//! Promise: when `finish` returns, the file's bytes survive power loss; its name does so after the
//! caller has synced the folder. Memory: one buffer of 256 KiB; a large value goes to the file from
//! where it lies.

use crate::blob::format::{BlobMeta, FOOTER_LEN, Link, footer, header};
use crate::compress::Codec;
use crate::error::{Error, Result};
use crate::ids::FileNo;
use crate::vfs::api::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// A value from here on is written by a call of its own: that costs less than copying it.
const OWN_WRITE_BYTES: usize = 32 << 10;

/// Bytes after which the disk is given something to do: it then writes while values are compressed,
/// and the sync at the end waits for the rest only.
const BEGIN_SYNC_BYTES: u64 = 4 << 20;

/// A blob file being written.
pub(crate) struct BlobWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    no: FileNo,
    buffer: Vec<u8>,
    written: u64,
    /// Up to where the disk was told to write.
    begun: u64,
    values: u64,
}

impl BlobWriter {
    /// Writes file `no` into `file`, which is new and empty; `path` is for errors.
    pub(crate) fn new(file: Arc<dyn File>, path: &Path, no: FileNo) -> BlobWriter {
        BlobWriter {
            file,
            path: path.to_owned(),
            no,
            buffer: header(no),
            written: 0,
            begun: 0,
            values: 0,
        }
    }

    /// Appends a value of `raw_len` bytes, stored as `stored`.
    pub(crate) fn add(&mut self, codec: Codec, raw_len: usize, stored: &[u8]) -> Result<Link> {
        let link = Link::new(self.no, self.bytes_so_far(), codec, raw_len, stored);
        self.buffer.extend_from_slice(&link.head());
        self.values += 1;
        if stored.len() < OWN_WRITE_BYTES {
            self.buffer.extend_from_slice(stored);
            if self.buffer.len() >= WRITE_BYTES {
                self.write(&[])?;
            }
            return Ok(link);
        }
        self.write(stored)?;
        Ok(link)
    }

    /// Length of the file if nothing but its footer followed.
    pub(crate) fn bytes_so_far(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes the footer and syncs the file.
    pub(crate) fn finish(mut self) -> Result<BlobMeta> {
        let bytes = self.bytes_so_far() + FOOTER_LEN;
        let meta = BlobMeta { no: self.no, bytes, values: self.values };
        self.buffer.extend_from_slice(&footer(&meta));
        self.write(&[])?;
        // Planted (`planted.rs`): the manifest names the file before its bytes are safe.
        if !crate::planted!("B07b") {
            self.file.sync().map_err(|e| Error::io("syncing a blob file", &self.path, e))?;
        }
        Ok(meta)
    }

    /// Writes what was gathered and `more` behind it.
    fn write(&mut self, more: &[u8]) -> Result<()> {
        let parts: &[&[u8]] = if more.is_empty() { &[&self.buffer] } else { &[&self.buffer, more] };
        let written = self.file.write_parts_at(parts, self.written);
        written.map_err(|e| Error::io("writing a blob file", &self.path, e))?;
        self.written += (self.buffer.len() + more.len()) as u64;
        self.buffer.clear();
        if self.written - self.begun >= BEGIN_SYNC_BYTES {
            self.file.begin_sync(self.begun, self.written - self.begun);
            self.begun = self.written;
        }
        Ok(())
    }
}

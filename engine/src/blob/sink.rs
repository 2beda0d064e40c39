//! Where the values of a table file being written go: small ones stay in it, large ones go to blob
//! files, in the order of their keys.
//!
//! Promise: what [`Sink::finish`] returns survives power loss once the folder is synced. A sink
//! that is dropped before leaves files behind; [`Sink::numbers`] names them.

use crate::blob::format::{BlobMeta, Link};
use crate::blob::writer::BlobWriter;
use crate::compress::{Codec, Compressor};
use crate::error::{Error, Result};
use crate::expiry;
use crate::ids::{FileNo, RowKind, TableId};
use crate::key::order;
use crate::names::{self, FileKind};
use crate::options::Options;
use crate::vfs::api::Vfs;
use std::path::Path;

/// A value from here on is compressed only if a piece of it shrinks.
const PROBED_BYTES_MIN: usize = 16 << 10;

/// The piece that is tried.
const PROBE_BYTES: usize = 4 << 10;

/// How values are written.
#[derive(Clone, Debug)]
pub(crate) struct SinkOptions {
    /// Bytes from which a value goes to a blob file; 0 for never.
    pub(crate) min_bytes: usize,
    /// Bytes at which a blob file ends.
    pub(crate) file_bytes: u64,
    /// How values are compressed where it pays.
    pub(crate) codec: Codec,
}

impl From<&Options> for SinkOptions {
    fn from(options: &Options) -> SinkOptions {
        SinkOptions {
            min_bytes: options.advanced.blob_bytes_min,
            file_bytes: options.advanced.blob_file_bytes as u64,
            codec: options.advanced.compression.upper,
        }
    }
}

/// Where blob files are made.
pub(crate) trait BlobFolder {
    fn vfs(&self) -> &dyn Vfs;
    fn dir(&self) -> &Path;
    /// The number of the next file.
    fn next_file(&self) -> FileNo;
}

/// One that its owner lends for as long as the sink lives.
pub(crate) struct LentFolder<'a> {
    pub(crate) vfs: &'a dyn Vfs,
    pub(crate) dir: &'a Path,
    pub(crate) next_file: &'a dyn Fn() -> FileNo,
}

impl BlobFolder for LentFolder<'_> {
    fn vfs(&self) -> &dyn Vfs {
        self.vfs
    }

    fn dir(&self) -> &Path {
        self.dir
    }

    fn next_file(&self) -> FileNo {
        (self.next_file)()
    }
}

/// The blob files beside one table file, or beside several written one after the other.
pub(crate) struct Sink<F> {
    folder: F,
    options: SinkOptions,
    compressor: Compressor,
    open: Option<BlobWriter>,
    done: Vec<BlobMeta>,
    numbers: Vec<FileNo>,
    link: Vec<u8>,
}

impl<F: BlobFolder> Sink<F> {
    /// A sink that makes its files in `folder`.
    pub(crate) fn new(folder: F, options: SinkOptions) -> Sink<F> {
        let compressor = Compressor::new(options.codec);
        Sink {
            folder,
            options,
            compressor,
            open: None,
            done: Vec::new(),
            numbers: Vec::new(),
            link: Vec::new(),
        }
    }

    /// What the table file is to keep of the row: its value, or a reference to where this put it.
    ///
    /// Rows of the catalogue stay as they are, so that an open reads no blob file.
    pub(crate) fn place<'v>(
        &'v mut self,
        key: &[u8],
        kind: RowKind,
        value: &'v [u8],
    ) -> Result<(RowKind, &'v [u8])> {
        let min = self.options.min_bytes;
        let (expires, whole) = expiry::split(kind, value);
        let holds_value = matches!(kind, RowKind::Put | RowKind::PutUntil);
        let large = holds_value && min > 0 && whole.len() >= min;
        if !large || order::table_of(key) == Some(TableId::CATALOG) {
            return Ok((kind, value));
        }
        let value = whole;
        let packed = match is_compressible(&mut self.compressor, value) {
            true => self.compressor.compress(value),
            false => None,
        };
        let codec = self.options.codec;
        let (codec, stored) = packed.map_or((Codec::None, value), |packed| (codec, packed));
        let file = writer(&mut self.open, &mut self.numbers, &self.folder)?;
        let link = file.add(codec, value.len(), stored)?;
        self.link_to(&link, expires)
    }

    /// The same for a value that was in another blob file, as it was stored there. `expires`: the
    /// row's expiry, empty where it has none.
    pub(crate) fn place_stored(
        &mut self,
        old: &Link,
        expires: &[u8],
        stored: &[u8],
    ) -> Result<(RowKind, &[u8])> {
        let file = writer(&mut self.open, &mut self.numbers, &self.folder)?;
        let link = file.add(old.codec, old.raw_len as usize, stored)?;
        self.link_to(&link, expires)
    }

    /// The blob files that were written. Each holds a value, and is durable but for its name.
    pub(crate) fn finish(&mut self) -> Result<Vec<BlobMeta>> {
        self.end_file()?;
        Ok(std::mem::take(&mut self.done))
    }

    /// The numbers of all files that it made.
    pub(crate) fn numbers(&self) -> &[FileNo] {
        &self.numbers
    }

    fn link_to(&mut self, link: &Link, expires: &[u8]) -> Result<(RowKind, &[u8])> {
        if self.open.as_ref().is_some_and(|file| file.bytes_so_far() >= self.options.file_bytes) {
            self.end_file()?;
        }
        self.link.clear();
        self.link.extend_from_slice(expires);
        link.put(&mut self.link);
        let kind = if expires.is_empty() { RowKind::Link } else { RowKind::LinkUntil };
        Ok((kind, &self.link))
    }

    fn end_file(&mut self) -> Result<()> {
        if let Some(file) = self.open.take() {
            self.done.push(file.finish()?);
        }
        Ok(())
    }
}

/// The open blob file, made where there is none.
fn writer<'w>(
    open: &'w mut Option<BlobWriter>,
    numbers: &mut Vec<FileNo>,
    folder: &impl BlobFolder,
) -> Result<&'w mut BlobWriter> {
    if let Some(file) = open {
        return Ok(file);
    }
    let no = folder.next_file();
    numbers.push(no);
    let path = names::path(folder.dir(), FileKind::Blob, no);
    let file = folder.vfs().create(&path).map_err(|e| Error::io("making a blob file", &path, e))?;
    Ok(open.insert(BlobWriter::new(file, &path, no)))
}

/// Whether compressing `value` is worth trying: random bytes of many KiB would cost as much to try
/// as to write.
fn is_compressible(compressor: &mut Compressor, value: &[u8]) -> bool {
    if value.len() < PROBED_BYTES_MIN {
        return true;
    }
    let middle = value.len() / 2;
    compressor.compress(&value[middle..middle + PROBE_BYTES]).is_some()
}

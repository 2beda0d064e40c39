//! Where the values of a merge's rows go: a large one to a blob file, if it is not in one yet; one
//! in a worn blob file to a new one; all others stay where they are, and cost the merge a
//! reference.

use crate::blob::format::BlobMeta;
use crate::blob::sink::{LentFolder, Sink};
use crate::error::Result;
use crate::expiry;
use crate::ids::{FileNo, RowKind};
use crate::options::Options;
use crate::version::blobs::Blobs;
use crate::version::shelf::Shelf;

/// The values of the rows that one merge writes.
pub(crate) struct Values<'a> {
    shelf: &'a Shelf,
    blobs: &'a Blobs,
    worn: Vec<FileNo>, // Ascending.
    sink: Sink<LentFolder<'a>>,
    done: Vec<BlobMeta>,
}

impl<'a> Values<'a> {
    /// For rows that refer to `blobs`.
    pub(crate) fn new(
        shelf: &'a Shelf,
        next_file: &'a dyn Fn() -> FileNo,
        options: &Options,
        blobs: &'a Blobs,
    ) -> Values<'a> {
        let folder = LentFolder { vfs: &*shelf.vfs, dir: &shelf.dir, next_file };
        Values {
            shelf,
            blobs,
            worn: blobs.worn(options.advanced.blob_dead_percent),
            sink: Sink::new(folder, options.into()),
            done: Vec::new(),
        }
    }

    /// What the table file is to keep of a row.
    pub(crate) fn place<'v>(
        &'v mut self,
        key: &[u8],
        kind: RowKind,
        value: &'v [u8],
    ) -> Result<(RowKind, &'v [u8])> {
        if !kind.is_link() || self.worn.is_empty() {
            return self.sink.place(key, kind, value);
        }
        let (expires, reference) = expiry::split(kind, value);
        let (link, blob) = self.blobs.find(reference)?;
        match self.worn.binary_search(&link.file) {
            Ok(_) => self.sink.place_stored(&link, expires, &blob.file()?.stored(&link)?),
            Err(_) => Ok((kind, value)),
        }
    }

    /// Ends the last blob file; the bytes of all of them are durable then, their names not yet.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.done = self.sink.finish()?;
        Ok(())
    }

    /// The files, once they are finished.
    pub(crate) fn into_files(self) -> Vec<BlobMeta> {
        self.done
    }

    /// Gives up what was written.
    pub(crate) fn discard(self) {
        self.shelf.give_up([], self.sink.numbers().iter().copied());
    }
}

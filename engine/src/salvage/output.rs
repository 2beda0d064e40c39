//! The files of a salvaged database: one sorted run, and large values in blob files.

use crate::blob::format::BlobMeta;
use crate::blob::sink::{LentFolder, Sink};
use crate::error::Result;
use crate::ids::FileNo;
use crate::options::Options;
use crate::salvage::table::Version;
use crate::sstable::builder::TableBuilder;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::version::shelf::Shelf;

/// Files being written, one after the other.
pub(crate) struct Output<'a> {
    shelf: &'a Shelf,
    next_file: &'a dyn Fn() -> FileNo,
    options: TableOptions,
    file_bytes: u64,
    sink: Sink<LentFolder<'a>>,
    open: Option<TableBuilder>,
    key: Vec<u8>,
    done: Vec<FileMeta>,
    pub(crate) versions: u64,
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        shelf: &'a Shelf,
        options: &Options,
        next_file: &'a dyn Fn() -> FileNo,
    ) -> Output<'a> {
        let folder = LentFolder { vfs: &*shelf.vfs, dir: &shelf.dir, next_file };
        Output {
            shelf,
            next_file,
            options: TableOptions::from(options),
            file_bytes: options.advanced.file_bytes as u64,
            sink: Sink::new(folder, options.into()),
            open: None,
            key: Vec::new(),
            done: Vec::new(),
            versions: 0,
        }
    }

    /// Adds a version, which holds its value itself. All versions of a key go to one file.
    pub(crate) fn add(&mut self, version: &Version) -> Result<()> {
        let Version { key, prefix_len, ts, kind, value } = version;
        let full = |open: &TableBuilder| open.bytes_so_far() >= self.file_bytes;
        if self.key != *key && self.open.as_ref().is_some_and(full) {
            self.end_file()?;
        }
        self.key.clone_from(key);
        let builder = match &mut self.open {
            Some(builder) => builder,
            none => none.insert(self.shelf.create_table_file((self.next_file)(), &self.options)?),
        };
        self.versions += 1;
        builder.add_stored(key, *prefix_len, *ts, (*kind, value), || {
            self.sink.place(key, *kind, value)
        })
    }

    /// The files, which are durable but for their names.
    pub(crate) fn finish(mut self) -> Result<(Vec<FileMeta>, Vec<BlobMeta>)> {
        self.end_file()?;
        Ok((self.done, self.sink.finish()?))
    }

    fn end_file(&mut self) -> Result<()> {
        if let Some(builder) = self.open.take() {
            self.done.push(builder.finish()?);
        }
        Ok(())
    }
}

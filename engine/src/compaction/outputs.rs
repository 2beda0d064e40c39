//! The files that a merge writes, and where one ends and the next begins.

use crate::blob::format::BlobMeta;
use crate::compaction::job::GRANDPARENT_FILES_MAX;
use crate::compaction::values::Values;
use crate::erasure::set::Erasures;
use crate::error::Result;
use crate::fate::ErasedTo;
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::sstable::builder::TableBuilder;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::version::files::LiveFile;
use crate::version::shelf::Shelf;
use std::sync::Arc;

/// The files of one merge, written one after the other.
pub(crate) struct Outputs<'a> {
    shelf: &'a Shelf,
    next_file: &'a dyn Fn() -> FileNo,
    options: TableOptions,
    file_bytes: u64,
    values: Values<'a>,
    open: Option<TableBuilder>,
    done: Vec<FileMeta>,
    numbers: Vec<FileNo>,
    grandparents: std::slice::Iter<'a, Arc<LiveFile>>,
    overlapped_bytes: u64,
    erasures: &'a Erasures,
    erased_to: ErasedTo,
}

impl<'a> Outputs<'a> {
    /// `grandparents`: the files of the level below the outputs' that the merge overlaps.
    /// `erasures`: those that the merge knows.
    pub(crate) fn new(
        shelf: &'a Shelf,
        next_file: &'a dyn Fn() -> FileNo,
        options: TableOptions,
        file_bytes: u64,
        grandparents: &'a [Arc<LiveFile>],
        erasures: &'a Erasures,
        values: Values<'a>,
    ) -> Outputs<'a> {
        Outputs {
            shelf,
            next_file,
            options,
            file_bytes,
            values,
            open: None,
            done: Vec::new(),
            numbers: Vec::new(),
            grandparents: grandparents.iter(),
            overlapped_bytes: 0,
            erasures,
            erased_to: ErasedTo::all_of(erasures),
        }
    }

    /// Ends the open file before `key`, which was not there before, where it is large enough:
    ///
    /// - at a border of the files below, from half of a file's size on, so that the next merge
    ///   down touches whole files;
    /// - at the end of a partition, from three quarters on;
    /// - anywhere at its size, or where it overlaps too much of the level below.
    pub(crate) fn before_key(&mut self, key: &[u8]) -> Result<()> {
        let border = self.pass_grandparents(key);
        let Some(builder) = &self.open else { return Ok(()) };
        let bytes = builder.bytes_so_far();
        let ends = bytes >= self.file_bytes
            || self.overlapped_bytes > GRANDPARENT_FILES_MAX.saturating_mul(self.file_bytes)
            || (border && bytes >= self.file_bytes / 2)
            || (bytes >= self.file_bytes / 4 * 3 && builder.ends_partition(key));
        if ends {
            self.end_file()?;
        }
        Ok(())
    }

    /// Adds a version, in the order that a table file wants.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        prefix_len: usize,
        ts: CommitTs,
        kind: RowKind,
        value: &[u8],
    ) -> Result<()> {
        let builder = match &mut self.open {
            Some(builder) => builder,
            None => {
                let no = (self.next_file)();
                self.numbers.push(no);
                self.open.insert(self.shelf.create_table_file(no, &self.options)?)
            }
        };
        let values = &mut self.values;
        builder.add_stored(key, prefix_len, ts, (kind, value), || values.place(key, kind, value))
    }

    /// Notes that the version added last stays although an erasure hides it from some reader.
    pub(crate) fn keep_erased(&mut self, erased_at: Option<CommitTs>) {
        self.erased_to.keep(erased_at);
    }

    /// Ends the last file; the bytes of all of them are durable then, their names not yet.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.end_file()?;
        self.values.finish()
    }

    /// The files, once they are finished.
    pub(crate) fn into_files(self) -> (Vec<FileMeta>, Vec<BlobMeta>) {
        (self.done, self.values.into_files())
    }

    /// Gives up what was written.
    pub(crate) fn discard(self) {
        drop(self.open);
        self.values.discard();
        self.shelf.give_up(self.numbers, []);
    }

    /// Whether a file below ended between the last key and this one.
    fn pass_grandparents(&mut self, key: &[u8]) -> bool {
        let mut passed_any = false;
        while self.grandparents.as_slice().first().is_some_and(|f| f.meta.largest.as_slice() < key)
        {
            let passed = self.grandparents.next().map_or(0, |file| file.meta.bytes);
            self.overlapped_bytes += if self.open.is_some() { passed } else { 0 };
            passed_any = true;
        }
        passed_any
    }

    fn end_file(&mut self) -> Result<()> {
        self.overlapped_bytes = 0;
        if let Some(builder) = self.open.take() {
            let erased_to = self.erased_to.ts();
            self.done.push(FileMeta { erased_to, ..builder.finish()? });
            self.erased_to = ErasedTo::all_of(self.erasures);
        }
        Ok(())
    }
}

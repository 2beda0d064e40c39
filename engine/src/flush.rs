//! Flush: a sealed memtable becomes an L0 file.

use crate::cursor::Cursor;
use crate::erasure::set::Erasures;
use crate::error::{Error, Result};
use crate::fate::{ErasedTo, Fate, Judge};
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::key::order;
use crate::memtable::api::Memtable;
use crate::snapshot::Boundaries;
use crate::sstable::builder::TableBuilder;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::version::files::Shelf;
use std::sync::Arc;

/// Writes the memtable to the table file `no`, without the versions that no reader can ask for.
/// File and name are durable on return. `None` where nothing is left to write. `erased`: what the
/// memtable's own commits erased, which the caller records with the file.
pub(crate) fn write_memtable(
    memtable: &Arc<dyn Memtable>,
    erased: &Erasures,
    no: FileNo,
    options: &TableOptions,
    boundaries: &Boundaries,
    shelf: &Shelf,
) -> Result<Option<FileMeta>> {
    let mut cursor = Arc::clone(memtable).cursor();
    cursor.seek(&[], CommitTs::MAX)?;
    if !cursor.valid() {
        return Ok(None);
    }
    let written = write_from(&mut *cursor, erased, no, options, boundaries, shelf);
    if written.is_err() {
        shelf.put_trash(no);
    }
    written
}

fn write_from(
    cursor: &mut dyn Cursor,
    erased: &Erasures,
    no: FileNo,
    options: &TableOptions,
    boundaries: &Boundaries,
    shelf: &Shelf,
) -> Result<Option<FileMeta>> {
    let mut builder = None;
    let mut judge = Judge::of_flush(boundaries, erased);
    let mut erased_to = ErasedTo::all_of(erased);
    let (mut key, mut prefix_len) = (Vec::new(), 0);
    while cursor.valid() {
        if cursor.key() != key.as_slice() {
            key.clear();
            key.extend_from_slice(cursor.key());
            prefix_len = order::prefix_len(&key)
                .ok_or_else(|| Error::invalid("a memtable holds what is not a row's key"))?;
            judge.next_key(&key);
        }
        if let Fate::Keep { erased_at } = judge.of(&key, cursor.ts(), cursor.kind()) {
            let value = cursor.value()?;
            debug_assert!(cursor.kind() == RowKind::Put || value.is_empty(), "deletes are bare");
            let builder = match &mut builder {
                Some(builder) => builder,
                none => none.insert(create_table(shelf, no, options)?),
            };
            builder.add(&key, prefix_len, cursor.ts(), cursor.kind(), &value)?;
            erased_to.keep(erased_at);
        }
        cursor.next()?;
    }
    let Some(builder) = builder else { return Ok(None) };
    let meta = FileMeta { erased_to: erased_to.ts(), ..builder.finish()? };
    sync_names(shelf)?;
    Ok(Some(meta))
}

/// Makes an empty table file.
pub(crate) fn create_table(
    shelf: &Shelf,
    no: FileNo,
    options: &TableOptions,
) -> Result<TableBuilder> {
    let path = shelf.table_path(no);
    let file = shelf.vfs.create(&path).map_err(|e| Error::io("create table file", &path, e))?;
    Ok(TableBuilder::new(file, &path, no, options.clone()))
}

/// Makes the names of new files durable.
pub(crate) fn sync_names(shelf: &Shelf) -> Result<()> {
    shelf.vfs.sync_dir(&shelf.dir).map_err(|e| Error::io("sync folder", &shelf.dir, e))
}

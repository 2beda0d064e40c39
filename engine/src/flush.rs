//! Flush: a sealed memtable becomes an L0 file, and its large values blob files.

use crate::blob::sink::{LentFolder, Sink};
use crate::cursor::Cursor;
use crate::erasure::set::Erasures;
use crate::error::{Error, Result};
use crate::expiry;
use crate::fate::{ErasedTo, Fate, Judge};
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::key::order;
use crate::memtable::api::Memtable;
use crate::options::Options;
use crate::snapshot::Boundaries;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::version::shelf::{NewFiles, Shelf};
use std::sync::Arc;

/// What a flush may know of the world.
pub(crate) struct FlushEnv<'a> {
    pub(crate) shelf: &'a Shelf,
    pub(crate) options: &'a Options,
    pub(crate) boundaries: &'a Boundaries,
    pub(crate) next_file: &'a dyn Fn() -> FileNo,
}

/// Writes the memtable to a table file and its large values to blob files, as [`write_rows`] does.
/// Files and names are durable on return.
pub(crate) fn write_memtable(
    memtable: &Arc<dyn Memtable>,
    erased: &Erasures,
    env: &FlushEnv<'_>,
) -> Result<Option<NewFiles>> {
    let mut cursor = Arc::clone(memtable).cursor();
    cursor.seek(&[], CommitTs::MAX)?;
    let flushed = write_rows(&mut *cursor, erased, env)?;
    if let Some(files) = &flushed {
        env.shelf.sync_names().inspect_err(|_| files.discard(env.shelf))?;
    }
    Ok(flushed)
}

/// Writes the rows from `cursor` on to a table file and large values to blob files, without the
/// versions that no reader can ask for. The files are durable on return, their names are not.
/// `None` where nothing is left to write. `erased`: what the commits of these rows erased, which
/// the caller records with the files.
pub(crate) fn write_rows(
    cursor: &mut dyn Cursor,
    erased: &Erasures,
    env: &FlushEnv<'_>,
) -> Result<Option<NewFiles>> {
    if !cursor.valid() {
        return Ok(None);
    }
    let (no, shelf) = ((env.next_file)(), env.shelf);
    let folder = LentFolder { vfs: &*shelf.vfs, dir: &shelf.dir, next_file: env.next_file };
    let mut sink = Sink::new(folder, env.options.into());
    let written = write_from(cursor, erased, no, &mut sink, env);
    if written.is_err() {
        shelf.give_up([no], sink.numbers().iter().copied());
    }
    written
}

fn write_from(
    cursor: &mut dyn Cursor,
    erased: &Erasures,
    no: FileNo,
    sink: &mut Sink<LentFolder<'_>>,
    env: &FlushEnv<'_>,
) -> Result<Option<NewFiles>> {
    let options = TableOptions::from(env.options);
    let mut builder = None;
    let mut judge = Judge::of_flush(env.boundaries, erased);
    let mut erased_to = ErasedTo::all_of(erased);
    let (mut key, mut prefix_len) = (Vec::new(), 0);
    while cursor.valid() {
        if cursor.key() != key.as_slice() {
            // No other partition's key starts with a partition's prefix.
            let same_partition = prefix_len > 0 && cursor.key().starts_with(&key[..prefix_len]);
            key.clear();
            key.extend_from_slice(cursor.key());
            if !same_partition {
                prefix_len = order::prefix_len(&key)
                    .ok_or_else(|| Error::invalid("a memtable holds what is not a row's key"))?;
            }
            judge.next_key(&key);
        }
        let (ts, kind, value) = (cursor.ts(), cursor.kind(), cursor.value_ref()?);
        let kept = match judge.fate(&key, ts, kind, expiry::of(kind, value)) {
            Fate::Keep { erased_at } => Some((erased_at, kind, value)),
            Fate::Expired { erased_at } => Some((erased_at, RowKind::Delete, &[][..])),
            _ => None,
        };
        if let Some((erased_at, kind, value)) = kept {
            let builder = match &mut builder {
                Some(builder) => builder,
                none => none.insert(env.shelf.create_table_file(no, &options)?),
            };
            let given = (kind, value);
            builder.add_stored(&key, prefix_len, ts, given, || sink.place(&key, kind, value))?;
            erased_to.keep(erased_at);
        }
        cursor.next()?;
    }
    let Some(builder) = builder else { return Ok(None) };
    let blobs = sink.finish()?;
    let table = FileMeta { erased_to: erased_to.ts(), ..builder.finish()? };
    Ok(Some(NewFiles { table, blobs }))
}

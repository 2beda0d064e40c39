//! Runs one merge: reads its inputs in key order, drops what no reader can ask for, writes the rest
//! to new files of the next level.
//!
//! A version is dropped for one of three reasons, each counted: its table was dropped; a newer
//! version serves every reader that could ask for it; it is a delete with nothing left below it to
//! hide. Versions read must equal versions written and dropped, or nothing is installed.

use crate::catalog::Readable;
use crate::compaction::job::Merge;
use crate::cursor::Cursor;
use crate::error::{Error, Kind, Result};
use crate::flush::{create_table, sync_names};
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::iter::level::{Purpose, over_file};
use crate::iter::merge::MergeCursor;
use crate::iter::tree::{Source, over_level};
use crate::key::order;
use crate::limits::LEVELS;
use crate::manifest::edit::Edit;
use crate::options::Options;
use crate::snapshot::{Boundaries, Retain};
use crate::sstable::builder::TableBuilder;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::version::files::{LiveFile, Shelf, Version};
use std::sync::Arc;

/// An output file ends before it overlaps more than this many files' worth of the level below it.
const GRANDPARENT_FILES_MAX: u64 = 10;

/// What a merge may know of the world.
pub(crate) struct MergeEnv<'a> {
    pub(crate) shelf: &'a Shelf,
    pub(crate) options: &'a Options,
    pub(crate) version: &'a Version,
    pub(crate) boundaries: &'a Boundaries,
    pub(crate) readable: &'a Readable,
    pub(crate) next_file: &'a dyn Fn() -> FileNo,
}

/// What a merge did with the versions that it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) shadowed: u64,
    pub(crate) deletes_done: u64,
    pub(crate) of_dropped_tables: u64,
}

/// Merges; the outputs and their names are durable on return. After an error the outputs are in
/// the trash and the inputs untouched.
pub(crate) fn merge(job: &Merge, env: &MergeEnv<'_>) -> Result<(Edit, Tally)> {
    let mut outputs = Outputs::new(job, env);
    let merged = merge_into(job, env, &mut outputs).and_then(|tally| {
        outputs.end_file()?;
        sync_names(env.shelf)?;
        check(job, &tally, &outputs.done)?;
        Ok(tally)
    });
    match merged {
        Ok(tally) => Ok((edit(job, outputs.done), tally)),
        Err(error) => {
            outputs.numbers.into_iter().for_each(|no| env.shelf.put_trash(no));
            Err(error)
        }
    }
}

fn edit(job: &Merge, outputs: Vec<FileMeta>) -> Edit {
    let out_level = (job.level + 1) as u8;
    let from_upper = job.upper.iter().map(|file| (job.level as u8, file.meta.no));
    let from_lower = job.lower.iter().map(|file| (out_level, file.meta.no));
    Edit {
        added: outputs.into_iter().map(|meta| (out_level, Arc::new(meta))).collect(),
        removed: from_upper.chain(from_lower).collect(),
        ..Edit::default()
    }
}

/// Versions in must be versions out and versions dropped.
fn check(job: &Merge, tally: &Tally, outputs: &[FileMeta]) -> Result<()> {
    let given: u64 = job.upper.iter().chain(&job.lower).map(|file| file.meta.rows).sum();
    let written: u64 = outputs.iter().map(|meta| meta.rows).sum();
    let dropped = tally.shadowed + tally.deletes_done + tally.of_dropped_tables;
    if tally.read == given && tally.written == written && given == written + dropped {
        return Ok(());
    }
    let what = format!("compaction of {given} versions lost count: {tally:?}, written {written}");
    Err(Error::new(Kind::Corrupt, what))
}

fn merge_into(job: &Merge, env: &MergeEnv<'_>, outputs: &mut Outputs<'_>) -> Result<Tally> {
    let mut cursor = MergeCursor::new(sources(job)?);
    let mut retain = Retain::new(env.boundaries);
    let mut below = Below::new(job.level + 2, env.version);
    let mut tally = Tally::default();
    let (mut key, mut prefix_len, mut readable) = (Vec::new(), 0, false);
    cursor.seek(&[], CommitTs::MAX)?;
    while cursor.valid() {
        if cursor.key() != key.as_slice() {
            key.clear();
            key.extend_from_slice(cursor.key());
            prefix_len = order::prefix_len(&key).ok_or_else(not_a_key)?;
            readable = order::table_of(&key).is_some_and(|table| env.readable.contains(table));
            retain.next_key();
            outputs.before_key(&key)?;
        }
        tally.read += 1;
        let (ts, kind) = (cursor.ts(), cursor.kind());
        if !readable {
            tally.of_dropped_tables += 1;
        } else if !retain.keeps(ts) {
            tally.shadowed += 1;
        } else if kind == RowKind::Delete && ts <= env.boundaries.oldest() && !below.may_hold(&key)
        {
            tally.deletes_done += 1;
        } else {
            let value = cursor.value()?;
            outputs.add(&key, prefix_len, ts, kind, &value)?;
            tally.written += 1;
        }
        cursor.next()?;
    }
    Ok(tally)
}

fn sources(job: &Merge) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    match job.level {
        0 => {
            for file in &job.upper {
                sources.push(Source::File(over_file(file, Purpose::Pass)?));
            }
        }
        _ => sources.extend(over_level(job.upper.clone(), Purpose::Pass)),
    }
    sources.extend(over_level(job.lower.clone(), Purpose::Pass));
    Ok(sources)
}

fn not_a_key() -> Error {
    Error::new(Kind::Corrupt, "a table file holds what is not a row's key")
}

/// Whether files below the output level may hold older versions of a key. Keys are asked in order,
/// so each level is walked once.
struct Below<'a> {
    levels: Vec<std::slice::Iter<'a, Arc<LiveFile>>>,
}

impl<'a> Below<'a> {
    fn new(first: usize, version: &'a Version) -> Below<'a> {
        let levels = version.levels.get(first.min(LEVELS)..).unwrap_or_default();
        Below { levels: levels.iter().map(|files| files.iter()).collect() }
    }

    fn may_hold(&mut self, key: &[u8]) -> bool {
        self.levels.iter_mut().any(|files| {
            while files.as_slice().first().is_some_and(|f| f.meta.largest.as_slice() < key) {
                files.next();
            }
            files.as_slice().first().is_some_and(|f| f.meta.smallest.as_slice() <= key)
        })
    }
}

/// The files that a merge writes.
struct Outputs<'a> {
    env: &'a MergeEnv<'a>,
    options: TableOptions,
    open: Option<TableBuilder>,
    done: Vec<FileMeta>,
    numbers: Vec<FileNo>,
    grandparents: std::slice::Iter<'a, Arc<LiveFile>>,
    overlapped_bytes: u64,
}

impl<'a> Outputs<'a> {
    fn new(job: &'a Merge, env: &'a MergeEnv<'a>) -> Outputs<'a> {
        Outputs {
            env,
            options: TableOptions::from(env.options),
            open: None,
            done: Vec::new(),
            numbers: Vec::new(),
            grandparents: job.grandparents.iter(),
            overlapped_bytes: 0,
        }
    }

    /// Ends the open file where it is large enough, or would overlap too much of the level below.
    fn before_key(&mut self, key: &[u8]) -> Result<()> {
        while self.grandparents.as_slice().first().is_some_and(|f| f.meta.largest.as_slice() < key)
        {
            let passed = self.grandparents.next().map_or(0, |file| file.meta.bytes);
            self.overlapped_bytes += if self.open.is_some() { passed } else { 0 };
        }
        let bytes = self.open.as_ref().map_or(0, TableBuilder::bytes_so_far);
        let file_bytes = self.env.options.advanced.file_bytes as u64;
        if bytes >= file_bytes || self.overlapped_bytes > GRANDPARENT_FILES_MAX * file_bytes {
            self.end_file()?;
        }
        Ok(())
    }

    fn add(
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
                let no = (self.env.next_file)();
                self.numbers.push(no);
                self.open.insert(create_table(self.env.shelf, no, &self.options)?)
            }
        };
        builder.add(key, prefix_len, ts, kind, value)
    }

    fn end_file(&mut self) -> Result<()> {
        self.overlapped_bytes = 0;
        if let Some(builder) = self.open.take() {
            self.done.push(builder.finish()?);
        }
        Ok(())
    }
}

//! Runs one merge: reads its inputs in key order, drops what no reader can ask for, writes the rest
//! to new files of the next level.
//!
//! What is dropped is decided by `fate` alone. Versions read must equal versions written and
//! dropped, or nothing is installed.

use crate::blob::format::BlobMeta;
use crate::catalog::Readable;
use crate::compaction::input::{Input, inputs};
use crate::compaction::job::Merge;
use crate::compaction::outputs::Outputs;
use crate::compaction::tournament::{Run as _, Tournament};
use crate::compaction::values::Values;
use crate::error::{Error, Kind, Result};
use crate::expiry;
use crate::fate::{Fate, Judge};
use crate::flush::sync_names;
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::key::order;
use crate::manifest::edit::Edit;
use crate::options::Options;
use crate::snapshot::Boundaries;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::version::files::Version;
use crate::version::shelf::Shelf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Versions between two looks at whether the database closes: about a millisecond.
const VERSIONS_PER_LOOK: u64 = 1 << 12;

/// What a merge may know of the world.
pub(crate) struct MergeEnv<'a> {
    pub(crate) shelf: &'a Shelf,
    pub(crate) options: &'a Options,
    pub(crate) version: &'a Version,
    pub(crate) boundaries: &'a Boundaries,
    pub(crate) readable: &'a Readable,
    pub(crate) next_file: &'a dyn Fn() -> FileNo,
    /// Whether the database closes: a merge then ends early and leaves nothing.
    pub(crate) closing: &'a AtomicBool,
}

/// What a merge did with the versions that it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) dropped: u64,
}

/// Merges; the outputs and their names are durable on return. After an error the outputs are in
/// the trash and the inputs untouched.
///
/// Errors: `Closed` where the database closes meanwhile.
pub(crate) fn merge(job: &Merge, env: &MergeEnv<'_>) -> Result<Edit> {
    let mut options = TableOptions::from(env.options);
    if env.version.levels.iter().skip(job.level + 2).all(|files| files.is_empty()) {
        options.codec = env.options.advanced.table_codecs().bottom;
        options.filter_bits = env.options.advanced.filter_bits;
    }
    let file_bytes = env.options.advanced.file_bytes as u64;
    let (below, erasures) = (&job.grandparents, &env.version.erasures);
    let values = Values::new(env.shelf, env.next_file, env.options, &env.version.blobs);
    let mut outputs =
        Outputs::new(env.shelf, env.next_file, options, file_bytes, below, erasures, values);
    let merged = merge_into(job, env, &mut outputs).and_then(|tally| {
        check(job, &tally, outputs.finish()?)?;
        sync_names(env.shelf)
    });
    match merged {
        Ok(()) => {
            let (mut tables, blobs) = outputs.into_files();
            tables.iter_mut().for_each(|table| table.aged_to = aged_to(table, env.readable));
            Ok(edit(job, (tables, blobs)))
        }
        Err(error) => {
            outputs.discard();
            Err(error)
        }
    }
}

/// For [`FileMeta::aged_to`]. Where tables differ, what has lived shortest decides, and the others
/// wait: a file must not be found worth it twice at one time.
fn aged_to(table: &FileMeta, readable: &Readable) -> CommitTs {
    let tables = order::table_of(&table.smallest).zip(order::table_of(&table.largest));
    let aging = tables.map(|(first, last)| readable.aging(first, last).map(|(_, to)| *to).max());
    aging.flatten().unwrap_or_default()
}

fn edit(job: &Merge, (outputs, blobs): (Vec<FileMeta>, Vec<BlobMeta>)) -> Edit {
    let out_level = (job.level + 1) as u8;
    let from_upper = job.upper.iter().map(|file| (job.level as u8, file.meta.no));
    let from_lower = job.lower.iter().map(|file| (out_level, file.meta.no));
    Edit {
        added: outputs.into_iter().map(|meta| (out_level, Arc::new(meta))).collect(),
        removed: from_upper.chain(from_lower).collect(),
        blobs: blobs.into_iter().map(Arc::new).collect(),
        ..Edit::default()
    }
}

/// Versions in must be versions out and versions dropped.
fn check(job: &Merge, tally: &Tally, outputs: &[FileMeta]) -> Result<()> {
    let given: u64 = job.upper.iter().chain(&job.lower).map(|file| file.meta.rows).sum();
    let written: u64 = outputs.iter().map(|meta| meta.rows).sum();
    if tally.read == given && tally.written == written && given == written + tally.dropped {
        return Ok(());
    }
    let what = format!("compaction of {given} versions lost count: {tally:?}, written {written}");
    Err(Error::new(Kind::Corrupt, what))
}

fn merge_into(job: &Merge, env: &MergeEnv<'_>, outputs: &mut Outputs<'_>) -> Result<Tally> {
    let mut merge: Tournament<Input> =
        Tournament::start(inputs(job, env.shelf.pool.budget.ahead(job.runs())))?;
    let mut judge = Judge::of_merge(job.level + 1, env.version, env.boundaries, env.readable);
    let mut tally = Tally::default();
    loop {
        let new_key = merge.is_new_key();
        let Some(row) = merge.winner() else { return Ok(tally) };
        if new_key {
            judge.next_key(row.key());
            outputs.before_key(row.key())?;
        }
        tally.read += 1;
        let (ts, kind, prefix_len) = (row.ts(), row.kind(), row.prefix_len());
        let expires = match kind.expires() {
            true => expiry::of(kind, row.key_and_value()?.1),
            false => CommitTs::MAX,
        };
        match judge.of(row.key(), ts, kind, expires) {
            Fate::Keep { erased_at } => {
                let (key, value) = row.key_and_value()?;
                outputs.add(key, prefix_len, ts, kind, value)?;
                outputs.keep_erased(erased_at);
                tally.written += 1;
            }
            Fate::Expired { erased_at } => {
                outputs.add(row.key(), prefix_len, ts, RowKind::Delete, &[])?;
                outputs.keep_erased(erased_at);
                tally.written += 1;
            }
            _ => tally.dropped += 1,
        }
        if tally.read.is_multiple_of(VERSIONS_PER_LOOK) && env.closing.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::Closed, "the database closes; a merge was given up"));
        }
        merge.next()?;
    }
}

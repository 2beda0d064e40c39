//! Runs one merge: reads its inputs in key order, drops what no reader can ask for, writes the rest
//! to new files of the next level.
//!
//! What is dropped is decided by `fate` alone. Versions read must equal versions written and
//! dropped, or nothing is installed.
//!
//! A merge that hurries is divided by ranges of keys into parts with inputs and outputs of their
//! own, on a thread each. All versions of a key are in one part, so parts need not know of one
//! another. One edit names what all of them wrote; if one fails, the files of all are thrown away.

use crate::blob::format::BlobMeta;
use crate::catalog::Readable;
use crate::compaction::input::{Input, inputs};
use crate::compaction::job::Merge;
use crate::compaction::outputs::Outputs;
use crate::compaction::picker;
use crate::compaction::tournament::{Run as _, Tournament};
use crate::compaction::values::Values;
use crate::env::jobs::{Jobs, Part};
use crate::error::{Error, Kind, Result};
use crate::expiry;
use crate::fate::{Fate, Judge};
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::iter::split;
use crate::key::order;
use crate::key::range::KeyRange;
use crate::manifest::edit::Edit;
use crate::options::Options;
use crate::snapshot::Boundaries;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::version::files::Version;
use crate::version::shelf::Shelf;
use std::sync::Arc;

/// Versions between two looks at whether the database closes: about a millisecond.
const VERSIONS_PER_LOOK: u64 = 1 << 12;

/// What a merge may know of the world.
pub(crate) struct MergeEnv<'a> {
    pub(crate) shelf: &'a Shelf,
    pub(crate) options: &'a Options,
    pub(crate) version: &'a Version,
    pub(crate) boundaries: &'a Boundaries,
    pub(crate) readable: &'a Readable,
    pub(crate) next_file: &'a (dyn Fn() -> FileNo + Sync),
    pub(crate) jobs: &'a dyn Jobs,
    /// Whether the database closes: a merge then ends early and leaves nothing.
    pub(crate) closing: &'a AtomicBool,
}

/// What a merge did with the versions that it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    read: u64,
    written: u64,
    dropped: u64,
}

/// What one part of a merge wrote; the bytes are durable, the names not yet.
struct Written {
    tables: Vec<FileMeta>,
    blobs: Vec<BlobMeta>,
    tally: Tally,
}

impl Written {
    fn discard(&self, shelf: &Shelf) {
        let (tables, blobs) = (self.tables.iter(), self.blobs.iter());
        shelf.give_up(tables.map(|table| table.no), blobs.map(|blob| blob.no));
    }
}

/// The ranges of keys that a merge is done in: at most `parts`, each of one file's bytes at least,
/// so that dividing a merge leaves no small files.
pub(crate) fn divide(job: &Merge, options: &Options, parts: usize) -> Result<Vec<KeyRange>> {
    let (smallest, largest) = picker::span(job.inputs());
    let whole = KeyRange::spanning(smallest, largest);
    let bytes: u64 = job.inputs().map(|file| file.meta.bytes).sum();
    let parts = parts.min((bytes / options.advanced.file_bytes as u64) as usize);
    if parts <= 1 {
        return Ok(vec![whole]);
    }
    let upper = job.upper.iter().map(|file| (job.level, file));
    let lower = job.lower.iter().map(|file| (job.level + 1, file));
    split::split_anywhere(upper.chain(lower), &whole, parts)
}

/// Merges within `ranges`, which hold all keys of the inputs between them; the outputs and their
/// names are durable on return. After an error the outputs are in the trash and the inputs
/// untouched.
///
/// Errors: `Closed` where the database closes meanwhile.
pub(crate) fn merge(job: &Merge, ranges: &[KeyRange], env: &MergeEnv<'_>) -> Result<Edit> {
    let failed = AtomicBool::new(false);
    let ahead_bytes = env.shelf.pool.budget.ahead(job.runs(), ranges.len());
    let mut outcomes: Vec<_> = ranges.iter().map(|_| Ok(None)).collect();
    let part = |(range, outcome)| -> Part<'_> {
        let (failed, outcome): (_, &mut Result<Option<Written>>) = (&failed, outcome);
        Box::new(move || {
            *outcome = merge_part(job, range, ahead_bytes, env, failed);
            if outcome.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        })
    };
    env.jobs.together(ranges.iter().zip(&mut outcomes).map(part).collect());
    let (mut parts, mut error) = (Vec::with_capacity(ranges.len()), None);
    for outcome in outcomes {
        match outcome {
            Ok(written) => parts.extend(written),
            Err(e) => error = error.or(Some(e)),
        }
    }
    let done = match error {
        Some(error) => Err(error),
        None => check(job, &parts).and_then(|()| env.shelf.sync_names()),
    };
    match done {
        Ok(()) => Ok(edit(job, parts, env)),
        Err(error) => {
            parts.iter().for_each(|part| part.discard(env.shelf));
            Err(error)
        }
    }
}

/// Merges what `range` holds; nothing, and no files, where another part `failed` meanwhile.
fn merge_part(
    job: &Merge,
    range: &KeyRange,
    ahead_bytes: usize,
    env: &MergeEnv<'_>,
    failed: &AtomicBool,
) -> Result<Option<Written>> {
    let mut options = TableOptions::from(env.options);
    if env.version.ends_at(job.level + 1) {
        options.codec = env.options.advanced.table_codecs().bottom;
        options.filter_bits = env.options.advanced.filter_bits;
    }
    let file_bytes = match job.fits_one_file(env.options.advanced.file_bytes as u64) {
        // Its end is not left to what blocks are thought to take before they are compressed: the
        // upkeep that joins files would find as many again, for ever.
        true => u64::MAX,
        false => env.options.advanced.file_bytes as u64,
    };
    let (below, erasures) = (&job.grandparents, &env.version.erasures);
    let values = Values::new(env.shelf, env.next_file, env.options, &env.version.blobs);
    let mut outputs =
        Outputs::new(env.shelf, env.next_file, options, file_bytes, below, erasures, values);
    let inputs = inputs(job, range, ahead_bytes);
    let merged = merge_into(job, inputs, env, failed, &mut outputs)
        .and_then(|tally| tally.map_or(Ok(None), |tally| outputs.finish().map(|()| Some(tally))));
    match merged {
        Ok(Some(tally)) => {
            let (tables, blobs) = outputs.into_files();
            Ok(Some(Written { tables, blobs, tally }))
        }
        given_up => {
            outputs.discard();
            given_up.map(|_| None)
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

fn edit(job: &Merge, parts: Vec<Written>, env: &MergeEnv<'_>) -> Edit {
    let out_level = (job.level + 1) as u8;
    let from_upper = job.upper.iter().map(|file| (job.level as u8, file.meta.no));
    let from_lower = job.lower.iter().map(|file| (out_level, file.meta.no));
    let mut edit = Edit { removed: from_upper.chain(from_lower).collect(), ..Edit::default() };
    for Written { tables, blobs, .. } in parts {
        for table in tables {
            let aged_to = aged_to(&table, env.readable);
            edit.added.push((out_level, Arc::new(FileMeta { aged_to, ..table })));
        }
        edit.blobs.extend(blobs.into_iter().map(Arc::new));
    }
    edit
}

/// Versions in must be versions out and versions dropped.
fn check(job: &Merge, parts: &[Written]) -> Result<()> {
    let sum = |count: fn(&Tally) -> u64| parts.iter().map(|part| count(&part.tally)).sum::<u64>();
    let (read, written, dropped) = (sum(|t| t.read), sum(|t| t.written), sum(|t| t.dropped));
    let given: u64 = job.upper.iter().chain(&job.lower).map(|file| file.meta.rows).sum();
    let stored: u64 = parts.iter().flat_map(|part| &part.tables).map(|table| table.rows).sum();
    // Planted (`planted.rs`), with the input's part: nobody counts.
    if crate::planted!("B15") || read == given && written == stored && given == written + dropped {
        return Ok(());
    }
    let what = format!(
        "compaction of {given} versions lost count: {read} read, {written} written, {stored} stored, {dropped} dropped"
    );
    Err(Error::new(Kind::Corrupt, what))
}

/// `None` where another part `failed` meanwhile.
fn merge_into(
    job: &Merge,
    inputs: Vec<Input<'_>>,
    env: &MergeEnv<'_>,
    failed: &AtomicBool,
    outputs: &mut Outputs<'_>,
) -> Result<Option<Tally>> {
    let mut merge = Tournament::start(inputs)?;
    let mut judge = Judge::of_merge(job.level + 1, env.version, env.boundaries, env.readable);
    let mut tally = Tally::default();
    loop {
        let new_key = merge.is_new_key();
        let Some(row) = merge.winner() else { return Ok(Some(tally)) };
        if new_key {
            judge.next_key(row.key());
        }
        // Planted with the second condition: a file may end between two versions of a key.
        if new_key || crate::planted!("B21") {
            outputs.before_key(row.key())?;
        }
        tally.read += 1;
        let (ts, kind, prefix_len) = (row.ts(), row.kind(), row.prefix_len());
        let expires = match kind.expires() {
            true => expiry::of(kind, row.key_and_value()?.1),
            false => CommitTs::MAX,
        };
        match judge.fate(row.key(), ts, kind, expires) {
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
        if tally.read.is_multiple_of(VERSIONS_PER_LOOK) {
            if env.closing.load(Ordering::Relaxed) {
                return Err(Error::new(Kind::Closed, "the database closes; a merge was given up"));
            }
            if failed.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
        merge.next()?;
    }
}

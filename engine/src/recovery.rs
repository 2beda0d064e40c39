//! From a folder to a database: manifest, then log, then a fresh start.
//!
//! What the log holds beyond the files is written to files first; then a fresh log is made, and only
//! then does one manifest edit name both. Until that edit is durable a crash leaves the old state
//! whole, so recovery may be cut anywhere, any number of times. It also means that nothing is
//! served that sits only in the page cache of a log the last process could not sync.

use crate::batch::Commit;
use crate::catalog::{self, Tables};
use crate::cursor::Cursor as _;
use crate::env::rng::Rng;
use crate::erasure::live::ErasureList;
use crate::erasure::set::Erasures;
use crate::error::{Error, Kind, Result};
use crate::flush::{self, FlushEnv};
use crate::ids::{CommitTs, FileNo, RowKind, SegmentId};
use crate::iter::tree;
use crate::key::order;
use crate::key::range::KeyRange;
use crate::manifest::log::Manifest;
use crate::manifest::state::State;
use crate::memtable::api::Memtable;
use crate::memtable::table::new_memtable;
use crate::moment;
use crate::names::{self, FileKind};
use crate::options::Options;
use crate::pool::Pool;
use crate::rows::Row;
use crate::snapshot::Snapshots;
use crate::stats::Recovery;
use crate::version::files::Version;
use crate::version::set::VersionSet;
use crate::version::shelf::Shelf;
use crate::vfs::api::Vfs;
use crate::view::{Sealed, View};
use crate::wal::replay::{self, Replay};
use crate::wal::writer::LogWriter;
use bytes::Bytes;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// A database that is ready to serve.
pub(crate) struct Opened {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) view: View,
    /// Every commit up to here is visible, and every new one comes later.
    pub(crate) last_ts: CommitTs,
    /// Moments before it are not whole.
    pub(crate) history_floor: CommitTs,
    /// What was found on the way.
    pub(crate) report: Recovery,
    /// What a writer needs; `None` where the database was opened read-only.
    pub(crate) writer: Option<(VersionSet, LogWriter)>,
}

/// Opens the database in `dir`, or makes one. `seed`: for the new database's id. `now`: the wall
/// clock, which new commits follow where it is ahead.
///
/// The caller holds the folder's lock, unless it opens read-only.
pub(crate) fn open(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    options: &Options,
    pool: Arc<Pool>,
    seed: u64,
    now: CommitTs,
) -> Result<Opened> {
    let mapped = options.advanced.mapped;
    let shelf = Shelf::new(Arc::clone(&vfs), dir.to_owned(), pool, mapped);
    let mut report = Recovery::default();
    let (state, found) = match Manifest::load(&*vfs, dir)? {
        Some(loaded) => {
            report.manifest_generation = loaded.generation;
            report.manifest_edits = loaded.edits;
            report.repairs = loaded.repairs.iter().map(Error::to_string).collect();
            let found = read_log(&*vfs, dir, options, &loaded.state)?;
            (loaded.state, found)
        }
        None if options.create_if_missing && !options.read_only => create(&vfs, dir, seed)?,
        None => {
            let what = format!("there is no database in {}", dir.display());
            return Err(Error::new(Kind::NotFound, what));
        }
    };
    report.log_groups = found.replay.groups;
    report.tail_discarded_bytes = found.replay.tail_discarded_bytes;
    let mut opened = match options.read_only {
        true => show(shelf, &state, found),
        false => start(shelf, options, state, found, now)?,
    };
    opened.report = report;
    Ok(opened)
}

/// The catalogue as of the newest commit, with the tables dropped before whose rows may still be
/// there for readers of the past.
pub(crate) fn load_tables(view: &View) -> Result<Tables> {
    let mut tables = Tables::new();
    let prefix = catalog::partition();
    let range = KeyRange { start: prefix.clone(), end: order::partition_end(&prefix) };
    let mut versions = tree::merge(view, &range, None)?;
    // From the end: the versions of a row then come in the order of their commits.
    versions.seek_before(&range.end)?;
    while versions.valid() && versions.key() >= range.start.as_slice() {
        let row = Row { ts: versions.ts(), value: versions.value()? };
        let rk = versions.key().get(prefix.len()..).unwrap_or_default();
        match versions.kind() {
            RowKind::Delete => tables.unload(rk, row.ts)?,
            RowKind::Put => tables.load(rk, row)?,
            kind => {
                let what = format!("catalogue row: cannot be a {kind:?}");
                return Err(Error::new(Kind::Corrupt, what));
            }
        }
        versions.prev()?;
    }
    Ok(tables)
}

/// Commits of the log, as a memtable would have them.
struct Replayed {
    table: Arc<dyn Memtable>,
    erased: Arc<ErasureList>,
}

/// What the log holds beyond the files.
struct Found {
    replay: Replay,
    /// Oldest first.
    memtables: Vec<Replayed>,
    last_ts: CommitTs,
}

fn create(vfs: &Arc<dyn Vfs>, dir: &Path, seed: u64) -> Result<(State, Found)> {
    let mut rng = Rng::seeded(seed);
    let db_id = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    let (_, state) = Manifest::create(Arc::clone(vfs), dir, db_id)?;
    let replay = replay::replay(&**vfs, dir, state.log_floor, &mut |_, _, _| Ok(()))?;
    Ok((state, Found { replay, memtables: Vec::new(), last_ts: CommitTs::ZERO }))
}

fn read_log(vfs: &dyn Vfs, dir: &Path, options: &Options, state: &State) -> Result<Found> {
    let mut memtables: Vec<Replayed> = Vec::new();
    let mut last_ts = state.last_ts;
    let replay = replay::replay(vfs, dir, state.log_floor, &mut |_, group_last, payload| {
        if group_last <= state.last_ts {
            return Ok(());
        }
        let group = Bytes::copy_from_slice(payload);
        for commit in Commit::read_group(&group).ok_or_else(damaged_group)? {
            if commit.ts <= state.last_ts {
                continue;
            }
            if commit.ts <= last_ts {
                return Err(damaged_group());
            }
            last_ts = commit.ts;
            let full = |last: &Replayed| {
                last.table.bytes() + last.erased.bytes() >= options.advanced.memtable()
            };
            if memtables.last().is_none_or(full) {
                let (table, erased) = (new_memtable(), Arc::default());
                memtables.push(Replayed { table, erased });
            }
            let Some(last) = memtables.last() else { continue };
            let erasures = commit.erasures();
            if !erasures.is_empty() {
                last.erased.add(erasures);
            }
            if !last.table.apply(&commit) {
                return Err(damaged_group());
            }
        }
        Ok(())
    })?;
    Ok(Found { replay, memtables, last_ts })
}

/// The frame's checksum held, so this is not a torn write.
fn damaged_group() -> Error {
    Error::new(Kind::Corrupt, "a group of the log is not a list of commits in order")
}

/// Read-only: what the log holds is shown from memory and nothing is written.
fn show(shelf: Arc<Shelf>, state: &State, found: Found) -> Opened {
    let sealed = |Replayed { table, erased }| {
        Arc::new(Sealed { table, erased, last_ts: found.last_ts, log_floor: state.log_floor })
    };
    let view = View {
        active: new_memtable(),
        erased: Arc::default(),
        sealed: found.memtables.into_iter().rev().map(sealed).collect(),
        version: Arc::new(Version::of(state, &shelf)),
        edition: 0,
    };
    let (last_ts, history_floor) = (found.last_ts, state.history_floor);
    Opened { shelf, view, last_ts, history_floor, report: Recovery::default(), writer: None }
}

fn start(
    shelf: Arc<Shelf>,
    options: &Options,
    mut state: State,
    found: Found,
    now: CommitTs,
) -> Result<Opened> {
    let (vfs, dir) = (Arc::clone(&shelf.vfs), shelf.dir.clone());
    // Before anything is made or deleted on its word.
    Manifest::settle(&*vfs, &dir)?;
    remove_orphans(&shelf, &state)?;
    write_files(&shelf, options, &mut state, &found, now)?;
    let history_floor = state.history_floor;
    let mut log = LogWriter::create(
        Arc::clone(&vfs),
        &dir,
        options.advanced.wal_segment_bytes,
        &found.replay,
    )?;
    // Above every timestamp that was ever seen, and a second's worth more: one that a crash took
    // along is never given out again. Recorded, or the next start would begin at the same place
    // where this one's commits are lost.
    let seen = found.replay.seen_ts.max(found.last_ts).max(state.last_ts);
    let last_ts = CommitTs(seen.0.saturating_add(CommitTs::TICKS_PER_SECOND)).max(now);
    state.last_ts = last_ts;
    state.log_floor = log.current();
    let manifest = Manifest::start(vfs, &dir, &state)?;
    log.release(log.current()).remove()?;
    let version = Arc::new(Version::of(&state, &shelf));
    let set = VersionSet::new(manifest, state, Arc::clone(&version), Arc::clone(&shelf));
    let (active, erased) = (new_memtable(), Arc::default());
    let view = View { active, erased, sealed: Vec::new(), version, edition: 0 };
    let report = Recovery::default();
    Ok(Opened { shelf, view, last_ts, history_floor, report, writer: Some((set, log)) })
}

/// Writes what the log holds to L0 files and adds them to `state`.
fn write_files(
    shelf: &Arc<Shelf>,
    options: &Options,
    state: &mut State,
    found: &Found,
    now: CommitTs,
) -> Result<()> {
    let time = now.max(found.last_ts).max(state.history_floor);
    let floor = CommitTs(time.0.saturating_sub(moment::ticks(options.history)));
    let boundaries = Snapshots::new(state.history_floor).boundaries(|| found.last_ts, floor);
    let number = Cell::new(state.next_file);
    let next_file = || number.replace(FileNo(number.get().0 + 1));
    let env = FlushEnv { shelf, options, boundaries: &boundaries, next_file: &next_file };
    for Replayed { table, erased } in &found.memtables {
        let erased = erased.get();
        if let Some(flushed) = flush::write_memtable(table, &erased, &env)? {
            state.levels[0].push(Arc::new(flushed.table));
            state.blobs.extend(flushed.blobs.into_iter().map(|blob| (blob.no, Arc::new(blob))));
        }
        if !erased.is_empty() {
            let mut erasures = Erasures::clone(&state.erasures);
            erased.iter().for_each(|erasure| erasures.insert(erasure.clone()));
            state.erasures = Arc::new(erasures);
        }
    }
    if !found.memtables.is_empty() {
        state.history_floor = boundaries.floor();
    }
    state.next_file = number.get();
    Ok(())
}

/// Deletes table files and blob files that the manifest does not name: a crash came between their
/// making and their edit, or between an edit and their deletion.
fn remove_orphans(shelf: &Arc<Shelf>, state: &State) -> Result<()> {
    let dir = &shelf.dir;
    let mut names = shelf.vfs.list(dir).map_err(|e| Error::io("list folder", dir, e))?;
    names.retain(|name| match names::parse(name) {
        Some((FileKind::Table, no)) => !state.files().any(|(_, file)| file.no == no),
        Some((FileKind::Blob, no)) => !state.blobs.contains_key(&no),
        Some((FileKind::Temp, _)) => true,
        _ => false,
    });
    for name in names {
        let path = dir.join(&name);
        shelf.vfs.remove(&path).map_err(|e| Error::io("remove orphan", &path, e))?;
    }
    Ok(())
}

/// Makes a database in `dir` out of hard links to the files of `version`, which `state` describes.
/// Nothing of it counts until its root is written, last.
pub(crate) fn copy_by_links(
    shelf: &Shelf,
    version: &Version,
    state: &State,
    dir: &Path,
) -> Result<()> {
    let vfs = &shelf.vfs;
    vfs.create_dir_all(dir).map_err(|e| Error::io("create folder", dir, e))?;
    if !vfs.list(dir).map_err(|e| Error::io("list folder", dir, e))?.is_empty() {
        return Err(Error::invalid(format!("{} is not empty", dir.display())));
    }
    let tables = version.files().map(|(_, file)| (FileKind::Table, file.meta.no));
    let blobs = version.blobs.iter().map(|(blob, _)| (FileKind::Blob, blob.meta.no));
    for (kind, no) in tables.chain(blobs) {
        let name = names::file_name(kind, no);
        let (from, to) = (shelf.dir.join(&name), dir.join(&name));
        vfs.hard_link(&from, &to).map_err(|e| Error::io("link file", &to, e))?;
    }
    let state = State { log_floor: SegmentId(0), ..state.clone() };
    Manifest::start(Arc::clone(vfs), dir, &state).map(|_| ())
}

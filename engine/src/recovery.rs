//! From a folder to a database: manifest, then log, then a fresh start.
//!
//! What the log holds beyond the files is written to files, a fresh log is made, and only then does
//! one manifest edit name both. Until that edit is durable a crash leaves the old state whole, so
//! recovery may be cut anywhere, any number of times. It also means that nothing is served that
//! sits only in the page cache of a log the last process could not sync.

use crate::batch::LentCommit;
use crate::beside::{self, Log};
use crate::catalog::{self, Tables};
use crate::codec::Reader;
use crate::cursor::Cursor as _;
use crate::env::jobs::Jobs;
use crate::erasure::live::ErasureList;
use crate::error::{Error, Kind, Result};
use crate::folder;
use crate::ids::{CommitTs, RowKind};
use crate::iter::tree;
use crate::key::order;
use crate::key::range::KeyRange;
use crate::manifest::load::Loaded;
use crate::manifest::log::Manifest;
use crate::manifest::state::{State, new_id};
use crate::memtable::api::Memtable;
use crate::memtable::table::new_memtable;
use crate::moment;
use crate::names::{self, FileKind, FileName};
use crate::options::Options;
use crate::pool::Pool;
use crate::restore::Restore;
use crate::rows::Row;
use crate::stats::Recovery;
use crate::version::files::Version;
use crate::version::set::VersionSet;
use crate::version::shelf::Shelf;
use crate::vfs::api::Vfs;
use crate::view::{Sealed, View};
use crate::wal::format::LogFloor;
use crate::wal::replay::{self, Payload, Replay};
use crate::wal::writer::LogWriter;
use bytes::Bytes;
use std::collections::HashSet;
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
    /// The history window, in ticks.
    pub(crate) history: u64,
    /// What was found on the way.
    pub(crate) report: Recovery,
    /// What a writer needs; `None` where the database was opened read-only.
    pub(crate) writer: Option<(VersionSet, LogWriter)>,
}

/// Opens the database in `dir`, or makes one. `seed`: for the new database's id. `now`: the wall
/// clock, which new commits follow where it is ahead. The segments of the log before it stay for
/// [`LogWriter::release`].
///
/// The caller holds the folder's lock, unless it opens read-only.
pub(crate) fn open(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    options: &Options,
    pool: Arc<Pool>,
    seed: u64,
    now: CommitTs,
    jobs: &dyn Jobs,
) -> Result<Opened> {
    let mapped = options.advanced.mapped;
    let shelf = Shelf::new(Arc::clone(&vfs), dir.to_owned(), pool, mapped);
    if options.read_only {
        return beside::settled(|| show(&shelf, options));
    }
    let (state, report) = match Manifest::load(&*vfs, dir)? {
        Some(loaded) => {
            let report = report_of(&loaded);
            // Planted (`planted.rs`) with the condition: what the cache shows passes for what the
            // disk has.
            if !loaded.repairs.is_empty() && !crate::planted!("B19") {
                // The second copy is begun when the first is durable, so what both have is safe.
                // What one has alone may be in the cache alone, because the process before was
                // killed or a sync of it failed, after which one more may succeed and write
                // nothing. It is written anew before anything is deleted or overwritten on its
                // word.
                Manifest::start(Arc::clone(&vfs), dir, &loaded.state)?;
            }
            (loaded.state, report)
        }
        None if options.create_if_missing => (create(&vfs, dir, seed)?, Recovery::default()),
        None => return Err(folder::no_database(dir)),
    };
    start(shelf, options, state, report, now, jobs)
}

fn report_of(loaded: &Loaded) -> Recovery {
    Recovery {
        manifest_generation: loaded.generation,
        manifest_edits: loaded.edits,
        repairs: loaded.repairs.iter().map(Error::to_string).collect(),
        ..Recovery::default()
    }
}

/// The catalogue as of `last_ts`, the newest commit, with the tables dropped before whose rows may
/// still be there for readers of the past.
pub(crate) fn load_tables(view: &View, last_ts: CommitTs) -> Result<Tables> {
    let mut tables = Tables::new();
    let prefix = catalog::partition();
    let range = KeyRange { start: prefix.clone(), end: order::partition_end(&prefix) };
    let mut versions = tree::merge(view, &range, None)?;
    // From the end: the versions of a row then come in the order of their commits.
    versions.seek_before(&range.end)?;
    while versions.valid() && versions.key() >= range.start.as_slice() {
        let row = Row::new(versions.ts(), versions.value()?);
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
    // Whoever is told of a change waits until it is visible: of this one, for ever.
    if tables.changed() > last_ts {
        let what = format!("catalogue: changed at {}, after the last commit", tables.changed().0);
        return Err(Error::new(Kind::Corrupt, what));
    }
    Ok(tables)
}

fn create(vfs: &Arc<dyn Vfs>, dir: &Path, seed: u64) -> Result<State> {
    Manifest::create(Arc::clone(vfs), dir, new_id(seed)).map(|(_, state)| state)
}

/// Takes a commit, and what it was read with; `None` where its bytes are not what a batch writes.
type Take<'a> = dyn FnMut(&LentCommit<'_>, &Bytes) -> Option<()> + 'a;

/// Gives every commit of the log beyond the files and before `end`, in order; returns the last one.
pub(crate) fn read_log(
    shelf: &Shelf,
    state: &State,
    end: CommitTs,
    report: &mut Recovery,
    take: &mut Take<'_>,
) -> Result<(Replay, CommitTs)> {
    let mut last_ts = state.last_ts;
    let (vfs, dir, floor) = (&*shelf.vfs, &shelf.dir, state.log_floor);
    let mut show = |first, last, group: Payload<'_>| {
        // Planted: a group of which a part is in files is taken for one that is.
        let newest = if crate::planted!("B25") { first } else { last };
        if newest <= state.last_ts {
            return Ok(());
        }
        let mut reader = Reader::new(group.bytes);
        while !reader.is_empty() {
            let commit = LentCommit::read(&mut reader).ok_or_else(damaged_group)?;
            if commit.ts <= state.last_ts || commit.ts >= end {
                continue;
            }
            if commit.ts <= last_ts || !(first..=last).contains(&commit.ts) {
                return Err(damaged_group());
            }
            last_ts = commit.ts;
            take(&commit, group.window).ok_or_else(damaged_group)?;
        }
        Ok(())
    };
    // Planted: damage to the log counts only where table files are not mapped.
    let replay = match crate::planted!("B06") && shelf.mapped {
        true => replay::check(vfs, dir, floor, &mut show)?.replay,
        false => replay::replay(vfs, dir, floor, &mut show)?,
    };
    report.log_groups = replay.groups;
    report.tail_discarded_bytes = replay.tail_discarded_bytes;
    Ok((replay, last_ts))
}

/// The frame's checksum held, so this is not a torn write.
fn damaged_group() -> Error {
    Error::new(Kind::Corrupt, "a group of the log is not a list of commits in order")
}

/// Read-only: what the log holds is shown from memory and nothing is written. `None` where a writer
/// has given up the log meanwhile.
fn show(shelf: &Arc<Shelf>, options: &Options) -> Result<Option<Opened>> {
    let load = || Manifest::load_existing(&*shelf.vfs, &shelf.dir);
    let first = load()?;
    let (state, mut report) = (&first.state, report_of(&first));
    let gone = shelf.hold(state.names());
    let mut end = CommitTs::MAX;
    let (memtables, last_ts) = loop {
        let (memtables, last_ts) = replay_to_memory(shelf, options, state, end, &mut report)?;
        match Log::between(&first, &load()?, last_ts, &gone) {
            Log::Whole => break (memtables, last_ts),
            Log::Before(ts) => end = ts,
            Log::Lost => return Ok(None),
        }
    };
    let sealed = |(table, erased)| {
        Arc::new(Sealed { table, erased, last_ts, log_floor: state.log_floor.segment })
    };
    let view = View {
        active: new_memtable(&shelf.pool.spare),
        erased: Arc::default(),
        sealed: memtables.into_iter().rev().map(sealed).collect(),
        version: Arc::new(Version::of(state, shelf)),
        edition: 0,
    };
    let (history_floor, history) = (state.history_floor, state.history);
    let shelf = Arc::clone(shelf);
    Ok(Some(Opened { shelf, view, last_ts, history_floor, history, report, writer: None }))
}

/// A memtable, and what was erased in its time.
type Replayed = (Arc<dyn Memtable>, Arc<ErasureList>);

/// What the log holds beyond the files and before `end`, oldest first, and its last commit.
fn replay_to_memory(
    shelf: &Shelf,
    options: &Options,
    state: &State,
    end: CommitTs,
    report: &mut Recovery,
) -> Result<(Vec<Replayed>, CommitTs)> {
    let mut memtables: Vec<Replayed> = Vec::new();
    let (_, last_ts) = read_log(shelf, state, end, report, &mut |commit, _| {
        let full = |(table, erased): &Replayed| {
            table.bytes() + erased.bytes() >= options.advanced.memtable()
        };
        if memtables.last().is_none_or(full) {
            memtables.push((new_memtable(&shelf.pool.spare), Arc::default()));
        }
        let (table, erased) = memtables.last()?;
        let erasures = commit.erasures();
        if !erasures.is_empty() {
            erased.add(erasures);
        }
        table.apply(&commit.copied()).then_some(())
    })?;
    Ok((memtables, last_ts))
}

fn start(
    shelf: Arc<Shelf>,
    options: &Options,
    mut state: State,
    mut report: Recovery,
    now: CommitTs,
    jobs: &dyn Jobs,
) -> Result<Opened> {
    let (vfs, dir) = (Arc::clone(&shelf.vfs), shelf.dir.clone());
    remove_orphans(&shelf, &state)?;
    state.history = options.history.map_or(state.history, moment::ticks);
    let options = &Options { history: Some(moment::span(state.history)), ..options.clone() };
    let mut restore = Restore::new(&shelf, options, &state, now, jobs);
    let (replay, found_ts) =
        read_log(&shelf, &state, CommitTs::MAX, &mut report, &mut |commit, window| {
            restore.add(commit, window)
        })?;
    // Made while others write: it waits for the disk, they for the processor.
    restore.give();
    let segment_bytes = options.advanced.wal_segment_bytes;
    let mut log = LogWriter::create(Arc::clone(&vfs), &dir, segment_bytes, &replay)?;
    // While nothing names it. Left there, each open that fails would add one, to a full disk at
    // last.
    let segment = names::segment_path(&dir, log.current());
    let remove_log = || {
        let _ = vfs.remove(&segment);
    };
    restore.finish(&mut state).inspect_err(|_| remove_log())?;
    if crate::planted!("B10") {
        log.plant_b10();
    }
    let history_floor = state.history_floor;
    // Above every timestamp that was ever seen, and some more unless the log was closed: one that a
    // crash took along is never given out again. Not behind the time by which rows were reclaimed,
    // which might be ahead of the clock by now. Recorded, or the next start would begin at the same
    // place where this one's commits are lost.
    let seen = replay.seen_ts.max(found_ts).max(state.last_ts);
    let lead = if replay.ended { 0 } else { CommitTs::START_LEAD };
    let mut last_ts = CommitTs(seen.0.saturating_add(lead)).max(now).max(history_floor);
    if crate::planted!("B13") {
        last_ts = state.last_ts; // Planted: commits of the log do not count.
    }
    state.last_ts = last_ts;
    state.log_floor = LogFloor::at(log.current());
    let started = Manifest::begin(Arc::clone(&vfs), &dir, &state);
    let manifest = started.map_err(|unswitched| {
        if unswitched.is_unnamed {
            remove_log();
        }
        unswitched.error
    })?;
    let history = state.history;
    let version = Arc::new(Version::of(&state, &shelf));
    let set = VersionSet::new(manifest, state, Arc::clone(&version), Arc::clone(&shelf));
    let (active, erased) = (new_memtable(&shelf.pool.spare), Arc::default());
    let view = View { active, erased, sealed: Vec::new(), version, edition: 0 };
    Ok(Opened { shelf, view, last_ts, history_floor, history, report, writer: Some((set, log)) })
}

/// Deletes table files and blob files that the manifest does not name: a crash came between their
/// making and their edit, or between an edit and their deletion.
fn remove_orphans(shelf: &Arc<Shelf>, state: &State) -> Result<()> {
    if crate::planted!("B17") {
        return Ok(()); // Planted: what a full disk or a crash left is in the way of the next start.
    }
    let dir = &shelf.dir;
    let mut files = folder::files(&*shelf.vfs, dir)?;
    let named: HashSet<FileName> = state.names().collect();
    files.retain(|file| match file {
        (FileKind::Table | FileKind::Blob, _) => !named.contains(file),
        (FileKind::Temp, _) => true,
        _ => false,
    });
    for (kind, no) in files {
        let path = names::path(dir, kind, no);
        shelf
            .vfs
            .remove(&path)
            .map_err(|e| Error::io("removing a file that nothing names", &path, e))?;
    }
    Ok(())
}

/// Gives the files of `version` a second name in `dir`, which must be empty or absent.
pub(crate) fn link_files(shelf: &Shelf, version: &Version, dir: &Path) -> Result<()> {
    let vfs = &shelf.vfs;
    folder::make_empty(&**vfs, dir)?;
    let tables = version.files().map(|(_, file)| (FileKind::Table, file.meta.no));
    let blobs = version.blobs.iter().map(|(blob, _)| (FileKind::Blob, blob.meta.no));
    for (kind, no) in tables.chain(blobs) {
        let name = names::file_name(kind, no);
        let (from, to) = (shelf.dir.join(&name), dir.join(&name));
        vfs.hard_link(&from, &to).map_err(|e| Error::io("linking a file", &to, e))?;
    }
    Ok(())
}

/// Makes a database of its own of the files in `dir`, which are those of `state`. It has no log,
/// and nothing of it counts until its root is written, last, when all names there are durable.
/// `seed`: for its id.
pub(crate) fn start_copy(vfs: &Arc<dyn Vfs>, dir: &Path, state: State, seed: u64) -> Result<()> {
    let db_id = new_id(seed ^ state.db_id as u64);
    let state = State { log_floor: LogFloor::default(), db_id, ..state };
    Manifest::start(Arc::clone(vfs), dir, &state).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::budget::Budget;
    use crate::ids::{SegmentId, TableId};
    use crate::vfs::mem::SimFs;
    use crate::wal::buffer::FrameBuffer;
    use crate::wal::writer::Group;

    const DIR: &str = "/db";

    fn shelf() -> Arc<Shelf> {
        let fs = SimFs::new();
        fs.create_dir_all(Path::new(DIR)).expect("a folder");
        Shelf::new(Arc::new(fs), DIR.into(), Pool::new(Budget::without_caches()), false)
    }

    fn commit(prefix: Vec<u8>, rk: &[u8], value: &[u8], ts: u64) -> crate::batch::Commit {
        let mut batch = Batch::new(prefix);
        batch.put(rk, value);
        batch.into_commit(CommitTs(ts))
    }

    /// A log of groups of commits with these timestamps, in this order.
    fn log(shelf: &Shelf, groups: &[&[u64]]) {
        log_that_says(shelf, groups, u64::MAX);
    }

    /// The same, whose frames say of no commit that it is above `most`.
    fn log_that_says(shelf: &Shelf, groups: &[&[u64]], most: u64) {
        let found = Replay { next_segment: SegmentId(1), ..Replay::default() };
        let vfs = Arc::clone(&shelf.vfs);
        let mut log = LogWriter::create(vfs, &shelf.dir, 64 << 10, &found).expect("a fresh log");
        for group in groups {
            let mut frame = FrameBuffer::default();
            for ts in *group {
                let commit = commit(order::partition_prefix(TableId(1), b"p"), b"r", b"v", *ts);
                let bytes = frame.reserve(100);
                commit.put_head(bytes);
                bytes.extend_from_slice(commit.operations());
            }
            let ts = |n: Option<&u64>| CommitTs(*n.expect("a commit").min(&most));
            let (first_ts, last_ts) = (ts(group.iter().min()), ts(group.iter().max()));
            let group = Group { first_ts, last_ts, frame: &mut frame, sync: true };
            log.append(group).expect("room");
        }
        log.sync().expect("a sound disk");
    }

    /// The timestamps of what is read beyond `files` and before `end`.
    fn read(groups: &[&[u64]], files: u64, end: u64) -> Result<Vec<u64>> {
        let shelf = shelf();
        log(&shelf, groups);
        let log_floor = LogFloor::at(SegmentId(1));
        let state = State { last_ts: CommitTs(files), log_floor, ..State::empty(1) };
        let mut found = Vec::new();
        let mut take = |commit: &LentCommit<'_>, _: &Bytes| {
            found.push(commit.ts.0);
            Some(())
        };
        read_log(&shelf, &state, CommitTs(end), &mut Recovery::default(), &mut take)?;
        Ok(found)
    }

    #[test]
    fn the_log_counts_beyond_the_files_and_before_the_end() {
        let groups: &[&[u64]] = &[&[2, 3], &[5, 7, 8], &[9]];
        assert_eq!(read(groups, 0, u64::MAX).expect("sound"), [2, 3, 5, 7, 8, 9]);
        assert_eq!(read(groups, 5, u64::MAX).expect("sound"), [7, 8, 9]);
        assert_eq!(read(groups, 2, 8).expect("sound"), [3, 5, 7]);
        assert!(read(groups, 9, u64::MAX).expect("sound").is_empty());
    }

    /// Its checksum holds, so no disk did it.
    #[test]
    fn a_group_whose_commits_stand_in_no_order_is_refused() {
        for groups in [&[&[2, 5, 4][..]][..], &[&[2], &[6, 6]]] {
            let error = read(groups, 0, u64::MAX).expect_err("no writer writes it");
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(error.to_string().contains("not a list of commits in order"), "{error}");
        }
    }

    /// A timestamp that lost its sense before the frame was summed: what came after it would get
    /// one that no later open takes.
    #[test]
    fn a_commit_beyond_what_its_frame_says_is_refused() {
        for wrong in [7, 1 << 62, u64::MAX - 1] {
            let shelf = shelf();
            log_that_says(&shelf, &[&[2, 3], &[5, wrong]], 6);
            let state = State { log_floor: LogFloor::at(SegmentId(1)), ..State::empty(1) };
            let mut take = |_: &LentCommit<'_>, _: &Bytes| Some(());
            let mut report = Recovery::default();
            let read = read_log(&shelf, &state, CommitTs(u64::MAX), &mut report, &mut take);
            assert_eq!(read.expect_err("it is not sound").kind(), Kind::Corrupt, "{wrong}");
        }
    }

    /// A catalogue row of the future, which the readers of its table would wait for.
    #[test]
    fn a_table_made_after_the_last_commit_is_refused() {
        let shelf = shelf();
        let active = new_memtable(&shelf.pool.spare);
        let row = catalog::encode(TableId(1), b"");
        let made = commit(catalog::partition(), &catalog::row_key("one"), &row, 9);
        assert!(active.apply(&made));
        let (erased, version) = (Arc::default(), Arc::new(Version::of(&State::empty(1), &shelf)));
        let view = View { active, erased, sealed: Vec::new(), version, edition: 0 };
        assert!(load_tables(&view, CommitTs(9)).is_ok_and(|tables| tables.find("one").is_some()));
        let error = load_tables(&view, CommitTs(8)).expect_err("it is not visible");
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("changed at 9, after the last commit"), "{error}");
    }
}

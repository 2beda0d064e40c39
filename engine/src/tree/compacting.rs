//! Files on their way into others, one piece of compaction at a time, and the deletion of those
//! that nobody can reach any more.

use crate::catalog::Readable;
use crate::commit::pipeline::Pipeline;
use crate::compaction::executor::{self, MergeEnv};
use crate::compaction::job::{Job, Merge};
use crate::compaction::picker::{self, Aim, Schedule};
use crate::compaction::space::Scene;
use crate::compaction::under_way::Merging;
use crate::compaction::upkeep;
use crate::error::{Error, Kind, Result};
use crate::event::{Compaction, Doing, Event};
use crate::ids::CommitTs;
use crate::manifest::edit::Edit;
use crate::moment;
use crate::names::{self, FileKind};
use crate::snapshot::Boundaries;
use crate::stall;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::tree::base::Tree;
use crate::version::files::Version;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a file that the disk did not give to a merge is left alone. A merge of it would only
/// fail again where a sector is bad; where it was the moment, there is time. So long merges wait at
/// most that found no room.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What a job of compaction was picked for.
#[derive(Clone, Copy)]
struct At<'a> {
    version: &'a Version,
    boundaries: &'a Boundaries,
    readable: &'a Readable,
}

/// A merge is under way until this is dropped, however it ends.
struct Noted<'a>(&'a Mutex<Option<Merging>>);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}

/// Somebody makes one run of all files until this is dropped.
pub(crate) struct MakesOneRun<'a>(&'a AtomicUsize);

impl Drop for MakesOneRun<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Tree {
    /// Until what is given is dropped, the work that goes on by itself begins no deeper level:
    /// whoever makes one run of all files would have to take all of them there.
    pub(crate) fn making_one_run(&self) -> MakesOneRun<'_> {
        self.one_runs.fetch_add(1, Relaxed);
        MakesOneRun(&self.one_runs)
    }

    /// Does one piece of compaction; false where `aim` is reached.
    pub(crate) fn compact_once(&self, aim: Aim<'_>, pipeline: &Pipeline) -> Result<bool> {
        let mut schedule = self.compacting.lock();
        schedule.readmit(self.clock.steady(), || self.bytes_available());
        if !schedule.lacks_room() {
            *self.no_room.lock() = None;
        }
        schedule.keep_deepest = self.one_runs.load(Relaxed) > 0;
        self.reopen_manifest()?;
        let boundaries = self.boundaries(pipeline);
        let tables = self.tables.load();
        let age = self.options.advanced.delete_age_max_s.saturating_mul(CommitTs::TICKS_PER_SECOND);
        // From when nobody needs them: a delete within the history window frees nothing.
        let due = CommitTs(boundaries.floor().0.saturating_sub(age));
        let until = aim.until(moment::ticks(self.options.history.unwrap_or_default()));
        let picked = self.with_set(|set| {
            let version = set.current();
            // What a crash takes back must not have cost a row: a drop counts once it is in files.
            let recorded = set.state().last_ts;
            let readable = tables.readable(&boundaries, recorded);
            let effort = aim.effort();
            let scene = Scene { boundaries: &boundaries, readable: &readable, effort, due, until };
            let may = picker::may(aim, version, &self.options, &schedule);
            let job = picker::pick(aim, version, &self.options, &scene, &schedule, &may);
            let job = job.or_else(|| match aim {
                Aim::Balance | Aim::Rest | Aim::Settled(_) => {
                    upkeep::pick(version, &self.options, &may)
                }
                Aim::OneRun(_) => upkeep::worn_blobs(version, &self.options, &may),
                Aim::Range(..) => None,
            })?;
            // Noted before anything can be added to the Version that the job was made for.
            *self.merging.lock() = Merging::of(&job);
            Some((job, Arc::clone(version), readable))
        });
        let Some((job, version, readable)) = picked.flatten() else { return Ok(false) };
        let _noted = Noted(&self.merging);
        let threads = match aim.is_awaited() || stall::is_near(self.debt(), &self.options) {
            true => self.options.threads.unwrap_or(1),
            false => 1,
        };
        let at = At { version: &version, boundaries: &boundaries, readable: &readable };
        self.run_job(&job, threads, at, &mut schedule).map(|()| true)
    }

    /// Does a job, and tells of it.
    fn run_job(
        &self,
        job: &Job,
        threads: usize,
        at: At<'_>,
        schedule: &mut Schedule,
    ) -> Result<()> {
        let span = self.events.span(Doing::Merge);
        let history_floor = Some(at.boundaries.floor());
        let (what, read_bytes, written_bytes) = match job {
            Job::Drop { files } => {
                let removed = files.iter().map(|(level, no)| (*level as u8, *no)).collect();
                self.install(Edit { removed, history_floor, ..Edit::default() }, |_| {})?;
                self.counters.dropped_files.add(files.len() as u64);
                (Compaction::Dropped, 0, 0)
            }
            Job::Retire { erasures } => {
                let retired = erasures.clone();
                // A newer erasure took its place for readers from the floor on.
                return self.install(Edit { retired, history_floor, ..Edit::default() }, |_| {});
            }
            Job::Move { file, from } => {
                let added = vec![(*from as u8 + 1, Arc::clone(&file.meta))];
                let removed = vec![(*from as u8, file.meta.no)];
                self.install(Edit { added, removed, ..Edit::default() }, |_| {})?;
                self.counters.moves.add(1);
                schedule.done(*from, &file.meta.largest);
                (Compaction::Moved, 0, 0)
            }
            Job::Merge(merge) => {
                let (read, written) = self.run_merge(merge, threads, at, schedule)?;
                (Compaction::Merged, read, written)
            }
        };
        let took = span.took();
        self.events.tell(Event::CompactionEnd { what, read_bytes, written_bytes, took });
        Ok(())
    }

    /// Merges files into the level below, by up to `threads` threads; returns the bytes read and
    /// written.
    fn run_merge(
        &self,
        merge: &Merge,
        threads: usize,
        at: At<'_>,
        schedule: &mut Schedule,
    ) -> Result<(u64, u64)> {
        let (budget, runs) = (&self.shelf.pool.budget, merge.runs());
        let parts = budget.merge_parts(runs, threads);
        let mut failed = |error: &Error| self.merge_failed(merge, at.version, error, schedule);
        let ranges = executor::divide(merge, &self.options, parts).inspect_err(&mut failed)?;
        let next_file = || self.next_file();
        let env = MergeEnv {
            shelf: &self.shelf,
            options: &self.options,
            version: at.version,
            boundaries: at.boundaries,
            readable: at.readable,
            next_file: &next_file,
            jobs: &*self.jobs,
            closing: &self.closing,
        };
        let _claim = self.shelf.pool.claim(budget.merge(runs, ranges.len()));
        let mut edit = executor::merge(merge, &ranges, &env).inspect_err(failed)?;
        edit.history_floor = Some(at.boundaries.floor());
        let read = merge.inputs().map(|file| file.meta.bytes).sum();
        let tables = edit.added.iter().map(|(_, meta)| meta.bytes);
        let written = tables.chain(edit.blobs.iter().map(|blob| blob.bytes)).sum();
        self.install(edit, |_| {})?;
        self.counters.compactions.add(1);
        self.counters.compaction_parts.add(ranges.len() as u64);
        self.counters.compaction_bytes_read.add(read);
        self.counters.compaction_bytes_written.add(written);
        if !merge.upper.is_empty() {
            schedule.done(merge.level, &picker::span(&merge.upper).1);
        }
        Ok((read, written))
    }

    /// Sees to it that a merge which could not read a file is not picked again at once: where it is
    /// damaged or this build lacks its codec never, where the disk failed, or contents are wrong
    /// under good checksums, after a while. The same for one that found no room.
    fn merge_failed(
        &self,
        merge: &Merge,
        version: &Version,
        error: &Error,
        schedule: &mut Schedule,
    ) {
        let later = self.clock.steady() + TRY_AGAIN_AFTER;
        let until = match error.kind() {
            Kind::Corrupt | Kind::Unsupported => Duration::MAX,
            Kind::Io | Kind::Invalid => later,
            Kind::NoSpace => {
                return self.merge_found_no_room(merge, version, error, schedule, later);
            }
            _ => return,
        };
        let place = error.place();
        let is_it = |path: PathBuf| place.is_some_and(|(file, _)| file == path);
        let file = merge.inputs().find(|file| is_it(self.shelf.table_path(file.meta.no)));
        let mut blobs = version.blobs.iter().map(|(blob, _)| blob);
        let blob = blobs.find(|blob| is_it(self.shelf.blob_path(blob.meta.no)));
        match (file, blob) {
            (Some(file), _) => schedule.avoid(file, error, until),
            (None, Some(blob)) => schedule.avoid_blob(blob, error, until),
            // Wrong contents under good checksums: which of the files it was nobody knows.
            (None, None) if error.kind() != Kind::Io => {
                merge.inputs().for_each(|file| schedule.avoid(file, error, later));
            }
            (None, None) => {}
        }
        if let (Kind::Corrupt, Some((file, offset))) = (error.kind(), place) {
            let (file, error) = (file.to_owned(), error.to_string());
            self.events.tell(Event::DamageFound { file, offset, error });
        }
    }

    /// Sees to it that merges go on for which there is room. One that has none would take all that
    /// the log and flushes still have at each try.
    fn merge_found_no_room(
        &self,
        merge: &Merge,
        version: &Version,
        error: &Error,
        schedule: &mut Schedule,
        until: Duration,
    ) {
        self.delete_trash(); // What it has written.
        let worn = version.blobs.worn(self.options.advanced.blob_dead_percent);
        let bytes = merge.bytes(&worn);
        schedule.avoid_large(bytes, self.bytes_available(), until);
        *self.no_room.lock() = Some(format!("a merge of {bytes} bytes waits for room: {error}"));
    }

    /// What the disk has; no end of it where it does not say.
    fn bytes_available(&self) -> u64 {
        self.shelf.vfs.bytes_available(&self.shelf.dir).unwrap_or(u64::MAX)
    }

    /// Why the work that goes on by itself goes round a file or leaves out merges, where it does.
    pub(crate) fn avoids(&self) -> Option<String> {
        let version = &self.view.load().version;
        let file = version.files().find_map(|(_, file)| file.unreadable());
        let file = file.or_else(|| version.blobs.iter().find_map(|(blob, _)| blob.unreadable()));
        file.or_else(|| self.no_room.lock().clone())
    }

    /// Whether merges are left out until the disk has room for them.
    pub(crate) fn lacks_room(&self) -> bool {
        self.no_room.lock().is_some()
    }

    /// Deletes the files that nobody can reach any more; those that another thread has begun to
    /// delete are gone too on return, or in the trash again. One that cannot be deleted now is
    /// tried again later; the next open deletes what is left.
    pub(crate) fn delete_trash(&self) {
        let _others_are_done = self.deleting.lock();
        if crate::planted!("B22") {
            self.plant_b22();
        }
        let mut gone = Vec::new();
        for (kind, no) in self.shelf.take_trash() {
            let path = names::path(&self.shelf.dir, kind, no);
            match self.shelf.vfs.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    self.shelf.put_trash(kind, no);
                }
                _removed_or_absent => gone.push(no),
            }
        }
        if !gone.is_empty() {
            self.shelf.passing.forget(gone.clone());
            self.shelf.passing_blobs.forget(gone.clone());
            self.shelf.pool.blocks.forget(gone);
        }
    }

    /// Planted (`planted.rs`): what no Version names goes, though work under way is about to name
    /// it.
    fn plant_b22(&self) {
        let files: Vec<_> = self.view.load().version.files().map(|(_, f)| f.meta.no).collect();
        for name in self.shelf.vfs.list(&self.shelf.dir).unwrap_or_default() {
            if let Some((FileKind::Table, no)) = names::parse(&name)
                && !files.contains(&no)
            {
                self.shelf.put_trash(FileKind::Table, no);
            }
        }
    }
}

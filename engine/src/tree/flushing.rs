//! Rows on their way into files: memtables are flushed, ingested files are added, and one such
//! ingest that fails is in doubt until the manifest was written anew.

use crate::commit::pipeline::Pipeline;
use crate::compaction::under_way::level_for;
use crate::error::Result;
use crate::event::{Doing, Event};
use crate::flush::{self, FlushEnv};
use crate::flush_turns::Patience;
use crate::ids::{CommitTs, FileNo, SegmentId};
use crate::manifest::edit::Edit;
use crate::memtable::table::new_memtable;
use crate::snapshot::Boundaries;
use crate::sstable::format::FileMeta;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::tree::base::Tree;
use crate::version::files::Version;
use crate::version::shelf::NewFiles;
use crate::view::{Sealed, View};
use crate::wal::format::LogFloor;
use std::sync::Arc;

impl Tree {
    /// Writes the oldest sealed memtable that nobody else writes to L0. Returns the log segment
    /// below which nothing is needed any more; `None` where there is no such memtable, and by then,
    /// for the patient, none at all, or none that `is_wanted`.
    pub(crate) fn flush_oldest(
        &self,
        pipeline: &Pipeline,
        patience: Patience,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<SegmentId>> {
        let all_sealed = || self.view.load().sealed.clone();
        loop {
            let Some(turn) = self.flushes.take(all_sealed, patience, &is_wanted) else {
                return Ok(None);
            };
            let sealed = turn.memtable();
            self.reopen_manifest()?;
            let span = self.events.span(Doing::Flush);
            self.events.tell(Event::FlushBegin { memtable_bytes: sealed.table.bytes() });
            let boundaries = self.boundaries(pipeline);
            let flushed = self.write_sealed(sealed, &boundaries)?;
            if turn.wait_until_oldest(all_sealed) {
                let bytes = flushed.as_ref().map_or(0, NewFiles::bytes);
                let log_floor = pipeline.log_floor(sealed.log_floor);
                self.add_flushed(sealed, flushed, log_floor, boundaries.floor())?;
                self.counters.flushes.add(1);
                self.counters.flushed_bytes.add(bytes);
                self.events.tell(Event::FlushEnd { written_bytes: bytes, took: span.took() });
                return Ok(Some(sealed.log_floor));
            }
            if let Some(files) = flushed {
                files.discard(&self.shelf);
            }
        }
    }

    fn write_sealed(&self, sealed: &Sealed, boundaries: &Boundaries) -> Result<Option<NewFiles>> {
        let next_file = || self.next_file();
        let env = FlushEnv {
            shelf: &self.shelf,
            options: &self.options,
            boundaries,
            next_file: &next_file,
        };
        let budget = &self.shelf.pool.budget;
        let _claim = self.shelf.pool.claim(budget.builder(sealed.table.bytes()));
        flush::write_memtable(&sealed.table, &sealed.erased.get(), &env)
    }

    /// Records the files of the oldest sealed memtable, which readers ask in its place from here
    /// on.
    fn add_flushed(
        &self,
        sealed: &Arc<Sealed>,
        flushed: Option<NewFiles>,
        log_floor: LogFloor,
        history_floor: CommitTs,
    ) -> Result<()> {
        let mut edit = Edit {
            log_floor: Some(log_floor),
            last_ts: Some(sealed.last_ts),
            history_floor: Some(history_floor),
            erased: sealed.erased.get().iter().cloned().collect(),
            ..Edit::default()
        };
        if let Some(NewFiles { table, blobs }) = flushed {
            edit.added.push((0, Arc::new(table)));
            edit.blobs = blobs.into_iter().map(Arc::new).collect();
        }
        let also = |view: &mut View| view.sealed.retain(|s| !Arc::ptr_eq(s, sealed));
        self.install_made(|_| edit, Some(&sealed.table), also)?;
        self.leave_behind(&sealed.table);
        Ok(())
    }

    /// Adds ingested files, all of whose rows are of commit `ts`: each to the deepest level above
    /// which nothing overlaps it. Every earlier commit is in files, and nobody commits.
    ///
    /// Whoever took a View before has none of these rows, and so must find nothing that is
    /// committed after them: that goes to another memtable, which comes with the files.
    pub(crate) fn add_files(&self, files: &[NewFiles], ts: CommitTs) -> Result<()> {
        let bytes = files.iter().map(NewFiles::bytes).sum();
        let made = |version: &Version| {
            let merging = self.merging.lock();
            let place = |file: &FileMeta| {
                let level = level_for(version, merging.as_ref(), file);
                (level as u8, Arc::new(FileMeta { min_ts: ts, max_ts: ts, ..file.clone() }))
            };
            let added = files.iter().map(|file| place(&file.table)).collect();
            let blobs = files.iter().flat_map(|file| &file.blobs).cloned().map(Arc::new).collect();
            Edit { added, blobs, last_ts: Some(ts), ..Edit::default() }
        };
        let (active, erased) = (new_memtable(&self.shelf.pool.spare), Arc::default());
        let also = |view: &mut View| {
            debug_assert!(view.is_active_empty(), "somebody has committed beside an ingest");
            if view.is_active_empty() {
                (view.active, view.erased) = (Arc::clone(&active), Arc::clone(&erased));
            }
        };
        self.install_made(made, None, also)?;
        self.counters.ingested_files.add(files.len() as u64);
        self.counters.ingested_bytes.add(bytes);
        Ok(())
    }

    /// An ingest of `table` has failed. A crash may find it in force all the same, so no commit may
    /// be decided without its rows until the manifest was written anew.
    pub(crate) fn doubt(&self, table: FileNo) {
        self.with_set(|set| {
            if set.doubts(table) {
                self.in_doubt.store(set.is_closed(), Release);
            }
        });
        let _ = self.end_doubt(); // Whoever commits next tries again, and is told.
    }

    /// Whether an ingest has failed, and a crash may find it in force.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Acquire)
    }

    /// Writes the manifest anew where an ingest is in doubt, which then never was.
    pub(crate) fn end_doubt(&self) -> Result<()> {
        if self.is_in_doubt() { self.reopen_manifest() } else { Ok(()) }
    }
}

//! The tree: memtables and files together, as readers see them and as background work changes them.
//!
//! Absent: threads, the log, latches. `db` owns those and calls in.

use crate::batch::Commit;
use crate::catalog::{Readable, Tables};
use crate::commit::pipeline::{self, LogPlace, Pipeline};
use crate::compaction::executor::{self, MergeEnv};
use crate::compaction::job::{Job, Merge};
use crate::compaction::picker::{self, Aim, Turns};
use crate::compaction::space::Scene;
use crate::compaction::under_way::{Merging, level_for};
use crate::compaction::upkeep;
use crate::env::clock::Clock;
use crate::env::jobs::Jobs;
use crate::erasure::live::ErasureList;
use crate::error::{Error, Kind, Result};
use crate::event::{Compaction, Doing, Event, Events};
use crate::flush::{self, FlushEnv, Flushed};
use crate::flush_turns::{FlushTurns, Patience};
use crate::ids::{CommitTs, FileNo, SegmentId, TableId};
use crate::live_tables::LiveTables;
use crate::manifest::edit::Edit;
use crate::memtable::api::Memtable;
use crate::memtable::table::new_memtable;
use crate::moment;
use crate::names::{self, FileKind};
use crate::options::Options;
use crate::outdated::Outdated;
use crate::snapshot::{Boundaries, Snapshots};
use crate::sstable::format::FileMeta;
use crate::stall::{self, Debt};
use crate::stats::Counters;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::{ArcSwap, Guard};
use crate::version::files::Version;
use crate::version::set::VersionSet;
use crate::version::shelf::Shelf;
use crate::view::{Sealed, View};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A memtable with as many erasures is full: each one costs as much as there are.
const MEMTABLE_ERASURES_MAX: usize = 1 << 10;

/// How long a file that the disk did not give to a merge is left alone. A merge of it would only
/// fail again where a sector is bad; where it was the moment, there is time.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What of the world a tree reaches, and who is told of what it does.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) events: Events,
}

/// Memtables and files of one database.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) options: Options,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) snapshots: Snapshots,
    clock: Arc<dyn Clock>,
    jobs: Arc<dyn Jobs>,
    pub(crate) tables: ArcSwap<Tables>,
    live_tables: LiveTables,
    pub(crate) counters: Counters,
    pub(crate) events: Events,
    ages: AtomicBool, // Whether any table ever had a time to live.
    view: ArcSwap<View>,
    views_made: AtomicU64,
    /// What the log had written when the active memtable began.
    active_from: AtomicU64,
    flushes: FlushTurns<Sealed>,
    // Lock order: compacting, then set, then merging. `set` is held over one manifest edit.
    compacting: Mutex<Turns>,
    deleting: Mutex<()>, // Held while what was trash is removed, so that whoever finds none can wait.
    merging: Mutex<Option<Merging>>,
    closing: AtomicBool,            // Long work gives up.
    set: Mutex<Option<VersionSet>>, // None where the database is read-only.
}

/// What a job of compaction was picked for.
#[derive(Clone, Copy)]
struct At<'a> {
    version: &'a Version,
    boundaries: &'a Boundaries,
    readable: &'a Readable,
}

impl Tree {
    /// A tree that shows `view`; `set` is what records its changes. Moments before `history_floor`
    /// are not whole.
    pub(crate) fn new(
        options: Options,
        World { clock, jobs, events }: World,
        shelf: Arc<Shelf>,
        view: View,
        set: Option<VersionSet>,
        history_floor: CommitTs,
    ) -> Tree {
        Tree {
            options,
            jobs,
            shelf,
            snapshots: Snapshots::new(history_floor),
            clock,
            tables: ArcSwap::from_pointee(Tables::new()),
            live_tables: LiveTables::default(),
            counters: Counters::default(),
            events,
            ages: AtomicBool::new(false),
            view: ArcSwap::from_pointee(view),
            views_made: AtomicU64::new(0),
            active_from: AtomicU64::new(0),
            flushes: FlushTurns::new(),
            compacting: Mutex::default(),
            deleting: Mutex::default(),
            merging: Mutex::default(),
            closing: AtomicBool::new(false),
            set: Mutex::new(set),
        }
    }

    /// Makes a merge that is under way end early. It leaves nothing behind.
    pub(crate) fn close(&self) {
        self.closing.store(true, Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// The time for a reader who begins now and sees commits up to `at`: by it rows expire. Not
    /// below any time by which a row was reclaimed, however the clock is turned.
    pub(crate) fn time(&self, at: CommitTs) -> CommitTs {
        pipeline::now(&*self.clock).max(at).max(self.snapshots.floor())
    }

    /// Whether rows of any table may have outlived its time to live.
    pub(crate) fn ages(&self) -> bool {
        self.ages.load(Relaxed)
    }

    /// Makes `tables` the catalogue that readers and writers go by.
    pub(crate) fn show_tables(&self, tables: Tables) {
        self.ages.store(tables.age(), Relaxed); // Before a commit of it can be seen.
        self.shelf.declared.store(Arc::clone(tables.columns()));
        let tables = Arc::new(tables);
        self.live_tables.follow(&tables, || self.tables.store(Arc::clone(&tables)));
    }

    /// Whether the table is live, as applied.
    pub(crate) fn is_live(&self, table: TableId) -> bool {
        self.live_tables.knows(table) || self.tables.load().is_live(table)
    }

    /// Now, as what nobody can read any more is reclaimed: no commit comes before it any more.
    pub(crate) fn reclaiming_time(&self, pipeline: &Pipeline) -> CommitTs {
        pipeline.reclaiming_time(self.snapshots.floor())
    }

    /// What must stay readable, the history window included.
    fn boundaries(&self, pipeline: &Pipeline) -> Boundaries {
        let history = moment::ticks(self.options.history.unwrap_or_default());
        let now = self.reclaiming_time(pipeline);
        let floor = CommitTs(now.0.saturating_sub(history));
        self.snapshots.boundaries(|| pipeline.visible(), floor)
    }

    /// Tables that were dropped up to here have no reader any more, nor will have, and stay dropped
    /// whatever happens.
    pub(crate) fn last_drop_for_good(&self, pipeline: &Pipeline) -> CommitTs {
        let recorded = self.with_set(|set| set.state().last_ts);
        self.boundaries(pipeline).oldest().min(recorded.unwrap_or_default())
    }

    /// What exists now. Take it before the timestamp to read at.
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// How many Views there have been: whoever keeps one for long sees by it that there is another.
    pub(crate) fn views_made(&self) -> u64 {
        self.views_made.load(Relaxed)
    }

    fn change_view(&self, change: impl FnMut(&Arc<View>) -> View) {
        self.view.rcu(change);
        self.views_made.fetch_add(1, Relaxed);
    }

    /// As [`Tree::view`], to be kept for long.
    pub(crate) fn view_full(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Applies one commit to the active memtable. The caller holds the commit order.
    pub(crate) fn insert(&self, commit: &Commit) {
        let view = self.view.load();
        let erasures = commit.erasures();
        if !erasures.is_empty() {
            view.erased.add(erasures);
        }
        let whole = view.active.apply(commit);
        debug_assert!(whole, "a batch reads as it was written");
    }

    /// Whether the active memtable is full, or the log that it stands for is long: a commit may
    /// take a block of the log and a few bytes of memory. `log`: where that is now.
    pub(crate) fn wants_seal(&self, log: LogPlace) -> bool {
        let view = self.view.load();
        let log_bytes = log.bytes.saturating_sub(self.active_from.load(Relaxed));
        view.active.bytes() >= self.options.advanced.memtable()
            || view.erased.len() >= MEMTABLE_ERASURES_MAX
            || log_bytes >= self.options.advanced.log_bytes_max()
    }

    /// Whether memtables wait for their flush.
    pub(crate) fn has_sealed(&self) -> bool {
        !self.view.load().sealed.is_empty()
    }

    /// Starts a new memtable. The caller holds the commit order; `last_ts` is the newest commit
    /// applied, and every later one goes to a log segment at or after that of `log`.
    pub(crate) fn seal(&self, last_ts: CommitTs, log: LogPlace) {
        let log_floor = log.segment;
        self.active_from.store(log.bytes, Relaxed);
        let (active, erased) =
            (new_memtable(&self.shelf.pool.spare), Arc::new(ErasureList::default()));
        self.change_view(|view| {
            if view.active.is_empty() && view.erased.is_empty() {
                return View::clone(view);
            }
            let (table, list) = (Arc::clone(&view.active), Arc::clone(&view.erased));
            let sealed = Sealed { table, erased: list, last_ts, log_floor };
            let mut all = vec![Arc::new(sealed)];
            all.extend(view.sealed.iter().cloned());
            View {
                active: Arc::clone(&active),
                erased: Arc::clone(&erased),
                sealed: all,
                version: Arc::clone(&view.version),
                edition: view.edition,
            }
        });
    }

    /// Whether what the active memtable erased covers files of at least one full file's bytes
    /// between them, and no memtable waits for its flush.
    pub(crate) fn erasures_free_files(&self) -> bool {
        let view = self.view.load();
        if view.erased.is_empty() || !view.sealed.is_empty() {
            return false;
        }
        let erased = view.erased.get();
        let covered = view.version.files().filter(|(_, file)| {
            let FileMeta { smallest, largest, max_ts, .. } = &*file.meta;
            erased.all_covered_from(smallest, largest, *max_ts).is_some()
        });
        let bytes: u64 = covered.map(|(_, file)| file.meta.bytes).sum();
        bytes >= self.options.advanced.file_bytes as u64
    }

    /// Whether the active memtable erased anything.
    pub(crate) fn has_unflushed_erasures(&self) -> bool {
        !self.view.load().erased.is_empty()
    }

    pub(crate) fn debt(&self) -> Debt {
        let view = self.view.load();
        Debt {
            l0_files: view.version.levels[0].len(),
            sealed_memtables: view.sealed.len(),
            active_bytes: view.active.bytes(),
        }
    }

    /// Writes the oldest sealed memtable that nobody else writes to L0. Returns the log segment
    /// below which nothing is needed any more; `None` where there is no such memtable, and by then,
    /// for the patient, none at all.
    pub(crate) fn flush_oldest(
        &self,
        pipeline: &Pipeline,
        patience: Patience,
    ) -> Result<Option<SegmentId>> {
        let all_sealed = || self.view.load().sealed.clone();
        loop {
            let Some(turn) = self.flushes.take(all_sealed, patience) else { return Ok(None) };
            let sealed = turn.memtable();
            self.reopen_manifest()?;
            let span = self.events.span(Doing::Flush);
            self.events.tell(Event::FlushBegin { memtable_bytes: sealed.table.bytes() });
            let boundaries = self.boundaries(pipeline);
            let flushed = self.write_sealed(sealed, &boundaries)?;
            if turn.comes(all_sealed) {
                let bytes = flushed.as_ref().map_or(0, Flushed::bytes);
                self.add_flushed(sealed, flushed, boundaries.floor())?;
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

    fn write_sealed(&self, sealed: &Sealed, boundaries: &Boundaries) -> Result<Option<Flushed>> {
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
        flushed: Option<Flushed>,
        history_floor: CommitTs,
    ) -> Result<()> {
        let mut edit = Edit {
            log_floor: Some(sealed.log_floor),
            last_ts: Some(sealed.last_ts),
            history_floor: Some(history_floor),
            erased: sealed.erased.get().iter().cloned().collect(),
            ..Edit::default()
        };
        if let Some(Flushed { table, blobs }) = flushed {
            edit.added.push((0, Arc::new(table)));
            edit.blobs = blobs.into_iter().map(Arc::new).collect();
        }
        let also = |view: &mut View| view.sealed.retain(|s| !Arc::ptr_eq(s, sealed));
        self.install_made(|_| edit, Some(&sealed.table), also)
    }

    /// Records that no segment of the log below `floor` is needed: every commit in them is in
    /// files.
    pub(crate) fn raise_log_floor(&self, floor: SegmentId) -> Result<()> {
        match self.with_set(|set| set.state().log_floor < floor) {
            Some(true) => self.install(Edit { log_floor: Some(floor), ..Edit::default() }, |_| ()),
            _ => Ok(()),
        }
    }

    /// Whether some thread flushes or compacts.
    pub(crate) fn is_at_work(&self) -> bool {
        self.flushes.is_any_taken() || self.compacting.try_lock().is_none()
    }

    /// Does one piece of compaction; false where `aim` is reached.
    pub(crate) fn compact_once(&self, aim: Aim<'_>, pipeline: &Pipeline) -> Result<bool> {
        let mut turns = self.compacting.lock();
        turns.pass(self.clock.steady());
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
            let may = |job: &Job| aim.takes(job);
            let job = picker::pick(aim, version, &self.options, &scene, &turns);
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
        let threads = match aim.is_awaited() || stall::is_near(self.debt(), &self.options) {
            true => self.options.threads.unwrap_or(1),
            false => 1,
        };
        let at = At { version: &version, boundaries: &boundaries, readable: &readable };
        let done = self.run_job(&job, threads, at, &mut turns);
        *self.merging.lock() = None;
        done.map(|()| true)
    }

    /// Does a job, and tells of it.
    fn run_job(&self, job: &Job, threads: usize, at: At<'_>, turns: &mut Turns) -> Result<()> {
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
                turns.done(*from, &file.meta.largest);
                (Compaction::Moved, 0, 0)
            }
            Job::Merge(merge) => {
                let (read, written) = self.run_merge(merge, threads, at, turns)?;
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
        turns: &mut Turns,
    ) -> Result<(u64, u64)> {
        let (budget, runs) = (&self.shelf.pool.budget, merge.runs());
        let parts = budget.merge_parts(runs, threads);
        let mut failed = |error: &Error| self.merge_failed(merge, at.version, error, turns);
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
            turns.done(merge.level, &picker::span(&merge.upper).1);
        }
        Ok((read, written))
    }

    /// Sees to it that a merge which could not read a file is not picked again at once: where it is
    /// damaged or this build lacks its codec never, where the disk failed, or contents are wrong
    /// under good checksums, after a while.
    fn merge_failed(&self, merge: &Merge, version: &Version, error: &Error, turns: &mut Turns) {
        let later = self.clock.steady() + TRY_AGAIN_AFTER;
        let until = match error.kind() {
            Kind::Corrupt | Kind::Unsupported => Duration::MAX,
            Kind::Io | Kind::Invalid => later,
            _ => return,
        };
        let place = error.place();
        let is_it = |path: PathBuf| place.is_some_and(|(file, _)| file == path);
        let file = merge.inputs().find(|file| is_it(self.shelf.table_path(file.meta.no)));
        let mut blobs = version.blobs.iter().map(|(blob, _)| blob);
        let blob = blobs.find(|blob| is_it(self.shelf.blob_path(blob.meta.no)));
        match (file, blob) {
            (Some(file), _) => turns.avoid(file, error, until),
            (None, Some(blob)) => turns.avoid_blob(blob, error, until),
            // Wrong contents under good checksums: which of the files it was nobody knows.
            (None, None) if error.kind() != Kind::Io => {
                merge.inputs().for_each(|file| turns.avoid(file, error, later));
            }
            (None, None) => {}
        }
        if let (Kind::Corrupt, Some((file, offset))) = (error.kind(), place) {
            let (file, error) = (file.to_owned(), error.to_string());
            self.events.tell(Event::DamageFound { file, offset, error });
        }
    }

    /// Why the work that goes on by itself goes round a file, where it does.
    pub(crate) fn avoids(&self) -> Option<String> {
        let version = &self.view.load().version;
        let file = version.files().find_map(|(_, file)| file.unreadable());
        file.or_else(|| version.blobs.iter().find_map(|(blob, _)| blob.unreadable()))
    }

    /// Records an edit and shows it to readers, together with what `also` changes in their view.
    fn install(&self, edit: Edit, also: impl Fn(&mut View)) -> Result<()> {
        self.install_made(|_| edit, None, also)
    }

    /// The same with an edit that depends on the Version that it changes, or that writes the rows
    /// of the memtable `flushed`.
    fn install_made(
        &self,
        made: impl FnOnce(&Version) -> Edit,
        flushed: Option<&Arc<dyn Memtable>>,
        also: impl Fn(&mut View),
    ) -> Result<()> {
        let mut set = self.set.lock();
        let set = set.as_mut().expect("only a database that may be written changes its files");
        let mut edit = made(set.current());
        // Flushes, merges and ingests end in any order.
        edit.history_floor = edit.history_floor.filter(|f| *f > set.state().history_floor);
        // Kept even where it raises nothing: an edit with commits and no floor is of rows past the
        // log.
        edit.log_floor = edit.log_floor.map(|floor| floor.max(set.state().log_floor));
        edit.last_ts = edit.last_ts.filter(|ts| *ts >= set.state().last_ts);
        let added: Vec<_> = edit.added.iter().map(|(level, meta)| (*level, meta.no)).collect();
        let outdated = Outdated::by(&edit, flushed);
        let version = set.apply(edit)?;
        debug_assert!(added.iter().all(|(_, no)| version.files().any(|(_, f)| f.meta.no == *no)));
        version.open_early(&added); // Or the first to read would wait for it.
        // Under the lock of the set, so that editions follow one another as the Views do.
        let edition = outdated.forget(&self.shelf.pool.rows);
        self.change_view(|view| {
            let mut next = View::clone(view);
            next.version = Arc::clone(&version);
            next.edition = edition.unwrap_or(view.edition);
            also(&mut next);
            next
        });
        Ok(())
    }

    /// Adds ingested files, all of whose rows are of commit `ts`: each to the deepest level above
    /// which nothing overlaps it. Every earlier commit is in files.
    pub(crate) fn add_files(&self, files: &[Flushed], ts: CommitTs) -> Result<()> {
        let bytes = files.iter().map(Flushed::bytes).sum();
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
        self.install_made(made, None, |_| {})?;
        self.counters.ingested_files.add(files.len() as u64);
        self.counters.ingested_bytes.add(bytes);
        Ok(())
    }

    /// Makes the manifest take edits again where one failed.
    fn reopen_manifest(&self) -> Result<()> {
        self.with_set_mut(VersionSet::reopen).unwrap_or(Ok(()))
    }

    /// The number of a file to be made.
    pub(crate) fn next_file(&self) -> FileNo {
        let no = self.with_set_mut(VersionSet::next_file);
        no.expect("only a database that may be written makes files")
    }

    /// Runs `work` on the recorded state and its Version while no edit can happen.
    pub(crate) fn with_set<T>(&self, work: impl FnOnce(&VersionSet) -> T) -> Option<T> {
        self.set.lock().as_ref().map(work)
    }

    /// The same for work that changes it.
    pub(crate) fn with_set_mut<T>(&self, work: impl FnOnce(&mut VersionSet) -> T) -> Option<T> {
        self.set.lock().as_mut().map(work)
    }

    /// Deletes the files that nobody can reach any more; those that another thread has begun to
    /// delete are gone too on return, or in the trash again. One that cannot be deleted now is
    /// tried again later; the next open deletes what is left.
    pub(crate) fn delete_trash(&self) {
        let _others_are_done = self.deleting.lock();
        if crate::planted!("B22") {
            // Planted: what no Version names goes, though work under way is about to name it.
            let files: Vec<_> = self.view.load().version.files().map(|(_, f)| f.meta.no).collect();
            for name in self.shelf.vfs.list(&self.shelf.dir).unwrap_or_default() {
                if let Some((FileKind::Table, no)) = names::parse(&name)
                    && !files.contains(&no)
                {
                    self.shelf.put_trash(FileKind::Table, no);
                }
            }
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
            self.shelf.pool.blocks.forget(gone);
        }
    }
}

//! The tree itself: what exists, as readers see it, and how that is replaced. Every change of files
//! is an edit of the manifest first.

use crate::catalog::{Tables, no_such_table};
use crate::commit::pipeline::{self, Pipeline};
use crate::compaction::picker::Schedule;
use crate::compaction::under_way::Merging;
use crate::env::clock::Clock;
use crate::env::jobs::Jobs;
use crate::error::{Error, Result};
use crate::event::{Event, Events};
use crate::flush_turns::FlushTurns;
use crate::ids::{CommitTs, FileNo, TableId};
use crate::live_tables::LiveTables;
use crate::manifest::edit::Edit;
use crate::manifest::state::State;
use crate::memtable::api::Memtable;
use crate::moment;
use crate::options::Options;
use crate::outdated::Outdated;
use crate::snapshot::{Boundaries, Snapshots};
use crate::stall::Debt;
use crate::stats::Counters;
use crate::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{ArcSwap, Guard, Mutex};
use crate::version::files::Version;
use crate::version::set::VersionSet;
use crate::version::shelf::Shelf;
use crate::view::{Sealed, View};
use crate::wal::format::LogFloor;
use std::cmp::max_by_key;
use std::sync::{Arc, Weak};

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
    pub(super) clock: Arc<dyn Clock>,
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) tables: ArcSwap<Tables>,
    live_tables: LiveTables,
    pub(crate) counters: Counters,
    pub(crate) events: Events,
    ages: AtomicBool, // See `Tables::any_ages`.
    pub(super) view: ArcSwap<View>,
    views_made: AtomicU64,
    /// What the log had written when the active memtable began.
    pub(super) active_from: AtomicU64,
    pub(super) flushes: FlushTurns<Sealed>,
    /// Memtables that are in files by now, as long as somebody still reads them.
    pub(super) left_behind: Mutex<Vec<Weak<dyn Memtable>>>,
    // Lock order: compacting, then set, then merging; ARCHITECTURE.md has it for all locks. `set`
    // is held over one manifest edit.
    pub(super) compacting: Mutex<Schedule>,
    /// Held while what was trash is removed, so that whoever finds none can wait.
    pub(super) deleting: Mutex<()>,
    pub(super) merging: Mutex<Option<Merging>>,
    /// Why merges wait for room, where some do.
    pub(super) no_room: Mutex<Option<String>>,
    /// How many make one run of all files.
    pub(super) one_runs: AtomicUsize,
    pub(super) closing: AtomicBool, // Long work gives up.
    /// Whether an ingest has failed, and a crash may find it in force. Changed under the lock of
    /// the set.
    pub(super) in_doubt: AtomicBool,
    set: Mutex<Option<VersionSet>>, // None where the database is read-only.
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
            left_behind: Mutex::default(),
            compacting: Mutex::default(),
            deleting: Mutex::default(),
            merging: Mutex::default(),
            no_room: Mutex::default(),
            one_runs: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
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

    /// What the wall clock says.
    pub(crate) fn wall(&self) -> CommitTs {
        pipeline::now(&*self.clock)
    }

    /// The time for a reader who sees commits up to `at` and asked the clock, which said `wall`: by
    /// it rows expire. Not below any time by which a row was reclaimed, however the clock is
    /// turned.
    pub(crate) fn time(&self, wall: CommitTs, at: CommitTs) -> CommitTs {
        wall.max(at).max(self.snapshots.floor())
    }

    /// Whether rows of any table may have outlived its time to live.
    pub(crate) fn ages(&self) -> bool {
        self.ages.load(Relaxed)
    }

    /// Makes `tables` the catalogue that readers and writers go by.
    pub(crate) fn show_tables(&self, tables: Tables) {
        // Relaxed: whoever has to know of a time to live sees its commit, which shows itself by a
        // Release after this, or has a latch, all of which `set_ttl` holds until then.
        self.ages.store(tables.any_ages(), Relaxed);
        self.shelf.declared.store(Arc::clone(tables.columns()));
        let tables = Arc::new(tables);
        self.live_tables.follow(&tables, || self.tables.store(Arc::clone(&tables)));
    }

    /// Whether the table is live, as applied.
    pub(crate) fn is_live(&self, table: TableId) -> bool {
        self.live_tables.knows(table) || self.tables.load().is_live(table)
    }

    /// Fails for a table of which a reader at `at` finds no rows.
    pub(crate) fn check_readable_at(&self, table: TableId, at: CommitTs) -> Result<()> {
        match self.tables.load().is_readable_at(table, at) {
            true => Ok(()),
            false => Err(no_such_table(table)),
        }
    }

    /// Now, as what nobody can read any more is reclaimed: no commit comes before it any more.
    pub(crate) fn reclaiming_time(&self, pipeline: &Pipeline) -> CommitTs {
        pipeline.reclaiming_time(self.snapshots.floor())
    }

    /// What must stay readable, the history window included.
    pub(super) fn boundaries(&self, pipeline: &Pipeline) -> Boundaries {
        let history = moment::ticks(self.options.history.unwrap_or_default());
        let now = self.reclaiming_time(pipeline);
        let floor = CommitTs(now.0.saturating_sub(history));
        self.snapshots.boundaries(|| pipeline.visible(), floor)
    }

    /// Tables that were dropped up to here have no reader any more, nor will have, and stay dropped
    /// whatever happens; nor has what else was replaced in the catalogue up to here.
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
        self.views_made.load(Acquire)
    }

    pub(super) fn change_view(&self, change: impl FnMut(&Arc<View>) -> View) {
        self.view.rcu(change);
        self.views_made.fetch_add(1, Release); // Who sees the count sees the View, or a later one.
    }

    /// As [`Tree::view`], to be kept for long.
    pub(crate) fn view_full(&self) -> Arc<View> {
        self.view.load_full()
    }

    pub(crate) fn debt(&self) -> Debt {
        let view = self.view.load();
        Debt {
            l0_runs: view.version.l0_runs(),
            l0_files: view.version.levels[0].len(),
            sealed_memtables: view.sealed.len(),
            active_bytes: view.active.bytes(),
        }
    }

    /// Records that the log is needed from `floor` on: every commit before it is in files.
    pub(crate) fn raise_log_floor(&self, floor: LogFloor) -> Result<()> {
        match self.with_set(|set| set.state().log_floor.segment < floor.segment) {
            Some(true) => self.install(Edit { log_floor: Some(floor), ..Edit::default() }, |_| ()),
            _ => Ok(()),
        }
    }

    /// Counts a failure of background work and tells of it.
    pub(crate) fn tell_error(&self, error: &Error) {
        self.counters.background_errors.add(1);
        self.events.tell(Event::BackgroundError { error: error.to_string() });
    }

    /// Whether some thread flushes or compacts.
    pub(crate) fn is_at_work(&self) -> bool {
        self.flushes.is_any_taken() || self.compacting.try_lock().is_none()
    }

    /// Records an edit and shows it to readers, together with what `also` changes in their view.
    pub(super) fn install(&self, edit: Edit, also: impl Fn(&mut View)) -> Result<()> {
        self.install_made(|_| edit, None, also)
    }

    /// The same with an edit that depends on the Version that it changes, or that writes the rows
    /// of the memtable `flushed`.
    pub(super) fn install_made(
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
        let before = set.state().log_floor;
        edit.log_floor = edit.log_floor.map(|floor| max_by_key(before, floor, |one| one.segment));
        edit.last_ts = edit.last_ts.filter(|ts| *ts >= set.state().last_ts);
        let added: Vec<_> = edit.added.iter().map(|(level, meta)| (*level, meta.no)).collect();
        let outdated = Outdated::by(&edit, flushed);
        let applied = set.apply(edit);
        self.settle_doubt(set);
        let version = applied?;
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

    /// Makes the manifest take edits again where one failed.
    pub(super) fn reopen_manifest(&self) -> Result<()> {
        self.with_set_mut(VersionSet::reopen).unwrap_or(Ok(()))
    }

    /// The number of a file to be made.
    pub(crate) fn next_file(&self) -> FileNo {
        let no = self.with_set_mut(VersionSet::next_file);
        no.expect("only a database that may be written makes files")
    }

    /// The recorded state and its Version, which keeps the files.
    pub(crate) fn pinned(&self) -> (State, Arc<Version>) {
        let pinned = self.with_set(|set| (set.state().clone(), Arc::clone(set.current())));
        pinned.expect("only a database that may be written is copied while it is open")
    }

    /// Runs `work` on the recorded state and its Version while no edit can happen.
    pub(crate) fn with_set<T>(&self, work: impl FnOnce(&VersionSet) -> T) -> Option<T> {
        self.set.lock().as_ref().map(work)
    }

    /// The same for work that changes it.
    pub(crate) fn with_set_mut<T>(&self, work: impl FnOnce(&mut VersionSet) -> T) -> Option<T> {
        let mut set = self.set.lock();
        let set = set.as_mut()?;
        let result = work(set);
        self.settle_doubt(set);
        Some(result)
    }

    /// Ends the doubt about an ingest where the manifest takes edits again: then it was written
    /// anew.
    fn settle_doubt(&self, set: &VersionSet) {
        if !set.is_closed() {
            self.in_doubt.store(false, Release);
        }
    }
}

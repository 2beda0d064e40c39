//! The database: opens a folder, gives commits and reads their way through the floors below, and
//! ends in order. Nothing below this file holds a [`Db`].

use crate::backup::depot::Sharing;
use crate::backup::folder::{Backups, Created};
use crate::batch::Batch;
use crate::blind_deletes::BlindDeletes;
use crate::budget::Budget;
use crate::commit::pipeline::{self, Pipeline};
use crate::compaction::picker::Aim;
use crate::cursor::Found;
use crate::env::clock::{Clock, SystemClock};
use crate::env::jobs::{self, Jobs, Threads};
use crate::env::memory;
use crate::error::{Error, Kind, Result};
use crate::event::{Doing, Event, Events};
use crate::expiry;
use crate::ids::{CommitTs, FileNo, RowKind, SegmentId, TableId};
use crate::key::list::KeyList;
use crate::key::range::KeyRange;
use crate::key::{hash, order};
use crate::latch::Latches;
use crate::limits::LEVELS;
use crate::manifest::state::State;
use crate::moment::{self, Moment, When};
use crate::names::{self, FileKind};
use crate::options::{Durability, Options, Reach};
use crate::pacing::Pacing;
use crate::pool::Pool;
use crate::recovery::{self, Opened};
use crate::rows::Row;
use crate::scrub::Scrub;
use crate::stats::Recovery;
use crate::sync::Mutex;
use crate::tree::base::{Tree, World};
use crate::vfs::api::{LockGuard, Vfs};
use crate::vfs::os::OsVfs;
use crate::view::{CachedRows, View};
use crate::work::Work;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// An open database. Cheap to clone; the folder is released when the last clone and all that was
/// made from it are gone, or at [`Db::close`].
#[derive(Clone)]
pub struct Db {
    pub(crate) inner: Arc<Inner>,
}

/// What all handles of one database share. It has rows in it, so it does not print.
pub(crate) struct Inner {
    dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) latches: Latches,
    pub(crate) blind_deletes: BlindDeletes,
    pub(crate) catalog: Mutex<()>, // One change of the catalogue at a time, held until it is durable.
    pub(crate) writer: Option<Writer>, // None where the database is read-only.
    read_only_at: CommitTs,
    recovery: Recovery,
}

/// What only a database that was opened for writing has.
pub(crate) struct Writer {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) work: Arc<Work>,
    pub(crate) pacing: Pacing,
}

/// Settings and parts of a database that is about to be opened.
#[derive(Clone, Debug)]
pub struct Builder {
    options: Options,
    vfs: Arc<dyn Vfs>,
    clock: Arc<dyn Clock>,
    jobs: Arc<dyn Jobs>,
    events: Events,
}

impl Builder {
    /// Replaces all settings.
    pub fn options(mut self, options: Options) -> Builder {
        self.options = options;
        self
    }

    /// How safe a commit is when it is acknowledged. Default [`Durability::Synced`].
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.options.durability = durability;
        self
    }

    /// Opens for reading only: takes no lock, changes nothing, shows what the log and the files
    /// hold now. Works beside a process that writes: [`Advanced::open_files_max`] files are held
    /// open, so that they are read after that one has deleted them. `Busy` where they are given up
    /// faster than they are opened. Of a process that writes, or was killed, the last commits may
    /// not have reached the disk yet: a power cut may take what was shown of them.
    ///
    /// [`Advanced::open_files_max`]: crate::options::Advanced::open_files_max
    pub fn read_only(mut self) -> Builder {
        self.options.read_only = true;
        self
    }

    /// Fails where there is no database yet, instead of making one.
    pub fn must_exist(mut self) -> Builder {
        self.options.create_if_missing = false;
        self
    }

    /// How far back it can be read: [`Options::history`].
    pub fn history(mut self, window: Duration) -> Builder {
        self.options.history = Some(window);
        self
    }

    /// Bytes of memory for all that the database holds: [`Options::memory`].
    pub fn memory(mut self, bytes: usize) -> Builder {
        self.options.memory = Some(bytes);
        self
    }

    /// Bytes for the caches, whatever the budget would leave them: [`Advanced::block_cache_bytes`].
    ///
    /// [`Advanced::block_cache_bytes`]: crate::options::Advanced::block_cache_bytes
    pub fn block_cache_bytes(mut self, bytes: usize) -> Builder {
        self.options.advanced.block_cache_bytes = Some(bytes);
        self
    }

    /// Calls `listener` with every [`Event`] of the database, from the thread in which it happens;
    /// that thread's work waits for it. It must not call the database, or it may wait for itself;
    /// where it panics, that ends there.
    pub fn on_event(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Builder {
        self.events.listen(listener);
        self
    }

    /// Replaces the disk, the clock and the threads, for tests and simulations.
    pub fn parts(
        mut self,
        vfs: Arc<dyn Vfs>,
        clock: Arc<dyn Clock>,
        jobs: Arc<dyn Jobs>,
    ) -> Builder {
        (self.vfs, self.clock, self.jobs) = (vfs, clock, jobs);
        self
    }

    /// Opens the folder.
    ///
    /// Errors: `Invalid` for a bad setting; `NotFound` where there is no database and none may be
    /// made; `Locked` where another process, or this one, has it open; `Corrupt` where its files
    /// are damaged or the folder is not ours; `Io`.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(dir.as_ref(), self)
    }
}

impl Db {
    /// Opens the database in `dir` with the default settings, making one where there is none.
    ///
    /// Cost: reads the manifest and replays the log, at most a few memtables' worth, or what small
    /// commits took of it: some four times that; opens the table files that may hold names of
    /// tables.
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Db::builder().open(dir)
    }

    /// Settings to be changed before opening.
    pub fn builder() -> Builder {
        Builder {
            options: Options::default(),
            vfs: Arc::new(OsVfs::new()),
            clock: Arc::new(SystemClock::new()),
            jobs: Arc::new(Threads),
            events: Events::default(),
        }
    }

    fn open_with(dir: &Path, builder: Builder) -> Result<Db> {
        let Builder { options, vfs, clock, jobs, events } = builder;
        let events = events.timed(&clock);
        let opening = events.span(Doing::Open);
        let mut options = options.validated()?;
        let lock = match options.read_only {
            true => None,
            false => Some(take_lock(&vfs, dir, &options)?),
        };
        options.advanced.open_files_max.get_or_insert_with(|| memory::files_openable() / 3);
        let budget = Budget::of(&options, memory::bytes_usable());
        options.advanced.memtable_bytes = Some(budget.memtable);
        options.threads = Some(options.threads.unwrap_or_else(jobs::threads_default));
        let seed = clock.seed();
        let now = pipeline::now(&*clock);
        let recovering = events.span(Doing::Recovery);
        let pool = Pool::new(budget);
        let opened = recovery::open(Arc::clone(&vfs), dir, &options, pool, seed, now, &*jobs)?;
        drop(recovering);
        let Opened { shelf, view, last_ts, history_floor, history, report, writer } = opened;
        options.history = Some(moment::span(history));
        let (set, log) = writer.unzip();
        let log_floor = set.as_ref().map_or(SegmentId(0), |set| set.state().log_floor.segment);
        let buffered_flush = Duration::from_millis(options.advanced.buffered_flush_ms);
        let tables = recovery::load_tables(&view, last_ts)?;
        let world =
            World { clock: Arc::clone(&clock), jobs: Arc::clone(&jobs), events: events.clone() };
        let tree = Arc::new(Tree::new(options, world, shelf, view, set, history_floor));
        tree.show_tables(tables);
        let writer = match log {
            None => None,
            Some(log) => {
                let scrub = Scrub::new(&tree.options, Arc::clone(&clock));
                let (clock, group) = (Arc::clone(&clock), budget.group);
                let pacing = Pacing::new(Arc::clone(&tree), Arc::clone(&clock));
                let pipeline = Pipeline::new(log, last_ts, clock, events, buffered_flush, group);
                let pipeline = Arc::new(pipeline);
                let work = Work::new(Arc::clone(&tree), Arc::clone(&pipeline), scrub, lock);
                Some(Writer { pipeline, work, pacing })
            }
        };
        let inner = Inner {
            dir: dir.to_owned(),
            clock,
            tree,
            latches: Latches::new(),
            blind_deletes: BlindDeletes::default(),
            catalog: Mutex::default(),
            writer,
            read_only_at: last_ts,
            recovery: report,
        };
        let db = Db { inner: Arc::new(inner) };
        if let Some(writer) = &db.inner.writer {
            writer.work.start(&*jobs, log_floor)?;
        }
        let Recovery { log_groups, repairs, .. } = db.recovery();
        let (log_groups, repairs, took) = (*log_groups, repairs.clone(), opening.took());
        db.inner.tree.events.tell(Event::Opened { log_groups, repairs, took });
        Ok(db)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.inner.dir
    }

    /// How safe a commit of this database is when it is acknowledged.
    pub fn durability(&self) -> Durability {
        self.inner.tree.options.durability
    }

    /// What opening it found.
    pub fn recovery(&self) -> &Recovery {
        &self.inner.recovery
    }

    /// How far back it can be read: [`Options::history`] as asked for, else as the database was
    /// last opened for writing.
    pub fn history(&self) -> Duration {
        self.inner.tree.options.history.unwrap_or_default()
    }

    /// The newest commit that reads may see.
    pub fn visible(&self) -> CommitTs {
        self.inner.visible()
    }

    /// The time by which rows expire for reads that begin now: the wall clock, as far as it is not
    /// behind what this database has seen.
    pub fn time(&self) -> CommitTs {
        self.inner.time()
    }

    /// Writes all memtables to files, so that the next open replays nothing.
    pub fn flush(&self) -> Result<()> {
        let Writer { pipeline, work, .. } = self.inner.writer()?;
        let _running = work.enter()?;
        pipeline.wait(pipeline.applied())?;
        self.inner.tree.seal_now(pipeline);
        work.flush_sealed()?;
        work.poke();
        Ok(())
    }

    /// Flushes, then merges all files into one sorted run without deleted or outdated rows. What is
    /// written meanwhile may be left above it.
    ///
    /// Cost: rewrites what lies above the deepest level, and what that overlaps there; with a
    /// history window files that hold what has left it. Below L0 it is done in steps of some 32
    /// files (1 GiB): so much free disk it needs, and other merges have their turn in between.
    pub fn compact(&self) -> Result<()> {
        let Writer { pipeline, work, .. } = self.inner.writer()?;
        let _running = work.enter()?;
        let tree = &self.inner.tree;
        let began = tree.reclaiming_time(pipeline);
        self.flush()?;
        let _one_run = tree.making_one_run();
        while tree.compact_once(Aim::OneRun(began), pipeline)? {
            tree.delete_trash(); // The next step may need the room.
        }
        tree.delete_trash();
        Ok(())
    }

    /// Compacts a range of keys: flushes, then takes the range down level by level to the deepest
    /// one that holds any of it. Other rows that share table files with it move along. An empty
    /// range is left alone: nothing is flushed then.
    ///
    /// Cost: rewrites the files that hold the range. `Closed` where the database closes meanwhile.
    pub fn compact_range(&self, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let Writer { pipeline, work, .. } = self.inner.writer()?;
        let _running = work.enter()?;
        self.flush()?;
        for level in 0..LEVELS - 1 {
            let aim = Aim::Range(range, level);
            self.inner.tree.compact_once(aim, pipeline)?;
        }
        self.inner.tree.delete_trash();
        Ok(())
    }

    /// Returns once no flush and no compaction is due, not even one that waits for a quiet moment.
    /// What was erased by then is on disk, and so its space is free; memory that was kept for the
    /// next memtable is given back. Where the log is longer than 1 MiB the memtables are flushed
    /// too, and it begins again as a small one.
    pub fn settle(&self) -> Result<()> {
        let Writer { pipeline, work, .. } = self.inner.writer()?;
        let _running = work.enter()?;
        let tree = &self.inner.tree;
        let began = tree.reclaiming_time(pipeline);
        if pipeline.log_is_large() {
            work.renew_log()?;
            pipeline.give_up_spare_log()?; // What it has released is kept for reuse until here.
        } else if tree.has_unflushed_erasures() {
            self.flush()?;
        } else {
            work.flush_sealed()?;
        }
        while tree.compact_once(Aim::Settled(began), pipeline)? {}
        tree.delete_trash();
        tree.shelf.pool.spare.release();
        Ok(())
    }

    /// Does one piece of background work where the database runs without threads; false where
    /// there is none to do.
    pub fn step(&self) -> Result<bool> {
        self.inner.writer()?.work.step()
    }

    /// Does one piece of background work as [`Db::step`] does, and where none is due one that a
    /// database with threads keeps for when nobody has written for two seconds: a merge that leaves
    /// less above the deepest level. False where there is neither.
    ///
    /// Errors: where the database is read-only or closed, and those of the disk.
    pub fn step_at_rest(&self) -> Result<bool> {
        self.inner.writer()?.work.step_at_rest()
    }

    /// Reads a piece of the files if the scrub is to read one now; gives how long until the next
    /// one is due. For databases without threads; in others it happens by itself.
    ///
    /// Errors: `Invalid` where [`Advanced::scrub_period_s`](crate::Advanced::scrub_period_s) is 0.
    pub fn scrub_step(&self) -> Result<Duration> {
        let work = &self.inner.writer()?.work;
        let _running = work.enter()?;
        work.scrub_step().ok_or_else(|| Error::invalid("the scrub is turned off"))
    }

    /// Makes a database in `dir`, which must be empty or absent, that holds all that is visible
    /// now. Files are shared by hard links, so `dir` must be on the same disk; cost: one flush and
    /// one link per file.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.copy_to(dir.as_ref(), |_| Ok(()))
    }

    /// Makes a database in `dir` of what is visible now, the files linked there and their state as
    /// `change` leaves both.
    pub(crate) fn copy_to(
        &self,
        dir: &Path,
        change: impl FnOnce(&mut State) -> Result<()>,
    ) -> Result<()> {
        let _running = self.inner.writer()?.work.enter()?;
        let tree = &self.inner.tree;
        let span = tree.events.span(Doing::Checkpoint);
        self.flush()?;
        let (mut state, version) = tree.pinned();
        recovery::link_files(&tree.shelf, &version, dir)?;
        drop(version); // The folder has names of its own for the files.
        change(&mut state)?;
        recovery::start_copy(&tree.shelf.vfs, dir, state, self.inner.clock.seed())?;
        tree.events.tell(Event::Checkpoint { dir: dir.to_owned(), took: span.took() });
        Ok(())
    }

    /// Makes a backup of all that is visible now in the folder `dir`, which may hold earlier ones:
    /// files that they have are not copied again. Other files are shared by hard links where `dir`
    /// is on the same file system;
    /// [`backup::folder::Backups::create`](crate::backup::folder::Backups::create) says how to have
    /// copies, and to make one of a database that another process has open.
    ///
    /// ```
    /// # fn main() -> tabulith::Result<()> {
    /// # let (folder, dest, back) =
    /// #     (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    /// use tabulith::backup::{depot::Sharing, folder::{Backups, Which}};
    /// let db = tabulith::Db::open(folder.path())?;
    /// let table = db.table("prices")?;
    /// table.upsert("fruit", "apple", "3")?;
    /// let made = db.backup(dest.path())?;
    /// table.upsert("fruit", "apple", "4")?;
    /// assert!(Backups::at(dest.path()).verify()?.damage.is_empty());
    /// Backups::at(dest.path()).restore(Which::Number(made.backup.number), back.path(), Sharing::Copy)?;
    /// let row = tabulith::Db::open(back.path())?.table("prices")?.get("fruit", "apple")?;
    /// assert_eq!(row.unwrap().value, "3");
    /// # Ok(())
    /// # }
    /// ```
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<Created> {
        let Writer { pipeline, work, .. } = self.inner.writer()?;
        let _running = work.enter()?;
        let made = pipeline.now();
        pipeline.close_moment(made)?; // The backup is asked for the quiet time until then, too.
        self.flush()?;
        let tree = &self.inner.tree;
        let (state, version) = tree.pinned();
        let (vfs, clock) = (Arc::clone(&tree.shelf.vfs), Arc::clone(&self.inner.clock));
        let backups = Backups::with(vfs, clock, dir.as_ref());
        let created = backups.create_of(&state, &tree.shelf.dir, made, Sharing::Link);
        drop(version); // Until here it kept the files.
        created
    }

    /// Makes every acknowledged commit durable, ends the background work and releases the folder.
    /// Waits for calls under way that write files: merges give up soon, a checkpoint or a backup
    /// goes on to its end. Every later write fails; reads go on, of moments up to now. Dropping the
    /// last handle does the same, but cannot report an error.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Db({})", self.path().display())
    }
}

fn take_lock(vfs: &Arc<dyn Vfs>, dir: &Path, options: &Options) -> Result<Box<dyn LockGuard>> {
    if options.create_if_missing {
        vfs.create_dir_all(dir).map_err(|e| Error::io("making a folder", dir, e))?;
    }
    let path = match crate::planted!("B35") {
        true => plant_b35(dir, options),
        false => names::path(dir, FileKind::Lock, FileNo(0)),
    };
    vfs.lock(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            let what = format!("{} is open already, in this process or in another", dir.display());
            Error::new(Kind::Locked, what)
        }
        std::io::ErrorKind::NotFound => {
            Error::new(Kind::NotFound, format!("there is no folder {}", dir.display()))
        }
        _ => Error::io("locking a folder", &path, error),
    })
}

/// Whether a row that was found has expired. Most never do, and need not ask for the time.
fn has_expired(found: &Found, now: impl FnOnce() -> CommitTs) -> bool {
    found.kind.expires() && expiry::of(found.kind, &found.value) <= now()
}

/// What a reader is given of a row that `view` found and that is there.
fn row_of(view: &View, mut found: Found, reach: Reach) -> Result<Row> {
    let expires = expiry::told(found.kind, &found.value);
    if found.kind.expires() {
        found.value = found.value.split_off(expiry::LEN.min(found.value.len()));
        found.kind = found.kind.while_alive();
    }
    let Found { ts, value, .. } = view.resolve(found, reach)?;
    Ok(Row { ts, expires, value })
}

fn read_only() -> Error {
    Error::new(Kind::ReadOnly, "the database was opened read-only")
}

impl Writer {
    /// Waits while background work is too far behind.
    pub(crate) fn admit(&self) -> Result<()> {
        self.pacing.admit(&self.pipeline, &self.work)
    }

    /// Whether a commit need neither wait nor pause: there is room in the log and in its buffer,
    /// and no debt.
    pub(crate) fn takes_at_once(&self) -> bool {
        self.pacing.is_free() && self.pipeline.takes_at_once()
    }
}

impl Inner {
    pub(crate) fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or_else(read_only)
    }

    pub(crate) fn visible(&self) -> CommitTs {
        self.writer.as_ref().map_or(self.read_only_at, |writer| writer.pipeline.visible())
    }

    /// The past ends before it: every commit that is yet to come has this place or a later one.
    /// Waits for nobody.
    pub(crate) fn past_ends(&self) -> CommitTs {
        match &self.writer {
            Some(writer) => writer.pipeline.past_ends(),
            None => CommitTs(self.visible().0.saturating_add(1)),
        }
    }

    /// What a reader who begins now goes by: the clock is asked first, so that it sees what renewed
    /// a row before it expired.
    pub(crate) fn present(&self) -> Moment {
        let wall = self.tree.wall();
        let at = self.visible();
        Moment { at, now: self.tree.time(wall, at) }
    }

    /// The time by which rows expire for reads that begin now.
    pub(crate) fn time(&self) -> CommitTs {
        self.present().now
    }

    /// Rows of commits up to here have outlived the time to live of the table that `key` is of, for
    /// a reader at `at` by the time `now`, as of now where it is `None`.
    pub(crate) fn outlived_to(&self, key: &[u8], at: CommitTs, now: Option<CommitTs>) -> CommitTs {
        if !self.tree.ages() {
            return CommitTs::ZERO;
        }
        // The time first, the catalogue second: see `lifetime`.
        let now = now.unwrap_or_else(|| self.time());
        let table = order::table_of(key).unwrap_or(TableId::CATALOG);
        self.tree.tables.load().outlived_to(table, Moment { at, now })
    }

    /// What a reader goes by who begins now and sees what is applied whole, with all before it,
    /// visible yet or not. The clock first, as for [`Inner::present`].
    pub(crate) fn readable(&self) -> Moment {
        let wall = self.tree.wall();
        let writer = self.writer.as_ref();
        let at = writer.map_or(self.read_only_at, |writer| writer.pipeline.readable());
        Moment { at, now: self.tree.time(wall, at) }
    }

    fn close(&self) -> Result<()> {
        self.writer.as_ref().map_or(Ok(()), |writer| writer.work.close())
    }

    pub(crate) fn commit(
        &self,
        writer: &Writer,
        batch: Batch,
        durability: Durability,
        reach: Reach,
    ) -> Result<CommitTs> {
        self.commit_and(writer, batch, durability, reach, |_| {})
    }

    /// The same, and has `also` done with it: nobody sees the commit without that.
    pub(crate) fn commit_and(
        &self,
        writer: &Writer,
        batch: Batch,
        durability: Durability,
        reach: Reach,
        also: impl FnOnce(CommitTs),
    ) -> Result<CommitTs> {
        let tree = &self.tree;
        self.check_settled()?;
        let mut sealed = false;
        let ts = writer.pipeline.commit(batch, durability, reach, |commit| {
            tree.insert(commit);
            also(commit.ts);
            // Full with this commit: one that is larger than a memtable goes at once.
            let log = writer.pipeline.log_place();
            if tree.wants_seal(log) {
                tree.seal(commit.ts, log);
                sealed = true;
            }
        });
        if ts.as_ref().is_err_and(|error| error.kind() == Kind::NoSpace) {
            self.free_log_space(writer);
        }
        let ts = ts?;
        // Planted: the log is given up when a memtable is full, not when it is in a file.
        if crate::planted!("B11") && sealed {
            writer.pipeline.release_log(writer.pipeline.segment())?;
        }
        if sealed || writer.pipeline.take_spare_due() {
            writer.work.poke();
        }
        Ok(ts)
    }

    /// Refuses a commit that was decided while an ingest is in doubt: after a crash its rows may be
    /// there, and before it. Asked under a latch, all of which the ingest had until it was known.
    pub(crate) fn check_settled(&self) -> Result<()> {
        match self.tree.is_in_doubt() {
            false => Ok(()),
            true => Err(Error::new(Kind::Busy, "an ingest has failed and is not undone yet")),
        }
    }

    /// The log has found no room on the disk: some of it is its own, and comes back with a flush.
    fn free_log_space(&self, writer: &Writer) {
        let (tree, pipeline) = (&self.tree, &writer.pipeline);
        if !tree.has_sealed() {
            tree.seal_now(pipeline);
        }
        writer.work.poke();
    }

    pub(crate) fn durability(&self, asked: Option<Durability>) -> Durability {
        let own = self.tree.options.durability;
        asked.map_or(own, |asked| asked.min(own))
    }

    /// The row of `key`.
    pub(crate) fn get(&self, when: When, key: &[u8], reach: Reach) -> Result<Option<Row>> {
        self.find(when, key, reach, |view, found| row_of(view, found, reach))
    }

    /// The commit that wrote the row of `key`. Its value is left where it is.
    pub(crate) fn written(&self, when: When, key: &[u8], reach: Reach) -> Result<Option<CommitTs>> {
        self.find(when, key, reach, |_, found| Ok(found.ts))
    }

    /// What `give` makes of the row of `key`, if it is there.
    #[inline]
    fn find<T>(
        &self,
        when: When,
        key: &[u8],
        reach: Reach,
        give: impl Fn(&View, Found) -> Result<T>,
    ) -> Result<Option<T>> {
        let row_hash = hash::of_row(key);
        let view = self.tree.view();
        let at = when.at(|| self.visible()); // After the view: see `view`.
        let outlived_to = || self.outlived_to(key, at, when.now());
        let rows = CachedRows { cache: &self.tree.shelf.pool.rows, outlived_to: &outlived_to };
        let found = view.get(&rows, key, row_hash, at, reach)?;
        let Some(found) = found.filter(|found| found.kind != RowKind::Delete) else {
            return Ok(None);
        };
        let now = || when.now().unwrap_or_else(|| self.time());
        if found.ts > outlived_to() && !has_expired(&found, now) {
            return give(&view, found).map(Some);
        }
        match when {
            When::Now => self.look_again(|when| self.find(when, key, reach, give)),
            When::Applied | When::At(_) => Ok(None),
        }
    }

    /// Gives what `read` finds at a moment that is kept for so long. For who has found a row gone
    /// with time: that went on since it took its place among the commits, and the row may have been
    /// renewed between the two.
    #[cold]
    fn look_again<T>(&self, read: impl FnOnce(When) -> T) -> T {
        let moment = self.tree.snapshots.acquire(|| self.present());
        let found = read(When::At(moment));
        self.tree.snapshots.release(moment);
        found
    }

    /// The rows of `keys` in the order asked for, all as of one moment.
    pub(crate) fn get_many(
        &self,
        when: When,
        keys: &KeyList,
        reach: Reach,
    ) -> Result<Vec<Option<Row>>> {
        let view = self.tree.view();
        let at = when.at(|| self.visible()); // After the view: see `view`.
        let now = when.now().map_or_else(OnceCell::new, OnceCell::from);
        let first = keys.iter().next().map_or(&[][..], |listed| listed.key);
        // Rows outlive their table and expire by one time.
        let time = || *now.get_or_init(|| self.time());
        let outlived_by = self.tree.ages().then(time);
        let outlived_to = self.outlived_to(first, at, outlived_by);
        let (mut found, mut any_gone) = (Vec::with_capacity(keys.len()), false);
        let rows = CachedRows { cache: &self.tree.shelf.pool.rows, outlived_to: &|| outlived_to };
        view.get_many(&rows, keys, at, reach, |asked, row| {
            if row.kind == RowKind::Delete {
                return;
            }
            match row.ts > outlived_to && !has_expired(&row, time) {
                true => found.push((asked, row)),
                false => any_gone = true,
            }
        })?;
        if any_gone && matches!(when, When::Now) {
            return self.look_again(|when| self.get_many(when, keys, reach));
        }
        if reach == Reach::Disk {
            view.begin_values(found.iter().map(|(_, row)| row));
        }
        let mut rows = vec![None; keys.len()];
        for (asked, row) in found {
            rows[asked] = Some(row_of(&view, row, reach)?);
        }
        Ok(rows)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Errors were reported to every commit that they concern.
        let _ = self.close();
    }
}

/// Planted (`planted.rs`): each process takes a lock of its own.
fn plant_b35(dir: &Path, options: &Options) -> PathBuf {
    names::path(dir, FileKind::Temp, FileNo(options as *const _ as u64))
}

//! The store under test: a database on a disk in memory, under one of nine sets of options.

use crate::clocks::Clocks;
use crate::doubt::End;
use crate::ops::OPTION_SETS;
use crate::rows::{Difference, said};
use crate::zones::FirstByte;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::Clock;
use tabulith::env::jobs::{ByHand, Jobs, Threads};
use tabulith::error::{Error, Result};
use tabulith::options::{Advanced, Compression, Durability, Options};
use tabulith::rows::{Catalog, RowStore};
use tabulith::table::store::TableStore;
use tabulith::verify;
use tabulith::vfs::api::Vfs;
use tabulith::vfs::mem::SimFs;
use tabulith::{Codec, Snapshot};

/// 2026-01-01, in ticks of 100 ns since 1970.
const START_TICKS: u64 = 17_672_256_000_000_000;
const SECOND_TICKS: u64 = 10_000_000;
/// More ticks than a list has commits.
const OUTAGE: Duration = Duration::from_millis(10);

/// A database, and the disk and the clock below it.
pub(crate) struct Store {
    disk: SimFs,
    clock: Arc<Clocks>,
    /// The folder. Checkpoints are made beside it, and some replace it.
    dir: PathBuf,
    checkpoints: u64,
    /// `None` only while it is being opened again.
    db: Option<Db>,
    /// The database that was closed last, whose handles somebody still has.
    closed: Option<Db>,
    openings: u64,
    /// Whether no time has passed since the last commit.
    may_step_back: bool,
    /// The history window of the present opening, in ticks.
    history: u64,
    /// Whether files get zones of plain rows; otherwise of entities. A folder knows one kind.
    tracks_rows: bool,
    /// The options of the present opening.
    set: usize,
    reached: Reached,
}

/// How deep the run went, so that one which reaches nothing cannot pass for a good one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    pub(crate) openings: u64,
    pub(crate) flushes: u64,
    pub(crate) compactions: u64,
    /// Parts that they were done in.
    pub(crate) parts: u64,
    pub(crate) moves: u64,
    pub(crate) dropped_files: u64,
    pub(crate) checkpoints: u64,
    /// Snapshots that were made databases of their own.
    pub(crate) exports: u64,
    /// Memtables that were flushed because the log was long, and were not full.
    pub(crate) long_logs: u64,
    /// Kills that took commits back, of those that allowed it.
    pub(crate) lost: u64,
    /// The same of losses of power.
    pub(crate) lost_with_power: u64,
    /// Passes of the scrub over all files.
    pub(crate) scrubs: u64,
    /// The most blob files that there were at a closing.
    pub(crate) blob_files: usize,
    /// The deepest level that ever held a file.
    pub(crate) level: usize,
    /// Operations that had something to do or to compare, by their kind.
    pub(crate) done: BTreeMap<&'static str, u64>,
}

impl Reached {
    pub(crate) fn add(&mut self, other: &Reached) {
        self.openings += other.openings;
        self.flushes += other.flushes;
        self.compactions += other.compactions;
        self.parts += other.parts;
        self.moves += other.moves;
        self.dropped_files += other.dropped_files;
        self.checkpoints += other.checkpoints;
        self.exports += other.exports;
        self.long_logs += other.long_logs;
        self.lost += other.lost;
        self.lost_with_power += other.lost_with_power;
        self.scrubs += other.scrubs;
        self.blob_files = self.blob_files.max(other.blob_files);
        self.level = self.level.max(other.level);
        for (kind, times) in &other.done {
            *self.done.entry(*kind).or_default() += times;
        }
    }
}

impl Store {
    pub(crate) fn open(options: usize) -> Result<Store> {
        let clock = Arc::new(Clocks::at(START_TICKS));
        let reached = Reached::default();
        let mut store = Store {
            disk: SimFs::new(),
            clock,
            dir: "db".into(),
            checkpoints: 0,
            db: None,
            closed: None,
            openings: 0,
            may_step_back: true,
            history: 0,
            tracks_rows: options.is_multiple_of(2),
            set: options,
            reached,
        };
        store.reopen(options)?;
        Ok(store)
    }

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    pub(crate) fn rows(&self) -> &dyn RowStore {
        self.db()
    }

    pub(crate) fn catalog(&self) -> &dyn Catalog {
        self.db()
    }

    /// What this store has done since it was made.
    pub(crate) fn reached(&mut self) -> Reached {
        self.count();
        self.reached.clone()
    }

    /// Adds what the open database counted; its counters start anew at each opening.
    fn count(&mut self) {
        self.may_step_back = self.db().time() == self.db().visible();
        let stats = self.db().stats();
        let level = stats.levels.iter().rposition(|(files, _)| *files > 0).unwrap_or(0);
        self.reached.add(&Reached {
            openings: 1,
            flushes: stats.flushes,
            compactions: stats.compactions,
            parts: stats.compaction_parts,
            moves: stats.moves,
            dropped_files: stats.dropped_files,
            checkpoints: 0, // Counted when they are made, as are the next.
            exports: 0,
            long_logs: 0,
            lost: 0,
            lost_with_power: 0,
            scrubs: stats.scrub.passes,
            blob_files: stats.blob_files,
            level,
            done: BTreeMap::new(),
        });
    }

    /// Ends in order; what is open goes on reading until [`Store::open_closed`].
    pub(crate) fn close(&mut self) -> Result<()> {
        self.count();
        self.db().close()
    }

    /// Opens again after [`Store::close`]. The folder is checked between the two, here and below.
    pub(crate) fn open_closed(&mut self, options: usize) -> Result<()> {
        self.closed = self.db.take();
        self.verify()?;
        self.reopen(options)
    }

    /// The handle of the database that was closed before this one was opened, if that was so.
    pub(crate) fn closed(&self) -> Option<&Db> {
        self.closed.as_ref()
    }

    /// As after SIGKILL: what was written is there, nothing is flushed or closed any more.
    /// `may_lose`: whether the newest commit may be gone.
    pub(crate) fn kill_and_open(&mut self, options: usize, may_lose: bool) -> Result<()> {
        self.count();
        self.may_step_back &= !may_lose;
        self.disk.kill();
        self.db = None;
        self.verify()?;
        self.reopen(options)
    }

    /// As after a loss of power: what was synced is there, of all else whatever the disk had got
    /// to; `state` chooses. `may_lose`: whether the newest commit may be gone. Then the clock has
    /// moved on by the time that there is power again: where it has not, and more than a second of
    /// commits is lost, their timestamps are given again.
    pub(crate) fn lose_power_and_open(
        &mut self,
        options: usize,
        may_lose: bool,
        state: u64,
    ) -> Result<()> {
        self.count();
        self.may_step_back &= !may_lose;
        self.disk = self.disk.lose_power(state);
        self.db = None;
        if may_lose {
            self.clock.advance(OUTAGE);
        }
        self.verify_but_metadata()?;
        self.reopen(options)
    }

    /// Bytes of a memtable, where the log is long before small commits fill one.
    pub(crate) fn long_log_memtable_bytes(&self) -> Option<usize> {
        (self.set == LONG_LOG).then_some(LONG_LOG_MEMTABLE_BYTES)
    }

    /// One was flushed because the log was long.
    pub(crate) fn count_long_log(&mut self) {
        self.reached.long_logs += 1;
    }

    /// Such an end took commits back.
    pub(crate) fn count_lost(&mut self, end: End) {
        match end {
            End::Kill => self.reached.lost += 1,
            End::PowerLoss => self.reached.lost_with_power += 1,
        }
    }

    /// Has the scrub read up to so many pieces, at once; whether there were any. Nothing is ever
    /// damaged.
    pub(crate) fn scrub(&self, pieces: usize) -> std::result::Result<bool, Difference> {
        let before = self.db().stats().scrub;
        for _ in 0..pieces {
            let pause = self.db().scrub_step().map_err(said)?;
            self.clock.sleep(pause);
        }
        let after = self.db().stats().scrub;
        if after.finds > 0 {
            return Err(format!("the scrub found damage where there is none: {after:?}"));
        }
        Ok(after.bytes > before.bytes)
    }

    /// Reads every byte of the closed folder; the first damage is an error.
    fn verify(&self) -> Result<()> {
        self.verify_in(&self.dir)
    }

    fn verify_in(&self, dir: &Path) -> Result<()> {
        self.damage(dir)?.into_iter().next().map_or(Ok(()), Err)
    }

    /// The same where the power was lost: one copy of the root and one of the manifest may have
    /// been about to be written, and are not whole until the open has put that right. In that copy
    /// several places may be named: an edit begins in the sector in which the one before it ends,
    /// and takes it along.
    fn verify_but_metadata(&self) -> Result<()> {
        let mut named: [Option<PathBuf>; 2] = [None, None];
        for error in self.damage(&self.dir)? {
            let file = error.place().map(|(file, _)| file.to_owned());
            let is = |kind: &str| file.as_ref().is_some_and(|f| f.to_string_lossy().contains(kind));
            let copy = named.iter_mut().zip(["ROOT", "manifest"]).find(|(_, kind)| is(kind));
            let Some((copy, _)) = copy else { return Err(error) };
            if copy.is_some() && *copy != file {
                return Err(error);
            }
            *copy = file;
        }
        Ok(())
    }

    fn damage(&self, dir: &Path) -> Result<Vec<Error>> {
        Ok(verify::check_with(Arc::new(self.disk.clone()), dir)?.damage)
    }

    /// Copies the database into a folder beside it.
    pub(crate) fn checkpoint(&mut self) -> Result<PathBuf> {
        self.checkpoints += 1;
        self.reached.checkpoints += 1;
        let dir = PathBuf::from(format!("db-{}", self.checkpoints));
        self.db().checkpoint(&dir)?;
        self.verify_in(&dir)?;
        Ok(dir)
    }

    /// Makes a database of `snapshot` beside this one.
    pub(crate) fn export(&mut self, snapshot: &Snapshot) -> Result<PathBuf> {
        self.checkpoints += 1;
        self.reached.exports += 1;
        let dir = PathBuf::from(format!("db-{}", self.checkpoints));
        snapshot.export(&dir)?;
        self.verify_in(&dir)?;
        Ok(dir)
    }

    /// Opens a copy, for reading alone.
    pub(crate) fn read_copy(&self, dir: &Path, set: usize) -> Result<Db> {
        let builder = Db::builder().options(options(set)?).read_only();
        let (disk, clock) = (Arc::new(self.disk.clone()), Arc::clone(&self.clock));
        builder.parts(disk, clock, Arc::new(ByHand)).open(dir)
    }

    /// Deletes a copy.
    pub(crate) fn remove(&self, dir: &Path) -> Result<()> {
        let outcome = self
            .disk
            .list(dir)
            .and_then(|names| names.iter().try_for_each(|name| self.disk.remove(&dir.join(name))));
        outcome.map_err(|e| Error::io("remove", dir, e))
    }

    /// Goes on with a copy after [`Store::close`]; the folder so far is deleted.
    pub(crate) fn open_copy(&mut self, dir: PathBuf, options: usize) -> Result<()> {
        self.db = None;
        self.verify()?;
        let left = std::mem::replace(&mut self.dir, dir);
        self.remove(&left)?;
        self.reopen(options)
    }

    /// Whether nothing happens in the background but by steps.
    pub(crate) fn works_by_hand(&self) -> bool {
        self.set.is_multiple_of(2)
    }

    /// Whether a commit that asks for nothing is synced.
    pub(crate) fn syncs(&self) -> bool {
        self.set != STARVED
    }

    /// What readers and caches may hold together, where little of the budget is left for them.
    pub(crate) fn left_bytes(&self) -> Option<usize> {
        (self.set == STARVED).then_some(LEFT_BYTES)
    }

    /// Whether files get zones of plain rows.
    pub(crate) fn tracks_rows(&self) -> bool {
        self.tracks_rows
    }

    pub(crate) fn wait(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    /// Moments from here on must be readable.
    pub(crate) fn history_floor(&self) -> u64 {
        let now = self.clock.wall_ticks().max(self.db().visible().0);
        now.saturating_sub(self.history)
    }

    fn reopen(&mut self, set: usize) -> Result<()> {
        // The wall clock steps back an hour at every other opening; commits must rise all the same.
        self.openings += 1;
        // Only where a commit has the time that it steps back from, or expired rows would come
        // back.
        if self.may_step_back {
            let back = if self.openings.is_multiple_of(2) { 3600 * SECOND_TICKS } else { 0 };
            self.clock.set_wall(START_TICKS + self.openings * SECOND_TICKS - back);
        }
        self.set = set;
        let jobs: Arc<dyn Jobs> =
            if self.works_by_hand() { Arc::new(ByHand) } else { Arc::new(Threads) };
        let clock = Arc::clone(&self.clock);
        let options = options(set)?;
        if let Some(window) = options.history {
            self.history = window.as_secs() * SECOND_TICKS;
        }
        let builder = Db::builder().options(options);
        // A kill ends its threads as well.
        let disk = Arc::new(self.disk.process());
        let db = builder.parts(disk, clock, jobs).open(&self.dir)?;
        if self.tracks_rows {
            db.track(Arc::new(FirstByte));
        } else {
            TableStore::new(Arc::new(db.clone())); // It has those of entities tracked.
        }
        self.db = Some(db);
        Ok(())
    }
}

/// The least that a database may have in all.
const MEMORY_BYTES: usize = 32 << 20;
/// The set in which writers leave little of that for index, filters and caches: for the log, for
/// work and for what nobody counts go 9.5 MiB, for memtables the rest but this.
const STARVED: usize = 4;
const LEFT_BYTES: usize = 72 << 10;
const SEALED_MEMTABLES_MAX: usize = 16;
const STARVED_MEMTABLE_BYTES: usize =
    (MEMORY_BYTES - (19 << 19) - LEFT_BYTES) / (SEALED_MEMTABLES_MAX + 2);

/// The set in which four segments of the log are few: 128 blocks, where a small commit takes one.
const LONG_LOG: usize = 8;
const LONG_LOG_MEMTABLE_BYTES: usize = 16 << 10;

/// Small everything, so that a few thousand operations reach the deep levels; each set differs in
/// what could make an answer differ.
fn options(set: usize) -> Result<Options> {
    let small = Advanced {
        memtable_bytes: Some(16 << 10),
        wal_segment_bytes: 256 << 10,
        block_bytes: 512,
        file_bytes: 8 << 10,
        level_base_bytes: 32 << 10,
        level_fanout: 3,
        l0_compact_files: 2,
        block_cache_bytes: Some(64 << 10),
        ..Advanced::default()
    };
    let durability = if set == STARVED { Durability::Flushed } else { Durability::Synced };
    // Every set but the fifth and the seventh keeps some values in blob files, which are small as
    // well.
    let small = Advanced { blob_bytes_min: 100, blob_file_bytes: 8 << 10, ..small };
    let advanced = match set {
        0 => small,
        1 => Advanced {
            compression: Compression::NONE,
            filter_bits: 0,
            block_cache_bytes: Some(0),
            ..small
        },
        2 => {
            let (memtable_bytes, file_bytes) = (Some(4 << 10), 4 << 10);
            let blob_file_bytes = 4 << 10;
            let compression = Compression { upper: Codec::None, bottom: Codec::Lz4 };
            let small = Advanced { blob_bytes_min: 1, blob_file_bytes, compression, ..small };
            Advanced { block_bytes: 64 << 10, memtable_bytes, file_bytes, ..small }
        }
        3 => {
            let (blob_bytes_min, blob_dead_percent) = (1000, 20);
            let compression = match cfg!(feature = "zstd") {
                true => Compression { upper: Codec::Zstd, bottom: Codec::Zstd },
                false => Compression { upper: Codec::Lz4, bottom: Codec::None },
            };
            // A few files stay open, most are opened again and again.
            let index_and_filter_bytes = Some(8 << 10);
            let small = Advanced {
                blob_bytes_min,
                blob_dead_percent,
                compression,
                index_and_filter_bytes,
                ..small
            };
            Advanced { block_bytes: 256, level_fanout: 2, l0_compact_files: 1, ..small }
        }
        STARVED => Advanced {
            memtable_bytes: Some(STARVED_MEMTABLE_BYTES),
            sealed_memtables_max: SEALED_MEMTABLES_MAX,
            block_cache_bytes: None,
            blob_bytes_min: 0,
            ..small
        },
        5 => Advanced { mapped: true, index_and_filter_bytes: Some(0), ..small },
        6 => Advanced::default(),
        LONG_LOG => Advanced {
            memtable_bytes: Some(LONG_LOG_MEMTABLE_BYTES),
            wal_segment_bytes: LONG_LOG_MEMTABLE_BYTES,
            ..small
        },
        // All shares are those of the budget.
        _ => Advanced { memtable_bytes: None, block_cache_bytes: None, ..small },
    };
    let memory = [STARVED, 7].contains(&set).then_some(MEMORY_BYTES);
    // The seventh leaves it as it was.
    let history =
        [Some(60), Some(0), Some(60), Some(5), Some(600), Some(60), None, Some(5), Some(60)]
            [set % OPTION_SETS];
    let history = history.map(Duration::from_secs);
    // With threads and without: the even sets do the parts of a merge one after the other.
    let threads = Some([2, 3, 4, 1, 8, 2, 1, 4, 2][set % OPTION_SETS]);
    Options { durability, history, memory, threads, advanced, ..Options::default() }.validated()
}

//! A database that threads work on until it is killed, or its log fails, with what is left to go on
//! with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{Clock, ManualClock, SystemClock};
use tabulith::env::jobs::Threads;
use tabulith::options::{Advanced, Durability, Options};
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith_testkit::seed::Rng;

/// 2026-01-01, in ticks of 100 ns since 1970.
const START_TICKS: u64 = 17_672_256_000_000_000;
const HOUR_TICKS: u64 = 36_000_000_000;
/// The least that a database may have in all.
const MEMORY_BYTES: usize = 32 << 20;

/// A database, and the disk and the clock below it.
pub(crate) struct House {
    disk: SimFs,
    /// The disk as this process has it.
    faults: FaultFs,
    clock: Arc<Clocks>,
    options: Options,
    pub(crate) db: Arc<Db>,
}

/// How much faster than the true one the steady clock runs: who waits for the disk of a process
/// that is dead gives up so much sooner.
const HASTE: u32 = 100;

/// Histories of a run whose least number of failures says something: there is one in every second,
/// by chance.
const HISTORIES_TELLING: u64 = 25;

/// How many failures of the log a run must have met.
pub(crate) fn failures_min(histories: u64) -> u64 {
    if histories < HISTORIES_TELLING { 0 } else { histories / 4 }
}

/// A wall clock that only the test turns, so that commits share their ticks, beside a steady one,
/// by which threads wait.
#[derive(Debug)]
struct Clocks {
    wall: ManualClock,
    steady: SystemClock,
}

impl Clocks {
    fn new() -> Clocks {
        Clocks { wall: ManualClock::at(START_TICKS), steady: SystemClock::new() }
    }
}

impl Clock for Clocks {
    fn wall_ticks(&self) -> u64 {
        self.wall.wall_ticks()
    }

    fn steady(&self) -> Duration {
        self.steady.steady() * HASTE
    }

    fn sleep(&self, time: Duration) {
        self.steady.sleep(time / HASTE);
    }
}

/// How a stretch of work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In order.
    Close,
    /// As by SIGKILL: what was written is there.
    Kill,
    /// What was not synced may be lost.
    PowerLoss,
}

impl House {
    /// An empty one whose settings `rng` decides.
    pub(crate) fn open(rng: &mut Rng) -> House {
        let advanced = Advanced {
            // With one budget the last two leave nothing of it for index, filters and caches, or
            // decide it all.
            memtable_bytes: [Some(4 << 10), Some(16 << 10), Some(1 << 20), Some(8 << 20), None]
                [rng.below(5)],
            wal_segment_bytes: [64 << 10, 256 << 10][rng.below(2)],
            block_bytes: 512,
            file_bytes: 8 << 10,
            level_base_bytes: 32 << 10,
            level_fanout: 3,
            l0_compact_files: 2,
            block_cache_bytes: Some([0, 64 << 10][rng.below(2)]),
            blob_bytes_min: 100,
            blob_file_bytes: 8 << 10,
            mapped: rng.chance(25),
            index_and_filter_bytes: [None, Some(0)][rng.below(2)],
            ..Advanced::default()
        };
        let durability = if rng.chance(20) { Durability::Flushed } else { Durability::Synced };
        let memory = rng.chance(50).then_some(MEMORY_BYTES);
        let threads = Some(2);
        let options = Options { durability, memory, threads, advanced, ..Options::default() };
        let options = options.validated().expect("settings that can be");
        let (disk, clock) = (SimFs::new(), Arc::new(Clocks::new()));
        let (faults, db) = open(&disk, &clock, &options);
        House { disk, faults, clock, options, db }
    }

    /// One of the endings that its durability outlives.
    pub(crate) fn ending(&self, rng: &mut Rng) -> Ending {
        match rng.below(4) {
            0 => Ending::Close,
            1 => Ending::Kill,
            _ if self.options.durability == Durability::Synced => Ending::PowerLoss,
            _ => Ending::Kill,
        }
    }

    /// Has one write or sync of the log fail, in half of the stretches of work. It may be one that
    /// makes a segment ahead of need, of which no commit is told.
    pub(crate) fn break_log(&self, rng: &mut Rng) {
        if rng.chance(50) {
            return;
        }
        let rule = Rule::fail(*rng.pick(&[Call::Write, Call::Sync]));
        let rule = match rng.chance(80) {
            true => rule.named("*.wal").skip(rng.below(WRITES) as u64),
            false => rule.named("*.spare").skip(rng.below(SPARE_WRITES) as u64),
        };
        self.faults.add(match rng.below(3) {
            0 => rule,
            1 => rule.half_done(),
            _ => rule.done(),
        });
    }

    /// Ends the database and opens it again on a disk that is well, with a clock that may have gone
    /// back.
    pub(crate) fn reopen(&mut self, ending: Ending, rng: &mut Rng) {
        match ending {
            Ending::Close => {
                let closed = self.db.close();
                assert!(closed.is_ok() || self.faults.injected() > 0, "it ends well: {closed:?}");
            }
            Ending::Kill => self.disk.kill(),
            Ending::PowerLoss => self.disk = self.disk.lose_power(rng.next_u64()),
        }
        let jump = rng.below(3) as u64 * HOUR_TICKS;
        self.clock.wall.set_wall(START_TICKS + jump);
        (self.faults, self.db) = open(&self.disk, &self.clock, &self.options);
    }

    /// Ends the process here and now; its threads find that out.
    pub(crate) fn kill(&self) {
        self.disk.kill();
    }

    /// Lets time pass.
    pub(crate) fn turn_clock(&self, ticks: u64) {
        self.clock.wall.set_wall(self.clock.wall_ticks() + ticks);
    }
}

/// Calls on the log that most stretches of work make, and calls that make segments ahead of need.
const WRITES: usize = 100;
const SPARE_WRITES: usize = 4;

fn open(disk: &SimFs, clock: &Arc<Clocks>, options: &Options) -> (FaultFs, Arc<Db>) {
    let faults = FaultFs::new(Arc::new(disk.process()));
    let builder = Db::builder().options(options.clone());
    let builder = builder.parts(Arc::new(faults.clone()), clock.clone(), Arc::new(Threads));
    let db = builder.open("db").expect("what a crash or a failure leaves is a database");
    (faults, Arc::new(db))
}

/// What the threads of a stretch of work share: the one clock of the history, the kill, and what
/// the disk refused.
pub(crate) struct Watch {
    now: AtomicU64,
    calls: AtomicU64,
    kill_at: u64,
    killed: AtomicBool,
    faults: FaultFs,
}

impl Watch {
    /// Goes on from `now`; the call numbered `kill_at` kills.
    pub(crate) fn new(now: u64, kill_at: u64, house: &House) -> Watch {
        Watch {
            now: AtomicU64::new(now),
            calls: AtomicU64::new(0),
            kill_at,
            killed: AtomicBool::new(false),
            faults: house.faults.clone(),
        }
    }

    /// A time that is given once.
    pub(crate) fn tick(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    /// Counts a call, and kills where it is the one. False once the process is dead.
    pub(crate) fn goes_on(&self, house: &House) -> bool {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.kill_at {
            self.killed.store(true, Ordering::SeqCst);
            house.kill();
        }
        !self.killed.load(Ordering::SeqCst)
    }

    /// Whether a call on the log has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.faults.injected() > 0
    }

    /// An error that nobody explains is one of the engine.
    #[track_caller]
    pub(crate) fn excuse(&self, error: &dyn std::fmt::Display) {
        let is_dead = self.killed.load(Ordering::SeqCst);
        assert!(is_dead || self.has_failed(), "an error out of the blue: {error}");
    }

    /// The same of a read: those go on whatever became of the log.
    #[track_caller]
    pub(crate) fn excuse_read(&self, error: &dyn std::fmt::Display) {
        let is_dead = self.killed.load(Ordering::SeqCst);
        assert!(is_dead, "a read failed (of the log: {}): {error}", self.has_failed());
    }
}

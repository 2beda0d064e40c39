//! Time: the wall clock for commit timestamps, a steady clock for waiting, and a hand-turned clock
//! for tests.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from.
pub trait Clock: Debug + Send + Sync {
    /// Ticks of 100 ns since the Unix epoch. May stand still or jump either way.
    fn wall_ticks(&self) -> u64;

    /// Time since an arbitrary start; never goes back.
    fn steady(&self) -> Duration;

    /// Lets at least `time` pass on the steady clock.
    fn sleep(&self, time: Duration);

    /// A number for a generator: another one whenever either clock has moved.
    fn seed(&self) -> u64 {
        self.wall_ticks() ^ self.steady().as_nanos() as u64
    }
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose steady time starts now.
    #[expect(clippy::disallowed_methods, reason = "the door itself")]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the door itself")]
    fn wall_ticks(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos() / 100).unwrap_or(u64::MAX)
    }

    fn steady(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "the door itself")]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A clock that moves only when it is told to; sleeping moves it.
#[derive(Debug)]
pub struct ManualClock {
    wall_ticks: AtomicU64,
    steady_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `wall_ticks`.
    pub fn at(wall_ticks: u64) -> ManualClock {
        ManualClock { wall_ticks: AtomicU64::new(wall_ticks), steady_ns: AtomicU64::new(0) }
    }

    /// Moves both clocks on.
    pub fn advance(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.wall_ticks.fetch_add(ns / 100, Ordering::Relaxed);
        self.steady_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Sets the wall clock alone, back or forth.
    pub fn set_wall(&self, wall_ticks: u64) {
        self.wall_ticks.store(wall_ticks, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn wall_ticks(&self) -> u64 {
        self.wall_ticks.load(Ordering::Relaxed)
    }

    fn steady(&self) -> Duration {
        Duration::from_nanos(self.steady_ns.load(Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

//! How much a commit must wait for flush and compaction. Pure but for the [`Bucket`].
//!
//! A commit owes a pause for every byte; what it owes per byte grows with the square of the debt,
//! from nothing where the debt begins to matter, so a writer meets no step. The pauses are gathered
//! until they are long enough for a clock, and paid before the next commit takes its place, with no
//! lock held. Commits stop only for memory.
//!
//! The files of L0 over one key stand for what all levels owe: merges take the level that is
//! fullest in relation to its target, so while a deeper one is further behind, L0 grows.

use crate::event::StallReason;
use crate::options::Options;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::weakened;
use std::time::Duration;

/// What the background work has not caught up with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    /// Files of L0 that lie over one key at most.
    pub(crate) l0_runs: usize,
    /// All files of L0.
    pub(crate) l0_files: usize,
    pub(crate) sealed_memtables: usize,
    /// Bytes in the memtable that takes commits now.
    pub(crate) active_bytes: usize,
}

/// What a commit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    None,
    /// Owes this long a pause, most of it for this cause.
    Delay(Duration, Cause),
    /// Waits until the debt is smaller.
    Stop(Cause),
}

/// Which debt a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    L0Files,
    Memtables,
}

impl From<Cause> for StallReason {
    fn from(cause: Cause) -> StallReason {
        match cause {
            Cause::L0Files => StallReason::L0Files,
            Cause::Memtables => StallReason::Memtables,
        }
    }
}

/// Bytes per second that writers keep with as many L0 files as [`Advanced::l0_stop_files`] says:
/// far below what the slowest disk compacts, so the number falls from there.
///
/// [`Advanced::l0_stop_files`]: crate::options::Advanced::l0_stop_files
const SLOWEST_BYTES_PER_SECOND: u64 = 1 << 20;

/// Bytes per second that writers keep where memtables fill all they may: about what a flush writes,
/// so that the two meet before commits stop.
const FLUSHED_BYTES_PER_SECOND: u64 = 32 << 20;

/// As many times the L0 files of the slowest pace stop commits: indexes and filters of L0 files are
/// held in memory, too.
const L0_STOPS: usize = 4;

/// A part of a whole in this many parts.
const PARTS: u64 = 1 << 10;

/// Whether commits will soon be slowed because merges are behind: three quarters of the L0 files
/// from which on they are, also where these lie beside each other and slow nobody.
pub(crate) fn is_near(debt: Debt, options: &Options) -> bool {
    debt.l0_runs.max(debt.l0_files) * 4 >= options.advanced.l0_slow_files * 3
}

/// What a commit of `bytes` does at `debt`.
pub(crate) fn stall(debt: Debt, bytes: usize, options: &Options) -> Stall {
    let advanced = &options.advanced;
    if debt.sealed_memtables > advanced.sealed_memtables_max {
        return Stall::Stop(Cause::Memtables);
    }
    if debt.l0_runs >= L0_STOPS * advanced.l0_stop_files {
        return Stall::Stop(Cause::L0Files);
    }
    let over = debt.l0_runs.saturating_sub(advanced.l0_slow_files) as u64;
    let room = (advanced.l0_stop_files - advanced.l0_slow_files) as u64;
    let files = (over * PARTS / room).min(2 * PARTS);
    let filled = debt.sealed_memtables * advanced.memtable() + debt.active_bytes;
    let all = (advanced.sealed_memtables_max + 1) * advanced.memtable();
    let memory = ((2 * filled).saturating_sub(all) as u64).saturating_mul(PARTS) / all as u64;
    let for_files = pause_ns(bytes, files, SLOWEST_BYTES_PER_SECOND);
    let for_memory = pause_ns(bytes, memory.min(PARTS), FLUSHED_BYTES_PER_SECOND);
    let cause = if for_files > for_memory { Cause::L0Files } else { Cause::Memtables };
    match u64::try_from(for_files + for_memory).unwrap_or(u64::MAX) {
        0 => Stall::None,
        ns => Stall::Delay(Duration::from_nanos(ns), cause),
    }
}

fn pause_ns(bytes: usize, parts: u64, bytes_per_second: u64) -> u128 {
    let squared = u128::from(parts) * u128::from(parts);
    let whole = u128::from(PARTS) * u128::from(PARTS);
    squared * bytes as u128 * 1_000_000_000 / (whole * u128::from(bytes_per_second))
}

/// Pauses that are owed: those of many small commits add up to one that a clock can measure.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(crate) owed_ns: AtomicU64,
}

impl Bucket {
    /// A shorter pause is owed on: a thread that sleeps wakes some 60 us late.
    const PAID_NS_MIN: u64 = 1_000_000;

    /// A longer pause is paid in parts, by commits to come, so that no single one is held longer.
    const PAID_NS_MAX: u64 = 20_000_000;

    /// No more than this is owed: it would be paid by others, long after whoever owed it.
    const OWED_NS_MAX: u64 = 100_000_000;

    /// Nothing is behind any more.
    pub(crate) fn forgive(&self) {
        // Almost always so: do not dirty the line.
        if self.owed_ns.load(Relaxed) != 0 {
            self.owed_ns.store(0, Relaxed);
        }
    }

    /// Adds what a commit owes; returns how long it is to pause now.
    pub(crate) fn owe(&self, delay: Duration) -> Option<Duration> {
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let add = |owed: u64| Some(owed.saturating_add(delay_ns).min(Bucket::OWED_NS_MAX));
        let before = self.owed_ns.fetch_update(Relaxed, Relaxed, add).unwrap_or_default();
        if before.saturating_add(delay_ns) < Bucket::PAID_NS_MIN {
            return None;
        }
        let pay = |owed: u64| {
            let paid = owed.min(Bucket::PAID_NS_MAX);
            (owed >= Bucket::PAID_NS_MIN).then(|| owed - paid)
        };
        let taken = if weakened!("owed") {
            let owed = self.owed_ns.load(Relaxed);
            pay(owed).map(|left| self.owed_ns.store(left, Relaxed)).map(|()| owed)
        } else {
            self.owed_ns.fetch_update(Relaxed, Relaxed, pay).ok()
        };
        taken.map(|owed| Duration::from_nanos(owed.min(Bucket::PAID_NS_MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(options: &Options, debt: Debt) -> Duration {
        match stall(debt, 1000, options) {
            Stall::None => Duration::ZERO,
            Stall::Delay(delay, _) => delay,
            Stall::Stop(_) => Duration::MAX,
        }
    }

    #[test]
    fn delay_grows_with_the_files_and_smoothly_from_nothing() {
        let options = Options::default();
        let files = |l0_runs| at(&options, Debt { l0_runs, ..Debt::default() });
        let (slow, stop) = (options.advanced.l0_slow_files, options.advanced.l0_stop_files);
        assert_eq!(files(slow), Duration::ZERO);
        for l0_runs in slow + 1..=stop {
            assert!(files(l0_runs - 1) < files(l0_runs));
        }
        assert!(
            files(stop) < Duration::from_millis(1) && files(2 * stop) < Duration::from_millis(4)
        );
        assert_eq!(files(4 * stop), Duration::MAX, "the files of L0 take memory");
    }

    #[test]
    fn debt_is_near_before_it_slows_anybody() {
        let options = Options::default();
        let debt = |l0_runs| Debt { l0_runs, ..Debt::default() };
        let (compact, slow) = (options.advanced.l0_compact_files, options.advanced.l0_slow_files);
        assert!(!is_near(debt(compact), &options) && is_near(debt(slow), &options));
        let first = (0..).map(debt).find(|debt| is_near(*debt, &options)).unwrap_or_default();
        assert_eq!(at(&options, first), Duration::ZERO);
    }

    #[test]
    fn a_stall_names_the_debt_that_it_is_for() {
        let options = Options::default();
        let debt = |l0_runs, sealed_memtables| {
            let debt = Debt { l0_runs, sealed_memtables, ..Debt::default() };
            stall(debt, 1 << 20, &options)
        };
        assert!(matches!(debt(20, 0), Stall::Delay(_, Cause::L0Files)));
        assert!(matches!(debt(0, 3), Stall::Delay(_, Cause::Memtables)));
        assert_eq!(debt(1000, 0), Stall::Stop(Cause::L0Files));
        assert_eq!(debt(1000, 17), Stall::Stop(Cause::Memtables));
    }

    #[test]
    fn delay_grows_as_memtables_fill_what_they_may() {
        let options = Options::default();
        let advanced = &options.advanced;
        let filled = |sixteenths: usize| {
            let bytes = sixteenths * advanced.memtable() / 16;
            let sealed_memtables = bytes / advanced.memtable();
            let active_bytes = bytes % advanced.memtable();
            at(&options, Debt { sealed_memtables, active_bytes, ..Debt::default() })
        };
        let all = 16 * (advanced.sealed_memtables_max + 1);
        assert_eq!(filled(all / 2), Duration::ZERO);
        for sixteenths in all / 2 + 2..all {
            assert!(filled(sixteenths - 1) < filled(sixteenths), "{sixteenths}");
        }
        let sealed_memtables = advanced.sealed_memtables_max + 1;
        assert_eq!(at(&options, Debt { sealed_memtables, ..Debt::default() }), Duration::MAX);
    }

    /// What a load of large commits has owed is no matter of small ones hours later.
    #[test]
    fn what_is_owed_is_bounded_and_forgiven_once_nothing_is_behind() {
        let bucket = Bucket::default();
        let owe = |us| bucket.owe(Duration::from_micros(us)).unwrap_or_default();
        (0..1_000).for_each(|_| _ = owe(1_000_000));
        let left: Duration = (0..1_000).map(|_| owe(0)).sum();
        assert!(left <= Duration::from_millis(100), "{left:?}");
        owe(1_000_000);
        bucket.forgive();
        assert_eq!(owe(1), Duration::ZERO);
    }

    #[test]
    fn small_pauses_are_paid_together_and_large_ones_in_parts() {
        let bucket = Bucket::default();
        let paid = |us| bucket.owe(Duration::from_micros(us)).unwrap_or_default().as_micros();
        assert_eq!([paid(400), paid(400), paid(400)], [0, 0, 1200]);
        assert_eq!(paid(50_000), 20_000);
        assert_eq!([paid(0), paid(0), paid(0)], [20_000, 10_000, 0]);
    }
}

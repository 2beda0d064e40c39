//! When a commit must wait for flush and compaction, and for how long. Pure.

use crate::options::Options;
use std::time::Duration;

/// What the background work has not caught up with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) l0_files: usize,
    pub(crate) sealed_memtables: usize,
}

/// What a commit does before it takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    None,
    /// Pause this long, then go on.
    Delay(Duration),
    /// Wait until the debt is smaller.
    Stop,
}

/// Bytes per second that a writer keeps just below the stop. The delay grows with the square of
/// the debt from nothing, so a writer meets no step: at a tenth of the way it loses 1 % of this.
const SLOWEST_BYTES_PER_SECOND: u64 = 1 << 20;

/// What a commit of `bytes` does at `debt`.
pub(crate) fn stall(debt: Debt, bytes: usize, options: &Options) -> Stall {
    if debt.l0_files >= options.advanced.l0_stop_files
        || debt.sealed_memtables > options.advanced.sealed_memtables_max
    {
        return Stall::Stop;
    }
    let over = debt.l0_files.saturating_sub(options.advanced.l0_slow_files) as u64;
    let room = (options.advanced.l0_stop_files - options.advanced.l0_slow_files) as u64;
    let ns = u128::from(over * over) * bytes as u128 * 1_000_000_000
        / u128::from(room * room * SLOWEST_BYTES_PER_SECOND);
    match u64::try_from(ns).unwrap_or(u64::MAX) {
        0 => Stall::None,
        ns => Stall::Delay(Duration::from_nanos(ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_grows_smoothly_from_nothing_to_the_stop() {
        let options = Options::default();
        let at = |l0_files| stall(Debt { l0_files, sealed_memtables: 0 }, 1000, &options);
        assert_eq!(at(options.advanced.l0_slow_files), Stall::None);
        let mut last = Duration::ZERO;
        for l0_files in options.advanced.l0_slow_files + 1..options.advanced.l0_stop_files {
            let Stall::Delay(delay) = at(l0_files) else { panic!("a delay at {l0_files}") };
            assert!(delay > last && delay < Duration::from_millis(2));
            last = delay;
        }
        assert_eq!(at(options.advanced.l0_stop_files), Stall::Stop);
        let sealed_memtables = options.advanced.sealed_memtables_max + 1;
        assert_eq!(stall(Debt { l0_files: 0, sealed_memtables }, 1, &options), Stall::Stop);
    }
}

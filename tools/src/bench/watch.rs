//! Looks at the process, its folder and the engine's counters once a second while a workload runs.

use crate::bench::store::{Figures, Store};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tabulith::env::clock::Clock;
use tabulith_results::machine::{self, Taken};
use tabulith_results::result::Second;

/// One look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// When, from the start of the watch.
    pub(crate) at: Duration,
    /// What the process has taken.
    pub(crate) taken: Taken,
    /// Bytes on the disk.
    pub(crate) disk: Option<u64>,
    /// The engine's counters.
    pub(crate) figures: Option<Figures>,
}

/// What is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Watched<'a> {
    pub(crate) store: &'a dyn Store,
    /// The folder, where this process has the data.
    pub(crate) folder: Option<&'a Path>,
}

impl Watched<'_> {
    /// Looks once. What a server takes cannot be seen from here, so nothing is said of it.
    pub(crate) fn look(&self, at: Duration) -> Look {
        let taken = Taken::now();
        Look {
            at,
            taken: Taken {
                written: taken.written.filter(|_| self.folder.is_some()),
                memory: taken.memory.filter(|_| self.folder.is_some()),
                memory_peak: taken.memory_peak.filter(|_| self.folder.is_some()),
                ..taken
            },
            disk: self.folder.map(machine::disk_bytes),
            figures: self.store.figures(),
        }
    }

    /// Does `work` and looks meanwhile. The first look is before it, the last after it. A peak of
    /// memory that is from before is none of theirs.
    pub(crate) fn during<T>(&self, clock: &dyn Clock, work: impl FnOnce() -> T) -> (T, Vec<Look>) {
        let is_peak_own = machine::forget_peak();
        let start = clock.steady();
        let mut looks = vec![self.look(Duration::ZERO)];
        let (stop, stopped) = mpsc::channel::<()>();
        let result = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut seen = Vec::new();
                let stopped = stopped;
                for second in 1.. {
                    let due = Duration::from_secs(second);
                    let wait = due.saturating_sub(clock.steady().saturating_sub(start));
                    if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                        break;
                    }
                    seen.push(self.look(clock.steady().saturating_sub(start)));
                }
                seen
            });
            let result = work();
            drop(stop);
            looks.extend(looking.join().unwrap_or_default());
            result
        });
        looks.push(self.look(clock.steady().saturating_sub(start)));
        if !is_peak_own {
            looks.iter_mut().for_each(|look| look.taken.memory_peak = None);
        }
        (result, looks)
    }
}

/// The most memory that the process had: at a look, and between them where that is known.
pub(crate) fn most_memory(looks: &[Look]) -> Option<u64> {
    looks.iter().filter_map(|look| look.taken.memory.max(look.taken.memory_peak)).max()
}

/// Gives each interval what was seen in it.
pub(crate) fn spread(looks: &[Look], seconds: &mut [Second]) {
    // Looks come a little late.
    let slack = Duration::from_millis(300);
    let until = |end_s: f64| {
        let end = Duration::from_secs_f64(end_s.max(0.0)) + slack;
        looks.iter().rev().find(|look| look.at <= end).or(looks.first())
    };
    for second in seconds {
        let before = until(second.at_s - slack.as_secs_f64() / 2.0);
        let (Some(before), Some(after)) = (before, until(second.at_s + second.seconds)) else {
            continue;
        };
        let written = |look: &Look| look.taken.written;
        second.written_bytes =
            written(after).zip(written(before)).map(|(after, before)| after.saturating_sub(before));
        let stalls = after.figures.zip(before.figures);
        second.stall_ms = stalls
            .map(|(after, before)| after.stall_us.saturating_sub(before.stall_us) as f64 / 1e3);
        second.memory_bytes = after.taken.memory;
        second.disk_bytes = after.disk;
        second.debt_bytes = after.figures.map(|figures| figures.debt_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_what_happened_in_it() {
        let look = |ms: u64, written: u64, stall_us: u64| Look {
            at: Duration::from_millis(ms),
            taken: Taken { written: Some(written), memory: Some(written * 2), ..Taken::default() },
            disk: Some(written * 3),
            figures: Some(Figures { stall_us, ..Figures::default() }),
        };
        let looks = [
            look(0, 100, 0),
            look(1_010, 400, 5_000),
            look(2_030, 600, 5_000),
            look(2_500, 650, 9_000),
        ];
        let mut seconds: Vec<Second> = (0..3)
            .map(|at| Second { at_s: f64::from(at), seconds: 1.0, ..Second::default() })
            .collect();
        spread(&looks, &mut seconds);
        let written: Vec<_> = seconds.iter().map(|second| second.written_bytes).collect();
        assert_eq!(written, [Some(300), Some(200), Some(50)]);
        let stalls: Vec<_> = seconds.iter().map(|second| second.stall_ms).collect();
        assert_eq!(stalls, [Some(5.0), Some(0.0), Some(4.0)]);
        assert_eq!((seconds[1].memory_bytes, seconds[2].disk_bytes), (Some(1_200), Some(1_950)));
        spread(&[], &mut seconds);
    }

    #[test]
    fn the_most_memory_is_that_between_the_looks_too() {
        let look = |memory: Option<u64>, memory_peak: Option<u64>| Look {
            taken: Taken { memory, memory_peak, ..Taken::default() },
            ..Look::default()
        };
        let looks = [look(Some(5), Some(5)), look(Some(3), Some(9)), look(Some(4), Some(9))];
        assert_eq!(most_memory(&looks), Some(9));
        assert_eq!(most_memory(&[look(Some(5), None), look(Some(3), None)]), Some(5));
        assert_eq!(most_memory(&[look(None, None)]), None, "of a server");
    }
}

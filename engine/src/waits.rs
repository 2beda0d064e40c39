//! Why commits were slow: waits counted by their cause, and what helps against each.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts waits of one kind, from many threads.
#[derive(Debug, Default)]
pub(crate) struct WaitCounter {
    times: AtomicU64,
    us: AtomicU64,
    longest_us: AtomicU64,
}

impl WaitCounter {
    /// One wait more.
    pub(crate) fn add(&self, wait: Duration) {
        let us = wait.as_micros() as u64;
        self.times.fetch_add(1, Ordering::Relaxed);
        self.us.fetch_add(us, Ordering::Relaxed);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Waits {
        Waits {
            times: self.times.load(Ordering::Relaxed),
            us: self.us.load(Ordering::Relaxed),
            longest_us: self.longest_us.load(Ordering::Relaxed),
        }
    }
}

/// Upper bounds of the classes that a [`Histogram`] counts in, in microseconds; what took longer is
/// in a class behind them.
pub const TIME_BOUNDS_US: [u64; 14] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    10_000_000,
];

/// Counts times by their size, from many threads.
#[derive(Debug, Default)]
pub struct Histogram {
    classes: [AtomicU64; TIME_BOUNDS_US.len() + 1],
    us: AtomicU64,
}

impl Histogram {
    /// One time more.
    pub fn add(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let class = TIME_BOUNDS_US.partition_point(|bound| *bound < us);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        self.us.fetch_add(us, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn get(&self) -> Times {
        Times {
            classes: std::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed)),
            us: self.us.load(Ordering::Relaxed),
        }
    }
}

/// How many times of which size there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Times by class: at most the bound of that place in [`TIME_BOUNDS_US`], and above the bound
    /// before it.
    pub classes: [u64; TIME_BOUNDS_US.len() + 1],
    /// All together, in microseconds.
    pub us: u64,
}

/// Waits of one kind since the database was opened, over all threads.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many there were.
    pub times: u64,
    /// How long they took together, in microseconds.
    pub us: u64,
    /// How long the longest took, in microseconds.
    pub longest_us: u64,
}

/// Why commits were slow, beyond the time of the disk's own syncs. As text it says for each cause
/// how often, how long and what helps; nothing where no commit waited.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Pauses that grow with the files in L0, so that compaction keeps up.
    pub slowed_by_l0: Waits,
    /// Pauses that grow as memtables fill what memory they may, so that flushes keep up.
    pub slowed_by_memtables: Waits,
    /// Waits until compaction had taken files out of L0.
    pub stopped_by_l0: Waits,
    /// Waits until a full memtable was written to a file.
    pub stopped_by_memtables: Waits,
    /// Waits until the group that gathers had room: commits come faster than the log takes them.
    pub group_full: Waits,
    /// Groups that waited for a new log segment to be written, as none was ready.
    pub log_segment: Waits,
    /// Waits until another commit of the same partition was applied; not for its sync, which they
    /// share.
    pub partition: Waits,
}

impl Stalls {
    /// All waits for background work together, in microseconds.
    pub fn background_us(&self) -> u64 {
        self.slowed_by_l0.us
            + self.slowed_by_memtables.us
            + self.stopped_by_l0.us
            + self.stopped_by_memtables.us
    }

    /// Each kind with what happened and what helps.
    fn causes(&self) -> [(Waits, &'static str, &'static str); 7] {
        const COMPACTION: &str = "this load makes merges faster than the disk or the processors do \
                                  them; ingest sorted rows, or give memory for larger memtables";
        const FLUSH: &str = "flushes do not keep up: a faster disk, more memory, or an error in \
                             `last_background_error`";
        [
            (self.slowed_by_l0, "pauses for compaction", COMPACTION),
            (self.slowed_by_memtables, "pauses for flushes", FLUSH),
            (self.stopped_by_l0, "stops until files in L0 were merged", COMPACTION),
            (self.stopped_by_memtables, "stops until a memtable was written", FLUSH),
            (
                self.group_full,
                "waits for the log to take earlier commits",
                "the log writes at the disk's speed; commit less at a time",
            ),
            (
                self.log_segment,
                "waits for a new log segment",
                "`wal_segment_bytes` is small for these bursts",
            ),
            (
                self.partition,
                "waits for another commit of the same partition",
                "a partition takes one commit at a time; spread what is hot over several, or commit \
                 more at a time",
            ),
        ]
    }
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (Waits { times, us, longest_us }, what, help) in self.causes() {
            if times > 0 {
                let (sum_ms, longest_ms) = (us as f64 / 1e3, longest_us as f64 / 1e3);
                writeln!(
                    f,
                    "{times} {what}, {sum_ms:.1} ms together, {longest_ms:.1} ms the longest: {help}"
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_what_happened_and_nothing_else() {
        let counter = WaitCounter::default();
        counter.add(Duration::from_millis(2));
        counter.add(Duration::from_micros(500));
        let stalls = Stalls { stopped_by_memtables: counter.get(), ..Stalls::default() };
        let text = stalls.to_string();
        assert!(text.starts_with("2 stops until a memtable was written, 2.5 ms together, 2.0 ms"));
        assert_eq!((text.lines().count(), stalls.background_us()), (1, 2500));
        assert_eq!(Stalls::default().to_string(), "");
    }
}

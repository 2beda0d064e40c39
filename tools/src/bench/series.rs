//! What was recorded of a workload: latencies by kind of operation, and by second.

use crate::bench::workload::Act;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;
use tabulith_results::latency::histogram;

/// Intervals kept; where a run is longer, they become longer instead of more.
const INTERVALS_MAX: usize = 1_800;

/// What ended within one interval.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    /// Latencies of what succeeded, in nanoseconds.
    pub(crate) latency_ns: Histogram<u64>,
    /// Operations that failed or were refused.
    pub(crate) failed: u64,
}

impl Interval {
    pub(crate) fn new() -> Result<Interval> {
        Ok(Interval { latency_ns: histogram()?, failed: 0 })
    }

    /// Whether nothing ended in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.latency_ns.is_empty() && self.failed == 0
    }

    fn add(&mut self, other: &Interval) -> Result<()> {
        self.failed += other.failed;
        self.latency_ns.add(&other.latency_ns).context("adding histograms")
    }
}

/// Intervals of equal length from the start on.
#[derive(Debug)]
pub(crate) struct Series {
    /// How long each is.
    pub(crate) every: Duration,
    /// They, without gaps.
    pub(crate) intervals: Vec<Interval>,
}

impl Series {
    /// By the second.
    pub(crate) fn new() -> Series {
        Series { every: Duration::from_secs(1), intervals: Vec::new() }
    }

    /// Adds what ended about `at`.
    pub(crate) fn add(&mut self, at: Duration, what: &Interval) -> Result<()> {
        let mut place = self.place(at);
        while place >= INTERVALS_MAX {
            self.halve()?;
            place = self.place(at);
        }
        while self.intervals.len() <= place {
            self.intervals.push(Interval::new()?);
        }
        self.intervals[place].add(what)
    }

    fn place(&self, at: Duration) -> usize {
        (at.as_nanos() / self.every.as_nanos().max(1)) as usize
    }

    /// Makes one of every two.
    fn halve(&mut self) -> Result<()> {
        let mut halved = Vec::with_capacity(self.intervals.len().div_ceil(2));
        for pair in self.intervals.chunks(2) {
            let mut sum = pair[0].clone();
            if let Some(second) = pair.get(1) {
                sum.add(second)?;
            }
            halved.push(sum);
        }
        self.intervals = halved;
        self.every *= 2;
        Ok(())
    }
}

/// All that was recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// From the first operation to the end of the last.
    pub(crate) elapsed: Duration,
    /// Latencies by kind.
    pub(crate) by_act: BTreeMap<Act, Histogram<u64>>,
    /// By the second.
    pub(crate) series: Series,
    /// Operations that failed.
    pub(crate) failed: u64,
    /// Operations that the other side refused to do now.
    pub(crate) refused: u64,
    /// Operations that were due and not begun when the time was over.
    pub(crate) late: u64,
    /// What the first failure said.
    pub(crate) first_failure: Option<String>,
    /// Bytes of keys and values that were written.
    pub(crate) written: u64,
    /// Rows that were read.
    pub(crate) rows_read: u64,
}

impl Recorded {
    /// Nothing yet.
    pub(crate) fn new() -> Recorded {
        Recorded {
            elapsed: Duration::ZERO,
            by_act: BTreeMap::new(),
            series: Series::new(),
            failed: 0,
            refused: 0,
            late: 0,
            first_failure: None,
            written: 0,
            rows_read: 0,
        }
    }

    /// Latencies of all kinds.
    pub(crate) fn all(&self) -> Result<Histogram<u64>> {
        let mut all = histogram()?;
        for one in self.by_act.values() {
            all.add(one).context("adding histograms")?;
        }
        Ok(all)
    }

    /// Operations that succeeded.
    pub(crate) fn ops(&self) -> u64 {
        self.by_act.values().map(|one| one.len()).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_longer_intervals_and_loses_nothing() {
        let mut series = Series::new();
        let mut one = Interval::new().unwrap();
        one.latency_ns.record(1_000).unwrap();
        one.failed = 1;
        for second in 0..4_000 {
            series.add(Duration::from_secs(second), &one).unwrap();
        }
        assert_eq!(series.every, Duration::from_secs(4));
        assert_eq!(series.intervals.len(), 1_000);
        let sum: u64 = series.intervals.iter().map(|interval| interval.latency_ns.len()).sum();
        let failed: u64 = series.intervals.iter().map(|interval| interval.failed).sum();
        assert_eq!((sum, failed), (4_000, 4_000));
        assert!(!series.intervals[0].is_empty() && Interval::new().unwrap().is_empty());
    }
}

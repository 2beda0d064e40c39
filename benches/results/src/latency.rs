//! Latencies: recorded in histograms of nanoseconds, told in microseconds.

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency that is told apart, in nanoseconds: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds, to one percent.
pub fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(32, LATENCY_NS_MAX, 2).context("a histogram")
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Their sum by their number.
    pub mean: Option<f64>,
    /// The middle one.
    pub p50: Option<f64>,
    /// What nine of ten stay within.
    pub p90: Option<f64>,
    /// What 99 of 100 stay within.
    pub p99: Option<f64>,
    /// What 999 of 1,000 stay within.
    pub p99_9: Option<f64>,
    /// What 9,999 of 10,000 stay within.
    pub p99_99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Latency {
    /// Those of a histogram of nanoseconds.
    pub fn of(all: &Histogram<u64>) -> Latency {
        if all.is_empty() {
            return Latency::default();
        }
        let at = |quantile| Some(us(all.value_at_quantile(quantile)));
        Latency {
            mean: Some((all.mean() / 10.0).round() / 100.0),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: Some(us(all.max())),
        }
    }
}

/// Microseconds with two decimals.
fn us(ns: u64) -> f64 {
    (ns as f64 / 10.0).round() / 100.0
}

/// Points of a percentile curve: the percentile, and the microseconds that so many stay within.
pub fn curve(all: &Histogram<u64>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for step in all.iter_quantiles(4) {
        let point = (step.quantile_iterated_to() * 100.0, us(step.value_iterated_to()));
        match points.last_mut() {
            Some(last) if last.1 >= point.1 => last.0 = point.0,
            _ => points.push(point),
        }
    }
    points
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_and_ends_at_the_longest() {
        let mut all = histogram().unwrap();
        (1..=100_000_u64).for_each(|n| all.record(n * 1_000).unwrap());
        let curve = curve(&all);
        assert!(curve.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
        let last = curve.last().unwrap();
        assert!(last.0 > 99.99 && (last.1 - 100_000.0).abs() < 1_000.0, "{last:?}");
        let latency = Latency::of(&all);
        let Latency { mean, p50, p90, p99, p99_9, p99_99, max } = latency;
        let told = [mean, p50, p90, p99, p99_9, p99_99, max].map(Option::unwrap);
        let are = [50_000.0, 50_000.0, 90_000.0, 99_000.0, 99_900.0, 99_990.0, 100_000.0];
        for (told, is) in told.iter().zip(are) {
            assert!((told / is - 1.0).abs() < 0.01, "{is}: {latency:?}");
        }
        // One in a thousand is slow: that is what the last three are for.
        let mut all = histogram().unwrap();
        (0..9_989).for_each(|_| all.record(1_000).unwrap());
        (0..11).for_each(|_| all.record(5_000_000).unwrap());
        let Latency { p99, p99_9, p99_99, .. } = Latency::of(&all);
        let slow = [p99_9, p99_99].map(|us| us.unwrap() > 4_900.0);
        assert!(p99.unwrap() < 1.1 && slow == [true, true], "{p99:?} {p99_9:?} {p99_99:?}");
        assert_eq!(Latency::of(&histogram().unwrap()), Latency::default());
    }
}

//! What a benchmark leaves behind: result.jsonl, a line for each fact. docs/bench-format.md describes it.

use crate::bench::floor::Floor;
use crate::bench::machine::Machine;
use crate::bench::series::Interval;
use crate::bench::store::About;
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;

/// The head of a file: what was measured where, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Run {
    /// The version of the format.
    pub(crate) format: u32,
    /// The program that measured, with its version.
    pub(crate) program: String,
    /// The commit that it was built from.
    pub(crate) commit: Option<String>,
    /// Whether it was built with optimizations.
    pub(crate) optimized: bool,
    /// When it began, UTC.
    pub(crate) started: String,
    /// The words of the command line, without keys.
    pub(crate) command: String,
    /// What is measured.
    pub(crate) target: Option<About>,
    /// What a commit promises when it is acknowledged; of an endpoint, as the user states it.
    pub(crate) durability: String,
    /// Where random choices start from.
    pub(crate) seed: u64,
    /// The machine.
    pub(crate) machine: Machine,
    /// What a sync of the disk costs by itself.
    pub(crate) floor: Option<Floor>,
    /// Other versions, settings.
    pub(crate) facts: Vec<(String, String)>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Latency {
    pub(crate) mean: Option<f64>,
    pub(crate) p50: Option<f64>,
    pub(crate) p90: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) p99_9: Option<f64>,
    pub(crate) p99_99: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl Latency {
    /// Those of a histogram of nanoseconds.
    pub(crate) fn of(all: &Histogram<u64>) -> Latency {
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
pub(crate) fn curve(all: &Histogram<u64>) -> Vec<(f64, f64)> {
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

/// One kind of operation of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OfAct {
    pub(crate) act: String,
    pub(crate) ops: u64,
    pub(crate) latency_us: Latency,
}

/// One run of one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Workload {
    /// Its name.
    pub(crate) name: String,
    /// Which run of it, from 1.
    pub(crate) run: u32,
    /// What was measured: `folder`, `endpoint`, or an engine's name.
    pub(crate) target: String,
    /// What a commit promises when it is acknowledged.
    pub(crate) durability: String,
    /// Threads that call at once.
    pub(crate) threads: usize,
    /// Operations a second that were due; none: as fast as they go.
    pub(crate) rate: Option<f64>,
    /// Bytes of a value.
    pub(crate) value_bytes: usize,
    /// Rows in the beginning, or to be inserted.
    pub(crate) rows: u64,
    /// How rows were chosen.
    pub(crate) keys: String,
    /// Rows of a transaction.
    pub(crate) batch: usize,
    /// Seconds of warm-up before.
    pub(crate) warmup_s: f64,
    /// Operations that succeeded.
    pub(crate) ops: u64,
    /// How long they took in all.
    pub(crate) seconds: f64,
    /// Operations a second.
    pub(crate) per_second: f64,
    /// What `per_second` counts where it is not operations.
    pub(crate) unit: Option<String>,
    /// Whether a smaller figure is a better one.
    pub(crate) less_is_better: bool,
    /// Rows that were read a second, where an operation reads more than one.
    pub(crate) rows_per_second: Option<f64>,
    /// Operations that failed.
    pub(crate) failed: u64,
    /// Operations that were refused: 429, 503.
    pub(crate) refused: u64,
    /// Operations that were due and not begun at the end.
    pub(crate) late: u64,
    /// Latencies of all; at a rate, from the moment at which each was due.
    pub(crate) latency_us: Latency,
    /// By kind of operation.
    pub(crate) acts: Vec<OfAct>,
    /// The percentile curve of all.
    pub(crate) curve: Vec<(f64, f64)>,
    /// Bytes given to write(2) by byte of keys and values.
    pub(crate) write_amplification: Option<f64>,
    /// Bytes of files by byte of keys and values of live rows, after a flush.
    pub(crate) space_amplification: Option<f64>,
    /// Blocks read from files by operation that reads.
    pub(crate) read_amplification: Option<f64>,
    /// Most bytes of memory.
    pub(crate) memory_bytes: Option<u64>,
    /// Bytes on the disk in the end, log included.
    pub(crate) disk_bytes: Option<u64>,
    /// Microseconds of CPU time by operation, of this process.
    pub(crate) cpu_us: Option<f64>,
    /// Milliseconds that commits waited for background work.
    pub(crate) stall_ms: Option<f64>,
    /// What else there is to say.
    pub(crate) remark: Option<String>,
}

/// What ended within one interval of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Second {
    /// The workload.
    pub(crate) workload: String,
    /// Which run of it.
    pub(crate) run: u32,
    /// Seconds from the start to the interval's beginning.
    pub(crate) at_s: f64,
    /// Seconds of the interval.
    pub(crate) seconds: f64,
    /// Operations that succeeded.
    pub(crate) ops: u64,
    /// Operations that failed or were refused.
    pub(crate) failed: u64,
    pub(crate) latency_us: Latency,
    /// Milliseconds that commits waited for background work, over all threads.
    pub(crate) stall_ms: Option<f64>,
    /// Bytes given to write(2).
    pub(crate) written_bytes: Option<u64>,
    /// Bytes of memory in the end.
    pub(crate) memory_bytes: Option<u64>,
    /// Bytes on the disk in the end.
    pub(crate) disk_bytes: Option<u64>,
    /// Bytes that merges are behind.
    pub(crate) debt_bytes: Option<u64>,
}

impl Second {
    /// That of an interval.
    pub(crate) fn of(workload: &str, run: u32, at_s: f64, seconds: f64, what: &Interval) -> Second {
        Second {
            workload: workload.to_owned(),
            run,
            at_s,
            seconds,
            ops: what.latency_ns.len(),
            failed: what.failed,
            latency_us: Latency::of(&what.latency_ns),
            ..Second::default()
        }
    }
}

/// One step of the stress test of a partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Step {
    /// Operations a second that were due.
    pub(crate) offered: f64,
    /// Operations a second that succeeded.
    pub(crate) achieved: f64,
    /// Share of operations that failed, were refused, or never begun.
    pub(crate) lost: f64,
    pub(crate) latency_us: Latency,
}

/// What the stress test of a partition came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Knee {
    /// What one partition took, in entities a second.
    pub(crate) rate: f64,
    /// Whether a higher rate failed; else the highest that was tried held.
    pub(crate) found: bool,
    /// What happened beyond.
    pub(crate) why: String,
    /// What follows.
    pub(crate) advice: Vec<String>,
}

/// A line of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    Run(Box<Run>),
    Workload(Box<Workload>),
    Second(Box<Second>),
    Step(Step),
    Knee(Knee),
}

impl Line {
    /// As JSON, its kind first.
    pub(crate) fn text(&self) -> Result<String> {
        let (kind, rest) = match self {
            Line::Run(run) => ("run", serde_json::to_string(run)?),
            Line::Workload(workload) => ("workload", serde_json::to_string(workload)?),
            Line::Second(second) => ("second", serde_json::to_string(second)?),
            Line::Step(step) => ("step", serde_json::to_string(step)?),
            Line::Knee(knee) => ("knee", serde_json::to_string(knee)?),
        };
        Ok(format!("{{\"kind\":\"{kind}\",{}", rest.trim_start_matches('{')))
    }

    /// The line that a JSON object is; `None` for kinds of later versions.
    pub(crate) fn of(json: Json) -> Result<Option<Line>> {
        let kind = json.get("kind").and_then(Json::as_str).unwrap_or_default().to_owned();
        Ok(Some(match kind.as_str() {
            "run" => {
                let run: Run = serde_json::from_value(json)?;
                if run.format > FORMAT {
                    bail!("format {} is newer than this program, which knows {FORMAT}", run.format);
                }
                Line::Run(Box::new(run))
            }
            "workload" => Line::Workload(serde_json::from_value(json)?),
            "second" => Line::Second(serde_json::from_value(json)?),
            "step" => Line::Step(serde_json::from_value(json)?),
            "knee" => Line::Knee(serde_json::from_value(json)?),
            "" => bail!("a line without a kind"),
            _ => return Ok(None),
        }))
    }
}

/// All of one file, or of several one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Results {
    /// The heads.
    pub(crate) runs: Vec<Run>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) seconds: Vec<Second>,
    pub(crate) steps: Vec<Step>,
    pub(crate) knees: Vec<Knee>,
}

impl Results {
    /// Adds a line.
    pub(crate) fn push(&mut self, line: Line) {
        match line {
            Line::Run(run) => self.runs.push(*run),
            Line::Workload(workload) => self.workloads.push(*workload),
            Line::Second(second) => self.seconds.push(*second),
            Line::Step(step) => self.steps.push(step),
            Line::Knee(knee) => self.knees.push(knee),
        }
    }

    /// Adds the lines of a result.
    pub(crate) fn read(&mut self, text: &str) -> Result<()> {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let json = serde_json::from_str(line).with_context(|| format!("line {number}"))?;
            if let Some(line) = Line::of(json).with_context(|| format!("line {number}"))? {
                self.push(line);
            }
        }
        Ok(())
    }

    /// Whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.workloads.is_empty() && self.steps.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::bench::series::histogram;

    /// The golden file is read whole and says the same when it is written again.
    #[test]
    fn the_golden_file_is_read_and_written_as_it_is() {
        let golden = include_str!("../../tests/bench/result.jsonl");
        let mut results = Results::default();
        results.read(golden).unwrap();
        assert_eq!((results.runs.len(), results.workloads.len(), results.seconds.len()), (1, 2, 5));
        assert_eq!((results.steps.len(), results.knees.len()), (3, 1));
        let again: String = golden
            .lines()
            .map(|line| {
                let line = Line::of(serde_json::from_str(line).unwrap()).unwrap().unwrap();
                line.text().unwrap() + "\n"
            })
            .collect();
        assert_eq!(again, golden, "a change of the format needs docs/bench-format.md and a number");
    }

    #[test]
    fn lines_of_later_versions_are_passed_over_and_later_formats_refused() {
        let mut results = Results::default();
        results
            .read("{\"kind\":\"novelty\",\"x\":1}\n\n{\"kind\":\"step\",\"new\":true}\n")
            .unwrap();
        assert_eq!(results.steps, [Step::default()]);
        let later = results.read("{\"kind\":\"run\",\"format\":2}").unwrap_err();
        assert!(crate::exit::told(&later).contains("line 1: format 2 is newer"), "{later:#}");
        assert!(results.read("{\"x\":1}").is_err() && results.read("nonsense").is_err());
    }

    #[test]
    fn a_curve_rises_and_ends_at_the_longest() {
        let mut all = histogram().unwrap();
        (1..=100_000_u64).for_each(|n| all.record(n * 1_000).unwrap());
        let curve = curve(&all);
        assert!(curve.is_sorted_by(|a, b| a.0 <= b.0 && a.1 < b.1));
        let last = curve.last().unwrap();
        assert!(last.0 > 99.99 && (last.1 - 100_000.0).abs() < 1_000.0, "{last:?}");
        let latency = Latency::of(&all);
        assert!((latency.p99.unwrap() - 99_000.0).abs() < 1_000.0, "{latency:?}");
        assert_eq!(Latency::of(&histogram().unwrap()), Latency::default());
    }
}

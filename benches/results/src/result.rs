//! The lines of result.jsonl, one for each fact. docs/bench-format.md describes them.

use crate::floor::Floor;
use crate::latency::Latency;
use crate::machine::Machine;
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// The version of the format.
pub const FORMAT: u32 = 1;

/// What a benchmark is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// `folder` or `endpoint`.
    pub kind: String,
    /// The folder, or the address without its key.
    pub place: String,
    /// What is measured, with its version where that is known.
    pub engine: String,
}

/// The head of a file: what was measured where, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// The version of the format.
    pub format: u32,
    /// The program that measured, with its version.
    pub program: String,
    /// The commit that it was built from.
    pub commit: Option<String>,
    /// Whether it was built with optimizations.
    pub optimized: bool,
    /// When it began, UTC.
    pub started: String,
    /// The words of the command line, without keys.
    pub command: String,
    /// What is measured.
    pub target: Option<About>,
    /// What a commit promises when it is acknowledged; of an endpoint, as the user states it.
    pub durability: String,
    /// Where random choices start from.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// What a sync of the disk costs by itself.
    pub floor: Option<Floor>,
    /// Other versions, settings.
    pub facts: Vec<(String, String)>,
}

/// One kind of operation of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OfAct {
    /// The kind.
    pub act: String,
    /// How many succeeded.
    pub ops: u64,
    /// How long these took.
    pub latency_us: Latency,
}

/// One run of one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Which run of it, from 1.
    pub run: u32,
    /// What was measured: `folder`, `endpoint`, or an engine's name.
    pub target: String,
    /// Whether it is shown, but not held against others: what keeps nothing, a variant of another
    /// target.
    pub aside: bool,
    /// What a commit promises when it is acknowledged.
    pub durability: String,
    /// Threads that call at once.
    pub threads: usize,
    /// Operations a second that were due; none: as fast as they go.
    pub rate: Option<f64>,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Rows in the beginning, or to be inserted.
    pub rows: u64,
    /// How rows were chosen.
    pub keys: String,
    /// Rows of a transaction.
    pub batch: usize,
    /// Seconds of warm-up before.
    pub warmup_s: f64,
    /// Rows of a partition.
    pub partition_rows: Option<u64>,
    /// Rows of a scan.
    pub scan_rows: Option<u64>,
    /// MiB that an embedded database was told to make do with.
    pub memory_mib: Option<u64>,
    /// Operations that succeeded.
    pub ops: u64,
    /// How long they took in all.
    pub seconds: f64,
    /// Operations a second.
    pub per_second: f64,
    /// What `per_second` counts where it is not operations.
    pub unit: Option<String>,
    /// Whether a smaller figure is a better one.
    pub less_is_better: bool,
    /// Rows that were read a second, where an operation reads more than one.
    pub rows_per_second: Option<f64>,
    /// Operations that failed.
    pub failed: u64,
    /// Operations that were refused: 429, 503.
    pub refused: u64,
    /// Operations that were due and not begun at the end.
    pub late: u64,
    /// Latencies of all; at a rate, from the moment at which each was due.
    pub latency_us: Latency,
    /// By kind of operation.
    pub acts: Vec<OfAct>,
    /// The percentile curve of all.
    pub curve: Vec<(f64, f64)>,
    /// Bytes given to write(2) by byte of keys and values.
    pub write_amplification: Option<f64>,
    /// Bytes of pages made dirty by byte of keys and values, as the kernel charges them: for what
    /// writes through a map.
    pub dirty_amplification: Option<f64>,
    /// Bytes of files by byte of keys and values of live rows, after a flush.
    pub space_amplification: Option<f64>,
    /// Blocks read from files by operation that reads.
    pub read_amplification: Option<f64>,
    /// Most bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Bytes on the disk in the end, log included.
    pub disk_bytes: Option<u64>,
    /// Microseconds of CPU time by operation, of this process.
    pub cpu_us: Option<f64>,
    /// Cores that other processes kept busy meanwhile.
    pub others_cores: Option<f64>,
    /// Milliseconds that commits waited for background work.
    pub stall_ms: Option<f64>,
    /// What else there is to say.
    pub remark: Option<String>,
}

/// What ended within one interval of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// The workload.
    pub workload: String,
    /// Which run of it.
    pub run: u32,
    /// Seconds from the start to the interval's beginning.
    pub at_s: f64,
    /// Seconds of the interval.
    pub seconds: f64,
    /// Operations that succeeded.
    pub ops: u64,
    /// Operations that failed or were refused.
    pub failed: u64,
    /// Latencies of what succeeded.
    pub latency_us: Latency,
    /// Milliseconds that commits waited for background work, over all threads.
    pub stall_ms: Option<f64>,
    /// Bytes given to write(2).
    pub written_bytes: Option<u64>,
    /// Bytes of memory in the end.
    pub memory_bytes: Option<u64>,
    /// Bytes on the disk in the end.
    pub disk_bytes: Option<u64>,
    /// Bytes that merges are behind.
    pub debt_bytes: Option<u64>,
}

impl Second {
    /// That of the latencies of what succeeded meanwhile, in nanoseconds.
    pub fn of(latency_ns: &Histogram<u64>) -> Second {
        let (ops, latency_us) = (latency_ns.len(), Latency::of(latency_ns));
        Second { ops, latency_us, ..Second::default() }
    }
}

/// One step of the stress test of a partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// Operations a second that were due.
    pub offered: f64,
    /// Operations a second that succeeded.
    pub achieved: f64,
    /// Share of operations that failed, were refused, or never begun.
    pub lost: f64,
    /// Latencies of what succeeded, from the moment at which each was due.
    pub latency_us: Latency,
}

/// What the stress test of a partition came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Knee {
    /// What one partition took, in entities a second.
    pub rate: f64,
    /// Whether a higher rate failed; else the highest that was tried held.
    pub found: bool,
    /// What happened beyond.
    pub why: String,
    /// What follows.
    pub advice: Vec<String>,
}

/// Something that was to be measured, and why there is nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// The workload, or the part of it.
    pub workload: String,
    /// Which run of it.
    pub run: u32,
    /// What was measured.
    pub target: String,
    /// What happened.
    pub why: String,
}

/// A line of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The head of a file.
    Run(Box<Run>),
    /// One run of one workload.
    Workload(Box<Workload>),
    /// What ended within one interval.
    Second(Box<Second>),
    /// One step of the stress test of a partition.
    Step(Step),
    /// What that test came to.
    Knee(Knee),
    /// What could not be measured.
    Failure(Failure),
}

impl Line {
    /// As JSON, its kind first.
    pub fn text(&self) -> Result<String> {
        let (kind, rest) = match self {
            Line::Run(run) => ("run", serde_json::to_string(run)?),
            Line::Workload(workload) => ("workload", serde_json::to_string(workload)?),
            Line::Second(second) => ("second", serde_json::to_string(second)?),
            Line::Step(step) => ("step", serde_json::to_string(step)?),
            Line::Knee(knee) => ("knee", serde_json::to_string(knee)?),
            Line::Failure(failure) => ("failure", serde_json::to_string(failure)?),
        };
        Ok(format!("{{\"kind\":\"{kind}\",{}", rest.trim_start_matches('{')))
    }

    /// The line that a JSON object is; `None` for kinds of later versions.
    pub fn of(json: Json) -> Result<Option<Line>> {
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
            "failure" => Line::Failure(serde_json::from_value(json)?),
            "" => bail!("a line without a kind"),
            _ => return Ok(None),
        }))
    }
}

/// All of one file, or of several one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The heads.
    pub runs: Vec<Run>,
    /// Runs of workloads.
    pub workloads: Vec<Workload>,
    /// Their intervals.
    pub seconds: Vec<Second>,
    /// Steps of stress tests.
    pub steps: Vec<Step>,
    /// What stress tests came to.
    pub knees: Vec<Knee>,
    /// What could not be measured.
    pub failures: Vec<Failure>,
}

impl Results {
    /// Adds a line.
    pub fn push(&mut self, line: Line) {
        match line {
            Line::Run(run) => self.runs.push(*run),
            Line::Workload(workload) => self.workloads.push(*workload),
            Line::Second(second) => self.seconds.push(*second),
            Line::Step(step) => self.steps.push(step),
            Line::Knee(knee) => self.knees.push(knee),
            Line::Failure(failure) => self.failures.push(failure),
        }
    }

    /// Adds the lines of a result.
    pub fn read(&mut self, text: &str) -> Result<()> {
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let json = serde_json::from_str(line).with_context(|| format!("line {number}"))?;
            if let Some(line) = Line::of(json).with_context(|| format!("line {number}"))? {
                self.push(line);
            }
        }
        Ok(())
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.workloads.is_empty() && self.steps.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The golden file is read whole and says the same when it is written again.
    #[test]
    fn the_golden_file_is_read_and_written_as_it_is() {
        let golden = include_str!("../../../tools/tests/bench/result.jsonl");
        let mut results = Results::default();
        results.read(golden).unwrap();
        assert_eq!((results.runs.len(), results.workloads.len(), results.seconds.len()), (1, 2, 5));
        assert_eq!((results.steps.len(), results.knees.len(), results.failures.len()), (3, 1, 1));
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
        assert!(format!("{later:#}").contains("line 1: format 2 is newer"), "{later:#}");
        assert!(results.read("{\"x\":1}").is_err() && results.read("nonsense").is_err());
    }
}

//! Keeps results: on the terminal, and as files where `--out` asks for them.

#![allow(clippy::disallowed_methods, reason = "writes the user's result files")]

use crate::bench::html;
use crate::bench::markdown;
use crate::bench::series::Recorded;
use crate::bench::stage::empty_folder;
use crate::exit::{self, Exit};
use crate::print::{self, note};
use anyhow::{Context, Result};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tabulith_results::result::{Line, Results, Second, Workload};

/// Results as they come.
pub(crate) struct Keeper {
    out: Option<PathBuf>,
    results: Results,
    lines: String,
}

impl Keeper {
    /// Keeps files in a folder that is empty or absent.
    pub(crate) fn new(out: Option<&Path>) -> Result<Keeper> {
        if let Some(dir) = out {
            empty_folder(dir).context("--out")?;
        }
        Ok(Keeper {
            out: out.map(Path::to_owned),
            results: Results::default(),
            lines: String::new(),
        })
    }

    /// Keeps a line. What is there is written at once, so that an interrupted run leaves what it
    /// has.
    pub(crate) fn line(&mut self, line: Line) -> Result<()> {
        self.lines.push_str(&line.text()?);
        self.lines.push('\n');
        self.results.push(line);
        self.write("result.jsonl", self.lines.as_bytes())
    }

    /// Keeps what a workload came to.
    pub(crate) fn workload(
        &mut self,
        outcome: Workload,
        seconds: Vec<Second>,
        recorded: &Recorded,
    ) -> Result<()> {
        let rate = crate::bench::figures::short(outcome.per_second);
        note(&format!(
            "{}, run {}: {rate} a second, {}",
            outcome.name, outcome.run, outcome.durability
        ));
        if self.out.is_some() {
            let name = format!("{}-{}.hlog", outcome.name, outcome.run);
            self.write(&name, &hdr_log(recorded).context("the HDR log")?)?;
        }
        for second in seconds {
            let line = Line::Second(Box::new(second));
            self.lines.push_str(&line.text()?);
            self.lines.push('\n');
            self.results.push(line);
        }
        self.line(Line::Workload(Box::new(outcome)))
    }

    /// Writes the reports and prints the summary, which nobody may read to its end.
    pub(crate) fn finish(&self) -> Result<Exit> {
        let text = markdown::markdown(&self.results);
        if let Some(dir) = &self.out {
            self.write("report.md", text.as_bytes())?;
            self.write("report.html", html::page(&self.results).as_bytes())?;
            note(&format!("{} has result.jsonl, report.html and report.md", dir.display()));
        }
        exit::verdict(print::out().write_all(text.as_bytes()), Exit::Ok)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let Some(dir) = &self.out else { return Ok(()) };
        let path = dir.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
    }
}

/// The intervals of a run in the format of HdrHistogram's own tools, in nanoseconds.
fn hdr_log(recorded: &Recorded) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("latencies in nanoseconds").with_base_time(SystemTime::UNIX_EPOCH);
    builder.with_max_value_divisor(1e6);
    let mut log = builder.begin_log_with(&mut bytes, &mut serializer)?;
    let every = recorded.series.every;
    for (at, interval) in (0_u32..).zip(&recorded.series.intervals) {
        let start: Duration = every * at;
        log.write_histogram(&interval.latency_ns, start, every, None)
            .map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    drop(log);
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::bench::series::Interval;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn an_hdr_log_holds_every_interval() {
        let mut recorded = Recorded::new();
        for second in 0..3_u64 {
            let mut interval = Interval::new().unwrap();
            (0..=second).for_each(|n| interval.latency_ns.record(1_000 * (n + 1)).unwrap());
            recorded.series.add(Duration::from_secs(second), &interval).unwrap();
        }
        let log = hdr_log(&recorded).unwrap();
        let mut counts = Vec::new();
        for entry in IntervalLogIterator::new(&log) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let packed = base64::Engine::decode(
                    &base64::engine::general_purpose::STANDARD,
                    interval.encoded_histogram(),
                );
                let one: Histogram<u64> =
                    Deserializer::new().deserialize(&mut &packed.unwrap()[..]).unwrap();
                counts.push((interval.start_timestamp().as_secs(), one.len()));
            }
        }
        assert_eq!(counts, [(0, 1), (1, 2), (2, 3)]);
    }
}

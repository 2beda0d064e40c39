//! Lines as `tabulith bench` writes and shows them: one format for all, which docs/bench-format.md
//! describes.

use crate::parent::Outcome;
use crate::probe::{Kind, Line as Figure};
use crate::settings::{compression_of, describe, is_ceiling, is_variant, promise_of};
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tabulith_results::machine::{self, Machine};
use tabulith_results::result::{About, FORMAT, Failure, Line, Run, Workload};

/// A file of results that grows as they come, so that an interrupted run leaves what it has.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
}

impl Writer {
    /// Begins a file.
    pub fn new(path: &Path, head: Run) -> Result<Writer> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        let mut writer = Writer { file, path: path.to_owned() };
        writer.line(&Line::Run(Box::new(head)))?;
        Ok(writer)
    }

    /// Adds what one process said.
    pub fn write(&mut self, outcome: &Outcome) -> Result<()> {
        lines(outcome).iter().try_for_each(|line| self.line(line))
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        let text = line.text()? + "\n";
        self.file.write_all(text.as_bytes()).with_context(|| self.path.display().to_string())
    }
}

/// The head of a file about `engines`, whose data lies in `dir`: `run` with what is the same for
/// all.
pub fn head(engines: &[&str], dir: &Path, facts: &[(String, String)], run: Run) -> Run {
    let peers = |engine: &&str| !is_aside(engine) && !engine.starts_with("ours");
    let peers: Vec<&str> = engines.iter().copied().filter(peers).collect();
    let engine = match &peers[..] {
        [] => "tabulith".to_owned(),
        peers => format!("tabulith beside {}", peers.join(", ")),
    };
    let settings = engines.iter().map(|engine| {
        let (compression, promise) = (compression_of(engine), promise_of(engine));
        let text = format!(
            "compression: {compression}; unsynced commits: {promise}; {}",
            describe(engine)
        );
        ((*engine).to_owned(), text.replace('`', ""))
    });
    Run {
        format: FORMAT,
        program: concat!("peers ", env!("CARGO_PKG_VERSION")).to_owned(),
        commit: machine::commit(),
        optimized: !cfg!(debug_assertions),
        target: Some(About { kind: "folder".to_owned(), place: dir.display().to_string(), engine }),
        durability: "as each line says".to_owned(),
        machine: Machine::here(Some(dir)),
        facts: facts.iter().cloned().chain(settings).collect(),
        ..run
    }
}

/// What one process said.
pub fn lines(outcome: &Outcome) -> Vec<Line> {
    let run = u32::try_from(outcome.run).unwrap_or(u32::MAX);
    match &outcome.lines {
        Ok(lines) => {
            let one = |line| Line::Workload(Box::new(workload(&outcome.engine, run, line)));
            lines.iter().map(one).collect()
        }
        Err(why) => vec![Line::Failure(Failure {
            workload: outcome.cell.to_owned(),
            run,
            target: outcome.engine.clone(),
            why: why.clone(),
        })],
    }
}

/// Whether an engine is shown, but not held against others.
fn is_aside(engine: &str) -> bool {
    is_ceiling(engine) || is_variant(engine)
}

fn workload(engine: &str, run: u32, line: &Figure) -> Workload {
    Workload {
        name: line.name.clone(),
        run,
        target: engine.to_owned(),
        aside: is_aside(engine),
        // What each engine promises when it does not sync is not the same: the head says what.
        durability: match line.kind {
            Kind::Durable => "synced".to_owned(),
            Kind::Unsynced => "unsynced".to_owned(),
            Kind::Read | Kind::Machine => "–".to_owned(),
        },
        threads: line.threads,
        ops: line.ops,
        seconds: line.seconds,
        per_second: line.value,
        unit: Some(line.unit.clone()),
        less_is_better: line.less_is_better,
        latency_us: line.latency_us,
        curve: line.curve.clone(),
        write_amplification: line.written_per_byte,
        dirty_amplification: line.dirtied_per_byte,
        space_amplification: line.disk_per_byte,
        memory_bytes: Some(line.peak_bytes),
        cpu_us: Some(line.cpu_us).filter(|us| *us > 0.0),
        others_cores: Some(line.others_cores),
        remark: remark(line),
        ..Workload::default()
    }
}

/// What else there is to say, and what the latencies are of where they are not of calls.
fn remark(line: &Figure) -> Option<String> {
    let lap = line.lap.as_ref().map(|lap| format!("latencies are of {lap}"));
    let texts: Vec<String> = line.note.iter().cloned().chain(lap).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

//! Runs cells in processes of their own: all engines of a cell in turn, in another order in each
//! run, all cells of a run, run after run, so that a slow minute of the machine falls on all of
//! them. What one process leaves in the page cache is on the disk before the next one begins.

use crate::cells::list::Cell;
use crate::probe::Line;
use crate::settings::is_ceiling;
use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a whole run consists of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where databases are made.
    pub dir: PathBuf,
    /// The engines that were asked for; none: those that each cell is for.
    pub engines: Vec<String>,
    /// The known ones, in the order of the report.
    pub known: Vec<String>,
    /// How often each cell is measured.
    pub runs: usize,
    /// A process that takes longer is killed, and its cell counts as failed.
    pub patience: Duration,
    /// Arguments that every process gets.
    pub arguments: Vec<String>,
}

/// What one process said.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The cell's name.
    pub cell: &'static str,
    /// The engine.
    pub engine: String,
    /// Which run of the cell, from 1; 0 where a database is filled for it.
    pub run: usize,
    /// Its lines, or why there are none.
    pub lines: Result<Vec<Line>, String>,
    /// How long it took with all preparations.
    pub took: Duration,
}

/// The word by which a process knows that it is to measure one cell.
pub const MEASURE: &str = "measure";

/// The cell's name for filling the database that reads share.
pub const PREPARE: &str = "prepare";

/// Measures all cells. `progress` hears of every process that has ended.
pub fn run(
    plan: &Plan,
    cells: &[Cell],
    mut progress: impl FnMut(&Outcome) -> Result<()>,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    // Cells that read one prepared database stand together, so that only those of one size are
    // on the disk at a time.
    let mut rest = cells;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|cell| cell.prepared == first.prepared).count();
        let (group, later) = rest.split_at(same);
        rest = later;
        let prepared = plan.dir.join("prepared");
        if let Some(value_bytes) = first.prepared {
            for engine in plan.known.iter().filter(|engine| takes_part(plan, group, engine)) {
                let outcome = prepare(plan, engine, value_bytes, &prepared.join(engine));
                progress(&outcome)?;
            }
        }
        for run in 1..=plan.runs {
            let order = order(plan, group, run);
            for cell in group {
                let again = run > 1 && plan.engines.is_empty();
                for engine in order.iter().filter(|e| takes_part(plan, &[*cell], e)) {
                    if again && is_ceiling(engine) {
                        continue; // No peer: one run of each says what an ordered map costs.
                    }
                    let outcome = measure(plan, (cell, run), engine, &prepared.join(engine));
                    progress(&outcome)?;
                    outcomes.push(outcome);
                }
            }
        }
        remove(&prepared)?;
    }
    Ok(outcomes)
}

/// The engines in the order of a run. Each run begins further on in the list: what the engine
/// before has left to the disk falls on another one then.
fn order<'a>(plan: &'a Plan, cells: &[Cell], run: usize) -> Vec<&'a str> {
    let mut order: Vec<_> = plan.known.iter().map(String::as_str).collect();
    order.retain(|engine| takes_part(plan, cells, engine));
    let first = (run - 1) * order.len() / plan.runs;
    order.rotate_left(first);
    order
}

/// Whether an engine takes part in any of some cells.
pub fn takes_part(plan: &Plan, cells: &[Cell], engine: &str) -> bool {
    cells.iter().any(|cell| match plan.engines.is_empty() {
        true => cell.is_for(engine),
        false => cell.is_possible_for(engine) && plan.engines.iter().any(|asked| asked == engine),
    })
}

fn prepare(plan: &Plan, engine: &str, value_bytes: usize, prepared: &Path) -> Outcome {
    let start = Instant::now();
    let bytes = value_bytes.to_string();
    let lines = process(plan, PREPARE, engine, prepared, &["--value-bytes", &bytes]);
    let lines = lines.map_err(|error| format!("{error:#}"));
    Outcome { cell: PREPARE, engine: engine.to_owned(), run: 0, lines, took: start.elapsed() }
}

fn measure(plan: &Plan, (cell, run): (&Cell, usize), engine: &str, prepared: &Path) -> Outcome {
    let start = Instant::now();
    let lines = process(plan, cell.name, engine, prepared, &["--run", &run.to_string()]);
    let lines = lines.map_err(|error| format!("{error:#}"));
    Outcome { cell: cell.name, engine: engine.to_owned(), run, lines, took: start.elapsed() }
}

fn process(
    plan: &Plan,
    cell: &str,
    engine: &str,
    prepared: &Path,
    more: &[&str],
) -> Result<Vec<Line>> {
    let scratch = plan.dir.join("scratch");
    remove(&scratch)?;
    std::fs::create_dir_all(&scratch).with_context(|| format!("making {}", scratch.display()))?;
    rustix::fs::sync();
    let program = std::env::current_exe().context("finding this program")?;
    let child = Command::new(program)
        .arg(MEASURE)
        .args(["--cell", cell, "--engine", engine])
        .args([Path::new("--dir"), &scratch, Path::new("--prepared"), prepared])
        .args(more)
        .args(&plan.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting a process")?;
    let said = wait(child, plan.patience);
    remove(&scratch)?;
    serde_json::from_str(&said?).context("a process did not print its lines")
}

/// What `child` prints, unless it fails or takes too long.
fn wait(mut child: Child, patience: Duration) -> Result<String> {
    let mut output = child.stdout.take().context("a process without output")?;
    let pid = Pid::from_child(&child);
    let (ended, waits) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let late = waits.recv_timeout(patience).is_err();
        if late {
            let _ = kill_process(pid, Signal::KILL);
        }
        late
    });
    let mut said = String::new();
    let read = output.read_to_string(&mut said);
    // The process is not reaped before the watch has let go of its number.
    let _ = ended.send(());
    let late = watch.join().unwrap_or(false);
    let status = child.wait().context("waiting for a process")?;
    ensure!(!late, "ended after {} s", patience.as_secs());
    read.context("reading what a process says")?;
    ensure!(status.success(), "{status}");
    Ok(said)
}

/// Prints what a process has measured, for [`run`] in its parent.
pub fn say(lines: &[Line]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    Ok(writeln!(out, "{}", serde_json::to_string(lines)?)?)
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("removing {}", dir.display())),
    }
}

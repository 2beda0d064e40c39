//! `cargo run --release --manifest-path benches/peers/Cargo.toml`: measures Tabulith beside other
//! engines and prints one report in Markdown. README.md says how to read it.

#![allow(clippy::disallowed_methods, reason = "a program of measurements, as the library says")]

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::ids::CommitTs;
use tabulith::table::value::DateTime;
use tabulith::vfs::os::OsVfs;
use tabulith_benches::machine;
use tabulith_peers::cells::list::{self, Cell};
use tabulith_peers::parent::{self, Plan};
use tabulith_peers::report;
use tabulith_peers::results::{self, Writer};
use tabulith_peers::settings::{CACHE_BYTES, engines};
use tabulith_peers::work::Context;
use tabulith_results::floor;
use tabulith_results::result::Run;

/// Measures Tabulith beside other embedded engines, each measurement in a process of its own.
#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    whole: Whole,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What a whole run is asked for.
#[derive(Debug, Args)]
struct Whole {
    /// Prints the cells and the engines.
    #[arg(long)]
    list: bool,
    /// Cells to measure: a workload such as W6, or one cell such as W6-1k.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Bytes of the values of rows: 200, and 1 KiB in a few cells; or 1 KiB in all.
    #[arg(long, value_enum, default_value_t = RowSize::Small)]
    row_size: RowSize,
    /// Engines to measure, also where the cell is not for them by default.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// How often each cell is measured, in turns.
    #[arg(long, default_value = "3")]
    runs: NonZeroUsize,
    /// Folder on the disk to be measured; what is made there is removed again. By default `target`.
    #[arg(long)]
    work_dir: Option<PathBuf>,
    /// Where the report goes; by default the standard output.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Also write every figure to this file, as `tabulith bench` does; `tabulith bench report`
    /// shows it.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    size: Size,
}

/// Which rows a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RowSize {
    /// What goals are about: 200 bytes, and beside them some cells with 1 KiB.
    #[value(name = "200")]
    Small,
    /// The cells whose names end in `-1k`.
    #[value(name = "1k")]
    Medium,
}

/// How large and how long everything is.
#[derive(Clone, Debug, Args)]
struct Size {
    /// Factor on rows, caches and memtables.
    #[arg(long, default_value_t = 1.0, global = true, value_parser = size)]
    scale: f64,
    /// Length of a line that is measured for a time, in seconds.
    #[arg(long, default_value_t = 0.35, global = true, value_parser = size)]
    seconds: f64,
    /// After so many seconds a line that is measured by count ends where it is.
    #[arg(long, default_value_t = 1.8, global = true, value_parser = size)]
    longest: f64,
    /// Every engine's cache at scale 1, in MiB.
    #[arg(long, default_value_t = CACHE_BYTES >> 20, global = true)]
    cache_mib: usize,
    /// Where random choices start from.
    #[arg(long, default_value_t = 1, global = true)]
    seed: u64,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Measures one cell of one engine and prints its lines, for the program itself.
    #[command(hide = true, name = parent::MEASURE)]
    Measure(One),
}

#[derive(Debug, Args)]
struct One {
    #[arg(long)]
    cell: String,
    #[arg(long)]
    engine: String,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    prepared: PathBuf,
    #[arg(long, default_value_t = 0)]
    value_bytes: usize,
    #[arg(long, default_value_t = 1)]
    run: usize,
}

fn main() -> Result<()> {
    let Program { whole, part } = Program::parse();
    match part {
        Some(Part::Measure(one)) => measure(one, &whole.size),
        None if whole.list => print_list(),
        None => run(&whole),
    }
}

fn measure(one: One, size: &Size) -> Result<()> {
    let context = Context {
        engine: one.engine,
        dir: one.dir,
        prepared: one.prepared,
        scale: size.scale,
        span: Duration::from_secs_f64(size.seconds),
        longest: Duration::from_secs_f64(size.longest),
        cache_bytes: size.cache_mib << 20,
        seed: size.seed,
        run: one.run,
    };
    if one.cell == parent::PREPARE {
        list::prepare(&context, one.value_bytes)?;
        return parent::say(&[]);
    }
    let cell = list::cells().into_iter().find(|cell| cell.name == one.cell);
    let cell = cell.with_context(|| format!("there is no cell called {}", one.cell))?;
    parent::say(&(cell.run)(&context)?)
}

/// A factor or a time that something can be made of.
fn size(text: &str) -> Result<f64, String> {
    let size: f64 = text.parse().map_err(|error| format!("{error}"))?;
    let may_be = size.is_finite() && (0.0..=1e6).contains(&size);
    may_be.then_some(size).ok_or_else(|| "from 0 to 1,000,000".to_owned())
}

fn print_list() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for cell in list::cells() {
        let engines: Vec<_> = engines().into_iter().filter(|engine| cell.is_for(engine)).collect();
        let rare = match cell.by_default {
            true => "",
            false if cell.is_medium() => " (with --row-size 1k)",
            false => " (only when asked for)",
        };
        writeln!(out, "{:14} {}{rare}: {}", cell.name, cell.about, engines.join(", "))?;
    }
    Ok(())
}

fn run(whole: &Whole) -> Result<()> {
    for engine in &whole.engines {
        ensure!(engines().contains(&engine.as_str()), "there is no engine called {engine}");
    }
    let cells = chosen(&whole.only, whole.row_size)?;
    let dir = whole.work_dir.clone().unwrap_or_else(|| PathBuf::from("target"));
    std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    let temporary = tempfile::Builder::new().prefix("peers-").tempdir_in(&dir)?;
    let size = &whole.size;
    let plan = Plan {
        dir: temporary.path().to_owned(),
        engines: whole.engines.clone(),
        known: engines().into_iter().map(str::to_owned).collect(),
        runs: whole.runs.get(),
        // The longest cell, W2-paced, takes twice five minutes and settles.
        patience: Duration::from_secs_f64(120.0 + 900.0 * size.scale + 40.0 * size.seconds),
        arguments: arguments(size),
    };
    let facts = facts(whole);
    if let Some(path) = &whole.out {
        // Not after the half hour that it takes.
        File::create(path).with_context(|| path.display().to_string())?;
    }
    let mut results = match &whole.json {
        Some(path) => Some(Writer::new(path, head(whole, &dir, &plan, &cells, &facts)?)?),
        None => None,
    };
    let start = Instant::now();
    let outcomes = parent::run(&plan, &cells, |outcome| {
        let took = outcome.took.as_secs_f64();
        let so_far = start.elapsed().as_secs() / 60;
        let failed = outcome.lines.as_ref().err().map_or(String::new(), |e| format!(": {e}"));
        let (cell, engine, run) = (outcome.cell, &outcome.engine, outcome.run);
        let mut err = std::io::stderr();
        let _ = writeln!(err, "{so_far} min, run {run}: {cell} {engine} {took:.1} s{failed}");
        results.as_mut().map_or(Ok(()), |results| results.write(outcome))
    })?;
    let machine = machine::facts(&dir).into_iter();
    let mut facts: Vec<_> =
        machine.map(|(name, value)| (name.to_owned(), value)).chain(facts).collect();
    facts.push((
        "whole run".to_owned(),
        format!("{:.1} minutes", start.elapsed().as_secs_f64() / 60.0),
    ));
    let text = report::markdown(&outcomes, &plan.known, &facts);
    match &whole.out {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string())?,
        None => writeln!(std::io::stdout(), "{text}")?,
    }
    let failed = outcomes.iter().filter(|outcome| outcome.lines.is_err()).count();
    ensure!(failed == 0, "{failed} of {} measurements failed", outcomes.len());
    Ok(())
}

/// The cells with rows of that size that `only` names, or all.
fn chosen(only: &[String], row_size: RowSize) -> Result<Vec<Cell>> {
    let mut cells = list::cells();
    if row_size == RowSize::Medium {
        cells.retain(Cell::is_medium);
    }
    let known =
        |name: &String| cells.iter().any(|cell| cell.name == name || workload(cell) == name);
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        let size = if row_size == RowSize::Medium { " with rows of 1 KiB" } else { "" };
        bail!("there is no cell called {unknown}{size}; --list shows them");
    }
    let is_in_run = |cell: &Cell| cell.by_default || row_size == RowSize::Medium;
    let wanted = |cell: &Cell| match only.is_empty() {
        true => is_in_run(cell),
        false => {
            only.iter().any(|name| name == cell.name || (name == workload(cell) && is_in_run(cell)))
        }
    };
    Ok(cells.iter().filter(|cell| wanted(cell)).copied().collect())
}

/// `W6` of `W6-1k`. W4 is measured together with W3.
fn workload(cell: &Cell) -> &'static str {
    cell.name.split('-').next().unwrap_or(cell.name)
}

fn arguments(size: &Size) -> Vec<String> {
    let Size { scale, seconds, longest, cache_mib, seed } = size;
    [
        format!("--scale={scale}"),
        format!("--seconds={seconds}"),
        format!("--longest={longest}"),
        format!("--cache-mib={cache_mib}"),
        format!("--seed={seed}"),
    ]
    .into()
}

/// The head of the results.
fn head(
    whole: &Whole,
    dir: &Path,
    plan: &Plan,
    cells: &[Cell],
    facts: &[(String, String)],
) -> Result<Run> {
    let engines = plan.known.iter().filter(|engine| parent::takes_part(plan, cells, engine));
    let engines: Vec<&str> = engines.map(String::as_str).collect();
    let list = |name: &str, words: &[String]| match words {
        [] => String::new(),
        words => format!(" --{name} {}", words.join(",")),
    };
    let command = format!(
        "peers{}{}{} --runs {} {}",
        list("only", &whole.only),
        if whole.row_size == RowSize::Medium { " --row-size 1k" } else { "" },
        list("engines", &whole.engines),
        whole.runs,
        plan.arguments.join(" ")
    );
    let (clock, seed) = (SystemClock::new(), whole.size.seed);
    let floor = floor::measure(&OsVfs, &clock, dir)?;
    let started = DateTime::from(CommitTs(clock.wall_ticks())).to_string();
    Ok(results::head(
        &engines,
        dir,
        facts,
        Run { command, seed, floor: Some(floor), started, ..Run::default() },
    ))
}

fn facts(whole: &Whole) -> Vec<(String, String)> {
    let Size { scale, seconds, longest, cache_mib, seed } = &whole.size;
    let runs = whole.runs;
    let how = format!(
        "medians of {runs} runs, scale {scale}, lines of {seconds} s, counts for at most {longest} s, seed {seed}"
    );
    let same = format!(
        "cache {cache_mib} MiB, memtable 64 MiB, each times the scale; blocks 4 KiB, filters 10 bits per row in the deepest level (above it ours 14, fjall 19 in L0)"
    );
    let versions = include_str!("../../Cargo.lock");
    let version = |name: &str| {
        let package = format!("name = \"{name}\"\nversion = \"");
        let rest = versions.split_once(&package).map_or("", |(_, rest)| rest);
        format!("{name} {}", rest.split('"').next().unwrap_or_default())
    };
    let peers = [
        "rocksdb",
        "librocksdb-sys",
        "fjall",
        "surrealkv",
        "redb",
        "heed",
        "sled",
        "crossbeam-skiplist",
    ];
    vec![
        ("how".to_owned(), how),
        ("same for all that have it".to_owned(), same),
        ("versions".to_owned(), peers.map(version).join(", ")),
    ]
}

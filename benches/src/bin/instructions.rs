//! `cargo run --release -p tabulith-benches --bin instructions`: counts the instructions of hot
//! operations under valgrind and prints one Markdown table.
//!
//! Each operation runs in two processes, the second with twice the steps. What the second takes
//! more, divided by its further steps, is the cost of one: start, preparation and end fall out.
//! With `--rivals` it counts designs that lost beside those that the engine has.

#![allow(clippy::disallowed_methods, reason = "a program of measurements, as the library says")]

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tabulith_benches::counted::{self, OPERATIONS, Operation};
use tabulith_benches::rivals::counts as rivals;
use tabulith_benches::{fixture, machine};

/// Counts instructions per operation, which depend neither on the machine's speed nor on its load.
#[derive(Debug, Parser)]
struct Args {
    /// Count only operations whose names hold this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Count designs that lost beside those that the engine has.
    #[arg(long)]
    rivals: bool,
    #[command(subcommand)]
    run: Option<Run>,
}

#[derive(Debug, Subcommand)]
enum Run {
    /// Takes the steps of one operation, for the program itself.
    #[command(hide = true)]
    Run {
        /// Which one.
        name: String,
        /// Where the rows lie.
        dir: PathBuf,
        /// How many.
        steps: u64,
    },
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(Run::Run { name, dir, steps }) = &args.run {
        let mut all = OPERATIONS.iter().chain(&rivals::OPERATIONS);
        let operation = all.find(|operation| operation.name == name);
        return operation.with_context(|| format!("no operation {name}"))?.run(dir, *steps);
    }
    let mut out = std::io::stdout().lock();
    let Ok(version) = Command::new("valgrind").arg("--version").output() else {
        writeln!(out, "Nothing is counted: valgrind is not installed.")?;
        return Ok(());
    };
    let folder = fixture::folder()?;
    counted::make_rows(folder.path())?;
    for (name, value) in machine::facts(folder.path()) {
        if matches!(name, "commit" | "CPU") {
            writeln!(out, "- {name}: {value}")?;
        }
    }
    writeln!(out, "- {}", String::from_utf8_lossy(&version.stdout).trim())?;
    writeln!(out, "\n| operation | instructions | per |\n|---|--:|---|")?;
    let operations = if args.rivals { &rivals::OPERATIONS[..] } else { &OPERATIONS[..] };
    for operation in operations.iter().filter(|one| one.name.contains(&args.only)) {
        let count = per_unit(operation, folder.path())?;
        writeln!(out, "| {} | {count} | {} |", operation.name, operation.unit)?;
    }
    Ok(())
}

/// Instructions of one unit, to the nearest whole one.
fn per_unit(operation: &Operation, dir: &Path) -> Result<u64> {
    let once = count(operation, dir, operation.steps)?;
    let twice = count(operation, dir, 2 * operation.steps)?;
    let more = twice.checked_sub(once).context("more steps took fewer instructions")?;
    let units = operation.steps * operation.units;
    Ok((more + units / 2) / units)
}

/// Instructions of a whole process that takes so many steps.
fn count(operation: &Operation, dir: &Path, steps: u64) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["run", operation.name])
        .arg(dir)
        .arg(steps.to_string())
        .output()
        .context("valgrind")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} under valgrind: {told}", operation.name);
    let collected = told.lines().find_map(|line| line.split_once("Collected :"));
    let (_, number) = collected.with_context(|| format!("no count in: {told}"))?;
    number.trim().parse().context("a count of instructions")
}

//! `cargo run --release -p tabulith-benches --bin memory`: holds the memory of whole processes
//! against the one budget that their database was given, and prints one Markdown table.
//!
//! Each work runs in a process of its own. What it had before it opened the database is taken off;
//! what the allocator keeps and what the program itself needs is not.

#![allow(clippy::disallowed_methods, reason = "a program of measurements, as the library says")]

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tabulith_benches::budgeted::{WORKS, Work};
use tabulith_benches::{fixture, machine};

/// Bytes of rows for each byte of the budget: nothing fits.
const DATA_PER_BUDGET: usize = 3;

/// The goal: no more of the budget than this, in percent.
const PERCENT_MAX: f64 = 110.0;

/// Shows how much memory a database takes beside the budget that it was given.
#[derive(Debug, Parser)]
struct Args {
    /// Budgets in MiB.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 128, 256, 512])]
    budgets_mib: Vec<usize>,
    #[command(subcommand)]
    run: Option<Run>,
}

#[derive(Debug, Subcommand)]
enum Run {
    /// Does one work, for the program itself.
    #[command(hide = true)]
    Run {
        /// Which one.
        name: String,
        /// Where its database lies.
        dir: PathBuf,
        /// The budget.
        bytes: usize,
    },
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    if let Some(Run::Run { name, dir, bytes }) = &args.run {
        let work = WORKS.iter().find(|work| work.name == name);
        let work = work.with_context(|| format!("no work {name}"))?;
        let resident = work.run(dir, *bytes, DATA_PER_BUDGET * bytes)?;
        return Ok(writeln!(out, "{}", resident.peak - resident.before)?);
    }
    let folder = fixture::folder()?;
    for (name, value) in machine::facts(folder.path()) {
        if matches!(name, "commit" | "CPU" | "memory") {
            writeln!(out, "- {name}: {value}")?;
        }
    }
    writeln!(out, "\nPeak memory in percent of the budget.\n")?;
    write!(out, "| work |")?;
    args.budgets_mib.iter().try_for_each(|mib| write!(out, " {mib} MiB |"))?;
    writeln!(out, "\n|---|{}", "--:|".repeat(args.budgets_mib.len()))?;
    let mut missed = Vec::new();
    for work in WORKS {
        write!(out, "| {} |", work.name)?;
        for mib in &args.budgets_mib {
            let dir = folder.path().join(format!("{mib}"));
            let own = folder.path().join(format!("{mib}-{}", work.name));
            let begins = work.name == WORKS[0].name;
            let percent =
                percent(&work, if work.reads || begins { &dir } else { &own }, mib << 20)?;
            write!(out, " {percent:.0} |")?;
            out.flush()?;
            if percent > PERCENT_MAX {
                missed.push(format!("{} in {mib} MiB", work.name));
            }
        }
        writeln!(out)?;
    }
    match missed.as_slice() {
        [] => writeln!(out, "\nThe goal, at most {PERCENT_MAX} percent, is met.")?,
        missed => writeln!(
            out,
            "\nThe goal, at most {PERCENT_MAX} percent, is not met: {}.",
            missed.join(", ")
        )?,
    }
    Ok(())
}

/// The peak of a process that does `work`.
fn percent(work: &Work, dir: &Path, budget: usize) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?)
        .args(["run", work.name])
        .arg(dir)
        .arg(budget.to_string())
        .output()
        .context("starting a process")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {told}", work.name);
    let bytes: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().context("bytes")?;
    Ok(100.0 * bytes / budget as f64)
}

//! The chores of this repository:
//! `cargo dev check | tidy | map | bless | smoke | planted | loom | shuttle | miri | sanitize |
//! coverage | soak`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the repository, not a database"
)]

mod repo;
mod cfg;
mod source;
mod modules;
mod listing;
mod rows;
mod smoke;
mod tidy;
mod map;
mod bugs;
mod planted;
mod models;
mod miri;
mod sanitize;
mod coverage;
mod soak;

use anyhow::{Context, Result, bail};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo dev check   everything that CI runs (.ci/run)
cargo dev tidy    the rules of the house, with what to do about each breach
cargo dev map     who imports whom, in the order of the house; ^ marks an upward arrow
cargo dev bless   writes the file list of ARCHITECTURE.md anew from the files' first lines, and the
                  counts of docs/azure.md from the conformance list
cargo dev smoke   runs every example of README.md, docs/fault-lab.md and engine/examples
cargo dev planted plants bugs and sees that the tests find each: B01 B02 ..., or --rotate N of them
                  by the number of commits, or all
cargo dev loom    every order that threads may take in the pieces that they share: engine/src/models;
                  words name some of them
cargo dev shuttle orders drawn by chance, of the pieces and of the whole engine; the same
cargo dev miri    the tests of the modules with unsafe code, interpreted; words name some of them
cargo dev sanitize the engine's tests and the fuzz targets with AddressSanitizer
cargo dev coverage the branches of log, manifest, recovery and authentication that tests never took;
                  --quick by the tests that take seconds
cargo dev soak    the random tests with fresh seeds, for hours; alone it says how
";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let chore = std::env::args().nth(1).unwrap_or_default();
    match chore.as_str() {
        "check" => check()?,
        "tidy" => return tidy(),
        "map" => print!("{}", map::draw(&repo::Repo::read()?)),
        "smoke" => smoke::run()?,
        "planted" => planted::run(&std::env::args().skip(2).collect::<Vec<_>>())?,
        checker @ ("loom" | "shuttle") => {
            models::run(checker, &std::env::args().skip(2).collect::<Vec<_>>())?;
        }
        "miri" => miri::run(&std::env::args().skip(2).collect::<Vec<_>>())?,
        "sanitize" => sanitize::run()?,
        "coverage" => coverage::run(&std::env::args().skip(2).collect::<Vec<_>>())?,
        "soak" => return soak::command::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "bless" => {
            listing::bless(&repo::Repo::read()?)?;
            rows::bless(&repo::Repo::read()?)?;
        }
        "" | "help" | "-h" | "--help" => print!("{USAGE}"),
        other => bail!("no chore is called {other}\n\n{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn check() -> Result<()> {
    let root = repo::root()?;
    let status = Command::new(root.join(".ci/run")).current_dir(&root).status();
    if !status.context("cannot start .ci/run")?.success() {
        bail!("the check failed");
    }
    Ok(())
}

fn tidy() -> Result<ExitCode> {
    let report = tidy::check(&repo::Repo::read()?)?;
    for line in &report.warnings {
        println!("warning: {line}");
    }
    for line in &report.breaches {
        println!("breach: {line}");
    }
    println!("tidy: {} breaches, {} warnings", report.breaches.len(), report.warnings.len());
    Ok(if report.breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

//! `tabulith salvage`: what is readable of a damaged data folder, in a new one, and a list of what
//! is not.

use crate::apart;
use crate::args::folder::SalvageArgs;
use crate::exit::{self, Exit};
use crate::import::report::grouped;
use crate::open_files;
use crate::print::{self, note};
use anyhow::{Context, Result};
use std::io::{self, Write};
use tabulith::salvage::rebuild;
use tabulith::salvage::report::Report;
use tabulith::table::value::DateTime;

/// Salvages the folder. The list of what is lost is the data of this command, on stdout.
pub(crate) fn run(args: &SalvageArgs) -> Result<Exit> {
    let (dir, target) = (args.data_dir.display(), args.new_dir.display());
    apart::check(&args.data_dir, &args.new_dir)?;
    open_files::raised(); // It reads all table files at a time.
    let report = rebuild::salvage(&args.data_dir, &args.new_dir)
        .with_context(|| format!("salvaging {dir}"))?;
    let told = tell(&report, print::out());
    if report.is_whole() {
        note(&format!("{target} holds all of {dir}"));
        return exit::verdict(told, Exit::Ok);
    }
    note(&format!("{target} holds what could be read of {dir}; what is lost is listed"));
    exit::verdict(told, Exit::Corrupt)
}

fn tell(report: &Report, mut out: impl Write) -> io::Result<()> {
    for loss in &report.losses {
        writeln!(out, "lost: {loss}")?;
    }
    for unknown in &report.unknown {
        writeln!(out, "unknown: {unknown}")?;
    }
    for repaired in &report.repaired {
        writeln!(out, "made up for: {repaired}")?;
    }
    writeln!(
        out,
        "kept:   {} versions of rows from {} files and {} commits of the log",
        grouped(report.versions),
        grouped(report.files),
        grouped(report.log_commits)
    )?;
    if let Some(end) = report.log_end {
        writeln!(out, "log:    ends with commit {end}, {}", DateTime::from(end))?;
    }
    writeln!(
        out,
        "newest: commit or close {}, {}",
        report.last_ts,
        DateTime::from(report.last_ts)
    )?;
    out.flush()
}

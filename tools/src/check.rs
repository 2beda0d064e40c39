//! `tabulith check`: every byte of a data folder read and cross-checked, damage named by file and
//! offset.

use crate::args::folder::CheckArgs;
use crate::exit::{self, Exit};
use crate::import::report::grouped;
use crate::print::{self, note};
use anyhow::{Context, Result};
use std::io::{self, Write};
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::table::value::DateTime;
use tabulith::verify::{self, Report};

/// Checks the folder. The findings are the data of this command, on stdout.
pub(crate) fn run(args: &CheckArgs) -> Result<Exit> {
    let clock = SystemClock::new();
    let dir = args.data_dir.display();
    let report = verify::check(&args.data_dir).with_context(|| format!("checking {dir}"))?;
    let told = tell(&report, print::out());
    let seconds = clock.steady().as_secs_f64();
    if report.is_clean() {
        note(&format!("{dir} is clean ({seconds:.2} s)"));
        return exit::verdict(told, Exit::Ok);
    }
    if report.damage.is_empty() {
        let unread = report.unread.len();
        note(&format!("{dir}: this build cannot read {unread} files of it ({seconds:.2} s)"));
        return exit::verdict(told, Exit::Failure);
    }
    note(&format!("{dir} is damaged in {} places ({seconds:.2} s)", report.damage.len()));
    exit::verdict(told, Exit::Corrupt)
}

fn tell(report: &Report, mut out: impl Write) -> io::Result<()> {
    for damage in &report.damage {
        writeln!(out, "damaged: {damage}")?;
    }
    for unread in &report.unread {
        writeln!(out, "unread: {unread}")?;
    }
    for oddity in &report.notes {
        writeln!(out, "note: {oddity}")?;
    }
    writeln!(
        out,
        "files:  {} tables of {} bytes, {} versions of rows",
        grouped(report.files),
        grouped(report.file_bytes),
        grouped(report.versions)
    )?;
    writeln!(
        out,
        "log:    {} commits in {} groups, {} bytes cut short by a crash",
        grouped(report.log_commits),
        grouped(report.log_groups),
        grouped(report.tail_discarded_bytes)
    )?;
    writeln!(out, "newest: {}", DateTime::from(report.last_ts))?;
    out.flush()
}

//! Result files, and `tabulith bench report`, which makes their page again.

#![allow(clippy::disallowed_methods, reason = "reads the user's result files and writes the page")]

use crate::args::bench::ReportArgs;
use crate::bench::html;
use crate::bench::markdown;
use crate::bench::peers;
use crate::exit::{Exit, Failure};
use crate::print::{self, note};
use anyhow::{Context, Result};
use serde_json::Value as Json;
use std::io::Write;
use std::path::Path;
use tabulith_results::result::Results;

/// Adds a file, ours or that of the peers.
pub(crate) fn read(path: &Path, results: &mut Results) -> Result<()> {
    let named = || format!("reading {}", path.display());
    let text = std::fs::read_to_string(path).with_context(named)?;
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let is_peers = serde_json::from_str::<Json>(first).is_ok_and(|json| peers::is_one(&json));
    let read = match is_peers {
        true => peers::read(&text, results),
        false => results.read(&text),
    };
    read.map_err(|error| {
        Failure::usage(format!("{}: {}", path.display(), crate::exit::told(&error))).into()
    })
}

/// Makes the report.
pub(crate) fn report(args: &ReportArgs) -> Result<Exit> {
    let mut results = Results::default();
    args.files.iter().try_for_each(|path| read(path, &mut results))?;
    if results.is_empty() {
        return Err(Failure::usage("these files have no results").into());
    }
    if args.markdown {
        print::out().write_all(markdown::markdown(&results).as_bytes())?;
        return Ok(Exit::Ok);
    }
    let first = args.files.first().map_or(Path::new("."), |path| path.as_path());
    let out = args.out.clone().unwrap_or_else(|| first.with_file_name("report.html"));
    std::fs::write(&out, html::page(&results))
        .with_context(|| format!("writing {}", out.display()))?;
    note(&format!("{} shows {} workloads", out.display(), results.workloads.len()));
    Ok(Exit::Ok)
}

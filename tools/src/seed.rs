//! Tables that a server is to have from the start: the files of a folder, loaded before it serves.
//!
//! Promise: rows are inserted or replaced, so that the same folder changes nothing the second time.

#![allow(clippy::disallowed_methods, reason = "the files are the user's")]

use crate::args::command::{Cli, Command};
use crate::exit::{Exit, Failure};
use crate::import::run::run;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tabulith::table::name::TableName;

/// More is no folder of seeds.
const FILES_MAX: usize = 1_000;

/// Loads `dir` into the data folder, for `account`. Fails at the first file that does not load whole.
pub(crate) fn load(dir: &Path, data: &Path, account: &str) -> Result<()> {
    let named = || format!("--seed {}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(named)? {
        let path = entry.with_context(named)?.path();
        if let Some(table) = table(&path)? {
            files.push((path, table));
        }
        if files.len() > FILES_MAX {
            return Err(Failure::usage(format!("{}: more than {FILES_MAX} files", named())).into());
        }
    }
    files.sort();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    for (path, table) in files {
        let words =
            ["tabulith", "import", "--restart", "--account-name", account, "--table", &table];
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        words.extend(["--data-dir".into(), data.into(), "--".into(), path.clone().into()]);
        let Command::Import(args) = Cli::parsed(&words)?.command else { continue };
        let exit = runtime.block_on(run(args));
        let exit = exit.with_context(|| format!("{}: {}", named(), path.display()))?;
        if exit != Exit::Ok {
            let what = format!("{}: {} did not load whole", named(), path.display());
            return Err(Failure::new(exit, what).into());
        }
    }
    Ok(())
}

/// The table that a file is for; none where it is no file of rows.
fn table(path: &Path) -> Result<Option<String>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = plain.strip_suffix(".jsonl").or_else(|| plain.strip_suffix(".csv"));
    let Some(stem) = stem.filter(|stem| !stem.starts_with('.')) else { return Ok(None) };
    TableName::parse(stem).map_err(|error| {
        Failure::usage(format!(
            "--seed: {} names no table: {error}",
            PathBuf::from(&name).display()
        ))
    })?;
    Ok(Some(stem.to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn files_name_their_tables() {
        let of = |name: &str| table(Path::new(name)).unwrap();
        assert_eq!(of("a/flights.csv").as_deref(), Some("flights"));
        assert_eq!(of("flights.jsonl.gz").as_deref(), Some("flights"));
        assert_eq!((of("README.md"), of(".hidden.csv"), of("csv")), (None, None, None));
        assert!(table(Path::new("1.csv")).is_err() && table(Path::new("a b.csv")).is_err());
    }
}

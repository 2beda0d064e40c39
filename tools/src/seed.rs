//! Tables that a server is to have from the start: the files of a folder, loaded before it serves.
//!
//! Promise: a table that is there is left as it is, so that the same folder changes nothing the
//! second time. A setting of the account marks a table from before it is made until its files are
//! loaded whole: of one that is marked they are loaded again.

#![allow(clippy::disallowed_methods, reason = "the files are the user's")]

use crate::args::command::{Cli, Command};
use crate::exit::{Exit, Failure};
use crate::folder::{Access, Folder};
use crate::import::run::{For, run};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tabulith::table::name::TableName;

/// More is no folder of seeds.
const FILES_MAX: usize = 1_000;

/// The files of each table, by its name without case.
type Seeds = BTreeMap<String, Vec<(PathBuf, String)>>;

/// Loads `dir` into the data folder, for `account`. Fails at the first file that does not load
/// whole. `is_silent`: nothing but errors is told.
pub(crate) fn load(dir: &Path, data: &Path, account: &str, is_silent: bool) -> Result<()> {
    let seeds = seeds(dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("starting the runtime")?;
    runtime.block_on(async {
        let folder = Folder::open(data, account, Access::Write)?;
        let there = folder.tables().await?;
        let there: HashSet<String> = there.iter().map(|name| name.to_ascii_lowercase()).collect();
        let mut wanted = Seeds::new();
        for (table, files) in seeds {
            if !there.contains(&table) || folder.has_setting(&mark(&table)).await? {
                wanted.insert(table, files);
            }
        }
        folder.close()?;
        for (table, files) in wanted {
            set_mark(data, account, &table, true).await?;
            for (path, table) in files {
                load_file(&path, &table, (data, account), is_silent).await?;
            }
            set_mark(data, account, &table, false).await?;
        }
        Ok(())
    })
}

/// What there is to load.
fn seeds(dir: &Path) -> Result<Seeds> {
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
    let mut seeds = Seeds::new();
    for (path, table) in files {
        seeds.entry(table.to_ascii_lowercase()).or_default().push((path, table));
    }
    Ok(seeds)
}

async fn load_file(
    path: &Path,
    table: &str,
    (data, account): (&Path, &str),
    is_silent: bool,
) -> Result<()> {
    let words = ["tabulith", "import", "--restart", "--account-name", account, "--table", table];
    let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
    words.extend(["--data-dir".into(), data.into(), "--".into(), path.into()]);
    let Command::Import(args) = Cli::parsed(&words)?.command else { return Ok(()) };
    let exit = run(args, For::Server { is_silent }).await;
    let exit = exit.with_context(|| format!("--seed: {}", path.display()))?;
    if exit != Exit::Ok {
        let what = format!("--seed: {} did not load whole", path.display());
        return Err(Failure::new(exit, what).into());
    }
    Ok(())
}

/// The setting that marks a table.
fn mark(table: &str) -> String {
    format!("seed-begun:{table}")
}

async fn set_mark(data: &Path, account: &str, table: &str, is_marked: bool) -> Result<()> {
    let folder = Folder::open(data, account, Access::Write)?;
    let marked = folder.set_setting(&mark(table), is_marked).await;
    let closed = folder.close();
    marked.and(closed)
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

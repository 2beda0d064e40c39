//! What a salvage kept, what is lost, and what nobody can know.

use crate::error::Error;
use crate::ids::{CommitTs, TableId};
use crate::key::order;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The outcome of a salvage.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Report {
    /// Table files that were read, whole or in part.
    pub files: u64,
    /// Versions of rows in the new folder, deletes included.
    pub versions: u64,
    /// Commits that came from the log.
    pub log_commits: u64,
    /// The newest commit found anywhere, or the moment of a close after it.
    pub last_ts: CommitTs,
    /// Everything that is known to be lost.
    pub losses: Vec<Loss>,
    /// What was found damaged and cost nothing, as another copy or another place made up for it.
    pub repaired: Vec<Error>,
    /// What cannot be known, in words.
    pub unknown: Vec<String>,
    /// The last commit before the log's end, or a close after it, where there is a log. Damage can
    /// move the end without a trace: later commits, if there were any, are lost.
    pub log_end: Option<CommitTs>,
}

impl Report {
    /// Whether all is there.
    pub fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.unknown.is_empty()
    }

    /// Whether a version of this row by the commit `ts` may be among what is lost.
    pub fn covers(&self, table: TableId, pk: &[u8], rk: &[u8], ts: CommitTs) -> bool {
        let key = order::row_key(table, pk, rk);
        self.losses.iter().any(|loss| loss.covers(&key, ts))
            || self.log_end.is_some_and(|end| ts > end)
    }
}

/// What kind of thing is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A table file as a whole.
    TableFile,
    /// A part of a table file.
    Rows,
    /// The value of one version of a row. Of more than a thousand the rest is one loss for each
    /// file.
    Value,
    /// Commits of the log.
    Commits,
}

/// Something that is lost, and which rows it may concern.
#[derive(Debug)]
pub struct Loss {
    /// What kind of thing.
    pub what: What,
    /// The file that it was in.
    pub file: PathBuf,
    /// Where in the file.
    pub offset: Option<u64>,
    /// How it was found out.
    pub why: String,
    /// How many versions of rows, where that is known.
    pub versions: Option<u64>,
    /// The keys: from and to, both included; no bound where it is not known.
    pub(crate) keys: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// The commits: those after the first and before the second.
    pub(crate) commits: (CommitTs, CommitTs),
}

impl Loss {
    pub(crate) fn new(what: What, file: PathBuf, why: &Error) -> Loss {
        Loss {
            what,
            offset: why.place().filter(|(place, _)| *place == file).and_then(|(_, offset)| offset),
            file,
            why: why.to_string(),
            versions: None,
            keys: (None, None),
            commits: (CommitTs::ZERO, CommitTs::MAX),
        }
    }

    /// Whether a version of `key` by the commit `ts` may be part of this.
    fn covers(&self, key: &[u8], ts: CommitTs) -> bool {
        let (from, to) = &self.keys;
        let (after, before) = self.commits;
        from.as_deref().is_none_or(|from| from <= key)
            && to.as_deref().is_none_or(|to| key <= to)
            && (after < ts || after == CommitTs::ZERO)
            && (ts < before || before == CommitTs::MAX)
    }
}

/// Lost values that the list has one by one.
const VALUES_LISTED_MAX: usize = 1000;

/// Values that are lost, on the list: many are one entry for each file, so that it does not grow
/// with the database.
#[derive(Default)]
pub(crate) struct LostValues {
    listed: usize,
    /// Where on the list the entry of a file is that stands for many.
    many: BTreeMap<PathBuf, usize>,
}

impl LostValues {
    /// Adds the value that `key` had by the commit `ts`; keys ascend.
    pub(crate) fn add(
        &mut self,
        losses: &mut Vec<Loss>,
        (file, why): (PathBuf, &Error),
        (key, ts): (Vec<u8>, CommitTs),
    ) {
        let commits = (CommitTs(ts.0.saturating_sub(1)), CommitTs(ts.0.saturating_add(1)));
        if let Some(many) = self.many.get(&file).and_then(|at| losses.get_mut(*at)) {
            many.offset = None;
            many.versions = many.versions.map(|versions| versions + 1);
            many.keys.1 = Some(key);
            many.commits = (many.commits.0.min(commits.0), many.commits.1.max(commits.1));
            return;
        }
        if self.listed == VALUES_LISTED_MAX {
            self.many.insert(file.clone(), losses.len());
        } else {
            self.listed += 1;
        }
        let keys = (Some(key.clone()), Some(key));
        losses.push(Loss { versions: Some(1), keys, commits, ..Loss::new(What::Value, file, why) });
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        match self.what {
            What::TableFile => write!(f, "{name} as a whole")?,
            What::Rows => write!(f, "rows of {name}")?,
            What::Value if self.versions > Some(1) => write!(f, "values in {name}")?,
            What::Value => write!(f, "a value in {name}")?,
            What::Commits => write!(f, "commits in {name}")?,
        }
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        if let Some(versions) = self.versions {
            write!(f, ", {versions} versions of rows")?;
        }
        match (self.what, &self.keys) {
            (What::Commits, _) => {}
            (What::Value, (Some(key), last)) if last.as_ref() == Some(key) => {
                write!(f, ", of {}", Shown(key))?;
            }
            (_, (from, to)) => {
                write!(f, ", keys from ")?;
                show(f, from.as_deref(), "the first")?;
                write!(f, " to ")?;
                show(f, to.as_deref(), "the last")?;
            }
        }
        match (self.what, self.commits) {
            (What::Commits, (after, CommitTs::MAX)) => write!(f, ", after commit {after}")?,
            (What::Commits, (after, before)) => {
                write!(f, ", after commit {after} and before {before}")?;
            }
            (_, (CommitTs::ZERO, CommitTs::MAX)) => {}
            (_, (after, before)) => {
                write!(f, ", of commits {} to {}", after.0 + 1, before.0.saturating_sub(1))?;
            }
        }
        write!(f, ": {}", self.why)
    }
}

fn show(f: &mut fmt::Formatter<'_>, key: Option<&[u8]>, none: &str) -> fmt::Result {
    match key {
        Some(key) => write!(f, "{}", Shown(key)),
        None => f.write_str(none),
    }
}

/// A key, or a bound that stands between keys, for people.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match order::split(self.0) {
            Some((table, pk, rk)) => {
                write!(f, "table {} '{}' '{}'", table.0, pk.escape_ascii(), rk.escape_ascii())
            }
            None => {
                let table = order::table_of(self.0).unwrap_or_default();
                let rest = self.0.get(order::TABLE_LEN..).unwrap_or_default();
                write!(f, "table {} '{}'", table.0, rest.escape_ascii())
            }
        }
    }
}

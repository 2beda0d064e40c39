//! Holds what a folder has against the ledger.

use crate::torture::ledger::{Ledger, OfTable};
use crate::torture::writer::parts;
use anyhow::{Context, Result};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use tabulith::{Db, Table};
use tabulith_testkit::commits::{Commit, Found, Verdict, writer_of};

/// How a folder is opened to look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// As a reader beside: what is durable is read from log and files, nothing is changed.
    Beside,
    /// As the next owner: what was left is recovered first.
    Recovered,
}

/// Opens a folder that was left by a killed process.
pub(crate) fn open(data: &Path, look: Look) -> Result<Db> {
    let builder = match look {
        Look::Beside => Db::builder().read_only(),
        Look::Recovered => Db::builder().must_exist(),
    };
    builder.open(data).with_context(|| format!("opening {} after a kill", data.display()))
}

/// All rows of a table, and what of them nobody can have written.
fn read(table: &Table) -> Result<(Found, Vec<String>)> {
    let (mut found, mut strange) = (Found::default(), Vec::new());
    for row in table.scan::<&[u8], &[u8]>(..)? {
        let row = row?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (partition, key) = (text(&row.partition_key), text(&row.row_key));
        match (writer_of(&partition), parts(&row.value)) {
            (Some(writer), Some((rows, text))) => found.add(writer, key, rows, text),
            _ => strange.push(format!("the row '{partition}', '{key}' is nobody's")),
        }
    }
    Ok((found, strange))
}

/// Verifies one table. `under_way`: commits that were begun and not acknowledged.
pub(crate) fn verify(db: &Db, name: &str, of: &OfTable, under_way: &[Commit]) -> Result<Verdict> {
    let table = db.table(name).with_context(|| format!("the table {name}"));
    let table = match table {
        Ok(table) => table,
        // A folder that was opened to be read makes no table: the kill came before it was made.
        Err(_) if of.commits.is_empty() => return Ok(Verdict::default()),
        Err(error) => return Err(error),
    };
    let (found, strange) = read(&table)?;
    let mut verdict = found.verify(&of.commits, under_way);
    verdict.wrong.extend(strange);
    verdict.wrong.iter_mut().for_each(|line| *line = format!("{name}: {line}"));
    Ok(verdict)
}

/// What all tables came to.
#[derive(Debug, Default)]
pub(crate) struct All {
    /// Commits that are there.
    pub(crate) found: u64,
    /// Commits of the ledger that are not and need not be, where that is possible.
    pub(crate) gone: Option<u64>,
    /// What must not be, a line each.
    pub(crate) lost: Vec<String>,
}

/// Verifies all tables against a ledger. `after_power`: it may have been cut short with the power.
/// Then it may know less than was acknowledged: what the last table has beyond it is fine if it is
/// whole; and commits that do not outlive the power may be gone, the last ones of each writer.
pub(crate) fn verify_all(db: &Db, ledger: &Ledger, after_power: bool) -> Result<All> {
    let is_lenient = after_power && !ledger.outlives_power();
    let mut all = All { gone: is_lenient.then_some(0), ..All::default() };
    let last = ledger.tables.keys().next_back();
    for (name, of) in &ledger.tables {
        let more = if after_power && Some(name) == last {
            beyond(db, name, ledger, of)?
        } else {
            Vec::new()
        };
        let verdict = match &mut all.gone {
            None => verify(db, name, of, &more)?,
            Some(gone) => {
                let any: Vec<Commit> = of.commits.iter().chain(&more).copied().collect();
                let mut verdict = verify(db, name, &OfTable::default(), &any)?;
                let (missing, gaps) = missing(&verdict.there, &any);
                *gone += missing;
                verdict.wrong.extend(gaps.into_iter().map(|gap| format!("{name}: {gap}")));
                verdict
            }
        };
        all.found += verdict.there.len() as u64;
        all.lost.extend(verdict.wrong);
    }
    Ok(all)
}

/// How many commits are missing at the ends of their writers, and which before others that are
/// there: a log is kept up to some place.
fn missing(there: &[Commit], any: &[Commit]) -> (u64, Vec<String>) {
    let mut last: HashMap<usize, u64> = HashMap::new();
    for commit in there {
        let last = last.entry(commit.writer).or_default();
        *last = commit.number.max(*last);
    }
    let found: HashSet<&Commit> = there.iter().collect();
    let (mut at_end, mut gaps) = (0, Vec::new());
    for commit in any.iter().filter(|commit| !found.contains(commit)) {
        match last.get(&commit.writer) {
            Some(last) if commit.number < *last => {
                gaps.push(format!("{commit:?} is gone, and a later one of its writer is there"));
            }
            _ => at_end += 1,
        }
    }
    (at_end, gaps)
}

/// The commits that a table has beyond those that a ledger knows.
fn beyond(db: &Db, name: &str, ledger: &Ledger, of: &OfTable) -> Result<Vec<Commit>> {
    let Ok(table) = db.table(name) else { return Ok(Vec::new()) };
    let mut more = Vec::new();
    for writer in 0..ledger.writers {
        let partition = Commit { writer, number: 0, rows: 0 }.partition_key();
        let last = table.partition(partition).scan::<&[u8]>(..)?.next_back().transpose()?;
        let number = last.and_then(|row| {
            String::from_utf8_lossy(&row.row_key).get(..8).and_then(|text| text.parse::<u64>().ok())
        });
        if let Some(number) = number {
            more.extend((of.next(writer)..=number).map(|number| ledger.commit(writer, number)));
        }
    }
    Ok(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_may_miss_its_last_commits_only() {
        let of = |writer, number| Commit { writer, number, rows: 1 };
        let any: Vec<Commit> = (0..4).map(|n| of(0, n)).chain((0..2).map(|n| of(1, n))).collect();
        assert_eq!(missing(&any, &any), (0, Vec::new()));
        assert_eq!(missing(&any[..2], &any), (4, Vec::new()), "the power took the rest");
        let (at_end, gaps) = missing(&[any[0], any[2], any[4]], &any);
        assert_eq!((at_end, gaps.len()), (2, 1), "{gaps:?}");
        assert!(gaps[0].contains("number: 1"), "{gaps:?}");
    }
}

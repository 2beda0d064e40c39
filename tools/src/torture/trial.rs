//! Holds what a folder has against the ledger.

use crate::torture::ledger::{Ledger, OfTable};
use crate::torture::writer::parts;
use anyhow::{Context, Result};
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

/// Verifies all tables against a ledger that may know less than was acknowledged: one that was
/// cut short with the power. What the last table has beyond it is fine if it is whole.
pub(crate) fn verify_all(
    db: &Db,
    ledger: &Ledger,
    may_have_more: bool,
) -> Result<(u64, Vec<String>)> {
    let (mut commits, mut wrong) = (0, Vec::new());
    let last = ledger.tables.keys().next_back();
    for (name, of) in &ledger.tables {
        let more = if may_have_more && Some(name) == last {
            beyond(db, name, ledger, of)?
        } else {
            Vec::new()
        };
        let verdict = verify(db, name, of, &more)?;
        commits += verdict.there.len() as u64;
        wrong.extend(verdict.wrong);
    }
    Ok((commits, wrong))
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

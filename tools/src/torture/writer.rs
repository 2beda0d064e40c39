//! The process that is killed: it writes, and says on stdout what was acknowledged, a line for each
//! commit.

use crate::args::bench::Promise;
use crate::args::torture::TortureArgs;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::torture::ledger::rows_of;
use anyhow::{Context, Result};
use std::io::{self, Write};
use std::path::Path;
use tabulith::options::Durability;
use tabulith::{Db, Table};
use tabulith_testkit::commits::Commit;

/// Said once the folder is open.
pub(crate) const OPEN: &str = "open";

/// The engine's word for a promise.
pub(crate) fn durability(promise: Promise) -> Durability {
    match promise {
        Promise::Synced => Durability::Synced,
        Promise::Flushed => Durability::Flushed,
        Promise::Buffered => Durability::Buffered,
    }
}

/// Writes until it is killed, or nobody listens any more.
pub(crate) fn run(args: &TortureArgs, data: &Path, table: &str) -> Result<Exit> {
    if args.first.len() != usize::from(args.writers) {
        return Err(Failure::usage("--first has a number for each writer").into());
    }
    let db = Db::builder().durability(durability(args.durability)).open(data);
    let db = db.with_context(|| format!("opening {}", data.display()))?;
    let table = db.table(table)?;
    say(OPEN)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0_usize..)
            .zip(&args.first)
            .map(|(writer, first)| {
                let table = &table;
                scope.spawn(move || write(table, args.seed, writer, *first))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().ok().context("a writer failed")?)
    })?;
    Ok(Exit::Ok)
}

fn write(table: &Table, seed: u64, writer: usize, first: u64) -> Result<()> {
    for number in first.. {
        let commit = Commit { writer, number, rows: rows_of(seed, writer, number) };
        let mut batch = table.partition(commit.partition_key()).batch();
        for row in 0..commit.rows {
            batch = batch.insert(commit.row_key(row), value(&commit, row));
        }
        batch.commit().with_context(|| format!("{commit:?}"))?;
        say(&format!("{writer} {number}"))?;
    }
    Ok(())
}

/// What a row holds: how many its commit has, and its text.
fn value(commit: &Commit, row: usize) -> String {
    format!("{}\t{}", commit.rows, commit.text(row))
}

/// The two parts of a row's value.
pub(crate) fn parts(value: &[u8]) -> Option<(usize, String)> {
    let (rows, text) = std::str::from_utf8(value).ok()?.split_once('\t')?;
    Some((rows.parse().ok()?, text.to_owned()))
}

/// One line, whole or not at all for whoever reads the pipe.
fn say(line: &str) -> io::Result<()> {
    let mut out = print::out();
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_what_its_commit_was() {
        let commit = Commit { writer: 1, number: 41, rows: 12 };
        let value = value(&commit, 3);
        assert_eq!(parts(value.as_bytes()), Some((12, commit.text(3))));
        assert_eq!((parts(b"x"), parts(b"x\ty"), parts(b"\xff\t")), (None, None, None));
    }
}

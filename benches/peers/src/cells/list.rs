//! The list of all cells, in the order of the report.

use crate::cells::{
    bulk, churn, conditional, drops, durable, filter, large, paced, point, reopen, scan, ycsb,
};
use crate::probe::Line;
use crate::rows::{MEDIUM, SMALL};
use crate::settings::{is_ceiling, is_variant};
use crate::work::Context;
use For::{All, AllMapped, Kept, Memory, Variants};
use anyhow::Result;

/// Which engines a cell is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Those that keep what is written.
    Kept,
    /// And those in memory.
    All,
    /// All, and ours reading in place, as LMDB and redb do.
    AllMapped,
    /// Those that keep what is written, ours reading in place, and ours with as much memory as
    /// LMDB.
    Memory,
    /// Those that keep what is written, and their variants without compression.
    Variants,
}

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Its name: a workload's number, and what tells it from others of the same.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// For whom.
    pub engines: For,
    /// Bytes of the values of the database that it reads and that is made once for each engine.
    pub prepared: Option<usize>,
    /// Whether a run has it that asks neither for cells nor for a size of rows.
    pub by_default: bool,
    /// Measures it.
    pub run: fn(&Context) -> Result<Vec<Line>>,
}

impl Cell {
    /// Whether its rows have values of [`MEDIUM`]: a run of such rows has it.
    pub fn is_medium(&self) -> bool {
        self.name.ends_with("-1k")
    }

    /// Whether `engine` takes part when nobody names engines.
    pub fn is_for(&self, engine: &str) -> bool {
        match self.engines {
            For::Kept => !is_ceiling(engine) && !is_variant(engine),
            For::All => !is_variant(engine),
            For::AllMapped => engine == "ours-mapped" || !is_variant(engine),
            For::Memory => {
                matches!(engine, "ours-mapped" | "ours-large")
                    || !(is_ceiling(engine) || is_variant(engine))
            }
            For::Variants => !is_ceiling(engine) && engine != "ours-large",
        }
    }

    /// Whether `engine` can take part at all.
    pub fn is_possible_for(&self, engine: &str) -> bool {
        matches!(self.engines, For::All | For::AllMapped) || !is_ceiling(engine)
    }
}

/// All of them.
pub fn cells() -> Vec<Cell> {
    let mut cells = vec![
        cell("W1", "sequential bulk load", Variants, |c| bulk::sequential(c, SMALL)),
        cell("W1-1k", "the same, 1 KiB", Kept, |c| bulk::sequential(c, MEDIUM)),
        cell("W2", "random fill", All, |c| bulk::random(c, SMALL)),
        cell("W2-1k", "the same, 1 KiB", Kept, |c| bulk::random(c, MEDIUM)),
        rare(cell("W2-paced", "random fill at 80 % of its peak for 5 minutes", Kept, |c| {
            paced::fill(c, SMALL)
        })),
        cell("W3", "durable single commits", Kept, |c| durable::single(c, SMALL)),
        rare(cell("W3-1k", "the same, 1 KiB", Kept, |c| durable::single(c, MEDIUM))),
        cell("W5", "durable batches of 100 rows", Kept, |c| durable::batches(c, SMALL)),
        rare(cell("W5-1k", "the same, 1 KiB", Kept, |c| durable::batches(c, MEDIUM))),
        cell("W6-cached", "point gets, all in cache", All, |c| point::cached(c, SMALL)),
        rare(cell("W6-cached-1k", "the same, 1 KiB", All, |c| point::cached(c, MEDIUM))),
        cell("W10", "YCSB A to F", AllMapped, |c| ycsb::all(c, SMALL)),
        rare(cell("W10-1k", "the same, 1 KiB", All, |c| ycsb::all(c, MEDIUM))),
        cell("W11", "delete 90 %, then scan", All, |c| churn::delete(c, SMALL)),
        rare(cell("W11-1k", "the same, 1 KiB", All, |c| churn::delete(c, MEDIUM))),
        cell("W12", "overwrite 8 times", All, |c| churn::overwrite(c, SMALL)),
        rare(cell("W12-1k", "the same, 1 KiB", All, |c| churn::overwrite(c, MEDIUM))),
        cell("W13", "large values", Kept, large::all),
        cell("W14", "open after kill -9", Kept, |c| reopen::after_kill(c, SMALL)),
        rare(cell("W14-1k", "the same, 1 KiB", Kept, |c| reopen::after_kill(c, MEDIUM))),
        cell("W15", "scan with a property filter", Kept, |c| filter::all(c, SMALL)),
        rare(cell("W15-1k", "the same, 1 KiB", Kept, |c| filter::all(c, MEDIUM))),
        cell("W16", "drop of a partition and of a table", Kept, |c| drops::all(c, SMALL)),
        rare(cell("W16-1k", "the same, 1 KiB", Kept, |c| drops::all(c, MEDIUM))),
        cell("W17", "conditional updates, unsynced", All, |c| conditional::unsynced(c, SMALL)),
        rare(cell("W17-1k", "the same, 1 KiB", All, |c| conditional::unsynced(c, MEDIUM))),
        cell("W17-durable", "conditional updates, durable", Kept, |c| {
            conditional::durable(c, SMALL)
        }),
        rare(cell("W17-durable-1k", "the same, 1 KiB", Kept, |c| conditional::durable(c, MEDIUM))),
    ];
    cells.extend(reads());
    cells
}

/// Those that read a database which is made once for each engine.
fn reads() -> [Cell; 8] {
    let small = |cell| Cell { prepared: Some(SMALL), ..cell };
    let medium = |cell| Cell { prepared: Some(MEDIUM), ..cell };
    [
        small(cell("W6", "point gets, data 4.3 times the cache", Memory, |c| {
            point::larger(c, SMALL)
        })),
        small(cell("W7", "seek and 50 rows", Memory, |c| scan::short(c, SMALL))),
        small(cell("W8", "full scan", Memory, |c| scan::full(c, SMALL))),
        small(cell("W9", "scan of a partition", Memory, |c| scan::partition(c, SMALL))),
        medium(cell("W6-1k", "point gets, 1 KiB", Kept, |c| point::larger(c, MEDIUM))),
        medium(rare(cell("W7-1k", "seek and 50 rows, 1 KiB", Kept, |c| scan::short(c, MEDIUM)))),
        medium(cell("W8-1k", "full scan, 1 KiB", Kept, |c| scan::full(c, MEDIUM))),
        medium(rare(cell("W9-1k", "scan of a partition, 1 KiB", Kept, |c| {
            scan::partition(c, MEDIUM)
        }))),
    ]
}

fn cell(
    name: &'static str,
    about: &'static str,
    engines: For,
    run: fn(&Context) -> Result<Vec<Line>>,
) -> Cell {
    Cell { name, about, engines, prepared: None, by_default: true, run }
}

/// One that a run has only when asked for it, or for rows of its size.
fn rare(cell: Cell) -> Cell {
    Cell { by_default: false, ..cell }
}

/// Fills the database that reads of `value_bytes` share.
pub fn prepare(context: &Context, value_bytes: usize) -> Result<()> {
    point::prepare(context, value_bytes)
}

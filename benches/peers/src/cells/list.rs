//! The list of all cells, in the order of the report.

use crate::cells::{
    bulk, churn, conditional, drops, durable, filter, large, paced, point, reopen, scan, ycsb,
};
use crate::probe::Line;
use crate::rows::{MEDIUM, SMALL};
use crate::settings::{is_ceiling, is_variant};
use crate::work::Context;
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
    /// Those that keep what is written, ours reading in place, and ours with as much memory as LMDB.
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
    /// Whether a run without `--only` has it.
    pub by_default: bool,
    /// Measures it.
    pub run: fn(&Context) -> Result<Vec<Line>>,
}

impl Cell {
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
    let cell = |name, about, engines, run| Cell {
        name,
        about,
        engines,
        prepared: None,
        by_default: true,
        run,
    };
    let reads = |name, about, engines, bytes, run| Cell {
        prepared: Some(bytes),
        ..cell(name, about, engines, run)
    };
    let rare = |name, about, run| Cell { by_default: false, ..cell(name, about, For::Kept, run) };
    vec![
        cell("W1", "sequential bulk load, 200 B", For::Variants, |c| bulk::sequential(c, SMALL)),
        cell("W1-1k", "sequential bulk load, 1 KiB", For::Kept, |c| bulk::sequential(c, MEDIUM)),
        cell("W2", "random fill, 200 B", For::All, |c| bulk::random(c, SMALL)),
        cell("W2-1k", "random fill, 1 KiB", For::Kept, |c| bulk::random(c, MEDIUM)),
        rare("W2-paced", "random fill at 80 % of its peak for 5 minutes", |c| {
            paced::fill(c, SMALL)
        }),
        cell("W3", "durable single commits", For::Kept, durable::single),
        cell("W5", "durable batches of 100 rows, 200 B", For::Kept, |c| durable::batches(c, SMALL)),
        rare("W5-1k", "durable batches of 100 rows, 1 KiB", |c| durable::batches(c, MEDIUM)),
        cell("W6-cached", "point gets, all in cache", For::All, point::cached),
        cell("W10", "YCSB A to F", For::AllMapped, ycsb::all),
        cell("W11", "delete 90 %, then scan", For::All, churn::delete),
        cell("W12", "overwrite 8 times", For::All, churn::overwrite),
        cell("W13", "large values", For::Kept, large::all),
        cell("W14", "open after kill -9", For::Kept, reopen::after_kill),
        cell("W15", "scan with a property filter", For::Kept, filter::all),
        cell("W16", "drop of a partition and of a table", For::Kept, drops::all),
        cell("W17", "conditional updates, unsynced", For::All, conditional::unsynced),
        cell("W17-durable", "conditional updates, durable", For::Kept, conditional::durable),
        reads("W6", "point gets, data 4.3 times the cache", For::Memory, SMALL, |c| {
            point::larger(c, SMALL)
        }),
        reads("W7", "seek and 50 rows", For::Memory, SMALL, |c| scan::short(c, SMALL)),
        reads("W8", "full scan", For::Memory, SMALL, |c| scan::full(c, SMALL)),
        reads("W9", "scan of a partition", For::Memory, SMALL, |c| scan::partition(c, SMALL)),
        reads("W6-1k", "point gets, 1 KiB", For::Kept, MEDIUM, |c| point::larger(c, MEDIUM)),
        Cell {
            by_default: false,
            ..reads("W7-1k", "seek and 50 rows, 1 KiB", For::Kept, MEDIUM, |c| {
                scan::short(c, MEDIUM)
            })
        },
        reads("W8-1k", "full scan, 1 KiB", For::Kept, MEDIUM, |c| scan::full(c, MEDIUM)),
    ]
}

/// Fills the database that reads of `value_bytes` share.
pub fn prepare(context: &Context, value_bytes: usize) -> Result<()> {
    point::prepare(context, value_bytes)
}

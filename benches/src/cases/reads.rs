//! Reads through the embedded API of rows that all lie in the block cache.

use crate::case::{Case, Plan};
use crate::rows::{self, PARTITION_ROWS, Values};
use crate::sample::{Loop, Meter, Sample, histogram};
use anyhow::{Result, ensure};
use tabulith::Cursor;
use tabulith::Table;
use tabulith::db::Db;
use tabulith::env::rng::Rng;
use tabulith::options::Durability;

/// Rows of the table at scale 1: some 120 MB of keys and values, under half of the default cache.
const ROWS: u64 = 500_000;

/// Rows of a short scan.
const SCAN_ROWS: usize = 50;

/// Gets, short scans and full scans.
pub fn cases(plan: &Plan) -> Result<Vec<Case>> {
    let table = filled(plan)?;
    let mut cases = Vec::new();
    for threads in [1, 2] {
        let table = table.clone();
        let name = format!("get, random keys, in cache, threads: {threads}");
        cases.push(Case::new(name, "gets/s", move |plan| {
            gets(plan, threads, &table, rows::keys, true)
        }));
    }
    let absent = table.clone();
    cases.push(Case::new("get, absent keys, threads: 1", "gets/s", move |plan| {
        let key = |i| {
            let (pk, _) = rows::keys(i);
            (pk, rows::absent_row(i % PARTITION_ROWS))
        };
        gets(plan, 1, &absent, key, false)
    }));
    for how in [Way::Iterator, Way::Cursor] {
        let scanned = table.clone();
        let name = format!("{how}: 50 rows from a random key");
        cases.push(Case::new(name, "scans/s", move |plan| short_scans(plan, &scanned, how)));
        let scanned = table.clone();
        let name = format!("{how}: a partition of 1,000 rows");
        cases.push(Case::new(name, "scans/s", move |plan| partition_scans(plan, &scanned, how)));
        for (direction, forward) in [("forward", true), ("reverse", false)] {
            let table = table.clone();
            let name = format!("{how}: full scan, {direction}");
            cases
                .push(Case::new(name, "rows/s", move |plan| full_scan(plan, &table, how, forward)));
        }
    }
    Ok(cases)
}

/// A table of rows that are all in files of one level.
fn filled(plan: &Plan) -> Result<Table> {
    let db = Db::builder().durability(Durability::Buffered).open(plan.folder("reads")?)?;
    let table = db.table("bench")?;
    let mut values = Values::new(plan.seed);
    let all = plan.rows(ROWS);
    for first in (0..all).step_by(100) {
        let mut batch = table.partition(rows::keys(first).0).batch();
        for i in first..(first + 100).min(all) {
            batch = batch.upsert(rows::keys(i).1, values.value());
        }
        batch.commit()?;
    }
    db.compact()?;
    Ok(table)
}

fn gets(
    plan: &Plan,
    threads: usize,
    table: &Table,
    key: impl Fn(u64) -> (String, String) + Sync,
    present: bool,
) -> Result<Sample> {
    let all = plan.rows(ROWS);
    // Keys are made before the clock runs: printing one takes a good part of what a get takes.
    let keys: Vec<Vec<_>> = (0..threads)
        .map(|thread| {
            let mut rng = Rng::seeded(plan.seed + thread as u64);
            (0..200_000.min(all)).map(|_| key(rng.below(all))).collect()
        })
        .collect();
    let run = Loop { threads, span: plan.span, timed_every: 16 };
    run.run(|thread| {
        let mut keys = keys[thread].iter().cycle();
        move || {
            let found = keys.next().map(|(pk, rk)| table.get(pk, rk)).transpose()?.flatten();
            ensure!(found.is_some() == present, "a get found {found:?}");
            Ok(1)
        }
    })
}

/// Which of the two ways a scan takes.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Rows to keep.
    Iterator,
    /// Rows borrowed until the next move.
    Cursor,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Way::Iterator => "scan",
            Way::Cursor => "cursor",
        })
    }
}

fn short_scans(plan: &Plan, table: &Table, how: Way) -> Result<Sample> {
    let partitions = plan.rows(ROWS) / PARTITION_ROWS;
    let run = Loop { threads: 1, span: plan.span, timed_every: 1 };
    run.run(|thread| {
        let mut rng = Rng::seeded(plan.seed + thread as u64);
        move || {
            let partition = table.partition(rows::partition(rng.below(partitions)));
            let first = rows::row(rng.below(PARTITION_ROWS - SCAN_ROWS as u64));
            let count = match how {
                Way::Iterator => count_rows(partition.scan(first..)?.take(SCAN_ROWS))?,
                Way::Cursor => lend_rows(&mut partition.cursor(first..)?, SCAN_ROWS as u64)?,
            };
            ensure!(count == SCAN_ROWS as u64, "the scan gave {count} rows");
            Ok(1)
        }
    })
}

fn partition_scans(plan: &Plan, table: &Table, how: Way) -> Result<Sample> {
    let partitions = plan.rows(ROWS) / PARTITION_ROWS;
    let run = Loop { threads: 1, span: plan.span, timed_every: 1 };
    run.run(|thread| {
        let mut rng = Rng::seeded(plan.seed + thread as u64);
        move || {
            let partition = table.partition(rows::partition(rng.below(partitions)));
            let count = match how {
                Way::Iterator => count_rows(partition.scan::<&str>(..)?)?,
                Way::Cursor => lend_rows(&mut partition.cursor::<&str>(..)?, u64::MAX)?,
            };
            ensure!(count == PARTITION_ROWS, "the scan gave {count} rows");
            Ok(1)
        }
    })
}

fn full_scan(plan: &Plan, table: &Table, how: Way, forward: bool) -> Result<Sample> {
    let meter = Meter::start(None);
    let count = match (how, forward) {
        (Way::Iterator, true) => count_rows(table.scan::<&str, &str>(..)?)?,
        (Way::Iterator, false) => count_rows(table.scan::<&str, &str>(..)?.rev())?,
        (Way::Cursor, true) => lend_rows(&mut table.cursor::<&str, &str>(..)?, u64::MAX)?,
        (Way::Cursor, false) => {
            let mut cursor = table.cursor::<&str, &str>(..)?;
            let mut count = 0;
            while let Some(row) = cursor.prev()? {
                std::hint::black_box((row.row_key, row.value()?));
                count += 1;
            }
            count
        }
    };
    ensure!(count == plan.rows(ROWS), "the scan gave {count} rows");
    Ok(meter.stop(count, histogram()?))
}

fn lend_rows(cursor: &mut Cursor, max: u64) -> Result<u64> {
    let mut count = 0;
    while count < max
        && let Some(row) = cursor.next()?
    {
        std::hint::black_box((row.row_key, row.value()?));
        count += 1;
    }
    Ok(count)
}

fn count_rows(
    scan: impl Iterator<Item = tabulith::error::Result<tabulith::embedded::scan::ScanRow>>,
) -> Result<u64> {
    let mut count = 0;
    for row in scan {
        std::hint::black_box(&row?);
        count += 1;
    }
    Ok(count)
}

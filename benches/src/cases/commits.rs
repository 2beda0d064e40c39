//! Commits through the embedded API: durable ones by many writers, batches, and unsynced batches.

use crate::case::{Case, Plan};
use crate::rows::{self, PARTITION_ROWS, Values};
use crate::sample::{Loop, Meter, Sample, histogram};
use anyhow::Result;
use std::collections::VecDeque;
use std::time::Instant;
use tabulith::Table;
use tabulith::db::Db;
use tabulith::env::rng::Rng;
use tabulith::options::Durability;

const BATCH_ROWS: u64 = 100;

/// Durable commits of one row and of 100 rows.
pub fn durable(plan: &Plan) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for writers in [1, 8, 32] {
        let (db, table) = open(plan, &format!("durable-{writers}"), Durability::Synced)?;
        let name = format!("durable commits of one row, writers: {writers}");
        cases.push(Case::new(name, "commits/s", move |plan| {
            let rows = plan.rows(500_000);
            let run = Loop { threads: writers, span: plan.span, timed_every: 1 };
            let sample = run.run(|thread| {
                let mut rng = Rng::seeded(plan.seed + thread as u64);
                let mut values = Values::new(plan.seed);
                let table = &table;
                move || {
                    let (pk, rk) = rows::keys(rng.below(rows));
                    table.upsert(pk, rk, values.value())?;
                    Ok(1)
                }
            });
            db.settle()?;
            sample
        }));
    }
    for depth in [8, 32] {
        let (db, table) = open(plan, &format!("tickets-{depth}"), Durability::Synced)?;
        let name = format!("durable commits of one row, 1 writer, tickets outstanding: {depth}");
        cases.push(Case::new(name, "commits/s", move |plan| {
            let rows = plan.rows(500_000);
            let run = Loop { threads: 1, span: plan.span, timed_every: 1 };
            let sample = run.run(|_| {
                let mut rng = Rng::seeded(plan.seed);
                let mut values = Values::new(plan.seed);
                let mut tickets = VecDeque::with_capacity(depth);
                let table = &table;
                move || {
                    let (pk, rk) = rows::keys(rng.below(rows));
                    let batch = table.partition(pk).batch().upsert(rk, values.value());
                    tickets.push_back(batch.commit_async());
                    if tickets.len() == depth
                        && let Some(oldest) = tickets.pop_front()
                    {
                        oldest.wait()?;
                    }
                    Ok(1)
                }
            });
            db.settle()?;
            sample
        }));
    }
    for writers in [1, 8] {
        let (db, table) = open(plan, &format!("batches-{writers}"), Durability::Synced)?;
        let name = format!("durable commits of 100 rows, writers: {writers}");
        cases.push(Case::new(name, "commits/s", move |plan| {
            let run = Loop { threads: writers, span: plan.span, timed_every: 1 };
            let sample = run.run(|thread| {
                let mut batches = Batches::new(plan, thread);
                let table = &table;
                move || batches.commit(table).map(|_| 1)
            });
            db.settle()?;
            sample
        }));
    }
    Ok(cases)
}

/// Batches of 100 rows that wait for no disk, by one writer. The time ends when the flushes and
/// compactions that they caused have ended too.
pub fn unsynced(plan: &Plan) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for durability in [Durability::Flushed, Durability::Buffered] {
        let (db, table) = open(plan, &format!("{durability:?}"), durability)?;
        let name = format!("commits of 100 rows, {durability:?}, then settled");
        cases.push(Case::new(name, "rows/s", move |plan| {
            let mut batches = Batches::new(plan, 0);
            let (mut ops, mut latency_ns) = (0, histogram()?);
            let meter = Meter::start(None);
            let start = Instant::now();
            while start.elapsed() < plan.span {
                let before = Instant::now();
                ops += batches.commit(&table)?;
                latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
            }
            db.settle()?;
            Ok::<Sample, _>(meter.stop(ops, latency_ns))
        }));
    }
    Ok(cases)
}

fn open(plan: &Plan, name: &str, durability: Durability) -> Result<(Db, Table)> {
    let db = Db::builder().durability(durability).open(plan.folder(name)?)?;
    let table = db.table("bench")?;
    Ok((db, table))
}

/// Batches of 100 neighbouring rows at random places.
struct Batches {
    rng: Rng,
    values: Values,
    partitions: u64,
}

impl Batches {
    fn new(plan: &Plan, thread: usize) -> Batches {
        Batches {
            rng: Rng::seeded(plan.seed + thread as u64),
            values: Values::new(plan.seed),
            partitions: plan.rows(500_000) / PARTITION_ROWS,
        }
    }

    /// Commits one; returns its rows.
    fn commit(&mut self, table: &Table) -> Result<u64> {
        let partition = rows::partition(self.rng.below(self.partitions));
        let first = self.rng.below(PARTITION_ROWS - BATCH_ROWS);
        let mut batch = table.partition(partition).batch();
        for row in first..first + BATCH_ROWS {
            batch = batch.upsert(rows::row(row), self.values.value());
        }
        batch.commit()?;
        Ok(BATCH_ROWS)
    }
}

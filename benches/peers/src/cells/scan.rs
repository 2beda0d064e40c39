//! W7, W8 and W9: short scans from a random key, full scans, and scans of one partition.

use crate::cells::point::{open_prepared, prepared_rows};
use crate::engine::{Direction, Engine, Seen, Span};
use crate::probe::{Kind, Line, Probe};
use crate::rows::{self, KeyBuf, PARTITION_ROWS, Sum, size_of};
use crate::work::{self, Context};
use anyhow::Result;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tabulith::env::rng::Rng;

const SHORT_ROWS: u64 = 50;

/// A line each: its number, what its name says, and the direction.
const BOTH_WAYS: [(usize, &str, Direction); 2] =
    [(0, "", Direction::Forward), (1, " backwards", Direction::Reverse)];

/// 50 rows from a random one on, in both directions.
pub fn short(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let engine = open_prepared(context)?;
    let lines = short_of(context, &*engine, prepared_rows(context, value_bytes), value_bytes)?;
    engine.close()?;
    Ok(lines)
}

/// The same of an engine that holds `rows`.
pub fn short_of(
    context: &Context,
    engine: &dyn Engine,
    rows: u64,
    value_bytes: usize,
) -> Result<Vec<Line>> {
    let size = size_of(value_bytes);
    warm(context, engine, rows, value_bytes)?;
    let mut lines = Vec::new();
    for (at, way, direction, threads) in context.in_turn(vec![
        (0, "", Direction::Forward, 1),
        (1, "", Direction::Forward, 2),
        (2, " backwards", Direction::Reverse, 1),
    ]) {
        let name = format!("W7 seek and 50 rows{way}{size}, threads: {threads}");
        let named = (Kind::Read, name.as_str(), "scans/s");
        lines.push(work::run(context, named, threads, 1, 0, |thread| {
            let mut rng = Rng::seeded(context.seed_of(at, thread));
            let mut key = KeyBuf::default();
            move || {
                let first = rng.below(rows - 2 * SHORT_ROWS) + SHORT_ROWS;
                let expected = match direction {
                    Direction::Forward => Sum::of(first, first + SHORT_ROWS, value_bytes),
                    Direction::Reverse => Sum::of(first + 1 - SHORT_ROWS, first + 1, value_bytes),
                };
                let span = Span::From(key.row(first));
                take(engine, span, direction, SHORT_ROWS)?.check(expected)?;
                Ok(1)
            }
        })?);
    }
    Ok(lines)
}

/// Reads 50 rows from random ones until it has read as many as [`work::rows_of_cache`], unmeasured,
/// no longer than until [`work::warm_until`]: what is measured is a cache in use and not its
/// filling.
fn warm(context: &Context, engine: &dyn Engine, rows: u64, value_bytes: usize) -> Result<()> {
    let (mut rng, mut key) = (Rng::seeded(context.seed + 77), KeyBuf::default());
    let (until, mut left) = (work::warm_until(context), work::rows_of_cache(context, value_bytes));
    while left > 0 && Instant::now() < until {
        let first = Span::From(key.row(rng.below(rows - SHORT_ROWS)));
        let read = take(engine, first, Direction::Forward, SHORT_ROWS)?.rows;
        left = left.saturating_sub(read);
    }
    Ok(())
}

/// Adds up the first `most` rows of a span.
pub fn take(engine: &dyn Engine, span: Span<'_>, direction: Direction, most: u64) -> Result<Sum> {
    let mut sum = Sum::default();
    engine.scan(span, direction, &mut |seen: Seen<'_>| {
        sum.add(seen.value);
        match sum.rows < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    Ok(sum)
}

/// Every row once, in both directions.
pub fn full(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let engine = open_prepared(context)?;
    let rows = prepared_rows(context, value_bytes);
    let size = size_of(value_bytes);
    let mut lines = Vec::new();
    for (_, way, direction) in context.in_turn(BOTH_WAYS.into()) {
        let probe = Probe::start()?;
        let (sum, laps) = work::sum_in_laps(&*engine, direction)?;
        sum.check(Sum::of(0, rows, value_bytes))?;
        let name = format!("W8 full scan{way}{size}");
        let line = probe.rate(Kind::Read, name, "rows/s", rows, Duration::ZERO)?;
        lines.push(line.in_laps(&laps, "each 1,000 rows delivered"));
    }
    engine.close()?;
    Ok(lines)
}

/// The 1,000 rows of a random partition, in both directions.
pub fn partition(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let engine = open_prepared(context)?;
    let rows = prepared_rows(context, value_bytes);
    let lines = partition_of(context, &*engine, rows, value_bytes)?;
    engine.close()?;
    Ok(lines)
}

/// The same of an engine that holds `rows`.
pub fn partition_of(
    context: &Context,
    engine: &dyn Engine,
    rows: u64,
    value_bytes: usize,
) -> Result<Vec<Line>> {
    let (partitions, size) = (rows / PARTITION_ROWS, size_of(value_bytes));
    warm(context, engine, rows, value_bytes)?;
    let mut lines = Vec::new();
    for (at, way, direction) in context.in_turn(BOTH_WAYS.into()) {
        let name = format!("W9 scan of a partition of 1,000{way}{size}");
        let named = (Kind::Read, name.as_str(), "scans/s");
        lines.push(work::run(context, named, 1, 1, 0, |thread| {
            let mut rng = Rng::seeded(context.seed_of(at, thread));
            move || {
                let partition = rng.below(partitions);
                let first = partition * PARTITION_ROWS;
                let key = rows::partition(partition);
                let sum = take(engine, Span::Partition(&key), direction, u64::MAX)?;
                sum.check(Sum::of(first, first + PARTITION_ROWS, value_bytes))?;
                Ok(1)
            }
        })?);
    }
    Ok(lines)
}

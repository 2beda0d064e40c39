//! W16: dropping a partition and a table of 10^6 rows.

use crate::engine::{Change, Direction, Engine, Promise, Span};
use crate::probe::{Kind, Line, Probe, disk_bytes};
use crate::rows::{self, KeyBuf, Values};
use crate::work::{self, Context, bytes_of};
use anyhow::{Result, ensure};
use std::ops::ControlFlow;
use std::time::Instant;

const ROWS: u64 = 1_000_000;

const BATCH_ROWS: u64 = 1000;

const VALUE_BYTES: usize = 200;

/// The partition that is dropped; it has neighbours on both sides.
const PARTITION: u64 = 1;

/// How long the call takes, and what the disk holds once all has settled.
pub fn all(context: &Context) -> Result<Vec<Line>> {
    let mut settings = context.settings(Promise::Unsynced);
    settings.droppable = true;
    let rows = context.rows(ROWS);

    let engine = context.fresh("partition", &settings)?;
    fill(&*engine, PARTITION, rows, context.seed)?;
    for neighbour in [PARTITION - 1, PARTITION + 1] {
        fill(&*engine, neighbour, BATCH_ROWS, context.seed)?;
    }
    let name = "W16 drop a partition of 10^6 rows";
    let partition = rows::partition(PARTITION);
    let left = 2 * BATCH_ROWS;
    let drop = || engine.drop_partition(&partition);
    let mut lines = vec![measure(context, &*engine, "partition", name, rows, drop)?];
    let there = work::sum(&*engine, Direction::Forward)?.rows;
    ensure!(there == left, "{there} rows are left");
    engine.close()?;

    let engine = context.fresh("table", &settings)?;
    work::load(&*engine, rows, VALUE_BYTES, context.seed)?;
    let name = "W16 drop a table of 10^6 rows";
    let drop = || engine.drop_table();
    lines.push(measure(context, &*engine, "table", name, rows, drop)?);
    Ok(lines)
}

fn measure(
    context: &Context,
    engine: &dyn Engine,
    folder: &str,
    name: &str,
    rows: u64,
    drop: impl Fn() -> Result<&'static str>,
) -> Result<Line> {
    engine.settle()?;
    let dir = context.dir.join(folder);
    let before = disk_bytes(&dir)?;
    let (probe, start) = (Probe::start()?, Instant::now());
    let by = drop()?;
    let line = probe.took(Kind::Unsynced, name, start.elapsed())?;
    let start = Instant::now();
    // An engine whose only table is gone may refuse; its files then go at their own pace.
    let settled = engine.settle().is_ok();
    let seconds = start.elapsed().as_secs_f64();
    let left = disk_bytes(&dir)? as f64 / before.max(1) as f64 * 100.0;
    let how = if settled { "settled" } else { "not settled" };
    let line = line.note(format!("{by}; {how} in {seconds:.2} s, {left:.0} % of the disk left"));
    line.disk(&dir, bytes_of(rows, VALUE_BYTES))
}

/// Rows of one partition.
fn fill(engine: &dyn Engine, partition: u64, rows: u64, seed: u64) -> Result<()> {
    let mut values = Values::new(VALUE_BYTES, seed);
    for first in (0..rows).step_by(BATCH_ROWS as usize) {
        let mut pairs = Vec::new();
        for order in first..(first + BATCH_ROWS).min(rows) {
            let mut key = KeyBuf::default();
            key.set(partition, order);
            pairs.push((key, values.value(order, 0).to_vec()));
        }
        let changes: Vec<_> =
            pairs.iter().map(|(key, value)| Change::Put(key.key(), value.as_slice())).collect();
        engine.write(&changes)?;
    }
    let mut last = 0;
    engine.scan(Span::Partition(&rows::partition(partition)), Direction::Reverse, &mut |seen| {
        last = rows::row_of(seen.value);
        ControlFlow::Break(())
    })?;
    ensure!(last + 1 == rows, "the last row is {last}");
    Ok(())
}

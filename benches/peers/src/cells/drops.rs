//! W16: dropping a partition and a table of 10^6 rows.

use crate::engine::{Change, Direction, Engine, Promise, Span};
use crate::probe::{Kind, Line, Probe, disk_bytes};
use crate::rows::{self, KeyBuf, MEDIUM, Values};
use crate::work::{self, Context, bytes_of};
use anyhow::{Result, ensure};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Rows with values of 200 bytes; of larger ones as many as take the same bytes.
const ROWS: u64 = 1_000_000;

const BATCH_ROWS: u64 = 1000;

/// The partition that is dropped; it has neighbours on both sides.
const PARTITION: u64 = 1;

/// How long the call takes, and what the disk holds once all has settled.
pub fn all(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let mut settings = context.settings(Promise::Unsynced);
    settings.droppable = true;
    let rows = context.rows_like(ROWS, value_bytes);
    let many = match value_bytes {
        MEDIUM => "218,000 rows, 1 KiB",
        _ => "10^6 rows",
    };

    let engine = context.fresh("partition", &settings)?;
    fill(&*engine, PARTITION, rows, (value_bytes, context.seed))?;
    for neighbour in [PARTITION - 1, PARTITION + 1] {
        fill(&*engine, neighbour, BATCH_ROWS, (value_bytes, context.seed))?;
    }
    let partition = rows::partition(PARTITION);
    let name = format!("W16 drop a partition of {many}");
    let counts = (bytes_of(rows, value_bytes), 2 * BATCH_ROWS);
    let mut lines = vec![measure(context, engine, ("partition", &name), counts, |engine| {
        engine.drop_partition(&partition)
    })?];

    let engine = context.fresh("table", &settings)?;
    work::load(&*engine, rows, value_bytes, context.seed)?;
    let name = format!("W16 drop a table of {many}");
    let counts = (bytes_of(rows, value_bytes), 0);
    lines.push(measure(context, engine, ("table", &name), counts, |engine| engine.drop_table())?);
    Ok(lines)
}

fn measure(
    context: &Context,
    engine: Box<dyn Engine>,
    (folder, name): (&str, &str),
    (bytes, left): (u64, u64),
    drop: impl Fn(&dyn Engine) -> Result<&'static str>,
) -> Result<Line> {
    engine.settle()?;
    let dir = context.dir.join(folder);
    let before = disk_bytes(&dir)?;
    let (probe, start) = (Probe::start()?, Instant::now());
    let by = drop(&*engine)?;
    let line = probe.took(Kind::Unsynced, name, start.elapsed())?;
    let start = Instant::now();
    // An engine whose only table is gone may refuse to settle or to scan.
    let (settled, rest) = match engine.settle() {
        Ok(rest) => ("settled", rest),
        Err(_) => ("not settled", Duration::ZERO),
    };
    let seconds = start.elapsed().saturating_sub(rest).as_secs_f64();
    if left > 0 {
        let there = work::sum(&*engine, Direction::Forward)?.rows;
        ensure!(there == left, "{there} rows are left");
    }
    // Some delete files only when the last handle on the table is gone.
    std::mem::drop(engine);
    let share = disk_bytes(&dir)? as f64 / before.max(1) as f64 * 100.0;
    let line =
        line.note(format!("{by}; {settled} in {seconds:.2} s, {share:.0} % of the disk left"));
    line.disk(&dir, bytes)
}

/// Rows of one partition.
fn fill(
    engine: &dyn Engine,
    partition: u64,
    rows: u64,
    (value_bytes, seed): (usize, u64),
) -> Result<()> {
    let mut values = Values::new(value_bytes, seed);
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

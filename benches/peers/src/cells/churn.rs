//! W11 and W12: what deletes and overwrites leave behind.

use crate::engine::{Change, Direction, Promise};
use crate::probe::{Kind, Line, Probe, disk_bytes};
use crate::rows::{KeyBuf, PARTITION_ROWS, Sum, Values, size_of};
use crate::work::{self, Batch, Cap, Context, Shuffle, bytes_of};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};
use tabulith::env::rng::Rng;
use tabulith_benches::sample::histogram;

/// Rows with values of 200 bytes; of larger ones as many as take the same bytes.
const DELETE_ROWS: u64 = 500_000;

/// As above.
const OVERWRITE_ROWS: u64 = 250_000;

const OVERWRITES: u64 = 8;

const BATCH_ROWS: u64 = 100;

/// Deletes nine rows of ten, then reads what is left, before and after settling, and once the
/// engine was told to merge all that it has.
pub fn delete(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let engine = context.fresh("rows", &context.settings(Promise::Unsynced))?;
    let (rows, size) = (context.rows_like(DELETE_ROWS, value_bytes), size_of(value_bytes));
    work::load(&*engine, rows, value_bytes, context.seed)?;
    let (mut live, mut deleted) = (Sum::of(0, rows, value_bytes), 0);
    let (mut latency_ns, cap, probe) = (histogram()?, Cap::new(context), Probe::start()?);
    for batch in Shuffle::new(rows / BATCH_ROWS, context.seed) {
        let mut keys = Vec::new();
        for i in batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS {
            if !i.is_multiple_of(10) {
                let mut key = KeyBuf::default();
                key.row(i);
                keys.push(key);
                live.rows -= 1;
                live.numbers = live.numbers.wrapping_sub(i);
                live.bytes -= value_bytes as u64;
            }
        }
        let changes: Vec<_> = keys.iter().map(|key| Change::Delete(key.key())).collect();
        let before = Instant::now();
        engine.write(&changes)?;
        latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
        deleted += changes.len() as u64;
        if cap.is_over() {
            break;
        }
    }
    let given = bytes_of(deleted, 0);
    let name = format!("W11 delete 90 %, commits of 90{size}");
    let counts = (deleted, given);
    let line = probe.rate_written(Kind::Unsynced, name, "rows/s", counts, Duration::ZERO)?;
    let mut lines = vec![line.timed(&latency_ns)];
    let scan = |when: &str| -> Result<Line> {
        let name = format!("W11 scan after {when}{size}");
        let probe = Probe::start()?;
        let (sum, laps) = work::sum_in_laps(&*engine, Direction::Forward)?;
        sum.check(live)?;
        let line = probe.rate(Kind::Read, name, "live rows/s", live.rows, Duration::ZERO)?;
        Ok(line.in_laps(&laps, "each 1,000 rows delivered"))
    };
    lines.push(scan("the deletes")?);
    let start = Instant::now();
    let rest = engine.settle()?;
    let took = start.elapsed().saturating_sub(rest).as_secs_f64();
    let line = scan("settling")?.note(format!("settled in {took:.2} s"));
    lines.push(line.disk(&context.dir, bytes_of(live.rows, value_bytes))?);
    let start = Instant::now();
    let took = match engine.compact()? {
        true => format!("compacted in {:.2} s", start.elapsed().as_secs_f64()),
        false => "has no such call".to_owned(),
    };
    let line = scan("compaction")?.note(took);
    lines.push(line.disk(&context.dir, bytes_of(live.rows, value_bytes))?);
    engine.close()?;
    Ok(lines)
}

/// Writes every row eight times over, in random order.
pub fn overwrite(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let engine = context.fresh("rows", &context.settings(Promise::Unsynced))?;
    let rows = context.rows_like(OVERWRITE_ROWS, value_bytes);
    work::load(&*engine, rows, value_bytes, context.seed)?;
    let (mut rng, mut values) = (Rng::seeded(context.seed), Values::new(value_bytes, 2));
    let (mut latency_ns, cap, probe) = (histogram()?, Cap::new(context), Probe::start()?);
    let (mut written, mut most_bytes, mut batch) = (0, 0, Batch::default());
    let mut newest = vec![0; (rows / BATCH_ROWS) as usize]; // The revision of each batch's rows.
    while written < rows * OVERWRITES && !cap.is_over() {
        let partition = rng.below(rows / PARTITION_ROWS) * PARTITION_ROWS;
        let first = partition + rng.below(PARTITION_ROWS / BATCH_ROWS) * BATCH_ROWS;
        batch.make(&mut values, first..first + BATCH_ROWS, written);
        let before = Instant::now();
        written += batch.commit(&*engine)?;
        latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
        newest[(first / BATCH_ROWS) as usize] = written - BATCH_ROWS;
        if written.is_multiple_of(100 * BATCH_ROWS) {
            most_bytes = disk_bytes(&context.dir)?.max(most_bytes);
        }
    }
    let rest = engine.settle()?;
    let counts = (written, bytes_of(written, value_bytes));
    let size = size_of(value_bytes);
    let name = format!("W12 overwrite 8 times, commits of 100{size}, settled");
    let line = probe.rate_written(Kind::Unsynced, name, "rows/s", counts, rest)?;
    let live = bytes_of(rows, value_bytes);
    let line = line.disk(&context.dir, live)?;
    let peak = most_bytes as f64 / live as f64;
    let share = written as f64 / (rows * OVERWRITES) as f64 * 100.0;
    let line = line.note(format!("disk at most {peak:.2} per byte; {share:.0} % of the writes"));
    work::sum(&*engine, Direction::Forward)?.check(Sum::of(0, rows, value_bytes))?;
    let (there, last) = (work::revisions(&*engine)?, newest.iter().sum::<u64>() * BATCH_ROWS);
    ensure!(there == last, "revisions add up to {there}, should be {last}");
    engine.close()?;
    Ok(vec![line.timed(&latency_ns)])
}

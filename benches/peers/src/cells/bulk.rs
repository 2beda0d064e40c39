//! W1 and W2: filling a database in the order of the keys and in none.

use crate::engine::{Change, Direction, Engine, Promise};
use crate::probe::{Kind, LAP_ROWS, Laps, Line, Probe};
use crate::rows::{KeyBuf, PARTITION_ROWS, Sum, Values, size_of};
use crate::work::{self, Batch, Cap, Context, InOrder, Shuffle, bytes_of};
use anyhow::Result;
use std::time::Instant;
use tabulith_benches::sample::histogram;

/// Bytes that W1 loads at scale 1.
const SEQUENTIAL_BYTES: u64 = 460 << 20;

/// Bytes that W2 would fill at scale 1; its time is over before.
const RANDOM_BYTES: u64 = 660 << 20;

/// W2's memtables are smaller than those of other workloads by this factor, so that there are more
/// than ten of them in its time.
pub const SMALLER: usize = 8;

fn rows_of(context: &Context, bytes: u64, value_bytes: usize) -> u64 {
    context.rows(bytes / bytes_of(1, value_bytes))
}

/// Rows in the order of their keys, by commits of 1,000 and by what the engine has for it.
pub fn sequential(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let rows = rows_of(context, SEQUENTIAL_BYTES, value_bytes);
    let size = size_of(value_bytes);
    let engine = context.fresh("commits", &context.settings(Promise::Unsynced))?;
    let (mut values, mut latency_ns) = (Values::new(value_bytes, context.seed), histogram()?);
    let (cap, probe, mut written) = (Cap::new(context), Probe::start()?, 0);
    let mut batch = Batch::default();
    while written < rows && !cap.is_over() {
        batch.make(&mut values, written..written + PARTITION_ROWS, 0);
        let before = Instant::now();
        written += batch.commit(&*engine)?;
        latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
    }
    let name = format!("W1 sequential load, commits of 1,000{size}, settled");
    let line = settled(&probe, &*engine, name, (written, value_bytes))?;
    let line = line.disk(&context.dir, bytes_of(written, value_bytes))?;
    let line = line.timed(&latency_ns);
    check(&*engine, written, value_bytes)?;
    engine.close()?;
    let share = share_of_rows(written, rows);
    let crc = crc_of_rocksdb(context).map(|crc| format!("; {crc}")).unwrap_or_default();
    let mut lines = vec![line.note(share + &crc)];
    lines.extend(ingested(context, rows, value_bytes)?);
    Ok(lines)
}

/// How much of the rows there was time for: who loads less has less to merge and to settle.
fn share_of_rows(written: u64, rows: u64) -> String {
    format!("{:.0} % of the rows", written as f64 / rows as f64 * 100.0)
}

/// What RocksDB's own log says of its checksums: software is many times slower, and whether it is
/// used was decided when RocksDB was compiled.
fn crc_of_rocksdb(context: &Context) -> Option<String> {
    let log = std::fs::read_to_string(context.dir.join("commits/LOG")).ok()?;
    let line = log.lines().find(|line| line.contains("Fast CRC32 supported"))?;
    Some(line.split_once("Fast")?.1.trim().to_owned()).map(|what| format!("Fast {what}"))
}

fn ingested(context: &Context, rows: u64, value_bytes: usize) -> Result<Option<Line>> {
    let engine = context.fresh("ingested", &context.settings(Promise::Unsynced))?;
    let values = Values::new(value_bytes, context.seed);
    let probe = Probe::start()?;
    let mut in_order = InOrder { next: 0, end: rows, values, laps: Laps::of(LAP_ROWS)? };
    let Some(ingested) = engine.ingest(&mut in_order) else { return Ok(None) };
    ingested?;
    let name = format!("W1 sequential load, ingest{}, settled", size_of(value_bytes));
    let line = settled(&probe, &*engine, name, (rows, value_bytes))?;
    let line = line.disk(&context.dir.join("ingested"), bytes_of(rows, value_bytes))?;
    let line = line.in_laps(&in_order.laps, "each 1,000 rows given");
    check(&*engine, rows, value_bytes)?;
    engine.close()?;
    Ok(Some(line))
}

/// Rows in random order, one commit each, by one thread.
pub fn random(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let rows = rows_of(context, RANDOM_BYTES, value_bytes);
    let mut settings = context.settings(Promise::Unsynced);
    settings.memtable_bytes /= SMALLER;
    let engine = context.fresh("rows", &settings)?;
    let (mut values, mut latency_ns) = (Values::new(value_bytes, context.seed), histogram()?);
    let (mut key, mut sum) = (KeyBuf::default(), Sum::default());
    let (cap, probe) = (Cap::twice(context), Probe::start()?);
    for i in Shuffle::new(rows, context.seed) {
        let value = values.value(i, 0);
        sum.add(value);
        if sum.rows.is_multiple_of(8) {
            let before = Instant::now();
            engine.write(&[Change::Put(key.row(i), value)])?;
            latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
        } else {
            engine.write(&[Change::Put(key.row(i), value)])?;
        }
        if sum.rows.is_multiple_of(256) && cap.is_over() {
            break;
        }
    }
    let filled = probe.elapsed().as_secs_f64();
    let given = bytes_of(sum.rows, value_bytes).max(1);
    let written = probe.written()? as f64 / given as f64;
    let name = format!("W2 random fill, commits of 1{}, settled", size_of(value_bytes));
    let line = settled(&probe, &*engine, name, (sum.rows, value_bytes))?;
    let line = line.disk(&context.dir, bytes_of(sum.rows, value_bytes))?;
    let line = line.timed(&latency_ns);
    let before = sum.rows as f64 / filled;
    let share = share_of_rows(sum.rows, rows);
    let line = line.note(format!(
        "before settling {before:.0}/s and {written:.2} bytes written per byte; {share}"
    ));
    work::sum(&*engine, Direction::Forward)?.check(sum)?;
    engine.close()?;
    Ok(vec![line])
}

/// Settles, and ends the measurement with that.
fn settled(
    probe: &Probe,
    engine: &dyn Engine,
    name: String,
    (rows, value_bytes): (u64, usize),
) -> Result<Line> {
    let rest = engine.settle()?;
    let given = bytes_of(rows, value_bytes);
    probe.rate_written(Kind::Unsynced, name, "rows/s", (rows, given), rest)
}

fn check(engine: &dyn Engine, rows: u64, value_bytes: usize) -> Result<()> {
    work::sum(engine, Direction::Forward)?.check(Sum::of(0, rows, value_bytes))
}

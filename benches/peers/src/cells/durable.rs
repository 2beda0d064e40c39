//! W3, W4 and W5: commits that have reached the disk when they return.

use crate::engine::{Change, Direction, Engine, Pending, Promise};
use crate::probe::{Kind, Line, Probe};
use crate::rows::{KeyBuf, MEDIUM, PARTITION_ROWS, Values, size_of};
use crate::work::{self, Batch, Context, Written, bytes_of};
use anyhow::{Context as _, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tabulith::env::rng::Rng;
use tabulith_benches::overwrite::{BLOCK, Space};
use tabulith_results::latency::histogram;

/// Rows with values of 200 bytes that are chosen from at scale 1; of larger ones as many as take
/// the same bytes.
const ROWS: u64 = 500_000;

const BATCH_ROWS: u64 = 100;

/// How many times longer than others these lines are: a disk has its moods, which in 0.4 s weigh
/// more than commits do.
const LONGER: f64 = 3.0;

/// Memtables' worth of rows before the first line.
const USED_MEMTABLES: u64 = 3;

/// The same for longer.
pub fn longer(context: &Context) -> Context {
    Context { span: context.span.mul_f64(LONGER), ..context.clone() }
}

/// Fills the log as it is once a database is in use: with rows behind the first `rows`, settled;
/// returns how many. RocksDB writes over a file of its log once the memtable beside it has become a
/// file, which is so from the third one on; ours makes its first segments and uses them again from
/// then on.
pub fn use_log(
    context: &Context,
    engine: &dyn Engine,
    (rows, value_bytes): (u64, usize),
) -> Result<u64> {
    let bytes = context.settings(Promise::Durable).memtable_bytes as u64 * USED_MEMTABLES;
    let more = bytes.div_ceil(bytes_of(PARTITION_ROWS, value_bytes)) * PARTITION_ROWS;
    let first = rows.next_multiple_of(PARTITION_ROWS);
    let (mut values, mut batch) = (Values::new(value_bytes, context.seed), Batch::default());
    for first in (first..first + more).step_by(PARTITION_ROWS as usize) {
        batch.make(&mut values, first..first + PARTITION_ROWS, 0);
        batch.commit(engine)?;
    }
    engine.settle()?;
    Ok(more)
}

/// One row a commit, by 1, 8 and 32 writers.
pub fn single(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let context = &longer(context);
    let mut lines = vec![disk_alone(context, value_bytes)?];
    let engine = context.fresh("rows", &context.settings(Promise::Durable))?;
    let (rows, size) = (context.rows_like(ROWS, value_bytes), size_of(value_bytes));
    let used = use_log(context, &*engine, (rows, value_bytes))?;
    let written = Written::none_of(rows);
    for (workload, writers) in [("W3", 1), ("W4", 8), ("W4", 32)] {
        let name = format!("{workload} durable commits of 1{size}, writers: {writers}");
        let named = (Kind::Durable, name.as_str(), "commits/s");
        let (engine, written) = (&*engine, &written);
        lines.push(work::run(context, named, writers, 1, bytes_of(1, value_bytes), |thread| {
            let seed = context.seed + (writers * 100 + thread) as u64;
            let (mut rng, mut values) = (Rng::seeded(seed), Values::new(value_bytes, seed));
            let mut key = KeyBuf::default();
            move || {
                let i = rng.below(rows);
                written.begin(i);
                engine.write(&[Change::Put(key.row(i), values.value(i, 0))])?;
                written.done(i);
                Ok(1)
            }
        })?);
    }
    lines.extend(in_flight(context, &*engine, &written, (rows, value_bytes))?);
    written.check(work::sum(&*engine, Direction::Forward)?.rows - used)?;
    engine.close()?;
    Ok(lines)
}

/// The floor under every durable commit: 4 KiB over space that was written before, then a sync, in
/// each way that there is for as long as commits run. The fastest counts.
fn disk_alone(context: &Context, value_bytes: usize) -> Result<Line> {
    const FILE_BYTES: u64 = 16 << 20;
    let path = context.dir.join("disk");
    let space = Space::make(vec![path.clone()], FILE_BYTES)?;
    let before = if value_bytes == MEDIUM { ", before commits of 1 KiB" } else { "" };
    let name = format!("W3 the disk alone{before}: 4 KiB overwritten and synced");
    let probe = Probe::start()?;
    let ways = space.measure(BLOCK, context.span)?;
    let all: u64 = ways.iter().map(|(_, sample)| sample.ops).sum();
    let line = probe.rate(Kind::Machine, name, "syncs/s", all, Duration::ZERO)?;
    std::fs::remove_file(&path)?;
    let said: Vec<_> = ways
        .iter()
        .map(|(way, sample)| format!("{} {:.0}/s", way.words(), sample.rate()))
        .collect();
    let (_, fastest) = ways.first().context("no way to write")?;
    let line = Line {
        value: fastest.rate(),
        ops: fastest.ops,
        seconds: fastest.elapsed.as_secs_f64(),
        cpu_us: fastest.cpu_us(),
        ..line.note(said.join("; "))
    };
    Ok(line.timed(&fastest.latency_ns))
}

/// One thread that begins a commit as soon as the oldest of 32 is durable, where the engine can
/// begin one without waiting for it.
fn in_flight(
    context: &Context,
    engine: &dyn Engine,
    written: &Written,
    (rows, value_bytes): (u64, usize),
) -> Result<Option<Line>> {
    const IN_FLIGHT: usize = 32;
    let (mut key, mut values) = (KeyBuf::default(), Values::new(value_bytes, context.seed));
    written.begin(0);
    let Some(first) = engine.begin(Change::Put(key.row(0), values.value(0, 0))) else {
        return Ok(None);
    };
    first?()?;
    let size = size_of(value_bytes);
    let name = format!("W4 durable commits of 1{size}, in flight from one thread: {IN_FLIGHT}");
    let named = (Kind::Durable, name.as_str(), "commits/s");
    // A call begins one commit and waits for another: its time is not a commit's.
    let latency_ns = Mutex::new(histogram()?);
    let line = work::run(context, named, 1, 1, bytes_of(1, value_bytes), |_| {
        let (mut key, mut values) = (KeyBuf::default(), Values::new(value_bytes, context.seed));
        let (mut rng, mut pending) = (Rng::seeded(context.seed), VecDeque::new());
        let latency_ns = &latency_ns;
        move || {
            let (i, begin) = (rng.below(rows), Instant::now());
            written.begin(i);
            if let Some(begun) = engine.begin(Change::Put(key.row(i), values.value(i, 0))) {
                pending.push_back((i, begun?, begin));
            }
            if pending.len() < IN_FLIGHT {
                return Ok(0);
            }
            let Some((i, oldest, begin)): Option<(_, Pending, _)> = pending.pop_front() else {
                return Ok(0);
            };
            oldest()?;
            written.done(i);
            record(latency_ns, begin)?;
            Ok(1)
        }
    })?;
    Ok(Some(timed(line, latency_ns)?))
}

/// What began at `begin` is over.
fn record(latency_ns: &Mutex<Histogram<u64>>, begin: Instant) -> Result<()> {
    let took = begin.elapsed().as_nanos() as u64;
    latency_ns.lock().map_err(|_| anyhow!("a panic"))?.saturating_record(took);
    Ok(())
}

fn timed(line: Line, latency_ns: Mutex<Histogram<u64>>) -> Result<Line> {
    Ok(line.timed(&latency_ns.into_inner().map_err(|_| anyhow!("a panic"))?))
}

/// 100 neighbouring rows a commit, by 1 and 8 writers.
pub fn batches(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let context = &longer(context);
    let engine = context.fresh("rows", &context.settings(Promise::Durable))?;
    let rows = context.rows_like(ROWS, value_bytes);
    let partitions = rows / PARTITION_ROWS;
    let used = use_log(context, &*engine, (rows, value_bytes))?;
    let mut lines = Vec::new();
    let committed = AtomicU64::new(0);
    for writers in [1, 8] {
        let size = size_of(value_bytes);
        let name = format!("W5 durable commits of 100{size}, writers: {writers}");
        let named = (Kind::Durable, name.as_str(), "commits/s");
        let (engine, committed): (&dyn Engine, _) = (&*engine, &committed);
        let given = bytes_of(BATCH_ROWS, value_bytes);
        // A call makes its rows as well: its time is not the commit's.
        let latency_ns = Mutex::new(histogram()?);
        let line = work::run(context, named, writers, 1, given, |thread| {
            let seed = context.seed + (writers * 100 + thread) as u64;
            let (mut rng, mut values) = (Rng::seeded(seed), Values::new(value_bytes, seed));
            let (mut batch, latency_ns) = (Batch::default(), &latency_ns);
            move || {
                let first = rng.below(PARTITION_ROWS / BATCH_ROWS) * BATCH_ROWS;
                let first = rng.below(partitions) * PARTITION_ROWS + first;
                batch.make(&mut values, first..first + BATCH_ROWS, 0);
                let before = Instant::now();
                batch.commit(engine)?;
                record(latency_ns, before)?;
                committed.fetch_add(1, Ordering::Relaxed);
                Ok(1)
            }
        })?;
        lines.push(timed(line, latency_ns)?);
    }
    let rows = work::sum(&*engine, Direction::Forward)?.rows - used;
    let most = committed.into_inner() * BATCH_ROWS;
    ensure!(
        rows > 0 && rows.is_multiple_of(BATCH_ROWS) && rows <= most,
        "{rows} rows of at most {most} are there"
    );
    engine.close()?;
    Ok(lines)
}

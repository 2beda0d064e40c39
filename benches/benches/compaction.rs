//! Background work by itself, on one thread: a flush, a merge of eight files, an ingest; bytes of
//! table files per second.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]
#![allow(clippy::disallowed_methods, reason = "a program of measurements, as the library says")]

use anyhow::{Context as _, Result};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::time::{Duration, Instant};
use tabulith::options::Durability;
use tabulith_benches::fixture::{self, Store};
use tabulith_benches::rows::{self, PARTITION_ROWS, Values};
use tempfile::TempDir;

/// Rows of one measurement.
const ROWS: u64 = 200_000;

/// Files that are merged; each has every 8th row, so that no block is spared.
const FILES: u64 = 8;

/// A database in a folder of its own.
struct Bench {
    store: Store,
    _dir: TempDir,
}

impl Bench {
    fn new() -> Result<Bench> {
        let dir = fixture::folder()?;
        let store = Store::open(dir.path(), Durability::Buffered, None)?;
        Ok(Bench { store, _dir: dir })
    }

    /// Puts one of the files' rows into the memtable.
    fn fill(&self, file: u64, values: &mut Values) -> Result<()> {
        for first in (0..ROWS).step_by(PARTITION_ROWS as usize) {
            let mut batch = self.store.table.partition(rows::keys(first).0).batch();
            for i in (first + file..first + PARTITION_ROWS).step_by(FILES as usize) {
                batch = batch.upsert(rows::keys(i).1, values.value());
            }
            batch.commit()?;
        }
        Ok(())
    }

    /// The time of all flushes, and that of the merge of what they wrote.
    fn flush_and_merge(&self) -> Result<(Duration, Duration)> {
        let (mut values, mut flushed) = (Values::new(1), Duration::ZERO);
        for file in 0..FILES {
            self.fill(file, &mut values)?;
            let start = Instant::now();
            self.store.db.flush()?;
            flushed += start.elapsed();
        }
        let start = Instant::now();
        self.store.db.compact()?;
        Ok((flushed, start.elapsed()))
    }

    fn ingest(&self) -> Result<Duration> {
        let mut values = Values::new(1);
        let start = Instant::now();
        let mut ingest = self.store.table.ingest()?;
        for i in 0..ROWS {
            let (pk, rk) = rows::keys(i);
            ingest.add(pk, rk, values.value())?;
        }
        ingest.finish()?;
        Ok(start.elapsed())
    }
}

/// The sum of what `one` measures `count` times. A failure ends the run.
fn times(count: u64, mut one: impl FnMut() -> Result<Duration>) -> Duration {
    (0..count).map(|_| one().context("a measurement").unwrap_or_else(|e| panic!("{e:#}"))).sum()
}

fn background(c: &mut Criterion) {
    let once = || -> Result<_> {
        let bench = Bench::new()?;
        bench.flush_and_merge()?;
        anyhow::ensure!(bench.store.table.count()? == ROWS, "every row is there");
        Ok(bench.store.db.stats())
    };
    let stats = once().unwrap_or_else(|e| panic!("{e:#}"));
    let mut group = c.benchmark_group("background");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(stats.flushed_bytes));
    group.bench_function("flush", |b| {
        b.iter_custom(|n| times(n, || Ok(Bench::new()?.flush_and_merge()?.0)))
    });
    group.throughput(Throughput::Bytes(stats.compaction_bytes_read));
    group.bench_function("merge of eight files", |b| {
        b.iter_custom(|n| times(n, || Ok(Bench::new()?.flush_and_merge()?.1)))
    });
    group.throughput(Throughput::Elements(ROWS));
    group
        .bench_function("ingest, rows", |b| b.iter_custom(|n| times(n, || Bench::new()?.ingest())));
    group.finish();
}

criterion_group!(benches, background);
criterion_main!(benches);

//! Merges of table files: as a scan makes them, out of the block cache and in either order of its
//! sources; and as a compaction reads, out of the files.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tabulith::structures::{KeyValue, Runs};
use tabulith_benches::fixture::key_values;

/// Rows of all runs together.
const ROWS: u64 = 100_000;

/// So many rows in a row come from one run, where runs lie beside one another.
const STRETCH_ROWS: u64 = 1000;

/// The rows whose turn it is are those of run `run` of `runs`, `stretch` rows at a turn.
fn runs(runs: u64, stretch: u64) -> Vec<Vec<KeyValue>> {
    let of_run = |run| key_values((0..ROWS).filter(move |i| i / stretch % runs == run));
    (0..runs).map(of_run).collect()
}

fn merges(c: &mut Criterion) {
    let shapes = [
        ("one run", runs(1, 1)),
        ("eight runs, row by row", runs(8, 1)),
        ("eight runs, in stretches of 1,000", runs(8, STRETCH_ROWS)),
    ];
    for (name, rows) in shapes {
        let bytes: usize = rows.iter().flatten().map(|(key, value)| key.len() + value.len()).sum();
        let files = Runs::of(&rows).expect("rows in order");
        assert_eq!((files.scan().ok(), files.compact().ok()), (Some(bytes), Some(bytes)));
        let mut group = c.benchmark_group(format!("merge of {name}"));
        group.sample_size(10);
        group.throughput(Throughput::Elements(ROWS));
        group.bench_function("for a scan", |b| b.iter(|| files.scan()));
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function("for a compaction", |b| b.iter(|| files.compact()));
        group.finish();
    }
}

criterion_group!(merge, merges);
criterion_main!(merge);

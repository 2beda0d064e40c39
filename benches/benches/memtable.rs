//! The memtable alone, filled to about 64 MiB: inserts by the order that keys come in, overwrites,
//! gets, and walks both ways.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tabulith::structures::Memory;
use tabulith_benches::fixture::{self, key};

/// Rows of a memtable of about 64 MiB.
const ROWS: u64 = 200_000;

/// Rows that a batch adds one behind the other.
const RUN_ROWS: u64 = 100;

const VALUE: [u8; 200] = [7; 200];

fn random(seed: u64) -> Vec<Vec<u8>> {
    fixture::random(seed, ROWS, ROWS * 3).map(key).collect()
}

fn runs() -> Vec<Vec<u8>> {
    let starts = fixture::random(2, ROWS / RUN_ROWS, ROWS * 3);
    starts.flat_map(|start| (start..start + RUN_ROWS).map(key)).collect()
}

fn filled(keys: &[Vec<u8>]) -> Memory {
    let memory = Memory::default();
    for (ts, key) in (1..).zip(keys) {
        memory.insert(key, ts, &VALUE);
    }
    memory
}

/// One memtable a sample: how fast a row is depends on how many there are.
fn inserts(c: &mut Criterion) {
    let mut group = c.benchmark_group("memtable, 200 thousand rows");
    group.sample_size(10);
    let ascending: Vec<_> = (0..ROWS).map(key).collect();
    for (name, keys) in [("random", random(1)), ("in runs", runs()), ("ascending", ascending)] {
        group.bench_function(format!("insert, {name}"), |b| {
            b.iter_batched(|| (), |()| filled(&keys), BatchSize::PerIteration)
        });
    }
    let keys = random(1);
    group.bench_function("overwrite, random", |b| {
        let overwrite = |memory: Memory| {
            for (ts, key) in (ROWS + 1..).zip(&keys) {
                memory.insert(key, ts, &VALUE);
            }
            memory
        };
        b.iter_batched(|| filled(&keys), overwrite, BatchSize::PerIteration)
    });
    group.finish();
}

fn reads(c: &mut Criterion) {
    let keys = random(1);
    let memory = filled(&keys);
    assert!(keys.iter().all(|key| memory.get(key).is_some_and(|value| value == VALUE[..])));
    let mut present = keys.iter().cycle();
    c.bench_function("memtable: get", |b| b.iter(|| present.next().map(|key| memory.get(key))));
    let others = random(9);
    let mut others = others.iter().cycle();
    c.bench_function("memtable: get, mostly absent", |b| {
        b.iter(|| others.next().map(|key| memory.get(key)))
    });
    for (name, up) in [("up", true), ("down", false)] {
        let mut from = keys.iter().cycle();
        c.bench_function(&format!("memtable: seek and 50 rows {name}"), |b| {
            b.iter(|| from.next().map(|key| black_box(memory.scan(key, up, 50))))
        });
    }
}

fn all(c: &mut Criterion) {
    inserts(c);
    reads(c);
}

criterion_group!(memtable, all);
criterion_main!(memtable);

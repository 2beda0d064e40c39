//! Designs that the engine has beside those that lost to them: a tree with a hash index against a
//! skiplist, for the memtable; fingerprints against a sidecar of codes, for a block.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tabulith::structures::{DataBlock, Memory};
use tabulith_benches::fixture::{self, hashed_key, key, key_values};
use tabulith_benches::rivals::sidecar::Sidecar;
use tabulith_benches::rivals::skiplist::SkipList;

/// Rows of a memtable of about 64 MiB.
const ROWS: u64 = 200_000;

const VALUE: [u8; 200] = [7; 200];

fn tree(keys: &[Vec<u8>]) -> Memory {
    let memory = Memory::default();
    (1..).zip(keys).for_each(|(ts, key)| memory.insert(key, ts, &VALUE));
    memory
}

fn skiplist(keys: &[Vec<u8>]) -> SkipList {
    let mut list = SkipList::default();
    (1..).zip(keys).for_each(|(ts, key)| list.insert(key, ts, &VALUE));
    list
}

fn memtable(c: &mut Criterion) {
    let random: Vec<_> = fixture::random(1, ROWS, ROWS * 3).map(key).collect();
    let starts = fixture::random(2, ROWS / 100, ROWS * 3);
    let runs = starts.flat_map(|start| (start..start + 100).map(key)).collect();
    let mut group = c.benchmark_group("200 thousand rows");
    group.sample_size(10);
    for (name, keys) in [("random", random.clone()), ("in runs", runs)] {
        group.bench_function(format!("tree: insert, {name}"), |b| {
            b.iter_batched(|| (), |()| tree(&keys), BatchSize::PerIteration)
        });
        group.bench_function(format!("skiplist: insert, {name}"), |b| {
            b.iter_batched(|| (), |()| skiplist(&keys), BatchSize::PerIteration)
        });
    }
    group.finish();
    let (tree, skiplist) = (tree(&random), skiplist(&random));
    let mut keys = random.iter().cycle();
    c.bench_function("tree: get", |b| b.iter(|| keys.next().map(|key| tree.get(key))));
    c.bench_function("skiplist: get", |b| {
        b.iter(|| keys.next().map(|key| skiplist.get(key).map(<[u8]>::len)))
    });
    c.bench_function("tree: seek and 50 rows", |b| {
        b.iter(|| keys.next().map(|key| black_box(tree.scan(key, true, 50))))
    });
    c.bench_function("skiplist: seek and 50 rows", |b| {
        b.iter(|| keys.next().map(|key| black_box(skiplist.scan(key, 50))))
    });
}

/// One lookup in each of many blocks, which the processor's caches do not hold, by `rows` of a
/// block.
fn block(c: &mut Criterion, rows: u64, blocks: u64) {
    let all: Vec<_> = (0..blocks).map(|n| n * rows..(n + 1) * rows).collect();
    let decode = |rows: &std::ops::Range<u64>| {
        let bytes = DataBlock::encode(&key_values(rows.clone()));
        DataBlock::decode(&bytes).expect("as encoded")
    };
    let prints: Vec<_> = all.iter().map(decode).collect();
    let beside =
        |rows: &std::ops::Range<u64>| Sidecar::of(&rows.clone().map(key).collect::<Vec<_>>());
    let sidecars: Vec<_> = all.iter().map(beside).collect();
    let lookups: Vec<_> = fixture::random(3, 50_000, blocks * rows).collect();
    let lookups: Vec<_> = lookups.iter().map(|i| ((i / rows) as usize, hashed_key(*i))).collect();
    for (n, (key, hash)) in &lookups {
        assert_eq!(prints[*n].find(key, *hash), sidecars[*n].find(key));
    }
    let name = format!("{blocks} blocks of {rows} rows");
    let mut next = lookups.iter().cycle();
    c.bench_function(&format!("{name}: find by fingerprint"), |b| {
        b.iter(|| next.next().map(|(n, (key, hash))| prints[*n].find(key, *hash)))
    });
    c.bench_function(&format!("{name}: find by sidecar"), |b| {
        b.iter(|| next.next().map(|(n, (key, _))| sidecars[*n].find(key)))
    });
}

fn all(c: &mut Criterion) {
    memtable(c);
    for (rows, blocks) in [(16, 1), (64, 1), (16, 20_000), (64, 5_000)] {
        block(c, rows, blocks);
    }
}

criterion_group!(rivals, all);
criterion_main!(rivals);

//! What a point read touches of a table file, piece by piece: filter, index, block; and what it
//! costs to decode a block that no cache has.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use tabulith::structures::{BlockIndex, DataBlock, RowFilter};
use tabulith_benches::fixture::{hashed_key, key, key_values, random};

/// Rows of a block of 4 KiB.
const BLOCK_ROWS: u64 = 16;

/// Rows of the file that filter and index are of: 128 MB of values in one file of a deep level.
const FILE_ROWS: u64 = 500_000;

/// Lookups are taken from so many, more than the nearest caches of a processor hold.
const LOOKUPS: u64 = 20_000;

fn filter(c: &mut Criterion) {
    let hashes = |rows: &mut dyn Iterator<Item = u64>| rows.map(|i| hashed_key(i).1).collect();
    let inside: Vec<_> = hashes(&mut (0..FILE_ROWS));
    let filter = RowFilter::of(&inside);
    let present: Vec<u64> = hashes(&mut random(1, LOOKUPS, FILE_ROWS));
    let absent: Vec<u64> = hashes(&mut random(2, LOOKUPS, FILE_ROWS).map(|i| FILE_ROWS + i));
    assert!(present.iter().all(|hash| filter.may_hold(*hash)));
    assert!(absent.iter().filter(|hash| filter.may_hold(**hash)).count() < LOOKUPS as usize / 20);
    for (name, hashes) in [("present", present), ("absent", absent)] {
        let mut hashes = hashes.iter().cycle();
        c.bench_function(&format!("filter: probe, {name}"), |b| {
            b.iter(|| hashes.next().map(|hash| filter.may_hold(*hash)))
        });
    }
}

fn index(c: &mut Criterion) {
    let last_rows = (0..FILE_ROWS).skip(BLOCK_ROWS as usize - 1).step_by(BLOCK_ROWS as usize);
    let index = BlockIndex::of(&last_rows.map(key).collect::<Vec<_>>()).expect("keys ascend");
    let sought: Vec<_> = random(3, LOOKUPS, FILE_ROWS).collect();
    let keys: Vec<_> = sought.iter().map(|i| key(*i)).collect();
    for (i, key) in sought.iter().zip(&keys) {
        assert_eq!(index.seek(key), Some((i / BLOCK_ROWS) as usize), "row {i}");
    }
    let mut keys = keys.iter().cycle();
    c.bench_function("index of 31,250 blocks: seek", |b| {
        b.iter(|| keys.next().map(|key| index.seek(key)))
    });
}

fn block(c: &mut Criterion) {
    let bytes = DataBlock::encode(&key_values(0..BLOCK_ROWS));
    let block = DataBlock::decode(&bytes).expect("as encoded");
    let keys: Vec<_> = (0..BLOCK_ROWS).map(hashed_key).collect();
    for (row, (key, hash)) in keys.iter().enumerate() {
        assert_eq!((block.find(key, *hash), block.lower_bound(key)), (Some(row), row));
    }
    let mut found = keys.iter().cycle();
    c.bench_function("block of 16 rows: find a key", |b| {
        b.iter(|| found.next().map(|(key, hash)| block.find(key, *hash)))
    });
    let mut sought = keys.iter().cycle();
    c.bench_function("block of 16 rows: seek a place", |b| {
        b.iter(|| sought.next().map(|(key, _)| block.lower_bound(key)))
    });
    let mut group = c.benchmark_group("block of 16 rows");
    group.throughput(Throughput::Elements(BLOCK_ROWS));
    group.bench_function("decode", |b| b.iter(|| DataBlock::decode(black_box(&bytes))));
    group.finish();
}

criterion_group!(table_file, filter, index, block);
criterion_main!(table_file);

//! The caches of blocks and of rows: hits and misses, of random places over more memory than the
//! processor's own caches have.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use tabulith::structures::{Blocks, DataBlock, Rows};
use tabulith_benches::fixture::{hashed_key, key_values, random};

/// What is held; the cache has room for twice as much.
const BLOCKS: u64 = 20_000;
const ROWS: u64 = 200_000;
const CACHE_BYTES: usize = 256 << 20;

const LOOKUPS: u64 = 20_000;

fn blocks(c: &mut Criterion) {
    let cache = Blocks::new(CACHE_BYTES);
    let bytes = DataBlock::encode(&key_values(0..16));
    for number in 0..BLOCKS {
        cache.insert(number, &DataBlock::decode(&bytes).expect("as encoded"));
    }
    assert!((0..BLOCKS).all(|number| cache.get(number).is_some()));
    for (name, first) in [("hit", 0), ("miss", BLOCKS)] {
        let numbers: Vec<_> = random(1, LOOKUPS, BLOCKS).map(|number| first + number).collect();
        let mut numbers = numbers.iter().cycle();
        c.bench_function(&format!("block cache: {name}"), |b| {
            b.iter(|| numbers.next().map(|number| cache.get(*number).is_some()))
        });
    }
}

fn rows(c: &mut Criterion) {
    let cache = Rows::new(CACHE_BYTES);
    let value = Bytes::from(vec![7; 200]);
    // A cache that grows forgets some rows, and they are read anew.
    for (key, hash) in (0..2 * ROWS).map(|i| hashed_key(i % ROWS)) {
        if cache.get(&key, hash).is_none() {
            cache.add(&key, hash, &value);
        }
    }
    let mut held: Vec<_> = random(2, LOOKUPS, ROWS).map(hashed_key).collect();
    held.retain(|(key, hash)| cache.get(key, *hash).is_some_and(|found| found == value));
    assert!(held.len() as u64 > LOOKUPS / 10 * 9, "{} of {LOOKUPS} are held", held.len());
    let absent = random(2, LOOKUPS, ROWS).map(|i| hashed_key(ROWS + i)).collect();
    for (name, keys) in [("hit", held), ("miss", absent)] {
        let mut keys = keys.iter().cycle();
        c.bench_function(&format!("row cache: {name}"), |b| {
            b.iter(|| keys.next().map(|(key, hash)| cache.get(key, *hash)))
        });
    }
}

criterion_group!(caches, blocks, rows);
criterion_main!(caches);

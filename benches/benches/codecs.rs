//! Keys and entities as bytes and back.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use tabulith::ids::TableId;
use tabulith::key::{hash, order};
use tabulith::structures::{decode_entity, encode_entity, has_property};
use tabulith_benches::{fixture, rows};

fn keys(c: &mut Criterion) {
    let (pk, rk) = rows::keys(12_345);
    let key = fixture::key(12_345);
    let (table, partition_key, row_key) = order::split(&key).expect("a row's key");
    assert_eq!((table, &*partition_key, row_key), (TableId(7), pk.as_bytes(), rk.as_bytes()));
    let prefix_len = order::prefix_len(&key).expect("a row's key");
    c.bench_function("key: encode", |b| {
        b.iter(|| order::row_key(TableId(7), black_box(pk.as_bytes()), rk.as_bytes()))
    });
    c.bench_function("key: split", |b| b.iter(|| order::split(black_box(&key))));
    c.bench_function("key: both hashes", |b| b.iter(|| hash::of(black_box(&key), prefix_len)));
}

fn entities(c: &mut Criterion) {
    let properties = fixture::properties();
    let bytes = encode_entity(&properties);
    assert_eq!(decode_entity(&bytes).expect("as encoded"), properties);
    assert!(has_property(&bytes, "Property9").expect("as encoded"));
    c.bench_function("entity of 10 properties: encode", |b| {
        b.iter(|| encode_entity(black_box(&properties)))
    });
    c.bench_function("entity of 10 properties: decode", |b| {
        b.iter(|| decode_entity(black_box(&bytes)))
    });
    c.bench_function("entity of 10 properties: find the last", |b| {
        b.iter(|| has_property(black_box(&bytes), "Property9"))
    });
}

criterion_group!(codecs, keys, entities);
criterion_main!(codecs);

//! Keys: the order of tuples is the order of their bytes, both ways; no other bytes are a key.
//!
//! Input: two rows, each a table, a PartitionKey and a RowKey; the rest is read as a key.

use crate::input::{Input, text};
use std::cmp::Ordering;
use tabulith::ids::TableId;
use tabulith::internals;
use tabulith::key::order;
use tabulith::key::range::KeyRange;

/// Compares the rows of the input with the bytes of their keys, and their texts with theirs.
pub fn key_order(data: &[u8]) {
    let mut input = Input::new(data);
    let row = |input: &mut Input<'_>| {
        let table = TableId(input.u32());
        (table, input.short().to_vec(), input.short().to_vec())
    };
    let (a, b) = (row(&mut input), row(&mut input));
    let [key_a, key_b] = [&a, &b].map(|(table, pk, rk)| order::row_key(*table, pk, rk));
    assert_eq!(a.cmp(&b), key_a.cmp(&key_b), "{a:?} and {b:?}");
    let (table, pk, rk) = order::split(&key_a).expect("a key splits");
    assert_eq!((table, &*pk, rk), (a.0, a.1.as_slice(), a.2.as_slice()), "a key comes back");
    check_partition(&key_a, &key_b, (a.0, &a.1) == (b.0, &b.1));
    assert_eq!(KeyRange::table(a.0).contains(&key_b), a.0 == b.0, "a table's keys");
    check_texts(&text(&a.1), &text(&b.1));
    check_any(input.rest());
}

/// The keys of a partition start with its prefix and lie before its end; no others do.
fn check_partition(a: &[u8], b: &[u8], same: bool) {
    let prefix = &a[..order::prefix_len(a).expect("a key has a prefix")];
    assert_eq!(b.starts_with(prefix), same, "a prefix is of one partition");
    let within = *b >= *prefix && *b < *order::partition_end(prefix);
    assert_eq!(within, same, "a partition has an end");
}

/// Azure orders keys by their UTF-16 units.
fn check_texts(a: &str, b: &str) {
    let by_units = a.encode_utf16().cmp(b.encode_utf16());
    let [bytes_a, bytes_b] = [a, b].map(internals::key_bytes);
    assert_eq!(bytes_a.cmp(&bytes_b), by_units, "{a:?} and {b:?}");
    assert_eq!(internals::compare_keys(a, b), by_units, "{a:?} and {b:?}");
    assert_eq!(internals::key_text(&bytes_a).as_deref(), Some(a), "a text comes back");
}

/// Bytes are no key, or exactly what their parts make.
fn check_any(bytes: &[u8]) {
    if let Some((table, pk, rk)) = order::split(bytes) {
        assert_eq!(order::row_key(table, &pk, rk), bytes, "a key has one encoding");
    }
    if let Some(text) = internals::key_text(bytes) {
        assert_eq!(internals::key_bytes(&text), bytes, "a key's text has one encoding");
        assert_eq!(internals::compare_keys(&text, &text), Ordering::Equal);
    }
}

//! The memtable's readers beside its writer.

use super::every_order::{holds, needs};
use crate::chunks::SpareChunks;
use crate::cursor::Cursor;
use crate::ids::{CommitTs, RowKind};
use crate::key::hash;
use crate::memtable::api::Memtable;
use crate::memtable::table::new_memtable;
use loom::thread;
use std::sync::Arc;

const LARGE: usize = 16 << 10;

fn put(table: &Arc<dyn Memtable>, key: u8, ts: u64, value: &[u8]) {
    table.insert(&[key], CommitTs(ts), RowKind::Put, value);
}

/// What a reader of the newest commit finds: timestamp and value.
fn get(table: &Arc<dyn Memtable>, key: u8, at: CommitTs) -> Option<(u64, Vec<u8>)> {
    let found = table.get(&[key], hash::of_row(&[key]), at)?;
    assert_eq!(found.kind, RowKind::Put);
    Some((found.ts.0, found.value.to_vec()))
}

fn is_one_of<T: PartialEq + std::fmt::Debug>(found: T, wanted: &[T]) {
    assert!(wanted.contains(&found), "{found:?}");
}

fn up(table: &Arc<dyn Memtable>) -> Vec<u8> {
    let (mut cursor, mut keys) = (Arc::clone(table).cursor(), Vec::new());
    cursor.seek(b"", CommitTs::MAX).expect("memory");
    while cursor.valid() {
        keys.push(cursor.key()[0]);
        cursor.next().expect("memory");
    }
    keys
}

fn down(table: &Arc<dyn Memtable>) -> Vec<u8> {
    let (mut cursor, mut keys) = (Arc::clone(table).cursor(), Vec::new());
    cursor.seek_before(b"\xff").expect("memory");
    while cursor.valid() {
        keys.push(cursor.key()[0]);
        cursor.prev().expect("memory");
    }
    keys.reverse();
    keys
}

/// Rows that were there are met, others may be; each once, in order.
fn holds_all_of(keys: &[u8], old: &[u8], new: &[u8]) {
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
    assert!(old.iter().all(|key| keys.contains(key)), "{keys:?}");
    assert!(keys.iter().all(|key| old.contains(key) || new.contains(key)), "{keys:?}");
}

/// A new row and a new version of an old one are found whole or not at all.
fn points() {
    let table = new_memtable(&SpareChunks::none());
    put(&table, b'a', 1, b"one");
    let writer = Arc::clone(&table);
    let writing = thread::spawn(move || {
        put(&writer, b'a', 2, b"two");
        put(&writer, b'b', 3, b"three");
    });
    is_one_of(
        get(&table, b'a', CommitTs::MAX),
        &[Some((1, b"one".to_vec())), Some((2, b"two".to_vec()))],
    );
    assert_eq!(get(&table, b'a', CommitTs(1)), Some((1, b"one".to_vec())));
    if get(&table, b'b', CommitTs::MAX).is_some() {
        assert_eq!(get(&table, b'b', CommitTs::MAX), Some((3, b"three".to_vec())));
        assert_eq!(get(&table, b'a', CommitTs::MAX), Some((2, b"two".to_vec())));
    }
    writing.join().expect("the writer ends");
    assert_eq!(get(&table, b'b', CommitTs::MAX), Some((3, b"three".to_vec())));
}

/// A hash table that grows, and a large value that is kept outside of the arena.
fn growth() {
    let table = new_memtable(&SpareChunks::none());
    (0..6).for_each(|key| put(&table, key, 1, b"old"));
    let large = vec![7; LARGE];
    let writer = (Arc::clone(&table), large.clone());
    let writing = thread::spawn(move || {
        put(&writer.0, 6, 2, &writer.1);
        put(&writer.0, 7, 3, b"new");
    });
    for key in 0..6 {
        assert_eq!(get(&table, key, CommitTs::MAX), Some((1, b"old".to_vec())), "{key}");
    }
    is_one_of(get(&table, 6, CommitTs::MAX), &[None, Some((2, large))]);
    writing.join().expect("the writer ends");
    assert!((0..8).all(|key| get(&table, key, CommitTs::MAX).is_some()));
}

/// A walk up over a leaf that becomes two.
fn walk_up() {
    let table = new_memtable(&SpareChunks::none());
    [10, 20, 30].into_iter().for_each(|key| put(&table, key, 1, b"old"));
    let writer = Arc::clone(&table);
    let writing = thread::spawn(move || {
        put(&writer, 25, 2, b"new");
        put(&writer, 5, 3, b"new");
    });
    holds_all_of(&up(&table), &[10, 20, 30], &[25, 5]);
    writing.join().expect("the writer ends");
    assert_eq!(up(&table), [5, 10, 20, 25, 30]);
}

/// A walk down over the same.
fn walk_down() {
    let table = new_memtable(&SpareChunks::none());
    [10, 20, 30].into_iter().for_each(|key| put(&table, key, 1, b"old"));
    let writer = Arc::clone(&table);
    let writing = thread::spawn(move || {
        put(&writer, 25, 2, b"new");
        put(&writer, 5, 3, b"new");
    });
    holds_all_of(&down(&table), &[10, 20, 30], &[25, 5]);
    writing.join().expect("the writer ends");
    assert_eq!(down(&table), [5, 10, 20, 25, 30]);
}

/// Four full leaves below a full inner node.
fn full() -> Arc<dyn Memtable> {
    let table = new_memtable(&SpareChunks::none());
    (1..=12).for_each(|key| put(&table, key * 10, 1, b"old"));
    table
}

/// Searches while the root becomes two, and another one above them.
fn halves() {
    let table = full();
    let writer = Arc::clone(&table);
    let writing = thread::spawn(move || put(&writer, 5, 2, b"new"));
    let mut cursor = Arc::clone(&table).cursor();
    cursor.seek(&[30], CommitTs::MAX).expect("memory");
    assert!(cursor.valid() && cursor.key() == [30]);
    cursor.seek(&[70], CommitTs::MAX).expect("memory");
    assert!(cursor.valid() && cursor.key() == [70]);
    writing.join().expect("the writer ends");
    assert_eq!(up(&table).len(), 13);
}

/// A search from above while a leaf below the root becomes two: the row that it wants goes to the
/// upper one.
fn from_above() {
    let table = new_memtable(&SpareChunks::none());
    (1..=6).for_each(|key| put(&table, key * 10, 1, b"old"));
    let writer = Arc::clone(&table);
    let writing = thread::spawn(move || put(&writer, 5, 2, b"new"));
    let mut cursor = Arc::clone(&table).cursor();
    cursor.seek_before(&[31]).expect("memory");
    assert!(cursor.valid() && cursor.key() == [30], "{:?}", cursor.key());
    writing.join().expect("the writer ends");
}

#[test]
fn rows_and_versions_are_found_whole() {
    holds(points, 100);
}

#[test]
fn a_hash_table_that_grows_loses_no_row() {
    holds(growth, 10);
}

#[test]
fn a_walk_up_meets_every_row_that_was_there() {
    holds(walk_up, 20);
}

#[test]
fn a_walk_down_meets_every_row_that_was_there() {
    holds(walk_down, 20);
}

#[test]
fn a_search_goes_right_while_inner_nodes_are_halved() {
    holds(halves, 20);
}

#[test]
fn a_search_from_above_misses_no_row_that_moved() {
    holds(from_above, 20);
}

#[test]
fn points_need_what_publishes_a_row() {
    needs(points, "tagged");
    needs(points, "ref");
}

#[test]
fn growth_needs_what_publishes_a_table() {
    needs(growth, "tagged");
}

#[test]
fn walks_need_what_publishes_a_node_and_a_slot() {
    needs(walk_up, "ref");
    needs(walk_down, "ref");
    needs(walk_up, "order");
}

#[test]
fn a_search_needs_its_second_look() {
    needs(from_above, "look again");
}

//! The caches beside what makes them forget.

use super::every_order::{holds, needs};
use crate::cache::{BlockPlace, Cache};
use crate::cursor::Found;
use crate::ids::{CommitTs, FileNo, RowKind};
use crate::key::hash;
use crate::row_cache::RowCache;
use bytes::Bytes;
use loom::thread;
use std::sync::Arc;

fn place(offset: u64) -> BlockPlace {
    BlockPlace { file: FileNo(1), offset }
}

/// Blocks come in from two sides and push each other out.
fn eviction() {
    let cache = Arc::new(Cache::<u64>::new(200));
    let other = Arc::clone(&cache);
    let inserting = thread::spawn(move || {
        other.insert(place(1), Arc::new(1), 100);
        other.insert(place(2), Arc::new(2), 100);
    });
    let held = cache.insert(place(1), Arc::new(1), 100);
    assert_eq!(*held, 1);
    for _ in 0..2 {
        cache.insert(place(3), Arc::new(3), 100); // What comes once pushes nothing out.
    }
    if let Some(block) = cache.get(place(2)) {
        assert_eq!(*block, 2);
    }
    inserting.join().expect("it ends");
    let counts = cache.counts();
    assert!(counts.bytes <= 200 && counts.blocks * 100 == counts.bytes, "{counts:?}");
}

/// A block comes in while the cache is made smaller.
fn shrinking() {
    let cache = Arc::new(Cache::<u64>::new(200));
    let other = Arc::clone(&cache);
    let shrinking = thread::spawn(move || other.set_capacity(100));
    cache.insert(place(1), Arc::new(1), 80);
    cache.insert(place(2), Arc::new(2), 80);
    shrinking.join().expect("it ends");
    let counts = cache.counts();
    assert!(counts.bytes <= 100, "{counts:?}");
}

/// Two shards with room for one block, which all who are there want.
fn making_room() {
    let (cache, weight) = (Arc::new(Cache::<u64>::new(8 << 20)), 5 << 20);
    cache.insert(place(1), Arc::new(1), weight);
    let other = Arc::clone(&cache);
    let insert_again = move |cache: &Cache<u64>, offset| {
        for _ in 0..2 {
            cache.insert(place(offset), Arc::new(offset), weight);
        }
    };
    let inserting = thread::spawn(move || insert_again(&other, 2));
    insert_again(&cache, 3);
    inserting.join().expect("it ends");
    let counts = cache.counts();
    assert!(counts.blocks == 1 && counts.bytes == weight as u64, "{counts:?}");
    let held = (1..=3).filter(|offset| cache.get(place(*offset)).is_some()).count();
    assert_eq!(held, 1, "it is found");
}

/// Two shards whose room is made less while a block comes into each.
fn shrinking_all() {
    let cache = Arc::new(Cache::<u64>::new(8 << 20));
    let other = Arc::clone(&cache);
    let shrinking = thread::spawn(move || other.set_capacity(4 << 20));
    (1..=3).for_each(|offset| drop(cache.insert(place(offset), Arc::new(offset), 2 << 20)));
    shrinking.join().expect("it ends");
    let counts = cache.counts();
    assert!(counts.bytes <= 4 << 20 && counts.blocks << 21 == counts.bytes, "{counts:?}");
}

/// Their room is made less while one of them has room made for a block.
fn shrinking_beside() {
    let (cache, weight) = (Arc::new(Cache::<u64>::new(8 << 20)), 5 << 20);
    cache.insert(place(1), Arc::new(1), weight);
    let other = Arc::clone(&cache);
    let shrinking = thread::spawn(move || other.set_capacity(4 << 20));
    (0..2).for_each(|_| drop(cache.insert(place(2), Arc::new(2), weight)));
    shrinking.join().expect("it ends");
    let counts = cache.counts();
    assert!(counts.blocks == 0 && counts.bytes == 0, "{counts:?}");
}

fn found(ts: u64, bytes: usize) -> Found {
    Found { ts: CommitTs(ts), kind: RowKind::Put, value: Bytes::from(vec![b'v'; bytes]) }
}

/// A slow reader adds the version that a flush has just made old. The first row of all makes the
/// table.
fn forgetting() {
    let (key, cache) = (b"key", Arc::new(RowCache::new(4 << 10)));
    let row_hash = hash::of_row(key);
    let other = Arc::clone(&cache);
    let reading = thread::spawn(move || other.add(key, row_hash, &found(1, 3), 0));
    let edition = cache.forget(&[row_hash]);
    // Who reads the files from here on reads the new version.
    assert!(cache.get(key, row_hash, CommitTs::MAX).is_none(), "a version that is hidden");
    reading.join().expect("it ends");
    assert!(cache.get(key, row_hash, CommitTs::MAX).is_none(), "a version that is hidden");
    cache.add(key, row_hash, &found(2, 3), edition);
    assert_eq!(cache.get(key, row_hash, CommitTs::MAX).map(|found| found.ts), Some(CommitTs(2)));
}

/// Rows come in while the table of buckets becomes a larger one: what is counted can be given back.
fn growing() {
    let cache = Arc::new(RowCache::new(16 << 10));
    cache.add(b"b", hash::of_row(b"b"), &found(1, 400), 0);
    let other = Arc::clone(&cache);
    let adding = thread::spawn(move || other.add(b"a", hash::of_row(b"a"), &found(1, 400), 0));
    cache.add(b"c", hash::of_row(b"c"), &found(1, 400), 0);
    adding.join().expect("it ends");
    cache.forget_where(|_, _| true);
    assert_eq!(cache.rows_bytes_held(), 0, "rows that nobody can find and nobody drops");
}

#[test]
fn a_cache_stays_within_its_bytes() {
    holds(eviction, 20);
}

#[test]
fn a_cache_that_shrinks_stays_small() {
    holds(shrinking, 10);
}

#[test]
fn shards_share_one_room() {
    holds(making_room, 20);
}

#[test]
fn all_shards_shrink() {
    holds(shrinking_all, 10);
    holds(shrinking_beside, 10);
}

#[test]
fn no_row_comes_back_that_a_flush_made_old() {
    holds(forgetting, 20);
}

#[test]
fn a_growing_cache_of_rows_loses_none_from_its_books() {
    holds(growing, 20);
}

#[test]
fn a_shrinking_cache_needs_the_second_look() {
    needs(shrinking, "capacity");
}

#[test]
fn shards_that_shrink_need_it_too() {
    needs(shrinking_all, "capacity");
    needs(shrinking_all, "every shard");
    needs(shrinking_beside, "capacity again");
}

#[test]
fn forgetting_needs_its_fence() {
    needs(forgetting, "edition");
}

#[test]
fn a_row_needs_a_look_at_the_table_that_it_goes_to() {
    needs(growing, "table");
}

//! The memtable against a plain map: alone, and while many read what one writes.

use crate::batch::Batch;
use crate::chunks::SpareChunks;
use crate::cursor::{Cursor, Direction};
use crate::env::rng::Rng;
use crate::ids::{CommitTs, RowKind};
use crate::key::hash;
use crate::memtable::api::Memtable;
use crate::memtable::ordered::OrderedMemtable;
use crate::memtable::row::SHARED_BYTES_MIN;
use crate::memtable::store::ArenaMemtable;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith_testkit::fewer::fewer;

/// How keys of a test come.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Few short keys, many of them prefixes of others, with zeros in them.
    Short,
    /// Long common parts, as rows of few partitions have.
    Partitions,
    /// As above, in runs of neighbours.
    Runs,
    /// Each above all before.
    Ascending,
    /// Each below all before.
    Descending,
}

const SHAPES: [Shape; 5] =
    [Shape::Short, Shape::Partitions, Shape::Runs, Shape::Ascending, Shape::Descending];

fn key(shape: Shape, rng: &mut Rng, i: u64) -> Vec<u8> {
    let row = |tenant: u64, order: u64| {
        format!("\0\0\0\x07tenant-{tenant:06}\0\x01order-{order:010}").into_bytes()
    };
    match shape {
        Shape::Short => (0..rng.below(4)).map(|_| rng.below(3) as u8).collect(),
        Shape::Partitions => row(rng.below(8), rng.below(300)),
        Shape::Runs => {
            let mut run = Rng::seeded(i / 20);
            row(run.below(30), run.below(150) * 3 + i % 20)
        }
        Shape::Ascending => row(i / 1000, i),
        Shape::Descending => row(1000 - i / 1000, 1_000_000 - i),
    }
}

struct Pair {
    arena: Arc<ArenaMemtable>,
    model: Arc<OrderedMemtable>,
    keys: Vec<Vec<u8>>,
}

/// Memory that another memtable has left full of its rows.
fn used(rng: &mut Rng) -> Arc<SpareChunks> {
    let spare = SpareChunks::new(64 << 20);
    let before = ArenaMemtable::new(Arc::clone(&spare));
    for ts in 1..fewer(2000, 40) {
        let (key, value) = (rng.next_u64().to_be_bytes(), [0xab; 200]);
        before.insert(&key, CommitTs(ts), RowKind::Put, &value);
    }
    drop(before);
    assert!(spare.bytes() > 0);
    spare
}

fn filled(shape: Shape, rng: &mut Rng, count: u64) -> Pair {
    let (arena, model) =
        (Arc::new(ArenaMemtable::new(used(rng))), Arc::new(OrderedMemtable::default()));
    let mut keys = Vec::new();
    let mut ts = 1;
    for i in 0..count {
        ts += rng.below(2); // Now and then two operations of one commit.
        let key = key(shape, rng, i);
        let kind = if rng.one_in(5) { RowKind::Delete } else { RowKind::Put };
        let mut value = if kind == RowKind::Put { i.to_string().into_bytes() } else { vec![] };
        if kind == RowKind::Put && rng.one_in(200) {
            value.resize(SHARED_BYTES_MIN + rng.below(3) as usize - 1, 7);
        }
        arena.insert(&key, CommitTs(ts), kind, &value);
        model.insert(&key, CommitTs(ts), kind, &value);
        keys.push(key);
    }
    Pair { arena, model, keys }
}

type Here = Option<(Vec<u8>, CommitTs, RowKind, Vec<u8>)>;

fn here(cursor: &mut dyn Cursor) -> Here {
    let value = if cursor.valid() { cursor.value().unwrap_or_default() } else { return None };
    Some((cursor.key().to_vec(), cursor.ts(), cursor.kind(), value.to_vec()))
}

#[test]
fn finds_what_the_map_finds() {
    for shape in SHAPES {
        let mut rng = Rng::seeded(1);
        let pair = filled(shape, &mut rng, fewer(4000, 120));
        for _ in 0..fewer(8000, 200) {
            let mut key = pair.keys[rng.below(pair.keys.len() as u64) as usize].clone();
            match rng.below(6) {
                0 => key.push(0),
                1 => drop(key.pop()),
                _ => {}
            }
            let (hash, at) = (hash::of_row(&key), CommitTs(rng.below(2200)));
            let found = pair.arena.get(&key, hash, at);
            assert_eq!(found, pair.model.get(&key, hash, at), "{shape:?} {key:?} at {at}");
        }
    }
}

#[test]
fn walks_as_the_map_walks() {
    for (seed, shape) in (0..).zip(SHAPES) {
        let mut rng = Rng::seeded(seed);
        let pair = filled(shape, &mut rng, fewer(3000, 120));
        let mut ours = Arc::clone(&pair.arena).cursor();
        let mut map = Arc::clone(&pair.model).cursor();
        for step in 0..fewer(30_000, 600) {
            let same = here(&mut *ours) == here(&mut *map);
            assert!(same, "{shape:?} step {step}: {:?} {:?}", here(&mut *ours), here(&mut *map));
            let mut key = pair.keys[rng.below(pair.keys.len() as u64) as usize].clone();
            if rng.one_in(3) {
                key.truncate(rng.below(key.len() as u64 + 1) as usize);
                key.push(rng.below(256) as u8);
            }
            let moved = match rng.below(40) {
                0 => {
                    let ts = CommitTs(rng.below(1600));
                    ours.seek(&key, ts).and_then(|()| map.seek(&key, ts))
                }
                1 => ours.seek_before(&key).and_then(|()| map.seek_before(&key)),
                _ if !ours.valid() => Ok(()),
                2 => {
                    let mut scratch = Vec::new();
                    ours.leave_key(&mut scratch).and_then(|()| map.leave_key(&mut scratch))
                }
                4 if ours.ends_key(Direction::Up) => {
                    let (at, mut scratch) = (CommitTs(rng.below(1600)), Vec::new());
                    let passed = ours.pass_key(at, &mut scratch);
                    passed.and_then(|found| {
                        assert!(map.pass_key(at, &mut scratch)? == found, "{shape:?} at {at}");
                        Ok(())
                    })
                }
                6 => {
                    let (at, mut scratch) = (CommitTs(rng.below(ours.ts().0)), Vec::new());
                    let stays = ours.pass_newer(at, &mut scratch);
                    stays.and_then(|stays| {
                        assert!(map.pass_newer(at, &mut scratch)? == stays, "{shape:?} at {at}");
                        Ok(())
                    })
                }
                n if (n % 3 == 0) != (step % 2000 < 1000) => ours.next().and_then(|()| map.next()),
                _ => ours.prev().and_then(|()| map.prev()),
            };
            assert!(moved.is_ok());
        }
    }
}

#[test]
fn every_row_is_met_once_in_both_directions() {
    for shape in SHAPES {
        let mut rng = Rng::seeded(3);
        let pair = filled(shape, &mut rng, fewer(20_000, 120));
        let keys: BTreeSet<_> = pair.keys.iter().cloned().collect();
        let mut cursor = Arc::clone(&pair.arena).cursor();
        let (mut up, mut down) = (Vec::new(), Vec::new());
        assert!(cursor.seek(&[], CommitTs::MAX).is_ok());
        while cursor.valid() {
            up.push(cursor.key().to_vec());
            assert!(cursor.next().is_ok());
        }
        assert!(cursor.seek_before(&[0xff; 40]).is_ok());
        while cursor.valid() {
            down.push(cursor.key().to_vec());
            assert!(cursor.prev().is_ok());
        }
        down.reverse();
        assert!(up == down, "{shape:?}: both ways meet the same");
        up.dedup();
        assert!(up.iter().eq(&keys), "{shape:?}: {} rows of {}", up.len(), keys.len());
    }
}

#[test]
fn neighbours_that_come_in_order_take_less_memory_than_scattered_ones() {
    let bytes = |shape| filled(shape, &mut Rng::seeded(4), 5000).arena.bytes();
    assert!(bytes(Shape::Ascending) < bytes(Shape::Descending));
}

#[test]
fn bytes_are_those_handed_out() {
    let table = ArenaMemtable::new(SpareChunks::none());
    assert!(table.is_empty());
    let mut before = 0;
    for i in 0..3000u64 {
        table.insert(&i.to_be_bytes(), CommitTs(i + 1), RowKind::Put, &[7; 200]);
        let grown = table.bytes() - before;
        assert!(grown >= 8 + 200, "a row takes at least its own bytes: {grown}");
        before = table.bytes();
    }
    assert!(before < 3000 * (8 + 200 + 130), "{before} bytes: 130 beside a row's own at most");
    let large = vec![1; 100 << 10];
    table.insert(b"large", CommitTs(9999), RowKind::Put, &large);
    let grown = table.bytes() - before;
    assert!((100 << 10..101 << 10).contains(&grown), "a large value counts once: {grown}");
}

#[test]
fn the_whole_buffer_counts_of_a_commit_of_which_one_value_stays_in_it() {
    let mut batch = Batch::new(b"prefix".to_vec());
    let small = vec![1; SHARED_BYTES_MIN - 1];
    for row in 0..64u8 {
        batch.put(&[row], &small);
    }
    batch.put(b"\xff", &vec![2; SHARED_BYTES_MIN]);
    let commit = batch.into_commit(CommitTs(1));
    let table = ArenaMemtable::new(SpareChunks::none());
    let before = table.bytes_used();
    assert!(table.apply_commit(&commit));
    let buffer = commit.operations().clone();
    drop(commit);
    let held = 64 * small.len() + buffer.len();
    assert!(table.bytes_used() - before >= held, "{} of {held}", table.bytes_used() - before);
    drop(table);
    let (bytes, buffer) = (buffer.len(), buffer.try_into_mut());
    let capacity = buffer.expect("nobody else has it").capacity();
    assert!(capacity <= bytes * 5 / 4, "{capacity} for {bytes}");
}

/// What the writer of the test below does at `ts`: chosen by `ts` alone, so that a reader knows it.
fn written_at(shape: Shape, ts: u64) -> (Vec<u8>, RowKind, Vec<u8>) {
    let mut rng = Rng::seeded(ts);
    let kind = if rng.one_in(6) { RowKind::Delete } else { RowKind::Put };
    let value = if kind == RowKind::Put { ts.to_string().into_bytes() } else { vec![] };
    (key(shape, &mut rng, ts), kind, value)
}

/// The newest version of every key at `at`.
fn state_at(shape: Shape, at: u64) -> BTreeMap<Vec<u8>, (u64, RowKind, Vec<u8>)> {
    (1..=at)
        .map(|ts| {
            let (key, kind, value) = written_at(shape, ts);
            (key, (ts, kind, value))
        })
        .collect()
}

#[test]
fn a_reader_sees_its_moment_while_others_write() {
    const LAST: u64 = fewer(6_000, 100);
    for shape in SHAPES {
        let table = Arc::new(ArenaMemtable::new(used(&mut Rng::seeded(9))));
        let visible = AtomicU64::new(0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for ts in 1..=LAST {
                    let (key, kind, value) = written_at(shape, ts);
                    table.insert(&key, CommitTs(ts), kind, &value);
                    visible.store(ts, Ordering::Release);
                }
            });
            for reader in 0..3 {
                let (table, visible) = (&table, &visible);
                threads.spawn(move || {
                    let mut rng = Rng::seeded(reader);
                    loop {
                        let at = visible.load(Ordering::Acquire);
                        let state = state_at(shape, at);
                        match reader {
                            0 => check_gets(table, &state, at, &mut rng),
                            1 => check_walk(table, &state, at, true),
                            _ => check_walk(table, &state, at, false),
                        }
                        check_seeks(table, &state, at, &mut rng);
                        if at == LAST {
                            return;
                        }
                    }
                });
            }
        });
    }
}

type State = BTreeMap<Vec<u8>, (u64, RowKind, Vec<u8>)>;

fn check_gets(table: &Arc<ArenaMemtable>, state: &State, at: u64, rng: &mut Rng) {
    for (key, (ts, kind, value)) in state {
        if rng.one_in(3) {
            let found = table.get(key, hash::of_row(key), CommitTs(at));
            let found = found.map(|found| (found.ts.0, found.kind, found.value.to_vec()));
            assert_eq!(found.as_ref(), Some(&(*ts, *kind, value.clone())));
        }
    }
}

/// Walks all versions; of each key the newest at `at` must be met, and none out of order.
fn check_walk(table: &Arc<ArenaMemtable>, state: &State, at: u64, up: bool) {
    let mut cursor = Arc::clone(table).cursor();
    let start = if up { cursor.seek(&[], CommitTs::MAX) } else { cursor.seek_before(&[0xff; 40]) };
    assert!(start.is_ok());
    let (mut before, mut met) = (None::<(Vec<u8>, Reverse<u64>)>, BTreeMap::new());
    while cursor.valid() {
        let version = (cursor.key().to_vec(), Reverse(cursor.ts().0));
        if let Some(before) = &before {
            assert!(
                if up { *before < version } else { *before > version },
                "{version:?} behind {before:?}"
            );
        }
        if cursor.ts().0 <= at {
            let value = cursor.value().unwrap_or_default().to_vec();
            let entry = (cursor.ts().0, cursor.kind(), value);
            if up {
                met.entry(version.0.clone()).or_insert(entry);
            } else {
                met.insert(version.0.clone(), entry);
            }
        }
        before = Some(version);
        assert!(if up { cursor.next() } else { cursor.prev() }.is_ok());
    }
    assert!(met == *state, "a walk at {at} met {} rows of {}", met.len(), state.len());
}

fn check_seeks(table: &Arc<ArenaMemtable>, state: &State, at: u64, rng: &mut Rng) {
    let mut cursor = Arc::clone(table).cursor();
    for (key, (ts, ..)) in state {
        if !rng.one_in(20) {
            continue;
        }
        assert!(cursor.seek(key, CommitTs(at)).is_ok());
        assert_eq!((cursor.key(), cursor.ts().0), (key.as_slice(), *ts));
        let below = state.range(..key.clone()).next_back().map(|(key, _)| key);
        assert!(cursor.seek_before(key).is_ok());
        assert!(!cursor.valid() || cursor.key() < key.as_slice());
        // Keys that came later may lie between.
        while cursor.valid() && cursor.ts().0 > at {
            assert!(cursor.prev().is_ok());
        }
        assert_eq!(cursor.valid().then(|| cursor.key()), below.map(Vec::as_slice));
    }
}

//! Pieces of the engine with more threads than loom can have.

use super::by_chance::{holds, needs};
use crate::batch::Batch;
use crate::chunks::SpareChunks;
use crate::commit::pipeline::Pipeline;
use crate::cursor::{Cursor, Found};
use crate::env::clock::ManualClock;
use crate::event::Events;
use crate::ids::{CommitTs, RowKind, SegmentId};
use crate::key::hash;
use crate::memtable::table::new_memtable;
use crate::options::{Durability, Reach};
use crate::row_cache::RowCache;
use crate::sync::Mutex;
use crate::vfs::api::Vfs;
use crate::vfs::mem::SimFs;
use crate::wal::format::LogFloor;
use crate::wal::replay::{self, Replay};
use crate::wal::writer::LogWriter;
use bytes::Bytes;
use shuttle::thread;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/log";

/// Four commit in all durabilities, a thread leads behind them, one looks, and then the end: nobody
/// waits for ever, what is visible is applied in its order, and what was acknowledged is in the
/// log.
fn commits() {
    let disk = SimFs::new();
    disk.create_dir_all(Path::new(DIR)).expect("a folder");
    let found = Replay { next_segment: SegmentId(1), ..Replay::default() };
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let log = LogWriter::create(vfs, Path::new(DIR), 4 << 10, &found).expect("a log");
    let clock = Arc::new(ManualClock::at(0));
    let pause = Duration::from_millis(1);
    let pipeline = Pipeline::new(log, CommitTs::ZERO, clock, Events::default(), pause, 120);
    let house = Arc::new((pipeline, Mutex::new(Vec::new())));
    let behind = Arc::clone(&house);
    let leading = thread::spawn(move || behind.0.run());
    let committing: Vec<_> = (0..4_usize)
        .map(|me| {
            let house = Arc::clone(&house);
            thread::spawn(move || {
                let durability = [
                    Durability::Synced,
                    Durability::Synced,
                    Durability::Flushed,
                    Durability::Buffered,
                ];
                for round in 0..2 {
                    let mut batch = Batch::new(b"p".to_vec());
                    batch.put(b"r", &[me as u8; 30]);
                    let apply = |commit: &crate::batch::Commit| house.1.lock().push(commit.ts);
                    let durability = durability[(me + round) % 4];
                    let ts =
                        house.0.commit(batch, durability, Reach::Disk, apply).expect("an open log");
                    house.0.wait(ts).expect("a sound disk");
                    let visible = house.0.visible();
                    assert!(visible >= ts, "{visible} below {ts}");
                }
            })
        })
        .collect();
    let mut before = CommitTs::ZERO;
    for _ in 0..3 {
        let visible = house.0.visible();
        assert!(before <= visible && house.1.lock().len() as u64 >= visible.0);
        before = visible;
        thread::yield_now();
    }
    committing.into_iter().for_each(|thread| thread.join().expect("it ends"));
    house.0.close().expect("a sound disk");
    leading.join().expect("it ends");
    let applied: Vec<u64> = house.1.lock().iter().map(|ts| ts.0).collect();
    assert_eq!(applied, (1..=8).collect::<Vec<_>>());
    let mut last = 0;
    replay::replay(&disk, Path::new(DIR), LogFloor::at(SegmentId(1)), &mut |_, ts, _| {
        last = ts.0;
        Ok(())
    })
    .expect("a whole log");
    assert_eq!(last, 8);
}

/// One fills a memtable, three read it: as of any moment a reader sees all commits up to it and no
/// other.
fn memtable() {
    const ROWS: u8 = 24;
    let key = |n: u8| [n.wrapping_mul(37) % 61];
    let table = new_memtable(&SpareChunks::none());
    let visible = Arc::new(crate::sync::atomic::AtomicU64::new(0));
    let order = crate::sync::atomic::Ordering::SeqCst;
    let readers: Vec<_> = (0..3)
        .map(|me| {
            let (table, visible) = (Arc::clone(&table), Arc::clone(&visible));
            thread::spawn(move || {
                for _ in 0..3 {
                    let at = visible.load(order);
                    let mut wanted: Vec<u8> = (0..at as u8).map(|n| key(n)[0]).collect();
                    wanted.sort_unstable();
                    let at = CommitTs(at);
                    let (mut cursor, mut seen) = (Arc::clone(&table).cursor(), Vec::new());
                    match me {
                        0 => cursor.seek(b"", CommitTs::MAX).expect("memory"),
                        1 => cursor.seek_before(b"\xff").expect("memory"),
                        _ => {
                            let get = |n: u8| table.get(&[n], hash::of_row(&[n]), at);
                            seen.extend((0..61).filter(|n| get(*n).is_some()));
                        }
                    }
                    while cursor.valid() {
                        if cursor.ts() <= at {
                            seen.push(cursor.key()[0]);
                        }
                        let moved = if me == 0 { cursor.next() } else { cursor.prev() };
                        moved.expect("memory");
                    }
                    if me == 1 {
                        seen.reverse();
                    }
                    assert_eq!(seen, wanted, "reader {me} at {at}");
                }
            })
        })
        .collect();
    for n in 0..ROWS {
        table.insert(&key(n), CommitTs(u64::from(n) + 1), RowKind::Put, &[n]);
        visible.store(u64::from(n) + 1, order);
    }
    readers.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

/// Readers add what they read of "files" while flushes replace it: nobody reads what is hidden.
fn rows() {
    // The files hold for each key a version; a View is its number and the edition.
    let cache = Arc::new(RowCache::new(16 << 10));
    let view = Arc::new(Mutex::new((1_u64, 0_u64)));
    let keys = [b"a", b"b", b"c"];
    let readers: Vec<_> = (0..3)
        .map(|me: usize| {
            let (cache, view) = (Arc::clone(&cache), Arc::clone(&view));
            thread::spawn(move || {
                for n in 0..4 {
                    let (version, edition) = *view.lock();
                    let key = keys[(me + n) % 3];
                    let row_hash = hash::of_row(key);
                    match cache.get(key, row_hash, CommitTs::MAX) {
                        Some(found) => assert!(found.ts.0 >= version, "{} of {version}", found.ts),
                        None => {
                            let value = Bytes::from(vec![7; 200]);
                            let found = Found { ts: CommitTs(version), kind: RowKind::Put, value };
                            cache.add(key, row_hash, &found, edition);
                        }
                    }
                }
            })
        })
        .collect();
    for version in 2..5 {
        let hashes = keys.map(|key| hash::of_row(key));
        let edition = cache.forget(&hashes);
        *view.lock() = (version, edition);
    }
    readers.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

#[test]
fn commits_of_four_threads() {
    holds("commits_of_four_threads", 30_000, commits);
}

#[test]
fn a_memtable_and_three_readers() {
    holds("a_memtable_and_three_readers", 20_000, memtable);
}

#[test]
fn rows_that_flushes_make_old() {
    holds("rows_that_flushes_make_old", 50_000, rows);
}

#[test]
fn commits_need_to_be_called() {
    needs(commits, "call");
    needs(commits, "seat");
}

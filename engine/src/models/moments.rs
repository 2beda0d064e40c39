//! Snapshots beside whoever drops old versions, erasures beside their readers, and the pool's
//! books.

use super::every_order::{holds, needs};
use crate::budget::Budget;
use crate::erasure::live::ErasureList;
use crate::erasure::set::Erasure;
use crate::ids::CommitTs;
use crate::moment::Moment;
use crate::options::{Advanced, Options};
use crate::pool::Pool;
use crate::snapshot::{Boundaries, Retain, Snapshots};
use crate::sstable::reader::Books as _;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::weakened;
use loom::thread;
use std::sync::Arc;

/// Two commits of one row.
const VERSIONS: [CommitTs; 2] = [CommitTs(2), CommitTs(1)];

/// What of them is left, newest first.
fn left(boundaries: &Boundaries) -> Vec<CommitTs> {
    let mut retain = Retain::new(boundaries);
    VERSIONS.into_iter().filter(|ts| retain.keeps(*ts)).collect()
}

/// A reader at `at` must find what it would have found of all.
fn still_reads(kept: &[CommitTs], at: CommitTs) {
    let read = |all: &[CommitTs]| all.iter().copied().find(|ts| *ts <= at);
    assert_eq!(read(kept), read(&VERSIONS), "at {at}");
}

/// A snapshot is taken while a commit becomes visible and a merge fixes what must stay.
fn present() {
    let snapshots = Arc::new(Snapshots::default());
    let visible = Arc::new(AtomicU64::new(1));
    let (theirs, seen) = (Arc::clone(&snapshots), Arc::clone(&visible));
    let reading = thread::spawn(move || {
        theirs.acquire(|| Moment::past(CommitTs(seen.load(Ordering::Acquire)))).at
    });
    visible.store(2, Ordering::Release);
    let visible = || CommitTs(visible.load(Ordering::Acquire));
    let kept = left(&snapshots.boundaries(visible, CommitTs(2)));
    still_reads(&kept, reading.join().expect("it ends"));
}

/// A snapshot of the past is taken while a merge raises the floor.
fn past() {
    let snapshots = Arc::new(Snapshots::default());
    let theirs = Arc::clone(&snapshots);
    let reading = thread::spawn(move || theirs.acquire_past(CommitTs(1)));
    let kept = left(&snapshots.boundaries(|| CommitTs(2), CommitTs(2)));
    match reading.join().expect("it ends") {
        Ok(moment) => still_reads(&kept, moment.at),
        Err(floor) => assert_eq!(floor, CommitTs(2), "refused for a floor that nobody set"),
    }
}

/// Two commits erase while somebody reads: who sees a commit finds its erasures.
fn erased() {
    let list = Arc::new(ErasureList::default());
    let visible = Arc::new(AtomicU64::new(0));
    let (theirs, shown) = (Arc::clone(&list), Arc::clone(&visible));
    let erasing = thread::spawn(move || {
        for ts in 1..=2 {
            let erasure = Erasure { start: (*b"a").into(), end: (*b"c").into(), ts: CommitTs(ts) };
            theirs.add(vec![erasure]);
            let order = if weakened!("shown") { Ordering::Relaxed } else { Ordering::Release };
            shown.store(ts, order);
        }
    });
    let at = CommitTs(visible.load(Ordering::Acquire));
    assert_eq!(list.newest_at(b"b", at), at, "an erasure that is not found");
    erasing.join().expect("it ends");
    assert_eq!(list.len(), 2);
}

/// Files are opened on two sides: the caches end with what both have left them.
fn books() {
    let blocks = |bytes| Options {
        memory: Some(8 << 20),
        advanced: Advanced {
            memtable_bytes: Some(4 << 10),
            block_cache_bytes: bytes,
            ..Advanced::default()
        },
        ..Options::default()
    };
    let most = Budget::of(&blocks(None), 0).caches(0, 0).both;
    let pool = Pool::new(Budget::of(&blocks(Some(1000)), 0));
    let theirs = Arc::clone(&pool);
    let opening = thread::spawn(move || theirs.opened(most - 500));
    pool.opened(150);
    opening.join().expect("it ends");
    let (here, lent) = pool.blocks.sizes();
    assert_eq!((here + lent, pool.taken().pinned), (350, most - 350));
}

#[test]
fn a_snapshot_keeps_what_it_reads() {
    holds(present, 5);
}

#[test]
fn a_moment_of_the_past_is_whole_or_refused() {
    holds(past, 3);
}

#[test]
fn whoever_sees_a_commit_sees_what_it_erased() {
    holds(erased, 10);
}

#[test]
fn caches_end_with_what_all_files_left_them() {
    holds(books, 3);
}

#[test]
fn a_snapshot_needs_its_moment_under_the_lock() {
    needs(present, "moment");
}

#[test]
fn a_moment_of_the_past_needs_the_floor_under_the_lock() {
    needs(past, "floor");
}

#[test]
fn erasures_need_the_release_of_what_is_visible() {
    needs(erased, "shown");
}

#[test]
fn the_books_need_their_lock_until_the_caches_know() {
    needs(books, "books");
}

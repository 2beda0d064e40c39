//! The commit pipeline on a log in memory: hand-over of groups, what is visible, the end.

use super::every_order::{holds, needs};
use crate::batch::Batch;
use crate::commit::pipeline::Pipeline;
use crate::env::clock::ManualClock;
use crate::error::{Kind, Result};
use crate::event::Events;
use crate::ids::{CommitTs, SegmentId};
use crate::options::{Durability, Reach};
use crate::sync::{Condvar, Mutex};
use crate::vfs::api::Vfs;
use crate::vfs::mem::{SimFs, SyncFailure};
use crate::wal::replay::Replay;
use crate::wal::writer::LogWriter;
use loom::cell::UnsafeCell;
use loom::thread;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/log";

/// A pipeline, and what its commits are applied to: one place for each timestamp's turn.
struct House {
    pipeline: Pipeline,
    applied: [UnsafeCell<u64>; 3],
}

fn house() -> Arc<House> {
    house_of(1 << 20)
}

/// One whose groups take no further commit once they have so many bytes.
fn house_of(group_bytes_max: usize) -> Arc<House> {
    house_on(SimFs::new(), group_bytes_max)
}

fn house_on(disk: SimFs, group_bytes_max: usize) -> Arc<House> {
    disk.create_dir_all(Path::new(DIR)).expect("a folder");
    let found = Replay { next_segment: SegmentId(1), ..Replay::default() };
    let log = LogWriter::create(Arc::new(disk), Path::new(DIR), 4 << 10, &found).expect("a log");
    let clock = Arc::new(ManualClock::at(0)); // Stands still: timestamps count up from 1.
    let pause = Duration::from_millis(1);
    let events = Events::default();
    let pipeline = Pipeline::new(log, CommitTs::ZERO, clock, events, pause, group_bytes_max);
    Arc::new(House { pipeline, applied: std::array::from_fn(|_| UnsafeCell::new(0)) })
}

impl House {
    fn commit(&self, durability: Durability) -> Result<CommitTs> {
        let mut batch = Batch::new(b"p".to_vec());
        batch.put(b"r", b"v");
        self.pipeline.commit(batch, durability, Reach::Disk, |commit| {
            let at = commit.ts.0 as usize - 1;
            // SAFETY: applied under the order lock, each place once; loom sees whether that is so.
            self.applied[at].with_mut(|place| unsafe { *place = commit.ts.0 });
        })
    }

    /// What is visible is applied.
    fn look(&self) -> u64 {
        self.look_up_to(self.pipeline.visible())
    }

    fn look_up_to(&self, last: CommitTs) -> u64 {
        for ts in 1..=last.0 {
            // SAFETY: nobody changes what is visible, or readable; loom sees whether that is so.
            let found = self.applied[ts as usize - 1].with(|place| unsafe { *place });
            assert_eq!(found, ts);
        }
        last.0
    }
}

// SAFETY: the cells are loom's, which fails where two threads are at one without order.
unsafe impl Sync for House {}
// SAFETY: as above.
unsafe impl Send for House {}

/// Two commit and wait, each for a sync that the other may lead.
fn hand_over() {
    let house = house();
    let other = Arc::clone(&house);
    let committing = thread::spawn(move || {
        let ts = other.commit(Durability::Synced).expect("an open log");
        other.pipeline.wait(ts).expect("a sound disk");
        assert!(other.look() >= ts.0);
    });
    let ts = house.commit(Durability::Synced).expect("an open log");
    house.pipeline.wait(ts).expect("a sound disk");
    assert!(house.look() >= ts.0);
    committing.join().expect("it ends");
    assert_eq!(house.look(), 2);
}

/// Somebody looks while commits of all kinds become visible, in order and whole.
fn visible() {
    let house = house();
    let other = Arc::clone(&house);
    let committing = thread::spawn(move || {
        let buffered = other.commit(Durability::Buffered).expect("an open log");
        assert!(other.look() >= buffered.0);
        let ts = other.commit(Durability::Synced).expect("an open log");
        other.pipeline.wait(ts).expect("a sound disk");
    });
    let first = house.look();
    assert!(first <= house.look());
    committing.join().expect("it ends");
    assert_eq!(house.look(), 2);
}

/// A transaction begins while somebody commits: what it reads is applied, visible or not, and with
/// it all that was seen before.
fn readable() {
    let house = house();
    let other = Arc::clone(&house);
    let committing = thread::spawn(move || {
        other.commit(Durability::Flushed).expect("an open log");
        other.commit(Durability::Synced).expect("an open log");
    });
    let visible = house.pipeline.visible();
    let readable = house.pipeline.readable();
    assert!(visible <= readable);
    house.look_up_to(readable);
    committing.join().expect("it ends");
    assert_eq!(house.pipeline.readable(), CommitTs(2));
}

/// Two read a moment of the past, and one of them commits: the commit comes after it, or both see
/// it.
fn whole() {
    let house = house();
    let other = Arc::clone(&house);
    let past = CommitTs(1);
    let committing = thread::spawn(move || {
        let ts = other.commit(Durability::Synced).expect("an open log");
        other.pipeline.await_past(past).expect("a sound disk");
        assert!(ts > past || other.look() >= past.0);
        ts
    });
    house.pipeline.await_past(past).expect("a sound disk");
    let seen = house.look();
    let ts = committing.join().expect("it ends");
    assert!(ts > past || seen >= past.0, "it came later");
}

/// The end comes while somebody commits: it is done whole, or refused.
fn end() {
    let house = house();
    let other = Arc::clone(&house);
    let committing = thread::spawn(move || {
        let done = other.commit(Durability::Synced).and_then(|ts| other.pipeline.wait(ts));
        done.err().map(|error| error.kind())
    });
    house.pipeline.close().expect("a sound disk");
    let refused = committing.join().expect("it ends");
    match house.look() {
        0 => assert_eq!(refused, Some(Kind::Closed)),
        _ => assert_eq!(refused, None),
    }
    assert!(house.commit(Durability::Synced).is_err(), "no commit after the end");
}

/// The end comes while somebody reads a moment of the past: what the log says then covers it, or it
/// is refused.
fn end_of_past() {
    let house = house();
    let other = Arc::clone(&house);
    let past = CommitTs(1);
    let reading = thread::spawn(move || other.pipeline.await_past(past));
    house.pipeline.close().expect("a sound disk");
    let read = reading.join().expect("it ends");
    let covered = house.pipeline.past_ends() > past;
    assert_eq!(covered, read.is_ok(), "{read:?}");
}

/// A commit that nobody waits for, and the thread that sees it through until the end.
fn background() {
    let house = house();
    let other = Arc::clone(&house);
    let leading = thread::spawn(move || other.pipeline.run());
    let ts = house.commit(Durability::Synced).expect("an open log");
    house.pipeline.urge(ts);
    house.pipeline.wait(ts).expect("a sound disk");
    assert_eq!(house.look(), ts.0);
    house.pipeline.close().expect("a sound disk");
    leading.join().expect("it ends");
}

/// A place is taken for what goes past the log, while another waits for all that has one and
/// commits.
fn reserved() {
    let house = house();
    let other = Arc::clone(&house);
    let waiting = thread::spawn(move || {
        other.pipeline.wait(other.pipeline.applied()).expect("a sound disk");
        let ts = other.commit(Durability::Synced).expect("an open log");
        other.pipeline.wait(ts).expect("a sound disk");
    });
    let place = house.pipeline.reserve(|_| ()).expect("an open log");
    assert!(house.pipeline.visible() < place.ts);
    drop(place);
    waiting.join().expect("it ends");
    assert_eq!(house.pipeline.visible(), CommitTs(2));
}

/// A place is given back while a commit before it is synced by another: it is shown with that one,
/// and whoever waits for it is told though no group has it.
fn given_back() {
    let house = house();
    let other = Arc::clone(&house);
    let committing = thread::spawn(move || {
        let ts = other.commit(Durability::Synced).expect("an open log");
        other.pipeline.wait(ts).expect("a sound disk");
    });
    let place = house.pipeline.reserve(|_| ()).expect("an open log");
    let ts = place.ts;
    drop(place);
    house.pipeline.wait(ts).expect("a sound disk");
    assert!(house.pipeline.visible() >= ts);
    committing.join().expect("it ends");
}

/// Two find the group full, one after the other: each gets its turn.
fn turns() {
    let house = house_of(1);
    let other = Arc::clone(&house);
    house.commit(Durability::Buffered).expect("an open log");
    let committing = thread::spawn(move || other.commit(Durability::Buffered).map(|_| ()));
    house.commit(Durability::Buffered).expect("an open log");
    committing.join().expect("it ends").expect("an open log");
    assert_eq!(house.look(), 3);
}

/// A commit that is to be called back for, while another leads: its callback comes once, when the
/// commit is visible.
fn called_back() {
    let house = house();
    let other = Arc::clone(&house);
    let leading = thread::spawn(move || other.pipeline.run());
    let ts = house.commit(Durability::Synced).expect("an open log");
    let told = Arc::new((Mutex::new(0), Condvar::new()));
    let (to_tell, shown) = (Arc::clone(&told), Arc::clone(&house));
    let ticket = Box::new(move |outcome: Result<()>| {
        outcome.expect("a sound disk");
        assert!(shown.look() >= ts.0, "it is told early");
        *to_tell.0.lock() += 1;
        to_tell.1.notify_one();
    });
    house.pipeline.notify(ts, ticket);
    let mut times = told.0.lock();
    while *times == 0 {
        told.1.wait(&mut times);
    }
    drop(times);
    house.pipeline.close().expect("a sound disk");
    leading.join().expect("it ends");
    assert_eq!(*told.0.lock(), 1);
}

/// Two commit and wait, each for a sync that the other may lead, and it fails: both are told,
/// nothing of theirs is shown, and nothing more is taken.
fn refused_on(disk: &SimFs, house: &Arc<House>) {
    disk.fail_sync(0, SyncFailure::MarksClean);
    let shown = house.look();
    let other = Arc::clone(house);
    let committing = thread::spawn(move || {
        let done = other.commit(Durability::Synced).and_then(|ts| other.pipeline.wait(ts));
        assert!(done.is_err(), "no sync has covered it");
        assert_eq!(other.look(), shown);
    });
    let done = house.commit(Durability::Synced).and_then(|ts| house.pipeline.wait(ts));
    assert!(done.is_err(), "no sync has covered it");
    committing.join().expect("it ends");
    assert_eq!(house.look(), shown);
    let later = house.commit(Durability::Synced).map_err(|error| error.kind());
    assert_eq!(later, Err(Kind::Closed), "no commit after a failed sync");
}

/// The sync goes with the write of the first group.
fn refused() {
    let disk = SimFs::new();
    refused_on(&disk, &house_on(disk.clone(), 1 << 20));
}

/// The sync is a call of its own, beside which the next group gathers.
fn refused_beside() {
    let disk = SimFs::new();
    disk.refuse_direct();
    let house = house_on(disk.clone(), 1 << 20);
    let first = house.commit(Durability::Synced).expect("an open log");
    house.pipeline.wait(first).expect("a sound disk");
    refused_on(&disk, &house);
}

#[test]
fn who_waits_for_a_sync_that_fails_is_told() {
    holds(refused, 50);
}

#[test]
fn who_waits_for_a_sync_that_fails_beside_others_is_told() {
    holds(refused_beside, 50);
}

#[test]
fn who_waits_for_a_sync_that_fails_needs_to_be_called() {
    needs(refused, "failure");
}

#[test]
fn who_is_to_be_called_back_is_called_once() {
    holds(called_back, 50);
}

#[test]
fn who_is_to_be_called_back_needs_somebody_awake() {
    needs(called_back, "callback");
}

#[test]
fn who_waits_for_a_place_is_told_when_it_is_given_back() {
    holds(reserved, 50);
}

#[test]
fn who_waits_for_a_place_is_told_when_what_is_before_it_is_safe() {
    holds(given_back, 50);
}

#[test]
fn a_group_is_handed_over_and_everybody_is_woken() {
    holds(hand_over, 100);
}

#[test]
fn what_is_visible_is_applied() {
    holds(visible, 50);
}

#[test]
fn what_is_readable_is_applied() {
    holds(readable, 50);
}

#[test]
fn the_past_is_whole_for_all_who_read_it() {
    holds(whole, 50);
}

#[test]
fn a_commit_at_the_end_is_whole_or_refused() {
    holds(end, 50);
}

#[test]
fn a_moment_that_is_read_at_the_end_is_told_of_or_refused() {
    holds(end_of_past, 10);
}

#[test]
fn what_nobody_waits_for_is_seen_through() {
    holds(background, 50);
}

#[test]
fn who_finds_no_room_gets_a_turn() {
    holds(turns, 20);
}

#[test]
fn who_waits_for_the_turn_needs_to_be_told() {
    needs(turns, "over");
}

#[test]
fn who_waits_needs_to_be_called() {
    needs(hand_over, "call");
}

#[test]
fn what_is_visible_needs_its_order() {
    needs(visible, "visible");
}

#[test]
fn what_is_readable_needs_its_order() {
    needs(readable, "readable");
}

#[test]
fn the_past_needs_its_order() {
    needs(whole, "whole");
}

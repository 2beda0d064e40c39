//! The place where committers sleep: no call is lost.

use super::every_order::{holds, needs};
use crate::commit::seat::Seat;
use crate::sync::Mutex;
use loom::thread;
use std::sync::Arc;

#[derive(Default)]
struct Room {
    done: Mutex<u32>,
    seat: Seat,
}

fn wait_for(room: &Room, wanted: u32) {
    loop {
        let done = room.done.lock();
        if *done >= wanted {
            return;
        }
        let seen = room.seat.calls();
        drop(done);
        room.seat.sleep(seen, None);
    }
}

/// Two sleep until a third is done.
fn all() {
    let room = Arc::new(Room::default());
    let sleeper = Arc::clone(&room);
    let sleeping = thread::spawn(move || wait_for(&sleeper, 1));
    let worker = Arc::clone(&room);
    let working = thread::spawn(move || {
        *worker.done.lock() += 1;
        worker.seat.call_all();
    });
    wait_for(&room, 1);
    sleeping.join().expect("it is woken");
    working.join().expect("it ends");
}

/// One sleeps, is called alone, and calls the other.
fn one() {
    let room = Arc::new(Room::default());
    let sleeper = Arc::clone(&room);
    let sleeping = thread::spawn(move || {
        wait_for(&sleeper, 1);
        *sleeper.done.lock() += 1;
        sleeper.seat.call_one();
    });
    *room.done.lock() += 1;
    room.seat.call_one();
    wait_for(&room, 2);
    sleeping.join().expect("it is woken");
}

#[test]
fn whoever_sleeps_is_woken() {
    holds(all, 100);
}

#[test]
fn a_call_of_one_finds_it() {
    holds(one, 50);
}

#[test]
fn a_sleeper_needs_the_count_of_calls() {
    needs(all, "seat");
    needs(one, "seat");
}

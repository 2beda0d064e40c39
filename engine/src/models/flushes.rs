//! Flushes of two threads: files count in the order in which their memtables were sealed.

use super::every_order::{holds, needs};
use crate::flush_turns::{FlushTurns, Patience};
use crate::sync::Mutex;
use loom::thread;
use std::sync::Arc;

/// Memtables by their age, the newest first, and those that are files.
struct House {
    turns: FlushTurns<u64>,
    sealed: Mutex<Vec<Arc<u64>>>,
    files: Mutex<Vec<u64>>,
    /// The memtable whose first flush fails.
    fails: Mutex<Option<u64>>,
}

impl House {
    fn new(fails: Option<u64>) -> Arc<House> {
        let (turns, sealed) = (FlushTurns::new(), Mutex::new(vec![Arc::new(2), Arc::new(1)]));
        Arc::new(House { turns, sealed, files: Mutex::default(), fails: Mutex::new(fails) })
    }

    /// Flushes what there is; where one fails, that is all.
    fn flush(&self, patience: Patience) {
        let sealed = || self.sealed.lock().clone();
        while let Some(turn) = self.turns.take(sealed, patience, || true) {
            let age = **turn.memtable();
            if self.fails.lock().take_if(|fails| *fails == age).is_some() {
                return;
            }
            if turn.wait_until_oldest(sealed) {
                self.files.lock().push(age);
                self.sealed.lock().retain(|other| **other != age);
            }
        }
    }
}

/// Two flush; of them whoever is patient leaves nothing undone.
fn two(fails: Option<u64>) {
    let house = House::new(fails);
    let other = Arc::clone(&house);
    let flushing = thread::spawn(move || other.flush(Patience::None));
    house.flush(Patience::UntilAllAreDone);
    if fails.is_none() {
        assert_eq!(*house.files.lock(), [1, 2], "before both had ended");
    }
    flushing.join().expect("it ends");
    house.flush(Patience::UntilAllAreDone);
    assert_eq!(*house.files.lock(), [1, 2]);
}

fn in_order() {
    two(None);
}

fn after_a_failure() {
    two(Some(1));
}

#[test]
fn files_count_in_the_order_of_their_memtables() {
    holds(in_order, 20);
}

#[test]
fn a_flush_that_fails_holds_up_no_other_for_good() {
    holds(after_a_failure, 20);
}

#[test]
fn the_order_of_files_needs_the_wait() {
    needs(in_order, "turn");
}

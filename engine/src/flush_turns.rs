//! Whose flush it is: sealed memtables become files on several threads at once, and count in the
//! order in which they were sealed.
//!
//! A flush that counts says that every commit before it is in files too, so one that is done early
//! waits for those before it. Where one of these failed, it is given up and begins again behind it.

use crate::sync::{Condvar, Mutex, weakened};
use std::sync::Arc;

/// The memtables that somebody writes to files now.
#[derive(Debug)]
pub(crate) struct FlushTurns<T> {
    taken: Mutex<Vec<Arc<T>>>,
    changed: Condvar,
}

/// What a caller does that finds no memtable to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Goes away, though others are still at work.
    None,
    /// Waits until nothing is sealed any more, or what it wants is done.
    UntilAllAreDone,
}

/// A memtable that is the holder's to write, until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a, T> {
    turns: &'a FlushTurns<T>,
    of: Arc<T>,
}

impl<T> FlushTurns<T> {
    /// Nobody writes any.
    pub(crate) fn new() -> FlushTurns<T> {
        FlushTurns { taken: Mutex::new(Vec::new()), changed: Condvar::new() }
    }

    /// The oldest memtable that nobody writes. `sealed`: all that are no files yet, newest first.
    /// `is_wanted`: whether whoever asks still has a use for one; else it is given none, and waits
    /// for none.
    pub(crate) fn take(
        &self,
        sealed: impl Fn() -> Vec<Arc<T>>,
        patience: Patience,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Turn<'_, T>> {
        let mut taken = self.taken.lock();
        while is_wanted() {
            let free = sealed().into_iter().rev().find(|one| !holds(&taken, one));
            if let Some(of) = free {
                taken.push(Arc::clone(&of));
                return Some(Turn { turns: self, of });
            }
            if taken.is_empty() || patience == Patience::None {
                return None;
            }
            self.changed.wait(&mut taken);
        }
        None
    }

    /// Whether somebody writes one.
    pub(crate) fn is_any_taken(&self) -> bool {
        !self.taken.lock().is_empty()
    }
}

fn holds<T>(taken: &[Arc<T>], one: &Arc<T>) -> bool {
    taken.iter().any(|other| Arc::ptr_eq(other, one))
}

impl<T> Turn<'_, T> {
    /// The memtable.
    pub(crate) fn memtable(&self) -> &Arc<T> {
        &self.of
    }

    /// Waits until all that were sealed before are in files. False where nobody writes one of them:
    /// then this turn is to be dropped with what came of it, and that one taken.
    pub(crate) fn wait_until_oldest(&self, sealed: impl Fn() -> Vec<Arc<T>>) -> bool {
        let mut taken = self.turns.taken.lock();
        loop {
            let oldest = sealed().pop();
            let is_first = oldest.as_ref().is_some_and(|oldest| Arc::ptr_eq(oldest, &self.of));
            if is_first || weakened!("turn") {
                return true;
            }
            if !oldest.is_some_and(|oldest| holds(&taken, &oldest)) {
                return false;
            }
            self.turns.changed.wait(&mut taken);
        }
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.turns.taken.lock().retain(|other| !Arc::ptr_eq(other, &self.of));
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn each_is_taken_once_oldest_first() {
        let turns = FlushTurns::new();
        let [old, young] = [Arc::new(1), Arc::new(2)];
        let sealed = || vec![Arc::clone(&young), Arc::clone(&old)];
        let take = |patience| turns.take(sealed, patience, || true);
        let first = take(Patience::None).expect("the old one");
        let second = take(Patience::None).expect("the young one");
        assert_eq!((**first.memtable(), **second.memtable()), (1, 2));
        assert!(take(Patience::None).is_none());
        assert!(first.wait_until_oldest(sealed), "nothing is older");
        // It came to nothing, and nobody has taken it up again.
        drop(first);
        assert!(!second.wait_until_oldest(sealed));
        drop(second);
        let again = take(Patience::UntilAllAreDone).expect("the old one");
        assert_eq!(**again.memtable(), 1);
        drop(again);
        assert!(turns.take(sealed, Patience::UntilAllAreDone, || false).is_none());
        assert!(turns.take(Vec::<Arc<i32>>::new, Patience::UntilAllAreDone, || true).is_none());
    }

    #[test]
    fn a_patient_one_waits_for_the_last() {
        let turns = FlushTurns::new();
        let view = Mutex::new(vec![Arc::new(1)]);
        let sealed = || view.lock().clone();
        let take = |patience| turns.take(sealed, patience, || true);
        let turn = take(Patience::None).expect("the only one");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| take(Patience::UntilAllAreDone).is_none());
            assert!(turn.wait_until_oldest(sealed));
            view.lock().clear();
            drop(turn);
            assert!(waiting.join().expect("it ends"), "what is done is not taken again");
        });
    }

    /// It waited until nobody wrote any, which under load may be never.
    #[test]
    fn a_patient_one_waits_for_his_own_and_no_other() {
        let turns = FlushTurns::new();
        let [own, other] = [Arc::new(1), Arc::new(2)];
        let view = Mutex::new(vec![Arc::clone(&other), Arc::clone(&own)]);
        let sealed = || view.lock().clone();
        let is_left = || holds(&view.lock(), &own);
        let take = |patience| turns.take(sealed, patience, is_left);
        let first = take(Patience::None).expect("the old one");
        let second = take(Patience::None).expect("the young one");
        std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            scope.spawn(move || tell.send(take(Patience::UntilAllAreDone).is_none()));
            view.lock().retain(|one| !Arc::ptr_eq(one, &own));
            drop(first);
            let ended = told.recv_timeout(Duration::from_secs(20));
            drop(second);
            assert_eq!(ended, Ok(true), "while the other one is still written");
        });
    }
}

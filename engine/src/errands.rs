//! A thread that does pieces of others' work, so that a second core helps with what one thread has
//! begun: it loads or proves what long walks will come to, and makes blocks of files that are being
//! written.
//!
//! Errands are taken in the order in which they came. What nobody has begun when its owner needs it
//! the owner does by itself: so a thread that is busy with others, or absent, costs nobody
//! anything. An owner waits for its own errand alone, and only while that is being done.
//!
//! Absent: what an errand is; see `sstable::upcoming`, `sstable::proving` and `sstable::press`.

use crate::sync::{Condvar, Mutex, weakened};
use std::collections::VecDeque;
use std::sync::Arc;

/// Errands that wait at most. Those who find so many do their own.
const WAITING_MAX: usize = 64;

/// Something that its owner will want done.
pub(crate) trait Errand: Send + Sync {
    /// Does it, unless that was begun already or nobody wants it any more. `scratch` is memory to
    /// be used over and over.
    fn run(&self, scratch: &mut Vec<u8>);
}

/// The errands that wait for the thread.
#[derive(Default)]
pub(crate) struct Errands {
    queue: Mutex<Queue>,
    called: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<dyn Errand>>,
    served: bool, // A thread is there.
    closing: bool,
}

impl Errands {
    /// Hands an errand over; false where nobody would do it soon.
    pub(crate) fn give(&self, errand: Arc<dyn Errand>) -> bool {
        let mut queue = self.queue.lock();
        if !queue.served || queue.waiting.len() >= WAITING_MAX {
            return false;
        }
        queue.waiting.push_back(errand);
        self.called.notify_one();
        true
    }

    /// Whether there is a thread.
    pub(crate) fn is_served(&self) -> bool {
        self.queue.lock().served
    }

    /// Does what is handed over, until [`Errands::close`].
    pub(crate) fn serve(&self) {
        let mut scratch = Vec::new();
        let mut queue = self.queue.lock();
        queue.served = !queue.closing;
        while queue.served {
            match queue.waiting.pop_front() {
                Some(errand) => {
                    drop(queue);
                    errand.run(&mut scratch);
                    queue = self.queue.lock();
                }
                None => self.called.wait(&mut queue),
            }
        }
    }

    /// Ends the thread; what still waits is left to its owners.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        (queue.served, queue.closing) = (false, true);
        queue.waiting.clear();
        self.called.notify_all();
    }
}

impl std::fmt::Debug for Errands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Errands")
    }
}

/// Work that is done once, by whoever comes first, and handed to its owner.
pub(crate) struct Task<W, D> {
    state: Mutex<State<W, D>>,
    ended: Condvar,
}

enum State<W, D> {
    /// For whoever is first.
    Waiting(W),
    Begun,
    Done(D),
    /// The owner has it or does not want it, or doing it went wrong.
    Gone,
}

impl<W, D> Task<W, D> {
    pub(crate) fn new(work: W) -> Task<W, D> {
        Task { state: Mutex::new(State::Waiting(work)), ended: Condvar::new() }
    }

    /// Does it by `run`, unless that was begun already or nobody wants it any more.
    pub(crate) fn run(&self, run: impl FnOnce(W) -> D) {
        let work = {
            let mut state = self.state.lock();
            match std::mem::replace(&mut *state, State::Begun) {
                State::Waiting(work) => work,
                other => {
                    *state = other;
                    return;
                }
            }
        };
        let mut ending = Ending { task: self, done: None };
        ending.done = Some(run(work));
    }

    pub(crate) fn is_begun(&self) -> bool {
        matches!(*self.state.lock(), State::Begun)
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(*self.state.lock(), State::Done(_))
    }

    /// What was done, once it was; nothing where nobody has begun, and then nobody will.
    pub(crate) fn take(&self) -> Option<D> {
        let mut state = self.state.lock();
        while matches!(*state, State::Begun) {
            self.ended.wait(&mut state);
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::Done(done) => Some(done),
            _ => None,
        }
    }

    /// Nobody wants it any more. What was begun is done to its end all the same.
    pub(crate) fn give_up(&self) {
        let mut state = self.state.lock();
        if !matches!(*state, State::Begun) {
            *state = State::Gone;
        }
    }
}

/// Tells the owner, however the work ends.
struct Ending<'a, W, D> {
    task: &'a Task<W, D>,
    done: Option<D>,
}

impl<W, D> Drop for Ending<'_, W, D> {
    fn drop(&mut self) {
        *self.task.state.lock() = self.done.take().map_or(State::Gone, State::Done);
        if !weakened!("errand") {
            self.task.ended.notify_all();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    struct Once(Task<u32, u32>);

    impl Errand for Once {
        fn run(&self, _scratch: &mut Vec<u8>) {
            self.0.run(|number| number + 1);
        }
    }

    #[test]
    fn a_task_is_done_by_the_first_and_taken_once() {
        let task = Task::new(7);
        assert!(!task.is_begun() && !task.is_done());
        task.run(|number| number + 1);
        task.run(|_| unreachable!("it was done"));
        assert!(task.is_done());
        assert_eq!((task.take(), task.take()), (Some(8), None));
    }

    #[test]
    fn what_nobody_wants_nobody_does() {
        let task = Task::new(7);
        task.give_up();
        task.run(|_: u32| unreachable!("nobody wants it"));
        assert_eq!(task.take(), None::<u32>);
        let taken = Task::new(7);
        assert_eq!(taken.take(), None::<u32>, "nobody has begun");
        taken.run(|_| unreachable!("its owner did without"));
    }

    #[test]
    fn an_owner_does_not_wait_for_work_that_went_wrong() {
        let task = Task::<u32, u32>::new(7);
        let work = || task.run(|_| panic!("as planned"));
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
        assert_eq!(task.take(), None);
    }

    #[test]
    fn errands_are_refused_where_nobody_is_or_too_many_wait() {
        let errands = Arc::new(Errands::default());
        let give = || errands.give(Arc::new(Once(Task::new(1))));
        assert!(!give() && !errands.is_served());
        errands.queue.lock().served = true; // A thread that is busy.
        assert!((0..WAITING_MAX).all(|_| give()) && !give());
        errands.close();
        assert!(!give() && !errands.is_served());
        errands.serve(); // Too late: it returns at once.
    }
}

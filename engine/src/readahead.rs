//! The thread that loads what long walks will come to, so that reading, proving and decompressing go on
//! while a walk is busy with the rows before.
//!
//! Walks hand over errands, which are taken in the order in which they came. What nobody has begun when
//! its walk needs it the walk does by itself: so a thread that is busy with others, or absent, costs no
//! walk anything. A walk waits for its own errand alone, and only while that is being done.
//!
//! Absent: what an errand is, and what becomes of it; see `sstable::upcoming`.

use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// Errands that wait at most. Walks that find so many do their own.
const WAITING_MAX: usize = 64;

/// Something that a walk will want.
pub(crate) trait Errand: Send + Sync {
    /// Does it, unless that was begun already or nobody wants it any more. `scratch` is memory to be
    /// used over and over.
    fn run(&self, scratch: &mut Vec<u8>);
}

/// The errands that wait for the thread.
#[derive(Default)]
pub(crate) struct Readahead {
    queue: Mutex<Queue>,
    called: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<dyn Errand>>,
    served: bool, // A thread is there.
    closing: bool,
}

impl Readahead {
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

    /// Does what is handed over, until [`Readahead::close`].
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

    /// Ends the thread; what still waits is left to its walks.
    pub(crate) fn close(&self) {
        let mut queue = self.queue.lock();
        (queue.served, queue.closing) = (false, true);
        queue.waiting.clear();
        self.called.notify_all();
    }
}

impl std::fmt::Debug for Readahead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Readahead")
    }
}

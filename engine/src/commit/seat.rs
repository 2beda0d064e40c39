//! A place where threads sleep until they are called: all of them by one system call, or one.
//!
//! Whoever is to sleep reads the count of calls while it holds the lock that guards what it waits
//! for, lets go of that lock and sleeps only as long as the count stays. So no call is lost,
//! whoever is woken takes no lock of the pipeline's, and a caller holds none while it calls. A
//! condition variable bound to the pipeline's lock would wake its waiters one by one, each to queue
//! for it.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::plain::{self, Condvar, Mutex};
use crate::sync::{watch, weakened};
use std::sync::PoisonError;
use std::time::Duration;

/// One place to sleep at.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    calls: AtomicU32,
    sleepers: Mutex<u32>, // How many; guards the step from looking at `calls` to sleeping.
    called: Condvar,
}

impl Seat {
    /// How many calls there were, for [`Seat::sleep`]. To be read under the lock of what is waited
    /// for.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Acquire)
    }

    /// Whether there is a call after `seen` within microseconds, without a sleep.
    pub(crate) fn watch(&self, seen: u32) -> bool {
        watch(|| self.calls() != seen)
    }

    /// Sleeps until a call after `seen`, for at most `time`, or for no reason. A call of one may
    /// wake another sleeper instead.
    pub(crate) fn sleep(&self, seen: u32, time: Option<Duration>) {
        let mut guard = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.calls.load(Ordering::Acquire) != seen {
            return;
        }
        *guard += 1;
        guard = match time {
            None => self.called.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(time) => plain::wait_for(&self.sleepers, &self.called, guard, time),
        };
        *guard -= 1;
    }

    /// Wakes everyone.
    pub(crate) fn call_all(&self) {
        if self.count() > 0 {
            self.called.notify_all();
        }
    }

    /// Wakes one of those who sleep.
    pub(crate) fn call_one(&self) {
        if self.count() > 0 {
            self.called.notify_one();
        }
    }

    /// Counts a call; returns how many sleep. To wake nobody costs a system call, too.
    fn count(&self) -> u32 {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = if weakened!("seat") { 0 } else { 1 };
        self.calls.fetch_add(calls, Ordering::Release);
        *sleepers
    }
}

#[cfg(test)]
mod tests {
    use super::Seat;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[test]
    fn no_call_is_lost_between_the_look_and_the_sleep() {
        let (seat, turn) = (Seat::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for me in 0..2 {
                let (seat, turn) = (&seat, &turn);
                scope.spawn(move || {
                    for round in 0..2000 {
                        let mine = 2 * round + me;
                        loop {
                            let seen = seat.calls();
                            if turn.load(Ordering::Acquire) == mine {
                                break;
                            }
                            seat.sleep(seen, None);
                        }
                        turn.store(mine + 1, Ordering::Release);
                        seat.call_all();
                    }
                });
            }
        });
        assert_eq!(turn.into_inner(), 4000);
    }

    #[test]
    fn a_call_is_seen_without_a_sleep() {
        let seat = Seat::default();
        let seen = seat.calls();
        assert!(!seat.watch(seen));
        seat.call_one();
        assert!(seat.watch(seen) && !seat.watch(seat.calls()));
    }

    /// It does not end where this does not hold.
    #[test]
    fn a_sleep_with_a_time_ends_uncalled() {
        let seat = Seat::default();
        seat.sleep(seat.calls(), Some(Duration::from_micros(50)));
        assert_eq!(seat.count(), 0, "nobody sleeps");
        seat.sleep(0, None); // Nor after that call.
    }
}

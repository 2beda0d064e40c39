//! What threads share: atomics, locks and condition variables, in one place so that a model checker
//! can put its own there.
//!
//! | build | they are |
//! |---|---|
//! | normal | those of std, parking_lot and arc-swap by other names: nothing stands between |
//! | `--cfg model="loom"` | loom's, which tries every order that processors and threads may take |
//! | `--cfg model="shuttle"` | shuttle's, which draws orders of threads by chance |
//!
//! `models` holds what is checked, docs/testing.md says how.
//!
//! Absent: `Arc`, whose counts are not ours to prove; the counters of `stats` and `waits`, by which
//! nobody decides anything; and the threads themselves, which `env::jobs` starts.

/// Whether what keeps threads in order is left out here, so that a model is seen to notice it. In a
/// normal build it is `false`, to the compiler.
#[cfg(not(any(model = "loom", model = "shuttle")))]
macro_rules! weakened {
    ($place:literal) => {
        false
    };
}
#[cfg(any(model = "loom", model = "shuttle"))]
macro_rules! weakened {
    ($place:literal) => {
        $crate::modelled::is_weakened($place)
    };
}
pub(crate) use weakened;

/// Whether this build is a model checker's: what takes long to fill is small there.
pub(crate) const IS_MODEL: bool = cfg!(any(model = "loom", model = "shuttle"));

#[cfg(any(model = "loom", model = "shuttle"))]
pub(crate) use crate::modelled::*;

#[cfg(not(any(model = "loom", model = "shuttle")))]
pub(crate) use real::*;

#[cfg(not(any(model = "loom", model = "shuttle")))]
mod real {
    pub(crate) use arc_swap::{ArcSwap, Guard};
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
    pub(crate) use std::sync::OnceLock;
    pub(crate) use std::sync::atomic;
    pub(crate) use std::thread::{ThreadId, current as current_thread};

    /// std's locks: its condition variable wakes all who sleep by one system call.
    pub(crate) mod plain {
        use std::sync::PoisonError;
        use std::time::Duration;

        pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

        /// Waits for at most `time`.
        #[inline]
        pub(crate) fn wait_for<'a, T>(
            _mutex: &'a Mutex<T>,
            called: &Condvar,
            guard: MutexGuard<'a, T>,
            time: Duration,
        ) -> MutexGuard<'a, T> {
            called.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
        }
    }
}

/// How often [`watch`] looks: for some microseconds, about what it costs to be put to sleep and
/// woken.
const LOOKS: usize = if IS_MODEL { 1 } else { 200 };

/// Whether `is_so` within microseconds, without a sleep. For what others are at and do not wait for
/// a disk with.
#[inline]
pub(crate) fn watch(mut is_so: impl FnMut() -> bool) -> bool {
    (0..LOOKS).any(|_| {
        std::hint::spin_loop();
        is_so()
    })
}

/// Takes a lock that others hold for microseconds: looks for it before it sleeps.
#[inline]
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    if IS_MODEL {
        return mutex.lock();
    }
    try_lock_soon(mutex).unwrap_or_else(|| mutex.lock())
}

/// The same without the sleep: nothing where others hold it for longer.
#[inline]
pub(crate) fn try_lock_soon<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let mut taken = mutex.try_lock();
    if taken.is_none() {
        watch(|| {
            taken = mutex.try_lock();
            taken.is_some()
        });
    }
    taken
}

/// How often [`try_lock_yielding`] lets others run.
const YIELDS: usize = if IS_MODEL { 0 } else { 4 };

/// The same, but lets others run a few times: whoever holds the lock may have lost its core. For
/// those who go on by another thread where they get nothing, which costs more than to let one run.
#[inline]
pub(crate) fn try_lock_yielding<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let mut taken = try_lock_soon(mutex);
    for _ in 0..YIELDS {
        if taken.is_some() {
            break;
        }
        std::thread::yield_now();
        taken = mutex.try_lock();
    }
    taken
}

#[cfg(all(test, not(any(model = "loom", model = "shuttle"))))]
mod tests {
    use super::{LOOKS, Mutex, lock_soon, try_lock_soon, try_lock_yielding, watch};

    #[test]
    fn a_look_ends_with_what_it_is_for_or_after_a_while() {
        let mut looks = 0;
        let mut third = || {
            looks += 1;
            looks == 3
        };
        assert!(watch(&mut third));
        assert!(!watch(&mut third));
        assert_eq!(looks, 3 + LOOKS);
    }

    #[test]
    fn a_lock_that_stays_held_is_not_waited_for() {
        let mutex = Mutex::new(());
        let held = lock_soon(&mutex);
        assert!(try_lock_soon(&mutex).is_none() && try_lock_yielding(&mutex).is_none());
        drop(held);
        assert!(try_lock_yielding(&mutex).is_some() && try_lock_soon(&mutex).is_some());
    }

    #[test]
    fn one_at_a_time_has_a_lock_however_long_it_is_held() {
        let (sum, threads, rounds) = (Mutex::new(0), 4, 500);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for round in 0..rounds {
                        let mut held = lock_soon(&sum);
                        let before = *held;
                        if round % 100 == 0 {
                            assert!(!(0..3).any(|_| watch(|| false))); // Longer than anybody looks.
                        }
                        *held = before + 1;
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), threads * rounds);
    }
}

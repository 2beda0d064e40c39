//! The locks of `sync` as a model checker has them: loom's or shuttle's, with parking_lot's and
//! arc-swap's manners.
//!
//! A wait with a short timeout ends at once, after others had their turn: of all the moments at
//! which it may end, that is the one that a schedule can be chosen for. One of a second or more
//! never ends by itself: it is there for idle hours, and nobody who is called may need it.
//!
//! Absent: poisoning, which parking_lot has not either, and [`ArcSwap`]'s freedom from locks: here
//! it is a lock around an `Arc`, so what is proved of it is what its users do, not what it does.

#[cfg(model = "loom")]
use loom as checker;
#[cfg(model = "shuttle")]
use shuttle as checker;

use self::atomic::{AtomicBool, Ordering};
use self::checker::sync as inner;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

#[cfg(model = "shuttle")]
pub(crate) use self::checker::sync::atomic;
#[cfg(model = "loom")]
pub(crate) use crate::modelled_atomic as atomic;

pub(crate) use self::checker::thread::{ThreadId, current as current_thread};

/// Lets another thread go on.
pub(crate) fn yield_now() {
    checker::thread::yield_now();
}

/// parking_lot's mutex.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(inner::Mutex<T>);

/// What holds it.
pub(crate) struct MutexGuard<'a, T> {
    of: &'a inner::Mutex<T>,
    held: Option<inner::MutexGuard<'a, T>>, // None only while it is lent to a condition variable.
}

const HELD: &str = "a guard holds its lock";

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(inner::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let held = Some(self.0.lock().unwrap_or_else(PoisonError::into_inner));
        MutexGuard { of: &self.0, held }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = Some(self.0.try_lock().ok()?);
        Some(MutexGuard { of: &self.0, held })
    }
}

impl<T> MutexGuard<'_, T> {
    /// Runs `work` without the lock.
    pub(crate) fn unlocked<R>(guard: &mut Self, work: impl FnOnce() -> R) -> R {
        guard.held = None;
        let result = work();
        guard.held = Some(guard.of.lock().unwrap_or_else(PoisonError::into_inner));
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(HELD)
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// parking_lot's condition variable.
#[derive(Default)]
pub(crate) struct Condvar(inner::Condvar);

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

/// How a wait with a timeout ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitTimeoutResult {
    timed_out: bool,
}

impl WaitTimeoutResult {
    pub(crate) fn timed_out(self) -> bool {
        self.timed_out
    }
}

/// A timeout from here on is none.
const NEVER: Duration = Duration::from_secs(1);

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(inner::Condvar::new())
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect(HELD);
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        time: Duration,
    ) -> WaitTimeoutResult {
        let timed_out = time < NEVER;
        if timed_out {
            MutexGuard::unlocked(guard, yield_now);
        } else {
            self.wait(guard);
        }
        WaitTimeoutResult { timed_out }
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// parking_lot's lock for many readers, who come one by one here: loom leaves out orders of a
/// thread that reads before it writes.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(Mutex<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(Mutex::new(value))
    }

    pub(crate) fn read(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    pub(crate) fn write(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
}

/// std's cell that is written once: whoever finds it full sees what its writer saw.
#[derive(Default)]
pub(crate) struct OnceLock<T> {
    is_full: AtomicBool,
    filling: Mutex<()>,
    value: std::sync::OnceLock<T>,
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> OnceLock<T> {
        OnceLock {
            is_full: AtomicBool::new(false),
            filling: Mutex::new(()),
            value: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_full.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let _one_at_a_time = self.filling.lock();
        let value = self.value.get_or_init(make);
        self.is_full.store(true, Ordering::Release);
        value
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let _one_at_a_time = self.filling.lock();
        self.value.set(value)?;
        self.is_full.store(true, Ordering::Release);
        Ok(())
    }
}

/// arc-swap's place for an `Arc`.
#[derive(Debug)]
pub(crate) struct ArcSwap<T>(Mutex<Arc<T>>);

impl<T: Default> Default for ArcSwap<T> {
    fn default() -> ArcSwap<T> {
        ArcSwap::from_pointee(T::default())
    }
}

/// What [`ArcSwap::load`] lends.
#[derive(Debug)]
pub(crate) struct Guard<T>(T);

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> ArcSwap<T> {
    pub(crate) fn from_pointee(value: T) -> ArcSwap<T> {
        ArcSwap(Mutex::new(Arc::new(value)))
    }

    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        Guard(self.load_full())
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.0.lock())
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        let before = std::mem::replace(&mut *self.0.lock(), value);
        drop(before); // Without the lock: it may be the last of much.
    }

    pub(crate) fn rcu<R: Into<Arc<T>>>(&self, mut change: impl FnMut(&Arc<T>) -> R) -> Arc<T> {
        loop {
            let before = self.load_full();
            let after = change(&before).into();
            let mut now = self.0.lock();
            if Arc::ptr_eq(&now, &before) {
                *now = after;
                return before;
            }
        }
    }
}

/// std's locks, for those who want its condition variable.
pub(crate) mod plain {
    #[cfg(model = "loom")]
    use loom::sync as inner;
    #[cfg(model = "shuttle")]
    use shuttle::sync as inner;
    use std::sync::{LockResult, PoisonError};
    use std::time::Duration;

    pub(crate) use inner::{Mutex, MutexGuard};

    /// std's condition variable, with timeouts as in the other one.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(inner::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
        ) -> LockResult<MutexGuard<'a, T>> {
            self.0.wait(guard)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// Waits for at most `time`.
    pub(crate) fn wait_for<'a, T>(
        mutex: &'a Mutex<T>,
        _called: &Condvar,
        guard: MutexGuard<'a, T>,
        _time: Duration,
    ) -> MutexGuard<'a, T> {
        drop(guard);
        crate::modelled::yield_now();
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    static WEAKENED: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Runs `model` with the place of that name weakened: see [`weakened!`](crate::sync::weakened). A
/// checker runs all threads of a model on this one.
#[cfg(test)]
pub(crate) fn with_weakened<T>(place: &'static str, model: impl FnOnce() -> T) -> T {
    WEAKENED.set(Some(place));
    let result = model();
    WEAKENED.set(None);
    result
}

/// Whether that place is to be weakened.
pub(crate) fn is_weakened(place: &str) -> bool {
    WEAKENED.get() == Some(place)
}

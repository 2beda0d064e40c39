//! Panics that end where they are caught: of code of whoever uses the database, which is called in
//! the midst of its own work, and of the steps of background work.

use std::panic::{self, AssertUnwindSafe};

/// Runs what somebody else wrote. Where it panics, that ends here: locks may be held and others may
/// wait for what comes after it.
pub(crate) fn contain(work: impl FnOnce()) {
    let _ = answer_of(work);
}

/// The same, with what it returns; `None` where it panicked.
pub(crate) fn answer_of<T>(work: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

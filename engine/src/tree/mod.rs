//! The tree: memtables and files together, as readers see them and as background work changes them.
//!
//! Absent: threads, the log, latches. `db` owns those and calls in.

pub(crate) mod base;
pub(crate) mod memtables;
pub(crate) mod flushing;
pub(crate) mod compacting;

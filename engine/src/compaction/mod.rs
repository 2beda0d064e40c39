//! Compaction: which files to merge, and merging them.

pub(crate) mod job;
pub(crate) mod picker;
pub(crate) mod executor;

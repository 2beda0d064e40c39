//! Compaction: which files to merge, and merging them.

pub(crate) mod executor;
pub(crate) mod job;
pub(crate) mod picker;

//! Compaction: which files to merge, and merging them.

pub(crate) mod job;
pub(crate) mod space;
pub(crate) mod picker;
pub(crate) mod upkeep;
pub(crate) mod tournament;
pub(crate) mod input;
pub(crate) mod values;
pub(crate) mod outputs;
pub(crate) mod executor;
pub(crate) mod under_way;

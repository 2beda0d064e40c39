//! Commits: their one order, and the pipeline that makes them safe and visible.

pub(crate) mod order;
pub(crate) mod pipeline;

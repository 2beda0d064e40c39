//! Commits: their one order, and the pipeline that makes them safe and visible.

pub(crate) mod order;
pub(crate) mod seat;
pub(crate) mod pipeline;
pub(crate) mod background;
pub(crate) mod ticket;

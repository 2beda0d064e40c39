//! Models of what threads share, for builds with loom or shuttle in place of the locks and atomics.

#[cfg(model = "loom")]
pub(crate) mod every_order;
#[cfg(model = "loom")]
pub(crate) mod memtable;
#[cfg(model = "loom")]
pub(crate) mod seat;
#[cfg(model = "loom")]
pub(crate) mod errands;
#[cfg(model = "loom")]
pub(crate) mod caches;
#[cfg(model = "loom")]
pub(crate) mod moments;
#[cfg(model = "loom")]
pub(crate) mod live_tables;
#[cfg(model = "loom")]
pub(crate) mod flushes;
#[cfg(model = "loom")]
pub(crate) mod pauses;
#[cfg(model = "loom")]
pub(crate) mod pipeline;
#[cfg(model = "shuttle")]
pub(crate) mod by_chance;
#[cfg(model = "shuttle")]
pub(crate) mod pieces;
#[cfg(model = "shuttle")]
pub(crate) mod engine;

//! The write-ahead log: segments of frames, each frame one group of commits.

pub(crate) mod format;
pub(crate) mod writer;
pub(crate) mod reader;

//! The write-ahead log: segments of frames, each frame one group of commits.

pub(crate) mod format;
pub(crate) mod room;
pub(crate) mod buffer;
pub(crate) mod segment;
pub(crate) mod reader;
pub(crate) mod replay;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

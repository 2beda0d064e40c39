//! The set of files as of one moment, and how it changes.

pub(crate) mod shelf;
pub(crate) mod blobs;
pub(crate) mod files;
pub(crate) mod set;

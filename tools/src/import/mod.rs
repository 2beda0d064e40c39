//! Files into a table: read, typed, keyed, batched, written, and resumable.

pub(crate) mod template;
pub(crate) mod bounded;
pub(crate) mod rows;
pub(crate) mod infer;
pub(crate) mod entity;
pub(crate) mod batcher;
pub(crate) mod resume;
pub(crate) mod report;
pub(crate) mod feed;
pub(crate) mod writers;
pub(crate) mod run;

//! Tables from one place to another: read, written, compared, resumable.

pub(crate) mod digest;
pub(crate) mod azurite;
pub(crate) mod lines;
pub(crate) mod place;
pub(crate) mod pace;
pub(crate) mod progress;
pub(crate) mod run;

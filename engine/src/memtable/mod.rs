//! Rows not yet in files.

pub(crate) mod api;
pub(crate) mod ordered;

//! Sorted table files: columnar blocks, index, filters, footer.

pub(crate) mod format;
pub(crate) mod block;
pub(crate) mod index;
pub(crate) mod filter;
pub(crate) mod builder;
pub(crate) mod reader;
pub(crate) mod iter;

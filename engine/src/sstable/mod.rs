//! Sorted table files: columnar blocks, index, filters, footer.

pub(crate) mod block;
pub(crate) mod builder;
pub(crate) mod filter;
pub(crate) mod format;
pub(crate) mod index;
pub(crate) mod iter;
pub(crate) mod reader;

//! Rows not yet in files.

pub(crate) mod api;
pub(crate) mod arena;
pub(crate) mod shared;
pub(crate) mod row;
pub(crate) mod marks;
pub(crate) mod hash_index;
pub(crate) mod node;
pub(crate) mod tree;
#[cfg(test)]
pub(crate) mod ordered;
pub(crate) mod store;
pub(crate) mod cursor;
pub(crate) mod table;

#[cfg(test)]
mod tests;

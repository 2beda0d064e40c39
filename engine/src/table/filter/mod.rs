//! Filters: the tree, and whether an entity passes it.

pub mod ast;
pub mod eval;

//! The manifest: the only authority on which files exist, and its root in two copies.

pub(crate) mod edit;
pub(crate) mod state;
pub(crate) mod change;
pub(crate) mod root;
pub(crate) mod frame;
pub(crate) mod load;
pub(crate) mod survey;
pub(crate) mod log;

#[cfg(test)]
mod tests;

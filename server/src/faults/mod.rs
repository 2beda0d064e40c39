//! What goes wrong on purpose, for authors of clients: settings only.

pub mod words;
pub mod fault;
pub mod rule;

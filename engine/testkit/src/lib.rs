//! What the tests of every crate share: seeds that replay, lists as files, the reference model,
//! checkers of histories, dumps of bytes.
//!
//! Uses nothing of the crates that it tests, so that a mistake cannot be on both sides.

pub mod seed;
pub mod counts;
pub mod held;
pub mod fewer;
pub mod commits;
pub mod shrink;
pub mod watch;
pub mod script;
pub mod lists;
pub mod hex;
pub mod oracle;
pub mod linear;
pub mod register;
pub mod wholes;
pub mod isolation;

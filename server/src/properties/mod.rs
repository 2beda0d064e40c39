//! Properties of an account's table service, and the rules for browsers among them.

pub mod model;
pub mod document;
pub mod cors;

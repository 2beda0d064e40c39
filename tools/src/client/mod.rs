//! A small client of the table service: plain HTTP, shared key or signature, and patience.
//!
//! It knows what import, query and export need: make a table, write batches, read pages, read a row.

pub(crate) mod sign;
pub(crate) mod error;
pub(crate) mod batch;
pub(crate) mod http;
pub(crate) mod tables;

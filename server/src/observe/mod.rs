//! What an operator sees: counts of requests, hot partitions, metrics as text.

pub mod sketch;
pub mod hot;
pub mod text;
pub mod requests;
pub mod engine;
pub mod spans;

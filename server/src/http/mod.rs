//! HTTP messages as plain values.

pub mod message;

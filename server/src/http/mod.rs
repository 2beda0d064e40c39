//! HTTP messages as plain values, and where they end on a wire.

pub mod message;
pub mod framing;

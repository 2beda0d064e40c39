//! Sockets.

pub mod conn;
pub mod listen;

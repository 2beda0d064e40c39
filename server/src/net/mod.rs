//! Sockets.

pub mod reload;
pub mod conn;
pub mod listen;

//! Sockets.

pub mod reload;
pub mod tls;
pub mod first;
pub mod conn;
pub mod listen;

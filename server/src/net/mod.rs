//! Sockets.

pub mod reload;
pub mod tls;
pub mod first;
pub mod flush;
pub mod room;
pub(crate) mod queue;
pub mod guard;
pub mod places;
pub mod counts;
pub mod payload;
pub mod sent;
pub mod heads;
pub mod admin;
pub(crate) mod shared;
pub(crate) mod work;
pub mod conn;
pub mod indoors;
pub mod doors;
pub mod signals;
pub mod server;

#[cfg(test)]
mod tests;

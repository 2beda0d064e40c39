//! The only door to the disk: one trait, the operating system behind it in production, a memory
//! disk that can be cut and a fault injector in tests.

pub mod api;
pub(crate) mod map;
pub mod os;
pub(crate) mod sim;
pub mod mem;
pub(crate) mod rule;
pub mod fault;

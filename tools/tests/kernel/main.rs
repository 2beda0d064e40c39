//! The real program on the real kernel, where that refuses: a stopped process, a folder that is
//! taken, few files, short files, a full disk, little memory, ten times the load, a crowd of idle
//! connections.
//!
//! Limits are set by the shell that becomes the program. What needs root says so and is left out
//! without it.
#![allow(clippy::print_stderr, reason = "what is left out must be seen")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "drives processes and a disk"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../kill/client.rs"]
mod client;
mod limited;
mod processes;
mod files;
mod disk;
mod memory;
mod crowd;

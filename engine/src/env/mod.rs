//! The only door to time, chance and threads.

pub mod clock;
pub mod rng;
pub mod jobs;
pub mod memory;

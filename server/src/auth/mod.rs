//! Who asks, and what they may do.

pub mod access;
pub mod canonical;
pub mod shared_key;
pub mod verify;

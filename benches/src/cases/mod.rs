//! What the baseline measures, from the disk upwards.

pub mod disk;
pub mod floors;
pub mod commits;
pub mod reads;
pub mod filters;
pub mod import;
pub mod server;

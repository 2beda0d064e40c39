//! Parts of the simulated disk: bytes, files, names, and the states that a power loss may leave.

pub(crate) mod image;
pub(crate) mod inode;
pub(crate) mod disk;
pub mod trace;

//! Parts of the simulated disk: bytes, files, names, and the states that a power loss may leave.

pub(crate) mod image;
pub(crate) mod inode;
pub(crate) mod disk;
pub(crate) mod trace;
pub(crate) mod element;
pub(crate) mod plan;
pub(crate) mod states;

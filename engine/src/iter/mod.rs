//! Many sorted sources as one.

pub(crate) mod merge;
pub(crate) mod sifting;
pub(crate) mod level;
pub(crate) mod visible;
pub(crate) mod tree;
pub(crate) mod count;
pub(crate) mod split;

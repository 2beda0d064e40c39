//! Who asks, and what they may do.

pub mod access;
pub mod moment;
pub mod permissions;
pub mod key_range;
pub mod policy;
pub mod keyring;
pub mod canonical;
pub mod shared_key;
pub mod sas;
pub mod roles;
pub mod jwks;
pub mod bearer;
pub mod rights;
pub mod origin;
pub mod verify;
pub mod words;
pub mod why;

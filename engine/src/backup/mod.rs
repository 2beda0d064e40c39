//! Backups of a database folder: files by their digest, shared by all backups of one place, and for
//! each backup a manifest that says which files it is of. docs/backup.md says what is promised.

pub(crate) mod digest;
pub(crate) mod format;
pub mod depot;
pub(crate) mod source;
pub(crate) mod rewind;
pub mod folder;
pub(crate) mod restore;

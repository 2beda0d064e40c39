//! Salvage: what is readable of a damaged database, in a new folder, and a list of what is not.

pub mod report;
pub(crate) mod table;
pub(crate) mod log;
pub(crate) mod merge;
pub(crate) mod output;
pub mod rebuild;

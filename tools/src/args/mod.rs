//! The command line, as data.

pub(crate) mod output;
pub(crate) mod target;
pub(crate) mod serve;
pub(crate) mod rows;
pub(crate) mod folder;
pub(crate) mod conformance;
pub(crate) mod command;

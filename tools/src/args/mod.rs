//! The command line, as data.

pub(crate) mod output;
pub(crate) mod target;
pub(crate) mod serve;
pub(crate) mod rows;
pub(crate) mod copy;
pub(crate) mod table;
pub(crate) mod entity;
pub(crate) mod sas;
pub(crate) mod folder;
pub(crate) mod bench;
pub(crate) mod torture;
pub(crate) mod backup;
pub(crate) mod conformance;
pub(crate) mod pages;
pub(crate) mod health;
pub(crate) mod config;
pub(crate) mod shell;
pub(crate) mod command;

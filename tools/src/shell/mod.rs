//! The shell: lines of a person or of a script, run one after the other against the same tables.

pub(crate) mod split;
pub(crate) mod names;
pub(crate) mod words;
pub(crate) mod complete;
pub(crate) mod history;
pub(crate) mod schema;
pub(crate) mod dump;
pub(crate) mod session;
pub(crate) mod script;
pub(crate) mod editor;
pub(crate) mod run;

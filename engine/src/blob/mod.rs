//! Large values, each written once into a blob file and referred to by the row that has it.

pub(crate) mod format;
pub(crate) mod writer;
pub(crate) mod reader;
pub(crate) mod sink;
pub(crate) mod gc;

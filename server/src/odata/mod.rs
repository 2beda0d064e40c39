//! OData: addresses, options, filters and JSON, between text and the table layer's values.

pub mod literal;
pub(crate) mod lexer;
pub mod parser;
pub mod address;
pub mod options;
pub(crate) mod json_text;
pub mod json_in;
pub(crate) mod json_writer;
pub mod json_out;

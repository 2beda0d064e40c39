//! OData: addresses, options, filters and JSON, between text and the table layer's values.

pub(crate) mod lexer;
pub mod literal;
pub mod parser;

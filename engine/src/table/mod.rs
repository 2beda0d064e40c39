//! Entities: typed properties under PartitionKey and RowKey, ETags, filters, pages and group
//! transactions. The meaning of Azure Tables, without a word of HTTP or JSON.

// Words.
pub mod value;
pub mod time;
pub mod literal;
pub mod entity;
pub mod name;
pub mod etag;
pub mod error;

// Rules and bytes.
pub mod rules;
pub(crate) mod keys;
pub(crate) mod codec;
pub mod lent;

// Conditions.
pub mod filter;

// Plans.
pub(crate) mod spans;
pub(crate) mod keyset;
pub mod plan;
pub mod explain;

// Operations.
pub mod page;
pub(crate) mod zones;
pub(crate) mod walk;
pub mod write;
pub(crate) mod query;
pub mod settings;
pub mod store;
pub mod past;

#[cfg(test)]
mod tests;

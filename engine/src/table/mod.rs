//! Entities: typed properties under PartitionKey and RowKey, ETags, filters, pages and group
//! transactions. The meaning of Azure Tables, without a word of HTTP or JSON.

pub(crate) mod codec;
pub mod entity;
pub mod etag;
pub mod filter;
pub(crate) mod keys;
pub mod name;
pub mod page;
pub mod plan;
pub mod query;
pub mod store;
pub mod time;
pub mod value;
pub mod write;

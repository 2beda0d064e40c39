//! Entities: typed properties under PartitionKey and RowKey, ETags, filters, pages and group
//! transactions. The meaning of Azure Tables, without a word of HTTP or JSON.

pub mod value;
pub mod time;
pub mod name;
pub mod entity;
pub mod etag;
pub(crate) mod keys;
pub(crate) mod codec;
pub mod filter;
pub mod page;
pub mod plan;
pub mod query;
pub mod write;
pub mod store;

//! Keys: how (table, PartitionKey, RowKey) becomes one string of bytes, and ranges of them.

pub mod order;
pub mod hash;
pub mod range;
pub(crate) mod fences;
pub(crate) mod list;

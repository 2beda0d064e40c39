//! An entity: two keys, the commit that wrote it, and its properties in their order.

use crate::ids::CommitTs;
use crate::table::value::Value;

/// A stored or returned entity.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    /// PartitionKey.
    pub partition_key: String,
    /// RowKey.
    pub row_key: String,
    /// The commit that wrote it; [`CommitTs::ZERO`] on an entity that is yet to be written.
    pub ts: CommitTs,
    /// Custom properties; names are unique and none is PartitionKey, RowKey or Timestamp.
    pub properties: Vec<(String, Value)>,
}

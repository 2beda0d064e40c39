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
    /// The time from which on it is gone, where it was written with one
    /// ([`Write::until`](crate::table::write::Write::until)). Told of what was read or written; a
    /// change does not go by it: one without `until` leaves an entity that stays.
    pub expires: Option<CommitTs>,
    /// Custom properties; names are unique and none is PartitionKey, RowKey or Timestamp.
    pub properties: Vec<(String, Value)>,
}

impl Entity {
    /// An entity without properties, yet to be written.
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Entity {
        let (partition_key, row_key) = (partition_key.into(), row_key.into());
        let (ts, expires) = (CommitTs::ZERO, None);
        Entity { partition_key, row_key, ts, expires, properties: Vec::new() }
    }

    /// The entity with one property more, or with another value for one that it has.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Entity {
        let (name, value) = (name.into(), value.into());
        match self.properties.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.properties.push((name, value)),
        }
        self
    }

    /// A property's value. Cost: looks at each property in turn.
    pub fn property(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

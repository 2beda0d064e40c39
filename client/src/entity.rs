//! Entities: two keys, properties in order, and what the service adds to them.

use crate::value::{DateTime, Value};
use std::fmt;

/// What identifies one version of an entity, in the service's words: `W/"datetime'…'"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ETag(String);

impl ETag {
    /// An ETag as an answer named it.
    pub fn new(text: impl Into<String>) -> ETag {
        ETag(text.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What has to hold for an update or a delete of an entity that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// That it exists, in whatever version.
    Any,
    /// That it is still this version.
    Is(ETag),
}

impl Condition {
    /// The value of If-Match.
    pub(crate) fn text(&self) -> &str {
        match self {
            Condition::Any => "*",
            Condition::Is(etag) => etag.as_str(),
        }
    }
}

impl From<ETag> for Condition {
    fn from(etag: ETag) -> Condition {
        Condition::Is(etag)
    }
}

/// An entity: a row of a table.
///
/// ```
/// use tabulith_client::{Entity, Value};
/// let order = Entity::new("tenant-7", "order-0042").with("Total", 12.5).with("Paid", false);
/// assert_eq!(order.get("Paid"), Some(&Value::Boolean(false)));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entity {
    /// The key that decides where it lies: a transaction writes one partition.
    pub partition_key: String,
    /// Its key within the partition.
    pub row_key: String,
    /// When the service last wrote it; `None` on an entity that was not read.
    pub timestamp: Option<DateTime>,
    /// Its version; `None` on an entity that was not read.
    pub etag: Option<ETag>,
    /// Its properties by name, in order.
    pub properties: Vec<(String, Value)>,
}

impl Entity {
    /// An entity without properties.
    pub fn new(partition_key: impl Into<String>, row_key: impl Into<String>) -> Entity {
        Entity { partition_key: partition_key.into(), row_key: row_key.into(), ..Entity::default() }
    }

    /// The entity with this property; one of that name is replaced.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Entity {
        self.set(name, value);
        self
    }

    /// Sets a property; one of that name is replaced.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.properties.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.properties.push((name.to_owned(), value)),
        }
    }

    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Whether every property of `other` is here with the same value.
    pub(crate) fn holds(&self, other: &Entity) -> bool {
        other
            .properties
            .iter()
            .all(|(name, wanted)| self.get(name).is_some_and(|value| value.is_same(wanted)))
    }

    /// Whether both have the same properties with the same values, in any order.
    pub(crate) fn is_same(&self, other: &Entity) -> bool {
        self.properties.len() == other.properties.len() && self.holds(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_properties_is_no_difference() {
        let a = Entity::new("p", "r").with("x", 1_i32).with("y", "z");
        let b = Entity::new("p", "r").with("y", "z").with("x", 1_i32);
        assert!(a.is_same(&b));
        let more = b.clone().with("w", true);
        assert!(!a.is_same(&more) && more.holds(&a) && !a.holds(&more));
        assert!(!a.is_same(&b.with("x", 1_i64)));
    }
}

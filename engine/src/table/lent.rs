//! An entity as it lies in its row, lent for as long as the row is held.
//!
//! Promise: damaged bytes are an error that names the row, never a panic.

use crate::error::Result;
use crate::ids::CommitTs;
use crate::table::codec::{self, EntityBytes};
use crate::table::entity::Entity;
use crate::table::value::ValueRef;

/// A stored entity, nothing of it copied.
#[derive(Clone, Copy, Debug)]
pub struct EntityRef<'a> {
    /// PartitionKey.
    pub partition_key: &'a str,
    /// RowKey.
    pub row_key: &'a str,
    /// The commit that wrote it.
    pub ts: CommitTs,
    /// The time from which on it is gone, as in [`Entity::expires`].
    pub expires: Option<CommitTs>,
    bytes: EntityBytes<'a>,
}

impl<'a> EntityRef<'a> {
    /// The entity of the row of these keys with this value.
    pub(crate) fn open(
        partition_key: &'a str,
        row_key: &'a str,
        (ts, expires): (CommitTs, Option<CommitTs>),
        value: &'a [u8],
    ) -> Result<EntityRef<'a>> {
        let bytes = EntityBytes::open(value);
        let bytes = bytes.map_err(|error| codec::in_row(error, partition_key, row_key))?;
        Ok(EntityRef { partition_key, row_key, ts, expires, bytes })
    }

    /// How many bytes its properties are stored in.
    pub fn stored_bytes(&self) -> usize {
        self.bytes.stored_bytes()
    }

    /// Custom properties in their stored order. Ends after the first error, which is
    /// [`Kind::Corrupt`](crate::error::Kind::Corrupt).
    pub fn properties(&self) -> impl Iterator<Item = Result<(&'a str, ValueRef<'a>)>> + use<'a> {
        let (partition_key, row_key) = (self.partition_key, self.row_key);
        self.bytes.properties().map(move |property| {
            let read = property.and_then(|property| Ok((property.name()?, property.value()?)));
            read.map_err(|error| codec::in_row(error, partition_key, row_key))
        })
    }

    /// The entity with those of its properties that are named, or all.
    pub fn to_entity(&self, names: Option<&[String]>) -> Result<Entity> {
        let (partition_key, row_key) = (self.partition_key, self.row_key);
        let wanted = |name: &[u8]| match names {
            None => true,
            Some(names) => names.iter().any(|own| own.as_bytes() == name),
        };
        let properties = self.bytes.decode(wanted);
        let properties =
            properties.map_err(|error| codec::in_row(error, partition_key, row_key))?;
        let (partition_key, row_key) = (partition_key.to_owned(), row_key.to_owned());
        let (ts, expires) = (self.ts, self.expires);
        Ok(Entity { partition_key, row_key, ts, expires, properties })
    }
}

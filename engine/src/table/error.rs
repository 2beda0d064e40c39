//! What can go wrong with a table or an entity, one variant for each answer that a caller gives.

use crate::error::{Error, Kind};
use crate::ids::CommitTs;
use crate::table::etag::ETag;
use crate::table::value::DateTime;
use std::fmt;

/// What an operation on tables returns.
pub type TableResult<T> = Result<T, TableError>;

/// Why an operation on a table or an entity failed.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The engine could not do its part; [`Error::kind`] says what to do next.
    #[error(transparent)]
    Engine(Error),
    /// There is no such table.
    #[error("the table does not exist")]
    TableNotFound,
    /// The name is taken.
    #[error("the table already exists")]
    TableExists,
    /// There is no such entity.
    #[error("the entity does not exist")]
    EntityNotFound,
    /// The keys are taken.
    #[error("the entity already exists")]
    EntityExists,
    /// The entity is not in the state that the condition asked for.
    #[error("the entity has changed since it was read")]
    ConditionFailed {
        /// Its ETag now.
        current: ETag,
    },
    /// A key holds a character that keys must not hold.
    #[error("the {key} '{value}' is out of range")]
    KeyInvalid {
        /// Which key.
        key: Key,
        /// The key's text.
        value: String,
    },
    /// A key is longer than [`KEY_UNITS_MAX`](crate::table::rules::KEY_UNITS_MAX).
    #[error("the {key} is too long")]
    KeyTooLong {
        /// Which key.
        key: Key,
    },
    /// A property's name is no identifier, or that of a key or of the Timestamp.
    #[error("the property name '{name}' is invalid")]
    PropertyNameInvalid {
        /// The name.
        name: String,
    },
    /// A property's name is longer than
    /// [`NAME_UNITS_MAX`](crate::table::rules::NAME_UNITS_MAX).
    #[error("the property name '{name}' is too long")]
    PropertyNameTooLong {
        /// The name.
        name: String,
    },
    /// Two properties have one name.
    #[error("the property '{name}' is given more than once")]
    PropertyTwice {
        /// The name.
        name: String,
    },
    /// A string or binary is longer than a property may be.
    #[error("the value of '{property}' is too large")]
    PropertyValueTooLarge {
        /// The property's name.
        property: String,
    },
    /// A moment lies after 9999.
    #[error("the value of '{property}' is out of range")]
    PropertyOutOfRange {
        /// The property's name.
        property: String,
    },
    /// The entity, as it would be after the operation, has more than
    /// [`PROPERTIES_MAX`](crate::table::rules::PROPERTIES_MAX) properties.
    #[error("the entity has {count} properties")]
    TooManyProperties {
        /// How many.
        count: usize,
    },
    /// The entity, as it would be after the operation, is larger than
    /// [`ENTITY_BYTES_MAX`](crate::table::rules::ENTITY_BYTES_MAX).
    #[error("the entity is {bytes} bytes large")]
    EntityTooLarge {
        /// Its size by the service's formula.
        bytes: usize,
    },
    /// A group of no operations.
    #[error("a group needs at least one operation")]
    NoOperations,
    /// A group of more than [`GROUP_OPERATIONS_MAX`](crate::table::rules::GROUP_OPERATIONS_MAX)
    /// operations.
    #[error("a group of {count} operations is too long")]
    TooManyOperations {
        /// How many.
        count: usize,
    },
    /// A group of more than [`GROUP_BYTES_MAX`](crate::table::rules::GROUP_BYTES_MAX), or one that would
    /// leave more behind than [`GROUP_STORED_BYTES_MAX`](crate::table::rules::GROUP_STORED_BYTES_MAX).
    #[error("a group of {bytes} bytes is too large")]
    GroupTooLarge {
        /// Its payload; or what it would leave behind, up to the operation that is named.
        bytes: usize,
    },
    /// An operation of a group is on another partition than the first.
    #[error("all operations of a group must be on one partition")]
    MixedPartitions,
    /// A group changes an entity twice.
    #[error("a group may change an entity only once")]
    RowTwice,
    /// A filter deeper than [`DEPTH_MAX`](crate::table::filter::ast::DEPTH_MAX) or of more than
    /// [`NODES_MAX`](crate::table::filter::ast::NODES_MAX) nodes.
    #[error("the filter is too complex")]
    FilterTooComplex,
    /// A setting larger than [`SETTING_BYTES_MAX`](crate::table::settings::SETTING_BYTES_MAX).
    #[error("a setting of {bytes} bytes is too large")]
    SettingTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A moment of the past that cannot be read as of.
    #[error(
        "the moment {} is not kept: the history begins at {} and ends before {}",
        DateTime::from(*at), DateTime::from(*from), DateTime::from(*end)
    )]
    MomentNotKept {
        /// The moment.
        at: CommitTs,
        /// The oldest that can be read.
        from: CommitTs,
        /// What lies here or later is not past yet.
        end: CommitTs,
    },
    /// A page of more than [`PAGE_ENTITIES_MAX`](crate::table::page::PAGE_ENTITIES_MAX).
    #[error("a page of {top} entities is too long")]
    PageTooLong {
        /// What was asked for.
        top: usize,
    },
}

/// For calls on an existing table: where the engine misses it, it was dropped meanwhile.
impl From<Error> for TableError {
    fn from(error: Error) -> TableError {
        match error.kind() {
            Kind::NotFound => TableError::TableNotFound,
            _ => TableError::Engine(error),
        }
    }
}

/// One of the two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// PartitionKey.
    Partition,
    /// RowKey.
    Row,
}

impl Key {
    /// The property's name.
    pub fn name(self) -> &'static str {
        match self {
            Key::Partition => "PartitionKey",
            Key::Row => "RowKey",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a group of operations failed, and at which.
#[derive(Debug, thiserror::Error)]
#[error("{index}: {error}")]
pub struct GroupError {
    /// The place of the operation at fault, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub error: TableError,
}

/// For what is wrong with the group as a whole: reported at its first operation.
impl From<TableError> for GroupError {
    fn from(error: TableError) -> GroupError {
        GroupError { index: 0, error }
    }
}

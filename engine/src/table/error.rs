//! What can go wrong with a table or an entity, one variant for each answer that a caller gives.

use crate::error::Error;
use crate::ids::CommitTs;
use crate::table::etag::ETag;
use crate::table::value::DateTime;
use std::fmt;

/// What an operation on tables returns.
pub type TableResult<T> = Result<T, TableError>;

/// Why an operation on a table or an entity failed.
#[non_exhaustive]
#[derive(Debug)]
pub enum TableError {
    /// The engine could not do its part; [`Error::kind`] says what to do next.
    Engine(Error),
    /// There is no such table.
    TableNotFound,
    /// The name is taken.
    TableExists,
    /// There is no such entity.
    EntityNotFound,
    /// The keys are taken.
    EntityExists,
    /// The entity is not in the state that the condition asked for.
    ConditionFailed {
        /// Its ETag now.
        current: ETag,
    },
    /// A key holds a character that keys must not hold.
    KeyInvalid {
        /// Which key.
        key: Key,
        /// The key's text.
        value: String,
    },
    /// A key is longer than [`KEY_UNITS_MAX`](crate::table::rules::KEY_UNITS_MAX).
    KeyTooLong {
        /// Which key.
        key: Key,
    },
    /// A property's name is no identifier, or that of a key or of the Timestamp.
    PropertyNameInvalid {
        /// The name.
        name: String,
    },
    /// A property's name is longer than
    /// [`NAME_UNITS_MAX`](crate::table::rules::NAME_UNITS_MAX).
    PropertyNameTooLong {
        /// The name.
        name: String,
    },
    /// Two properties have one name.
    PropertyTwice {
        /// The name.
        name: String,
    },
    /// A string or binary is longer than a property may be.
    PropertyValueTooLarge {
        /// The property's name.
        property: String,
    },
    /// A moment lies after 9999.
    PropertyOutOfRange {
        /// The property's name.
        property: String,
    },
    /// The entity, as it would be after the operation, has more than
    /// [`PROPERTIES_MAX`](crate::table::rules::PROPERTIES_MAX) properties.
    TooManyProperties {
        /// How many.
        count: usize,
    },
    /// The entity, as it would be after the operation, is larger than
    /// [`ENTITY_BYTES_MAX`](crate::table::rules::ENTITY_BYTES_MAX).
    EntityTooLarge {
        /// Its size by the service's formula.
        bytes: usize,
    },
    /// A group of no operations.
    NoOperations,
    /// A group of more than [`GROUP_OPERATIONS_MAX`](crate::table::rules::GROUP_OPERATIONS_MAX)
    /// operations.
    TooManyOperations {
        /// How many.
        count: usize,
    },
    /// A group of more than [`GROUP_BYTES_MAX`](crate::table::rules::GROUP_BYTES_MAX), or one that
    /// would leave more behind than
    /// [`GROUP_STORED_BYTES_MAX`](crate::table::rules::GROUP_STORED_BYTES_MAX).
    GroupTooLarge {
        /// Its payload; or what it would leave behind, up to the operation that is named.
        bytes: usize,
    },
    /// An operation of a group is on another partition than the first.
    MixedPartitions,
    /// A group changes an entity twice.
    RowTwice,
    /// A filter deeper than [`DEPTH_MAX`](crate::table::filter::ast::DEPTH_MAX) or of more than
    /// [`NODES_MAX`](crate::table::filter::ast::NODES_MAX) nodes.
    FilterTooComplex,
    /// A setting larger than [`SETTING_BYTES_MAX`](crate::table::settings::SETTING_BYTES_MAX).
    SettingTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A moment of the past that cannot be read as of.
    MomentNotKept {
        /// The moment.
        at: CommitTs,
        /// The oldest that can be read.
        from: CommitTs,
        /// What lies here or later is not past yet.
        end: CommitTs,
    },
    /// A page of more than [`PAGE_ENTITIES_MAX`](crate::table::page::PAGE_ENTITIES_MAX).
    PageTooLong {
        /// What was asked for.
        top: usize,
    },
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Engine(error) => error.fmt(f),
            TableError::TableNotFound => f.write_str("the table does not exist"),
            TableError::TableExists => f.write_str("the table already exists"),
            TableError::EntityNotFound => f.write_str("the entity does not exist"),
            TableError::EntityExists => f.write_str("the entity already exists"),
            TableError::ConditionFailed { .. } => {
                f.write_str("the entity has changed since it was read")
            }
            TableError::KeyInvalid { key, value } => {
                write!(f, "the {key} '{value}' is out of range")
            }
            TableError::KeyTooLong { key } => write!(f, "the {key} is too long"),
            TableError::PropertyNameInvalid { name } => {
                write!(f, "the property name '{name}' is invalid")
            }
            TableError::PropertyNameTooLong { name } => {
                write!(f, "the property name '{name}' is too long")
            }
            TableError::PropertyTwice { name } => {
                write!(f, "the property '{name}' is given more than once")
            }
            TableError::PropertyValueTooLarge { property } => {
                write!(f, "the value of '{property}' is too large")
            }
            TableError::PropertyOutOfRange { property } => {
                write!(f, "the value of '{property}' is out of range")
            }
            TableError::TooManyProperties { count } => {
                write!(f, "the entity has {count} properties")
            }
            TableError::EntityTooLarge { bytes } => {
                write!(f, "the entity is {bytes} bytes large")
            }
            TableError::NoOperations => f.write_str("a group needs at least one operation"),
            TableError::TooManyOperations { count } => {
                write!(f, "a group of {count} operations is too long")
            }
            TableError::GroupTooLarge { bytes } => {
                write!(f, "a group of {bytes} bytes is too large")
            }
            TableError::MixedPartitions => {
                f.write_str("all operations of a group must be on one partition")
            }
            TableError::RowTwice => f.write_str("a group may change an entity only once"),
            TableError::FilterTooComplex => f.write_str("the filter is too complex"),
            TableError::SettingTooLarge { bytes } => {
                write!(f, "a setting of {bytes} bytes is too large")
            }
            TableError::MomentNotKept { at, from, end } => {
                let [at, from, end] = [at, from, end].map(|ts| DateTime::from(*ts));
                write!(
                    f,
                    "the moment {at} is not kept: the history begins at {from} and ends before {end}"
                )
            }
            TableError::PageTooLong { top } => {
                write!(f, "a page of {top} entities is too long")
            }
        }
    }
}

impl std::error::Error for TableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TableError::Engine(error) => error.source(),
            _ => None,
        }
    }
}

/// A table that the engine misses is [`TableError::TableNotFound`]: it was dropped meanwhile, where
/// there was one. Rows and databases that it misses are not.
impl From<Error> for TableError {
    fn from(error: Error) -> TableError {
        match error.is_no_table() {
            true => TableError::TableNotFound,
            false => TableError::Engine(error),
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
#[non_exhaustive]
#[derive(Debug)]
pub struct GroupError {
    /// The place of the operation at fault, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub error: TableError,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.index, self.error)
    }
}

impl std::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// For what is wrong with the group as a whole: reported at its first operation.
impl From<TableError> for GroupError {
    fn from(error: TableError) -> GroupError {
        GroupError { index: 0, error }
    }
}

/// Without the place of the operation.
impl From<GroupError> for TableError {
    fn from(error: GroupError) -> TableError {
        error.error
    }
}

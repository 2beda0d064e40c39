//! What commands ask of tables, wherever those are, and how a write is refused.

use tabulith::table::entity::Entity;

/// What a query asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The condition; empty takes every row.
    pub(crate) filter: String,
    /// Columns wanted beside the keys and the Timestamp; `None` takes all.
    pub(crate) select: Option<Vec<String>>,
    /// Most rows of a page.
    pub(crate) top: usize,
    /// Whether the plan and the rows examined are wanted.
    pub(crate) explain: bool,
}

impl Ask {
    /// All that `filter` says, with the columns of `select`.
    pub(crate) fn rows(filter: Option<String>, select: Option<Vec<String>>) -> Ask {
        Ask { filter: filter.unwrap_or_default(), select, top: 0, explain: false }
    }
}

/// Why a batch was not written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// One of its rows is at fault; the others would do.
    Row {
        /// Its place in the batch.
        index: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Something else.
    Failed(anyhow::Error),
}

/// What an entity must be like to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// There, in whatever version.
    Any,
    /// Still the version of this ETag.
    Is(String),
}

/// A change of one entity.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Adds an entity that must not exist.
    Insert(Entity),
    /// Replaces all properties of one that exists.
    Replace(Entity, Condition),
    /// Sets properties of one that exists; the others stay.
    Merge(Entity, Condition),
    /// Adds an entity, or replaces all its properties.
    Upsert(Entity),
    /// Adds an entity, or sets properties of it.
    UpsertMerge(Entity),
    /// Removes one that exists.
    Delete(Key, Condition),
}

/// The keys of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Its PartitionKey.
    pub(crate) partition: String,
    /// Its RowKey.
    pub(crate) row: String,
}

//! What every source of rows (memtable, block, file, level, merge) offers to the one above it.

use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use bytes::Bytes;

/// A position among versions of rows, ordered by key ascending and, within a key, by commit
/// timestamp descending (newest first).
///
/// A cursor starts unpositioned. After an error it is not valid, stays so, and repeats the error's
/// kind on every later move: rows are never skipped in silence.
pub(crate) trait Cursor {
    /// Goes to the first version at or after (`key`, `ts`): the newest version of `key` that is not
    /// newer than `ts`, or else the first version of the next key.
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()>;

    /// Goes to the last version (the oldest) of the last key below `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;

    /// Moves to the next version. Must be valid.
    fn next(&mut self) -> Result<()>;

    /// Moves to the version before. Must be valid.
    fn prev(&mut self) -> Result<()>;

    /// Whether it stands on a version.
    fn valid(&self) -> bool;

    /// The encoded key here. Must be valid; so must it be for the three below.
    fn key(&self) -> &[u8];

    /// The commit timestamp here.
    fn ts(&self) -> CommitTs;

    /// Whether a value or a delete is here.
    fn kind(&self) -> RowKind;

    /// The value here; empty for a delete. May decompress, so it is asked for last.
    fn value(&mut self) -> Result<Bytes>;
}

/// What a lookup of one key finds: its newest version not newer than asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The commit that wrote it.
    pub(crate) ts: CommitTs,
    /// Whether it holds a value or removes the row.
    pub(crate) kind: RowKind,
    /// The value; empty for a delete.
    pub(crate) value: Bytes,
}

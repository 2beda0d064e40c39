//! What every source of rows (memtable, block, file, level, merge) offers to the one above it.

use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use bytes::Bytes;

/// Which way a cursor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Towards greater keys.
    Up,
    /// Towards smaller keys.
    Down,
}

/// Versions of one key that are passed one after the other before the rest of them is sought past:
/// the few that nearly every key has cost no search, thousands of one that is written often no walk
/// through all their blocks.
const VERSIONS_BEFORE_SEEK: usize = 8;

/// Says of a version, by its commit and its value, whether whoever asks has no use for it.
pub(crate) type Unwanted<'f> = dyn FnMut(CommitTs, &[u8]) -> bool + 'f;

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

    /// The same, borrowed. An error is not kept: the cursor stands where it stood.
    fn value_ref(&self) -> Result<&[u8]>;

    /// Whether the version here is known not to pass the filter of the scan, so that its value need
    /// not be looked at.
    fn is_ruled_out(&self) -> bool {
        false
    }

    /// Whether a move in `direction` leaves the key here. False also where only a read could tell.
    fn ends_key(&self, _direction: Direction) -> bool {
        false
    }

    /// Moves up past every version of the key here. `scratch` is used for whatever it needs.
    fn leave_key(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        if self.ends_key(Direction::Up) {
            return self.next();
        }
        scratch.clear();
        scratch.extend_from_slice(self.key());
        for _ in 0..VERSIONS_BEFORE_SEEK {
            self.next()?;
            if !is_on(self, scratch) {
                return Ok(());
            }
        }
        self.seek(scratch, CommitTs::ZERO)?;
        if is_on(self, scratch) { self.next() } else { Ok(()) }
    }

    /// Moves up past the versions of the key here that are newer than `at`, as the one here is;
    /// whether a version of the key is then here. `scratch` is used for whatever it needs.
    fn pass_newer(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<bool> {
        scratch.clear();
        scratch.extend_from_slice(self.key());
        for _ in 0..VERSIONS_BEFORE_SEEK {
            self.next()?;
            if !is_on(self, scratch) {
                return Ok(false);
            }
            if self.ts() <= at {
                return Ok(true);
            }
        }
        self.seek(scratch, at)?;
        Ok(is_on(self, scratch))
    }

    /// Moves down past every version of the key here, of which it stands on the oldest; returns the
    /// newest that is not newer than `at`. `scratch` is used for whatever it needs.
    fn pass_key(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<Option<Found>> {
        scratch.clear();
        scratch.extend_from_slice(self.key());
        let mut newest = None;
        for _ in 0..VERSIONS_BEFORE_SEEK {
            if self.ts() <= at {
                newest = Some(found_here(self)?);
            }
            self.prev()?;
            if !is_on(self, scratch) {
                return Ok(newest);
            }
        }
        if self.ts() <= at {
            self.seek(scratch, at)?;
            if is_on(self, scratch) {
                newest = Some(found_here(self)?);
            }
        }
        self.seek_before(scratch)?;
        Ok(newest)
    }

    /// Passes over versions older than `before` in `direction`, up to `fence` (to the first version
    /// at or after it on the way up, to the last one of a key below it on the way down), where that
    /// is known to skip nothing else. Whether it moved; the whole way or a part of it.
    fn skip(&mut self, _direction: Direction, _fence: &[u8], _before: CommitTs) -> Result<bool> {
        Ok(false)
    }
}

/// Whether the cursor stands on a version of `key`.
fn is_on(cursor: &(impl Cursor + ?Sized), key: &[u8]) -> bool {
    cursor.valid() && cursor.key() == key
}

/// The version here.
fn found_here(cursor: &mut (impl Cursor + ?Sized)) -> Result<Found> {
    Ok(Found { ts: cursor.ts(), kind: cursor.kind(), value: cursor.value()? })
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

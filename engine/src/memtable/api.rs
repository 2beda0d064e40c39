//! What the engine asks of a memtable. The order of versions is that of [`Cursor`].

use crate::batch::Commit;
use crate::cursor::{Cursor, Found};
use crate::ids::{CommitTs, RowKind};
use std::fmt::Debug;
use std::sync::Arc;

/// Versions of rows in memory. One thread inserts at a time; any number read meanwhile, and a
/// reader at a timestamp sees every version up to it that was inserted before the reader began.
pub(crate) trait Memtable: Debug + Send + Sync {
    /// Adds the operations of a commit. Timestamps of one key only rise; where a commit names a key
    /// twice, the later operation replaces the earlier. False where the commit's bytes are not what
    /// [`Batch`](crate::batch::Batch) writes, which only a damaged log can cause.
    #[must_use]
    fn apply(&self, commit: &Commit) -> bool;

    /// Adds one version, as a commit of one operation does.
    fn insert(&self, key: &[u8], ts: CommitTs, kind: RowKind, value: &[u8]);

    /// The newest version of `key` not newer than `at`. `row_hash`: what
    /// [`hash::of_row`](crate::key::hash::of_row) gives for `key`.
    fn get(&self, key: &[u8], row_hash: u64, at: CommitTs) -> Option<Found>;

    /// A cursor over all versions.
    fn cursor(self: Arc<Self>) -> Box<dyn Cursor + Send>;

    /// Bytes of memory that the versions take, keys and indexes included.
    fn bytes(&self) -> usize;

    /// Whether nothing was inserted.
    fn is_empty(&self) -> bool;
}

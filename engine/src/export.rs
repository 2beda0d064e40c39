//! A moment that a snapshot keeps, made a database of its own.
//!
//! The files are shared, but for those that hold later commits too: of these the earlier part is
//! written anew. While the snapshot lives, merges keep all that its readers could ask for, so
//! nothing of its moment is missing in any set of files.

use crate::backup::rewind::rewind;
use crate::db::Db;
use crate::error::Result;
use crate::ids::CommitTs;
use std::path::Path;

impl Db {
    /// Makes a database in `dir` of what was visible at `at`, which the caller keeps readable until
    /// then.
    pub(crate) fn export(&self, at: CommitTs, dir: &Path) -> Result<()> {
        self.copy_to(dir, |state| rewind(&self.inner.tree.shelf.vfs, dir, state, at))
    }
}

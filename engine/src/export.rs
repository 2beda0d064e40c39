//! A moment that a snapshot keeps, made a database of its own.
//!
//! The files are shared, but for those that hold later commits too: of these the earlier part is
//! written anew. While the snapshot lives, merges keep all that its readers could ask for, so
//! nothing of its moment is missing in any set of files.

use crate::backup::rewind::rewind;
use crate::db::{Db, Writer};
use crate::error::{Error, Result};
use crate::event::{Doing, Event};
use crate::ids::CommitTs;
use crate::recovery;
use std::path::Path;
use std::sync::Arc;

impl Db {
    /// Makes a database in `dir` of what was visible at `at`, which the caller keeps readable until
    /// then.
    pub(crate) fn export(&self, at: CommitTs, dir: &Path) -> Result<()> {
        let Writer { work, .. } = self.inner.writer()?;
        let _running = work.enter()?;
        let tree = &self.inner.tree;
        let span = tree.events.span(Doing::Checkpoint);
        self.flush()?;
        let pinned = tree.with_set(|set| (set.state().clone(), Arc::clone(set.current())));
        let Some((mut state, version)) = pinned else { return Err(Error::closed()) };
        recovery::link_files(&tree.shelf, &version, dir)?;
        drop(version); // The folder has names of its own for the files.
        let vfs = &tree.shelf.vfs;
        rewind(vfs, dir, &mut state, at)?;
        recovery::start_copy(vfs, dir, state, self.inner.clock.seed())?;
        tree.events.tell(Event::Checkpoint { dir: dir.to_owned(), took: span.took() });
        Ok(())
    }
}

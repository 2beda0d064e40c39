//! A moment that a snapshot keeps, made a database of its own.
//!
//! The files are shared, but for those that hold later commits too: of these the earlier part is
//! written anew. While the snapshot lives, merges keep all that its readers could ask for, so nothing
//! of its moment is missing in any set of files.

use crate::backup::depot::Wanted;
use crate::backup::rewind::rewind;
use crate::backup::source;
use crate::budget::Budget;
use crate::db::{Db, Writer};
use crate::error::{Error, Result};
use crate::event::{Doing, Event};
use crate::ids::{CommitTs, FileNo};
use crate::names::{self, FileKind};
use crate::pool::Pool;
use crate::recovery;
use crate::version::shelf::Shelf;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

impl Db {
    /// Makes a database in `dir` of what was visible at `at`, which the caller keeps readable until then.
    pub(crate) fn export(&self, at: CommitTs, dir: &Path) -> Result<()> {
        let Writer { work, .. } = self.inner.writer()?;
        let _running = work.enter()?;
        let tree = &self.inner.tree;
        let span = tree.events.span(Doing::Checkpoint);
        self.flush()?;
        let pinned = tree.with_set(|set| (set.state().clone(), Arc::clone(set.current())));
        let Some((mut state, version)) = pinned else { return Err(Error::closed()) };
        recovery::link_files(&tree.shelf, &version, dir)?;
        let linked: Vec<_> = names_of(&source::files(&state, state.next_file)).collect();
        drop(version); // The folder has names of its own for the files.
        let vfs = &tree.shelf.vfs;
        let pool = Pool::new(Budget::without_caches());
        let shelf = Shelf::new(Arc::clone(vfs), dir.to_owned(), pool, false);
        rewind(&shelf, &mut state, at)?;
        let needed: BTreeSet<_> = names_of(&source::files(&state, state.next_file)).collect();
        for (kind, no) in linked.into_iter().filter(|name| !needed.contains(name)) {
            let path = names::path(dir, kind, no);
            vfs.remove(&path).map_err(|e| Error::io("remove file", &path, e))?;
        }
        recovery::start_copy(vfs, dir, state, self.inner.seed())?;
        tree.events.tell(Event::Checkpoint { dir: dir.to_owned(), took: span.took() });
        Ok(())
    }
}

fn names_of(files: &[Wanted]) -> impl Iterator<Item = (FileKind, FileNo)> {
    files.iter().map(|file| (file.kind, file.no))
}

//! The current Version and the manifest that records it: an edit is on disk before it is used.

use crate::error::Result;
use crate::ids::FileNo;
use crate::manifest::change::Changing;
use crate::manifest::edit::Edit;
use crate::manifest::log::Manifest;
use crate::manifest::state::State;
use crate::version::files::Version;
use crate::version::shelf::Shelf;
use std::sync::Arc;

/// The one owner of the manifest. Behind a lock held only for an edit.
#[derive(Debug)]
pub(crate) struct VersionSet {
    manifest: Manifest,
    state: Changing,
    current: Arc<Version>,
    shelf: Arc<Shelf>,
}

impl VersionSet {
    /// The set that `state` describes, which `manifest` has recorded.
    pub(crate) fn new(
        manifest: Manifest,
        state: State,
        current: Arc<Version>,
        shelf: Arc<Shelf>,
    ) -> VersionSet {
        VersionSet { manifest, state: Changing::new(state), current, shelf }
    }

    /// Records `edit` durably and makes it the current Version.
    ///
    /// After an earlier failure the whole state is written anew first, to fresh files: what the
    /// failed edit left behind then counts for nothing, whether it reached the disk or not.
    pub(crate) fn apply(&mut self, mut edit: Edit) -> Result<Arc<Version>> {
        if self.manifest.is_closed() || self.manifest.wants_rewrite() {
            self.manifest.rewrite(self.state.state())?;
        }
        edit.next_file = Some(self.state.state().next_file);
        let change = self.state.check(&edit)?;
        self.manifest.append(&edit)?;
        self.state.make(&edit, change);
        self.current = Arc::new(self.current.after(&edit, &self.state, &self.shelf));
        Ok(Arc::clone(&self.current))
    }

    /// Whether an edit failed, after which the next one writes all anew.
    pub(crate) fn is_closed(&self) -> bool {
        self.manifest.is_closed()
    }

    /// Writes root and manifest anew, in both copies.
    pub(crate) fn rewrite(&mut self) -> Result<()> {
        self.manifest.rewrite(self.state.state())
    }

    /// A number for a new file. It is recorded with the edit that adds the file; a number lost in
    /// a crash names an orphan, which recovery deletes.
    pub(crate) fn next_file(&mut self) -> FileNo {
        self.state.take_file_no()
    }

    pub(crate) fn current(&self) -> &Arc<Version> {
        &self.current
    }

    pub(crate) fn state(&self) -> &State {
        self.state.state()
    }
}

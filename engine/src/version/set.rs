//! The current Version and the manifest that records it: an edit is on disk before it is used.

use crate::error::{Kind, Result};
use crate::ids::FileNo;
use crate::manifest::change::{Change, Changing};
use crate::manifest::edit::Edit;
use crate::manifest::frame::EDIT_BYTES_MAX;
use crate::manifest::log::Manifest;
use crate::manifest::state::State;
use crate::names::{FileKind, FileName};
use crate::version::files::Version;
use crate::version::shelf::Shelf;
use std::mem;
use std::sync::Arc;

/// The one owner of the manifest. Behind a lock held only for an edit.
#[derive(Debug)]
pub(crate) struct VersionSet {
    manifest: Manifest,
    state: Changing,
    current: Arc<Version>,
    shelf: Arc<Shelf>,
    /// Files of edits that failed on their way to the disk, where a crash may find them named: they
    /// stay until the manifest was written anew.
    doubtful: Vec<FileName>,
}

impl VersionSet {
    /// The set that `state` describes, which `manifest` has recorded.
    pub(crate) fn new(
        manifest: Manifest,
        state: State,
        current: Arc<Version>,
        shelf: Arc<Shelf>,
    ) -> VersionSet {
        let (state, doubtful) = (Changing::new(state), Vec::new());
        VersionSet { manifest, state, current, shelf, doubtful }
    }

    /// Records `edit` durably and makes it the current Version. The files that it adds are the
    /// set's from here on: where it fails they go as soon as nothing on disk can name them.
    ///
    /// After an earlier failure the whole state is written anew first, to fresh files: what the
    /// failed edit left behind then counts for nothing, whether it reached the disk or not.
    pub(crate) fn apply(&mut self, mut edit: Edit) -> Result<Arc<Version>> {
        let made = self.files_made_for(&edit);
        let prepared = self.prepare(&mut edit);
        let change = prepared.inspect_err(|_| self.discard(&made))?;
        let appended = self.manifest.append(&edit);
        appended.inspect_err(|error| match error.kind() {
            Kind::Invalid => self.discard(&made), // Too long, and not begun.
            _ => self.doubtful.extend(made),
        })?;
        self.state.make(&edit, change);
        self.current = Arc::new(self.current.after(&edit, &self.state, &self.shelf));
        Ok(Arc::clone(&self.current))
    }

    /// Makes the manifest ready for `edit`, and looks at whether it keeps the rules.
    ///
    /// A manifest that is only long goes on where it cannot be written anew for now: on a full disk
    /// an edit of some hundred bytes may be what gives space back.
    fn prepare(&mut self, edit: &mut Edit) -> Result<Change> {
        if self.manifest.is_closed() || self.manifest.wants_rewrite() {
            let goes_on = |set: &VersionSet| {
                !set.manifest.is_closed() && set.manifest.has_room(EDIT_BYTES_MAX / 2)
            };
            self.rewrite().or_else(|error| if goes_on(self) { Ok(()) } else { Err(error) })?;
        }
        edit.next_file = Some(self.state.state().next_file);
        self.state.check(edit)
    }

    /// The files of `edit` that no Version has had.
    fn files_made_for(&self, edit: &Edit) -> Vec<FileName> {
        let known = self.state.state();
        let tables = edit.added.iter().map(|(_, file)| (FileKind::Table, file.no));
        let blobs = edit.blobs.iter().map(|blob| (FileKind::Blob, blob.no));
        let is_new = |(kind, no): &FileName| match kind {
            FileKind::Blob => !known.blobs.contains_key(no),
            _ => !self.state.has_table(*no),
        };
        tables.chain(blobs).filter(is_new).collect()
    }

    fn discard(&self, files: &[FileName]) {
        files.iter().for_each(|(kind, no)| self.shelf.put_trash(*kind, *no));
    }

    /// Writes root and manifest anew, in both copies, where an edit failed. Whoever is about to
    /// write files for an edit asks for it first: they would be in vain where the manifest cannot
    /// be written.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        if self.manifest.is_closed() { self.rewrite() } else { Ok(()) }
    }

    /// Whether a crash may find an edit in force that failed and was to add that table file.
    pub(crate) fn doubts(&self, table: FileNo) -> bool {
        self.doubtful.contains(&(FileKind::Table, table))
    }

    /// Whether an edit failed, after which the next one writes all anew.
    pub(crate) fn is_closed(&self) -> bool {
        self.manifest.is_closed()
    }

    /// Writes root and manifest anew, in both copies.
    pub(crate) fn rewrite(&mut self) -> Result<()> {
        self.manifest.rewrite(self.state.state())?;
        let doubtful = mem::take(&mut self.doubtful);
        self.discard(&doubtful);
        Ok(())
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

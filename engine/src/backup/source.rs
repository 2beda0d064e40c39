//! A database folder as the source of a backup: which files hold what it holds, whether nobody has
//! it open or somebody writes to it.
//!
//! What stands in the log alone is written to files of its own in a folder of the caller's: the
//! source is only read. A writer may go on meanwhile. It deletes files, and uses the log's segments
//! again, only once its manifest does without them; so its files are opened and its log is read
//! first, which counts as far as the manifest, read once more, says. What is copied after that may
//! take hours.

use crate::backup::depot::{Depot, Wanted};
use crate::batch::LentCommit;
use crate::beside::Log;
use crate::budget::Budget;
use crate::env::jobs::ByHand;
use crate::env::memory;
use crate::error::Result;
use crate::ids::{CommitTs, FileNo};
use crate::manifest::load::Loaded;
use crate::manifest::log::Manifest;
use crate::manifest::state::State;
use crate::names::FileKind;
use crate::options::{Advanced, Options};
use crate::pool::Pool;
use crate::recovery;
use crate::restore::Restore;
use crate::stats::Recovery;
use crate::version::shelf::Shelf;
use crate::vfs::api::Vfs;
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The set of files of the database in `dir`, without what its log holds.
pub(crate) fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Loaded> {
    Manifest::load_existing(vfs, dir)
}

/// The folder `dir` as a place of files. Of those that the process may have open a quarter is held:
/// the rest is for a database that it may have open besides.
pub(crate) fn shelf(vfs: &Arc<dyn Vfs>, dir: &Path) -> Arc<Shelf> {
    let open_files_max = Some(memory::files_openable() / 4);
    let advanced = Advanced { open_files_max, ..Advanced::default() };
    let pool = Pool::new(Budget::of(&of_copies(advanced), memory::bytes_usable()));
    Shelf::new(Arc::clone(vfs), dir.to_owned(), pool, false)
}

/// No moment of what the log holds is given up.
fn of_copies(advanced: Advanced) -> Options {
    Options { history: Some(Duration::MAX), advanced, ..Options::default() }
}

/// What a database held at one moment.
pub(crate) struct Taken {
    /// The files that its manifest named.
    pub(crate) named: State,
    /// Those, and files that were made of what its log held beyond them.
    pub(crate) all: State,
    /// Where these lie.
    pub(crate) staging: Arc<Shelf>,
}

/// Takes what the database in `from` holds: its files are held open there, as many as may be, and
/// files of its log made where `depot` stages them. `None` where a writer has changed too much
/// meanwhile.
///
/// Cost: opens the files and reads the log. However long the files then take to copy, the moment
/// is the same.
pub(crate) fn take(from: &Arc<Shelf>, depot: &Depot) -> Result<Option<Taken>> {
    let staging = shelf(&depot.vfs, &depot.staging_dir());
    let load = || load(&*from.vfs, &from.dir);
    let first = load()?;
    let gone = from.hold(first.state.names());
    let options = of_copies(Advanced::default());
    let mut end = CommitTs::MAX;
    let (restore, last_ts) = loop {
        depot.clear_staging()?;
        let mut restore = Restore::new(&staging, &options, &first.state, CommitTs::ZERO, &ByHand);
        let mut report = Recovery::default();
        let take = &mut |commit: &LentCommit<'_>, window: &Bytes| restore.add(commit, window);
        let (_, last_ts) = recovery::read_log(from, &first.state, end, &mut report, take)?;
        match Log::between(&first, &load()?, last_ts, &gone) {
            Log::Whole => break (restore, last_ts),
            Log::Before(ts) => end = ts,
            Log::Lost => return Ok(None),
        }
    };
    let mut all = first.state.clone();
    restore.finish(&mut all)?;
    all.last_ts = all.last_ts.max(last_ts);
    Ok(Some(Taken { named: first.state, all, staging }))
}

/// The files that `state` names, by their numbers; those from `passing` on are not the source's
/// own.
pub(crate) fn files(state: &State, passing: FileNo) -> Vec<Wanted> {
    let tables = state.files().map(|(_, table)| Wanted {
        kind: FileKind::Table,
        no: table.no,
        bytes: table.bytes,
        xxh3: Some(table.checksum),
        values: 0,
        is_passing: table.no >= passing,
    });
    let blobs = state.blobs.values().map(|blob| Wanted {
        kind: FileKind::Blob,
        no: blob.no,
        bytes: blob.bytes,
        xxh3: None,
        values: blob.values,
        is_passing: blob.no >= passing,
    });
    let mut all: Vec<Wanted> = tables.chain(blobs).collect();
    all.sort_unstable_by_key(|file| file.no);
    all
}

//! A database folder as the source of a backup: which files hold what it holds, whether nobody has
//! it open or somebody writes to it.
//!
//! What stands in the log alone is written to files of its own in a folder of the caller's: the
//! source is only read. A writer may go on meanwhile. It deletes files, and uses the log's segments
//! again, only once its manifest does without them; so what was read counts as far as the manifest,
//! read once more, says, and a file that is gone shows that it does not.

use crate::backup::depot::Wanted;
use crate::budget::Budget;
use crate::env::jobs::ByHand;
use crate::env::memory;
use crate::error::{Kind, Result};
use crate::ids::{CommitTs, FileNo};
use crate::manifest::load::Loaded;
use crate::manifest::log::Manifest;
use crate::manifest::state::State;
use crate::names::{self, FileKind};
use crate::options::Options;
use crate::pool::Pool;
use crate::recovery::{self, no_database};
use crate::restore::Restore;
use crate::stats::Recovery;
use crate::version::shelf::Shelf;
use crate::vfs::api::Vfs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The set of files of the database in `dir`, without what its log holds.
pub(crate) fn load(vfs: &dyn Vfs, dir: &Path) -> Result<Loaded> {
    let is_absent = || vfs.list(dir).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let loaded = Manifest::load(vfs, dir).map_err(|error| match error.kind() {
        Kind::Io if is_absent() => no_database(dir),
        _ => error,
    })?;
    loaded.ok_or_else(|| no_database(dir))
}

/// Adds to `state` what the log of the database in `dir` holds of commits before `end`, in files
/// that it makes in `staging`.
pub(crate) fn read_log(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    staging: &Path,
    state: &State,
    end: CommitTs,
) -> Result<State> {
    // No moment of what the log holds is given up.
    let options = Options { history: Some(Duration::MAX), ..Options::default() };
    let pool = Pool::new(Budget::of(&options, memory::bytes_usable()));
    let shelf = |dir: &Path| Shelf::new(Arc::clone(vfs), dir.to_owned(), Arc::clone(&pool), false);
    let (from, to) = (shelf(dir), shelf(staging));
    let mut restore = Restore::new(&to, &options, state, CommitTs::ZERO, &ByHand);
    let mut report = Recovery::default();
    let (_, last_ts) =
        recovery::read_log(&from, state, end, &mut report, &mut |commit, window| {
            restore.add(commit, window)
        })?;
    let mut all = state.clone();
    restore.finish(&mut all)?;
    all.last_ts = all.last_ts.max(last_ts);
    Ok(all)
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

/// Where a file lies: among those of the source, or of what was made of its log.
pub(crate) fn path(wanted: &Wanted, dir: &Path, staging: &Path) -> std::path::PathBuf {
    let dir = if wanted.is_passing { staging } else { dir };
    names::path(dir, wanted.kind, wanted.no)
}

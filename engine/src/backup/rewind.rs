//! Taking a set of files back to a moment: all that was committed later goes, and nothing else.
//!
//! A file without later commits stays as it is; of one that has some, a file is made without them,
//! on the same level. That is right for every moment from the history's floor on: until then
//! whatever a reader of it could ask for has been kept, deletes and what erasures hide included.
//! Absent: expiry. What has expired by the wall clock is gone for those who open the result.

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::ids::{CommitTs, FileNo};
use crate::manifest::edit::Edit;
use crate::manifest::state::State;
use crate::names::{self, FileName};
use crate::options::Options;
use crate::pool::Pool;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::sstable::reader::{BlockCache, TableFile};
use crate::version::shelf::Shelf;
use crate::vfs::api::{Access, Vfs};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are read ahead of a walk over a file.
const AHEAD_BYTES: usize = 1 << 20;

/// Makes `state`, whose files lie in `dir`, show what was visible at `at`: with files that it makes
/// there, and without those that are not needed any more. What is said of the newest commit stays,
/// so that no timestamp is ever given out again.
pub(crate) fn rewind(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    state: &mut State,
    at: CommitTs,
) -> Result<()> {
    let pool = Pool::new(Budget::without_caches());
    let shelf = Shelf::new(Arc::clone(vfs), dir.to_owned(), pool, false);
    let before: BTreeSet<FileName> = state.names().collect();
    let mut edit = Edit::default();
    let mut next = state.next_file;
    for (level, files) in (0u8..).zip(&state.levels) {
        let mut renewed = false;
        for file in files {
            // Files of L0 have the order of their numbers: behind a new one all are new.
            let stays = file.max_ts <= at && !(level == 0 && renewed);
            if stays {
                continue;
            }
            edit.removed.push((level, file.no));
            if file.min_ts > at {
                continue;
            }
            if let Some(table) = without_later(&shelf, file, next, at)? {
                edit.added.push((level, Arc::new(table)));
                renewed = true;
            }
            next = FileNo(next.0 + 1);
        }
    }
    edit.retired = state.erasures.iter().filter(|erasure| erasure.ts > at).cloned().collect();
    edit.next_file = Some(next);
    state.apply(&edit)?;
    if !edit.added.is_empty() {
        shelf.sync_names()?;
    }
    for (kind, no) in before.difference(&state.names().collect()) {
        let path = names::path(dir, *kind, *no);
        vfs.remove(&path).map_err(|e| Error::io("removing a file", &path, e))?;
    }
    Ok(())
}

/// Writes the versions of `file` up to `at` to file `no`; `None` where there are none.
fn without_later(
    shelf: &Shelf,
    file: &FileMeta,
    no: FileNo,
    at: CommitTs,
) -> Result<Option<FileMeta>> {
    let path = shelf.table_path(file.no);
    let opened = shelf.vfs.open(&path, Access::Read);
    let opened = opened.map_err(|e| Error::io("opening a table file", &path, e))?;
    let table = TableFile::open(opened, path, file, Arc::new(BlockCache::new(0)))?;
    let mut pass = Arc::new(table).pass(AHEAD_BYTES);
    let options = TableOptions::from(&Options::default());
    let mut builder = None;
    while pass.next()? {
        let (ts, kind, prefix_len) = (pass.ts(), pass.kind(), pass.prefix_len());
        if ts > at {
            continue;
        }
        let builder = match &mut builder {
            Some(builder) => builder,
            none => none.insert(shelf.create_table_file(no, &options)?),
        };
        let (key, value) = pass.key_and_value()?;
        builder.add_placed(key, prefix_len, ts, (kind, value), None)?;
    }
    let Some(builder) = builder else { return Ok(None) };
    let meta = builder.finish()?;
    // What the manifest alone knows of a file holds for a part of its rows too.
    Ok(Some(FileMeta { erased_to: file.erased_to, aged_to: file.aged_to, ..meta }))
}

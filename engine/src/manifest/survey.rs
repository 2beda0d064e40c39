//! What can be known of a database whose root or manifest is damaged beyond what `load` takes.
//!
//! Where no copy of the root says which manifest counts, the newest one that reads whole does.
//! Where none does, the edits that can still be read tell of files and erasures.
//!
//! Absent: judgement of files.

use crate::blob::format::BlobMeta;
use crate::erasure::set::Erasure;
use crate::error::{Error, Kind, Result};
use crate::folder;
use crate::ids::{CommitTs, FileNo};
use crate::manifest::edit::Edit;
use crate::manifest::frame::{self, HEADER_BYTES};
use crate::manifest::load::{find_root, read_edits};
use crate::manifest::root::Root;
use crate::manifest::state::State;
use crate::names::{self, FileKind};
use crate::sstable::format::FileMeta;
use crate::vfs::api::{Access, Vfs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What root and manifest still tell.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The whole state, where one manifest reads whole.
    pub(crate) state: Option<State>,
    pub(crate) db_id: Option<u128>,
    /// What edits said of table files, those that a later edit took away left out.
    pub(crate) files: BTreeMap<FileNo, Arc<FileMeta>>,
    pub(crate) removed: BTreeSet<FileNo>,
    pub(crate) blobs: BTreeMap<FileNo, Arc<BlobMeta>>,
    /// Every erasure that an edit told of. One that was retired hides nothing that is still needed.
    pub(crate) erasures: Vec<Erasure>,
    pub(crate) last_ts: CommitTs,
    /// Each damaged place.
    pub(crate) damage: Vec<Error>,
}

/// Reads what there is.
///
/// Errors: `NotFound` where the folder has no file of a database; `Unsupported` for one of a later
/// build.
pub(crate) fn survey(vfs: &dyn Vfs, dir: &Path) -> Result<Survey> {
    let mut survey = Survey::default();
    let mut roots = Vec::new();
    match find_root(vfs, dir, &mut survey.damage) {
        Ok(Some(root)) => roots.push(root),
        Ok(None) => {}
        Err(error) if error.kind() == Kind::Invalid => {}
        // What its files say is for a later build to know.
        Err(error) if error.kind() == Kind::Unsupported => return Err(error),
        Err(error) => survey.damage.push(error),
    }
    let ours = folder::files(vfs, dir)?;
    let is_data = |kind| matches!(kind, FileKind::Table | FileKind::Blob | FileKind::Wal);
    if roots.is_empty() && survey.damage.is_empty() && !ours.iter().any(|(kind, _)| is_data(*kind))
    {
        return Err(folder::no_database(dir));
    }
    let mut others: Vec<Root> = ours
        .iter()
        .filter(|(kind, _)| matches!(kind, FileKind::Manifest(_)))
        .filter_map(|(kind, no)| header(vfs, &names::path(dir, *kind, *no)))
        .collect();
    others.sort_by_key(|root| std::cmp::Reverse(root.generation));
    others.dedup();
    roots.extend(others);
    for root in roots {
        survey.db_id.get_or_insert(root.db_id);
        let mut damage = Vec::new();
        let read = read_edits(vfs, dir, &root, &mut damage, &mut |_, _, edit| survey.take(edit));
        survey.damage.append(&mut damage);
        match read {
            Ok((state, ..)) => {
                survey.last_ts = survey.last_ts.max(state.last_ts);
                survey.state = Some(state);
                break;
            }
            Err(error) => survey.damage.push(error),
        }
    }
    Ok(survey)
}

/// The root that would name the manifest file at `path`.
fn header(vfs: &dyn Vfs, path: &Path) -> Option<Root> {
    let file = vfs.open(path, Access::Read).ok()?;
    let bytes = file.read_vec_at(HEADER_BYTES, 0).ok()?;
    let (generation, db_id) = frame::decode_header(&bytes)?;
    Some(Root { generation, db_id })
}

impl Survey {
    fn take(&mut self, edit: &Edit) {
        for (_, no) in &edit.removed {
            self.files.remove(no);
            self.removed.insert(*no);
        }
        for (_, meta) in &edit.added {
            self.removed.remove(&meta.no);
            self.files.insert(meta.no, Arc::clone(meta));
        }
        self.blobs.extend(edit.blobs.iter().map(|blob| (blob.no, Arc::clone(blob))));
        self.erasures.extend(edit.erased.iter().cloned());
        self.last_ts = self.last_ts.max(edit.last_ts.unwrap_or_default());
    }
}

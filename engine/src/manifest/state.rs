//! The set of files that edits add up to. Pure.

use crate::blob::format::{BlobMeta, Uses};
use crate::env::rng::Rng;
use crate::erasure::set::Erasures;
use crate::ids::{CommitTs, FileNo};
use crate::limits::LEVELS;
use crate::manifest::edit::Edit;
use crate::names::{FileKind, FileName};
use crate::sstable::format::FileMeta;
use crate::wal::format::LogFloor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// L0 by file number, oldest first; the others by key, no two overlapping.
    pub(crate) levels: [Vec<Arc<FileMeta>>; LEVELS],
    /// What hides rows of files.
    pub(crate) erasures: Arc<Erasures>,
    /// The blob files that files refer to.
    pub(crate) blobs: BTreeMap<FileNo, Arc<BlobMeta>>,
    /// Where the log begins that is needed.
    pub(crate) log_floor: LogFloor,
    /// The number that the next new file gets; above that of every file.
    pub(crate) next_file: FileNo,
    /// Every commit up to here is in files; every later one is in the log, or yet to come.
    pub(crate) last_ts: CommitTs,
    /// The oldest moment that can be read: what only earlier ones show may have been dropped.
    pub(crate) history_floor: CommitTs,
    /// How far back it is to be readable, in ticks: as it was last opened.
    pub(crate) history: u64,
    /// Chosen when the database was made.
    pub(crate) db_id: u128,
}

/// The id of a new database, also of one that begins as a copy: numbers of files are told apart by
/// it once both go on.
pub(crate) fn new_id(seed: u64) -> u128 {
    let mut rng = Rng::seeded(seed);
    u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
}

impl State {
    /// A database without files.
    pub(crate) fn empty(db_id: u128) -> State {
        State { next_file: FileNo(1), db_id, ..State::default() }
    }

    /// Every file with its level.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u8, &Arc<FileMeta>)> {
        self.levels
            .iter()
            .zip(0u8..)
            .flat_map(|(files, level)| files.iter().map(move |f| (level, f)))
    }

    /// The names of all table files and blob files.
    pub(crate) fn names(&self) -> impl Iterator<Item = FileName> {
        let tables = self.files().map(|(_, file)| (FileKind::Table, file.no));
        tables.chain(self.blobs.keys().map(|no| (FileKind::Blob, *no)))
    }

    /// The largest number in it from which anybody counts on.
    pub(crate) fn largest_number(&self) -> u64 {
        self.as_edit().largest_number()
    }

    /// The edit that makes this state out of an empty one.
    pub(crate) fn as_edit(&self) -> Edit {
        Edit {
            added: self.files().map(|(level, file)| (level, file.clone())).collect(),
            removed: Vec::new(),
            blobs: self.blobs.values().cloned().collect(),
            log_floor: Some(self.log_floor),
            next_file: Some(self.next_file),
            last_ts: Some(self.last_ts),
            history_floor: Some(self.history_floor),
            history: Some(self.history).filter(|ticks| *ticks > 0),
            erased: self.erasures.iter().cloned().collect(),
            retired: Vec::new(),
        }
    }

    /// Every blob file with what files refer to of it. Cost: a look at each file.
    pub(crate) fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (no, used) in self.files().flat_map(|(_, file)| &file.blobs) {
            let sum = uses.entry(*no).or_default();
            *sum = sum.plus(*used).unwrap_or(*sum); // Whoever made the state has proved that it adds up.
        }
        uses
    }
}

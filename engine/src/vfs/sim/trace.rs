//! The record of a run on a simulated disk: every effect with the disk as it left it, and the
//! marks that the test put in between.

use crate::vfs::sim::disk::Disk;
use std::fmt;
use std::path::{Path, PathBuf};

/// A call that changed the disk, or what the disk has promised to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A folder was made.
    CreateDir(PathBuf),
    /// A file was made.
    Create(PathBuf),
    /// A name was removed.
    Remove(PathBuf),
    /// A file changed its name.
    Rename(PathBuf, PathBuf),
    /// A file got a second name.
    HardLink(PathBuf, PathBuf),
    /// The names of a folder became durable.
    SyncDir(PathBuf),
    /// Bytes were written.
    Write {
        /// The file.
        file: PathBuf,
        /// Where.
        offset: u64,
        /// How many.
        bytes: usize,
    },
    /// A file was cut or extended to this length.
    SetLen(PathBuf, u64),
    /// A file became durable.
    Sync(PathBuf),
    /// A sync of a file or a folder failed, as the test had asked for.
    FailSync(PathBuf),
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |f: &mut fmt::Formatter<'_>, what: &str, path: &Path| {
            write!(f, "{what} {}", path.display())
        };
        match self {
            Effect::CreateDir(dir) => one(f, "make folder", dir),
            Effect::Create(file) => one(f, "create", file),
            Effect::Remove(file) => one(f, "remove", file),
            Effect::Rename(from, to) => write!(f, "rename {} to {}", from.display(), to.display()),
            Effect::HardLink(from, to) => write!(f, "link {} as {}", from.display(), to.display()),
            Effect::SyncDir(dir) => one(f, "sync folder", dir),
            Effect::Write { file, offset, bytes } => {
                write!(f, "write {} bytes {offset}..{}", file.display(), offset + *bytes as u64)
            }
            Effect::SetLen(file, len) => write!(f, "set length of {} to {len}", file.display()),
            Effect::Sync(file) => one(f, "sync", file),
            Effect::FailSync(file) => one(f, "fail to sync", file),
        }
    }
}

/// What a [`crate::vfs::mem::Trace`] has collected.
#[derive(Debug)]
pub(crate) struct Log {
    start: Disk,
    effects: Vec<(Effect, Disk)>,
    /// How many effects came before the mark, and its value.
    marks: Vec<(usize, u64)>,
}

impl Log {
    pub(crate) fn new(start: Disk) -> Log {
        Log { start, effects: Vec::new(), marks: Vec::new() }
    }

    pub(crate) fn push(&mut self, effect: Effect, disk: Disk) {
        self.effects.push((effect, disk));
    }

    pub(crate) fn mark(&mut self, value: u64) {
        self.marks.push((self.effects.len(), value));
    }

    pub(crate) fn len(&self) -> usize {
        self.effects.len()
    }

    pub(crate) fn effect(&self, n: usize) -> Option<&Effect> {
        Some(&self.effects.get(n.checked_sub(1)?)?.0)
    }

    pub(crate) fn disk(&self, n: usize) -> Option<&Disk> {
        match n {
            0 => Some(&self.start),
            n => Some(&self.effects.get(n - 1)?.1),
        }
    }

    pub(crate) fn marks(&self, n: usize) -> impl Iterator<Item = u64> {
        // Marks come in order, so the ones wanted are a prefix.
        let wanted = self.marks.partition_point(|(before, _)| *before <= n);
        self.marks[..wanted].iter().map(|(_, value)| *value)
    }
}

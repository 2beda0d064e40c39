//! Whether a database takes commits now, and what keeps it from that.
//!
//! Asking changes nothing and waits for nothing but the look at how full the disk is.

use crate::db::{Db, Inner};
use crate::event::StallReason;
use crate::stall::{Stall, stall};

/// What keeps a database from taking commits.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It was opened for reading only.
    ReadOnly,
    /// Its log failed, or it is closed: this lasts until it is opened again.
    Log {
        /// What the log said.
        error: String,
    },
    /// Commits wait until background work has caught up.
    Stalled {
        /// Which work.
        reason: StallReason,
        /// What that work last failed with, if it did.
        error: Option<String>,
    },
    /// The log needs room that the disk does not have.
    DiskFull {
        /// Bytes that the disk still has.
        bytes_available: u64,
    },
}

/// A commit of this size has to be possible: the largest entity.
const COMMIT_BYTES: usize = 1 << 20;

/// What the disk needs to have for a log segment that takes such a commit.
const SEGMENT_BYTES: u64 = 4 << 20;

impl Db {
    /// What keeps commits from being taken now; `None` where a commit of an entity of any size
    /// would be. One at a time: whoever asks again after the first is gone learns of the next. A
    /// write or sync of the log that does not return is none.
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.inner.obstacle()
    }
}

impl Inner {
    fn obstacle(&self) -> Option<Obstacle> {
        let Ok(writer) = self.writer() else { return Some(Obstacle::ReadOnly) };
        let takes = writer.pipeline.would_take(COMMIT_BYTES);
        if let Some(Err(error)) = &takes {
            return Some(Obstacle::Log { error: error.to_string() });
        }
        if let Stall::Stop(cause) = stall(self.tree.debt(), 0, &self.tree.options) {
            let error = writer.work.last_error();
            return Some(Obstacle::Stalled { reason: cause.into(), error });
        }
        // Who is in the way is committing.
        if matches!(takes, None | Some(Ok(true))) {
            return None;
        }
        // Where the disk does not say how full it is, a commit will.
        let shelf = &self.tree.shelf;
        let available = shelf.vfs.bytes_available(&shelf.dir).unwrap_or(u64::MAX);
        let is_full = available < SEGMENT_BYTES;
        is_full.then_some(Obstacle::DiskFull { bytes_available: available })
    }
}

//! A run that is over: all that its crashes are judged by.

use crate::kept::Kept;
use crate::look::read_world;
use crate::model::{History, Need, World};
use crate::stop::Stop;
use std::path::PathBuf;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::error::Kind;
use tabulith::options::Options;
use tabulith::vfs::mem::{SimFs, Trace};

/// A run that is over: all that its crashes are judged by.
pub(crate) struct Finished {
    pub(crate) trace: Trace,
    pub(crate) history: History,
    /// What must be there before the run promised anything itself.
    pub(crate) floor: Need,
    pub(crate) options: Options,
    /// Whether all up to a timestamp is safe once someone was told of it: where every commit is
    /// durable, and threads cannot count them.
    pub(crate) told_is_safe: bool,
    /// In their order.
    pub(crate) unsure: Vec<Unsure>,
    /// Databases that were made beside the one at work, in their order.
    pub(crate) copies: Vec<Made>,
    /// Flushes because the log was long.
    pub(crate) long_logs: u64,
    /// What is promised of the past, and how many moments of it were shown, those of no commit
    /// apart too.
    pub(crate) kept: Kept,
    pub(crate) moments: u64,
    pub(crate) quiet_moments: u64,
}

/// An open that found what may be of several counts of commits, as where a table was made and
/// dropped, and went on from the fewest. Until it told anybody, a crash may leave any of them.
#[derive(Clone, Debug)]
pub(crate) struct Unsure {
    /// As many commits as may be there.
    pub(crate) history: History,
    /// So many effects come before it told.
    pub(crate) effects: usize,
}

impl Finished {
    /// What must survive a crash after effect `n`.
    pub(crate) fn need(&self, n: usize) -> Need {
        let marks = self.trace.marks(n);
        let need = marks.into_iter().map(Need::from_mark).fold(self.floor, Need::max);
        match self.told_is_safe {
            true => need.max(Need::all(self.history.count_at(need.told_ts))),
            false => need,
        }
    }
}

/// A checkpoint or an export that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) dir: PathBuf,
    /// So many effects come before it was begun, and before it was acknowledged.
    pub(crate) begun: usize,
    pub(crate) done: usize,
    /// What it holds, and the time by which it was made.
    pub(crate) world: World,
    pub(crate) now: u64,
}

impl Made {
    /// Whether it is there, and then it is there whole. An error where it is there in part.
    pub(crate) fn is_on(&self, fs: &SimFs, options: &Options) -> Result<bool, Stop> {
        let options = Options { create_if_missing: false, ..options.clone() };
        let (vfs, clock) = (Arc::new(fs.clone()), Arc::new(ManualClock::at(self.now)));
        let builder = Db::builder().options(options).parts(vfs, clock, Arc::new(ByHand));
        let db = match builder.open(&self.dir) {
            Ok(db) => db,
            // Nothing of it counts yet: no database, or files without one.
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Corrupt) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.check(&read_world(&db)?, db.time().0)?;
        Ok(true)
    }

    /// Holds what it shows by the time `now` against what it must hold.
    pub(crate) fn check(&self, found: &World, now: u64) -> Result<(), Stop> {
        match self.world.shows(found, now) {
            true => Ok(()),
            false => Err(Stop::Wrong(format!(
                "{}: {}",
                self.dir.display(),
                self.world.differences(found, now).join("; ")
            ))),
        }
    }
}

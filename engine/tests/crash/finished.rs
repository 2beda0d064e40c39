//! A run that is over: all that its crashes are judged by.

use crate::model::{History, Need};
use tabulith::options::Options;
use tabulith::vfs::mem::Trace;

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
}

/// An open that found what may be of several counts of commits, as where a table was made and dropped, and
/// went on from the fewest. Until it told anybody, a crash may leave any of them.
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

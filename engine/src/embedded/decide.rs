//! Whether changes of one partition happen: conditions on rows, and what is told when one does not
//! hold.

use crate::checks::name_of;
use crate::db::Db;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, TableId};
use crate::options::{Durability, Reach};
use crate::rows::{CommitTicket, PartitionUpdate, RowStore};

/// What a row must be like for a change to happen.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum If {
    /// Anything, or nothing.
    Any,
    /// It must not exist.
    Absent,
    /// It must exist.
    Present,
    /// It must be as this commit left it.
    Match(CommitTs),
}

impl If {
    /// `written`: the commit that wrote the row under `rk`, if there is one.
    pub(super) fn check(self, rk: &[u8], written: Option<CommitTs>) -> Result<()> {
        let refused = |kind, what| Err(Error::new(kind, format!("{} {what}", name_of(rk))));
        match (self, written) {
            (If::Any, _) | (If::Absent, None) | (If::Present, Some(_)) => Ok(()),
            (If::Absent, Some(_)) => refused(Kind::Exists, "exists"),
            (If::Match(ts), Some(written)) if written == ts => Ok(()),
            (If::Match(_), written @ Some(_)) => Err(Error::changed_since(&name_of(rk), written)),
            (_, None) => refused(Kind::NotFound, "does not exist"),
        }
    }
}

/// What was applied, with its ticket; or why nothing was, with what is to be waited for before that
/// is told.
pub(super) type Decided =
    Result<(CommitTs, Box<dyn CommitTicket>), (Error, Option<Box<dyn CommitTicket>>)>;

/// Applies changes of one partition. An error comes with what is to be waited for before it is
/// told: the row that refused may not be durable yet, and what a crash can still take away is not
/// told.
pub(super) fn decide(
    (db, id, pk): (&Db, TableId, &[u8]),
    durability: Option<Durability>,
    changes: &mut dyn FnMut(&mut dyn PartitionUpdate) -> Result<()>,
) -> Decided {
    match db.update(id, pk, durability, Reach::Disk, changes) {
        Ok(ticket) => Ok((ticket.ts(), ticket)),
        // An update that writes nothing waits for all that it could read.
        Err(error) if is_condition(&error) => {
            match db.update(id, pk, None, Reach::Disk, &mut |_| Ok(())) {
                Ok(read) => Err((error, Some(read))),
                Err(closed) => Err((closed, None)),
            }
        }
        Err(error) => Err((error, None)),
    }
}

/// Waits until what was decided is as safe as was asked for.
pub(super) fn commit(decided: Decided) -> Result<CommitTs> {
    match decided {
        Ok((ts, ticket)) => ticket.wait().map(|()| ts),
        Err((error, None)) => Err(error),
        Err((error, Some(read))) => read.wait().and(Err(error)),
    }
}

fn is_condition(error: &Error) -> bool {
    matches!(error.kind(), Kind::Exists | Kind::NotFound | Kind::Changed)
}

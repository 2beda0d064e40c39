//! Reading a folder beside the process that writes to it.
//!
//! Who has no lock reads the manifest first and the log last. Between the two the writer may have
//! given up segments of the log, whose files it writes anew, or added rows past the log: only the
//! manifest, read once more, tells whether the log still goes on where the first reading ends.
//!
//! Files of rows are opened before that second reading (`version/shelf.rs` holds them), so that
//! they are read after the writer has deleted them.

use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::manifest::load::Loaded;
use crate::names::FileName;

/// How often a folder that somebody writes to is read anew before that is given up.
const ROUNDS: usize = 50;

/// The same failure so often in a row is not because of a writer.
const FAILURES: usize = 5;

/// What the log, read up to some commit between two readings of the manifest, is worth on top of
/// the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// All of it counts.
    Whole,
    /// What comes before this moment counts: the rows of that moment went past the log.
    Before(CommitTs),
    /// Nobody knows.
    Lost,
}

impl Log {
    /// For a log that was read up to commit `to` after the manifest was read for the first time and
    /// the files that it names were opened, of which those in `gone` had no name any more. One that
    /// is gone and still named was lost: whoever reads it is told.
    pub(crate) fn between(first: &Loaded, again: &Loaded, to: CommitTs, gone: &[FileName]) -> Log {
        let same_last_ts = first.state.last_ts == again.state.last_ts;
        if first.state.log_floor.segment != again.state.log_floor.segment
            || first.generation != again.generation && !same_last_ts
            || gone.iter().any(|file| again.state.names().all(|named| named != *file))
        {
            return Log::Lost;
        }
        let past_log = again.past_log.iter().filter(|ts| **ts > first.state.last_ts);
        match past_log.min() {
            Some(ts) if *ts < to => Log::Before(*ts),
            _ => Log::Whole,
        }
    }
}

/// Calls `round` until it gives something: it answers `None` where a writer was quicker, and a
/// failure that only a writer can have caused passes.
///
/// Errors: `Busy` where the writer always is; whatever `round` repeats.
pub(crate) fn settled<T>(mut round: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let (mut last, mut failures) = (String::new(), 0);
    for _ in 0..ROUNDS {
        match round() {
            Ok(Some(read)) => return Ok(read),
            Ok(None) => failures = 0,
            // A writer that goes on looks like damage, or like a file that is missing.
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Io | Kind::NotFound) => {
                failures = if error.to_string() == last { failures + 1 } else { 1 };
                if failures == FAILURES {
                    return Err(error);
                }
                last = error.to_string();
            }
            Err(error) => return Err(error),
        }
    }
    let what = "the database changes faster than its files are opened and its log is read";
    Err(Error::new(Kind::Busy, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{FileNo, SegmentId};
    use crate::manifest::state::State;
    use crate::names::FileKind;
    use crate::wal::format::LogFloor;

    /// A manifest of `generation`, with commits up to `last_ts` in files, and those of `past_log`.
    fn manifest(generation: u64, last_ts: u64, past_log: &[u64]) -> Loaded {
        let (log_floor, last_ts) = (LogFloor::at(SegmentId(3)), CommitTs(last_ts));
        Loaded {
            state: State { log_floor, last_ts, ..State::empty(7) },
            generation,
            edits: 1,
            past_log: past_log.iter().map(|ts| CommitTs(*ts)).collect(),
            repairs: Vec::new(),
        }
    }

    #[test]
    fn a_log_counts_up_to_what_went_past_it() {
        let first = manifest(1, 10, &[5, 10]);
        for (again, to, log) in [
            (manifest(1, 10, &[5, 10]), 30, Log::Whole),
            (manifest(1, 20, &[5, 10]), 30, Log::Whole),
            (manifest(1, 20, &[5, 10, 20]), 19, Log::Whole),
            (manifest(1, 25, &[5, 10, 20, 25]), 30, Log::Before(CommitTs(20))),
            (manifest(2, 10, &[]), 30, Log::Whole),
            (manifest(2, 20, &[]), 30, Log::Lost),
        ] {
            assert_eq!(Log::between(&first, &again, CommitTs(to), &[]), log, "{again:?}");
        }
        let mut other = manifest(1, 10, &[5, 10]);
        other.state.log_floor = LogFloor::at(SegmentId(4));
        assert_eq!(Log::between(&first, &other, CommitTs(30), &[]), Log::Lost);
        // A file that was given up belongs to a moment that is over.
        let gone = [(FileKind::Table, FileNo(3))];
        assert_eq!(Log::between(&first, &first, CommitTs(30), &gone), Log::Lost);
    }

    #[test]
    fn a_failure_that_stays_is_told_and_one_that_changes_is_not() {
        let mut rounds = 0;
        let mut fails = |same: bool| -> Result<()> {
            rounds = 0;
            settled(|| {
                rounds += 1;
                let no = if same { 0 } else { rounds };
                let error = Error::new(Kind::Corrupt, format!("place {no}"));
                if rounds < 20 { Err(error) } else { Ok(Some(())) }
            })
        };
        assert_eq!(fails(true).map_err(|error| error.kind()), Err(Kind::Corrupt));
        assert!(fails(false).is_ok());
        let never = settled(|| Ok(None::<()>));
        assert_eq!(never.map_err(|error| error.kind()), Err(Kind::Busy));
    }
}

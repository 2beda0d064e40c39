//! Savepoints: places in a sequence of changes to come back to.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// Savepoints that this process has made: no two sequences of changes have one of the same number.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A place in a transaction or a batch to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

/// The savepoints of one sequence of changes, with how far it was at each.
#[derive(Clone, Debug)]
pub(crate) struct Savepoints<Mark> {
    marks: Vec<(Savepoint, Mark)>,
}

impl<Mark> Default for Savepoints<Mark> {
    fn default() -> Savepoints<Mark> {
        Savepoints { marks: Vec::new() }
    }
}

impl<Mark: Copy> Savepoints<Mark> {
    /// Adds one.
    pub(crate) fn add(&mut self, mark: Mark) -> Savepoint {
        let savepoint = Savepoint(MADE.fetch_add(1, Ordering::Relaxed));
        self.marks.push((savepoint, mark));
        savepoint
    }

    /// How far it was at `savepoint`, which stays; those after it are forgotten.
    ///
    /// Errors: `Invalid` for one of other changes, or one made after another that was returned to
    /// since.
    pub(crate) fn back_to(&mut self, savepoint: Savepoint) -> Result<Mark> {
        let place = self.marks.iter().position(|(known, _)| *known == savepoint);
        let Some(place) = place else {
            return Err(Error::invalid("a savepoint that is not one of these changes"));
        };
        self.marks.truncate(place + 1);
        Ok(self.marks[place].1)
    }
}

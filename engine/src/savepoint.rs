//! Savepoints: places in a sequence of changes to come back to.

use crate::error::{Error, Result};

/// A place in a transaction or a batch to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

/// The savepoints of one sequence of changes, with how far it was at each.
#[derive(Clone, Debug)]
pub(crate) struct Savepoints<Mark> {
    marks: Vec<(Savepoint, Mark)>,
    last: u64,
}

impl<Mark> Default for Savepoints<Mark> {
    fn default() -> Savepoints<Mark> {
        Savepoints { marks: Vec::new(), last: 0 }
    }
}

impl<Mark: Copy> Savepoints<Mark> {
    /// Adds one.
    pub(crate) fn add(&mut self, mark: Mark) -> Savepoint {
        self.last += 1;
        self.marks.push((Savepoint(self.last), mark));
        Savepoint(self.last)
    }

    /// How far it was at `savepoint`, which stays; those after it are forgotten.
    ///
    /// Errors: `Invalid` for one of other changes, or one made after another that was returned to since.
    pub(crate) fn back_to(&mut self, savepoint: Savepoint) -> Result<Mark> {
        let place = self.marks.iter().position(|(known, _)| *known == savepoint);
        let Some(place) = place else {
            return Err(Error::invalid("a savepoint that is not one of these changes"));
        };
        self.marks.truncate(place + 1);
        Ok(self.marks[place].1)
    }
}

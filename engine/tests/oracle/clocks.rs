//! A wall clock that only the list turns: a commit that has to pause moves the steady clock alone.
//!
//! How long commits pause depends on how far threads got. Were that time on the wall clock, rows
//! would expire between what the model was asked and what the store was.

use std::time::Duration;
use tabulith::env::clock::{Clock, ManualClock};

/// Both clocks of a store.
#[derive(Debug)]
pub(crate) struct Clocks {
    wall: ManualClock,
    steady: ManualClock,
}

impl Clocks {
    /// Stands at `wall_ticks`.
    pub(crate) fn at(wall_ticks: u64) -> Clocks {
        Clocks { wall: ManualClock::at(wall_ticks), steady: ManualClock::at(0) }
    }

    /// Moves both on.
    pub(crate) fn advance(&self, time: Duration) {
        self.wall.advance(time);
        self.steady.advance(time);
    }

    /// Sets the wall clock alone, back or forth.
    pub(crate) fn set_wall(&self, wall_ticks: u64) {
        self.wall.set_wall(wall_ticks);
    }
}

impl Clock for Clocks {
    fn wall_ticks(&self) -> u64 {
        self.wall.wall_ticks()
    }

    fn steady(&self) -> Duration {
        self.steady.steady()
    }

    fn sleep(&self, time: Duration) {
        self.steady.advance(time);
    }
}

//! The history window as it changes between opens, and which moments of the past a database must
//! show whole.
//!
//! The window stands in the manifest; an open that says one changes it, an open that says nothing
//! keeps it. How far a database that is open has risen its floor depends on when it flushed and
//! merged, so of a window that is shorter than all of a run nothing is asked but that what is shown
//! is right: any moment may be refused. Of one that is longer than any run every moment must be
//! shown from when it was in force:
//!
//! ```text
//! opens that say   long        short       nothing     long          nothing
//!                    |-----------|           |           |-------------|------
//! may be refused   ..            .............................
//! must be shown      ............                            .................
//! ```
//!
//! - A window is known from when the open that sets it has returned: by then the manifest that has
//!   it is durable, and no floor is above the newest timestamp. From there on a long one counts.
//! - From when such an open begins the window is not known: whoever opens after a crash in between
//!   finds the old one or the new one. What is asked for then is what both of them keep: a short
//!   one counts at once.
//! - An open that says nothing finds the window that is known, and leaves all as it was.

use crate::look::LONG_HISTORY;
use std::time::Duration;

/// What is promised of the past.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    /// Moments from here on must be shown.
    pub(crate) from: u64,
    /// The window, where it is known.
    pub(crate) window: Option<Duration>,
}

impl Promise {
    pub(crate) const NONE: Promise = Promise { from: u64::MAX, window: None };
}

/// The same by the effects that had come when it changed.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    now: Promise,
    /// What it was from so many effects on, in their order.
    changes: Vec<(usize, Promise)>,
}

impl Kept {
    /// For whoever opens next.
    pub(crate) fn since(now: Promise) -> Kept {
        Kept { now, changes: vec![(0, now)] }
    }

    pub(crate) fn now(&self) -> Promise {
        self.now
    }

    /// The same after the first `n` effects.
    pub(crate) fn after(&self, n: usize) -> Promise {
        let last = self.changes.partition_point(|(effects, _)| *effects <= n);
        last.checked_sub(1).map_or(Promise::NONE, |last| self.changes[last].1)
    }

    /// An open that says `history` begins, after so many effects.
    pub(crate) fn begin(&mut self, history: Option<Duration>, effects: usize) {
        let Some(window) = history.filter(|window| self.now.window != Some(*window)) else {
            return;
        };
        let from = if window < LONG_HISTORY { u64::MAX } else { self.now.from };
        self.change(Promise { from, window: None }, effects);
    }

    /// It has returned: the newest timestamp is `visible`, and the window is `found`. Gives whether
    /// that may be.
    pub(crate) fn end(
        &mut self,
        history: Option<Duration>,
        (visible, found): (u64, Duration),
        effects: usize,
    ) -> bool {
        let known = history.or(self.now.window);
        if self.now.window != Some(found) {
            let from = if found < LONG_HISTORY { u64::MAX } else { self.now.from.min(visible) };
            self.change(Promise { from, window: Some(found) }, effects);
        }
        known.is_none_or(|known| known == found)
    }

    /// How often what is promised became more or less.
    pub(crate) fn changes(&self) -> usize {
        self.changes.len() - 1
    }

    fn change(&mut self, now: Promise, effects: usize) {
        self.now = now;
        self.changes.push((effects, now));
    }
}

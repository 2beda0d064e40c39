//! A watch over work that may hang: where no step ends for too long, it says which one, and the
//! program ends.
//!
//! Time is counted in looks that the watch itself took: on a machine that stood still meanwhile,
//! the watch stood still as well.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What the line of a hang begins with; what hangs comes next.
pub const MARK: &str = "hangs: ";

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// So many looks in a row that saw no step end: 20 seconds. Steps take milliseconds.
const LOOKS_MAX: u32 = 80;

/// What the work that is watched tells of itself.
#[derive(Debug, Default)]
pub struct Watch {
    steps: AtomicU64,
    now: Mutex<(String, bool)>,
    ended: Condvar,
}

impl Watch {
    /// A step begins, of this name.
    pub fn step(&self, name: impl Into<String>) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).0 = name.into();
        self.tick();
    }

    /// The same step has got on.
    pub fn tick(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Looks until the work has ended, or hangs; then calls `alarm` with what does.
    fn look(&self, every: Duration, alarm: impl FnOnce(&str)) {
        let (mut seen, mut quiet) = (0, 0);
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        while !now.1 {
            let waited = self.ended.wait_timeout(now, every);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
            let steps = self.steps.load(Ordering::Relaxed);
            quiet = if steps == seen { quiet + 1 } else { 0 };
            seen = steps;
            if quiet >= LOOKS_MAX {
                return alarm(&now.0);
            }
        }
    }
}

/// Says that the work has ended, be it by a panic.
struct Ends<'a>(&'a Watch);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.0.ended.notify_all();
    }
}

/// Runs `work`, which is to tell of each step. Where one does not end, the program does: what hangs
/// has no other way to be seen.
pub fn watched<T>(work: impl FnOnce(&Watch) -> T) -> T {
    watched_by(LOOK_EVERY, work, |step| {
        // What print macros write libtest keeps, and it goes with the process.
        let _ = writeln!(io::stderr(), "{MARK}{step}");
        std::process::abort();
    })
}

fn watched_by<T>(
    every: Duration,
    work: impl FnOnce(&Watch) -> T,
    alarm: impl FnOnce(&str) + Send,
) -> T {
    let watch = Watch::default();
    std::thread::scope(|scope| {
        scope.spawn(|| watch.look(every, alarm));
        let _ends = Ends(&watch);
        work(&watch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const SOON: Duration = Duration::from_micros(100);

    #[test]
    fn what_hangs_is_named() {
        let (sender, receiver) = mpsc::channel();
        let work = |watch: &Watch| {
            watch.step("the first");
            watch.step("the second");
            receiver.recv().expect("the watch says so") // Nothing else would end it.
        };
        let said = watched_by(SOON, work, |step| {
            sender.send(step.to_owned()).expect("the work waits for it");
        });
        assert_eq!(said, "the second");
    }

    #[test]
    fn what_gets_on_or_ends_or_panics_does_not_hang() {
        assert_eq!(watched(|watch| (0..100).for_each(|_| watch.tick())), ());
        assert_eq!(watched(|_| 7), 7);
        let panic = std::panic::catch_unwind(|| watched(|_| panic!("its own failure")));
        assert!(panic.is_err(), "a panic comes through");
    }
}

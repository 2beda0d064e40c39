//! Says what repeats once a second, and how often it was: a disk that is full refuses thousands a
//! second, and a line of the log for each would fill what is left of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Who decides whether it is said.
#[derive(Debug)]
pub struct Sparing {
    /// The second in which it was said last, from 1; 0 before that.
    second: AtomicU64,
    unsaid: AtomicU64,
}

impl Sparing {
    /// Of something that was never said.
    pub const fn new() -> Sparing {
        Sparing { second: AtomicU64::new(0), unsaid: AtomicU64::new(0) }
    }

    /// Counts one more at a time of the steady clock. Where it is to be said, returns how many
    /// before it were not.
    pub fn one_more(&self, now: Duration) -> Option<u64> {
        let (second, last) = (now.as_secs() + 1, self.second.load(Ordering::Relaxed));
        let is_first = second > last
            && self
                .second
                .compare_exchange(last, second, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_first {
            return Some(self.unsaid.swap(0, Ordering::Relaxed));
        }
        self.unsaid.fetch_add(1, Ordering::Relaxed);
        None
    }
}

impl Default for Sparing {
    fn default() -> Sparing {
        Sparing::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_second_is_said_with_those_that_were_not() {
        let sparing = Sparing::new();
        let at = |ms| sparing.one_more(Duration::from_millis(ms));
        assert_eq!([at(300), at(300), at(999)], [Some(0), None, None]);
        assert_eq!([at(1_000), at(1_999), at(500)], [Some(2), None, None], "time does not go back");
        assert_eq!([at(9_000), at(9_001)], [Some(2), None]);
    }
}

//! Keeps a copy to its rate.

use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};

/// So many rows a second, from its making on.
pub(crate) struct Pace {
    clock: SystemClock,
    rate: Option<u32>,
    rows: u64,
}

impl Pace {
    /// The pace of that rate; none is as fast as can be.
    pub(crate) fn new(rate: Option<u32>) -> Pace {
        Pace { clock: SystemClock::new(), rate, rows: 0 }
    }

    /// Waits until so many more rows are due.
    pub(crate) async fn wait_for(&mut self, rows: usize) {
        let wait = self.wait(self.clock.steady());
        self.rows += rows as u64;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// How long until what is sent already was due.
    fn wait(&self, now: Duration) -> Duration {
        let Some(rate) = self.rate else { return Duration::ZERO };
        let due = Duration::from_secs_f64(self.rows as f64 / f64::from(rate));
        due.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_due_at_their_rate() {
        let mut pace = Pace::new(Some(200));
        assert_eq!(pace.wait(Duration::ZERO), Duration::ZERO, "the first ones at once");
        pace.rows = 100;
        assert_eq!(pace.wait(Duration::from_millis(100)), Duration::from_millis(400));
        assert_eq!(pace.wait(Duration::from_secs(2)), Duration::ZERO);
        assert_eq!(Pace { rows: 1 << 40, ..Pace::new(None) }.wait(Duration::ZERO), Duration::ZERO);
    }
}

//! A token bucket that is one number: the moment at which it will be full again.
//!
//! It holds what flows in within a second, and a full one gives whatever is asked of it: a batch
//! may be larger than a second's worth, and is paid for afterwards.

use std::num::NonZeroU32;
use std::time::Duration;

/// How much flows into an empty bucket until it is full.
const DEPTH: Duration = Duration::from_secs(1);

/// A bucket. New ones are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    full_at: Duration,
}

impl Bucket {
    /// Takes tokens, of which `rate` flow in every second, or none where there are too few.
    #[must_use]
    pub fn take(&mut self, tokens: u32, rate: NonZeroU32, now: Duration) -> bool {
        let missing = self.full_at.saturating_sub(now);
        let cost = Duration::from_secs(1).saturating_mul(tokens) / rate.get();
        let enough = missing.is_zero() || missing.saturating_add(cost) <= DEPTH;
        if enough {
            self.full_at = now.saturating_add(missing).saturating_add(cost);
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: NonZeroU32 = NonZeroU32::new(10).expect("not 0");

    fn taken(bucket: &mut Bucket, at_ms: u64) -> usize {
        (0..100).take_while(|_| bucket.take(1, RATE, Duration::from_millis(at_ms))).count()
    }

    #[test]
    fn a_second_holds_a_seconds_worth() {
        let mut bucket = Bucket::default();
        assert_eq!(taken(&mut bucket, 0), 10);
        assert_eq!(taken(&mut bucket, 99), 0);
        assert_eq!(taken(&mut bucket, 100), 1);
        assert_eq!(taken(&mut bucket, 600), 5);
        assert_eq!(taken(&mut bucket, 60_000), 10, "no more than it holds");
    }

    #[test]
    fn what_is_refused_costs_nothing() {
        let mut bucket = Bucket::default();
        assert!(bucket.take(6, RATE, Duration::ZERO));
        assert!(!bucket.take(5, RATE, Duration::ZERO));
        assert!(bucket.take(4, RATE, Duration::ZERO));
    }

    #[test]
    fn more_than_it_holds_waits_until_it_is_full_and_is_paid_afterwards() {
        let mut bucket = Bucket::default();
        assert!(bucket.take(1, RATE, Duration::ZERO));
        assert!(!bucket.take(100, RATE, Duration::from_millis(99)));
        assert!(bucket.take(100, RATE, Duration::from_millis(100)));
        assert!(!bucket.take(1, RATE, Duration::from_millis(9_199)));
        assert!(bucket.take(1, RATE, Duration::from_millis(9_200)));
    }

    #[test]
    fn no_number_is_too_large() {
        let mut bucket = Bucket::default();
        let one = NonZeroU32::MIN;
        assert!(bucket.take(u32::MAX, one, Duration::MAX));
        assert!(!bucket.take(u32::MAX, one, Duration::ZERO));
    }
}

//! When a call is made again, and after how long.
//!
//! Only what may pass is tried again: no answer, and the statuses 408, 429, 500, 502, 503, 504 and
//! 520 to 524.

use std::time::Duration;

/// How the waits between attempts grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backoff {
    /// Always the same wait.
    Fixed(Duration),
    /// Before retry `x`, from 1: `Rand(0.8 z, 1.2 z) · (2^x − 1)`, at least `min` and at most
    /// `max`. Chance keeps clients that failed together from coming back together.
    Exponential {
        /// The unit of growth, `z`.
        unit: Duration,
        /// The shortest wait.
        min: Duration,
        /// The longest wait.
        max: Duration,
    },
}

/// When a call is made again, and after how long.
///
/// ```
/// use std::time::Duration;
/// use tabulith_client::{Backoff, Retry};
/// let patient = Retry { time_max: Duration::from_secs(60), retries_max: 100, ..Retry::default() };
/// let even = Retry { backoff: Backoff::Fixed(Duration::from_secs(1)), ..Retry::default() };
/// assert!(Retry::NONE.retries_max == 0 && even.retries_max == patient.retries_max / 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// How the waits grow.
    pub backoff: Backoff,
    /// Most retries of one call.
    pub retries_max: u32,
    /// Longest time for a call, waits included; a wait that would end later is not begun.
    pub time_max: Duration,
    /// Longest wait that a service may ask for with Retry-After. Where it wants more, the refusal
    /// goes to the caller.
    pub retry_after_max: Duration,
}

impl Retry {
    /// One attempt and no more.
    pub const NONE: Retry = Retry {
        backoff: Backoff::Fixed(Duration::ZERO),
        retries_max: 0,
        time_max: Duration::MAX,
        retry_after_max: Duration::ZERO,
    };

    /// The same wait before each of so many retries.
    pub fn fixed(wait: Duration, retries_max: u32) -> Retry {
        Retry { backoff: Backoff::Fixed(wait), retries_max, ..Retry::default() }
    }

    /// The wait before a retry; `None` where the call has failed for good. `retry`: from 1.
    /// `spent`: since the call began. `asked`: what the service asks for. `chance`: 0 to below 1.
    pub(crate) fn wait(
        &self,
        retry: u32,
        spent: Duration,
        asked: Option<Duration>,
        chance: f64,
    ) -> Option<Duration> {
        let asked = asked.unwrap_or_default();
        let wait = self.backoff.wait(retry, chance).max(asked);
        let late = spent.checked_add(wait).is_none_or(|end| end > self.time_max);
        let hopeless = retry > self.retries_max || asked > self.retry_after_max || late;
        (!hopeless).then_some(wait)
    }
}

impl Default for Retry {
    /// Five retries after growing waits of about 0.25, 0.75, 1.75, 3.75 and 7.75 s: 14 s in all.
    fn default() -> Retry {
        Retry {
            backoff: Backoff::Exponential {
                unit: Duration::from_millis(250),
                min: Duration::from_millis(100),
                max: Duration::from_secs(30),
            },
            retries_max: 5,
            time_max: Duration::MAX,
            retry_after_max: Duration::from_secs(60),
        }
    }
}

impl Backoff {
    fn wait(self, retry: u32, chance: f64) -> Duration {
        match self {
            Backoff::Fixed(wait) => wait,
            Backoff::Exponential { unit, min, max } => {
                let drawn = unit.as_secs_f64() * (0.8 + 0.4 * chance);
                let steps = 2_f64.powi(i32::try_from(retry).unwrap_or(i32::MAX)) - 1.0;
                let wait = Duration::try_from_secs_f64(drawn * steps).unwrap_or(max);
                wait.min(max).max(min)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn exponential(unit: u64, min: u64, max: u64) -> Backoff {
        Backoff::Exponential { unit: MS(unit), min: MS(min), max: MS(max) }
    }

    #[test]
    fn the_formula_of_the_guides() {
        let backoff = exponential(1000, 0, 1_000_000);
        for (retry, chance, wait) in
            [(1, 0.0, 800), (1, 0.5, 1000), (2, 0.5, 3000), (3, 0.0, 5600), (4, 0.5, 15_000)]
        {
            assert_eq!(backoff.wait(retry, chance).as_millis(), wait, "{retry} {chance}");
        }
    }

    #[test]
    fn waits_stay_within_their_bounds() {
        let backoff = exponential(1000, 3000, 10_000);
        assert_eq!(backoff.wait(1, 0.0), MS(3000));
        assert_eq!(backoff.wait(9, 0.0), MS(10_000));
        assert_eq!(backoff.wait(u32::MAX, 0.9), MS(10_000));
        assert_eq!(exponential(0, 0, 1).wait(u32::MAX, 0.5), MS(1), "0 · ∞");
    }

    #[test]
    fn a_call_fails_for_good_after_its_retries_its_time_or_its_patience() {
        let retry =
            Retry { time_max: MS(1000), retry_after_max: MS(500), ..Retry::fixed(MS(100), 3) };
        let wait = |number, spent, asked: Option<u64>| {
            retry.wait(number, MS(spent), asked.map(MS), 0.5).map(|wait| wait.as_millis())
        };
        assert_eq!(wait(3, 900, None), Some(100));
        assert_eq!(wait(4, 0, None), None);
        assert_eq!(wait(1, 901, None), None);
        assert_eq!(wait(1, 0, Some(500)), Some(500));
        assert_eq!(wait(1, 0, Some(50)), Some(100));
        assert_eq!(wait(1, 0, Some(501)), None);
        assert_eq!(Retry::NONE.wait(1, MS(0), None, 0.0), None);
    }
}

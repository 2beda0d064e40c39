//! Time and chance: what a client asks the machine for, so that tests can answer instead.

#![allow(clippy::disallowed_methods, reason = "this file is the door to the clock")]

use crate::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime};

/// A future that may be moved between threads.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A wait before a call is made again.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The address that is asked.
    pub endpoint: &'a str,
    /// Why the last attempt failed.
    pub error: &'a Error,
    /// Which attempt comes next, from 1 for the first retry.
    pub retry: u32,
    /// How long the wait is.
    pub wait: Duration,
    /// How long the call has taken so far.
    pub spent: Duration,
}

/// Time and chance.
pub trait World: Send + Sync {
    /// Time since 1970-01-01 in UTC.
    fn wall(&self) -> Duration;

    /// Time since some moment, never going back.
    fn steady(&self) -> Duration;

    /// A number from 0 to below 1.
    fn chance(&self) -> f64;

    /// Waits.
    fn sleep(&self, wait: Duration) -> Pending<'_, ()>;

    /// Is told of every wait before it begins.
    fn waiting(&self, _: &Waiting<'_>) {}
}

/// The machine's clock and chance, and tokio's timer.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    start: Instant,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { start: Instant::now() }
    }
}

impl World for Machine {
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    fn steady(&self) -> Duration {
        self.start.elapsed()
    }

    fn chance(&self) -> f64 {
        // The low 62 bits of such an id are chance; a double holds 53 of them.
        let (_, low) = uuid::Uuid::new_v4().as_u64_pair();
        (low & ((1 << 53) - 1)) as f64 / (1_u64 << 53) as f64
    }

    fn sleep(&self, wait: Duration) -> Pending<'_, ()> {
        Box::pin(tokio::time::sleep(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_below_one_and_not_always_the_same() {
        let machine = Machine::default();
        let drawn: Vec<f64> = (0..100).map(|_| machine.chance()).collect();
        assert!(drawn.iter().all(|chance| (0.0..1.0).contains(chance)));
        assert!(drawn.iter().any(|chance| *chance < 0.5));
        assert!(drawn.iter().any(|chance| *chance >= 0.5));
    }
}

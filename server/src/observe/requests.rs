//! Counts of requests: by operation and class of status, how long each took, and what was refused.
//!
//! Promise: as many counts as there are operations and codes, whatever is asked. A request costs
//! three additions.

use crate::observe::text::Text;
use crate::operations::Kind;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tabulith::waits::Histogram;

/// The classes of status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// More kinds of refusals than there are codes are counted as one: no code comes from a request.
const CODES_MAX: usize = 128;

/// The kinds of operations; the last is of requests that were refused before it was known what they
/// ask for.
const KINDS: usize = Kind::ALL.len() + 1;

/// What metrics and logs call an operation, and a request that was refused before it was known what
/// it asks for.
pub fn label(kind: Option<Kind>) -> String {
    kind.map_or("none", Kind::name).replace('-', "_")
}

/// What has been answered since the start.
#[derive(Debug, Default)]
pub struct Requests {
    answers: [[AtomicU64; CLASSES.len()]; KINDS],
    times: [Histogram; KINDS],
    refusals: Mutex<BTreeMap<Cow<'static, str>, u64>>,
    in_flight: AtomicI64,
    slow: AtomicU64,
}

/// A request that has no answer yet.
#[derive(Debug)]
pub struct InFlight<'a>(&'a Requests);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

impl Requests {
    /// Counts a request as one without an answer, until what is given is dropped.
    pub fn begin(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Relaxed);
        InFlight(self)
    }

    /// Counts an answer.
    pub fn answered(&self, kind: Option<Kind>, status: u16, took: Duration) {
        let class = usize::from(status / 100).saturating_sub(1).min(CLASSES.len() - 1);
        let kind = kind.map_or(KINDS - 1, |kind| kind as usize);
        self.answers[kind][class].fetch_add(1, Relaxed);
        self.times[kind].add(took);
    }

    /// Counts a refusal by its code, one of the service's own.
    pub fn refused(&self, code: Cow<'static, str>) {
        let mut refusals = self.refusals.lock();
        let is_new = !refusals.contains_key(&code);
        let code =
            if is_new && refusals.len() >= CODES_MAX { Cow::Borrowed("other") } else { code };
        *refusals.entry(code).or_insert(0) += 1;
    }

    /// Counts a request that took longer than is told.
    pub fn slow(&self) {
        self.slow.fetch_add(1, Relaxed);
    }

    /// Writes all of it. Operations that nobody asked for are left out.
    pub fn write(&self, text: &mut Text) {
        let kinds = Kind::ALL.into_iter().map(Some).chain([None]);
        let operations: Vec<String> = kinds.map(label).collect();
        let help = "Requests answered, by operation and class of status.";
        let mut family = text.counter("tabulith_requests_total", help);
        for (operation, classes) in operations.iter().zip(&self.answers) {
            for (class, count) in CLASSES.iter().zip(classes) {
                let count = count.load(Relaxed);
                if count > 0 {
                    family.of(&[("op", operation), ("code", class)], count);
                }
            }
        }
        let help = "From a request's head to its answer, without what the client takes to send its body and to read that.";
        let mut family = text.histogram("tabulith_request_seconds", help);
        for (operation, times) in operations.iter().zip(&self.times) {
            let times = times.get();
            if times.classes.iter().any(|count| *count > 0) {
                family.times(&[("op", operation)], &times);
            }
        }
        let help = "Requests that were refused, by the error code of their answer.";
        let mut family = text.counter("tabulith_refusals_total", help);
        for (code, count) in self.refusals.lock().iter() {
            family.of(&[("code", code)], count);
        }
        let in_flight = self.in_flight.load(Relaxed);
        text.gauge("tabulith_requests_in_flight", "Requests without an answer yet.").is(in_flight);
        let help = "Requests that took longer than the log of slow ones asks for.";
        text.counter("tabulith_requests_slow_total", help).is(self.slow.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_take_bounded_memory() {
        let requests = Requests::default();
        for number in 0..10_000 {
            requests.refused(Cow::Owned(format!("code{number}")));
        }
        let refusals = requests.refusals.lock();
        assert_eq!((refusals.len(), refusals["other"]), (CODES_MAX + 1, 10_000 - 128));
    }

    #[test]
    fn any_status_has_a_class() {
        let requests = Requests::default();
        for status in [0, 99, 100, 204, 404, 503, 999, u16::MAX] {
            requests.answered(None, status, Duration::ZERO);
        }
        let mut text = Text::default();
        requests.write(&mut text);
        let text = text.finish();
        assert!(text.contains("tabulith_requests_total{op=\"none\",code=\"5xx\"} 3\n"), "{text}");
        assert!(text.contains("tabulith_request_seconds_count{op=\"none\"} 8\n"), "{text}");
    }
}

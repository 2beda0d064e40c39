//! What every answer knows of its request: ids, version, and when it came.

use crate::limits::CLIENT_REQUEST_ID_BYTES_MAX;
use crate::properties::cors::Cors;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tabulith::env::rng::Rng;
use tabulith::ids::CommitTs;
use tabulith::table::value::DateTime;
use uuid::Builder;

/// The service version of a request that says none: what most SDKs send.
pub const DEFAULT_VERSION: &str = "2019-02-02";

/// One request as its answer sees it.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The server's id of the request; repeated in the text of an error.
    pub request_id: String,
    /// The client's id, echoed.
    pub client_request_id: Option<String>,
    /// The service version, echoed; empty where the answer is to have none.
    pub version: String,
    /// Whether it is about settings, which are asked and answered in XML.
    pub speaks_xml: bool,
    /// Seconds after which a client that is told 503 is to try again.
    pub retry_after: Option<u64>,
    /// What its answer says to browsers.
    pub cors: Cors,
    /// When it came, in ticks since the Unix epoch.
    pub received: CommitTs,
    /// When it came, by the clock that is never set.
    pub started: Duration,
}

impl Context {
    /// The moment of the request with exactly seven digits, as errors have it.
    pub fn time_text(&self) -> String {
        let ticks = self.received.0 % CommitTs::TICKS_PER_SECOND;
        let second = DateTime::from(CommitTs(self.received.0 - ticks)).to_string();
        format!("{}.{ticks:07}Z", second.trim_end_matches('Z'))
    }
}

/// The client's id of a request, or of a part of a batch, where it can be echoed: visible ASCII and
/// not too long.
pub fn echoed(id: Option<&str>) -> Option<String> {
    let id = id?;
    let echoes = id.len() <= CLIENT_REQUEST_ID_BYTES_MAX
        && id.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    echoes.then(|| id.to_owned())
}

/// Whether `version` is written like one: a date from 2009-04-14 on, the first version. Versions of
/// next year are welcome.
pub fn is_version(version: &str) -> bool {
    let bytes = version.as_bytes();
    let is_date = bytes.len() == 10
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    is_date
        && (1..=12).contains(&version[5..7].parse().unwrap_or(0))
        && (1..=31).contains(&version[8..].parse().unwrap_or(0))
        && version >= "2009-04-14"
}

/// Gives out ids that no other request has: counted, then scrambled.
#[derive(Debug)]
pub struct Ids {
    seed: u64,
    count: AtomicU64,
}

impl Ids {
    /// Ids that depend on nothing but `seed`.
    pub fn seeded(seed: u64) -> Ids {
        Ids { seed, count: AtomicU64::new(0) }
    }

    /// The next id: a GUID in lower case.
    pub fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        // Two steps of the generator from a seed of its own for each count.
        let mut rng = Rng::seeded(self.seed ^ count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bytes = [rng.next_u64().to_be_bytes(), rng.next_u64().to_be_bytes()].concat();
        let bytes = bytes.try_into().unwrap_or_default();
        Builder::from_random_bytes(bytes).into_uuid().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_tell_time_with_seven_digits() {
        let at = |received: u64| Context { received: CommitTs(received), ..Context::default() };
        assert_eq!(at(0).time_text(), "1970-01-01T00:00:00.0000000Z");
        assert_eq!(at(16_620_471_053_208_809).time_text(), "2022-09-01T15:45:05.3208809Z");
    }

    #[test]
    fn versions() {
        for good in ["2009-04-14", "2019-02-02", "2026-06-06", "2099-12-31"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "2009-04-13", "2019-2-2", "2019-13-01", "2019-02-32", "2019-02-0é", "x"] {
            assert!(!is_version(bad), "{bad}");
        }
    }

    #[test]
    fn ids_differ() {
        let ids = Ids::seeded(1);
        let given: std::collections::HashSet<_> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(given.len(), 1000);
        assert_eq!(Ids::seeded(1).next(), Ids::seeded(1).next());
    }

    #[test]
    fn only_what_fits_a_header_is_echoed() {
        assert_eq!(echoed(Some("a b~")).as_deref(), Some("a b~"));
        for id in ["a\rb", "é", &"x".repeat(1025)] {
            assert_eq!(echoed(Some(id)), None);
        }
    }
}

//! Counts of requests: by operation and class of status, how long each took, and what was refused.
//!
//! Promise: as many counts as there are operations and codes, whatever is asked. A request costs
//! three additions.

use crate::observe::text::Text;
use crate::route::{Change, Operation};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tabulith::waits::Histogram;

/// The operations as metrics and logs name them; the last is of requests that ask for none.
pub const OPERATIONS: [&str; 21] = [
    "list_tables",
    "get_table",
    "create_table",
    "delete_table",
    "query",
    "get",
    "insert",
    "insert_or_replace",
    "insert_or_merge",
    "update",
    "merge",
    "delete",
    "batch",
    "document",
    "metadata",
    "get_properties",
    "set_properties",
    "get_stats",
    "get_acl",
    "set_acl",
    "none",
];

/// Where each is asked for, by the form of its path: names and keys are not told.
const ROUTES: [&str; OPERATIONS.len()] = [
    "/{account}/Tables",
    "/{account}/Tables('{table}')",
    "/{account}/Tables",
    "/{account}/Tables('{table}')",
    "/{account}/{table}()",
    ENTITY,
    "/{account}/{table}",
    ENTITY,
    ENTITY,
    ENTITY,
    ENTITY,
    ENTITY,
    "/{account}/$batch",
    "/{account}",
    "/{account}/$metadata",
    "/{account}",
    "/{account}",
    "/{account}",
    "/{account}/{table}",
    "/{account}/{table}",
    "",
];

const ENTITY: &str = "/{account}/{table}(PartitionKey='{partition}',RowKey='{row}')";

/// The classes of status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// More kinds of refusals than there are codes are counted as one: no code comes from a request.
const CODES_MAX: usize = 128;

/// An operation's place in [`OPERATIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(usize);

impl Kind {
    /// Of a request that was refused before it was known what it asks for.
    pub const NONE: Kind = Kind(OPERATIONS.len() - 1);

    /// Of an operation.
    pub fn of(operation: &Operation) -> Kind {
        Kind(match operation {
            Operation::ListTables => 0,
            Operation::GetTable(_) => 1,
            Operation::CreateTable => 2,
            Operation::DeleteTable(_) => 3,
            Operation::Query(_) => 4,
            Operation::Get(_) => 5,
            Operation::Insert(_) => 6,
            Operation::Change(_, Change::InsertOrReplace) => 7,
            Operation::Change(_, Change::InsertOrMerge) => 8,
            Operation::Change(_, Change::Update) => 9,
            Operation::Change(_, Change::Merge) => 10,
            Operation::Change(_, Change::Delete) => 11,
            Operation::Batch => 12,
            Operation::Document => 13,
            Operation::Metadata => 14,
            Operation::GetProperties => 15,
            Operation::SetProperties => 16,
            Operation::GetStats => 17,
            Operation::GetAcl(_) => 18,
            Operation::SetAcl(_) => 19,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        OPERATIONS[self.0]
    }

    /// The form of the path where it is asked for; none where it is not known what is asked for.
    pub fn route(self) -> Option<&'static str> {
        Some(ROUTES[self.0]).filter(|route| !route.is_empty())
    }
}

/// What has been answered since the start.
#[derive(Debug, Default)]
pub struct Requests {
    answers: [[AtomicU64; CLASSES.len()]; OPERATIONS.len()],
    times: [Histogram; OPERATIONS.len()],
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
    pub fn answered(&self, kind: Kind, status: u16, took: Duration) {
        let class = usize::from(status / 100).saturating_sub(1).min(CLASSES.len() - 1);
        self.answers[kind.0][class].fetch_add(1, Relaxed);
        self.times[kind.0].add(took);
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
        let help = "Requests answered, by operation and class of status.";
        let mut family = text.counter("tabulith_requests_total", help);
        for (operation, classes) in OPERATIONS.iter().zip(&self.answers) {
            for (class, count) in CLASSES.iter().zip(classes) {
                let count = count.load(Relaxed);
                if count > 0 {
                    family.of(&[("op", operation), ("code", class)], count);
                }
            }
        }
        let help = "From a request's head to its answer, without what the client takes to send its body and to read that.";
        let mut family = text.histogram("tabulith_request_seconds", help);
        for (operation, times) in OPERATIONS.iter().zip(&self.times) {
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
    use crate::route::Place;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let (name, place) = (String::new, || Place {
            table: String::new(),
            partition_key: String::new(),
            row_key: String::new(),
        });
        use Operation::*;
        let all = [
            ListTables,
            GetTable(name()),
            CreateTable,
            DeleteTable(name()),
            Query(name()),
            Get(place()),
            Insert(name()),
            Change(place(), super::Change::InsertOrReplace),
            Change(place(), super::Change::InsertOrMerge),
            Change(place(), super::Change::Update),
            Change(place(), super::Change::Merge),
            Change(place(), super::Change::Delete),
            Batch,
            Document,
            Metadata,
            GetProperties,
            SetProperties,
            GetStats,
            GetAcl(name()),
            SetAcl(name()),
        ];
        let names: Vec<_> = all.iter().map(|operation| Kind::of(operation).name()).collect();
        assert_eq!(names, OPERATIONS[..20]);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 20);
        assert_eq!((Kind::NONE.name(), Kind::NONE.route()), ("none", None));
        let route = |operation: &Operation| Kind::of(operation).route();
        assert_eq!(route(&Batch), Some("/{account}/$batch"));
        assert_eq!(route(&SetAcl(name())), Some("/{account}/{table}"));
        let change = Change(place(), super::Change::Delete);
        assert!(route(&change).is_some_and(|route| route == ENTITY && route == ROUTES[5]));
        assert_eq!(ROUTES.iter().filter(|route| **route == ENTITY).count(), 6);
    }

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
            requests.answered(Kind::NONE, status, Duration::ZERO);
        }
        let mut text = Text::default();
        requests.write(&mut text);
        let text = text.finish();
        assert!(text.contains("tabulith_requests_total{op=\"none\",code=\"5xx\"} 3\n"), "{text}");
        assert!(text.contains("tabulith_request_seconds_count{op=\"none\"} 8\n"), "{text}");
    }
}

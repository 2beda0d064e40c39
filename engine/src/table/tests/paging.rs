//! Pages: what they hold, where they end, and that plan and walk together give exactly the
//! entities that pass the filter.

use super::memory::MemoryStore;
use super::words::{self, account, compare, entity, n, not, pk, rk, store, table, text, write};
use crate::env::clock::{Clock, SystemClock};
use crate::error::Error;
use crate::rows::RowStore;
use crate::table::entity::Entity;
use crate::table::error::TableError;
use crate::table::filter::ast::{DEPTH_MAX, Filter, Op};
use crate::table::filter::eval;
use crate::table::keyset::Combiner;
use crate::table::page::{Budget, Continuation, Page, Query};
use crate::table::plan::{Plan, Shape};
use crate::table::query;
use crate::table::store::TableStore;
use crate::table::value::{DateTime, Value};
use crate::table::write::Write;
use proptest::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A store with the rows `00` to `count` in each of the partitions, N counting up.
fn filled(partitions: &[&str], count: i32) -> TableStore<MemoryStore> {
    let store = store();
    for partition in partitions {
        for i in 0..count {
            let properties = [("N", Value::Int32(i)), ("S", text("s")), ("Z", Value::Int64(7))];
            let row = entity(partition, &format!("{i:02}"), &properties);
            write(&store, Write::Insert(row)).expect("new");
        }
    }
    store
}

fn names(page: &Page) -> Vec<String> {
    let name = |e: &Entity| format!("{}/{}", e.partition_key, e.row_key);
    page.entities.iter().map(name).collect()
}

fn next(page: &Page) -> Option<(&str, &str)> {
    page.next.as_ref().map(|next| (next.partition_key.as_str(), next.row_key.as_str()))
}

fn all_pages(store: &TableStore<MemoryStore>, ask: Query) -> Vec<Page> {
    pages_of(ask, |ask| words::query(store, ask))
}

/// All pages, each as `read` reads it.
fn pages_of(mut ask: Query, read: impl Fn(&Query) -> Page) -> Vec<Page> {
    let mut pages = Vec::new();
    loop {
        let page = read(&ask);
        ask.from = page.next.clone();
        pages.push(page);
        if ask.from.is_none() {
            return pages;
        }
    }
}

#[test]
fn a_page_ends_where_it_is_full_and_names_the_next_row() {
    let store = filled(&["a", "b"], 3);
    let ask = Query { top: 2, ..Query::default() };
    let pages = all_pages(&store, ask.clone());
    let [first, second, third] = pages.as_slice() else {
        panic!("three pages: {pages:?}");
    };
    assert_eq!(
        (names(first), next(first)),
        (vec!["a/00".into(), "a/01".into()], Some(("a", "02")))
    );
    assert_eq!(
        (names(second), next(second)),
        (vec!["a/02".into(), "b/00".into()], Some(("b", "01")))
    );
    assert_eq!((names(third), next(third)), (vec!["b/01".into(), "b/02".into()], None));
    let exact = words::query(&store, &Query { top: 6, ..Query::default() });
    assert_eq!((exact.entities.len(), next(&exact)), (6, None), "an exact fit has no successor");
}

#[test]
fn an_exact_fit_has_no_successor_where_only_misses_follow() {
    let store = filled(&["a", "b"], 3);
    let rows = |rows: &[&str]| Filter::Or(rows.iter().map(|row| rk(Op::Eq, row)).collect());
    let points = Filter::And(vec![pk(Op::Eq, "a"), rows(&["00", "01", "05", "06"])]);
    let first_rows = rk(Op::Eq, "00");
    for (filter, fits) in [(points, ["a/00", "a/01"]), (first_rows, ["a/00", "b/00"])] {
        let ask = |top| Query { filter: Some(filter.clone()), top, ..Query::default() };
        let exact = words::query(&store, &ask(2));
        assert_eq!((names(&exact), next(&exact)), (fits.map(str::to_owned).to_vec(), None));
        let first = words::query(&store, &ask(1));
        assert_eq!(next(&first), fits[1].split_once('/'), "misses are passed over");
    }
}

#[test]
fn who_is_lent_a_page_may_end_it_before_any_entity() {
    let store = filled(&["a", "b"], 3);
    let whole = words::query(&store, &Query::default());
    for taken_max in 0..=6 {
        let mut seen = Vec::new();
        let end = store.query_each(&account(), &table(), &Query::default(), |entity| {
            if seen.len() == taken_max {
                return Ok(ControlFlow::Break(()));
            }
            seen.push(entity.to_entity(None)?);
            Ok(ControlFlow::Continue(()))
        });
        let next = end.expect("a page").next.map(|next| (next.partition_key, next.row_key));
        let after = whole.entities.get(taken_max);
        assert_eq!(seen, whole.entities[..taken_max]);
        assert_eq!(next, after.map(|e| (e.partition_key.clone(), e.row_key.clone())));
    }
    let mut lent = 0;
    let refused = store.query_each(&account(), &table(), &Query::default(), |_| {
        lent += 1;
        Err(Error::invalid("no more"))
    });
    let is_told = matches!(&refused, Err(TableError::Engine(e)) if e.message() == "no more");
    assert!(is_told && lent == 1, "{refused:?} after {lent}");
}

#[test]
fn a_page_of_none_and_a_page_too_long() {
    let store = filled(&["a"], 3);
    let none = words::query(&store, &Query { top: 0, ..Query::default() });
    assert!(none.entities.is_empty() && none.next.is_none());
    let long = store.query(&account(), &table(), &Query { top: 1001, ..Query::default() });
    assert!(matches!(long, Err(TableError::PageTooLong { top: 1001 })));
}

#[test]
fn a_page_starts_at_its_continuation_even_where_that_row_is_gone() {
    let store = filled(&["a", "b"], 3);
    let from = |pk: &str, rk: &str| Query {
        from: Some(Continuation { partition_key: pk.to_owned(), row_key: rk.to_owned() }),
        ..Query::default()
    };
    assert_eq!(names(&words::query(&store, &from("a", "02"))), ["a/02", "b/00", "b/01", "b/02"]);
    assert_eq!(names(&words::query(&store, &from("a", "011"))), ["a/02", "b/00", "b/01", "b/02"]);
    assert_eq!(names(&words::query(&store, &from("b", ""))), ["b/00", "b/01", "b/02"]);
    assert!(words::query(&store, &from("b", "03")).entities.is_empty());
    assert!(words::query(&store, &from("c", "")).entities.is_empty());
    let points = Filter::Or(vec![
        Filter::And(vec![pk(Op::Eq, "a"), rk(Op::Eq, "00")]),
        Filter::And(vec![pk(Op::Eq, "b"), rk(Op::Eq, "02")]),
    ]);
    let ask = Query { filter: Some(points), ..from("a", "01") };
    assert_eq!(names(&words::query(&store, &ask)), ["b/02"]);
}

#[test]
fn bounds_longer_than_any_key_are_bounds_all_the_same() {
    let longest = "\u{ffff}".repeat(1024);
    let longer = "\u{ffff}".repeat(5000);
    let store = filled(&["a"], 1);
    write(&store, Write::Insert(entity(&longest, &longest, &[]))).expect("the longest keys");
    let found = |filter| {
        words::query(&store, &Query { filter: Some(filter), ..Query::default() }).entities.len()
    };
    for key in [pk, rk] {
        assert_eq!((found(key(Op::Lt, &longer)), found(key(Op::Gt, &longer))), (2, 0));
        assert_eq!((found(key(Op::Le, &longer)), found(key(Op::Ge, &longer))), (2, 0));
        assert_eq!((found(key(Op::Ne, &longer)), found(key(Op::Eq, &longer))), (2, 0));
        assert_eq!((found(key(Op::Eq, &longest)), found(key(Op::Lt, &longest))), (1, 1));
    }
    let from = |key: &str| {
        let from = Continuation { partition_key: key.to_owned(), row_key: key.to_owned() };
        let ask = Query { from: Some(from), ..Query::default() };
        words::query(&store, &ask).entities.len()
    };
    assert_eq!((from(&longest), from(&longer)), (1, 0));
}

#[test]
fn a_projection_keeps_the_stored_order() {
    let store = filled(&["a"], 1);
    let select = |names: &[&str]| Query {
        select: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..Query::default()
    };
    let page = words::query(&store, &select(&["Z", "Missing", "N", "Z", "RowKey"]));
    let properties = vec![("N".to_owned(), Value::Int32(0)), ("Z".to_owned(), Value::Int64(7))];
    assert_eq!(page.entities[0].properties, properties);
    assert!(words::query(&store, &select(&[])).entities[0].properties.is_empty());
}

#[test]
fn a_projection_does_not_hide_a_property_from_the_filter() {
    let store = filled(&["a"], 5);
    let ask = Query {
        filter: Some(n(Op::Ge, 3)),
        select: Some(vec!["S".to_owned()]),
        ..Query::default()
    };
    let page = words::query(&store, &ask);
    assert_eq!(names(&page), ["a/03", "a/04"]);
    assert_eq!(page.entities[0].properties, [("S".to_owned(), text("s"))]);
}

#[test]
fn a_budget_of_rows_ends_a_page_and_the_next_goes_on() {
    let store = filled(&["a", "b"], 10);
    let ask = Query {
        filter: Some(n(Op::Eq, 9)),
        budget: Budget { rows_scanned: 4, ..Budget::default() },
        ..Query::default()
    };
    let pages = all_pages(&store, ask);
    assert_eq!(pages.len(), 5);
    assert!(pages.iter().all(|page| page.examined == 4));
    assert_eq!(
        (names(&pages[0]), next(&pages[0])),
        (vec![], Some(("a", "04"))),
        "empty, with more"
    );
    let found: Vec<String> = pages.iter().flat_map(names).collect();
    assert_eq!(found, ["a/09", "b/09"]);
}

/// A clock that ticks a millisecond whenever it is looked at.
#[derive(Debug, Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn wall_ticks(&self) -> u64 {
        0
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn sleep(&self, _time: Duration) {}
}

#[test]
fn a_budget_of_time_ends_a_page_and_each_page_gets_on() {
    let rows = filled(&["a"], 60).rows().clone();
    let store = TableStore::with_clock(rows, Arc::new(TickingClock::default()));
    let within = |time| Query {
        filter: Some(n(Op::Eq, 59)),
        budget: Budget { time, ..Budget::default() },
        ..Query::default()
    };
    let pages = all_pages(&store, within(Duration::ZERO));
    assert!(pages.len() > 1);
    assert!(pages.iter().all(|page| page.examined > 0));
    assert_eq!(pages.iter().flat_map(names).collect::<Vec<_>>(), ["a/59"]);
    assert_eq!(all_pages(&store, within(Duration::from_secs(5))).len(), 1);
}

#[test]
fn a_budget_of_nothing_still_gets_on() {
    let store = filled(&["a"], 3);
    let nothing = Budget { rows_scanned: 0, bytes_scanned: 0, time: Duration::ZERO };
    let no_bytes = Budget { bytes_scanned: 0, ..Budget::default() };
    let cases = [nothing, no_bytes].map(|budget| [None, Some(n(Op::Eq, 9))].map(|f| (budget, f)));
    for (budget, filter) in cases.into_iter().flatten() {
        let pages = all_pages(&store, Query { budget, filter, ..Query::default() });
        assert_eq!(pages.iter().map(|page| page.examined).collect::<Vec<_>>(), [1, 1, 1]);
    }
}

#[test]
fn a_full_page_does_not_search_for_a_further_match() {
    let store = filled(&["a"], 50);
    let ask = Query { filter: Some(n(Op::Ge, 0)), top: 1, ..Query::default() };
    assert_eq!(words::query(&store, &ask).examined, 1);
}

#[test]
fn plans_read_no_more_than_they_promise() {
    let store = filled(&["a", "b", "c", "d"], 25);
    let examined = |filter: Filter| {
        let page = words::query(&store, &Query { filter: Some(filter), ..Query::default() });
        (page.plan.shape(), page.entities.len(), page.examined)
    };
    let point = Filter::And(vec![pk(Op::Eq, "b"), rk(Op::Eq, "07")]);
    assert_eq!(examined(point), (Shape::Point, 1, 1));
    let range = Filter::And(vec![pk(Op::Eq, "b"), rk(Op::Ge, "07"), rk(Op::Lt, "10")]);
    assert_eq!(examined(range), (Shape::RowRange, 3, 3));
    assert_eq!(examined(pk(Op::Eq, "c")), (Shape::PartitionScan, 25, 25));
    assert_eq!(examined(pk(Op::Gt, "b")), (Shape::PartitionRange, 50, 50));
    let nothing = Filter::And(vec![pk(Op::Eq, "a"), pk(Op::Eq, "b")]);
    assert_eq!(examined(nothing), (Shape::Nothing, 0, 0));
    let (shape, found, read) = examined(rk(Op::Eq, "20"));
    assert_eq!((shape, found), (Shape::SkipScan, 4));
    assert!(read <= 40, "{read} rows read to find 4 of 100");
    assert!(store.rows().seeks.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_point_that_does_not_exist_is_an_empty_page() {
    let store = filled(&["a"], 1);
    let missing = Filter::And(vec![pk(Op::Eq, "a"), rk(Op::Eq, "zz")]);
    let page = words::query(&store, &Query { filter: Some(missing), ..Query::default() });
    assert!(page.entities.is_empty() && page.next.is_none());
}

#[test]
fn a_filter_too_deep_is_refused() {
    let store = filled(&["a"], 1);
    let deep = (0..DEPTH_MAX).fold(Filter::Always(true), |inner, _| not(inner));
    let ask = Query { filter: Some(deep.clone()), ..Query::default() };
    let refused = store.query(&account(), &table(), &ask);
    assert!(matches!(refused, Err(TableError::FilterTooComplex)));
    assert!(matches!(store.explain(Some(&deep)), Err(TableError::FilterTooComplex)));
}

// Plan, walk and rest against the filter asked of every entity.

/// Few keys, close to each other, with characters on both sides of the surrogates.
fn any_key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "aa", "ab", "b", "ba", "c", "\u{ffff}", "\u{1f600}"])
        .prop_map(str::to_owned)
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..4i32).prop_map(Value::Int32),
        (0..4i64).prop_map(Value::Int64),
        prop::sample::select(vec![0.0, 1.0, 2.5, f64::NAN]).prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        (0..4u64).prop_map(|ticks| Value::DateTime(DateTime(DateTime::UNIX_EPOCH.0 + ticks))),
        (0..3u8).prop_map(|byte| Value::Guid([byte; 16])),
        prop::collection::vec(0..3u8, 0..3).prop_map(Value::Binary),
        any_key().prop_map(Value::String),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop::sample::select(vec![Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge])
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let on_key = (prop::sample::select(vec!["PartitionKey", "RowKey"]), any_op(), any_key())
        .prop_map(|(name, op, key)| compare(name, op, &key));
    let names = vec!["A", "B", "Timestamp", "PartitionKey", "RowKey", "rowkey"];
    let on_any = (prop::sample::select(names.clone()), any_op(), any_value())
        .prop_map(|(name, op, literal)| Filter::compare(name, op, literal));
    let flag = prop::sample::select(names).prop_map(|name| Filter::Flag(name.to_owned()));
    let leaf = prop_oneof![
        8 => on_key,
        4 => on_any,
        1 => flag,
        1 => any::<bool>().prop_map(Filter::Always),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(not),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Filter::And),
            prop::collection::vec(inner, 0..4).prop_map(Filter::Or),
        ]
    })
}

fn any_entities() -> impl Strategy<Value = Vec<Entity>> {
    let property = |name: &'static str| {
        prop::option::of(any_value()).prop_map(move |v| v.map(|v| (name.to_owned(), v)))
    };
    let one = (any_key(), any_key(), property("A"), property("B")).prop_map(|(pk, rk, a, b)| {
        let mut made = entity(&pk, &rk, &[]);
        made.properties.extend([a, b].into_iter().flatten());
        made
    });
    prop::collection::vec(one, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn pages_hold_exactly_what_passes_the_filter(
        entities in any_entities(),
        filter in any_filter(),
        within in proptest::option::of(any_filter()),
        top in 1..7usize,
        rows_scanned in prop_oneof![Just(u64::MAX), 1..9u64],
        (work_max, spans_max) in prop_oneof![
            2 => Just((1_000_000, 10_000)),
            1 => (0..40usize, 1..6usize),
        ],
    ) {
        let store = store();
        for entity in entities {
            write(&store, Write::InsertOrReplace(entity)).expect("well-formed");
        }
        let everything = words::query(&store, &Query::default()).entities;
        let by_units = |e: &Entity| -> (Vec<u16>, Vec<u16>) {
            (e.partition_key.encode_utf16().collect(), e.row_key.encode_utf16().collect())
        };
        prop_assert!(everything.windows(2).all(|w| by_units(&w[0]) < by_units(&w[1])));
        let both: Vec<&Filter> = std::iter::once(&filter).chain(&within).collect();
        // NaN differs from itself, so that entities are compared by their text.
        let expected: Vec<String> = everything
            .iter()
            .filter(|e| both.iter().all(|own| eval::passes(own, *e).expect("in memory")))
            .map(|e| format!("{e:?}"))
            .collect();

        let budget = Budget { rows_scanned, ..Budget::default() };
        let ask = Query { filter: Some(filter.clone()), top, budget, ..Query::default() };
        let id = store.get_table(&account(), &table()).expect("found").expect("there").id;
        let pages = pages_of(ask, |ask| {
            let plan = Plan::with(&filter, &mut Combiner::within(work_max, spans_max));
            let plan = within.iter().fold(plan, Plan::within);
            let snapshot = store.rows().snapshot().expect("in memory");
            query::read_page(&*snapshot, &SystemClock::new(), id, ask, plan).expect("a page")
        });
        let found: Vec<String> =
            pages.iter().flat_map(|page| &page.entities).map(|e| format!("{e:?}")).collect();
        prop_assert_eq!(found, expected, "{}", pages[0].plan.to_string());
        for page in &pages {
            prop_assert!(page.entities.len() <= top);
            prop_assert!(page.examined <= rows_scanned);
            let budget_ended = page.examined == rows_scanned;
            prop_assert!(page.next.is_none() || page.entities.len() == top || budget_ended);
        }
    }
}

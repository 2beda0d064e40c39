//! Which plan a filter gets, as the text that people read.

use super::words::{self, compare, entity, n, not, pk, rk, text, write};
use crate::table::filter::ast::{Filter, Op};
use crate::table::page::Query;
use crate::table::plan::{Plan, Shape};
use crate::table::spans::Span;
use crate::table::value::Value;
use crate::table::write::Write;

fn and<const N: usize>(all: [Filter; N]) -> Filter {
    Filter::And(all.to_vec())
}

fn or<const N: usize>(any: [Filter; N]) -> Filter {
    Filter::Or(any.to_vec())
}

#[track_caller]
fn check(filter: Filter, plan: &str) {
    filter.check().expect("a small filter");
    assert_eq!(Plan::of(Some(&filter)).to_string(), plan, "{filter}");
}

#[test]
fn one_partition() {
    check(pk(Op::Eq, "p"), "partition scan PartitionKey='p'");
    check(and([pk(Op::Eq, "p"), rk(Op::Eq, "r")]), "point PartitionKey='p', RowKey='r'");
    check(and([rk(Op::Eq, ""), pk(Op::Eq, "it's")]), "point PartitionKey='it''s', RowKey=''");
    check(
        and([pk(Op::Eq, "p"), rk(Op::Ge, "a"), rk(Op::Lt, "b")]),
        "row range PartitionKey='p', RowKey>='a' RowKey<'b'",
    );
    check(
        and([pk(Op::Eq, "p"), rk(Op::Gt, "a"), rk(Op::Le, "b")]),
        "row range PartitionKey='p', RowKey>'a' RowKey<='b'",
    );
    check(
        and([pk(Op::Eq, "p"), rk(Op::Ne, "a")]),
        "multi-range PartitionKey='p', RowKey<'a'; PartitionKey='p', RowKey>'a'",
    );
    check(
        and([pk(Op::Eq, "p"), or([rk(Op::Eq, "b"), rk(Op::Eq, "a"), rk(Op::Eq, "b")])]),
        "multi-point PartitionKey='p', RowKey='a'; PartitionKey='p', RowKey='b'",
    );
}

#[test]
fn many_partitions() {
    check(Filter::Always(true), "table scan");
    check(Filter::And(vec![]), "table scan");
    check(n(Op::Gt, 1), "table scan, filter: N gt 1");
    check(pk(Op::Ge, "a"), "partition range PartitionKey>='a'");
    check(
        and([pk(Op::Ge, "abc"), pk(Op::Lt, "abd"), n(Op::Eq, 3)]),
        "partition range PartitionKey>='abc' PartitionKey<'abd', filter: N eq 3",
    );
    check(or([pk(Op::Eq, "q"), pk(Op::Eq, "p")]), "multi-range PartitionKey='p'; PartitionKey='q'");
    check(rk(Op::Eq, "r"), "skip scan RowKey='r'");
    check(and([pk(Op::Gt, "a"), rk(Op::Lt, "r")]), "skip scan PartitionKey>'a', RowKey<'r'");
    check(
        or([and([pk(Op::Eq, "p"), rk(Op::Eq, "r")]), and([pk(Op::Eq, "o"), rk(Op::Eq, "s")])]),
        "multi-point PartitionKey='o', RowKey='s'; PartitionKey='p', RowKey='r'",
    );
}

#[test]
fn long_lists_are_counted() {
    let any = ["a", "b", "c", "d", "e"].map(|row| rk(Op::Eq, row));
    check(
        and([pk(Op::Eq, "p"), or(any)]),
        "multi-point PartitionKey='p', RowKey='a'; PartitionKey='p', RowKey='b'; \
         PartitionKey='p', RowKey='c'; and 2 more",
    );
}

#[test]
fn what_the_keys_do_not_settle_is_asked_of_each_row() {
    check(
        and([
            and([pk(Op::Eq, "p"), n(Op::Gt, 1)]),
            rk(Op::Gt, "a"),
            Filter::Flag("Done".to_owned()),
        ]),
        "row range PartitionKey='p', RowKey>'a', filter: N gt 1 and Done",
    );
    check(
        or([and([pk(Op::Eq, "p"), n(Op::Gt, 1)]), pk(Op::Eq, "q")]),
        "multi-range PartitionKey='p'; PartitionKey='q', \
         filter: (PartitionKey eq 'p' and N gt 1) or PartitionKey eq 'q'",
    );
    check(or([pk(Op::Eq, "p"), n(Op::Gt, 1)]), "table scan, filter: PartitionKey eq 'p' or N gt 1");
}

#[test]
fn not_turns_the_keys_around() {
    check(not(pk(Op::Ne, "p")), "partition scan PartitionKey='p'");
    check(
        not(or([pk(Op::Lt, "a"), pk(Op::Ge, "b")])),
        "partition range PartitionKey>='a' PartitionKey<'b'",
    );
    check(not(not(rk(Op::Eq, "r"))), "skip scan RowKey='r'");
    check(
        not(and([pk(Op::Eq, "p"), n(Op::Eq, 1)])),
        "table scan, filter: not (PartitionKey eq 'p' and N eq 1)",
    );
    check(
        not(or([pk(Op::Ne, "p"), n(Op::Eq, 1)])),
        "partition scan PartitionKey='p', filter: not (PartitionKey ne 'p' or N eq 1)",
    );
}

#[test]
fn a_key_is_less_than_a_literal_of_another_type() {
    let mistyped = |op| Filter::compare("PartitionKey", op, Value::Int32(5));
    for op in [Op::Ne, Op::Lt, Op::Le] {
        check(mistyped(op), "table scan");
        check(not(mistyped(op)), "nothing");
    }
    for op in [Op::Eq, Op::Gt, Op::Ge] {
        check(mistyped(op), "nothing");
        check(and([rk(Op::Eq, "r"), not(mistyped(op))]), "skip scan RowKey='r'");
    }
    check(Filter::Flag("RowKey".to_owned()), "nothing");
    check(compare("partitionkey", Op::Eq, "p"), "table scan, filter: partitionkey eq 'p'");
}

#[test]
fn contradictions_read_nothing() {
    check(and([pk(Op::Eq, "a"), pk(Op::Eq, "b"), n(Op::Eq, 1)]), "nothing, filter: N eq 1");
    check(and([pk(Op::Ge, "b"), pk(Op::Lt, "a")]), "nothing");
    check(rk(Op::Lt, ""), "nothing");
    check(Filter::Or(vec![]), "nothing");
}

#[test]
fn bounds_stand_in_the_order_of_utf_16() {
    check(
        and([pk(Op::Ge, "\u{1f600}"), pk(Op::Lt, "\u{ffff}")]),
        "partition range PartitionKey>='\u{1f600}' PartitionKey<'\u{ffff}'",
    );
    check(and([pk(Op::Ge, "\u{ffff}"), pk(Op::Lt, "\u{1f600}")]), "nothing");
}

#[test]
fn a_literal_longer_than_any_key_bounds_all_the_same() {
    let long = "k".repeat(20_000);
    assert_eq!(Plan::of(Some(&pk(Op::Eq, &long))).shape(), Shape::Nothing);
    assert_eq!(Plan::of(Some(&pk(Op::Ne, &long))).shape(), Shape::TableScan);
    assert_eq!(Plan::of(Some(&pk(Op::Gt, &long))).shape(), Shape::PartitionRange);
    let within = and([pk(Op::Eq, "p"), rk(Op::Ge, &long), rk(Op::Le, &long)]);
    assert_eq!(Plan::of(Some(&within)).shape(), Shape::Nothing, "no key is a part of the literal");
}

/// `name eq '00001' or name eq '00002' or …`
fn one_of(name: &str, count: usize) -> Filter {
    Filter::Or((0..count).map(|i| compare(name, Op::Eq, &format!("{i:05}"))).collect())
}

#[test]
fn ten_thousand_points_are_planned_and_more_become_ranges() {
    let rows = |count| and([pk(Op::Eq, "p"), one_of("RowKey", count)]);
    let plan = Plan::of(Some(&rows(10_000)));
    assert_eq!((plan.shape(), plan.rest()), (Shape::MultiPoint, None));
    let plan = Plan::of(Some(&rows(10_001)));
    assert!(plan.to_string().starts_with("multi-range PartitionKey='p', RowKey>='00000' RowKey<="));
    assert!(plan.rest().is_some(), "what was widened is asked of each row");
}

#[test]
fn products_of_long_lists_are_widened_row_by_row_first() {
    let both = and([one_of("PartitionKey", 200), one_of("RowKey", 200)]);
    let plan = Plan::of(Some(&both));
    assert_eq!(plan.keys().pieces().len(), 200, "each partition with one range of rows");
    assert!(plan.rest().is_some());
    let small = and([one_of("PartitionKey", 50), one_of("RowKey", 50)]);
    let plan = Plan::of(Some(&small));
    assert_eq!((plan.shape(), plan.rest()), (Shape::MultiPoint, None));
}

#[test]
fn hostile_filters_are_planned_in_bounded_work() {
    let layer = |i: usize| {
        let partitions = (0..300).map(|j| pk(Op::Ne, &format!("{:05}", i * 7 + j)));
        let rows = (0..300).map(|j| rk(Op::Ne, &format!("{:05}", i * 11 + j)));
        or([Filter::And(partitions.collect()), Filter::And(rows.collect())])
    };
    let filter = Filter::And((0..100).map(layer).collect());
    filter.check().expect("within the bounds");
    let plan = Plan::of(Some(&filter));
    let entity = super::words::entity("a", "b", &[("N", text("x"))]);
    let passes = crate::table::filter::eval::passes(&filter, &entity).expect("in memory");
    assert!(passes && !plan.keys().pieces().is_empty());
}

/// Takes all the work that one filter may take, and then lets every row pass.
fn exhausting() -> Filter {
    let mut filter = and([one_of("PartitionKey", 90), one_of("RowKey", 100)]);
    for layer in 0..40 {
        let more = (0..7).map(|i| pk(Op::Eq, &format!("y{layer}-{i}")));
        let any = std::iter::once(filter).chain(more).collect();
        filter = and([Filter::Or(any), rk(Op::Ne, "q")]);
    }
    or([filter, rk(Op::Ge, "")])
}

/// Rows that nobody asked for cost the asker time and count as examined, and so could be told.
#[test]
fn a_range_is_not_widened_by_whatever_filter_comes_with_it() {
    let end = |pk_beyond, rk_up_to, key: &str| {
        or([pk(pk_beyond, key), and([pk(Op::Eq, key), rk(rk_up_to, "m")])])
    };
    let range = [end(Op::Gt, Op::Ge, "b"), end(Op::Lt, Op::Le, "d")];
    let visits = |plan: &Plan, partition: &str, row: &str| {
        let has = |span: &Span, key: &str| {
            *span.start <= *key.as_bytes() && span.ends_after(key.as_bytes())
        };
        plan.keys().pieces().iter().any(|(partitions, rows)| {
            has(partitions, partition) && rows.pieces().iter().any(|(rows, ())| has(rows, row))
        })
    };
    let [first, last] = range.clone();
    let as_one = Plan::of(Some(&and([first, last, exhausting()])));
    assert!(visits(&as_one, "b", "a"), "as a part of the filter it is widened: {}", as_one.shape());
    let (filter, range) = (exhausting(), and(range));
    filter.check().expect("within the bounds");
    let plan = Plan::of(Some(&filter)).within(&range);
    for (partition, row) in [("b", "m"), ("b", "z"), ("c", ""), ("d", ""), ("d", "m")] {
        assert!(visits(&plan, partition, row), "{partition} {row}");
    }
    for (partition, row) in [("", ""), ("a", "z"), ("b", "a"), ("b", "l"), ("d", "n"), ("e", "")] {
        assert!(!visits(&plan, partition, row), "{partition} {row}");
    }
    let store = words::store();
    for (partition, row) in [("a", "z"), ("b", "a"), ("b", "m"), ("d", "m"), ("d", "n"), ("e", "")]
    {
        write(&store, Write::Insert(entity(partition, row, &[]))).expect("new");
    }
    let page = words::query(
        &store,
        &Query { filter: Some(filter), within: Some(range), ..Query::default() },
    );
    assert_eq!((page.entities.len(), page.examined, page.next), (2, 2, None));
}

#[test]
fn what_a_range_says_of_properties_is_asked_of_each_row() {
    let within = |filter: Filter, range: Filter| Plan::of(Some(&filter)).within(&range).to_string();
    assert_eq!(
        within(and([pk(Op::Eq, "p"), n(Op::Gt, 1)]), and([rk(Op::Lt, "r"), n(Op::Lt, 9)])),
        "row range PartitionKey='p', RowKey<'r', filter: N lt 9 and N gt 1",
    );
    assert_eq!(
        within(pk(Op::Eq, "p"), n(Op::Lt, 9)),
        "partition scan PartitionKey='p', filter: N lt 9"
    );
    assert_eq!(within(pk(Op::Eq, "p"), pk(Op::Eq, "q")), "nothing");
}

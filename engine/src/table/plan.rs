//! From a filter to a plan: the keys to visit and the rest of the filter to ask each row.
//!
//! Conditions on PartitionKey and RowKey become a set of keys, through `and`, `or` and `not`;
//! conditions on anything else are no bound on the keys and stay in the rest.
//!
//! Promise: the rows that a plan visits and its rest lets through are the rows that pass the
//! filter. However much work the filter is, a plan within a range visits no keys beyond it.

use crate::table::filter::ast::{Filter, Op};
use crate::table::keys;
use crate::table::keyset::{Bounds, Combiner, KeySet};
use crate::table::rules;
use crate::table::spans::{Spans, above};
use crate::table::value::Value;

/// How a query finds its rows. Prints as one line of stable text.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    keys: KeySet,
    rest: Option<Filter>,
}

/// What kind of visit a plan is, from the cheapest to the dearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// No row can pass.
    Nothing,
    /// One row.
    Point,
    /// Some rows, each by its keys.
    MultiPoint,
    /// A range of rows of one partition.
    RowRange,
    /// Several ranges of rows or partitions.
    MultiRange,
    /// A whole partition.
    PartitionScan,
    /// A range of partitions, whole.
    PartitionRange,
    /// Some rows of each of many partitions, seeking from partition to partition.
    SkipScan,
    /// The whole table.
    TableScan,
}

impl Shape {
    /// Whether the rows are neighbours: nothing lies between the first and the last that is not of
    /// the plan.
    pub(crate) fn is_one_range(self) -> bool {
        match self {
            Shape::Nothing | Shape::Point | Shape::RowRange => true,
            Shape::PartitionScan | Shape::PartitionRange | Shape::TableScan => true,
            Shape::MultiPoint | Shape::MultiRange | Shape::SkipScan => false,
        }
    }
}

impl Plan {
    /// The plan of `filter`, which must have passed [`Filter::check`]; `None` is every row.
    pub fn of(filter: Option<&Filter>) -> Plan {
        match filter {
            None => Plan { keys: KeySet::all(), rest: None },
            Some(filter) => Plan::with(filter, &mut Combiner::new()),
        }
    }

    /// The plan of `filter`, its sets combined by `combiner`.
    pub(crate) fn with(filter: &Filter, combiner: &mut Combiner) -> Plan {
        let mut conjuncts = Vec::new();
        collect_conjuncts(filter, &mut conjuncts);
        let (mut sets, mut unsettled) = (Vec::new(), Vec::new());
        for conjunct in conjuncts {
            let Bounds { keys, exact } = bounds(conjunct, false, combiner);
            if !exact {
                unsettled.push(conjunct.clone());
            }
            // What is not settled goes to the rest; here only widening counts.
            sets.push(Bounds { keys, exact: true });
        }
        let Bounds { keys, exact } = combiner.all_of(sets);
        let rest = match unsettled.len() {
            _ if !exact => Some(filter.clone()),
            0 => None,
            1 => unsettled.pop(),
            _ => Some(Filter::And(unsettled)),
        };
        Plan { keys, rest }
    }

    /// The plan of the rows that pass `range` too, which must have passed [`Filter::check`]. What
    /// this plan was widened to ends where the keys of `range` do: those are found by work of their
    /// own, and not widened with it.
    pub(crate) fn within(self, range: &Filter) -> Plan {
        let range = Plan::with(range, &mut Combiner::new());
        let keys = self.keys.and(&range.keys);
        let rest = match (range.rest, self.rest) {
            (Some(range), Some(own)) => Some(Filter::And(vec![range, own])),
            (range, own) => range.or(own),
        };
        Plan { keys, rest }
    }

    /// What kind of visit it is.
    pub fn shape(&self) -> Shape {
        match self.keys.pieces() {
            [] => Shape::Nothing,
            [(partition, rows)] if partition.point().is_some() => shape_in_partition(rows),
            [(partitions, rows)] if rows.is_all() && partitions.is_all() => Shape::TableScan,
            [(_, rows)] if rows.is_all() => Shape::PartitionRange,
            pieces
                if pieces.iter().any(|(span, rows)| span.point().is_none() && !rows.is_all()) =>
            {
                Shape::SkipScan
            }
            _ if self.points().is_some() => Shape::MultiPoint,
            _ => Shape::MultiRange,
        }
    }

    /// What of the filter is asked of each row that is visited; `None` where the keys say it all.
    pub fn rest(&self) -> Option<&Filter> {
        self.rest.as_ref()
    }

    /// The keys that are visited.
    pub(crate) fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// The single rows that the plan is made of, in order, if it is made of such.
    pub(crate) fn points(&self) -> Option<Vec<(&[u8], &[u8])>> {
        let mut points = Vec::with_capacity(self.keys.len());
        for (partition, rows) in self.keys.pieces() {
            let partition = partition.point()?;
            for (row, ()) in rows.pieces() {
                points.push((partition, row.point()?));
            }
        }
        Some(points)
    }
}

fn shape_in_partition(rows: &Spans) -> Shape {
    match rows.pieces() {
        [(span, ())] if span.is_all() => Shape::PartitionScan,
        [(span, ())] if span.point().is_some() => Shape::Point,
        [_] => Shape::RowRange,
        spans if spans.iter().all(|(span, ())| span.point().is_some()) => Shape::MultiPoint,
        _ => Shape::MultiRange,
    }
}

/// The filters that must all hold for `filter` to hold.
fn collect_conjuncts<'a>(filter: &'a Filter, out: &mut Vec<&'a Filter>) {
    match filter {
        Filter::And(all) => all.iter().for_each(|inner| collect_conjuncts(inner, out)),
        other => out.push(other),
    }
}

/// The keys that rows passing `filter` have (failing it, where `negated`).
fn bounds(filter: &Filter, negated: bool, combiner: &mut Combiner) -> Bounds {
    let mut of_each =
        |filters: &[Filter]| filters.iter().map(|f| bounds(f, negated, combiner)).collect();
    match filter {
        Filter::Compare { property, op, literal } => match property.as_str() {
            "PartitionKey" => {
                exactly(KeySet::boxed(&key_spans(*op, literal, negated), Spans::all()))
            }
            "RowKey" => exactly(KeySet::boxed(&Spans::all(), key_spans(*op, literal, negated))),
            _ => anything(),
        },
        // A key is a string, so that it is never a true flag.
        Filter::Flag(property) if matches!(property.as_str(), "PartitionKey" | "RowKey") => {
            constant(negated)
        }
        Filter::Flag(_) => anything(),
        Filter::Always(value) => constant(*value != negated),
        Filter::Not(inner) => bounds(inner, !negated, combiner),
        Filter::And(all) => {
            let sets = of_each(all);
            if negated { combiner.any_of(sets) } else { combiner.all_of(sets) }
        }
        Filter::Or(any) => {
            let sets = of_each(any);
            if negated { combiner.all_of(sets) } else { combiner.any_of(sets) }
        }
    }
}

fn exactly(keys: KeySet) -> Bounds {
    Bounds { keys, exact: true }
}

/// A condition that says nothing about the keys.
fn anything() -> Bounds {
    Bounds { keys: KeySet::all(), exact: false }
}

fn constant(value: bool) -> Bounds {
    exactly(if value { KeySet::all() } else { KeySet::none() })
}

/// The keys for which `key op literal` holds (fails, where `negated`). Every entity has both keys,
/// so that the two cases are each other's complement.
fn key_spans(op: Op, literal: &Value, negated: bool) -> Spans {
    let holds = match literal {
        Value::String(text) => string_spans(op, text),
        // A key is less than a literal of any other type.
        _ if matches!(op, Op::Ne | Op::Lt | Op::Le) => Spans::all(),
        _ => Spans::none(),
    };
    if negated { holds.complement() } else { holds }
}

fn string_spans(op: Op, text: &str) -> Spans {
    let key = &*keys::encode_bound(text);
    let is_no_key = rules::units(text) > rules::KEY_UNITS_MAX;
    match op {
        Op::Eq if is_no_key => Spans::none(),
        Op::Ne if is_no_key => Spans::all(),
        // Cut off it may be no text any more: nothing may take it for the key of a row.
        Op::Ge if is_no_key => Spans::at_least(&above(key)),
        Op::Lt if is_no_key => Spans::at_least(&above(key)).complement(),
        Op::Eq => Spans::equal_to(key),
        Op::Ne => Spans::equal_to(key).complement(),
        Op::Ge => Spans::at_least(key),
        Op::Lt => Spans::at_least(key).complement(),
        Op::Gt => Spans::at_least(&above(key)),
        Op::Le => Spans::at_least(&above(key)).complement(),
    }
}

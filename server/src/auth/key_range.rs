//! The keys that a table SAS is good for, from `spk`, `srk` to `epk`, `erk`, both included.
//!
//! Promise: [`KeyRange::contains`] decides for every operation. [`KeyRange::filter`] says the same,
//! so that a query reads no more than the range.

use std::cmp::Ordering;
use tabulith::table::filter::ast::{Filter, Op};
use tabulith::table::page::Continuation;
use tabulith::table::value::Value;

/// A range of keys; the default holds all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    first: Option<End>,
    last: Option<End>,
}

/// One end of a range. Without a RowKey it is the partition's own end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    partition_key: String,
    row_key: Option<String>,
}

impl End {
    /// Where the keys lie as seen from here. All rows of the partition of an end without a RowKey
    /// are at the end itself.
    fn place_of(&self, partition_key: &str, row_key: &str) -> Ordering {
        let by_row = || match &self.row_key {
            Some(own) => ordinal(row_key, own),
            None => Ordering::Equal,
        };
        ordinal(partition_key, &self.partition_key).then_with(by_row)
    }
}

/// Keys are ordered by their UTF-16 units.
fn ordinal(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

impl KeyRange {
    /// The range of the four fields; nothing where a RowKey comes without its PartitionKey.
    pub fn of(
        spk: Option<&str>,
        srk: Option<&str>,
        epk: Option<&str>,
        erk: Option<&str>,
    ) -> Option<KeyRange> {
        let end = |partition_key: Option<&str>, row_key: Option<&str>| match partition_key {
            None => row_key.is_none().then_some(None),
            Some(partition_key) => Some(Some(End {
                partition_key: partition_key.to_owned(),
                row_key: row_key.map(str::to_owned),
            })),
        };
        Some(KeyRange { first: end(spk, srk)?, last: end(epk, erk)? })
    }

    /// Whether it has no end, so that it holds all.
    pub fn is_everything(&self) -> bool {
        self.first.is_none() && self.last.is_none()
    }

    /// Whether an entity's keys lie in it.
    pub fn contains(&self, partition_key: &str, row_key: &str) -> bool {
        let place = |end: &End| end.place_of(partition_key, row_key);
        self.first.as_ref().is_none_or(|end| place(end).is_ge())
            && self.last.as_ref().is_none_or(|end| place(end).is_le())
    }

    /// A filter for what lies in the range; none where that is everything.
    pub fn filter(&self) -> Option<Filter> {
        let first = self.first.as_ref().map(|end| bound(end, Op::Gt, Op::Ge));
        let last = self.last.as_ref().map(|end| bound(end, Op::Lt, Op::Le));
        let all: Vec<Filter> = first.into_iter().chain(last).collect();
        (!all.is_empty()).then_some(Filter::And(all))
    }

    /// Where the next page starts, said with keys of the range only; nothing where the range is
    /// over.
    pub fn next(&self, next: Continuation) -> Option<Continuation> {
        let place = |end: &End| end.place_of(&next.partition_key, &next.row_key);
        if self.last.as_ref().is_some_and(|end| place(end).is_gt()) {
            return None;
        }
        match &self.first {
            Some(end) if place(end).is_lt() => Some(Continuation {
                partition_key: end.partition_key.clone(),
                row_key: end.row_key.clone().unwrap_or_default(),
            }),
            _ => Some(next),
        }
    }
}

/// The condition of one end: beyond its partition, or in it and not outside its row.
fn bound(end: &End, beyond: Op, up_to: Op) -> Filter {
    let compare = |property: &str, op, key: &str| {
        Filter::compare(property, op, Value::String(key.to_owned()))
    };
    match &end.row_key {
        None => compare("PartitionKey", up_to, &end.partition_key),
        Some(row_key) => Filter::Or(vec![
            compare("PartitionKey", beyond, &end.partition_key),
            Filter::And(vec![
                compare("PartitionKey", Op::Eq, &end.partition_key),
                compare("RowKey", up_to, row_key),
            ]),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabulith::table::plan::{Plan, Shape};

    fn range(fields: [Option<&str>; 4]) -> KeyRange {
        KeyRange::of(fields[0], fields[1], fields[2], fields[3]).expect("a range")
    }

    #[test]
    fn the_shapes_of_a_range() {
        let check = |fields, inside: &[(&str, &str)], outside: &[(&str, &str)]| {
            let range = range(fields);
            for (pk, rk) in inside {
                assert!(range.contains(pk, rk), "{fields:?}: {pk} {rk}");
            }
            for (pk, rk) in outside {
                assert!(!range.contains(pk, rk), "{fields:?}: {pk} {rk}");
            }
        };
        check([None; 4], &[("", ""), ("z", "z")], &[]);
        check([Some("b"), None, None, None], &[("b", ""), ("c", "")], &[("a", "z"), ("B", "z")]);
        check([None, None, Some("b"), None], &[("", ""), ("b", "z")], &[("ba", ""), ("c", "")]);
        let both = [Some("b"), Some("m"), Some("d"), Some("m")];
        check(
            both,
            &[("b", "m"), ("b", "z"), ("c", ""), ("d", ""), ("d", "m")],
            &[("b", "l"), ("a", "z"), ("d", "n"), ("e", "")],
        );
        // In UTF-16 a surrogate comes before U+FFFD.
        check([Some("\u{10000}"), None, None, None], &[("\u{fffd}", "")], &[("\u{d7ff}", "")]);
        assert_eq!(KeyRange::of(None, Some("r"), None, None), None);
        assert_eq!(KeyRange::of(Some("p"), None, None, Some("r")), None);
    }

    #[test]
    fn a_range_bounds_the_plan() {
        let shape = |fields| Plan::of(range(fields).filter().as_ref()).shape();
        assert_eq!(shape([None; 4]), Shape::TableScan);
        assert_eq!(shape([Some("b"), Some("m"), Some("b"), Some("m")]), Shape::Point);
        assert_eq!(shape([Some("b"), Some("m"), Some("b"), None]), Shape::RowRange);
        assert_eq!(shape([Some("b"), None, Some("d"), None]), Shape::PartitionRange);
        assert_eq!(shape([Some("d"), None, Some("b"), None]), Shape::Nothing);
        let plan = Plan::of(range([Some("b"), Some("m"), Some("d"), Some("m")]).filter().as_ref());
        assert_eq!(plan.rest(), None, "{plan}");
    }

    #[test]
    fn the_next_page_is_told_in_keys_of_the_range() {
        let range = range([Some("b"), Some("m"), Some("d"), Some("m")]);
        let next = |pk: &str, rk: &str| {
            let next = Continuation { partition_key: pk.to_owned(), row_key: rk.to_owned() };
            range.next(next).map(|next| (next.partition_key, next.row_key))
        };
        let keys = |pk: &str, rk: &str| Some((pk.to_owned(), rk.to_owned()));
        assert_eq!(next("c", "x"), keys("c", "x"));
        assert_eq!(next("a", "secret"), keys("b", "m"));
        assert_eq!(next("d", "n"), None);
    }
}

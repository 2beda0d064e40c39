//! Whether something with named properties passes a filter: the comparison rules of Azure Tables.
//!
//! 1. A comparison with a property that is missing is false, whatever the operator.
//! 2. Values of one type compare in their natural order: strings by UTF-16 units, binaries byte by
//!    byte with the shorter first, a Guid by the bytes of its text.
//! 3. A literal widens, a property never does: Int32 to Int64 and Double, Int64 to Double.
//! 4. A property of any other type is less than the literal, also where one of them is NaN.
//! 5. Of two Doubles of which one is NaN only `ne` is true.

use crate::error::Result;
use crate::table::entity::Entity;
use crate::table::filter::ast::{Filter, Op};
use crate::table::keys;
use crate::table::value::{DateTime, Value, ValueRef};
use std::cmp::Ordering;

/// What a filter is asked about.
pub trait Properties {
    /// The property of that name, keys and Timestamp included, if it is there.
    fn property(&self, name: &str) -> Result<Option<ValueRef<'_>>>;
}

impl Properties for Entity {
    fn property(&self, name: &str) -> Result<Option<ValueRef<'_>>> {
        Ok(match name {
            "PartitionKey" => Some(ValueRef::String(&self.partition_key)),
            "RowKey" => Some(ValueRef::String(&self.row_key)),
            "Timestamp" => Some(ValueRef::DateTime(DateTime::from(self.ts))),
            _ => self.properties.iter().find(|(known, _)| known == name).map(|(_, v)| v.into()),
        })
    }
}

/// Whether `row` passes `filter`. Recurses as deep as the filter is; see
/// [`Filter::check`].
pub fn passes(filter: &Filter, row: &impl Properties) -> Result<bool> {
    Ok(match filter {
        Filter::Compare { property, op, literal } => {
            row.property(property)?.is_some_and(|value| compare(value, *op, literal))
        }
        Filter::Flag(property) => row.property(property)? == Some(ValueRef::Boolean(true)),
        Filter::Always(value) => *value,
        Filter::Not(inner) => !passes(inner, row)?,
        Filter::And(all) => {
            for inner in all {
                if !passes(inner, row)? {
                    return Ok(false);
                }
            }
            true
        }
        Filter::Or(any) => {
            for inner in any {
                if passes(inner, row)? {
                    return Ok(true);
                }
            }
            false
        }
    })
}

/// Whether `value op literal` holds.
pub fn compare(value: ValueRef<'_>, op: Op, literal: &Value) -> bool {
    let order = order(value, literal);
    match op {
        Op::Eq => order == Some(Ordering::Equal),
        Op::Ne => order != Some(Ordering::Equal),
        Op::Lt => order == Some(Ordering::Less),
        Op::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Op::Gt => order == Some(Ordering::Greater),
        Op::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

/// How `value` stands to `literal`; `None` with a NaN.
fn order(value: ValueRef<'_>, literal: &Value) -> Option<Ordering> {
    match (value, literal) {
        (ValueRef::Binary(a), Value::Binary(b)) => Some(a.cmp(b)),
        (ValueRef::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
        (ValueRef::DateTime(a), Value::DateTime(b)) => Some(a.cmp(b)),
        (ValueRef::Guid(a), Value::Guid(b)) => Some(a.cmp(b)),
        (ValueRef::String(a), Value::String(b)) => Some(keys::compare(a, b)),
        (ValueRef::Int32(a), Value::Int32(b)) => Some(a.cmp(b)),
        (ValueRef::Int64(a), Value::Int32(b)) => Some(a.cmp(&i64::from(*b))),
        (ValueRef::Int64(a), Value::Int64(b)) => Some(a.cmp(b)),
        (ValueRef::Double(a), Value::Int32(b)) => a.partial_cmp(&f64::from(*b)),
        // Rounds above 2^53, as the service's own conversion does.
        (ValueRef::Double(a), Value::Int64(b)) => a.partial_cmp(&(*b as f64)),
        (ValueRef::Double(a), Value::Double(b)) => a.partial_cmp(b),
        _ => Some(Ordering::Less),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::CommitTs;

    fn samples() -> [Value; 8] {
        [
            Value::Binary(vec![5]),
            Value::Boolean(true),
            Value::DateTime(DateTime(5)),
            Value::Double(5.0),
            Value::Guid([5; 16]),
            Value::Int32(5),
            Value::Int64(5),
            Value::String("5".to_owned()),
        ]
    }

    fn truths(value: &Value, literal: &Value) -> [bool; 6] {
        [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge]
            .map(|op| compare(value.into(), op, literal))
    }

    const LESS: [bool; 6] = [false, true, true, true, false, false];
    const EQUAL: [bool; 6] = [true, false, false, true, false, true];
    const GREATER: [bool; 6] = [false, true, false, false, true, true];

    #[test]
    fn the_matrix_of_types() {
        let widens = |value: &Value, literal: &Value| {
            matches!(
                (value, literal),
                (Value::Int64(_), Value::Int32(_))
                    | (Value::Double(_), Value::Int32(_) | Value::Int64(_))
            )
        };
        for (i, value) in samples().iter().enumerate() {
            for (j, literal) in samples().iter().enumerate() {
                let expected = if i == j || widens(value, literal) { EQUAL } else { LESS };
                assert_eq!(truths(value, literal), expected, "{value:?} {literal:?}");
            }
        }
    }

    #[test]
    fn natural_orders() {
        let greater = [
            (Value::Binary(vec![1, 0]), Value::Binary(vec![1])),
            (Value::Boolean(true), Value::Boolean(false)),
            (Value::Double(0.5), Value::Double(-0.5)),
            (Value::Int32(1), Value::Int32(-1)),
            (Value::Int64(1), Value::Int32(-1)),
            (Value::Double(1.5), Value::Int64(1)),
            (Value::String("b".to_owned()), Value::String("a\u{ffff}".to_owned())),
            (Value::String("\u{ffff}".to_owned()), Value::String("\u{1f600}".to_owned())),
            (Value::String("a".to_owned()), Value::String("A".to_owned())),
        ];
        for (value, literal) in greater {
            assert_eq!(truths(&value, &literal), GREATER, "{value:?} {literal:?}");
            assert!(
                truths(&literal, &value) == LESS
                    || std::mem::discriminant(&value) != std::mem::discriminant(&literal)
            );
        }
        assert_eq!(truths(&Value::Double(0.0), &Value::Double(-0.0)), EQUAL);
    }

    #[test]
    fn nan_differs_from_everything() {
        let only_ne = [false, true, false, false, false, false];
        let nan = Value::Double(f64::NAN);
        for other in [Value::Double(1.0), Value::Double(f64::INFINITY), nan.clone()] {
            assert_eq!(truths(&nan, &other), only_ne);
            assert_eq!(truths(&other, &nan), only_ne);
        }
    }

    fn entity() -> Entity {
        Entity {
            ts: CommitTs(10),
            properties: vec![
                ("Flag".to_owned(), Value::Boolean(true)),
                ("N".to_owned(), Value::Int32(3)),
            ],
            ..Entity::new("p", "r")
        }
    }

    #[track_caller]
    fn check(filter: Filter, expected: bool) {
        assert_eq!(passes(&filter, &entity()).expect("in memory"), expected, "{filter}");
    }

    #[test]
    fn a_missing_property_fails_every_comparison_and_passes_its_negation() {
        for op in [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge] {
            let missing = Filter::compare("Missing", op, Value::Int32(1));
            check(missing.clone(), false);
            check(Filter::Not(Box::new(missing)), true);
        }
        check(Filter::compare("n", Op::Eq, Value::Int32(3)), false);
    }

    #[test]
    fn flags_keys_and_timestamp() {
        check(Filter::Flag("Flag".to_owned()), true);
        check(Filter::Flag("N".to_owned()), false);
        check(Filter::Flag("Missing".to_owned()), false);
        check(Filter::compare("PartitionKey", Op::Eq, Value::String("p".to_owned())), true);
        check(Filter::compare("RowKey", Op::Lt, Value::Int32(0)), true);
        let written = DateTime(DateTime::UNIX_EPOCH.0 + 10);
        check(Filter::compare("Timestamp", Op::Eq, Value::DateTime(written)), true);
    }

    #[test]
    fn and_of_none_is_true_and_or_of_none_is_false() {
        check(Filter::And(vec![]), true);
        check(Filter::Or(vec![]), false);
        check(Filter::And(vec![Filter::Always(true), Filter::Always(false)]), false);
        check(Filter::Or(vec![Filter::Always(false), Filter::Always(true)]), true);
    }
}

//! The filter tree. Built by a parser outside, or by hand. Prints as OData text.

use crate::table::error::{TableError, TableResult};
use crate::table::value::Value;
use std::fmt;

/// Deepest nesting of a filter: that of `A or B and (A or B and (…))` with a hundred parentheses,
/// each of which has an `or` and an `and` in it. What walks a filter may recurse, because this is
/// checked first.
pub const DEPTH_MAX: usize = 203;

/// Most nodes of a filter: ten times what a request's line has room for.
pub const NODES_MAX: usize = 100_000;

/// A condition on an entity.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// `property op literal`. False for every operator where the entity lacks the property.
    Compare {
        /// The property's name, case-sensitive; PartitionKey, RowKey and Timestamp included.
        property: String,
        /// The comparison.
        op: Op,
        /// What the property is compared with. A literal of another type that does not widen to
        /// the property's is greater than the property.
        literal: Value,
    },
    /// True where the property is a Boolean and true.
    Flag(String),
    /// The same for every entity.
    Always(bool),
    /// True where the inner filter is not.
    Not(Box<Filter>),
    /// True where all are; true for none.
    And(Vec<Filter>),
    /// True where one is; false for none.
    Or(Vec<Filter>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `eq`
    Eq,
    /// `ne`
    Ne,
    /// `lt`
    Lt,
    /// `le`
    Le,
    /// `gt`
    Gt,
    /// `ge`
    Ge,
}

impl Op {
    /// The operator with its sides swapped: `a < b` is `b > a`.
    pub fn mirrored(self) -> Op {
        match self {
            Op::Lt => Op::Gt,
            Op::Le => Op::Ge,
            Op::Gt => Op::Lt,
            Op::Ge => Op::Le,
            same => same,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Op::Eq => "eq",
            Op::Ne => "ne",
            Op::Lt => "lt",
            Op::Le => "le",
            Op::Gt => "gt",
            Op::Ge => "ge",
        }
    }
}

impl Filter {
    /// `property op literal`.
    pub fn compare(property: impl Into<String>, op: Op, literal: impl Into<Value>) -> Filter {
        Filter::Compare { property: property.into(), op, literal: literal.into() }
    }

    /// Whether it asks for a PartitionKey or a RowKey anywhere. Recurses as deep as the filter is.
    pub(crate) fn asks_for_keys(&self) -> bool {
        match self {
            Filter::Compare { property, .. } | Filter::Flag(property) => {
                matches!(property.as_str(), "PartitionKey" | "RowKey")
            }
            Filter::Always(_) => false,
            Filter::Not(inner) => inner.asks_for_keys(),
            Filter::And(all) | Filter::Or(all) => all.iter().any(Filter::asks_for_keys),
        }
    }

    /// Refuses a filter deeper than [`DEPTH_MAX`] or of more than [`NODES_MAX`] nodes. Does not
    /// recurse.
    pub fn check(&self) -> TableResult<()> {
        let mut open = vec![(self, 1)];
        let mut nodes = 0;
        while let Some((filter, depth)) = open.pop() {
            nodes += 1;
            if depth > DEPTH_MAX || nodes > NODES_MAX {
                return Err(TableError::FilterTooComplex);
            }
            match filter {
                Filter::Compare { .. } | Filter::Flag(_) | Filter::Always(_) => {}
                Filter::Not(inner) => open.push((inner, depth + 1)),
                Filter::And(all) | Filter::Or(all) => {
                    open.extend(all.iter().map(|inner| (inner, depth + 1)));
                }
            }
        }
        Ok(())
    }
}

/// OData text. What a parser reads back from it is a filter of the same meaning.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Compare { property, op, literal } => {
                write!(f, "{property} {} {literal}", op.word())
            }
            Filter::Flag(property) => f.write_str(property),
            Filter::Always(value) => write!(f, "{value}"),
            Filter::Not(inner) => write!(f, "not ({inner})"),
            Filter::And(all) => write_joined(f, all, " and ", true),
            Filter::Or(any) => write_joined(f, any, " or ", false),
        }
    }
}

fn write_joined(
    f: &mut fmt::Formatter<'_>,
    filters: &[Filter],
    word: &str,
    empty: bool,
) -> fmt::Result {
    for (i, filter) in filters.iter().enumerate() {
        if i > 0 {
            f.write_str(word)?;
        }
        match filter {
            Filter::And(_) | Filter::Or(_) if filters.len() > 1 => write!(f, "({filter})")?,
            _ => write!(f, "{filter}")?,
        }
    }
    if filters.is_empty() { write!(f, "{empty}") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::value::DateTime;

    #[test]
    fn filters_print_as_odata() {
        let filter = Filter::And(vec![
            Filter::compare("PartitionKey", Op::Eq, Value::String("it's".to_owned())),
            Filter::Or(vec![
                Filter::compare("N", Op::Gt, Value::Int64(5)),
                Filter::Not(Box::new(Filter::Flag("Done".to_owned()))),
            ]),
            Filter::compare("D", Op::Le, Value::Double(1.0)),
            Filter::compare("T", Op::Ne, Value::DateTime(DateTime::UNIX_EPOCH)),
            Filter::compare("B", Op::Lt, Value::Binary(vec![0, 255])),
            Filter::compare("G", Op::Ge, Value::Guid(*b"0123456789abcdef")),
        ]);
        assert_eq!(
            filter.to_string(),
            "PartitionKey eq 'it''s' and (N gt 5L or not (Done)) and D le 1.0 \
             and T ne datetime'1970-01-01T00:00:00Z' and B lt X'00ff' \
             and G ge guid'30313233-3435-3637-3839-616263646566'"
        );
        assert_eq!(Filter::And(vec![]).to_string(), "true");
        assert_eq!(Filter::Or(vec![]).to_string(), "false");
    }

    #[test]
    fn depth_and_width_are_bounded() {
        let deep = |depth: usize| {
            (1..depth).fold(Filter::Always(true), |inner, _| Filter::Not(Box::new(inner)))
        };
        assert!(deep(DEPTH_MAX).check().is_ok());
        assert!(matches!(deep(DEPTH_MAX + 1).check(), Err(TableError::FilterTooComplex)));
        let wide = |width: usize| Filter::Or(vec![Filter::Always(true); width]);
        assert!(wide(NODES_MAX - 1).check().is_ok());
        assert!(matches!(wide(NODES_MAX).check(), Err(TableError::FilterTooComplex)));
    }
}

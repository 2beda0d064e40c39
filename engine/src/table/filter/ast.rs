//! The filter tree. Built by a parser outside, or by hand.

use crate::table::value::Value;

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
}

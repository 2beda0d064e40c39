//! The entities that the table of entities holds: of up to two numbers, `N` and `M`, whose text is
//! the model's value.

use std::fmt::Debug;
use tabulith::table::value::Value;
use tabulith::{CommitTs, Entity};

/// What differed, in words.
pub(crate) type Difference = String;

/// The two numbers.
pub(crate) type Numbers = (Option<i32>, Option<i32>);

pub(crate) fn text(numbers: Numbers) -> Vec<u8> {
    format!("{numbers:?}").into_bytes()
}

pub(crate) fn numbers(entity: &Entity) -> Numbers {
    let number = |name| match entity.property(name) {
        Some(Value::Int32(number)) => Some(*number),
        _ => None,
    };
    (number("N"), number("M"))
}

pub(crate) fn entity((pk, rk): (u8, u8), (n, m): Numbers) -> Entity {
    let mut entity = Entity::new(format!("p{pk}"), format!("r{rk:02}"));
    for (name, number) in [("N", n), ("M", m)] {
        if let Some(number) = number {
            entity = entity.with(name, number);
        }
    }
    entity
}

/// The numbers of a value of the model.
pub(crate) fn numbers_of(value: &[u8]) -> Numbers {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let number = |text: &str| text.strip_prefix("Some(")?.strip_suffix(')')?.parse().ok();
    let (n, m) = inner.and_then(|inner| inner.split_once(", ")).unwrap_or_default();
    (number(n), number(m))
}

pub(crate) fn same<T: PartialEq + Debug>(found: &T, expected: &T) -> Result<(), Difference> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("entities: found {found:?}, expected {expected:?}")),
    }
}

pub(crate) fn wrong(error: impl Debug) -> Difference {
    format!("entities: {error:?}")
}

/// The end of time where a row has no expiry, as the model says it.
pub(crate) fn end_of(expires: Option<CommitTs>) -> u64 {
    expires.map_or(u64::MAX, |expires| expires.0)
}

//! Conditions of queries, with every literal escaped.

use crate::address::quoted;
use crate::value::Value;
use std::fmt;
use std::fmt::Write;

/// A condition of a query.
///
/// Literals are escaped here, so text from outside cannot become a part of the condition:
///
/// ```
/// use tabulith_client::{Filter, property};
/// let name = "O'Neil' or 'a' eq 'a";
/// let filter = property("Name").eq(name).and(property("Age").ge(30_i32));
/// assert_eq!(filter.as_str(), "(Name eq 'O''Neil'' or ''a'' eq ''a') and (Age ge 30)");
/// let all_of_one_tenant = Filter::partition("tenant-7");
/// assert_eq!(all_of_one_tenant.as_str(), "PartitionKey eq 'tenant-7'");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(String);

/// A property by its name, to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Property<'a>(&'a str);

/// The property of that name. The name is not escaped: it is the program's, not its user's.
pub fn property(name: &str) -> Property<'_> {
    Property(name)
}

impl Property<'_> {
    fn compare(self, operator: &str, value: impl Into<Value>) -> Filter {
        Filter(format!("{} {operator} {}", self.0, literal(&value.into())))
    }

    /// Equal.
    #[must_use]
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.compare("eq", value)
    }

    /// Not equal. False for an entity without the property, as every comparison is.
    #[must_use]
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        self.compare("ne", value)
    }

    /// Greater.
    #[must_use]
    pub fn gt(self, value: impl Into<Value>) -> Filter {
        self.compare("gt", value)
    }

    /// Greater or equal.
    #[must_use]
    pub fn ge(self, value: impl Into<Value>) -> Filter {
        self.compare("ge", value)
    }

    /// Less.
    #[must_use]
    pub fn lt(self, value: impl Into<Value>) -> Filter {
        self.compare("lt", value)
    }

    /// Less or equal.
    #[must_use]
    pub fn le(self, value: impl Into<Value>) -> Filter {
        self.compare("le", value)
    }

    /// Text that begins with `prefix`.
    #[must_use]
    pub fn starts_with(self, prefix: &str) -> Filter {
        let from = self.ge(prefix);
        match after_prefix(prefix) {
            Some(end) => from.and(self.lt(end.as_str())),
            None => from,
        }
    }

    /// A Boolean property that is true.
    #[must_use]
    pub fn is_true(self) -> Filter {
        Filter(self.0.to_owned())
    }
}

impl Filter {
    /// A condition in the protocol's words, taken as it is.
    pub fn raw(text: impl Into<String>) -> Filter {
        Filter(text.into())
    }

    /// Everything in one partition.
    pub fn partition(partition_key: &str) -> Filter {
        property("PartitionKey").eq(partition_key)
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Filter) -> Filter {
        Filter(format!("({self}) and ({other})"))
    }

    /// At least one of both.
    #[must_use]
    pub fn or(self, other: Filter) -> Filter {
        Filter(format!("({self}) or ({other})"))
    }

    /// The opposite.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "it stands beside `and` and `or`")]
    pub fn not(self) -> Filter {
        Filter(format!("not ({self})"))
    }

    /// The text of `$filter`, not yet percent-encoded.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A value as a literal of the filter language.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Boolean(yes) => yes.to_string(),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => format!("{number}L"),
        Value::Double(number) if number.is_nan() => "NaN".to_owned(),
        Value::Double(number) if number.is_infinite() => {
            if *number > 0.0 {
                "INF".to_owned()
            } else {
                "-INF".to_owned()
            }
        }
        Value::Double(number) => format!("{number:?}"),
        Value::DateTime(moment) => format!("datetime'{moment}'"),
        Value::Guid(bytes) => format!("guid'{}'", uuid::Uuid::from_bytes(*bytes)),
        Value::Binary(bytes) => {
            bytes.iter().fold("X'".to_owned(), |mut out, byte| {
                // Writing into a String cannot fail.
                let _ = write!(out, "{byte:02x}");
                out
            }) + "'"
        }
    }
}

/// The least text above all that begin with `prefix`, in the order of UTF-16 units; `None` where
/// there is none.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut kept: Vec<char> = prefix.chars().collect();
    while let Some(last) = kept.pop() {
        // Characters of two units stand below U+E000 in this order: what follows the last of them.
        let next = match last {
            '\u{d7ff}' => Some('\u{10000}'),
            '\u{10ffff}' => Some('\u{e000}'),
            '\u{ffff}' => None,
            other => char::from_u32(u32::from(other) + 1),
        };
        if let Some(next) = next {
            kept.push(next);
            return Some(kept.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn literals_of_every_type() {
        let moment: crate::value::DateTime = "2020-01-01T00:00:00.25Z".parse().unwrap();
        for (value, text) in [
            (Value::from("it's"), "'it''s'"),
            (Value::from(true), "true"),
            (Value::from(-5_i32), "-5"),
            (Value::from(5_i64), "5L"),
            (Value::from(2.0), "2.0"),
            (Value::from(moment), "datetime'2020-01-01T00:00:00.25Z'"),
            (Value::from([1_u8; 16]), "guid'01010101-0101-0101-0101-010101010101'"),
            (Value::from(vec![0, 255]), "X'00ff'"),
        ] {
            assert_eq!(literal(&value), text);
        }
    }

    #[test]
    fn a_prefix_ends_where_the_next_begins() {
        assert_eq!(property("N").starts_with("ab").as_str(), "(N ge 'ab') and (N lt 'ac')");
        assert_eq!(after_prefix("a\u{ffff}").as_deref(), Some("b"));
        assert_eq!(after_prefix("\u{ffff}"), None);
        // 2 units sort before U+E000, so U+10FFFF is followed by it.
        assert_eq!(after_prefix("\u{10ffff}").as_deref(), Some("\u{e000}"));
        assert_eq!(property("N").starts_with("").as_str(), "N ge ''");
    }

    #[test]
    fn conditions_are_put_together() {
        let both = property("A").eq(1_i32).or(property("B").is_true()).not();
        assert_eq!(both.as_str(), "not ((A eq 1) or (B))");
    }
}

//! The eight types of properties, and moments in time as the service writes them.

use std::fmt;
use std::str::FromStr;

/// A property's value.
///
/// Numbers without a suffix in Rust need one here: `Value::from(1_i32)` is an Edm.Int32,
/// `Value::from(1_i64)` an Edm.Int64, `Value::from(1.0)` an Edm.Double.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Edm.Binary: up to 64 KiB.
    Binary(Vec<u8>),
    /// Edm.Boolean.
    Boolean(bool),
    /// Edm.DateTime.
    DateTime(DateTime),
    /// Edm.Double.
    Double(f64),
    /// Edm.Guid: its 16 bytes in the order of its text.
    Guid([u8; 16]),
    /// Edm.Int32.
    Int32(i32),
    /// Edm.Int64.
    Int64(i64),
    /// Edm.String: up to 32,768 UTF-16 units.
    String(String),
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Value {
                Value::$variant(value.into())
            }
        })*
    };
}

value_from! {
    &str => String, String => String, bool => Boolean, i32 => Int32, i64 => Int64, f64 => Double,
    [u8; 16] => Guid, Vec<u8> => Binary, &[u8] => Binary, DateTime => DateTime,
}

impl Value {
    /// Whether the service would hold both as the same value: bit by bit, but for the sign of a
    /// zero, which it drops, and for the payload of a NaN.
    pub fn is_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Double(a), Value::Double(b)) => a == b || (a.is_nan() && b.is_nan()),
            (a, b) => a == b,
        }
    }

    /// The protocol's name of its type, as `Edm.Int64`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Binary(_) => "Edm.Binary",
            Value::Boolean(_) => "Edm.Boolean",
            Value::DateTime(_) => "Edm.DateTime",
            Value::Double(_) => "Edm.Double",
            Value::Guid(_) => "Edm.Guid",
            Value::Int32(_) => "Edm.Int32",
            Value::Int64(_) => "Edm.Int64",
            Value::String(_) => "Edm.String",
        }
    }
}

/// A moment in UTC with a resolution of 100 ns, in the years 1 to 9999.
///
/// ```
/// use tabulith_client::DateTime;
/// let noon: DateTime = "2024-05-01T14:00:00.50+02:00".parse()?;
/// assert_eq!(noon.to_string(), "2024-05-01T12:00:00.5Z");
/// # Ok::<(), tabulith_client::value::NoDateTime>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(i64);

/// A text or number that is no moment in the years 1 to 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no moment in the years 1 to 9999")]
pub struct NoDateTime;

const EPOCH: jiff::civil::DateTime = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_MIN: i64 = -621_355_968_000_000_000;
const TICKS_MAX: i64 = 2_534_023_007_999_999_999;

impl DateTime {
    /// The moment so many ticks of 100 ns after 1970-01-01.
    pub fn from_ticks(ticks: i64) -> Result<DateTime, NoDateTime> {
        let known = (TICKS_MIN..=TICKS_MAX).contains(&ticks);
        if known { Ok(DateTime(ticks)) } else { Err(NoDateTime) }
    }

    /// The moment so many seconds after 1970-01-01.
    pub fn from_seconds(seconds: i64) -> Result<DateTime, NoDateTime> {
        DateTime::from_ticks(seconds.checked_mul(TICKS_PER_SECOND).ok_or(NoDateTime)?)
    }

    /// Ticks of 100 ns since 1970-01-01.
    pub fn ticks(self) -> i64 {
        self.0
    }

    /// The same moment without its fraction of a second.
    pub fn whole_seconds(self) -> DateTime {
        DateTime(self.0 - self.0.rem_euclid(TICKS_PER_SECOND))
    }
}

impl FromStr for DateTime {
    type Err = NoDateTime;

    fn from_str(text: &str) -> Result<DateTime, NoDateTime> {
        // Timestamps of jiff end a day before the last year does, so that every zone can show them.
        let nanoseconds = match text.strip_suffix(['Z', 'z']) {
            Some(civil) => {
                let civil: jiff::civil::DateTime = civil.parse().map_err(|_| NoDateTime)?;
                civil.duration_since(EPOCH).as_nanos()
            }
            None => text.parse::<jiff::Timestamp>().map_err(|_| NoDateTime)?.as_nanosecond(),
        };
        let ticks = nanoseconds.div_euclid(100);
        DateTime::from_ticks(i64::try_from(ticks).map_err(|_| NoDateTime)?)
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(TICKS_PER_SECOND);
        let fraction = i32::try_from(self.0.rem_euclid(TICKS_PER_SECOND) * 100).unwrap_or_default();
        // Years 1 to 9999 lie within what jiff knows.
        let civil = EPOCH.saturating_add(jiff::SignedDuration::new(seconds, fraction));
        write!(f, "{civil}Z")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn moments_read_what_they_print() {
        for text in [
            "0001-01-01T00:00:00Z",
            "1601-01-01T00:00:00.0000001Z",
            "1969-12-31T23:59:59.9999999Z",
            "2021-01-06T01:01:30.9296707Z",
            "9999-12-31T23:59:59.9999999Z",
        ] {
            assert_eq!(text.parse::<DateTime>().unwrap().to_string(), text);
        }
        assert_eq!("yesterday".parse::<DateTime>(), Err(NoDateTime));
        assert!(DateTime::from_seconds(i64::MAX).is_err());
    }

    #[test]
    fn a_fraction_is_cut_downwards() {
        let before: DateTime = "1969-12-31T23:59:58.3Z".parse().unwrap();
        assert_eq!(before.whole_seconds().to_string(), "1969-12-31T23:59:58Z");
    }

    #[test]
    fn the_same_value_is_the_same() {
        assert!(Value::from(f64::NAN).is_same(&Value::from(f64::NAN)));
        assert!(Value::from(-0.0).is_same(&Value::from(0.0)));
        assert!(!Value::from(1_i32).is_same(&Value::from(1_i64)));
    }
}

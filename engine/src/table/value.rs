//! Typed values of properties.

/// A property's value.
///
/// ```
/// use tabulith::Value;
/// let (price, colour) = (Value::from(3), Value::from("red"));
/// assert_eq!((price.as_i64(), price.as_f64(), price.as_str()), (Some(3), Some(3.0), None));
/// assert_eq!((colour.as_str(), colour.as_i64()), (Some("red"), None));
/// ```
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

impl Value {
    /// The text of a String.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number of an Int32 or an Int64.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::Int32(number) => Some(number.into()),
            Value::Int64(number) => Some(number),
            _ => None,
        }
    }

    /// The number of a Double or an Int32; an Int64 need not be one.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::Double(number) => Some(number),
            Value::Int32(number) => Some(number.into()),
            _ => None,
        }
    }

    /// What a Boolean is.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Boolean(flag) => Some(flag),
            _ => None,
        }
    }

    /// The bytes of a Binary.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The moment of a DateTime.
    pub fn as_date_time(&self) -> Option<DateTime> {
        match *self {
            Value::DateTime(moment) => Some(moment),
            _ => None,
        }
    }

    /// The bytes of a Guid, in the order of its text.
    pub fn as_guid(&self) -> Option<[u8; 16]> {
        match *self {
            Value::Guid(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// A value that borrows what is long: as it lies in an encoded entity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// Edm.Binary.
    Binary(&'a [u8]),
    /// Edm.Boolean.
    Boolean(bool),
    /// Edm.DateTime.
    DateTime(DateTime),
    /// Edm.Double.
    Double(f64),
    /// Edm.Guid.
    Guid([u8; 16]),
    /// Edm.Int32.
    Int32(i32),
    /// Edm.Int64.
    Int64(i64),
    /// Edm.String.
    String(&'a str),
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> ValueRef<'a> {
        match value {
            Value::Binary(bytes) => ValueRef::Binary(bytes),
            Value::Boolean(flag) => ValueRef::Boolean(*flag),
            Value::DateTime(moment) => ValueRef::DateTime(*moment),
            Value::Double(number) => ValueRef::Double(*number),
            Value::Guid(bytes) => ValueRef::Guid(*bytes),
            Value::Int32(number) => ValueRef::Int32(*number),
            Value::Int64(number) => ValueRef::Int64(*number),
            Value::String(text) => ValueRef::String(text),
        }
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Value {
        match value {
            ValueRef::Binary(bytes) => Value::Binary(bytes.to_vec()),
            ValueRef::Boolean(flag) => Value::Boolean(flag),
            ValueRef::DateTime(moment) => Value::DateTime(moment),
            ValueRef::Double(number) => Value::Double(number),
            ValueRef::Guid(bytes) => Value::Guid(bytes),
            ValueRef::Int32(number) => Value::Int32(number),
            ValueRef::Int64(number) => Value::Int64(number),
            ValueRef::String(text) => Value::String(text.to_owned()),
        }
    }
}

/// A moment in UTC: ticks of 100 ns since 1601-01-01, the first moment that Edm.DateTime can
/// express here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(pub u64);

impl DateTime {
    /// 9999-12-31T23:59:59.9999999Z.
    pub const MAX: DateTime = DateTime(2_650_467_743_999_999_999);
    /// Ticks from 1601-01-01 to 1970-01-01.
    pub const UNIX_EPOCH: DateTime = DateTime(116_444_736_000_000_000);
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
    &str => String,
    String => String,
    bool => Boolean,
    i32 => Int32,
    i64 => Int64,
    f64 => Double,
    Vec<u8> => Binary,
    &[u8] => Binary,
    DateTime => DateTime,
}

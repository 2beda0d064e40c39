//! Typed values of properties.

/// A property's value.
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

//! Entities as bytes: the custom properties of one row, in their order. The keys and the commit
//! timestamp are the row's own. docs/format.md, "Entities", draws the bytes.
//!
//! A directory of types and lengths comes first, so that a filter or a projection reads the
//! directory and the properties it names, and nothing else.
//!
//! Promise: no bytes panic; bytes that are no entity are [`Kind::Corrupt`].

use crate::codec::{Reader, put_varint};
use crate::error::{Error, Kind, Result};
use crate::table::value::{DateTime, Value, ValueRef};

/// The form of the bytes below.
const VERSION: u8 = 1;

/// Bounds of what is read. Wider than the rules of today, so that they may be widened without a
/// new version.
const PROPERTIES_MAX: usize = 1 << 16;
const NAME_BYTES_MAX: usize = 1 << 16;
const VALUE_BYTES_MAX: usize = crate::limits::VALUE_BYTES_MAX;

const BINARY: u8 = 1;
const BOOLEAN: u8 = 2;
const DATE_TIME: u8 = 3;
const DOUBLE: u8 = 4;
const GUID: u8 = 5;
const INT32: u8 = 6;
const INT64: u8 = 7;
const STRING: u8 = 8;

/// The bytes of `properties`.
pub(crate) fn encode(properties: &[(String, Value)]) -> Vec<u8> {
    let (mut directory, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value) in properties {
        names.extend_from_slice(name.as_bytes());
        put_property(&mut directory, &mut values, name.len(), value);
    }
    let mut out = Vec::with_capacity(16 + directory.len() + names.len() + values.len());
    out.push(VERSION);
    put_varint(&mut out, properties.len() as u64);
    put_varint(&mut out, directory.len() as u64);
    put_varint(&mut out, names.len() as u64);
    out.extend_from_slice(&directory);
    out.extend_from_slice(&names);
    out.extend_from_slice(&values);
    out
}

fn put_property(directory: &mut Vec<u8>, values: &mut Vec<u8>, name_len: usize, value: &Value) {
    let mut fixed = |kind: u8, bytes: &[u8]| {
        directory.push(kind);
        put_varint(directory, name_len as u64);
        values.extend_from_slice(bytes);
    };
    match value {
        Value::Boolean(flag) => fixed(BOOLEAN, &[u8::from(*flag)]),
        Value::DateTime(moment) => fixed(DATE_TIME, &moment.0.to_le_bytes()),
        Value::Double(number) => fixed(DOUBLE, &number.to_le_bytes()),
        Value::Guid(bytes) => fixed(GUID, bytes),
        Value::Int32(number) => fixed(INT32, &number.to_le_bytes()),
        Value::Int64(number) => fixed(INT64, &number.to_le_bytes()),
        Value::Binary(bytes) => {
            fixed(BINARY, bytes);
            put_varint(directory, bytes.len() as u64);
        }
        Value::String(text) => {
            fixed(STRING, text.as_bytes());
            put_varint(directory, text.len() as u64);
        }
    }
}

/// The length of a value of that type, where all are equally long.
fn fixed_len(kind: u8) -> Option<usize> {
    match kind {
        BOOLEAN => Some(1),
        INT32 => Some(4),
        DATE_TIME | DOUBLE | INT64 => Some(8),
        GUID => Some(16),
        _ => None,
    }
}

/// An encoded entity, its directory not yet read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntityBytes<'a> {
    count: usize,
    directory: &'a [u8],
    names: &'a [u8],
    values: &'a [u8],
}

impl<'a> EntityBytes<'a> {
    /// Whether `bytes` may be an entity's, by the first of them.
    pub(crate) fn begins(bytes: &[u8]) -> bool {
        bytes.first() == Some(&VERSION)
    }

    /// Finds the four parts of `bytes`.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<EntityBytes<'a>> {
        let mut reader = Reader::new(bytes);
        match reader.u8() {
            Some(VERSION) => {}
            Some(other) => return Err(corrupt(format!("unknown version {other}"))),
            None => return Err(corrupt("no bytes")),
        }
        let parts = |reader: &mut Reader<'a>| {
            let count = reader.varint_max(PROPERTIES_MAX)?;
            let directory_len = reader.varint_max(bytes.len())?;
            let names_len = reader.varint_max(bytes.len())?;
            let directory = reader.take(directory_len)?;
            let names = reader.take(names_len)?;
            Some(EntityBytes { count, directory, names, values: reader.rest() })
        };
        parts(&mut reader).ok_or_else(|| corrupt("its parts are longer than it is"))
    }

    /// How many they are.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.directory.len() + self.names.len() + self.values.len()
    }

    /// The property of that name, if the entity has it. Cost: a walk over the directory.
    pub(crate) fn property(&self, name: &str) -> Result<Option<ValueRef<'a>>> {
        let mut directory = Reader::new(self.directory);
        let (mut name_at, mut value_at) = (0, 0);
        for _ in 0..self.count {
            let entry = Entry::read(&mut directory).ok_or_else(disagrees)?;
            let (name_end, value_end) = (name_at + entry.name_len, value_at + entry.value_len);
            if entry.name_len == name.len() {
                let found = self.names.get(name_at..name_end).ok_or_else(disagrees)?;
                if found == name.as_bytes() {
                    let value = self.values.get(value_at..value_end).ok_or_else(disagrees)?;
                    return Property { kind: entry.kind, name: found, value }.value().map(Some);
                }
            }
            (name_at, value_at) = (name_end, value_end);
        }
        let used_up = name_at == self.names.len() && value_at == self.values.len();
        if used_up && directory.is_empty() { Ok(None) } else { Err(disagrees()) }
    }

    /// All properties in order, their names and values not yet checked.
    pub(crate) fn properties(&self) -> Properties<'a> {
        Properties {
            left: self.count,
            directory: Reader::new(self.directory),
            names: Reader::new(self.names),
            values: Reader::new(self.values),
        }
    }

    /// The properties whose name `wanted` accepts, in order.
    pub(crate) fn decode(&self, wanted: impl Fn(&[u8]) -> bool) -> Result<Vec<(String, Value)>> {
        let mut out = Vec::with_capacity(self.count.min(self.directory.len()));
        for property in self.properties() {
            let property = property?;
            if wanted(property.name) {
                out.push((property.name()?.to_owned(), property.value()?.into()));
            }
        }
        Ok(out)
    }
}

/// One property of an encoded entity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Property<'a> {
    kind: u8,
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Property<'a> {
    pub(crate) fn name(&self) -> Result<&'a str> {
        std::str::from_utf8(self.name).map_err(|_| corrupt("a name is not UTF-8"))
    }

    pub(crate) fn name_bytes(&self) -> &'a [u8] {
        self.name
    }

    pub(crate) fn value(&self) -> Result<ValueRef<'a>> {
        read_value(self.kind, self.value).ok_or_else(|| corrupt("a value is not of its type"))
    }
}

fn read_value(kind: u8, bytes: &[u8]) -> Option<ValueRef<'_>> {
    let number = || bytes.try_into().ok().map(u64::from_le_bytes);
    match kind {
        BINARY => Some(ValueRef::Binary(bytes)),
        BOOLEAN => match bytes {
            [0] => Some(ValueRef::Boolean(false)),
            [1] => Some(ValueRef::Boolean(true)),
            _ => None,
        },
        DATE_TIME => number().map(DateTime).filter(|m| *m <= DateTime::MAX).map(ValueRef::DateTime),
        DOUBLE => number().map(f64::from_bits).map(ValueRef::Double),
        GUID => bytes.try_into().ok().map(ValueRef::Guid),
        INT32 => bytes.try_into().ok().map(i32::from_le_bytes).map(ValueRef::Int32),
        INT64 => number().map(u64::cast_signed).map(ValueRef::Int64),
        STRING => std::str::from_utf8(bytes).ok().map(ValueRef::String),
        _ => None,
    }
}

/// What the directory says of one property.
struct Entry {
    kind: u8,
    name_len: usize,
    value_len: usize,
}

impl Entry {
    fn read(directory: &mut Reader<'_>) -> Option<Entry> {
        let kind = directory.u8()?;
        let name_len = directory.varint_max(NAME_BYTES_MAX)?;
        let value_len = match (fixed_len(kind), kind) {
            (Some(len), _) => len,
            (None, BINARY | STRING) => directory.varint_max(VALUE_BYTES_MAX)?,
            (None, _) => return None,
        };
        Some(Entry { kind, name_len, value_len })
    }
}

/// The properties of an encoded entity. Ends after the first error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Properties<'a> {
    left: usize,
    directory: Reader<'a>,
    names: Reader<'a>,
    values: Reader<'a>,
}

impl<'a> Properties<'a> {
    fn empty() -> Properties<'a> {
        let none = Reader::new(&[]);
        Properties { left: 0, directory: none, names: none, values: none }
    }

    fn read(&mut self) -> Option<Property<'a>> {
        let entry = Entry::read(&mut self.directory)?;
        let name = self.names.take(entry.name_len)?;
        let value = self.values.take(entry.value_len)?;
        Some(Property { kind: entry.kind, name, value })
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = Result<Property<'a>>;

    fn next(&mut self) -> Option<Result<Property<'a>>> {
        if self.left == 0 {
            let used_up =
                self.directory.is_empty() && self.names.is_empty() && self.values.is_empty();
            if used_up {
                return None;
            }
            *self = Properties::empty();
            return Some(Err(corrupt("bytes after its last property")));
        }
        self.left -= 1;
        let property = self.read();
        if property.is_none() {
            *self = Properties::empty();
        }
        Some(property.ok_or_else(disagrees))
    }
}

/// The error with the row whose bytes are damaged; other errors stay as they are.
pub(crate) fn in_row(error: Error, partition_key: &str, row_key: &str) -> Error {
    if error.kind() != Kind::Corrupt || error.place().is_some() {
        return error;
    }
    let message = error.message();
    Error::new(Kind::Corrupt, format!("{message}, in row '{partition_key}' '{row_key}'"))
}

fn disagrees() -> Error {
    corrupt("its directory disagrees with its parts")
}

fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Corrupt, format!("an entity's bytes are damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all_kinds() -> Vec<(String, Value)> {
        [
            ("Bin", Value::Binary(vec![1, 2, 3])),
            ("Flag", Value::Boolean(true)),
            ("When", Value::DateTime(DateTime::UNIX_EPOCH)),
            ("D", Value::Double(-1.5)),
            ("G", Value::Guid(*b"0123456789abcdef")),
            ("I", Value::Int32(-7)),
            ("L", Value::Int64(i64::MIN)),
            ("名", Value::String("text".to_owned())),
            ("Empty", Value::String(String::new())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Vec<(String, Value)>> {
        EntityBytes::open(bytes)?.decode(|_| true)
    }

    #[test]
    fn every_type_comes_back_in_its_place() {
        let properties = all_kinds();
        assert_eq!(decode(&encode(&properties)).expect("decodes"), properties);
        assert_eq!(decode(&encode(&[])).expect("decodes"), []);
    }

    #[test]
    fn bytes_are_as_docs_format_draws_them() {
        let properties = [
            ("B".to_owned(), Value::Boolean(true)),
            ("Name".to_owned(), Value::String("hi".to_owned())),
        ];
        let expected = b"\x01\x02\x05\x05\x02\x01\x08\x04\x02BName\x01hi";
        assert_eq!(encode(&properties), expected);
    }

    #[test]
    fn one_property_is_found_without_the_others() {
        let bytes = encode(&all_kinds());
        let entity = EntityBytes::open(&bytes).expect("opens");
        assert_eq!(entity.property("I").expect("whole"), Some(ValueRef::Int32(-7)));
        assert_eq!(entity.property("i").expect("whole"), None);
        let two = entity.decode(|name| name == b"G" || name == b"D").expect("whole");
        let names: Vec<&str> = two.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["D", "G"], "stored order");
    }

    #[test]
    fn damage_is_told_and_never_panics() {
        let bytes = encode(&all_kinds());
        for cut in 0..bytes.len() {
            let error = decode(&bytes[..cut]).expect_err("cut short");
            assert_eq!(error.kind(), Kind::Corrupt, "cut at {cut}");
        }
        let longer = [bytes.as_slice(), b"x"].concat();
        assert_eq!(decode(&longer).expect_err("too long").kind(), Kind::Corrupt);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                if let Err(error) = decode(&flipped) {
                    assert_eq!(error.kind(), Kind::Corrupt);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
            if let Some(version) = bytes.first_mut() {
                *version = VERSION;
            }
            let _ = decode(&bytes);
            if let Ok(entity) = EntityBytes::open(&bytes) {
                let _ = entity.property("a");
            }
        }
    }
}

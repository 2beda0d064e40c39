//! What the service allows in an entity: lengths, characters, sizes, and the checks of them.
//!
//! A *unit* is a UTF-16 code unit.

use crate::limits::{COMMIT_BYTES_MAX, KEY_PART_BYTES_MAX};
use crate::table::entity::Entity;
use crate::table::error::{Key, TableError, TableResult};
use crate::table::value::{DateTime, Value};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Most units of a key.
pub const KEY_UNITS_MAX: usize = 1024;
/// Most custom properties of an entity.
pub const PROPERTIES_MAX: usize = 252;
/// Most units of a property's name.
pub const NAME_UNITS_MAX: usize = 255;
/// Most units of a string property: 64 KiB in UTF-16.
pub const STRING_UNITS_MAX: usize = 32 << 10;
/// Most bytes of a binary property.
pub const BINARY_BYTES_MAX: usize = 64 << 10;
/// Most bytes of an entity, as [`entity_bytes`] counts them.
pub const ENTITY_BYTES_MAX: usize = 1 << 20;
/// Most operations of a group.
pub const GROUP_OPERATIONS_MAX: usize = 100;
/// Most bytes of a group, as [`payload_bytes`] counts them.
pub const GROUP_BYTES_MAX: usize = 4 << 20;
/// Most bytes of the entities that a group leaves behind, as they are stored: a merge of a few
/// bytes writes a whole entity. A hundred of the largest fit as long as their texts take no more
/// than two bytes a unit.
pub const GROUP_STORED_BYTES_MAX: usize = COMMIT_BYTES_MAX - (2 << 20);

/// Most bytes of one unit as a key is stored: a surrogate takes three, a pair of them six.
const UNIT_BYTES_MAX: usize = 3;
const _: () = assert!(KEY_UNITS_MAX * UNIT_BYTES_MAX < KEY_PART_BYTES_MAX);

/// The service's formula: what an entity counts against [`ENTITY_BYTES_MAX`]. The Timestamp is in
/// the constant.
pub fn entity_bytes(entity: &Entity) -> usize {
    let keys = units(&entity.partition_key) + units(&entity.row_key);
    let properties = entity.properties.iter();
    4 + 2 * keys + properties.map(|(n, v)| 8 + 2 * units(n) + value_bytes(v)).sum::<usize>()
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => 2 * units(text) + 4,
        Value::Binary(bytes) => bytes.len() + 4,
        Value::Guid(_) => 16,
        Value::DateTime(_) | Value::Double(_) | Value::Int64(_) => 8,
        Value::Int32(_) => 4,
        Value::Boolean(_) => 1,
    }
}

/// What an entity counts against [`GROUP_BYTES_MAX`]: never more than the JSON text that it came
/// in, so that a request within the service's bound is within ours.
pub fn payload_bytes(entity: &Entity) -> usize {
    let value = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        // At least a digit, two quotes, a colon and a comma in JSON.
        _ => 4,
    };
    let properties = entity.properties.iter();
    let keys = entity.partition_key.len() + entity.row_key.len();
    keys + properties.map(|(name, v)| name.len() + value(v)).sum::<usize>()
}

/// Checks keys, names and values one by one, and how many there are and how large they are.
pub fn check_entity(entity: &Entity) -> TableResult<()> {
    check_keys(&entity.partition_key, &entity.row_key)?;
    check_properties(&entity.properties)?;
    check_size(entity)
}

/// Checks both keys of an entity.
pub fn check_keys(partition_key: &str, row_key: &str) -> TableResult<()> {
    check_key(Key::Partition, partition_key)?;
    check_key(Key::Row, row_key)
}

/// Checks a key: its characters, then its length. The empty text is a key.
pub fn check_key(key: Key, text: &str) -> TableResult<()> {
    if text.chars().any(is_barred_from_keys) {
        return Err(TableError::KeyInvalid { key, value: text.to_owned() });
    }
    if units(text) > KEY_UNITS_MAX {
        return Err(TableError::KeyTooLong { key });
    }
    Ok(())
}

/// Whether a key must not hold `c`: the separators of URLs and the control characters.
pub fn is_barred_from_keys(c: char) -> bool {
    matches!(c, '/' | '\\' | '#' | '?' | '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

/// Checks what a merge leaves behind: how many properties, and how large together.
pub(crate) fn check_size(entity: &Entity) -> TableResult<()> {
    let count = entity.properties.len();
    if count > PROPERTIES_MAX {
        return Err(TableError::TooManyProperties { count });
    }
    let bytes = entity_bytes(entity);
    if bytes > ENTITY_BYTES_MAX {
        return Err(TableError::EntityTooLarge { bytes });
    }
    Ok(())
}

/// Checks every name and value, and that no name comes twice.
fn check_properties(properties: &[(String, Value)]) -> TableResult<()> {
    if properties.len() > PROPERTIES_MAX {
        return Err(TableError::TooManyProperties { count: properties.len() });
    }
    for (name, value) in properties {
        check_property_name(name)?;
        check_value(name, value)?;
    }
    let mut names: Vec<&str> = properties.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(TableError::PropertyTwice { name: pair[0].to_owned() }),
        None => Ok(()),
    }
}

/// Checks the name of a custom property: an identifier that is not a system property.
pub fn check_property_name(name: &str) -> TableResult<()> {
    if units(name) > NAME_UNITS_MAX {
        return Err(TableError::PropertyNameTooLong { name: name.to_owned() });
    }
    let system = matches!(name, "PartitionKey" | "RowKey" | "Timestamp");
    if system || !is_identifier(name) {
        return Err(TableError::PropertyNameInvalid { name: name.to_owned() });
    }
    Ok(())
}

/// Whether `text` is an identifier as C# has them: a letter or `_`, then letters, digits,
/// connecting, combining and format characters.
pub fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(starts) && chars.all(|c| starts(c) || continues(c))
}

fn starts(c: char) -> bool {
    use GeneralCategory::{
        LetterNumber, LowercaseLetter, ModifierLetter, OtherLetter, TitlecaseLetter,
        UppercaseLetter,
    };
    if c.is_ascii() {
        return c == '_' || c.is_ascii_alphabetic();
    }
    matches!(
        c.general_category(),
        LetterNumber
            | LowercaseLetter
            | ModifierLetter
            | OtherLetter
            | TitlecaseLetter
            | UppercaseLetter
    )
}

fn continues(c: char) -> bool {
    use GeneralCategory::{
        ConnectorPunctuation, DecimalNumber, Format, NonspacingMark, SpacingMark,
    };
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    matches!(
        c.general_category(),
        ConnectorPunctuation | DecimalNumber | Format | NonspacingMark | SpacingMark
    )
}

fn check_value(property: &str, value: &Value) -> TableResult<()> {
    let property = || property.to_owned();
    match value {
        // A byte of UTF-8 is a unit at most, so most strings need no count.
        Value::String(text) if text.len() > STRING_UNITS_MAX && units(text) > STRING_UNITS_MAX => {
            Err(TableError::PropertyValueTooLarge { property: property() })
        }
        Value::Binary(bytes) if bytes.len() > BINARY_BYTES_MAX => {
            Err(TableError::PropertyValueTooLarge { property: property() })
        }
        Value::DateTime(moment) if *moment > DateTime::MAX => {
            Err(TableError::PropertyOutOfRange { property: property() })
        }
        _ => Ok(()),
    }
}

/// How many UTF-16 units `text` takes.
pub fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(properties: Vec<(String, Value)>) -> Entity {
        Entity { properties, ..Entity::new("p", "r") }
    }

    fn one(name: &str, value: Value) -> TableResult<()> {
        check_entity(&entity(vec![(name.to_owned(), value)]))
    }

    #[test]
    fn names() {
        let long = "n".repeat(255);
        for good in [
            "a",
            "_x",
            "A1",
            "é",
            "名",
            "a_b",
            "ETag",
            "a\u{301}",
            &long,
            "ǅ",
            "ʰ",
            "Ⅷ",
            "x٣",
            // Marks that are no letters: Bengali, Devanagari, Thai, Hebrew.
            "বিশ্ব",
            "विश्व",
            "น้ำ",
            "שָׁלוֹם",
            "a\u{200d}b",
            "a\u{203f}b",
            "𝒜",
            "Ω",
        ] {
            assert!(one(good, Value::Int32(1)).is_ok(), "{good}");
        }
        for bad in [
            "",
            "123",
            "a-b",
            "a.b",
            "$a",
            "a b",
            "RowKey",
            "Timestamp",
            "\u{301}a",
            "٣x",
            "²",
            "a²",
            "½",
            "Ⓐ",
            "😀",
            "a😀",
            "\u{200d}a",
            "\u{a0}",
            "a\u{2028}",
            "€",
            "a’s",
            "«a»",
            "\u{e000}",
        ] {
            let error = one(bad, Value::Int32(1)).expect_err(bad);
            assert!(matches!(error, TableError::PropertyNameInvalid { name } if name == bad));
        }
        let error = one(&"n".repeat(256), Value::Int32(1)).expect_err("256 units");
        assert!(matches!(error, TableError::PropertyNameTooLong { .. }));
    }

    #[test]
    fn values_at_and_over_their_bounds() {
        let too_large = |value: Value| {
            let refused = one("big", value);
            matches!(refused, Err(TableError::PropertyValueTooLarge { property }) if property == "big")
        };
        assert!(!too_large(Value::String("x".repeat(STRING_UNITS_MAX))));
        assert!(too_large(Value::String("x".repeat(STRING_UNITS_MAX + 1))));
        assert!(!too_large(Value::String("\u{1f600}".repeat(STRING_UNITS_MAX / 2))));
        assert!(too_large(Value::String("\u{1f600}".repeat(STRING_UNITS_MAX / 2 + 1))));
        assert!(!too_large(Value::Binary(vec![0; BINARY_BYTES_MAX])));
        assert!(too_large(Value::Binary(vec![0; BINARY_BYTES_MAX + 1])));
        let late = Value::DateTime(DateTime(DateTime::MAX.0 + 1));
        assert!(matches!(one("t", late), Err(TableError::PropertyOutOfRange { .. })));
    }

    #[test]
    fn counts_and_duplicates() {
        let many = |n: usize| (0..n).map(|i| (format!("p{i}"), Value::Boolean(true))).collect();
        assert!(check_entity(&entity(many(252))).is_ok());
        assert!(matches!(
            check_entity(&entity(many(253))),
            Err(TableError::TooManyProperties { count: 253 })
        ));
        let twice = vec![("a".to_owned(), Value::Int32(1)), ("a".to_owned(), Value::Int32(2))];
        assert!(matches!(
            check_entity(&entity(twice)),
            Err(TableError::PropertyTwice { name }) if name == "a"
        ));
        let cases = vec![("a".to_owned(), Value::Int32(1)), ("A".to_owned(), Value::Int32(2))];
        assert!(check_entity(&entity(cases)).is_ok(), "names differ in case");
    }

    #[test]
    fn an_entity_of_one_mebibyte_is_the_largest() {
        // 4 + 2 * (1 + 1) for the keys, 8 + 2 * 3 + 4 for each binary's frame.
        let binaries = |last: usize| {
            let mut all: Vec<_> =
                (0..15).map(|i| (format!("b{i:02}"), Value::Binary(vec![0; 65_536]))).collect();
            all.push(("b15".to_owned(), Value::Binary(vec![0; last])));
            entity(all)
        };
        let frame = 8 + 16 * 18;
        let fits = binaries((1 << 20) - frame - 15 * 65_536);
        assert_eq!(entity_bytes(&fits), ENTITY_BYTES_MAX);
        assert!(check_entity(&fits).is_ok());
        let over = binaries((1 << 20) - frame - 15 * 65_536 + 1);
        assert!(matches!(
            check_entity(&over),
            Err(TableError::EntityTooLarge { bytes: 1_048_577 })
        ));
    }

    #[test]
    fn keys() {
        assert!(check_key(Key::Row, "").is_ok());
        assert!(check_key(Key::Row, "it's 100% + a,b(c)=:@&ô\u{1f600}").is_ok());
        assert!(check_key(Key::Row, &"k".repeat(1024)).is_ok());
        assert!(check_key(Key::Row, &"\u{1f600}".repeat(512)).is_ok());
        for long in [&"k".repeat(1025), &"\u{1f600}".repeat(513)] {
            let error = check_key(Key::Partition, long).expect_err("1,025 units");
            assert!(matches!(error, TableError::KeyTooLong { key: Key::Partition }));
        }
        for barred in ["/", "\\", "#", "?", "\t", "\u{7f}", "\u{85}", "\u{9f}"] {
            let error = check_key(Key::Row, barred).expect_err("barred");
            assert!(
                matches!(error, TableError::KeyInvalid { key: Key::Row, value } if value == barred)
            );
        }
        assert!(check_key(Key::Row, "\u{a0}").is_ok());
    }
}

//! The eight types of properties by name, and values as text: in CSV cells, `--types` and flags.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::fmt;
use tabulith::table::time;
use tabulith::table::value::Value;

/// A property's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EdmType {
    /// Edm.Int32
    Int32,
    /// Edm.Int64
    Int64,
    /// Edm.Double
    Double,
    /// Edm.Boolean
    Boolean,
    /// Edm.DateTime
    DateTime,
    /// Edm.Guid
    Guid,
    /// Edm.Binary
    Binary,
    /// Edm.String
    String,
}

impl EdmType {
    /// All, from the narrowest to the one that takes any text.
    pub(crate) const ALL: [EdmType; 8] = [
        EdmType::Int32,
        EdmType::Int64,
        EdmType::Double,
        EdmType::Boolean,
        EdmType::DateTime,
        EdmType::Guid,
        EdmType::Binary,
        EdmType::String,
    ];

    /// Its name, without `Edm.`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            EdmType::Int32 => "Int32",
            EdmType::Int64 => "Int64",
            EdmType::Double => "Double",
            EdmType::Boolean => "Boolean",
            EdmType::DateTime => "DateTime",
            EdmType::Guid => "Guid",
            EdmType::Binary => "Binary",
            EdmType::String => "String",
        }
    }

    /// The type called `name`: `int32`, `Int32` or `Edm.Int32`.
    pub(crate) fn by_name(name: &str) -> Option<EdmType> {
        let bare = name.strip_prefix("Edm.").unwrap_or(name);
        EdmType::ALL.into_iter().find(|edm| edm.name().eq_ignore_ascii_case(bare))
    }

    /// The value that `text` is in this type, if it is one.
    pub(crate) fn parse(self, text: &str) -> Option<Value> {
        Some(match self {
            EdmType::Int32 => Value::Int32(text.parse().ok()?),
            EdmType::Int64 => Value::Int64(text.parse().ok()?),
            EdmType::Double => Value::Double(parse_double(text)?),
            EdmType::Boolean => Value::Boolean(parse_boolean(text)?),
            EdmType::DateTime => Value::DateTime(time::parse(text).ok()?),
            EdmType::Guid => Value::Guid(*uuid_with_hyphens(text)?.as_bytes()),
            EdmType::Binary => Value::Binary(BASE64.decode(text).ok()?),
            EdmType::String => Value::String(text.to_owned()),
        })
    }

    /// Whether `text` says more than the value that it is in this type: digits of a moment behind
    /// those of a tick, or of an integer that do not come back from a double.
    pub(crate) fn rounds(self, text: &str) -> bool {
        match self {
            EdmType::DateTime => is_finer_than_a_tick(text),
            EdmType::Double => {
                let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
                let is_integer = digits.bytes().all(|b| b.is_ascii_digit());
                let Some(number) = parse_double(digits).filter(|_| is_integer) else {
                    return false;
                };
                // The double itself, or the shortest digits for it, as programs write it.
                let held = [format!("{number:.0}"), number.to_string()];
                let digits = digits.trim_start_matches('0');
                !held.iter().any(|held| held.trim_start_matches('0') == digits)
            }
            _ => false,
        }
    }
}

/// The text of a moment without what is behind the digits of a tick.
pub(crate) fn cut_to_ticks(text: &str) -> String {
    let Some((whole, rest)) = text.split_once('.') else { return text.to_owned() };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, zone) = rest.split_at(digits);
    format!("{whole}.{}{zone}", &fraction[..digits.min(7)])
}

/// Whether the text of a moment has digits behind those of a tick of 100 ns, which is all that is
/// kept.
pub(crate) fn is_finer_than_a_tick(text: &str) -> bool {
    let (_, fraction) = text.split_once('.').unwrap_or_default();
    fraction.bytes().take_while(u8::is_ascii_digit).skip(7).any(|b| b != b'0')
}

impl fmt::Display for EdmType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The type of a value.
pub(crate) fn type_of(value: &Value) -> EdmType {
    match value {
        Value::Binary(_) => EdmType::Binary,
        Value::Boolean(_) => EdmType::Boolean,
        Value::DateTime(_) => EdmType::DateTime,
        Value::Double(_) => EdmType::Double,
        Value::Guid(_) => EdmType::Guid,
        Value::Int32(_) => EdmType::Int32,
        Value::Int64(_) => EdmType::Int64,
        Value::String(_) => EdmType::String,
    }
}

/// A value as text that [`EdmType::parse`] reads back.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Binary(bytes) => BASE64.encode(bytes),
        Value::Boolean(yes) => yes.to_string(),
        Value::DateTime(at) => at.to_string(),
        Value::Double(number) => double_text(*number),
        Value::Guid(bytes) => uuid::Uuid::from_bytes(*bytes).to_string(),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::String(text) => text.clone(),
    }
}

/// A double in the shortest text that reads back, always with a point, as text with an exponent
/// alone may be a code; the words are the protocol's.
pub(crate) fn double_text(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        // `{:?}` is the shortest text that reads back, and never an integer's.
        let text = format!("{number:?}");
        match text.split_once('e') {
            Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
            _ => text,
        }
    }
}

/// The protocol's doubles. Rust alone would also take `inf`, `nan` and `1e400`.
fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ if text.bytes().any(|b| b.is_ascii_alphabetic() && !matches!(b, b'e' | b'E')) => None,
        _ => text.parse::<f64>().ok().filter(|number| number.is_finite()),
    }
}

fn parse_boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

fn uuid_with_hyphens(text: &str) -> Option<uuid::Uuid> {
    // Without this, any 32 hex digits would be a Guid: many identifiers are.
    (text.len() == 36).then(|| uuid::Uuid::parse_str(text).ok()).flatten()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[track_caller]
    fn same(edm: EdmType, text: &str) {
        assert_eq!(text_of(&edm.parse(text).unwrap()), text, "{edm}");
    }

    #[test]
    fn text_and_values_agree_both_ways() {
        same(EdmType::Int32, "-2147483648");
        same(EdmType::Int64, "9223372036854775807");
        same(EdmType::Double, "10.357019999999999");
        same(EdmType::Double, "1.0e20");
        same(EdmType::Double, "-5.0e-324");
        same(EdmType::Double, "NaN");
        same(EdmType::Double, "-Infinity");
        same(EdmType::Boolean, "true");
        same(EdmType::DateTime, "2013-01-01T10:00:00Z");
        same(EdmType::DateTime, "2013-01-01T10:00:00.1234567Z");
        same(EdmType::Guid, "0d391d16-97f1-4b9a-be68-4cc871f90001");
        same(EdmType::Binary, "AQIDBAU=");
        same(EdmType::String, " blank ");
        assert_eq!(text_of(&EdmType::Double.parse("1").unwrap()), "1.0");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (edm, text) in [
            (EdmType::Int32, "2147483648"),
            (EdmType::Int32, "1.0"),
            (EdmType::Int32, ""),
            (EdmType::Int64, "9223372036854775808"),
            (EdmType::Double, "inf"),
            (EdmType::Double, "1e400"),
            (EdmType::Boolean, "1"),
            (EdmType::DateTime, "yesterday"),
            (EdmType::Guid, "0d391d1697f14b9abe684cc871f90001"),
            (EdmType::Binary, "%"),
        ] {
            assert_eq!(edm.parse(text), None, "{edm} {text}");
        }
    }

    #[test]
    fn what_says_more_than_its_value_is_known() {
        for (edm, exact, rounded) in [
            (EdmType::DateTime, "2013-01-01T10:00:00.1234567000Z", "2013-01-01T10:00:00.00000001Z"),
            (EdmType::DateTime, "2013-01-01T10:00:00+02:00", "2013-01-01T10:00:00.123456789+02:00"),
            (EdmType::Double, "-9007199254740992", "-9007199254740993"),
            (EdmType::Double, "100000000000000000000", "99999999999999999999"),
            // As JavaScript writes 2^60, whose digits are ...846976.
            (EdmType::Double, "1152921504606847000", "1152921504606847001"),
            (EdmType::Double, "0", "018014398509481985"),
            (EdmType::Double, "+007", "+36028797018963969"),
        ] {
            assert!(!edm.rounds(exact) && edm.parse(exact).is_some(), "{edm} {exact}");
            assert!(edm.rounds(rounded) && edm.parse(rounded).is_some(), "{edm} {rounded}");
        }
        for text in ["1.00000000000000000001", "1e-400", "NaN", "x", ""] {
            assert!(!EdmType::Double.rounds(text), "{text}: a decimal is the nearest");
        }
        assert!(!EdmType::String.rounds("9007199254740993"));
    }

    #[test]
    fn types_are_found_by_their_names() {
        for name in ["int32", "Int32", "Edm.Int32", "INT32"] {
            assert_eq!(EdmType::by_name(name), Some(EdmType::Int32));
        }
        assert_eq!(EdmType::by_name("int"), None);
    }
}

//! Texts of typed values as they stand in filters and in JSON strings: GUIDs, hex, numbers; and
//! percent-encoding.
//!
//! Promise: every function takes any text and never panics.

/// Reads `8-4-4-4-12` hex digits.
pub fn guid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    let dashes = [8, 13, 18, 23];
    if bytes.len() != 36 || dashes.iter().any(|&at| bytes[at] != b'-') {
        return None;
    }
    let digits: String = text.split('-').collect();
    if digits.len() != 32 {
        return None;
    }
    hex(&digits)?.try_into().ok()
}

/// Reads a GUID also without its dashes, or with them in braces or parentheses.
pub fn guid_of_any_form(text: &str) -> Option<[u8; 16]> {
    let braced = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let enclosed = || text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    match braced.or_else(enclosed) {
        None if text.len() == 32 => hex(text)?.try_into().ok(),
        dashed => guid(dashed.unwrap_or(text)),
    }
}

fn hex_digit(value: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(value & 15)])
}

/// Writes `8-4-4-4-12` lower-case hex digits.
pub fn guid_text(guid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in guid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(hex_digit(byte >> 4).to_ascii_lowercase());
        text.push(hex_digit(byte & 15).to_ascii_lowercase());
    }
    text
}

/// Reads pairs of hex digits.
pub fn hex(text: &str) -> Option<Vec<u8>> {
    let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(nibble(pair[0])? << 4 | nibble(*pair.get(1)?)?)).collect()
}

/// Reads a decimal number of a filter or of JSON as a double; nothing where it overflows.
pub fn double(text: &str) -> Option<f64> {
    let is_number =
        text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let number = text.parse::<f64>().ok().filter(|number| is_number && number.is_finite())?;
    // The service does not keep the sign of zero.
    Some(if number == 0.0 { 0.0 } else { number })
}

/// Decodes `%XX` once; nothing where that leaves broken escapes or broken UTF-8.
pub fn percent_decoded(text: &str, plus: Plus) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'%' => {
                let (pair, behind) = rest.split_at_checked(2)?;
                rest = behind;
                bytes.extend(hex(std::str::from_utf8(pair).ok()?)?);
            }
            b'+' if plus == Plus::IsBlank => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// What `+` means in an encoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plus {
    /// A blank, as in query strings.
    IsBlank,
    /// Itself, as in paths.
    IsPlus,
}

/// Encodes all but unreserved characters (RFC 3986) and those of `also_plain`.
pub fn percent_encoded(text: &str, also_plain: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + text.len() / 8);
    for byte in text.bytes() {
        let unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        if unreserved || also_plain.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(hex_digit(byte >> 4));
            encoded.push(hex_digit(byte & 15));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_round_trip_in_lower_case() {
        let text = "0D391D16-97f1-4b9a-be68-4cc871f90001";
        assert_eq!(guid_text(&guid(text).expect("a guid")), text.to_ascii_lowercase());
        for text in [
            "",
            "0d391d16",
            "0d391d16-97f1-4b9a-be68-4cc871f9000g",
            "0d391d1697f14b9abe684cc871f900010000",
        ] {
            assert_eq!(guid(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_stay_finite() {
        assert_eq!(double("1e3"), Some(1000.0));
        assert_eq!(double("-0.0").map(f64::to_bits), Some(0));
        for text in ["1e400", "inf", "NaN", "infinity", "", "1e", "0x1"] {
            assert_eq!(double(text), None, "{text}");
        }
    }

    #[test]
    fn percent_encoding_as_recorded() {
        let key = "partition1-ô- -''-%20-%27-pk";
        let encoded = percent_encoded(key, "'");
        assert_eq!(encoded, "partition1-%C3%B4-%20-''-%2520-%2527-pk");
        assert_eq!(percent_decoded(&encoded, Plus::IsPlus).as_deref(), Some(key));
        assert_eq!(percent_decoded("a+b%2B", Plus::IsBlank).as_deref(), Some("a b+"));
        for text in ["%", "%2", "%zz", "%ff", "%é0"] {
            assert_eq!(percent_decoded(text, Plus::IsPlus), None, "{text}");
        }
    }
}

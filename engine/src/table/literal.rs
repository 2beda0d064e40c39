//! Values as literals of a filter: `'it''s'`, `5L`, `datetime'…'`.

use crate::table::value::Value;
use std::fmt;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Binary(bytes) => {
                f.write_str("X'")?;
                write_hex(f, bytes)?;
                f.write_str("'")
            }
            Value::Boolean(flag) => write!(f, "{flag}"),
            Value::DateTime(moment) => write!(f, "datetime'{moment}'"),
            Value::Double(number) if number.is_nan() => f.write_str("NaN"),
            Value::Double(number) if number.is_infinite() => {
                f.write_str(if *number > 0.0 { "INF" } else { "-INF" })
            }
            // The debug form always has a point or an exponent, and reads back as the same number.
            Value::Double(number) => write!(f, "{number:?}"),
            Value::Guid(bytes) => write!(f, "guid'{}'", GuidText(bytes)),
            Value::Int32(number) => write!(f, "{number}"),
            Value::Int64(number) => write!(f, "{number}L"),
            Value::String(text) => write!(f, "'{}'", text.replace('\'', "''")),
        }
    }
}

/// A Guid in its text form, `8-4-4-4-12` hexadecimal digits in lower case.
pub struct GuidText<'a>(pub &'a [u8; 16]);

impl fmt::Display for GuidText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in [&self.0[..4], &self.0[4..6], &self.0[6..8], &self.0[8..10], &self.0[10..]]
            .into_iter()
            .enumerate()
        {
            if i > 0 {
                f.write_str("-")?;
            }
            write_hex(f, part)?;
        }
        Ok(())
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_form() {
        for (value, text) in [
            (Value::Binary(vec![0xde, 0x0a]), "X'de0a'"),
            (Value::Boolean(false), "false"),
            (Value::Double(1.0), "1.0"),
            (Value::Double(1e300), "1e300"),
            (Value::Double(f64::NEG_INFINITY), "-INF"),
            (Value::Int32(-3), "-3"),
            (Value::Int64(3), "3L"),
            (Value::String("it's".to_owned()), "'it''s'"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }
}

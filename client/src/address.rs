//! Texts inside addresses: percent-encoding and the paths of resources.

use std::fmt::Write;

/// `text` with everything but letters, digits, `-`, `.`, `_` and `~` percent-encoded.
pub(crate) fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            // Writing into a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// The bytes that percent-encoded text stands for; what is no escape stays as it is.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        let escape = text_of_escape(bytes);
        out.push(escape.unwrap_or(*first));
        bytes = if escape.is_some() { rest.get(2..).unwrap_or_default() } else { rest };
    }
    String::from_utf8(out).ok()
}

fn text_of_escape(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// `text` as a quoted literal, with its quotes doubled.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The path of one table below the account: `/Tables('name')`.
pub(crate) fn table_path(table: &str) -> String {
    format!("/Tables('{}')", percent(&table.replace('\'', "''")))
}

/// The path of one row below the account: `/T(PartitionKey='…',RowKey='…')`.
pub(crate) fn row_path(table: &str, partition_key: &str, row_key: &str) -> String {
    let key = |key: &str| percent(&key.replace('\'', "''"));
    format!("/{}(PartitionKey='{}',RowKey='{}')", percent(table), key(partition_key), key(row_key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_in_an_address() {
        assert_eq!(
            row_path("T", "a b/é", "it's"),
            "/T(PartitionKey='a%20b%2F%C3%A9',RowKey='it%27%27s')"
        );
    }

    #[test]
    fn escapes_are_read_and_the_rest_stays() {
        assert_eq!(percent_decoded("a%20b%C3%A9%2").as_deref(), Some("a bé%2"));
        assert_eq!(percent_decoded("%FF"), None);
    }
}

//! Signatures of requests with the account's key, and texts inside addresses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write;

/// What the SharedKey scheme signs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signed<'a> {
    /// The verb.
    pub(crate) method: &'a str,
    /// The Content-Type header; empty where there is none.
    pub(crate) content_type: &'a str,
    /// The x-ms-date header.
    pub(crate) date: &'a str,
    /// The path exactly as it stands in the request line.
    pub(crate) path: &'a str,
}

/// The value of the Authorization header.
pub(crate) fn authorization(account: &str, key: &[u8], signed: Signed<'_>) -> String {
    let Signed { method, content_type, date, path } = signed;
    let path = if path.is_empty() { "/" } else { path };
    let text = format!("{method}\n\n{content_type}\n{date}\n/{account}{path}");
    format!("SharedKey {account}:{}", BASE64.encode(hmac_sha256(key, text.as_bytes())))
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length; the error of this constructor is for other MACs.
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(text);
            mac.finalize().into_bytes().to_vec()
        }
        Err(_) => Vec::new(),
    }
}

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

/// The path of one row below the account: `/T(PartitionKey='…',RowKey='…')`.
pub(crate) fn row_path(table: &str, partition_key: &str, row_key: &str) -> String {
    let quoted = |key: &str| percent(&key.replace('\'', "''"));
    format!("/{table}(PartitionKey='{}',RowKey='{}')", quoted(partition_key), quoted(row_key))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tabulith_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

    #[track_caller]
    fn check(method: &str, content_type: &str, path: &str, signature: &str) {
        let key = BASE64.decode(DEVELOPMENT_KEY).unwrap();
        let date = "Mon, 27 Jun 2016 15:25:14 GMT";
        let signed = Signed { method, content_type, date, path };
        assert_eq!(
            authorization(DEVELOPMENT_ACCOUNT, &key, signed),
            format!("SharedKey {DEVELOPMENT_ACCOUNT}:{signature}")
        );
    }

    #[test]
    fn signatures_that_the_service_accepts() {
        check(
            "GET",
            "",
            "/devstoreaccount1/Tables",
            "6x3Y/FLgh8/ozJ8YPcIAguM4et4HbaViJozb+kRb6aI=",
        );
        check(
            "POST",
            "application/json;odata=nometadata",
            "/devstoreaccount1/mytable",
            "Xe9szSfvxAMAhlZsLRn15YqnmZOp4MAn7crqrWOmtZE=",
        );
    }

    #[test]
    fn keys_survive_in_an_address() {
        assert_eq!(
            row_path("T", "a b/é", "it's"),
            "/T(PartitionKey='a%20b%2F%C3%A9',RowKey='it%27%27s')"
        );
    }
}

//! Keys of accounts, and signatures of requests by them: SharedKey and SharedKeyLite.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// An account's key. It does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

/// A text that is no base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the account's key is not base64")]
pub struct NoKey;

impl Key {
    /// The key that a portal or a connection string shows.
    pub fn of_base64(text: &str) -> Result<Key, NoKey> {
        BASE64.decode(text).map(Key).map_err(|_| NoKey)
    }

    /// Its bytes, for those who sign something else with it.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The signature of a text, as base64.
    pub(crate) fn sign(&self, text: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0);
        let mut mac = mac.expect("HMAC takes keys of any length");
        mac.update(text.as_bytes());
        BASE64.encode(mac.finalize().into_bytes())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Which of the two schemes signs requests. Every service takes both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Signs the verb and the type of the body as well.
    #[default]
    SharedKey,
    /// Signs the date and the resource.
    SharedKeyLite,
}

/// What of a request is signed.
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
    /// The query parameter `comp`; empty where there is none.
    pub(crate) comp: &'a str,
}

/// The value of the Authorization header.
pub(crate) fn authorization(
    scheme: Scheme,
    account: &str,
    key: &Key,
    signed: Signed<'_>,
) -> String {
    let Signed { method, content_type, date, path, comp } = signed;
    let path = if path.is_empty() { "/" } else { path };
    let comp = if comp.is_empty() { String::new() } else { format!("?comp={comp}") };
    let resource = format!("/{account}{path}{comp}");
    let (name, text) = match scheme {
        Scheme::SharedKey => {
            ("SharedKey", format!("{method}\n\n{content_type}\n{date}\n{resource}"))
        }
        Scheme::SharedKeyLite => ("SharedKeyLite", format!("{date}\n{resource}")),
    };
    format!("{name} {account}:{}", key.sign(&text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::connection::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

    #[track_caller]
    fn check(scheme: Scheme, method: &str, content_type: &str, target: &str, signature: &str) {
        let key = Key::of_base64(DEVELOPMENT_KEY).unwrap();
        let date = "Mon, 27 Jun 2016 15:25:14 GMT";
        let (path, comp) = target.split_once("?comp=").unwrap_or((target, ""));
        let signed = Signed { method, content_type, date, path, comp };
        let value = authorization(scheme, DEVELOPMENT_ACCOUNT, &key, signed);
        assert_eq!(value.split_once(':').unwrap().1, signature, "{target}");
    }

    #[test]
    fn signatures_that_the_service_accepts() {
        use Scheme::{SharedKey, SharedKeyLite};
        let json = "application/json;odata=nometadata";
        for (scheme, method, body, target, signature) in [
            (
                SharedKey,
                "GET",
                "",
                "/devstoreaccount1/Tables",
                "6x3Y/FLgh8/ozJ8YPcIAguM4et4HbaViJozb+kRb6aI=",
            ),
            (
                SharedKey,
                "POST",
                json,
                "/devstoreaccount1/mytable",
                "Xe9szSfvxAMAhlZsLRn15YqnmZOp4MAn7crqrWOmtZE=",
            ),
            (
                SharedKeyLite,
                "GET",
                "",
                "/devstoreaccount1/Tables",
                "0t5frBDAHUb3TEbAMT7v9wwgj+L4V00scNDQC6plt2w=",
            ),
            (SharedKeyLite, "GET", "", "/Tables", "6Oz5bM6NJZxExBsNlczG12SolU2YG0kBfU4g4vAGpT0="),
            (
                SharedKeyLite,
                "GET",
                "",
                "/devstoreaccount1/mytable?comp=acl",
                "CqkDK3Ohwi2SfoT5HmaOvJjlA+vOqsJERT+E4e5CX70=",
            ),
            (
                SharedKeyLite,
                "GET",
                "",
                "/devstoreaccount1/?comp=properties",
                "SWjZoNlHTGCJNgRuq4bimx7MlCgYItEh9hGfNUAvpQc=",
            ),
            (
                SharedKeyLite,
                "GET",
                "",
                "/devstoreaccount1/mytable(PartitionKey='a%20b',RowKey='it%27%27s')",
                "KoPgMIsDatWNEIYMZdAt6VsXVS2gm/2emzlI6fVy8D4=",
            ),
        ] {
            check(scheme, method, body, target, signature);
        }
    }

    #[test]
    fn a_key_does_not_print_itself() {
        let key = Key::of_base64("aGVsbG8=").unwrap();
        assert_eq!(format!("{key:?}"), "Key(…)");
    }
}

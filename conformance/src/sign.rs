//! Signatures: SharedKey and SharedKeyLite, and the texts that they sign.

use crate::target::Key;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// HMAC-SHA256 of a text, as base64.
pub fn signature(key: &Key, text: &str) -> String {
    // HMAC takes keys of any length; the error of this constructor is for other MACs.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.bytes()) else { return String::new() };
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// What a request says that SharedKey signs.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The verb.
    pub method: &'a str,
    /// The Content-MD5 header.
    pub md5: &'a str,
    /// The Content-Type header.
    pub content_type: &'a str,
    /// The date.
    pub date: &'a str,
    /// The account.
    pub account: &'a str,
    /// The target as it is sent.
    pub target: &'a str,
}

impl Signed<'_> {
    /// What SharedKey signs.
    pub fn shared_key(&self) -> String {
        let Signed { method, md5, content_type, date, .. } = self;
        format!("{method}\n{md5}\n{content_type}\n{date}\n{}", self.resource())
    }

    /// What SharedKeyLite signs.
    pub fn shared_key_lite(&self) -> String {
        format!("{}\n{}", self.date, self.resource())
    }

    fn resource(&self) -> String {
        let (path, query) = self.target.split_once('?').unwrap_or((self.target, ""));
        let path = if path.is_empty() { "/" } else { path };
        let comp = query.split('&').find_map(|part| part.strip_prefix("comp="));
        let comp = comp.map(|comp| format!("?comp={comp}")).unwrap_or_default();
        format!("/{}{path}{comp}", self.account)
    }
}

#[cfg(test)]
mod tests {
    use super::{Signed, signature};
    use crate::target::Key;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    #[test]
    fn signatures_that_the_service_accepts() {
        let key = Key::of_base64(KEY).expect("a key");
        let mut signed = Signed {
            method: "GET",
            md5: "",
            content_type: "",
            date: "Mon, 27 Jun 2016 15:25:14 GMT",
            account: "devstoreaccount1",
            target: "/devstoreaccount1/Tables",
        };
        let full = signature(&key, &signed.shared_key());
        assert_eq!(full, "6x3Y/FLgh8/ozJ8YPcIAguM4et4HbaViJozb+kRb6aI=");
        let lite = signature(&key, &signed.shared_key_lite());
        assert_eq!(lite, "0t5frBDAHUb3TEbAMT7v9wwgj+L4V00scNDQC6plt2w=");
        signed.target = "/devstoreaccount1/mytable?comp=acl";
        let acl = signature(&key, &signed.shared_key_lite());
        assert_eq!(acl, "CqkDK3Ohwi2SfoT5HmaOvJjlA+vOqsJERT+E4e5CX70=");
    }
}

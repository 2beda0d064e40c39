//! SharedKey and SharedKeyLite: the `Authorization` header, and whether a key of the account made
//! its signature.
//!
//! Promise: the comparison takes the same time wherever two signatures differ, and an unknown
//! account takes as long as a known one. What is made of a key on the way is wiped. Signatures and
//! keys show nothing in `Debug`.

use crate::config::{Key, TriedKeys};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::Mac as _;
use std::fmt;
use subtle::{Choice, ConstantTimeEq as _};
use zeroize::{Zeroize as _, Zeroizing};

/// Which string was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// SharedKey: verb, content headers, date and resource.
    Full,
    /// SharedKeyLite: date and resource.
    Lite,
}

/// An `Authorization: SharedKey[Lite] account:signature`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Which string was signed.
    pub scheme: Scheme,
    /// Who claims to have signed it.
    pub account: String,
    signature: Signature,
}

/// An HMAC-SHA256. Compared in constant time, and wiped at its end.
#[derive(Clone)]
pub(crate) struct Signature([u8; 32]);

impl PartialEq for Signature {
    fn eq(&self, other: &Signature) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Signature {}

impl Drop for Signature {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(…)")
    }
}

impl Signature {
    /// Reads 32 bytes in canonical base64.
    pub(crate) fn parse(text: &str) -> Option<Signature> {
        STANDARD.decode(text).ok()?.try_into().ok().map(Signature)
    }

    /// The one of `keys` that made it over one of the strings. What is in each place is tried with
    /// every string, whether it is a key of the account or not.
    pub(crate) fn signer<'k>(&self, keys: TriedKeys<'k>, strings: &[String]) -> Option<&'k Key> {
        let fitting = keys.places().map(|(key, is_own)| {
            let fits = strings.iter().fold(Choice::from(0), |fits, string| {
                fits | sign(key, string).ct_eq(&self.0) // All are computed.
            });
            (key, fits & is_own)
        });
        fitting.into_iter().find(|(_, fits)| bool::from(*fits)).map(|(key, _)| key)
    }
}

impl Credentials {
    /// Reads the header's value; none where it is no such thing. The signature must be 32 bytes in
    /// canonical base64.
    pub fn parse(header: &str) -> Option<Credentials> {
        let (scheme, rest) = header.trim().split_once(' ')?;
        let scheme = match scheme {
            "SharedKey" => Scheme::Full,
            "SharedKeyLite" => Scheme::Lite,
            _ => return None,
        };
        let (account, signature) = rest.trim_start().split_once(':')?;
        let signature = Signature::parse(signature)?;
        let account = account.to_owned();
        (!account.is_empty()).then_some(Credentials { scheme, account, signature })
    }

    /// The one of `keys` that made the signature over one of the strings.
    pub fn signer<'k>(&self, keys: TriedKeys<'k>, strings: &[String]) -> Option<&'k Key> {
        self.signature.signer(keys, strings)
    }
}

/// HMAC-SHA256.
fn sign(key: &Key, string: &str) -> Zeroizing<[u8; 32]> {
    let mut mac = key.mac();
    mac.update(string.as_bytes());
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// The signature as a client would send it. For tests and for our own client.
pub fn signature_text(key: &Key, string: &str) -> String {
    STANDARD.encode(*sign(key, string))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Accounts, DEVELOPMENT_ACCOUNT};
    use std::sync::LazyLock;

    const DATE: &str = "Mon, 27 Jun 2016 15:25:14 GMT";

    /// Signatures made by the SDKs with the development key.
    const VECTORS: [(&str, &str); 7] = [
        (
            "Mon, 27 Jun 2016 15:25:14 GMT\n/devstoreaccount1/devstoreaccount1/Tables",
            "0t5frBDAHUb3TEbAMT7v9wwgj+L4V00scNDQC6plt2w=",
        ),
        (
            "GET\n\n\nMon, 27 Jun 2016 15:25:14 GMT\n/devstoreaccount1/devstoreaccount1/Tables",
            "6x3Y/FLgh8/ozJ8YPcIAguM4et4HbaViJozb+kRb6aI=",
        ),
        (
            "Mon, 27 Jun 2016 15:25:14 GMT\n/devstoreaccount1/Tables",
            "6Oz5bM6NJZxExBsNlczG12SolU2YG0kBfU4g4vAGpT0=",
        ),
        (
            "Mon, 27 Jun 2016 15:25:14 GMT\n/devstoreaccount1/devstoreaccount1/mytable?comp=acl",
            "CqkDK3Ohwi2SfoT5HmaOvJjlA+vOqsJERT+E4e5CX70=",
        ),
        (
            "Mon, 27 Jun 2016 15:25:14 GMT\n/devstoreaccount1/devstoreaccount1/?comp=properties",
            "SWjZoNlHTGCJNgRuq4bimx7MlCgYItEh9hGfNUAvpQc=",
        ),
        (
            "Mon, 27 Jun 2016 15:25:14 GMT\n/devstoreaccount1/devstoreaccount1/mytable(PartitionKey='a%20b',RowKey='it%27%27s')",
            "KoPgMIsDatWNEIYMZdAt6VsXVS2gm/2emzlI6fVy8D4=",
        ),
        (
            "POST\n\napplication/json;odata=nometadata\nMon, 27 Jun 2016 15:25:14 GMT\n/devstoreaccount1/devstoreaccount1/mytable",
            "Xe9szSfvxAMAhlZsLRn15YqnmZOp4MAn7crqrWOmtZE=",
        ),
    ];

    static ACCOUNTS: LazyLock<Accounts> = LazyLock::new(Accounts::development);

    fn keys() -> TriedKeys<'static> {
        ACCOUNTS.keys(DEVELOPMENT_ACCOUNT)
    }

    #[test]
    fn signatures_of_the_sdks() {
        for (string, signature) in VECTORS {
            assert_eq!(signature_text(&keys().own()[0], string), signature, "{string}");
            let header = format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}");
            let credentials = Credentials::parse(&header).expect(&header);
            let wrong = "x".to_owned();
            assert!(credentials.signer(keys(), &[wrong.clone(), string.to_owned()]).is_some());
            assert!(credentials.signer(keys(), &[wrong]).is_none());
            assert!(credentials.signer(ACCOUNTS.keys("another"), &[string.to_owned()]).is_none());
        }
    }

    #[test]
    fn either_key_signs() {
        let accounts = Accounts::parse("abc:YQ==:Yg==").expect("two keys");
        for key in accounts.keys("abc").own() {
            let header = format!("SharedKey abc:{}", signature_text(key, DATE));
            let credentials = Credentials::parse(&header).expect("credentials");
            assert_eq!(credentials.signer(accounts.keys("abc"), &[DATE.to_owned()]), Some(key));
        }
    }

    #[test]
    fn every_bent_byte_fails() {
        let (string, signature) = VECTORS[1];
        let credentials =
            |text: &str| Credentials::parse(&format!("SharedKey {DEVELOPMENT_ACCOUNT}:{text}"));
        let good = credentials(signature).expect("credentials");
        for at in 0..string.len() {
            let mut bent = string.as_bytes().to_vec();
            bent[at] ^= 1;
            let bent = String::from_utf8(bent).expect("ASCII");
            assert_eq!(good.signer(keys(), &[bent]), None, "byte {at}");
        }
        for byte in 0..32 {
            let mut bent = STANDARD.decode(signature).expect("base64");
            bent[byte] ^= 1;
            let bent = credentials(&STANDARD.encode(bent)).expect("credentials");
            assert_eq!(bent.signer(keys(), &[string.to_owned()]), None, "byte {byte}");
        }
    }

    #[test]
    fn headers_that_are_no_credentials() {
        let signature = VECTORS[0].1;
        for header in [
            "",
            "SharedKey",
            "SharedKey ",
            "SharedKey a",
            "SharedKey a:",
            "Bearer x",
            "Basic YTpi",
            &format!("SharedKey :{signature}"),
            &format!("sharedkey a:{signature}"),
            &format!("SharedKeyLite a:{}", signature.trim_end_matches('=')),
            &format!("SharedKeyLite a:{}", signature.replace("w=", "x=")),
            &format!("SharedKeyLite a:{signature}="),
            "SharedKey a:YQ==",
            "SharedKey a:%%",
        ] {
            assert_eq!(Credentials::parse(header), None, "{header}");
        }
        let credentials = Credentials::parse(&format!("SharedKey a:{signature}")).expect("good");
        assert!(!format!("{credentials:?}").contains("210"), "{credentials:?}");
    }
}

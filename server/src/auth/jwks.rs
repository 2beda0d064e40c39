//! Public keys of whoever issues bearer tokens, from a JWKS, and their signatures: RS256 and
//! ES256.
//!
//! Promise: the algorithm is the key's and never only what a token claims; no other algorithm
//! verifies anything.

use crate::limits::{JWKS_KEYS_MAX, TEXT_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;
use std::fmt;

/// Public keys.
#[derive(Clone, Debug, Default)]
pub struct Jwks(Vec<PublicKey>);

#[derive(Clone, Debug)]
struct PublicKey {
    id: Option<String>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// An uncompressed point of P-256.
    P256(Vec<u8>),
}

/// A text that is no JWKS, or one without a key that can be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoKeys;

impl fmt::Display for NoKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a JWKS with an RSA key or a key of P-256 for signatures")
    }
}

impl std::error::Error for NoKeys {}

impl Jwks {
    /// Reads `{"keys":[…]}`. Keys of other kinds, or for something else than signatures, are
    /// passed over.
    pub fn parse(text: &str) -> Result<Jwks, NoKeys> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(NoKeys);
        }
        let document: Value = serde_json::from_str(text).map_err(|_| NoKeys)?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or(NoKeys)?;
        let keys: Vec<PublicKey> = keys.iter().take(JWKS_KEYS_MAX).filter_map(public_key).collect();
        if keys.is_empty() { Err(NoKeys) } else { Ok(Jwks(keys)) }
    }

    /// Whether one of the keys, the one of that id if a token names one, made the signature by
    /// that algorithm.
    pub fn verify(
        &self,
        algorithm: &str,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let candidates = self.0.iter().filter(|key| id.is_none() || key.id.as_deref() == id);
        candidates.into_iter().any(|key| match (&key.kind, algorithm) {
            (Kind::Rsa(n, e), "RS256") => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
            (Kind::P256(point), "ES256") => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(message, signature).is_ok()
            }
            _ => false,
        })
    }
}

fn public_key(key: &Value) -> Option<PublicKey> {
    let text = |name| key.get(name).and_then(Value::as_str);
    let bytes = |name| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    if text("use").is_some_and(|usage| usage != "sig") {
        return None;
    }
    let own_algorithm = |name| text("alg").is_none_or(|own| own == name);
    let kind = match text("kty")? {
        "RSA" if own_algorithm("RS256") => {
            let modulus = bytes("n")?;
            let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
            Kind::Rsa(modulus[zeros..].to_vec(), bytes("e")?)
        }
        "EC" if text("crv") == Some("P-256") && own_algorithm("ES256") => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let whole = x.len() == 32 && y.len() == 32;
            whole.then(|| Kind::P256([&[4][..], &x, &y].concat()))?
        }
        _ => return None,
    };
    Some(PublicKey { id: text("kid").map(str::to_owned), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The public keys of RFC 7515, appendixes A.2 and A.3.
    const KEYS: &str = "{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"\
        ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt\
        0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSX\
        ndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5\
        IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\
        \"},{\"kty\":\"EC\",\"crv\":\"P-256\",\
        \"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\
        \"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";

    const CLAIMS: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19y\
        b290Ijp0cnVlfQ";

    /// An algorithm, another one, and header and signature as the RFC has them: made by others.
    const SIGNED: [(&str, &str, &str, &str); 2] = [
        (
            "RS256",
            "ES256",
            "eyJhbGciOiJSUzI1NiJ9",
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF\
                5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK\
                5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqt\
                FZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrB\
                p0igcN_IoypGlUPQGe77Rw",
        ),
        (
            "ES256",
            "RS256",
            "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
    ];

    #[test]
    fn only_keys_for_signatures_that_we_check_count() {
        const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
        const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";
        let count = |text: &str| Jwks::parse(text).map(|keys| keys.0.len());
        assert_eq!(count(KEYS), Ok(2));
        assert_eq!(count(&KEYS.replace("\"RSA\"", "\"RSA\",\"use\":\"sig\"")), Ok(2));
        for (from, to) in [
            ("\"RSA\"", "\"RSA\",\"use\":\"enc\""),
            ("\"RSA\"", "\"RSA\",\"alg\":\"RS512\""),
            ("\"RSA\"", "\"oct\""),
            ("\"EC\"", "\"EC\",\"use\":\"enc\""),
            ("\"EC\"", "\"EC\",\"alg\":\"ES384\""),
            ("P-256", "P-384"),
            // A point has two numbers of 32 bytes: another one would be read as something else.
            (X, "AAAA"),
            (Y, "AAAA"),
        ] {
            assert_eq!(count(&KEYS.replace(from, to)), Ok(1), "{to} for {from}");
        }
        assert_eq!(count("{\"keys\":[]}"), Err(NoKeys));
        let padded = format!("{KEYS}{}", " ".repeat(TEXT_BYTES_MAX));
        assert_eq!(count(&padded), Err(NoKeys), "a text beyond the limit");
    }

    #[test]
    fn the_signatures_of_the_rfc() {
        let jwks = Jwks::parse(KEYS).expect("two keys");
        for (algorithm, other, header, signature) in SIGNED {
            let text = format!("{header}.{CLAIMS}");
            let mut signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
            let verify = |algorithm, text: &str, signature: &[u8]| {
                jwks.verify(algorithm, None, text.as_bytes(), signature)
            };
            assert!(verify(algorithm, &text, &signature), "{algorithm}");
            assert!(!verify(other, &text, &signature), "{algorithm} as {other}");
            assert!(!verify(algorithm, &text[1..], &signature), "{algorithm}, another text");
            for byte in 0..signature.len() {
                signature[byte] ^= 1;
                assert!(!verify(algorithm, &text, &signature), "{algorithm}, byte {byte}");
                signature[byte] ^= 1;
            }
        }
    }
}

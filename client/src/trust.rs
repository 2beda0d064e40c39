//! Whose certificates are believed over TLS: those of the authorities that the machine trusts, and
//! of any that a program names.
//!
//! Promise: a server's certificate is always held against these and against the server's name.
//! Nothing turns that off: an endpoint whose certificate is signed by itself is believed where that
//! certificate is given.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::sync::Arc;

/// Whose certificates are believed.
///
/// ```no_run
/// use tabulith_client::{Account, Connection, Options, Trust};
/// # fn run() -> Result<(), Box<dyn std::error::Error>> {
/// // The file that `tabulith serve --tls-self-signed ca.pem` has written.
/// let trust = Trust::machine().with_pem(&std::fs::read("ca.pem")?)?;
/// let there = Connection::parse("AccountName=shop;AccountKey=aGVsbG8=;TableEndpoint=https://tables.shop:10003/shop")?;
/// let account = Account::new(there, Options { trust, ..Options::default() });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Trust {
    machine: bool,
    given: Vec<CertificateDer<'static>>,
}

/// Why nobody can be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoTrust(String);

impl Trust {
    /// The authorities that the machine trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others.
    pub fn machine() -> Trust {
        Trust { machine: true, given: Vec::new() }
    }

    /// Nobody yet.
    pub fn nobody() -> Trust {
        Trust { machine: false, given: Vec::new() }
    }

    /// And the certificates of a text in PEM: authorities, or servers that have signed their own.
    pub fn with_pem(mut self, pem: &[u8]) -> Result<Trust, NoTrust> {
        let known = self.given.len();
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| NoTrust(error.to_string()))?;
            roots.add(certificate.clone()).map_err(|error| NoTrust(error.to_string()))?;
            self.given.push(certificate);
        }
        if self.given.len() == known {
            return Err(NoTrust("no certificate in PEM".to_owned()));
        }
        Ok(self)
    }

    /// The same as rustls is told it: TLS 1.2 and 1.3, and nothing but HTTP/1.1 inside.
    pub fn config(&self) -> Result<Arc<ClientConfig>, NoTrust> {
        let mut roots = RootCertStore::empty();
        if self.machine {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() && self.given.is_empty() {
                let why = found.errors.first().map(|error| format!(": {error}"));
                let why = why.unwrap_or_default();
                return Err(NoTrust(format!("this machine lists no authority to trust{why}")));
            }
        }
        roots.add_parsable_certificates(self.given.iter().cloned());
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| NoTrust(error.to_string()))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl Default for Trust {
    fn default() -> Trust {
        Trust::machine()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = if self.machine { "the machine's and " } else { "" };
        write!(f, "Trust({machine}{} given)", self.given.len())
    }
}

/// What is wrong with a server's certificate, where that is why a connection failed.
pub(crate) fn disbelief(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls @ rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
            return Some(tls.to_string());
        }
        // What an error of input and output wraps is not its source.
        next = match error.downcast_ref::<std::io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use rcgen::generate_simple_self_signed;
    use std::io;

    fn pem() -> String {
        generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn every_certificate_of_a_text_is_taken() {
        let trust = Trust::nobody().with_pem(pem().as_bytes()).unwrap();
        let more = trust.clone().with_pem(format!("{}text\n{}", pem(), pem()).as_bytes()).unwrap();
        assert_eq!((trust.given.len(), more.given.len()), (1, 3));
        assert_eq!(format!("{more:?}"), "Trust(3 given)");
        assert!(more.config().is_ok());
    }

    #[test]
    fn a_text_without_certificates_is_refused() {
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let cut = pem().replace("-----END", "");
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["", "text", &key, &cut, empty] {
            assert!(Trust::machine().with_pem(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bad_certificate_is_found_under_other_errors() {
        let bad = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, bad));
        assert_eq!(disbelief(&wrapped).as_deref(), Some("invalid peer certificate: UnknownIssuer"));
        assert_eq!(disbelief(&io::Error::other(rustls::Error::DecryptError)), None);
        assert_eq!(disbelief(&io::Error::from(io::ErrorKind::NotFound)), None);
    }
}

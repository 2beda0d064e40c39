//! Whom a TLS listener says it is: certificates that are given, and read anew when asked to, or one
//! that is made at the start.
//!
//! Promise: what is read replaces what was only when it is a chain and the key that belongs to it.
//! TLS 1.2 and 1.3; the only protocol inside is HTTP/1.1. Connections keep what they began with.

use crate::config::{Identity, PemSource, Tls};
use arc_swap::ArcSwap;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tabulith::ids::CommitTs;

/// Days for which a certificate that is made here holds: some clients take none that hold longer.
const DAYS: i64 = 397;

/// What a TLS listener presents.
pub(crate) struct Presented {
    identity: Identity,
    /// The certificate that was made, in PEM.
    made: Option<String>,
    current: ArcSwap<ServerConfig>,
    handshake_time_max: Duration,
}

impl Presented {
    /// Reads the certificates, or makes one that holds from the day of `now` on.
    pub(crate) fn new(tls: &Tls, now: CommitTs) -> Result<Presented, NoIdentity> {
        let (config, made) = match &tls.identity {
            Identity::Given(source) => (read(&**source)?, None),
            Identity::SelfSigned => {
                let made = make(tls.listen, now).map_err(NoIdentity::of)?;
                let config = config(vec![made.certificate], made.key).map_err(NoIdentity::of)?;
                (config, Some(made.pem))
            }
        };
        Ok(Presented {
            identity: tls.identity.clone(),
            made,
            current: ArcSwap::from_pointee(config),
            handshake_time_max: tls.handshake_time_max,
        })
    }

    /// The certificate that was made at the start, in PEM.
    pub(crate) fn made(&self) -> Option<&str> {
        self.made.as_deref()
    }

    /// For the next handshake.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// How long that handshake may take.
    pub(crate) fn handshake_time_max(&self) -> Duration {
        self.handshake_time_max
    }

    /// Reads what is given anew, for handshakes from now on. Where that fails, all stays as it was.
    pub(crate) fn reload(&self) -> Result<(), NoIdentity> {
        if let Identity::Given(source) = &self.identity {
            self.current.store(Arc::new(read(&**source)?));
        }
        Ok(())
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Presented({:?})", self.identity)
    }
}

/// Why there is nothing to present. Never shows what is in a key.
#[derive(Debug)]
pub struct NoIdentity(String);

impl NoIdentity {
    fn of(error: impl fmt::Display) -> NoIdentity {
        NoIdentity(format!("no certificate to present: {error}"))
    }
}

impl fmt::Display for NoIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoIdentity {}

impl From<NoIdentity> for io::Error {
    fn from(error: NoIdentity) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

fn read(source: &dyn PemSource) -> Result<ServerConfig, NoIdentity> {
    let pem = source.read().map_err(NoIdentity::of)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.certificates).collect();
    let chain = chain.map_err(|error| NoIdentity::of(format!("the certificates: {error}")))?;
    if chain.is_empty() {
        return Err(NoIdentity::of("no certificate in PEM"));
    }
    // Why a key does not read could show some of it.
    let key = PrivateKeyDer::from_pem_slice(&pem.key);
    let key = key.map_err(|_| NoIdentity::of("no private key in PEM"))?;
    config(chain, key).map_err(NoIdentity::of)
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A certificate and its key.
struct Made {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    pem: String,
}

/// A certificate for this machine's own names, and for the address that is listened on.
fn make(listen: SocketAddr, now: CommitTs) -> Result<Made, rcgen::Error> {
    let mut names = ["localhost", "*.localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    if !listen.ip().is_unspecified() && !names.contains(&listen.ip().to_string()) {
        names.push(IpAddr::to_string(&listen.ip()));
    }
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Tabulith, signed by itself");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = now.seconds() / 86_400;
    let moment = |(year, month, day)| date_time_ymd(year, month, day);
    params.not_before = moment(date(today - 1));
    params.not_after = moment(date(today + DAYS));
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Made {
        certificate: certificate.der().clone(),
        key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        pem: certificate.pem(),
    })
}

/// Year, month and day of a day counted from 1970.
fn date(days: i64) -> (i32, u8, u8) {
    let moment = jiff::Timestamp::from_second(days * 86_400).unwrap_or_default();
    let date = moment.to_zoned(jiff::tz::TimeZone::UTC).date();
    let part = |part: i8| u8::try_from(part).unwrap_or(1);
    (i32::from(date.year()), part(date.month()), part(date.day()))
}

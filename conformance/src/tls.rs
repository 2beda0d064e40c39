//! TLS under the list's own socket; whom it believes is the caller's to say.

use crate::wire::{Connect, Stream, socket};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io;
use std::sync::Arc;

/// TLS, with a server that proves the name by which it is reached.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// TLS with those whom `config` believes.
    pub fn new(config: Arc<ClientConfig>) -> Tls {
        Tls(config)
    }
}

impl Connect for Tls {
    fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let name = ServerName::try_from(host.to_owned()).map_err(invalid)?;
        let mut tls = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        let mut socket = socket(host, port)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Box::new(StreamOwned::new(tls, socket)))
    }
}

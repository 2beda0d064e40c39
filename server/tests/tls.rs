//! TLS with real handshakes: both versions, a change of certificates under load, the wrong port,
//! and hands that are never shaken.

#![allow(clippy::disallowed_methods, reason = "a test's own folder")]

mod common;

use common::{Sas, date_of, request, sign};
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::table::store::TableStore;
use tabulith_server::config::{Config, Identity, Pem, PemSource, Tls};
use tabulith_server::http::message::{Body, Request};
use tabulith_server::{Running, Server};

/// Nobody waits that long in a test that passes.
const FOR_EVER: Duration = Duration::from_secs(600);

struct House {
    running: Running,
    folder: tempfile::TempDir,
}

impl House {
    fn start(identity: impl FnOnce(&Path) -> Identity, handshake_time_max: Duration) -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Db::open(folder.path().join("data")).expect("a database");
        let here = ([127, 0, 0, 1], 0).into();
        let identity = identity(folder.path());
        let tls = Some(Tls { listen: here, identity, handshake_time_max });
        let config = Config { listen: here, tls, head_time_max: FOR_EVER, ..Config::default() };
        let store = Arc::new(TableStore::new(Arc::new(db)));
        let running = Server::start(config, store).expect("a server");
        if let Some(own) = running.own_certificate() {
            std::fs::write(folder.path().join("own.pem"), own).expect("written");
        }
        House { running, folder }
    }

    fn self_signed() -> House {
        House::start(|_| Identity::SelfSigned, FOR_EVER)
    }

    /// With files of which the certificate is its own root.
    fn with_files() -> House {
        House::start(|folder| Files::make(folder).identity(), FOR_EVER)
    }

    fn files(&self) -> Files {
        Files::of(self.folder.path())
    }

    fn tls_addr(&self) -> SocketAddr {
        self.running.tls_addr().expect("it listens for TLS")
    }

    fn connect(&self, root: &Path) -> Client<Secure> {
        self.try_connect(root, &[&TLS12, &TLS13], &[b"http/1.1"]).expect("a handshake")
    }

    fn try_connect(
        &self,
        root: &Path,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> std::io::Result<Client<Secure>> {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_file(root).expect("a certificate");
        roots.add(root).expect("a root");
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut stream = TcpStream::connect(self.tls_addr()).expect("a connection");
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        Ok(Client { reader: BufReader::new(StreamOwned::new(tls, stream)) })
    }

    fn connect_plain(&self, addr: SocketAddr) -> Client<TcpStream> {
        let _ = self;
        Client { reader: BufReader::new(TcpStream::connect(addr).expect("a connection")) }
    }
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn of(folder: &Path) -> Files {
        Files { certificate: folder.join("chain.pem"), key: folder.join("key.pem") }
    }

    /// Writes a new pair.
    fn make(folder: &Path) -> Files {
        let files = Files::of(folder);
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        std::fs::write(&files.certificate, cert.pem()).expect("written");
        std::fs::write(&files.key, signing_key.serialize_pem()).expect("written");
        files
    }

    fn identity(&self) -> Identity {
        Identity::Given(Arc::new(self.clone()))
    }
}

impl PemSource for Files {
    fn read(&self) -> std::io::Result<Pem> {
        Ok(Pem { certificates: std::fs::read(&self.certificate)?, key: std::fs::read(&self.key)? })
    }
}

struct Client<T> {
    reader: BufReader<T>,
}

impl<T: Read + Write> Client<T> {
    fn send(&mut self, request: &Request) -> (u16, String) {
        let head = &request.head;
        let mut text =
            format!("{} {} HTTP/1.1\r\nHost: {}\r\n", head.method, head.target, head.authority);
        for (name, value) in head.headers.iter() {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        if let Body::Whole(body) = &request.body {
            text.push_str(&String::from_utf8_lossy(body));
        }
        let stream = self.reader.get_mut();
        stream.write_all(text.as_bytes()).expect("the server reads");
        stream.flush().expect("the server reads");
        let mut all = String::new();
        while !all.ends_with("\r\n\r\n") {
            let read = self.reader.read_line(&mut all).expect("the server answers");
            assert!(read > 0, "the server hung up after {all:?}");
        }
        let status = all[9..12].parse().expect("a status");
        let length = all.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
        self.reader.read_exact(&mut body).expect("the whole body");
        (status, all + &String::from_utf8(body).expect("text"))
    }

    /// What comes until the server hangs up.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.reader.read_to_end(&mut rest);
        rest
    }
}

fn signed(method: &str, path: &str, body: &str) -> Request {
    let mut request = request(method, path, &[], body);
    sign(&mut request.head, &date_of(SystemClock::new().wall_ticks()));
    request
}

fn list() -> Request {
    signed("GET", "/Tables", "")
}

#[test]
fn both_versions_and_one_protocol() {
    let house = House::self_signed();
    let root = house.folder.path().join("own.pem");
    for (version, name) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)]
    {
        let mut client =
            house.try_connect(&root, &[version], &[b"h2", b"http/1.1"]).expect("shaken");
        let tls = &client.reader.get_ref().conn;
        assert_eq!(tls.protocol_version(), Some(name));
        assert_eq!(tls.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(client.send(&list()).0, 200);
    }
    assert!(house.try_connect(&root, &[&TLS13], &[]).is_ok(), "ALPN is not needed");
    assert!(house.try_connect(&root, &[&TLS13], &[b"h2"]).is_err());
}

#[test]
fn addresses_in_answers_are_https() {
    let house = House::self_signed();
    let mut client = house.connect(&house.folder.path().join("own.pem"));
    let (status, made) = client.send(&signed("POST", "/Tables", "{\"TableName\":\"people\"}"));
    assert_eq!(status, 201);
    let base = "https://127.0.0.1:10002/devstoreaccount1/";
    assert!(made.contains(&format!("location: {base}Tables('people')")), "{made}");
    assert!(made.contains(&format!("\"odata.metadata\":\"{base}$metadata#Tables")), "{made}");
    let mut plain = house.connect_plain(house.running.addr());
    assert!(plain.send(&list()).1.contains("\"http://127.0.0.1:10002/"));
}

#[test]
fn signatures_for_tls_only() {
    let house = House::self_signed();
    let sas = Sas::account().with("sp", "l").with("srt", "sco");
    let mut plain = house.connect_plain(house.running.addr());
    let mut secure = house.connect(&house.folder.path().join("own.pem"));
    for (protocols, over_plain) in [("https", 403), ("https,http", 200)] {
        let token = sas.with("spr", protocols).token();
        let ask = request("GET", &format!("/Tables?{token}"), &[], "");
        let (status, text) = plain.send(&ask);
        assert_eq!(status, over_plain, "{text}");
        assert_eq!(status == 403, text.contains("AuthorizationProtocolMismatch"), "{text}");
        assert_eq!(secure.send(&ask).0, 200);
    }
    // Whoever is no trusted proxy cannot say that it came over TLS.
    let token = sas.with("spr", "https").token();
    let says = [("X-Forwarded-Proto", "https")];
    assert_eq!(plain.send(&request("GET", &format!("/Tables?{token}"), &says, "")).0, 403);
}

#[test]
fn certificates_change_without_a_break() {
    let house = House::with_files();
    let files = house.files();
    let before = house.folder.path().join("before.pem");
    std::fs::copy(&files.certificate, &before).expect("copied");
    let mut old = house.connect(&files.certificate);
    assert_eq!(old.send(&list()).0, 200);
    Files::make(house.folder.path());
    house.running.reload().expect("read");
    let mut new = house.connect(&files.certificate);
    assert_eq!(new.send(&list()).0, 200);
    assert_eq!(old.send(&list()).0, 200, "what was open stays open");
    assert!(house.try_connect(&before, &[&TLS13], &[]).is_err(), "the old one is gone");

    // What cannot be presented changes nothing.
    let good = std::fs::read(&files.certificate).expect("read");
    let other = KeyPair::generate().expect("a key").serialize_pem();
    let cut = String::from_utf8_lossy(&good[..good.len() / 2]).into_owned();
    for (path, text, says) in [
        (&files.key, other.as_str(), "keys may not be consistent"),
        (&files.key, "", "no private key"),
        (&files.certificate, "", "no certificate in PEM"),
        (&files.certificate, cut.as_str(), "the certificates: "),
    ] {
        let kept = std::fs::read(path).expect("read");
        std::fs::write(path, text).expect("written");
        let error = house.running.reload().expect_err("no pair").to_string();
        assert!(error.contains(says) && !error.contains("BEGIN"), "{error}");
        std::fs::write(path, kept).expect("written");
        assert_eq!(new.send(&list()).0, 200);
        assert_eq!(house.connect(&files.certificate).send(&list()).0, 200);
    }
    std::fs::remove_file(&files.certificate).expect("removed");
    assert!(house.running.reload().is_err());
    std::fs::write(&files.certificate, good).expect("written");
    house.running.reload().expect("read again");
}

#[test]
fn a_start_without_a_certificate_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = Db::open(folder.path().join("data")).expect("a database");
    let here = ([127, 0, 0, 1], 0).into();
    let identity = Files::of(folder.path()).identity();
    let tls = Some(Tls { listen: here, identity, handshake_time_max: FOR_EVER });
    let config = Config { listen: here, tls, ..Config::default() };
    let error = Server::start(config, Arc::new(TableStore::new(Arc::new(db)))).expect_err("none");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn the_wrong_port_hangs_up_at_once() {
    // Every limit of time is far away: only the first byte can be what ends these.
    let house = House::self_signed();
    let mut on_tls = house.connect_plain(house.tls_addr());
    on_tls.reader.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    assert_eq!(on_tls.rest(), b"");
    let mut one_byte = house.connect_plain(house.tls_addr());
    one_byte.reader.get_mut().write_all(b"G").expect("sent");
    assert_eq!(one_byte.rest(), b"");
    let mut on_plain = house.connect_plain(house.running.addr());
    on_plain.reader.get_mut().write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).expect("sent");
    assert_eq!(on_plain.rest(), b"");
    // Both ports are as good as before.
    assert_eq!(house.connect(&house.folder.path().join("own.pem")).send(&list()).0, 200);
    assert_eq!(house.connect_plain(house.running.addr()).send(&list()).0, 200);
}

#[test]
fn hands_that_are_not_shaken_in_time() {
    let house = House::start(|_| Identity::SelfSigned, Duration::from_millis(200));
    for start in [&b""[..], &[0x16], &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00]] {
        let mut slow = house.connect_plain(house.tls_addr());
        slow.reader.get_mut().write_all(start).expect("sent");
        assert_eq!(slow.rest(), b"", "closed without a word");
    }
}

#[test]
fn a_handshake_takes_a_place_and_a_stop_waits_for_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = Db::open(folder.path().join("data")).expect("a database");
    let here = ([127, 0, 0, 1], 0).into();
    let identity = Identity::SelfSigned;
    let tls = Some(Tls { listen: here, identity, handshake_time_max: FOR_EVER });
    let config = Config {
        listen: here,
        tls,
        connections_max: 1,
        stop_time_max: FOR_EVER,
        ..Config::default()
    };
    let running = Server::start(config, Arc::new(TableStore::new(Arc::new(db)))).expect("a server");
    let mut shaking = TcpStream::connect(running.tls_addr().expect("TLS")).expect("a connection");
    shaking.write_all(&[0x16]).expect("sent");
    // With the only place taken, whoever comes later is not even told that it is the wrong port,
    // which would be long before a client gives up.
    let mut later = TcpStream::connect(running.tls_addr().expect("TLS")).expect("a connection");
    later.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    later.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    let waited = later.read(&mut [0]).expect_err("nobody reads it");
    assert_eq!(waited.kind(), std::io::ErrorKind::WouldBlock);
    // The stop has all the time there is, and needs none of it.
    running.stop();
    assert_eq!(shaking.read(&mut [0]).unwrap_or(0), 0);
}

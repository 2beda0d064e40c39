//! Secrets stay where they are: a server on a real socket is asked in every way that is let in and
//! in every way that is not, and neither its answers, nor its log, nor what its parts show of
//! themselves has a key, a signature, a token or a path in it.

#![allow(clippy::disallowed_methods, reason = "a test's own folder")]
#![allow(clippy::print_stdout, reason = "the counts are what the test shows")]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use common::{FAR, Sas, date_of, escaped, request, wire_text};
use std::io::{Read as _, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::table::store::TableStore;
use tabulith_server::auth::canonical;
use tabulith_server::auth::shared_key::{Credentials, signature_text};
use tabulith_server::config::{Config, Identity, Key, Pem, PemSource, Tls};
use tabulith_server::http::message::Request;
use tabulith_server::texts::TextSource;
use tabulith_server::tokens::BearerConfig;
use tabulith_server::{Accounts, Running, Server};

const ACCOUNT: &str = "devstoreaccount1";

/// What must not be seen, by what it is.
#[derive(Default)]
struct Secrets(Vec<(&'static str, Vec<u8>)>);

impl Secrets {
    /// A secret in every form that it may take.
    fn add(&mut self, what: &'static str, text: &str) {
        let mut forms = vec![text.to_owned(), escaped(text), text.replace('"', "\\\"")];
        if let Ok(bytes) = STANDARD.decode(text) {
            forms.push(URL_SAFE_NO_PAD.encode(&bytes));
            forms.push(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
            forms.push(format!("{bytes:?}").trim_matches(['[', ']']).to_owned());
        }
        self.0.extend(forms.into_iter().map(|form| (what, form.into_bytes())));
    }

    fn seen_in(&self, output: &[u8]) -> Option<&'static str> {
        let has = |secret: &[u8]| memchr::memmem::find(output, secret).is_some();
        self.0.iter().find(|(_, secret)| has(secret)).map(|(what, _)| *what)
    }
}

/// A log in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Operations of every kind: verb, path, body.
const OPERATIONS: [(&str, &str, &str); 18] = [
    ("GET", "/Tables", ""),
    ("POST", "/Tables", "{\"TableName\":\"Other\"}"),
    ("GET", "/Tables('Mine')", ""),
    ("DELETE", "/Tables('Nothing')", ""),
    ("POST", "/Mine", "{\"PartitionKey\":\"p\",\"RowKey\":\"a\"}"),
    ("POST", "/Mine", "{\"PartitionKey\":\"p\""),
    ("GET", "/Mine(PartitionKey='p',RowKey='r')", ""),
    ("GET", "/Mine(PartitionKey='p',RowKey='none')", ""),
    ("GET", "/Mine()?$filter=A%20eq%20'x'", ""),
    ("GET", "/Mine()?$filter=A%20eq", ""),
    ("PUT", "/Mine(PartitionKey='p',RowKey='r')", "{\"A\":1}"),
    ("PATCH", "/Nothing(PartitionKey='p',RowKey='r')", "{\"A\":1}"),
    ("DELETE", "/Mine(PartitionKey='p',RowKey='none')", ""),
    ("GET", "/Mine?comp=acl", ""),
    ("PUT", "/Mine?comp=acl", "<SignedIdentifiers><SignedIdentifier>"),
    ("GET", "/?restype=service&comp=properties", ""),
    ("POST", "/$batch", "--b\r\n\r\nnonsense"),
    ("OPTIONS", "/Mine", ""),
];

struct House {
    running: Running,
    db: Db,
    folder: tempfile::TempDir,
    keys: [String; 2],
    log: Log,
    secrets: Secrets,
    scanned: usize,
}

/// Certificates that do not read, with a key among them that must not be shown.
#[derive(Debug)]
struct Broken;

const PRIVATE: &str = "cHJpdmF0ZSBrZXkgb2Ygbm9ib2R5IHdobyBpcyBoZXJl";

impl PemSource for Broken {
    fn read(&self) -> std::io::Result<Pem> {
        let key = format!("-----BEGIN PRIVATE KEY-----\n{PRIVATE}\n-----END PRIVATE KEY-----\n");
        let certificates =
            format!("-----BEGIN CERTIFICATE-----\n{PRIVATE}\n-----END CERTIFICATE-----\n");
        Ok(Pem { certificates: certificates.into(), key: key.into() })
    }
}

impl House {
    fn start() -> House {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone());
        tracing::subscriber::set_global_default(subscriber.finish()).expect("the only test");
        let folder = tempfile::tempdir().expect("a folder");
        let db = Db::open(folder.path().join("data")).expect("a database");
        let keys = ["one key of this house", "the other key of this house, longer than the first"]
            .map(|text| STANDARD.encode(text));
        let mut bearer = BearerConfig::basic();
        bearer.without_tls = true;
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            accounts: Accounts::parse(&format!("{ACCOUNT}:{}:{}", keys[0], keys[1])).expect("two"),
            bearer: Some(bearer),
            slow_time: Some(Duration::ZERO),
            ..Config::default()
        };
        let mut secrets = Secrets::default();
        keys.iter().for_each(|key| secrets.add("a key", key));
        secrets.add("a private key", PRIVATE);
        let running = Server::start(config, Arc::new(TableStore::new(Arc::new(db.clone()))));
        let running = running.expect("a server");
        House { running, db, folder, keys, log, secrets, scanned: 0 }
    }

    fn key(&self) -> Key {
        Key::parse(ACCOUNT, &self.keys[1]).expect("a key")
    }

    /// Looks through an output.
    #[track_caller]
    fn scan(&mut self, output: &[u8]) {
        self.scanned += 1;
        let seen = self.secrets.seen_in(output);
        assert_eq!(seen, None, "{}", String::from_utf8_lossy(output));
    }

    /// Sends a request on a connection of its own and looks through all that comes back. Gives back
    /// the status.
    #[track_caller]
    fn send(&mut self, request: &Request) -> u16 {
        self.send_text(&wire_text(request))
    }

    #[track_caller]
    fn send_text(&mut self, text: &str) -> u16 {
        let mut stream = TcpStream::connect(self.running.addr()).expect("a connection");
        stream.write_all(text.as_bytes()).expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        self.scan(&answer);
        let folder = self.folder.path().display().to_string();
        let has_path = String::from_utf8_lossy(&answer).contains(&folder);
        assert!(!has_path, "{}", String::from_utf8_lossy(&answer));
        let status = answer.get(9..12).expect("an answer");
        String::from_utf8_lossy(status).parse().expect("a status")
    }

    /// A request signed by a key, whose signature is a secret from now on.
    fn signed(&mut self, is_lite: bool, key: &Key, date: &str, request: &mut Request) {
        let head = &mut request.head;
        let comp = head.query().split('&').find_map(|part| part.strip_prefix("comp="));
        let resource = canonical::resource(ACCOUNT, head.path(), comp);
        let header = |name| head.headers.get(name).unwrap_or_default();
        let (scheme, string) = if is_lite {
            ("SharedKeyLite", canonical::shared_key_lite(date, &resource))
        } else {
            let (md5, kind) = (header("Content-MD5"), header("Content-Type"));
            let string = format!("{}\n{md5}\n{kind}\n{date}\n{resource}", head.method);
            ("SharedKey", string)
        };
        let signature = signature_text(key, &string);
        self.secrets.add("a signature", &signature);
        head.headers.push("x-ms-date", date);
        head.headers.push("Authorization", format!("{scheme} {ACCOUNT}:{signature}"));
    }
}

fn plain(operation: (&str, &str, &str)) -> Request {
    let (verb, path, body) = operation;
    let kind = match path {
        "/$batch" => "multipart/mixed; boundary=b",
        _ if body.starts_with('<') => "application/xml",
        _ => "application/json",
    };
    let headers = [("Content-Type", kind), ("If-Match", "*"), ("Origin", "http://h")];
    let headers = &headers[..if verb == "POST" || path.ends_with("acl") { 1 } else { 3 }];
    request(verb, path, headers, body)
}

fn with_query(mut request: Request, more: &str) -> Request {
    let mark = if request.head.target.contains('?') { '&' } else { '?' };
    request.head.target = format!("{}{mark}{more}", request.head.target);
    request
}

#[test]
fn nothing_shows_a_secret() {
    let mut house = House::start();
    let now = date_of(SystemClock::new().wall_ticks());
    let (own, foreign) = (house.key(), Key::development());
    let mut create = plain(("POST", "/Tables", "{\"TableName\":\"Mine\"}"));
    house.signed(true, &own, &now, &mut create);
    assert_eq!(house.send(&create), 201);
    let upsert = || {
        let (verb, path, body) = OPERATIONS[10];
        request(verb, path, &[("Content-Type", "application/json")], body)
    };
    let mut put = upsert();
    house.signed(true, &own, &now, &mut put);
    assert_eq!(house.send(&put), 204);

    let mut statuses = std::collections::BTreeMap::new();
    for operation in OPERATIONS {
        // Both schemes, good, by a foreign key, and too old.
        for is_lite in [true, false] {
            for (key, date) in
                [(&own, now.as_str()), (&foreign, &now), (&own, "Mon, 27 Jun 2016 15:25:14 GMT")]
            {
                let mut request = plain(operation);
                house.signed(is_lite, key, date, &mut request);
                *statuses.entry(house.send(&request)).or_insert(0) += 1;
            }
        }
        // Shared access signatures that are good, over, for somebody else, bent and doubled.
        let table = Sas { key: own.clone(), ..Sas::table("Mine").with("sp", "raud") };
        let account = Sas { key: own.clone(), ..Sas::account().with("srt", "sco") };
        let account = account.with("sp", "rwdlacu");
        for sas in [
            table.clone(),
            table.with("se", "2020-01-01"),
            table.with("st", FAR),
            table.with("sip", "203.0.113.9"),
            table.with("spr", "https"),
            table.with("tn", "Other"),
            table.with("si", "nobody"),
            table.with("spk", "x"),
            account.clone(),
            account.with("ss", "b"),
            account.with("srt", "s"),
            account.with("sp", "l"),
            Sas { key: foreign.clone(), ..account.clone() },
        ] {
            let signature = signature_text(&sas.key, &sas.string_to_sign());
            house.secrets.add("a signature", &signature);
            for query in [
                sas.token(),
                format!("{}&sig=x", sas.token()),
                format!("{}&sp=raud&sp=r", sas.token()),
                sas.token().replace("sig=", "SIG="),
            ] {
                let request = with_query(plain(operation), &query);
                *statuses.entry(house.send(&request)).or_insert(0) += 1;
            }
        }
        tokens(&mut house, operation, &mut statuses);
        broken(&mut house, operation, &mut statuses);
    }
    framing(&mut house);
    settings(&mut house);

    // A store that fails has much to say, and none of it is the client's business.
    house.db.close().expect("closed");
    let mut failing = upsert();
    house.signed(true, &own, &now, &mut failing);
    let failed = house.send(&failing);
    assert!(failed >= 500, "{failed}");
    for status in [200, 204, 400, 401, 403, 404, 409] {
        assert!(statuses.contains_key(&status), "no {status}: {statuses:?}");
    }
    finish(house);
}

/// Bearer tokens: good, over, and no tokens at all.
fn tokens(
    house: &mut House,
    operation: (&str, &str, &str),
    statuses: &mut std::collections::BTreeMap<u16, usize>,
) {
    let seconds = SystemClock::new().wall_ticks() / 10_000_000;
    for (expiry, issuer) in [
        (seconds + 600, "https://sts.windows.net/x/"),
        (seconds - 600, "https://sts.windows.net/x/"),
        (seconds + 600, "https://evil/"),
    ] {
        let claims = format!(
            "{{\"iss\":\"{issuer}\",\"aud\":\"https://storage.azure.com\",\"nbf\":0,\
             \"exp\":{expiry},\"oid\":\"{}\"}}",
            operation.1
        );
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let message = format!("{}.{}", part("{\"alg\":\"RS256\"}"), part(&claims));
        let token = format!("{message}.{}", part("signature of nobody"));
        house.secrets.add("a token", &token);
        house.secrets.add("claims", &part(&claims));
        for text in [token.clone(), format!("{token}x"), token.replace('.', ":")] {
            let mut request = plain(operation);
            request.head.headers.push("Authorization", format!("Bearer {text}"));
            request.head.headers.push("x-ms-version", "2020-12-06");
            *statuses.entry(house.send(&request)).or_insert(0) += 1;
        }
    }
}

/// Credentials that do not parse, though there is a secret in them.
fn broken(
    house: &mut House,
    operation: (&str, &str, &str),
    statuses: &mut std::collections::BTreeMap<u16, usize>,
) {
    let key = house.keys[0].clone();
    for value in [
        format!("SharedKey {key}"),
        format!("SharedKey {key}:{key}"),
        format!("SharedKeyLite {ACCOUNT}:{key}"),
        format!("Basic {key}"),
        key.clone(),
    ] {
        let mut request = plain(operation);
        request.head.headers.push("Authorization", value);
        *statuses.entry(house.send(&request)).or_insert(0) += 1;
    }
    for query in [format!("sig={}", escaped(&key)), format!("sv=2019-02-02&ss=t&sig={key}&sig=x")] {
        let request = with_query(plain(operation), &query);
        *statuses.entry(house.send(&request)).or_insert(0) += 1;
    }
}

/// Connections that end in nonsense with a secret in it.
fn framing(house: &mut House) {
    let key = house.keys[0].clone();
    let target = format!("/{ACCOUNT}/Mine?sig={}", escaped(&key));
    for text in [
        format!("GET {target} HTTP/9.9\r\n\r\n"),
        format!("GET {target} HTTP/1.1\nAuthorization: {key}\n\n"),
        format!("GET {target} HTTP/1.1\r\nAuthorization : {key}\r\n\r\n"),
        format!("GET /{ACCOUNT}/Mine HTTP/1.1\r\nHost: h\r\nAuthorization: \u{1}{key}\r\n\r\n"),
        format!("PUT {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{key}\r\n"),
        format!("{key}\r\n\r\n"),
    ] {
        assert!(matches!(house.send_text(&text), 400 | 403), "{text}");
    }
}

/// What settings and parts of requests show of themselves, and errors about them.
fn settings(house: &mut House) {
    let keys = house.keys.clone();
    let source = |text: String| TextSource::new("accounts", move || Ok(text.clone()));
    let accounts = Accounts::parse(&format!("{ACCOUNT}:{}", keys[0])).expect("an account");
    let listen = ([127, 0, 0, 1], 0).into();
    let identity = Identity::Given(Arc::new(Broken));
    let tls = Tls { listen, identity, handshake_time_max: Duration::from_secs(1) };
    let accounts_source = Some(source(format!("{ACCOUNT}:{}", keys[0])));
    let config = Config { listen, accounts, accounts_source, tls: Some(tls), ..Config::default() };
    house.scan(format!("{config:?} {config:#?}").as_bytes());
    let store = Arc::new(TableStore::new(Arc::new(house.db.clone())));
    let not_started = Server::start(config, store.clone()).expect_err("no certificate");
    house.scan(format!("{not_started} {not_started:?}").as_bytes());
    for text in [
        keys[0].clone(),
        format!("{}:{ACCOUNT}", keys[0]),
        format!("{ACCOUNT}:{};{}", keys[0], keys[1]),
        format!("{ACCOUNT}:{}:{}:{}", keys[0], keys[1], keys[0]),
        format!("{ACCOUNT}:{}%", keys[0]),
        format!("{ACCOUNT}:{};{ACCOUNT}:{}", keys[0], keys[1]),
    ] {
        let error = Accounts::parse(&text).expect_err("not accounts");
        house.scan(format!("{error} {error:?}").as_bytes());
        let accounts_source = Some(source(text));
        let config = Config { listen, accounts_source, ..Config::default() };
        let error = Server::start(config, store.clone()).expect_err("not accounts");
        house.scan(format!("{error} {error:?}").as_bytes());
    }
    let signature = signature_text(&house.key(), "anything");
    house.secrets.add("a signature", &signature);
    let credentials = Credentials::parse(&format!("SharedKey {ACCOUNT}:{signature}"));
    let mut head = request("GET", "/Mine", &[("Authorization", &signature)], "").head;
    head.target = format!("{}?sig={signature}", head.target);
    for shown in [
        format!("{credentials:?}"),
        format!("{head:?} {head:#?}"),
        format!("{:?} {:?}", house.key(), house.running),
    ] {
        house.scan(shown.as_bytes());
    }
}

/// Looks through the log, and shows that a secret in it would have been found.
fn finish(mut house: House) {
    let log = house.log.bytes().clone();
    let lines = log.iter().filter(|byte| **byte == b'\n').count();
    house.scan(&log);
    assert!(lines > 1_000, "{lines} lines");
    for (what, secret) in &house.secrets.0 {
        let planted = [&log[..], b"x", secret, b"x"].concat();
        assert!(house.secrets.seen_in(&planted[log.len()..]).is_some(), "{what}");
    }
    println!(
        "secrets: {} outputs and {lines} lines of log looked through for {} forms of secrets, 0 seen",
        house.scanned,
        house.secrets.0.len()
    );
    assert!(house.scanned > 1_000, "{}", house.scanned);
}

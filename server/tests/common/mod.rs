//! A server without sockets for tests: an app over a database in memory, under a clock that only
//! the test moves, and the client's half of SharedKeyLite.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::{Clock, ManualClock};
use tabulith::env::jobs::ByHand;
use tabulith::table::store::TableStore;
use tabulith::vfs::api::Vfs;
use tabulith::vfs::mem::SimFs;
use tabulith_server::app::App;
use tabulith_server::auth::canonical;
use tabulith_server::auth::shared_key::signature_text;
use tabulith_server::config::{Config, DEVELOPMENT_ACCOUNT, Key};
use tabulith_server::http::message::{Body, Head, Request, Response};

/// 2021-01-01T00:00:00Z in ticks since 1970.
pub const START: u64 = 1_609_459_200 * 10_000_000;

/// The app, and the hand on its clock.
pub struct Bench {
    pub app: App<Db>,
    pub clock: Arc<ManualClock>,
    pub db: Arc<Db>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(Config::default())
    }

    pub fn with(config: Config) -> Bench {
        Bench::over(Arc::new(SimFs::new()), config)
    }

    pub fn over(disk: Arc<dyn Vfs>, config: Config) -> Bench {
        let clock = Arc::new(ManualClock::at(START));
        let options = tabulith::options::Options {
            advanced: tabulith::options::Advanced {
                wal_segment_bytes: 1 << 20,
                memtable_bytes: Some(1 << 20),
                block_cache_bytes: Some(1 << 20),
                ..Default::default()
            },
            ..Default::default()
        };
        let db = Db::builder()
            .options(options)
            .parts(disk, clock.clone(), Arc::new(ByHand))
            .open("data")
            .expect("a database in memory opens");
        let db = Arc::new(db);
        let tables = Arc::new(TableStore::with_clock(db.clone(), clock.clone()));
        let app = App::new(config, tables, clock.clone(), 1);
        Bench { app, clock, db }
    }

    /// Sends a request as the owner of the development account.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut request = request(method, path, headers, body);
        sign(&mut request.head, &date_of(self.clock.wall_ticks()));
        self.app.answer(request)
    }
}

/// A request without credentials. `path` is below the development account.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let mut head = Head {
        method: method.to_owned(),
        target: format!("/{DEVELOPMENT_ACCOUNT}{path}"),
        authority: "127.0.0.1:10002".to_owned(),
        ..Head::default()
    };
    for (name, value) in headers {
        head.headers.push(*name, *value);
    }
    if !body.is_empty() || method == "POST" || method == "PUT" {
        head.headers.push("Content-Length", body.len().to_string());
    }
    let body = if body.is_empty() { Body::Empty } else { Body::Whole(body.to_owned().into()) };
    Request { head, body }
}

/// A request as it goes over the wire, on a connection that it is the last one of.
pub fn wire_text(request: &Request) -> String {
    let head = &request.head;
    let mut text =
        format!("{} {} HTTP/1.1\r\nHost: {}\r\n", head.method, head.target, head.authority);
    for (name, value) in head.headers.iter() {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("Connection: close\r\n\r\n");
    if let Body::Whole(body) = &request.body {
        text.push_str(&String::from_utf8_lossy(body));
    }
    text
}

/// Signs with SharedKeyLite and the development key.
pub fn sign(head: &mut Head, date: &str) {
    let comp = head.query().split('&').find_map(|part| part.strip_prefix("comp="));
    let resource = canonical::resource(DEVELOPMENT_ACCOUNT, head.path(), comp);
    let signature =
        signature_text(&Key::development(), &canonical::shared_key_lite(date, &resource));
    head.headers.push("x-ms-date", date);
    head.headers.push("Authorization", format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}"));
}

/// The date of an HTTP header.
pub fn date_of(ticks: u64) -> String {
    let seconds = i64::try_from(ticks / 10_000_000).expect("before the year 30,000");
    let moment = jiff::Timestamp::from_second(seconds).expect("a moment");
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A moment that no test reaches.
pub const FAR: &str = "2099-01-01T00:00:00Z";

/// The client's half of shared access signatures: fields, and what signing them says. Written from
/// the protocol's documentation, apart from the server's half.
#[derive(Clone, Debug)]
pub struct Sas {
    pub account: String,
    pub key: Key,
    pub fields: Vec<(&'static str, String)>,
}

impl Sas {
    /// A table SAS that says neither what nor for which keys.
    pub fn table(table: &str) -> Sas {
        Sas::new().with("sv", "2019-02-02").with("tn", table).with("se", FAR)
    }

    /// An account SAS for tables that says neither what nor for which resources.
    pub fn account() -> Sas {
        Sas::new().with("sv", "2019-02-02").with("ss", "t").with("se", FAR)
    }

    fn new() -> Sas {
        let account = DEVELOPMENT_ACCOUNT.to_owned();
        Sas { account, key: Key::development(), fields: Vec::new() }
    }

    /// With a field, in place of one of that name.
    pub fn with(&self, name: &'static str, value: &str) -> Sas {
        let mut sas = self.without(name);
        sas.fields.push((name, value.to_owned()));
        sas
    }

    /// Without a field.
    pub fn without(&self, name: &str) -> Sas {
        let mut sas = self.clone();
        sas.fields.retain(|(own, _)| *own != name);
        sas
    }

    /// The value of a field, or nothing.
    pub fn get(&self, name: &str) -> &str {
        let field = self.fields.iter().find(|(own, _)| *own == name);
        field.map_or("", |(_, value)| value.as_str())
    }

    /// What is signed.
    pub fn string_to_sign(&self) -> String {
        let (account, version) = (&self.account, self.get("sv"));
        let table = self.get("tn").to_ascii_lowercase();
        let lines: Vec<String> = match (self.get("tn").is_empty(), version) {
            (true, version) => {
                let mut text = format!(
                    "{account}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{version}\n",
                    self.get("sp"),
                    self.get("ss"),
                    self.get("srt"),
                    self.get("st"),
                    self.get("se"),
                    self.get("sip"),
                    self.get("spr"),
                );
                if version >= "2020-12-06" {
                    text += &format!("{}\n", self.get("ses"));
                }
                return text;
            }
            (false, version) if version < "2015-02-21" => {
                let resource = format!("/{account}/{table}");
                let fields = ["sp", "st", "se", "@", "si", "sv", "spk", "srk", "epk", "erk"];
                fields
                    .map(|f| if f == "@" { resource.clone() } else { self.get(f).to_owned() })
                    .into()
            }
            (false, version) if version < "2015-04-05" => {
                let resource = format!("/table/{account}/{table}");
                let fields = ["sp", "st", "se", "@", "si", "sv", "spk", "srk", "epk", "erk"];
                fields
                    .map(|f| if f == "@" { resource.clone() } else { self.get(f).to_owned() })
                    .into()
            }
            (false, _) => {
                let resource = format!("/table/{account}/{table}");
                let fields =
                    ["sp", "st", "se", "@", "si", "sip", "spr", "sv", "spk", "srk", "epk", "erk"];
                fields
                    .map(|f| if f == "@" { resource.clone() } else { self.get(f).to_owned() })
                    .into()
            }
        };
        lines.join("\n")
    }

    /// The fields and their signature as a query string.
    pub fn token(&self) -> String {
        self.token_signed(&signature_text(&self.key, &self.string_to_sign()))
    }

    /// The fields and any signature.
    pub fn token_signed(&self, signature: &str) -> String {
        let fields = self.fields.iter().map(|(name, value)| (*name, value.as_str()));
        let all: Vec<String> = fields
            .chain([("sig", signature)])
            .map(|(name, value)| format!("{name}={}", escaped(value)))
            .collect();
        all.join("&")
    }
}

/// Percent-encoding of all but letters and digits.
pub fn escaped(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let escape =
        |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}

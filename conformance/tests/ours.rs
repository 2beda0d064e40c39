//! Every row of the list against our server, in this process, over real sockets: plain and with
//! TLS.
//!
//! Rows that are known to fail stand in known.txt, each with its reason; one that passes must be
//! taken out of it. `TABULITH_ROWS=create` asks only rows whose id begins so, and shows each
//! failure whole; `-- --nocapture` prints the score.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::options::{Durability, Options};
use tabulith::table::store::TableStore;
use tabulith_client::Trust;
use tabulith_conformance::list;
use tabulith_conformance::row::Row;
use tabulith_conformance::run::Outcome;
use tabulith_conformance::score::{Score, told};
use tabulith_conformance::suite::run_all;
use tabulith_conformance::target::{Key, Target};
use tabulith_conformance::tls::Tls;
use tabulith_conformance::wire::{Connect, Plain};
use tabulith_server::config::{
    Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Identity, Tls as ServerTls,
};
use tabulith_server::{Config, Running, Server};

/// A second key for the development account, so that rows about it can be asked.
const SECOND_KEY: &str = "c2Vjb25kIGtleSBvZiB0aGUgZGV2ZWxvcG1lbnQgYWNjb3VudCwgZm9yIHRlc3RzIG9ubHk=";

/// Ids that are known to fail, each with its reason.
fn known() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("../known.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(": ").expect("a line of known.txt is `id: why`")).collect()
}

struct House {
    running: Running,
    _folder: tempfile::TempDir,
}

impl House {
    fn start() -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { durability: Durability::Buffered, ..Options::default() };
        let db = Db::builder().options(options).open(folder.path().join("data"));
        let store = Arc::new(TableStore::new(Arc::new(db.expect("a database"))));
        let accounts = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}:{SECOND_KEY}");
        let listen = ([127, 0, 0, 1], 0).into();
        let tls = ServerTls {
            listen,
            identity: Identity::SelfSigned,
            handshake_time_max: Duration::from_secs(60),
        };
        let config = Config {
            listen,
            tls: Some(tls),
            accounts: Accounts::parse(&accounts).expect("accounts"),
            ..Config::default()
        };
        let running = Server::start(config, store).expect("a server");
        House { running, _folder: folder }
    }

    fn tls(&self) -> (String, Tls) {
        let port = self.running.tls_addr().expect("it listens for TLS").port();
        let pem = self.running.own_certificate().expect("a certificate");
        let trust = Trust::nobody().with_pem(pem.as_bytes()).expect("a root");
        (format!("https://localhost:{port}"), Tls::new(trust.config().expect("settings of TLS")))
    }
}

fn target(address: &str) -> Target {
    let key = Key::of_base64(DEVELOPMENT_KEY).expect("a key");
    let endpoint = format!("{address}/{DEVELOPMENT_ACCOUNT}");
    let mut target = Target::new(&endpoint, None, key).expect("a target");
    target.second_key = Some(Key::of_base64(SECOND_KEY).expect("a key"));
    target.service_changes = true;
    target
}

#[test]
fn rows() {
    let house = House::start();
    let skipped = ask(&target(&format!("http://{}", house.running.addr())), &Plain);
    assert_eq!(skipped, 0, "rows that were not asked");
}

#[test]
fn rows_over_tls() {
    let house = House::start();
    let (address, tls) = house.tls();
    let skipped = ask(&target(&address), &tls);
    assert!(skipped < 20, "{skipped} rows were not asked");
}

/// Asks every row; returns how many the target cannot be asked.
fn ask(target: &Target, connect: &dyn Connect) -> usize {
    let only = std::env::var("TABULITH_ROWS").unwrap_or_default();
    let mut rows: Vec<Row> = list::rows().expect("the list");
    rows.retain(|row| row.id.starts_with(&only));
    let known = known();
    let outcomes = run_all(&rows, target, connect, 4);
    println!("{}", Score::of(&rows, &outcomes).text());
    let (mut fresh, mut mended, mut skipped) = (Vec::new(), Vec::new(), 0);
    for (row, outcome) in rows.iter().zip(&outcomes) {
        match (outcome, known.contains_key(row.id.as_str())) {
            (Outcome::Failed(failure), known) => {
                if !known || !only.is_empty() {
                    println!("{}", told(row, failure));
                }
                if !known {
                    fresh.push(format!("{}: {}", row.id, failure.differences.join("; ")));
                }
            }
            (Outcome::Passed, true) => mended.push(row.id.clone()),
            (Outcome::Skipped(need), _) => {
                println!("{} needs {}", row.id, need.missing());
                skipped += 1;
            }
            (Outcome::Passed, false) => {}
        }
    }
    assert!(fresh.is_empty(), "{} rows fail:\n{}", fresh.len(), fresh.join("\n"));
    assert!(mended.is_empty(), "take out of known.txt, they pass: {}", mended.join(", "));
    let all: Vec<Row> = list::rows().expect("the list");
    for id in known.keys() {
        assert!(all.iter().any(|row| row.id == *id), "known.txt names {id}, which is no row");
    }
    skipped
}

//! Every row of the list against our server, in this process, over real sockets.
//!
//! Rows that are known to fail stand in known.txt, each with its reason; one that passes must be
//! taken out of it. `TABULITH_ROWS=create` asks only rows whose id begins so, and shows each
//! failure whole; `-- --nocapture` prints the score.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::options::{Durability, Options};
use tabulith::table::store::TableStore;
use tabulith_conformance::list;
use tabulith_conformance::row::Row;
use tabulith_conformance::run::Outcome;
use tabulith_conformance::score::{Score, told};
use tabulith_conformance::suite::run_all;
use tabulith_conformance::target::{Key, Target};
use tabulith_conformance::wire::Plain;
use tabulith_server::config::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tabulith_server::{Config, Running, Server};

/// A second key for the development account, so that rows about it can be asked.
const SECOND_KEY: &str = "c2Vjb25kIGtleSBvZiB0aGUgZGV2ZWxvcG1lbnQgYWNjb3VudCwgZm9yIHRlc3RzIG9ubHk=";

/// Ids that are known to fail, each with its reason.
fn known() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("../known.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(": ").expect("a line of known.txt is `id: why`")).collect()
}

fn start() -> (Running, Target, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { durability: Durability::Buffered, ..Options::default() };
    let db = Db::builder().options(options).open(folder.path().join("data")).expect("a database");
    let accounts = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}:{SECOND_KEY}");
    let config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        accounts: Accounts::parse(&accounts).expect("accounts"),
        ..Config::default()
    };
    let running = Server::start(config, Arc::new(TableStore::new(Arc::new(db)))).expect("a server");
    let endpoint = format!("http://{}/{DEVELOPMENT_ACCOUNT}", running.addr());
    let key = Key::of_base64(DEVELOPMENT_KEY).expect("a key");
    let mut target = Target::new(&endpoint, None, key).expect("a target");
    target.second_key = Some(Key::of_base64(SECOND_KEY).expect("a key"));
    target.service_changes = true;
    (running, target, folder)
}

#[test]
fn rows() {
    let only = std::env::var("TABULITH_ROWS").unwrap_or_default();
    let mut rows: Vec<Row> = list::rows().expect("the list");
    rows.retain(|row| row.id.starts_with(&only));
    let known = known();
    let (_running, target, _folder) = start();
    let outcomes = run_all(&rows, &target, &Plain, 4);
    println!("{}", Score::of(&rows, &outcomes).text());
    let (mut fresh, mut mended) = (Vec::new(), Vec::new());
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
            (Outcome::Skipped(need), _) => println!("{} needs {}", row.id, need.missing()),
            (Outcome::Passed, false) => {}
        }
    }
    assert!(fresh.is_empty(), "{} rows fail:\n{}", fresh.len(), fresh.join("\n"));
    assert!(mended.is_empty(), "take out of known.txt, they pass: {}", mended.join(", "));
    let all: Vec<Row> = list::rows().expect("the list");
    for id in known.keys() {
        assert!(all.iter().any(|row| row.id == *id), "known.txt names {id}, which is no row");
    }
}

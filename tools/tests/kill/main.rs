//! The real program on the real disk: killed with SIGKILL while clients load rows, started again,
//! and asked for everything that it had acknowledged.
//!
//! Four clients insert single rows and whole transactions, each noting what was acknowledged. At a
//! random number of acknowledgements the process is killed, with the other clients in the middle of
//! something. After each start every acknowledged row is there, with its content, and a transaction
//! that was not acknowledged is there whole or not at all. The folder stays the same throughout; the
//! table is another one now and then, and in the end all of them are read once more.
//!
//! `TABULITH_KILLS=5000` kills more often than the default of 100; `TABULITH_SEED` replays the choices;
//! `TABULITH_BIN` names another program, such as target/release/tabulith.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]
#![allow(clippy::disallowed_methods, reason = "drives a process, not the engine")]

mod client;

use client::Client;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const CLIENTS: usize = 4;
const KILLS_DEFAULT: u64 = 100;
/// So many kills a table sees: all of its rows are read after each.
const KILLS_PER_TABLE: u64 = 50;
const START_WAIT: Duration = Duration::from_secs(30);

/// One commit of a client: `rows` rows of its partition, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Commit {
    client: usize,
    number: u64,
    rows: usize,
}

impl Commit {
    fn entities(&self) -> Vec<String> {
        (0..self.rows).map(|row| self.entity(row)).collect()
    }

    fn entity(&self, row: usize) -> String {
        format!(
            "{{\"PartitionKey\":\"c{}\",\"RowKey\":\"{}\",\"Rows\":{},\"Text\":\"{}\"}}",
            self.client,
            self.row_key(row),
            self.rows,
            self.text(row)
        )
    }

    fn row_key(&self, row: usize) -> String {
        format!("{:08}-{row:03}", self.number)
    }

    /// Content that no other row has, of a length that varies.
    fn text(&self, row: usize) -> String {
        format!("{}/{}/{row} ", self.client, self.number).repeat(1 + (self.number as usize % 40))
    }
}

/// The server process; killed when it drops.
struct Server {
    process: Child,
    port: u16,
    opened_in: Duration,
}

impl Server {
    /// Starts on `dir` and waits for the first answer.
    fn start(dir: &Path) -> Server {
        let start = Instant::now();
        let port = free_port();
        let process = Command::new(program())
            .args(["serve", "--port", &port.to_string(), "--data-dir"])
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the program starts");
        let mut server = Server { process, port, opened_in: Duration::ZERO };
        while Client::connect(port).and_then(|mut c| c.page("Tables", "")).is_err() {
            let ended = server.process.try_wait().expect("its state");
            assert!(ended.is_none(), "the server ended at start: {ended:?}");
            assert!(start.elapsed() < START_WAIT, "no answer after {START_WAIT:?}");
            std::thread::yield_now();
        }
        server.opened_in = start.elapsed();
        server
    }

    fn kill(mut self) {
        self.process.kill().expect("a living process");
        self.process.wait().expect("its end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program under test.
fn program() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_tabulith").into();
    std::env::var_os("TABULITH_BIN").map_or_else(built, PathBuf::from)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Commits until the server dies; each acknowledged commit goes to `acked`. Returns the commit that
/// was under way then.
fn load(
    port: u16,
    table: &str,
    client: usize,
    first: u64,
    mut rng: Rng,
    acked: Sender<Commit>,
) -> Commit {
    let mut connection = Client::connect(port).ok();
    let mut number = first;
    loop {
        let rows = match rng.below(20) {
            0 => 100,
            1..=5 => rng.between(2, 12),
            _ => 1,
        };
        let commit = Commit { client, number, rows };
        let Some(open) = connection.as_mut() else { return commit };
        let entities = commit.entities();
        let sent = match &entities[..] {
            [one] => open.insert(table, one).map(|reply| (reply.status == 201, reply)),
            all => open.insert_batch(table, all).map(|reply| {
                let each = reply.body.matches("HTTP/1.1 204").count();
                (reply.status == 202 && each == commit.rows, reply)
            }),
        };
        match sent {
            Ok((true, _)) => {
                if acked.send(commit).is_err() {
                    return commit;
                }
                number += 1;
            }
            Ok((false, reply)) => panic!("{commit:?}: {} {}", reply.status, reply.body),
            Err(_) => return commit, // Killed: nobody knows whether it is there.
        }
    }
}

/// What the server holds: rows by client and RowKey, each with its declared count and text.
fn read_all(port: u16, table: &str) -> BTreeMap<(usize, String), (usize, String)> {
    let mut client = Client::connect(port).expect("a connection");
    let mut rows = BTreeMap::new();
    let mut query = String::new();
    loop {
        let reply = client.page(table, &query).expect("a page");
        assert_eq!(reply.status, 200, "{}", reply.body);
        let page: serde_json::Value = serde_json::from_str(&reply.body).expect("JSON");
        for row in page["value"].as_array().expect("rows") {
            let text = |name: &str| row[name].as_str().expect("text").to_owned();
            let client = text("PartitionKey")[1..].parse().expect("a client");
            let count = row["Rows"].as_u64().expect("a count") as usize;
            let old = rows.insert((client, text("RowKey")), (count, text("Text")));
            assert_eq!(old, None, "a row came twice");
        }
        let next = |name: &str| reply.header(name).map(percent_encoded);
        match next("x-ms-continuation-nextpartitionkey") {
            None => return rows,
            Some(partition) => {
                let row = next("x-ms-continuation-nextrowkey").unwrap_or_default();
                query = format!("?NextPartitionKey={partition}&NextRowKey={row}");
            }
        }
    }
}

fn percent_encoded(token: &str) -> String {
    token.replace('!', "%21").replace('+', "%2B").replace('/', "%2F")
}

/// Every acknowledged commit is whole, every other is whole or absent, and nothing else is there.
/// Returns the commits that are there.
fn verify(port: u16, table: &str, acked: &[Commit], unknown: &[Commit]) -> Vec<Commit> {
    let mut rows = read_all(port, table);
    let mut there = Vec::new();
    let all = acked.iter().map(|c| (c, true)).chain(unknown.iter().map(|c| (c, false)));
    for (commit, is_acked) in all {
        let found = (0..commit.rows)
            .filter(|row| {
                let key = (commit.client, commit.row_key(*row));
                rows.remove(&key) == Some((commit.rows, commit.text(*row)))
            })
            .count();
        assert!(
            !is_acked || found == commit.rows,
            "{commit:?} was acknowledged; {found} rows left"
        );
        assert!(found == 0 || found == commit.rows, "{commit:?} is half there: {found} rows");
        if found > 0 {
            there.push(*commit);
        }
    }
    assert!(rows.is_empty(), "rows that nobody wrote: {:?}", rows.keys().next());
    there
}

#[test]
fn what_was_acknowledged_survives_every_kill() {
    let kills = seed::number("TABULITH_KILLS").unwrap_or(KILLS_DEFAULT);
    let seed = seed::seed_or(20_261_120);
    let command = format!("TABULITH_KILLS={kills} cargo test -p tabulith-tools --test kill");
    let _replay = Replay::new(seed, command);
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("data");
    let mut there: Vec<Commit> = Vec::new();
    let mut slowest = Duration::ZERO;
    let mut acknowledged = 0;

    let mut server = Server::start(&dir);
    let (mut tables, mut table) = (BTreeMap::new(), String::new());
    for kill in 1..=kills {
        if kill % KILLS_PER_TABLE == 1 {
            tables.insert(table, std::mem::take(&mut there));
            table = format!("load{kill}");
            let made = Client::connect(server.port).and_then(|mut c| c.create_table(&table));
            assert_eq!(made.expect("a table").status, 201);
        }
        let (sender, receiver) = mpsc::channel();
        let next = |client| {
            let own = there.iter().filter(|commit| commit.client == client);
            own.map(|commit| commit.number + 1).max().unwrap_or(0)
        };
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (port, first, table) = (server.port, next(client), table.clone());
                let (rng, sender) = (Rng::new(rng.next_u64()), sender.clone());
                std::thread::spawn(move || load(port, &table, client, first, rng, sender))
            })
            .collect();
        drop(sender);
        let until = rng.between(1, 60);
        let mut acked: Vec<Commit> = receiver.iter().take(until).collect();
        server.kill();
        let unknown: Vec<Commit> =
            clients.into_iter().map(|client| client.join().expect("a client")).collect();
        acked.extend(receiver.iter());
        let fresh = acked.len();
        acknowledged += fresh as u64;
        acked.extend(&there);

        server = Server::start(&dir);
        slowest = slowest.max(server.opened_in);
        there = verify(server.port, &table, &acked, &unknown);
        let rows: usize = there.iter().map(|commit| commit.rows).sum();
        eprintln!(
            "kill {kill:>2}: {fresh} commits acknowledged in this run, {rows} rows there in all, \
             {} of {} unacknowledged commits there, open and first answer in {:?}",
            there.len() - acked.len(),
            unknown.len(),
            server.opened_in
        );
    }
    tables.insert(table, there);
    for (table, there) in tables.iter().filter(|(table, _)| !table.is_empty()) {
        verify(server.port, table, there, &[]);
    }
    server.kill();
    let check = Command::new(program()).arg("check").arg(&dir).output();
    let check = check.expect("check runs");
    let said = [check.stdout, check.stderr].concat();
    assert!(check.status.success(), "check: {}", String::from_utf8_lossy(&said));
    eprintln!("{kills} kills, 0 acknowledged rows lost, slowest open {slowest:?}");
    let floors = [count("kills", kills, 1), count("acknowledged", acknowledged, kills)];
    counts::tell("kill", &floors);
}

//! The real program on the real disk: killed with SIGKILL while clients load rows, started again,
//! and asked for everything that it had acknowledged.
//!
//! Four clients insert single rows and whole transactions, each noting what was acknowledged. At a
//! random number of acknowledgements the process is killed, with the other clients in the middle of
//! something. After each start every acknowledged row is there, with its content, and a transaction
//! that was not acknowledged is there whole or not at all. The folder stays the same throughout;
//! the table is another one now and then, and in the end all of them are read once more.
//!
//! `TABULITH_KILLS=5000` kills more often than the default of 100; `TABULITH_SEED` replays the
//! choices; `TABULITH_BIN` names another program, such as target/release/tabulith.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]
#![allow(clippy::disallowed_methods, reason = "drives a process, not the engine")]

mod client;
mod load;

use client::Client;
use load::{Commit, load, verify};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const CLIENTS: usize = 4;
const KILLS_DEFAULT: u64 = 100;
/// So many kills a table sees: all of its rows are read after each.
const KILLS_PER_TABLE: u64 = 50;
const START_WAIT: Duration = Duration::from_secs(30);

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
            let own = there.iter().filter(|commit| commit.writer == client);
            own.map(|commit| commit.number + 1).max().unwrap_or(0)
        };
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (port, first, table) = (server.port, next(client), table.clone());
                let (rng, sender) = (Rng::new(rng.next_u64()), sender.clone());
                std::thread::spawn(move || load(port, &table, client, first, false, rng, sender))
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

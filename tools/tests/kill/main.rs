//! The real program on the real disk: killed with SIGKILL while clients load rows, started again,
//! and asked for everything that it had acknowledged.
//!
//! Four clients insert single rows and whole transactions, each noting what was acknowledged; two
//! more replace, merge and delete the same few rows. At a random number of acknowledgements the
//! process is killed, with the other clients in the middle of something. It has little memory, so
//! that it may be in the middle of a flush or a merge. After each start every acknowledged row is
//! there, with its content, what was deleted is not, and a request that was not acknowledged has
//! happened whole or not at all. The folder stays the same throughout; the table is another one now
//! and then, and in the end all of them are read once more.
//!
//! `TABULITH_KILLS=5000` kills more often than the default of 100; `TABULITH_SEED` replays the
//! choices; `TABULITH_BIN` names another program, such as target/release/tabulith.
#![allow(clippy::print_stderr, reason = "the figures are what the run is for")]
#![allow(clippy::disallowed_methods, reason = "drives a process, not the engine")]

mod client;
mod load;
mod changes;

use changes::{Changer, TABLE};
use client::Client;
use load::{Commit, load, verify};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const CLIENTS: usize = 4;
const CHANGERS: usize = 2;
/// In MiB: memtables of 1.6.
const MEMORY: &str = "32";
/// The server is asked for what it has done before one kill in so many.
const ASKED_EVERY: u64 = 2;
/// And before one in so many it has had time to flush more than once.
const LATE_EVERY: u64 = 10;
const LATE: usize = 200;
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
            .args(["serve", "--memory", MEMORY, "--port", &port.to_string(), "--data-dir"])
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

    /// How many flushes and merges it has done.
    fn work(&self) -> [u64; 2] {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("it listens");
        let ask = "GET /_/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(ask.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        ["tabulith_flushes_total ", "tabulith_compactions_total "].map(|name| {
            let number = text.lines().find_map(|line| line.strip_prefix(name));
            number.and_then(|number| number.parse().ok()).expect("a number")
        })
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
    let made = Client::connect(server.port).and_then(|mut c| c.create_table(TABLE));
    assert_eq!(made.expect("a table").status, 201);
    let mut changers: Vec<_> = (0..CHANGERS).map(Changer::new).collect();
    let (mut flushes, mut merges, mut happened) = (0, 0, 0);
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
        let changing: Vec<_> = std::mem::take(&mut changers)
            .into_iter()
            .map(|changer| {
                let (port, rng) = (server.port, Rng::new(rng.next_u64()));
                std::thread::spawn(move || changer.run(port, rng))
            })
            .collect();
        let soon = rng.between(1, 60);
        let until = if kill.is_multiple_of(LATE_EVERY) { LATE } else { soon };
        let mut acked: Vec<Commit> = receiver.iter().take(until).collect();
        if kill.is_multiple_of(ASKED_EVERY) {
            let work = server.work();
            flushes += work[0];
            merges += work[1];
        }
        server.kill();
        changers.extend(changing.into_iter().map(|one| one.join().expect("a client")));
        let unknown: Vec<Commit> =
            clients.into_iter().map(|client| client.join().expect("a client")).collect();
        acked.extend(receiver.iter());
        let fresh = acked.len();
        acknowledged += fresh as u64;
        acked.extend(&there);

        server = Server::start(&dir);
        slowest = slowest.max(server.opened_in);
        there = verify(server.port, &table, &acked, &unknown);
        happened += changes::verify(server.port, &mut changers);
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
    let sum = |of: fn(&Changer) -> u64| changers.iter().map(of).sum::<u64>();
    eprintln!(
        "{kills} kills, 0 acknowledged rows lost, slowest open {slowest:?}; before {} of them {flushes} \
         flushes and {merges} merges; {happened} unacknowledged changes there",
        kills / ASKED_EVERY
    );
    let floors = [
        count("kills", kills, 1),
        count("acknowledged", acknowledged, kills),
        count("changed", sum(|one| one.acked.changes), 2 * kills),
        count("deleted", sum(|one| one.acked.deletes), kills / 4),
        count("batches", sum(|one| one.acked.batches), kills / 4),
        count("flushes", flushes, kills / 10),
        count("merges", merges, kills / 20),
    ];
    counts::tell("kill", &floors);
}

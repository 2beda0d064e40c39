//! How much gets done under ten times the load:
//! `cargo run --release -p tabulith-tools --example overload`.
//!
//! Clients write as fast as they are answered, each over its own connection, and ask again at once
//! where they are refused, whatever Retry-After says. Their number is raised until no more gets
//! done; then come ten times as many. What counts is acknowledged writes per second. Clients and
//! server share the machine, so that the tenfold crowd costs some of what it measures.
//!
//! Arguments: seconds per step, 4 if none. `TABULITH_BIN` names another program than the one beside
//! this example.
#![allow(clippy::print_stdout, reason = "the figures are what it is for")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "measures a process by the clock"
)]

#[path = "../tests/kill/client.rs"]
mod client;

use client::Client;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A kind of load.
struct Load {
    name: &'static str,
    /// Entities of a request, and bytes of each.
    entities: usize,
    bytes: usize,
    options: &'static [&'static str],
}

const LOADS: [Load; 2] = [
    Load { name: "rows of 1 KB", entities: 1, bytes: 1000, options: &[] },
    Load {
        name: "batches of 1 MB, room for 6",
        entities: 100,
        bytes: 10_000,
        options: &["--body-memory", "16"],
    },
];

struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(options: &[&str]) -> Server {
        let beside = || {
            let own = std::env::current_exe().unwrap();
            own.parent().unwrap().parent().unwrap().join("tabulith")
        };
        let program = std::env::var_os("TABULITH_BIN").map_or_else(beside, PathBuf::from);
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.args(["serve", "--port", "0", "--data-dir"]).arg(folder.path()).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program, built with the same profile");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("\ndurability ") && out.read_line(&mut said).unwrap() > 0 {}
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        let port = said.split("http://127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
        let port = port.and_then(|port| port.parse().ok()).expect("a server that listens");
        assert_eq!(Client::connect(port).unwrap().create_table("rows").unwrap().status, 201);
        Server { child, port, _folder: folder }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What clients were told: how often each status, 0 for a connection that broke.
type Told = BTreeMap<u16, u64>;

fn run(server: &Server, load: &Load, clients: usize, time: Duration, first: &AtomicU64) -> Told {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = || {
            let mut told = Told::new();
            let mut client = Client::connect(server.port).expect("a connection");
            let text = "x".repeat(load.bytes / 2);
            let no = first.fetch_add(1, Ordering::Relaxed);
            let entity = |row: u64| {
                format!(
                    "{{\"PartitionKey\":\"p{no}\",\"RowKey\":\"{row:010}\",\"A\":\"{text}\",\"B\":\"{text}\"}}"
                )
            };
            let mut row = 0;
            while !over.load(Ordering::Relaxed) {
                let entities: Vec<_> = (0..load.entities as u64).map(|n| entity(row + n)).collect();
                let reply = match &entities[..] {
                    [one] => client.insert("rows", one),
                    all => client.insert_batch("rows", all),
                };
                let status = reply.as_ref().map_or(0, |reply| reply.status);
                if over.load(Ordering::Relaxed) {
                    break;
                }
                *told.entry(status).or_default() += 1;
                match status {
                    201 | 202 => row += load.entities as u64,
                    0 => client = Client::connect(server.port).expect("a connection"),
                    _ => {}
                }
            }
            told
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        std::thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        let mut all = Told::new();
        for told in clients.into_iter().map(|client| client.join().unwrap()) {
            told.into_iter().for_each(|(status, count)| *all.entry(status).or_default() += count);
        }
        all
    })
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(4.0);
    let time = Duration::from_secs_f64(seconds);
    for load in &LOADS {
        println!("{}", load.name);
        let server = Server::start(load.options);
        let first = AtomicU64::new(0);
        let measure = |clients: usize| {
            let told = run(&server, load, clients, time, &first);
            let done = told.get(&201).or(told.get(&202)).copied().unwrap_or(0);
            let rate = done as f64 / seconds;
            println!("  {clients:>5} clients: {rate:>9.1} writes a second; statuses {told:?}");
            rate
        };
        measure(4); // Warms up.
        let rates = [1, 2, 4, 8, 16, 32, 64].map(|clients| (clients, measure(clients)));
        let (clients, peak) = rates.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let tenfold = measure(10 * clients);
        println!(
            "  peak {peak:.1} by {clients}; by {} {:.1} %",
            10 * clients,
            100.0 * tenfold / peak
        );
    }
}

//! The real program on a file system that forgets what was not synced.
//!
//! `cargo run --release --manifest-path tests/amnesia/Cargo.toml -- [ROUNDS]`, as root, with
//! `TABULITH_BIN` naming the program. A round: clients load rows over HTTP; at a random number of
//! acknowledgements the process is killed and the disk loses its power: of every sector, length and
//! name that no sync had covered, chance decides what is left (`vfs::mem`, on the ordered and on
//! the hostile kind of disk). The program starts on what is left: every acknowledged row must be
//! there, every other commit whole or absent. In some rounds a call of the disk fails before that.
//!
//! This is how the simulated disk of the other tests is held against real system calls: whatever
//! the program does through the kernel, the simulation has to answer. `AMNESIA_LIES=1` makes a disk
//! that forgets synced writes, to see that the loss is found.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the figures are what it is for")]

#[path = "../../../tools/tests/kill/client.rs"]
mod client;
#[path = "../../../tools/tests/kill/load.rs"]
mod load;
mod forgetful;

use client::Client;
use forgetful::{Calls, Forgetful};
use fuser::{BackgroundSession, Config, MountOption};
use load::{Commit, load, verify};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use tabulith::vfs::fault::{Call, Errno, FaultFs, Rule};
use tabulith::vfs::mem::{Profile, SimFs};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Replay, Rng};

const ROUNDS_DEFAULT: u64 = 100;
const CLIENTS: usize = 4;
/// So many rounds a table sees: all of its rows are read after each.
const ROUNDS_PER_TABLE: u64 = 25;
/// States of a power loss among which chance decides.
const STATES: usize = 64;

/// Whether the disk says of synced writes that they are, and forgets them: the run must fail then.
fn lies() -> bool {
    std::env::var_os("AMNESIA_LIES").is_some()
}

/// The program on a mounted disk; killed when it drops, before the disk goes.
struct Server {
    child: Child,
    port: u16,
    mount: Option<BackgroundSession>,
}

impl Server {
    fn start(disk: &FaultFs, calls: &Arc<Calls>, dir: &Path) -> Server {
        let forgetful = Forgetful::new(Arc::new(disk.clone()), Arc::clone(calls), lies());
        let mut config = Config::default();
        config.mount_options.push(MountOption::FSName("amnesia".to_owned()));
        config.n_threads = Some(2);
        let mount = fuser::spawn_mount(forgetful, dir, &config).expect("root, and /dev/fuse");
        let program = std::env::var_os("TABULITH_BIN").expect("TABULITH_BIN names the program");
        let mut command = Command::new(program);
        command.args(["serve", "--port", "0", "--data-dir"]).arg(dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the program");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let mut said = String::new();
        while !said.contains("\ndurability ") && out.read_line(&mut said).expect("text") > 0 {}
        let port = said.split("http://127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
        let Some(port) = port.and_then(|port| port.parse().ok()) else {
            let ended = child.wait();
            panic!("the program ended at start: {ended:?}");
        };
        Server { child, port, mount: Some(mount) }
    }

    /// The power fails: the process is gone, and the disk is what the caller makes of it.
    fn end(mut self) {
        self.child.kill().expect("a living process");
        self.child.wait().expect("its end");
        let mount = self.mount.take().expect("a mount");
        // The end of the mount reaches some threads as an aborted connection.
        let ended = mount.umount_and_join();
        let ended = ended.or_else(|error| match error.kind() {
            std::io::ErrorKind::ConnectionAborted => Ok(()),
            _ => Err(error),
        });
        ended.expect("nobody has a file open");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(mount) = self.mount.take() {
            let _ = mount.umount_and_join();
        }
    }
}

/// What fails in a round, and on which files.
fn fault(rng: &mut Rng) -> Rule {
    let name = ["*.wal", "*.sst", "*"][rng.below(3)];
    let skip = rng.below(40) as u64;
    let rule = match rng.below(4) {
        0 => Rule::fail(Call::Sync),
        1 => Rule::fail(Call::Write).half_done(),
        2 => Rule::fail(Call::Write).with(Errno::NoSpace),
        _ => Rule::fail(Call::Write),
    };
    rule.named(name).skip(skip)
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let rounds: u64 = rounds.unwrap_or(ROUNDS_DEFAULT);
    let seed = seed::seed_or(20_261_122);
    let command =
        format!("cargo run --release --manifest-path tests/amnesia/Cargo.toml -- {rounds}");
    let _replay = Replay::new(seed, command);
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let calls = Arc::new(Calls::default());

    let mut sim = SimFs::new();
    let mut disk = FaultFs::new(Arc::new(sim.clone()));
    let mut server = Server::start(&disk, &calls, folder.path());
    let (mut there, mut table) = (Vec::<Commit>::new(), String::new());
    let (mut acknowledged, mut losses, mut kills, mut failures, mut forgotten) = (0, 0, 0, 0, 0);
    for round in 0..rounds {
        if round % ROUNDS_PER_TABLE == 0 {
            table = format!("load{round}");
            there.clear();
            let made = Client::connect(server.port).and_then(|mut c| c.create_table(&table));
            assert_eq!(made.expect("a table").status, 201);
        }
        let fails = rng.below(4) == 0;
        if fails {
            disk.add(fault(&mut rng));
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
                std::thread::spawn(move || load(port, &table, client, first, fails, rng, sender))
            })
            .collect();
        drop(sender);
        let until = rng.between(1, 120);
        let mut acked: Vec<Commit> = receiver.iter().take(until).collect();
        failures += u64::from(disk.injected() > 0);
        server.end();
        let unknown: Vec<Commit> =
            clients.into_iter().map(|client| client.join().expect("a client")).collect();
        acked.extend(receiver.iter());
        acknowledged += acked.len() as u64;
        acked.extend(&there);

        // Mostly the power fails; sometimes only the process has died.
        sim = match rng.below(8) {
            0 => {
                kills += 1;
                sim.fork()
            }
            _ => {
                losses += 1;
                let profile = [Profile::Ordered, Profile::Hostile][rng.below(2)];
                let states: Vec<_> = sim.crash_states(profile, STATES, rng.next_u64()).collect();
                forgotten += u64::from(states.len() > 1);
                SimFs::after_crash(&states[rng.below(states.len())])
            }
        };
        disk = FaultFs::new(Arc::new(sim.clone()));
        server = Server::start(&disk, &calls, folder.path());
        there = verify(server.port, &table, &acked, &unknown);
        println!(
            "round {round:>3}: {} acknowledged in all, {} of {} others there",
            acked.len(),
            there.len() - acked.len(),
            unknown.len()
        );
    }
    server.end();
    let said = |number: &AtomicU64| number.load(Ordering::Relaxed);
    println!(
        "{} writes, {} synced writes, {} syncs, {} syncs of the folder, {} calls that failed",
        said(&calls.writes),
        said(&calls.synced_writes),
        said(&calls.syncs),
        said(&calls.folder_syncs),
        said(&calls.failed)
    );
    println!("{acknowledged} commits acknowledged, 0 lost");
    let floors = [
        count("losses", losses, rounds / 2),
        count("undecided", forgotten, rounds / 4),
        count("kills", kills, 0),
        count("failures", failures, rounds / 20),
        count("acknowledged", acknowledged, rounds),
        count("syncs", said(&calls.syncs) + said(&calls.synced_writes), rounds),
    ];
    counts::tell("amnesia", &floors);
}

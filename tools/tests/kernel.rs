//! The real program on the real kernel, where that refuses: a stopped process, a folder that is taken, few
//! files, short files, a full disk, little memory, ten times the load.
//!
//! Limits are set by the shell that becomes the program. What needs root says so and is left out
//! without it.
#![allow(clippy::print_stderr, reason = "what is left out must be seen")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "drives processes and a disk"
)]

mod common;
#[path = "kill/client.rs"]
mod client;

use client::Client;
use common::Place;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// A server under limits; killed in the end.
struct Limited {
    child: Child,
    out: BufReader<ChildStdout>,
    port: u16,
}

impl Limited {
    /// Starts on the folder `data` of `place`, after the shell has done `limits`.
    fn start(place: &Place, limits: &str, more: &[&str]) -> Result<Limited, String> {
        let script = format!("{limits}\nexec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_tabulith"));
        command.args(["serve", "--port", "0", "--data-dir"]).arg(place.path("data")).args(more);
        // To a file: nobody reads a pipe meanwhile.
        let messages = place.path("stderr");
        let stderr = std::fs::File::create(&messages).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("a shell");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let mut said = String::new();
        while !said.contains("\ndurability ") && out.read_line(&mut said).expect("text") > 0 {}
        let port = said.split("http://127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
        match port.and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Limited { child, out, port }),
            None => {
                child.wait().expect("its end");
                Err(std::fs::read_to_string(&messages).expect("text"))
            }
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.port).expect("a connection")
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Whether it is still there.
    fn lives(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Ends it in order; gives its exit code.
    fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        let mut rest = String::new();
        let _ = self.out.read_to_string(&mut rest);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn entity(row: u64, bytes: usize) -> String {
    let text = format!("{row}/").repeat(bytes);
    let half = &text[..bytes / 2];
    format!(
        "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row:08}\",\"Text\":\"{half}\",\"More\":\"{half}\"}}"
    )
}

/// Every row of the table, by number.
fn rows(client: &mut Client) -> BTreeSet<u64> {
    let (mut rows, mut query) = (BTreeSet::new(), String::new());
    loop {
        let reply = client.page("rows", &query).expect("a page");
        assert_eq!(reply.status, 200, "{}", reply.body);
        let page: serde_json::Value = serde_json::from_str(&reply.body).expect("JSON");
        for row in page["value"].as_array().expect("rows") {
            rows.insert(row["RowKey"].as_str().unwrap().parse().expect("a number"));
        }
        let next = |name: &str| reply.header(name).map(|token| token.replace('!', "%21"));
        match next("x-ms-continuation-nextpartitionkey") {
            None => return rows,
            Some(partition) => {
                let row = next("x-ms-continuation-nextrowkey").unwrap_or_default();
                query = format!("?NextPartitionKey={partition}&NextRowKey={row}");
            }
        }
    }
}

fn table(server: &Limited) -> Client {
    let mut client = server.client();
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    client
}

/// All that was acknowledged is there after a start without limits, and the folder is whole.
fn all_there(place: &Place, acked: &BTreeSet<u64>) {
    let server = Limited::start(place, "", &[]).expect("a start without limits");
    let found = rows(&mut server.client());
    let lost: Vec<_> = acked.difference(&found).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert_eq!(server.stop(), Some(0));
    assert!(place.ok(&["check", "data"]).err.contains("is clean"));
}

#[test]
fn a_process_that_was_stopped_goes_on() {
    let place = Place::new();
    let mut server = Limited::start(&place, "", &[]).unwrap();
    let mut client = table(&server);
    let mut acked = BTreeSet::new();
    for row in 0..60 {
        if row % 20 == 10 {
            server.signal("-STOP");
            // Sent to a process that stands still; its answer comes when that goes on.
            let port = server.port;
            let waiting = std::thread::spawn(move || {
                let mut client = Client::connect(port).expect("the kernel accepts");
                client.insert("rows", &entity(1000 + row, 100)).expect("an answer").status
            });
            server.signal("-CONT");
            assert_eq!(waiting.join().unwrap(), 201);
            acked.insert(1000 + row);
        }
        assert_eq!(client.insert("rows", &entity(row, 100)).unwrap().status, 201);
        acked.insert(row);
    }
    assert!(server.lives());
    drop(server);
    all_there(&place, &acked);
}

#[test]
fn a_second_process_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let server = Limited::start(&place, "", &[]).unwrap();
    let mut client = table(&server);
    let second = place.run(&["serve", "--port", "0", "--data-dir", "data"]);
    assert_eq!(second.code, 5, "{}", second.err);
    assert!(second.err.contains("another process"), "{}", second.err);
    let salvage = place.run(&["salvage", "data", "new"]);
    assert_eq!(salvage.code, 5, "{}", salvage.err);
    assert_eq!(client.insert("rows", &entity(1, 100)).unwrap().status, 201);
    drop(server);
    all_there(&place, &BTreeSet::from([1]));
}

#[test]
fn with_few_files_connections_wait_and_nothing_is_lost() {
    let place = Place::new();
    let mut server = Limited::start(&place, "ulimit -n 64", &[]).unwrap();
    let mut client = table(&server);
    assert_eq!(client.insert("rows", &entity(0, 100)).unwrap().status, 201);
    // Far more than there may be files; those that the server cannot take wait in the kernel.
    let idle: Vec<_> = (0..200)
        .filter_map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).ok())
        .collect();
    assert!(idle.len() > 100);
    let mut acked = BTreeSet::from([0]);
    for row in 1..40 {
        let reply = client.insert("rows", &entity(row, 40_000)).unwrap();
        assert_eq!(reply.status, 201, "row {row}: {}", reply.body);
        acked.insert(row);
    }
    assert!(server.lives());
    drop(idle);
    assert_eq!(server.client().insert("rows", &entity(40, 100)).unwrap().status, 201);
    acked.insert(40);
    assert_eq!(rows(&mut client), acked);
    assert_eq!(server.stop(), Some(0));
    all_there(&place, &acked);
}

/// `RLIMIT_FSIZE`: writes beyond it fail as on a broken disk, or a signal ends the process.
#[test]
fn a_limit_on_the_size_of_files_loses_nothing() {
    for ignored in ["trap '' XFSZ; ", ""] {
        let place = Place::new();
        let first = Limited::start(&place, "", &[]).unwrap();
        let mut client = table(&first);
        let mut acked = BTreeSet::new();
        for row in 0..50 {
            assert_eq!(client.insert("rows", &entity(row, 1000)).unwrap().status, 201);
            acked.insert(row);
        }
        assert_eq!(first.stop(), Some(0));
        // 512 bytes or 1 KiB each, as the shell has it: 1 or 2 MiB.
        let server = Limited::start(&place, &format!("{ignored}ulimit -f 2048"), &[]);
        let mut refusals = 0;
        match &server {
            Err(error) => {
                eprintln!("refused at start: {error}");
                assert!(ignored.is_empty() || !error.is_empty());
                refusals += 1;
            }
            Ok(server) => {
                let mut client = server.client();
                for row in 100..400 {
                    match client.insert("rows", &entity(row, 30_000)) {
                        Ok(reply) if reply.status == 201 => _ = acked.insert(row),
                        Ok(reply) => {
                            assert!(matches!(reply.status, 500 | 503), "{}", reply.body);
                            refusals += 1;
                        }
                        Err(_) => {
                            refusals += 1;
                            break;
                        }
                    }
                }
            }
        }
        assert!(refusals > 0, "9 MB went into files of 2 MiB");
        drop(server);
        all_there(&place, &acked);
    }
}

/// A disk of its own in memory; `None` where this process may not mount one.
struct Disk<'a>(&'a Place);

impl<'a> Disk<'a> {
    fn mount(place: &'a Place, size: &str) -> Option<Disk<'a>> {
        let dir = place.path("data");
        std::fs::create_dir(&dir).unwrap();
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&dir).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(Disk(place))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path("data")).status();
    }
}

#[test]
fn a_full_disk_refuses_writes_and_serves_reads_until_there_is_room() {
    let place = Place::new();
    let Some(_disk) = Disk::mount(&place, "160m") else {
        eprintln!(
            "SKIPPED: a full disk, as no tmpfs can be mounted without root; see the test of RLIMIT_FSIZE"
        );
        return;
    };
    let mut server = Limited::start(&place, "", &[]).unwrap();
    let mut client = table(&server);
    let mut acked = BTreeSet::new();
    for row in 0..50 {
        assert_eq!(client.insert("rows", &entity(row, 1000)).unwrap().status, 201);
        acked.insert(row);
    }
    for round in 1..=2 {
        // All but a little of what is left.
        let ballast = place.path("data/lost+found");
        let mut file = std::fs::File::create(&ballast).unwrap();
        let full = std::io::copy(&mut std::io::repeat(1), &mut file);
        assert!(full.is_err(), "a disk without end");
        let (mut refused, first) = (BTreeSet::new(), round * 100_000);
        for row in first..first + 6000 {
            let reply = client.insert("rows", &entity(row, 30_000)).expect("an answer");
            match reply.status {
                201 => _ = acked.insert(row),
                503 => _ = refused.insert(row),
                status => panic!("{status}: {}", reply.body),
            }
            if refused.len() > 20 {
                break;
            }
        }
        assert!(!refused.is_empty(), "180 MB on a full disk");
        let found = rows(&mut client);
        let lost: Vec<_> = acked.difference(&found).collect();
        assert!(lost.is_empty(), "reads go on: {lost:?} lost");
        // What was under way as the disk became full may be written once there is room.
        let more: Vec<_> = found.difference(&acked).collect();
        assert!(more.len() <= round as usize, "{more:?}");
        drop(file);
        std::fs::remove_file(&ballast).unwrap();
        let again = (0..).find(|n| {
            let row = first + 50_000 + n;
            let status = client.insert("rows", &entity(row, 1000)).expect("an answer").status;
            assert!(matches!(status, 201 | 503), "{status}");
            if status == 201 {
                acked.insert(row);
            }
            status == 201
        });
        eprintln!("round {round}: {} refused; written again after {again:?} tries", refused.len());
        assert!(server.lives(), "no restart is needed");
    }
    assert_eq!(server.stop(), Some(0));
    all_there(&place, &acked);
}

#[test]
fn with_little_memory_scans_and_large_batches_are_served() {
    let place = Place::new();
    // Of addresses, not of memory in use: the program's own and its allocator's are part of it.
    let mut server = Limited::start(&place, "ulimit -v 2097152", &["--body-memory", "16"]).unwrap();
    let mut client = table(&server);
    let (mut acked, mut refused) = (BTreeSet::new(), 0);
    for batch in 0..40 {
        let rows: Vec<u64> = (batch * 100..batch * 100 + 100).collect();
        let entities: Vec<_> = rows.iter().map(|row| entity(*row, 39_000)).collect();
        let reply = client.insert_batch("rows", &entities).expect("an answer");
        match reply.status {
            202 => acked.extend(rows),
            503 => refused += 1,
            status => panic!("{status}: {}", reply.body),
        }
    }
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let mut client = server.client();
            std::thread::spawn(move || rows(&mut client))
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), acked);
    }
    eprintln!("{} rows of 39 KB in batches, {refused} batches refused", acked.len());
    assert!(acked.len() >= 1000 && server.lives());
    assert_eq!(server.stop(), Some(0));
    all_there(&place, &acked);
}

/// What is too much is refused with 503, and whoever asks again gets through: all that was to be written
/// is there in the end.
#[test]
fn ten_times_the_load_is_refused_in_order_and_all_gets_through() {
    const EACH: u64 = 12;
    const CLIENTS: u64 = 80;
    let place = Place::new();
    // Room for the bodies of 4 batches at a time, and 20 times as many clients.
    let mut server = Limited::start(&place, "", &["--body-memory", "16"]).unwrap();
    drop(table(&server));
    let refused = AtomicU64::new(0);
    let acked: BTreeSet<u64> = std::thread::scope(|scope| {
        let client = |number: u64| {
            let (port, refused) = (server.port, &refused);
            move || {
                let mut client = Client::connect(port).expect("a connection");
                for row in number * EACH..(number + 1) * EACH {
                    let entity = entity(row, 30_000);
                    loop {
                        match client.insert("rows", &entity).map(|reply| reply.status) {
                            Ok(201) => break,
                            Ok(409) => break, // Done by a try whose answer was lost.
                            Ok(503) => _ = refused.fetch_add(1, Ordering::Relaxed),
                            Ok(status) => panic!("{status}"),
                            Err(_) => client = Client::connect(port).expect("a connection"),
                        }
                    }
                }
                (number * EACH..(number + 1) * EACH).collect::<Vec<_>>()
            }
        };
        let running: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(client(number))).collect();
        running.into_iter().flat_map(|running| running.join().expect("a client")).collect()
    });
    assert_eq!(acked.len() as u64, CLIENTS * EACH);
    eprintln!("{} written by {CLIENTS} clients, {} refused", acked.len(), refused.into_inner());
    assert!(server.lives());
    assert_eq!(rows(&mut server.client()), acked);
    assert_eq!(server.stop(), Some(0));
    all_there(&place, &acked);
}

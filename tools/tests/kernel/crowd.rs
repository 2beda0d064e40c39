//! More clients than there is room for.

use crate::client::Client;
use crate::common::Place;
use crate::limited::{Limited, all_there, entity, rows, table};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith_testkit::counts::{self, count};

/// What is too much is refused with 503, and whoever asks again gets through: all that was to be
/// written is there in the end. `cargo run --release -p tabulith-tools --example overload` measures
/// how much gets done meanwhile.
#[test]
fn ten_times_the_load_is_refused_in_order_and_all_gets_through() {
    const EACH: u64 = 1;
    const CLIENTS: u64 = 160;
    const ROWS: u64 = 100;
    let place = Place::new();
    // Room for the bodies of 16 batches of 1 MB, and ten times as many clients.
    let mut server = Limited::start(&place, "", &["--body-memory", "16"]).unwrap();
    drop(table(&server));
    let refused = AtomicU64::new(0);
    let acked: BTreeSet<u64> = std::thread::scope(|scope| {
        let client = |number: u64| {
            let (port, refused) = (server.port, &refused);
            move || {
                let mut client = Client::connect(port).expect("a connection");
                let mut acked = Vec::new();
                for batch in number * EACH..(number + 1) * EACH {
                    let rows: Vec<u64> = (batch * ROWS..(batch + 1) * ROWS).collect();
                    let entities: Vec<_> = rows.iter().map(|row| entity(*row, 10_000)).collect();
                    loop {
                        let reply = client.insert_batch("rows", &entities).expect("an answer");
                        match reply.status {
                            202 if reply.body.contains("HTTP/1.1 204") => break,
                            503 => {
                                assert_eq!(reply.header("retry-after"), Some("1"));
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            status => panic!("{status}: {}", reply.body),
                        }
                    }
                    acked.extend(rows);
                }
                acked
            }
        };
        let running: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(client(number))).collect();
        running.into_iter().flat_map(|running| running.join().expect("a client")).collect()
    });
    assert_eq!(acked.len() as u64, CLIENTS * EACH * ROWS);
    assert!(server.lives());
    assert_eq!(rows(&mut server.client()), acked);
    assert_eq!(server.stop(), Some(0));
    all_there(&place, &acked);
    let floors = [
        count("acknowledged", acked.len() as u64, 1),
        count("refused", refused.into_inner(), CLIENTS),
    ];
    counts::tell("overload", &floors);
}

const IDLE: usize = 5_000;
const SLOW: usize = 500;
/// What an idle connection may take of memory.
const IDLE_BYTES_MAX: u64 = 40 << 10;

/// How many files this process may have open, after asking for as many as there may be.
fn files_allowed() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(1 << 20) as usize
}

/// Clients that say nothing, and clients that never come to the end of what they say.
#[test]
fn a_crowd_of_idle_and_slow_connections_keeps_nobody_out() {
    let allowed = files_allowed().saturating_sub(200);
    let (idle, slow) = (IDLE.min(allowed * 10 / 11), SLOW.min(allowed / 11));
    let place = Place::new();
    let mut server = Limited::start(&place, "", &[]).unwrap();
    let mut client = table(&server);
    let mut acked = BTreeSet::new();
    let mut write = |client: &mut Client, row: u64| {
        let reply = client.insert("rows", &entity(row, 1000)).expect("an answer");
        assert_eq!(reply.status, 201, "row {row}: {}", reply.body);
        acked.insert(row);
    };
    (0..100).for_each(|row| write(&mut client, row));
    let before = server.resident_bytes();
    let connect = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("a connection");
    let idlers: Vec<_> = (0..idle).map(connect).collect();
    let mut slow_ones: Vec<_> = (0..slow).map(connect).collect();
    let head =
        format!("POST /devstoreaccount1/rows HTTP/1.1\r\nHost: h\r\nx-filler: {}", "a".repeat(60));
    let (mut bytes_sent, mut closed) = (0, 0);
    for (round, byte) in head.bytes().enumerate() {
        slow_ones.retain_mut(|slow| slow.write_all(&[byte]).is_ok());
        bytes_sent += slow_ones.len();
        closed = slow - slow_ones.len();
        // One who was there before the crowd, and one who comes now.
        write(&mut client, 1000 + round as u64);
        write(&mut server.client(), 2000 + round as u64);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown <= (idle + slow) as u64 * IDLE_BYTES_MAX,
        "{grown} bytes for {idle} and {slow} connections"
    );
    eprintln!(
        "{idle} idle connections and {slow} slow ones, of which {closed} were closed: {} rows were \
         written meanwhile; {grown} bytes of memory more",
        2 * head.len()
    );
    assert!(server.lives());
    assert_eq!(rows(&mut client), acked);
    drop((idlers, slow_ones));
    assert_eq!(server.stop(), Some(0));
    all_there(&place, &acked);
    let floors = [
        count("idle", idle as u64, 100),
        count("slow", slow as u64, 10),
        count("dripped", bytes_sent as u64, 1000),
    ];
    counts::tell("crowd", &floors);
}

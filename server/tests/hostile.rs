//! Hostile clients on real sockets: thousands who say nothing or little, bodies beyond every
//! memory, answers that nobody takes. Everybody else is served as before, and memory stays bounded.
//!
//! The figures printed are those of docs/hostile.md:
//! `cargo test --release -p tabulith-server --test hostile -- --nocapture`.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "clocks and files of /proc")]
#![allow(clippy::print_stdout, reason = "the figures are what the test shows")]

mod common;

use common::Sas;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tabulith::db::Db;
use tabulith::options::Options;
use tabulith::table::store::TableStore;
use tabulith_server::config::{
    Accounts, Config, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Identity, Key, Tls,
};
use tabulith_server::{Running, Server};
use tabulith_testkit::{counts, held};

#[global_allocator]
static ALLOCATOR: held::Counting = held::Counting;

/// Nobody waits that long in a test that passes.
const FOR_EVER: Duration = Duration::from_secs(600);

/// Memory is the whole process's, so one test at a time.
static TURN: Mutex<()> = Mutex::new(());

const IDLE: usize = 5_000;
const SLOW: usize = 500;

/// How often the slow ones come again: often enough to see that they leave nothing behind.
const ROUNDS: usize = 6;

/// Room for one connection: buffers of its own, and what the allocator adds.
const CONNECTION_BYTES_MAX: u64 = 20 << 10;

struct House {
    running: Running,
    sas: String,
    _folder: tempfile::TempDir,
}

impl House {
    fn start(config: Config) -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options { memory: Some(32 << 20), ..Options::default() };
        let db = Db::builder().options(options).open(folder.path().join("data"));
        let store = Arc::new(TableStore::new(Arc::new(db.expect("a database"))));
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..config };
        let running = Server::start(config, store).expect("a server");
        let sas = Sas::account().with("srt", "sco").with("sp", "rwdlacu").token();
        let house = House { running, sas, _folder: folder };
        let mut first = Peer::connect(house.addr());
        assert_eq!(first.ask(&house.post("Tables", "{\"TableName\":\"people\"}")), 201);
        assert_eq!(first.ask(&house.put("r", "{\"A\":1}")), 204);
        house
    }

    fn addr(&self) -> SocketAddr {
        self.running.addr()
    }

    fn line(&self, verb: &str, path: &str) -> String {
        format!("{verb} /devstoreaccount1/{path}?{} HTTP/1.1\r\nHost: h\r\n", self.sas)
    }

    fn get(&self) -> String {
        self.line("GET", "people(PartitionKey='p',RowKey='r')") + "\r\n"
    }

    fn put(&self, row_key: &str, body: &str) -> String {
        let line = self.line("PUT", &format!("people(PartitionKey='p',RowKey='{row_key}')"));
        format!("{line}Content-Length: {}\r\n\r\n{body}", body.len())
    }

    fn post(&self, path: &str, body: &str) -> String {
        let line = self.line("POST", path);
        format!("{line}Content-Length: {}\r\n\r\n{body}", body.len())
    }
}

/// A client without a buffer.
struct Peer(TcpStream);

impl Peer {
    fn connect(addr: SocketAddr) -> Peer {
        let stream = TcpStream::connect(addr).expect("a connection");
        stream.set_nodelay(true).expect("set");
        stream.set_read_timeout(Some(FOR_EVER)).expect("set");
        Peer(stream)
    }

    fn ask(&mut self, request: &str) -> u16 {
        self.0.write_all(request.as_bytes()).expect("the server reads");
        self.answer().expect("an answer")
    }

    /// The same of somebody who may be turned away.
    fn try_ask(&mut self, request: &str) -> Option<u16> {
        self.0.write_all(request.as_bytes()).and_then(|()| self.answer()).ok()
    }

    /// The status of the next answer, whose body is read too.
    fn answer(&mut self) -> io::Result<u16> {
        let mut bytes = Vec::new();
        let mut space = [0; 4096];
        let head = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            let read = self.0.read(&mut space)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&space[..read]);
        };
        let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
        let mut rest = vec![0; head + length - bytes.len()];
        self.0.read_exact(&mut rest)?;
        Ok(text[9..12].parse().expect("a status"))
    }

    /// The status of the next answer, of which nothing more is read.
    fn status(&mut self) -> u16 {
        let mut line = [0; 12];
        self.0.read_exact(&mut line).expect("an answer");
        let status = String::from_utf8_lossy(&line[9..]).parse();
        status.expect("a status")
    }

    /// Whether the other end has hung up; looks, and does not wait.
    fn is_closed(&mut self) -> bool {
        self.0.set_nonblocking(true).expect("set");
        let read = self.0.read(&mut [0; 512]);
        self.0.set_nonblocking(false).expect("set");
        !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until the other end hangs up, passing over what it still says.
    fn wait_for_end(&mut self) {
        let mut space = [0; 4096];
        while matches!(self.0.read(&mut space), Ok(read) if read > 0) {}
    }
}

/// Opens as many files as the system allows; whether those are enough.
fn allow_files(needed: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let raised = setrlimit(Resource::Nofile, wanted).is_ok();
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if allowed < needed {
        let lack = format!("{needed} open files are needed, {allowed} are allowed ({raised})");
        counts::skipped(&lack);
    }
    allowed >= needed
}

/// A figure of /proc/self/status, in bytes.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    let kilobytes = line.trim_matches(|c: char| !c.is_ascii_digit());
    kilobytes.parse::<u64>().expect("a number") << 10
}

fn resident() -> u64 {
    memory("VmRSS:")
}

/// The most that was resident since [`forget_peak`].
fn peak() -> u64 {
    memory("VmHWM:")
}

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("own process");
}

/// The 50th and 99th of 100 times, in microseconds.
fn quantiles(mut times: Vec<Duration>) -> (u128, u128) {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100].as_micros();
    (at(50), at(99))
}

/// Good clients: four at once, each with point reads and now and then a write. Every answer must be
/// right. Gives back how long reads took.
fn serve_good_clients(house: &House) -> Vec<Duration> {
    let client = |number: usize| {
        let mut peer = Peer::connect(house.addr());
        let mut times = Vec::new();
        for round in 0..1_000 {
            let began = Instant::now();
            assert_eq!(peer.ask(&house.get()), 200);
            times.push(began.elapsed());
            if round % 50 == 0 {
                assert_eq!(peer.ask(&house.put(&format!("g{number}"), "{\"A\":2}")), 204);
            }
        }
        times
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("served")).collect()
    })
}

/// Slow clients: half of them in their heads, half in their bodies.
fn slow_clients(house: &House) -> Vec<Peer> {
    let one = |number: usize| {
        let mut peer = Peer::connect(house.addr());
        let head = house.line("PUT", "people(PartitionKey='p',RowKey='slow')");
        let start = match number % 2 {
            0 => head,
            _ => format!("{head}Content-Length: 4000000\r\n\r\n{{\"A\":\""),
        };
        peer.0.write_all(start.as_bytes()).expect("sent");
        peer
    };
    (0..SLOW).map(one).collect()
}

/// Sends a byte for each of them, about once a second, until all are cut off or it is enough.
/// Gives back how many were cut off.
fn drip(mut peers: Vec<Peer>, enough: &Receiver<()>) -> usize {
    let mut cut = 0;
    while !peers.is_empty() {
        let tenth = peers.len().div_ceil(10);
        for round in 0..10 {
            match enough.recv_timeout(Duration::from_millis(100)) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return cut,
            }
            for peer in peers.iter_mut().skip(round * tenth).take(tenth) {
                // A byte of a header's name, or of a text.
                let _ = peer.0.write_all(b"a");
            }
        }
        let before = peers.len();
        peers.retain_mut(|peer| !peer.is_closed());
        cut += before - peers.len();
    }
    cut
}

#[test]
fn idle_and_slow_clients_are_in_nobodys_way() {
    let _turn = TURN.lock();
    if !allow_files(2 * (IDLE + SLOW) as u64 + 500) {
        return;
    }
    let time_max = Duration::from_secs(2);
    let house = House::start(Config {
        head_time_max: time_max,
        body_time_max: time_max,
        idle_time_max: FOR_EVER,
        ..Config::default()
    });
    let _ = serve_good_clients(&house);
    let (quiet, quiet_99) = quantiles(serve_good_clients(&house));
    forget_peak();
    let before = resident();
    let idle = |_| {
        let mut peer = Peer::connect(house.addr());
        assert_eq!(peer.ask(&house.get()), 200);
        peer
    };
    let mut idle: Vec<Peer> = (0..IDLE).map(idle).collect();
    let mut cut = 0;
    let mut attacked = Vec::new();
    let mut peaks = Vec::new();
    for _ in 0..ROUNDS {
        let slow = slow_clients(&house);
        std::thread::scope(|scope| {
            let (_still, enough) = channel();
            let dripping = scope.spawn(move || drip(slow, &enough));
            attacked.extend(serve_good_clients(&house));
            // Nobody is told that it is enough: it is when all are cut off.
            cut += dripping.join().expect("dripped");
        });
        peaks.push(peak());
    }
    let (busy, busy_99) = quantiles(attacked);
    let grown = peaks[ROUNDS - 1].saturating_sub(before);
    let grown_late = peaks[ROUNDS - 1] - peaks[ROUNDS - 3];
    println!(
        "hostile: {IDLE} idle connections and {ROUNDS} times {SLOW} slow ones, {cut} cut off; point \
         reads quiet p50 {quiet} us, p99 {quiet_99} us; under attack p50 {busy} us, p99 {busy_99} \
         us; memory grew by {} KiB, by {} KiB in the last two rounds",
        grown >> 10,
        grown_late >> 10,
    );
    assert_eq!(cut, ROUNDS * SLOW);
    let bytes_max = (IDLE + SLOW) as u64 * CONNECTION_BYTES_MAX;
    assert!(grown <= bytes_max, "{grown} bytes, {bytes_max} are allowed");
    // A third of what the slow ones of two rounds would have left if they had left all.
    let late_max = 2 * SLOW as u64 * CONNECTION_BYTES_MAX / 3;
    assert!(grown_late <= late_max, "not flat: {peaks:?}");
    // Who was only idle is as welcome as before, and nothing of the slow was applied.
    for peer in idle.iter_mut().step_by(50) {
        assert_eq!(peer.ask(&house.get()), 200);
    }
    let slow = house.line("GET", "people(PartitionKey='p',RowKey='slow')") + "\r\n";
    assert_eq!(idle[0].ask(&slow), 404);
}

const BODIES: usize = 1_000;
const BODY_BYTES: usize = 4 << 20;
const ROOM_BYTES: usize = 256 << 20;

/// What bodies may take beyond their room: buffers of a thousand connections on both ends, and
/// what those few take that are just read into values.
const SLACK_BYTES: u64 = 128 << 20;

/// An entity of 4 MiB that is refused at the very end: every property is as large as it may be.
fn too_large_an_entity() -> String {
    let value = "x".repeat(32 << 10);
    let properties: Vec<String> = (0..127).map(|i| format!("\"P{i:03}\":\"{value}\"")).collect();
    let mut body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"big\",{}", properties.join(","));
    let blanks = BODY_BYTES - body.len() - 1;
    body.push_str(&" ".repeat(blanks));
    body + "}"
}

#[test]
fn bodies_beyond_every_memory_are_told_to_come_later() {
    let _turn = TURN.lock();
    if !allow_files(2 * BODIES as u64 + 500) {
        return;
    }
    let house = House::start(Config { body_bytes_max: ROOM_BYTES, ..Config::default() });
    let body = too_large_an_entity();
    let head = house.line("POST", "people");
    let head = format!("{head}Content-Length: {}\r\n", body.len());
    // Once before, so that what is there from then on is not counted.
    assert_eq!(Peer::connect(house.addr()).ask(&format!("{head}\r\n{body}")), 400);
    forget_peak();
    let before = resident();

    // Whoever waits to be asked for a body is asked only where there is room for it.
    let asking = format!("{head}Expect: 100-continue\r\n\r\n");
    let mut asked = Vec::new();
    let mut refused = 0;
    for _ in 0..BODIES {
        let mut peer = Peer::connect(house.addr());
        match peer.ask(&asking) {
            100 => asked.push(peer),
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    // Three quarters of the room are for large bodies, each of which takes it twice; small ones
    // still go through.
    assert_eq!((asked.len(), refused), (24, BODIES - 24));
    let mut small = Peer::connect(house.addr());
    assert_eq!(small.ask(&house.put("small", "{\"A\":1}")), 204);
    for peer in &mut asked {
        assert_eq!(peer.ask(&body), 400);
    }
    drop(asked);

    // And whoever sends without asking.
    let whole = format!("{head}\r\n{body}");
    let send = || {
        let mut peer = Peer::connect(house.addr());
        peer.ask(&whole)
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, send);
        let threads: Vec<_> = (0..BODIES).map(|_| thread().expect("a thread")).collect();
        threads.into_iter().map(|thread| thread.join().expect("answered")).collect()
    });
    let count = |status| statuses.iter().filter(|own| **own == status).count();
    let (read, busy) = (count(400), count(503));
    let grown = peak().saturating_sub(before);
    println!(
        "bodies: {BODIES} of {BODY_BYTES} bytes at once in {} MiB: {read} read and refused for what \
         they are, {busy} told 503; memory grew by {} MiB at most",
        ROOM_BYTES >> 20,
        grown >> 20
    );
    assert_eq!(read + busy, BODIES, "{statuses:?}");
    assert!(read >= 24, "{read}");
    assert!(grown <= ROOM_BYTES as u64 + SLACK_BYTES, "{grown}");
    assert_eq!(small.ask(&house.get()), 200);
}

/// Declares bodies that would fill the room and never come, and gives what each was told.
fn declare(house: &House, line: &str) -> Vec<(Peer, u16)> {
    let sizes = [4 << 20; 24].into_iter().chain([64 << 10; 512]);
    let declared = |bytes: usize| {
        let mut peer = Peer::connect(house.addr());
        let asking = format!("{line}Content-Length: {bytes}\r\nExpect: 100-continue\r\n\r\n");
        let status = peer.ask(&asking);
        (peer, status)
    };
    sizes.map(declared).collect()
}

/// A batch's parts have permissions of their own, so that whoever may ask for anything could have
/// all of the room for as long as a body may take.
#[test]
fn batches_of_readers_keep_nobody_from_writing() {
    let _turn = TURN.lock();
    if !allow_files(2 * 600 + 500) {
        return;
    }
    let house = House::start(Config { body_bytes_max: ROOM_BYTES, ..Config::default() });
    let sas = Sas::table("people").with("sp", "r").token();
    let line = format!(
        "POST /devstoreaccount1/$batch?{sas} HTTP/1.1\r\nHost: h\r\n\
         Content-Type: multipart/mixed; boundary=b\r\n"
    );
    let query = "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 GET /people(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\r\n\r\n--b--\r\n";
    let batch = format!("{line}Content-Length: {}\r\n\r\n{query}", query.len());
    assert_eq!(Peer::connect(house.addr()).ask(&batch), 202);
    let declared = declare(&house, &line);
    assert_eq!(Peer::connect(house.addr()).ask(&house.put("small", "{\"A\":1}")), 204);
    let told = |code: u16| declared.iter().filter(|(_, status)| *status == code).count();
    // A sixteenth of the room, for 64 KiB and a copy each.
    assert_eq!((told(413), told(100), told(503)), (24, 128, 384));
}

#[test]
fn bodies_of_one_account_leave_room_for_those_of_another() {
    let _turn = TURN.lock();
    if !allow_files(2 * 600 + 500) {
        return;
    }
    let text = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY};another1:YWJj");
    let accounts = Accounts::parse(&text).expect("accounts");
    let house = House::start(Config { body_bytes_max: ROOM_BYTES, accounts, ..Config::default() });
    let key = Key::parse("another1", "YWJj").expect("a key");
    let sas = Sas { account: "another1".to_owned(), key, ..Sas::account() };
    let sas = sas.with("srt", "sco").with("sp", "rwdlacu").token();
    let ask = |verb: &str, path: &str, more: &str| {
        let line = format!("{verb} /another1/{path}?{sas} HTTP/1.1\r\nHost: h\r\n");
        let mut peer = Peer::connect(house.addr());
        let status = peer.ask(&(line + more));
        (peer, status)
    };
    let body = "{\"TableName\":\"people\"}";
    let table = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(ask("POST", "Tables", &table).1, 201);

    let row = "people(PartitionKey='p',RowKey='r')";
    let declared = declare(&house, &house.line("PUT", row));
    let asked = |bytes: std::ops::Range<usize>| {
        declared[bytes].iter().filter(|(_, status)| *status == 100).count()
    };
    assert_eq!((asked(0..24), asked(24..536)), (18, 384));
    assert_eq!(ask("PUT", row, "Content-Length: 2\r\n\r\n{}").1, 204);
    let large = "Content-Length: 4194304\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(ask("PUT", row, large).1, 100);
}

/// Who sends heads as long as they may be without a place for them, and no bodies.
const HEADS: usize = 500;

/// What a connection may take then: the library's buffer, of twice the head, and the rest.
const HEAD_CONNECTION_BYTES_MAX: usize = 48 << 10;

/// Has many send a head that is refused with `status`, and looks at what each of them takes until
/// its body is there, of one byte.
fn heads_without_bodies(head: &[u8], status: u16) {
    if !allow_files(2 * HEADS as u64 + 500) {
        return;
    }
    let house = House::start(Config::default());
    let send = |count: usize| -> Vec<Peer> {
        let connect = |_| {
            let mut peer = Peer::connect(house.addr());
            peer.0.write_all(head).expect("the server reads");
            peer
        };
        let peers = (0..count).map(connect).collect();
        std::thread::sleep(Duration::from_secs(1));
        peers
    };
    drop(send(20));
    let before = held::now();
    let mut peers = send(HEADS);
    let grown = held::now().saturating_sub(before) / HEADS;
    println!("heads: {HEADS} of {} bytes, no bodies; {grown} bytes for each", head.len());
    for peer in &mut peers {
        peer.0.write_all(b"x").expect("the server reads");
        assert_eq!(peer.answer().expect("an answer"), status);
    }
    assert!(grown <= HEAD_CONNECTION_BYTES_MAX, "{grown}");
}

/// A head was held as the library has it and as the server does, where a byte that is no text took
/// three, for as long as the body of somebody who is not let in was on its way.
#[test]
fn long_heads_are_not_kept_while_their_bodies_are_awaited() {
    let _turn = TURN.lock();
    let mut head = b"PUT /devstoreaccount1/T HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n".to_vec();
    for number in 0..90 {
        head.extend(format!("X{number:02}: ").as_bytes());
        head.extend([0xff; 170]);
        head.extend(b"\r\n");
    }
    head.extend(b"\r\n");
    heads_without_bodies(&head, 403);
}

/// A refusal repeated the path, of which each of these takes five bytes in XML.
#[test]
fn refusals_do_not_repeat_long_paths_while_their_bodies_are_awaited() {
    let _turn = TURN.lock();
    let head = format!(
        "GET /{}/Tables('a','b') HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\
         Accept: application/atom+xml\r\n\r\n",
        "&".repeat(15_850)
    );
    heads_without_bodies(head.as_bytes(), 400);
}

/// Of 32 KiB each: more than the system buffers for two ends of a connection.
const ANSWERS: usize = 3_000;

#[test]
fn an_answer_that_nobody_takes_is_given_up() {
    let _turn = TURN.lock();
    let time_max = Duration::from_secs(1);
    let house = House::start(Config { answer_time_max: time_max, ..Config::default() });
    let body = format!("{{\"A\":\"{}\"}}", "x".repeat(32 << 10));
    let mut peer = Peer::connect(house.addr());
    assert_eq!(peer.ask(&house.put("r", &body)), 204);
    // More answers than any buffer of the system holds, and nobody who reads.
    let many = house.get().repeat(ANSWERS);
    let _ = peer.0.write_all(many.as_bytes());
    let mut hung_up = [PollFd::new(&peer.0, PollFlags::RDHUP)];
    poll(&mut hung_up, None).expect("an event");
    let taken = std::iter::from_fn(|| peer.answer().ok()).count();
    println!("answers that nobody takes: {taken} of {ANSWERS} were sent before it was given up");
    assert!(taken < ANSWERS, "{taken}");
    assert_eq!(Peer::connect(house.addr()).ask(&house.get()), 200);
}

/// Readers of answers that need no place, who take nothing.
const UNREAD: usize = 100;

/// So many each: more than the system buffers for two ends of a connection.
const UNREAD_ANSWERS: usize = 200;

/// Of each of two properties: as much as an answer may have without a place, with the rest of it.
const UNREAD_PROPERTY_BYTES: usize = 32_600;

/// What each may take beside its 20 KiB between two requests, 34 over TLS: one answer and the heads
/// behind its request; over TLS two records more, one whose heads wait to be read and one that has
/// not come whole.
const UNREAD_BYTES_MAX: usize = 88 << 10;
const UNREAD_TLS_BYTES_MAX: usize = UNREAD_BYTES_MAX + 2 * (16 << 10);

trait Stream: io::Read + io::Write {}

impl<T: io::Read + io::Write> Stream for T {}

/// A client with or without TLS, and its socket.
fn reader(house: &House, secure: bool) -> (Box<dyn Stream>, TcpStream) {
    let connect = |addr| TcpStream::connect(addr).expect("a connection");
    if !secure {
        let stream = connect(house.addr());
        let socket = stream.try_clone().expect("a socket");
        return (Box::new(stream), socket);
    }
    let own = house.running.own_certificate().expect("a certificate");
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(own.as_bytes()).expect("a certificate");
    roots.add(root).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = connect(house.running.tls_addr().expect("TLS"));
    let socket = stream.try_clone().expect("a socket");
    (Box::new(StreamOwned::new(tls, stream)), socket)
}

/// Has many readers take nothing of their answers, and looks at what each of them takes.
fn answers_untaken(secure: bool, bytes_max: usize) {
    let here = ([127, 0, 0, 1], 0).into();
    let identity = Identity::SelfSigned;
    let tls = Some(Tls { listen: here, identity, handshake_time_max: FOR_EVER });
    let answer_time_max = Duration::from_secs(5);
    let house = House::start(Config { tls, answer_time_max, ..Config::default() });
    let text = "x".repeat(UNREAD_PROPERTY_BYTES);
    let mut first = Peer::connect(house.addr());
    assert_eq!(first.ask(&house.put("r", &format!("{{\"A\":\"{text}\",\"B\":\"{text}\"}}"))), 204);
    let many = house.get().repeat(UNREAD_ANSWERS);
    let connect = |_| {
        let (mut stream, socket) = reader(&house, secure);
        // So that both ends have all that they have between two requests.
        stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("the server reads");
        assert!(stream.read(&mut [0; 4096]).expect("an answer") > 0);
        (stream, socket)
    };
    let mut readers: Vec<_> = (0..UNREAD).map(connect).collect();
    assert_eq!(first.ask(&house.get()), 200);
    held::forget_most();
    let before = held::now();
    for (stream, _) in &mut readers {
        stream.write_all(many.as_bytes()).expect("the server reads some");
    }
    // Each is given up in the end.
    for (_, socket) in &readers {
        poll(&mut [PollFd::new(socket, PollFlags::RDHUP)], None).expect("an event");
    }
    let each = held::most().saturating_sub(before) / UNREAD;
    println!(
        "untaken: {UNREAD} readers of 64 KiB who take nothing, TLS {secure}: {each} bytes each"
    );
    assert!(each <= bytes_max, "{each}, {bytes_max} are allowed");
}

/// What is set aside for a connection (112 KiB) was less than what one took.
#[test]
fn answers_without_a_place_take_what_is_set_aside_for_their_connections() {
    let _turn = TURN.lock();
    answers_untaken(false, UNREAD_BYTES_MAX);
}

/// An answer was there twice, encrypted and as it was made, where not all of it could be encrypted.
#[test]
fn answers_over_tls_take_what_is_set_aside_for_their_connections() {
    let _turn = TURN.lock();
    answers_untaken(true, UNREAD_TLS_BYTES_MAX);
}

/// Readers at once of a page, who never take it.
const READERS: usize = 200;
const ANSWERS_ROOM_BYTES: usize = 64 << 20;

/// What may be there beyond the room: as many pages in the making as have a turn, six, each in
/// memory that is growing.
const ANSWERS_SLACK_BYTES: u64 = (6 * (4 + 8)) << 20;

#[test]
fn answers_beyond_their_memory_are_told_to_come_later() {
    let _turn = TURN.lock();
    let house = House::start(Config { answer_bytes_max: ANSWERS_ROOM_BYTES, ..Config::default() });
    let body = format!("{{\"A\":\"{}\"}}", "x".repeat(30 << 10));
    let mut peer = Peer::connect(house.addr());
    for row in 0..300 {
        assert_eq!(peer.ask(&house.put(&format!("r{row:03}"), &body)), 204);
    }
    let page = house.line("GET", "people()") + "\r\n";
    let query = "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                 GET http://h/devstoreaccount1/people() HTTP/1.1\r\n\r\n\r\n--b--\r\n";
    let line = house.line("POST", "$batch") + "Content-Type: multipart/mixed; boundary=b\r\n";
    let batch = format!("{line}Content-Length: {}\r\n\r\n{query}", query.len());
    for (page, good) in [(page, 200), (batch, 202)] {
        assert_eq!(peer.ask(&page), good);
        forget_peak();
        let before = resident();
        let mut readers: Vec<Peer> = (0..READERS)
            .map(|_| {
                let reader = Peer::connect(house.addr());
                (&reader.0).write_all(page.as_bytes()).expect("sent");
                reader
            })
            .collect();
        let statuses: Vec<u16> = readers.iter_mut().map(Peer::status).collect();
        let held = statuses.iter().filter(|status| **status == good).count();
        let busy = statuses.iter().filter(|status| **status == 503).count();
        let grown = peak().saturating_sub(before);
        println!(
            "answers: {READERS} readers of pages who take nothing, in {} MiB: {held} answered, \
             {busy} told 503; memory grew by {} MiB at most",
            ANSWERS_ROOM_BYTES >> 20,
            grown >> 20
        );
        assert_eq!(held + busy, READERS, "{statuses:?}");
        assert!(held >= 2 && busy > 0, "{held} {busy}");
        assert!(grown <= ANSWERS_ROOM_BYTES as u64 + ANSWERS_SLACK_BYTES, "{grown}");
        // Small answers go on, and pages again once somebody has gone.
        assert_eq!(Peer::connect(house.addr()).ask(&house.get()), 200);
        drop(readers);
        let again = |_| Peer::connect(house.addr()).ask(&page) == good;
        assert!((0..1_000_000).any(again), "the room is given back");
    }
}

#[test]
fn more_connections_than_places() {
    let _turn = TURN.lock();
    let idle_time_max = Duration::from_secs(2);
    let house = House::start(Config { connections_max: 4, idle_time_max, ..Config::default() });
    let mut peers: Vec<Peer> = (0..4).map(|_| Peer::connect(house.addr())).collect();
    for peer in &mut peers {
        assert_eq!(peer.ask(&house.get()), 200);
    }
    // The fifth waits until one of the four has been idle for too long.
    assert_eq!(Peer::connect(house.addr()).ask(&house.get()), 200);
    peers.iter_mut().for_each(Peer::wait_for_end);
    assert_eq!(Peer::connect(house.addr()).ask(&house.get()), 200);
}

#[test]
fn an_address_that_has_all_its_places() {
    let _turn = TURN.lock();
    let house = House::start(Config { connections_per_address_max: Some(3), ..Config::default() });
    // The first client of the house may still be there: who is turned away tries again.
    let mut peers: Vec<Peer> = Vec::new();
    while peers.len() < 3 {
        let mut peer = Peer::connect(house.addr());
        if peer.try_ask(&house.get()) == Some(200) {
            peers.push(peer);
        }
    }
    Peer::connect(house.addr()).wait_for_end();
    assert!(peers.iter_mut().all(|peer| peer.ask(&house.get()) == 200));
    peers.pop();
    let come_back = |_| Peer::connect(house.addr()).try_ask(&house.get()) == Some(200);
    assert!((0..1_000_000).any(come_back), "a place that is free again is given");
}

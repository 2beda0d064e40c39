//! What operators ask of a server on a real socket: who is told, what metrics say, when it is ready
//! and when not.

mod common;
#[path = "common/exposition.rs"]
mod exposition;

use common::{FAR, Sas, date_of, request, sign, wire_text};
use exposition::Exposition;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::env::jobs::{ByHand, Jobs, Threads};
use tabulith::ids::CommitTs;
use tabulith::table::store::TableStore;
use tabulith::table::value::DateTime;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith::{Advanced, Db, Options};
use tabulith_server::config::{Accounts, Config, HotPartitions};
use tabulith_server::http::message::{Body, Request};
use tabulith_server::testing::Forks;
use tabulith_server::{Parts, Running, Server};

/// Nobody waits that long in a test that passes.
const FOR_EVER: Duration = Duration::from_secs(600);

struct Told {
    status: u16,
    head: String,
    body: String,
}

/// Asks on a connection of its own.
fn ask(addr: SocketAddr, text: &str) -> Told {
    read(&mut BufReader::new(send(addr, text)))
}

/// The same for whoever reads the answer later.
fn send(addr: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).expect("a connection");
    stream.set_read_timeout(Some(FOR_EVER)).expect("set");
    stream.write_all(text.as_bytes()).expect("the server reads");
    stream
}

fn read(stream: &mut BufReader<TcpStream>) -> Told {
    let (mut head, mut line) = (String::new(), String::new());
    while stream.read_line(&mut line).expect("text") > 2 {
        head += &line;
        line.clear();
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().expect("a length"))];
    stream.read_exact(&mut body).expect("the whole body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    Told { status, head, body: String::from_utf8(body).expect("text") }
}

fn get(addr: SocketAddr, path: &str) -> Told {
    ask(addr, &format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n"))
}

/// A request to the tables, signed.
fn wire(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let Request { mut head, body } = request(method, path, headers, body);
    sign(&mut head, &date_of(SystemClock::new().wall_ticks()));
    let headers: String =
        head.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let body = match body {
        Body::Whole(bytes) => String::from_utf8(bytes.to_vec()).expect("text"),
        _ => String::new(),
    };
    format!("{method} {} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n{body}", head.target, head.authority)
}

struct Place {
    running: Running,
    db: Db,
    disk: FaultFs,
}

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// A server over a disk in memory that fails as it is told.
fn start(config: Config) -> Place {
    start_as(config, false, Arc::new(Threads))
}

fn start_as(config: Config, is_made_ready_later: bool, jobs: Arc<dyn Jobs>) -> Place {
    start_with(config, Parts { is_made_ready_later, ..Parts::default() }, jobs)
}

fn start_with(config: Config, parts: Parts, jobs: Arc<dyn Jobs>) -> Place {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let advanced = Advanced {
        memtable_bytes: Some(256 << 10),
        wal_segment_bytes: 64 << 10,
        ..Advanced::default()
    };
    let history = config.history.then_some(Duration::from_secs(3600));
    let options = Options { advanced, history, ..Options::default() };
    let clock = Arc::new(SystemClock::new());
    let builder = Db::builder().options(options);
    let db = builder.parts(Arc::new(disk.clone()), clock, jobs).open("data");
    let db = db.expect("a database");
    let config = Config { listen: LOOPBACK.into(), ..config };
    let parts = Parts { engine: Some(Arc::new(db.clone())), ..parts };
    let store = Arc::new(TableStore::new(Arc::new(db.clone())));
    let running = Server::start_with(config, store, parts).expect("a server");
    Place { running, db, disk }
}

impl Place {
    fn metrics(&self) -> Exposition {
        let told = get(self.running.addr(), "/_/metrics");
        assert_eq!(told.status, 200, "{}", told.body);
        assert!(told.head.contains("content-type: text/plain; version=0.0.4"), "{}", told.head);
        Exposition::parse(&told.body).unwrap_or_else(|error| panic!("{error}\n{}", told.body))
    }

    fn ready(&self) -> (u16, String) {
        let told = get(self.running.addr(), "/_/ready");
        let gauge = self.metrics().get("tabulith_ready");
        assert_eq!(gauge, Some(f64::from(u8::from(told.status == 200))), "{}", told.body);
        (told.status, told.body)
    }

    /// Writes rows until commits stall, and gives how many.
    fn stall(&self) -> u32 {
        let rows = self.db.table("rows").expect("a table");
        let mut written = 0_u32;
        while self.db.obstacle().is_none() {
            rows.upsert("p", written.to_be_bytes(), vec![7; 20_000]).expect("a write");
            written += 1;
            assert!(written < 100_000, "nothing ever stalls");
        }
        written
    }

    fn send(&self, method: &str, path: &str, body: &str) -> u16 {
        let headers = [("Content-Type", "application/json"), ("Accept", "application/json")];
        ask(self.running.addr(), &wire(method, path, &headers, body)).status
    }
}

fn ready() -> (u16, String) {
    (200, "ready\n".to_owned())
}

#[test]
fn metrics_count_what_was_asked_and_tell_no_data() {
    let place = start(Config::default());
    assert_eq!(get(place.running.addr(), "/_/live").status, 200);
    assert_eq!(place.ready(), ready());
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Hidden\"}"), 201);
    for row in 0..7 {
        let entity =
            format!("{{\"PartitionKey\":\"s3cret\",\"RowKey\":\"r0w{row}\",\"V\":\"va1ue\"}}");
        assert_eq!(place.send("POST", "/Hidden", &entity), 201);
    }
    assert_eq!(place.send("GET", "/Hidden(PartitionKey='s3cret',RowKey='r0w1')", ""), 200);
    assert_eq!(place.send("GET", "/Hidden(PartitionKey='s3cret',RowKey='none')", ""), 404);
    assert_eq!(place.send("GET", "/Hidden()", ""), 200);
    let told = get(place.running.addr(), "/_/metrics").body;
    for data in ["Hidden", "s3cret", "r0w", "va1ue", "devstoreaccount1", "data/"] {
        assert!(!told.contains(data), "{data} is told:\n{told}");
    }
    let metrics = place.metrics();
    let is = |series: &str, value: f64| assert_eq!(metrics.get(series), Some(value), "{series}");
    is("tabulith_requests_total{op=\"create_table\",code=\"2xx\"}", 1.0);
    is("tabulith_requests_total{op=\"insert\",code=\"2xx\"}", 7.0);
    is("tabulith_requests_total{op=\"get\",code=\"2xx\"}", 1.0);
    is("tabulith_requests_total{op=\"get\",code=\"4xx\"}", 1.0);
    is("tabulith_request_seconds_count{op=\"insert\"}", 7.0);
    is("tabulith_refusals_total{code=\"ResourceNotFound\"}", 1.0);
    is("tabulith_partitions_hot{rank=\"1\"}", 7.0 + 2.0 + 7.0);
    is("tabulith_partition_entities", 16.0);
    assert!(metrics.sum("tabulith_wal_sync_seconds_count") >= 8.0);
    assert!(metrics.sum("tabulith_connections_total") >= 10.0);
    let families: Vec<_> = metrics.kinds.keys().collect();
    assert!(families.len() > 45, "{families:?}");
}

#[test]
fn the_number_of_series_does_not_depend_on_what_is_asked() {
    let place = start(Config { hot_partitions: HotPartitions::Names, ..Config::default() });
    let everything = |rounds: u32| {
        for n in 0..rounds {
            let entity = format!("/T{n}(PartitionKey='p{n}',RowKey='r{n}')");
            for (method, path) in
                [("GET", entity.as_str()), (["BREW", "PUT", "X"][n as usize % 3], "/Tables?comp=x")]
            {
                let headers = [("x-ms-version", if n % 2 == 0 { "2019-02-02" } else { "never" })];
                ask(place.running.addr(), &wire(method, path, &headers, ""));
            }
            get(place.running.addr(), &format!("/account{n}/what?sig={n}"));
        }
        place.metrics().samples.len()
    };
    let first = everything(30);
    assert_eq!(everything(120), first);
    assert!(first < 600, "{first} series");
}

#[test]
fn strangers_are_told_what_any_other_path_tells_them() {
    let place = start(Config::default());
    let addr = place.running.addr();
    let without_ids = |told: Told| {
        let id = |line: &&str| !line.starts_with("x-ms-request-id") && !line.starts_with("date");
        let head: Vec<String> = told.head.lines().filter(id).map(str::to_owned).collect();
        (told.status, head, told.body.split("RequestId").next().map(str::to_owned))
    };
    for path in ["/_/metrics", "/_/ready", "/_/live", "/_/hot"] {
        for more in [
            "Host: tables.example\r\n",
            "Host: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n",
            "Host: localhost\r\nForwarded: for=192.0.2.1\r\n",
            "Host: localhost\r\nOrigin: http://elsewhere.example\r\n",
        ] {
            let asked =
                |path: &str| without_ids(ask(addr, &format!("GET {path} HTTP/1.1\r\n{more}\r\n")));
            let told = asked(path);
            // As long as the path, so that nothing else differs.
            let other = asked(&format!("/_/{}", "x".repeat(path.len() - 3)));
            assert_eq!(told, other, "{path} {more}");
            assert!(told.0 >= 400, "{path} {more}: {}", told.0);
        }
    }
    let nothing = get(addr, "/_/nothing");
    let there_is = "there is /_/live, /_/ready, /_/metrics and /_/hot\n";
    assert_eq!((nothing.status, nothing.body.as_str()), (404, there_is));
    assert_eq!(get(addr, "/_/hot").status, 404, "names are told to who asked for them");
    let post = ask(
        addr,
        &format!("POST /_/ready HTTP/1.1\r\nHost: {addr}\r\nContent-Length: 2\r\n\r\nxy"),
    );
    assert_eq!(post.status, 405);
}

#[test]
fn an_address_for_operators_has_nothing_else_and_nobody_else_has_it() {
    let hot_partitions = HotPartitions::Names;
    let place = start(Config { admin: Some(LOOPBACK.into()), hot_partitions, ..Config::default() });
    let admin = place.running.admin_addr().expect("an address");
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Rows\"}"), 201);
    let entity = "{\"PartitionKey\":\"p\\\"q\",\"RowKey\":\"r\"}";
    assert_eq!(place.send("POST", "/Rows", entity), 201);
    for path in ["/_/live", "/_/ready", "/_/metrics"] {
        assert_eq!(get(admin, path).status, 200, "{path}");
        for (more, status) in [
            ("Host: localhost\r\nVia: y\r\nX-Forwarded-For: 192.0.2.1\r\n", 200),
            ("Host: evil.example\r\n", 404),
            ("Host: localhost\r\nOrigin: http://evil.example\r\n", 404),
        ] {
            let told = ask(admin, &format!("GET {path} HTTP/1.1\r\n{more}\r\n"));
            assert_eq!(told.status, status, "{path} {more}");
        }
        assert!(get(place.running.addr(), path).status >= 400, "{path}");
    }
    assert_eq!(ask(admin, &wire("GET", "/Tables", &[], "")).status, 404);
    let hot = get(admin, "/_/hot").body;
    assert!(hot.contains("\"partition_key\":\"p\\\"q\""), "{hot}");
    Exposition::parse(&get(admin, "/_/metrics").body).expect("metrics");
}

#[test]
fn ready_is_red_while_the_disk_is_full() {
    // Without threads of the engine: whoever prepares the log looks like somebody who commits.
    let place = start_as(Config::default(), false, Arc::new(ByHand));
    let rows = place.db.table("rows").expect("a table");
    assert_eq!(place.ready(), ready());
    for round in 0..3 {
        place.disk.set_room(Some(0));
        assert_eq!(place.ready(), (503, "disk full\n".to_owned()), "round {round}");
        assert_eq!(get(place.running.addr(), "/_/live").status, 200);
        place.disk.set_room(None);
        assert_eq!(place.ready(), ready(), "round {round}");
        rows.upsert("p", "r", vec![7; 30_000]).expect("there is room");
    }
}

/// The look was taken where connections are served: as many probes as there are threads for that,
/// and nobody was answered any more.
#[test]
fn a_disk_that_does_not_answer_holds_up_nobody_else() {
    // Without threads of the engine: the log has no segment in store, and the disk is looked at.
    let place = start_as(Config::default(), false, Arc::new(ByHand));
    let addr = place.running.addr();
    let (begun, looks) = mpsc::channel();
    let (go_on, held_up) = mpsc::channel::<()>();
    let held_up = Arc::new(Mutex::new(held_up));
    let probes = std::thread::available_parallelism().map_or(1, usize::from) + 2;
    for _ in 0..probes {
        let (begun, held_up) = (begun.clone(), Arc::clone(&held_up));
        place.disk.interrupt(Rule::fail(Call::BytesAvailable), move || {
            let _ = begun.send(());
            let _ = held_up.lock().map(|held_up| held_up.recv());
        });
    }
    let probe = format!("GET /_/ready HTTP/1.1\r\nHost: {addr}\r\n\r\n");
    let waiting: Vec<TcpStream> = (0..probes).map(|_| send(addr, &probe)).collect();
    for _ in 0..2 {
        looks.recv().expect("a look at the disk");
    }
    assert_eq!(place.send("GET", "/Rows(PartitionKey='p',RowKey='r')", ""), 404);
    assert_eq!(get(addr, "/_/live").status, 200);
    for stream in waiting {
        let told = read(&mut BufReader::new(stream));
        assert_eq!((told.status, told.body.as_str()), (503, "disk does not answer\n"));
    }
    let metrics = place.metrics();
    assert_eq!(metrics.get("tabulith_ready"), Some(0.0));
    assert_eq!(metrics.get("tabulith_engine_takes_commits"), None, "who knows");
    drop(go_on);
    while get(addr, "/_/ready").status != 200 {}
}

/// Clients wait and ask again where the status says so; a refusal within an answer they take for
/// final.
#[test]
fn a_batch_that_the_disk_has_no_room_for_is_refused_as_a_whole() {
    let place = start(Config::default());
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Rows\"}"), 201);
    let body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: \
                application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST \
                http://127.0.0.1/devstoreaccount1/Rows HTTP/1.1\r\nContent-Type: application/json\r\n\r\n\
                {\"PartitionKey\":\"p\",\"RowKey\":\"KEY\",\"V\":\"VALUE\"}\r\n--c--\r\n--b--\r\n";
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let batch = |key: u32| {
        let body = body.replace("KEY", &key.to_string()).replace("VALUE", &"x".repeat(20_000));
        ask(place.running.addr(), &wire("POST", "/$batch", &headers, &body))
    };
    place.disk.set_room(Some(0));
    let refused =
        (0..100).map(batch).find(|told| told.status != 202 || told.body.contains(" 503 "));
    let refused = refused.expect("the log is full at some time");
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    place.disk.set_room(None);
    assert_eq!(batch(1_000).status, 202);
}

#[test]
fn ready_is_red_while_commits_stall_and_green_when_the_work_is_done() {
    let place = start_as(Config::default(), false, Arc::new(ByHand));
    let written = place.stall();
    assert_eq!(place.ready(), (503, "stalled: flushes are behind\n".to_owned()));
    while place.db.step().expect("work") {}
    assert_eq!(place.ready(), ready(), "after {written} rows");
}

/// Who is told that the time is over leaves a body behind, which some thread still works on: its
/// room is not for others before that thread has ended.
#[test]
fn a_body_has_its_room_for_as_long_as_it_is_worked_on() {
    let config = Config { body_bytes_max: 4 << 20, ..Config::default() };
    let place = start(config);
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Rows\"}"), 201);
    // No file gets any further, so that commits stall in the end.
    let (go_on, held_up) = mpsc::channel::<()>();
    place.disk.interrupt(Rule::fail(Call::Create).named("*.sst"), move || {
        let _ = held_up.recv();
    });
    place.stall();
    let blanks = " ".repeat(1 << 20);
    let entity = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\"{blanks}}}");
    assert_eq!(place.send("POST", "/Rows?timeout=1", &entity), 500, "its time is over");
    let headers = [("Content-Type", "application/json"), ("Expect", "100-continue")];
    let asking = || {
        let text = wire("POST", "/Rows", &headers, &entity);
        let (head, _) = text.split_once("\r\n\r\n").expect("a head");
        ask(place.running.addr(), &format!("{head}\r\n\r\n")).status
    };
    assert_eq!(asking(), 503, "half of the room is taken, and a body of its own needs as much");
    drop(go_on);
    while asking() == 503 {
        std::thread::yield_now();
    }
}

/// A commit that waits for flushes has a thread, and there are 512 of those: some are left to
/// queries, which have turns of their own that no change set takes, whatever its values look like.
#[test]
fn queries_go_on_while_more_commits_wait_than_there_are_threads() {
    const COMMITS: usize = 600;
    const CHANGE_SETS: usize = 20;
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let place = start(Config { connections_per_address_max: None, ..Config::default() });
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Rows\"}"), 201);
    let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":\"GET /x HTTP/1.1\"}";
    assert_eq!(place.send("POST", "/Rows", entity), 201);
    let (go_on, held_up) = mpsc::channel::<()>();
    place.disk.interrupt(Rule::fail(Call::Create).named("*.sst"), move || {
        let _ = held_up.recv();
    });
    place.stall();
    let in_flight = || place.metrics().get("tabulith_requests_in_flight").unwrap_or_default();
    // Neither what stands before a part nor what an entity says makes a query of a change set.
    let part = format!(
        "GET \r\n--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\nGET \r\n--c\r\n\
         Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         PUT /devstoreaccount1/Rows(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\
         Content-Type: application/json\r\n\r\n{entity}\r\n--c--\r\n--b--\r\n"
    );
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let change_set = wire("POST", "/$batch", &headers, &part);
    let headers = [("Content-Type", "application/json")];
    let change = wire("PUT", "/Rows(PartitionKey='p',RowKey='r')", &headers, entity);
    let mut waiting = Vec::new();
    for (text, count) in [(change_set, CHANGE_SETS), (change, COMMITS)] {
        for _ in 0..count {
            let mut stream = TcpStream::connect(place.running.addr()).expect("a connection");
            stream.write_all(text.as_bytes()).expect("the server reads");
            waiting.push(stream);
        }
        while in_flight() < waiting.len() as f64 {
            std::thread::yield_now();
        }
        assert_eq!(place.send("GET", "/Rows()", ""), 200);
        assert_eq!(in_flight(), waiting.len() as f64, "it was answered while all of these wait");
    }
    drop(go_on);
    for stream in waiting {
        let status = read(&mut BufReader::new(stream)).status;
        assert!([202, 204].contains(&status), "{status}");
    }
}

/// Queries by leave of a stored policy once waited for whoever set the table's policies or removed
/// it, each with a turn to make a page, of which all accounts together have seven.
#[test]
fn queries_go_on_while_policies_and_tables_cannot_be_changed() {
    const PAGES_AT_ONCE: usize = 7;
    let policies = format!(
        "<SignedIdentifiers><SignedIdentifier><Id>p</Id><AccessPolicy><Expiry>{FAR}</Expiry>\
         <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
    );
    let place = start(Config::default());
    let addr = place.running.addr();
    for table in ["Set", "Removed", "Rows"] {
        assert_eq!(place.send("POST", "/Tables", &format!("{{\"TableName\":\"{table}\"}}")), 201);
        let acl = wire("PUT", &format!("/{table}?comp=acl"), &[], &policies);
        assert_eq!(ask(addr, &acl).status, 204);
    }
    let (go_on, held_up) = mpsc::channel::<()>();
    place.disk.interrupt(Rule::fail(Call::Create).named("*.sst"), move || {
        let _ = held_up.recv();
    });
    place.stall();
    let changes = [
        wire("PUT", "/Set?comp=acl", &[], &policies.replace("<Id>p", "<Id>q")),
        wire("DELETE", "/Tables('Removed')", &[], ""),
    ];
    let waiting = changes.map(|change| {
        let mut stream = TcpStream::connect(addr).expect("a connection");
        stream.write_all(change.as_bytes()).expect("the server reads");
        stream
    });
    let in_flight = || place.metrics().get("tabulith_requests_in_flight");
    while in_flight() != Some(2.0) {
        std::thread::yield_now();
    }
    for table in ["Set", "Removed"] {
        let token = Sas::table(table).without("se").with("si", "p").token();
        for path in [format!("/{table}()"), format!("/{table}(PartitionKey='p',RowKey='r')")] {
            let accept = [("Accept", "application/json")];
            let query = request("GET", &format!("{path}?timeout=5&{token}"), &accept, "");
            let queries = [(); PAGES_AT_ONCE].map(|()| {
                let mut stream = TcpStream::connect(addr).expect("a connection");
                stream.write_all(wire_text(&query).as_bytes()).expect("the server reads");
                stream
            });
            assert_eq!(place.send("GET", "/Rows()?timeout=5", ""), 200, "{path}");
            let expected = if path.ends_with("()") { 200 } else { 404 };
            for stream in queries {
                assert_eq!(read(&mut BufReader::new(stream)).status, expected, "{path}");
            }
        }
    }
    assert_eq!(in_flight(), Some(2.0), "the changes wait all the while");
    drop(go_on);
    for stream in waiting {
        assert_eq!(read(&mut BufReader::new(stream)).status, 204);
    }
}

/// Queries of the past once waited for commits that the log had not synced, each with a turn to
/// make a page.
#[test]
fn queries_go_on_while_the_past_waits_for_the_log() {
    const PAGES_AT_ONCE: usize = 7;
    let place = start(Config { history: true, ..Config::default() });
    let addr = place.running.addr();
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Rows\"}"), 201);
    let now = || DateTime::from(CommitTs(SystemClock::new().wall_ticks())).to_string();
    let before = now();
    // Whichever sync is the next one, and some more.
    let (go_on, held_up) = mpsc::channel::<()>();
    let held_up = Arc::new(Mutex::new(held_up));
    for _ in 0..4 {
        let held_up = Arc::clone(&held_up);
        place.disk.interrupt(Rule::fail(Call::Sync), move || {
            let _ = held_up.lock().map(|held_up| held_up.recv());
        });
    }
    let ask_later = |text: String| {
        let mut stream = TcpStream::connect(addr).expect("a connection");
        stream.write_all(text.as_bytes()).expect("the server reads");
        stream
    };
    let headers = [("Content-Type", "application/json")];
    let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    let commits = place.db.stats().commits;
    let writing = ask_later(wire("POST", "/Rows", &headers, entity));
    while place.db.stats().commits == commits {
        std::thread::yield_now();
    }
    let as_of = now();
    let in_flight = || place.metrics().get("tabulith_requests_in_flight").unwrap_or_default();
    let query = wire("GET", "/Rows()", &[("x-tabulith-as-of", &as_of)], "");
    let part = format!(
        "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         GET /devstoreaccount1/Rows() HTTP/1.1\r\nx-tabulith-as-of: {as_of}\r\n\r\n--b--\r\n"
    );
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let batch = wire("POST", "/$batch", &headers, &part);
    let mut waiting = Vec::new();
    for text in [query, batch] {
        waiting.extend([(); PAGES_AT_ONCE].map(|()| ask_later(text.clone())));
        while in_flight() < 1.0 + waiting.len() as f64 {
            std::thread::yield_now();
        }
        assert_eq!(place.send("GET", "/Rows()?timeout=5", ""), 200);
        let earlier = [("x-tabulith-as-of", before.as_str())];
        let page = ask(addr, &wire("GET", "/Rows()?timeout=5", &earlier, ""));
        assert!(page.status == 200 && !page.body.contains("RowKey"), "{}", page.body);
    }
    assert_eq!(in_flight(), 1.0 + waiting.len() as f64, "they wait for the sync");
    drop(go_on);
    assert_eq!(read(&mut BufReader::new(writing)).status, 201);
    for stream in waiting {
        let page = read(&mut BufReader::new(stream));
        assert!([200, 202].contains(&page.status), "{}", page.head);
        assert!(page.body.contains("\"RowKey\":\"r\""), "{}", page.body);
    }
}

/// Who may only read could else declare bodies that never come, and keep everybody from writing.
#[test]
fn a_body_that_means_nothing_has_no_room() {
    let place = start(Config { body_bytes_max: 1 << 20, ..Config::default() });
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Rows\"}"), 201);
    let addr = place.running.addr();
    let in_flight = || {
        let text = get(addr, "/_/metrics").body;
        Exposition::parse(&text).expect("metrics").get("tabulith_requests_in_flight")
    };
    let length = [("Content-Length", "380000")];
    let mut reader = TcpStream::connect(addr).expect("a connection");
    reader.write_all(wire("GET", "/Rows()", &length, "").as_bytes()).expect("the server reads");
    while in_flight() != Some(1.0) {}
    let text = "x".repeat(30_000);
    let entity = format!(
        "{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":\"{text}\",\"B\":\"{text}\",\"C\":\"{text}\"}}"
    );
    assert_eq!(place.send("POST", "/Rows", &entity), 201);
    // What comes is thrown away, and the answer follows.
    reader.write_all(&[b'x'; 380_000]).expect("the server reads");
    let page = read(&mut BufReader::new(reader));
    assert!(page.status == 200 && page.body.contains("\"RowKey\":\"r\""), "{}", page.head);
}

#[test]
fn ready_stays_red_once_the_log_has_failed() {
    let place = start(Config::default());
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Rows\"}"), 201);
    place.disk.add(Rule::fail(Call::Sync).times(1));
    place.disk.add(Rule::fail(Call::Write).times(1));
    let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    let kind = [("Content-Type", "application/json")];
    for _ in 0..2 {
        // Not 503: that says that nothing has happened, and that it may go well soon.
        let told = ask(place.running.addr(), &wire("POST", "/Rows", &kind, entity));
        assert_eq!(told.status, 500, "{}", told.body);
        assert!(told.body.contains("InternalError"), "{}", told.body);
        assert!(!told.head.contains("retry-after"), "{}", told.head);
        assert_eq!(place.ready(), (503, "log failed\n".to_owned()));
    }
    let page = ask(place.running.addr(), &wire("GET", "/Rows()", &[], ""));
    assert_eq!(page.status, 200, "reads go on");
    assert!(!page.body.contains("RowKey"), "and show nothing of what failed: {}", page.body);
}

#[test]
fn ready_is_red_until_it_is_said_and_while_it_drains() {
    let place = start_as(
        Config { admin: Some(LOOPBACK.into()), ..Config::default() },
        true,
        Arc::new(Threads),
    );
    let admin = place.running.admin_addr().expect("an address");
    assert_eq!(get(admin, "/_/ready").body, "starting\n");
    assert_eq!(place.send("POST", "/Tables", "{\"TableName\":\"Rows\"}"), 201, "but it serves");
    place.running.set_ready();
    assert_eq!(get(admin, "/_/ready").status, 200);

    // A request in flight: its head is read, half of its body is not there.
    let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    let whole = wire("POST", "/Rows", &[("Content-Type", "application/json")], entity);
    let (first, rest) = whole.split_at(whole.len() - 10);
    let mut stream = TcpStream::connect(place.running.addr()).expect("a connection");
    stream.write_all(first.as_bytes()).expect("the server reads");
    let in_flight = || {
        let text = get(admin, "/_/metrics").body;
        Exposition::parse(&text).expect("metrics").get("tabulith_requests_in_flight")
    };
    while in_flight() != Some(1.0) {}
    let running = place.running;
    let stopping = std::thread::spawn(move || running.stop());
    while get(admin, "/_/ready").status == 200 {}
    assert_eq!(get(admin, "/_/ready").body, "draining\n");
    assert_eq!(get(admin, "/_/live").status, 200);
    stream.write_all(rest.as_bytes()).expect("it still reads");
    assert_eq!(read(&mut BufReader::new(stream)).status, 201);
    stopping.join().expect("a stop");
    while TcpStream::connect(admin).is_ok() {} // Until nobody listens any more.
}

/// Tests of applications that make no copies.
#[derive(Debug)]
struct NoForks;

impl Forks for NoForks {
    fn fork(&self, _: &Accounts) -> Result<(u64, SocketAddr), String> {
        Err("there are none".to_owned())
    }

    fn end(&self, _: u64) -> bool {
        false
    }
}

#[test]
fn a_new_account_is_where_the_tables_are() {
    let made = |addr: SocketAddr, host: &str| {
        let told = ask(addr, &format!("POST /_/accounts HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(told.status, 201, "{}", told.body);
        told.body
    };
    for admin in [None, Some(LOOPBACK.into())] {
        let parts = Parts { forks: Some(Arc::new(NoForks)), ..Parts::default() };
        let place = start_with(Config { admin, ..Config::default() }, parts, Arc::new(Threads));
        let tables = place.running.addr();
        // Under the name by which it was asked, where that is the same listener.
        let (body, host) = match place.running.admin_addr() {
            Some(addr) => (made(addr, &addr.to_string()), tables.to_string()),
            None => {
                let host = format!("localhost:{}", tables.port());
                (made(tables, &host), host)
            }
        };
        let endpoint = format!("TableEndpoint=http://{host}/test");
        assert!(body.contains(&endpoint), "{body}");
        assert!(body.contains("DefaultEndpointsProtocol=http;"), "{body}");
    }
}

/// The room for long heads, which all connections share, was kept as long as the connection of an
/// operator who sent one and then nothing.
#[test]
fn an_answer_to_a_long_head_is_the_last_one_for_operators_too() {
    let place = start(Config::default());
    let addr = place.running.addr();
    for (fields, is_last) in [(1, false), (10, true)] {
        let fill: String =
            (0..fields).map(|field| format!("X-Fill-{field}: {}\r\n", "x".repeat(6_000))).collect();
        let text = format!("GET /_/live HTTP/1.1\r\nHost: {addr}\r\n{fill}\r\n");
        let mut stream = BufReader::new(send(addr, &text));
        let told = read(&mut stream);
        assert_eq!(told.status, 200, "{}", told.body);
        assert_eq!(told.head.contains("connection: close"), is_last, "{}", told.head);
        if is_last {
            assert_eq!(stream.read(&mut [0]).expect("its end"), 0);
        }
    }
}

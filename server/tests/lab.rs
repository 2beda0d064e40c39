//! The fault lab over real sockets: what arrives of each fault, what has happened all the same, and
//! that nothing goes wrong where the lab was not asked for.

#![allow(clippy::disallowed_methods, reason = "a test's own folder")]

mod common;

use common::{Bench, date_of, request, sign};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::table::store::TableStore;
use tabulith::vfs::fault::{Call, FaultFs, Rule};
use tabulith::vfs::mem::SimFs;
use tabulith_server::config::Config;
use tabulith_server::faults::rule::Rules;
use tabulith_server::http::message::{Body, Response};
use tabulith_server::{Running, Server};

/// A server with a table.
struct House {
    running: Running,
    _folder: tempfile::TempDir,
}

/// What came back before the connection ended, or the whole answer.
#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    head: String,
    body: String,
    whole: bool,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn code(&self) -> (u16, Option<&str>) {
        (self.status, self.header("x-ms-error-code"))
    }
}

impl House {
    /// With a lab where there are rules for it.
    fn start(rules: Option<&str>) -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Db::open(folder.path().join("data")).expect("a database");
        let faults = rules.map(|text| Rules::parse(text).expect(text));
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), faults, ..Config::default() };
        let store = Arc::new(TableStore::new(Arc::new(db)));
        let running = Server::start(config, store).expect("a server");
        let house = House { running, _folder: folder };
        assert_eq!(house.send("POST", "/Tables", &[], "{\"TableName\":\"people\"}").status, 201);
        house
    }

    fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(self.running.addr()).expect("a connection"))
    }

    /// The answer to a request on a connection of its own.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        exchange(&mut self.connect(), method, path, headers, body)
    }

    /// The same with a fault that the request itself names.
    fn fail(&self, fault: &str, method: &str, path: &str, body: &str) -> Answer {
        self.send(method, path, &[("x-tabulith-fault", fault)], body)
    }

    fn has(&self, row: &str) -> bool {
        let found = self.send("GET", &entity(row), &[], "");
        assert!(found.whole && matches!(found.status, 200 | 404), "{found:?}");
        found.status == 200
    }
}

fn write(
    stream: &mut BufReader<TcpStream>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) {
    let mut request = request(method, path, headers, body);
    sign(&mut request.head, &date_of(SystemClock::new().wall_ticks()));
    let mut text = format!("{method} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", request.head.target);
    for (name, value) in request.head.headers.iter() {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    if let Body::Whole(body) = &request.body {
        text += &String::from_utf8_lossy(body);
    }
    stream.get_mut().write_all(text.as_bytes()).expect("the server reads");
}

/// Reads an answer, or as much of one as there is.
fn read(stream: &mut BufReader<TcpStream>) -> Answer {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if matches!(stream.read_line(&mut head), Ok(0) | Err(_)) {
            return Answer { status: 0, head, body: String::new(), whole: false };
        }
    }
    let status = head[9..12].parse().expect("a status");
    let mut answer = Answer { status, head, body: String::new(), whole: false };
    let length: u64 = answer.header("content-length").map_or(0, |text| text.parse().expect(text));
    let read = stream.take(length).read_to_string(&mut answer.body);
    answer.whole = read.is_ok() && answer.body.len() as u64 == length;
    answer
}

fn exchange(
    stream: &mut BufReader<TcpStream>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    write(stream, method, path, headers, body);
    read(stream)
}

fn person(row: &str) -> String {
    format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}")
}

fn entity(row: &str) -> String {
    format!("/people(PartitionKey='p',RowKey='{row}')")
}

fn batch_of(row: &str) -> String {
    format!(
        "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\n\
         PUT /people(PartitionKey='p',RowKey='{row}') HTTP/1.1\n\n{{}}\n--c--\n--b--\n"
    )
}

const MULTIPART: (&str, &str) = ("Content-Type", "multipart/mixed; boundary=b");

#[test]
fn busy_with_and_without_retry_after() {
    let house = House::start(Some(""));
    let plain = house.fail("busy", "POST", "/people", &person("a"));
    assert_eq!(plain.code(), (503, Some("ServerBusy")));
    assert!(plain.body.contains("The server is currently unable to receive requests."));
    assert_eq!(plain.header("Retry-After"), None);
    let timed = house.fail("busy retry-after=3", "POST", "/people", &person("a"));
    assert_eq!(timed.code(), (503, Some("ServerBusy")));
    assert_eq!(timed.header("Retry-After"), Some("3"));
    assert!(!house.has("a"), "what is refused has not happened");
    // A batch is refused as a whole.
    let batch = [MULTIPART, ("x-tabulith-fault", "busy")];
    let batch = house.send("POST", "/$batch", &batch, &batch_of("a"));
    assert_eq!(batch.code(), (503, Some("ServerBusy")));
    assert!(!house.has("a"));
}

#[test]
fn timed_out() {
    let house = House::start(Some(""));
    let answer = house.fail("timed-out", "POST", "/people", &person("a"));
    assert_eq!(answer.code(), (500, Some("OperationTimedOut")));
    assert!(answer.body.contains("Operation could not be completed within the permitted time."));
    assert!(!house.has("a"));
}

#[test]
fn a_cut_body() {
    let house = House::start(Some(""));
    for bytes in [0, 1, 17] {
        let (row, fault) = (format!("cut{bytes}"), format!("cut bytes={bytes}"));
        let answer = house.fail(&fault, "POST", "/people", &person(&row));
        assert_eq!((answer.status, answer.whole), (201, false));
        assert_eq!(answer.body, "{\"odata.metadata\":\"http://"[..bytes]);
        let length: usize =
            answer.header("content-length").and_then(|n| n.parse().ok()).expect("n");
        assert!(length > bytes, "{length}");
        assert!(house.has(&row), "the change stands");
    }
    // A large body breaks off deep within: all before that byte has left.
    for part in 0..4 {
        let text = "x".repeat(32_000);
        let body = format!("{{\"PartitionKey\":\"large\",\"RowKey\":\"{part}\",\"A\":\"{text}\"}}");
        assert_eq!(house.send("POST", "/people", &[], &body).status, 201);
    }
    let large = "/people()?$filter=PartitionKey%20eq%20'large'";
    let answer = house.fail("cut bytes=100000", "GET", large, "");
    assert_eq!((answer.status, answer.whole, answer.body.len()), (200, false, 100_000));
    // Nothing is cut where the body is shorter, and the connection goes on.
    let mut stream = house.connect();
    let header = [("x-tabulith-fault", "cut bytes=100000")];
    for _ in 0..2 {
        let answer = exchange(&mut stream, "GET", &entity("cut0"), &header, "");
        assert_eq!((answer.status, answer.whole), (200, true));
    }
}

#[test]
fn an_answer_without_a_body_is_cut_to_nothing() {
    let house = House::start(Some(""));
    let answer = house.fail("cut bytes=5", "PUT", &entity("a"), "{}");
    assert_eq!((answer.head.as_str(), answer.whole), ("", false));
    assert!(house.has("a"));
}

#[test]
fn applied_but_lost() {
    let house = House::start(Some(""));
    let answer = house.fail("lost", "POST", "/people", &person("a"));
    assert_eq!((answer.head.as_str(), answer.whole), ("", false));
    assert!(house.has("a"));
    // Who tries again is told so.
    let again = house.send("POST", "/people", &[], &person("a"));
    assert_eq!(again.code(), (409, Some("EntityAlreadyExists")));
    let header = [MULTIPART, ("x-tabulith-fault", "lost")];
    let batch = house.send("POST", "/$batch", &header, &batch_of("b"));
    assert_eq!((batch.head.as_str(), batch.whole), ("", false));
    assert!(house.has("b"));
    // Answers before it on the same connection are not lost.
    let mut stream = house.connect();
    assert_eq!(exchange(&mut stream, "GET", &entity("a"), &[], "").status, 200);
    write(&mut stream, "GET", &entity("a"), &[], "");
    write(&mut stream, "GET", &entity("a"), &[("x-tabulith-fault", "lost")], "");
    assert_eq!(read(&mut stream).status, 200);
    assert_eq!(read(&mut stream).head, "");
}

#[test]
fn a_delay() {
    let house = House::start(Some(""));
    assert_eq!(house.fail("delay ms=1", "POST", "/people", &person("a")).status, 201);
    // Ten minutes: others are served meanwhile, and who hangs up has asked for nothing.
    let mut late = house.connect();
    let header = [("x-tabulith-fault", "delay ms=600000")];
    write(&mut late, "POST", "/people", &header, &person("b"));
    for row in 0..30 {
        let body = person(&format!("meanwhile{row}"));
        assert_eq!(house.send("POST", "/people", &[], &body).status, 201);
    }
    assert!(!house.has("b"));
    late.get_ref().set_nonblocking(true).expect("a socket");
    let nothing_yet = late.read(&mut [0]).expect_err("no answer");
    assert_eq!(nothing_yet.kind(), ErrorKind::WouldBlock);
    drop(late);
    assert!(!house.has("b"));
}

#[test]
fn a_table_that_is_being_deleted() {
    let house = House::start(Some(""));
    assert_eq!(house.send("POST", "/people", &[], &person("a")).status, 201);
    let gone = house.fail("being-deleted seconds=600", "DELETE", "/Tables('People')", "");
    assert_eq!((gone.status, gone.whole), (204, true));
    let going = (409, Some("TableBeingDeleted"));
    let create = house.send("POST", "/Tables", &[], "{\"TableName\":\"PEOPLE\"}");
    assert_eq!(create.code(), going);
    assert!(create.body.contains("The specified table is being deleted. Try operation later."));
    for (method, path, body) in [
        ("POST", "/people", person("a").as_str()),
        ("POST", "/people", "{\"RowKey\":\"a\"}"),
        ("GET", "/people()", ""),
        ("GET", &entity("a"), ""),
        ("PUT", &entity("a"), "{}"),
    ] {
        assert_eq!(house.send(method, path, &[], body).code(), going, "{method} {path}");
    }
    let batch = house.send("POST", "/$batch", &[MULTIPART], &batch_of("a"));
    assert_eq!(batch.status, 202);
    assert!(batch.body.contains("HTTP/1.1 409 Conflict"), "{}", batch.body);
    assert!(batch.body.contains("0:The specified table is being deleted."), "{}", batch.body);
    let query = "--b\nContent-Type: application/http\n\nGET /people() HTTP/1.1\n\n--b--\n";
    let query = house.send("POST", "/$batch", &[MULTIPART], query);
    assert!(query.body.contains("\"code\":\"TableBeingDeleted\""), "{}", query.body);
    // The table itself is gone at once, and other tables are what they were.
    assert_eq!(house.send("GET", "/Tables('people')", &[], "").status, 404);
    assert_eq!(house.send("DELETE", "/Tables('people')", &[], "").status, 404);
    assert_eq!(house.send("POST", "/Tables", &[], "{\"TableName\":\"others\"}").status, 201);
}

/// What the server itself had no room for was told both times.
#[test]
fn one_time_to_wait() {
    let faults = Some(Rules::parse("busy retry-after=3 limit=2").expect("rules"));
    let bench = Bench::with(Config { faults, ..Config::default() });
    let ask = || {
        let mut ask = request("GET", "/Tables", &[], "");
        sign(&mut ask.head, &date_of(bench.clock.wall_ticks()));
        ask
    };
    let told = |response: &Response| {
        assert_eq!(response.status, 503);
        let headers = response.headers.iter().filter(|(name, _)| *name == "Retry-After");
        headers.map(|(_, value)| value.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(told(&bench.app.answer(ask())), ["3"]);
    let busy = || bench.app.busy(&bench.app.receive(&ask().head).expect("an admitted request"));
    assert_eq!(told(&busy()), ["3"]);
    // The rule has had its two.
    assert_eq!(told(&busy()), ["1"]);
}

#[test]
fn a_table_that_was_being_deleted_can_be_made_anew() {
    let faults = Some(Rules::parse("being-deleted seconds=40 limit=1").expect("rules"));
    let bench = Bench::with(Config { faults, ..Config::default() });
    let create = || bench.send("POST", "/Tables", &[], "{\"TableName\":\"people\"}").status;
    let delete = || bench.send("DELETE", "/Tables('people')", &[], "").status;
    assert_eq!((create(), delete(), create()), (201, 204, 409));
    bench.clock.advance(Duration::from_millis(39_999));
    assert_eq!(create(), 409);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(create(), 201);
    assert_eq!(bench.send("POST", "/people", &[], &person("a")).status, 201);
    // The rule has done what it may.
    assert_eq!((delete(), create()), (204, 201));
}

/// Who made the table anew between its drop and the word of that had one that was said to be going.
#[test]
fn a_table_is_said_to_be_going_before_it_is_gone() {
    let disk = FaultFs::new(Arc::new(SimFs::new()));
    let faults = Some(Rules::parse("").expect("rules"));
    let bench = Bench::over(Arc::new(disk.clone()), Config { faults, ..Config::default() });
    let create = || bench.send("POST", "/Tables", &[], "{\"TableName\":\"people\"}");
    assert_eq!(create().status, 201);
    let ((is_held, held), (go_on, still)) = (channel(), channel::<()>());
    disk.interrupt(Rule::fail(Call::Sync), move || {
        let _ = is_held.send(());
        let _ = still.recv();
    });
    let (read, made, dropped) = std::thread::scope(|scope| {
        let fault = [("x-tabulith-fault", "being-deleted")];
        let bench = &bench;
        let dropping = scope.spawn(move || bench.send("DELETE", "/Tables('people')", &fault, ""));
        held.recv().expect("a sync");
        let read = bench.send("GET", &entity("a"), &[], "");
        let making = scope.spawn(create);
        drop(go_on);
        (read, making.join().expect("an answer"), dropping.join().expect("an answer"))
    });
    assert_eq!(dropped.status, 204);
    for answer in [read, made] {
        assert_eq!(answer.get("x-ms-error-code"), Some("TableBeingDeleted"), "{answer:?}");
    }
}

#[test]
fn a_table_that_is_not_dropped_goes_for_as_long_as_it_did_before() {
    let faults = Some(Rules::parse("").expect("rules"));
    let bench = Bench::with(Config { faults, ..Config::default() });
    let create = || bench.send("POST", "/Tables", &[], "{\"TableName\":\"people\"}").status;
    let delete = |fault: &str| {
        bench.send("DELETE", "/Tables('people')", &[("x-tabulith-fault", fault)], "").status
    };
    assert_eq!((delete("being-deleted"), create()), (404, 201));
    assert_eq!((delete("being-deleted seconds=40"), create()), (204, 409));
    assert_eq!((delete("being-deleted seconds=600"), create()), (404, 409));
    bench.clock.advance(Duration::from_secs(40));
    assert_eq!(create(), 201);
}

#[test]
fn empty_pages_with_tokens() {
    let house = House::start(Some("empty-page every=2"));
    for row in ["a", "b", "c"] {
        assert_eq!(house.send("POST", "/people", &[], &person(row)).status, 201);
    }
    // Every second page is empty; whoever follows the tokens sees each entity once.
    let (mut rows, mut empty, mut next) = (String::new(), 0, String::new());
    for _ in 0..20 {
        let path = format!("/people()?$top=1&$select=RowKey{next}");
        let page = house.send("GET", &path, &[("Accept", "application/json;odata=nometadata")], "");
        assert_eq!(page.status, 200, "{page:?}");
        let found = page.body.trim_start_matches("{\"value\":[").trim_end_matches("]}");
        rows += found.trim_start_matches("{\"RowKey\":\"").trim_end_matches("\"}");
        empty += usize::from(found.is_empty());
        let token = |name: &str| page.header(&format!("x-ms-continuation-{name}"));
        let Some((partition, row)) = token("NextPartitionKey").zip(token("NextRowKey")) else {
            break;
        };
        next = format!("&NextPartitionKey={partition}&NextRowKey={row}");
    }
    assert_eq!((rows.as_str(), empty), ("abc", 2));
    // What is wrong with a query is told all the same.
    let wrong = "/people()?$filter=A%20xx%20B";
    assert_eq!(house.fail("empty-page", "GET", wrong, "").code(), (400, Some("InvalidInput")));
    let none = house.fail("empty-page", "GET", "/nobody()", "");
    assert_eq!(none.code(), (404, Some("TableNotFound")));
}

#[test]
fn the_header_without_the_flag_does_nothing() {
    let house = House::start(None);
    for (row, fault) in [
        "busy",
        "busy retry-after=3",
        "timed-out",
        "cut",
        "cut bytes=1",
        "lost",
        "delay ms=600000",
        "being-deleted",
        "empty-page",
        "nonsense",
    ]
    .iter()
    .enumerate()
    {
        let row = row.to_string();
        let made = house.fail(fault, "POST", "/people", &person(&row));
        assert_eq!((made.status, made.whole), (201, true), "{fault}");
        let found = house.fail(fault, "GET", "/people()?$top=1", "");
        assert_eq!((found.status, found.whole), (200, true), "{fault}");
        assert!(found.body.contains("\"RowKey\":\"0\""), "{fault}: {}", found.body);
        let table = format!("{{\"TableName\":\"Dropped{row}\"}}");
        let dropped = format!("/Tables('Dropped{row}')");
        for _ in 0..2 {
            assert_eq!(house.fail(fault, "POST", "/Tables", &table).status, 201, "{fault}");
            assert_eq!(house.fail(fault, "DELETE", &dropped, "").status, 204, "{fault}");
        }
    }
}

#[test]
fn a_header_that_makes_no_sense_is_told_so() {
    let house = House::start(Some(""));
    for (fault, says) in [
        ("lsot", "x-tabulith-fault: `lsot`: no fault; there are busy, "),
        ("busy every=2", "x-tabulith-fault: `every=2`: no such setting; busy has"),
        ("empty-page", "x-tabulith-fault: this fault is for query alone"),
        ("", "x-tabulith-fault: ``: no fault"),
    ] {
        let answer = house.fail(fault, "POST", "/people", &person("a"));
        assert_eq!(answer.code(), (400, Some("InvalidHeaderValue")), "{fault}");
        assert!(answer.body.contains(says), "{fault}: {}", answer.body);
    }
    assert!(!house.has("a"));
}

#[test]
fn faults_are_for_who_is_let_in() {
    let house = House::start(Some("lost operation=query"));
    let mut stream = house.connect();
    let request =
        "GET /devstoreaccount1/people() HTTP/1.1\r\nHost: a\r\nx-tabulith-fault: lost\r\n\r\n";
    stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
    assert_eq!(read(&mut stream).status, 403);
}

/// What became of a row of requests, each on a connection of its own.
fn sequence(rules: &str) -> String {
    let house = House::start(Some(rules));
    let outcome = |at: usize| {
        let row = at.to_string();
        let answer = match at % 3 {
            0 => house.send("POST", "/people", &[("Prefer", "return-no-content")], &person(&row)),
            1 => house.send("PUT", &entity(&row), &[], "{}"),
            _ => house.send("GET", "/people()?$top=1", &[], ""),
        };
        match (answer.status, answer.whole) {
            (0, _) => 'L',
            (200, false) => 'C',
            (200..300, true) => '.',
            (503, true) => 'B',
            (500, true) => 'T',
            other => panic!("{other:?}"),
        }
    };
    (0..120).map(outcome).collect()
}

#[test]
fn the_same_seed_plays_the_same_faults_again() {
    let rules = |seed: u64| {
        format!(
            "seed {seed}\nlost operation=insert chance=0.3\ncut bytes=9 operation=query chance=0.4\n\
             timed-out operation=insert-or-replace every=4\nbusy operation=insert,query chance=0.2"
        )
    };
    let first = sequence(&rules(7));
    assert_eq!(sequence(&rules(7)), first);
    assert_ne!(sequence(&rules(8)), first);
    for fault in ['L', 'C', 'T', 'B', '.'] {
        assert!(first.contains(fault), "{fault} in {first}");
    }
}

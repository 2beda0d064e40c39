//! Real sockets: what only the connection itself can get right.

#![allow(clippy::disallowed_methods, reason = "a test's own folder")]

mod common;

use common::{Bench, date_of, request, sign};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use tabulith::db::Db;
use tabulith::env::clock::{Clock as _, SystemClock};
use tabulith::table::store::TableStore;
use tabulith_server::config::Config;
use tabulith_server::http::message::{Body, Head, Request};
use tabulith_server::{Running, Server};

struct House {
    running: Running,
    _folder: tempfile::TempDir,
}

impl House {
    fn start() -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Db::open(folder.path().join("data")).expect("a database");
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
        let store = Arc::new(TableStore::new(Arc::new(db)));
        let running = Server::start(config, store).expect("a server");
        House { running, _folder: folder }
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.running.addr()).expect("a connection");
        Client { reader: BufReader::new(stream) }
    }
}

struct Client {
    reader: BufReader<TcpStream>,
}

struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Client {
    fn write(&mut self, text: &str) {
        self.reader.get_mut().write_all(text.as_bytes()).expect("the server reads");
    }

    fn read(&mut self) -> Answer {
        let Answer { status, headers, .. } = self.read_head();
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
        self.reader.read_exact(&mut body).expect("the whole body");
        Answer { status, headers, body: String::from_utf8(body).expect("text") }
    }

    fn read_head(&mut self) -> Answer {
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") {
            let read = self.reader.read_line(&mut headers).expect("the server answers");
            assert!(read > 0, "the server hung up after {headers:?}");
        }
        let status = headers[9..12].parse().expect("a status");
        Answer { status, headers, body: String::new() }
    }

    fn send(&mut self, request: &Request) -> Answer {
        self.write(&text(request));
        self.read()
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.reader.read(&mut [0]), Ok(0) | Err(_))
    }
}

fn signed(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let mut request = request(method, path, headers, body);
    sign(&mut request.head, &date_of(SystemClock::new().wall_ticks()));
    request
}

fn head_text(head: &Head) -> String {
    let mut text =
        format!("{} {} HTTP/1.1\r\nHost: {}\r\n", head.method, head.target, head.authority);
    for (name, value) in head.headers.iter() {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

fn text(request: &Request) -> String {
    let body = match &request.body {
        Body::Whole(body) => String::from_utf8_lossy(body).into_owned(),
        _ => String::new(),
    };
    head_text(&request.head) + &body
}

fn make_table(client: &mut Client) {
    let made = client.send(&signed("POST", "/Tables", &[], "{\"TableName\":\"people\"}"));
    assert_eq!(made.status, 201, "{}", made.body);
}

fn insert(row_key: &str) -> Request {
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\"}}");
    signed("POST", "/people", &[("Prefer", "return-no-content")], &body)
}

fn get(row_key: &str) -> Request {
    signed("GET", &format!("/people(PartitionKey='p',RowKey='{row_key}')"), &[], "")
}

#[test]
fn a_connection_serves_many_requests() {
    let house = House::start();
    let mut client = house.connect();
    make_table(&mut client);
    for row_key in 0..50 {
        let row_key = row_key.to_string();
        assert_eq!(client.send(&insert(&row_key)).status, 204);
        let found = client.send(&get(&row_key));
        assert_eq!(found.status, 200);
        assert!(found.headers.contains("etag: W/\"datetime'"), "{}", found.headers);
        assert!(found.headers.contains("date: "), "{}", found.headers);
        assert!(found.body.contains(&format!("\"RowKey\":\"{row_key}\"")));
    }
    // Several at once: the answers come in order.
    let requests: String = (0..50).map(|row_key| text(&get(&row_key.to_string()))).collect();
    client.write(&requests);
    for row_key in 0..50 {
        assert!(client.read().body.contains(&format!("\"RowKey\":\"{row_key}\"")));
    }
}

#[test]
fn what_is_acknowledged_is_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || {
        let db = Db::open(folder.path().join("data")).expect("a database");
        let config = Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
        let store = Arc::new(TableStore::new(Arc::new(db.clone())));
        (Server::start(config, store).expect("a server"), db)
    };
    let (running, db) = start();
    let stream = TcpStream::connect(running.addr()).expect("a connection");
    let mut client = Client { reader: BufReader::new(stream) };
    make_table(&mut client);
    assert_eq!(client.send(&insert("kept")).status, 204);
    running.stop();
    assert!(client.is_closed(), "a stop ends idle connections");
    db.close().expect("closed");
    drop(db);
    let (running, _db) = start();
    let stream = TcpStream::connect(running.addr()).expect("a connection");
    let mut client = Client { reader: BufReader::new(stream) };
    assert_eq!(client.send(&get("kept")).status, 200);
}

#[test]
fn a_stop_answers_what_is_in_flight() {
    let house = House::start();
    let mut client = house.connect();
    make_table(&mut client);
    let mut request = insert("last");
    request.head.headers.push("Expect", "100-continue");
    client.write(&head_text(&request.head));
    // Whoever asks for the body has the head.
    assert_eq!(client.read().status, 100);
    let House { running, _folder } = house;
    let addr = running.addr();
    let stopped = std::thread::spawn(move || running.stop());
    client.write(text(&request).split_once("\r\n\r\n").expect("a body").1);
    assert_eq!(client.read().status, 204);
    stopped.join().expect("stopped");
    assert!(TcpStream::connect(addr).is_err(), "nobody listens any more");
}

#[test]
fn bodies_in_chunks_and_on_demand() {
    let house = House::start();
    let mut client = house.connect();
    make_table(&mut client);
    let mut chunked = insert("chunked");
    let body = match std::mem::take(&mut chunked.body) {
        Body::Whole(body) => String::from_utf8_lossy(&body).into_owned(),
        _ => String::new(),
    };
    let head = head_text(&chunked.head);
    let head =
        head.replace(&format!("Content-Length: {}", body.len()), "Transfer-Encoding: chunked");
    let (one, two) = body.split_at(7);
    client.write(&format!(
        "{head}{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n",
        one.len(),
        two.len()
    ));
    assert_eq!(client.read().status, 204);
    assert_eq!(client.send(&get("chunked")).status, 200);

    let mut asked = insert("asked");
    asked.head.headers.push("Expect", "100-continue");
    client.write(&head_text(&asked.head));
    assert_eq!(client.read().status, 100);
    let whole = text(&asked);
    client.write(whole.split_once("\r\n\r\n").expect("a body").1);
    assert_eq!(client.read().status, 204);

    // Who may not ask is told so without having sent a body.
    let mut denied = request("POST", "/people", &[("Expect", "100-continue")], "{}");
    denied.head.headers.push("Authorization", "SharedKey nobody:AAAA");
    let mut client = house.connect();
    client.write(&head_text(&denied.head));
    assert_eq!(client.read().status, 400);
}

#[test]
fn bodies_that_are_too_large_are_told_so() {
    let house = House::start();
    let mut client = house.connect();
    make_table(&mut client);
    let limit = 4 << 20;
    let just = signed("POST", "/people", &[], &" ".repeat(limit));
    let answer = client.send(&just);
    assert_eq!((answer.status, answer.body.contains("InvalidInput")), (400, true));
    let over = signed("POST", "/people", &[], &" ".repeat(limit + 1));
    let answer = client.send(&over);
    assert_eq!((answer.status, answer.body.contains("RequestBodyTooLarge")), (413, true));
    // The connection is as good as before.
    assert_eq!(client.send(&insert("after")).status, 204);
    let mut endless = signed("POST", "/people", &[], "").head;
    endless.headers.push("Transfer-Encoding", "chunked");
    let head = head_text(&endless).replace("Content-Length: 0\r\n", "");
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    client.write(&format!("{head}{}0\r\n\r\n", chunk.repeat(5)));
    assert_eq!(client.read().status, 413);
}

#[test]
fn a_body_that_breaks_off_changes_nothing() {
    let house = House::start();
    let mut client = house.connect();
    make_table(&mut client);
    let request = text(&insert("half"));
    client.write(&request[..request.len() - 1]);
    client.reader.get_mut().shutdown(std::net::Shutdown::Write).expect("shut");
    assert!(client.is_closed());
    assert_eq!(house.connect().send(&get("half")).status, 404);
}

#[test]
fn long_addresses_and_odd_verbs() {
    let house = House::start();
    let mut client = house.connect();
    make_table(&mut client);
    let filter = vec!["RowKey%20eq%20'x'"; 1_000].join("%20or%20");
    let long = format!("/people()?$filter={filter}&_={}", "x".repeat(40_000));
    let answer = client.send(&signed("GET", &long, &[], ""));
    assert_eq!(answer.status, 200);
    // The connection has grown for it, and would keep what others may need.
    assert!(answer.headers.contains("connection: close\r\n"), "{}", answer.headers);
    assert!(client.is_closed());
    let mut client = house.connect();
    client.write(&text(&signed("HEAD", "/Tables", &[], "")));
    assert_eq!(client.read_head().status, 405);
    // Its answer has no body: the next one follows at once.
    assert_eq!(client.send(&get("none")).status, 404);
}

#[test]
fn two_hosts_and_no_host() {
    let house = House::start();
    for hosts in ["Host: a\r\nHost: b\r\n", ""] {
        let mut client = house.connect();
        client.write(&format!("GET /devstoreaccount1/Tables HTTP/1.1\r\n{hosts}\r\n"));
        let answer = client.read();
        assert_eq!((answer.status, answer.body.contains("HostInformation")), (400, true));
    }
}

#[test]
fn a_port_in_use_is_said_so() {
    let house = House::start();
    let config = Config { listen: house.running.addr(), ..Config::default() };
    let db = Bench::new().db;
    let error = Server::start(config, Arc::new(TableStore::new(db))).expect_err("taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

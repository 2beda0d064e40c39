//! The program with a collector of traces beside it: which spans arrive, what they say and what
//! they never say, a collector that hangs or is absent, and the last spans at the end.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

#[path = "../kill/client.rs"]
mod client;
mod collector;
#[path = "../common/mod.rs"]
mod common;

use client::Client;
use collector::{Collector, Received};
use common::{Place, Server};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// What is in keys, values, queries and signatures here, and in no span.
const SECRETS: [&str; 5] = ["pkSecret", "rkSecret", "valueSecret", "querySecret", "SharedKeyLite"];

fn serve(place: &Place, endpoint: &str, name: &str) -> Server {
    let args = ["serve", "--port", "0", "--data-dir", "data", "--otlp-endpoint", endpoint];
    let mut command = place.command(&[&args[..], &["--admin-address", "127.0.0.1:0"]].concat());
    // Whoever hangs hangs until the end, however slow the machine is.
    command.env("OTEL_SERVICE_NAME", name).env("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000");
    Server::of(command.stdout(Stdio::piped()).spawn().unwrap())
}

/// Sends a signed request with another header, over a connection of its own; its status.
fn send(server: &Server, (verb, resource): (&str, &str), header: &str, body: &str) -> u16 {
    let client = Client::connect(server.port()).unwrap();
    let text = client.written(verb, resource, "application/json", body);
    let (first, rest) = text.split_once("\r\n").unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    write!(stream, "{first}\r\n{header}\r\nConnection: close\r\n{rest}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// A metric of a server.
fn metric(server: &Server, name: &str) -> u64 {
    let text = server.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
}

#[test]
fn spans_say_what_was_asked_by_whom_and_nothing_of_the_data() {
    let place = Place::new();
    let collector = Collector::start();
    let server = serve(&place, &collector.endpoint(), "shop tables");
    let traced = format!("traceparent: 00-{TRACE}-{PARENT}-01");
    let unrecorded = format!("traceparent: 00-{TRACE}-{PARENT}-00");
    let entity = "{\"PartitionKey\":\"pkSecret\",\"RowKey\":\"rkSecret\",\"A\":\"valueSecret\"}";
    let key = "Shop(PartitionKey='pkSecret',RowKey='rkSecret')";
    assert_eq!(send(&server, ("POST", "Tables"), "X: y", "{\"TableName\":\"Shop\"}"), 201);
    assert_eq!(send(&server, ("POST", "Shop"), &traced, entity), 201);
    assert_eq!(send(&server, ("GET", key), "User-Agent: me", ""), 200);
    assert_eq!(
        send(&server, ("GET", "Shop(PartitionKey='pkSecret',RowKey='z')"), &traced, ""),
        404
    );
    assert_eq!(send(&server, ("GET", key), &unrecorded, ""), 200);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream
        .write_all(
            b"GET /devstoreaccount1/Shop()?sig=querySecret HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    // Nothing waits for the batch to be full: the end has it sent.
    assert_eq!(server.terminate().0, 0);
    let Received { spans, resource, raw, paths } = collector.end();
    assert!(paths.iter().all(|path| path == "POST /v1/traces"), "{paths:?}");
    assert_eq!(resource["service.name"], "shop tables");
    assert!(!resource["service.version"].is_empty());

    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let entity_route = "/{account}/{table}(PartitionKey='{partition}',RowKey='{row}')";
    let get = format!("GET {entity_route}");
    let expected = ["POST /{account}/Tables", "POST /{account}/{table}", &get, &get, "GET"];
    assert_eq!(names, expected, "the one that nobody records is not there");
    let [create, insert, found, missing, refused] = &spans[..] else { panic!("{spans:?}") };

    assert_eq!((insert.trace.as_str(), insert.parent.as_str()), (TRACE, PARENT));
    assert_eq!((missing.trace.as_str(), missing.parent.as_str()), (TRACE, PARENT));
    assert!(insert.id != missing.id && insert.id.len() == 16 && insert.id != PARENT);
    assert_eq!(create.parent, "", "a trace of its own");
    assert_eq!(create.trace, create.says("azure.service.request.id").replace('-', ""));
    for (span, says) in [
        (insert, [("http.request.method", "POST"), ("http.response.status_code", "201")]),
        (insert, [("db.operation.name", "insert"), ("db.collection.name", "Shop")]),
        (insert, [("db.namespace", "devstoreaccount1"), ("db.system.name", "tabulith")]),
        (found, [("http.route", entity_route), ("user_agent.original", "me")]),
        (found, [("url.scheme", "http"), ("client.address", "127.0.0.1")]),
        (
            missing,
            [("db.response.status_code", "ResourceNotFound"), ("http.response.status_code", "404")],
        ),
        (refused, [("db.operation.name", "none"), ("http.response.status_code", "403")]),
        (refused, [("server.address", "h"), ("server.port", "1")]),
    ] {
        says.iter()
            .for_each(|(name, value)| assert_eq!(span.says(name), *value, "{name}: {span:?}"));
    }
    for span in &spans {
        assert_eq!((span.kind, span.status), (2, 0), "a server's, and no error of it: {span:?}");
        assert!(span.end_ns > span.start_ns && span.end_ns - span.start_ns < 60_000_000_000);
        assert!(!span.attributes.contains_key("url.path"), "{span:?}");
    }
    // Whoever was refused is named by nobody: any account and table can be asked for.
    for name in ["db.namespace", "db.collection.name"] {
        assert!(!refused.attributes.contains_key(name), "{refused:?}");
    }
    for secret in SECRETS {
        assert!(!raw.contains(secret), "{secret} has left the house");
    }
}

#[test]
fn a_collector_that_hangs_costs_spans_and_no_requests() {
    let place = Place::new();
    let collector = Collector::hanging();
    let server = serve(&place, &collector.endpoint(), "x");
    let mut client = Client::connect(server.port()).unwrap();
    assert_eq!(client.create_table("Rows").unwrap().status, 201);
    collector.wait_for_a_request();
    // More than the queue holds: each is answered, and the metric says how many had no place.
    let asked = 2_048 + 500;
    for _ in 0..asked {
        assert_eq!(client.page("Rows", "?$top=1").unwrap().status, 200);
    }
    let dropped = metric(&server, "tabulith_spans_dropped_total{reason=\"queue_full\"}");
    assert_eq!(dropped, asked - 2_048, "all but those that the queue holds");
    assert_eq!(metric(&server, "tabulith_spans_sent_total"), 0);
    // It still ends in order, within the two seconds that the last spans may take.
    assert_eq!(server.terminate().0, 0);
}

#[test]
fn a_collector_that_is_absent_costs_spans_and_no_requests() {
    let place = Place::new();
    // A port of nobody.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = serve(&place, &format!("http://127.0.0.1:{port}/"), "x");
    let mut client = Client::connect(server.port()).unwrap();
    assert_eq!(client.create_table("Rows").unwrap().status, 201);
    while metric(&server, "tabulith_spans_dropped_total{reason=\"not_taken\"}") == 0 {
        assert_eq!(client.page("Rows", "").unwrap().status, 200);
    }
    assert_eq!(server.terminate().0, 0);
}

#[test]
fn an_address_that_is_none_ends_the_start() {
    let place = Place::new();
    let ran = place.run(&["serve", "--port", "0", "--otlp-endpoint", "localhost:4318"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("http:// or https:// is needed"), "{}", ran.err);
}

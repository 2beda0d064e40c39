//! The program as its operators meet it: settings and where they come from, health, seeds, copies
//! for tests, the log, systemd, Azurite's command line, the end with requests in flight.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests"
)]

#[path = "kill/client.rs"]
mod client;
mod common;

use client::Client;
use common::{Place, Server};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;
use tabulith_client::connection::DEVELOPMENT_KEY;

/// What `config print` says: value and source of each setting.
fn settings(out: &str) -> BTreeMap<String, (String, String)> {
    let line = |line: &str| {
        let (setting, source) = line.rsplit_once(" # ")?;
        let (key, value) = setting.split_once(" = ")?;
        Some((key.to_owned(), (value.to_owned(), source.to_owned())))
    };
    out.lines().filter_map(line).collect()
}

#[test]
fn settings_come_from_flags_then_variables_then_a_file_then_defaults() {
    let place = Place::new();
    let text = "port = 7001\nconnections = 12\nscrub-hours = 3\n\
                trusted-proxy = [\"10.0.0.0/8\"]\nsilent = true\n";
    let file = place.file("t.toml", text);
    let mut command = place.command(&["config", "print", "--config", &file, "--port", "7002"]);
    command.env("TABULITH_CONNECTIONS", "34");
    let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let shown = settings(&out);
    let is = |key: &str, value: &str, source: &str| {
        assert_eq!(shown[key], (value.to_owned(), source.to_owned()), "{key} in\n{out}");
    };
    is("port", "7002", "--port");
    is("connections", "34", "TABULITH_CONNECTIONS");
    is("scrub-hours", "3", &format!("{file}:3"));
    is("trusted-proxy", "[\"10.0.0.0/8\"]", &format!("{file}:4"));
    is("silent", "true", &format!("{file}:5"));
    is("durability", "\"synced\"", "default");
    is("data-dir", "\"tabulith-data\"", "default");
    assert!(out.contains("# admin-address is not set\n"), "{out}");

    // What it prints is a file of settings that says the same, but for what is a flag only.
    let flags = ["config", "print", "--config", &file, "--throttle-partition", "7"];
    let with_flags = place.ok(&flags).out;
    assert!(with_flags.contains("\n# throttle-partition = \"7\": a flag only"), "{with_flags}");
    for printed in [out, with_flags] {
        let again = place.file("again.toml", &printed);
        let shown_again = settings(&place.ok(&["config", "print", "--config", &again]).out);
        for (key, (value, _)) in settings(&printed) {
            assert_eq!(shown_again[&key].0, value, "{key}");
        }
    }
    let ran = place.run(&["serve", "--config", &place.file("bad.toml", "port = 1\nprot = 2\n")]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("bad.toml:2: prot: unknown"), "{}", ran.err);
    let ran = place.run(&["serve", "--config", "nowhere.toml"]);
    assert!(ran.code != 0 && ran.err.contains("--config nowhere.toml"), "{}", ran.err);
    // A setting of the file counts for what others need.
    let needs = place.file("tls.toml", "tls-listen = \"127.0.0.1:0\"\n");
    let ran = place.run(&["config", "print", "--config", &needs]);
    assert_eq!(ran.code, 2, "{}", ran.out);
    place.ok(&["config", "print", "--config", &needs, "--tls-self-signed", "ca.pem"]);
}

#[test]
fn settings_say_where_the_accounts_come_from() {
    let place = Place::new();
    let is = |file: &str, accounts: &str, told: &str| {
        let file = place.file("t.toml", file);
        let mut command = place.command(&["config", "print", "--config", &file]);
        command.env("AZURITE_ACCOUNTS", accounts);
        let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(out.ends_with(&format!("\n# accounts: {told}\n")), "{told}: {out}");
    };
    is("", "", "devstoreaccount1 # default");
    is("", "mine:YQ==", "not shown # AZURITE_ACCOUNTS");
    is("accounts-file = \"accounts\"\n", "", "not shown # accounts-file");
    is("accounts-file = \"accounts\"\n", "mine:YQ==", "not shown # accounts-file");
}

fn url(server: &Server, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", server.port())
}

/// Status and body of a request without credentials.
fn ask(port: u16, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn health_is_an_exit_code() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let port = server.port();
    place.ok(&["health", &url(&server, "")]);
    place.ok(&["health", &url(&server, "/_/live")]);
    assert_eq!(place.run(&["health", &url(&server, "/elsewhere")]).code, 1);
    server.kill();
    let ran = place.run(&["health", &format!("http://127.0.0.1:{port}")]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    let server = place.serve(0, "data");
    place.ok(&["health", &url(&server, "")]);
    assert_eq!(place.run(&["health", "ftp://x"]).code, 2);
}

#[test]
fn a_server_is_ready_though_nobody_reads_its_greeting() {
    let place = Place::new();
    // Two lines an account: far more than a pipe holds.
    let accounts: String = (0..2_000).map(|n| format!("account{n}:a2V5;")).collect();
    let accounts = place.file("accounts", accounts);
    let mut command = place.command(&["serve", "--port", "0", "--accounts-file", &accounts]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let (_, addr) = line.trim().split_once(" listens on ").unwrap();
    let ran = place.run(&["health", &format!("http://{addr}")]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ran.code, 0, "{}", ran.err);
}

/// Accounts of a file take the place of the published one, which others would else be served.
#[test]
fn a_server_for_others_takes_its_accounts_from_a_file() {
    let place = Place::new();
    let serve = |accounts: &str| {
        let listen = ["serve", "--port", "0", "--listen", "0.0.0.0", "--accounts-file", accounts];
        let mut command = place.command(&listen);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        let said = child.wait_with_output().unwrap().stderr;
        (line.contains(" listens on "), String::from_utf8_lossy(&said).into_owned())
    };
    let (listens, said) = serve(&place.file("own", "own:a2V5"));
    assert!(listens, "{said}");
    let published = format!("devstoreaccount1:{DEVELOPMENT_KEY}");
    let (listens, said) = serve(&place.file("published", published));
    assert!(!listens && said.contains("the published development key"), "{said}");
}

#[test]
fn seeds_are_there_from_the_start_and_only_once() {
    let place = Place::new();
    std::fs::create_dir(place.path("seeds")).unwrap();
    place.file("seeds/Stops.csv", "PartitionKey,RowKey,n\np,a,1\np,b,2\n");
    place.file("seeds/Lines.jsonl", "{\"PartitionKey\":\"q\",\"RowKey\":\"r\",\"t\":\"x\"}\n");
    place.file("seeds/README.md", "no rows\n");
    let run = |server: &Server, command: &[&str]| {
        let connection = ["--connection-string", &server.connection];
        place.ok(&[command, &connection].concat()).out
    };
    let rows = |server: &Server, table: &str| run(server, &["query", table, "-o", "csv"]);
    let row = |server: &Server, name: &str| {
        let key = ["--partition-key", "p", "--row-key", name];
        run(server, &[&["entity", "show", "-t", "Stops"], &key[..]].concat())
    };
    let server = place.serve_with(0, "data", &["--seed", "seeds"]);
    assert_eq!(rows(&server, "Stops").lines().count(), 3);
    assert_eq!(rows(&server, "Lines").lines().count(), 2);
    run(&server, &["entity", "upsert", "-t", "Stops", "-e", "PartitionKey=p", "RowKey=b", "n=7"]);
    run(&server, &["entity", "delete", "-t", "Lines", "--partition-key", "q", "--row-key", "r"]);
    let before = [row(&server, "a"), row(&server, "b")];
    assert!(before[0].contains("odata.etag") && before[1].contains("\"n\": 7"), "{before:?}");
    assert_eq!(server.terminate().0, 0);
    let server = place.serve_with(0, "data", &["--seed", "seeds"]);
    assert_eq!([row(&server, "a"), row(&server, "b")], before);
    assert_eq!(rows(&server, "Lines").lines().count(), 1, "a row that was deleted stays so");
    assert_eq!(server.terminate().0, 0);
    place.file("seeds/Bad.csv", "PartitionKey,n\np,1\n");
    let ran = place.run(&["serve", "--port", "0", "--data-dir", "data", "--seed", "seeds"]);
    assert!(ran.code != 0 && ran.err.contains("Bad.csv"), "{} {}", ran.code, ran.err);
    let ran = place.run(&["serve", "--port", "0", "--data-dir", "data", "--seed", "nowhere"]);
    assert!(ran.code != 0 && ran.err.contains("--seed nowhere"), "{}", ran.err);
}

/// As in a container whose user has no home: no server with seeds ever started there.
#[test]
fn seeds_are_loaded_where_nothing_can_be_recorded_and_without_a_word_where_none_is_wanted() {
    let place = Place::new();
    place.file("state", "no folder");
    std::fs::create_dir(place.path("seeds")).unwrap();
    place.file("seeds/Stops.csv", "PartitionKey,RowKey,n\np,a,1\np,b,2\n");
    let path = place.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let said = |data: &str, more: &[&str]| {
        let args = ["serve", "--port", "0", "--data-dir", data, "--seed", "seeds"];
        let mut command = place.command(&[&args, more].concat());
        command.env("NOTIFY_SOCKET", &path).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let mut ready = [0; 64];
        let len = socket.recv(&mut ready).unwrap();
        assert_eq!(&ready[..len], b"READY=1");
        let id = child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        let ended = child.wait_with_output().unwrap();
        assert!(killed.success() && ended.status.success());
        while socket.recv(&mut ready).unwrap() != b"STOPPING=1".len() {}
        assert_eq!(
            place.ok(&["query", "Stops", "-o", "csv", "--data-dir", data]).out.lines().count(),
            3
        );
        String::from_utf8(ended.stderr).unwrap()
    };
    let told = said("data", &[]);
    assert!(told.contains("imported 2 rows") && !told.contains("recorded"), "{told}");
    assert_eq!(said("quiet", &["--silent"]), "");
}

/// Its table is there by then, and would else be taken for loaded.
#[test]
fn a_seed_that_was_not_loaded_whole_is_loaded_by_the_next_start() {
    let place = Place::new();
    std::fs::create_dir(place.path("seeds")).unwrap();
    place.file("seeds/Stops.csv", "PartitionKey,RowKey,n\np,a,1\np,b\np,c,3\n");
    let serve = ["serve", "--port", "0", "--data-dir", "data", "--seed", "seeds"];
    let ran = place.run(&serve);
    assert!(ran.code == 1 && ran.err.contains("did not load whole"), "{} {}", ran.code, ran.err);
    let count = ["query", "Stops", "--count", "--data-dir", "data"];
    assert_eq!(place.ok(&count).out.trim(), "1");
    place.file("seeds/Stops.csv", "PartitionKey,RowKey,n\np,a,1\np,b,2\np,c,3\n");
    let server = place.serve_with(0, "data", &["--seed", "seeds"]);
    assert_eq!(server.terminate().0, 0);
    assert_eq!(place.ok(&count).out.trim(), "3");
}

const TESTING: [(&str, &str); 6] = [
    ("POST", "/_/reset"),
    ("POST", "/_/reset/devstoreaccount1"),
    ("POST", "/_/accounts"),
    ("DELETE", "/_/accounts/test012345678901"),
    ("POST", "/_/fork"),
    ("DELETE", "/_/fork/1"),
];

#[test]
fn nothing_for_tests_is_there_without_its_flag() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let mut client = Client::connect(server.port()).unwrap();
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    for (method, path) in TESTING {
        assert_eq!(ask(server.port(), method, path).0, 404, "{method} {path}");
    }
    assert_eq!(client.page("rows", "").unwrap().status, 200);
    let file = place.file("t.toml", "testing = true\n");
    assert_eq!(place.run(&["serve", "--config", &file]).code, 2);
}

#[test]
fn tests_have_accounts_copies_and_a_clean_slate() {
    let place = Place::new();
    // Of a server that was killed, and of somebody else.
    std::fs::create_dir_all(place.path("data.forks").join("7")).unwrap();
    let own = place.path("data.forks").join("own.txt");
    std::fs::write(&own, "kept").unwrap();
    let server = place.serve_with(0, "data", &["--testing"]);
    let port = server.port();
    let mut client = Client::connect(port).unwrap();
    let row = |n: u32| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{n}\"}}");
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    assert_eq!(client.insert("rows", &row(1)).unwrap().status, 201);
    let count = |client: &mut Client| {
        let mut rows = 0;
        client.each_row("rows", |_| rows += 1);
        rows
    };

    // A copy has what was there, and each goes its own way.
    let (status, body) = ask(port, "POST", "/_/fork");
    assert_eq!(status, 201, "{body}");
    let fork: Value = serde_json::from_str(&body).unwrap();
    let fork_port = u16::try_from(fork["port"].as_u64().unwrap()).unwrap();
    let mut copy = Client::connect(fork_port).unwrap();
    assert_eq!(copy.insert("rows", &row(2)).unwrap().status, 201);
    assert_eq!(client.insert("rows", &row(3)).unwrap().status, 201);
    assert_eq!(client.insert("rows", &row(4)).unwrap().status, 201);
    assert_eq!((count(&mut copy), count(&mut client)), (2, 3));
    assert_eq!(ask(fork_port, "POST", "/_/reset").0, 404, "a copy is no place for that");

    // An account of its own.
    let (status, body) = ask(port, "POST", "/_/accounts");
    assert_eq!(status, 201, "{body}");
    let account: Value = serde_json::from_str(&body).unwrap();
    let (name, connection) =
        (account["account"].as_str().unwrap(), account["connection"].as_str().unwrap());
    let at = ["--connection-string", connection];
    place.ok(&[&["table", "create", "mine"][..], &at].concat());
    assert_eq!(ask(port, "DELETE", &format!("/_/accounts/{name}")).0, 200);
    let ran = place.run(&[&["table", "list"][..], &at].concat());
    assert_eq!(ran.code, 6, "its key is dead: {}", ran.err);
    assert_eq!(ask(port, "DELETE", "/_/accounts/devstoreaccount1").0, 404);

    // A clean slate; policies and tables of before count for nothing.
    let (status, body) = ask(port, "POST", "/_/reset");
    assert_eq!((status, body.as_str()), (200, "{\"tables\":1}"));
    assert_eq!(client.page("rows", "").unwrap().status, 404);
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    assert_eq!(count(&mut client), 0);
    assert_eq!(count(&mut copy), 2, "the copy has its own");
    assert_eq!(ask(port, "POST", "/_/reset/nobody").0, 404);
    assert_eq!(ask(port, "DELETE", "/_/fork/1").0, 200);
    assert_eq!(ask(port, "DELETE", "/_/fork/1").0, 404);
    assert!(TcpStream::connect(("127.0.0.1", fork_port)).is_err(), "it is gone");
    assert_eq!(ask(port, "POST", "/_/fork").0, 201);
    assert_eq!(server.terminate().0, 0);
    let left = std::fs::read_dir(place.path("data.forks")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [own], "nothing is left of the copies, and nothing else is touched");
    assert!(place.ok(&["check", "data"]).err.contains("is clean"));
}

/// A request whose body has come by half.
fn half(port: u16, row: &str) -> (TcpStream, String) {
    let entity = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
    let request =
        Client::connect(port).unwrap().written("POST", "rows", "application/json", &entity);
    let (first, rest) = request.split_at(request.len() - 9);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(first.as_bytes()).unwrap();
    (stream, rest.to_owned())
}

#[test]
fn requests_in_flight_are_answered_before_the_end() {
    let place = Place::new();
    let server = place.serve_with(0, "data", &["--admin-address", "127.0.0.1:0"]);
    let port = server.port();
    let mut client = Client::connect(port).unwrap();
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    let mut requests: Vec<_> = (0..20).map(|n| half(port, &n.to_string())).collect();
    let (silent, _) = half(port, "never");
    while server.in_flight() < 21 {}
    let pid = server.pid();
    let ending = std::thread::spawn(move || {
        server.signal("-TERM");
        server.wait()
    });
    // It takes nobody new.
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {}
    // Who asks for files to be read anew asks for no end.
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    for (stream, rest) in &mut requests {
        stream.write_all(rest.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
    assert_eq!(ending.join().unwrap(), 0, "a client that never ends its request is left");
    drop(silent);
    let rows = place.ok(&["query", "rows", "--count", "--data-dir", "data"]).out;
    assert_eq!(rows.trim(), "20");
    assert!(place.ok(&["check", "data"]).err.contains("is clean"));
}

#[test]
fn the_log_is_json_with_ids_and_without_secrets() {
    let place = Place::new();
    let flags = ["-d", "log.json", "--log-format", "json", "--slow-request-ms", "1"];
    let server = place.serve_with(0, "data", &flags);
    let mut client = Client::connect(server.port()).unwrap();
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Secret\":\"va1ue\"}";
    let request = client.written("POST", "rows", "application/json", entity);
    let signature = request.lines().find(|line| line.starts_with("Authorization")).unwrap();
    let signature = signature.split_once(':').unwrap().1.rsplit(':').next().unwrap().to_owned();
    let (first, rest) = request.split_once("\r\n").unwrap();
    let traced = format!(
        "{first}\r\ntraceparent: 00-{trace}-00f067aa0ba902b7-01\r\nx-ms-client-request-id: mine\r\n\
         Connection: close\r\n{rest}"
    );
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(traced.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let id = answer.lines().find_map(|line| line.strip_prefix("x-ms-request-id: ")).unwrap();
    assert_eq!(server.terminate().0, 0);
    let log = std::fs::read_to_string(place.path("log.json")).unwrap();
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let mine: Vec<_> = lines.iter().filter(|line| line["request_id"] == id.trim()).collect();
    let told = mine.iter().find(|line| line["message"] == "request").expect("the request");
    assert_eq!((&told["op"], &told["status"]), (&"insert".into(), &201.into()), "{told}");
    assert_eq!((&told["trace_id"], &told["client_request_id"]), (&trace.into(), &"mine".into()));
    assert_eq!(told["parent_id"], "00f067aa0ba902b7");
    assert_eq!(told["span_id"].as_str().unwrap().len(), 16);
    for secret in [signature.trim(), "Eby8vdM02", "SharedKey", "va1ue"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

#[cfg(target_os = "linux")]
/// The text of a file of the repository.
fn text_of(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// It named one that no answer has: an alarm on it never rang.
#[test]
fn the_document_names_codes_that_answers_have() {
    let (document, errors) = (text_of("docs/operations.md"), text_of("server/src/error.rs"));
    let line = document.lines().find(|line| line.contains("`tabulith_refusals_total{code}`"));
    let (_, codes) = line.unwrap().split_once(" by its code (").unwrap();
    let codes: Vec<&str> = codes.split('`').skip(1).step_by(2).collect();
    assert!(codes.len() > 1, "{codes:?}");
    for code in codes {
        assert!(errors.contains(&format!("\"{code}\"")), "{code}");
    }
}

/// Whoever searched the log for what it said found nothing.
#[test]
fn the_document_names_what_the_log_says() {
    let document = text_of("docs/operations.md");
    let section = document.split("\n## ").find(|section| section.starts_with("The log\n")).unwrap();
    let section = section.replace('\n', " ");
    let is_said = |text: &&str| {
        text.contains(' ') && text.chars().all(|c| c == ' ' || c.is_ascii_lowercase())
    };
    let said: Vec<&str> = section.split('`').skip(1).step_by(2).filter(is_said).collect();
    assert!(said.len() > 4, "{said:?}");
    let sources = ["tools/src/events.rs", "server/src/refusal.rs"].map(text_of);
    for text in said {
        let begins = format!("\"{text}");
        assert!(sources.iter().any(|source| source.contains(&begins)), "{text}");
    }
}

#[test]
fn systemd_is_told() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let place = Place::new();
    let path = place.path("notify");
    let name = format!("tabulith-test-{}", std::process::id());
    let hidden = SocketAddr::from_abstract_name(&name).unwrap();
    for (socket, variable) in [
        (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
        (UnixDatagram::bind_addr(&hidden).unwrap(), format!("@{name}")),
    ] {
        let mut command =
            place.command(&["serve", "--port", "0", "--data-dir", "data", "--silent"]);
        let mut child =
            command.env("NOTIFY_SOCKET", &variable).env("WATCHDOG_USEC", "50000").spawn().unwrap();
        let said = || {
            let mut bytes = [0; 256];
            let len = socket.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..len].to_vec()).unwrap()
        };
        assert_eq!(said(), "READY=1");
        for _ in 0..3 {
            assert_eq!(said(), "WATCHDOG=1");
        }
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        while said() != "STOPPING=1" {}
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_signal_as_soon_as_it_is_ready_ends_it_in_order() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::os::unix::net::UnixDatagram;
    let place = Place::new();
    let path = place.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for round in 0..20 {
        let mut command =
            place.command(&["serve", "--port", "0", "--data-dir", "data", "--silent"]);
        let mut child = command.env("NOTIFY_SOCKET", &path).spawn().unwrap();
        let mut bytes = [0; 256];
        let len = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"READY=1");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let len = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], b"STOPPING=1");
        assert_eq!(child.wait().unwrap().code(), Some(0), "round {round}");
    }
}

/// Until the server was ready, a SIGHUP ended it by the system's own rule.
#[test]
fn a_hangup_while_it_starts_ends_no_server() {
    use rustix::process::{Signal, kill_process};
    let place = Place::new();
    let accounts = place.path("accounts");
    assert!(Command::new("mkfifo").arg(&accounts).status().unwrap().success());
    let mut command = place.command(&["serve", "--port", "0", "--data-dir", "data"]);
    command.arg("--accounts-file").arg(&accounts).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    // There once the server has opened it too, which then waits for what it says.
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&accounts).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    writeln!(pipe, "devstoreaccount1:{DEVELOPMENT_KEY}").unwrap();
    drop(pipe);
    let mut server = Server::of(child);
    assert!(server.lives());
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(server.wait(), 0);
}

/// While files were read at a SIGHUP no other signal was heard.
#[test]
fn a_file_that_does_not_come_keeps_no_server_from_its_end() {
    let place = Place::new();
    let accounts = place.file("accounts", format!("devstoreaccount1:{DEVELOPMENT_KEY}"));
    let server = place.serve_with(0, "data", &["--accounts-file", &accounts]);
    std::fs::remove_file(&accounts).unwrap();
    assert!(Command::new("mkfifo").arg(&accounts).status().unwrap().success());
    server.signal("-HUP");
    // There once the server has opened it too, which then waits for what it says.
    let pipe = std::fs::OpenOptions::new().write(true).open(&accounts).unwrap();
    let (ended, end) = channel();
    std::thread::spawn(move || ended.send(server.terminate().0));
    assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(0));
    drop(pipe);
}

#[test]
fn a_greeting_that_nobody_reads_is_no_reason_not_to_serve() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::os::unix::net::UnixDatagram;
    let place = Place::new();
    let path = place.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = place.command(&["serve", "--port", "0", "--data-dir", "data"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = command.env("NOTIFY_SOCKET", &path).stdout(writer).spawn().unwrap();
    let mut bytes = [0; 256];
    let len = socket.recv(&mut bytes).expect("it serves");
    assert_eq!(&bytes[..len], b"READY=1");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn nobody_who_listens_is_no_reason_not_to_serve() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--port", "0", "--data-dir", "data"]);
    command.env("NOTIFY_SOCKET", place.path("nowhere")).env("WATCHDOG_USEC", "50000");
    command.stdout(std::process::Stdio::piped());
    let mut server = Server::of(command.spawn().unwrap());
    assert!(server.lives());
    assert_eq!(server.terminate().0, 0);
}

/// Both copies of the metadata are there so that one may go; that it went, somebody must be told.
#[test]
fn the_log_says_what_the_start_put_right() {
    let place = Place::new();
    let server = place.serve(0, "data");
    assert_eq!(server.terminate().0, 0);
    let mut copies =
        std::fs::read_dir(place.path("data")).unwrap().map(|entry| entry.unwrap().path());
    let copy = copies.find(|path| path.to_str().unwrap().ends_with(".manifest-b")).unwrap();
    let mut bytes = std::fs::read(&copy).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&copy, bytes).unwrap();
    for (start, told) in [("the first", true), ("the next", false)] {
        let mut command = place.command(&["serve", "--port", "0", "--data-dir", "data"]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut err = child.stderr.take().unwrap();
        assert_eq!(Server::of(child).terminate().0, 0);
        let mut said = String::new();
        err.read_to_string(&mut said).unwrap();
        let is_told = said.contains("the start put damage right") && said.contains("manifest-b");
        assert_eq!(is_told, told, "{start}: {said}");
    }
}

#[test]
fn a_command_line_of_azurite_works() {
    let place = Place::new();
    let line = "--location data --tableHost 127.0.0.1 --tablePort 0 --blobHost 127.0.0.1 --blobPort 10000 \
                --queueHost 127.0.0.1 --queuePort 10001 --loose --skipApiVersionCheck \
                --disableProductStyleUrl --disableTelemetry --debug debug.log --extentMemoryLimit 50 \
                --tableKeepAliveTimeout 5 --oauth basic";
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut command = place.command(&words);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut err = child.stderr.take().unwrap();
    let server = Server::of(child);
    let mut client = Client::connect(server.port()).unwrap();
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    assert_eq!(server.terminate().0, 0);
    let mut said = String::new();
    err.read_to_string(&mut said).unwrap();
    for told in ["--blobPort means nothing here", "--queueHost means", "--extentMemoryLimit means"]
    {
        assert!(said.contains(told), "{told}: {said}");
    }
    assert!(!said.contains("Telemetry"), "there is none: {said}");
    assert!(place.path("data").is_dir() && place.path("debug.log").is_file());
    let ran = place.run(&["--cert", "a.pfx", "--key", "k", "--pwd", "x"]);
    assert!(ran.code == 2 && ran.err.contains("PEM") && !ran.err.contains("-pwd x"), "{}", ran.err);
    assert_eq!(place.run(&["--cert", "a.pem"]).code, 2);
}

#[test]
fn what_is_kept_in_memory_is_gone_at_the_end() {
    let place = Place::new();
    let server = place.serve_with(0, "data", &["--inMemoryPersistence"]);
    let mut client = Client::connect(server.port()).unwrap();
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    let folder = server.data();
    assert!(folder.is_dir() && !place.path("data").exists(), "{}", folder.display());
    assert_eq!(server.terminate().0, 0);
    assert!(!folder.exists(), "{}", folder.display());
}

/// It stayed in memory for good, where the greeting said that it is gone however the process ends.
#[test]
fn what_a_killed_process_kept_in_memory_goes_when_the_next_one_starts() {
    let place = Place::new();
    let start = || place.serve_with(0, "data", &["--inMemoryPersistence"]);
    let first = start();
    let left = first.data();
    assert!(left.is_dir(), "{}", left.display());
    first.kill();
    let second = start();
    assert!(!left.exists(), "{}", left.display());
    let third = start();
    let mut client = Client::connect(second.port()).unwrap();
    assert_eq!(client.create_table("rows").unwrap().status, 201);
    assert!(second.data().is_dir() && third.data().is_dir() && second.data() != third.data());
    for server in [second, third] {
        let folder = server.data();
        assert_eq!(server.terminate().0, 0);
        assert!(!folder.exists(), "{}", folder.display());
    }
}

#[test]
fn with_azurites_certificate_the_port_speaks_tls_alone() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let cert = place.file("cert.pem", made.cert.pem());
    let key = place.file("key.pem", made.signing_key.serialize_pem());
    let server = place.serve_with(0, "data", &["--cert", &cert, "--key", &key]);
    assert!(
        server.connection.contains("TableEndpoint=https://127.0.0.1:"),
        "{}",
        server.connection
    );
    let at = ["--connection-string", &server.connection, "--ca", &cert];
    place.ok(&[&["table", "create", "mine"][..], &at].concat());
    let plain = server.connection.replace("https", "http");
    assert_ne!(place.run(&["table", "list", "--connection-string", &plain]).code, 0);
    assert_eq!(server.terminate().0, 0);
}

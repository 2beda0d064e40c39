//! Request smuggling: bytes that a server and whatever stands before it could read in two ways, on
//! real sockets. Each is refused with its connection, or is one request and leaves the next one on
//! the same connection what it is.

#![allow(clippy::disallowed_methods, reason = "a test's own folder")]
#![allow(clippy::print_stdout, reason = "the counts are what the test shows")]

mod common;

use common::Sas;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tabulith::db::Db;
use tabulith::table::store::TableStore;
use tabulith_server::config::Config;
use tabulith_server::{Running, Server};

const CASES: &str = include_str!("smuggling/cases.txt");

/// Nobody waits that long in a test that passes.
const FOR_EVER: Duration = Duration::from_secs(300);

struct Case {
    name: &'static str,
    /// Statuses in order.
    answers: Vec<u16>,
    /// Whether the request behind the case is answered; else the connection is closed.
    goes_on: bool,
    bytes: Vec<u8>,
}

/// What stands in braces in the cases.
struct Words(Vec<(&'static str, Vec<u8>)>);

impl Words {
    fn new(sas: &str) -> Words {
        let line = |verb: &str, path: &str, headers: &str| {
            let path = format!("/devstoreaccount1/people{path}");
            format!("{verb} {path}?{sas} HTTP/1.1\r\nHost: h\r\n{headers}").into_bytes()
        };
        let json = "Content-Type: application/json\r\n";
        let evil = "x-ms-client-request-id: evil\r\nContent-Length: 2\r\n\r\n{}";
        let evil = line("PUT", "(PartitionKey='p',RowKey='evil')", evil);
        Words(vec![
            ("sas", sas.as_bytes().to_vec()),
            ("get", line("GET", "(PartitionKey='p',RowKey='r')", "")),
            ("put", line("PUT", "(PartitionKey='p',RowKey='w')", json)),
            ("post", line("POST", "", json)),
            ("json", b"{\"A\":1}".to_vec()),
            ("evil#", evil.len().to_string().into_bytes()),
            ("evil#x", format!("{:x}", evil.len()).into_bytes()),
            ("evil", evil),
        ])
    }

    /// What a text in braces stands for, if for anything: a word, or a text many times.
    fn meaning(&self, inside: &str) -> Option<Vec<u8>> {
        if let Some((_, meaning)) = self.0.iter().find(|(name, _)| *name == inside) {
            return Some(meaning.clone());
        }
        let (text, times) = inside.rsplit_once('*')?;
        Some(self.bytes(text).repeat(times.parse().ok()?))
    }

    fn bytes(&self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '\\' => escape(rest, &mut bytes),
                '{' => {
                    let inside = rest[1..].split_once('}').map(|(inside, _)| inside);
                    match inside.and_then(|inside| Some((inside.len(), self.meaning(inside)?))) {
                        Some((length, meaning)) => {
                            bytes.extend(meaning);
                            length + 2
                        }
                        None => plain(first, &mut bytes),
                    }
                }
                _ => plain(first, &mut bytes),
            };
            rest = &rest[length..];
        }
        bytes
    }
}

fn plain(first: char, bytes: &mut Vec<u8>) -> usize {
    bytes.extend(first.to_string().bytes());
    first.len_utf8()
}

fn escape(text: &str, bytes: &mut Vec<u8>) -> usize {
    let (byte, length) = match &text[1..2] {
        "r" => (b'\r', 2),
        "n" => (b'\n', 2),
        "t" => (b'\t', 2),
        "0" => (0, 2),
        "\\" => (b'\\', 2),
        "x" => (u8::from_str_radix(&text[2..4], 16).expect("two digits"), 4),
        _ => panic!("{text}"),
    };
    bytes.push(byte);
    length
}

fn cases(words: &Words) -> Vec<Case> {
    let lines = CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let case = |line: &'static str| {
        let (name, rest) = line.split_once(" | ").expect("a name");
        let (answers, bytes) = rest.split_once(" | ").expect("answers");
        let goes_on = answers.ends_with('+');
        let answers = answers.split(' ').filter_map(|answer| answer.parse().ok()).collect();
        Case { name, answers, goes_on, bytes: words.bytes(bytes) }
    };
    lines.map(case).collect()
}

struct House {
    running: Running,
    _folder: tempfile::TempDir,
    sas: String,
}

impl House {
    fn start() -> House {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Db::open(folder.path().join("data")).expect("a database");
        let config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            head_time_max: FOR_EVER,
            body_time_max: FOR_EVER,
            ..Config::default()
        };
        let running = Server::start(config, Arc::new(TableStore::new(Arc::new(db))));
        let sas = Sas::account().with("srt", "sco").with("sp", "rwdlacu").token();
        let house = House { running: running.expect("a server"), _folder: folder, sas };
        let table = "{\"TableName\":\"people\"}";
        assert_eq!(house.ask("POST", "Tables", table), 201);
        assert_eq!(house.ask("PUT", "people(PartitionKey='p',RowKey='r')", "{}"), 204);
        house
    }

    fn addr(&self) -> SocketAddr {
        self.running.addr()
    }

    /// Sends a request on a connection of its own.
    fn ask(&self, verb: &str, path: &str, body: &str) -> u16 {
        let mut talk = Talk::begin(self.addr());
        talk.write(
            format!(
                "{verb} /devstoreaccount1/{path}?{} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}",
                self.sas,
                body.len()
            )
            .as_bytes(),
        );
        talk.answer(false).expect("an answer").status
    }

    fn mark(&self, id: &str) -> Vec<u8> {
        let path = "/devstoreaccount1/people(PartitionKey='p',RowKey='r')";
        format!(
            "GET {path}?{} HTTP/1.1\r\nHost: h\r\nx-ms-client-request-id: {id}\r\n\r\n",
            self.sas
        )
        .into_bytes()
    }
}

struct Answer {
    status: u16,
    id: Option<String>,
}

struct Talk(BufReader<TcpStream>);

impl Talk {
    fn begin(addr: SocketAddr) -> Talk {
        let stream = TcpStream::connect(addr).expect("a connection");
        stream.set_nodelay(true).expect("set");
        stream.set_read_timeout(Some(FOR_EVER)).expect("set");
        Talk(BufReader::new(stream))
    }

    /// Who was refused may find nobody who reads any more.
    fn write(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// The next answer; none at the end of the connection.
    fn answer(&mut self, is_of_head: bool) -> Option<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read =
                self.0.read_line(&mut head).unwrap_or_else(|error| panic!("{error}: {head}"));
            if read == 0 {
                assert_eq!(head, "", "the end within a head");
                return None;
            }
        }
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let length = header("content-length: ").map_or(0, |length| length.parse().expect("number"));
        let mut body = vec![0; if is_of_head { 0 } else { length }];
        self.0.read_exact(&mut body).expect("the whole body");
        let id = header("x-ms-client-request-id: ").map(str::to_owned);
        Some(Answer { status: head[9..12].parse().expect("a status"), id })
    }
}

/// How the bytes of a case are cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    Nowhere,
    BeforeTheMark,
    InTheMiddle,
    Everywhere,
}

/// Sends a case and the marked request, and looks at everything that comes back.
fn check(house: &House, case: &Case, cut: Cut) -> Result<(), String> {
    let id = "mark";
    let mark = house.mark(id);
    let all = [&case.bytes[..], &mark].concat();
    let mut talk = Talk::begin(house.addr());
    match cut {
        Cut::Nowhere => talk.write(&all),
        Cut::Everywhere => all.iter().for_each(|byte| talk.write(&[*byte])),
        Cut::BeforeTheMark | Cut::InTheMiddle => {
            let half =
                if cut == Cut::InTheMiddle { case.bytes.len() / 2 } else { case.bytes.len() };
            talk.write(&all[..half]);
            talk.write(&all[half..]);
        }
    }
    // Who waits for more is told that there is no more.
    if case.answers.is_empty() {
        let _ = talk.0.get_mut().shutdown(std::net::Shutdown::Write);
    }
    let mut is_of_head = case.bytes.starts_with(b"HEAD ");
    let mut statuses = Vec::new();
    let mut is_marked = false;
    while !is_marked {
        let Some(answer) = talk.answer(is_of_head) else { break };
        is_of_head = false;
        match answer.id.as_deref() {
            Some(own) if own == id && answer.status == 200 => is_marked = true,
            Some(other) => return Err(format!("{} to {other}", answer.status)),
            None => statuses.push(answer.status),
        }
    }
    let expected = (&case.answers, case.goes_on);
    match (&statuses, is_marked) == expected {
        true => Ok(()),
        false => Err(format!("{statuses:?} {is_marked}, expected {expected:?}")),
    }
}

#[test]
fn no_bytes_are_two_requests() {
    let house = House::start();
    let cases = cases(&Words::new(&house.sas));
    let mut failures = Vec::new();
    let mut connections = 0;
    for case in &cases {
        for cut in [Cut::Nowhere, Cut::BeforeTheMark, Cut::InTheMiddle, Cut::Everywhere] {
            // Long cases in single bytes take long and show nothing.
            if cut == Cut::Everywhere && case.bytes.len() > 10_000 {
                continue;
            }
            connections += 1;
            if let Err(what) = check(&house, case, cut) {
                failures.push(format!("{}, cut {cut:?}: {what}", case.name));
            }
        }
    }
    assert_eq!(house.ask("GET", "people(PartitionKey='p',RowKey='evil')", ""), 404);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let refused = cases.iter().filter(|case| !case.goes_on).count();
    println!(
        "smuggling: {} cases, {refused} end their connection; {connections} connections, 0 desyncs",
        cases.len()
    );
    assert!(cases.len() >= 140, "{}", cases.len());
}

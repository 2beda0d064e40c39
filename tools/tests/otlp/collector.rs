//! A collector of traces in a thread: takes OTLP over HTTP, and reads its bytes by the wire format
//! of Protocol Buffers alone, apart from whoever writes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A span as it arrived.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// 0: nothing is said; 2: an error.
    pub(crate) status: u64,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Span {
    /// What an attribute says; nothing where it is not there.
    pub(crate) fn says(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// All that arrived.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<Span>,
    pub(crate) resource: BTreeMap<String, String>,
    /// All bytes, those that are no text replaced.
    pub(crate) raw: String,
    pub(crate) paths: Vec<String>,
}

/// The collector.
pub(crate) struct Collector {
    port: u16,
    requests: Receiver<(String, Vec<u8>)>,
}

impl Collector {
    pub(crate) fn start() -> Collector {
        Collector::new(true)
    }

    /// One that takes requests and never answers.
    pub(crate) fn hanging() -> Collector {
        Collector::new(false)
    }

    fn new(answers: bool) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (told, requests) = channel();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                open.push(stream.try_clone().unwrap());
                let told = told.clone();
                std::thread::spawn(move || serve(stream, &told, answers));
            }
        });
        Collector { port, requests }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns once a request has come.
    pub(crate) fn wait_for_a_request(&self) {
        self.requests.recv().unwrap();
    }

    /// What came so far, read.
    pub(crate) fn end(self) -> Received {
        let mut received = Received::default();
        for (path, body) in self.requests.try_iter() {
            received.paths.push(path);
            received.raw.push_str(&String::from_utf8_lossy(&body));
            for of_resource in messages(&body, 1) {
                for resource in messages(of_resource, 1) {
                    received.resource.extend(attributes(resource, 1));
                }
                for of_scope in messages(of_resource, 2) {
                    received.spans.extend(messages(of_scope, 2).map(span));
                }
            }
        }
        received.spans.sort_by_key(|span| span.start_ns);
        received
    }
}

/// Takes requests of one connection until it ends.
fn serve(stream: TcpStream, told: &Sender<(String, Vec<u8>)>, answers: bool) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            if first.is_empty() {
                first = line.rsplit_once(' ').unwrap().0.to_owned();
            }
            let (name, value) = line.split_once(':').unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap(),
                "content-type" => assert_eq!(value.trim(), "application/x-protobuf"),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        // Nobody may be there any more who wants to know.
        let _ = told.send((first, body));
        if !answers {
            let _ = stream.read(&mut [0]);
            return;
        }
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
        stream.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

/// A field of a message: a number, or bytes.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, by their numbers.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first().expect("a varint");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    fn fixed(bytes: &mut &[u8], length: usize) -> u64 {
        let (own, rest) = bytes.split_at(length);
        *bytes = rest;
        own.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(fixed(&mut bytes, 8)),
            5 => Field::Number(fixed(&mut bytes, 4)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (own, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(own)
            }
            other => panic!("wire type {other}"),
        };
        out.push((tag >> 3, field));
    }
    out
}

fn messages(bytes: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(bytes).into_iter().filter_map(move |(own, field)| match field {
        Field::Bytes(bytes) if own == number => Some(bytes),
        _ => None,
    })
}

fn number(bytes: &[u8], number: u64) -> u64 {
    let own = fields(bytes).into_iter().filter(|(own, _)| *own == number);
    let mut values = own.map(|(_, field)| if let Field::Number(value) = field { value } else { 0 });
    values.next_back().unwrap_or_default()
}

fn text(bytes: &[u8], number: u64) -> String {
    String::from_utf8(messages(bytes, number).last().unwrap_or_default().to_vec()).unwrap()
}

fn hex(bytes: &[u8], number: u64) -> String {
    let bytes = messages(bytes, number).last().unwrap_or_default();
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Names and values; numbers as text.
fn attributes(bytes: &[u8], number: u64) -> BTreeMap<String, String> {
    let pair = |pair: &[u8]| {
        let value = messages(pair, 2).last().unwrap_or_default();
        let told = match fields(value).into_iter().next() {
            Some((1, Field::Bytes(text))) => String::from_utf8(text.to_vec()).unwrap(),
            Some((3, Field::Number(number))) => number.to_string(),
            _ => "something else".to_owned(),
        };
        (text(pair, 1), told)
    };
    messages(bytes, number).map(pair).collect()
}

fn span(bytes: &[u8]) -> Span {
    Span {
        trace: hex(bytes, 1),
        id: hex(bytes, 2),
        parent: hex(bytes, 4),
        name: text(bytes, 5),
        kind: number(bytes, 6),
        start_ns: number(bytes, 7),
        end_ns: number(bytes, 8),
        status: messages(bytes, 15).last().map_or(0, |status| number(status, 3)),
        attributes: attributes(bytes, 9),
    }
}

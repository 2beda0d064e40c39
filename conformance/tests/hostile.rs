//! Endpoints that answer what suits them: their words are no texts of the list, and nobody's tables
//! are removed but the row's.

use std::io::{self, Cursor, Read, Write};
use std::sync::{Arc, Mutex};
use tabulith_conformance::parse::blocks;
use tabulith_conformance::row::Row;
use tabulith_conformance::run::Outcome;
use tabulith_conformance::suite::run_all;
use tabulith_conformance::target::{Key, Target};
use tabulith_conformance::unfold::rows;
use tabulith_conformance::wire::{Connect, Stream};

/// What would be filled in with more bytes than there are.
const ENDLESS: &str = "${rep x 18446744073709551615}";

/// An endpoint in this process, which answers 200 with a body that it makes of the request.
struct Endpoint {
    body: fn(&str) -> String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// One request to it and its answer.
struct Exchange {
    body: fn(&str) -> String,
    asked: Arc<Mutex<Vec<String>>>,
    request: Vec<u8>,
    /// The answer, once it was asked for.
    answer: Option<Cursor<Vec<u8>>>,
}

impl Endpoint {
    /// Has it asked a list; gives the outcomes, and the requests that came.
    fn asked(list: &str, body: fn(&str) -> String) -> (Vec<Outcome>, Vec<String>) {
        let endpoint = Endpoint { body, asked: Arc::default() };
        let key = Key::of_bytes(vec![1]);
        let mut target = Target::new("http://127.0.0.1:1/abc", None, key).expect("a target");
        target.service_changes = true;
        let blocks = blocks("f", list).expect("a list");
        let rows: Vec<Row> = blocks.iter().flat_map(|block| rows(block).expect("rows")).collect();
        let outcomes = run_all(&rows, &target, &endpoint, 1);
        let asked = endpoint.asked.lock().expect("no panic").clone();
        (outcomes, asked)
    }
}

impl Connect for Endpoint {
    fn connect(&self, _: &str, _: u16) -> io::Result<Box<dyn Stream>> {
        let (body, asked) = (self.body, self.asked.clone());
        Ok(Box::new(Exchange { body, asked, request: Vec::new(), answer: None }))
    }
}

impl Write for Exchange {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.request.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Exchange {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Exchange { body, asked, request, answer } = self;
        let answer = answer.get_or_insert_with(|| {
            let request = String::from_utf8_lossy(request).into_owned();
            let body = body(&request);
            asked.lock().expect("no panic").push(request);
            let head = format!("Connection: close\r\nContent-Length: {}", body.len());
            Cursor::new(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").into_bytes())
        });
        answer.read(into)
    }
}

/// The run ended there: the captured text was filled in.
#[test]
fn what_is_captured_is_not_filled_in() {
    let list = "== a | R | b\nGET /x\n----\n200\nhas: <${p<*}>\n++\nGET /${q ${p}}\n----\n200\nhas: ${p}\n";
    let (outcomes, asked) = Endpoint::asked(list, |_| format!("<{ENDLESS}>"));
    assert_eq!(outcomes, [Outcome::Passed]);
    let literal = "GET /abc/%24%7Brep%20x%2018446744073709551615%7D HTTP/1.1\r\n";
    assert!(asked.len() == 2 && asked[1].starts_with(literal), "{asked:?}");
}

/// They were sent back as a text of the list, which they are not.
#[test]
fn properties_are_put_back_as_they_were() {
    let list = "== a | R | b\nneed: service-changes\nGET /x\n----\n200\n";
    let (outcomes, asked) = Endpoint::asked(list, |_| ENDLESS.to_owned());
    assert_eq!(outcomes, [Outcome::Passed]);
    let put = asked.last().expect("requests");
    assert!(put.starts_with("PUT /abc/?restype=service&comp=properties "), "{put}");
    assert!(put.ends_with(&format!("\r\n\r\n{ENDLESS}")), "{put}");
}

/// An endpoint that ignores `$filter` had all its tables removed.
#[test]
fn only_tables_of_the_row_are_removed() {
    let list = "== a | R | b\nGET /Tables?$filter=${q TableName eq '${table}zz'}\n----\n200\n";
    let (outcomes, asked) = Endpoint::asked(list, |request| {
        let names = own(request).map(|own| [format!("{own}zz"), format!("{own}{ENDLESS}")]);
        let names = names.into_iter().flatten().chain(["orders".to_owned()]);
        let names = names.map(|name| format!("{{\"TableName\":\"{name}\"}}"));
        format!("{{\"value\":[{}]}}", names.collect::<Vec<_>>().join(","))
    });
    assert_eq!(outcomes, [Outcome::Passed]);
    let own = own(&asked[0]).expect("a name");
    let removed = asked.iter().filter_map(|request| request.strip_prefix("DELETE "));
    let removed: Vec<_> = removed.filter_map(|request| request.split(' ').next()).collect();
    let path = |name: &str| format!("/abc/Tables('{name}')");
    assert_eq!(removed, [path(own), path(&format!("{own}zz"))]);
}

/// The name that the row has drawn for its table, where a filter of this request names it.
fn own(request: &str) -> Option<&str> {
    let (_, rest) = request.split_once("%27cf")?;
    let end = rest.find(|c: char| !c.is_ascii_hexdigit())?;
    let start = request.len() - rest.len();
    request.get(start - 2..start + end)
}

//! Awkward keys through every path that a key can take: address, body, batch, filter, continuation
//! token, Location.

mod common;

use common::Bench;
use std::fmt::Write as _;
use tabulith_server::http::message::Response;

const JSON: [(&str, &str); 1] = [("Accept", "application/json;odata=nometadata")];

/// Keys that are more than one visible character.
const AWKWARD: [&str; 86] = [
    "",
    " ",
    "  ",
    " a",
    "a ",
    "a b",
    "a  b",
    "''",
    "'''",
    "a'b",
    "'a'",
    "''''",
    "%25",
    "%27",
    "%2F",
    "%00",
    "%zz",
    "%u1234",
    "%",
    "%%",
    "100% sure",
    "++",
    "a+b",
    "%2B",
    "a%20b",
    "()",
    ")(",
    "x','y",
    "x',RowKey='y",
    "PartitionKey='x'",
    "){",
    "{}",
    "{0}",
    "{\"a\":1}",
    "[]",
    "a;b",
    "a|b",
    "1!8!U21pdGg-",
    "\"",
    "\"\"",
    "<script>",
    "&amp;",
    "a&b=c",
    "$filter=x",
    "$batch",
    "$metadata",
    "Tables",
    "Tables('x')",
    "people()",
    "devstoreaccount1",
    ".",
    "..",
    "...",
    "a.",
    "~",
    "null",
    "true",
    "NaN",
    "0",
    "-1",
    "http:",
    "--batch_1",
    "--c--",
    "HTTP 1.1 200 OK",
    "\u{a0}",
    "\u{ad}",
    "\u{e9}",
    "e\u{301}",
    "\u{f4}- -'-%20-%27-pk",
    "\u{df}",
    "\u{130}",
    "\u{131}",
    "\u{540d}",
    "\u{1f600}",
    "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "\u{200b}",
    "\u{202e}abc",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\u{fffd}",
    "\u{e000}",
    "\u{ffff}",
    "\u{10000}",
    "\u{10ffff}",
    "datetime'2020'",
];

fn keys() -> Vec<String> {
    let mut keys: Vec<String> = AWKWARD.iter().map(|key| (*key).to_owned()).collect();
    let visible = ('!'..='~').filter(|c| !matches!(c, '/' | '\\' | '#' | '?'));
    keys.extend(visible.map(|c| c.to_string()));
    keys.extend(["k".repeat(1024), "\u{1f600}".repeat(512), "'".repeat(1024), "%".repeat(300)]);
    keys.sort_by_cached_key(|key| key.encode_utf16().collect::<Vec<_>>());
    keys.dedup();
    keys
}

/// How a client spells a key between the quotes of an address.
#[derive(Clone, Copy)]
enum Spelling {
    /// As Python does: all but unreserved characters encoded, quotes doubled before.
    Strict,
    /// As JS does: quotes doubled and left as they are.
    Quotes,
    /// Every byte encoded, in small letters.
    Everything,
    /// Nothing encoded that a request line can carry.
    Raw,
}

impl Spelling {
    const ALL: [Spelling; 4] =
        [Spelling::Strict, Spelling::Quotes, Spelling::Everything, Spelling::Raw];

    fn of(self, key: &str) -> String {
        let mut out = String::new();
        for byte in key.replace('\'', "''").bytes() {
            let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            let plain = match self {
                Spelling::Strict => unreserved,
                Spelling::Quotes => unreserved || byte == b'\'',
                Spelling::Everything => false,
                Spelling::Raw => byte.is_ascii_graphic() && byte != b'%',
            };
            match self {
                _ if plain => out.push(char::from(byte)),
                Spelling::Everything => write!(out, "%{byte:02x}").expect("a string"),
                _ => write!(out, "%{byte:02X}").expect("a string"),
            }
        }
        out
    }

    fn address(self, partition: &str, row: &str) -> String {
        format!("/people(PartitionKey='{}',RowKey='{}')", self.of(partition), self.of(row))
    }
}

fn json(partition: &str, row: &str) -> String {
    let text = |key: &str| serde_json::to_string(key).expect("a text");
    format!("{{\"PartitionKey\":{},\"RowKey\":{}}}", text(partition), text(row))
}

fn text(response: &Response) -> String {
    String::from_utf8(response.body.to_vec()).expect("text")
}

/// Both keys of every entity of an answer without metadata.
fn found(response: &Response) -> Vec<(String, String)> {
    let body: serde_json::Value = serde_json::from_str(&text(response)).expect("JSON");
    let one = vec![body.clone()];
    let entities = body["value"].as_array().unwrap_or(&one);
    let key = |entity: &serde_json::Value, name: &str| {
        entity[name].as_str().unwrap_or_else(|| panic!("{entity}")).to_owned()
    };
    entities.iter().map(|own| (key(own, "PartitionKey"), key(own, "RowKey"))).collect()
}

/// The path below the account of a `Location`.
fn path_of(location: &str) -> &str {
    location.strip_prefix("http://127.0.0.1:10002/devstoreaccount1").expect("our own address")
}

fn batch(request: &str, inner: bool) -> String {
    let part = format!("Content-Type: application/http\r\n\r\n{request}\r\n");
    if inner {
        let set = format!("--c\r\n{part}--c--\r\n");
        format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{set}--b--\r\n")
    } else {
        format!("--b\r\n{part}--b--\r\n")
    }
}

fn send_batch(bench: &Bench, body: &str) -> String {
    let answer =
        bench.send("POST", "/$batch", &[("Content-Type", "multipart/mixed; boundary=b")], body);
    assert_eq!(answer.status, 202, "{body}");
    text(&answer)
}

fn bench() -> Bench {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"people\"}").status, 201);
    bench
}

fn by_address_and_body(bench: &Bench, key: &str) {
    let keys = vec![(key.to_owned(), key.to_owned())];
    let made = bench.send("POST", "/people", &JSON, &json(key, key));
    assert_eq!((made.status, found(&made)), (201, keys.clone()), "{key:?}");
    let location = made.get("Location").expect("a Location").to_owned();
    assert!(!location.contains(['{', '}', ' ', '"', '<', '>']) && location.is_ascii());
    assert_eq!(found(&bench.send("GET", path_of(&location), &JSON, "")), keys, "{key:?}");
    for spelling in Spelling::ALL {
        let address = spelling.address(key, key);
        let read = bench.send("GET", &address, &JSON, "");
        assert_eq!((read.status, found(&read)), (200, keys.clone()), "{address}");
        assert_eq!(bench.send("PUT", &address, &[], "{}").status, 204, "{address}");
        assert_eq!(bench.send("PATCH", &address, &[("If-Match", "*")], "{}").status, 204);
        let full = [("Accept", "application/json;odata=fullmetadata")];
        let shown: serde_json::Value =
            serde_json::from_str(&text(&bench.send("GET", &address, &full, ""))).expect("JSON");
        assert_eq!(shown["odata.id"].as_str(), Some(location.as_str()));
        let link = format!("/{}", shown["odata.editLink"].as_str().expect("a link"));
        assert_eq!(found(&bench.send("GET", &link, &JSON, "")), keys, "{link}");
    }
}

fn by_batch(bench: &Bench, key: &str) {
    for spelling in Spelling::ALL {
        let address = spelling.address(key, key);
        let gone = format!("DELETE {address} HTTP/1.1\r\nIf-Match: *\r\n\r\n");
        assert!(send_batch(bench, &batch(&gone, true)).contains("HTTP/1.1 204"), "{address}");
        let insert = format!("POST /people HTTP/1.1\r\n\r\n{}", json(key, key));
        let made = send_batch(bench, &batch(&insert, true));
        assert!(made.contains("HTTP/1.1 201"), "{made}");
        let location = made.lines().find_map(|line| line.strip_prefix("Location: "));
        let location = location.expect("a Location");
        for target in [location, &format!("/devstoreaccount1{address}")] {
            let get = format!("GET {target} HTTP/1.1\r\n\r\n");
            let read = send_batch(bench, &batch(&get, false));
            assert!(read.contains("HTTP/1.1 200 OK"), "{target}: {read}");
        }
    }
}

fn by_filter(bench: &Bench, key: &str) {
    let quoted = Spelling::Everything.of(key);
    for filter in [
        format!("PartitionKey%20eq%20'{quoted}'%20and%20RowKey%20eq%20'{quoted}'"),
        format!("'{quoted}'+eq+RowKey"),
        format!("RowKey%20ge%20'{quoted}'%20and%20RowKey%20le%20'{quoted}'"),
    ] {
        let page = bench.send("GET", &format!("/people()?$filter={filter}"), &JSON, "");
        assert_eq!(found(&page), [(key.to_owned(), key.to_owned())], "{filter}");
    }
}

/// Page by page of one entity each, so that every key is in a token once.
fn by_token(bench: &Bench, keys: &[String]) {
    let mut next = String::new();
    let mut seen = Vec::new();
    loop {
        let page = bench.send("GET", &format!("/people()?$top=1{next}"), &JSON, "");
        seen.extend(found(&page).into_iter().map(|(partition, _)| partition));
        let token = |name: &str| page.get(&format!("x-ms-continuation-{name}")).map(str::to_owned);
        let Some(tokens) = token("NextPartitionKey").zip(token("NextRowKey")) else { break };
        let (partition, row) = tokens;
        assert!(!format!("{partition}{row}").contains([' ', ';', '=']), "{partition} {row}");
        next = format!(
            "&NextPartitionKey={}&NextRowKey={}",
            Spelling::Strict.of(&partition),
            Spelling::Strict.of(&row)
        );
    }
    assert_eq!(seen, keys);
}

#[test]
#[allow(clippy::print_stdout, reason = "how many keys there were")]
fn every_key_by_every_path() {
    let bench = bench();
    let keys = keys();
    for key in &keys {
        by_address_and_body(&bench, key);
        by_batch(&bench, key);
        by_filter(&bench, key);
    }
    by_token(&bench, &keys);
    for key in &keys {
        let address = Spelling::Strict.address(key, key);
        assert_eq!(bench.send("DELETE", &address, &[("If-Match", "*")], "").status, 204, "{key:?}");
        assert_eq!(bench.send("GET", &address, &[], "").status, 404, "{key:?}");
    }
    println!("{} keys", keys.len());
    assert!(keys.len() >= 120);
}

/// What no key may hold, in a body and in an address.
#[test]
fn keys_that_are_none() {
    let bench = bench();
    let barred = ('\0'..='\u{9f}')
        .filter(|c| matches!(c, '/' | '\\' | '#' | '?' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'));
    for c in barred {
        let key = format!("a{c}b");
        for (name, body) in [("PartitionKey", json(&key, "r")), ("RowKey", json("p", &key))] {
            let answer = bench.send("POST", "/people", &[], &body);
            assert_eq!(answer.get("x-ms-error-code"), Some("OutOfRangeInput"), "{c:?}");
            assert!(
                text(&answer).contains(&format!("The '{name}' parameter of value 'a")),
                "{c:?}"
            );
        }
        let answer = bench.send("GET", &Spelling::Everything.address("p", &key), &[], "");
        let code =
            if matches!(c, '#' | '?' | '\u{80}'..) { "OutOfRangeInput" } else { "InvalidInput" };
        assert_eq!((answer.status, answer.get("x-ms-error-code")), (400, Some(code)), "{c:?}");
        assert_eq!(answer.body.is_empty(), c.is_ascii_control(), "{c:?}");
    }
}

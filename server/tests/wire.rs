//! wire/*.txt: requests as text, and what the app answers to them, to the byte.
//!
//! A script is a list of exchanges over one fresh database:
//!
//! ```text
//! == what it shows
//! POST /Tables
//! Prefer: return-no-content
//!
//! {"TableName":"it"}
//! ----
//! HTTP/1.1 204 No Content
//! …
//! ```
//!
//! The path is below the development account. `Content-Length`, date and signature are added unless
//! the script sends an `Authorization` of its own (`Authorization: none` for none at all). Before
//! each exchange a second passes; the first is at 2021-01-01T00:00:01Z.
//!
//! In answers, headers that all carry are left out (the test below looks at them), and so are the
//! id and the time in the text of errors. `TABULITH_BLESS=1 cargo test -p tabulith-server --test
//! wire` rewrites the answers.

#![allow(clippy::disallowed_methods, reason = "scripts are files of the repository")]

mod common;

use common::{Bench, date_of, request, sign};
use std::path::Path;
use std::time::Duration;
use tabulith::env::clock::Clock;
use tabulith_server::http::message::{Headers, Request, Response};

const COMMON_HEADERS: [&str; 5] =
    ["Cache-Control", "Server", "X-Content-Type-Options", "x-ms-request-id", "x-ms-version"];

#[test]
fn scripts() {
    let mut ran = 0;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    for entry in std::fs::read_dir(folder).expect("the scripts") {
        run(&entry.expect("a script").path());
        ran += 1;
    }
    assert!(ran >= 5, "{ran} scripts ran");
}

fn run(path: &Path) {
    let script = std::fs::read_to_string(path).expect("a script");
    let bench = Bench::new();
    let mut answered = String::new();
    let mut exchanges = script.split("== ");
    answered.push_str(exchanges.next().unwrap_or_default());
    for exchange in exchanges {
        let (title, rest) = exchange.split_once('\n').expect("a title");
        let (asked, expected) = rest.split_once("----\n").expect("a line of dashes");
        let answer = shown(&bench.app.answer(read(&bench, asked)));
        if std::env::var_os("TABULITH_BLESS").is_none() {
            let place = format!("{}: {title}", path.display());
            assert_eq!(answer.trim_end(), expected.trim_end(), "{place}");
        }
        answered.push_str(&format!("== {title}\n{asked}----\n{}\n\n", answer.trim_end()));
    }
    if std::env::var_os("TABULITH_BLESS").is_some() {
        std::fs::write(path, format!("{}\n", answered.trim_end())).expect("a blessed script");
    }
}

/// Reads the text of a request, and signs it.
fn read(bench: &Bench, text: &str) -> Request {
    bench.clock.advance(Duration::from_secs(1));
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next().and_then(|line| line.split_once(' ')).expect("a request");
    let headers: Vec<_> = lines.map(|line| line.split_once(": ").expect("a header")).collect();
    let mut request = request(method, path, &headers, body.trim_end_matches('\n'));
    match request.head.headers.get("Authorization") {
        Some("none") => request.head.headers = without_authorization(&headers),
        Some(_) => {}
        None => sign(&mut request.head, &date_of(bench.clock.wall_ticks())),
    }
    request
}

fn without_authorization(headers: &[(&str, &str)]) -> Headers {
    let mut kept = Headers::default();
    headers.iter().filter(|(name, _)| *name != "Authorization").for_each(|(name, value)| {
        kept.push(*name, *value);
    });
    kept
}

fn shown(response: &Response) -> String {
    let mut response = response.clone();
    response.headers.retain(|(name, _)| !COMMON_HEADERS.contains(name));
    let mut text = response.to_string().replace('\r', "");
    // Ids are unique; what is compared is what surrounds them.
    for (before, length) in [("batchresponse_", 36), ("changesetresponse_", 36)] {
        text = masked(&text, before, length);
    }
    for newline in ["\\n", "\n"] {
        text = masked(&text, &format!("{newline}RequestId:"), 36);
        text = masked(&text, &format!("{newline}Time:"), "2021-01-01T00:00:00.0000000Z".len());
    }
    text
}

fn masked(text: &str, before: &str, length: usize) -> String {
    let mut pieces = text.split(before);
    let mut masked = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        masked.push_str(before);
        masked.push('…');
        masked.push_str(piece.get(length..).unwrap_or_default());
    }
    masked
}

#[test]
fn what_every_answer_carries() {
    let bench = Bench::new();
    let headers = [("x-ms-version", "2020-12-06"), ("x-ms-client-request-id", "mine")];
    for path in ["/Tables", "/nothing()", "/Tables('nothing')"] {
        let response = bench.send("GET", path, &headers, "");
        let header = |name: &str| response.get(name).unwrap_or_default().to_owned();
        assert_eq!(header("Cache-Control"), "no-cache");
        assert_eq!(header("X-Content-Type-Options"), "nosniff");
        assert!(header("Server").starts_with("Windows-Azure-Table/1.0 "));
        assert_eq!(header("x-ms-version"), "2020-12-06");
        assert_eq!(header("x-ms-client-request-id"), "mine");
        let id = header("x-ms-request-id");
        assert_eq!(id.len(), 36);
        let body = String::from_utf8_lossy(&response.body);
        if response.status >= 400 {
            assert!(
                body.contains(&format!("\\nRequestId:{id}\\nTime:2021-01-01T00:00:00.0000000Z"))
            );
            assert!(header("x-ms-error-code").ends_with("NotFound"));
        }
    }
}

/// Whatever cannot be read of a body, the answer has what others have.
#[test]
fn what_a_refused_body_carries() {
    let bench = Bench::new();
    let none: &[(&str, &str)] = &[];
    let batch: &[(&str, &str)] = &[("Content-Type", "multipart/mixed; boundary=b")];
    for (path, headers, body) in [
        ("/Tables", none, "{"),
        ("/Tables", none, ""),
        ("/nothing", none, "\u{0}"),
        ("/nothing", none, "{\"A@odata.type\":\"Edm.DateTime\",\"A\":\"0001-01-01\"}"),
        ("/$batch", batch, "--b"),
        ("/$batch", batch, "--b\r\nContent-Type: application/http\r\n\r\nGET\r\n--b--"),
    ] {
        let refused = bench.send("POST", path, headers, body);
        assert!((400..500).contains(&refused.status), "{path}: {}", refused.status);
        assert_eq!(refused.get("Cache-Control"), Some("no-cache"), "{path}: {body}");
        assert_eq!(refused.get("X-Content-Type-Options"), Some("nosniff"), "{path}: {body}");
    }
}

/// .NET's writers put one before what they write, unless they are told not to.
#[test]
fn settings_behind_a_byte_order_mark() {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    let declaration = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>";
    for (path, document, status) in [
        ("/Mine?comp=acl", "<SignedIdentifiers />", 204),
        ("/?restype=service&comp=properties", "<StorageServiceProperties />", 202),
    ] {
        let body = format!("{declaration}{document}");
        assert_eq!(bench.send("PUT", path, &[], &body).status, status, "{path}");
    }
}

/// Recorded of a wrong key and of a token that counts for nothing.
#[test]
fn what_a_refused_authentication_lacks() {
    let bench = Bench::new();
    let bent = "SharedKeyLite devstoreaccount1:0t5frBDAHUb3TEbAMT7v9wwgj+L4V00scNDQC6plt2w=";
    for (authorization, status) in [(bent, 403), ("Bearer x", 401)] {
        for accept in ["application/json;odata=nometadata", "application/xml"] {
            let headers = [
                ("Authorization", authorization),
                ("Accept", accept),
                ("x-ms-version", "2020-12-06"),
            ];
            let refused = bench.app.answer(request("GET", "/Tables", &headers, ""));
            assert_eq!(refused.status, status);
            assert_eq!(refused.get("Content-Type"), accept.split(';').next());
            for name in ["Cache-Control", "X-Content-Type-Options", "x-ms-version"] {
                assert_eq!(refused.get(name), None, "{status}, {name}");
            }
            for name in ["Server", "x-ms-request-id", "x-ms-error-code"] {
                assert!(refused.get(name).is_some(), "{status}, {name}");
            }
        }
    }
}

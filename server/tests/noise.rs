//! Requests with noise in them: whatever arrives, the app answers, with a status of the service
//! and in lines that nothing of the client's can break.

mod common;

use common::{Bench, date_of, request, sign};
use std::collections::BTreeMap;
use tabulith::env::clock::Clock as _;
use tabulith_server::http::message::{Body, Head, Request};
use tabulith_testkit::seed::{Replay, Rng, seed_or};

const CASES: usize = 30_000;

const ENTITY: &str = "/people(PartitionKey='p',RowKey='it''s')";
const JSON: &str = r#"{"PartitionKey":"p","RowKey":"it's","A":1,"B@odata.type":"Edm.Int64","B":"5","C":1e3,"D":null,"E":"\u00e9\ud83d\ude00","G@odata.type":"Edm.Guid","G":"0d391d16-97f1-4b9a-be68-4cc871f90001"}"#;
const BATCH: &str = "--b\nContent-Type: multipart/mixed; boundary=c\n\n\
    --c\nContent-Type: application/http\n\n\
    PUT /people(PartitionKey='p',RowKey='1') HTTP/1.1\nPrefer: return-no-content\n\n{\"A\":1}\n\
    --c\nContent-Type: application/http\nContent-ID: 1\n\n\
    MERGE /people(PartitionKey='p',RowKey='2') HTTP/1.1\n\n{\"A\":1}\n--c--\n--b--\n";

/// Verb, path, header and body of what goes well, or nearly.
const REQUESTS: [(&str, &str, &str, &str, &str); 17] = [
    ("GET", "/Tables?$filter=TableName%20ge%20'a'&$top=5", "Accept", "application/json", ""),
    ("POST", "/Tables", "Prefer", "return-no-content", r#"{"TableName":"people"}"#),
    ("GET", "/Tables('people')", "Accept", "application/json;odata=fullmetadata", ""),
    ("DELETE", "/Tables('others')", "x-ms-version", "2020-12-06", ""),
    ("POST", "/people", "Content-Type", "application/json;odata=nometadata", JSON),
    ("GET", ENTITY, "Accept", "application/json;odata=nometadata", ""),
    ("GET", "/people()?$filter=A%20eq%201%20and%20not%20(B%20lt%205L)", "Origin", "http://x", ""),
    ("GET", "/people()?$filter=startswith(E,'x')", "Accept", "*/*", ""), // Not implemented.
    ("GET", "/people?$select=A,B&NextPartitionKey=1!4!cA--&NextRowKey=1!0!", "Accept", "*/*", ""),
    ("PUT", ENTITY, "If-Match", "W/\"datetime'2021-01-01T00%3A00%3A00Z'\"", JSON),
    ("PUT", ENTITY, "x-ms-client-request-id", "id", JSON),
    (
        "PATCH",
        ENTITY,
        "If-Match",
        "*",
        r#"{"T@odata.type":"Edm.DateTime","T":"2020-01-01T00:00Z"}"#,
    ),
    ("POST", ENTITY, "X-HTTP-Method", "MERGE", r#"{"N@odata.type":"Edm.Double","N":"NaN"}"#),
    ("DELETE", ENTITY, "If-Match", "*", ""),
    ("POST", "/$batch", "Content-Type", "multipart/mixed; boundary=b", BATCH),
    ("GET", "-secondary/people()?timeout=30", "DataServiceVersion", "3.0;NetFx", ""),
    ("GET", "/people?comp=acl", "Accept", "application/xml", ""),
];

const NOISE: [&str; 26] = [
    "'", "''", "(", ")", "%", "%27", "%2F", "%00", "%ff", "\"", "\\", "\\u", "{", "}", "[", ":",
    ",", "--", "\n", "\u{0}", "é", "😀", "1e999", "$", "&", "/",
];

/// The text, and once in a while cut, doubled in part, or with noise in it.
fn spoiled(rng: &mut Rng, text: &str) -> String {
    let mut text = text.to_owned();
    if !rng.chance(20) {
        return text;
    }
    let mut at = rng.below(text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    match rng.below(3) {
        0 => text.truncate(at),
        1 => text.insert_str(at, NOISE[rng.below(NOISE.len())]),
        _ => text = format!("{text}{}", &text[at..]),
    }
    text
}

fn noisy(rng: &mut Rng, date: &str) -> Request {
    let (method, path, name, value, body) = REQUESTS[rng.below(REQUESTS.len())];
    let (path, value) = (spoiled(rng, path), spoiled(rng, value));
    let mut request = request(method, &path, &[(name, &value)], &spoiled(rng, body));
    match rng.below(50) {
        0 => request.head.headers.push("Authorization", spoiled(rng, "SharedKey a:b")),
        1 => request.body = Body::TooLarge,
        2 => request.head.method = spoiled(rng, "OPTIONS"),
        _ => {}
    }
    if request.head.headers.get("Authorization").is_none() {
        sign(&mut request.head, date);
    }
    request
}

#[test]
fn every_request_gets_an_answer() {
    let seed = seed_or(2021);
    let _replay = Replay::new(seed, "cargo test -p tabulith-server --test noise");
    let bench = Bench::new();
    let date = date_of(bench.clock.wall_ticks());
    let mut rng = Rng::new(seed);
    let mut counts = BTreeMap::new();
    for case in 0..CASES {
        let request = noisy(&mut rng, &date);
        let shown = Head::clone(&request.head);
        let answer = bench.app.answer(request);
        let known = [200, 201, 202, 204, 400, 403, 404, 405, 409, 411, 412, 413, 415, 501];
        assert!(known.contains(&answer.status), "case {case}: {shown:?}: {}", answer.status);
        for (name, value) in &answer.headers {
            let is_one_line = value.bytes().all(|byte| byte >= b' ' && byte != 0x7f);
            assert!(is_one_line, "case {case}: {name}: {value:?}");
        }
        *counts.entry(answer.status).or_insert(0) += 1;
    }
    // The noise must not drown the service: every kind of answer comes up.
    for status in [200, 201, 202, 204, 400, 403, 404, 405, 409, 412, 413, 415, 501] {
        assert!(counts.contains_key(&status), "no {status} among {counts:?}");
    }
}

//! Bodies and headers that are meant to hurt: each is refused, nothing of it is kept, and nothing
//! of it breaks out of the answer.

mod common;

use common::{Bench, date_of, request, sign};
use tabulith::env::clock::Clock as _;
use tabulith_server::http::message::{Body, Response};

fn bench() -> Bench {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"people\"}").status, 201);
    bench
}

fn send(bench: &Bench, body: Vec<u8>) -> Response {
    let mut request = request("POST", "/people", &[("Prefer", "return-no-content")], "");
    sign(&mut request.head, &date_of(bench.clock.wall_ticks()));
    request.body = Body::Whole(body.into());
    bench.app.answer(request)
}

/// Members that are no JSON, or of no type.
const SMALL: [&str; 40] = [
    "\"A\":1e400",
    "\"A\":-1e400",
    "\"A\":1E+309",
    "\"A\":01",
    "\"A\":1.",
    "\"A\":.1",
    "\"A\":+1",
    "\"A\":0x10",
    "\"A\":1e",
    "\"A\":--1",
    "\"A\":NaN",
    "\"A\":Infinity",
    "\"A\":tru",
    "\"A\":nulls",
    "\"A\":'x'",
    "\"A\":\"\\x41\"",
    "\"A\":\"\\ud800\"",
    "\"A\":\"\\udc00\\ud800\"",
    "\"A\":\"\\ud83d\\u0041\"",
    "\"A\":\"\\u12g4\"",
    "\"A\":\"\t\"",
    "\"A\":\"\u{0}\"",
    "\"A\":\"\n\"",
    "A:1",
    "\"A\" 1",
    "\"A\":",
    "\"A\":1,",
    ",\"A\":1",
    "\"A\":1,,\"B\":2",
    "\"A\":1 \"B\":2",
    "\"A\":1;\"B\":2",
    "\"A\":1}{\"B\":2",
    "\"A\":1}]",
    "\"A\":/**/1",
    "\"A\":1//",
    "\"A\":[1]",
    "\"A\":{}",
    "\"A\":1e309",
    "\"A@odata.type\":\"Edm.Int32\",\"A\":2147483648",
    "\u{feff}\"A\":1",
];

/// Members of an entity whose keys are fine, and the code that they are refused by.
fn members() -> Vec<(String, &'static str)> {
    let bad = "InvalidInput";
    let many =
        |count: usize| (0..count).map(|i| format!("\"P{i}\":1")).collect::<Vec<_>>().join(",");
    let annotated =
        |edm_type: &str, value: &str| format!("\"A@odata.type\":{edm_type},\"A\":{value}");
    let mut bombs: Vec<(String, &'static str)> = vec![
        (format!("\"A\":{}", "[".repeat(1_000_000)), bad),
        (format!("\"A\":{}{}", "[".repeat(100_000), "]".repeat(100_000)), bad),
        (format!("\"A\":{}", "{\"a\":".repeat(500_000)), bad),
        (format!("\"A\":{}1{}", "{\"a\":".repeat(1_000), "}".repeat(1_000)), bad),
        (format!("\"A\":{}", "9".repeat(1_000_000)), bad),
        (format!("\"A\":1e{}", "9".repeat(1_000_000)), bad),
        (format!("\"A\":0.{}e400", "0".repeat(10)), ""),
        (format!("\"A\":-{}", "1".repeat(400_000)), bad),
        (format!("\"A\":\"{}", "\\\\".repeat(1_000_000)), bad),
        (format!("\"A\":\"{}\"", "\\u".repeat(100_000)), bad),
        (format!("\"A\":\"{}\"", "x".repeat(32_769)), "PropertyValueTooLarge"),
        (format!("\"A\":\"{}\"", "\u{1f600}".repeat(16_385)), "PropertyValueTooLarge"),
        (format!("\"A\":{}1", " ".repeat(1_000_000)), ""),
        (format!("\"{}\":1", "n".repeat(1_000_000)), "PropertyNameTooLong"),
        (format!("\"{}\":1", "-".repeat(100)), "PropertyNameInvalid"),
        (many(253), "TooManyProperties"),
        (many(8_000), "TooManyProperties"),
        (many(100_000), "TooManyProperties"),
        (vec!["\"A\":1"; 8_000].join(","), "DuplicatePropertiesSpecified"),
        (annotated("\"Edm.Int64\"", "\"9223372036854775808\""), bad),
        (annotated("\"Edm.Guid\"", &format!("\"{}\"", "0".repeat(100_000))), bad),
        (
            annotated("\"Edm.Binary\"", &format!("\"{}\"", "A".repeat(100_000))),
            "PropertyValueTooLarge",
        ),
        (
            annotated(
                "\"Edm.DateTime\"",
                &format!("\"2020-01-01T00:00:00.{}Z\"", "9".repeat(100_000)),
            ),
            "",
        ),
        (annotated("\"Edm.DateTime\"", "\"9999-12-31T23:59:59-14:00\""), "OutOfRangeInput"),
        (annotated("\"Edm.Double\"", "\"1e999999999\""), bad),
        (annotated("\"Edm.Double\"", "\"nan\""), bad),
        (annotated(&format!("\"Edm.{}\"", "X".repeat(100_000)), "1"), bad),
        (annotated("1", "1"), bad),
        (annotated("null", "1"), bad),
        (annotated("{}", "1"), bad),
    ];
    bombs.extend(SMALL.map(|text| (text.to_owned(), bad)));
    bombs
}

/// Bodies that are no object with members at all.
fn bodies() -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> =
        ["", " ", "\0", "null", "true", "1", "\"x\"", "[]", "[{}]", "{", "}", "{}{}", "{}x"]
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
    bodies.extend([
        b"\xef\xbb\xbf{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}".to_vec(),
        b"\xff\xfe{\0}\0".to_vec(),
        b"{\"PartitionKey\":\"p\",\"RowKey\":\"\xff\"}".to_vec(),
        b"{\"PartitionKey\":\"p\",\"RowKey\":\"\xc0\xaf\"}".to_vec(),
        b"{\"PartitionKey\":\"p\",\"RowKey\":\"\xed\xa0\x80\"}".to_vec(),
        b"[".repeat(4 << 20),
        b"{\"a\":".repeat(800_000),
        vec![b' '; 4 << 20],
        vec![0; 4 << 20],
    ]);
    bodies
}

#[test]
#[allow(clippy::print_stdout, reason = "how many bombs there were")]
fn bodies_are_refused_on_a_small_stack() {
    let work = || {
        let bench = bench();
        let mut count = 0;
        for (row, (members, code)) in members().into_iter().enumerate() {
            let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",{members}}}");
            let answer = send(&bench, body.into_bytes());
            let told = answer.get("x-ms-error-code").unwrap_or_default();
            let shown: String = members.chars().take(60).collect();
            assert_eq!(told, code, "{shown}");
            assert_eq!(answer.status, if code.is_empty() { 204 } else { 400 }, "{shown}");
            count += 1;
        }
        for body in bodies() {
            let answer = send(&bench, body);
            assert_eq!((answer.status, answer.get("x-ms-error-code")), (400, Some("InvalidInput")));
            count += 1;
        }
        count
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work);
    let count = thread.expect("a thread").join().expect("no overflow");
    println!("{count} bombs");
    assert!(count >= 60);
}

#[test]
fn filters_are_refused_on_a_small_stack() {
    let work = || {
        let bench = bench();
        let send = |filter: String| {
            let path = format!("/people?$filter={}", filter.replace(' ', "%20"));
            bench.send("GET", &path, &[], "").get("x-ms-error-code").map(str::to_owned)
        };
        let bad = || Some("InvalidInput".to_owned());
        assert_eq!(send("(".repeat(1_000_000)), bad());
        assert_eq!(send("not ".repeat(1_000_000)), bad());
        assert_eq!(send(format!("A{}", " or A".repeat(1_000_000))), bad());
        assert_eq!(send(format!("{}A{}", "(".repeat(101), ")".repeat(101))), bad());
        assert_eq!(send(format!("{}A", "not ".repeat(101))), bad());
        assert_eq!(send(format!("A eq '{}'", "x".repeat(70_000))), bad());
        assert_eq!(send(format!("A eq {}", "9".repeat(60_000))), bad());
        assert_eq!(send(format!("{}A{}", "(".repeat(90), ")".repeat(90))), None);
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work);
    thread.expect("a thread").join().expect("no overflow");
}

/// Everything of a request that its answer repeats, with what could end a line or a text in it.
#[test]
fn nothing_breaks_out_of_an_answer() {
    let bench = bench();
    let evil = "x\r\nSet-Cookie: a=b\r\n\r\n<script>alert(1)</script>\u{0}\u{2028}\"'{}";
    let encoded: String = evil.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let json = serde_json::to_string(evil).expect("a text");
    let headers = [
        "x-ms-client-request-id",
        "x-ms-version",
        "If-Match",
        "Prefer",
        "Origin",
        "Accept",
        "Content-Type",
        "DataServiceVersion",
        "X-HTTP-Method",
        "Access-Control-Request-Method",
    ];
    let mut answers = Vec::new();
    for name in headers {
        for (method, path) in [
            ("POST", "/people"),
            ("OPTIONS", "/people"),
            ("PUT", "/people(PartitionKey='p',RowKey='r')"),
        ] {
            answers.push(bench.send(method, path, &[(name, evil), ("Origin", "http://a")], "{}"));
        }
    }
    for path in [
        format!("/{encoded}"),
        format!("/people(PartitionKey='{encoded}',RowKey='r')"),
        format!("/people?$filter={encoded}"),
        format!("/people?$select={encoded}"),
        format!("/people?NextPartitionKey={encoded}"),
        format!("/people?$format={encoded}"),
        format!("/people?{encoded}={encoded}"),
        format!("/Tables('{encoded}')"),
    ] {
        answers.push(bench.send("GET", &path, &[], ""));
        answers.push(bench.send("GET", &path, &[("Accept", "application/atom+xml")], ""));
    }
    let body = format!("{{\"PartitionKey\":{json},\"RowKey\":\"r\",{json}:{json}}}");
    answers.push(bench.send("POST", "/people", &[], &body));
    answers.push(bench.send(
        "POST",
        "/people",
        &[("Prefer", "return-content")],
        &format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":{json}}}"),
    ));
    answers.push(bench.send("GET", "/people(PartitionKey='p',RowKey='r')", &[], ""));
    let mut told = 0;
    for answer in answers {
        for (name, value) in &answer.headers {
            assert!(value.bytes().all(|byte| (b' '..0x7f).contains(&byte)), "{name}: {value:?}");
            assert_ne!(*name, "Set-Cookie");
        }
        let body = String::from_utf8(answer.body.to_vec()).expect("text");
        if body.is_empty() {
            continue;
        }
        told += 1;
        match answer.get("Content-Type").expect("a type") {
            "application/xml" => assert!(!body.contains("<script"), "{body}"),
            _ => {
                assert!(body.is_ascii() && !body.contains(['\r', '\n']), "{body}");
                serde_json::from_str::<serde_json::Value>(&body).expect("JSON");
            }
        }
        assert_eq!(answer.get("X-Content-Type-Options"), Some("nosniff"), "{body}");
    }
    assert!(told > 20, "{told}");
}

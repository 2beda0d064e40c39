//! What is just within the service's limits, and what is just beyond them.

mod common;

use common::{Bench, request};
use tabulith_server::config::Config;
use tabulith_server::http::message::{Body, Response};

const JSON: [(&str, &str); 2] =
    [("Content-Type", "application/json"), ("Prefer", "return-no-content")];

fn bench() -> Bench {
    let bench = Bench::new();
    let made = bench.send("POST", "/Tables", &JSON, "{\"TableName\":\"people\"}");
    assert_eq!(made.status, 204);
    bench
}

fn code(response: &Response) -> String {
    let body = String::from_utf8_lossy(&response.body).into_owned();
    let code = body.split_once("\"code\":\"").and_then(|(_, rest)| rest.split_once('"'));
    match code {
        Some((code, _)) => format!("{} {code}", response.status),
        None => response.status.to_string(),
    }
}

/// Inserts under a fresh row key.
fn insert(bench: &Bench, members: &str) -> String {
    let row_key = bench.db.visible().0;
    let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row_key}\",{members}}}");
    code(&bench.send("POST", "/people", &JSON, &body))
}

fn insert_under(bench: &Bench, partition_key: &str) -> String {
    let body = format!("{{\"PartitionKey\":\"{partition_key}\",\"RowKey\":\"\"}}");
    code(&bench.send("POST", "/people", &JSON, &body))
}

#[test]
fn properties() {
    let bench = bench();
    let properties =
        |count: usize| (0..count).map(|i| format!("\"P{i}\":{i}")).collect::<Vec<_>>().join(",");
    assert_eq!(insert(&bench, &properties(252)), "204");
    assert_eq!(insert(&bench, &properties(253)), "400 TooManyProperties");
    assert_eq!(insert(&bench, &format!("\"{}\":1", "n".repeat(255))), "204");
    assert_eq!(insert(&bench, &format!("\"{}\":1", "n".repeat(256))), "400 PropertyNameTooLong");
    for name in ["é", "名", "_x", "x1"] {
        assert_eq!(insert(&bench, &format!("\"{name}\":1")), "204", "{name}");
    }
    for name in ["a-b", "a b", "1a", "a.b", "$a", ""] {
        assert_eq!(insert(&bench, &format!("\"{name}\":1")), "400 PropertyNameInvalid", "{name}");
    }
}

#[test]
fn values() {
    let bench = bench();
    let text = |units: usize| format!("\"A\":\"{}\"", "x".repeat(units));
    assert_eq!(insert(&bench, &text(32 << 10)), "204");
    assert_eq!(insert(&bench, &text((32 << 10) + 1)), "400 PropertyValueTooLarge");
    let binary = |bytes: usize| {
        use base64::Engine as _;
        let base64 = base64::engine::general_purpose::STANDARD.encode(vec![7; bytes]);
        format!("\"A@odata.type\":\"Edm.Binary\",\"A\":\"{base64}\"")
    };
    assert_eq!(insert(&bench, &binary(64 << 10)), "204");
    assert_eq!(insert(&bench, &binary((64 << 10) + 1)), "400 PropertyValueTooLarge");
    // 15 full strings fit into 1 MiB of UTF-16, 16 and what surrounds them do not.
    let many = |count: usize| {
        let value = "x".repeat(32 << 10);
        (0..count).map(|i| format!("\"P{i}\":\"{value}\"")).collect::<Vec<_>>().join(",")
    };
    assert_eq!(insert(&bench, &many(15)), "204");
    assert_eq!(insert(&bench, &many(16)), "400 EntityTooLarge");
}

#[test]
fn keys() {
    let bench = bench();
    assert_eq!(insert_under(&bench, &"k".repeat(1024)), "204");
    assert_eq!(insert_under(&bench, &"k".repeat(1025)), "400 PropertyValueTooLarge");
    for awkward in ["", " ", "'", "''", "%", "%27", "+", ",()=:@&", "ô", "😀", "名", "a b "] {
        assert_eq!(insert_under(&bench, &format!("x{awkward}")), "204", "{awkward}");
        let path =
            tabulith_server::odata::address::entity_path("people", &format!("x{awkward}"), "");
        assert_eq!(bench.send("GET", &format!("/{path}"), &[], "").status, 200, "{path}");
    }
    for barred in ["/", "\\\\", "#", "?", "\\u0000", "\\u001f", "\\u007f", "\\u009f"] {
        assert_eq!(insert_under(&bench, barred), "400 OutOfRangeInput", "{barred}");
    }
}

fn batch(changes: &[String]) -> String {
    let mut body = String::from("--b\nContent-Type: multipart/mixed; boundary=c\n\n");
    for change in changes {
        body.push_str(&format!("--c\nContent-Type: application/http\n\n{change}\n"));
    }
    body + "--c--\n--b--\n"
}

fn put(row_key: usize, value: &str) -> String {
    format!("PUT /people(PartitionKey='p',RowKey='{row_key}') HTTP/1.1\n\n{{\"A\":\"{value}\"}}")
}

fn send_batch(bench: &Bench, body: &str) -> Response {
    bench.send("POST", "/$batch", &[("Content-Type", "multipart/mixed; boundary=b")], body)
}

#[test]
fn change_sets() {
    let bench = bench();
    let changes: Vec<String> = (0..101).map(|row_key| put(row_key, "")).collect();
    let answer = send_batch(&bench, &batch(&changes[..100]));
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!((answer.status, body.matches("HTTP/1.1 204").count()), (202, 100));
    let answer = send_batch(&bench, &batch(&changes));
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    let text = "\"value\":\"99:The batch request operation exceeds the maximum 100 changes per change set.";
    assert!(answer.status == 202 && body.contains(text), "{body}");
    let answer = send_batch(&bench, &batch(&[]));
    assert_eq!(code(&answer), "400 InvalidInput");
}

/// The error of the one operation of a change set, or what it was answered.
fn of_one(bench: &Bench, change: &str) -> String {
    let answer = send_batch(bench, &batch(&[change.to_owned()]));
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    let inner = body.split_once("HTTP/1.1 ").map_or("", |(_, rest)| rest);
    let code = body.split_once("\"code\":\"").and_then(|(_, rest)| rest.split_once('"'));
    format!("{} {}", &inner[..inner.len().min(3)], code.map_or("", |(code, _)| code))
}

/// Two million headers of one operation took 24 bytes each, of which the body's place knew nothing.
#[test]
fn heads_of_operations_are_as_short_as_others() {
    let bench = bench();
    let change = |lines: &str| {
        format!("PUT /people(PartitionKey='p',RowKey='r') HTTP/1.1\n{lines}\n{{\"A\":1}}")
    };
    assert_eq!(of_one(&bench, &change(&"A: 1\n".repeat(100))), "204 ");
    assert_eq!(of_one(&bench, &change(&"A: 1\n".repeat(101))), "400 InvalidInput");
    assert_eq!(of_one(&bench, &change(&":\n".repeat(1_000_000))), "400 InvalidInput");
    let addressed = |bytes: usize| {
        let path = "/people(PartitionKey='p',RowKey='r')?a=";
        let fill = "x".repeat(bytes - path.len());
        format!("PUT {path}{fill} HTTP/1.1\n\n{{\"A\":1}}")
    };
    assert_eq!(of_one(&bench, &addressed(65_534)), "204 ");
    assert_eq!(of_one(&bench, &addressed(65_535)), "400 InvalidInput");
    let query = format!(
        "--b\nContent-Type: application/http\n\nGET /people?$select={} HTTP/1.1\n\n--b--\n",
        "x".repeat(70_000)
    );
    let answer = send_batch(&bench, &query);
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(body.contains("HTTP/1.1 400") && body.len() < 10_000, "{} bytes", body.len());
    // What could have been a condition is not passed over.
    let names = ["If-Match\u{a0}: *\n", "If-Match\u{b}: *\n", "If-Match\0: *\n", "(If-Match): *\n"];
    for line in names {
        assert_eq!(of_one(&bench, &change(line)).split(' ').next(), Some("400"), "{line:?}");
    }
    for line in ["If-Match W/\"datetime'2021-01-01T00%3A00%3A00Z'\"\n", "If-Match\n", ": *\n"] {
        assert_eq!(of_one(&bench, &change(line)).split(' ').next(), Some("400"), "{line}");
    }
}

/// An `If-Match` of 4 MB took a hundred: as text, in a refusal that repeats it, and in that as
/// JSON.
#[test]
fn headers_of_operations_are_as_long_as_others() {
    let bench = bench();
    let told = |header: &str, bytes: usize| {
        let mut body = b"--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\n\
            Content-Type: application/http\n\nPUT /people(PartitionKey='p',RowKey='r') HTTP/1.1\n"
            .to_vec();
        body.extend_from_slice(header.as_bytes());
        body.extend(std::iter::repeat_n(0xff, bytes));
        body.extend_from_slice(b"\n\n{\"A\":1}\n--c--\n--b--\n");
        let headers = [("Content-Type", "multipart/mixed; boundary=b")];
        let mut request = common::request("POST", "/$batch", &headers, "");
        common::sign(&mut request.head, &common::date_of(common::START));
        request.body = Body::Whole(body.into());
        let answer = bench.app.answer(request);
        assert_eq!(answer.status, 202);
        String::from_utf8_lossy(&answer.body).into_owned()
    };
    for header in ["If-Match: ", "Content-ID: ", "A", ""] {
        let refused = told(header, 3 << 20);
        assert!(refused.contains("\"0:") && refused.contains("InvalidInput"), "{header}");
        assert!(refused.len() < 5_000, "{header}: {} bytes", refused.len());
    }
    assert!(told("A: ", 100_000).contains("HTTP/1.1 204"));
    // What is repeated of one that is no ETag is cut, in a batch and without one.
    let refused = told("If-Match: ", 100_000);
    assert!(refused.contains("The etag value '") && refused.len() < 10_000, "{}", refused.len());
    let long = [("If-Match", &*"x".repeat(100_000))];
    let refused = bench.send("PUT", "/people(PartitionKey='p',RowKey='r')", &long, "{}");
    assert_eq!(code(&refused), "400 InvalidInput");
    assert!(refused.body.len() < 10_000, "{} bytes", refused.body.len());
}

/// Merges of a few bytes that write entities of half a MiB.
#[test]
fn what_a_change_set_leaves_behind() {
    let config = Config { body_bytes_max: 16 << 20, ..Config::default() };
    let bench = Bench::with(config);
    assert_eq!(bench.send("POST", "/Tables", &JSON, "{\"TableName\":\"people\"}").status, 204);
    let text = "x".repeat(32 << 10);
    let members: Vec<String> = (0..15).map(|i| format!("\"P{i}\":\"{text}\"")).collect();
    for row in 0..18 {
        let row = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",{}}}", members.join(","));
        assert_eq!(code(&bench.send("POST", "/people", &JSON, &row)), "204");
    }
    let merges = |count: usize| {
        let merge =
            |row| format!("MERGE /people(PartitionKey='p',RowKey='{row}') HTTP/1.1\n\n{{\"A\":1}}");
        let answer = send_batch(&bench, &batch(&(0..count).map(merge).collect::<Vec<_>>()));
        String::from_utf8_lossy(&answer.body).into_owned()
    };
    let refused = merges(18);
    assert!(refused.contains("RequestBodyTooLarge") && refused.contains("\"17:"), "{refused}");
    assert_eq!(merges(17).matches("HTTP/1.1 204").count(), 17);
}

#[test]
fn a_failure_at_every_place_takes_everything_back() {
    let bench = bench();
    for at in 0..10 {
        let mut changes: Vec<String> = (0..10).map(|row_key| put(row_key, "x")).collect();
        changes[at] =
            "DELETE /people(PartitionKey='p',RowKey='none') HTTP/1.1\nIf-Match: *\n\n".to_owned();
        let answer = send_batch(&bench, &batch(&changes));
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        let text = format!("\"value\":\"{at}:The specified resource does not exist.");
        assert!(body.contains(&text), "{body}");
        assert_eq!(body.matches("HTTP/1.1").count(), 1);
        let rows =
            bench.send("GET", "/people", &[("Accept", "application/json;odata=nometadata")], "");
        assert_eq!(rows.body, "{\"value\":[]}".as_bytes());
    }
}

#[test]
fn long_scans_are_paged() {
    let bench = bench();
    for chunk in 0..25 {
        let changes: Vec<String> = (0..100).map(|i| put(chunk * 100 + i, "")).collect();
        assert_eq!(send_batch(&bench, &batch(&changes)).status, 202);
    }
    let mut next = String::new();
    let mut counts = Vec::new();
    loop {
        let path = format!("/people()?$select=RowKey{next}");
        let page = bench.send("GET", &path, &[("Accept", "application/json;odata=nometadata")], "");
        counts.push(String::from_utf8_lossy(&page.body).matches("RowKey").count());
        let token = |name: &str| page.get(&format!("x-ms-continuation-{name}")).map(str::to_owned);
        match (token("NextPartitionKey"), token("NextRowKey")) {
            (Some(partition), Some(row)) => {
                next = format!("&NextPartitionKey={partition}&NextRowKey={row}");
            }
            _ => break,
        }
    }
    assert_eq!(counts, [1000, 1000, 500]);
}

#[test]
fn pages_of_large_entities_end_early() {
    let bench = bench();
    let text = "x".repeat(30 << 10);
    let members: Vec<String> = (0..16).map(|i| format!("\"P{i}\":\"{text}\"")).collect();
    let row = |i: usize| {
        format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{i:02}\",{}}}", members.join(","))
    };
    for i in 0..40 {
        assert_eq!(code(&bench.send("POST", "/people", &JSON, &row(i))), "204");
    }
    let (mut tokens, mut pages) = (String::new(), Vec::new());
    loop {
        let page = bench.send("GET", &format!("/people()?$select=*{tokens}"), &[], "");
        assert_eq!(page.status, 200);
        let count = String::from_utf8_lossy(&page.body).matches("\"P15\":").count();
        pages.push((count, page.body.len()));
        let token = |name| page.get(&format!("x-ms-continuation-{name}")).map(str::to_owned);
        let Some((pk, rk)) = token("NextPartitionKey").zip(token("NextRowKey")) else { break };
        tokens = format!("&NextPartitionKey={pk}&NextRowKey={rk}");
    }
    // 16 MiB and what the last entity has beyond them.
    assert_eq!(pages.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [35, 5], "{pages:?}");
    assert!(pages.iter().all(|(_, bytes)| *bytes < (16 << 20) + (1 << 20)), "{pages:?}");
}

#[test]
fn long_filters() {
    let bench = bench();
    assert_eq!(insert(&bench, "\"A\":7"), "204");
    let filter = |terms: usize| {
        let terms: Vec<String> = (0..terms).map(|i| format!("A%20eq%20{i}")).collect();
        bench.send("GET", &format!("/people?$filter={}", terms.join("%20or%20")), &[], "")
    };
    assert_eq!(filter(200).status, 200);
    assert_eq!(code(&filter(5000)), "400 InvalidInput");
}

#[test]
fn accounts_do_not_meet() {
    let bench = bench();
    let other = bench.send("GET", "/Tables", &[], "");
    assert!(String::from_utf8_lossy(&other.body).contains("people"));
    // The development key signs nothing for another account's address.
    let mut request = common::request("GET", "/Tables", &[], "");
    common::sign(&mut request.head, &common::date_of(common::START));
    request.head.target = "/otheraccount/Tables".to_owned();
    assert_eq!(bench.app.answer(request).status, 403);
}

/// They repeated what was refused, however long, and escaped that: of an address of 16 KB 80.
#[test]
fn refusals_are_short_whatever_they_repeat() {
    let bench = bench();
    let bytes = |path: &str, accept: &str, more: &[(&str, &str)]| {
        let headers = [&[("Accept", accept)], more].concat();
        let answer = bench.send("GET", path, &headers, "");
        let unsigned = bench.app.answer(request("GET", path, &headers, ""));
        [answer, unsigned].map(|answer| {
            assert!(answer.status >= 400, "{} {}", answer.status, path.split_at(20).0);
            let headers = answer.headers.iter().map(|(name, value)| name.len() + value.len());
            answer.body.len() + headers.sum::<usize>()
        })
    };
    let mut longest = 0;
    for piece in ["x", "&", "\"", "<", "%C3%A9", "%E4%B8%80", "%F0%9F%98%80"] {
        let long = piece.repeat(60_000 / piece.len());
        for path in [
            format!("/{long}('a','b')"),
            format!("/{long}/Tables('a')"),
            format!("/people(PartitionKey='{long}')"),
            format!("/Tables('{long}','b')"),
            format!("/people()?$filter=A%20eq%20{long}%20eq"),
            format!("/people()?$filter=A%20eq%20X'{long}'"),
            format!("/people()?$filter=A%20eq%201{}", "0".repeat(long.len())),
            format!("/people()?$top=x{long}"),
        ] {
            for accept in ["application/json", "application/atom+xml"] {
                longest = bytes(&path, accept, &[]).into_iter().fold(longest, usize::max);
            }
        }
        let etag = [("If-Match", long.as_str())];
        let path = "/people(PartitionKey='p',RowKey='r')?$format=application/atom%2Bxml";
        longest = bytes(path, "", &etag).into_iter().fold(longest, usize::max);
    }
    assert!((6 << 10..8 << 10).contains(&longest), "{longest}");
}

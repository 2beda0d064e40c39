//! Limits of rate through the whole service: what counts on which bucket, what the answer is, and
//! that nothing of a refused request happens.

mod common;

use common::{Bench, Sas, date_of, request, sign};
use std::num::NonZeroU32;
use std::time::Duration;
use tabulith::env::clock::Clock as _;
use tabulith_server::config::{Config, Throttling};
use tabulith_server::http::message::Response;

const PARTITION_TEXT: &str =
    "The server is currently unable to receive requests. Please retry your request.";
const ACCOUNT_TEXT: &str = "Operations per second is over the account limit.";

/// A service with a table; no limit where it is 0.
fn bench(partition: u32, account: u32) -> Bench {
    let throttling = Throttling {
        partition_entities: NonZeroU32::new(partition),
        account_requests: NonZeroU32::new(account),
    };
    let bench = Bench::with(Config { throttling, ..Config::default() });
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"people\"}").status, 201);
    second(&bench);
    bench
}

/// A second passes: every bucket that was not overdrawn is full.
fn second(bench: &Bench) {
    bench.clock.advance(Duration::from_secs(1));
}

fn insert(bench: &Bench, partition: &str, row: usize) -> Response {
    let body = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row:03}\"}}");
    bench.send("POST", "/people", &[("Prefer", "return-no-content")], &body)
}

fn get(bench: &Bench, partition: &str, row: usize) -> u16 {
    let path = format!("/people(PartitionKey='{partition}',RowKey='{row:03}')");
    bench.send("GET", &path, &[], "").status
}

fn batch(bench: &Bench, body: &str) -> Response {
    let mut request =
        request("POST", "/$batch", &[("Content-Type", "multipart/mixed; boundary=b")], body);
    sign(&mut request.head, &date_of(bench.clock.wall_ticks()));
    bench.app.answer(request)
}

/// A transaction of upserts.
fn transaction(bench: &Bench, partition: &str, rows: std::ops::Range<usize>) -> Response {
    let part = |row: usize| {
        format!(
            "--c\nContent-Type: application/http\n\n\
             PUT /people(PartitionKey='{partition}',RowKey='{row:03}') HTTP/1.1\n\n{{}}\n"
        )
    };
    let parts: String = rows.map(part).collect();
    let body = format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{parts}--c--\n--b--\n");
    batch(bench, &body)
}

/// A batch of one query.
fn read(bench: &Bench, target: &str) -> Response {
    batch(
        bench,
        &format!("--b\nContent-Type: application/http\n\nGET {target} HTTP/1.1\n\n--b--\n"),
    )
}

#[track_caller]
fn assert_busy(response: &Response, text: &str) {
    let body = String::from_utf8_lossy(&response.body);
    assert_eq!((response.status, response.get("x-ms-error-code")), (503, Some("ServerBusy")));
    assert!(body.contains(&format!("{text}\\nRequestId:")), "{body}");
    assert_eq!(response.get("Retry-After"), None);
}

#[test]
fn a_partition_has_its_rate() {
    let bench = bench(10, 0);
    for row in 0..10 {
        assert_eq!(insert(&bench, "p", row).status, 204);
    }
    assert_busy(&insert(&bench, "p", 10), PARTITION_TEXT);
    // Others have buckets of their own.
    assert_eq!(insert(&bench, "q", 0).status, 204);
    bench.clock.advance(Duration::from_millis(99));
    assert_busy(&insert(&bench, "p", 10), PARTITION_TEXT);
    bench.clock.advance(Duration::from_millis(1));
    // What was refused has not happened, and looking at it takes a turn too.
    assert_eq!(get(&bench, "p", 10), 404);
    assert_eq!(get(&bench, "p", 10), 503);
    second(&bench);
    assert_eq!(insert(&bench, "p", 10).status, 204);
}

#[test]
fn every_operation_on_an_entity_counts() {
    let entity = "/PEOPLE(PartitionKey='p',RowKey='000')";
    let any = [("If-Match", "*")];
    for (method, headers, body) in [
        ("GET", &[][..], ""),
        ("PUT", &[], "{}"),
        ("PUT", &any, "{}"),
        ("PATCH", &[], "{}"),
        ("MERGE", &any, "{}"),
        ("DELETE", &any, ""),
    ] {
        let bench = bench(1, 0);
        assert_eq!(insert(&bench, "p", 0).status, 204);
        // The name of a table in any case is the same table.
        assert_busy(&bench.send(method, entity, headers, body), PARTITION_TEXT);
        second(&bench);
        assert!(bench.send(method, entity, headers, body).status < 300, "{method}");
        assert_busy(&insert(&bench, "p", 1), PARTITION_TEXT);
    }
}

#[test]
fn a_throttled_change_changes_nothing() {
    let bench = bench(1, 0);
    let path = "/people(PartitionKey='p',RowKey='000')";
    assert_eq!(insert(&bench, "p", 0).status, 204);
    assert_eq!(bench.send("PUT", path, &[], "{\"Age\":1}").status, 503);
    assert_eq!(bench.send("DELETE", path, &[("If-Match", "*")], "").status, 503);
    second(&bench);
    let found = bench.send("GET", path, &[], "");
    assert_eq!(found.status, 200);
    assert!(!String::from_utf8_lossy(&found.body).contains("Age"));
}

#[test]
fn a_transaction_counts_each_of_its_entities() {
    let bench = bench(10, 0);
    assert_eq!(transaction(&bench, "p", 0..6).status, 202);
    // Refused as a whole, and applied to no part.
    assert_busy(&transaction(&bench, "p", 6..11), PARTITION_TEXT);
    assert_eq!(transaction(&bench, "p", 20..24).status, 202);
    assert_busy(&insert(&bench, "p", 30), PARTITION_TEXT);
    second(&bench);
    let found: Vec<u16> = (6..11).map(|row| get(&bench, "p", row)).collect();
    assert_eq!(found, [404; 5]);
    assert_eq!(get(&bench, "p", 23), 200);
}

#[test]
fn a_transaction_larger_than_a_second_is_paid_for_afterwards() {
    let bench = bench(10, 0);
    assert_eq!(transaction(&bench, "p", 0..100).status, 202);
    bench.clock.advance(Duration::from_millis(9_099));
    assert_eq!(get(&bench, "p", 0), 503);
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(get(&bench, "p", 0), 200);
}

#[test]
fn a_query_in_a_batch_counts_on_its_partition() {
    let bench = bench(4, 0);
    assert_eq!(transaction(&bench, "p", 0..2).status, 202);
    second(&bench);
    let point = "/people(PartitionKey='p',RowKey='000')";
    assert_eq!(read(&bench, point).status, 202);
    assert_eq!(read(&bench, "/people()?$filter=PartitionKey%20eq%20'p'").status, 202);
    assert_eq!(get(&bench, "p", 0), 200);
    // One, two and one: the second is used up, for every way of asking.
    assert_busy(&read(&bench, point), PARTITION_TEXT);
    assert_busy(&read(&bench, "/people()"), PARTITION_TEXT);
    assert_eq!(get(&bench, "p", 0), 503);
    second(&bench);
    assert_eq!(read(&bench, point).status, 202);
}

#[test]
fn a_page_ends_where_a_partition_has_no_more_to_give() {
    let bench = bench(4, 0);
    for partition in ["a", "b", "c"] {
        assert_eq!(transaction(&bench, partition, 0..3).status, 202);
    }
    second(&bench);
    let rows = |page: &Response| String::from_utf8_lossy(&page.body).matches("RowKey").count();
    let all = bench.send("GET", "/people()", &[], "");
    assert_eq!((all.status, rows(&all)), (200, 9));
    assert_eq!(all.get("x-ms-continuation-NextPartitionKey"), None);
    second(&bench);
    assert_eq!(transaction(&bench, "b", 0..2).status, 202);
    let first = bench.send("GET", "/people()", &[], "");
    assert_eq!((first.status, rows(&first)), (200, 3 + 2), "two of b are left");
    let token = |name: &str| first.get(&format!("x-ms-continuation-{name}")).expect("a token");
    let next = format!(
        "/people()?NextPartitionKey={}&NextRowKey={}",
        token("NextPartitionKey"),
        token("NextRowKey")
    );
    assert_busy(&bench.send("GET", &next, &[], ""), PARTITION_TEXT);
    second(&bench);
    let rest = bench.send("GET", &next, &[], "");
    assert_eq!((rest.status, rows(&rest)), (200, 1 + 3));
    assert_eq!(rest.get("x-ms-continuation-NextPartitionKey"), None);
}

#[test]
fn an_account_has_its_rate() {
    let bench = bench(0, 5);
    for _ in 0..5 {
        assert_eq!(bench.send("GET", "/Tables", &[], "").status, 200);
    }
    let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"000\"}";
    for (method, path, body) in
        [("GET", "/Tables", ""), ("POST", "/people", entity), ("DELETE", "/Tables('people')", "")]
    {
        assert_busy(&bench.send(method, path, &[], body), ACCOUNT_TEXT);
    }
    // Settings are refused in their own form.
    let acl = bench.send("GET", "/people?comp=acl", &[], "");
    assert_eq!((acl.status, acl.get("Content-Type")), (503, Some("application/xml")));
    assert!(String::from_utf8_lossy(&acl.body).contains("<m:code>ServerBusy</m:code>"));
    second(&bench);
    assert_eq!(get(&bench, "p", 0), 404);
    assert_eq!(bench.send("GET", "/Tables('people')", &[], "").status, 200);
}

#[test]
fn who_is_not_let_in_takes_nothing() {
    let bench = bench(1, 1);
    for _ in 0..10 {
        let stranger = request("GET", "/people(PartitionKey='p',RowKey='000')", &[], "");
        assert_eq!(bench.app.answer(stranger).status, 403);
    }
    assert_eq!(get(&bench, "p", 0), 404);
}

#[test]
fn who_asks_outside_of_his_range_takes_nothing_there() {
    let bench = bench(2, 0);
    let own = Sas::table("people").with("sp", "raud").with("spk", "p").with("epk", "p");
    let within = own.with("srk", "000").with("erk", "001").token();
    let token = own.token();
    let ask = |token: &str, method: &str, place: &str, body: &str| {
        let headers = [("If-Match", "*"), ("Content-Type", "multipart/mixed; boundary=b")];
        let headers = if method == "POST" { &headers[1..] } else { &headers[..1] };
        let headers = if place == "/people" { &[] } else { headers };
        bench.app.answer(request(method, &format!("{place}?{token}"), headers, body))
    };
    let other = "/people(PartitionKey='q',RowKey='000')";
    let entity = "{\"PartitionKey\":\"q\",\"RowKey\":\"000\"}";
    let part = |text: &str| format!("--c\nContent-Type: application/http\n\n{text}\n");
    let set = |parts: &[String]| {
        let parts = parts.concat();
        format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{parts}--c--\n--b--\n")
    };
    let insert_there = part(&format!("POST /people HTTP/1.1\n\n{entity}"));
    let query = "--b\nContent-Type: application/http\n\nGET /people(PartitionKey='q',RowKey='000') \
                 HTTP/1.1\n\n--b--\n";
    for _ in 0..3 {
        assert_eq!(ask(&token, "GET", other, "").status, 404, "there is nothing for him");
        assert_eq!(ask(&token, "DELETE", other, "").status, 403);
        assert_eq!(ask(&token, "PUT", other, "{}").status, 403);
        assert_eq!(ask(&token, "POST", "/people", entity).status, 403);
        let set = ask(&token, "POST", "/$batch", &set(std::slice::from_ref(&insert_there)));
        let body = String::from_utf8_lossy(&set.body).into_owned();
        assert!(set.status == 202 && body.contains("HTTP/1.1 403"), "{body}");
        assert_eq!(ask(&token, "POST", "/$batch", query).status, 202);
    }
    assert_eq!(insert(&bench, "q", 0).status, 204, "the owner has all of it");
    assert_eq!(get(&bench, "q", 0), 200);
    assert_eq!(get(&bench, "q", 0), 503);
    // In the same partition, beyond the rows that may be asked for; also behind one that may.
    second(&bench);
    let upsert =
        |row| part(&format!("PUT /people(PartitionKey='p',RowKey='{row}') HTTP/1.1\n\n{{}}"));
    let insert_beyond =
        part("POST /people HTTP/1.1\n\n{\"PartitionKey\":\"p\",\"RowKey\":\"009\"}");
    for _ in 0..3 {
        let set = ask(&within, "POST", "/$batch", &set(&[upsert("000"), insert_beyond.clone()]));
        let body = String::from_utf8_lossy(&set.body).into_owned();
        assert!(set.status == 202 && body.contains("HTTP/1.1 403"), "{body}");
        let beyond = "/people(PartitionKey='p',RowKey='009')";
        assert_eq!(ask(&within, "GET", beyond, "").status, 404);
    }
    assert_eq!(insert(&bench, "p", 0).status, 204);
    assert_eq!(get(&bench, "p", 0), 200);
}

#[test]
fn without_limits_everything_passes() {
    let bench = bench(0, 0);
    for row in 0..3_000 {
        assert_eq!(insert(&bench, "p", row).status, 204);
    }
}

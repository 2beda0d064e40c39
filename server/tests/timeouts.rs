//! Requests that are out of time: what they are told, and that nothing of them happens later.

mod common;

use common::{Bench, date_of, request, sign};
use std::time::Duration;
use tabulith::env::clock::Clock as _;
use tabulith::options::Reach;
use tabulith_server::handle::answer::Answer;
use tabulith_server::http::message::Response;

const ENTITY: &str = "/people(PartitionKey='p',RowKey='r')";

fn bench() -> Bench {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"people\"}").status, 201);
    for row in 0..40 {
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row:02}\"}}");
        assert_eq!(bench.send("POST", "/people", &[], &body).status, 201);
    }
    bench
}

/// The answer to a request whose body arrives `late`.
fn send_late(bench: &Bench, method: &str, path: &str, body: &str, late: u64) -> Response {
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    let headers = if path.starts_with("/$batch") { &headers[..] } else { &[] };
    let mut request = request(method, path, headers, body);
    if method == "DELETE" {
        request.head.headers.push("If-Match", "*");
    }
    sign(&mut request.head, &date_of(bench.clock.wall_ticks()));
    let call = bench.app.receive(&request.head).expect("admitted");
    bench.clock.advance(Duration::from_secs(late));
    match bench.app.perform(&call, &request.body, Reach::Disk) {
        Answer::Now(response) => response,
        Answer::Later(later) => later.wait(),
        Answer::NeedsDisk => panic!("the disk was allowed"),
    }
}

fn code(response: &Response) -> (u16, Option<&str>) {
    (response.status, response.get("x-ms-error-code"))
}

#[test]
fn point_operations_and_transactions_fail() {
    let bench = bench();
    let insert = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";
    let batch = "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\n\
        Content-Type: application/http\n\nPUT /people(PartitionKey='p',RowKey='r') HTTP/1.1\n\n{}\n\
        --c--\n--b--\n";
    let over = (500, Some("OperationTimedOut"));
    for (method, path, body) in [
        ("POST", "/people", insert),
        ("PUT", ENTITY, "{}"),
        ("PATCH", ENTITY, "{}"),
        ("DELETE", "/people(PartitionKey='p',RowKey='00')", ""),
        ("GET", "/people(PartitionKey='p',RowKey='00')", ""),
        ("POST", "/$batch", batch),
        ("GET", "/Tables", ""),
        ("POST", "/Tables", "{\"TableName\":\"others\"}"),
        ("DELETE", "/Tables('people')", ""),
    ] {
        assert_eq!(code(&send_late(&bench, method, path, body, 30)), over, "{method} {path}");
        let hasty = format!("{path}?timeout=3");
        assert_eq!(code(&send_late(&bench, method, &hasty, body, 3)), over, "{method} {hasty}");
    }
    // None of it has happened.
    assert_eq!(bench.send("GET", ENTITY, &[], "").status, 404);
    assert_eq!(bench.send("GET", "/people(PartitionKey='p',RowKey='00')", &[], "").status, 200);
    assert_eq!(bench.send("GET", "/Tables('others')", &[], "").status, 404);
    // In time all of it does.
    let last = send_late(&bench, "POST", "/people?timeout=3", insert, 2);
    assert_eq!(last.status, 201);
    assert_eq!(send_late(&bench, "POST", "/$batch?timeout=90", batch, 29).status, 202);
}

#[test]
fn queries_answer_a_short_page_and_go_on() {
    let bench = bench();
    let accept = "$format=application/json;odata=nometadata";
    let nothing = format!("/people()?{accept}&$filter=RowKey%20eq%20'x'%20or%20Age%20eq%201");
    let page = send_late(&bench, "GET", &format!("{nothing}&timeout=3"), "", 3);
    assert_eq!((page.status, page.body), (200, "{\"value\":[]}".into()));
    // The page was empty, and says where to go on.
    let mut rows = 0;
    let mut pages = 0;
    let mut next = String::new();
    loop {
        let path = format!("/people()?{accept}&$select=RowKey&timeout=3{next}");
        let page = send_late(&bench, "GET", &path, "", 3);
        assert_eq!(page.status, 200);
        rows += String::from_utf8_lossy(&page.body).matches("RowKey").count();
        pages += 1;
        let token = |name: &str| page.get(&format!("x-ms-continuation-{name}")).map(str::to_owned);
        match (token("NextPartitionKey"), token("NextRowKey")) {
            (Some(partition), Some(row)) => {
                next = format!("&NextPartitionKey={partition}&NextRowKey={row}");
            }
            _ => break,
        }
    }
    assert_eq!(rows, 40);
    assert!(pages > 1, "{pages} pages");
}

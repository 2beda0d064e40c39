//! Bodies of `$batch` as clients write them, well and badly: what is answered, and what is left in
//! the table.
//!
//! `batches.jsonl` has a case in each line: its name, the batch, what becomes of it, and the rows
//! of its partition, which had the row `old`, from then on. `{P}` stands for the partition.

#![allow(clippy::disallowed_methods, reason = "the corpus is a file of the repository")]

mod common;

use common::Bench;
use serde_json::Value;
use std::path::Path;
use tabulith::env::clock::Clock as _;
use tabulith_server::http::message::Response;

const OUTER: &str = "multipart/mixed; boundary=batch_1";
const PARTITION: &str = "{P}";

/// What becomes of a batch.
#[derive(Clone, Debug)]
enum Expect {
    /// `done 2`: so many operations happen.
    Done(usize),
    /// `refused 1 400 Code text`: the operation at this place is refused, and the text goes on so.
    Refused(usize, u16, String, String),
    /// `whole 400 Code`: the whole batch is.
    Whole(u16, String),
    /// `query 200`: a query is answered so.
    Query(u16),
}

impl Expect {
    fn parse(text: &str) -> Expect {
        let mut words = text.splitn(5, ' ');
        let mut word = || words.next().unwrap_or_default();
        let number = |text: &str| text.parse::<u16>().expect("a number");
        match word() {
            "done" => Expect::Done(number(word()).into()),
            "refused" => Expect::Refused(
                number(word()).into(),
                number(word()),
                word().to_owned(),
                word().to_owned(),
            ),
            "whole" => Expect::Whole(number(word()), word().to_owned()),
            "query" => Expect::Query(number(word())),
            other => panic!("{other}"),
        }
    }
}

struct Case {
    name: String,
    content_type: String,
    body: String,
    expect: Expect,
    /// None where there are too many to name.
    rows: Option<Vec<String>>,
}

impl Case {
    fn of(name: &str, body: String, expect: &str, rows: Option<&str>) -> Case {
        let rows = rows.map(|rows| rows.split(',').map(str::to_owned).collect());
        let (name, content_type) = (name.to_owned(), OUTER.to_owned());
        Case { name, content_type, body, expect: Expect::parse(expect), rows }
    }
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/batches.jsonl");
    let file = std::fs::read_to_string(path).expect("the corpus");
    let read = |line: &str| {
        let case: Value = serde_json::from_str(line).expect("a case");
        let text = |name: &str| case[name].as_str().expect("a text");
        let content_type = text("type").to_owned();
        let case =
            Case::of(text("name"), text("body").to_owned(), text("expect"), Some(text("rows")));
        Case { content_type, ..case }
    };
    let mut cases: Vec<Case> = file.lines().map(read).collect();
    let too_many = "refused 99 400 InvalidInput The batch request operation exceeds the maximum 100 \
        changes per change set.";
    cases.push(Case::of("100 changes", set(&puts(100)), "done 100", None));
    for count in [101, 102, 1000] {
        let name = format!("{count} changes");
        cases.push(Case::of(&name, set(&puts(count)), too_many, Some("old")));
    }
    let text = "x".repeat(32 << 10);
    let large: Vec<_> = (0..16).map(|i| format!("\"P{i}\":\"{text}\"")).collect();
    for (json, expect) in [
        (
            format!("{{\"A\":\"{text}x\"}}"),
            "refused 1 400 PropertyValueTooLarge The property value",
        ),
        (format!("{{{}}}", large.join(",")), "refused 1 400 EntityTooLarge The entity is larger"),
    ] {
        let body = set(&[put("a", "{}"), put("b", &json)]);
        cases.push(Case::of(expect, body, expect, Some("old")));
    }
    cases
}

/// A change within its part.
fn put(row: &str, json: &str) -> String {
    format!(
        "--changeset_1\r\nContent-Type: application/http\r\n\r\n\
         PUT /people(PartitionKey='{PARTITION}',RowKey='{row}') HTTP/1.1\r\n\r\n{json}\r\n"
    )
}

fn puts(count: usize) -> Vec<String> {
    (0..count).map(|row| put(&row.to_string(), "{}")).collect()
}

fn set(parts: &[String]) -> String {
    format!(
        "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n{}\
         --changeset_1--\r\n--batch_1--\r\n",
        parts.concat()
    )
}

fn bench() -> Bench {
    let bench = Bench::new();
    for name in ["people", "others"] {
        let body = format!("{{\"TableName\":\"{name}\"}}");
        assert_eq!(bench.send("POST", "/Tables", &[], &body).status, 201);
    }
    bench
}

fn text(response: &Response) -> String {
    String::from_utf8(response.body.to_vec()).expect("text")
}

/// Row keys of a partition.
fn rows(bench: &Bench, partition: &str) -> Vec<String> {
    let accept = [("Accept", "application/json;odata=nometadata")];
    let path = format!("/people()?$filter=PartitionKey%20eq%20'{partition}'&$select=RowKey");
    let page = text(&bench.send("GET", &path, &accept, ""));
    page.split("\"RowKey\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect()
}

fn check(bench: &Bench, case: &Case, partition: &str) {
    let Case { name, content_type, body, expect, rows: expected_rows } = case;
    let old = format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"old\"}}");
    assert_eq!(bench.send("POST", "/people", &[], &old).status, 201);
    let body = body.replace(PARTITION, partition);
    let answer = bench.send("POST", "/$batch", &[("Content-Type", content_type)], &body);
    let shown = text(&answer);
    let place = format!("{name}: {} {shown}", answer.status);
    let statuses: Vec<&str> = shown.split("\r\nHTTP/1.1 ").skip(1).collect();
    let is_json = |json: &str| serde_json::from_str::<serde_json::Value>(json).is_ok();
    match expect {
        Expect::Done(count) => {
            assert_eq!((answer.status, statuses.len()), (202, *count), "{place}");
            assert!(statuses.iter().all(|status| status.starts_with('2')), "{place}");
        }
        Expect::Refused(index, status, code, text) => {
            assert_eq!((answer.status, statuses.len()), (202, 1), "{place}");
            assert!(statuses[0].starts_with(&status.to_string()), "{place}");
            let told = format!(
                "{{\"odata.error\":{{\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"{index}:{text}"
            );
            let json = shown.lines().find(|line| line.starts_with('{')).unwrap_or_default();
            assert!(json.starts_with(&told) && is_json(json), "{place}\nexpected {told}");
        }
        Expect::Whole(status, code) => {
            assert_eq!(
                (answer.status, answer.get("x-ms-error-code")),
                (*status, Some(code.as_str())),
                "{place}"
            );
            assert!(is_json(&shown), "{place}");
        }
        Expect::Query(status) => {
            assert_eq!((answer.status, statuses.len()), (202, 1), "{place}");
            assert!(statuses[0].starts_with(&status.to_string()), "{place}");
            assert!(!shown.contains("changesetresponse_"), "{place}");
        }
    }
    if let Some(expected) = expected_rows {
        assert_eq!(&rows(bench, partition), expected, "{place}");
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "how many cases there were")]
fn the_corpus() {
    let bench = bench();
    let cases = cases();
    for (at, case) in cases.iter().enumerate() {
        check(&bench, case, &format!("c{at}"));
    }
    println!("{} batches", cases.len());
    assert!(cases.len() >= 150, "{} cases", cases.len());
}

/// Whatever is cut off the end of a batch, it is answered, and it is there as a whole or not at
/// all.
#[test]
fn a_batch_cut_anywhere() {
    let bench = bench();
    let body = set(&[put("a", "{\"A\":1}"), put("b", "{}")]);
    for end in 0..body.len() {
        let partition = format!("c{end}");
        let cut = body[..end].replace(PARTITION, &partition);
        let answer = bench.send("POST", "/$batch", &[("Content-Type", OUTER)], &cut);
        let parts = text(&answer).matches("\r\nHTTP/1.1 2").count();
        let rows = rows(&bench, &partition);
        assert!(matches!(answer.status, 202 | 400), "{end}: {}", answer.status);
        assert_eq!(rows.len(), parts, "{end}: {}", text(&answer));
    }
}

/// Nothing is read behind the part that is one too many.
#[test]
fn many_small_parts_are_refused_at_once() {
    let bench = bench();
    for count in [1_000, 100_000, 600_000] {
        let body = format!(
            "--batch_1\nContent-Type: multipart/mixed; boundary=c\n\n{}--c--\n--batch_1--",
            "--c\n\n".repeat(count)
        );
        let answer = bench.send("POST", "/$batch", &[("Content-Type", OUTER)], &body);
        assert!(text(&answer).contains("\"99:The batch request operation exceeds"), "{count}");
    }
}

/// A point read in a batch is as much of its partition's heat as one by itself.
#[test]
fn a_point_read_in_a_batch_is_counted_among_hot_partitions() {
    let bench = bench();
    let counted = || bench.app.hot().ranking(bench.clock.steady()).entities;
    let entity = "/people(PartitionKey='p',RowKey='r')";
    assert_eq!((counted(), bench.send("GET", entity, &[], "").status, counted()), (0, 404, 1));
    let body = format!(
        "--batch_1\r\nContent-Type: application/http\r\n\r\nGET {entity} HTTP/1.1\r\n\r\n--batch_1--"
    );
    let answer = bench.send("POST", "/$batch", &[("Content-Type", OUTER)], &body);
    assert!(text(&answer).contains("HTTP/1.1 404 "), "{}", text(&answer));
    assert_eq!(counted(), 2);
}

//! Key ranges of a table SAS against all short strings, by an oracle of its own: pairs of UTF-16
//! texts in their natural order.

#![allow(clippy::print_stdout, reason = "the counts are what the test shows")]

mod common;

use common::{Bench, Sas, request};
use tabulith_server::auth::key_range::KeyRange;
use tabulith_server::odata::options::token_encoded;

/// Letters of all kinds: the last two change places between UTF-8 and UTF-16.
const LETTERS: [char; 5] = ['A', 'a', 'b', '\u{10000}', '\u{fffd}'];

/// All strings of up to `length` letters.
fn strings(length: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..length {
        last = last
            .iter()
            .flat_map(|start| LETTERS.map(|letter| format!("{start}{letter}")))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// A key as .NET orders it.
fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

/// The rules of the documentation, as they stand there.
fn is_inside(
    first: &(Option<&str>, Option<&str>),
    last: &(Option<&str>, Option<&str>),
    pk: &str,
    rk: &str,
) -> bool {
    let (pk, rk) = (units(pk), units(rk));
    let from = match *first {
        (None, _) => true,
        (Some(spk), None) => pk >= units(spk),
        (Some(spk), Some(srk)) => pk > units(spk) || pk == units(spk) && rk >= units(srk),
    };
    let to = match *last {
        (None, _) => true,
        (Some(epk), None) => pk <= units(epk),
        (Some(epk), Some(erk)) => pk < units(epk) || pk == units(epk) && rk <= units(erk),
    };
    from && to
}

#[test]
fn every_end_of_a_range() {
    let (long, short) = (strings(3), strings(1));
    let mut ends: Vec<(Option<&str>, Option<&str>)> = vec![(None, None)];
    for pk in &long {
        ends.push((Some(pk), None));
        ends.extend(short.iter().map(|rk| (Some(pk.as_str()), Some(rk.as_str()))));
    }
    let mut cases = 0u64;
    let none = (None, None);
    for end in &ends {
        let first = KeyRange::of(end.0, end.1, None, None).expect("a range");
        let last = KeyRange::of(None, None, end.0, end.1).expect("a range");
        let one = KeyRange::of(end.0, end.1, end.0, end.1).expect("a range");
        for pk in &long {
            for rk in &short {
                let shown = || format!("{end:?}: {pk:?} {rk:?}");
                assert_eq!(first.contains(pk, rk), is_inside(end, &none, pk, rk), "{}", shown());
                assert_eq!(last.contains(pk, rk), is_inside(&none, end, pk, rk), "{}", shown());
                assert_eq!(one.contains(pk, rk), is_inside(end, end, pk, rk), "{}", shown());
                cases += 3;
            }
        }
    }
    println!("ends of ranges: {cases} cases, 0 differences");
    assert!(cases > 1_000_000);
}

#[test]
fn every_range_through_the_service() {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    let keys = strings(1);
    let all: Vec<(&str, &str)> =
        keys.iter().flat_map(|pk| keys.iter().map(|rk| (pk.as_str(), rk.as_str()))).collect();
    for (pk, rk) in &all {
        let body = format!("{{\"PartitionKey\":\"{pk}\",\"RowKey\":\"{rk}\"}}");
        assert_eq!(bench.send("POST", "/Mine", &[], &body).status, 201);
    }
    let mut ends: Vec<(Option<&str>, Option<&str>)> = vec![(None, None)];
    for pk in keys.iter().filter(|pk| !pk.is_empty()) {
        ends.push((Some(pk), None));
        // An empty field is one that is not there.
        ends.extend(
            keys.iter()
                .filter(|rk| !rk.is_empty())
                .map(|rk| (Some(pk.as_str()), Some(rk.as_str()))),
        );
    }
    let (mut ranges, mut forged) = (0, 0);
    for first in &ends {
        for last in &ends {
            let mut sas = Sas::table("Mine").with("sp", "rd");
            let fields = [("spk", first.0), ("srk", first.1), ("epk", last.0), ("erk", last.1)];
            for (name, value) in fields {
                if let Some(value) = value {
                    sas = sas.with(name, value);
                }
            }
            let token = sas.token();
            let inside = |(pk, rk): &(&str, &str)| is_inside(first, last, pk, rk);
            let query = |more: &str| {
                let path =
                    format!("/Mine()?{token}&$format=application/json;odata=nometadata{more}");
                let response = bench.app.answer(request("GET", &path, &[], ""));
                let text = String::from_utf8_lossy(&response.body);
                assert_eq!(response.status, 200, "{path}: {text}");
                let body: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
                let rows = body["value"].as_array().expect("rows").clone();
                let text = |row: &serde_json::Value, name: &str| {
                    row[name].as_str().expect("a key").to_owned()
                };
                let rows: Vec<(String, String)> = rows
                    .iter()
                    .map(|row| (text(row, "PartitionKey"), text(row, "RowKey")))
                    .collect();
                (rows, response.get("x-ms-continuation-NextPartitionKey").map(str::to_owned))
            };
            let (rows, next) = query("");
            let mut expected: Vec<(String, String)> = all
                .iter()
                .filter(|keys| inside(keys))
                .map(|(pk, rk)| ((*pk).to_owned(), (*rk).to_owned()))
                .collect();
            expected.sort_by_key(|(pk, rk)| (units(pk), units(rk)));
            assert_eq!(rows, expected, "{first:?} {last:?}");
            assert_eq!(next, None);
            ranges += 1;
            if ranges % 5 > 0 {
                continue;
            }
            for (pk, rk) in &all {
                let token = format!(
                    "&NextPartitionKey={}&NextRowKey={}",
                    token_encoded(pk),
                    token_encoded(rk)
                );
                let (rows, _) = query(&token.replace('+', "%2B").replace('/', "%2F"));
                assert!(
                    rows.iter().all(|(pk, rk)| inside(&(pk, rk))),
                    "{first:?} {last:?} from {pk} {rk}"
                );
                let point = format!(
                    "/Mine(PartitionKey='{}',RowKey='{}')?{}",
                    common::escaped(pk),
                    common::escaped(rk),
                    sas.token()
                );
                let status = bench.app.answer(request("GET", &point, &[], "")).status;
                let expected = if inside(&(pk, rk)) { 200 } else { 404 };
                assert_eq!(status, expected, "{first:?} {last:?} at {point}");
                if !inside(&(pk, rk)) {
                    let delete = request("DELETE", &point, &[("If-Match", "*")], "");
                    assert_eq!(bench.app.answer(delete).status, 403);
                }
                forged += 1;
            }
        }
    }
    println!(
        "ranges through the service: {ranges}, forged tokens and points: {forged}, 0 rows outside"
    );
    assert!(ranges > 900 && forged > 6_000, "{ranges} {forged}");
}

/// What blocks are passed over hangs on every row in them, and a block at the end of a range has
/// rows of both sides. A filter on a neighbour's value would be answered by whatever tells whether
/// its block was read.
#[test]
fn an_answer_does_not_hang_on_rows_outside_of_the_range() {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Pay\"}").status, 201);
    let put = |pk: &str, rk: &str, pay: u32| {
        let path = format!("/Pay(PartitionKey='{pk}',RowKey='{rk}')");
        assert_eq!(bench.send("PUT", &path, &[], &format!("{{\"Pay\":{pay}}}")).status, 204);
    };
    put("mine", "b", 0);
    put("mine", "c", 0);
    put("theirs", "a", 5_000);
    bench.db.compact().expect("a file");
    put("mine", "a", 9_000);
    let in_partition = Sas::table("Pay").with("sp", "r").with("spk", "mine").with("epk", "mine");
    let in_rows = in_partition.with("srk", "a").with("erk", "b");
    let ask = |sas: &Sas, least: u32, top: u32| {
        let path = format!(
            "/Pay()?{}&$filter=Pay%20ge%20{least}&$top={top}&$format=application/json;odata=nometadata",
            sas.token()
        );
        let explain = [("x-tabulith-explain", "true")];
        let mut answer = bench.app.answer(request("GET", &path, &explain, ""));
        assert_eq!(answer.status, 200);
        answer.headers.retain(|(name, _)| *name != "x-ms-request-id");
        answer
    };
    for sas in [&in_partition, &in_rows] {
        for top in [1, 5] {
            let [below, above] = [5_000, 5_001].map(|least| ask(sas, least, top).to_string());
            assert!(below.contains("\"RowKey\":\"a\"") && !below.contains("theirs"), "{below}");
            assert_eq!(below, above, "{sas:?} top {top}");
            assert!(!below.contains("x-tabulith-"), "{below}");
        }
    }
    // Who may see all rows is told how they were found, and blocks are passed over for them.
    let everything = Sas::table("Pay").with("sp", "r");
    let spared = |least| {
        let answer = ask(&everything, least, 5);
        answer.get("x-tabulith-blocks-skipped").map(str::to_owned)
    };
    assert_eq!([5_000, 5_001].map(spared), [Some("0".to_owned()), Some("1".to_owned())]);
}

#[test]
fn a_line_end_moves_no_field_of_a_signature_to_another() {
    let bench = Bench::new();
    assert_eq!(bench.send("POST", "/Tables", &[], "{\"TableName\":\"Mine\"}").status, 201);
    let body = "{\"PartitionKey\":\"A\",\"RowKey\":\"r\"}";
    assert_eq!(bench.send("POST", "/Mine", &[], body).status, 201);
    let status =
        |token: &str| bench.app.answer(request("GET", &format!("/Mine()?{token}"), &[], "")).status;
    let reader = Sas::table("Mine").with("sp", "r");
    let signed = reader.with("spk", "\n\n~").with("epk", "\n\n~");
    let moved = reader.with("epk", "~\n\n\n\n~");
    assert_eq!(signed.string_to_sign(), moved.string_to_sign(), "the same text");
    for sas in [signed, moved] {
        assert_eq!(status(&sas.token()), 403, "{sas:?}");
    }
    let everything = Sas::account().with("sp", "r").with("srt", "sco");
    assert_eq!(status(&everything.token()), 200);
    for line_end in ["\n", "\r"] {
        for sas in [reader.with("erk", line_end).with("epk", "~"), everything.with("sip", line_end)]
        {
            let refused =
                bench.app.answer(request("GET", &format!("/Mine()?{}", sas.token()), &[], ""));
            let code = refused.get("x-ms-error-code").map(str::to_owned);
            assert_eq!((refused.status, code.as_deref()), (403, Some("AuthenticationFailed")));
        }
    }
}

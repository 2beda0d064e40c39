//! `tabulith conformance` against the program's own server: exit codes, both forms of the report.

mod common;

use common::Place;

const NAME: &str = "devstoreaccount1";

#[test]
fn an_endpoint_is_asked_and_scored() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let endpoint = format!("http://127.0.0.1:{}/{NAME}", server.port());
    let chosen = ["--only", "get-table.", "--only", "order.ordinal"];
    let ran = place.ok(&[&["conformance", &endpoint][..], &chosen].concat());
    assert!(ran.out.contains("| all | 6 | 6 | 0 | 0 | 100.0 % |"), "{}", ran.out);
    let ran = place.ok(&["conformance", &server.connection, "--only", "preflight.no-rules"]);
    assert!(ran.out.contains("needs leave to change the service's properties"), "{}", ran.out);
}

#[test]
fn what_fails_is_shown_and_is_exit_1() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let endpoint = format!("http://127.0.0.1:{}/{NAME}", server.port());
    let wrong = ["conformance", &endpoint, "--key", "d3Jvbmc=", "--only", "get-table.missing"];
    let ran = place.run(&wrong);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    for text in ["FAILED get-table.missing", "status 403 instead of 404", "request (step 1)"] {
        assert!(ran.out.contains(text), "{}", ran.out);
    }
    let ran = place.run(&[&wrong[..], &["-o", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["all"]["failed"], 1);
    assert_eq!(report["rows"][0]["id"], "get-table.missing");
    assert_eq!(report["rows"][0]["outcome"], "failed");
}

/// They were passed over: the account and the key of the connection string were asked.
#[test]
fn account_and_key_are_refused_beside_a_connection_string() {
    let place = Place::new();
    let text = "AccountName=abc;AccountKey=aGVsbG8=;TableEndpoint=http://127.0.0.1:1/abc";
    for flag in ["--account", "--key"] {
        let ran = place.run(&["conformance", text, flag, "d3Jvbmc="]);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        let why = format!("{flag} cannot be used with a connection string");
        assert!(ran.err.contains(&why), "{}", ran.err);
    }
}

#[test]
fn rows_are_listed_and_chosen() {
    let place = Place::new();
    let endpoint = format!("http://127.0.0.1:1/{NAME}");
    let all = place.ok(&["conformance", &endpoint, "--list"]).out.lines().count();
    assert!(all >= 600, "{all} rows");
    let recorded = place.ok(&["conformance", &endpoint, "--list", "--provenance", "R"]).out;
    assert!(recorded.lines().all(|line| line.split('\t').nth(1) == Some("R")), "{recorded}");
    for bad in [&["--only", "nothing"][..], &["--provenance", "Q"]] {
        assert_eq!(place.run(&[&["conformance", &endpoint][..], bad].concat()).code, 2);
    }
    assert_eq!(place.run(&["conformance", "http://127.0.0.1:1/other"]).code, 2);
}

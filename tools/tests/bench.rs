//! `bench` end to end, as small as can be: in a folder, through a server, its files, its reports,
//! its exit codes.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod common;

use common::Place;
use serde_json::Value as Json;
use std::path::Path;

/// The lines of a kind in a result.
fn lines(file: &Path, kind: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(file).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
    all.filter(|line| line["kind"] == kind).collect()
}

const SMALL: [&str; 8] =
    ["--rows", "600", "--partition-rows", "100", "--value-size", "100", "--threads", "2"];

#[test]
fn every_workload_runs_in_a_folder_and_counts_what_it_did() {
    let place = Place::new();
    let workloads = [
        "fillseq",
        "overwrite",
        "readrandom",
        "readmissing",
        "seekrandom",
        "readwhilewriting",
        "ycsba",
        "ycsbb",
        "ycsbc",
        "ycsbd",
        "ycsbe",
        "ycsbf",
        "transactions",
        "scanpartition",
        "fillrandom",
        "deleterandom",
        "fillsync",
    ];
    let flags =
        ["--ops", "300", "--data-dir", "data", "--durability", "buffered", "--out", "results"];
    let ran = place.ok(&[&["bench", "run"], &workloads[..], &SMALL, &flags].concat());
    assert!(ran.out.contains("- durability: buffered\n"), "{}", ran.out);
    let result = place.path("results/result.jsonl");
    let done = lines(&result, "workload");
    let names: Vec<&str> = done.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, workloads);
    for line in &done {
        let name = line["name"].as_str().unwrap();
        assert_eq!((line["ops"].as_u64(), line["failed"].as_u64()), (Some(300), Some(0)), "{line}");
        let promise = if name == "fillsync" { "synced" } else { "buffered" };
        assert_eq!(line["durability"], promise, "{name}");
        assert!(line["latency_us"]["p99"].as_f64() > Some(0.0), "{line}");
        assert!(place.path(&format!("results/{name}-1.hlog")).exists(), "{name}");
    }
    let of = |name: &str| done.iter().find(|line| line["name"] == name).unwrap();
    assert_eq!(of("ycsbf")["acts"].as_array().unwrap().len(), 2);
    assert!(of("scanpartition")["rows_per_second"].is_number(), "{}", of("scanpartition"));
    assert!(of("readwhilewriting")["remark"].as_str().unwrap().contains("updates a second"));
    let head = &lines(&result, "run")[0];
    assert!(head["floor"]["p50_us"].is_number() && head["target"]["kind"] == "folder", "{head}");
    let page = std::fs::read_to_string(place.path("results/report.html")).unwrap();
    assert!(page.contains("At a glance") && page.ends_with("</html>\n"));
    // The folder is as good as any other afterwards.
    assert!(place.ok(&["check", "data"]).err.contains("is clean"));
    // Nothing is measured over what is there.
    let again = place.run(&[&["bench", "run", "fillseq"], &SMALL[..], &flags[2..6]].concat());
    assert_eq!(again.code, 5, "{}", again.err);
    assert!(again.err.contains("is not empty"), "{}", again.err);
}

#[test]
fn a_server_is_measured_at_a_rate_and_left_as_it_was() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let connection = ["--connection-string", server.connection.as_str(), "--durability", "synced"];
    let flags = ["--ops", "120", "--rate", "2000", "--out", "results", "--label", "ours"];
    let workloads = [
        "fillrandom",
        "readrandom",
        "readmissing",
        "seekrandom",
        "transactions",
        "scanpartition",
        "ycsbe",
        "deleterandom",
    ];
    place.ok(&[&["bench", "run"], &workloads[..], &SMALL, &connection, &flags].concat());
    let done = lines(&place.path("results/result.jsonl"), "workload");
    assert_eq!(done.len(), workloads.len());
    for line in &done {
        assert_eq!((line["ops"].as_u64(), line["failed"].as_u64()), (Some(120), Some(0)), "{line}");
        assert_eq!((line["target"].as_str(), line["rate"].as_f64()), (Some("ours"), Some(2000.0)));
        assert_eq!(line["durability"], "synced, as stated");
    }
    let tables =
        place.ok(&["table", "list", "--connection-string", &server.connection, "-o", "tsv"]);
    assert_eq!(tables.out, "", "its table is gone");
    // A table of that name that is there already is not touched.
    place.ok(&["table", "create", "tabulithbench", "--connection-string", &server.connection]);
    let refused = place.run(&[&["bench", "run", "fillseq"], &SMALL[..], &connection].concat());
    assert_eq!(refused.code, 5, "{}", refused.err);
    let tables =
        place.ok(&["table", "list", "--connection-string", &server.connection, "-o", "tsv"]);
    assert_eq!(tables.out, "tabulithbench\n");
}

#[test]
fn one_partition_is_driven_until_it_is_enough() {
    let place = Place::new();
    let flags = ["--data-dir", "data", "--durability", "buffered", "--out", "results"];
    let sizes =
        ["--rows", "200", "--value-size", "50", "--from", "100", "--to", "150", "--step", "1"];
    let ran = place.ok(&[&["bench", "partition"], &flags[..], &sizes].concat());
    assert!(
        ran.out.contains("entities a second here")
            && ran.out.contains("2,000 entities a second that Azure"),
        "{}",
        ran.out
    );
    let result = place.path("results/result.jsonl");
    let steps = lines(&result, "step");
    assert!(!steps.is_empty() && steps[0]["offered"] == 100.0, "{steps:?}");
    assert_eq!(lines(&result, "knee").len(), 1);
    let wrong = place.run(&["bench", "partition", "--durability", "synced", "--row-key", "{x}"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
}

/// Figures of scans of ten rows were held against those of scans of a thousand.
#[test]
fn only_runs_under_the_same_conditions_are_compared() {
    let place = Place::new();
    let line = |more: &str| {
        let of =
            "\"kind\":\"workload\",\"name\":\"seekrandom\",\"target\":\"t\",\"per_second\":9.0";
        format!("{{{of}{more}}}\n")
    };
    for member in ["scan_rows", "partition_rows", "memory_mib", "warmup_s"] {
        let of = |value: &str| place.file(value, line(&format!(",\"{member}\":{value}")));
        let (ten, thousand) = (of("10"), of("1000"));
        assert_eq!(place.run(&["bench", "compare", &ten, &ten]).code, 0, "{member}");
        assert_eq!(place.run(&["bench", "compare", &ten, &thousand]).code, 2, "{member}");
    }
    // Files of before do not have them all.
    let before = place.file("before", line(""));
    assert_eq!(place.run(&["bench", "compare", &before, &before]).code, 0);
}

/// `| head` took the reports away.
#[test]
fn a_reader_that_leaves_early_takes_no_report_away() {
    let place = Place::new();
    let flags = ["--data-dir", "data", "--durability", "buffered", "--out", "results"];
    let run = [&["bench", "run", "fillseq", "--ops", "300"][..], &SMALL, &flags].concat();
    let mut child = place.command(&run).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for file in ["report.md", "report.html"] {
        assert!(place.path("results").join(file).exists(), "{file}");
    }
}

#[test]
fn results_are_shown_and_compared_again() {
    let place = Place::new();
    let line = |name: &str, per_second: f64, p99: f64| {
        format!(
            "{{\"kind\":\"workload\",\"name\":\"{name}\",\"target\":\"t\",\"per_second\":{per_second},\"latency_us\":{{\"p99\":{p99}}}}}\n"
        )
    };
    let a = place.file("a.jsonl", line("x", 1000.0, 10.0) + &line("x", 1010.0, 10.0));
    let b = place.file("b.jsonl", line("x", 700.0, 10.0) + &line("x", 710.0, 10.0));
    let worse = place.run(&["bench", "compare", &a, &b, "-o", "csv"]);
    assert_eq!(worse.code, 1, "{}{}", worse.out, worse.err);
    assert!(worse.out.contains("-29.9 %,worse"), "{}", worse.out);
    assert!(worse.err.contains("1 of 2 figures are worse"), "{}", worse.err);
    assert_eq!(place.run(&["bench", "compare", &b, &a]).code, 0);
    assert_eq!(place.run(&["bench", "compare", &a, &a]).code, 0);
    let other = place.file("c.jsonl", line("y", 1.0, 1.0));
    assert_eq!(place.run(&["bench", "compare", &a, &other]).code, 2);
    assert_eq!(place.run(&["bench", "compare", &a, "none.jsonl"]).code, 3);
    let broken = place.file("broken.jsonl", "{\"kind\":\"run\",\"format\":99}\n");
    let refused = place.run(&["bench", "report", &broken]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("line 1: format 99 is newer"), "{}", refused.err);
    place.ok(&["bench", "report", &a, &b]);
    assert!(
        std::fs::read_to_string(place.path("report.html"))
            .unwrap()
            .contains("<h1>Tabulith bench</h1>")
    );
    let text = place.ok(&["bench", "report", &a, "--markdown"]).out;
    assert!(text.contains("| x | t |"), "{text}");
}

#[test]
fn keys_are_judged_from_a_pattern_and_from_a_file() {
    let place = Place::new();
    let ran = place.ok(&[
        "bench",
        "keys",
        "--partition-key",
        "{date}",
        "--writes",
        "20000",
        "--rate",
        "5000",
        "-o",
        "json",
    ]);
    let judged: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(judged.as_array().unwrap().len(), 4);
    assert_eq!(
        (judged[0]["at_a_moment"].as_f64(), judged[0]["writes_that_fit"].as_f64()),
        (Some(1.0), Some(2000.0))
    );
    assert!(
        ran.err.contains("above the 2,000")
            && ran.err.contains("Better: hash of the row into 16 buckets"),
        "{}",
        ran.err
    );
    let rows: String = (0..2_000).map(|n| format!("t{:04}\tr{n}\n", 9_999 - n)).collect();
    let file = place.file("keys.tsv", rows);
    let ran = place.ok(&["bench", "keys", "--file", &file]);
    assert!(
        ran.out.contains("prepend-only") && ran.err.contains("prepend-only"),
        "{}{}",
        ran.out,
        ran.err
    );
    assert_eq!(place.run(&["bench", "keys", "--partition-key", "{nope}"]).code, 2);
    let empty = place.file("empty.tsv", "");
    assert_eq!(place.run(&["bench", "keys", "--file", &empty]).code, 2);
}

#[test]
fn durability_is_never_assumed() {
    let place = Place::new();
    let ran = place.run(&["bench", "run", "fillseq", "--data-dir", "data"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("--durability"), "{}", ran.err);
    assert!(!place.path("data").exists());
    let ran =
        place.run(&["bench", "run", "nothing", "--data-dir", "data", "--durability", "synced"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
}

//! The fault lab and the limits of rate as flags of the program: rules from a file, and what is
//! said of them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::Place;

const KEYS: [&str; 4] = ["--partition-key", "{part}", "--row-key", "{n:05}"];

#[test]
fn a_bad_file_of_rules_is_told_by_line_and_word() {
    let place = Place::new();
    let rules = place.file("rules.txt", "# First\nlost\nbusy evry=3\n");
    for (file, because) in [
        (rules.as_str(), "rules.txt: line 3: `evry=3`: no such setting; busy has retry-after, "),
        ("nowhere.txt", "nowhere.txt: No such file"),
    ] {
        let ran = place.run(&["serve", "--port", "0", "--fault-lab", file]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(&format!("--fault-lab {}", because.replace("rules.txt", file))));
    }
    assert!(!place.path("tabulith-data").exists(), "nothing was begun");
}

#[test]
fn an_import_goes_through_faults() {
    let place = Place::new();
    let rules = "lost operation=batch skip=1 limit=1\n\
        busy retry-after=0 operation=batch every=3 limit=2\n";
    let rules = place.file("rules.txt", rules);
    let flags = ["--fault-lab", &rules, "--fault-seed", "7", "--throttle-account", "azure"];
    let server = place.serve_with(0, "data", &flags);
    let rows: String = (0..1_000).map(|n| format!("p{},{n}\n", n % 5)).collect();
    let file = place.file("f.csv", format!("part,n\n{rows}"));
    let import = ["import", &file, "-t", "rows", "--connection-string", &server.connection];
    assert!(place.ok(&[&import[..], &KEYS].concat()).err.contains("imported 1,000 rows"));
    let count = ["query", "rows", "--count", "--connection-string", &server.connection];
    assert_eq!(place.ok(&count).out.trim(), "1000");
    let (code, said) = server.terminate();
    assert_eq!(code, 0);
    assert!(said.contains("throttling  20000 requests/s of an account\n"), "{said}");
    assert!(said.contains("fault lab   2 rules, seed 7, and the header"), "{said}");
}

/// Such a merge ended with 0 and printed the ETag of whoever had written last.
#[test]
fn a_merge_that_meets_itself_says_that_it_may_be_done() {
    let place = Place::new();
    let rules = place.file("rules.txt", "lost operation=merge limit=1\n");
    let server = place.serve_with(0, "data", &["--fault-lab", &rules]);
    let target = ["-t", "rows", "--connection-string", &server.connection];
    place.ok(&["table", "create", "rows", "--connection-string", &server.connection]);
    let row = ["-e", "PartitionKey=p", "RowKey=r", "A=x"];
    let etag = place.ok(&[&["entity", "insert"], &target[..], &row].concat()).out;
    let merge = [&["entity", "merge", "--if-match", etag.trim()], &target[..], &row].concat();
    let (first, second) = (place.run(&merge), place.run(&merge));
    let open = "writing to rows, which may be done nevertheless: UpdateConditionNotSatisfied: ";
    assert_eq!((first.code, first.out.as_str()), (4, ""), "{}", first.err);
    assert!(first.err.contains(open), "{}", first.err);
    assert_eq!(second.code, 4, "{}", second.err);
    assert!(second.err.contains("writing to rows: UpdateConditionNotSatisfied"), "{}", second.err);
}

#[test]
fn a_partition_is_throttled() {
    let place = Place::new();
    let server = place.serve_with(0, "data", &["--throttle-partition", "1"]);
    let rows: String = (0..100).map(|n| format!("p,{n}\n")).collect();
    let file = place.file("f.csv", format!("part,n\n{rows}"));
    let import = ["import", &file, "-t", "rows", "--connection-string", &server.connection];
    place.ok(&[&import[..], &KEYS].concat());
    // A hundred entities at once: for a hundred seconds there is nothing more to be had.
    let filter = "PartitionKey eq 'p' and RowKey eq '00001'";
    let query = ["query", "rows", "--filter", filter, "--connection-string", &server.connection];
    let refused = place.run(&query);
    assert_eq!(refused.code, 7, "{}", refused.err);
    assert!(refused.err.contains("ServerBusy: The server is currently unable"), "{}", refused.err);
    let (_, said) = server.terminate();
    assert!(said.contains("throttling  1 entities/s of a partition\n"), "{said}");
}

/// Only writes were as patient as the flag says.
#[test]
fn a_copy_waits_for_a_server_that_it_reads() {
    let place = Place::new();
    let rules = "busy retry-after=3 operation=query skip=1 limit=1\n";
    let rules = place.file("rules.txt", rules);
    let server = place.serve_with(0, "data", &["--fault-lab", &rules]);
    let rows: String = (0..1_500).map(|n| format!("p,{n}\n")).collect();
    let file = place.file("f.csv", format!("part,n\n{rows}"));
    let import = ["import", &file, "-t", "rows", "--connection-string", &server.connection];
    place.ok(&[&import[..], &KEYS].concat());
    let copied = place.ok(&["copy", &server.connection, "dir:other"]);
    assert!(copied.err.contains("the same on both sides, 1,500 rows"), "{}", copied.err);
}

//! The program as a person or a script meets it: what it prints where, how it ends, and what it
//! says about bad input. Everything here works on a data folder; tests/served.rs has the server.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "tests"
)]

mod common;

use common::{Place, Ran};
use std::process::Stdio;

const FLIGHTS: &str = "origin,carrier,day,delay\nEWR,UA,1,5\nEWR,UA,2,-3\nLGA,DL,1,NA\n";

fn import<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["import", file, "-t", "flights", "--data-dir", "data"];
    if !more.contains(&"--partition-key") {
        args.extend(["--partition-key", "{origin}-{carrier}", "--row-key", "{day:03}"]);
    }
    args.extend(more);
    args
}

#[track_caller]
fn refused(ran: &Ran, code: i32, because: &[&str]) {
    assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
    assert_eq!(ran.out, "", "data is for stdout, messages are not");
    for words in because {
        assert!(ran.err.contains(words), "`{words}` is missing in: {}", ran.err);
    }
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
}

#[test]
fn help_and_version_are_data() {
    let place = Place::new();
    let help = place.ok(&["--help"]);
    assert!(help.out.contains("Exit codes:") && help.err.is_empty(), "{}", help.err);
    assert!(place.ok(&["--version"]).out.starts_with("tabulith "));
    let import = place.ok(&["import", "--help"]);
    assert!(import.out.contains("{col|/=~}"), "{}", import.out);
}

/// `--select` with a key printed its column twice, and `import` refused such a file.
#[test]
fn a_key_that_is_selected_is_printed_once() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    place.ok(&import(&file, &["--null", "NA"]));
    let select = ["export", "flights", "-o", "csv", "--data-dir", "data", "--select"];
    for columns in ["PartitionKey,delay", "delay,RowKey", "RowKey,delay,PartitionKey,delay"] {
        let out = place.ok(&[&select[..], &[columns]].concat()).out;
        assert_eq!(out.lines().next(), Some("PartitionKey,RowKey,delay"), "{columns}");
        place.file("again.csv", &out);
        place.ok(&["import", "again.csv", "-t", "again", "--data-dir", "again"]);
    }
}

#[test]
fn help_shows_no_secret_of_the_environment() {
    let place = Place::new();
    let mut command = place.command(&["import", "--help"]);
    command.env("AZURE_STORAGE_CONNECTION_STRING", "AccountName=abc;AccountKey=c2VjcmV0");
    let output = command.output().unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains("c2VjcmV0"));
}

#[test]
fn a_wrong_command_line_is_exit_2() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    refused(&place.run(&["improt"]), 2, &["unrecognized subcommand"]);
    refused(&place.run(&["query"]), 2, &["<TABLE>"]);
    refused(&place.run(&import(&file, &["--types", "day=money"])), 2, &["day=money"]);
    refused(&place.run(&import(&file, &["--types", "dya=int32"])), 2, &["`dya`", "day"]);
    refused(
        &place.run(&import(&file, &["--partition-key", "{orign}", "--row-key", "1"])),
        2,
        &["no column is called `orign`"],
    );
    refused(
        &place.run(&["import", &file, "-t", "x", "--data-dir", "data", "--row-key", "{day"]),
        2,
        &["never closed"],
    );
    refused(
        &place.run(&["import", &file, "-t", "a b", "--data-dir", "data", "--row-key", "1"]),
        2,
        &["--table a b"],
    );
}

#[test]
fn what_does_not_exist_is_exit_3() {
    let place = Place::new();
    refused(&place.run(&import("none.csv", &[])), 3, &["none.csv", "No such file"]);
    refused(&place.run(&["query", "flights", "--data-dir", "none"]), 3, &["none"]);
    refused(&place.run(&["check", "none"]), 3, &["none"]);
    let file = place.file("f.csv", FLIGHTS);
    place.ok(&import(&file, &[]));
    refused(&place.run(&["query", "nothing", "--data-dir", "data"]), 3, &["table does not exist"]);
}

#[test]
fn nobody_listening_is_exit_7() {
    let place = Place::new();
    // Port 1 on this machine: nobody listens there.
    let nobody = "AccountName=abc;AccountKey=aGk=;TableEndpoint=http://127.0.0.1:1/abc";
    let ran = place.run(&["query", "flights", "--connection-string", nobody]);
    refused(&ran, 7, &["http://127.0.0.1:1/abc", "refused"]);
    assert!(!ran.err.contains("aGk="), "{}", ran.err);
}

#[test]
fn import_then_query_then_export() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    let ran = place.ok(&import(&file, &["--null", "NA"]));
    assert!(ran.err.contains("3 rows; origin String, carrier String, day Int32, delay Int32"));
    assert!(ran.err.contains("imported 3 rows in "), "{}", ran.err);
    assert_eq!(ran.out, "");
    let query = ["query", "flights", "--data-dir", "data", "--filter", "delay lt 0", "-o", "csv"];
    assert_eq!(
        place.ok(&query).out,
        "PartitionKey,RowKey,origin,carrier,day,delay\nEWR-UA,002,EWR,UA,2,-3\n"
    );
    let table = place.ok(&["query", "flights", "--data-dir", "data", "--select", "delay"]);
    assert_eq!(
        table.out,
        "PartitionKey  RowKey  delay\n\
         ------------  ------  -----\n\
         EWR-UA        001         5\n\
         EWR-UA        002        -3\n\
         LGA-DL        001\n"
    );
    let export = place.ok(&["export", "flights", "--data-dir", "data", "-o", "csv"]);
    assert_eq!(export.out.lines().count(), 4);
    assert!(export.err.contains("exported 3 rows"), "{}", export.err);
    let top = place.ok(&["query", "flights", "--data-dir", "data", "--top", "1", "-o", "jsonl"]);
    assert_eq!(top.out.lines().count(), 1);
    let count = ["query", "flights", "--data-dir", "data", "--count"];
    assert_eq!(place.ok(&count).out, "3\n");
    assert_eq!(place.ok(&[&count[..], &["--filter", "delay lt 0"]].concat()).out, "1\n");
    assert_eq!(place.ok(&[&count[..], &["--top", "2"]].concat()).out, "2\n");
}

#[test]
fn an_export_imports_as_what_it_was() {
    let place = Place::new();
    let row = concat!(
        r#"{"PartitionKey":"p","RowKey":"r","b":true,"#,
        r#""bin@odata.type":"Edm.Binary","bin":"AQL/","d":1.0,"#,
        r#""g@odata.type":"Edm.Guid","g":"0d391d16-97f1-4b9a-be68-4cc871f90001","i":-7,"#,
        r#""l@odata.type":"Edm.Int64","l":"9007199254740993","#,
        r#""n@odata.type":"Edm.Double","n":"NaN","s":"\"quoted\"\n","#,
        r#""t@odata.type":"Edm.DateTime","t":"2013-01-01T10:00:00.1234567Z"}"#,
    );
    let file = place.file("f.jsonl", row);
    let export = |table: &str| {
        let out = place.ok(&["export", table, "--data-dir", "data"]).out;
        let mut row: serde_json::Map<_, _> = serde_json::from_str(&out).unwrap();
        assert!(row.remove("Timestamp").is_some());
        (out, serde_json::Value::Object(row))
    };
    place.ok(&["import", &file, "-t", "first", "--data-dir", "data"]);
    let (text, first) = export("first");
    assert_eq!(first, serde_json::from_str::<serde_json::Value>(row).unwrap());
    let file = place.file("again.jsonl", text);
    place.ok(&["import", &file, "-t", "second", "--data-dir", "data"]);
    assert_eq!(export("second").1, first);
}

#[test]
fn a_bad_row_stops_or_is_skipped() {
    let place = Place::new();
    let long = "x".repeat(2 << 20);
    let file = place.file(
        "bad.csv",
        format!(
            "key,number,text\n\
             1,1,fine\n\
             2,2\n\
             a/b,3,slash\n\
             4,four,no number\n\
             5,5,{long}\n\
             1,6,again\n\
             7,7,fine\n"
        ),
    );
    let keys = ["--partition-key", "p", "--row-key", "{key}", "--types", "number=int32"];
    let ran = place.run(&import(&file, &keys));
    refused(
        &ran,
        1,
        &["bad.csv:3: 2 fields; the header has 3", "stopped at a bad row after 1 rows"],
    );
    let ran = place.ok(&import(&file, &[&keys[..], &["--skip-bad"]].concat()));
    for words in [
        "going on after 1 rows",
        "bad.csv:3: 2 fields; the header has 3",
        "bad.csv:4: the RowKey 'a/b' is out of range: a key may not hold '/'",
        "bad.csv:5: number: `four` is no Int32",
        "bad.csv:6: text: 2097152 characters; a string has at most 32768",
        "bad.csv:7: an earlier row has the same keys",
        "imported 1 rows",
        "5 bad rows skipped",
    ] {
        assert!(ran.err.contains(words), "`{words}` is missing in: {}", ran.err);
    }
    let found =
        place.ok(&["query", "flights", "--data-dir", "data", "--select", "number", "-o", "csv"]);
    assert_eq!(found.out, "PartitionKey,RowKey,number\np,1,1\np,7,7\n");
}

/// They were left out without a word.
#[test]
fn columns_that_are_not_stored_for_their_names_are_told() {
    let place = Place::new();
    let keys = ["--partition-key", "p", "--row-key", "{k}"];
    let csv = place.file("f.csv", "k,Timestamp,n@odata.note,n\na,noon,x,7\n");
    let ran = place.ok(&import(&csv, &keys));
    let told = "  not stored, as such names are the service's own: Timestamp, n@odata.note\n";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert!(ran.err.contains("1 rows; k String, n Int32\n"), "{}", ran.err);
    let drop = ["--drop", "Timestamp,n@odata.note"];
    let ran = place.ok(&import(&csv, &[&keys[..], &drop].concat()));
    assert!(!ran.err.contains("not stored"), "{}", ran.err);

    let lines = "{\"k\":\"b\",\"Timestamp\":\"noon\",\"n@odata.type\":\"Edm.Int64\",\"n\":\"7\"}\n\
        {\"k\":\"c\",\"odata.id\":1,\"x@odata.type\":\"Edm.Int64\"}\n";
    let lines = place.file("f.jsonl", lines);
    let ran = place.ok(&import(&lines, &keys));
    let told =
        "  not stored, as such names are the service's own: Timestamp, odata.id, x@odata.type\n";
    assert!(ran.err.contains(told), "{}", ran.err);
    let drop = ["--drop", "Timestamp,x@odata.type"];
    let ran = place.ok(&import(&lines, &[&keys[..], &drop].concat()));
    assert!(ran.err.contains("the service's own: odata.id\n"), "{}", ran.err);

    // That of what `export` prints is known.
    let at = "2026-11-22T10:00:00.0000000Z";
    let csv = place.file("e.csv", format!("PartitionKey,RowKey,Timestamp,k\np,r,{at},d\n"));
    let line =
        format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"Timestamp\":\"{at}\",\"k\":\"e\"}}");
    for file in [csv, place.file("e.jsonl", line)] {
        let ran = place.ok(&import(&file, &keys));
        assert!(ran.err.contains("the service's own: PartitionKey, RowKey\n"), "{}", ran.err);
    }
}

#[test]
fn a_mapped_key_goes_in() {
    let place = Place::new();
    let file = place.file("f.csv", "faa,tzone\nEWR,America/New_York\n");
    let args = ["--partition-key", "{tzone}", "--row-key", "{faa}", "--replace-key-chars", "/=~"];
    place.ok(&import(&file, &args));
    let found = place.ok(&["query", "flights", "--data-dir", "data", "-o", "csv"]);
    assert!(found.out.contains("America~New_York,EWR,EWR,America/New_York"), "{}", found.out);
}

/// A file of 1,000 good rows, a bad one, and 500 good rows more.
fn interrupted(place: &Place) -> String {
    let rows: Vec<String> = (0..1501)
        .map(|n| if n == 1000 { "bad\n".to_owned() } else { format!("p{},{n}\n", n % 7) })
        .collect();
    let file = place.file("f.csv", format!("part,n\n{}", rows.concat()));
    let ran = place.run(&import(&file, &KEYS));
    refused(&ran, 1, &["f.csv:1002:", "after 1,000 rows"]);
    file
}

const KEYS: [&str; 4] = ["--partition-key", "{part}", "--row-key", "{n:05}"];

fn rows(place: &Place) -> usize {
    place.ok(&["export", "flights", "--data-dir", "data"]).out.lines().count()
}

#[test]
fn the_same_command_goes_on_where_it_stopped() {
    let place = Place::new();
    let file = interrupted(&place);
    let again = [&KEYS[..], &["--skip-bad"]].concat();
    let ran = place.ok(&import(&file, &again));
    assert!(ran.err.contains("going on after 1,000 rows"), "{}", ran.err);
    assert!(ran.err.contains("imported 500 rows"), "{}", ran.err);
    assert_eq!(rows(&place), 1500);
    let ran = place.ok(&import(&file, &again));
    assert!(ran.err.contains("imported 1,500 rows"), "a finished job starts anew: {}", ran.err);
}

/// The record of before was still believed where the one that began anew had come to no record of
/// its own.
/// All rows were written, and it failed.
#[test]
fn an_import_whose_progress_cannot_be_recorded_comes_to_its_end() {
    let place = Place::new();
    place.file("state", "no folder");
    let file = place.file("f.csv", "p,r,n\na,1,1\na,2,2\nb,1,3\n");
    let ran = place.ok(&import(&file, &["--partition-key", "{p}", "--row-key", "{r}"]));
    assert!(ran.err.contains("is not recorded") && ran.err.contains("imported 3"), "{}", ran.err);
    let rows = place.ok(&["query", "flights", "--data-dir", "data", "-o", "csv"]).out;
    assert_eq!(rows.lines().count(), 4, "{rows}");
}

/// An export imported under other keys lost the ones before without a word.
#[test]
fn keys_that_no_template_uses_are_named() {
    let place = Place::new();
    let row = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"customer\":\"c\",\"order\":\"o\"}\n";
    let file = place.file("f.jsonl", row);
    let told = |keys: [&str; 2]| {
        let keys = ["--partition-key", keys[0], "--row-key", keys[1]];
        let ran = place.ok(&import(&file, &keys));
        let told = ran.err.lines().find(|line| line.contains("not stored"));
        told.and_then(|line| line.split(": ").nth(1)).unwrap_or_default().to_owned()
    };
    assert_eq!(told(["{customer}", "{order}"]), "PartitionKey, RowKey");
    assert_eq!(told(["{PartitionKey}-{customer}", "{order}"]), "RowKey");
    assert_eq!(told(["{PartitionKey}", "{RowKey}"]), "");
}

#[test]
fn an_import_that_begins_anew_forgets_the_one_before_at_once() {
    let place = Place::new();
    let file = interrupted(&place);
    // Its first file ends it at once.
    let bad = place.file("bad.csv", "part,n\n1\n");
    let both = [&["import", &bad][..], &import(&file, &KEYS)[1..], &["--restart"]].concat();
    refused(&place.run(&both), 1, &["bad.csv:2:"]);
    let ran = place.ok(&import(&file, &[&KEYS[..], &["--skip-bad"]].concat()));
    assert!(ran.err.contains("imported 1,500 rows"), "{}", ran.err);
}

#[test]
fn rows_that_are_gone_are_not_skipped() {
    let place = Place::new();
    let file = interrupted(&place);
    std::fs::remove_dir_all(place.path("data")).unwrap();
    let ran = place.ok(&import(&file, &[&KEYS[..], &["--skip-bad"]].concat()));
    assert!(ran.err.contains("starting over"), "{}", ran.err);
    assert_eq!(rows(&place), 1500);
}

#[test]
fn another_template_is_another_job() {
    let place = Place::new();
    let file = interrupted(&place);
    let other = ["--partition-key", "q-{part}", "--row-key", "{n:05}", "--skip-bad"];
    let ran = place.ok(&import(&file, &other));
    assert!(!ran.err.contains("going on"), "{}", ran.err);
    assert_eq!(rows(&place), 1000 + 1500);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let place = Place::new();
    let lines: String = (0..5000).map(|n| format!("p,{n}\n")).collect();
    let file = place.file("f.csv", format!("part,n\n{lines}"));
    place.ok(&import(&file, &KEYS));
    let mut command = place.command(&["export", "flights", "--data-dir", "data"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn check_is_exit_8_where_a_byte_is_flipped() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    place.ok(&import(&file, &[]));
    let clean = place.ok(&["check", "data"]);
    assert!(clean.err.contains("data is clean"), "{}", clean.err);
    let name = std::fs::read_dir(place.path("data"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with("manifest-a"))
        .unwrap();
    let mut bytes = std::fs::read(&name).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&name, bytes).unwrap();
    let damaged = place.run(&["check", "data"]);
    assert_eq!(damaged.code, 8, "{}{}", damaged.out, damaged.err);
    assert!(damaged.out.contains("manifest-a at offset"), "{}", damaged.out);
    // Whoever asks `check data | head -1` and heeds the exit code is told the same.
    let mut command = place.command(&["check", "data"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(8));
}

#[test]
fn a_server_whose_log_is_damaged_is_exit_8() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    place.ok(&import(&file, &[]));
    let files = std::fs::read_dir(place.path("data")).unwrap().map(|entry| entry.unwrap().path());
    let row = |bytes: &[u8]| bytes.windows(6).position(|text| text == b"LGA-DL");
    let logs = files.filter(|path| path.extension().is_some_and(|ending| ending == "wal"));
    let found = logs.map(|log| (std::fs::read(&log).unwrap(), log));
    let (at, mut bytes, log) =
        found.filter_map(|(bytes, log)| Some((row(&bytes)?, bytes, log))).next().unwrap();
    bytes[at] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let name = log.file_name().unwrap().to_str().unwrap();
    let ran = place.run(&["serve", "--port", "0", "--data-dir", "data"]);
    refused(&ran, 8, &[name, "offset"]);
    assert_eq!(std::fs::read(&log).unwrap(), bytes, "nothing of it is cut off");
}

#[test]
fn salvage_keeps_what_can_be_read_and_lists_the_rest() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    place.ok(&import(&file, &[]));
    let whole = place.ok(&["salvage", "data", "copy"]);
    assert!(whole.out.contains("kept:   ") && !whole.out.contains("lost: "), "{}", whole.out);
    assert!(whole.err.contains("copy holds all of data"), "{}", whole.err);
    let rows = |data: &str| place.ok(&["export", "flights", "--data-dir", data]).out;
    assert_eq!(rows("copy"), rows("data"));
    refused(&place.run(&["salvage", "data", "copy"]), 5, &["copy is not empty"]);
    refused(&place.run(&["salvage", "data", "data/new"]), 2, &["data/new is or lies in data"]);
    refused(&place.run(&["salvage", "none", "new"]), 3, &["none"]);
    for root in ["ROOT-A", "ROOT-B"] {
        std::fs::remove_file(place.path("data").join(root)).unwrap();
    }
    refused(&place.run(&["export", "flights", "--data-dir", "data"]), 8, &["ROOT-A"]);
    place.run(&["salvage", "data", "saved"]);
    assert_eq!(rows("saved"), rows("copy"), "the roots can be done without");
}

#[test]
fn a_folder_that_is_not_ours_stays_as_it_is() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    std::fs::create_dir(place.path("data")).unwrap();
    place.file("data/letter.txt", "dear reader");
    let ran = place.run(&import(&file, &[]));
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("letter.txt") || ran.err.contains("not"), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(place.path("data/letter.txt")).unwrap(), "dear reader");
}

#[test]
fn a_bad_filter_is_explained() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    place.ok(&import(&file, &[]));
    let ran = place.run(&["query", "flights", "--data-dir", "data", "--filter", "aaa bbb ccc"]);
    refused(&ran, 2, &["--filter:", "Syntax error at position 7 in 'aaa bbb ccc'"]);
}

/// It was "not found" to whoever read, and damage to `check` alone.
#[test]
fn a_file_that_is_missing_is_damage_to_whoever_needs_it() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    place.ok(&import(&file, &[]));
    place.ok(&["compact", "data"]);
    let names = std::fs::read_dir(place.path("data")).unwrap();
    let tables = names.map(|entry| entry.unwrap().path());
    for table in tables.filter(|path| path.extension().is_some_and(|ending| ending == "sst")) {
        std::fs::remove_file(table).unwrap();
    }
    assert_eq!(place.run(&["check", "data"]).code, 8);
    for command in
        [&["query", "flights"][..], &["query", "flights", "--count"], &["export", "flights"]]
    {
        refused(&place.run(&[command, &["--data-dir", "data"]].concat()), 8, &[".sst"]);
    }
    // Others that are not there are none of ours.
    let ran = place.run(&["import", "none.sst", "-t", "rows", "--data-dir", "other"]);
    refused(&ran, 3, &["none.sst"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_exit_7() {
    let place = Place::new();
    let file = place.file("f.csv", FLIGHTS);
    place.ok(&import(&file, &[]));
    for form in ["jsonl", "csv", "json"] {
        let mut command = place.command(&["export", "flights", "-o", form, "--data-dir", "data"]);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(7), "{form}: {said}");
        assert!(said.contains("No space left"), "{said}");
    }
}

/// Columns were read from bytes that were gone then, and a FIFO was waited for without end.
#[test]
fn what_can_be_read_once_only_is_not_imported() {
    let place = Place::new();
    let fifo = place.path("fifo.csv");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for file in ["-", "/dev/stdin", "fifo.csv"] {
        let why = format!("{file} is not a regular file");
        refused(&place.run(&import(file, &[])), 2, &["more than once", &why]);
    }
    refused(&place.run(&import(".", &[])), 2, &[". is a folder"]);
    assert!(!place.path("data").exists());
}

/// It left an empty table.
#[test]
fn an_import_that_is_refused_makes_no_table() {
    let place = Place::new();
    let good = place.file("f.csv", FLIGHTS);
    let keys = ["--partition-key", "p", "--row-key", "{k}"];
    let typed = [&keys[..], &["--types", "n=int32"]].concat();
    let semicolons = place.file("s.csv", "origin;carrier;day\nEWR;UA;1\n");
    let name = place.file("name.csv", "k,a b\nx,1\n");
    let first = place.file("first.csv", "k,n\nx,one\ny,2\n");
    let short = place.file("short.csv", "k,n\nx\ny,2\n");
    let array = place.file("array.json", " [\n{\"k\":\"x\"},\n{\"k\":\"y\"}]\n");
    for (args, code, because) in [
        (import(&good, &["--drop", "nothing"]), 2, "`nothing`"),
        (import(&semicolons, &[]), 2, "no column is called `origin`"),
        (import(&name, &keys), 2, "a b"),
        (import(&first, &typed), 1, "first.csv:2: n: `one` is no Int32"),
        (import(&short, &keys), 1, "short.csv:2: 1 fields"),
        (import(&array, &keys), 2, "array.json is a JSON array"),
    ] {
        refused(&place.run(&args), code, &[because]);
        let there = place.ok(&["table", "list", "--data-dir", "data"]).out;
        assert!(!there.contains("flights"), "{args:?} has made a table");
    }
    let ran = place.run(&import(&first, &typed));
    refused(&ran, 1, &["stopped at a bad row after 0 rows"]);
    // One that goes round its first row makes it.
    place.ok(&import(&first, &[&typed[..], &["--skip-bad"]].concat()));
    assert_eq!(place.ok(&["query", "flights", "--count", "--data-dir", "data"]).out, "1\n");
    // A header may begin so.
    let odd = place.file("odd.csv", "[k],k\n1,z\n");
    refused(&place.run(&import(&odd, &keys)), 2, &["[k]"]);
}

/// Its message named another line.
#[test]
fn a_line_that_is_no_json_is_told_by_its_own_line() {
    let place = Place::new();
    let lines = "{\"k\":\"a\"}\n{\"k\":}\n{\"k\":\"b\"\n";
    let file = place.file("f.jsonl", lines);
    let ran = place.ok(&import(&file, &["--partition-key", "p", "--row-key", "{k}", "--skip-bad"]));
    let said = "f.jsonl:2: no JSON object: expected value at column 6\n";
    assert!(ran.err.contains(said) && !ran.err.contains("at line"), "{}", ran.err);
    assert!(
        ran.err.contains("f.jsonl:3: no JSON object: EOF while parsing an object"),
        "{}",
        ran.err
    );
}

/// They come back as absent.
#[test]
fn what_csv_cannot_tell_is_counted() {
    let place = Place::new();
    let lines = "{\"PartitionKey\":\"p\",\"RowKey\":\"a\",\"s\":\"\",\"n\":1}\n\
        {\"PartitionKey\":\"p\",\"RowKey\":\"b\",\"b@odata.type\":\"Edm.Binary\",\"b\":\"\",\"s\":\"\"}\n\
        {\"PartitionKey\":\"p\",\"RowKey\":\"c\"}\n";
    let file = place.file("f.jsonl", lines);
    place.ok(&["import", &file, "-t", "rows", "--data-dir", "data"]);
    let export =
        |more: &[&str]| place.ok(&[&["export", "rows", "--data-dir", "data"], more].concat()).err;
    let told = "3 empty strings and binaries: CSV cannot tell them from absent ones";
    assert!(export(&["-o", "csv"]).contains(told), "{}", export(&["-o", "csv"]));
    assert!(export(&["-o", "csv", "--select", "b"]).contains("1 empty strings and binaries"));
    for more in [&["-o", "csv", "--select", "n"][..], &["-o", "jsonl"], &[]] {
        assert!(!export(more).contains("empty"), "{more:?}");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so() {
    let place = Place::new();
    let file = place.file("x.parquet", b"PAR1 and more");
    let lacking = "this build cannot read or write Parquet (cargo feature `parquet`)";
    refused(
        &place.run(&["import", &file, "-t", "rows", "--data-dir", "d"]),
        2,
        &["x.parquet", lacking],
    );
    place.ok(&["table", "create", "rows", "--data-dir", "d"]);
    refused(&place.run(&["export", "rows", "-o", "parquet", "--data-dir", "d"]), 2, &[lacking]);
}

//! The program as server and as client of it: start, what it prints, import through a server that
//! is killed, wrong keys, ports and folders that are taken, the end.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, reason = "tests")]

mod common;

use common::{Place, Server};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::env::rng::Rng;

const KEYS: [&str; 4] = ["--partition-key", "{part}", "--row-key", "{n:05}"];

fn lines(count: usize) -> String {
    let rows: String =
        (0..count).map(|n| format!("p{},{n},some text of row {n}\n", n % 5)).collect();
    format!("part,n,text\n{rows}")
}

fn import<'a>(file: &'a str, server: &'a Server) -> Vec<&'a str> {
    let mut args = vec!["import", file, "-t", "rows", "--connection-string", &server.connection];
    args.extend(KEYS);
    args
}

#[test]
fn a_server_is_started_filled_asked_and_stopped() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let file = place.file("f.csv", lines(1234));
    let ran = place.ok(&import(&file, &server));
    assert!(ran.err.contains("imported 1,234 rows"), "{}", ran.err);
    let filter = "PartitionKey eq 'p3' and RowKey lt '00010'";
    let query = ["query", "rows", "--connection-string", &server.connection, "--filter", filter];
    let found = place.ok(&[&query[..], &["-o", "csv", "--select", "n"]].concat());
    assert_eq!(found.out, "PartitionKey,RowKey,n\np3,00003,3\np3,00008,8\n");
    let told = place.ok(&[&query[..], &["--explain", "-o", "jsonl"]].concat()).err;
    assert!(told.contains("plan: row range PartitionKey='p3', RowKey<'00010'\n"), "{told}");
    assert!(told.contains("rows examined: 2, returned: 2"), "{told}");
    let through_server = place.ok(&["export", "rows", "--connection-string", &server.connection]);
    let beside_it = place.ok(&["export", "rows", "--data-dir", "data"]);
    assert_eq!(through_server.out, beside_it.out, "a reader of the folder works beside the server");
    assert_eq!(server.terminate().0, 0);
    assert_eq!(place.ok(&["export", "rows", "--data-dir", "data"]).out, through_server.out);
    assert!(place.ok(&["check", "data"]).err.contains("is clean"));
}

#[test]
fn no_command_is_serve() {
    let place = Place::new();
    let mut command = place.command(&["--port", "0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut first).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(first.starts_with("tabulith ") && first.contains("listens on 127.0.0.1:"), "{first}");
    assert!(place.path("tabulith-data").is_dir());
}

#[test]
fn the_environment_names_the_server_as_az_does() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let file = place.file("f.csv", lines(10));
    let mut command = place.command(&[&["import", &file, "-t", "rows"], &KEYS[..]].concat());
    // Settings of the server must not be taken for flags of another command.
    command.env("TABULITH_PORT", "none").env("TABULITH_DATA_DIR", "elsewhere");
    command.env("AZURE_STORAGE_CONNECTION_STRING", &server.connection);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Rows that are slow to write: each is a partition, and so a batch and a sync of its own.
const SLOW_ROWS: usize = 10_000;

fn slow_file(place: &Place) -> String {
    let rows: String = (0..SLOW_ROWS).map(|n| format!("p{n},{n}\n")).collect();
    place.file("slow.csv", format!("part,n\n{rows}"))
}

fn rows_on(place: &Place, server: &Server) -> usize {
    let export = ["export", "rows", "--connection-string", &server.connection];
    place.ok(&export).out.lines().count()
}

/// Starts an import that is far from its end when this returns, and has recorded its progress.
fn half_way(place: &Place, args: &[&str]) -> Child {
    let mut command = place.command(&[args, &["--in-flight", "1"]].concat());
    let mut import = command.stderr(Stdio::piped()).spawn().unwrap();
    let records = place.path("state/tabulith/imports");
    while !records.is_dir() {
        assert!(import.try_wait().unwrap().is_none(), "the import ended without a record");
        std::thread::yield_now();
    }
    import
}

#[test]
fn an_import_survives_20_deaths_of_its_server() {
    let place = Place::new();
    let file = slow_file(&place);
    let mut server = place.serve(0, "data");
    let port = server.port();
    let mut import = half_way(&place, &import(&file, &server));
    let (clock, mut rng) = (SystemClock::new(), Rng::seeded(20));
    let mut running = 0;
    for _ in 0..20 {
        // Not to wait for anything: any moment will do, also one in which the last start goes on.
        clock.sleep(Duration::from_millis(rng.below(120)));
        running += usize::from(import.try_wait().unwrap().is_none());
        server.kill();
        server = place.serve(port, "data");
    }
    assert_eq!(import.wait().unwrap().code(), Some(0));
    assert_eq!(rows_on(&place, &server), SLOW_ROWS);
    assert_eq!(server.terminate().0, 0);
    place.ok(&["check", "data"]);
    println!("20 kills, {running} of them under the import, {SLOW_ROWS} rows there");
    assert!(running >= 5, "the import ended after {running} kills");
}

#[test]
fn a_killed_import_is_finished_by_the_same_command() {
    let place = Place::new();
    let file = slow_file(&place);
    let server = place.serve(0, "data");
    let args = import(&file, &server);
    let mut import = half_way(&place, &args);
    import.kill().unwrap();
    import.wait().unwrap();
    place.ok(&args);
    assert_eq!(rows_on(&place, &server), SLOW_ROWS);
    let records = place.path("state/tabulith/imports").read_dir().unwrap();
    let left = records.filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "json")
    });
    assert_eq!(left.count(), 0, "a finished job leaves no record");
}

/// Kills of one import, and rows of a file that lasts for as many.
const KILLS: usize = 10;
const LONG_ROWS: usize = 25_000;

#[test]
fn an_import_that_is_killed_ten_times_goes_on_each_time() {
    let place = Place::new();
    let rows: String = (0..LONG_ROWS).map(|n| format!("p{n},{n}\n")).collect();
    let file = place.file("long.csv", format!("part,n\n{rows}"));
    let server = place.serve(0, "data");
    let args = import(&file, &server);
    let record = || {
        let files = place.path("state/tabulith/imports").read_dir().ok()?;
        let mut files = files.flatten().map(|file| file.path());
        let file = files.find(|path| path.extension().is_some_and(|ending| ending == "json"))?;
        std::fs::read_to_string(file).ok()
    };
    let mut reached = Vec::new();
    for kill in 0..KILLS {
        let mut command = place.command(&[&args[..], &["--in-flight", "1"]].concat());
        let mut import = command.stderr(Stdio::piped()).spawn().unwrap();
        // It is killed as soon as it has recorded that it came further than the one before.
        let before = record();
        while record() == before {
            assert!(import.try_wait().unwrap().is_none(), "it ended after {kill} kills");
            std::thread::yield_now();
        }
        import.kill().unwrap();
        let output = import.wait_with_output().unwrap();
        reached.extend(going_on_after(&String::from_utf8(output.stderr).unwrap()));
    }
    let last = place.ok(&args);
    reached.extend(going_on_after(&last.err));
    println!("{KILLS} kills; went on after {reached:?} of {LONG_ROWS} rows");
    assert_eq!(reached.len(), KILLS, "each but the first goes on");
    assert!(reached.is_sorted_by(|before, after| before < after), "{reached:?}");
    // What all of them wrote together is what one that nobody kills writes.
    let whole = ["import", &file, "-t", "rows", "--data-dir", "whole"];
    place.ok(&[&whole[..], &KEYS].concat());
    let compared = place.ok(&["copy", &server.connection, "dir:whole", "--verify-only"]);
    let same = "rows: the same on both sides, 25,000 rows in 25,000 partitions";
    assert!(compared.err.contains(same), "{}", compared.err);
}

/// The rows that an import says that it need not write again.
fn going_on_after(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("going on after ")?;
    rest.split_once(" rows")?.0.replace(',', "").parse().ok()
}

#[test]
fn an_interrupted_import_says_so_and_goes_on() {
    let place = Place::new();
    let file = slow_file(&place);
    let server = place.serve(0, "data");
    let args = import(&file, &server);
    let import = half_way(&place, &args);
    let id = import.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = import.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("interrupted after") && err.contains("goes on from here"), "{err}");
    let ran = place.ok(&args);
    assert!(ran.err.contains("going on after"), "{}", ran.err);
    assert_eq!(rows_on(&place, &server), SLOW_ROWS);
}

/// "Stopping" was said, but the whole file was looked at first, and the table was made.
#[cfg(target_os = "linux")]
#[test]
fn an_import_that_is_interrupted_before_its_first_row_makes_no_table() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let file = place.file("f.csv", lines(500_000));
    let mut import = place.command(&import(&file, &server));
    let mut import = import.stderr(Stdio::piped()).spawn().unwrap();
    let id = import.id().to_string();
    let listens = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0)
    };
    // It does before it looks at the file.
    while !listens() {
        assert!(import.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = import.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("stopping") && err.contains("interrupted after 0 rows"), "{err}");
    let tables = ["table", "list", "-o", "tsv", "--connection-string", &server.connection];
    assert_eq!(place.ok(&tables).out, "");
}

#[test]
fn a_wrong_key_is_exit_6() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let wrong = server.connection.replace("AccountKey=Eby8", "AccountKey=Aby8");
    let ran = place.run(&["query", "rows", "--connection-string", &wrong]);
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.err.contains("AuthenticationFailed") && !ran.err.contains("Aby8"), "{}", ran.err);
}

#[test]
fn a_missing_table_is_exit_3_and_a_bad_filter_is_told() {
    let place = Place::new();
    let server = place.serve(0, "data");
    let query = ["query", "rows", "--connection-string", &server.connection];
    let ran = place.run(&query);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("TableNotFound"), "{}", ran.err);
    let file = place.file("f.csv", lines(1));
    place.ok(&import(&file, &server));
    let ran = place.run(&[&query[..], &["--filter", "aaa bbb ccc"]].concat());
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("Syntax error at position 7"), "{}", ran.err);
}

#[test]
fn a_port_in_use_is_exit_5() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = place.run(&["serve", "--port", &port, "--data-dir", "data"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""));
    assert!(ran.err.contains(&port) && ran.err.contains("in use"), "{}", ran.err);
}

#[test]
fn a_folder_in_use_is_exit_5() {
    let place = Place::new();
    let _server = place.serve(0, "data");
    let second = place.run(&["serve", "--port", "0", "--data-dir", "data"]);
    assert_eq!(second.code, 5, "{}", second.err);
    assert!(second.err.contains("data is open already"), "{}", second.err);
    let file = place.file("f.csv", lines(1));
    let args = [&["import", &file, "-t", "rows", "--data-dir", "data"], &KEYS[..]].concat();
    assert_eq!(place.run(&args).code, 5);
}

#[test]
fn the_published_key_is_not_served_to_others_by_accident() {
    let place = Place::new();
    let ran = place.run(&["serve", "--listen", "0.0.0.0", "--port", "0"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("AZURITE_ACCOUNTS"), "{}", ran.err);
    assert!(ran.err.contains("--development-key-for-all"), "{}", ran.err);
    assert!(!place.path("tabulith-data").exists(), "refused before anything is made");
}

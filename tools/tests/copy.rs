//! `copy`: between a server, a folder, JSON lines and Azurite's database; what is not the same, and
//! what goes on where it stopped.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout, reason = "tests")]

mod common;

use common::{Place, Ran};
use std::time::Duration;
use tabulith::{Db, Entity};

/// A folder `data` with two tables: one with values of every type, one with 3,210 rows.
fn filled() -> Place {
    let place = Place::new();
    let rows: String = (0..3_210).map(|n| format!("p{},{n:05},{n}\n", n % 7)).collect();
    let file = place.file("f.csv", format!("p,r,n\n{rows}"));
    let keys = ["--partition-key", "{p}", "--row-key", "{r}", "--data-dir", "data"];
    place.ok(&[&["import", &file, "-t", "Rows"], &keys[..]].concat());
    place.ok(&["table", "create", "types", "--data-dir", "data"]);
    place.ok(&["table", "create", "empty", "--data-dir", "data"]);
    let odd = [
        "-e",
        "PartitionKey=o'brien é",
        "RowKey=",
        "s=a\"b",
        "i=-7",
        "d=1.5",
        "w=1.0",
        "w@odata.type=Edm.Double",
        "n=NaN",
        "n@odata.type=Edm.Double",
        "yes=true",
        "big=9223372036854775807",
        "at=1601-01-01T00:00:00Z",
        "at@odata.type=Edm.DateTime",
        "id=0d391d16-97f1-4b9a-be68-4cc871f90001",
        "id@odata.type=Edm.Guid",
        "raw=AQIDBAU=",
        "raw@odata.type=Edm.Binary",
    ];
    place.ok(&[&["entity", "insert", "-t", "types", "--data-dir", "data"], &odd[..]].concat());
    place
}

/// What a folder holds of a table, but for its Timestamps.
fn rows(place: &Place, dir: &str, table: &str) -> Vec<String> {
    let text = place.ok(&["export", table, "--data-dir", dir]).out;
    let without = |line: &str| {
        let (before, rest) = line.split_once(",\"Timestamp\":").unwrap();
        format!("{before}{}", rest.find([',', '}']).map_or("", |at| &rest[at..]))
    };
    text.lines().map(without).collect()
}

#[track_caller]
fn copied(ran: &Ran) {
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("the same on both sides"), "{}", ran.err);
}

#[test]
fn tables_go_round_through_every_kind_of_place() {
    let place = filled();
    let server = place.serve(0, "served");
    copied(&place.run(&["copy", "dir:data", &server.connection]));
    copied(&place.run(&["copy", &server.connection, "jsonl:lines"]));
    copied(&place.run(&["copy", "jsonl:lines", "dir:again"]));
    for table in ["Rows", "types", "empty"] {
        assert_eq!(rows(&place, "again", table), rows(&place, "data", table), "{table}");
    }
    let only = place.run(&["copy", "dir:data", "dir:one", "-t", "TYPES"]);
    copied(&only);
    assert_eq!(place.ok(&["table", "list", "-o", "tsv", "--data-dir", "one"]).out, "types\n");
    assert_eq!(place.run(&["copy", "dir:data", "dir:one", "-t", "none"]).code, 3);
}

#[test]
fn what_expires_keeps_its_time_where_a_place_can_and_is_told_elsewhere() {
    let place = Place::new();
    let db = Db::open(place.path("data")).unwrap();
    let table = db.entities("sessions").unwrap();
    let until = db.time().after(Duration::from_secs(3_600));
    let kept = |n: u32| (n.is_multiple_of(3)).then_some(until);
    for n in 0..10 {
        let entity = Entity::new("p", format!("{n}"));
        match kept(n) {
            Some(until) => table.insert_until(entity, until).unwrap(),
            None => table.insert(entity).unwrap(),
        };
    }
    db.close().unwrap();
    let to_folder = place.run(&["copy", "dir:data", "dir:other"]);
    copied(&to_folder);
    assert!(!to_folder.err.contains("expire"), "{}", to_folder.err);
    let other = Db::open(place.path("other")).unwrap();
    let there = other.entities("sessions").unwrap();
    for n in 0..10 {
        let entity = there.get("p", &format!("{n}")).unwrap().unwrap();
        assert_eq!(entity.expires, kept(n), "row {n}");
    }
    other.close().unwrap();
    // As a copy that knew of no times left it.
    let other = Db::open(place.path("other")).unwrap();
    other.entities("sessions").unwrap().upsert(Entity::new("p", "3")).unwrap();
    other.close().unwrap();
    let compared = place.run(&["copy", "dir:data", "dir:other", "--verify-only"]);
    assert_eq!(compared.code, 1, "{}", compared.err);
    assert!(compared.err.contains("'p' differs: 10 rows in FROM, 10 in TO"), "{}", compared.err);
    let told = "rows that expire: 4; only a data folder keeps when";
    let to_lines = place.run(&["copy", "dir:data", "jsonl:lines"]);
    copied(&to_lines);
    assert!(to_lines.err.contains(told), "{}", to_lines.err);
    for form in ["jsonl", "csv"] {
        let exported = place.ok(&["export", "sessions", "-o", form, "--data-dir", "data"]);
        assert!(exported.err.contains(told), "{form}: {}", exported.err);
    }
}

/// It ended at its first page, and so did every later one.
#[test]
fn a_copy_whose_progress_cannot_be_recorded_comes_to_its_end() {
    let place = filled();
    std::fs::remove_dir_all(place.path("state")).unwrap();
    place.file("state", "no folder");
    let ran = place.run(&["copy", "dir:data", "dir:other"]);
    copied(&ran);
    assert_eq!(ran.err.matches("is not recorded").count(), 1, "{}", ran.err);
    copied(&place.run(&["copy", "dir:data", "dir:other", "--restart"]));
    assert_eq!(rows(&place, "other", "Rows"), rows(&place, "data", "Rows"));
}

/// A copy of JSON lines had no Timestamps, by which `import` knows an export: an Int32 became a
/// Double where another row had one in its place.
#[test]
fn lines_that_are_copied_again_keep_their_types() {
    let place = Place::new();
    place.ok(&["table", "create", "mixed", "--data-dir", "data"]);
    let insert = ["entity", "insert", "-t", "mixed", "--data-dir", "data", "-e", "PartitionKey=p"];
    for row in [["RowKey=1", "n=7"], ["RowKey=2", "n=1.5"]] {
        place.ok(&[&insert[..], &row].concat());
    }
    copied(&place.run(&["copy", "dir:data", "jsonl:a"]));
    copied(&place.run(&["copy", "jsonl:a", "jsonl:b"]));
    let lines = |dir: &str| std::fs::read_to_string(place.path(dir).join("mixed.jsonl")).unwrap();
    assert_eq!(lines("b"), lines("a"));
    place.ok(&["import", "b/mixed.jsonl", "-t", "mixed", "--data-dir", "again"]);
    assert_eq!(rows(&place, "again", "mixed"), rows(&place, "data", "mixed"));
}

#[test]
fn a_file_of_lines_is_replaced_as_a_whole() {
    let place = filled();
    std::fs::create_dir(place.path("lines")).unwrap();
    let file = place.file("lines/types.jsonl", "{\"PartitionKey\":\"other\",\"RowKey\":\"1\"}\n");
    copied(&place.run(&["copy", "dir:data", "jsonl:lines", "-t", "types"]));
    assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 1);
}

#[test]
fn what_is_not_the_same_is_told_by_its_partition() {
    let place = filled();
    copied(&place.run(&["copy", "dir:data", "dir:other"]));
    let words = ["-e", "PartitionKey=p3", "RowKey=00003", "n=-1"];
    place.ok(&[&["entity", "upsert", "-t", "rows", "--data-dir", "other"], &words[..]].concat());
    let compared = place.run(&["copy", "dir:data", "dir:other", "--verify-only"]);
    assert_eq!(compared.code, 1);
    assert!(
        compared.err.contains("Rows: 'p3' differs: 459 rows in FROM, 459 in TO"),
        "{}",
        compared.err
    );
    assert!(compared.err.contains("types: the same on both sides, 1 rows in 1 partitions"));
    copied(&place.run(&["copy", "dir:data", "dir:other"]));
    assert_eq!(rows(&place, "other", "Rows"), rows(&place, "data", "Rows"));
}

/// The record of an unfinished copy was believed although what it tells of had been removed since:
/// tables were told to be copied, and were not there.
#[test]
fn tables_of_many_partitions_are_compared_too() {
    let place = Place::new();
    let lines = |changed: usize| -> String {
        let line = |n: usize| {
            let row = u8::from(n == changed);
            format!("{{\"PartitionKey\":\"p{n}\",\"RowKey\":\"{row}\"}}\n")
        };
        (0..70_000).map(line).collect()
    };
    for (dir, changed) in [("one", 70_000), ("same", 70_000), ("other", 69_123)] {
        std::fs::create_dir(place.path(dir)).unwrap();
        place.file(&format!("{dir}/Many.jsonl"), lines(changed));
    }
    let compare = |to: &str| place.run(&["copy", "jsonl:one", to, "--verify-only"]);
    copied(&compare("jsonl:same"));
    let differ = compare("jsonl:other");
    assert_eq!(differ.code, 1);
    let told = ["Many: 'p69123' differs: 1 rows in FROM, 1 in TO\n", "differ in 1 of 65,536 parts"];
    assert!(told.iter().all(|told| differ.err.contains(told)), "{}", differ.err);
}

#[test]
fn what_is_gone_from_the_other_place_is_copied_again() {
    let place = filled();
    let more = ["-e", "PartitionKey=p7", "RowKey=more"];
    let differing = |dir: &str, to: &str| {
        place.ok(&["table", "create", "rows", "--data-dir", dir]);
        place.ok(&[&["entity", "insert", "-t", "rows", "--data-dir", dir], &more[..]].concat());
        let ran = place.run(&["copy", "dir:data", to, "-t", "rows"]);
        assert_eq!(ran.code, 1, "{}", ran.err);
    };
    let again = |to: &str| {
        let ran = place.ok(&["copy", "dir:data", to, "-t", "rows", "--no-verify"]);
        let gone = "Rows: what was copied before is not there any more";
        assert!(ran.err.contains(gone), "{}", ran.err);
    };
    differing("other", "dir:other");
    std::fs::remove_dir_all(place.path("other")).unwrap();
    again("dir:other");
    assert_eq!(rows(&place, "other", "Rows"), rows(&place, "data", "Rows"));

    differing("second", "dir:second");
    place.ok(&["table", "delete", "rows", "--data-dir", "second"]);
    again("dir:second");
    assert_eq!(rows(&place, "second", "Rows"), rows(&place, "data", "Rows"));

    // A table that is there, without the row that the record names.
    differing("third", "dir:third");
    let records = place.path("state").join("tabulith").join("copies");
    let record = std::fs::read_dir(records).unwrap().next().unwrap().unwrap().path();
    std::fs::write(record, "{\"rows\":[\"p3\",\"gone\"]}").unwrap();
    place.ok(&["table", "truncate", "rows", "--yes", "--data-dir", "third"]);
    again("dir:third");
    assert_eq!(rows(&place, "third", "Rows"), rows(&place, "data", "Rows"));

    // Files: the copy ends at a table that has one of another ending.
    std::fs::create_dir(place.path("lines")).unwrap();
    place.file("lines/types.jsonl.gz", "");
    assert_eq!(place.run(&["copy", "dir:data", "jsonl:lines"]).code, 5);
    let file = place.path("lines/Rows.jsonl");
    let written = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(place.path("lines/types.jsonl.gz")).unwrap();
    let ran = place.ok(&["copy", "dir:data", "jsonl:lines", "--no-verify"]);
    assert!(ran.err.contains("empty was copied before"), "{}", ran.err);
    assert_eq!(std::fs::read(&file).unwrap(), written);
}

/// Replaces a row of the table `Rows`.
fn change(place: &Place, dir: &str, row: &str) {
    let words = ["-e", "PartitionKey=p3", "RowKey=00003", row];
    place.ok(&[&["entity", "upsert", "-t", "rows", "--data-dir", dir], &words[..]].concat());
}

/// What had been copied before a comparison that failed was never copied again.
#[test]
fn a_copy_that_was_whole_is_begun_anew_where_nothing_is_compared() {
    let place = filled();
    place.ok(&["table", "create", "rows", "--data-dir", "other"]);
    let more = ["-e", "PartitionKey=p7", "RowKey=more"];
    place.ok(&[&["entity", "insert", "-t", "rows", "--data-dir", "other"], &more[..]].concat());
    let copy = ["copy", "dir:data", "dir:other"];
    assert_eq!(place.run(&copy).code, 1);
    change(&place, "data", "n=-1");
    let ran = place.run(&copy);
    assert!(ran.code == 1 && ran.err.contains("Rows was copied before"), "{}", ran.err);
    place.ok(&[&copy[..], &["--no-verify"]].concat());
    assert!(rows(&place, "other", "Rows").iter().any(|row| row.ends_with(",\"n\":-1}")));
}

/// A copy of which one table is whole, and whose next one could not be written.
fn unfinished(place: &Place) {
    std::fs::create_dir(place.path("lines")).unwrap();
    place.file("lines/types.jsonl.gz", "");
    assert_eq!(place.run(&["copy", "dir:data", "jsonl:lines"]).code, 5);
    std::fs::remove_file(place.path("lines/types.jsonl.gz")).unwrap();
}

#[test]
fn a_copy_that_begins_anew_forgets_the_one_before_at_once() {
    let place = filled();
    unfinished(&place);
    change(&place, "data", "n=-1");
    place.file("lines/empty.jsonl.gz", "");
    let restart = ["copy", "dir:data", "jsonl:lines", "--restart"];
    assert_eq!(place.run(&restart).code, 5, "in its first table");
    std::fs::remove_file(place.path("lines/empty.jsonl.gz")).unwrap();
    copied(&place.run(&restart[..3]));
}

/// A comparison, or the copy of another table, took away how far a copy had come.
#[test]
fn a_copy_of_one_table_leaves_what_is_known_of_the_others() {
    let place = filled();
    unfinished(&place);
    let only = |table: &str, more: &[&str]| {
        copied(&place.run(&[&["copy", "dir:data", "jsonl:lines", "-t", table], more].concat()));
    };
    only("empty", &["--verify-only"]);
    only("types", &[]);
    let ran = place.run(&["copy", "dir:data", "jsonl:lines"]);
    copied(&ran);
    for table in ["empty", "Rows"] {
        assert!(ran.err.contains(&format!("{table} was copied before")), "{table}: {}", ran.err);
    }
    assert!(!ran.err.contains("types was copied before"), "{}", ran.err);
    let ran = place.run(&["copy", "dir:data", "jsonl:lines"]);
    assert!(!ran.err.contains("was copied before"), "{}", ran.err);
}

/// The names of tables are alike in any case, so that two files would be two tables of one name.
#[test]
fn a_table_has_one_file_whatever_the_case_of_its_name() {
    let place = filled();
    let copy = ["copy", "dir:data", "jsonl:lines", "--restart"];
    copied(&place.run(&copy));
    std::fs::rename(place.path("lines/Rows.jsonl"), place.path("lines/ROWS.jsonl")).unwrap();
    copied(&place.run(&copy));
    let files = std::fs::read_dir(place.path("lines")).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["ROWS.jsonl", "empty.jsonl", "types.jsonl"], "and no draft");
    copied(&place.run(&["copy", "jsonl:lines", "dir:again"]));
    assert_eq!(rows(&place, "again", "Rows"), rows(&place, "data", "Rows"));
}

#[test]
fn a_copy_that_is_killed_again_and_again_comes_to_its_end() {
    let place = filled();
    let server = place.serve(0, "served");
    let args = ["copy", "dir:data", &server.connection, "--rate", "1500", "-t", "rows"];
    let mut resumed = 0;
    for _ in 0..10 {
        let mut child = place.command(&args).stderr(std::process::Stdio::piped()).spawn().unwrap();
        // It is killed as soon as its record says that it has come further than before.
        let state = place.path("state").join("tabulith").join("copies");
        let record = || {
            let mut files = std::fs::read_dir(&state).ok()?.flatten();
            let file =
                files.find(|file| file.path().extension().is_some_and(|end| end == "json"))?;
            std::fs::read_to_string(file.path()).ok()
        };
        let before = record();
        while record() == before && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        resumed += usize::from(said.contains("Rows: going on behind 'p"));
        if record().is_none_or(|text| text.contains("end")) {
            break;
        }
    }
    assert!(resumed >= 1, "it has gone on at least once");
    copied(&place.run(&args));
    let all = place.ok(&["query", "rows", "--count", "--connection-string", &server.connection]);
    assert_eq!(all.out, "3210\n");
}

#[test]
fn a_place_that_can_only_be_read_is_not_written() {
    let place = filled();
    let file = place.file("db.json", r#"{"collections":[{"name":"devstoreaccount1$orders","data":[
        {"PartitionKey":"p","RowKey":"r","properties":{"N":7,"D":1,"D@odata.type":"Edm.Double"}}]}]}"#);
    let azurite = format!("azurite:{file}");
    copied(&place.run(&["copy", &azurite, "dir:from-azurite"]));
    assert!(rows(&place, "from-azurite", "orders")[0].ends_with("\"N\":7,\"D\":1.0}"));
    let refused = place.run(&["copy", "dir:data", &azurite]);
    assert!(refused.code == 2 && refused.err.contains("can be read only"), "{}", refused.err);
    let other = place.file("other.json", "{}");
    let refused = place.run(&["copy", &format!("azurite:{other}"), "dir:x"]);
    assert!(refused.code == 1 && refused.err.contains("no `collections`"), "{}", refused.err);
}

/// The five files of a year of flights, with templates for the keys of each.
const FLIGHTS: [(&str, &str, &str); 5] = [
    ("airlines", "airline", "{carrier}"),
    ("airports", "airport", "{faa}"),
    ("flights", "{origin}-{carrier}", "{month:02}{day:02}-{sched_dep_time:04}-{flight:05}"),
    ("planes", "plane", "{tailnum}"),
    ("weather", "{origin}", "{month:02}{day:02}-{hour:02}"),
];

#[test]
fn a_place_without_tables_is_not_taken_for_a_copy() {
    let place = Place::new();
    let collection = r#"{"name":"first$rows","data":[]}"#;
    let azurite = place.file("db.json", format!(r#"{{"collections":[{collection}]}}"#));
    let of_other = place.run(&["copy", &format!("azurite:{azurite}#second"), "dir:to"]);
    assert_eq!(of_other.code, 3, "{}", of_other.err);
    assert!(of_other.err.contains("there are tables of first"), "{}", of_other.err);
    place.ok(&["table", "create", "rows", "--data-dir", "data"]);
    std::fs::create_dir(place.path("lines")).unwrap();
    let of_other = place.run(&["copy", "dir:data#second", "jsonl:lines"]);
    assert_eq!(of_other.code, 3, "{}", of_other.err);
    assert!(of_other.err.contains("no table of the account second"), "{}", of_other.err);
    let empty = place.run(&["copy", "jsonl:lines", "dir:to"]);
    assert_eq!(empty.code, 3, "{}", empty.err);
    assert!(!place.path("to").exists());
    // A table that is there twice is neither of the two.
    place.file("lines/rows.jsonl", "");
    place.file("lines/rows.jsonl.gz", "");
    let twice = place.run(&["copy", "jsonl:lines", "dir:to"]);
    assert_eq!(twice.code, 5, "{}", twice.err);
    std::fs::remove_file(place.path("lines/rows.jsonl")).unwrap();
    copied(&place.run(&["copy", &format!("azurite:{azurite}#first"), "dir:to"]));
    assert_eq!(
        place.run(&["copy", "dir:to", "jsonl:lines"]).code,
        5,
        "rows.jsonl.gz is not hidden"
    );
}

#[test]
fn a_year_of_flights_goes_every_way_round() {
    let Some(folder) = common::flights_folder() else {
        println!("skipped: nycflights13 is not here; TABULITH_DATA names its folder");
        return;
    };
    let place = Place::new();
    let server = place.serve(0, "served");
    for (table, partition_key, row_key) in FLIGHTS {
        let file = folder.join(format!("{table}.csv.gz"));
        let file = file.to_str().unwrap();
        let keys = ["--partition-key", partition_key, "--row-key", row_key, "--null", "NA"];
        let target = ["--connection-string", &server.connection, "--skip-bad"];
        place.ok(&[&["import", file, "-t", table], &keys[..], &target].concat());
    }
    // Both ends of the way are compared, so that nothing between them has to be.
    let second = place.serve(0, "again");
    for (from, to) in [
        (server.connection.as_str(), "dir:folder"),
        ("dir:folder", "jsonl:lines"),
        ("jsonl:lines", second.connection.as_str()),
    ] {
        place.ok(&["copy", from, to, "--no-verify"]);
    }
    let ran = place.run(&["copy", &server.connection, &second.connection, "--verify-only"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.err.matches("the same on both sides").count(), 5, "{}", ran.err);
    let count = place.ok(&["table", "list", "--count", "-o", "tsv", "--data-dir", "folder"]).out;
    println!("{count}");
    assert!(count.contains("flights\t336776\n"), "{count}");
}

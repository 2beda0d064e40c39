//! What is done with the files of a data folder: `inspect` and `shape` beside a server that has it
//! open, `compact` and `checkpoint` where none has.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod common;

use common::Place;
use std::path::Path;

/// A folder with a table of 3,000 rows, with large values among them.
fn filled(place: &Place) {
    let large = "x".repeat(6_000);
    let row = |n: usize| {
        let text = if n.is_multiple_of(500) { &large } else { "small" };
        format!("p{},{n:05},{text}\n", n % 3)
    };
    let rows: String = (0..3_000).map(row).collect();
    let file = place.file("f.csv", format!("p,r,text\n{rows}"));
    let keys = ["--partition-key", "{p}", "--row-key", "{r}", "--data-dir", "data"];
    place.ok(&[&["import", &file, "-t", "rows"], &keys[..]].concat());
    place.ok(&["compact", "data"]);
}

#[test]
fn files_are_listed_and_printed_beside_a_server() {
    let place = Place::new();
    filled(&place);
    let server = place.serve(0, "data");
    let all = place.ok(&["inspect", "all", "data", "-o", "csv"]).out;
    assert!(all.starts_with("name,kind,bytes,level,needed\nROOT-A,root,"), "{all}");
    let names = |part: &str| -> Vec<String> {
        let listed = place.ok(&["inspect", part, "data", "-o", "tsv"]).out;
        listed.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    };
    let manifest = place.ok(&["inspect", "manifest", "data"]).out;
    for name in [names("sst"), names("blob")].concat() {
        assert!(place.path("data").join(&name).exists(), "{name}");
        let number = name.split('.').next().unwrap().trim_start_matches('0').to_owned();
        assert!(manifest.contains(&number), "{name} in {manifest}");
    }
    let sst = format!("data/{}", names("sst")[0]);
    let blocks = place.ok(&["inspect", "sst", &sst, "--blocks"]).out;
    let second = blocks.lines().filter(|line| line.starts_with("block at ")).nth(1).unwrap();
    let offset = second.trim_start_matches("block at ").split(':').next().unwrap();
    let block = place.ok(&["inspect", "block", &sst, "--offset", offset]).out;
    let (first, rows) = block.split_once('\n').unwrap();
    assert_eq!(first, second);
    let said = first.split(' ').position(|word| word == "rows,").unwrap();
    let count: usize = first.split(' ').nth(said - 1).unwrap().parse().unwrap();
    assert_eq!(rows.lines().count(), count);
    let filters = place.ok(&["inspect", "filter", "data"]).out;
    assert!(filters.contains("row filter") && filters.contains("of absent keys pass"), "{filters}");
    let blob = format!("data/{}", names("blob")[0]);
    assert_eq!(place.ok(&["inspect", "blob", &blob, "--rows"]).out.matches("value at").count(), 6);
    let wal = format!("data/{}", names("wal")[0]);
    assert!(!place.ok(&["inspect", "wal", &wal]).out.is_empty());
    for (args, code) in [
        (&["inspect", "wal", &sst][..], 2),
        (&["inspect", "manifest", &sst], 2),
        (&["inspect", "manifest", &wal], 2),
        (&["inspect", "manifest", "data/ROOT-B"], 0),
        (&["inspect", "block", &sst], 2),
        (&["inspect", "block", &sst, "--offset", "1"], 1),
        (&["inspect", "sst", &sst, "--offset", "0"], 2),
        (&["inspect", "sst", &sst, "-o", "json"], 2),
        (&["inspect", "manifest", "data", "-o", "json"], 2),
        (&["inspect", "filter", "data", "-o", "json"], 2),
        (&["inspect", "sst", "none"], 3),
        (&["inspect", "sst", "none.sst"], 3),
    ] {
        assert_eq!(place.run(args).code, code, "{args:?}: {}", place.run(args).err);
    }
    assert_eq!(server.terminate().0, 0);
}

/// It was an empty list, as of a folder that is well.
#[test]
fn a_folder_without_a_database_has_no_files_to_list() {
    let place = Place::new();
    std::fs::create_dir(place.path("data")).unwrap();
    for _ in 0..2 {
        let ran = place.run(&["inspect", "all", "data"]);
        assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("no database in data"), "{}", ran.err);
        place.file("data/LOCK", "");
    }
}

#[test]
fn the_shape_is_drawn_and_is_data_too() {
    let place = Place::new();
    filled(&place);
    let drawn = place.ok(&["shape", "data"]).out;
    assert!(drawn.contains('█') && drawn.contains("\ncompaction debt      0 bytes"), "{drawn}");
    let lines = place.ok(&["shape", "data", "-o", "jsonl"]).out;
    assert!(lines.contains("{\"name\":\"blobs\",\"files\":1,"), "{lines}");
    assert_eq!(place.run(&["shape", "none"]).code, 3);
}

#[test]
fn a_checkpoint_is_the_folder_at_that_moment() {
    let place = Place::new();
    filled(&place);
    let before = place.ok(&["export", "rows", "--data-dir", "data"]).out;
    place.ok(&["checkpoint", "data", "copy"]);
    let words = ["-e", "PartitionKey=p0", "RowKey=new"];
    place.ok(&[&["entity", "insert", "-t", "rows", "--data-dir", "data"], &words[..]].concat());
    assert_eq!(place.ok(&["export", "rows", "--data-dir", "copy"]).out, before);
    assert!(place.ok(&["check", "copy"]).err.contains("is clean"));
    let again = place.run(&["checkpoint", "data", "copy"]);
    assert_eq!(again.code, 5, "nothing is made over what is there: {}", again.err);
    let server = place.serve(0, "data");
    assert_eq!(place.run(&["checkpoint", "data", "other"]).code, 5);
    assert_eq!(place.run(&["compact", "data"]).code, 5);
    drop(server);
    assert_eq!(place.run(&["compact", "none"]).code, 3, "no database is made by looking for one");
    assert!(!place.path("none").exists());
}

#[test]
fn values_of_zstd_are_read_where_it_is_built_in() {
    let place = Place::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/golden/zstd-v1");
    std::fs::create_dir(place.path("data")).unwrap();
    for file in std::fs::read_dir(golden).unwrap().map(Result::unwrap) {
        let name = file.file_name().into_string().unwrap();
        if !name.ends_with(".txt") {
            std::fs::copy(file.path(), place.path("data").join(name)).unwrap();
        }
    }
    let ran = place.run(&["check", "data"]);
    if cfg!(feature = "zstd") {
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    } else {
        assert_eq!(ran.code, 1, "{}", ran.out);
        let said = ran.out + &ran.err;
        assert!(!said.contains("damaged"), "{said}");
        assert!(said.contains("000001.sst") && said.contains("cargo feature `zstd`"), "{said}");
    }
}

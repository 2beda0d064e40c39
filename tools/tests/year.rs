//! The main job on real data: all five files of a year of flights through a server and straight
//! into a folder, every row and every value compared with the files afterwards.

#![allow(
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that shows what it found"
)]

mod common;

use common::{Place, flights_folder};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// A file: its name, its rows, and the templates of its keys.
struct Source {
    name: &'static str,
    rows: usize,
    partition_key: &'static str,
    row_key: &'static str,
}

const SOURCES: [Source; 5] = [
    Source {
        name: "flights",
        rows: 336_776,
        partition_key: "{origin}-{carrier}",
        row_key: "{month:02}{day:02}-{sched_dep_time:04}-{flight:05}",
    },
    Source {
        name: "weather",
        rows: 26_115,
        partition_key: "{origin}",
        row_key: "{month:02}{day:02}{hour:02}-{time_hour}",
    },
    Source { name: "planes", rows: 3_322, partition_key: "{manufacturer}", row_key: "{tailnum}" },
    Source { name: "airports", rows: 1_458, partition_key: "{tzone|/=~}", row_key: "{faa}" },
    Source { name: "airlines", rows: 16, partition_key: "airline", row_key: "{carrier}" },
];

#[test]
fn every_value_of_five_files_arrives() {
    let Some(folder) = flights_folder() else {
        eprintln!("skipped: no flights data; set TABULITH_DATA or put it into ../shared/data");
        return;
    };
    let wanted = SOURCES.map(|source| read(&folder.join(format!("{}.csv.gz", source.name))));
    let place = Place::new();
    let server = place.serve(0, "served");
    let through_server = ["--connection-string", server.connection.as_str()];
    import_all(&place, &folder, &through_server);
    compare_all(&place, &wanted, &through_server);
    assert_eq!(server.terminate().0, 0);
    let into_folder = ["--data-dir", "direct"];
    import_all(&place, &folder, &into_folder);
    compare_all(&place, &wanted, &into_folder);
    for data in ["served", "direct"] {
        let checked = place.ok(&["check", data]);
        eprintln!("{}{}", checked.out, checked.err.trim_end());
    }
}

fn import_all(place: &Place, folder: &Path, target: &[&str]) {
    for source in &SOURCES {
        let file = folder.join(format!("{}.csv.gz", source.name));
        let keys = ["--partition-key", source.partition_key, "--row-key", source.row_key];
        let args = ["import", file.to_str().unwrap(), "-t", source.name, "--null", "NA"];
        let ran = place.ok(&[&args[..], &keys, target].concat());
        let last = ran.err.lines().last().unwrap();
        assert!(last.contains(&format!("imported {} rows", grouped(source.rows))), "{last}");
        eprintln!("{} {last}", target[0]);
    }
}

fn compare_all(place: &Place, wanted: &[Vec<String>], target: &[&str]) {
    for (source, wanted) in SOURCES.iter().zip(wanted) {
        let out = place.ok(&[&["export", source.name], target].concat()).out;
        assert_eq!(wanted.len(), source.rows);
        let mut found: Vec<String> = out.lines().map(exported).collect();
        found.sort_unstable();
        let different = wanted.iter().zip(&found).find(|(wanted, found)| wanted != found);
        assert_eq!(different, None, "{}", source.name);
        assert_eq!(found.len(), wanted.len(), "{}", source.name);
    }
    eprintln!("{} export equals the files, value by value", target[0]);
}

/// The records of a file in order, each as one text.
fn read(path: &Path) -> Vec<String> {
    let file = std::fs::File::open(path).unwrap();
    let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(file));
    let names = reader.headers().unwrap().clone();
    let row = |record: &csv::StringRecord| {
        text_of(names.iter().zip(record.iter()).filter(|(_, text)| *text != "NA"))
    };
    let mut rows: Vec<String> = reader.records().map(|record| row(&record.unwrap())).collect();
    rows.sort_unstable();
    rows
}

/// The text of an exported row.
fn exported(line: &str) -> String {
    let row: Map<String, Value> = serde_json::from_str(line).unwrap();
    let system = |name: &str| matches!(name, "PartitionKey" | "RowKey" | "Timestamp");
    let own = row.iter().filter(|(name, _)| !system(name) && !name.contains('@'));
    let texts: Vec<_> = own
        .map(|(name, value)| match value {
            Value::String(text) => (name.as_str(), text.clone()),
            other => (name.as_str(), other.to_string()),
        })
        .collect();
    text_of(texts.iter().map(|(name, text)| (*name, text.as_str())))
}

/// All that have a value by their names, a line for each: texts are sorted sooner than maps.
fn text_of<'a>(values: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let by_name: BTreeMap<_, _> = values.collect();
    by_name.iter().map(|(name, text)| format!("{name}={}\n", plain(text))).collect()
}

/// One text for all texts of a number: `0` and `0.0`, `1e3` and `1000`.
fn plain(text: &str) -> String {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.map_or_else(|| text.to_owned(), |number| number.to_string())
}

fn grouped(number: usize) -> String {
    let text = number.to_string();
    match text.len() {
        0..=3 => text,
        length => format!("{},{}", &text[..length - 3], &text[length - 3..]),
    }
}

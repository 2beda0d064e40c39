//! The five kinds of query of the design guides over a year of flights, each equal to a plain
//! evaluation over the CSV file, with its plan and the rows it examined.

#![allow(
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that shows what it found"
)]

mod common;

use common::{Place, flights_folder};
use serde_json::{Map, Value, json};
use std::path::Path;

const ROWS: usize = 336_776;

const TEXT_COLUMNS: [&str; 4] = ["carrier", "tailnum", "origin", "dest"];

/// One flight as the CSV file has it, with its keys made by hand.
struct Flight {
    partition_key: String,
    row_key: String,
    cells: Vec<(String, String)>,
}

impl Flight {
    fn text(&self, column: &str) -> &str {
        &self.cells.iter().find(|(name, _)| name == column).unwrap().1
    }

    fn number(&self, column: &str) -> Option<i64> {
        self.text(column).parse().ok()
    }

    /// The row that import should have made of it.
    fn expected(&self) -> Value {
        let mut row = Map::new();
        row.insert("PartitionKey".to_owned(), json!(self.partition_key));
        row.insert("RowKey".to_owned(), json!(self.row_key));
        for (name, text) in self.cells.iter().filter(|(_, text)| text != "NA") {
            let value = match name.as_str() {
                "time_hour" => {
                    row.insert("time_hour@odata.type".to_owned(), json!("Edm.DateTime"));
                    json!(text)
                }
                name if TEXT_COLUMNS.contains(&name) => json!(text),
                _ => json!(text.parse::<i64>().unwrap()),
            };
            row.insert(name.clone(), value);
        }
        Value::Object(row)
    }
}

fn read(folder: &Path) -> Vec<Flight> {
    let file = std::fs::File::open(folder.join("flights.csv.gz")).unwrap();
    let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(file));
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let flight = |record: csv::StringRecord| {
        let cells: Vec<(String, String)> =
            names.iter().cloned().zip(record.iter().map(str::to_owned)).collect();
        let text = |name: &str| &cells.iter().find(|(column, _)| column == name).unwrap().1;
        Flight {
            partition_key: format!("{}-{}", text("origin"), text("carrier")),
            row_key: format!(
                "{:0>2}{:0>2}-{:0>4}-{:0>5}",
                text("month"),
                text("day"),
                text("sched_dep_time"),
                text("flight")
            ),
            cells,
        }
    };
    reader.records().map(|record| flight(record.unwrap())).collect()
}

/// One kind of query: its filter, the same condition by hand, and how many rows it may examine.
struct Kind {
    name: &'static str,
    filter: &'static str,
    wanted: fn(&Flight) -> bool,
    examined_max: fn(&[Flight], usize) -> usize,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "point",
        filter: "PartitionKey eq 'EWR-UA' and RowKey eq '0101-0515-01545'",
        wanted: |f| f.partition_key == "EWR-UA" && f.row_key == "0101-0515-01545",
        examined_max: |_, _| 1,
    },
    Kind {
        name: "one partition between two dates",
        filter: "PartitionKey eq 'JFK-B6' and RowKey ge '0601' and RowKey lt '0608'",
        wanted: |f| f.partition_key == "JFK-B6" && ("0601".."0608").contains(&f.row_key.as_str()),
        examined_max: |_, returned| returned,
    },
    Kind {
        name: "partition scan with a property",
        filter: "PartitionKey eq 'LGA-DL' and dep_delay gt 120",
        wanted: |f| f.partition_key == "LGA-DL" && f.number("dep_delay").is_some_and(|d| d > 120),
        examined_max: |all, _| all.iter().filter(|f| f.partition_key == "LGA-DL").count(),
    },
    Kind {
        name: "a carrier across origins",
        filter: "(PartitionKey eq 'EWR-AA' or PartitionKey eq 'JFK-AA' or PartitionKey eq 'LGA-AA') \
                 and RowKey ge '1224' and RowKey lt '1227'",
        wanted: |f| f.text("carrier") == "AA" && ("1224".."1227").contains(&f.row_key.as_str()),
        // Between two ranges a scan reads a few rows on before it seeks.
        examined_max: |_, returned| returned + 3 * 8,
    },
    Kind {
        name: "table scan for one tail number",
        filter: "tailnum eq 'N14228'",
        wanted: |f| f.text("tailnum") == "N14228",
        examined_max: |all, _| all.len(),
    },
];

#[test]
fn five_kinds_of_query_equal_a_plain_evaluation() {
    let Some(folder) = flights_folder() else {
        eprintln!("skipped: no flights data; set TABULITH_DATA or put it into ../shared/data");
        return;
    };
    let place = Place::new();
    let mut flights = read(&folder);
    assert_eq!(flights.len(), ROWS);
    import(&place, &folder.join("flights.csv.gz"));
    flights.sort_by(|a, b| (&a.partition_key, &a.row_key).cmp(&(&b.partition_key, &b.row_key)));
    for kind in KINDS {
        check(&place, &flights, &kind);
    }
}

fn import(place: &Place, file: &Path) {
    let ran = place.ok(&[
        "import",
        file.to_str().unwrap(),
        "--table",
        "flights",
        "--data-dir",
        "data",
        "--null",
        "NA",
        "--partition-key",
        "{origin}-{carrier}",
        "--row-key",
        "{month:02}{day:02}-{sched_dep_time:04}-{flight:05}",
    ]);
    assert!(ran.err.contains("imported 336,776 rows"), "{}", ran.err);
    eprintln!("{}", ran.err.lines().last().unwrap_or_default());
}

fn check(place: &Place, flights: &[Flight], kind: &Kind) {
    let ran = place.ok(&[
        "query",
        "flights",
        "--data-dir",
        "data",
        "--filter",
        kind.filter,
        "--explain",
        "-o",
        "jsonl",
    ]);
    let found: Vec<Value> = ran.out.lines().map(without_timestamp).collect();
    let wanted: Vec<Value> =
        flights.iter().filter(|f| (kind.wanted)(f)).map(Flight::expected).collect();
    assert!(!wanted.is_empty(), "{}: the query finds something", kind.name);
    assert_eq!(found.len(), wanted.len(), "{}", kind.name);
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted, "{}", kind.name);
    }
    eprintln!("\n{}: {}\n{}", kind.name, kind.filter, ran.err.trim_end());
    let examined = examined(&ran.err);
    let examined_max = (kind.examined_max)(flights, wanted.len());
    assert!(examined <= examined_max, "{}: {examined} rows, not {examined_max}", kind.name);
}

fn without_timestamp(line: &str) -> Value {
    let mut row: Map<String, Value> = serde_json::from_str(line).unwrap();
    assert!(row.remove("Timestamp").is_some(), "{line}");
    Value::Object(row)
}

fn examined(explained: &str) -> usize {
    let (_, rest) = explained.split_once("rows examined: ").unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

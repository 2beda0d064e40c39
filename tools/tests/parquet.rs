//! Parquet: a table goes out and comes back as it was; files of another program are read, or
//! refused by the name of a column; damage is told and nothing else happens.
//!
//! `golden.py` beside the files has written them with pyarrow.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
#![allow(clippy::disallowed_types, reason = "tests look at real files")]

mod common;

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::schema::printer::print_schema;
use common::{Place, Ran};
use std::path::{Path, PathBuf};
use tabulith_testkit::counts::{self, count};
use tabulith_testkit::seed::{self, Rng};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("parquet").join(name)
}

/// Exports a table into a file.
#[track_caller]
fn export(place: &Place, table: &str, file: &str, more: &[&str]) -> Ran {
    let args = [&["export", table, "-o", "parquet"], more].concat();
    let out = place.command(&args).output().unwrap();
    place.file(file, &out.stdout);
    let err = String::from_utf8(out.stderr).unwrap();
    Ran { code: out.status.code().unwrap_or(-1), out: String::new(), err }
}

const DATA: [&str; 2] = ["--data-dir", "data"];

#[test]
fn a_table_comes_back_as_it_was() {
    let place = Place::new();
    let rows: String = (0..50_003)
        .map(|n| {
            let some = if n % 3 == 0 { String::new() } else { format!(",\"s\":\"é {n}\"") };
            format!(
                "{{\"PartitionKey\":\"p{}\",\"RowKey\":\"{n:06}\",\"i\":{n},\"d\":{n}.25{some}}}\n",
                n % 7
            )
        })
        .collect();
    let file = place.file("rows.jsonl", rows);
    place.ok(&[&["import", &file, "-t", "rows"], &DATA[..]].concat());
    let odd = |row: &str, values: &[&str]| {
        let key = ["-e", "PartitionKey=o'brien é", row];
        place.ok(&[&["entity", "insert", "-t", "types"], &DATA[..], &key, values].concat());
    };
    place.ok(&[&["table", "create", "types"], &DATA[..]].concat());
    place.ok(&[&["table", "create", "empty"], &DATA[..]].concat());
    odd("RowKey=", &[]);
    let (min, max) = ("min@odata.type=Edm.DateTime", "max@odata.type=Edm.DateTime");
    odd(
        "RowKey=a",
        &[
            "s=a\"b",
            "i=-7",
            "d=1.5",
            "n=NaN",
            "n@odata.type=Edm.Double",
            "yes=true",
            "big=9223372036854775807",
            "min=1601-01-01T00:00:00Z",
            min,
            "max=9999-12-31T23:59:59.999999Z",
            max,
            "fine=2013-01-01T10:00:00.1234567Z",
            "fine@odata.type=Edm.DateTime",
            "id=0d391d16-97f1-4b9a-be68-4cc871f90001",
            "id@odata.type=Edm.Guid",
            "raw=AQIDBAX/",
            "raw@odata.type=Edm.Binary",
        ],
    );
    odd(
        "RowKey=b",
        &["s=", "i=2147483647", "d=-0.0", "yes=false", "raw=", "raw@odata.type=Edm.Binary"],
    );
    // Not in the order of the columns, and without their first.
    odd("RowKey=c", &["yes=true", "late=1", "d=2.5", "i=3"]);
    for table in ["rows", "types", "empty"] {
        let file = format!("{table}.parquet");
        let ran = export(&place, table, &file, &DATA);
        assert_eq!(ran.code, 0, "{table}: {}", ran.err);
        place.ok(&["import", &file, "-t", table, "--data-dir", "again"]);
    }
    let same = place.ok(&["copy", "dir:data", "dir:again", "--verify-only"]);
    assert_eq!(same.err.matches("the same on both sides").count(), 3, "{}", same.err);
    assert!(same.err.contains("50,003 rows"), "{}", same.err);
    // Only what is asked for is in the file.
    let ran = export(
        &place,
        "rows",
        "few.parquet",
        &[&DATA[..], &["--select", "i", "--filter", "i lt 2"]].concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let few = place.ok(&["import", "few.parquet", "-t", "few", "--data-dir", "again"]);
    assert!(few.err.contains("few.parquet: 2 rows; i Int32\n"), "{}", few.err);
}

/// Other programs go by the types that the file states, so each is stated here.
#[test]
fn columns_are_stated_as_what_they_are() {
    let place = Place::new();
    let row = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"text\":\"s\",\"i\":1,\"yes\":true,\"d\":1.5,\
               \"big@odata.type\":\"Edm.Int64\",\"big\":\"5\",\
               \"raw@odata.type\":\"Edm.Binary\",\"raw\":\"AQ==\",\
               \"id@odata.type\":\"Edm.Guid\",\"id\":\"0d391d16-97f1-4b9a-be68-4cc871f90001\",\
               \"at@odata.type\":\"Edm.DateTime\",\"at\":\"2026-01-01T00:00:00.000001Z\",\
               \"fine@odata.type\":\"Edm.DateTime\",\"fine\":\"2026-01-01T00:00:00.0000001Z\"}\n";
    place.ok(&[&["import", &place.file("r.jsonl", row), "-t", "rows"], &DATA[..]].concat());
    let ran = export(&place, "rows", "rows.parquet", &DATA);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let file = std::fs::File::open(place.path("rows.parquet")).unwrap();
    let file = SerializedFileReader::new(file).unwrap();
    let schema = file.metadata().file_metadata().schema();
    let mut text = Vec::new();
    print_schema(&mut text, schema);
    let text = String::from_utf8(text).unwrap();
    let mut lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines[3..].sort_unstable();
    let expected = [
        "message table {",
        "REQUIRED BYTE_ARRAY PartitionKey (STRING);",
        "REQUIRED BYTE_ARRAY RowKey (STRING);",
        "OPTIONAL BOOLEAN yes;",
        "OPTIONAL BYTE_ARRAY raw;",
        "OPTIONAL BYTE_ARRAY text (STRING);",
        "OPTIONAL DOUBLE d;",
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (16) id (UUID);",
        "OPTIONAL INT32 i;",
        "OPTIONAL INT64 Timestamp (TIMESTAMP(NANOS,true));",
        "OPTIONAL INT64 at (TIMESTAMP(MICROS,true));",
        "OPTIONAL INT64 big;",
        "OPTIONAL INT64 fine (TIMESTAMP(NANOS,true));",
        "}",
    ];
    assert_eq!(lines, expected);
    // No value of the row is lacking, its Timestamp neither.
    let group = file.metadata().row_group(0);
    for column in group.columns() {
        let nulls = column.statistics().and_then(|told| told.null_count_opt());
        assert_eq!(nulls, Some(0), "{}", column.column_path());
    }
}

#[test]
fn a_column_has_one_type_or_the_export_says_which_has_not() {
    let place = Place::new();
    let mixed = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"a\":1,\"b\":true}\n\
                 {\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"a\":2,\"b\":\"yes\"}\n";
    place.ok(&[&["import", &place.file("m.jsonl", mixed), "-t", "mixed"], &DATA[..]].concat());
    let ran = export(&place, "mixed", "m.parquet", &DATA);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("`b` is Boolean in one row and String in another"), "{}", ran.err);
    assert_eq!(std::fs::metadata(place.path("m.parquet")).unwrap().len(), 0, "nothing is written");
    let without = export(&place, "mixed", "m.parquet", &[&DATA[..], &["--select", "a"]].concat());
    assert_eq!(without.code, 0, "{}", without.err);
    let far = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"t@odata.type\":\"Edm.DateTime\",\"t\":\"1601-01-01T00:00:00Z\"}\n\
               {\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"t@odata.type\":\"Edm.DateTime\",\"t\":\"2026-01-01T00:00:00.0000001Z\"}\n";
    place.ok(&[&["import", &place.file("f.jsonl", far), "-t", "far"], &DATA[..]].concat());
    let ran = export(&place, "far", "f.parquet", &DATA);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("`t` has moments finer than a microsecond"), "{}", ran.err);
}

#[test]
fn what_pyarrow_writes_is_read() {
    let place = Place::new();
    let (file, lines) = (golden("golden.parquet"), golden("golden.jsonl"));
    let ran =
        place.ok(&["import", file.to_str().unwrap(), "-t", "golden", "--data-dir", "columns"]);
    assert!(
        ran.err.contains("60 rows; text String, large String, few String, i8 Int32"),
        "{}",
        ran.err
    );
    place.ok(&["import", lines.to_str().unwrap(), "-t", "golden", "--data-dir", "lines"]);
    let same = place.run(&["copy", "dir:lines", "dir:columns", "--verify-only"]);
    assert_eq!(same.code, 0, "{}", same.err);
    // Older programs count nanoseconds of Julian days.
    let julian = golden("julian.parquet");
    place.ok(&["import", julian.to_str().unwrap(), "-t", "julian", "--data-dir", "columns"]);
    let out = place
        .ok(&["query", "julian", "--data-dir", "columns", "--select", "seen", "-o", "csv"])
        .out;
    assert_eq!(out, "PartitionKey,RowKey,seen\np,1,2001-02-03T04:05:06.000007Z\np,2,\n");
}

#[test]
fn zstd_is_read_where_it_is_built_in() {
    let place = Place::new();
    let file = golden("zstd.parquet");
    let ran = place.run(&["import", file.to_str().unwrap(), "-t", "rows", "--data-dir", "data"]);
    if cfg!(feature = "parquet-zstd") {
        assert_eq!(ran.code, 0, "{}", ran.err);
    } else {
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("column `PartitionKey`: stored with zstd"), "{}", ran.err);
    }
}

#[test]
fn what_no_property_holds_is_refused_by_its_name() {
    let place = Place::new();
    let odd = golden("odd.parquet");
    let odd = odd.to_str().unwrap();
    let import = ["import", odd, "-t", "odd", "--data-dir", "data"];
    let mut drop = Vec::new();
    for (name, why) in [
        ("list", "a list, a map or a struct"),
        ("struct", "a list, a map or a struct"),
        ("price", "Decimal"),
        ("hour", "Time"),
        ("u64", "Integer"),
    ] {
        let dropped = drop.join(",");
        let flags = ["--drop", dropped.as_str()];
        let flags = if drop.is_empty() { &[] } else { &flags[..] };
        let ran = place.run(&[&import[..], flags].concat());
        assert_eq!(ran.code, 2, "{}", ran.err);
        let told = ran.err.contains(&format!("the column `{name}` is ")) && ran.err.contains(why);
        assert!(told && ran.err.contains("--drop"), "{name}: {}", ran.err);
        drop.push(name);
    }
    // A moment between two ticks is not rounded.
    let dropped = drop.join(",");
    let ran = place.run(&[&import[..], &["--drop", &dropped]].concat());
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("odd.parquet:1: exact: ") && ran.err.contains("100 ns"),
        "{}",
        ran.err
    );
    let ran = place.ok(&[&import[..], &["--drop", &dropped, "--skip-bad"]].concat());
    assert!(ran.err.contains("1 bad rows skipped"), "{}", ran.err);
    // Types are given by hand, and keys made of any column.
    let flags = ["--types", "exact=string", "--row-key", "{RowKey:03}", "--skip-bad"];
    place.ok(&[&import[..], &["--drop", &dropped], &flags].concat());
    let out = place
        .ok(&["query", "odd", "--data-dir", "data", "--filter", "RowKey eq '002'", "-o", "jsonl"])
        .out;
    assert!(out.contains("\"exact\":\"2013-03-11T11:06:40.0000001Z\""), "{out}");
}

/// Whether an import of damaged bytes ended as it should; gives its exit code.
#[track_caller]
fn told(ran: &Ran, how: &str) -> i32 {
    assert!(matches!(ran.code, 0 | 1 | 2 | 8), "{how}: {}\n{}", ran.code, ran.err);
    assert!(!ran.err.contains("panicked"), "{how}: {}", ran.err);
    assert!(ran.code == 0 || ran.err.contains("damaged.parquet"), "{how}: {}", ran.err);
    ran.code
}

/// The footer has no sum of its own, but says the number of rows more than once.
#[test]
fn rows_that_a_damaged_count_leaves_out_are_missed() {
    let place = Place::new();
    let whole = std::fs::read(golden("golden.parquet")).unwrap();
    // Where the file says how many rows it has, and how many each of its groups, as zigzag numbers.
    for (at, rows) in [(8_956, 60), (10_540, 25), (12_132, 25), (13_726, 10)] {
        assert_eq!(whole[at], 2 * rows);
        for fewer in [0, 2 * (rows - 1)] {
            let mut bytes = whole.clone();
            bytes[at] = fewer;
            place.file("damaged.parquet", &bytes);
            let ran = place.run(&["import", "damaged.parquet", "-t", "rows", "--data-dir", "data"]);
            assert_eq!(told(&ran, &format!("{fewer} at {at}")), 8);
            assert!(ran.err.contains("its groups have"), "{}", ran.err);
        }
    }
    // A group's number and that of all agree.
    let mut bytes = whole;
    (bytes[8_956], bytes[10_540]) = (2 * 59, 2 * 24);
    place.file("damaged.parquet", &bytes);
    let ran = place.run(&["import", "damaged.parquet", "-t", "rows", "--data-dir", "data"]);
    assert_eq!(told(&ran, "a row less"), 8);
    assert!(ran.err.contains("column `PartitionKey`: damaged:"), "{}", ran.err);
}

#[test]
fn damage_is_told_with_its_place() {
    let place = Place::new();
    let whole = std::fs::read(golden("golden.parquet")).unwrap();
    let seed = seed::seed_or(20_261_122);
    let mut rng = Rng::new(seed);
    let file = place.path("damaged.parquet");
    let import = |bytes: &[u8], how: &str| {
        std::fs::write(&file, bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let args =
            ["import", "damaged.parquet", "-t", "rows", "--restart", "--skip-bad", "--data-dir"];
        let data = folder.path().join("data");
        let ran = place.run(&[&args[..], &[data.to_str().unwrap()]].concat());
        assert!(ran.code != 0 || ran.err.contains("imported 60 rows"), "{how}: {}", ran.err);
        told(&ran, how)
    };
    let (mut tried, mut noticed) = (0, 0);
    for round in 0..150 {
        let mut bytes = whole.clone();
        // Half of the time where the file describes itself.
        let from = if round % 2 == 0 { 0 } else { bytes.len() - 3_000 };
        let at = from + rng.below(bytes.len() - from);
        let how = match rng.below(4) {
            0 => {
                bytes[at] ^= 1 << rng.below(8);
                "a bit"
            }
            1 => {
                bytes[at] = rng.below(256) as u8;
                "a byte"
            }
            2 => {
                let end = (at + 8).min(bytes.len());
                bytes[at..end].fill(0xff);
                "ones"
            }
            _ => {
                let end = (at + 1 + rng.below(40)).min(bytes.len());
                bytes.drain(at..end);
                "bytes less"
            }
        };
        tried += 1;
        let how = format!("replay: TABULITH_SEED={seed} round {round}: {how} at {at}");
        noticed += u64::from(import(&bytes, &how) != 0);
    }
    let cuts = (0..20).map(|_| rng.below(whole.len()));
    for length in cuts.chain([0, 4, 8, 11, whole.len() / 2, whole.len() - 1]) {
        let code = import(&whole[..length], &format!("cut to {length}"));
        assert_ne!(code, 0, "cut to {length}");
    }
    counts::tell("parquet", &[count("damages", tried, 150), count("noticed", noticed, 75)]);
}

/// A number of seven bits a byte, which `at` is then behind.
fn number(file: &[u8], at: &mut usize) -> usize {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = file[*at];
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

/// Passes over a struct of Thrift's compact protocol as headers of pages have them; gives its third
/// member, which in a header is the length of the page.
fn pass(file: &[u8], at: &mut usize) -> usize {
    let (mut id, mut third) = (0, 0);
    loop {
        let head = file[*at];
        *at += 1;
        if head == 0 {
            return third;
        }
        id = if head >> 4 == 0 { number(file, at) / 2 } else { id + usize::from(head >> 4) };
        match head & 0x0f {
            1 | 2 => {}
            4..=6 => {
                let value = number(file, at);
                third = if id == 3 { value / 2 } else { third };
            }
            8 => {
                let bytes = number(file, at);
                *at += bytes;
            }
            12 => drop(pass(file, at)),
            other => panic!("kind {other} at {at}"),
        }
    }
}

/// Where the pages of a file without indexes are, which stand one after the other.
fn pages(file: &[u8]) -> Vec<std::ops::Range<usize>> {
    let tail = file.len() - 8;
    let footer = u32::from_le_bytes(file[tail..tail + 4].try_into().unwrap()) as usize;
    let (mut at, mut all) = (4, Vec::new());
    while at < tail - footer {
        let bytes = pass(file, &mut at);
        all.push(at..at + bytes);
        at += bytes;
    }
    all
}

/// Its pages have sums, so nothing of them is taken for another value.
#[test]
fn a_page_that_is_not_what_its_sum_says_is_refused() {
    let place = Place::new();
    let whole = std::fs::read(golden("golden.parquet")).unwrap();
    let pages = pages(&whole);
    let seed = seed::seed_or(20_261_122);
    let mut rng = Rng::new(seed);
    let filled: Vec<_> = pages.iter().filter(|page| !page.is_empty()).collect();
    for page in &filled {
        let mut bytes = whole.clone();
        let at = page.start + rng.below(page.len());
        bytes[at] ^= 1 << rng.below(8);
        place.file("damaged.parquet", &bytes);
        let data = format!("data-{at}");
        let ran = place.run(&["import", "damaged.parquet", "-t", "rows", "--data-dir", &data]);
        let how = format!("replay: TABULITH_SEED={seed}: a bit at {at}");
        assert_eq!(told(&ran, &how), 8, "{how}: {}", ran.err);
        assert!(ran.err.contains("damaged.parquet: column `"), "{how}: {}", ran.err);
    }
    counts::tell("pages", &[count("flipped", filled.len() as u64, 60)]);
}

/// The bytes of a page's header: what it is, its length, its length as stored.
fn head(lengths: [u32; 2]) -> Vec<u8> {
    let mut bytes = vec![0x15, 0];
    for length in lengths {
        bytes.push(0x15);
        let mut rest = u64::from(length) << 1;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes
}

#[test]
fn lengths_are_not_believed() {
    let place = Place::new();
    let whole = std::fs::read(golden("julian.parquet")).unwrap();
    // The first page stands behind the mark, its header over what is there.
    let mut bytes = whole.clone();
    let huge = head([0x7fff_fff0, 16]);
    bytes[4..4 + huge.len()].copy_from_slice(&huge);
    place.file("damaged.parquet", &bytes);
    let ran = place.run(&["import", "damaged.parquet", "-t", "rows", "--data-dir", "data"]);
    assert_eq!(told(&ran, "a huge page"), 8);
    assert!(ran.err.contains("column `PartitionKey`: damaged:"), "{}", ran.err);
    assert!(ran.err.contains("a page is said to have 2147483632 bytes"), "{}", ran.err);
    // The length of the footer.
    let mut bytes = whole;
    let tail = bytes.len() - 8;
    bytes[tail..tail + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    place.file("damaged.parquet", &bytes);
    let ran = place.run(&["import", "damaged.parquet", "-t", "rows", "--data-dir", "data"]);
    assert_eq!(told(&ran, "a huge footer"), 8);
    assert!(ran.err.contains("its footer is said to have 4294967295 bytes"), "{}", ran.err);
}

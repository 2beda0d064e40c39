//! What the shape of a database asks of the files that merges write: how they are compressed and
//! how many filter bits they have by level, where one ends and the next begins, and which deletes
//! set a merge going.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tabulith::env::clock::ManualClock;
use tabulith::env::jobs::ByHand;
use tabulith::env::rng::Rng;
use tabulith::event::Event;
use tabulith::inspect::{self, Depth, Kind};
use tabulith::vfs::os::OsVfs;
use tabulith::{Advanced, Codec, Compression, Db, If, Options, Table};

const START_TICKS: u64 = 16_950_000_000_000_000;

/// Several levels with few rows, worked by hand.
fn small() -> Advanced {
    Advanced {
        memtable_bytes: Some(32 << 10),
        file_bytes: 16 << 10,
        block_bytes: 512,
        level_base_bytes: 16 << 10,
        level_fanout: 4,
        ..Advanced::default()
    }
}

fn open(dir: &Path, advanced: Advanced) -> (Db, Table) {
    let options = Options { threads: Some(1), advanced, ..Options::default() };
    let builder = Db::builder().options(options);
    let clock = Arc::new(ManualClock::at(START_TICKS));
    let db = builder.parts(Arc::new(OsVfs::new()), clock, Arc::new(ByHand)).open(dir).unwrap();
    let table = db.table("t").unwrap();
    (db, table)
}

/// They sort as text as they do as bytes.
fn key(row: u32) -> String {
    format!("{row:06}")
}

/// Does not compress.
fn value(row: u32) -> Vec<u8> {
    let mut rng = Rng::seeded(row.into());
    (0..100).map(|_| rng.next_u64() as u8).collect()
}

fn put(table: &Table, rows: impl Iterator<Item = u32>, value: &[u8]) {
    let mut batch = table.partition("p").batch();
    for row in rows {
        batch = batch.upsert(key(row), value);
    }
    batch.commit().unwrap();
}

fn fill(table: &Table, rows: Range<u32>, value: &[u8]) {
    for first in rows.clone().step_by(100) {
        put(table, first..rows.end.min(first + 100), value);
    }
}

/// The numbers that `tabulith inspect` shows of a table file, by the words before them.
fn shown(dir: &Path, name: &str, depth: Depth) -> HashMap<String, String> {
    let mut shown = HashMap::new();
    let mut take = |line: &str| {
        let name = line.get(..17).unwrap_or(line).trim().to_owned();
        shown.insert(name, line.get(17..).unwrap_or_default().trim().to_owned());
    };
    inspect::dump(&dir.join(name), depth, &mut take).unwrap();
    shown
}

fn number(text: &str) -> u64 {
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// A live table file as it is shown.
#[derive(Debug)]
struct Shown {
    level: usize,
    data: u64,
    rows: u64,
    deletes: u64,
    first: String,
    last: String,
    bits: String,
}

/// The live table files in the order of their levels and keys.
fn files(dir: &Path) -> Vec<Shown> {
    let table_files = inspect::files(dir).unwrap().into_iter().filter(|f| f.kind == Kind::Table);
    let mut files: Vec<_> = table_files
        .filter_map(|file| {
            let level = file.level?;
            let sections = shown(dir, &file.name, Depth::Sections);
            let bits = shown(dir, &file.name, Depth::Filters).remove("row filter");
            Some(Shown {
                level,
                data: number(&sections["data"]),
                rows: number(&sections["rows"]),
                deletes: sections["rows"].rsplit(' ').next().unwrap().parse().unwrap(),
                first: sections["first key"].clone(),
                last: sections["last key"].clone(),
                bits: bits.unwrap_or_default(),
            })
        })
        .collect();
    files.sort_by(|a, b| (a.level, &a.first).cmp(&(b.level, &b.first)));
    files
}

fn finish_steps(db: &Db) {
    while db.step().unwrap() {}
}

/// Everything into one run, as deep as its size asks for.
fn settle_deep(db: &Db) {
    db.flush().unwrap();
    finish_steps(db);
    db.compact().unwrap();
}

/// The deepest level is written for space, those above it for speed: most rows are in the deepest,
/// most reads ask the others.
#[test]
fn compression_and_filter_bits_follow_the_level() {
    let dir = tempfile::tempdir().unwrap();
    let compression = Compression { upper: Codec::None, bottom: Codec::Lz4 };
    let (db, table) = open(dir.path(), Advanced { compression, ..small() });
    let value = [7; 200];
    fill(&table, 0..6000, &value);
    settle_deep(&db);
    fill(&table, 0..200, &value);
    db.flush().unwrap();
    let deepest = files(dir.path()).last().unwrap().level;
    assert!(deepest >= 2, "{:#?}", files(dir.path()));
    for _ in 0..4 {
        fill(&table, 0..200, &value);
        db.flush().unwrap();
        finish_steps(&db);
    }
    fill(&table, 0..200, &value);
    db.flush().unwrap();
    let files = files(dir.path());
    let levels: Vec<_> = files.iter().map(|file| file.level).collect();
    assert!(levels.contains(&0), "{levels:?}");
    assert!(levels.iter().any(|level| (1..deepest).contains(level)), "{levels:?}");
    let bits = |file: &Shown| {
        let (_, bits) = file.bits.split_once("bytes, ").unwrap();
        bits.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    for file in files {
        let (bits, per_row) = (bits(&file), file.data / file.rows);
        match file.level == deepest {
            true => assert!(per_row < 100 && bits < 13.0, "{bits} bits, {per_row} bytes: {file:?}"),
            false => {
                assert!(per_row >= 200 && bits > 13.0, "{bits} bits, {per_row} bytes: {file:?}")
            }
        }
    }
}

/// The pairs of neighbours of a level between whose keys `is_border` finds none.
fn cut_elsewhere(
    files: &[Shown],
    level: usize,
    is_border: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let level: Vec<_> = files.iter().filter(|file| file.level == level).collect();
    let pairs = level.windows(2);
    let wrong = pairs.filter(|pair| !is_border(&pair[0].last, &pair[1].first));
    wrong.map(|pair| format!("{} | {}", pair[0].last, pair[1].first)).collect()
}

/// A file that ends inside of one below would have both parts of it merged with that one.
#[test]
fn files_end_where_those_below_end() {
    let dir = tempfile::tempdir().unwrap();
    // Two levels below L0: what L0 gives to the first is cut at the files of the second.
    let two = Advanced { level_base_bytes: 128 << 10, level_fanout: 100, ..small() };
    let (db, table) = open(dir.path(), Advanced { file_bytes: 4 << 10, ..two.clone() });
    // Each batch is of rows from all over, so that no file can be moved as it is.
    let put_all = |table: &Table, every: u32| {
        for first in 0..60 {
            let mut batch = table.partition("p").batch();
            for row in (first..6000).step_by(60).filter(|row| row % every == 0) {
                batch = batch.upsert(key(row), value(row));
            }
            batch.commit().unwrap();
        }
    };
    put_all(&table, 1);
    settle_deep(&db);
    drop((table, db));

    // Files of four times the size come above them, so that each could end at some border below.
    let (db, table) = open(dir.path(), two);
    put_all(&table, 3);
    db.flush().unwrap();
    let deepest = files(dir.path()).last().unwrap().level;
    assert_eq!(deepest, 2);
    let mut seen = 0;
    while db.step().unwrap() {
        let files = files(dir.path());
        let above = deepest - 1;
        let below: Vec<_> = files.iter().filter(|file| file.level == deepest).collect();
        let within_one = |last: &str, first: &str| {
            below.iter().any(|file| file.first.as_str() <= last && first <= file.last.as_str())
        };
        let wrong = cut_elsewhere(&files, above, |last, first| !within_one(last, first));
        assert!(wrong.is_empty(), "cut inside of a file below: {wrong:#?}\n{files:#?}");
        seen += files.iter().filter(|file| file.level == above).count().saturating_sub(1);
    }
    assert!(seen > 5, "{seen} cuts");
}

/// What reads or drops one partition then meets few files.
#[test]
fn files_end_where_partitions_end() {
    let dir = tempfile::tempdir().unwrap();
    let (db, table) = open(dir.path(), small());
    for partition in 0..300 {
        let mut batch = table.partition(format!("p{partition:03}")).batch();
        for row in 0..10u32 {
            batch = batch.upsert(key(row), value(partition * 10 + row));
        }
        batch.commit().unwrap();
    }
    settle_deep(&db);
    let files = files(dir.path());
    let partition = |key: &str| key.split('/').nth(1).unwrap().to_owned();
    let differ = |last: &str, first: &str| partition(last) != partition(first);
    let deepest = files.last().unwrap().level;
    let wrong = cut_elsewhere(&files, deepest, differ);
    assert!(
        files.len() > 10 && wrong.is_empty(),
        "cut inside of a partition: {wrong:#?}\n{files:#?}"
    );
}

/// Other merges, for which commits may wait, have their turn in between, and no step needs room for
/// all; yet what comes out is one run, with next to no small files.
#[test]
fn all_becomes_one_run_in_steps() {
    const ROWS: u32 = 16_000;
    let dir = tempfile::tempdir().unwrap();
    let (largest, read) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let told = [Arc::clone(&largest), Arc::clone(&read)];
    let advanced = Advanced { compression: Compression::NONE, ..small() };
    let options = Options { threads: Some(1), advanced, ..Options::default() };
    let builder = Db::builder().options(options).on_event(move |event| {
        if let Event::CompactionEnd { read_bytes, .. } = event {
            told[0].fetch_max(*read_bytes, Relaxed);
            told[1].fetch_add(*read_bytes, Relaxed);
        }
    });
    let clock = Arc::new(ManualClock::at(START_TICKS));
    let builder = builder.parts(Arc::new(OsVfs::new()), clock, Arc::new(ByHand));
    let db = builder.open(dir.path()).unwrap();
    let table = db.table("t").unwrap();
    fill(&table, 0..ROWS, &[7; 100]);
    settle_deep(&db);
    for first in (0..ROWS).step_by(200) {
        put(&table, (first..first + 200).step_by(2), &[8; 100]);
    }
    db.flush().unwrap();
    finish_steps(&db);
    let above = |files: &[Shown]| {
        let deepest = files.last().map_or(0, |file| file.level);
        files.iter().filter(|file| file.level < deepest).count()
    };
    assert!(above(&files(dir.path())) > 30, "{:#?}", files(dir.path()));
    for count in [&largest, &read] {
        count.store(0, Relaxed);
    }
    db.compact().unwrap();
    let (largest, read) = (largest.load(Relaxed), read.load(Relaxed));
    assert!(largest * 2 < read && largest < 70 * (16 << 10), "{largest} of {read} bytes");
    let files = files(dir.path());
    let small = files.iter().filter(|file| file.data < 8 << 10).count();
    assert!(above(&files) == 0 && small * 10 < files.len(), "{files:#?}");
    assert_eq!(table.count().unwrap(), u64::from(ROWS));
}

/// From a tenth of a file's rows on, deletes go down by themselves until what they hide is gone;
/// fewer wait until they are old or somebody asks.
#[test]
fn many_deletes_go_by_themselves_and_few_wait() {
    for (deletes, stay) in [(3, true), (6, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (db, table) = open(dir.path(), Advanced { l0_compact_files: 1, ..small() });
        fill(&table, 0..4000, &[7; 100]);
        settle_deep(&db);
        put(&table, (0..4000).step_by(100), &[8; 50]);
        for row in (50..4000u32).step_by(100).take(deletes) {
            table.delete("p", key(row), If::Any).unwrap();
        }
        db.flush().unwrap();
        finish_steps(&db);
        let count = || files(dir.path()).iter().map(|file| file.deletes).sum::<u64>();
        assert_eq!(count(), if stay { deletes as u64 } else { 0 }, "{:#?}", files(dir.path()));
        db.settle().unwrap();
        assert_eq!(count(), 0, "they go where somebody waits for it");
        assert_eq!(table.count().unwrap(), 4000 - deletes as u64);
    }
}

//! What the lines of a cell ask for: a line that repeats the keys of the one before it finds what
//! that one has brought into a cache.

#![allow(clippy::unwrap_used, reason = "a test")]

use anyhow::Result;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread::ThreadId;
use std::time::Duration;
use tabulith_peers::adapters::btreemap;
use tabulith_peers::cells::{durable, point, scan, ycsb};
use tabulith_peers::engine::{Change, Direction, Engine, Key, OnRow, Promise, Revise, Span};
use tabulith_peers::rows::{self, KeyBuf, PARTITION_BYTES, PARTITION_ROWS, SMALL, Sum, Values};
use tabulith_peers::work::{self, Batch, Context};

const ROWS: u64 = 100 * PARTITION_ROWS;

/// Two threads that choose by chance begin with as many rows alike once in 10^10 times, though a
/// few rows are chosen often.
const FIRST: usize = 8;

#[test]
fn no_line_asks_for_the_rows_of_another() {
    type Cell = fn(&Context, &Recorder) -> Result<usize>;
    let cells: [(&str, Cell); 4] = [
        ("W6", |context, engine| Ok(point::gets(context, engine, (ROWS, SMALL), "")?.len())),
        ("W7", |context, engine| Ok(scan::short_of(context, engine, ROWS, SMALL)?.len())),
        ("W9", |context, engine| Ok(scan::partition_of(context, engine, ROWS, SMALL)?.len())),
        ("W10", |context, engine| Ok(ycsb::mixes(context, engine, ROWS, SMALL)?.len())),
    ];
    for (name, cell) in cells {
        let engine = Recorder { inner: btreemap::open(), asked: Mutex::default() };
        let context = context(1);
        work::load(&engine, ROWS, SMALL, 1).unwrap();
        let lines = cell(&context, &engine).unwrap();
        // Each line has threads of its own.
        let mut firsts: Vec<Vec<u64>> = engine.asked.into_inner().unwrap().into_values().collect();
        firsts.retain(|first| first.len() == FIRST);
        assert!(firsts.len() >= lines, "{name}: {lines} lines, {} threads", firsts.len());
        firsts.sort();
        for pair in firsts.windows(2) {
            assert_ne!(pair[0], pair[1], "two threads of {name} ask for the same rows");
        }
    }
}

#[test]
fn directions_change_places_from_run_to_run() {
    let names = |run| -> Vec<String> {
        let engine = btreemap::open();
        work::load(&*engine, ROWS, SMALL, 1).unwrap();
        let lines = scan::partition_of(&context(run), &*engine, ROWS, SMALL).unwrap();
        lines.into_iter().map(|line| line.name).collect()
    };
    let (first, mut second) = (names(1), names(2));
    assert_ne!(first, second);
    second.reverse();
    assert_eq!(first, second);
    assert_eq!(first, names(3));
}

#[test]
fn the_log_is_used_by_three_memtables_of_rows_behind_the_others() {
    const OTHERS: u64 = PARTITION_ROWS + 1;
    let (engine, context) = (btreemap::open(), context(1));
    let used = durable::use_log(&context, &*engine, (OTHERS, SMALL)).unwrap();
    let memtable_bytes = context.settings(Promise::Durable).memtable_bytes as u64;
    assert!(work::bytes_of(used, SMALL) >= 3 * memtable_bytes);
    let there = work::sum(&*engine, Direction::Forward).unwrap();
    let first = 2 * PARTITION_ROWS;
    assert_eq!(there, Sum::of(first, first + used, SMALL));
}

#[test]
fn a_batch_that_is_made_again_holds_the_new_rows_alone() {
    let (engine, mut values, mut batch) =
        (btreemap::open(), Values::new(SMALL, 1), Batch::default());
    batch.make(&mut values, 10..20, 0);
    batch.make(&mut values, 30..33, 7);
    assert_eq!(batch.commit(&*engine).unwrap(), 3);
    let there = work::sum(&*engine, Direction::Forward).unwrap();
    assert_eq!(there, Sum::of(30, 33, SMALL));
    assert_eq!(work::revisions(&*engine).unwrap(), 3 * 7);
    batch.make_tagged(&mut values, 40..41, |i| i + 2);
    batch.commit(&*engine).unwrap();
    let mut tag = 0;
    engine.get(KeyBuf::default().row(40), &mut |value| tag = rows::tag_of(value)).unwrap();
    assert_eq!(tag, 42);
}

fn context(run: usize) -> Context {
    Context {
        engine: "btreemap".to_owned(),
        dir: PathBuf::new(),
        prepared: PathBuf::new(),
        scale: 0.02,
        span: Duration::from_millis(20),
        longest: Duration::from_millis(20),
        cache_bytes: 64 << 20,
        seed: 1,
        run,
    }
}

/// Notes the first rows that each thread asks for.
struct Recorder {
    inner: Box<dyn Engine>,
    asked: Mutex<HashMap<ThreadId, Vec<u64>>>,
}

impl Recorder {
    fn note(&self, whole: &[u8]) {
        let mut asked = self.asked.lock().unwrap();
        let first = asked.entry(std::thread::current().id()).or_default();
        if first.len() < FIRST {
            first.push(row(whole));
        }
    }
}

/// The row of a key; of one that no row has, the row next to it.
fn row(whole: &[u8]) -> u64 {
    let number = |digits: &[u8]| str::from_utf8(digits).unwrap().parse::<u64>().unwrap();
    let order = whole.get(PARTITION_BYTES + 7..).map_or(0, number);
    number(&whole[7..PARTITION_BYTES]) * PARTITION_ROWS + order / 2
}

impl Engine for Recorder {
    fn write(&self, changes: &[Change<'_>]) -> Result<()> {
        if let [Change::Put(key, _)] = changes {
            self.note(key.whole);
        }
        self.inner.write(changes)
    }

    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.note(key.whole);
        self.inner.get(key, found)
    }

    fn scan(&self, span: Span<'_>, direction: Direction, each: &mut OnRow<'_>) -> Result<()> {
        match span {
            Span::All => {}
            Span::Partition(partition) => self.note(partition),
            Span::From(key) => self.note(key.whole),
        }
        self.inner.scan(span, direction, each)
    }

    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool> {
        self.inner.revise(key, revise)
    }

    fn settle(&self) -> Result<Duration> {
        self.inner.settle()
    }

    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str> {
        self.inner.drop_partition(partition)
    }

    fn drop_table(&self) -> Result<&'static str> {
        self.inner.drop_table()
    }
}

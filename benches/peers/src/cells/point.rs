//! W6: point reads of data that is in the cache and of data four times as large.

use crate::adapters::open::open;
use crate::engine::{Direction, Engine, Promise};
use crate::probe::{Kind, Line};
use crate::rows::{self, KeyBuf, Sum, Zipfian, size_of};
use crate::work::{self, Context, bytes_of};
use anyhow::{Context as _, Result, ensure};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use tabulith::env::rng::Rng;

/// Rows with values of 200 bytes that are in the cache, at scale 1: 115 MB of a cache of 256 MiB.
/// Of larger ones as many as take the same bytes.
const CACHED_ROWS: u64 = 500_000;

/// Bytes of keys and values that are 4.3 times the cache at scale 1.
const LARGER_BYTES: u64 = 1_155_000_000;

/// Draws of one thread of a line before its sequence begins again.
const ZIPFIAN_DRAWS: usize = 1 << 20;

/// Rows of the database that reads share.
pub fn prepared_rows(context: &Context, value_bytes: usize) -> u64 {
    context.rows(LARGER_BYTES / bytes_of(1, value_bytes))
}

/// Fills that database.
pub fn prepare(context: &Context, value_bytes: usize) -> Result<()> {
    let engine = open(&context.engine, &context.prepared, &context.settings(Promise::Unsynced))?;
    let rows = prepared_rows(context, value_bytes);
    work::load(&*engine, rows, value_bytes, context.seed)?;
    engine.close()
}

/// Opens it, with all of its files in the page cache: a system may have dropped those that nobody
/// read while the other engines were measured, more of one engine's than of another's. Every row is
/// read once, whoever it is: what holds all in a cache of its own has it there.
pub fn open_prepared(context: &Context) -> Result<Box<dyn Engine>> {
    let settings = context.settings(Promise::Unsynced);
    let exists = Path::new(&context.prepared).is_dir();
    ensure!(exists, "{} has not been prepared", context.prepared.display());
    let bytes = read_files(&context.prepared, &mut vec![0; 1 << 20])?;
    ensure!(bytes > 0, "{} holds nothing", context.prepared.display());
    let engine = open(&context.engine, &context.prepared, &settings)?;
    work::sum(&*engine, Direction::Forward)?;
    Ok(engine)
}

/// Reads every file of a folder, and of those in it, as far as it has data; returns their bytes.
fn read_files(dir: &Path, buffer: &mut [u8]) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            bytes += read_files(&path, buffer)?;
            continue;
        }
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        // LMDB's file is as long as its map, and all behind its data a hole: to read that would
        // drive what was read before out of the page cache.
        let stored = file.metadata()?.blocks() * 512;
        let mut file = file.take(stored);
        loop {
            match file.read(buffer).with_context(|| path.display().to_string())? {
                0 => break,
                read => bytes += read as u64,
            }
        }
    }
    Ok(bytes)
}

/// All rows in the cache, and read once before.
pub fn cached(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let engine = context.fresh("rows", &context.settings(Promise::Unsynced))?;
    let rows = context.rows_like(CACHED_ROWS, value_bytes);
    work::load(&*engine, rows, value_bytes, context.seed)?;
    let all = work::sum(&*engine, Direction::Forward)?;
    all.check(Sum::of(0, rows, value_bytes))?;
    let what = format!("in cache{}", size_of(value_bytes));
    let lines = gets(context, &*engine, (rows, value_bytes), &what)?;
    engine.close()?;
    Ok(lines)
}

/// The database that reads share.
pub fn larger(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let engine = open_prepared(context)?;
    let what = format!("4.3x the cache{}", size_of(value_bytes));
    let rows = prepared_rows(context, value_bytes);
    let lines = gets(context, &*engine, (rows, value_bytes), &what)?;
    engine.close()?;
    Ok(lines)
}

/// Gets of random rows of an engine that holds `rows`.
pub fn gets(
    context: &Context,
    engine: &dyn Engine,
    (rows, value_bytes): (u64, usize),
    what: &str,
) -> Result<Vec<Line>> {
    let zipfian = Zipfian::over(rows);
    work::warm(context, engine, rows, value_bytes)?;
    let mut lines = Vec::new();
    for (at, (choice, threads)) in LINES.into_iter().enumerate() {
        let name = format!("W6 get, {what}{}, threads: {threads}", choice.name());
        let named = (Kind::Read, name.as_str(), "gets/s");
        let draws: Vec<Vec<u32>> = match choice {
            Choice::Zipfian => (0..threads)
                .map(|thread| zipfian.scrambled(ZIPFIAN_DRAWS, context.seed_of(at, thread)))
                .collect(),
            Choice::Uniform | Choice::Absent => vec![Vec::new(); threads],
        };
        lines.push(work::run(context, named, threads, 8, 0, |thread| {
            let mut rng = Rng::seeded(context.seed_of(at, thread));
            let mut key = KeyBuf::default();
            let mut drawn = draws[thread].iter().cycle();
            move || {
                let i = drawn.next().map_or_else(|| rng.below(rows), |i| u64::from(*i));
                let present = choice != Choice::Absent;
                let key = if present { key.row(i) } else { key.absent(i) };
                let mut read = None;
                engine.get(key, &mut |value| read = Some(rows::row_of(value)))?;
                ensure!(read == present.then_some(i), "row {i} is {read:?}");
                Ok(1)
            }
        })?);
    }
    Ok(lines)
}

/// Which rows are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Uniform,
    Zipfian,
    Absent,
}

/// What is chosen, and by how many threads.
const LINES: [(Choice, usize); 6] = [
    (Choice::Uniform, 1),
    (Choice::Uniform, 2),
    (Choice::Zipfian, 1),
    (Choice::Zipfian, 2),
    (Choice::Absent, 1),
    (Choice::Absent, 2),
];

impl Choice {
    fn name(self) -> &'static str {
        match self {
            Choice::Uniform => "",
            Choice::Zipfian => ", zipfian",
            Choice::Absent => ", absent",
        }
    }
}

//! W10: YCSB A to F, by 1, 2 and 4 threads, on 10^6 rows that nearly fill the cache.
//!
//! Source: Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010.

use crate::cells::scan::take;
use crate::engine::{Change, Direction, Engine, Promise, Span};
use crate::probe::{Kind, Line};
use crate::rows::{self, KeyBuf, Sum, Values, Zipfian, size_of};
use crate::work::{self, Context, bytes_of};
use anyhow::{Result, ensure};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tabulith::env::rng::Rng;

/// Rows with values of 200 bytes; of larger ones as many as take the same bytes.
const ROWS: u64 = 1_000_000;

/// Draws of one thread of a line before its sequence begins again.
const DRAWS: usize = 1 << 20;

/// Longest scan of E; the shortest is of one row.
const SCAN_ROWS: u64 = 100;

/// Longest time between the number of an inserted row and the row.
const INSERT_MAX: Duration = Duration::from_secs(10);

/// What a workload does in 100 operations; the rest are reads.
#[derive(Clone, Copy, Debug)]
struct Mix {
    name: &'static str,
    updates: u64,
    inserts: u64,
    scans: u64,
    revisions: u64,
}

const READS: Mix = Mix { name: "C", updates: 0, inserts: 0, scans: 0, revisions: 0 };

/// In YCSB's own order: those that insert come last.
const MIXES: [Mix; 6] = [
    Mix { name: "A", updates: 50, ..READS },
    Mix { name: "B", updates: 5, ..READS },
    READS,
    Mix { name: "F", revisions: 50, ..READS },
    Mix { name: "D", inserts: 5, ..READS },
    Mix { name: "E", inserts: 5, scans: 95, ..READS },
];

impl Mix {
    /// Whether it asks for the newest rows most often.
    fn reads_latest(self) -> bool {
        self.inserts > 0 && self.scans == 0
    }

    /// What one thread asks for: rows, or how far back from the newest one.
    fn draw(self, zipfian: &Zipfian, seed: u64) -> Vec<u32> {
        match self.reads_latest() {
            true => zipfian.ranks(DRAWS, seed),
            false => zipfian.scrambled(DRAWS, seed),
        }
    }
}

struct Table<'a> {
    engine: &'a dyn Engine,
    value_bytes: usize,
    rows: u64,        // That were loaded.
    begun: AtomicU64, // Rows below this have been written or are being written.
}

/// All mixes with all numbers of threads, on one database.
pub fn all(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let engine = context.fresh("rows", &context.settings(Promise::Unsynced))?;
    let rows = context.rows_like(ROWS, value_bytes);
    work::load(&*engine, rows, value_bytes, context.seed)?;
    let lines = mixes(context, &*engine, rows, value_bytes)?;
    engine.close()?;
    Ok(lines)
}

/// The same on an engine that holds `rows`.
pub fn mixes(
    context: &Context,
    engine: &dyn Engine,
    rows: u64,
    value_bytes: usize,
) -> Result<Vec<Line>> {
    work::warm(context, engine, rows, value_bytes)?;
    let table = Table { engine, value_bytes, rows, begun: AtomicU64::new(rows) };
    let zipfian = Zipfian::over(rows);
    let mut lines = Vec::new();
    for mix in MIXES {
        for threads in [1_usize, 2, 4] {
            let at = lines.len();
            // Seeds besides those of the threads: what is done and what is asked for are two
            // choices.
            let draw = |thread| mix.draw(&zipfian, context.seed_of(at, threads + thread));
            let draws: Vec<Vec<u32>> = (0..threads).map(draw).collect();
            lines.push(measure(context, &table, (mix, at), &draws)?);
        }
    }
    let there = work::sum(engine, Direction::Forward)?.rows;
    let begun = table.begun.load(Ordering::Relaxed);
    ensure!(there == begun, "{there} rows are there of {begun}");
    Ok(lines)
}

/// The line `at` of the cell, by a thread for each of `draws`.
fn measure(
    context: &Context,
    table: &Table<'_>,
    (mix, at): (Mix, usize),
    draws: &[Vec<u32>],
) -> Result<Line> {
    let threads = draws.len();
    let kind = match mix.name {
        "C" => Kind::Read,
        _ => Kind::Unsynced,
    };
    let size = size_of(table.value_bytes);
    let name = format!("W10 YCSB {}{size}, threads: {threads}", mix.name);
    let written = mix.updates + mix.inserts + mix.revisions;
    let given = bytes_of(1, table.value_bytes) * written / 100;
    let span = context.span.mul_f64(0.6);
    let context = Context { span, ..context.clone() };
    work::run(&context, (kind, &name, "ops/s"), threads, 4, given, |thread| {
        let mut one = Thread {
            table,
            mix,
            rng: Rng::seeded(context.seed_of(at, thread)),
            values: Values::new(table.value_bytes, context.seed_of(at, thread)),
            key: KeyBuf::default(),
            value: Vec::new(),
            draws: &draws[thread],
            drawn: 0,
        };
        move || one.step().map(|()| 1)
    })
}

struct Thread<'a> {
    table: &'a Table<'a>,
    mix: Mix,
    rng: Rng,
    values: Values,
    key: KeyBuf,
    value: Vec<u8>,
    draws: &'a [u32],
    drawn: usize,
}

impl Thread<'_> {
    fn step(&mut self) -> Result<()> {
        let Mix { updates, inserts, scans, revisions, .. } = self.mix;
        match self.rng.below(100) {
            n if n < updates => self.update(),
            n if n < updates + inserts => self.insert(),
            n if n < updates + inserts + scans => self.scan(),
            n if n < updates + inserts + scans + revisions => {
                let i = self.read()?;
                self.put(i)
            }
            _ => self.read().map(drop),
        }
    }

    fn draw(&mut self) -> u64 {
        self.drawn = (self.drawn + 1) % self.draws.len();
        let drawn = u64::from(self.draws[self.drawn]);
        if self.mix.reads_latest() {
            // The newest rows most often; not those that others are about to write.
            const BEING_WRITTEN: u64 = 64;
            let newest = self.table.begun.load(Ordering::Relaxed) - BEING_WRITTEN;
            return newest.saturating_sub(drawn + 1);
        }
        drawn
    }

    fn read(&mut self) -> Result<u64> {
        let i = self.draw();
        let value = &mut self.value;
        let key = self.key.row(i);
        let mut get = || {
            value.clear();
            self.table.engine.get(key, &mut |bytes| value.extend_from_slice(bytes))
        };
        // A thread that began to insert the row may have lost its core before it wrote.
        let mut since = None;
        while !get()? {
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            ensure!(self.mix.inserts > 0 && waited < INSERT_MAX, "row {i} is not there");
            std::thread::yield_now();
        }
        ensure!(rows::row_of(&self.value) == i, "row {i} is {} bytes", self.value.len());
        Ok(i)
    }

    fn update(&mut self) -> Result<()> {
        let i = self.draw();
        self.put(i)
    }

    fn put(&mut self, i: u64) -> Result<()> {
        let value = self.values.value(i, 1);
        self.table.engine.write(&[Change::Put(self.key.row(i), value)])
    }

    fn insert(&mut self) -> Result<()> {
        let i = self.table.begun.fetch_add(1, Ordering::Relaxed);
        self.put(i)
    }

    fn scan(&mut self) -> Result<()> {
        let most = self.rng.below(SCAN_ROWS) + 1;
        let first = self.draw();
        let span = Span::From(self.key.row(first));
        let sum = take(self.table.engine, span, Direction::Forward, most)?;
        let loaded = self.table.rows.saturating_sub(first);
        if most <= loaded {
            return sum.check(Sum::of(first, first + most, self.table.value_bytes));
        }
        // The last of these are being inserted.
        ensure!((loaded..=most).contains(&sum.rows), "a scan of {most} gave {sum:?}");
        Ok(())
    }
}

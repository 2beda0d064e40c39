//! Pieces of work that several workloads are made of: loads, shuffles, loops of many threads.

use crate::adapters::open::open;
use crate::engine::{Change, Direction, Engine, Key, Promise, Rows, Span};
use crate::probe::{Kind, LAP_ROWS, Laps, Line, Probe};
use crate::rows::{KEY_BYTES, KeyBuf, PARTITION_ROWS, SMALL, Sum, Values, revision_of};
use crate::settings::{self, Settings};
use anyhow::{Context as _, Result, ensure};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tabulith::env::rng::Rng;
use tabulith_benches::sample::Loop;

/// What one process is to measure with.
#[derive(Clone, Debug)]
pub struct Context {
    /// The engine.
    pub engine: String,
    /// An empty folder of its own.
    pub dir: PathBuf,
    /// The database that reads share, where the cell asks for one.
    pub prepared: PathBuf,
    /// Factor on rows, cache and memtable.
    pub scale: f64,
    /// Length of a line that is measured for a time.
    pub span: Duration,
    /// After this long a line that is measured by count ends where it is.
    pub longest: Duration,
    /// Bytes of every cache at scale 1.
    pub cache_bytes: usize,
    /// Where random choices start from.
    pub seed: u64,
    /// Which run of the cell this is, from 1.
    pub run: usize,
}

impl Context {
    /// `count` rows at scale 1, in whole partitions, at least ten of them.
    pub fn rows(&self, count: u64) -> u64 {
        let partitions = (count as f64 * self.scale) as u64 / PARTITION_ROWS;
        partitions.max(10) * PARTITION_ROWS
    }

    /// Rows with values of `value_bytes` that take the bytes of `count` rows with values of
    /// [`SMALL`].
    pub fn rows_like(&self, count: u64, value_bytes: usize) -> u64 {
        self.rows(bytes_of(count, SMALL) / bytes_of(1, value_bytes))
    }

    /// `count` of anything else at scale 1, at least `least`.
    pub fn scaled(&self, count: u64, least: u64) -> u64 {
        ((count as f64 * self.scale) as u64).max(least)
    }

    /// Where the random choices of one thread of a cell's line start from: lines that ask for the
    /// same rows find what the one before them has brought into a cache.
    pub fn seed_of(&self, line: usize, thread: usize) -> u64 {
        self.seed ^ (line as u64 + 1) << 48 ^ (thread as u64 + 1) << 32
    }

    /// The lines of a cell in the order of this run. They change places from run to run: whoever
    /// comes later finds fuller caches.
    pub fn in_turn<T>(&self, mut lines: Vec<T>) -> Vec<T> {
        if self.run.is_multiple_of(2) {
            lines.reverse();
        }
        lines
    }

    /// Settings at this scale.
    pub fn settings(&self, promise: Promise) -> Settings {
        let cache_bytes = (self.cache_bytes as f64 * self.scale) as usize;
        let mut settings = Settings::new(promise, cache_bytes.max(4 << 20));
        let memtable_bytes = settings::MEMTABLE_BYTES as f64 * self.scale.min(1.0);
        settings.memtable_bytes = (memtable_bytes as usize).max(1 << 20);
        settings
    }

    /// An empty database in the folder `name`.
    pub fn fresh(&self, name: &str, settings: &Settings) -> Result<Box<dyn Engine>> {
        open(&self.engine, &self.dir.join(name), settings)
    }
}

/// Bytes of keys and values of `rows` rows.
pub fn bytes_of(rows: u64, value_bytes: usize) -> u64 {
    rows * (KEY_BYTES + value_bytes) as u64
}

/// The rows of one commit, in memory that is used again: what a commit is timed for is not how they
/// are made.
#[derive(Debug, Default)]
pub struct Batch {
    keys: Vec<KeyBuf>,
    values: Vec<u8>, // Of one length.
}

impl Batch {
    /// Makes rows of one partition.
    pub fn make(&mut self, values: &mut Values, rows: Range<u64>, revision: u64) {
        self.fill(rows, |i, out| out.extend_from_slice(values.value(i, revision)));
    }

    /// The same with tags.
    pub fn make_tagged(&mut self, values: &mut Values, rows: Range<u64>, tag: impl Fn(u64) -> u64) {
        self.fill(rows, |i, out| out.extend_from_slice(values.tagged(i, tag(i))));
    }

    fn fill(&mut self, rows: Range<u64>, mut value: impl FnMut(u64, &mut Vec<u8>)) {
        self.keys.clear();
        self.values.clear();
        for i in rows {
            let mut key = KeyBuf::default();
            key.row(i);
            self.keys.push(key);
            value(i, &mut self.values);
        }
    }

    /// Commits them together; returns how many.
    pub fn commit(&self, engine: &dyn Engine) -> Result<u64> {
        let value_bytes = self.values.len() / self.keys.len().max(1);
        let values = self.values.chunks_exact(value_bytes.max(1));
        let changes: Vec<_> = self
            .keys
            .iter()
            .zip(values)
            .map(|(key, value)| Change::Put(key.key(), value))
            .collect();
        engine.write(&changes)?;
        Ok(changes.len() as u64)
    }
}

/// Commits rows of one partition together; returns how many.
pub fn write_rows(
    engine: &dyn Engine,
    values: &mut Values,
    rows: Range<u64>,
    revision: u64,
) -> Result<u64> {
    let mut batch = Batch::default();
    batch.make(values, rows, revision);
    batch.commit(engine)
}

/// Fills a database with rows 0 to `rows`: whole partitions, one commit each, the partitions in
/// random order. Returns once it has settled.
pub fn load(engine: &dyn Engine, rows: u64, value_bytes: usize, seed: u64) -> Result<()> {
    let mut values = Values::new(value_bytes, seed);
    for partition in Shuffle::new(rows / PARTITION_ROWS, seed) {
        let first = partition * PARTITION_ROWS;
        write_rows(engine, &mut values, first..first + PARTITION_ROWS, 0)?;
    }
    engine.settle()?;
    Ok(())
}

/// Longest time of what comes before a cell's first line and is not measured, in lines of
/// [`Context::span`].
const WARM_LINES: u32 = 8;

/// When that has to end.
pub fn warm_until(context: &Context) -> Instant {
    Instant::now() + context.span * WARM_LINES
}

/// Rows of as many bytes as the cache has: whoever keeps rows needs as many gets to fill it, who
/// keeps blocks fewer.
pub fn rows_of_cache(context: &Context, value_bytes: usize) -> u64 {
    context.settings(Promise::Unsynced).cache_bytes as u64 / bytes_of(1, value_bytes)
}

/// Gets each row once, or as many as [`rows_of_cache`] where those are fewer, in no order, by two
/// threads and unmeasured, no longer than until [`warm_until`]: what is measured is a cache in use
/// and not its filling.
pub fn warm(context: &Context, engine: &dyn Engine, rows: u64, value_bytes: usize) -> Result<()> {
    const THREADS: usize = 2;
    let until = warm_until(context);
    let most = rows_of_cache(context, value_bytes) as usize;
    let part = |thread| -> Result<()> {
        let mut key = KeyBuf::default();
        let chosen = Shuffle::new(rows, context.seed + 77).take(most);
        for i in chosen.skip(thread).step_by(THREADS) {
            ensure!(engine.get(key.row(i), &mut |_| ())?, "row {i} is not there");
            if Instant::now() > until {
                break;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: [_; THREADS] = std::array::from_fn(|thread| scope.spawn(move || part(thread)));
        threads.into_iter().try_for_each(|thread| thread.join().ok().context("a panic")?)
    })
}

/// What the revisions of all rows add up to.
pub fn revisions(engine: &dyn Engine) -> Result<u64> {
    let mut revisions = 0;
    engine.scan(Span::All, Direction::Forward, &mut |seen| {
        revisions += revision_of(seen.value);
        ControlFlow::Continue(())
    })?;
    Ok(revisions)
}

/// Adds up all rows.
pub fn sum(engine: &dyn Engine, direction: Direction) -> Result<Sum> {
    let mut sum = Sum::default();
    engine.scan(Span::All, direction, &mut |seen| {
        sum.add(seen.value);
        ControlFlow::Continue(())
    })?;
    Ok(sum)
}

/// The same, timed in laps of [`LAP_ROWS`].
pub fn sum_in_laps(engine: &dyn Engine, direction: Direction) -> Result<(Sum, Laps)> {
    let (mut sum, mut laps) = (Sum::default(), Laps::of(LAP_ROWS)?);
    engine.scan(Span::All, direction, &mut |seen| {
        sum.add(seen.value);
        laps.row();
        ControlFlow::Continue(())
    })?;
    Ok((sum, laps))
}

/// Runs what `worker` makes for each of `threads` threads for the cell's span; one call in
/// `timed_every` is timed.
pub fn run<C: FnMut() -> Result<u64>>(
    context: &Context,
    (kind, name, unit): (Kind, &str, &str),
    threads: usize,
    timed_every: u32,
    given_per_op: u64,
    worker: impl Fn(usize) -> C + Sync,
) -> Result<Line> {
    let probe = Probe::start()?;
    let sample = Loop { threads, span: context.span, timed_every }.run(worker);
    let sample = sample.with_context(|| name.to_owned())?;
    let given = sample.ops * given_per_op;
    let mut line = match given {
        0 => probe.rate(kind, name, unit, sample.ops, Duration::ZERO)?,
        _ => probe.rate_written(kind, name, unit, (sample.ops, given), Duration::ZERO)?,
    };
    // The sample's own clock does not hold the start of the threads.
    line.value = sample.rate();
    line.seconds = sample.elapsed.as_secs_f64();
    line.threads = threads;
    Ok(line.timed(&sample.latency_ns))
}

/// The numbers below `count` in an order that looks random, each once.
#[derive(Clone, Debug)]
pub struct Shuffle {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
    at: u64,
}

impl Shuffle {
    /// For `count` numbers.
    pub fn new(count: u64, seed: u64) -> Shuffle {
        let bits = u64::BITS - count.max(4).leading_zeros();
        let mut rng = Rng::seeded(seed);
        let keys = [(); 4].map(|()| rng.next_u64());
        Shuffle { count, half_bits: bits.div_ceil(2), keys, at: 0 }
    }

    /// A Feistel network: a permutation of the numbers of `2 * half_bits` bits.
    fn permute(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            (left, right) = (right, left ^ (mixed & mask));
        }
        left << self.half_bits | right
    }
}

impl Iterator for Shuffle {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let all = 1 << (2 * self.half_bits);
        while self.at < all {
            let number = self.permute(self.at);
            self.at += 1;
            if number < self.count {
                return Some(number);
            }
        }
        None
    }
}

/// Rows 0 to `end` in the order of their keys.
#[derive(Debug)]
pub struct InOrder {
    /// The next one.
    pub next: u64,
    /// The first one that is not given.
    pub end: u64,
    /// Makes their values.
    pub values: Values,
    /// Times [`LAP_ROWS`] of them after the other.
    pub laps: Laps,
}

impl Rows for InOrder {
    fn next(&mut self, give: &mut dyn FnMut(Key<'_>, &[u8]) -> Result<()>) -> Result<bool> {
        give(KeyBuf::default().row(self.next), self.values.value(self.next, 0))?;
        self.next += 1;
        self.laps.row();
        Ok(self.next < self.end)
    }
}

/// Ends a loop that counts after a time: for engines that would take minutes.
#[derive(Clone, Copy, Debug)]
pub struct Cap(Instant);

impl Cap {
    /// From now on, as long as the cell allows.
    pub fn new(context: &Context) -> Cap {
        Cap(Instant::now() + context.longest)
    }

    /// Twice as long, for what must grow large to mean anything.
    pub fn twice(context: &Context) -> Cap {
        Cap(Instant::now() + context.longest * 2)
    }

    /// Whether the time is over.
    pub fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Which rows were written, by any number of threads: what is there must lie between the rows
/// whose commits are known to be done and those whose commits began.
#[derive(Debug)]
pub struct Written(Vec<AtomicU8>);

const BEGUN: u8 = 1;
const DONE: u8 = 2;

impl Written {
    /// None of so many rows.
    pub fn none_of(rows: u64) -> Written {
        Written((0..rows).map(|_| AtomicU8::new(0)).collect())
    }

    /// A commit of row `i` begins.
    pub fn begin(&self, i: u64) {
        self.0[i as usize].fetch_or(BEGUN, Ordering::Relaxed);
    }

    /// It is done.
    pub fn done(&self, i: u64) {
        self.0[i as usize].fetch_or(DONE, Ordering::Relaxed);
    }

    /// An error unless as many rows are `there`.
    pub fn check(&self, there: u64) -> Result<()> {
        let count =
            |mark| self.0.iter().filter(|row| row.load(Ordering::Relaxed) & mark > 0).count();
        let (done, begun) = (count(DONE) as u64, count(BEGUN) as u64);
        ensure!(
            done > 0 && (done..=begun).contains(&there),
            "{there} rows are there; {done} were committed, {begun} begun"
        );
        Ok(())
    }
}

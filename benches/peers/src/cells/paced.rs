//! W2-paced: random fill at 80 % of its peak for minutes, how late commits get, and what the thread
//! that commits did meanwhile.

use crate::cells::bulk::SMALLER;
use crate::engine::{Change, Engine, Promise};
use crate::probe::{Kind, Line, Probe};
use crate::rows::{KeyBuf, Values};
use crate::work::{Context, Shuffle};
use anyhow::{Context as _, Result};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};
use tabulith_benches::sample::histogram;

/// How long each of the two fills takes at scale 1.
const SPAN: Duration = Duration::from_secs(300);

/// More rows than `SPAN` can hold; the keys have room for 10^9.
const MANY_ROWS: u64 = 1 << 29;

/// Longer than the time between two commits, which so come in bursts, late by as much.
const NAP: Duration = Duration::from_micros(100);

/// What the thread did is looked at this often.
const WINDOW: Duration = Duration::from_millis(20);

/// A commit later than this is one that the goal forbids.
const TOO_LATE: Duration = Duration::from_millis(50);

/// Random fill for five minutes, as fast as it goes, settling included; then anew at 80 % of that
/// rate for five minutes, and the latencies of this are what counts. A peak of a few seconds would
/// be one that no engine with merges can hold, and the more rows there are the less.
pub fn fill(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    let span = SPAN.mul_f64(context.scale.min(1.0));
    let mut settings = context.settings(Promise::Unsynced);
    settings.memtable_bytes /= SMALLER;
    let name = "W2 random fill for five minutes, settled";
    let engine = context.fresh("peak", &settings)?;
    let (probe, mut lateness) = (Probe::start()?, Lateness::begin()?);
    let count = commit_rows(context, &*engine, value_bytes, &mut lateness, (span, Duration::ZERO))?;
    let rest = engine.settle()?;
    let took = probe.elapsed().saturating_sub(rest);
    let peak = probe.rate(Kind::Unsynced, name, "rows/s", count, rest)?.timed(&lateness.ns);
    engine.close()?;
    std::fs::remove_dir_all(context.dir.join("peak")).context("removing the rows of the peak")?;

    let each = took.mul_f64(1.25 / count.max(1) as f64);
    let engine = context.fresh("rows", &settings)?;
    let (probe, mut lateness) = (Probe::start()?, Lateness::begin()?);
    let count = commit_rows(context, &*engine, value_bytes, &mut lateness, (span, each))?;
    let name = "W2 random fill at 80 % of that";
    let line = probe.rate(Kind::Unsynced, name, "rows/s", count, Duration::ZERO)?;
    let held_back = engine.held_back().map_or_else(String::new, |waited| {
        format!("; in all it held commits back for {:.2} s", waited.as_secs_f64())
    });
    engine.settle()?;
    engine.close()?;
    Ok(vec![peak, line.timed(&lateness.ns).note(lateness.note() + &held_back)])
}

/// Commits rows in random order, each due the time `each` after the one before, until `span` is
/// over.
fn commit_rows(
    context: &Context,
    engine: &dyn Engine,
    value_bytes: usize,
    lateness: &mut Lateness,
    (span, each): (Duration, Duration),
) -> Result<u64> {
    let (mut values, mut key) = (Values::new(value_bytes, context.seed), KeyBuf::default());
    let (start, mut due, mut count) = (Instant::now(), Duration::ZERO, 0);
    for i in Shuffle::new(MANY_ROWS, context.seed) {
        // Behind its plan a commit is late, and that counts: the clock starts when it was due.
        let begun = if each.is_zero() { start.elapsed() } else { due };
        if begun > span {
            break;
        }
        while start.elapsed() < begun {
            std::thread::sleep(NAP); // The engine may have this core meanwhile.
        }
        engine.write(&[Change::Put(key.row(i), values.value(i, 0))])?;
        lateness.add(start.elapsed() - begun)?;
        due += each;
        count += 1;
    }
    Ok(count)
}

/// How late commits were, and of the windows that held one too late what the thread did.
struct Lateness {
    ns: Histogram<u64>,
    window: Window,
    /// Sums over the windows with a commit that was too late.
    too_late: Spent,
}

/// A stretch of time that is not over.
struct Window {
    start: Instant,
    before: Spent,
    worst: Duration,
}

impl Lateness {
    fn begin() -> Result<Lateness> {
        Ok(Lateness { ns: histogram()?, window: Window::begin()?, too_late: Spent::default() })
    }

    fn add(&mut self, late: Duration) -> Result<()> {
        self.ns.saturating_record(late.as_nanos() as u64);
        self.window.worst = self.window.worst.max(late);
        // The clock is asked now and then: once for each commit, that was asked already.
        if self.ns.len().is_multiple_of(64) && self.window.start.elapsed() >= WINDOW {
            let over = std::mem::replace(&mut self.window, Window::begin()?);
            if over.worst > TOO_LATE {
                self.too_late.add(&over, &self.window);
            }
        }
        Ok(())
    }

    fn note(&self) -> String {
        let longest_ms = self.ns.max() as f64 / 1e6;
        let Spent { all, ran, queued } = self.too_late;
        if all.is_zero() {
            return format!("longest {longest_ms:.1} ms");
        }
        let share = |part: Duration| part.as_secs_f64() / all.as_secs_f64() * 100.0;
        format!(
            "longest {longest_ms:.1} ms; commits were later than {} ms during {:.2} s, of which the thread \
             ran {:.0} %, waited for a processor {:.0} % and for anything else {:.0} %",
            TOO_LATE.as_millis(),
            all.as_secs_f64(),
            share(ran),
            share(queued),
            share(all.saturating_sub(ran + queued)),
        )
    }
}

impl Window {
    fn begin() -> Result<Window> {
        Ok(Window { start: Instant::now(), before: Spent::of_thread()?, worst: Duration::ZERO })
    }
}

/// What a thread's time went into.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    /// The time by the clock; not known of a thread's whole life.
    all: Duration,
    ran: Duration,
    /// Time in which it could have run and another thread did.
    queued: Duration,
}

impl Spent {
    /// What the kernel says of this thread up to now.
    fn of_thread() -> Result<Spent> {
        const STAT: &str = "/proc/thread-self/schedstat";
        let text = std::fs::read_to_string(STAT).context(STAT)?;
        let mut fields = text.split_whitespace().flat_map(str::parse).map(Duration::from_nanos);
        let (ran, queued) = fields.next().zip(fields.next()).context(STAT)?;
        Ok(Spent { all: Duration::ZERO, ran, queued })
    }

    fn add(&mut self, over: &Window, next: &Window) {
        self.all += next.start - over.start;
        self.ran += next.before.ran.saturating_sub(over.before.ran);
        self.queued += next.before.queued.saturating_sub(over.before.queued);
    }
}

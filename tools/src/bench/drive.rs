//! Drives operations by threads, as fast as they go or at a rate, and records how long each took.
//!
//! At a rate, operation n is due at n / rate, and its latency counts from then, whether a thread
//! was free or not. Who counts from the moment of sending forgets everybody who stood in the queue:
//! one pause of a second is then one slow operation, not a thousand.

use crate::bench::series::{Interval, Recorded};
use crate::bench::store::{Done, Failed};
use crate::bench::workload::Act;
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tabulith::env::clock::Clock;
use tabulith_results::latency::histogram;

/// So many failures with fewer successes end a run.
const FAILURES_MAX: u64 = 100;

/// How operations are driven.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Threads that call at once.
    pub(crate) threads: usize,
    /// Operations a second that are due; as fast as they go without.
    pub(crate) rate: Option<f64>,
    /// At most so many operations.
    pub(crate) ops: Option<u64>,
    /// No operation begins later.
    pub(crate) time: Option<Duration>,
    /// The number of the first operation.
    pub(crate) first: u64,
}

/// What one operation was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Did {
    /// Bytes of keys and values written.
    pub(crate) written: u64,
    /// Rows read.
    pub(crate) rows: u64,
}

/// Does operation n. Says what kind it was, and what came of it.
pub(crate) type Work<'a> = dyn FnMut(u64) -> (Act, Done<Did>) + 'a;

/// Drives what `make` makes for each thread.
pub(crate) fn drive<'a>(
    clock: &dyn Clock,
    plan: Plan,
    make: impl Fn(usize) -> Result<Box<Work<'a>>> + Sync,
) -> Result<Recorded> {
    let shared = Shared {
        clock,
        plan,
        start: Mutex::new(None),
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        recorded: Mutex::new(Recorded::new()),
    };
    let ready = std::sync::Barrier::new(plan.threads);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let (shared, make, ready) = (&shared, &make, &ready);
                scope.spawn(move || {
                    let work = make(thread);
                    ready.wait();
                    let result = work.and_then(|work| shared.run(work));
                    if result.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().ok().context("a thread of the load failed")?)
    })?;
    let elapsed = clock.steady().saturating_sub(shared.start());
    let begun = shared.next.load(Ordering::Relaxed);
    let mut recorded = shared.recorded.into_inner().unwrap_or_else(|broken| broken.into_inner());
    recorded.elapsed = elapsed;
    if let (Some(rate), Some(time)) = (plan.rate, plan.time) {
        let due = (rate * time.as_secs_f64()) as u64;
        recorded.late = due.min(plan.ops.unwrap_or(u64::MAX)).saturating_sub(begun);
    }
    Ok(recorded)
}

struct Shared<'a> {
    clock: &'a dyn Clock,
    plan: Plan,
    start: Mutex<Option<Duration>>,
    next: AtomicU64,
    stop: AtomicBool,
    recorded: Mutex<Recorded>,
}

impl Shared<'_> {
    /// When the first thread began.
    fn start(&self) -> Duration {
        let mut start = self.start.lock().unwrap_or_else(|broken| broken.into_inner());
        *start.get_or_insert_with(|| self.clock.steady())
    }

    /// The number of the next operation and when it is due; `None` when all is done.
    fn claim(&self, start: Duration) -> Option<(u64, Duration)> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let now = self.clock.steady().saturating_sub(start);
        if self.plan.time.is_some_and(|time| now >= time) {
            return None;
        }
        let claim = |next: u64| {
            if self.plan.ops.is_some_and(|ops| next >= ops) {
                return None;
            }
            let due = self.due(next, now);
            (self.plan.time.is_none_or(|time| due < time)).then_some(next + 1)
        };
        let number = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
        Some((number, self.due(number, now)))
    }

    fn due(&self, number: u64, now: Duration) -> Duration {
        self.plan.rate.map_or(now, |rate| Duration::from_secs_f64(number as f64 / rate))
    }

    fn run(&self, mut work: Box<Work<'_>>) -> Result<()> {
        if self.plan.rate.is_some() {
            wake_on_time();
        }
        let start = self.start();
        let mut own = Own::new()?;
        while let Some((number, due)) = self.claim(start) {
            let now = self.clock.steady().saturating_sub(start);
            if due > now {
                self.clock.sleep(due - now);
            }
            let begun = match self.plan.rate {
                Some(_) => due,
                None => self.clock.steady().saturating_sub(start),
            };
            let (act, done) = work(self.plan.first + number);
            let end = self.clock.steady().saturating_sub(start);
            own.turn_to(self, end)?;
            own.note(act, done, end.saturating_sub(begun))?;
        }
        own.hand_in(self)?;
        let mut all = self.lock();
        for (act, latencies) in own.by_act {
            match all.by_act.get_mut(&act) {
                Some(sum) => sum.add(latencies).context("adding histograms")?,
                None => drop(all.by_act.insert(act, latencies)),
            }
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Has the kernel wake this thread when its sleep is over, instead of up to 50 us later, which
/// would stand in every latency. Where it will not, latencies are that much longer.
fn wake_on_time() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// What one thread has recorded and not handed in.
struct Own {
    by_act: BTreeMap<Act, Histogram<u64>>,
    interval: Interval,
    second: u64,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    failed: u64,
    refused: u64,
    first_failure: Option<String>,
    did: Did,
}

impl Own {
    fn new() -> Result<Own> {
        let (interval, counts) = (Interval::new()?, Counts::default());
        Ok(Own { by_act: BTreeMap::new(), interval, second: 0, counts })
    }

    /// Hands in what belongs to earlier seconds.
    fn turn_to(&mut self, shared: &Shared<'_>, now: Duration) -> Result<()> {
        if now.as_secs() != self.second {
            self.hand_in(shared)?;
            self.second = now.as_secs();
        }
        Ok(())
    }

    fn note(&mut self, act: Act, done: Done<Did>, latency: Duration) -> Result<()> {
        match done {
            Ok(did) => {
                let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
                match self.by_act.entry(act) {
                    Entry::Occupied(latencies) => latencies.into_mut(),
                    Entry::Vacant(place) => place.insert(histogram()?),
                }
                .saturating_record(ns);
                self.interval.latency_ns.saturating_record(ns);
                self.counts.did.written += did.written;
                self.counts.did.rows += did.rows;
            }
            Err(failure) => {
                self.interval.failed += 1;
                let why = match failure {
                    Failed::Refused(why) => {
                        self.counts.refused += 1;
                        why
                    }
                    Failed::Broken(error) => {
                        self.counts.failed += 1;
                        crate::exit::told(&error)
                    }
                };
                self.counts.first_failure.get_or_insert(why);
            }
        }
        Ok(())
    }

    fn hand_in(&mut self, shared: &Shared<'_>) -> Result<()> {
        if self.interval.is_empty() {
            return Ok(());
        }
        let interval = std::mem::replace(&mut self.interval, Interval::new()?);
        let counts = std::mem::take(&mut self.counts);
        let mut all = shared.lock();
        all.series.add(Duration::from_secs(self.second), &interval)?;
        all.failed += counts.failed;
        all.refused += counts.refused;
        all.written += counts.did.written;
        all.rows_read += counts.did.rows;
        if all.first_failure.is_none() {
            all.first_failure = counts.first_failure;
        }
        let good: u64 = all.series.intervals.iter().map(|one| one.latency_ns.len()).sum();
        if all.failed > FAILURES_MAX && all.failed > good {
            bail!(
                "{} operations failed and {good} succeeded: {}",
                all.failed,
                all.first_failure.as_deref().unwrap_or_default()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use tabulith::env::clock::ManualClock;

    const TICK: Duration = Duration::from_micros(100);

    /// A server that answers in 100 us, and once, at operation 500, after a second. Its time is
    /// virtual.
    fn with_a_pause(rate: Option<f64>) -> Recorded {
        let clock = ManualClock::at(0);
        let plan = Plan { threads: 1, rate, ops: Some(5_000), time: None, first: 0 };
        let work = |number: u64| {
            clock.advance(if number == 500 { Duration::from_secs(1) } else { TICK });
            (Act::Read, Ok(Did { written: 0, rows: 1 }))
        };
        drive(&clock, plan, |_| Ok(Box::new(work))).unwrap()
    }

    fn above(recorded: &Recorded, latency: Duration) -> u64 {
        let all = recorded.all().unwrap();
        all.iter_recorded()
            .filter(|step| step.value_iterated_to() > latency.as_nanos() as u64)
            .map(|step| step.count_since_last_iteration())
            .sum()
    }

    #[test]
    fn a_pause_is_in_the_latency_of_all_who_were_due_meanwhile() {
        let open = with_a_pause(Some(1_000.0));
        assert_eq!(open.ops(), 5_000);
        // 1,000 a second were due in that second; the queue is worked off at 10,000 a second less
        // the 1,000 that come, so about 1,110 waited, half of them longer than half a second.
        let (waited, long) = (above(&open, TICK * 2), above(&open, Duration::from_millis(500)));
        assert!((1_080..1_140).contains(&waited), "{waited} waited");
        assert!((540..570).contains(&long), "{long} waited for long");
        let p90 = open.all().unwrap().value_at_quantile(0.9);
        assert!((400_000_000..700_000_000).contains(&p90), "{p90}");
    }

    #[test]
    fn without_a_rate_the_same_pause_is_one_slow_operation() {
        let closed = with_a_pause(None);
        assert_eq!(above(&closed, TICK * 2), 1);
        assert_eq!(closed.elapsed, TICK * 4_999 + Duration::from_secs(1));
        assert_eq!(closed.rows_read, 5_000);
    }

    #[test]
    fn a_second_without_an_answer_is_a_gap_in_the_series() {
        let open = with_a_pause(Some(1_000.0));
        let ended: Vec<u64> =
            open.series.intervals.iter().map(|interval| interval.latency_ns.len()).collect();
        assert_eq!(ended.len(), 5, "{ended:?}");
        assert!(ended[0] < 510 && ended[1] > 1_400, "{ended:?}");
        assert_eq!(ended.iter().sum::<u64>(), 5_000);
    }

    #[test]
    fn what_was_due_and_never_begun_is_counted() {
        let clock = ManualClock::at(0);
        let time = Some(Duration::from_secs(1));
        let plan = Plan { threads: 1, rate: Some(1_000.0), ops: None, time, first: 0 };
        let slow = |_| {
            clock.advance(Duration::from_millis(10));
            (Act::Read, Ok(Did::default()))
        };
        let recorded = drive(&clock, plan, |_| Ok(Box::new(slow))).unwrap();
        assert_eq!((recorded.ops(), recorded.late), (100, 900));
    }

    #[test]
    fn failures_are_counted_and_too_many_end_the_run() {
        let clock = ManualClock::at(0);
        let plan = Plan { threads: 1, rate: None, ops: Some(1_000), time: None, first: 0 };
        let some = |number: u64| {
            clock.advance(TICK);
            match number % 10 {
                0 => (Act::Read, Err(Failed::Refused("busy".to_owned()))),
                1 => (Act::Read, Err(Failed::Broken(anyhow!("broken")))),
                _ => (Act::Update, Ok(Did { written: 7, rows: 0 })),
            }
        };
        let recorded = drive(&clock, plan, |_| Ok(Box::new(some))).unwrap();
        assert_eq!((recorded.refused, recorded.failed, recorded.ops()), (100, 100, 800));
        assert_eq!((recorded.first_failure.as_deref(), recorded.written), (Some("busy"), 5_600));
        let none = |_| {
            clock.advance(Duration::from_millis(10));
            (Act::Read, Err(Failed::Broken(anyhow!("gone"))))
        };
        let error = drive(&clock, plan, |_| Ok(Box::new(none))).unwrap_err();
        assert!(error.to_string().contains("succeeded: gone"), "{error}");
    }

    #[test]
    fn threads_share_the_operations_and_do_each_once() {
        let clock = tabulith::env::clock::SystemClock::new();
        let seen = Mutex::new(Vec::new());
        let plan = Plan { threads: 4, rate: None, ops: Some(1_000), time: None, first: 7 };
        let make = |_| -> Result<Box<Work<'_>>> {
            Ok(Box::new(|number| {
                seen.lock().unwrap().push(number);
                (Act::Insert, Ok(Did::default()))
            }))
        };
        assert_eq!(drive(&clock, plan, make).unwrap().ops(), 1_000);
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(7..1_007));
    }
}

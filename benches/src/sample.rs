//! One run of something for a while: how often it happened, how long one took, what it cost.

use crate::cpu::CpuTimes;
use anyhow::{Context as _, Result};
use hdrhistogram::Histogram;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What one run showed.
#[derive(Clone, Debug)]
pub struct Sample {
    /// How often it happened, in the unit of the case.
    pub ops: u64,
    /// How long that took in all.
    pub elapsed: Duration,
    /// Nanoseconds of one call; of every n-th call where calls are short.
    pub latency_ns: Histogram<u64>,
    /// CPU time used meanwhile.
    pub cpu: CpuTimes,
}

impl Sample {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.ops as f64 / self.elapsed.as_secs_f64()
    }

    /// CPU microseconds per operation: the server's where there is one, else this process's.
    pub fn cpu_us(&self) -> f64 {
        let cpu = if self.cpu.server.is_zero() { self.cpu.own } else { self.cpu.server };
        cpu.as_secs_f64() * 1e6 / self.ops.max(1) as f64
    }

    /// How many cores others kept busy.
    pub fn others_cores(&self) -> f64 {
        self.cpu.others().as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

/// Nanoseconds up to a minute, to 1 %.
pub fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).context("histogram")
}

/// Takes a [`Sample`] of something that is not a loop of short calls.
#[derive(Debug)]
pub struct Meter {
    cpu: CpuTimes,
    start: Instant,
    server: Option<u32>,
}

impl Meter {
    /// Starts now. `server`: the process whose CPU time counts as the server's.
    pub fn start(server: Option<u32>) -> Meter {
        Meter { cpu: CpuTimes::now(server), start: Instant::now(), server }
    }

    /// Ends now.
    pub fn stop(self, ops: u64, latency_ns: Histogram<u64>) -> Sample {
        let elapsed = self.start.elapsed();
        let cpu = CpuTimes::now(self.server).since(self.cpu);
        Sample { ops, elapsed, latency_ns, cpu }
    }
}

/// How a loop is run.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// Threads that call at once.
    pub threads: usize,
    /// How long.
    pub span: Duration,
    /// Every n-th call is timed. Reading the clock takes some 25 ns, so calls that take less than a
    /// few microseconds are timed now and then only.
    pub timed_every: u32,
}

impl Loop {
    /// Calls what `worker` makes for each thread until the time is over. A call returns how many
    /// operations it was.
    pub fn run<C>(self, worker: impl Fn(usize) -> C + Sync) -> Result<Sample>
    where
        C: FnMut() -> Result<u64>,
    {
        let barrier = Barrier::new(self.threads + 1);
        let one = |thread: usize| -> Result<(u64, Histogram<u64>)> {
            let mut call = worker(thread);
            let mut latency_ns = histogram()?;
            let mut ops = 0;
            barrier.wait();
            let start = Instant::now();
            while start.elapsed() < self.span {
                let before = Instant::now();
                ops += call()?;
                latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
                for _ in 1..self.timed_every {
                    ops += call()?;
                }
            }
            Ok((ops, latency_ns))
        };
        std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> =
                (0..self.threads).map(|thread| scope.spawn(move || one(thread))).collect();
            barrier.wait();
            let meter = Meter::start(None);
            let (mut ops, mut latency_ns) = (0, histogram()?);
            for thread in threads {
                let (did, took) = thread.join().ok().context("a measuring thread panicked")??;
                ops += did;
                latency_ns.add(took).context("histogram")?;
            }
            Ok(meter.stop(ops, latency_ns))
        })
    }
}

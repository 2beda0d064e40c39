//! What a stretch of work cost this process: time, CPU, bytes handed to the kernel, memory.

use anyhow::{Context as _, Result};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};
use tabulith_benches::cpu::CpuTimes;
use tabulith_benches::sample::histogram;
use tabulith_results::latency::{Latency, curve};

/// What is compared with what: only lines of one kind promise the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Reads.
    Read,
    /// Commits that have reached the disk when they return.
    Durable,
    /// Commits that promise as little as the engine's fastest mode does.
    Unsynced,
    /// Nothing of an engine: what the machine does by itself.
    Machine,
}

/// One measured number of one engine with what belongs to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// What was done; begins with the workload's number.
    pub name: String,
    /// What `value` counts.
    pub unit: String,
    /// With what it may be compared.
    pub kind: Kind,
    /// The number.
    pub value: f64,
    /// Whether a smaller one is a better one.
    pub less_is_better: bool,
    /// Operations that it is about.
    pub ops: u64,
    /// How long they took.
    pub seconds: f64,
    /// Threads that called at once.
    pub threads: usize,
    /// Microseconds of one call, or of one lap.
    pub latency_us: Latency,
    /// What a lap is, where these are not of a call.
    pub lap: Option<String>,
    /// The percentile curve of these.
    pub curve: Vec<(f64, f64)>,
    /// CPU microseconds of all threads per operation.
    pub cpu_us: f64,
    /// Bytes given to write(2) per byte of keys and values given to the engine.
    pub written_per_byte: Option<f64>,
    /// Bytes of pages made dirty per byte given, as the kernel charges them (`write_bytes`).
    pub dirtied_per_byte: Option<f64>,
    /// Bytes on the disk per byte of live keys and values.
    pub disk_per_byte: Option<f64>,
    /// Most memory that the process had meanwhile, in bytes, mapped files included.
    pub peak_bytes: u64,
    /// Cores that other processes kept busy meanwhile.
    pub others_cores: f64,
    /// What else there is to say.
    pub note: Option<String>,
}

impl Line {
    /// With a remark.
    pub fn note(mut self, note: impl Into<String>) -> Line {
        self.note = Some(note.into());
        self
    }

    /// With how long calls took, in nanoseconds.
    pub fn timed(mut self, latency_ns: &Histogram<u64>) -> Line {
        if !latency_ns.is_empty() {
            self.latency_us = Latency::of(latency_ns);
            self.curve = curve(latency_ns);
        }
        self
    }

    /// With how long the laps of calls took that are too long and too few to say anything by
    /// themselves; `lap` is what one is.
    pub fn in_laps(self, laps: &Laps, lap: &str) -> Line {
        let lap = (!laps.latency_ns.is_empty()).then(|| lap.to_owned());
        Line { lap, ..self }.timed(&laps.latency_ns)
    }

    /// With the bytes that all files below `dir` take now, per byte of `live`.
    pub fn disk(mut self, dir: &Path, live: u64) -> Result<Line> {
        self.disk_per_byte = Some(disk_bytes(dir)? as f64 / live.max(1) as f64);
        Ok(self)
    }
}

/// Rows of a lap. The clock takes some 25 ns, which are 0.1 % of 1,000 rows of the fastest scan.
pub const LAP_ROWS: u64 = 1000;

/// Times the laps of long calls: so many rows each. Rows after the last whole lap of a call do not
/// count, nor does what the call does after its last row.
#[derive(Debug)]
pub struct Laps {
    rows: u64,
    left: u64,
    since: Instant,
    latency_ns: Histogram<u64>,
}

impl Laps {
    /// Laps of `rows` rows; the first one begins now.
    pub fn of(rows: u64) -> Result<Laps> {
        Ok(Laps { rows, left: rows, since: Instant::now(), latency_ns: histogram()? })
    }

    /// A call begins now.
    pub fn begin(&mut self) {
        (self.left, self.since) = (self.rows, Instant::now());
    }

    /// One more row.
    #[inline]
    pub fn row(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            let now = Instant::now();
            self.latency_ns.saturating_record((now - self.since).as_nanos() as u64);
            (self.left, self.since) = (self.rows, now);
        }
    }
}

/// A stretch of work that has begun.
#[derive(Debug)]
pub struct Probe {
    start: Instant,
    cpu: CpuTimes,
    io: Io,
}

impl Probe {
    /// Begins now. What memory the process had before no longer counts as its peak.
    pub fn start() -> Result<Probe> {
        std::fs::write("/proc/self/clear_refs", "5").context("resetting the peak of memory")?;
        Ok(Probe { io: Io::now()?, cpu: CpuTimes::now(None), start: Instant::now() })
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// A line about `ops` operations, in operations per second; `rest` of the time does not count.
    pub fn rate(
        &self,
        kind: Kind,
        name: impl Into<String>,
        unit: &str,
        ops: u64,
        rest: Duration,
    ) -> Result<Line> {
        let seconds = self.elapsed().saturating_sub(rest).as_secs_f64();
        let cpu = CpuTimes::now(None).since(self.cpu);
        Ok(Line {
            name: name.into(),
            unit: unit.to_owned(),
            kind,
            value: ops as f64 / seconds,
            less_is_better: false,
            ops,
            seconds,
            threads: 1,
            latency_us: Latency::default(),
            lap: None,
            curve: Vec::new(),
            cpu_us: cpu.own.as_secs_f64() * 1e6 / ops.max(1) as f64,
            written_per_byte: None,
            dirtied_per_byte: None,
            disk_per_byte: None,
            peak_bytes: peak_bytes()?,
            others_cores: cpu.others().as_secs_f64() / self.elapsed().as_secs_f64(),
            note: None,
        })
    }

    /// The same with the bytes that were written for `given` bytes of keys and values.
    pub fn rate_written(
        &self,
        kind: Kind,
        name: impl Into<String>,
        unit: &str,
        (ops, given): (u64, u64),
        rest: Duration,
    ) -> Result<Line> {
        let mut line = self.rate(kind, name, unit, ops, rest)?;
        let io = Io::now()?;
        let per_byte = |bytes: u64| Some(bytes as f64 / given.max(1) as f64);
        line.written_per_byte = per_byte(io.written - self.io.written);
        line.dirtied_per_byte = per_byte(io.dirtied.saturating_sub(self.io.dirtied));
        Ok(line)
    }

    /// Bytes given to write(2) since it began.
    pub fn written(&self) -> Result<u64> {
        Ok(Io::now()?.written - self.io.written)
    }

    /// A line about how long one thing took, in milliseconds.
    pub fn took(&self, kind: Kind, name: impl Into<String>, time: Duration) -> Result<Line> {
        let mut line = self.rate(kind, name, "ms", 1, Duration::ZERO)?;
        line.value = time.as_secs_f64() * 1e3;
        line.seconds = time.as_secs_f64();
        line.less_is_better = true;
        Ok(line)
    }
}

/// Bytes on the disk of all files below `dir`: blocks, for a map's file is larger than what it
/// holds.
pub fn disk_bytes(dir: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        // A file may be deleted while this looks at it.
        let Ok(entry) = entry else { continue };
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += match metadata.is_dir() {
            true => disk_bytes(&entry.path()).unwrap_or(0),
            false => metadata.blocks() * 512,
        };
    }
    Ok(bytes)
}

/// Counters of `/proc/self/io`.
#[derive(Clone, Copy, Debug)]
struct Io {
    written: u64, // `wchar`: bytes given to write(2) and its like.
    dirtied: u64, // `write_bytes`: charges whole folios, so it is wrong for small writes.
}

impl Io {
    fn now() -> Result<Io> {
        let text = std::fs::read_to_string("/proc/self/io").context("reading /proc/self/io")?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        Ok(Io { written: field("wchar"), dirtied: field("write_bytes") })
    }
}

fn peak_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.context("no peak of memory in /proc/self/status")? << 10)
}

//! W13: values of 64 and of 512 KiB.

use crate::engine::{Change, Direction, Promise};
use crate::probe::{Kind, Line, Probe};
use crate::rows::{self, KeyBuf, Values};
use crate::work::{self, Cap, Context, bytes_of};
use anyhow::{Result, ensure};
use std::time::Instant;
use tabulith::env::rng::Rng;
use tabulith_benches::sample::histogram;

/// Bytes of all values at scale 1.
const BYTES: u64 = 256 << 20;

/// Puts, one a commit, then gets of random ones.
pub fn all(context: &Context) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for kib in [64, 512] {
        let value_bytes = kib << 10;
        let mut settings = context.settings(Promise::Unsynced);
        settings.large_values = true;
        let engine = context.fresh(&format!("{kib}"), &settings)?;
        let count = context.scaled(BYTES / value_bytes as u64, 20);
        let (mut key, mut values) = (KeyBuf::default(), Values::new(value_bytes, context.seed));
        let (mut latency_ns, cap, probe) = (histogram()?, Cap::new(context), Probe::start()?);
        let mut written = 0;
        while written < count && !cap.is_over() {
            let value = values.value(written, 0);
            let before = Instant::now();
            engine.write(&[Change::Put(key.row(written), value)])?;
            latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
            written += 1;
        }
        let rest = engine.settle()?;
        let given = bytes_of(written, value_bytes);
        let name = format!("W13 put {kib} KiB, settled");
        let counts = (written, given);
        let line = probe.rate_written(Kind::Unsynced, name, "MB/s", counts, rest)?;
        let line = line.disk(&context.dir.join(format!("{kib}")), given)?;
        let line = line.timed(&latency_ns);
        lines.push(in_megabytes(line, value_bytes));

        let name = format!("W13 get {kib} KiB");
        let named = (Kind::Read, name.as_str(), "MB/s");
        let (engine, values) = (&*engine, written);
        work::warm(context, engine, values, value_bytes)?;
        let line = work::run(context, named, 1, 1, 0, |_| {
            let (mut rng, mut key) = (Rng::seeded(context.seed), KeyBuf::default());
            let mut copy = vec![0; value_bytes];
            move || {
                let i = rng.below(values);
                let mut bytes = 0;
                engine.get(key.row(i), &mut |value| {
                    bytes = value.len();
                    // Every byte is looked at: a map would otherwise touch one page of many.
                    if bytes == copy.len() {
                        copy.copy_from_slice(value);
                    }
                })?;
                let read = rows::row_of(&copy);
                ensure!(bytes == value_bytes && read == i, "value {i} is {read}, {bytes} bytes");
                Ok(1)
            }
        })?;
        lines.push(in_megabytes(line, value_bytes));
        let there = work::sum(engine, Direction::Forward)?.rows;
        ensure!(there == written, "{there} of {written} values are there");
    }
    Ok(lines)
}

/// Values per second as bytes per second.
fn in_megabytes(line: Line, value_bytes: usize) -> Line {
    Line { value: line.value * value_bytes as f64 / 1e6, ..line }
}

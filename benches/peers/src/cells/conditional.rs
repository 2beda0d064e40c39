//! W17: read a row, compare, write: on the rows of one hot partition, by 1 to 8 threads.

use crate::cells::durable::{longer, use_log};
use crate::engine::{Engine, Promise};
use crate::probe::{Kind, Line};
use crate::rows::{self, KeyBuf, PARTITION_ROWS, Values, size_of};
use crate::work::{self, Context, bytes_of};
use anyhow::{Result, ensure};
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::env::rng::Rng;

/// As fast as the engine goes.
pub fn unsynced(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    measure(context, value_bytes, (Promise::Unsynced, Kind::Unsynced), &[1, 2, 4, 8])
}

/// Each on the disk when it returns.
pub fn durable(context: &Context, value_bytes: usize) -> Result<Vec<Line>> {
    measure(&longer(context), value_bytes, (Promise::Durable, Kind::Durable), &[1, 8])
}

fn measure(
    context: &Context,
    value_bytes: usize,
    (promise, kind): (Promise, Kind),
    threads: &[usize],
) -> Result<Vec<Line>> {
    let mut settings = context.settings(promise);
    settings.conditional = true;
    let engine = context.fresh("rows", &settings)?;
    let mut values = Values::new(value_bytes, context.seed);
    work::write_rows(&*engine, &mut values, 0..PARTITION_ROWS, 0)?;
    if promise == Promise::Durable {
        use_log(context, &*engine, (PARTITION_ROWS, value_bytes))?;
    }
    let (won, lost) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut lines = Vec::new();
    for (at, &threads) in threads.iter().enumerate() {
        let how = if kind == Kind::Durable { "durable " } else { "" };
        let size = size_of(value_bytes);
        let name = format!("W17 {how}conditional updates{size}, threads: {threads}");
        let named = (kind, name.as_str(), "updates/s");
        let (engine, won, lost): (&dyn Engine, _, _) = (&*engine, &won, &lost);
        let lost_before = lost.load(Ordering::Relaxed);
        let every = if kind == Kind::Durable { 1 } else { 4 };
        let line = work::run(context, named, threads, every, bytes_of(1, value_bytes), |thread| {
            let seed = context.seed_of(at, thread);
            let (mut rng, mut values) = (Rng::seeded(seed), Values::new(value_bytes, seed));
            let mut key = KeyBuf::default();
            move || {
                let i = rng.below(PARTITION_ROWS);
                let mut revise = |old: &[u8], new: &mut Vec<u8>| {
                    new.extend_from_slice(values.value(i, rows::revision_of(old) + 1));
                };
                while !engine.revise(key.row(i), &mut revise)? {
                    lost.fetch_add(1, Ordering::Relaxed);
                }
                won.fetch_add(1, Ordering::Relaxed);
                Ok(1)
            }
        })?;
        let lost = lost.load(Ordering::Relaxed) - lost_before;
        let note = (lost > 0).then(|| format!("{lost} tries lost"));
        lines.push(Line { note, ..line });
    }
    let revisions = work::revisions(&*engine)?;
    ensure!(revisions == won.into_inner(), "updates were lost: {revisions} are there");
    engine.close()?;
    Ok(lines)
}

//! `tabulith bench keys`: keys from a file or a pattern, judged beside candidates.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads the user's file of keys"
)]

use crate::args::bench::KeysArgs;
use crate::args::output::Output;
use crate::bench::advice::{Candidate, Effect, Written, candidates, effect, verdict};
use crate::bench::figures::short;
use crate::bench::pattern::Pattern;
use crate::exit::{Exit, Failure};
use crate::list;
use crate::print::{self, note};
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use tabulith::env::rng::Rng;

/// Longest line of a file of keys, in bytes: two keys of 1,024 characters, and then some.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// Judges.
pub(crate) fn run(args: &KeysArgs) -> Result<Exit> {
    let writes = match (&args.file, &args.partition_key) {
        (Some(path), _) => recorded(path, args.writes)?,
        (None, Some(partition)) => described(args, partition)?,
        (None, None) => {
            return Err(Failure::usage("--partition-key or --file names the keys").into());
        }
    };
    if writes.is_empty() {
        return Err(Failure::usage("there are no keys to judge").into());
    }
    let judged: Vec<(Candidate, Effect)> = candidates(args.buckets)
        .into_iter()
        .map(|candidate| {
            let effect = effect(&writes, |write| candidate.partition(write));
            (candidate, effect)
        })
        .collect();
    let items: Vec<Map<String, Json>> =
        judged.iter().map(|(candidate, effect)| item(candidate, effect, args.output)).collect();
    list::print(&mut print::out(), args.output, &items)?;
    verdict(&judged, args.rate).iter().for_each(|line| note(line));
    Ok(Exit::Ok)
}

fn described(args: &KeysArgs, partition: &str) -> Result<Vec<Written>> {
    let parse = |flag: &str, text: &str| {
        Pattern::parse(text).map_err(|error| Failure::usage(format!("{flag}: {error}")))
    };
    let partition = parse("--partition-key", partition)?;
    let row = parse("--row-key", &args.row_key)?;
    let mut rng = Rng::seeded(args.seed);
    let write = |number| Written {
        partition: partition.key(number, args.rate, &mut rng),
        row: row.key(number, args.rate, &mut rng),
    };
    Ok((0..args.writes).map(write).collect())
}

fn recorded(path: &Path, most: u64) -> Result<Vec<Written>> {
    let named = || format!("reading {}", path.display());
    let mut input: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(path).with_context(named)?)),
    };
    let mut writes = Vec::new();
    let mut line = Vec::new();
    while (writes.len() as u64) < most {
        line.clear();
        let read = io::Read::take(&mut input, LINE_BYTES_MAX).read_until(b'\n', &mut line);
        let read = read.with_context(named)?;
        if read == 0 {
            break;
        }
        if read as u64 == LINE_BYTES_MAX {
            let number = writes.len() + 1;
            return Err(Failure::usage(format!(
                "{}:{number}: a line too long for keys",
                path.display()
            ))
            .into());
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.is_empty() {
            let (partition, row) = text.split_once('\t').unwrap_or((text, ""));
            writes.push(Written { partition: partition.to_owned(), row: row.to_owned() });
        }
    }
    Ok(writes)
}

fn item(candidate: &Candidate, effect: &Effect, form: Output) -> Map<String, Json> {
    let places = match candidate.places {
        Some(places) => json!(places),
        None => json!("no longer"),
    };
    // For people as percentages, for programs as numbers.
    let share = |share: f64| match form {
        Output::Table => json!(format!("{:.1} %", share * 100.0)),
        _ => json!((share * 1e6).round() / 1e6),
    };
    let fits = match form {
        Output::Table => json!(short(effect.fits())),
        _ => json!(effect.fits().round()),
    };
    let value = json!({
        "keys": candidate.name,
        "partitions": effect.partitions,
        "hottest": share(effect.hottest),
        "at_a_moment": share(effect.at_a_moment),
        "writes_that_fit": fits,
        "partition_keys": effect.shape.name(),
        "row_keys": effect.rows.name(),
        "range_in_places": places,
    });
    value.as_object().cloned().unwrap_or_default()
}

//! `cargo run --release -p tabulith-benches --bin baseline`: measures disk, engine and server in
//! turns and prints one Markdown table. docs/benchmarks.md says how to read it.

#![allow(clippy::disallowed_methods, reason = "a program of measurements, as the library says")]

use anyhow::{Context as _, Result};
use clap::Parser;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tabulith_benches::case::{self, Case, Plan};
use tabulith_benches::cases::{commits, disk, filters, floors, import, reads, server};
use tabulith_benches::{machine, report, serve};

/// Measures what the engine and the server do on this machine, beside what the disk can.
#[derive(Debug, Parser)]
struct Args {
    /// Measure only one group (disk, floor, durable, unsynced, read, filter, import, server) or the
    /// cases whose names hold this text. May be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Factor on all row counts.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Length of one sample, in seconds.
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// Samples per case, taken in turns.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where random choices start from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder on the disk to be measured; what is made there is removed again. By default `target`.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Also write one line of JSON per case to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(subcommand)]
    itself: Option<serve::Itself>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(itself) = &args.itself {
        return serve::main(itself);
    }
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from("target"));
    std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    let temporary = tempfile::Builder::new().prefix("baseline-").tempdir_in(&dir)?;
    let plan = Plan {
        dir: temporary.path().to_owned(),
        scale: args.scale,
        span: Duration::from_secs_f64(args.seconds),
        rounds: args.rounds,
        seed: args.seed,
    };
    let facts = machine::facts(&dir);
    let cases = cases(&plan, &args.only)?;
    let count = cases.len();
    let mut at = 0;
    let measured = case::run(cases, &plan, |round, case| {
        at += 1;
        let of = count * (args.rounds + 1);
        let _ = writeln!(std::io::stderr(), "{at}/{of} round {round}: {}", case.name);
    })?;
    let mut out = std::io::stdout().lock();
    for (name, value) in facts {
        writeln!(out, "- {name}: {value}")?;
    }
    writeln!(
        out,
        "- scale {}, {} rounds of {} s after one that warms up, seed {}",
        args.scale, args.rounds, args.seconds, args.seed
    )?;
    writeln!(out, "- durability Synced unless a line says otherwise; defaults of `Options`")?;
    writeln!(out, "\n{}", report::markdown(&measured)?)?;
    if let Some(path) = args.json {
        std::fs::write(&path, report::json_lines(&measured)?)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// All cases whose name holds one of `only`. A group is prepared only if it has one.
fn cases(plan: &Plan, only: &[String]) -> Result<Vec<Case>> {
    type Group = fn(&Plan) -> Result<Vec<Case>>;
    let groups: [(&str, Group); 8] = [
        ("disk", disk::cases),
        ("floor", floors::cases),
        ("durable", commits::durable),
        ("unsynced", commits::unsynced),
        ("read", reads::cases),
        ("filter", filters::cases),
        ("import", import::cases),
        ("server", server::cases),
    ];
    let mut cases = Vec::new();
    for (name, group) in groups {
        // `--only read` is all of that group; any other text is looked for in the cases' names.
        let whole = only.is_empty() || only.iter().any(|text| text == name);
        let elsewhere = only.iter().all(|text| groups.iter().any(|(name, _)| text == name));
        if !whole && elsewhere {
            continue;
        }
        let wanted = |case: &Case| whole || only.iter().any(|text| case.name.contains(text));
        cases.extend(group(plan)?.into_iter().filter(wanted));
    }
    anyhow::ensure!(!cases.is_empty(), "no case has {only:?} in its name");
    Ok(cases)
}

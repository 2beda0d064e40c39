//! What `cargo dev soak` was asked for, and the loop that does it.

use super::layers::{LAYERS, Layer};
use super::ledger::{Ledger, Turn};
use super::report;
use super::turn::{self, Built};
use crate::repo;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const USAGE: &str = "\
cargo dev soak --hours N [--turns N] [--only LAYER,LAYER] [--ledger FILE] [--base N] [--profile P]
                  every random test with fresh seeds, in turns, until the time is up or one fails;
                  the ledger (target/soak/ledger.jsonl) keeps seeds and counts, and the next soak
                  goes on from it; --base N begins one with the seeds of another
cargo dev soak --report [--ledger FILE]
                  writes the ledger's figures into RELIABILITY.md
cargo dev soak --list
                  the layers there are
";

/// The flags of a soak.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    hours: Option<f64>,
    turns: Option<u64>,
    only: Vec<String>,
    ledger: Option<PathBuf>,
    base: Option<u64>,
    profile: Option<String>,
    report: bool,
    list: bool,
}

/// Does what `args` ask for.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    if args.iter().any(|arg| matches!(arg.as_str(), "help" | "-h" | "--help")) {
        print!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    let asked = parse(args)?;
    let root = repo::root()?;
    let path = asked.ledger.clone().unwrap_or_else(|| root.join("target/soak/ledger.jsonl"));
    if asked.list {
        for layer in LAYERS {
            println!("{:<10} {}", layer.name, layer.asks);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let found = Ledger::read(&path)?;
    if asked.report {
        let ledger = found.with_context(|| format!("there is no ledger at {}", path.display()))?;
        report::write(&root, &ledger)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ledger = match (found, asked.base) {
        (Some(ledger), base) if base.is_none_or(|base| base == ledger.base) => ledger,
        (Some(ledger), _) => bail!("the seeds of {} come from {}", path.display(), ledger.base),
        (None, base) => Ledger::begin(&path, base.unwrap_or_else(fresh_base))?,
    };
    soak(&root, &asked, ledger, &path)
}

fn parse(args: &[String]) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        match flag.as_str() {
            "--report" => asked.report = true,
            "--list" => asked.list = true,
            "--hours" | "--turns" | "--only" | "--ledger" | "--base" | "--profile" => {
                let value = args.next().with_context(|| format!("{flag} what?"))?;
                let wrong = || format!("{flag} {value}?");
                match flag.as_str() {
                    "--hours" => asked.hours = Some(value.parse().with_context(wrong)?),
                    "--turns" => asked.turns = Some(value.parse().with_context(wrong)?),
                    "--base" => asked.base = Some(value.parse().with_context(wrong)?),
                    "--only" => asked.only = value.split(',').map(str::to_owned).collect(),
                    "--ledger" => asked.ledger = Some(value.into()),
                    _ => asked.profile = Some(value.clone()),
                }
            }
            _ => bail!("no flag of a soak is called {flag}\n\n{USAGE}"),
        }
    }
    if let Some(name) = asked.only.iter().find(|name| !LAYERS.iter().any(|l| l.name == **name)) {
        let names: Vec<_> = LAYERS.iter().map(|layer| layer.name).collect();
        bail!("no layer is called {name}; there are: {}", names.join(" "));
    }
    if asked.hours.is_none() && asked.turns.is_none() && !asked.report && !asked.list {
        bail!("for how long?\n\n{USAGE}");
    }
    Ok(asked)
}

/// Turn after turn, the layer with the least time first.
fn soak(root: &Path, asked: &Asked, mut ledger: Ledger, path: &Path) -> Result<ExitCode> {
    let named =
        |layer: &&Layer| asked.only.is_empty() || asked.only.iter().any(|n| n == layer.name);
    let layers: Vec<&Layer> = LAYERS.iter().filter(named).collect();
    let profile = asked.profile.as_deref().unwrap_or("soak");
    let mut tests = BTreeMap::<&str, Built>::new();
    for layer in &layers {
        tests.insert(layer.name, turn::build(root, layer, profile)?);
    }
    let commit = commit(root)?;
    println!("soak: {commit}, ledger {}, seeds from {}", path.display(), ledger.base);
    let start = Instant::now();
    let time = asked.hours.map_or(Duration::MAX, |hours| Duration::from_secs_f64(hours * 3600.0));
    let mut done = 0;
    while start.elapsed() < time && asked.turns.is_none_or(|turns| done < turns) {
        let layer = ledger.next(&layers).context("no layer is left")?;
        let test = tests.get(layer.name).context("a layer that was not built")?;
        let (number, seed) = ledger.fresh(layer);
        let log = path.with_file_name(format!("{}-{number}.log", layer.name));
        let began = Instant::now();
        let outcome = test.run(layer, seed, &log)?;
        let seconds = began.elapsed().as_secs_f64();
        let told: Vec<_> = outcome
            .counts
            .iter()
            .map(|(what, n)| format!("{what} {}", report::grouped(*n)))
            .collect();
        let told = told.join(", ");
        println!("{:<10} turn {number:<4} seed {seed:<15} {seconds:>7.1} s  {told}", layer.name);
        let failure = outcome.failed;
        ledger.add(Turn {
            layer: layer.name.to_owned(),
            number,
            seed,
            commit: commit.clone(),
            at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            seconds,
            counts: outcome.counts,
            failed: failure.as_ref().map(|failure| failure.replay.clone()),
        })?;
        done += 1;
        if let Some(failure) = failure {
            println!("{}\nfailed: {}; {}", report::render(&ledger), layer.name, failure.what);
            println!("what it said: {}", log.display());
            if failure.again != failure.replay {
                println!("the whole turn: {}", failure.again.trim_start_matches("replay: "));
            }
            println!("{}", failure.replay);
            return Ok(ExitCode::FAILURE);
        }
        std::fs::remove_file(&log)?;
    }
    println!("{}", report::render(&ledger));
    Ok(ExitCode::SUCCESS)
}

/// The commit that is tested; a tree that is not it says so.
fn commit(root: &Path) -> Result<String> {
    let args = ["describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"];
    let output = Command::new("git").current_dir(root).args(args).output();
    let text = output.context("cannot start git")?.stdout;
    Ok(String::from_utf8(text)?.trim().to_owned())
}

/// A base that no other soak has.
fn fresh_base() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64) ^ u64::from(std::process::id()) << 40
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_read() {
        let found =
            asked("--hours 0.5 --only crash,kill --ledger a.jsonl --base 3").expect("flags");
        let expected = Asked {
            hours: Some(0.5),
            only: vec!["crash".into(), "kill".into()],
            ledger: Some("a.jsonl".into()),
            base: Some(3),
            ..Asked::default()
        };
        assert_eq!(found, expected);
        assert!(asked("--report").expect("flags").report);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in
            ["", "--hours", "--hours x", "--only crash", "--hours 1 --only nothing", "--soon"]
        {
            assert!(asked(line).is_err(), "{line}");
        }
    }
}

//! `cargo run --release -p tabulith-fuzz -- TARGET --runs N --seed S`: one target for as long as
//! wanted. `all` runs every target; `seeds` writes the corpus of the binary formats.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::path::Path;
use std::process::ExitCode;
use tabulith_fuzz::targets::list::{TARGETS, Target, find};
use tabulith_fuzz::{corpus, drive, seeds};

const USAGE: &str = "tabulith-fuzz TARGET|all [--runs N] [--seed S] [--from I]\n\
                     tabulith-fuzz TARGET --input FILE\n\
                     tabulith-fuzz seeds";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match obey(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("{why}\n{USAGE}\ntargets: {}", names.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn obey(args: &[String]) -> Result<(), String> {
    let (name, flags) = args.split_first().ok_or("which target?")?;
    if name == "seeds" {
        return write_seeds();
    }
    let targets: Vec<&'static Target> = match name.as_str() {
        "all" => TARGETS.iter().collect(),
        name => vec![find(name).ok_or_else(|| format!("no target is called {name}"))?],
    };
    let flag = |name: &str| {
        let at = flags.iter().position(|flag| flag == name)?;
        flags.get(at + 1)
    };
    let number = |name: &str, default: u64| match flag(name) {
        Some(text) => text.replace('_', "").parse().map_err(|_| format!("{name} {text}?")),
        None => Ok(default),
    };
    let (seed, from) = (number("--seed", 1)?, number("--from", 0)?);
    for target in targets {
        if let Some(path) = flag("--input") {
            let input =
                corpus::read(Path::new(path)).map_err(|error| format!("{path}: {error}"))?;
            drive::one_input(target, format!("--input {path}"), input);
            println!("{}: {path} passes", target.name);
            continue;
        }
        let runs = number("--runs", target.runs)?;
        let done = drive::run(target, seed, from, runs).map_err(|error| error.to_string())?;
        println!("{}", line(target, seed, &done));
    }
    Ok(())
}

fn line(target: &Target, seed: u64, done: &drive::Done) -> String {
    let slowest = match done.slowest_at {
        Some(index) => format!("number {index}"),
        None => "of the corpus".to_owned(),
    };
    format!(
        "{}: {} of the corpus and {} made from seed {seed} pass in {:.1} s; the slowest, {slowest}, took {} us, and none more than {} KiB",
        target.name,
        done.corpus,
        done.made,
        done.time.as_secs_f64(),
        done.slowest.as_micros(),
        done.most_held >> 10
    )
}

fn write_seeds() -> Result<(), String> {
    for (target, name, input) in seeds::all().map_err(|error| error.to_string())? {
        let target = find(target).ok_or_else(|| format!("no target is called {target}"))?;
        corpus::save(target, &name, &input).map_err(|error| error.to_string())?;
        println!("corpus/{}/{name}: {} bytes", target.name, input.len());
    }
    Ok(())
}

//! One turn of a layer: its test as a process of its own, with a seed, and what it said.

use super::layers::{Layer, Program};
use crate::models;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tabulith_testkit::counts;
use tabulith_testkit::seed::SEED_VARIABLE;

/// A turn that takes longer hangs. A machine may stand still for a while.
const TURN_MAX: Duration = Duration::from_secs(2 * 3600);

/// A layer's test, built.
#[derive(Debug)]
pub(crate) struct Built {
    program: PathBuf,
    /// Where `cargo test` would run it.
    folder: PathBuf,
    profile: String,
}

/// What a turn came to.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) counts: BTreeMap<String, u64>,
    /// Why it failed, if it did, and the line that replays it.
    pub(crate) failed: Option<Failure>,
}

/// A failure as it is told.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) what: String,
    pub(crate) replay: String,
    /// The command that runs the whole turn again.
    pub(crate) again: String,
}

/// Builds the test of `layer`.
pub(crate) fn build(root: &Path, layer: &Layer, profile: &str) -> Result<Built> {
    let args = ["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root).args(args).args(["--profile", profile, "-p", layer.package]);
    let name = match layer.test {
        Program::Tests(file) => {
            command.args(["--test", file]);
            file
        }
        Program::Models(checker) => {
            command.arg("--lib");
            models::set(&mut command, root, checker)?;
            layer.package
        }
    };
    command.stderr(Stdio::inherit());
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{}: the test cannot be built", layer.name);
    }
    let messages = String::from_utf8(output.stdout)?;
    let built = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let found = built.filter(|message| message["target"]["name"] == name).find_map(|message| {
        let program = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Built { program, folder, profile: profile.to_owned() })
    });
    found.with_context(|| format!("{}: cargo names no test program", layer.name))
}

impl Built {
    /// Runs the test with `seed`. All that it says goes to the file `log`.
    pub(crate) fn run(&self, layer: &Layer, seed: u64, log: &Path) -> Result<Outcome> {
        let out = fs::File::create(log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).arg("--nocapture").args(words(layer.only));
        command.envs(sizes(layer)).env(SEED_VARIABLE, seed.to_string());
        command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
        let ended = wait(command)?;
        let said = String::from_utf8_lossy(&fs::read(log)?).into_owned();
        let what = match ended {
            None => Some(format!("it did not end within {} s", TURN_MAX.as_secs())),
            Some(status) if !status.success() => Some(format!("it failed: {status}")),
            Some(_) => None,
        };
        Ok(judge(layer, &said, what, &self.again(layer, seed)))
    }

    /// The command that runs the same turn again.
    fn again(&self, layer: &Layer, seed: u64) -> String {
        let sizes: String =
            sizes(layer).map(|(variable, value)| format!("{variable}={value} ")).collect();
        let (package, only) = (layer.package, layer.only);
        let test = match layer.test {
            Program::Tests(test) => test,
            Program::Models(checker) => {
                return format!("replay: {SEED_VARIABLE}={seed} {sizes}cargo dev {checker}");
            }
        };
        let profile = match self.profile.as_str() {
            "dev" => String::new(),
            other => format!("--profile {other} "),
        };
        let line = format!(
            "replay: {SEED_VARIABLE}={seed} {sizes}cargo test {profile}-p {package} --test {test} {only}"
        );
        format!("{} -- --nocapture", line.trim_end())
    }
}

fn words(only: &str) -> Option<&str> {
    (!only.is_empty()).then_some(only)
}

fn sizes(layer: &Layer) -> impl Iterator<Item = (&'static str, String)> {
    layer.sizes.iter().map(|(variable, value)| (*variable, value.to_string()))
}

/// Runs to the end; `None` where it had to be ended.
fn wait(mut command: Command) -> Result<Option<ExitStatus>> {
    let mut child = command.spawn().context("cannot start the test")?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let ended = child.wait();
        let _ = sender.send(());
        ended
    });
    let in_time = receiver.recv_timeout(TURN_MAX).is_ok();
    if let (false, Some(pid)) = (in_time, pid) {
        let _ = kill_process(pid, Signal::KILL); // It may have ended just now.
    }
    let ended = waiting.join().map_err(|_| anyhow::anyhow!("the wait for the test panicked"))??;
    Ok(in_time.then_some(ended))
}

/// What a turn's output means. `what`: how the process failed, if it did.
fn judge(layer: &Layer, said: &str, what: Option<String>, again: &str) -> Outcome {
    let counts = counts_of(layer.name, said);
    let short = |(name, floor): &(&str, u64)| {
        let number = counts.get(*name).copied().unwrap_or(0);
        (number < *floor).then(|| format!("it counted {number} {name}, fewer than {floor}"))
    };
    let failed = what.or_else(|| layer.floors.iter().find_map(short)).map(|what| {
        let told = said.lines().find(|line| line.starts_with("replay: "));
        Failure { what, replay: told.unwrap_or(again).to_owned(), again: again.to_owned() }
    });
    Outcome { counts, failed }
}

/// The sums of all lines `counted: NAME what=number …`.
fn counts_of(layer: &str, said: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in said.lines() {
        // A line of the test program's own may stand before it: `test a::b ... counted: …`.
        let Some((_, told)) = line.split_once(counts::MARK) else { continue };
        let mut words = told.split_whitespace();
        if words.next() != Some(layer) {
            continue;
        }
        for (what, number) in words.filter_map(|word| word.split_once('=')) {
            *counts.entry(what.to_owned()).or_default() += number.parse().unwrap_or(0);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYER: Layer = Layer {
        name: "crash",
        asks: "",
        package: "p",
        test: Program::Tests("t"),
        only: "",
        sizes: &[("SIZE", 3)],
        floors: &[("states", 10)],
    };

    fn failed(said: &str, what: Option<&str>) -> Option<Failure> {
        judge(&LAYER, said, what.map(str::to_owned), "replay: again").failed
    }

    #[test]
    fn counts_of_all_lines_are_added_up() {
        let said = "test a ... counted: crash states=7 deep=1\nnoise\ncounted: crash states=4\n\
                    counted: other states=9\n";
        let outcome = judge(&LAYER, said, None, "replay: again");
        let counts = [("deep".to_owned(), 1), ("states".to_owned(), 11)];
        assert_eq!(outcome, Outcome { counts: BTreeMap::from(counts), failed: None });
    }

    #[test]
    fn a_turn_that_ran_nothing_fails() {
        let failure = failed("all is well\n", None).expect("a failure");
        assert_eq!(failure.what, "it counted 0 states, fewer than 10");
        assert_eq!(failure.replay, "replay: again");
    }

    #[test]
    fn the_test_s_own_replay_line_is_the_better_one() {
        let said = "counted: crash states=11\nreplay: TABULITH_SEED=4 cargo test -p p\n";
        let failure = failed(said, Some("it failed")).expect("a failure");
        assert_eq!(failure.replay, "replay: TABULITH_SEED=4 cargo test -p p");
    }

    #[test]
    fn a_turn_is_replayed_with_its_seed_and_size() {
        let (program, folder) = (PathBuf::new(), PathBuf::new());
        let built = |profile: &str| Built {
            program: program.clone(),
            folder: folder.clone(),
            profile: profile.to_owned(),
        };
        let again = built("dev").again(&LAYER, 5);
        let line = "TABULITH_SEED=5 SIZE=3 cargo test -p p --test t -- --nocapture";
        assert_eq!(again, format!("replay: {line}"));
        assert!(built("release").again(&LAYER, 5).contains("cargo test --profile release -p p"));
        let models = Layer { test: Program::Models("shuttle"), ..LAYER };
        let line = "replay: TABULITH_SEED=5 SIZE=3 cargo dev shuttle";
        assert_eq!(built("soak").again(&models, 5), line);
    }
}

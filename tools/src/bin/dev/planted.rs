//! `cargo dev planted`: one build that holds every planted bug, and for each a run of the test that
//! must find it. A bug that is not found fails, and so does one that something else fell over.
//!
//! Tests of the engine are first run with no bug chosen. That is what sees that an alarm is the
//! bug's, and what a build without the engine's features does, which all other tests have.
//!
//! A run may take half a minute of both cores, and is ended as soon as the test gives alarm: what
//! it would do then, such as looking for a shorter list of operations, tells nothing here.

use crate::bugs::{BUGS, Bug, Test};
use crate::{cfg, repo};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What a bug may take to be found, in time of a processor: half a minute of two cores.
const CPU_MAX: Duration = Duration::from_secs(60);
/// Where a machine does not tell what a process took, or it does nothing.
const WALL_MAX: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Ticks of /proc in a second, on every Linux there is.
const TICKS_PER_SECOND: u64 = 100;

/// The engine's package.
const ENGINE: &str = "tabulith";

/// Tests of the engine in which all is well as long as no bug is chosen.
struct Control {
    /// As in `Test`.
    program: &'static str,
    /// Parts of names; none are all.
    names: &'static [&'static str],
    /// The variable that says how much of them, and how much.
    size: Option<(&'static str, &'static str)>,
}

const CONTROLS: [Control; 4] = [
    Control { program: "golden", names: &[], size: None },
    // Their blocks are packed with LZ4 here, with zstd where it is built in.
    Control { program: "lib", names: &["sstable::", "compress::"], size: None },
    Control { program: "oracle", names: &[], size: Some(("TABULITH_ORACLE_OPS", "300000")) },
    Control {
        program: "crash",
        names: &["enumeration::every_crash_leaves"],
        size: Some(("TABULITH_CRASH_STATES", "60000")),
    },
];

/// Where the test programs are, by package and name.
type Programs = BTreeMap<(String, String), Program>;

struct Program {
    file: PathBuf,
    /// Where cargo would run it.
    dir: PathBuf,
}

/// How a run went.
struct Outcome {
    /// The line that gave alarm.
    alarm: Option<String>,
    /// All that it said.
    said: Vec<String>,
    took: Duration,
    ended: &'static str,
}

/// Plants the bugs that `words` ask for: names, or `--rotate N`, or all. Before any that nobody
/// named the engine's tests are run without one.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let root = repo::root()?;
    let bugs = choose(words, &root)?;
    let named = words.first().is_some_and(|word| word != "--rotate");
    let controls = if named { &[] } else { CONTROLS.as_slice() };
    let programs = build(&root, &bugs, controls)?;
    for control in controls {
        run_without(control, find(&programs, ENGINE, control.program)?)?;
    }
    let mut missed = Vec::new();
    for bug in &bugs {
        let outcome = run_one(bug, find(&programs, bug.test.package, bug.test.program)?)?;
        let seconds = outcome.took.as_secs_f64();
        let Test { program, name, .. } = bug.test;
        match &outcome.alarm {
            Some(alarm) => println!(
                "{} {}: caught by {}, {program} {name}, in {seconds:.1} s: {}",
                bug.id,
                bug.story,
                bug.layer,
                cut(alarm)
            ),
            None => {
                println!(
                    "{} {}: NOT CAUGHT by {}, {program} {name}, in {seconds:.1} s: {}",
                    bug.id, bug.story, bug.layer, outcome.ended
                );
                let last = outcome.said.len().saturating_sub(30);
                outcome.said[last..].iter().for_each(|line| println!("    {line}"));
                missed.push(bug.id);
            }
        }
    }
    println!("planted: {} of {} bugs caught", bugs.len() - missed.len(), bugs.len());
    if bugs.is_empty() || !missed.is_empty() {
        bail!("not caught: {missed:?}");
    }
    Ok(())
}

fn choose(words: &[String], root: &Path) -> Result<Vec<&'static Bug>> {
    if let [flag, count] = words
        && flag == "--rotate"
    {
        let count: usize = count.parse().context("--rotate takes a number")?;
        if count == 0 || count > BUGS.len() {
            bail!("there are {} bugs", BUGS.len());
        }
        let first = turn(root)? as usize * count;
        return Ok((first..first + count).map(|n| &BUGS[n % BUGS.len()]).collect());
    }
    if words.is_empty() {
        return Ok(BUGS.iter().collect());
    }
    let named = |word: &String| {
        BUGS.iter().find(|bug| bug.id == word).with_context(|| format!("no bug is called {word}"))
    };
    words.iter().map(named).collect()
}

/// How often it was the turn of others: the number of commits, so that a red build repeats.
fn turn(root: &Path) -> Result<u64> {
    let count =
        Command::new("git").args(["rev-list", "--count", "HEAD"]).current_dir(root).output();
    let text = String::from_utf8(count.context("git does not start")?.stdout)?;
    text.trim().parse().context("git does not say how many commits there are")
}

/// Builds the tests of `bugs` and `controls` with all bugs in them.
fn build(root: &Path, bugs: &[&Bug], controls: &[Control]) -> Result<Programs> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut programs = Programs::new();
    let mut packages = BTreeMap::<&str, BTreeSet<&str>>::new();
    let of_bugs = bugs.iter().map(|bug| (bug.test.package, bug.test.program));
    let of_controls = controls.iter().map(|control| (ENGINE, control.program));
    for (package, program) in of_bugs.chain(of_controls) {
        packages.entry(package).or_default().insert(program);
    }
    for (package, names) in packages {
        let mut command = Command::new(&cargo);
        command.args(["test", "--no-run", "--quiet", "--locked", "--message-format=json"]);
        command.args(["--package", package]).current_dir(root);
        for name in names {
            match name {
                "lib" => command.arg("--lib"),
                name => command.args(["--test", name]),
            };
        }
        cfg::set(&mut command, root, "bug=\"any\"")?;
        let built = command.stderr(Stdio::inherit()).output().context("cargo does not start")?;
        if !built.status.success() {
            bail!("the build with planted bugs failed");
        }
        let text = String::from_utf8(built.stdout)?;
        programs.extend(text.lines().filter_map(|line| program(package, line)));
    }
    Ok(programs)
}

/// The test program that a line of cargo's tells of.
fn program(package: &str, line: &str) -> Option<((String, String), Program)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let file = PathBuf::from(message.get("executable")?.as_str()?);
    let dir = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    let target = message.get("target")?;
    let is_lib = target.get("kind")?.as_array()?.iter().any(|kind| kind == "lib");
    let name = if is_lib { "lib" } else { target.get("name")?.as_str()? };
    Some(((package.to_owned(), name.to_owned()), Program { file, dir }))
}

fn find<'a>(programs: &'a Programs, package: &str, name: &str) -> Result<&'a Program> {
    let key = (package.to_owned(), name.to_owned());
    programs.get(&key).with_context(|| format!("cargo did not build {key:?}"))
}

/// Runs tests with no bug chosen, to their end.
fn run_without(control: &Control, program: &Program) -> Result<()> {
    let ended = command(program).args(control.names).envs(control.size).output();
    let ended = ended.context("a test program does not start")?;
    let said = String::from_utf8_lossy(&ended.stdout);
    print!("{}: {said}", control.program);
    let error = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{} fails with no bug chosen: {error}", control.program);
    ensure!(!said.contains("running 0 tests"), "{} has no such test", control.program);
    Ok(())
}

/// A test program as cargo would start it.
fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.file);
    command.current_dir(&program.dir).env("CARGO_MANIFEST_DIR", &program.dir);
    // Nobody's seeds and sizes: with fewer states a bug is not met.
    let variables = std::env::vars_os().map(|(name, _)| name);
    for name in variables.filter(|name| name.to_string_lossy().starts_with("TABULITH_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs the test of a bug until it gives alarm, ends, or has taken too long.
fn run_one(bug: &Bug, program: &Program) -> Result<Outcome> {
    let start = Instant::now();
    let mut child = command(program)
        .args(["--exact", bug.test.name, "--nocapture", "--test-threads=1"])
        .env("TABULITH_BUG", bug.id)
        .envs(bug.test.asked)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("a test program does not start")?;
    let (sender, lines) = mpsc::channel();
    let out: Option<Box<dyn Read + Send>> = child.stdout.take().map(|out| Box::new(out) as _);
    let err: Option<Box<dyn Read + Send>> = child.stderr.take().map(|err| Box::new(err) as _);
    for stream in [out, err].into_iter().flatten() {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
    }
    drop(sender);
    let (mut said, mut alarm) = (Vec::new(), None);
    let ended = loop {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => {
                let tells = is_alarm(bug, &line);
                said.push(line);
                if tells {
                    alarm = said.last().cloned();
                    break "it gave alarm";
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let cpu = cpu_of(&child).unwrap_or_default();
                if cpu > CPU_MAX || start.elapsed() > WALL_MAX {
                    break "it took too long";
                }
            }
            Err(RecvTimeoutError::Disconnected) => break "it ended without the alarm",
        }
    };
    let took = start.elapsed();
    let _ = child.kill(); // It may have ended by itself.
    child.wait()?;
    Ok(Outcome { alarm, said, took, ended })
}

/// Whether a line begins as the alarm does, and says the rest of it.
fn is_alarm(bug: &Bug, line: &str) -> bool {
    let (first, rest) = bug.alarm.split_first().unwrap_or((&"?", &[]));
    line.starts_with(first) && rest.iter().all(|text| line.contains(text))
}

/// Time of processors that a process has taken, where the system tells.
fn cpu_of(child: &Child) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    // The name, in parentheses, may hold anything; user and system time are fields 14 and 15.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 1000 / TICKS_PER_SECOND))
}

fn cut(line: &str) -> String {
    line.chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Repo;

    /// How many stand in the museum.
    const MUSEUM: usize = 40;

    #[test]
    fn each_bug_of_the_list_is_in_the_source_and_no_other() {
        let repo = Repo::read().expect("the repository can be read");
        let mut planted = BTreeSet::new();
        for file in repo.rust().filter(|file| file.path.contains("/src/")) {
            if file.path.starts_with("tools/") || file.path.ends_with("/planted.rs") {
                continue;
            }
            let ids = file.text.split("planted!(\"").skip(1);
            planted.extend(ids.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
        }
        let listed: BTreeSet<String> = BUGS.iter().map(|bug| bug.id.to_owned()).collect();
        assert_eq!(planted, listed);
        assert_eq!(listed.len(), BUGS.len(), "each once");
    }

    #[test]
    fn the_museum_is_whole() {
        let first = |n: usize| BUGS.iter().any(|bug| bug.id == format!("B{n:02}"));
        let absent: Vec<usize> = (1..=MUSEUM).filter(|n| !first(*n)).collect();
        assert!(absent.is_empty(), "not planted: {absent:?}");
    }

    #[test]
    fn turns_come_round() {
        let all: BTreeSet<usize> = (0..BUGS.len())
            .flat_map(|turn| (0..6).map(move |n| (turn * 6 + n) % BUGS.len()))
            .collect();
        assert_eq!(all.len(), BUGS.len());
    }
}

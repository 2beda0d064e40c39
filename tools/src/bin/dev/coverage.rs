//! `cargo dev coverage`: which branches of the parts that nobody may get wrong the tests have
//! taken.
//!
//! Branches are those that rustc marks: `if`, `if let`, `while`, `&&`, `||`, guards of `match`; not
//! the arms of a `match`, and not `?`. A branch of generic code counts as taken where one of its
//! instances took it. Tests themselves do not count, nor conditions that only a planted bug makes
//! true. Needs the LLVM tools of rustc's own version.
//!
//! Only crates of this workspace get counters, from a wrapper around rustc: what they depend on is
//! the same as in any other build, and is not built again.

use crate::repo;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The parts, and the files and folders of each.
const PARTS: [(&str, &[&str]); 4] = [
    ("wal", &["engine/src/wal/"]),
    ("manifest", &["engine/src/manifest/"]),
    ("recovery", &["engine/src/recovery.rs", "engine/src/replayed.rs", "engine/src/restore.rs"]),
    ("auth", &["server/src/auth/"]),
];

/// Which tests run, and what they have to take.
struct Selection {
    /// Of each package, with the sizes that the environment gives.
    tests: [(&'static str, &'static [&'static str]); 2],
    /// What cargo is told beside.
    config: &'static [&'static str],
    /// Percent of the ways of each of [`PARTS`], at least.
    floors: [f64; 4],
}

/// All tests whose business the parts are.
const WHOLE: Selection = Selection {
    tests: [
        (
            "tabulith",
            &[
                "--lib",
                "--test=crash",
                "--test=recovery",
                "--test=basics",
                "--test=golden",
                "--test=full",
                "--test=check",
                "--test=salvage",
                "--test=writes",
                "--test=at_once",
                "--test=ingest",
                "--test=transactions",
                "--test=deletes",
                "--test=backups",
            ],
        ),
        ("tabulith-server", &["--lib", "--tests"]),
    ],
    config: &[],
    floors: [98.0; 4],
};

/// Those that take seconds: what stands beside the code, and few others.
const QUICK: Selection = Selection {
    tests: [
        ("tabulith", &["--lib", "--test=recovery", "--test=golden"]),
        ("tabulith-server", &["--lib", "--test=access", "--test=signatures", "--test=tokens"]),
    ],
    // Not optimized, what is ours takes a third as long to build and half a minute more to run.
    config: &[
        "--config=profile.dev.package.tabulith.opt-level=0",
        "--config=profile.dev.package.tabulith-server.opt-level=0",
        "--config=profile.dev.package.tabulith-testkit.opt-level=0",
    ],
    floors: [94.0, 95.0, 90.0, 96.0],
};

/// One branch in a file: where it stands, and how often it went which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    yes: u64,
    no: u64,
}

/// Branches by file and place: line and column.
type Branches = BTreeMap<String, BTreeMap<(u64, u64), Taken>>;

/// Runs the tests and prints what they took; with `--out FILE` also writes it there, with `--quick`
/// only tests that take seconds.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let quick = words.first().is_some_and(|word| word == "--quick");
    let out = match &words[usize::from(quick)..] {
        [] => None,
        [flag, file] if flag == "--out" => Some(PathBuf::from(file)),
        _ => bail!("cargo dev coverage [--quick] [--out FILE]"),
    };
    let selection = if quick { QUICK } else { WHOLE };
    let root = repo::root()?;
    let Some(tools) = Tools::find()? else { return Ok(()) };
    let folder = repo::target(&root).join("coverage");
    let profiles = folder.join("profiles");
    if profiles.exists() {
        fs::remove_dir_all(&profiles).context("old profiles")?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let wrapper = wrapper(&folder)?;
    let (mut programs, mut failed) = (BTreeSet::new(), Vec::new());
    for (package, tests) in selection.tests {
        let tests = [tests, selection.config].concat();
        let (of_package, passed) = test(&root, &wrapper, &profiles, package, &tests)?;
        programs.extend(of_package);
        failed.extend((!passed).then_some(package));
    }
    let export = tools.export(&root, &profiles, &programs)?;
    let branches = branches(&root, &export)?;
    let report = report(&root, &branches)?;
    print!("{report}");
    if let Some(out) = out {
        fs::write(&out, &report).with_context(|| out.display().to_string())?;
    }
    // What a failed test has not taken is missing above, and nothing else.
    ensure!(failed.is_empty(), "tests failed: {failed:?}");
    hold(&branches, selection.floors)
}

/// Refuses what takes less of a part than its floor.
fn hold(branches: &Branches, floors: [f64; 4]) -> Result<()> {
    for ((part, files), floor) in PARTS.iter().zip(floors) {
        let percent = ways(branches, files).percent();
        ensure!(percent >= floor, "{part}: {percent:.1} % of the ways taken, below {floor} %");
    }
    Ok(())
}

/// What rustc is called by for crates of the workspace: with counters at branches, by an option
/// that stable compilers have and do not offer.
fn wrapper(folder: &Path) -> Result<PathBuf> {
    let file = folder.join("rustc");
    let options = "-Cinstrument-coverage -Zcoverage-options=branch";
    let text = format!("#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec \"$@\" {options}\n");
    fs::write(&file, text)
        .and_then(|()| fs::set_permissions(&file, fs::Permissions::from_mode(0o755)))
        .with_context(|| file.display().to_string())?;
    Ok(file)
}

/// Builds and runs the tests of a package with counters in them; the programs that have run, and
/// whether every test passed.
fn test(
    root: &Path,
    wrapper: &Path,
    profiles: &Path,
    package: &str,
    tests: &[&str],
) -> Result<(Vec<PathBuf>, bool)> {
    let cargo = |how: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["test", "--locked", "--package", package]).args(tests).args(how);
        command.current_dir(root).env("RUSTC_WORKSPACE_WRAPPER", wrapper);
        command.env("LLVM_PROFILE_FILE", profiles.join("%4m.profraw"));
        command.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        command
    };
    let built = cargo(&["--no-run", "--message-format=json"]).output();
    let built = built.context("cargo does not start")?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let lines = String::from_utf8(built.stdout).context("cargo's messages")?;
    let programs = lines.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    let programs: Vec<PathBuf> = programs.collect();
    ensure!(!programs.is_empty(), "{package}: no test was built");
    let status = cargo(&["--no-fail-fast"]).status().context("cargo does not start")?;
    Ok((programs, status.success()))
}

/// The programs that read what the counters wrote.
struct Tools {
    profdata: PathBuf,
    cov: PathBuf,
}

impl Tools {
    /// Those of rustc's own version of LLVM, from rustup's component or from the system. None, and
    /// a line that says what to install, where there are none.
    fn find() -> Result<Option<Tools>> {
        let rustc = |what: &[&str]| -> Result<String> {
            let output = Command::new("rustc").args(what).output().context("rustc")?;
            String::from_utf8(output.stdout).context("rustc")
        };
        let version = rustc(&["-vV"])?;
        let llvm = version.lines().find_map(|line| line.strip_prefix("LLVM version: "));
        let major = llvm.and_then(|llvm| llvm.split('.').next()).context("LLVM's version")?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("host")?;
        let component = Path::new(rustc(&["--print", "sysroot"])?.trim())
            .join("lib/rustlib")
            .join(host)
            .join("bin");
        let found = |name: &str| {
            let versioned = format!("{name}-{major}");
            let candidates = [component.join(name), PathBuf::from(versioned)];
            candidates.into_iter().find(|tool| Command::new(tool).arg("--version").output().is_ok())
        };
        if let (Some(profdata), Some(cov)) = (found("llvm-profdata"), found("llvm-cov")) {
            return Ok(Some(Tools { profdata, cov }));
        }
        println!(
            "SKIPPED: coverage, because the tools of LLVM {major} are not here \
             (rustup component add llvm-tools, or the system's llvm-{major})"
        );
        Ok(None)
    }

    /// All counts, as LLVM exports them.
    fn export(&self, root: &Path, profiles: &Path, programs: &BTreeSet<PathBuf>) -> Result<Value> {
        let raw = fs::read_dir(profiles).context("no test wrote a profile")?;
        let raw: Vec<PathBuf> =
            raw.map(|file| file.map(|file| file.path())).collect::<Result<_, _>>()?;
        let merged = profiles.join("all.profdata");
        let mut merge = Command::new(&self.profdata);
        merge.args(["merge", "--sparse", "--failure-mode=all"]).args(raw).arg("-o").arg(&merged);
        let status = merge.status().context("llvm-profdata")?;
        ensure!(status.success(), "llvm-profdata: {status}");
        let mut export = Command::new(&self.cov);
        export.args(["export", "--skip-functions", "--skip-expansions"]);
        export.arg("--instr-profile").arg(&merged);
        for program in programs {
            export.arg("--object").arg(program);
        }
        let sources = PARTS.iter().flat_map(|(_, files)| files.iter());
        export.arg("--sources").args(sources.map(|file| root.join(file)));
        let output = export.output().context("llvm-cov")?;
        ensure!(output.status.success(), "llvm-cov: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).context("what llvm-cov exports")
    }
}

/// The branches of an export that stand outside of tests.
fn branches(root: &Path, export: &Value) -> Result<Branches> {
    let mut branches = Branches::new();
    let files = export["data"][0]["files"].as_array().context("an export without files")?;
    for file in files {
        let path = Path::new(file["filename"].as_str().context("a file without a name")?);
        let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
        if name.ends_with("/tests.rs") || name.contains("/tests/") {
            continue;
        }
        let text = fs::read_to_string(path).with_context(|| name.clone())?;
        let lines: Vec<&str> = text.lines().collect();
        let tests = lines.iter().position(|line| *line == "mod tests {");
        let tests = tests.map_or(u64::MAX, |line| line as u64 + 1);
        let places = branches.entry(name).or_default();
        for branch in file["branches"].as_array().into_iter().flatten() {
            let field = |n: usize| branch[n].as_u64().unwrap_or(0);
            let source = lines.get((field(0) as usize).wrapping_sub(1)).unwrap_or(&"");
            if field(0) < tests && !is_planted(source, field(1) as usize) {
                let taken = places.entry((field(0), field(1))).or_default();
                taken.yes += field(4);
                taken.no += field(5);
            }
        }
    }
    Ok(branches)
}

/// Whether what stands at `column` of a line, from 1, asks for a planted bug or comes after such a
/// question: no build that anybody uses takes it.
fn is_planted(line: &str, column: usize) -> bool {
    let asked =
        line.find("planted!(").map(|at| line[..at].rfind([' ', '!', '(']).map_or(0, |at| at + 1));
    asked.is_some_and(|asked| asked <= column)
}

/// Ways of branches: each may go two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ways {
    all: u64,
    taken: u64,
}

impl Ways {
    fn percent(self) -> f64 {
        self.taken as f64 * 100.0 / self.all as f64
    }
}

/// Branches of the files of a part, by file.
fn of_part<'a>(
    branches: &'a Branches,
    files: &'a [&str],
) -> impl Iterator<Item = (&'a String, &'a BTreeMap<(u64, u64), Taken>)> {
    branches.iter().filter(|(file, _)| files.iter().any(|of| file.starts_with(of)))
}

/// The ways of a part.
fn ways(branches: &Branches, files: &[&str]) -> Ways {
    let mut ways = Ways { all: 0, taken: 0 };
    for count in of_part(branches, files).flat_map(|(_, places)| places.values()) {
        ways.all += 2;
        ways.taken += u64::from(count.yes > 0) + u64::from(count.no > 0);
    }
    ways
}

/// A table of the parts, and the ways that were never taken, by name.
fn report(root: &Path, branches: &Branches) -> Result<String> {
    let (mut table, mut rest) = (String::new(), String::new());
    table.push_str("| part | ways of branches | taken | % |\n|---|--:|--:|--:|\n");
    for (part, files) in PARTS {
        for (file, places) in of_part(branches, files) {
            let text = fs::read_to_string(root.join(file)).with_context(|| file.clone())?;
            let lines: Vec<&str> = text.lines().collect();
            for ((line, _), count) in places {
                let never = match (count.yes, count.no) {
                    (0, 0) => "never reached",
                    (0, _) => "never true",
                    (_, 0) => "never false",
                    _ => continue,
                };
                let source = lines.get(*line as usize - 1).map_or("", |line| line.trim());
                writeln!(rest, "- {file}:{line} {never}: `{source}`")?;
            }
        }
        let ways = ways(branches, files);
        ensure!(ways.all > 0, "{part}: no branch was found");
        writeln!(table, "| {part} | {} | {} | {:.1} |", ways.all, ways.taken, ways.percent())?;
    }
    Ok(format!("{table}\nNever taken:\n\n{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_planted_bug_takes_does_not_count() {
        let place = |line: &str, what: &str| line.find(what).map_or(0, |at| at + 1);
        let line = r#"    if crate::planted!("B04") && number > self.number {"#;
        assert!(is_planted(line, place(line, "crate::")));
        assert!(is_planted(line, place(line, "number > ")));
        let line = r#"    Some(cut) if header.durable > last && !crate::planted!("B05") => {"#;
        assert!(!is_planted(line, place(line, "header")));
        assert!(is_planted(line, place(line, "!crate")), "with the word that turns it round");
        assert!(is_planted(line, place(line, "crate")));
        assert!(!is_planted("    if number > self.number {", 8));
    }

    #[test]
    fn ways_that_were_not_taken_are_named() {
        let root = repo::root().expect("the repository");
        let mut branches = Branches::new();
        for (_, files) in PARTS {
            let file = match files[0] {
                "engine/src/wal/" => "engine/src/wal/room.rs",
                "engine/src/manifest/" => "engine/src/manifest/root.rs",
                "server/src/auth/" => "server/src/auth/sas.rs",
                file => file,
            };
            let places = branches.entry(file.to_owned()).or_default();
            places.insert((1, 1), Taken { yes: 3, no: 4 });
            places.insert((2, 1), Taken { yes: 0, no: 4 });
        }
        let report = report(&root, &branches).expect("a report");
        assert!(report.contains("| wal | 4 | 3 | 75.0 |"), "{report}");
        assert_eq!(report.matches("never true").count(), 4, "{report}");
        hold(&branches, [75.0; 4]).expect("three of four");
        let refused = hold(&branches, [75.0, 75.0, 75.0, 76.0]).expect_err("of auth, too few");
        assert_eq!(refused.to_string(), "auth: 75.0 % of the ways taken, below 76 %");
    }
}

//! The rules of the house, as ordinary checks with messages that say what to do.
//!
//! A breach fails the test at the end of this file; a warning is only printed by `cargo dev tidy`.

use crate::listing;
use crate::modules;
use crate::repo::{Repo, TextFile};
use crate::rows;
use crate::smoke;
use crate::source;
use anyhow::Result;

const FILE_LINES_MAX: usize = 900;
const FILE_LINES_WARN: usize = 500;
const FUNCTION_LINES_WARN: usize = 70;
/// What rustfmt has for code.
const COLUMNS_MAX: usize = 100;

/// What the rules found.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) breaches: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// Runs every rule.
pub(crate) fn check(repo: &Repo) -> Result<Report> {
    let mut report = Report::default();
    for house in modules::houses(repo) {
        imports_run_downward(repo, &house, &mut report);
        every_file_is_a_module(repo, &house, &mut report);
    }
    for file in repo.rust() {
        opens_with_its_header(file, &mut report);
        sizes(file, &mut report);
        folder_files_hold_only_mod_lines(file, &mut report);
        nothing_is_left_to_do(file, &mut report);
        words_stay_in_their_rooms(file, &mut report);
        comments_are_as_wide_as_code(file, &mut report);
    }
    for file in &repo.files {
        no_path_of_one_machine(file, &mut report);
        no_stray_whitespace(file, &mut report);
    }
    dependencies_say_why(repo.text("Cargo.toml")?, &mut report);
    magics_are_documented(repo, repo.text("docs/format.md")?, &mut report);
    readme_runs(repo, repo.text("README.md")?, &mut report);
    what_is_left_out_is_shown(repo, repo.text(".config/nextest.toml")?, &mut report);
    report.breaches.extend(listing::differences(repo)?);
    report.breaches.extend(rows::differences(repo)?);
    Ok(report)
}

/// A file uses only files that the `mod` lines list before it, so there is no circle.
fn imports_run_downward(repo: &Repo, house: &modules::House, report: &mut Report) {
    for arrow in house.arrows(repo) {
        let from = &house.modules[arrow.from];
        let place = format!("{}:{}", from.path, arrow.line);
        let to = house.name(arrow.to);
        if arrow.to == house.modules.len() - 1 {
            report.breaches.push(format!(
                "{place} imports from the crate's root, which nothing stands above: name the file \
                 that defines it"
            ));
        } else if house.modules[arrow.to].is_folder && arrow.to != arrow.from {
            report.breaches.push(format!(
                "{place} imports the folder {to}: name the file in it that defines the item"
            ));
        } else if arrow.to > arrow.from {
            report.breaches.push(format!(
                "{place} imports {to}, which the mod lines list after it: move the item down, hand \
                 it in from above, or move the mod line if the floors allow it"
            ));
        }
    }
}

fn every_file_is_a_module(repo: &Repo, house: &modules::House, report: &mut Report) {
    let inside = format!("{}/", house.dir);
    let programs = format!("{}/bin/", house.dir);
    for file in repo.rust().filter(|file| file.path.starts_with(&inside)) {
        if !house.reached.contains(&file.path) && !file.path.starts_with(&programs) {
            report.breaches.push(format!("{} is in no mod line of {}", file.path, house.dir));
        }
    }
}

fn opens_with_its_header(file: &TextFile, report: &mut Report) {
    if !file.text.starts_with("//!") {
        report.breaches.push(format!(
            "{}:1 does not open with `//!`: say what the file is, what it promises, what is absent",
            file.path
        ));
    }
}

fn sizes(file: &TextFile, report: &mut Report) {
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        report.breaches.push(format!(
            "{} has {lines} lines, more than {FILE_LINES_MAX}: look for the seam",
            file.path
        ));
    } else if lines > FILE_LINES_WARN {
        report.warnings.push(format!("{} has {lines} lines", file.path));
    }
    for function in source::functions(&source::without_tests(&source::blank(&file.text))) {
        let lines = function.lines.len();
        if lines > FUNCTION_LINES_WARN {
            let place = format!("{}:{}", file.path, function.lines.start);
            report.warnings.push(format!("{place} fn {} has {lines} lines", function.name));
        }
    }
}

fn folder_files_hold_only_mod_lines(file: &TextFile, report: &mut Report) {
    if !file.path.ends_with("/mod.rs") || is_test(file) {
        return;
    }
    let blanked = source::blank(&file.text);
    let other = blanked.lines().map(str::trim).position(|line| {
        !line.is_empty() && source::modules(line).is_empty() && !line.starts_with("#[")
    });
    if let Some(i) = other {
        let place = format!("{}:{}", file.path, i + 1);
        report.breaches.push(format!(
            "{place} a mod.rs holds its header and mod lines only: give the item a file"
        ));
    }
}

/// A file of tests that grew out of its module.
fn is_test(file: &TextFile) -> bool {
    file.path.contains("/tests/") || file.path.ends_with("/tests.rs")
}

fn nothing_is_left_to_do(file: &TextFile, report: &mut Report) {
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
    let ignored = concat!("#[ig", "nore");
    for (i, line) in file.text.lines().enumerate() {
        let words = || line.split(|c: char| !c.is_ascii_alphanumeric());
        if let Some(mark) = marks.iter().find(|mark| words().any(|word| word == **mark)) {
            let place = format!("{}:{}", file.path, i + 1);
            report.breaches.push(format!("{place} says {mark}: do it, or open an issue"));
        }
        if line.contains(ignored) {
            let place = format!("{}:{}", file.path, i + 1);
            report.breaches.push(format!("{place} has a test that never runs"));
        }
    }
}

/// A word that may be said only in some rooms.
struct Absence {
    /// Files it is about: paths that start so.
    within: &'static str,
    /// Not said there, outside tests.
    word: &'static str,
    /// Except in paths that start so.
    except: &'static [&'static str],
    why: &'static str,
}

const ABSENCES: &[Absence] = &[
    Absence { within: "engine/src", word: "println!", except: &[], why: PRINT },
    Absence { within: "engine/src", word: "eprintln!", except: &[], why: PRINT },
    Absence { within: "engine/src", word: "print!", except: &[], why: PRINT },
    Absence { within: "engine/src", word: "dbg!", except: &[], why: PRINT },
    Absence { within: "server/src", word: "println!", except: &[], why: PRINT },
    Absence { within: "server/src", word: "eprintln!", except: &[], why: PRINT },
    Absence { within: "server/src", word: "print!", except: &[], why: PRINT },
    Absence { within: "server/src", word: "dbg!", except: &[], why: PRINT },
    Absence { within: "engine/src", word: "hyper", except: &[], why: NO_WIRE },
    Absence { within: "engine/src", word: "tokio", except: &[], why: NO_WIRE },
    Absence { within: "engine/src", word: "serde_json", except: &[], why: NO_WIRE },
    Absence { within: "server/src", word: "std::fs", except: &[], why: NO_FILES },
    Absence {
        within: "engine/src",
        word: "std::fs",
        except: &["engine/src/vfs/os.rs", "engine/src/env/memory.rs"],
        why: VFS,
    },
    Absence { within: "engine/src", word: "std::net", except: &[], why: NO_WIRE },
    Absence { within: "server/src", word: "hyper", except: &["server/src/net/"], why: ONE_DOOR },
];

const PRINT: &str = "a library does not print; return a value, or an event";
const NO_WIRE: &str = "the engine never says HTTP, JSON or sockets; that is the server's";
const NO_FILES: &str = "the server never opens a file; that is the engine's";
const VFS: &str = "files are reached through vfs, or tests cannot cut the power";
const ONE_DOOR: &str = "only server/src/net names the HTTP library";

fn words_stay_in_their_rooms(file: &TextFile, report: &mut Report) {
    let rules = ABSENCES.iter().filter(|rule| {
        file.path.starts_with(rule.within)
            && !rule.except.iter().any(|start| file.path.starts_with(start))
    });
    if is_test(file) {
        return;
    }
    let code = source::without_tests(&source::blank(&file.text));
    for rule in rules {
        for (at, _) in code.match_indices(rule.word) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                let place = format!("{}:{}", file.path, source::line_of(&code, at));
                report.breaches.push(format!("{place} says {}: {}", rule.word, rule.why));
            }
        }
    }
}

/// Prose ends where code does. Examples, drawings and rows of tables are as wide as they are.
fn comments_are_as_wide_as_code(file: &TextFile, report: &mut Report) {
    let mut is_drawn = false;
    for (i, line) in file.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_drawn = false;
            continue;
        };
        let text = comment.trim_start_matches(['/', '!']).trim_start();
        is_drawn ^= text.starts_with("```");
        if line.chars().count() > COLUMNS_MAX && !is_drawn && !text.starts_with('|') {
            let place = format!("{}:{}", file.path, i + 1);
            report.breaches.push(format!(
                "{place} has a comment of more than {COLUMNS_MAX} columns: begin another line"
            ));
        }
    }
}

/// A path such as one developer's folder means nothing on another machine.
fn no_path_of_one_machine(file: &TextFile, report: &mut Report) {
    let roots = [concat!("/wo", "rk/"), concat!("/t", "mp/"), concat!("/ro", "ot/")];
    for (i, line) in file.text.lines().enumerate() {
        for root in roots {
            let alone = line.match_indices(root).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '}' | '_' | '-'))
            });
            if alone {
                let place = format!("{}:{}", file.path, i + 1);
                report.breaches.push(format!(
                    "{place} names {root}: use a temporary folder of the run, or a relative path"
                ));
            }
        }
    }
}

fn no_stray_whitespace(file: &TextFile, report: &mut Report) {
    let strict = [".rs", ".toml", ".md", ".py", ".mjs", ".yml"];
    if !strict.iter().any(|end| file.path.ends_with(end)) {
        return;
    }
    for (i, line) in file.text.lines().enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            report.breaches.push(format!("{}:{} ends with a blank", file.path, i + 1));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        report.breaches.push(format!("{} does not end with a line break", file.path));
    }
}

/// Each dependency of the workspace says why it is there: after it, or on the line above.
fn dependencies_say_why(manifest: &str, report: &mut Report) {
    let mut inside = false;
    let mut above_says = false;
    for (i, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.starts_with("[workspace.dependencies]");
        }
        let ours = line.contains("path = ");
        let says = above_says || line.contains(" # ");
        if inside && line.contains(" = ") && !line.starts_with('#') && !ours && !says {
            let name = line.split(' ').next().unwrap_or_default();
            let place = format!("Cargo.toml:{}", i + 1);
            report.breaches.push(format!("{place} does not say why {name} is needed"));
        }
        // A one-word heading such as `# Engine.` is no reason.
        above_says = line.starts_with("# ") && line.split(' ').count() > 4;
    }
}

/// Each magic number that opens a file is in docs/format.md.
fn magics_are_documented(repo: &Repo, document: &str, report: &mut Report) {
    let document = document.replace('_', "").to_lowercase();
    for file in repo.rust().filter(|file| file.path.starts_with("engine/src/")) {
        for (i, line) in file.text.lines().enumerate() {
            let Some(magic) = magic(line) else { continue };
            if !document.contains(&magic.replace('_', "").to_lowercase()) {
                let place = format!("{}:{}", file.path, i + 1);
                report.breaches.push(format!("{place} docs/format.md does not mention {magic}"));
            }
        }
    }
}

/// The value of a line such as `const MAGIC: [u8; 8] = *b"TABULITH";`.
fn magic(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(" = ")?;
    if !name.contains("const ") || !name.contains("MAGIC") {
        return None;
    }
    let value = value.trim_end_matches(';');
    match value.split_once('"') {
        Some((_, rest)) => {
            rest.split('"').next().map(|text| text.split('\\').next().unwrap_or(text))
        }
        None => value.strip_prefix("0x"),
    }
}

/// The Rust of README.md stands word for word in an example that CI runs.
fn readme_runs(repo: &Repo, readme: &str, report: &mut Report) {
    let examples = || repo.rust().filter(|file| file.path.starts_with("engine/examples/"));
    for block in smoke::blocks(readme).iter().filter(|block| block.language == "rust") {
        if !examples().any(|example| example.text.ends_with(&block.code)) {
            let line = block.line;
            report.breaches.push(format!("README.md:{line} ends no file of engine/examples"));
        }
    }
}

/// A test that leaves out what a machine lacks passes, and nextest hides what it says of that.
fn what_is_left_out_is_shown(repo: &Repo, runner: &str, report: &mut Report) {
    let shown = || runner.split("[[").filter(|part| part.contains("success-output"));
    for file in repo.rust().filter(|file| file.text.contains("counts::skipped(")) {
        let Some((_, inside)) = file.path.split_once("/tests/") else { continue };
        let program = inside.split(['/', '.']).next().unwrap_or(inside);
        let named = format!("binary({program})");
        if !shown().any(|part| part.contains(&named)) {
            report.breaches.push(format!(
                "{} leaves something out: have .config/nextest.toml show what {program} says",
                file.path
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test that holds the house to its rules.
    #[test]
    fn the_repository_is_tidy() {
        let report = check(&Repo::read().expect("the repository")).expect("its documents");
        let count = report.breaches.len();
        assert!(report.breaches.is_empty(), "{count} breaches:\n{}", report.breaches.join("\n"));
    }

    fn repo(files: &[(&str, &str)]) -> Repo {
        let file =
            |(path, text): &(&str, &str)| TextFile { path: (*path).into(), text: (*text).into() };
        let mut files: Vec<_> = files.iter().map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Repo { root: "nowhere".into(), files }
    }

    fn breaches(files: &[(&str, &str)]) -> Vec<String> {
        let repo = repo(files);
        let mut report = Report::default();
        for house in modules::houses(&repo) {
            imports_run_downward(&repo, &house, &mut report);
            every_file_is_a_module(&repo, &house, &mut report);
        }
        for file in repo.rust() {
            folder_files_hold_only_mod_lines(file, &mut report);
            words_stay_in_their_rooms(file, &mut report);
            comments_are_as_wide_as_code(file, &mut report);
        }
        report.breaches
    }

    #[test]
    fn an_upward_import_is_a_breach() {
        let root = ("engine/src/lib.rs", "//! x\nmod low;\nmod high;\n");
        let high = ("engine/src/high.rs", "//! x\nuse crate::low::A;\n");
        assert_eq!(breaches(&[root, ("engine/src/low.rs", "//! x\n"), high]), [""; 0]);
        let found = breaches(&[root, ("engine/src/low.rs", "//! x\nuse crate::high::B;\n"), high]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("engine/src/low.rs:2 imports high"), "{found:?}");
        let found = breaches(&[root, ("engine/src/low.rs", "//! x\nfn f() { crate::R; }\n"), high]);
        assert!(found[0].contains("from the crate's root"), "{found:?}");
    }

    #[test]
    fn folders_keep_their_order_too() {
        let files = |first: &'static str, folder: &'static str| {
            breaches(&[
                ("server/src/lib.rs", "//! x\nmod room;\nmod hall;\n"),
                ("server/src/room/mod.rs", folder),
                ("server/src/room/first.rs", first),
                ("server/src/room/second.rs", "//! x\nuse super::first::F;\n"),
                ("server/src/hall.rs", "//! x\nuse crate::room::{first::F, second};\n"),
            ])
        };
        let folder = "//! x\n\nmod first;\nmod second;\n";
        assert_eq!(files("//! x\n", folder), [""; 0]);
        assert!(files("//! x\nuse super::second::S;\n", folder)[0].contains("room::second"));
        assert!(files("//! x\nuse crate::room::S;\n", folder)[0].contains("the folder room"));
        let found = files("//! x\n", "//! x\nmod first;\nmod second;\npub use first::F;\n");
        assert!(found[0].starts_with("server/src/room/mod.rs:4 a mod.rs"), "{found:?}");
        let found = files("//! x\n", "//! x\nmod first;\n");
        assert!(found.iter().any(|b| b.starts_with("server/src/room/second.rs is in no mod")));
    }

    #[test]
    fn a_library_does_not_print_and_its_tests_may() {
        let file =
            |text| breaches(&[("engine/src/lib.rs", "//! x\nmod a;\n"), ("engine/src/a.rs", text)]);
        assert_eq!(file("//! x\n// println!\n#[test]\nfn t() { println!(); }\n"), [""; 0]);
        assert_eq!(file("//! x\nfn f() { println!(); }\n").len(), 1);
    }

    #[test]
    fn prose_ends_where_code_does() {
        let found = |line: String| breaches(&[("tools/a.rs", &format!("//! x\n{line}\n"))]).len();
        let wide = |sign: &str| format!("    {sign} {}", "ä".repeat(COLUMNS_MAX - 4 - sign.len()));
        assert_eq!(["//", "///", "//!"].map(|sign| found(wide(sign))), [1, 1, 1]);
        assert_eq!(found(wide("//").replacen("ä", "", 1)), 0, "characters count, not bytes");
        assert_eq!(found(wide("/// |")), 0, "a row of a table");
        assert_eq!(found(wide("let")), 0, "that is for rustfmt");
        let example = format!("/// ```\n{}\n/// ```", wide("///"));
        assert_eq!(found(example.clone()), 0);
        assert_eq!(found(format!("{example}\n{}", wide("///"))), 1, "behind an example");
    }

    #[test]
    fn what_leaves_something_out_has_a_line_in_the_runner() {
        let text = "//! x\nfn f() { counts::skipped(\"a disk\"); }\n";
        let repo = repo(&[("a/tests/b.rs", text), ("a/tests/c/d.rs", text), ("a/src/e.rs", text)]);
        let found = |runner| {
            let mut report = Report::default();
            what_is_left_out_is_shown(&repo, runner, &mut report);
            report.breaches.len()
        };
        assert_eq!(found(""), 2);
        assert_eq!(found("[[o]]\nfilter = 'binary(b)'\nsuccess-output = \"immediate\"\n"), 1);
        assert_eq!(found("[[o]]\nfilter = 'binary(b) or binary(c)'\npriority = 5\n"), 2);
        assert_eq!(found("[[o]]\nfilter = 'binary(b) or binary(c)'\nsuccess-output = 1\n"), 0);
    }

    #[test]
    fn dependencies_and_magics_are_read() {
        let mut report = Report::default();
        let manifest =
            "[workspace.dependencies]\na = \"1\" # reason\nb = \"1\"\nc = { path = \"c\" }\n";
        dependencies_say_why(manifest, &mut report);
        assert_eq!(report.breaches, ["Cargo.toml:3 does not say why b is needed"]);
        assert_eq!(magic("pub const MAGIC: &[u8; 8] = b\"TABLWAL1\";"), Some("TABLWAL1"));
        assert_eq!(magic("const FOOTER_MAGIC: u64 = 0x1234_abcd;"), Some("1234_abcd"));
        assert_eq!(magic("const OTHER: u64 = 0x1234;"), None);
    }
}

//! The list of files in ARCHITECTURE.md: written from the `mod` order and each file's first line.

use crate::modules::{self, House};
use crate::repo::{Repo, TextFile};
use anyhow::{Context, Result};
use std::fmt::Write;

const DOCUMENT: &str = "ARCHITECTURE.md";
const BEGIN: &str = "<!-- files: begin; `cargo dev bless` writes what follows -->\n";
const END: &str = "<!-- files: end -->";

/// Where the second column begins, and the longest line of it.
const NAME_CHARS: usize = 29;
const JOB_CHARS_MAX: usize = 91;

/// Writes the list anew.
pub(crate) fn bless(repo: &Repo) -> Result<()> {
    let text = repo.text(DOCUMENT)?;
    let (before, _, after) = parts(text)?;
    let fresh = format!("{before}{BEGIN}{}{END}{after}", render(repo));
    std::fs::write(repo.root.join(DOCUMENT), fresh).context(DOCUMENT)
}

/// Each line by which the list in the document differs from the tree.
pub(crate) fn differences(repo: &Repo) -> Result<Vec<String>> {
    let (_, listed, _) = parts(repo.text(DOCUMENT)?)?;
    let fresh = render(repo);
    let mut out = Vec::new();
    for line in listed.lines().filter(|line| !fresh.lines().any(|other| other == *line)) {
        out.push(format!("{DOCUMENT} says what the tree does not: {line}"));
    }
    for line in fresh.lines().filter(|line| !listed.lines().any(|other| other == *line)) {
        out.push(format!("{DOCUMENT} lacks the line: {line}"));
    }
    if out.is_empty() && listed != fresh {
        out.push(format!("{DOCUMENT} lists the files in another order than the mod lines"));
    }
    if let Some(last) = out.last_mut() {
        last.push_str("  (run `cargo dev bless`)");
    }
    Ok(out)
}

fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let (before, rest) = text
        .split_once(BEGIN)
        .with_context(|| format!("{DOCUMENT} lacks the line {}", BEGIN.trim_end()))?;
    let (listed, after) =
        rest.split_once(END).with_context(|| format!("{DOCUMENT} lacks the line {END}"))?;
    Ok((before, listed, after))
}

/// The whole list: a heading and a block for each folder.
fn render(repo: &Repo) -> String {
    let houses = modules::houses(repo);
    let mut folders: Vec<&str> = repo.rust().map(|file| folder_of(&houses, &file.path)).collect();
    folders.sort_by_key(|folder| (crate_rank(folder), folder.matches('/').count(), *folder));
    folders.dedup();
    let mut out = String::new();
    for folder in folders {
        let _ = write!(out, "\n### {folder}\n\n```text\n");
        match houses.iter().find(|house| house.dir == folder) {
            Some(house) => render_house(repo, house, &mut out),
            None => {
                for file in repo.rust().filter(|file| folder_of(&houses, &file.path) == folder) {
                    push_file(file, folder, &mut out);
                }
            }
        }
        out.push_str("```\n");
    }
    out.push('\n');
    out
}

fn crate_rank(folder: &str) -> usize {
    let order =
        ["engine/src", "engine", "server", "client", "conformance", "tools", "benches", "fuzz"];
    order.iter().position(|start| folder.starts_with(start)).unwrap_or(order.len())
}

/// The folder under whose heading a file stands: its crate's, or its own.
fn folder_of<'a>(houses: &'a [House], path: &'a str) -> &'a str {
    let house = houses.iter().find(|house| house.modules.iter().any(|m| m.path == path));
    match house {
        Some(house) => &house.dir,
        None => path.rsplit_once('/').map_or("", |(dir, _)| dir),
    }
}

fn render_house(repo: &Repo, house: &House, out: &mut String) {
    let root = house.modules.last().and_then(|module| repo.get(&module.path));
    if let Some(root) = root {
        push_file(root, &house.dir, out);
    }
    let floors = root.map(|root| floors(&root.text)).unwrap_or_default();
    let mut floor = "";
    for module in house.modules.iter().filter(|module| !module.is_folder) {
        let Some(room) = module.name.first() else { continue };
        let here = floors.iter().find(|(first, _)| first == room).map_or(floor, |(_, f)| f);
        if here != floor {
            let _ = write!(out, "\n{here}\n");
            floor = here;
        }
        if let Some(file) = repo.get(&module.path) {
            push_file(file, &house.dir, out);
        }
    }
}

/// Each `// Floor N: what.` comment of a crate's root, for every module below it.
fn floors(root: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut floor = String::new();
    for line in root.lines() {
        if let Some(title) = line.trim().strip_prefix("// Floor ") {
            floor = format!("FLOOR {}", title.trim_end_matches('.').replacen(": ", " · ", 1));
        }
        if let Some(name) = crate::source::modules(line).pop() {
            out.push((name, floor.clone()));
        }
    }
    out
}

fn push_file(file: &TextFile, dir: &str, out: &mut String) {
    let name = file.path.strip_prefix(dir).unwrap_or(&file.path).trim_start_matches('/');
    let mut first = name;
    for line in wrapped(&job(&file.text), JOB_CHARS_MAX) {
        let _ = writeln!(out, "{first:<width$} {line}", width = NAME_CHARS - 1);
        first = "";
    }
}

/// `text` in lines of at most `chars_max`, but for words that are longer.
fn wrapped(text: &str, chars_max: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| {
            line.is_empty() || line.chars().count() + 1 + word.chars().count() <= chars_max
        });
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The first sentence of a file's header, without its full stop.
fn job(text: &str) -> String {
    let header = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let paragraph: Vec<_> = header.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let sentence = paragraph.split_once(". ").map_or(paragraph.as_str(), |(first, _)| first);
    sentence.trim_end_matches(['.', ':']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_the_first_sentence() {
        assert_eq!(job("//! One thing. Another.\n//!\n//! More.\n"), "One thing");
        assert_eq!(job("//! One thing\n//! on two lines.\nuse x;\n"), "One thing on two lines");
    }

    #[test]
    fn a_long_job_goes_on_below() {
        assert_eq!(wrapped("a start: and more", 9), ["a start:", "and more"]);
        assert_eq!(wrapped("a start: and more", 8), ["a start:", "and more"]);
        assert_eq!(wrapped("a start: and more", 7), ["a", "start:", "and", "more"]);
        assert_eq!(wrapped("extraordinary", 5), ["extraordinary"]);
    }

    #[test]
    fn floors_reach_down_to_the_next() {
        let found = floors("// Floor 0: words.\nmod a;\nmod b;\n\n// Floor 1: world.\nmod c;\n");
        let found: Vec<_> = found.iter().map(|(m, f)| (m.as_str(), f.as_str())).collect();
        let expected =
            [("a", "FLOOR 0 · words"), ("b", "FLOOR 0 · words"), ("c", "FLOOR 1 · world")];
        assert_eq!(found, expected);
    }
}

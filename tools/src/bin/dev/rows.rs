//! The rows of the conformance list, counted in docs/azure.md: by section and provenance.

use crate::repo::Repo;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::Write;
use tabulith_conformance::list;
use tabulith_conformance::row::{Provenance, Row};

const DOCUMENT: &str = "docs/azure.md";
const BEGIN: &str = "<!-- rows: begin; `cargo dev bless` writes what follows -->\n";
const END: &str = "<!-- rows: end -->";

/// Writes the counts anew.
pub(crate) fn bless(repo: &Repo) -> Result<()> {
    let (before, _, after) = parts(repo.text(DOCUMENT)?)?;
    let fresh = format!("{before}{BEGIN}{}{END}{after}", render(repo)?);
    std::fs::write(repo.root.join(DOCUMENT), fresh).context(DOCUMENT)
}

/// What to do where the counts in the document are not those of the list.
pub(crate) fn differences(repo: &Repo) -> Result<Option<String>> {
    let (_, counted, _) = parts(repo.text(DOCUMENT)?)?;
    let differ = counted != render(repo)?;
    Ok(differ.then(|| {
        format!("{DOCUMENT} counts other rows than conformance/rows has  (run `cargo dev bless`)")
    }))
}

fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let missing = |line: &str| format!("{DOCUMENT} lacks the line {}", line.trim_end());
    let (before, rest) = text.split_once(BEGIN).with_context(|| missing(BEGIN))?;
    let (counted, after) = rest.split_once(END).with_context(|| missing(END))?;
    Ok((before, counted, after))
}

fn render(repo: &Repo) -> Result<String> {
    let rows = list::rows()?;
    let known = known(repo.text("conformance/known.txt")?);
    let mut sections: Vec<_> = rows.iter().map(|row| row.section.clone()).collect();
    sections.dedup();
    sections.sort_by_key(|section| order(&section.number));
    sections.dedup();
    let mut out = String::from("\n| section | rows |");
    let marks = Provenance::ALL;
    for mark in marks {
        write!(out, " {mark} |")?;
    }
    writeln!(out, " fail |\n|---|---|{}---|", "---|".repeat(marks.len()))?;
    for section in &sections {
        let here: Vec<&Row> = rows.iter().filter(|row| row.section == *section).collect();
        let name = format!("{} {}", section.number, section.title);
        line(&mut out, &name, &here, &known)?;
    }
    line(&mut out, "all", &rows.iter().collect::<Vec<_>>(), &known)?;
    out.push('\n');
    Ok(out)
}

/// Sections in the order of their numbers: 2.9 before 2.10.
fn order(number: &str) -> Vec<u32> {
    number.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}

/// Ids that are known to fail.
fn known(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": ")).map(|(id, _)| id).collect()
}

fn line(out: &mut String, name: &str, rows: &[&Row], known: &BTreeSet<&str>) -> Result<()> {
    write!(out, "| {name} | {} |", rows.len())?;
    for mark in Provenance::ALL {
        match rows.iter().filter(|row| row.provenance == mark).count() {
            0 => out.push_str("  |"),
            count => write!(out, " {count} |")?,
        }
    }
    match rows.iter().filter(|row| known.contains(row.id.as_str())).count() {
        0 => out.push_str("  |\n"),
        count => writeln!(out, " {count} |")?,
    }
    Ok(())
}

//! The figures of a ledger as a table, and their place in RELIABILITY.md.

use super::layers::LAYERS;
use super::ledger::{Ledger, Turn};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

const DOCUMENT: &str = "RELIABILITY.md";
const BEGIN: &str = "<!-- soak: begin; `cargo dev soak --report` writes what follows -->\n";
const END: &str = "<!-- soak: end -->";

/// Writes the figures of `ledger` into the document.
pub(crate) fn write(root: &Path, ledger: &Ledger) -> Result<()> {
    let path = root.join(DOCUMENT);
    let text = std::fs::read_to_string(&path).context(DOCUMENT)?;
    std::fs::write(&path, replaced(&text, &render(ledger))?).context(DOCUMENT)
}

fn replaced(text: &str, figures: &str) -> Result<String> {
    let lacks = |line: &str| format!("{DOCUMENT} lacks the line {}", line.trim_end());
    let (before, rest) = text.split_once(BEGIN).with_context(|| lacks(BEGIN))?;
    let (_, after) = rest.split_once(END).with_context(|| lacks(END))?;
    Ok(format!("{before}{BEGIN}{figures}{END}{after}"))
}

/// The figures: a line for each layer, then where they are from, then every failure.
pub(crate) fn render(ledger: &Ledger) -> String {
    let mut out =
        String::from("\n| layer | asks | counted | turns | failed | hours | newest turn |\n");
    out.push_str("|---|---|---|---|---|---|---|\n");
    let listed = LAYERS.iter().map(|layer| (layer.name, layer.asks));
    let known: BTreeSet<&str> = LAYERS.iter().map(|layer| layer.name).collect();
    let gone: BTreeSet<&str> = ledger.turns.iter().map(|turn| turn.layer.as_str()).collect();
    let gone = gone.difference(&known).map(|name| (*name, "a layer that is no longer"));
    for (name, asks) in listed.chain(gone) {
        let turns: Vec<&Turn> = ledger.of(name).collect();
        if turns.is_empty() {
            continue;
        }
        let failed = turns.iter().filter(|turn| turn.failed.is_some()).count();
        let hours = turns.iter().map(|turn| turn.seconds).sum::<f64>() / 3600.0;
        let (counts, newest, turns) = (sums(&turns), newest(&turns), turns.len());
        let _ = writeln!(
            out,
            "| {name} | {asks} | {counts} | {turns} | {failed} | {hours:.2} | {newest} |"
        );
    }
    out.push_str(&sources(ledger));
    for turn in ledger.turns.iter().filter(|turn| turn.failed.is_some()) {
        let Turn { layer, commit, seed, .. } = turn;
        let replay = turn.failed.as_deref().unwrap_or_default();
        let _ = writeln!(out, "\nFailed: {layer} at {commit} with seed {seed}, `{replay}`");
    }
    out.push('\n');
    out
}

fn sums(turns: &[&Turn]) -> String {
    let mut sums = BTreeMap::<&str, u64>::new();
    for (what, number) in turns.iter().flat_map(|turn| &turn.counts) {
        *sums.entry(what).or_default() += number;
    }
    let each: Vec<_> = sums.iter().map(|(what, sum)| format!("{} {what}", grouped(*sum))).collect();
    each.join(", ")
}

/// The day of the last of `turns`, and the commit that it ran.
fn newest(turns: &[&Turn]) -> String {
    let day = |at: &str| at.split('T').next().unwrap_or(at).to_owned();
    let newest = turns.last().map(|turn| format!("{}, {}", day(&turn.at), turn.commit));
    newest.unwrap_or_default()
}

fn sources(ledger: &Ledger) -> String {
    let mut commits: Vec<&str> = ledger.turns.iter().map(|turn| turn.commit.as_str()).collect();
    commits.dedup();
    let times = ledger.turns.first().zip(ledger.turns.last());
    let (first, last) = times.map_or(("never", "never"), |(a, b)| (a.at.as_str(), b.at.as_str()));
    let commits = if commits.is_empty() { "no commit".to_owned() } else { commits.join(", ") };
    let base = ledger.base;
    format!(
        "\nTurns that ended from {first} to {last}, at {commits}. All seeds come from {base}: \
         `cargo dev soak --base {base}` runs the same ones again.\n"
    )
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(layer: &str, commit: &str, states: u64, failed: Option<&str>) -> Turn {
        Turn {
            layer: layer.to_owned(),
            number: 0,
            seed: 11,
            commit: commit.to_owned(),
            at: format!("2026-01-02T{states}"),
            seconds: 1800.0,
            counts: BTreeMap::from([("states".to_owned(), states)]),
            failed: failed.map(str::to_owned),
        }
    }

    #[test]
    fn the_figures_are_sums_with_their_sources() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ledger = Ledger::begin(&folder.path().join("l"), 42).expect("a ledger");
        let turns = [
            turn("crash", "abc", 1_000_000, None),
            turn("older", "abc", 5, None),
            turn("crash", "def", 234_567, Some("replay: me")),
        ];
        turns.into_iter().for_each(|turn| ledger.add(turn).expect("a line"));
        let figures = render(&ledger);
        let asks = LAYERS[0].asks;
        let crash =
            format!("| crash | {asks} | 1,234,567 states | 2 | 1 | 1.00 | 2026-01-02, def |");
        assert!(figures.contains(&crash), "{figures}");
        let older =
            "| older | a layer that is no longer | 5 states | 1 | 0 | 0.50 | 2026-01-02, abc |";
        assert!(figures.contains(older), "{figures}");
        let sources =
            "from 2026-01-02T1000000 to 2026-01-02T234567, at abc, def. All seeds come from 42:";
        assert!(figures.contains(sources), "{figures}");
        assert!(figures.contains("`cargo dev soak --base 42`"), "{figures}");
        assert!(figures.contains("Failed: crash at def with seed 11, `replay: me`"));
        assert!(!figures.contains("| kill |"), "a layer without a turn has no line");
    }

    #[test]
    fn only_the_marked_part_of_the_document_is_replaced() {
        let text = format!("before\n{BEGIN}old\n{END}\nafter\n");
        let fresh = replaced(&text, "new\n").expect("a place");
        assert_eq!(fresh, format!("before\n{BEGIN}new\n{END}\nafter\n"));
        assert!(replaced("nothing", "new").is_err());
    }

    #[test]
    fn digits_stand_in_threes() {
        assert_eq!([7, 999, 1000, 1_234_567].map(grouped), ["7", "999", "1,000", "1,234,567"]);
    }
}

//! What each command says of itself, word by word: tests/help has a file for each. A change is
//! shown by the difference; `TABULITH_BLESS=1` writes the files anew.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

mod common;

use common::Place;
use std::collections::BTreeSet;
use std::path::Path;

/// The help of a command and of all below it.
fn collect(place: &Place, path: &[&str], found: &mut Vec<(String, String)>) {
    let text = place.ok(&[path, &["--help"]].concat()).out;
    let name = if path.is_empty() { "tabulith".to_owned() } else { path.join("-") };
    let below: Vec<String> = text
        .split_once("\nCommands:\n")
        .map(|(_, rest)| rest.split("\n\n").next().unwrap_or_default())
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|name| name != "help")
        .collect();
    found.push((name, text));
    for name in &below {
        collect(place, &[path, &[name.as_str()]].concat(), found);
    }
}

#[test]
fn every_command_says_what_it_said_before() {
    let place = Place::new();
    let mut found = Vec::new();
    collect(&place, &[], &mut found);
    assert!(found.len() > 25, "{} commands", found.len());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("help");
    let bless = std::env::var_os("TABULITH_BLESS").is_some();
    if bless {
        std::fs::create_dir_all(&folder).unwrap();
    }
    for (name, text) in &found {
        let file = folder.join(format!("{name}.txt"));
        if bless {
            std::fs::write(&file, text).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(&kept == text, "{}: the help of {name} is now\n{text}", file.display());
    }
    let names: BTreeSet<String> =
        found.into_iter().map(|(name, _)| format!("{name}.txt")).collect();
    let kept = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(kept.collect::<BTreeSet<_>>(), names, "no file of a command that is gone");
}

#[test]
fn the_help_of_what_people_do_begins_with_an_example() {
    let place = Place::new();
    let mut found = Vec::new();
    collect(&place, &[], &mut found);
    for (name, text) in found {
        let has_below = text.contains("\nCommands:\n");
        assert!(
            has_below || text.starts_with("Example"),
            "{name}: {}",
            text.lines().next().unwrap()
        );
    }
}

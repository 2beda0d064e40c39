//! Commands that are not run, or do not end with 0, each with its reason. One that nothing shows
//! any more fails the test.

use std::collections::BTreeSet;
use std::process::Command;

/// Why Parquet is not run here.
const PARQUET: &str = "for builds with the feature; tests/parquet.rs";

/// What is not run here.
const LEFT_OUT: [(&str, &str); 18] = [
    ("tabulith bench", "the name of a command"),
    ("tabulith torture", "the name of a command"),
    ("tabulith import", "the name of a command"),
    (
        "tabulith serve --otlp-endpoint http://127.0.0.1:4318",
        "for builds with the feature; tests/otlp",
    ),
    ("tabulith export", "the name of a command"),
    ("tabulith export flights -o parquet > flights.parquet", PARQUET),
    ("tabulith import flights.parquet -t copy", PARQUET),
    ("tabulith conformance ENDPOINT", "a word in place of an address"),
    ("tabulith health [URL]", "a word in place of an address"),
    ("tabulith torture --minutes 10 --data-dir /mnt/disk/torture", "ten minutes"),
    (
        "tabulith bench run fillseq overwrite readrandom --data-dir /mnt/disk/bench \
         --durability synced --rows 1000000 --value-size 1000 --runs 5 --out before",
        "five runs of a million rows",
    ),
    (
        "tabulith bench run fillrandom readrandom ycsba --data-dir /mnt/disk/bench \
         --durability synced --out results",
        "half a minute",
    ),
    (
        "tabulith bench run readrandom --threads 8 --rate 2000 --durability synced \
         --label 'azurite 3.37'",
        "ten seconds at a rate that a debug build does not reach",
    ),
    (
        "tabulith bench run fillrandom readrandom --runs 5 --data-dir /mnt/disk/a \
         --durability synced --out before",
        "two minutes",
    ),
    (
        "tabulith bench run fillrandom readrandom --runs 5 --data-dir /mnt/disk/b \
         --durability synced --out after",
        "two minutes",
    ),
    (
        "tabulith bench partition --durability synced --threads 16",
        "rises to 64,000 a second in steps of five seconds",
    ),
    (
        "tabulith bench partition --durability synced --threads 16 --row-key '{date}-{uuid}'",
        "rises to 64,000 a second in steps of five seconds",
    ),
    (
        "tabulith bench partition --data-dir bench-data --durability synced --from 1000 --to 500000",
        "rises until the machine takes no more",
    ),
];

/// What ends otherwise than with 0, by its own words.
const CODES: [(&str, i32, &str); 3] = [
    (
        "tabulith sas decode 'sv=2019-02-02&tn=orders&sp=r&se=2027-01-31T12:00:00Z&sig=…'",
        6,
        "three points are no signature; it says so",
    ),
    (
        "tabulith restore /mnt/backups yesterday --at 2026-11-21T23:59:59Z",
        3,
        "these backups are younger; it says which moments they show",
    ),
    (
        "tabulith restore /mnt/backups as-it-was --at 2026-11-21T14:05:00Z",
        3,
        "these backups are younger; it says which moments they show",
    ),
];

/// What needs another program than the system's few.
const NEEDS: [(&str, &str); 1] = [("tabulith man | man -l -", "man")];

/// What becomes of a command.
pub(crate) enum Fate {
    /// It is not run, because.
    LeftOut(String),
    /// It is run and ends so.
    Ends(i32),
}

/// The exceptions, and which of them were met.
#[derive(Default)]
pub(crate) struct Exceptions {
    met: BTreeSet<String>,
}

impl Exceptions {
    pub(crate) fn fate(&mut self, command: &str) -> Fate {
        let command = plain(command);
        let is_it = |text: &str| plain(text) == command;
        if let Some((text, why)) = LEFT_OUT.iter().find(|(text, _)| is_it(text)) {
            self.met.insert((*text).to_owned());
            return Fate::LeftOut((*why).to_owned());
        }
        if let Some((text, program)) = NEEDS.iter().find(|(text, _)| is_it(text)) {
            self.met.insert((*text).to_owned());
            let has = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
            if !has.is_ok_and(|output| output.status.success()) {
                return Fate::LeftOut(format!("SKIPPED: {program} is not installed"));
            }
        }
        let code = CODES.iter().find(|(text, _, _)| is_it(text));
        self.met.extend(code.map(|(text, _, _)| (*text).to_owned()));
        Fate::Ends(code.map_or(0, |(_, code, _)| *code))
    }

    /// Fails where an exception is for a command that is nowhere.
    pub(crate) fn all_are_needed(&self) {
        let all = LEFT_OUT.iter().map(|(text, _)| text);
        let all = all.chain(CODES.iter().map(|(text, _, _)| text));
        for text in all.chain(NEEDS.iter().map(|(text, _)| text)) {
            assert!(self.met.contains(*text), "no example is `{text}`: take it off the list");
        }
    }
}

/// A command on one line, without its comment.
fn plain(command: &str) -> String {
    let command = command.replace("\\\n", " ");
    let command = command.split(" # ").next().unwrap_or_default();
    command.split_whitespace().collect::<Vec<_>>().join(" ")
}

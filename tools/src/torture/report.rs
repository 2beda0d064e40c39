//! What a torture came to, for programs and for people.

use crate::import::report::grouped;
use serde::Serialize;
use std::fmt::Write as _;
use tabulith_results::floor::Floor;
use tabulith_results::machine::Machine;

/// All of it. Verified commits are counted once, in the end.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// The program.
    pub(crate) program: String,
    /// The commit that it was built from.
    pub(crate) commit: Option<String>,
    /// What a commit promised.
    pub(crate) durability: String,
    /// Where random choices started from.
    pub(crate) seed: u64,
    /// Threads that wrote.
    pub(crate) writers: usize,
    /// How long it took.
    pub(crate) seconds: f64,
    /// Processes killed.
    pub(crate) kills: u64,
    /// Those of them that had not opened the folder yet.
    pub(crate) kills_at_open: u64,
    /// Commits that were acknowledged.
    pub(crate) acknowledged: u64,
    /// Rows of them.
    pub(crate) rows: u64,
    /// Commits that were under way at a kill and are there.
    pub(crate) under_way_there: u64,
    /// Commits that were found in the end.
    pub(crate) found: u64,
    /// Commits that were acknowledged and are not there, where only a kill was to leave them.
    pub(crate) gone: Option<u64>,
    /// The longest time that a folder took to open after a kill.
    pub(crate) slowest_open_ms: f64,
    /// What a sync of the disk costs.
    pub(crate) floor: Option<Floor>,
    /// The machine.
    pub(crate) machine: Machine,
    /// What was lost, half there, or nobody's.
    pub(crate) lost: Vec<String>,
    /// What `check` found damaged.
    pub(crate) damage: Vec<String>,
}

impl Report {
    /// Whether everything is as it must be.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.damage.is_empty()
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let machine = &self.machine;
        let not = || "not known".to_owned();
        let lines = [
            (
                "program",
                format!("{}, commit {}", self.program, self.commit.clone().unwrap_or_else(not)),
            ),
            ("durability", self.durability.clone()),
            ("sync of the disk", self.floor.as_ref().map_or_else(not, Floor::told)),
            ("file system", machine.file_system.clone().unwrap_or_else(not)),
            ("disk", machine.disk.clone().unwrap_or_else(not)),
            ("system", machine.system.clone()),
            (
                "time",
                format!("{:.1} s, {} writers, seed {}", self.seconds, self.writers, self.seed),
            ),
            (
                "kills",
                format!(
                    "{}, {} of them while the folder was opened",
                    grouped(self.kills),
                    grouped(self.kills_at_open)
                ),
            ),
            (
                "acknowledged",
                format!("{} commits of {} rows", grouped(self.acknowledged), grouped(self.rows)),
            ),
            (
                "under way at a kill",
                format!("{} of them are there, whole", grouped(self.under_way_there)),
            ),
            ("found in the end", format!("{} commits", grouped(self.found))),
            ("slowest open", format!("{:.0} ms after a kill", self.slowest_open_ms)),
        ];
        for (name, value) in lines {
            let _ = writeln!(out, "{name:<20} {value}");
        }
        for (title, lines) in [("LOST", &self.lost), ("DAMAGED", &self.damage)] {
            for line in lines.iter().take(100) {
                let _ = writeln!(out, "{title}: {line}");
            }
        }
        let verdict = match (self.is_clean(), self.gone) {
            (true, Some(gone @ 1..)) => format!(
                "What is there is whole. {} of the last commits are not: {} commits outlive a kill and not \
                 the power, so that nothing is lost which was promised if the power was cut.",
                grouped(gone),
                self.durability
            ),
            (true, _) => {
                "Nothing that was acknowledged is lost. Kills take nothing from the kernel: whether the disk \
                     keeps what it has synced, only a power cut shows (--verify)."
                    .to_owned()
            }
            (false, _) => {
                "ACKNOWLEDGED COMMITS ARE LOST OR FILES DAMAGED. The folder is left as it is."
                    .to_owned()
            }
        };
        let _ = writeln!(out, "\n{verdict}");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_and_changes_the_verdict() {
        let mut report = Report { kills: 3, ..Report::default() };
        assert!(
            report.is_clean() && report.text().contains("Nothing that was acknowledged is lost")
        );
        let flushed = Report { gone: Some(2), durability: "flushed".to_owned(), ..report.clone() };
        let text = flushed.text();
        assert!(flushed.is_clean() && text.contains("2 of the last commits are not: flushed"));
        assert!(!text.contains("Nothing that was acknowledged"), "{text}");
        report.lost.push("t00001: gone".to_owned());
        let text = report.text();
        assert!(
            !report.is_clean()
                && text.contains("LOST: t00001: gone")
                && text.contains("COMMITS ARE LOST")
        );
        assert!(serde_json::to_string(&report).is_ok_and(|json| json.contains("\"kills\":3")));
    }
}

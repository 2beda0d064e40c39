//! The score of a run: counts by provenance and by section, as text and as JSON.

use crate::row::{Provenance, Row};
use crate::run::{Failure, Outcome};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// How many rows went how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Answered as the list says.
    pub passed: usize,
    /// Not.
    pub failed: usize,
    /// Not asked.
    pub skipped: usize,
}

impl Count {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
        }
    }

    /// All of them.
    pub fn rows(self) -> usize {
        self.passed + self.failed + self.skipped
    }

    fn line(self, name: &str) -> String {
        let asked = self.passed + self.failed;
        let percent = if asked == 0 { 100.0 } else { 100.0 * self.passed as f64 / asked as f64 };
        let Count { passed, failed, skipped } = self;
        format!("| {name} | {} | {passed} | {failed} | {skipped} | {percent:.1} % |\n", self.rows())
    }

    fn json(self) -> Value {
        json!({"passed": self.passed, "failed": self.failed, "skipped": self.skipped})
    }
}

/// The counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// All rows.
    pub all: Count,
    /// By how they are known, the most trusted first.
    pub by_provenance: Vec<(Provenance, Count)>,
    /// By section of the specification, in the order of the list.
    pub by_section: Vec<(String, Count)>,
}

impl Score {
    /// Counts.
    pub fn of(rows: &[Row], outcomes: &[Outcome]) -> Score {
        let mut score = Score::default();
        for provenance in Provenance::ALL {
            score.by_provenance.push((provenance, Count::default()));
        }
        for (row, outcome) in rows.iter().zip(outcomes) {
            score.all.add(outcome);
            let mark = score.by_provenance.iter_mut().find(|(mark, _)| *mark == row.provenance);
            if let Some((_, count)) = mark {
                count.add(outcome);
            }
            let name = format!("{} {}", row.section.number, row.section.title);
            match score.by_section.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => count.add(outcome),
                None => {
                    let mut count = Count::default();
                    count.add(outcome);
                    score.by_section.push((name, count));
                }
            }
        }
        score.by_provenance.retain(|(_, count)| count.rows() > 0);
        score
    }

    /// Two tables in Markdown.
    pub fn text(&self) -> String {
        let head = |what: &str| {
            format!(
                "| {what} | rows | passed | failed | skipped | of those asked |\n|---|---|---|---|---|---|\n"
            )
        };
        let mut out = head("provenance");
        for (provenance, count) in &self.by_provenance {
            out.push_str(&count.line(provenance.mark()));
        }
        out.push_str(&self.all.line("all"));
        out.push('\n');
        out.push_str(&head("section"));
        for (section, count) in &self.by_section {
            out.push_str(&count.line(section));
        }
        out
    }
}

/// A failed row as text for people.
pub fn told(row: &Row, failure: &Failure) -> String {
    let mut out =
        format!("FAILED {} ({} {}, {})\n", row.id, row.provenance, row.section.number, row.place);
    // Writing into a String cannot fail.
    let _ = writeln!(out, "  {}", row.about);
    for difference in &failure.differences {
        let _ = writeln!(out, "  - {}", difference.replace('\n', "\n    "));
    }
    let mut block = |title: &str, text: &str| {
        let _ = writeln!(out, "  {title} (step {}):", failure.step);
        for line in text.lines() {
            let _ = writeln!(out, "    {line}");
        }
    };
    block("request", &failure.request);
    block("expected", &failure.expected);
    block("got", &failure.got);
    out
}

/// A run as JSON: the score and every row.
pub fn json(rows: &[Row], outcomes: &[Outcome]) -> Value {
    let score = Score::of(rows, outcomes);
    let counts = |pairs: Vec<(String, Count)>| -> Value {
        pairs
            .into_iter()
            .map(|(name, count)| (name, count.json()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let provenance = score.by_provenance.iter().map(|(mark, count)| (mark.to_string(), *count));
    let rows: Vec<Value> =
        rows.iter().zip(outcomes).map(|(row, outcome)| one(row, outcome)).collect();
    json!({
        "all": score.all.json(),
        "provenance": counts(provenance.collect()),
        "sections": counts(score.by_section),
        "rows": rows,
    })
}

fn one(row: &Row, outcome: &Outcome) -> Value {
    let mut out = json!({
        "id": row.id,
        "section": row.section.number,
        "provenance": row.provenance.mark(),
        "about": row.about,
        "test": row.test,
    });
    match outcome {
        Outcome::Passed => out["outcome"] = "passed".into(),
        Outcome::Skipped(need) => {
            out["outcome"] = "skipped".into();
            out["needs"] = need.missing().into();
        }
        Outcome::Failed(failure) => {
            out["outcome"] = "failed".into();
            out["step"] = failure.step.into();
            out["request"] = failure.request.as_str().into();
            out["expected"] = failure.expected.as_str().into();
            out["got"] = failure.got.as_str().into();
            out["differences"] = failure.differences.clone().into();
        }
    }
    out
}

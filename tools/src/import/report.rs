//! What an import says on the terminal: types, bad rows, progress, the last line.

use crate::import::entity::Wishes;
use crate::import::infer::{Column, Survey};
use crate::json;
use crate::print::{self, note};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tabulith::table::entity::Entity;

/// Bad rows that are described; the rest is only counted, so that a wrong file does not write a
/// million lines.
const BAD_ROWS_SHOWN: u64 = 100;

/// Prints the types of a file's columns, and which are left out without being asked for.
pub(crate) fn types(path: &Path, survey: &Survey, wishes: &Wishes) {
    let given = &wishes.types;
    let shown: Vec<String> = survey
        .columns
        .iter()
        .filter(|column| !json::is_of_the_service(&column.name))
        .map(|column| {
            let edm = given.get(&column.name).copied().or(column.edm);
            let edm = edm.map_or("varies", crate::edm::EdmType::name);
            format!("{} {edm}", column.name)
        })
        .collect();
    note(&format!("{}: {} rows; {}", path.display(), grouped(survey.rows), shown.join(", ")));
    let left_out = survey.columns.iter().map(|column| column.name.as_str()).filter(|name| {
        let mut of_keys = wishes.partition_key.columns().chain(wishes.row_key.columns());
        let is_expected =
            of_keys.any(|of| of == *name) || (survey.is_exported && *name == "Timestamp");
        json::is_of_the_service(name) && !is_expected && !wishes.drop.contains(*name)
    });
    let left_out: Vec<&str> = left_out.collect();
    if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        note(&format!("  not stored, as such names are the service's own: {left_out}"));
    }
    for Column { name, hint, .. } in &survey.columns {
        if let (Some((null, edm)), None) = (hint, given.get(name)) {
            note(&format!(
                "  {name} is String because of `{null}`; with --null {null} it is {edm}"
            ));
        }
    }
}

/// Bad rows of one import, described and counted.
#[derive(Debug, Default)]
pub(crate) struct BadRows {
    count: AtomicU64,
}

impl BadRows {
    /// Describes a bad row.
    pub(crate) fn add(&self, path: &Path, line: u64, why: &str) {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        if before < BAD_ROWS_SHOWN {
            note(&format!("{}:{line}: {why}", path.display()));
        } else if before == BAD_ROWS_SHOWN {
            note("further bad rows are only counted");
        }
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A progress bar, drawn only where stderr is a terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar over `rows` rows, `done` of which are done already.
    pub(crate) fn new(rows: u64, done: u64) -> Bar {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(rows), target);
        let line = "{wide_bar} {human_pos} of {human_len} rows, {rate} rows/s, {eta} left";
        let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
            // A terminal that cannot be written to shows no rate.
            let _ = write!(out, "{}", grouped(state.per_sec() as u64));
        };
        if let Ok(style) = ProgressStyle::with_template(line) {
            bar.set_style(style.with_key("rate", rate));
        }
        bar.set_position(done);
        bar.reset_eta();
        print::set_bar(Some(bar.clone()));
        Bar(bar)
    }

    /// More rows are done.
    pub(crate) fn advance(&self, rows: u64) {
        self.0.inc(rows);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        print::set_bar(None);
        self.0.finish_and_clear();
    }
}

/// `rows` rows in `time`, with their rate.
pub(crate) fn rate(rows: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let per_second = if seconds > 0.0 { rows as f64 / seconds } else { 0.0 };
    format!("{} rows in {seconds:.2} s, {} rows/s", grouped(rows), grouped(per_second as u64))
}

/// How many of these expire.
pub(crate) fn count_expiring(rows: &[Entity]) -> u64 {
    rows.iter().filter(|row| row.expires.is_some()).count() as u64
}

/// Says of rows that expire that they went to where no row does.
pub(crate) fn tell_expiring(rows: u64) {
    if rows > 0 {
        let rows = grouped(rows);
        note(&format!("rows that expire: {rows}; only a data folder keeps when (copy … dir:PATH)"));
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (336_776, "336,776")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(
            rate(336_776, Duration::from_millis(2_000)),
            "336,776 rows in 2.00 s, 168,388 rows/s"
        );
    }
}

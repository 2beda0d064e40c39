//! The report: one table of all lines with the ratio of ours to the best peer, then what belongs to
//! each line.

use crate::goals::{GOALS, GOALS_MAPPED, LIMITS, Limit};
use crate::parent::Outcome;
use crate::probe::{Kind, Line};
use crate::settings::{compression_of, describe, is_ceiling, is_variant, promise_of};
use std::fmt::Write as _;
use tabulith_results::runs;

/// All runs of one line of one engine.
#[derive(Debug)]
struct Measured {
    engine: String,
    lines: Vec<Line>,
    runs: Vec<usize>, // Which run each line is of.
}

/// One row of the tables.
#[derive(Debug)]
struct Row {
    name: String,
    cells: Vec<Measured>,
}

/// The whole report in Markdown. `facts` are about the machine and the run.
pub fn markdown(outcomes: &[Outcome], engines: &[String], facts: &[(String, String)]) -> String {
    let rows = rows(outcomes);
    let shown: Vec<&str> = engines
        .iter()
        .map(String::as_str)
        .filter(|engine| rows.iter().any(|row| row.cell(engine).is_some()))
        .collect();
    let mut text = String::new();
    for (name, value) in facts {
        let _ = writeln!(text, "- {name}: {value}");
    }
    text.push_str(&settings(&shown));
    let kinds = [
        (
            Kind::Durable,
            "Durable commits",
            "Every commit is on the disk when it returns, for every engine.",
        ),
        (
            Kind::Unsynced,
            "Unsynced writes",
            "The engines do not promise the same here: see the settings.",
        ),
        (Kind::Read, "Reads", ""),
    ];
    for (kind, title, about) in kinds {
        let rows: Vec<_> = rows.iter().filter(|row| row.kind() == Some(kind)).collect();
        if !rows.is_empty() {
            let _ = write!(text, "\n### {title}\n\n{about}\n\n{}", main_table(&rows, &shown));
        }
    }
    let disk: Vec<_> = rows.iter().filter(|row| row.kind() == Some(Kind::Machine)).collect();
    if !disk.is_empty() {
        let about = "What the disk did by itself in each engine's turn, just before its commits: the \
                     faster of two ways, which the remarks name.";
        let _ = write!(text, "\n### The disk\n\n{about}\n\n{}", main_table(&disk, &shown));
    }
    text.push_str(&goals(&rows));
    text.push_str(&laps(&rows));
    for (title, figure) in FIGURES {
        text.push_str(&figure_table(title, &rows, &shown, *figure));
    }
    text.push_str(&notes(&rows));
    text.push_str(&failures(outcomes));
    text
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for outcome in outcomes {
        for line in outcome.lines.iter().flatten() {
            let at = rows.iter().position(|row| row.name == line.name).unwrap_or_else(|| {
                rows.push(Row { name: line.name.clone(), cells: Vec::new() });
                rows.len() - 1
            });
            let cells = &mut rows[at].cells;
            match cells.iter_mut().find(|cell| cell.engine == outcome.engine) {
                Some(cell) => {
                    cell.lines.push(line.clone());
                    cell.runs.push(outcome.run);
                }
                None => {
                    let (engine, lines) = (outcome.engine.clone(), vec![line.clone()]);
                    cells.push(Measured { engine, lines, runs: vec![outcome.run] });
                }
            }
        }
    }
    // W6 of data larger than the cache is measured last, but stands beside its sisters.
    rows.sort_by_key(|row| workload_number(&row.name));
    rows
}

fn workload_number(name: &str) -> u32 {
    let digits = name.trim_start_matches('W').split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(u32::MAX)
}

impl Row {
    fn cell(&self, engine: &str) -> Option<&Measured> {
        self.cells.iter().find(|cell| cell.engine == engine)
    }

    fn first(&self) -> Option<&Line> {
        self.cells.first()?.lines.first()
    }

    fn kind(&self) -> Option<Kind> {
        Some(self.first()?.kind)
    }

    /// The best engine of those that `wanted` says, and its value.
    fn best(&self, wanted: impl Fn(&str) -> bool) -> Option<(&str, f64)> {
        let less = self.first()?.less_is_better;
        let values = self.cells.iter().filter(|cell| wanted(&cell.engine));
        let values = values.filter_map(|cell| Some((cell.engine.as_str(), cell.value()?)));
        match less {
            true => values.min_by(|a, b| a.1.total_cmp(&b.1)),
            false => values.max_by(|a, b| a.1.total_cmp(&b.1)),
        }
    }

    /// How many times better `ours` is than `theirs`.
    fn ratio(&self, ours: f64, theirs: f64) -> f64 {
        match self.first().is_some_and(|line| line.less_is_better) {
            true => theirs / ours,
            false => ours / theirs,
        }
    }
}

impl Measured {
    fn value(&self) -> Option<f64> {
        self.median(|line| Some(line.value))
    }

    fn median(&self, figure: impl Fn(&Line) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<_> = self.lines.iter().filter_map(figure).collect();
        runs::median(&mut values)
    }

    /// A figure of each run.
    fn each(&self, figure: impl Fn(&Line) -> Option<f64>) -> Vec<f64> {
        self.lines.iter().filter_map(figure).collect()
    }

    /// A figure of each run beside what another cell has in the same run.
    fn beside(&self, other: &Measured, figure: impl Fn(&Line) -> Option<f64>) -> Vec<(f64, f64)> {
        let runs = self.runs.iter().zip(&self.lines);
        let pair = |(run, line): (&usize, &Line)| {
            let at = other.runs.iter().position(|other| other == run)?;
            Some((figure(line)?, figure(&other.lines[at])?))
        };
        runs.filter_map(pair).collect()
    }

    /// How far the runs lie apart, in percent of their middle.
    fn spread(&self) -> Option<f64> {
        let values = || self.lines.iter().map(|line| line.value);
        let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
        Some((most - least) / self.value()? * 100.0)
    }
}

fn is_peer(engine: &str) -> bool {
    !engine.starts_with("ours") && !is_ceiling(engine) && !is_variant(engine)
}

/// Those of `engines` that `has` says have something in one of `rows`.
fn columns<'a>(
    rows: &[&Row],
    engines: &[&'a str],
    has: impl Fn(&Measured) -> bool,
) -> Vec<&'a str> {
    let filled = |engine: &str| rows.iter().any(|row| row.cell(engine).is_some_and(&has));
    engines.iter().copied().filter(|engine| filled(engine)).collect()
}

fn main_table(rows: &[&Row], engines: &[&str]) -> String {
    let engines = columns(rows, engines, |_| true);
    let mut text = String::from("| workload | unit | ours / best peer | best peer |");
    for engine in &engines {
        let _ = write!(text, " {engine} |");
    }
    text.push_str("\n|---|---|--:|---|");
    text.push_str(&"--:|".repeat(engines.len()));
    text.push('\n');
    for row in rows {
        let unit = row.first().map_or("", |line| line.unit.as_str());
        let best = row.best(is_peer);
        let ours = row.best(|engine| engine == "ours");
        let ratio = match (ours, best) {
            _ if row.kind() == Some(Kind::Machine) => "–".to_owned(),
            (Some((_, ours)), Some((_, best))) => match row.ratio(ours, best) {
                ratio if ratio < 1.0 => format!("**{ratio:.2}, behind**"),
                ratio => format!("{ratio:.2}"),
            },
            _ => "–".to_owned(),
        };
        let best = best.map_or("–", |(engine, _)| engine);
        let _ = write!(text, "| {} | {unit} | {ratio} | {best} |", row.name);
        for engine in &engines {
            let value = row.cell(engine).and_then(Measured::value);
            let _ = write!(text, " {} |", value.map_or(String::new(), short));
        }
        text.push('\n');
    }
    text
}

/// What was reached of a goal: by the medians of both sides, and in each run.
#[derive(Debug)]
struct Reached {
    middle: f64,
    runs: Vec<f64>,
    /// What is wanted, in words.
    words: String,
    is_met: fn(f64, f64) -> bool,
    bound: f64,
}

impl Reached {
    fn at_least(words: String, bound: f64, middle: f64, runs: Vec<f64>) -> Reached {
        Reached { middle, runs, words, is_met: |value, least| value >= least, bound }
    }

    fn at_most(words: String, bound: f64, middle: f64, runs: Vec<f64>) -> Reached {
        Reached { middle, runs, words, is_met: |value, most| value <= most, bound }
    }

    /// A row of the table: the middle, and half of how far the runs lie apart. Undecided is what is
    /// met in one run and not in another.
    fn row(&self, name: &str, engine: &str) -> String {
        let runs = || self.runs.iter().copied();
        let reached = match (runs().reduce(f64::min), runs().reduce(f64::max)) {
            (Some(least), Some(most)) if self.runs.len() > 1 => {
                format!("{:.2} ± {:.2}", self.middle, (most - least) / 2.0)
            }
            _ => format!("{:.2}", self.middle),
        };
        let is_met = (self.is_met)(self.middle, self.bound);
        let verdict = match is_met {
            _ if runs().any(|run| (self.is_met)(run, self.bound) != is_met) => "undecided",
            true => "met",
            false => "**not met**",
        };
        format!("| {name}, {engine} | {} | {reached} | {verdict} |\n", self.words)
    }
}

/// Every goal of which both sides were measured.
fn goals(rows: &[Row]) -> String {
    let mut text = String::new();
    let cached = GOALS.iter().map(|goal| ("ours", goal));
    let mapped = GOALS_MAPPED.iter().map(|goal| ("ours-mapped", goal));
    for (engine_of_ours, (name, goal, against)) in cached.chain(mapped) {
        let Some(row) = rows.iter().find(|row| row.name == *name) else { continue };
        let peers = row.best(|engine| is_peer(engine) && against.holds(engine));
        let peer = peers.and_then(|(engine, _)| row.cell(engine));
        let (Some(ours), Some(theirs)) = (row.cell(engine_of_ours), peer) else { continue };
        let (Some(middle), Some(of)) = (ours.value(), theirs.value()) else { continue };
        let runs = ours.beside(theirs, |line| Some(line.value)).into_iter();
        let runs = runs.map(|(ours, theirs)| row.ratio(ours, theirs)).collect();
        let words = format!("{goal} x {}", against.words());
        let reached = Reached::at_least(words, *goal, row.ratio(middle, of), runs);
        text.push_str(&reached.row(name, engine_of_ours));
    }
    for (name, limit) in LIMITS {
        if let Some(reached) = held(rows, name, *limit) {
            text.push_str(&reached.row(name, "ours"));
        }
    }
    let about = "What was reached is the ratio of the medians, and after ± half of how far apart the runs are. \
                 Undecided is what one run reaches and another does not.";
    match text.is_empty() {
        true => text,
        false => format!(
            "\n### Goals\n\n{about}\n\n| workload | goal | reached | |\n|---|---|--:|---|\n{text}"
        ),
    }
}

/// What ours reached of a limit.
fn held(rows: &[Row], name: &str, limit: Limit) -> Option<Reached> {
    let row_of = |name: &str| rows.iter().find(|row| row.name == name);
    let row = row_of(name)?;
    let ours = row.cell("ours")?;
    let at_most = |words: String, most: f64, figure: fn(&Line) -> Option<f64>| {
        Some(Reached::at_most(words, most, ours.median(figure)?, ours.each(figure)))
    };
    match limit {
        Limit::Value(most) => {
            let unit = &row.first()?.unit;
            at_most(format!("at most {most} {unit}"), most, |line| Some(line.value))
        }
        Limit::ShareOf(least, other) => {
            let theirs = row_of(other)?.cell("ours")?;
            let share = ours.value()? / theirs.value()?;
            let runs = ours.beside(theirs, |line| Some(line.value));
            let runs = runs.into_iter().map(|(ours, theirs)| ours / theirs).collect();
            Some(Reached::at_least(format!("{least} of {other}"), least, share, runs))
        }
        Limit::CpuUs(most) => at_most(format!("at most {most} us of CPU"), most, cpu_us_of),
        Limit::DiskPerByte(most) => {
            let words = format!("at most {most} bytes on the disk per byte");
            at_most(words, most, |line| line.disk_per_byte)
        }
        Limit::WrittenAsBy(peer) => {
            let cell = row.cell(peer)?;
            let (theirs, rows) =
                (written(cell)?, |cell: &Measured| cell.median(|l| Some(l.ops as f64)));
            // The more rows there are, the more often each is merged.
            let words = format!(
                "at most the bytes written by {peer}, {theirs:.2} per byte of {} rows; ours of {}",
                short(rows(cell)?),
                short(rows(ours)?)
            );
            at_most(words, theirs, |line| line.written_per_byte)
        }
        Limit::LongestMs(most) => {
            at_most(format!("none longer than {most} ms"), most, |line| ms(line.latency_us.max))
        }
        Limit::P999Ms(most) => {
            at_most(format!("p99.9 of at most {most} ms"), most, |line| ms(line.latency_us.p99_9))
        }
    }
}

fn ms(us: Option<f64>) -> Option<f64> {
    us.map(|us| us / 1e3)
}

/// Nothing where the work was shorter than the ticks in which the kernel counts.
fn cpu_us_of(line: &Line) -> Option<f64> {
    (line.cpu_us > 0.0).then_some(line.cpu_us)
}

fn cpu_us(cell: &Measured) -> Option<f64> {
    cell.median(cpu_us_of)
}

fn written(cell: &Measured) -> Option<f64> {
    cell.median(|line| line.written_per_byte)
}

/// What the percentiles below it are of.
fn laps(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let mut lines = row.cells.iter().flat_map(|cell| &cell.lines);
        if let Some(lap) = lines.find_map(|line| line.lap.as_deref()) {
            let _ = writeln!(text, "- {}: {lap}", row.name);
        }
    }
    let about = "The percentiles below are of single calls; of these, which are long calls, of the laps that \
                 are named. Who reads ahead delivers most laps at once and some late.";
    if text.is_empty() { text } else { format!("\n### Latencies\n\n{about}\n\n{text}") }
}

type Figure = fn(&Measured) -> Option<f64>;

/// What belongs to each line, a table each.
const FIGURES: &[(&str, Figure)] = &[
    ("Spread of the runs, % of the median", |cell| cell.spread()),
    ("p50, us", |cell| cell.median(|line| line.latency_us.p50)),
    ("p99, us", |cell| cell.median(|line| line.latency_us.p99)),
    ("p99.9, us", |cell| cell.median(|line| line.latency_us.p99_9)),
    ("CPU us per operation, all threads", cpu_us),
    ("Bytes given to write(2) per byte given to the engine", written),
    (
        "Bytes of pages made dirty per byte given (wrong for small writes: whole folios are charged)",
        |cell| {
            let maps = cell.engine == "lmdb";
            cell.median(|line| line.dirtied_per_byte.filter(|_| maps))
        },
    ),
    ("Bytes on the disk per byte of live keys and values", |cell| {
        cell.median(|line| line.disk_per_byte)
    }),
    ("Peak memory, MB, mapped files included", |cell| {
        cell.median(|line| Some(line.peak_bytes as f64 / 1e6))
    }),
    ("Cores that other processes used meanwhile", |cell| {
        cell.median(|line| Some(line.others_cores))
    }),
];

fn figure_table(title: &str, rows: &[Row], engines: &[&str], figure: Figure) -> String {
    let value = |row: &Row, engine: &&str| row.cell(engine).and_then(figure);
    let rows = rows.iter().filter(|row| engines.iter().any(|engine| value(row, engine).is_some()));
    let rows: Vec<&Row> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let engines = columns(&rows, engines, |cell| figure(cell).is_some());
    let mut text = format!("\n### {title}\n\n| workload | {} |\n", engines.join(" | "));
    let _ = writeln!(text, "|---|{}", "--:|".repeat(engines.len()));
    for row in rows {
        let _ = write!(text, "| {} |", row.name);
        for engine in &engines {
            let _ = write!(text, " {} |", value(row, engine).map_or(String::new(), short));
        }
        text.push('\n');
    }
    text
}

fn settings(engines: &[&str]) -> String {
    let mut text = String::from(
        "\n### Settings\n\n| engine | compression | unsynced commits | besides what is the same for all |\n|---|---|---|---|\n",
    );
    for engine in engines {
        let (compression, promise) = (compression_of(engine), promise_of(engine));
        let _ = writeln!(text, "| {engine} | {compression} | {promise} | {} |", describe(engine));
    }
    text
}

fn notes(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        for cell in &row.cells {
            let note = cell.lines.iter().filter_map(|line| line.note.as_deref()).next_back();
            if let Some(note) = note {
                let _ = writeln!(text, "- {}, {}: {note}", row.name, cell.engine);
            }
        }
    }
    if text.is_empty() { text } else { format!("\n### Remarks, of the last run\n\n{text}") }
}

fn failures(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        if let Err(error) = &outcome.lines {
            let _ = writeln!(text, "- {} of {}: {error}", outcome.cell, outcome.engine);
        }
    }
    if text.is_empty() { text } else { format!("\n### What failed\n\n{text}") }
}

/// Three digits that mean something, and thousands as k and M.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    match value {
        v if v >= 100.0 => format!("{v:.0}{unit}"),
        v if v >= 10.0 => format!("{v:.1}{unit}"),
        v => format!("{v:.2}{unit}"),
    }
}

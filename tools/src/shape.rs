//! `tabulith shape`: the levels of a data folder drawn to scale, with what they cost; and the two
//! commands that change it at rest, `compact` and `checkpoint`.

use crate::args::folder::{CheckpointArgs, CompactArgs, ShapeArgs};
use crate::args::output::Output;
use crate::exit::Exit;
use crate::import::report::grouped;
use crate::list;
use crate::print::{self, note};
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json};
use std::io::Write as _;
use std::path::Path;
use tabulith::db::Db;
use tabulith::stats::Stats;

/// Characters of the longest bar.
const BAR_CHARS: u64 = 40;

/// Prints the shape.
pub(crate) fn run(args: &ShapeArgs) -> Result<Exit> {
    let dir = &args.data_dir;
    let db = Db::builder().read_only().open(dir);
    let stats = db.with_context(|| format!("opening {}", dir.display()))?.stats();
    let rows = rows(&stats);
    let mut out = print::out();
    if args.output == Output::Table {
        out.write_all(drawn(&rows).as_bytes())?;
        writeln!(out, "{}", costs(&stats))?;
    } else {
        let items: Vec<Map<String, Json>> = rows.iter().map(Row::item).collect();
        list::print(&mut out, args.output, &items)?;
    }
    Ok(Exit::Ok)
}

/// Merges all files into one run.
pub(crate) fn compact(args: &CompactArgs) -> Result<Exit> {
    let dir = &args.data_dir;
    let db = existing(dir)?;
    let before = bytes(&db.stats());
    db.compact().with_context(|| format!("compacting {}", dir.display()))?;
    let after = bytes(&db.stats());
    db.close().with_context(|| format!("closing {}", dir.display()))?;
    note(&format!("{}: {} bytes, before {}", dir.display(), grouped(after), grouped(before)));
    Ok(Exit::Ok)
}

/// Makes a folder that holds all that this one does.
pub(crate) fn checkpoint(args: &CheckpointArgs) -> Result<Exit> {
    let (dir, new) = (args.data_dir.display(), args.new_dir.display());
    let db = existing(&args.data_dir)?;
    db.checkpoint(&args.new_dir).with_context(|| format!("a checkpoint of {dir} in {new}"))?;
    db.close().with_context(|| format!("closing {dir}"))?;
    note(&format!("{new} holds all of {dir}"));
    Ok(Exit::Ok)
}

fn existing(dir: &Path) -> Result<Db> {
    let db = Db::builder().must_exist().open(dir);
    db.with_context(|| format!("opening {}", dir.display()))
}

fn bytes(stats: &Stats) -> u64 {
    stats.levels.iter().map(|(_, bytes)| bytes).sum::<u64>() + stats.blob_bytes
}

/// A line of the drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: String,
    files: u64,
    bytes: u64,
}

impl Row {
    fn item(&self) -> Map<String, Json> {
        Map::from_iter([
            ("name".to_owned(), Json::from(self.name.as_str())),
            ("files".to_owned(), Json::from(self.files)),
            ("bytes".to_owned(), Json::from(self.bytes)),
        ])
    }
}

/// What is in memory of the log, the levels down to the deepest that holds anything, large values.
fn rows(stats: &Stats) -> Vec<Row> {
    let row = |name: &str, files: usize, bytes: u64| Row {
        name: name.to_owned(),
        files: files as u64,
        bytes,
    };
    let deepest = stats.levels.iter().rposition(|(files, _)| *files > 0).unwrap_or(0);
    let mut rows = vec![row("log", 0, stats.memtable_bytes as u64)];
    for (level, (files, bytes)) in stats.levels.iter().enumerate().take(deepest + 1) {
        rows.push(row(&format!("L{level}"), *files, *bytes));
    }
    if stats.blob_files > 0 {
        rows.push(row("blobs", stats.blob_files, stats.blob_bytes));
    }
    rows
}

fn drawn(rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.bytes).max().unwrap_or(0).max(1);
    let mut text = format!("{:<6}{:>8}{:>18}\n", "", "files", "bytes");
    for Row { name, files, bytes } in rows {
        // In eighths of a character, so that small levels can be told apart.
        let eighths = (u128::from(*bytes) * u128::from(BAR_CHARS) * 8).div_ceil(u128::from(most));
        let (whole, part) = (eighths / 8, (eighths % 8) as usize);
        let mut bar = "█".repeat(whole as usize);
        bar.extend(" ▏▎▍▌▋▊▉".chars().nth(part).filter(|_| part > 0));
        let line = format!("{name:<6}{files:>8}{:>18}  {bar}", grouped(*bytes));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What the shape costs.
fn costs(stats: &Stats) -> String {
    let last = stats.levels.iter().rev().find(|(files, _)| *files > 0).map_or(0, |(_, b)| *b);
    let all: u64 = stats.levels.iter().map(|(_, bytes)| bytes).sum();
    let amplification = match last {
        0 => "-".to_owned(),
        _ => format!("{:.2}", all as f64 / last as f64),
    };
    let runs = stats.levels.first().map_or(0, |(files, _)| *files)
        + stats.levels.iter().skip(1).filter(|(files, _)| *files > 0).count();
    let dead = stats.blob_bytes.saturating_sub(stats.blob_live_bytes);
    format!(
        "\nspace amplification  {amplification} at most: all levels, of the deepest\n\
         sorted runs          {runs}: what a scan merges, and an absent key's filters are asked\n\
         compaction debt      {} bytes over the targets of their levels\n\
         dead large values    {} bytes\n\
         ranges deleted       {} still hide rows",
        grouped(stats.compaction_debt_bytes),
        grouped(dead),
        stats.erasures
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_to_scale_and_small_levels_still_seen() {
        let row = |name: &str, bytes| Row { name: name.to_owned(), files: 1, bytes };
        let text = drawn(&[row("log", 0), row("L0", 1), row("L1", 500), row("L2", 1000)]);
        let bar = |at: usize| text.lines().nth(at).and_then(|line| line.rsplit(' ').next());
        assert_eq!(bar(2), Some("▏"), "{text}");
        let chars = |at| bar(at).map(|bar| bar.chars().count());
        assert_eq!((chars(3), chars(4)), (Some(20), Some(40)), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with('0')), "{text}");
    }
}

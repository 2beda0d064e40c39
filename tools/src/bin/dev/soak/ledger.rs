//! The ledger of a soak: a line of JSON for each turn that ended, with its seed and what it
//! counted.
//!
//! The first line holds the base that all seeds come from, so that a soak goes on where it stopped
//! and no seed is used twice. A turn that was cut short has no line and is run again.

use super::layers::Layer;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tabulith_testkit::seed::Rng;

/// Seeds stay below this, so that a test may count on from one.
const SEEDS: u64 = 1 << 48;

/// What one turn of a layer was and did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) layer: String,
    /// 0 for the layer's first turn of this ledger.
    pub(crate) number: u64,
    pub(crate) seed: u64,
    pub(crate) commit: String,
    /// When it ended.
    pub(crate) at: String,
    pub(crate) seconds: f64,
    pub(crate) counts: BTreeMap<String, u64>,
    /// The line that replays it, where it failed.
    pub(crate) failed: Option<String>,
}

/// All turns so far, and the file that they stand in.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    pub(crate) base: u64,
    pub(crate) turns: Vec<Turn>,
}

impl Ledger {
    /// Reads the ledger at `path`; `None` where there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Ledger>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| path.display().to_string())?,
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]); // The last line may be cut.
        let mut lines = whole.lines().enumerate();
        let place = |i: usize| format!("{}:{}", path.display(), i + 1);
        let first = lines.next().and_then(|(_, line)| serde_json::from_str::<Value>(line).ok());
        let base = first.and_then(|first| first["base"].as_u64());
        let base = base.with_context(|| format!("{} is no ledger of a soak", path.display()))?;
        let turns = lines.map(|(i, line)| Turn::parse(line).with_context(|| place(i)));
        Ok(Some(Ledger { path: path.to_owned(), base, turns: turns.collect::<Result<_>>()? }))
    }

    /// Begins a ledger at `path`.
    pub(crate) fn begin(path: &Path, base: u64) -> Result<Ledger> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let ledger = Ledger { path: path.to_owned(), base, turns: Vec::new() };
        fs::write(path, format!("{}\n", json!({ "base": base })))
            .with_context(|| path.display().to_string())?;
        Ok(ledger)
    }

    /// Adds a turn, here and in the file.
    pub(crate) fn add(&mut self, turn: Turn) -> Result<()> {
        let text = fs::read_to_string(&self.path)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut file = fs::OpenOptions::new().append(true).open(&self.path)?;
        file.set_len(whole as u64)?; // A line that was cut short is taken back.
        writeln!(file, "{}", turn.line())?;
        self.turns.push(turn);
        Ok(())
    }

    /// The turns of one layer.
    pub(crate) fn of(&self, layer: &str) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(move |turn| turn.layer == layer)
    }

    /// Which layer's turn is next: that of the one that had the least time, so that all have as
    /// much.
    pub(crate) fn next<'a>(&self, layers: &[&'a Layer]) -> Option<&'a Layer> {
        let spent = |layer: &Layer| self.of(layer.name).map(|turn| turn.seconds).sum::<f64>();
        let least = |a: &&&Layer, b: &&&Layer| spent(a).total_cmp(&spent(b));
        layers.iter().min_by(least).copied()
    }

    /// The number and the seed of a layer's next turn.
    pub(crate) fn fresh(&self, layer: &Layer) -> (u64, u64) {
        let number = self.of(layer.name).map(|turn| turn.number + 1).max().unwrap_or(0);
        (number, seed(self.base, layer.name, number))
    }
}

/// The seed of a turn: one for each base, layer and number.
pub(crate) fn seed(base: u64, layer: &str, number: u64) -> u64 {
    let mut rng = Rng::new(base);
    let of_layer = layer
        .bytes()
        .fold(rng.next_u64(), |mixed, byte| Rng::new(mixed ^ u64::from(byte)).next_u64());
    Rng::new(of_layer ^ number).next_u64() % SEEDS
}

impl Turn {
    fn line(&self) -> Value {
        json!({
            "layer": self.layer, "turn": self.number, "seed": self.seed, "commit": self.commit,
            "at": self.at, "seconds": self.seconds, "counts": self.counts, "failed": self.failed,
        })
    }

    fn parse(line: &str) -> Result<Turn> {
        let value: Value = serde_json::from_str(line)?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let number = |name: &str| value[name].as_u64();
        let parse = || {
            let counts = value["counts"].as_object()?.iter();
            Some(Turn {
                layer: text("layer")?,
                number: number("turn")?,
                seed: number("seed")?,
                commit: text("commit")?,
                at: text("at")?,
                seconds: value["seconds"].as_f64()?,
                counts: counts
                    .map(|(k, v)| Some((k.clone(), v.as_u64()?)))
                    .collect::<Option<_>>()?,
                failed: text("failed"),
            })
        };
        match parse() {
            Some(turn) => Ok(turn),
            None => bail!("this line is no turn: {line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::layers::LAYERS;

    fn turn(layer: &str, number: u64, seconds: f64) -> Turn {
        Turn {
            layer: layer.to_owned(),
            number,
            seed: seed(7, layer, number),
            commit: "abc".to_owned(),
            at: "2026-01-01T00:00:00Z".to_owned(),
            seconds,
            counts: BTreeMap::from([("states".to_owned(), 5)]),
            failed: (number == 1).then(|| "replay: it".to_owned()),
        }
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written_and_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below/ledger.jsonl");
        assert!(Ledger::read(&path).expect("nothing there").is_none());
        let mut ledger = Ledger::begin(&path, 7).expect("a ledger");
        let turns = [turn("crash", 0, 2.5), turn("crash", 1, 1.0), turn("kill", 0, 9.0)];
        for turn in &turns {
            ledger.add(turn.clone()).expect("a line");
        }
        let mut read = Ledger::read(&path).expect("a ledger").expect("it is there");
        assert_eq!((read.base, &read.turns[..]), (7, &turns[..]));
        // A line that was cut is no turn, and the next one does not go on from it.
        let text = fs::read_to_string(&path).expect("the file");
        fs::write(&path, &text[..text.len() - 9]).expect("the file");
        read = Ledger::read(&path).expect("a ledger").expect("it is there");
        assert_eq!(read.turns, turns[..2]);
        read.add(turns[2].clone()).expect("a line");
        let again = Ledger::read(&path).expect("a ledger").expect("it is there");
        assert_eq!(again.turns, turns);
    }

    #[test]
    fn time_is_shared_evenly_and_no_seed_comes_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut ledger = Ledger::begin(&folder.path().join("l"), 7).expect("a ledger");
        let layers: Vec<&Layer> = LAYERS.iter().take(3).collect();
        let mut seeds = std::collections::BTreeSet::new();
        for i in 0..60 {
            let layer = ledger.next(&layers).expect("a layer");
            let (number, seed) = ledger.fresh(layer);
            assert!(seeds.insert(seed) && seed < SEEDS, "turn {i}");
            // The first layer's turns are twice as long.
            let seconds = if layer.name == layers[0].name { 2.0 } else { 1.0 };
            ledger.add(turn(layer.name, number, seconds)).expect("a line");
        }
        let turns = layers.iter().map(|layer| ledger.of(layer.name).count());
        assert_eq!(turns.collect::<Vec<_>>(), [12, 24, 24]);
    }
}

//! The ledger: what was acknowledged, by table and writer, in memory and as a file that survives.
//!
//! The first line has the seed, the number of writers and the durability of commits; without one,
//! as it was once, that is `synced`. Then a line each: `table NAME`, `a WRITER NUMBER` for a commit
//! that was acknowledged, `k WRITER NUMBER` for one that was not and is there all the same. How
//! many rows a commit has follows from the seed.

#![allow(clippy::disallowed_methods, reason = "the ledger is read back as text")]

use crate::args::bench::Promise;
use anyhow::{Context, Result, bail};
use clap::ValueEnum as _;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::vfs::api::{File, Vfs};
use tabulith::vfs::os::OsVfs;
use tabulith_testkit::commits::Commit;
use tabulith_testkit::seed::Rng;

/// The first word of the first line, with the version of the form.
const HEAD: &str = "tabulith-torture 1";

/// How often the file is synced while lines come.
const SYNC_EVERY: Duration = Duration::from_millis(200);

/// How many rows a commit has: single ones mostly, small groups, and now and then a hundred.
pub(crate) fn rows_of(seed: u64, writer: usize, number: u64) -> usize {
    let own = Rng::new(seed ^ ((writer as u64) << 48) ^ number).next_u64();
    let mut rng = Rng::new(own);
    match rng.below(20) {
        0 => 100,
        1..=5 => rng.between(2, 12),
        _ => 1,
    }
}

/// What is known of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfTable {
    /// Commits that must be there: acknowledged ones, and others that were seen.
    pub(crate) commits: Vec<Commit>,
}

impl OfTable {
    /// The number of a writer's next commit.
    pub(crate) fn next(&self, writer: usize) -> u64 {
        let own = self.commits.iter().filter(|commit| commit.writer == writer);
        own.map(|commit| commit.number + 1).max().unwrap_or(0)
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Where random choices start from.
    pub(crate) seed: u64,
    /// Threads that write.
    pub(crate) writers: usize,
    /// What commits promise.
    pub(crate) durability: Promise,
    /// Tables by name; names sort in the order in which they were made.
    pub(crate) tables: BTreeMap<String, OfTable>,
}

impl Ledger {
    /// Nothing yet.
    pub(crate) fn new(seed: u64, writers: usize, durability: Promise) -> Ledger {
        Ledger { seed, writers, durability, tables: BTreeMap::new() }
    }

    /// Whether its commits outlive the power, and not only the process.
    pub(crate) fn outlives_power(&self) -> bool {
        self.durability == Promise::Synced
    }

    /// The commit of that number.
    pub(crate) fn commit(&self, writer: usize, number: u64) -> Commit {
        Commit { writer, number, rows: rows_of(self.seed, writer, number) }
    }

    /// The ledger in a file's text. A line that was cut short by a power cut ends it.
    pub(crate) fn parse(text: &str) -> Result<Ledger> {
        let mut lines = text.split_inclusive('\n');
        let head = lines.next().unwrap_or_default().trim_end();
        let words: Vec<&str> =
            head.strip_prefix(HEAD).unwrap_or_default().split_whitespace().collect();
        let (numbers, durability) = words.split_at(words.len().min(2));
        let numbers: Vec<u64> = numbers.iter().filter_map(|word| word.parse().ok()).collect();
        let durability = durability.first().copied().unwrap_or(Promise::Synced.name());
        let durability = Promise::from_str(durability, false);
        let ([seed, writers], Ok(durability)) = (&numbers[..], durability) else {
            bail!("this is no ledger of torture")
        };
        let mut ledger = Ledger::new(*seed, *writers as usize, durability);
        let mut table = None;
        for line in lines.filter(|line| line.ends_with('\n')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["table", name] => {
                    ledger.tables.entry(name.to_owned()).or_default();
                    table = Some(name.to_owned());
                }
                ["a" | "k", writer, number] => {
                    let (Ok(writer), Ok(number)) = (writer.parse(), number.parse()) else { break };
                    let commit = ledger.commit(writer, number);
                    let Some(of) = table.as_ref().and_then(|name| ledger.tables.get_mut(name))
                    else {
                        break;
                    };
                    of.commits.push(commit);
                }
                _ => break,
            }
        }
        Ok(ledger)
    }

    /// Reads the ledger of a folder.
    pub(crate) fn read(path: &Path) -> Result<Ledger> {
        let named = || format!("reading {}", path.display());
        // A power cut may have left zeros at its end.
        let bytes = std::fs::read(path).with_context(named)?;
        Ledger::parse(&String::from_utf8_lossy(&bytes)).with_context(named)
    }
}

/// The file, written as lines come.
pub(crate) struct Book {
    file: Arc<dyn File>,
    len: u64,
    clock: SystemClock,
    synced: Duration,
    /// Lines that are not written yet.
    held: Vec<String>,
}

impl Book {
    /// Makes the file. It survives the power with its name and its first line.
    pub(crate) fn create(path: &Path, ledger: &Ledger) -> Result<Book> {
        let file = OsVfs.create(path).with_context(|| format!("making {}", path.display()))?;
        let clock = SystemClock::new();
        let mut book = Book { file, len: 0, synced: clock.steady(), clock, held: Vec::new() };
        let Ledger { seed, writers, durability, .. } = ledger;
        book.line(&format!("{HEAD} {seed} {writers} {}", durability.name()))?;
        book.sync()?;
        let dir = path.parent().unwrap_or(Path::new(""));
        OsVfs.sync_dir(dir).with_context(|| format!("syncing {}", dir.display()))?;
        Ok(book)
    }

    /// Adds a line, and before it those that are held.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        self.settle()?;
        self.append(line)
    }

    /// Holds a line of a commit that was seen and that nobody has synced: the power could still
    /// take it, until the folder has been opened by an owner. So far nothing builds on it.
    pub(crate) fn hold(&mut self, line: String) {
        self.held.push(line);
    }

    /// Adds the lines that are held.
    pub(crate) fn settle(&mut self) -> Result<()> {
        std::mem::take(&mut self.held).iter().try_for_each(|line| self.append(line))
    }

    fn append(&mut self, line: &str) -> Result<()> {
        let bytes = [line.as_bytes(), b"\n"].concat();
        self.file.write_all_at(&bytes, self.len).context("writing the ledger")?;
        self.len += bytes.len() as u64;
        if self.clock.steady().saturating_sub(self.synced) > SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// What is written survives the power.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.synced = self.clock.steady();
        self.file.sync().context("syncing the ledger")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_up_to_where_it_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let mut ledger = Ledger::new(7, 2, Promise::Flushed);
        let mut book = Book::create(&path, &ledger).unwrap();
        let mut table = OfTable::default();
        book.line("table t00001").unwrap();
        for number in 0..3 {
            table.commits.push(ledger.commit(1, number));
            book.line(&format!("a 1 {number}")).unwrap();
        }
        book.sync().unwrap();
        assert_eq!((table.next(1), table.next(0)), (3, 0));
        ledger.tables.insert("t00001".to_owned(), table);
        assert_eq!(Ledger::read(&path).unwrap(), ledger);
        let text = std::fs::read_to_string(&path).unwrap();
        let cut = Ledger::parse(text.trim_end()).unwrap();
        assert_eq!(cut.tables["t00001"].commits.len(), 2, "the last line may be cut short");
        assert_eq!(Ledger::parse(&format!("{text}\0\0\n")).unwrap(), ledger);
        assert!(Ledger::parse("something").is_err() && Ledger::parse("").is_err());
    }

    /// Commits that were only flushed were told as lost when the power had taken them.
    #[test]
    fn the_first_line_says_what_was_promised() {
        let of = |words: &str| Ledger::parse(&format!("{HEAD} 7 2{words}\n"));
        assert!(of("").unwrap().outlives_power() && of(" synced").unwrap().outlives_power());
        assert!(!of(" flushed").unwrap().outlives_power());
        assert!(of(" often").is_err());
    }

    /// A commit that was seen in the kernel's memory had to be there after the power was cut.
    #[test]
    fn what_is_held_waits_for_the_next_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let mut book = Book::create(&path, &Ledger::new(7, 2, Promise::Synced)).unwrap();
        let lines = || {
            let text = std::fs::read_to_string(&path).unwrap();
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        book.line("table t").unwrap();
        book.hold("k 0 0".to_owned());
        assert_eq!(lines(), ["table t"]);
        book.line("a 0 1").unwrap();
        assert_eq!(lines(), ["table t", "k 0 0", "a 0 1"]);
        book.hold("k 0 2".to_owned());
        book.settle().unwrap();
        book.settle().unwrap();
        assert_eq!(lines().len(), 4);
    }

    #[test]
    fn rows_follow_from_the_seed() {
        let all: Vec<usize> = (0..1_000).map(|number| rows_of(7, 3, number)).collect();
        assert!(all.contains(&1) && all.contains(&100) && all.iter().any(|n| (2..13).contains(n)));
        assert_eq!(all[5], rows_of(7, 3, 5));
        assert_ne!(all, (0..1_000).map(|number| rows_of(7, 2, number)).collect::<Vec<_>>());
    }
}

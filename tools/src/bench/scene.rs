//! A workload on its stage: which operation number n is, and the table that it is done to.
//!
//! Operation n is the same whatever thread does it, so a seed replays a run.

use crate::args::bench::Choice;
use crate::bench::choice::{Chooser, Shuffle};
use crate::bench::drive::{Did, Work};
use crate::bench::rows::{Names, RowName, Values};
use crate::bench::store::{Client, Done, Store};
use crate::bench::workload::{Act, Order, Workload};
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use tabulith::env::rng::Rng;

/// Rows that are loaded by one transaction.
const LOAD_ROWS: u64 = 100;

/// How many rows a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanRows {
    /// So many.
    Exactly(u32),
    /// From one to so many, each as likely.
    UpTo(u32),
}

/// A workload with all that its operations need.
pub(crate) struct Scene<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) table: &'a str,
    pub(crate) workload: Workload,
    pub(crate) names: Names,
    pub(crate) values: &'a Values,
    pub(crate) rows: u64,
    pub(crate) chooser: Chooser,
    pub(crate) shuffle: Shuffle,
    /// How many rows there are, those on their way included.
    pub(crate) newest: AtomicU64,
    pub(crate) batch: u64,
    pub(crate) scan: ScanRows,
    pub(crate) seed: u64,
}

/// The choices of operation n: of its own, so that no other one shifts them.
fn chance(seed: u64, number: u64) -> Rng {
    Rng::seeded(Rng::seeded(seed ^ number).next_u64())
}

impl Scene<'_> {
    /// How this workload chooses rows.
    pub(crate) fn choice_of(workload: &Workload, asked: Option<Choice>) -> Choice {
        match workload.order {
            Order::Chosen(own) => asked.unwrap_or(own),
            _ => Choice::Uniform,
        }
    }

    /// What a thread does.
    pub(crate) fn work(&self) -> Result<Box<Work<'_>>> {
        let mut client = self.store.client(self.table)?;
        Ok(Box::new(move |number| {
            let mut rng = chance(self.seed, number);
            let act = self.act(&mut rng);
            (act, self.perform(client.as_mut(), act, number, &mut rng))
        }))
    }

    /// What the thread does that writes beside a workload.
    pub(crate) fn writing(&self) -> Result<Box<Work<'_>>> {
        let mut client = self.store.client(self.table)?;
        Ok(Box::new(move |number| {
            let mut rng = chance(!self.seed, number);
            (Act::Update, self.perform(client.as_mut(), Act::Update, number, &mut rng))
        }))
    }

    fn act(&self, rng: &mut Rng) -> Act {
        let mut at = rng.below(100);
        for (act, share) in self.workload.mix {
            if at < *share {
                return *act;
            }
            at -= share;
        }
        Act::Read
    }

    /// The row of an operation on one that is there.
    fn chosen(&self, number: u64, rng: &mut Rng) -> u64 {
        match self.workload.order {
            Order::Rising => number % self.rows,
            Order::Shuffled => self.shuffle.at(number),
            Order::Chosen(_) => self.chooser.draw(self.newest.load(Ordering::Relaxed), rng),
        }
    }

    fn perform(&self, client: &mut dyn Client, act: Act, number: u64, rng: &mut Rng) -> Done<Did> {
        let read = |rows: u64| Did { written: 0, rows };
        let one = Names::KEY_BYTES + self.values.bytes() as u64;
        let wrote = |rows: u64| Did { written: rows * one, rows: 0 };
        match act {
            Act::Read => {
                let name = self.names.row(self.chosen(number, rng));
                client.get(&name).map(|found| read(found.into()))
            }
            Act::Miss => {
                let name = self.names.missing(self.chosen(number, rng));
                client.get(&name).map(|found| read(found.into()))
            }
            Act::Update => {
                let name = self.names.row(self.chosen(number, rng));
                client.put(&name, self.values.draw(rng)).map(|()| wrote(1))
            }
            Act::Insert => {
                let row = match self.workload.order {
                    Order::Chosen(_) => self.newest.fetch_add(1, Ordering::Relaxed),
                    _ => self.chosen(number, rng),
                };
                client.put(&self.names.row(row), self.values.draw(rng)).map(|()| wrote(1))
            }
            Act::Delete => {
                let name = self.names.row(self.chosen(number, rng));
                client.delete(&name).map(|()| Did { written: Names::KEY_BYTES, rows: 0 })
            }
            Act::Scan => {
                let from = self.names.row(self.chosen(number, rng));
                let rows = match self.scan {
                    ScanRows::Exactly(rows) => rows,
                    ScanRows::UpTo(rows) => 1 + rng.below(rows.into()) as u32,
                };
                client.scan(&from, rows as usize).map(read)
            }
            Act::Partition => {
                let partition = self.chosen(number, rng) / self.names.of_partition;
                client.partition(&Names::partition(partition)).map(read)
            }
            Act::ReadWrite => {
                let name = self.names.row(self.chosen(number, rng));
                let found = client.get(&name)?;
                client.put(&name, self.values.draw(rng))?;
                Ok(Did { written: one, rows: found.into() })
            }
            Act::Group => {
                let first =
                    self.chosen(number, rng) / self.names.of_partition * self.names.of_partition;
                let last = (first + self.names.of_partition).min(self.rows);
                let start = first + rng.below((last - first).saturating_sub(self.batch).max(1));
                let rows = self.group(start..last.min(start + self.batch), rng);
                client.group(&rows).map(|()| wrote(rows.len() as u64))
            }
        }
    }

    fn group(&self, rows: std::ops::Range<u64>, rng: &mut Rng) -> Vec<(RowName, &str)> {
        rows.map(|row| (self.names.row(row), self.values.draw(rng))).collect()
    }

    /// Writes every row, by so many threads.
    pub(crate) fn load(&self, threads: usize) -> Result<()> {
        let next = AtomicU64::new(0);
        let one = || -> Result<()> {
            let mut client = self.store.client(self.table)?;
            loop {
                let (part, parts) = (next.fetch_add(1, Ordering::Relaxed), self.parts());
                let Some(rows) = parts.at(part) else { return Ok(()) };
                let group = self.group(rows, &mut chance(self.seed, !part));
                crate::bench::store::plain(client.group(&group)).context("loading rows")?;
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().ok().context("a thread failed")?)
        })?;
        self.store.flush()
    }

    fn parts(&self) -> Parts {
        Parts { rows: self.rows, of_partition: self.names.of_partition }
    }
}

/// The rows in parts that one transaction takes.
#[derive(Clone, Copy, Debug)]
struct Parts {
    rows: u64,
    of_partition: u64,
}

impl Parts {
    fn at(self, part: u64) -> Option<std::ops::Range<u64>> {
        let of_one = self.of_partition.div_ceil(LOAD_ROWS);
        let first = part / of_one * self.of_partition;
        let start = first + part % of_one * LOAD_ROWS;
        let end = (start + LOAD_ROWS).min(first + self.of_partition).min(self.rows);
        match (first < self.rows, start < end) {
            (false, _) => None,
            (true, false) => Some(self.rows..self.rows),
            (true, true) => Some(start..end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_every_row_once_and_never_of_two_partitions() {
        for (rows, of_partition) in [(1, 1), (1_000, 1_000), (1_050, 250), (37, 10), (5, 1_000)] {
            let parts = Parts { rows, of_partition };
            let mut all = Vec::new();
            for part in (0..).map_while(|part| parts.at(part)) {
                let one = |row: u64| row / of_partition;
                assert!(part.is_empty() || one(part.start) == one(part.end - 1), "{part:?}");
                assert!(part.end - part.start <= LOAD_ROWS);
                all.extend(part);
            }
            assert!(all.into_iter().eq(0..rows), "{rows} rows, {of_partition} of a partition");
        }
    }
}

//! Batches on their way: written some at a time, acknowledged in any order, recorded as they come.

use crate::ask::WriteError;
use crate::import::batcher::Batch;
use crate::import::feed::Item;
use crate::import::report::{BadRows, Bar};
use crate::import::resume::{Prefix, Progress, Record, Witness};
use crate::print::note;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::ids::CommitTs;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How long batches on their way may still take once the import has to end.
const LAST_WRITES_TIME_MAX: Duration = Duration::from_secs(2);

/// How often progress is recorded. A killed import writes at most this much again.
const RECORD_EVERY: Duration = Duration::from_millis(500);

/// What is acknowledged, and its record on disk.
pub(crate) struct Ledger {
    what: String,
    record: Option<Record>,
    prefix: Prefix,
    bad_numbers: Vec<u64>,
    bad_before: u64,
    witness: Option<Witness>,
    recorded: u64,
    recorded_at: Duration,
    /// Whether the record cannot be written: what is acknowledged is so all the same.
    is_given_up: bool,
}

impl Ledger {
    /// The ledger of a file of which `done` is done already. `what`: for people who read the
    /// record.
    pub(crate) fn new(what: String, record: Option<Record>, done: Option<Progress>) -> Ledger {
        let rows_done = done.as_ref().map_or(0, |done| done.rows_done);
        Ledger {
            what,
            record,
            prefix: Prefix::starting_at(rows_done),
            bad_numbers: Vec::new(),
            bad_before: done.as_ref().map_or(0, |done| done.rows_bad),
            witness: done.map(|done| done.witness),
            recorded: rows_done,
            recorded_at: Duration::ZERO,
            is_given_up: false,
        }
    }

    fn acknowledge(&mut self, batch: &Batch, ts: CommitTs) {
        for row in &batch.rows {
            self.prefix.acknowledge(row.number);
        }
        let newest = self.witness.as_ref().is_none_or(|witness| witness.ts < ts);
        // A service that gives no ETags back leaves no witness, and nothing is recorded.
        if let (true, Some(row)) = (newest && ts != CommitTs::ZERO, batch.rows.last()) {
            self.witness = Some(Witness {
                partition_key: row.entity.partition_key.clone(),
                row_key: row.entity.row_key.clone(),
                ts,
            });
        }
    }

    fn skip(&mut self, number: u64) {
        self.prefix.acknowledge(number);
        self.bad_numbers.push(number);
    }

    /// Records how far it has come. Where that fails it is told once, and the import goes on.
    fn save(&mut self, now: Duration) {
        self.recorded_at = now;
        let rows_done = self.prefix.done();
        let (Some(record), Some(witness)) = (&self.record, &self.witness) else { return };
        if rows_done == self.recorded || self.is_given_up {
            return;
        }
        let bad = self.bad_numbers.iter().filter(|number| **number < rows_done).count() as u64;
        let rows_bad = self.bad_before + bad;
        let progress = Progress { rows_done, rows_bad, witness: witness.clone() };
        match record.save(&progress, &self.what) {
            Ok(()) => self.recorded = rows_done,
            Err(error) => {
                note(&format!("{error:#}: how far the import comes is not recorded"));
                self.is_given_up = true;
            }
        }
    }

    /// Whether a run after this one can go on behind what is acknowledged.
    fn is_recorded(&self) -> bool {
        self.record.is_some() && !self.is_given_up
    }
}

/// What the writers of one file need to know.
pub(crate) struct Job {
    /// Where the table is.
    pub(crate) target: Arc<Target>,
    /// Its name.
    pub(crate) table: Arc<str>,
    /// The file, for reports.
    pub(crate) path: Arc<Path>,
    /// Whether a row that is refused is skipped.
    pub(crate) skip_bad: bool,
    /// Most batches on their way.
    pub(crate) in_flight: usize,
    /// Turns true when the import has to end.
    pub(crate) stop: watch::Receiver<bool>,
    /// Where bad rows are reported.
    pub(crate) bad: Arc<BadRows>,
}

/// How the writing of one file ended.
pub(crate) struct Written {
    /// Rows that were acknowledged.
    pub(crate) rows: u64,
    /// Whether a row was refused and not to be skipped.
    pub(crate) row_refused: bool,
    /// Whether it was told to stop.
    pub(crate) interrupted: bool,
    /// Whether that is recorded, so that the same import goes on behind it.
    pub(crate) is_recorded: bool,
    /// The record of the file's progress.
    pub(crate) record: Option<Record>,
    /// Why it failed, if it did.
    pub(crate) result: Result<()>,
}

/// Batches on their way.
pub(crate) struct Writers {
    job: Job,
    tasks: JoinSet<(Batch, Result<CommitTs, WriteError>)>,
    ledger: Ledger,
    bar: Bar,
    rows_written: u64,
    row_refused: bool,
    interrupted: bool,
}

impl Writers {
    /// Writers with nothing to do yet.
    pub(crate) fn new(job: Job, ledger: Ledger, bar: Bar) -> Writers {
        let tasks = JoinSet::new();
        Writers { job, tasks, ledger, bar, rows_written: 0, row_refused: false, interrupted: false }
    }

    /// Writes what comes until the channel ends; records progress also when it fails.
    pub(crate) async fn run(
        mut self,
        mut items: mpsc::Receiver<Item>,
        clock: &SystemClock,
    ) -> Written {
        let written = self.write_all(&mut items, clock).await;
        // The reader ends as soon as nobody receives.
        drop(items);
        let rest = tokio::time::timeout(LAST_WRITES_TIME_MAX, self.wait_for_rest()).await;
        self.ledger.save(clock.steady());
        Written {
            rows: self.rows_written,
            row_refused: self.row_refused,
            interrupted: self.interrupted,
            is_recorded: self.ledger.is_recorded(),
            record: self.ledger.record,
            result: written.and(rest.unwrap_or(Ok(()))),
        }
    }

    async fn write_all(
        &mut self,
        items: &mut mpsc::Receiver<Item>,
        clock: &SystemClock,
    ) -> Result<()> {
        let mut open = true;
        let mut stop = self.job.stop.clone();
        while open || !self.tasks.is_empty() {
            tokio::select! {
                _ = async { drop(stop.wait_for(|stop| *stop).await) } => {
                    self.interrupted = true;
                    return Ok(());
                }
                item = items.recv(), if open && self.tasks.len() < self.job.in_flight => match item {
                    Some(Item::Batch(batch)) => self.start(batch),
                    Some(Item::Skipped(number)) => {
                        self.ledger.skip(number);
                        self.bar.advance(1);
                    }
                    None => open = false,
                },
                Some(done) = self.tasks.join_next() => {
                    let (batch, result) = done.context("a writer failed")?;
                    self.finish(batch, result)?;
                    if self.row_refused {
                        return Ok(());
                    }
                }
            }
            if clock.steady().saturating_sub(self.ledger.recorded_at) >= RECORD_EVERY {
                self.ledger.save(clock.steady());
            }
        }
        Ok(())
    }

    /// After the end for any reason: what is still acknowledged counts.
    async fn wait_for_rest(&mut self) -> Result<()> {
        while let Some(done) = self.tasks.join_next().await {
            let (batch, result) = done.context("a writer failed")?;
            if let Ok(ts) = result {
                self.acknowledge(&batch, ts);
            }
        }
        Ok(())
    }

    fn start(&mut self, mut batch: Batch) {
        let (target, table) = (self.job.target.clone(), self.job.table.clone());
        self.tasks.spawn(async move {
            let mut entities: Vec<_> = batch.rows.iter_mut().map(|row| row.lend()).collect();
            let result = target.write(&table, &mut entities).await;
            for (row, entity) in batch.rows.iter_mut().zip(entities) {
                row.entity = entity;
            }
            (batch, result)
        });
    }

    fn finish(&mut self, mut batch: Batch, result: Result<CommitTs, WriteError>) -> Result<()> {
        match result {
            Ok(ts) => self.acknowledge(&batch, ts),
            Err(WriteError::Failed(error)) => return Err(error),
            Err(WriteError::Row { index, why }) => {
                ensure!(index < batch.rows.len(), "row {index} of a shorter batch: {why}");
                let row = batch.rows.remove(index);
                self.job.bad.add(&self.job.path, row.line, &why);
                if !self.job.skip_bad {
                    self.row_refused = true;
                    return Ok(());
                }
                self.ledger.skip(row.number);
                self.bar.advance(1);
                if !batch.rows.is_empty() {
                    self.start(batch);
                }
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, batch: &Batch, ts: CommitTs) {
        self.ledger.acknowledge(batch, ts);
        self.rows_written += batch.rows.len() as u64;
        self.bar.advance(batch.rows.len() as u64);
    }
}

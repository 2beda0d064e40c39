//! The writing side of an import: batches on their way, what is acknowledged, what is recorded.

use crate::args::ImportArgs;
use crate::ask::WriteError;
use crate::edm::EdmType;
use crate::exit::{Exit, Failure};
use crate::folder::Access;
use crate::import::batcher::Batch;
use crate::import::entity::{Recipe, Wishes};
use crate::import::feed::{End, Feed, Item, KeysSeen};
use crate::import::infer::{self, Survey};
use crate::import::report::{self, BadRows, Bar};
use crate::import::resume::{Prefix, Progress, Record, Witness};
use crate::import::rows::{self, Rows};
use crate::import::template::{self, Template};
use crate::print::note;
use crate::target::Target;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::ids::CommitTs;
use tabulith::table::name::TableName;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use xxhash_rust::xxh3::Xxh3;

/// Batches that the reader may be ahead of the writers.
const BATCHES_AHEAD: usize = 32;

/// How often progress is recorded. A killed import writes at most this much again.
const RECORD_EVERY: Duration = Duration::from_millis(500);

/// Imports all files of the command.
pub(crate) async fn run(args: ImportArgs) -> Result<Exit> {
    let wishes = wishes(&args)?;
    TableName::parse(&args.table)
        .map_err(|error| Failure::usage(format!("--table {}: {error}", args.table)))?;
    let clock = SystemClock::new();
    let patience = Duration::from_secs(args.patience);
    let target = Arc::new(Target::open(&args.target, Access::Write, patience)?);
    let mut import = Import {
        stop: stop_on_signal()?,
        bad: Arc::new(BadRows::default()),
        keys: Some(KeysSeen::default()),
        rows_written: 0,
        rows_bad_before: 0,
        records: Vec::new(),
        wishes,
        target,
        clock,
        args,
    };
    let mut surveys = Vec::new();
    for path in import.args.files.clone() {
        surveys.push((import.survey(&path).await?, path));
    }
    import.target.create_table(&import.args.table).await?;
    let mut end = End::File;
    for ((survey, digest), path) in surveys {
        end = import.file(path, survey, digest).await?;
        if end != End::File {
            break;
        }
    }
    import.target.close()?;
    Ok(import.conclude(end))
}

/// One run of the command.
struct Import {
    args: ImportArgs,
    wishes: Wishes,
    target: Arc<Target>,
    clock: SystemClock,
    stop: Arc<AtomicBool>,
    bad: Arc<BadRows>,
    /// Lent to the reader while it runs.
    keys: Option<KeysSeen>,
    rows_written: u64,
    rows_bad_before: u64,
    /// Of all files so far. They are removed together, at the end of the whole job.
    records: Vec<Record>,
}

impl Import {
    /// Reads a whole file for its types, its length and its digest.
    async fn survey(&self, path: &Path) -> Result<(Survey, u128)> {
        let (path, nulls) = (path.to_owned(), self.wishes.nulls.clone());
        let types = self.wishes.types.clone();
        tokio::task::spawn_blocking(move || {
            let survey = infer::survey(&path, &nulls)?;
            report::types(&path, &survey, &types);
            Ok((survey, rows::digest(&path)?))
        })
        .await?
    }

    async fn file(&mut self, path: PathBuf, survey: Survey, digest: u128) -> Result<End> {
        let header = Rows::open(&path)?.columns().to_vec();
        let recipe = Recipe::new(self.wishes.clone(), &survey.columns, &header)?;
        let record = Record::of(self.job(digest));
        if record.is_none() {
            note("neither XDG_STATE_HOME nor HOME is set: the import cannot be resumed");
        }
        let done = match &record {
            Some(record) if !self.args.restart => self.proven(record, &path).await?,
            _ => None,
        };
        self.rows_bad_before += done.as_ref().map_or(0, |done| done.rows_bad);
        let rows_done = done.as_ref().map_or(0, |done| done.rows_done);
        let what = format!("{} into {}", path.display(), self.args.table);
        let mut writers = Writers {
            target: self.target.clone(),
            table: Arc::from(self.args.table.as_str()),
            path: Arc::from(path.as_path()),
            skip_bad: self.args.skip_bad,
            in_flight: usize::from(self.args.in_flight),
            stop: self.stop.clone(),
            bad: self.bad.clone(),
            tasks: JoinSet::new(),
            ledger: Ledger::new(what, record, done),
            bar: Bar::new(survey.rows, rows_done),
            rows_written: 0,
            row_refused: false,
        };
        let (send, receive) = mpsc::channel(BATCHES_AHEAD);
        let mut keys = self.keys.take().unwrap_or_default();
        let (bad, stop, skip_bad) = (self.bad.clone(), self.stop.clone(), self.args.skip_bad);
        let reader = tokio::task::spawn_blocking(move || {
            let feed = Feed {
                path: &path,
                recipe: &recipe,
                rows_done,
                skip_bad,
                bad: &bad,
                keys: &mut keys,
            };
            let end = feed.run(&send, &stop);
            (end, keys)
        });
        let written = writers.run(receive, &self.clock).await;
        // The channel is closed by now: the reader is at its end or about to notice.
        let (end, keys) = reader.await?;
        self.keys = Some(keys);
        self.rows_written += writers.rows_written;
        self.records.extend(writers.ledger.record);
        written?;
        if writers.row_refused { Ok(End::BadRow) } else { end }
    }

    /// What is recorded of an earlier run, if its witness is still there.
    async fn proven(&self, record: &Record, path: &Path) -> Result<Option<Progress>> {
        let Some(progress) = record.load() else { return Ok(None) };
        let Witness { partition_key, row_key, ts } = &progress.witness;
        let row = self.target.get(&self.args.table, partition_key, row_key).await?;
        let rows = report::grouped(progress.rows_done);
        let path = path.display();
        if row.is_some_and(|row| row.ts == *ts) {
            note(&format!("{path}: going on after {rows} rows that are written already"));
            Ok(Some(progress))
        } else {
            note(&format!(
                "{path}: an earlier import wrote {rows} rows, but they are not there any more; starting over"
            ));
            Ok(None)
        }
    }

    /// A number for all that decides what is written where.
    fn job(&self, digest: u128) -> u128 {
        let mut types: Vec<String> =
            self.wishes.types.iter().map(|(name, edm)| format!("{name}={edm}")).collect();
        types.sort_unstable();
        let mut drop: Vec<&String> = self.wishes.drop.iter().collect();
        drop.sort_unstable();
        let parts = format!(
            "{digest:032x}\n{}\n{}\n{:?}\n{:?}\n{types:?}\n{:?}\n{drop:?}",
            self.target.identity(),
            self.args.table.to_ascii_lowercase(),
            self.wishes.partition_key,
            self.wishes.row_key,
            self.wishes.nulls,
        );
        let mut hash = Xxh3::new();
        hash.update(parts.as_bytes());
        hash.digest128()
    }

    /// Says how it went.
    fn conclude(&self, end: End) -> Exit {
        let written = report::rate(self.rows_written, self.clock.steady());
        let bad = self.bad.count() + self.rows_bad_before;
        let again = "the same command goes on from here";
        match end {
            End::File => {
                self.records.iter().for_each(Record::remove);
                let bad = match bad {
                    0 => String::new(),
                    n => format!("; {} bad rows skipped", report::grouped(n)),
                };
                note(&format!("imported {written}, into {}{bad}", self.args.table));
                Exit::Ok
            }
            End::BadRow => {
                note(&format!(
                    "stopped at a bad row after {written}; mend it or use --skip-bad, then run the same command"
                ));
                Exit::Failure
            }
            End::Stopped => {
                note(&format!("interrupted after {written}; {again}"));
                Exit::Interrupted
            }
        }
    }
}

/// What is acknowledged, and its record on disk.
struct Ledger {
    what: String,
    record: Option<Record>,
    prefix: Prefix,
    bad_numbers: Vec<u64>,
    bad_before: u64,
    witness: Option<Witness>,
    recorded: u64,
    recorded_at: Duration,
}

impl Ledger {
    fn new(what: String, record: Option<Record>, done: Option<Progress>) -> Ledger {
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

    fn save(&mut self, now: Duration) -> Result<()> {
        self.recorded_at = now;
        let rows_done = self.prefix.done();
        let (Some(record), Some(witness)) = (&self.record, &self.witness) else { return Ok(()) };
        if rows_done == self.recorded {
            return Ok(());
        }
        let bad = self.bad_numbers.iter().filter(|number| **number < rows_done).count() as u64;
        let rows_bad = self.bad_before + bad;
        record.save(&Progress { rows_done, rows_bad, witness: witness.clone() }, &self.what)?;
        self.recorded = rows_done;
        Ok(())
    }
}

/// Batches on their way.
struct Writers {
    target: Arc<Target>,
    table: Arc<str>,
    path: Arc<Path>,
    skip_bad: bool,
    in_flight: usize,
    stop: Arc<AtomicBool>,
    bad: Arc<BadRows>,
    tasks: JoinSet<(Batch, Result<CommitTs, WriteError>)>,
    ledger: Ledger,
    bar: Bar,
    rows_written: u64,
    row_refused: bool,
}

impl Writers {
    /// Writes what comes until the channel ends; records progress also when it fails.
    async fn run(&mut self, mut items: mpsc::Receiver<Item>, clock: &SystemClock) -> Result<()> {
        let written = self.write_all(&mut items, clock).await;
        if written.is_err() || self.row_refused {
            self.stop.store(true, Ordering::Relaxed);
        }
        items.close();
        drop(items);
        while let Some(done) = self.tasks.join_next().await {
            let (batch, result) = done.context("a writer failed")?;
            if let Ok(ts) = result {
                self.acknowledge(&batch, ts);
            }
        }
        let saved = self.ledger.save(clock.steady());
        written.and(saved)
    }

    async fn write_all(
        &mut self,
        items: &mut mpsc::Receiver<Item>,
        clock: &SystemClock,
    ) -> Result<()> {
        let mut open = true;
        while open || !self.tasks.is_empty() {
            tokio::select! {
                item = items.recv(), if open && self.tasks.len() < self.in_flight => match item {
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
                self.ledger.save(clock.steady())?;
            }
        }
        Ok(())
    }

    fn start(&mut self, batch: Batch) {
        let (target, table) = (self.target.clone(), self.table.clone());
        self.tasks.spawn(async move {
            let rows: Vec<_> = batch.rows.iter().map(|row| &row.entity).collect();
            let result = target.write(&table, &rows).await;
            (batch, result)
        });
    }

    fn finish(&mut self, mut batch: Batch, result: Result<CommitTs, WriteError>) -> Result<()> {
        match result {
            Ok(ts) => self.acknowledge(&batch, ts),
            Err(WriteError::Failed(error)) => return Err(error),
            Err(WriteError::Row { index, why }) => {
                let row = batch.rows.remove(index);
                self.bad.add(&self.path, row.line, &why);
                if !self.skip_bad {
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

/// A flag that SIGINT and SIGTERM set. A second signal ends the process at once.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let flag = stop.clone();
    tokio::spawn(async move {
        loop {
            #[cfg(unix)]
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            #[cfg(not(unix))]
            drop(tokio::signal::ctrl_c().await);
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(Exit::Interrupted as i32);
            }
            note("stopping; once more to stop at once");
        }
    });
    Ok(stop)
}

fn wishes(args: &ImportArgs) -> Result<Wishes> {
    let usage = |flag: &str, error: anyhow::Error| Failure::usage(format!("{flag}: {error}"));
    let parse = |flag: &str, text: &str| Template::parse(text).map_err(|error| usage(flag, error));
    let mut partition_key = parse("--partition-key", &args.partition_key)?;
    let mut row_key = parse("--row-key", &args.row_key)?;
    if let Some(pairs) = &args.replace_key_chars {
        let pairs = template::parse_replacements(pairs);
        let pairs = pairs.map_err(|error| usage("--replace-key-chars", error))?;
        partition_key.replace_everywhere(&pairs);
        row_key.replace_everywhere(&pairs);
    }
    Ok(Wishes {
        partition_key,
        row_key,
        types: types(&args.types)?,
        nulls: args.null.clone(),
        drop: args.drop.iter().cloned().collect(),
    })
}

fn types(given: &[String]) -> Result<HashMap<String, EdmType>> {
    let mut types = HashMap::new();
    for pair in given {
        let parsed = pair
            .split_once('=')
            .and_then(|(name, edm)| Some((name.to_owned(), EdmType::by_name(edm)?)));
        let (name, edm) = parsed.ok_or_else(|| {
            Failure::usage(format!("--types: `{pair}` is not COLUMN=TYPE, as in year=int32"))
        })?;
        types.insert(name, edm);
    }
    Ok(types)
}

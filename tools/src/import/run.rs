//! One run of `tabulith import`: its files one after the other, and what is said in the end.

use crate::args::rows::ImportArgs;
use crate::edm::EdmType;
use crate::exit::{Exit, Failure};
use crate::folder::Access;
use crate::import::entity::{Recipe, Wishes};
use crate::import::feed::{End, Feed, Item, KeysSeen};
use crate::import::infer::{self, Column, Survey};
use crate::import::report::{self, BadRows, Bar};
use crate::import::resume::{Progress, Record, Witness};
use crate::import::rows::{self, Next, Rows};
use crate::import::template::{self, Template};
use crate::import::writers::{Job, Ledger, Writers};
use crate::print::note;
use crate::target::Target;
use anyhow::Result;
use std::collections::HashMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::table::name::TableName;
use tokio::signal::ctrl_c;
#[cfg(unix)]
use tokio::signal::unix;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use xxhash_rust::xxh3::Xxh3;

/// Batches that the reader may be ahead of the writers.
const BATCHES_AHEAD: usize = 32;

/// Who imports: that decides what stops it before its end. A signal that it listens for does
/// nothing else any more for the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// A command: SIGINT and SIGTERM stop it, as it is all that the process does.
    Command,
    /// The shell: SIGINT stops it, for which the process listens anyway.
    Shell,
    /// A server that is about to start: nothing stops it, the process ends as it would without an
    /// import. It begins anew each time, so nothing is recorded.
    Server {
        /// Whether only errors are told.
        is_silent: bool,
    },
}

/// Imports all files of the command.
pub(crate) async fn run(args: ImportArgs, whose: For) -> Result<Exit> {
    let wishes = wishes(&args)?;
    TableName::parse(&args.table)
        .map_err(|error| Failure::usage(format!("--table {}: {error}", args.table)))?;
    args.files.iter().try_for_each(|file| rows::check_file(file))?;
    let clock = SystemClock::new();
    let patience = Duration::from_secs(args.patience);
    let target = Arc::new(Target::open(&args.target, Access::Write, patience)?);
    let mut import = Import {
        stop: stop_on(whose)?,
        whose,
        bad: Arc::new(BadRows::default()),
        keys: KeysSeen::default(),
        rows_written: 0,
        rows_bad_before: 0,
        is_recorded: true,
        records: Vec::new(),
        wishes,
        target,
        clock,
        args,
    };
    let end = import.all().await;
    if end.is_err() && import.rows_written > 0 {
        import.tell_how_far("failed");
    }
    let closed = import.target.close();
    let end = end?;
    closed?;
    Ok(import.conclude(end))
}

/// One run of the command.
struct Import {
    args: ImportArgs,
    wishes: Wishes,
    target: Arc<Target>,
    clock: SystemClock,
    whose: For,
    stop: watch::Receiver<bool>,
    bad: Arc<BadRows>,
    /// Lent to the reader while it runs.
    keys: KeysSeen,
    rows_written: u64,
    rows_bad_before: u64,
    /// Whether the next run of the same command goes on where this one stops.
    is_recorded: bool,
    /// Of all files so far. They are removed together, at the end of the whole job.
    records: Vec<Record>,
}

impl Import {
    /// Looks at all files, then imports them. What ends it before the first row makes no table.
    async fn all(&mut self) -> Result<End> {
        let mut surveys = Vec::new();
        for path in self.args.files.clone() {
            match self.survey(&path).await? {
                Some(survey) => surveys.push((survey, path)),
                None => return Ok(End::Stopped),
            }
        }
        self.check_flags(&surveys)?;
        if self.args.restart {
            self.forget(&surveys);
        }
        if self.begins_with_a_bad_row(&surveys)? {
            return Ok(End::BadRow);
        }
        if *self.stop.borrow() {
            return Ok(End::Stopped);
        }
        self.target.create_table(&self.args.table).await?;
        self.files(surveys).await
    }

    /// Imports one file after the other, until one does not come to its end.
    async fn files(&mut self, surveys: Vec<((Survey, u128), PathBuf)>) -> Result<End> {
        for ((survey, digest), path) in surveys {
            let end = self.file(path, survey, digest).await?;
            if end != End::File {
                return Ok(end);
            }
        }
        Ok(End::File)
    }

    /// Removes what is recorded of earlier runs, on the disk: if this one is interrupted, the next
    /// one would believe it.
    fn forget(&self, surveys: &[((Survey, u128), PathBuf)]) {
        for ((survey, digest), _) in surveys {
            if let Some(record) = Record::of(self.job_number(*digest, &survey.columns)) {
                record.remove();
            }
        }
    }

    /// Reads a whole file for its types, its length and its digest; none where it is to stop.
    async fn survey(&self, path: &Path) -> Result<Option<(Survey, u128)>> {
        let (path, wishes, stop) = (path.to_owned(), self.wishes.clone(), self.stop.clone());
        let is_told = !self.is_silent();
        tokio::task::spawn_blocking(move || {
            let is_stopped = || *stop.borrow();
            let Some(survey) = infer::survey(&path, &wishes.nulls, is_stopped)? else {
                return Ok(None);
            };
            if is_told {
                report::types(&path, &survey, &wishes);
            }
            let digest = rows::digest(&path, is_stopped)?;
            Ok(digest.map(|digest| (survey, digest)))
        })
        .await?
    }

    /// Holds what the flags ask for against the columns of all files.
    fn check_flags(&self, surveys: &[((Survey, u128), PathBuf)]) -> Result<()> {
        surveys
            .iter()
            .try_for_each(|((survey, _), path)| self.recipe(&Rows::open(path)?, survey).map(drop))
    }

    /// Whether nothing will be written, since the very first row is bad and ends the import. It is
    /// told here, as no table is made for it.
    fn begins_with_a_bad_row(&self, surveys: &[((Survey, u128), PathBuf)]) -> Result<bool> {
        let Some(((survey, digest), path)) = surveys.first() else { return Ok(false) };
        let record = || Record::of(self.job_number(*digest, &survey.columns));
        if self.args.skip_bad || record().is_some_and(|record| record.load().is_some()) {
            return Ok(false);
        }
        let mut rows = Rows::open(path)?;
        let recipe = self.recipe(&rows, survey)?;
        let bad = match rows.next()? {
            Next::Record(row) => recipe.entity(&row).err().map(|why| (row.line, why)),
            Next::Bad { line, why } => Some((line, why)),
            Next::End => None,
        };
        if let Some((line, why)) = &bad {
            self.bad.add(path, *line, why);
        }
        Ok(bad.is_some())
    }

    fn recipe(&self, rows: &Rows, survey: &Survey) -> Result<Recipe> {
        Recipe::new(self.wishes.clone(), &survey.columns, rows.columns())
    }

    async fn file(&mut self, path: PathBuf, survey: Survey, digest: u128) -> Result<End> {
        let recipe = self.recipe(&Rows::open(&path)?, &survey)?;
        let has_record = !matches!(self.whose, For::Server { .. });
        let number = has_record.then(|| self.job_number(digest, &survey.columns));
        let record = number.and_then(Record::of);
        if has_record && record.is_none() {
            note("neither XDG_STATE_HOME nor HOME is set: the import cannot be resumed");
        }
        let done = match &record {
            Some(record) if !self.args.restart => self.proven(record, &path).await?,
            _ => None,
        };
        self.rows_bad_before += done.as_ref().map_or(0, |done| done.rows_bad);
        let rows_done = done.as_ref().map_or(0, |done| done.rows_done);
        let what = format!("{} into {}", path.display(), self.args.table);
        let bar = Bar::new(survey.rows, rows_done);
        let writers = Writers::new(self.job(&path), Ledger::new(what, record, done), bar);
        let (send, receive) = mpsc::channel(BATCHES_AHEAD);
        let reader = self.start_reader(path, recipe, rows_done, send);
        let written = writers.run(receive, &self.clock).await;
        // The channel is closed by now: the reader is at its end or about to notice.
        let (end, keys) = reader.await?;
        self.keys = keys;
        self.rows_written += written.rows;
        self.is_recorded = written.is_recorded;
        self.records.extend(written.record);
        written.result?;
        match end {
            Ok(_) if written.row_refused => Ok(End::BadRow),
            Ok(_) if written.interrupted => Ok(End::Stopped),
            end => end,
        }
    }

    fn job(&self, path: &Path) -> Job {
        Job {
            target: self.target.clone(),
            table: Arc::from(self.args.table.as_str()),
            path: Arc::from(path),
            skip_bad: self.args.skip_bad,
            in_flight: usize::from(self.args.in_flight),
            stop: self.stop.clone(),
            bad: self.bad.clone(),
        }
    }

    /// Reads the file on a thread that may block; gives the keys back in the end.
    fn start_reader(
        &mut self,
        path: PathBuf,
        recipe: Recipe,
        rows_done: u64,
        send: mpsc::Sender<Item>,
    ) -> JoinHandle<(Result<End>, KeysSeen)> {
        let mut keys = std::mem::take(&mut self.keys);
        let (bad, skip_bad) = (self.bad.clone(), self.args.skip_bad);
        tokio::task::spawn_blocking(move || {
            let (path, recipe, bad) = (&*path, &recipe, &*bad);
            let feed = Feed { path, recipe, rows_done, skip_bad, bad, keys: &mut keys };
            (feed.run(&send), keys)
        })
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
    fn job_number(&self, digest: u128, columns: &[Column]) -> u128 {
        let mut types: Vec<String> =
            self.wishes.types.iter().map(|(name, edm)| format!("{name}={edm}")).collect();
        types.sort_unstable();
        // Another version may find others in the same file: its rows are not those of the first
        // ones.
        let found = columns.iter().map(|column| (&column.name, column.number_type()));
        let found: Vec<_> = found.collect();
        let mut drop: Vec<&String> = self.wishes.drop.iter().collect();
        drop.sort_unstable();
        let parts = format!(
            "{digest:032x}\n{}\n{}\n{:?}\n{:?}\n{types:?}\n{:?}\n{drop:?}\n{found:?}",
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

    fn is_silent(&self) -> bool {
        self.whose == For::Server { is_silent: true }
    }

    /// Says that it ended early, and what the same command would do.
    fn tell_how_far(&self, how: &str) {
        let written = report::rate(self.rows_written, self.clock.steady());
        let again = match self.is_recorded {
            true => "goes on from here",
            false => "begins anew",
        };
        note(&format!("{how} after {written}; the same command {again}"));
    }

    /// Says how it went.
    fn conclude(&self, end: End) -> Exit {
        let written = report::rate(self.rows_written, self.clock.steady());
        let bad = self.bad.count() + self.rows_bad_before;
        match end {
            End::File => {
                self.records.iter().for_each(Record::remove);
                let bad = match bad {
                    0 => String::new(),
                    n => format!("; {} bad rows skipped", report::grouped(n)),
                };
                if !self.is_silent() {
                    note(&format!("imported {written}, into {}{bad}", self.args.table));
                }
                Exit::Ok
            }
            End::BadRow => {
                note(&format!(
                    "stopped at a bad row after {written}; mend it or use --skip-bad, then run the same command"
                ));
                Exit::Failure
            }
            End::Stopped => {
                self.tell_how_far("interrupted");
                Exit::Interrupted
            }
        }
    }
}

/// A flag that the signals set. A second one ends the process at once.
fn stop_on(whose: For) -> Result<watch::Receiver<bool>> {
    let (send, receive) = watch::channel(false);
    #[cfg(unix)]
    let mut terminate = match whose {
        For::Command => Some(unix::signal(unix::SignalKind::terminate())?),
        For::Shell | For::Server { .. } => None,
    };
    tokio::spawn(async move {
        loop {
            let interrupted = async {
                match whose {
                    For::Command | For::Shell => drop(ctrl_c().await),
                    For::Server { .. } => pending().await,
                }
            };
            #[cfg(unix)]
            let terminated = async {
                match &mut terminate {
                    Some(terminate) => drop(terminate.recv().await),
                    None => pending().await,
                }
            };
            #[cfg(not(unix))]
            let terminated = pending::<()>();
            tokio::select! {
                () = interrupted => {}
                () = terminated => {}
                // An import that is over is not told any more: its process may have other work by
                // then.
                () = send.closed() => return,
            }
            if send.send_replace(true) {
                std::process::exit(Exit::Interrupted as i32);
            }
            note(match whose {
                For::Shell => "stopping; once more ends the shell at once",
                For::Command | For::Server { .. } => "stopping; once more to stop at once",
            });
        }
    });
    Ok(receive)
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

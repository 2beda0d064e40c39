//! The tables of one account behind a server, through the client; patient with a server that went
//! away or is busy.

use crate::ask::{Ask, Change, Condition, Key, WriteError};
use crate::connect;
use crate::exit::{Exit, Failure};
use crate::print::note;
use crate::translate::{commit_of, into_client, of_client};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith_client::world::{Machine, Pending, Waiting, World};
use tabulith_client::{
    Account, Backoff, Connection, Continuation, ETag, Error, Explained, Filter, Operation, Options,
    Query, Retry, Transaction, Trust,
};
use tabulith_server::odata::parser;

/// How long a first call is tried: a wrong address should be told soon.
const SHORT: Duration = Duration::from_secs(2);

/// How long a call waits before that is told, and how long until it is told again.
const TOLD_EVERY: Duration = Duration::from_secs(2);

/// The tables of an account behind a server.
pub(crate) struct Remote {
    account: Account,
    /// For writes: they have been going well, so the server will come back.
    patient: Account,
    /// Whether that one waits longer than for a first call.
    is_patient: bool,
    /// Whether a call was answered.
    has_answered: AtomicBool,
}

/// A page of rows.
#[derive(Debug)]
pub(crate) struct RemotePage {
    /// The rows.
    pub(crate) entities: Vec<Entity>,
    /// The ETag of each; empty where the server sent none.
    pub(crate) etags: Vec<String>,
    /// Where the next page begins.
    pub(crate) next: Option<Continuation>,
    /// How they were found, where the server says so.
    pub(crate) explained: Option<Explained>,
}

/// Accounts that this process has asked for. Who asks for one again goes on with its connections,
/// so that the commands of a session share them.
static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

/// Accounts that are remembered. A session that goes to more places connects anew.
const OPEN_MAX: usize = 16;

/// An account that was asked for.
struct Open {
    connection: Connection,
    /// Whose certificates are believed.
    ca: Option<PathBuf>,
    account: Account,
    world: Arc<Telling>,
}

impl Remote {
    /// The account behind a connection, with certificates of a file; over the connections that this
    /// process has to it. `patience`: how long it waits for a server that went away.
    pub(crate) fn shared(
        connection: Connection,
        ca: Option<&Path>,
        patience: Duration,
    ) -> Result<Remote> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |known: &&Open| known.connection == connection && known.ca.as_deref() == ca;
        if let Some(known) = open.iter().find(known) {
            known.world.set_patience(patience);
            return Ok(Remote::of(known.account.clone(), patience));
        }
        let world = Arc::new(Telling::new(patience));
        let account = account(connection.clone(), connect::trust(ca)?, world.clone());
        if open.len() >= OPEN_MAX {
            open.remove(0);
        }
        let ca = ca.map(Path::to_owned);
        open.push(Open { connection, ca, account: account.clone(), world });
        Ok(Remote::of(account, patience))
    }

    fn of(account: Account, patience: Duration) -> Remote {
        Remote {
            patient: account.with_retry(retry(patience)),
            is_patient: patience > SHORT,
            has_answered: AtomicBool::new(false),
            account,
        }
    }

    /// The account for a call that is no write. A wrong address is told soon; a server that was
    /// there will come back.
    fn caller(&self) -> &Account {
        let is_patient = self.is_patient && self.has_answered.load(Ordering::Relaxed);
        if is_patient { &self.patient } else { &self.account }
    }

    fn answered<T>(&self, outcome: Result<T, Error>, doing: &str) -> Result<T> {
        if outcome.is_ok() {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        outcome.map_err(|error| failed(error, doing))
    }

    /// The account behind a connection, of which nothing is asked yet. `patience`: how long it
    /// waits for a server that went away.
    pub(crate) fn new(connection: Connection, trust: Trust, patience: Duration) -> Remote {
        Remote::of(account(connection, trust, Arc::new(Telling::new(patience))), patience)
    }

    /// Text that is the same for the same tables.
    pub(crate) fn identity(&self) -> String {
        self.account.connection().endpoint.clone()
    }

    /// Makes the table; false where it exists already.
    pub(crate) async fn create_table(&self, table: &str) -> Result<bool> {
        let made = self.caller().create_table(table).await;
        self.answered(made, &format!("creating the table {table}"))
    }

    /// Deletes the table; false where there is none.
    pub(crate) async fn delete_table(&self, table: &str) -> Result<bool> {
        let gone = self.account.delete_table(table).await;
        gone.map_err(|error| failed(error, &format!("deleting the table {table}")))
    }

    /// The names of all tables.
    pub(crate) async fn tables(&self) -> Result<Vec<String>> {
        let names = self.caller().tables(None).all().await;
        self.answered(names, "listing tables")
    }

    /// Does one change. Returns the entity's ETag; a delete leaves none.
    pub(crate) async fn change(&self, table: &str, change: Change) -> Result<Option<String>> {
        let into = self.account.table(table);
        let etag = match change {
            Change::Insert(row) => into.insert(&into_client(row)).await.map(Some),
            Change::Replace(row, what) => {
                into.replace(&into_client(row), condition(what)).await.map(Some)
            }
            Change::Merge(row, what) => {
                into.merge(&into_client(row), condition(what)).await.map(Some)
            }
            Change::Upsert(row) => into.upsert(&into_client(row)).await.map(Some),
            Change::UpsertMerge(row) => into.upsert_merge(&into_client(row)).await.map(Some),
            Change::Delete(Key { partition, row }, what) => {
                into.delete(&partition, &row, condition(what)).await.map(|()| None)
            }
        };
        let etag = etag.map_err(|error| {
            let open = if error.maybe_done() { ", which may be done nevertheless" } else { "" };
            failed(error, &format!("writing to {table}{open}"))
        })?;
        Ok(etag.map(|etag| etag.as_str().to_owned()))
    }

    /// Removes rows of one partition that are still the versions of those ETags, all or none.
    /// Returns the place of one that is not, if there is one.
    pub(crate) async fn delete_rows(
        &self,
        table: &str,
        rows: Vec<(Key, String)>,
    ) -> Result<Option<usize>> {
        let count = rows.len();
        let mut transaction = Transaction::new();
        for (Key { partition, row }, etag) in rows {
            transaction.delete(partition, row, ETag::new(etag));
        }
        match self.patient.table(table).submit(&transaction).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() || error.is_changed_meanwhile() => {
                let index = error.refusal().and_then(|refusal| refusal.index);
                match index.filter(|index| *index < count) {
                    Some(index) if error.code() != Some("TableNotFound") => Ok(Some(index)),
                    _ => Err(failed(error, &format!("deleting from {table}"))),
                }
            }
            Err(error) => Err(failed(error, &format!("deleting from {table}"))),
        }
    }

    /// Inserts or replaces rows of one partition, all or none. Returns the commit of the last one:
    /// a service may give each its own. The rows are the same afterwards; they are lent to the
    /// client, which saves a copy of each.
    pub(crate) async fn write(
        &self,
        table: &str,
        rows: &mut Vec<Entity>,
    ) -> Result<CommitTs, WriteError> {
        let mut transaction = Transaction::new();
        for row in rows.drain(..) {
            transaction.upsert(into_client(row));
        }
        let written = self.patient.table(table).submit(&transaction).await;
        for operation in transaction.into_operations() {
            if let Operation::Replace(row, _) = operation {
                rows.push(of_client(row).expect("what the engine held before it can hold again"));
            }
        }
        let etags = written.map_err(|error| refused(error, table, rows.len()))?;
        Ok(last_commit(&etags))
    }

    /// Reads a row and its ETag. A table that does not exist is an error.
    pub(crate) async fn show(
        &self,
        table: &str,
        partition_key: &str,
        row_key: &str,
    ) -> Result<Option<(Entity, String)>> {
        let doing = format!("reading from {table}");
        let row = self.account.table(table).get(partition_key, row_key).await;
        let Some(mut row) = row.map_err(|error| failed(error, &doing))? else { return Ok(None) };
        let etag = row.etag.take().map(|etag| etag.as_str().to_owned()).unwrap_or_default();
        Ok(Some((of_client(row).map_err(|why| garbled(&why, &doing))?, etag)))
    }

    /// Reads a row; there is none where there is no table.
    pub(crate) async fn get(
        &self,
        table: &str,
        partition_key: &str,
        row_key: &str,
    ) -> Result<Option<Entity>> {
        let doing = format!("reading from {table}");
        match self.caller().table(table).get(partition_key, row_key).await {
            Ok(row) => {
                row.map(|row| of_client(row).map_err(|why| garbled(&why, &doing))).transpose()
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(failed(error, &doing)),
        }
    }

    /// Reads a page.
    pub(crate) async fn page(
        &self,
        table: &str,
        ask: &Ask,
        from: Option<&Continuation>,
    ) -> Result<RemotePage> {
        let doing = format!("reading {table}");
        let mut query = query(ask);
        if let Some(from) = from {
            query = query.from(from.clone());
        }
        let page = self.caller().table(table).query(query).next_page().await;
        // Of other refusals with that status nobody knows that a flag is to blame.
        if let Err(error) = &page
            && error.status() == Some(400)
            && parser::parse(&ask.filter).is_err()
        {
            return Err(Failure::usage(format!("--filter: {error}")).into());
        }
        let page = self.answered(page, &doing)?.unwrap_or_default();
        let mut etags = Vec::with_capacity(page.entities.len());
        let entities = page.entities.into_iter().map(|mut row| {
            etags.push(row.etag.take().map_or(String::new(), |etag| etag.as_str().to_owned()));
            of_client(row)
        });
        let entities = entities.collect::<Result<_, _>>();
        Ok(RemotePage {
            entities: entities.map_err(|why| garbled(&why, &doing))?,
            etags,
            next: page.next,
            explained: page.explained,
        })
    }
}

fn account(connection: Connection, trust: Trust, world: Arc<Telling>) -> Account {
    let options = Options { retry: retry(SHORT), trust, world, ..Options::default() };
    Account::new(connection, options)
}

fn condition(condition: Condition) -> tabulith_client::Condition {
    match condition {
        Condition::Any => tabulith_client::Condition::Any,
        Condition::Is(etag) => ETag::new(etag).into(),
    }
}

fn query(ask: &Ask) -> Query {
    let mut query = Query::new().page_size(ask.top);
    if !ask.filter.is_empty() {
        query = query.filter(Filter::raw(&ask.filter));
    }
    if let Some(select) = &ask.select {
        query = query.select(selected(select));
    }
    if ask.explain { query.explained() } else { query }
}

/// What the service is asked for, each name once. Keys that are not asked for it leaves out, and
/// our output always has them.
fn selected(select: &[String]) -> Vec<&str> {
    let mut names = vec!["PartitionKey", "RowKey", "Timestamp"];
    for name in select {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Soon at first, every two seconds later, for so long in all.
fn retry(time_max: Duration) -> Retry {
    Retry {
        backoff: Backoff::Exponential {
            unit: Duration::from_millis(25),
            min: Duration::ZERO,
            max: Duration::from_secs(2),
        },
        retries_max: u32::MAX,
        time_max,
        retry_after_max: time_max,
    }
}

/// A refusal of status 400 that names an operation blames its row.
fn refused(error: Error, table: &str, rows: usize) -> WriteError {
    match error.refusal() {
        Some(refusal) if refusal.status == 400 && refusal.index.is_some_and(|at| at < rows) => {
            WriteError::Row {
                index: refusal.index.unwrap_or_default(),
                why: format!("{}: {}", refusal.code, refusal.message),
            }
        }
        _ => WriteError::Failed(failed(error, &format!("writing to {table}"))),
    }
}

/// The error that ends the process, with its exit code.
pub(crate) fn failed(error: Error, doing: &str) -> anyhow::Error {
    let exit = match &error {
        Error::Unreachable { .. } => Exit::Unavailable,
        Error::Refused(refusal) => Exit::of_status(refusal.status),
        _ => Exit::Failure,
    };
    let help = match &error {
        Error::Untrusted { .. } => "; --ca FILE names certificates to trust",
        _ => "",
    };
    Failure::new(exit, format!("{doing}: {error}{help}")).into()
}

fn garbled(why: &str, doing: &str) -> anyhow::Error {
    failed(Error::Garbled(why.to_owned()), doing)
}

/// The machine's time and chance, and a word to the person where calls wait for long.
struct Telling {
    machine: Machine,
    /// How long calls wait, in milliseconds.
    patience_ms: AtomicU64,
    /// When that was told last, in milliseconds; 0: never.
    told_ms: AtomicU64,
}

impl Telling {
    fn new(patience: Duration) -> Telling {
        let patience_ms = AtomicU64::new(ms(patience));
        Telling { machine: Machine::default(), patience_ms, told_ms: AtomicU64::new(0) }
    }

    /// From now on calls wait so long.
    fn set_patience(&self, patience: Duration) {
        self.patience_ms.store(ms(patience), Ordering::Relaxed);
    }

    /// Whether a call that waits is to be told of. Many wait at once; one word is for all of them.
    fn is_due(&self, spent: Duration, now: Duration) -> bool {
        let now = ms(now).max(1);
        let due =
            |told: u64| (told == 0 || now >= told.saturating_add(ms(TOLD_EVERY))).then_some(now);
        spent >= TOLD_EVERY
            && self.told_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl World for Telling {
    fn wall(&self) -> Duration {
        self.machine.wall()
    }

    fn steady(&self) -> Duration {
        self.machine.steady()
    }

    fn chance(&self) -> f64 {
        self.machine.chance()
    }

    fn sleep(&self, wait: Duration) -> Pending<'_, ()> {
        self.machine.sleep(wait)
    }

    fn waiting(&self, waiting: &Waiting<'_>) {
        if self.is_due(waiting.spent, self.steady()) {
            let patience = self.patience_ms.load(Ordering::Relaxed);
            let left = patience.saturating_sub(ms(waiting.spent)) / 1_000;
            note(&format!("waiting for {}: {left} s left", waiting.endpoint));
        }
    }
}

/// The commit of a transaction's last row, as far as the service tells; not the newest, where each
/// row has its own: what says how far an import has come is a row with that very commit.
fn last_commit(etags: &[Option<ETag>]) -> CommitTs {
    etags.last().and_then(Option::as_ref).and_then(commit_of).unwrap_or(CommitTs::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_ends_with_the_commit_of_its_last_row() {
        let commit = |n: u64| CommitTs(17_000_000_000_000_000 + n);
        let etag = |n| Some(ETag::new(tabulith::table::etag::ETag(commit(n)).to_string()));
        assert_eq!(last_commit(&[etag(3), etag(2), etag(1)]), commit(1));
        assert_eq!(last_commit(&[etag(1), None]), CommitTs::ZERO);
        assert_eq!(last_commit(&[]), CommitTs::ZERO);
    }

    #[test]
    fn many_calls_that_wait_are_told_of_once_in_a_while() {
        let telling = Telling::new(Duration::from_secs(60));
        let told =
            [(1.9, 5.0), (2.0, 5.0), (2.5, 5.5), (4.0, 6.9), (4.0, 7.0), (9.0, 8.0), (9.0, 12.0)]
                .map(|(spent, now)| {
                    telling.is_due(Duration::from_secs_f64(spent), Duration::from_secs_f64(now))
                });
        assert_eq!(told, [false, true, false, false, true, false, true]);
    }

    #[test]
    fn every_name_is_asked_for_once() {
        let of = |select: &[&str]| {
            let select = Some(select.iter().map(|name| (*name).to_owned()).collect());
            format!("{:?}", query(&Ask::rows(None, select)))
        };
        for (select, asked) in [
            (&["PartitionKey", "RowKey"][..], "\"PartitionKey,RowKey,Timestamp\""),
            (&[], "\"PartitionKey,RowKey,Timestamp\""),
            (&["B", "RowKey", "A", "B"], "\"PartitionKey,RowKey,Timestamp,B,A\""),
            (&["rowkey"], "\"PartitionKey,RowKey,Timestamp,rowkey\""),
        ] {
            assert!(of(select).contains(asked), "{select:?}: {}", of(select));
        }
    }

    #[test]
    fn a_refusal_blames_its_row_or_ends_the_work() {
        let refusal = |status, index| {
            let code = "EntityTooLarge".to_owned();
            let message = "Too large.".to_owned();
            Error::Refused(Box::new(tabulith_client::Refusal {
                status,
                code,
                message,
                index,
                ..Default::default()
            }))
        };
        let WriteError::Row { index, why } = refused(refusal(400, Some(7)), "T", 8) else {
            panic!("a row is to blame");
        };
        assert_eq!((index, why.as_str()), (7, "EntityTooLarge: Too large."));
        for (status, index) in [(400, None), (400, Some(8)), (404, Some(0))] {
            let WriteError::Failed(error) = refused(refusal(status, index), "T", 8) else {
                panic!("no row is to blame");
            };
            assert_eq!(error.to_string(), "writing to T: EntityTooLarge: Too large.");
        }
    }

    #[test]
    fn every_failure_has_its_exit() {
        let endpoint = "https://h/a".to_owned();
        let cause = "UnknownIssuer".to_owned();
        let away = Error::Unreachable {
            endpoint: endpoint.clone(),
            cause: "refused".to_owned(),
            maybe_done: false,
        };
        let away = failed(away, "reading T");
        assert_eq!(crate::exit::of(&away), Exit::Unavailable);
        assert_eq!(away.to_string(), "reading T: no answer from https://h/a: refused");
        let other = failed(Error::Untrusted { endpoint, cause, maybe_done: false }, "reading T");
        assert_eq!(crate::exit::of(&other), Exit::Failure);
        assert!(other.to_string().ends_with("; --ca FILE names certificates to trust"), "{other}");
        let garbled = garbled("x", "reading T");
        assert_eq!(garbled.to_string(), "reading T: unexpected answer: x");
    }
}

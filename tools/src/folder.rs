//! The tables of one account in a data folder, without a server.
//!
//! The engine's calls wait for the disk, so they run beside the runtime's threads; a commit is
//! waited for without a thread, so that many can share one sync.

use crate::ask::{Ask, Change, Condition, Key, WriteError};
use crate::exit::{Exit, Failure};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tabulith::db::Db;
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tabulith::table::entity::Entity;
use tabulith::table::error::{GroupError, TableError};
use tabulith::table::etag::IfMatch;
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::{Budget, Continuation, PAGE_ENTITIES_MAX, Page, Query};
use tabulith::table::store::TableStore;
use tabulith::table::write::Write;
use tabulith_server::odata::parser;

/// Bytes of rows that are read for a page. The row that passes it is the last one.
const PAGE_BYTES: u64 = 16 << 20;

/// What a folder is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading, also while a server has it open: what is durable at this moment.
    Read,
    /// Writing, alone; made where it does not exist.
    Write,
    /// Writing, alone; one that does not exist is an error.
    Change,
}

/// The tables of an account in a folder.
pub(crate) struct Folder {
    store: TableStore<Db>,
    account: AccountName,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder.
    pub(crate) fn open(path: &Path, account: &str, access: Access) -> Result<Folder> {
        let account = AccountName::parse(account)
            .map_err(|error| Failure::usage(format!("--account-name {account}: {error}")))?;
        let builder = match access {
            Access::Read => Db::builder().read_only(),
            Access::Write => Db::builder(),
            Access::Change => Db::builder().must_exist(),
        };
        let db = builder.open(path).with_context(|| format!("opening {}", path.display()))?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(Folder { store: TableStore::new(db.into()), account, path })
    }

    /// Text that is the same for the same tables.
    pub(crate) fn identity(&self) -> String {
        format!("{}#{}", self.path.display(), self.account)
    }

    /// Makes the table; false where it exists already.
    pub(crate) async fn create_table(&self, table: &str) -> Result<bool> {
        let table = table_name(table)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        match blocking(move || store.create_table(&account, &table)).await? {
            Ok(_) => Ok(true),
            Err(TableError::TableExists) => Ok(false),
            Err(error) => Err(error).context("creating the table"),
        }
    }

    /// Deletes the table; false where there is none.
    pub(crate) async fn delete_table(&self, table: &str) -> Result<bool> {
        let name = table_name(table)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        match blocking(move || store.delete_table(&account, &name)).await? {
            Ok(()) => Ok(true),
            Err(TableError::TableNotFound) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("deleting the table {table}")),
        }
    }

    /// The names of all tables.
    pub(crate) async fn tables(&self) -> Result<Vec<String>> {
        let (mut names, mut from) = (Vec::new(), None::<String>);
        loop {
            let (store, account) = (self.store.clone(), self.account.clone());
            let page = blocking(move || {
                store.list_tables(&account, None, PAGE_ENTITIES_MAX, from.as_deref())
            });
            let page = page.await?.context("listing tables")?;
            names.extend(page.tables.iter().map(|table| table.name.to_string()));
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(names),
            }
        }
    }

    /// Of a folder that should have a table of the account.
    pub(crate) fn nothing(&self) -> Failure {
        let (path, account) = (self.path.display(), &self.account);
        Failure::new(Exit::NotFound, format!("{path} has no table of the account {account}"))
    }

    /// Removes all rows of a table.
    pub(crate) async fn truncate(&self, table: &str) -> Result<()> {
        let name = table_name(table)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        let truncated = blocking(move || store.truncate(&account, &name)).await?;
        truncated.map(drop).with_context(|| format!("emptying the table {table}"))
    }

    /// Whether the account has a setting of that name.
    pub(crate) async fn has_setting(&self, name: &str) -> Result<bool> {
        let (store, account, name) = (self.store.clone(), self.account.clone(), name.to_owned());
        let setting = blocking(move || store.account_setting(&account, &name)).await?;
        Ok(setting.context("reading a setting")?.is_some())
    }

    /// Keeps a setting that says no more than its name, or takes it back. Returns once that is
    /// durable.
    pub(crate) async fn set_setting(&self, name: &str, is_set: bool) -> Result<()> {
        let (store, account, name) = (self.store.clone(), self.account.clone(), name.to_owned());
        let value = is_set.then_some(&b""[..]);
        let set = blocking(move || store.set_account_setting(&account, &name, value)).await?;
        set.context("writing a setting")
    }

    /// Does one change. Returns the entity's ETag; a delete leaves none.
    pub(crate) async fn change(&self, table: &str, change: Change) -> Result<Option<String>> {
        let name = table_name(table)?;
        let write = write_of(change)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        let done = blocking(move || store.write(&account, &name, write)?.wait());
        let outcome = done.await?.with_context(|| format!("writing to {table}"))?;
        Ok(outcome.etag().map(|etag| etag.to_string()))
    }

    /// Removes rows of one partition that are still the versions of those ETags, all or none.
    /// Returns the place of one that is not, if there is one.
    pub(crate) async fn delete_rows(
        &self,
        table: &str,
        rows: Vec<(Key, String)>,
    ) -> Result<Option<usize>> {
        let name = table_name(table)?;
        let deletes = rows.into_iter().map(|(key, etag)| Change::Delete(key, Condition::Is(etag)));
        let writes = deletes.map(write_of).collect::<Result<Vec<Write>>>()?;
        let (store, account) = (self.store.clone(), self.account.clone());
        let done = blocking(move || store.transact(&account, &name, writes)?.wait());
        match done.await? {
            Ok(_) => Ok(None),
            Err(GroupError { index, error: TableError::EntityNotFound, .. })
            | Err(GroupError { index, error: TableError::ConditionFailed { .. }, .. }) => {
                Ok(Some(index))
            }
            Err(GroupError { error, .. }) => {
                Err(error).with_context(|| format!("deleting from {table}"))
            }
        }
    }

    /// Inserts or replaces rows of one partition, all or none; what expires keeps its time. Returns
    /// their commit.
    pub(crate) async fn write(&self, table: &str, rows: &[Entity]) -> Result<CommitTs, WriteError> {
        let table = table_name(table).map_err(WriteError::Failed)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        let writes = rows.iter().cloned().map(upsert).collect();
        let pending = blocking(move || store.transact(&account, &table, writes)).await;
        let pending = pending.map_err(WriteError::Failed)?.map_err(refused)?;
        let (send, receive) = tokio::sync::oneshot::channel();
        pending.notify(move |outcome| drop(send.send(outcome)));
        let outcome = receive.await.context("the commit was given up");
        let outcomes = outcome.map_err(WriteError::Failed)?.map_err(refused)?;
        Ok(outcomes.iter().map(|outcome| outcome.ts).max().unwrap_or(CommitTs::ZERO))
    }

    /// Reads a row.
    pub(crate) async fn get(
        &self,
        table: &str,
        partition_key: &str,
        row_key: &str,
    ) -> Result<Option<Entity>> {
        let name = table_name(table)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        let (partition_key, row_key) = (partition_key.to_owned(), row_key.to_owned());
        let row =
            blocking(move || store.get(&account, &name, &partition_key, &row_key, Reach::Disk));
        row.await?.with_context(|| format!("reading {table}"))
    }

    /// Reads a page: of large rows fewer than are asked for.
    pub(crate) async fn page(
        &self,
        table: &str,
        ask: &Ask,
        from: Option<&Continuation>,
    ) -> Result<Page> {
        let name = table_name(table)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        let query = Query {
            filter: parser::parse(&ask.filter)
                .map_err(|error| Failure::usage(format!("--filter: {error}")))?,
            select: ask.select.clone(),
            top: ask.top,
            from: from.cloned(),
            budget: Budget { bytes_scanned: PAGE_BYTES, ..Budget::default() },
            ..Query::default()
        };
        let page = blocking(move || store.query(&account, &name, &query)).await?;
        page.with_context(|| format!("reading {table}"))
    }

    /// How many rows a table has.
    pub(crate) async fn count(&self, table: &str) -> Result<u64> {
        let name = table_name(table)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        let rows = blocking(move || store.count(&account, &name)).await?;
        rows.with_context(|| format!("counting {table}"))
    }

    /// Makes all commits durable and releases the folder.
    pub(crate) fn close(&self) -> Result<()> {
        self.store.rows().close().with_context(|| format!("closing {}", self.path.display()))
    }
}

fn table_name(table: &str) -> Result<TableName> {
    let name = TableName::parse(table);
    name.map_err(|error| Failure::usage(format!("the table name {table}: {error}")).into())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("a worker failed")
}

fn upsert(row: Entity) -> Write {
    let expires = row.expires;
    let write = Write::InsertOrReplace(row);
    match expires {
        Some(expires) => write.until(expires),
        None => write,
    }
}

/// A change in the engine's words.
fn write_of(change: Change) -> Result<Write> {
    let condition = |condition| match condition {
        Condition::Any => Ok(IfMatch::Any),
        Condition::Is(etag) => {
            IfMatch::parse(&etag).map_err(|_| Failure::usage(format!("{etag} is no ETag")))
        }
    };
    Ok(match change {
        Change::Insert(entity) => Write::Insert(entity),
        Change::Replace(entity, what) => Write::Update(entity, condition(what)?),
        Change::Merge(entity, what) => Write::Merge(entity, condition(what)?),
        Change::Upsert(entity) => Write::InsertOrReplace(entity),
        Change::UpsertMerge(entity) => Write::InsertOrMerge(entity),
        Change::Delete(Key { partition, row }, what) => {
            Write::Delete { partition_key: partition, row_key: row, condition: condition(what)? }
        }
    })
}

/// Rules about an entity blame a row; everything else is no row's fault.
fn refused(error: GroupError) -> WriteError {
    let GroupError { index, error, .. } = error;
    match error {
        TableError::KeyInvalid { .. }
        | TableError::KeyTooLong { .. }
        | TableError::PropertyNameInvalid { .. }
        | TableError::PropertyNameTooLong { .. }
        | TableError::PropertyTwice { .. }
        | TableError::PropertyValueTooLarge { .. }
        | TableError::PropertyOutOfRange { .. }
        | TableError::TooManyProperties { .. }
        | TableError::EntityTooLarge { .. } => WriteError::Row { index, why: error.to_string() },
        error => WriteError::Failed(anyhow::Error::new(error).context("writing")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tabulith::table::value::Value;

    /// A thousand rows of 1 MiB were one page.
    #[tokio::test]
    async fn a_page_of_large_rows_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), "devstoreaccount1", Access::Write).unwrap();
        folder.create_table("rows").await.unwrap();
        let large = |n: usize| {
            let mut row = Entity::new("p", format!("{n:02}"));
            let property = |at: usize| (format!("b{at}"), Value::Binary(vec![7; 64 << 10]));
            row.properties.extend((0..15).map(property));
            row
        };
        for n in 0..20 {
            folder.write("rows", &[large(n)]).await.unwrap();
        }
        let ask = Ask { top: 1000, ..Ask::rows(None, None) };
        let first = folder.page("rows", &ask, None).await.unwrap();
        assert!((16..20).contains(&first.entities.len()), "{} rows", first.entities.len());
        let second = folder.page("rows", &ask, first.next.as_ref()).await.unwrap();
        assert_eq!((first.entities.len() + second.entities.len(), second.next), (20, None));
    }
}

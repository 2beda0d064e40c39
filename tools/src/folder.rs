//! The tables of one account in a data folder, without a server.
//!
//! The engine's calls wait for the disk, so they run beside the runtime's threads; a commit is
//! waited for without a thread, so that many can share one sync.

use crate::ask::{Ask, WriteError};
use crate::exit::Failure;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tabulith::db::Db;
use tabulith::ids::CommitTs;
use tabulith::options::Reach;
use tabulith::table::entity::Entity;
use tabulith::table::error::{GroupError, TableError};
use tabulith::table::name::{AccountName, TableName};
use tabulith::table::page::{Continuation, Page, Query};
use tabulith::table::store::TableStore;
use tabulith::table::write::Write;
use tabulith_server::odata::parser;

/// What a folder is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading, also while a server has it open: what is durable at this moment.
    Read,
    /// Writing, alone; made where it does not exist.
    Write,
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

    /// Inserts or replaces rows of one partition, all or none. Returns their commit.
    pub(crate) async fn write(&self, table: &str, rows: &[Entity]) -> Result<CommitTs, WriteError> {
        let table = table_name(table).map_err(WriteError::Failed)?;
        let (store, account) = (self.store.clone(), self.account.clone());
        let writes = rows.iter().map(|row| Write::InsertOrReplace(row.clone())).collect();
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

    /// Reads a page.
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
                .map_err(|error| anyhow::anyhow!("--filter: {error}"))?,
            select: ask.select.clone(),
            top: ask.top,
            from: from.cloned(),
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

/// Rules about an entity blame a row; everything else is no row's fault.
fn refused(error: GroupError) -> WriteError {
    let GroupError { index, error } = error;
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

//! The tables a command works on: a server's, or those of a folder. Commands do not care which.

use crate::args::TargetArgs;
use crate::ask::{Ask, WriteError};
use crate::client::error::CallError;
use crate::client::http::Patience;
use crate::client::tables::{Found, TableClient, Token};
use crate::connect::Connection;
use crate::folder::{Access, Folder};
use anyhow::Result;
use std::time::Duration;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::page::Continuation;

/// Where the tables are.
pub(crate) enum Target {
    /// Behind a server.
    Server {
        /// The client.
        client: TableClient,
        /// How long a call waits for a server that went away.
        patience: Patience,
    },
    /// In a folder.
    Folder(Folder),
}

/// Where the next page begins.
#[derive(Clone, Debug)]
pub(crate) enum From {
    /// In the server's words.
    Server(Token),
    /// In the engine's.
    Folder(Continuation),
}

/// A page of rows.
#[derive(Debug)]
pub(crate) struct Page {
    /// The rows.
    pub(crate) entities: Vec<Entity>,
    /// Where the next page begins, if there is more.
    pub(crate) next: Option<From>,
    /// How they were found, where that is known.
    pub(crate) explained: Option<Found>,
}

impl Target {
    /// The target that the flags and the environment name. `patience`: how long a call waits for
    /// a server that went away.
    pub(crate) fn open(args: &TargetArgs, access: Access, patience: Duration) -> Result<Target> {
        if let Some(path) = &args.data_dir {
            return Ok(Target::Folder(Folder::open(path, &args.account_name, access)?));
        }
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let connection = Connection::find(args.connection_string.as_deref(), variable)?;
        let client = TableClient::new(connection);
        Ok(Target::Server { client, patience: Patience(patience) })
    }

    /// Text that is the same for the same tables.
    pub(crate) fn identity(&self) -> String {
        match self {
            Target::Server { client, .. } => client.endpoint().to_owned(),
            Target::Folder(folder) => folder.identity(),
        }
    }

    /// Makes the table; false where it exists already.
    pub(crate) async fn create_table(&self, table: &str) -> Result<bool> {
        match self {
            Target::Server { client, .. } => {
                let made = client.create_table(table, Patience::SHORT).await;
                made.map_err(|error| failed(error, &format!("creating the table {table}")))
            }
            Target::Folder(folder) => folder.create_table(table).await,
        }
    }

    /// Inserts or replaces rows of one partition, all or none. Returns their newest commit.
    pub(crate) async fn write(
        &self,
        table: &str,
        rows: &[&Entity],
    ) -> Result<CommitTs, WriteError> {
        match self {
            Target::Server { client, patience } => {
                let written = client.write_batch(table, rows.iter().copied(), *patience).await;
                written.map_err(|error| refused(error, table, rows.len()))
            }
            Target::Folder(folder) => folder.write(table, rows).await,
        }
    }

    /// Reads a row, as an entity that has its commit.
    pub(crate) async fn get(
        &self,
        table: &str,
        partition_key: &str,
        row_key: &str,
    ) -> Result<Option<Entity>> {
        match self {
            Target::Server { client, .. } => {
                let row = client.get(table, partition_key, row_key, Patience::SHORT).await;
                row.map_err(|error| failed(error, &format!("reading from {table}")))
            }
            Target::Folder(folder) => folder.get(table, partition_key, row_key).await,
        }
    }

    /// Reads a page.
    pub(crate) async fn page(&self, table: &str, ask: &Ask, from: Option<&From>) -> Result<Page> {
        match self {
            Target::Server { client, .. } => {
                let token = match from {
                    Some(From::Server(token)) => Some(token),
                    _ => None,
                };
                let options = options(ask);
                let page = client.page(table, &options, token, ask.explain, Patience::SHORT).await;
                let page = page.map_err(|error| failed(error, &format!("reading {table}")))?;
                Ok(Page {
                    entities: page.entities,
                    next: page.next.map(From::Server),
                    explained: page.explained,
                })
            }
            Target::Folder(folder) => {
                let from = match from {
                    Some(From::Folder(from)) => Some(from),
                    _ => None,
                };
                let page = folder.page(table, ask, from).await?;
                Ok(Page {
                    entities: page.entities,
                    next: page.next.map(From::Folder),
                    explained: Some(Found {
                        plan: page.plan.to_string(),
                        examined: page.examined,
                        blocks: (page.blocks.read, page.blocks.skipped),
                    }),
                })
            }
        }
    }

    /// Ends the work: a folder is made durable and released.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Target::Server { .. } => Ok(()),
            Target::Folder(folder) => folder.close(),
        }
    }
}

fn options(ask: &Ask) -> Vec<(&'static str, String)> {
    let mut options = vec![("$top", ask.top.to_string())];
    if !ask.filter.is_empty() {
        options.push(("$filter", ask.filter.clone()));
    }
    if let Some(select) = &ask.select {
        // The service leaves out keys that are not asked for; our output always has them.
        let names = ["PartitionKey", "RowKey", "Timestamp"].into_iter();
        let names: Vec<&str> = names.chain(select.iter().map(String::as_str)).collect();
        options.push(("$select", names.join(",")));
    }
    options
}

/// A refusal of status 400 that names an operation blames its row.
fn refused(error: CallError, table: &str, rows: usize) -> WriteError {
    match error {
        CallError::Refused(refusal)
            if refusal.status == 400 && refusal.index.is_some_and(|index| index < rows) =>
        {
            WriteError::Row {
                index: refusal.index.unwrap_or_default(),
                why: format!("{}: {}", refusal.code, refusal.message),
            }
        }
        error => WriteError::Failed(failed(error, &format!("writing to {table}"))),
    }
}

fn failed(error: CallError, doing: &str) -> anyhow::Error {
    error.into_failure(doing).into()
}

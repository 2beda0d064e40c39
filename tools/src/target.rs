//! The tables a command works on: a server's, or those of a folder. Commands do not care which.

use crate::args::target::TargetArgs;
use crate::ask::{Ask, WriteError};
use crate::connect::{self, Place};
use crate::folder::{Access, Folder};
use crate::remote::Remote;
use anyhow::Result;
use std::time::Duration;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::page::Continuation;
use tabulith_client::Explained;

/// Where the tables are.
pub(crate) enum Target {
    /// Behind a server.
    Server(Remote),
    /// In a folder.
    Folder(Folder),
}

/// Where the next page begins.
#[derive(Clone, Debug)]
pub(crate) enum From {
    /// In the server's words.
    Server(tabulith_client::Continuation),
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
    pub(crate) explained: Option<Explained>,
}

impl Target {
    /// The target that the flags and the environment name. `patience`: how long a write waits for
    /// a server that went away.
    pub(crate) fn open(args: &TargetArgs, access: Access, patience: Duration) -> Result<Target> {
        match connect::of_process(args)? {
            Place::Folder(path, account) => {
                Ok(Target::Folder(Folder::open(&path, &account, access)?))
            }
            Place::Server(connection, ca) => {
                let trust = connect::trust(ca.as_deref())?;
                Ok(Target::Server(Remote::new(*connection, trust, patience)))
            }
        }
    }

    /// Text that is the same for the same tables.
    pub(crate) fn identity(&self) -> String {
        match self {
            Target::Server(remote) => remote.identity(),
            Target::Folder(folder) => folder.identity(),
        }
    }

    /// Makes the table; false where it exists already.
    pub(crate) async fn create_table(&self, table: &str) -> Result<bool> {
        match self {
            Target::Server(remote) => remote.create_table(table).await,
            Target::Folder(folder) => folder.create_table(table).await,
        }
    }

    /// Inserts or replaces rows of one partition, all or none. Returns their newest commit. The
    /// rows are the same afterwards.
    pub(crate) async fn write(
        &self,
        table: &str,
        rows: &mut Vec<Entity>,
    ) -> Result<CommitTs, WriteError> {
        match self {
            Target::Server(remote) => remote.write(table, rows).await,
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
            Target::Server(remote) => remote.get(table, partition_key, row_key).await,
            Target::Folder(folder) => folder.get(table, partition_key, row_key).await,
        }
    }

    /// Reads a page.
    pub(crate) async fn page(&self, table: &str, ask: &Ask, from: Option<&From>) -> Result<Page> {
        match self {
            Target::Server(remote) => {
                let from = match from {
                    Some(From::Server(from)) => Some(from),
                    _ => None,
                };
                let page = remote.page(table, ask, from).await?;
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
                    explained: Some(Explained {
                        plan: page.plan.to_string(),
                        rows_examined: page.examined,
                        blocks_read: page.blocks.read,
                        blocks_skipped: page.blocks.skipped,
                    }),
                })
            }
        }
    }

    /// Ends the work: a folder is made durable and released.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            Target::Server(_) => Ok(()),
            Target::Folder(folder) => folder.close(),
        }
    }
}

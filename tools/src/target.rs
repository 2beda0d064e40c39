//! The tables a command works on: a server's, or those of a folder. Commands do not care which.

use crate::args::target::TargetArgs;
use crate::ask::{Ask, Change, Key, WriteError};
use crate::connect::{self, Place};
use crate::folder::{Access, Folder};
use crate::remote::Remote;
use anyhow::Result;
use std::time::Duration;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::etag::ETag;
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
    /// The ETag of each, in the server's words; a folder's follow from the entities.
    etags: Vec<String>,
    /// Where the next page begins, if there is more.
    pub(crate) next: Option<From>,
    /// How they were found, where that is known.
    pub(crate) explained: Option<Explained>,
}

impl Page {
    /// The ETag of the entity at a place of the page.
    pub(crate) fn etag(&self, at: usize) -> String {
        match self.etags.get(at) {
            Some(etag) if !etag.is_empty() => etag.clone(),
            _ => ETag(self.entities[at].ts).to_string(),
        }
    }
}

impl Target {
    /// The target that the flags and the environment name. `patience`: how long it waits for a
    /// server that went away.
    pub(crate) fn open(args: &TargetArgs, access: Access, patience: Duration) -> Result<Target> {
        match connect::of_process(args)? {
            Place::Folder(path, account) => {
                Ok(Target::Folder(Folder::open(&path, &account, access)?))
            }
            Place::Server(connection, ca) => {
                Ok(Target::Server(Remote::shared(*connection, ca.as_deref(), patience)?))
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

    /// Deletes the table; false where there is none.
    pub(crate) async fn delete_table(&self, table: &str) -> Result<bool> {
        match self {
            Target::Server(remote) => remote.delete_table(table).await,
            Target::Folder(folder) => folder.delete_table(table).await,
        }
    }

    /// The names of all tables, in the order of their names without case.
    pub(crate) async fn tables(&self) -> Result<Vec<String>> {
        match self {
            Target::Server(remote) => remote.tables().await,
            Target::Folder(folder) => folder.tables().await,
        }
    }

    /// Does one change. Returns the entity's ETag; a delete leaves none.
    pub(crate) async fn change(&self, table: &str, change: Change) -> Result<Option<String>> {
        match self {
            Target::Server(remote) => remote.change(table, change).await,
            Target::Folder(folder) => folder.change(table, change).await,
        }
    }

    /// Removes up to 100 rows of one partition that are still the versions of those ETags, all or
    /// none. Returns the place of one that is not, if there is one.
    pub(crate) async fn delete_rows(
        &self,
        table: &str,
        rows: Vec<(Key, String)>,
    ) -> Result<Option<usize>> {
        match self {
            Target::Server(remote) => remote.delete_rows(table, rows).await,
            Target::Folder(folder) => folder.delete_rows(table, rows).await,
        }
    }

    /// Inserts or replaces rows of one partition, all or none. Returns the commit of the last one.
    /// The rows are the same afterwards.
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

    /// Reads a row and its ETag.
    pub(crate) async fn show(&self, table: &str, key: &Key) -> Result<Option<(Entity, String)>> {
        match self {
            Target::Server(remote) => remote.show(table, &key.partition, &key.row).await,
            Target::Folder(folder) => {
                let row = folder.get(table, &key.partition, &key.row).await?;
                Ok(row.map(|row| {
                    let etag = ETag(row.ts).to_string();
                    (row, etag)
                }))
            }
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
                    etags: page.etags,
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
                    etags: Vec::new(),
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

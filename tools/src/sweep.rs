//! Deletes all rows that match a filter, in batches of one partition, many at once.
//!
//! Each row is deleted as the version that the filter was held against. One that somebody has changed
//! meanwhile is left out of its batch and asked about again, so that no row goes that did not match.

use crate::ask::{Ask, Key};
use crate::exit::{Exit, Failure};
use crate::query::Reading;
use crate::target::{Page, Target};
use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Duration;
use tabulith::table::rules::GROUP_OPERATIONS_MAX;
use tokio::task::JoinSet;

/// How long a delete waits for a server that went away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Batches on their way at once.
const IN_FLIGHT: usize = 16;

/// How often rows that were changed meanwhile are looked for again.
const PASSES_MAX: usize = 20;

/// Deletes the rows of a table that `ask` finds. Returns how many.
pub(crate) async fn delete(target: &Arc<Target>, table: &str, ask: &Ask) -> Result<u64> {
    let mut deleted = 0;
    for _ in 0..PASSES_MAX {
        let pass = pass(target, table, ask).await?;
        deleted += pass.deleted;
        if pass.missed == 0 {
            return Ok(deleted);
        }
    }
    let why = format!("{table}: rows are changed faster than they are deleted; {deleted} are gone");
    Err(Failure::new(Exit::Changed, why).into())
}

/// What one look through the table did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pass {
    deleted: u64,
    /// Rows that were no longer what had been read.
    missed: u64,
}

impl Pass {
    fn add(&mut self, other: Pass) {
        self.deleted += other.deleted;
        self.missed += other.missed;
    }
}

async fn pass(target: &Arc<Target>, table: &str, ask: &Ask) -> Result<Pass> {
    let select = Some(vec!["PartitionKey".to_owned(), "RowKey".to_owned()]);
    let ask = Ask { select, ..ask.clone() };
    let reading = Reading { target, table, ask, top: None };
    let mut pages = reading.pages();
    let (mut on_their_way, mut sum) = (JoinSet::new(), Pass::default());
    let mut ended = |done: std::result::Result<Result<Pass>, tokio::task::JoinError>| {
        sum.add(done.context("a worker failed")??);
        anyhow::Ok(())
    };
    while let Some(page) = pages.next().await? {
        for batch in batches(&page) {
            if on_their_way.len() == IN_FLIGHT
                && let Some(done) = on_their_way.join_next().await
            {
                ended(done)?;
            }
            let (target, table) = (target.clone(), table.to_owned());
            on_their_way.spawn(async move { delete_batch(&target, &table, batch).await });
        }
    }
    while let Some(done) = on_their_way.join_next().await {
        ended(done)?;
    }
    Ok(sum)
}

/// The rows of a page with their ETags: neighbours of one partition together.
fn batches(page: &Page) -> Vec<Vec<(Key, String)>> {
    let mut batches: Vec<Vec<(Key, String)>> = Vec::new();
    for (at, row) in page.entities.iter().enumerate() {
        let key = Key { partition: row.partition_key.clone(), row: row.row_key.clone() };
        let etag = page.etag(at);
        match batches.last_mut() {
            Some(batch)
                if batch.len() < GROUP_OPERATIONS_MAX && batch[0].0.partition == key.partition =>
            {
                batch.push((key, etag));
            }
            _ => batches.push(vec![(key, etag)]),
        }
    }
    batches
}

async fn delete_batch(target: &Target, table: &str, mut batch: Vec<(Key, String)>) -> Result<Pass> {
    let mut missed = 0;
    while !batch.is_empty() {
        match target.delete_rows(table, batch.clone()).await? {
            None => break,
            Some(at) => {
                batch.remove(at.min(batch.len() - 1));
                missed += 1;
            }
        }
    }
    Ok(Pass { deleted: batch.len() as u64, missed })
}

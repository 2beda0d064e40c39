//! Deletes all rows that match a filter, in batches of one partition, many at once.
//!
//! Each row is deleted as the version that the filter was held against. One that somebody has
//! changed meanwhile is left out of its batch and asked about again, so that no row goes that did
//! not match.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Change;
    use crate::folder::{Access, Folder};
    use tabulith::table::entity::Entity;
    use tabulith::table::value::Value;

    fn row(n: usize, state: &str) -> Entity {
        let mut entity = Entity::new("p", format!("{n}"));
        entity.properties.push(("state".to_owned(), Value::String(state.into())));
        entity
    }

    /// Between the look and the delete somebody changes two rows: one still matches, one does not,
    /// and a third is gone.
    #[tokio::test]
    async fn only_rows_that_match_when_they_go_are_deleted() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(folder.path(), "devstoreaccount1", Access::Write);
        let target = Arc::new(Target::Folder(folder.expect("a new database")));
        target.create_table("rows").await.expect("a table");
        for n in 0..6 {
            target.change("rows", Change::Upsert(row(n, "old"))).await.expect("a row");
        }
        let paged = |filter| Ask { top: 1000, ..Ask::rows(filter, None) };
        let ask = paged(Some("state eq 'old'".to_owned()));
        let page = target.page("rows", &ask, None).await.expect("a page");
        let seen = batches(&page);
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [6]);

        target.change("rows", Change::Upsert(row(1, "old"))).await.expect("changed");
        target.change("rows", Change::Upsert(row(3, "new"))).await.expect("changed");
        let gone = target.delete_rows("rows", vec![seen[0][4].clone()]).await.expect("deleted");
        assert_eq!(gone, None);

        let done = delete_batch(&target, "rows", seen[0].clone()).await.expect("deleted");
        assert_eq!(done, Pass { deleted: 3, missed: 3 });
        let all = paged(None);
        let left = target.page("rows", &all, None).await.expect("a page").entities;
        assert_eq!(left.iter().map(|row| row.row_key.as_str()).collect::<Vec<_>>(), ["1", "3"]);

        assert_eq!(delete(&target, "rows", &ask).await.expect("deleted"), 1);
        let left = target.page("rows", &all, None).await.expect("a page").entities;
        assert_eq!(left.iter().map(|row| row.row_key.as_str()).collect::<Vec<_>>(), ["3"]);
    }
}

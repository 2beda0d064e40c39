//! The reading side of an import, on a thread of its own: records to rows to batches.
//!
//! It runs ahead of the writing side by as much as the channel holds.

use crate::import::batcher::{Batch, Batcher, Ready};
use crate::import::entity::Recipe;
use crate::import::report::BadRows;
use crate::import::rows::{Next, Rows};
use crate::json;
use anyhow::Result;
use std::collections::HashSet;
use std::path::Path;
use tokio::sync::mpsc::Sender;
use xxhash_rust::xxh3::Xxh3;

/// Most keys remembered to find rows with the same keys, at about 32 bytes each. Rows beyond are
/// written without that check, and the last one of equal keys to arrive stays.
const KEYS_MAX: usize = 32 << 20;

/// What the reader passes on.
#[derive(Debug)]
pub(crate) enum Item {
    /// A batch to write.
    Batch(Batch),
    /// A bad row that was reported and skipped: nothing to write for it.
    Skipped(u64),
}

/// How reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the end of the file.
    File,
    /// At a bad row; everything before it was passed on.
    BadRow,
    /// Because nobody received any more.
    Stopped,
}

/// Keys of the rows so far, over all files of an import.
#[derive(Debug, Default)]
pub(crate) struct KeysSeen(HashSet<u128>);

impl KeysSeen {
    /// Whether these keys are new.
    fn add(&mut self, partition_key: &str, row_key: &str) -> bool {
        let mut hash = Xxh3::new();
        hash.update(&(partition_key.len() as u64).to_le_bytes());
        hash.update(partition_key.as_bytes());
        hash.update(row_key.as_bytes());
        let digest = hash.digest128();
        if self.0.len() >= KEYS_MAX { !self.0.contains(&digest) } else { self.0.insert(digest) }
    }
}

/// Everything that reading one file needs.
pub(crate) struct Feed<'a> {
    /// The file.
    pub(crate) path: &'a Path,
    /// How its records become rows.
    pub(crate) recipe: &'a Recipe,
    /// Rows at its start that are written already.
    pub(crate) rows_done: u64,
    /// Whether a bad row is skipped; otherwise reading ends there.
    pub(crate) skip_bad: bool,
    /// Where bad rows are reported.
    pub(crate) bad: &'a BadRows,
    /// Keys of earlier rows.
    pub(crate) keys: &'a mut KeysSeen,
}

impl Feed<'_> {
    /// Reads the file and sends what is to be written, as long as somebody receives it.
    pub(crate) fn run(mut self, send: &Sender<Item>) -> Result<End> {
        let mut rows = Rows::open(self.path)?;
        let mut batcher = Batcher::default();
        let mut gone = false;
        let mut end = End::File;
        for number in 0.. {
            if gone || send.is_closed() {
                return Ok(End::Stopped);
            }
            let next = rows.next()?;
            if matches!(next, Next::End) {
                break;
            }
            if number < self.rows_done {
                self.pass_over(next);
                continue;
            }
            match self.ready(number, next) {
                Ok(row) => batcher.push(row, |batch| {
                    gone |= send.blocking_send(Item::Batch(batch)).is_err();
                }),
                Err((line, why)) => {
                    self.bad.add(self.path, line, &why);
                    if !self.skip_bad {
                        end = End::BadRow;
                        break;
                    }
                    gone |= send.blocking_send(Item::Skipped(number)).is_err();
                }
            }
        }
        batcher.finish(|batch| gone |= send.blocking_send(Item::Batch(batch)).is_err());
        Ok(if gone { End::Stopped } else { end })
    }

    /// A row that an earlier run wrote counts for equal keys, and for nothing else. One that is bad
    /// was not written.
    fn pass_over(&mut self, next: Next) {
        if let Next::Record(record) = next
            && let Ok(row) = self.recipe.entity(&record)
        {
            self.keys.add(&row.partition_key, &row.row_key);
        }
    }

    fn ready(&mut self, number: u64, next: Next) -> Result<Ready, (u64, String)> {
        let record = match next {
            Next::Record(record) => record,
            Next::Bad { line, why } => return Err((line, why)),
            Next::End => return Err((0, "the file ended".to_owned())),
        };
        let line = record.line;
        let entity = self.recipe.entity(&record).map_err(|why| (line, why))?;
        if !self.keys.add(&entity.partition_key, &entity.row_key) {
            let (partition_key, row_key) = (&entity.partition_key, &entity.row_key);
            let why = format!(
                "an earlier row has the same keys: PartitionKey '{partition_key}', RowKey '{row_key}'"
            );
            return Err((line, why));
        }
        let bytes = json::entity_bytes_max(&entity);
        Ok(Ready { number, line, entity, bytes })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::edm::EdmType;
    use crate::import::entity::Wishes;
    use crate::import::infer::Column;
    use crate::import::template::Template;
    use std::collections::HashMap;
    use std::io::Write;
    use tokio::sync::mpsc;

    /// A good row was refused for keys that only a bad one had had, which nobody had written.
    #[test]
    fn a_bad_row_that_is_passed_over_keeps_no_keys() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"k,n\na,x\na,1\n").unwrap();
        let wishes = Wishes {
            partition_key: Template::parse("p").unwrap(),
            row_key: Template::parse("{k}").unwrap(),
            types: HashMap::new(),
            nulls: Vec::new(),
            drop: HashSet::new(),
        };
        let columns = [("k", EdmType::String), ("n", EdmType::Int32)].map(|(name, edm)| Column {
            name: name.to_owned(),
            edm: Some(edm),
            numbers: None,
            hint: None,
            barred: None,
        });
        let recipe = Recipe::new(wishes, &columns, &["k".to_owned(), "n".to_owned()]).unwrap();
        let (bad, mut keys) = (BadRows::default(), KeysSeen::default());
        let feed = Feed {
            path: file.path(),
            recipe: &recipe,
            rows_done: 1,
            skip_bad: true,
            bad: &bad,
            keys: &mut keys,
        };
        let (send, mut receive) = mpsc::channel(8);
        assert_eq!(feed.run(&send).unwrap(), End::File);
        drop(send);
        let sent: Vec<Item> = std::iter::from_fn(|| receive.blocking_recv()).collect();
        assert!(matches!(&sent[..], [Item::Batch(batch)] if batch.rows.len() == 1), "{sent:?}");
    }
}

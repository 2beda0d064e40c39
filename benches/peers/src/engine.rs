//! What every engine is asked for: one small trait, and the words it is said in.

use anyhow::{Result, bail};
use std::borrow::Cow;
use std::ops::{Bound, ControlFlow};
use std::time::Duration;

/// What a commit of an opened database promises once it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It survives the loss of power.
    Durable,
    /// As little as the engine's own fastest mode promises; `settings::promise_of` says what.
    Unsynced,
}

/// Between the two parts of a key where an engine knows only one string of bytes. Below every byte
/// that a part holds, so that the order of the strings is the order of the pairs.
pub const SEPARATOR: u8 = 0;

/// The key of a row: PartitionKey, [`SEPARATOR`], RowKey in one slice, so that each engine takes
/// the form that it wants without copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key<'a> {
    /// All of it.
    pub whole: &'a [u8],
    /// Bytes of the PartitionKey.
    pub partition_bytes: usize,
}

impl<'a> Key<'a> {
    /// The PartitionKey.
    pub fn partition(self) -> &'a [u8] {
        &self.whole[..self.partition_bytes]
    }

    /// The RowKey.
    pub fn row(self) -> &'a [u8] {
        &self.whole[self.partition_bytes + 1..]
    }
}

/// One change of a commit.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Adds or replaces a row.
    Put(Key<'a>, &'a [u8]),
    /// Removes a row that is there.
    Delete(Key<'a>),
}

/// The rows of a scan.
#[derive(Clone, Copy, Debug)]
pub enum Span<'a> {
    /// Every row.
    All,
    /// The rows of the partition with this PartitionKey.
    Partition(&'a [u8]),
    /// This row and all after it; in a reverse scan, this row and all before it.
    From(Key<'a>),
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Rising keys.
    Forward,
    /// Falling keys.
    Reverse,
}

/// A row of a scan, its key in the form in which the engine gives it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The PartitionKey; empty where the engine gives the key as one string.
    pub partition: &'a [u8],
    /// The RowKey, or the whole key.
    pub key: &'a [u8],
    /// The row's bytes.
    pub value: &'a [u8],
}

impl Seen<'_> {
    /// The key as one string. For tests: measured code takes the key as it comes.
    pub fn whole_key(&self) -> Vec<u8> {
        match self.partition.is_empty() {
            true => self.key.to_vec(),
            false => [self.partition, &[SEPARATOR], self.key].concat(),
        }
    }
}

/// What a scan calls for each row.
pub type OnRow<'a> = dyn FnMut(Seen<'_>) -> ControlFlow<()> + 'a;

/// Makes a row's new value from its present one.
pub type Revise<'a> = dyn FnMut(&[u8], &mut Vec<u8>) + 'a;

/// Waits until a commit that was begun is as safe as it is to become.
pub type Pending = Box<dyn FnOnce() -> Result<()>>;

/// An open database with one table of rows. All calls may come from many threads.
pub trait Engine: Send + Sync {
    /// Commits `changes`, which are of one partition, together, as safely as the database was
    /// opened for.
    fn write(&self, changes: &[Change<'_>]) -> Result<()>;

    /// Begins a commit of one change and returns before it is as safe as it is to become; `None`
    /// where the engine has no such call.
    fn begin(&self, _change: Change<'_>) -> Option<Result<Pending>> {
        None
    }

    /// Calls `found` with the row's value; false where there is no row.
    fn get(&self, key: Key<'_>, found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Calls `row` with each row of `span` until it breaks.
    fn scan(&self, span: Span<'_>, direction: Direction, row: &mut OnRow<'_>) -> Result<()>;

    /// Reads a row, revises it, and writes it if it is still what was read; false where somebody
    /// else changed it meanwhile and nothing was written. The row must exist.
    fn revise(&self, key: Key<'_>, revise: &mut Revise<'_>) -> Result<bool>;

    /// Brings what is in memory to files and waits until no background work is left. Returns how
    /// much of that was spent on nothing but seeing that nothing happens any more.
    fn settle(&self) -> Result<Duration>;

    /// Merges all files, so that nothing is left of what was deleted or overwritten; false where
    /// the engine has no such call.
    fn compact(&self) -> Result<bool> {
        Ok(false)
    }

    /// How long commits were made to wait so far because background work was behind, where the
    /// engine says so.
    fn held_back(&self) -> Option<Duration> {
        None
    }

    /// Writes rows in the order of their keys the fastest way that the engine offers for this;
    /// `None` where it offers none besides commits.
    fn ingest(&self, _rows: &mut dyn Rows) -> Option<Result<()>> {
        None
    }

    /// Removes the rows of one partition; says by which means.
    fn drop_partition(&self, partition: &[u8]) -> Result<&'static str>;

    /// Removes all rows, and the table where the engine has tables; says by which means. The
    /// database is not written to afterwards.
    fn drop_table(&self) -> Result<&'static str>;

    /// Ends in order what dropping the database would not end.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Rows one after the other.
pub trait Rows {
    /// Calls `give` with the next row; false after the last.
    fn next(&mut self, give: &mut dyn FnMut(Key<'_>, &[u8]) -> Result<()>) -> Result<bool>;
}

/// Removes the rows of `span` by reading their keys in one scan and deleting them in commits of
/// 1,000: the nearest thing to a drop where an engine has none.
pub fn delete_one_by_one(engine: &dyn Engine, span: Span<'_>) -> Result<()> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    engine.scan(span, Direction::Forward, &mut |seen| {
        keys.push(seen.whole_key());
        ControlFlow::Continue(())
    })?;
    for keys in keys.chunks(1000) {
        let mut changes = Vec::with_capacity(keys.len());
        for whole in keys {
            let Some(partition_bytes) = whole.iter().position(|byte| *byte == SEPARATOR) else {
                bail!("a key without a separator");
            };
            changes.push(Change::Delete(Key { whole, partition_bytes }));
        }
        engine.write(&changes)?;
    }
    Ok(())
}

/// The two ends of a span, as strings for engines whose keys are strings.
#[derive(Debug)]
pub struct Ends<'a> {
    start: Bound<Cow<'a, [u8]>>,
    end: Bound<Cow<'a, [u8]>>,
}

impl<'a> Span<'a> {
    /// Its ends in a scan that goes in `direction`.
    pub fn ends(self, direction: Direction) -> Ends<'a> {
        let key = |key: Key<'a>| Bound::Included(Cow::Borrowed(key.whole));
        let (start, end) = match (self, direction) {
            (Span::All, _) => (Bound::Unbounded, Bound::Unbounded),
            (Span::Partition(partition), _) => {
                let (start, end) = partition_ends(partition);
                (Bound::Included(start.into()), Bound::Excluded(end.into()))
            }
            (Span::From(from), Direction::Forward) => (key(from), Bound::Unbounded),
            (Span::From(from), Direction::Reverse) => (Bound::Unbounded, key(from)),
        };
        Ends { start, end }
    }
}

impl Ends<'_> {
    /// Both ends, in the form of a range.
    pub fn range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.start(), self.end())
    }

    /// The lower one.
    pub fn start(&self) -> Bound<&[u8]> {
        self.start.as_ref().map(|key| &**key)
    }

    /// The upper one.
    pub fn end(&self) -> Bound<&[u8]> {
        self.end.as_ref().map(|key| &**key)
    }
}

/// The least string of a partition's keys, and the least one above them all.
pub fn partition_ends(partition: &[u8]) -> (Vec<u8>, Vec<u8>) {
    ([partition, &[SEPARATOR]].concat(), [partition, &[SEPARATOR + 1]].concat())
}

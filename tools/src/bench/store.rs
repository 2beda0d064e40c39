//! What a benchmark asks of whatever it measures.

use crate::bench::rows::RowName;
use crate::exit::{Exit, Failure};
use anyhow::Result;
use tabulith_results::result::About;

/// Why an operation did not succeed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The other side asks for less: 429, 503.
    Refused(String),
    /// Something else.
    Broken(anyhow::Error),
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Failed {
        Failed::Broken(error)
    }
}

/// What an operation comes to.
pub(crate) type Done<T> = Result<T, Failed>;

/// A failure as an error, where it ends the work.
pub(crate) fn plain<T>(done: Done<T>) -> Result<T> {
    done.map_err(|failed| match failed {
        Failed::Refused(why) => Failure::new(Exit::Unavailable, why).into(),
        Failed::Broken(error) => error,
    })
}

/// One client of a table; each thread has its own.
pub(crate) trait Client {
    /// Adds or replaces a row.
    fn put(&mut self, name: &RowName, value: &str) -> Done<()>;
    /// Whether there is such a row; reads it.
    fn get(&mut self, name: &RowName) -> Done<bool>;
    /// Removes a row that is there.
    fn delete(&mut self, name: &RowName) -> Done<()>;
    /// Reads up to `rows` rows from a key on; how many there were.
    fn scan(&mut self, from: &RowName, rows: usize) -> Done<u64>;
    /// Reads all rows of a partition; how many there were.
    fn partition(&mut self, partition: &str) -> Done<u64>;
    /// Adds or replaces rows of one partition together.
    fn group(&mut self, rows: &[(RowName, &str)]) -> Done<()>;
}

/// Counters of an engine, where they can be seen. The first two only grow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Microseconds that commits waited for background work.
    pub(crate) stall_us: u64,
    /// Reads of blocks that went to files.
    pub(crate) blocks_read: u64,
    /// Bytes in table files and blob files.
    pub(crate) file_bytes: u64,
    /// Bytes that merges are behind.
    pub(crate) debt_bytes: u64,
}

/// A place that holds tables.
pub(crate) trait Store: Sync {
    /// What it is.
    fn about(&self) -> About;
    /// Makes a table; false where there is one of that name.
    fn create(&self, table: &str) -> Result<bool>;
    /// Removes a table.
    fn drop_table(&self, table: &str) -> Result<()>;
    /// A client of a table that exists.
    fn client(&self, table: &str) -> Result<Box<dyn Client>>;
    /// Its counters, if they can be seen.
    fn figures(&self) -> Option<Figures>;
    /// Brings what is in memory to files, where that can be asked for.
    fn flush(&self) -> Result<()>;
    /// Ends the work.
    fn close(&self) -> Result<()>;
}

//! The steps of a workload, and the keys, values and times that their numbers mean.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tabulith::options::Durability;
use tabulith_testkit::seed::Rng;

/// One step of a workload. Steps that find nothing to do, such as a write to a table that is not
/// there, do nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    /// Commits rows of one partition: the RowKey's number and the bytes of the value, `None` to
    /// remove it.
    Write {
        table: u8,
        pk: u8,
        rows: Vec<(u8, Option<u16>)>,
        #[serde(with = "crate::levels")]
        level: Durability,
        wait: bool,
    },
    /// Adds rows of one partition past log and memtable: RowKey's number, bytes of the value.
    Ingest {
        table: u8,
        pk: u8,
        rows: Vec<(u8, u16)>,
    },
    /// Compacts one partition of a table.
    CompactPartition {
        table: u8,
        pk: u8,
    },
    /// Commits seventy small rows of one partition: more than a range may have to be deleted row
    /// by row.
    Fill {
        table: u8,
        pk: u8,
        #[serde(with = "crate::levels")]
        level: Durability,
        wait: bool,
    },
    /// Commits one small row of a partition so many times, and waits each time, so that each takes
    /// a block of the log and a few bytes of memory. What is sealed because the log is long is
    /// flushed at once, as a worker would.
    Count {
        table: u8,
        pk: u8,
        times: u8,
    },
    /// Removes the rows of one partition from a RowKey's number on, or to before another.
    Erase {
        table: u8,
        pk: u8,
        from: u8,
        to: Option<u8>,
        #[serde(with = "crate::levels")]
        level: Durability,
        wait: bool,
    },
    /// Removes all rows of a table.
    Truncate {
        table: u8,
        #[serde(with = "crate::levels")]
        level: Durability,
        wait: bool,
    },
    /// Reads a row of a partition and writes others in a transaction; waits.
    Transact {
        table: u8,
        pk: u8,
        read: u8,
        rows: Vec<(u8, Option<u16>)>,
    },
    /// Changes entities of one partition as a group, and waits: the RowKey's number, what is done,
    /// and the bytes of a text. The table is made where there is none.
    Entities {
        pk: u8,
        changes: Vec<(u8, Verb, u16)>,
    },
    /// Sets a setting to so many bytes, or takes it back, and waits. The table of settings is made
    /// where there is none.
    Setting {
        owner: Owner,
        name: u8,
        bytes: Option<u16>,
    },
    /// Has the commits that nobody waits for made safe soon.
    Urge,
    /// Asks the commits that nobody waits for whether they are safe.
    Ask,
    /// Has callbacks told when the commits are safe that nobody waits for.
    Notify,
    /// Waits for the commits that did not wait, newest first.
    WaitAll,
    /// Reads all that is visible.
    Read,
    /// Reads the newest moment of the past, which mostly comes after the newest commit.
    ReadQuiet,
    Create(u8),
    Drop(u8),
    /// Rows written from here on are gone after so many ticks; `None` for never.
    Life(Option<u64>),
    /// Declares columns of a table, one bit for each that there may be.
    Declare {
        table: u8,
        columns: u8,
    },
    /// Sets how many ticks rows of a table live; 0 for ever.
    SetTtl {
        table: u8,
        ticks: u64,
    },
    Flush,
    Compact,
    Settle,
    /// One step of background work.
    Step,
    /// Background work until there is none, that of a database at rest included.
    Idle,
    /// The scrub reads all files once.
    Scrub,
    /// Closes and opens.
    Reopen,
    /// Kills the process and opens.
    Kill,
    /// Closes, or is killed, and opens with other options: a history window in ticks, or none that
    /// is said, the durability, and the bytes of a value from which it goes into a blob file.
    Alter {
        history: Option<u64>,
        #[serde(with = "crate::levels")]
        durability: Durability,
        blob_bytes_min: u16,
        kill: bool,
    },
    /// Opens for reading only, beside who has it open.
    Peek,
    /// Copies the database into a folder beside it, and reads the copy.
    Checkpoint,
    /// Takes a snapshot, in place of the one that is held.
    Hold,
    /// Makes a database of the snapshot that is held, or of the present, in a folder beside this
    /// one, and reads that.
    Export,
    /// The wall clock goes back by an hour.
    ClockBack,
}

/// What is done to an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verb {
    /// There must be none.
    Insert,
    Replace,
    /// Lays properties over those of the one that is there, if there is one.
    Merge,
    /// There must be one.
    Delete,
}

/// Whose a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Owner {
    /// That of the table of entities.
    Account,
    /// The table of entities.
    Table,
}

/// A table's time to live; 0 is none.
pub(crate) fn ttl_of(ticks: u64) -> Option<Duration> {
    (ticks > 0).then(|| Duration::from_nanos(ticks * 100))
}

pub(crate) fn key_of(letter: char, number: u8) -> Bytes {
    format!("{letter}{number}").into()
}

/// The value of a commit's row. Half of it compresses.
pub(crate) fn value_of(commit: u64, bytes: u16) -> Bytes {
    let mut value = Rng::new(commit).bytes(usize::from(bytes) / 2);
    value.resize(usize::from(bytes), b'.');
    value.into()
}

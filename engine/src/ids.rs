//! Numbers that must not mix, each with its own type.

use std::fmt;
use std::time::Duration;

/// The place of a commit in the one order of all commits: ticks of 100 ns since the Unix epoch,
/// made unique and rising by the hybrid clock. Also the source of an entity's Timestamp and ETag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitTs(pub u64);

impl CommitTs {
    /// Below every commit.
    pub const ZERO: CommitTs = CommitTs(0);
    /// Above every commit: "as of now".
    pub const MAX: CommitTs = CommitTs(u64::MAX);
    /// Ticks in one second.
    pub const TICKS_PER_SECOND: u64 = 10_000_000;

    /// A start goes on at least so many ticks above the newest timestamp that it finds, unless the
    /// log says that it was closed: those between may have been given to commits that a crash took.
    pub(crate) const START_LEAD: u64 = CommitTs::TICKS_PER_SECOND;

    /// Whole seconds since the Unix epoch.
    pub fn seconds(self) -> i64 {
        (self.0 / CommitTs::TICKS_PER_SECOND).cast_signed()
    }

    /// So much later; the end of time where that is beyond it.
    pub fn after(self, span: Duration) -> CommitTs {
        let ticks = u64::try_from(span.as_nanos() / 100).unwrap_or(u64::MAX);
        CommitTs(self.0.saturating_add(ticks))
    }
}

impl fmt::Display for CommitTs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A table's number. Never given out twice, so that dropping a table is one record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

impl TableId {
    /// The engine's own table: the catalogue of tables.
    pub const CATALOG: TableId = TableId(0);
}

/// A file's number, from one counter for all numbered files of a database. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNo(pub u64);

impl fmt::Display for FileNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// A log segment's place in the log. A segment's file may be reused; its id never is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

/// What a stored version of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// The row was removed.
    Delete = 0,
    /// The row holds a value.
    Put = 1,
    /// The row holds a value that lies in a blob file; what is stored is a reference to it. Only
    /// table files have such rows.
    Link = 2,
    /// As [`RowKind::Put`] until it expires: what is stored begins with the expiry.
    PutUntil = 3,
    /// As [`RowKind::Link`] until it expires: what is stored begins with the expiry.
    LinkUntil = 4,
}

impl RowKind {
    /// Whether the version holds a value, and goes on to hold it as time passes.
    pub fn is_lasting(self) -> bool {
        match self {
            RowKind::Put | RowKind::Link => true,
            RowKind::Delete | RowKind::PutUntil | RowKind::LinkUntil => false,
        }
    }

    /// The kind stored as `byte`, if there is one.
    pub fn from_byte(byte: u8) -> Option<RowKind> {
        match byte {
            0 => Some(RowKind::Delete),
            1 => Some(RowKind::Put),
            2 => Some(RowKind::Link),
            3 => Some(RowKind::PutUntil),
            4 => Some(RowKind::LinkUntil),
            _ => None,
        }
    }

    /// Whether what is stored begins with an expiry.
    pub fn expires(self) -> bool {
        matches!(self, RowKind::PutUntil | RowKind::LinkUntil)
    }

    /// Whether the value lies in a blob file.
    pub fn is_link(self) -> bool {
        matches!(self, RowKind::Link | RowKind::LinkUntil)
    }

    /// What the row is while it has not expired.
    pub fn while_alive(self) -> RowKind {
        match self {
            RowKind::PutUntil => RowKind::Put,
            RowKind::LinkUntil => RowKind::Link,
            kind => kind,
        }
    }
}

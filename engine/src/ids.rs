//! Numbers that must not mix, each with its own type.

use std::fmt;
use std::time::{Duration, SystemTime};

const NANOS_PER_TICK: u64 = 100;

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
        CommitTs(self.0.saturating_add(ticks(span)))
    }

    /// So much earlier; [`CommitTs::ZERO`] where that is before 1970.
    pub fn before(self, span: Duration) -> CommitTs {
        CommitTs(self.0.saturating_sub(ticks(span)))
    }

    /// The same moment as the system has it; `None` where that goes less far. A commit's is that of
    /// the wall clock, or later where commits come faster than ticks or the clock was set back.
    pub fn system_time(self) -> Option<SystemTime> {
        let (seconds, rest) =
            (self.0 / CommitTs::TICKS_PER_SECOND, self.0 % CommitTs::TICKS_PER_SECOND);
        let nanos = u32::try_from(rest * NANOS_PER_TICK).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
    }
}

/// Ticks of a span; the most that there are where it is longer.
fn ticks(span: Duration) -> u64 {
    u64::try_from(span.as_nanos() / u128::from(NANOS_PER_TICK)).unwrap_or(u64::MAX)
}

/// The last tick up to a moment: [`CommitTs::ZERO`] before 1970, [`CommitTs::MAX`] where there are
/// none so late.
impl From<SystemTime> for CommitTs {
    fn from(time: SystemTime) -> CommitTs {
        let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH);
        CommitTs::ZERO.after(since_1970.unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_moments_of_the_wall_clock() {
        let epoch = SystemTime::UNIX_EPOCH;
        let span = Duration::new(1_767_225_600, 123_456_700);
        let ts = CommitTs(17_672_256_001_234_567);
        assert_eq!(CommitTs::from(epoch + span), ts);
        assert_eq!(CommitTs::from(epoch + span + Duration::from_nanos(99)), ts);
        assert_eq!(ts.system_time(), Some(epoch + span));
        assert_eq!(
            (CommitTs::from(epoch), CommitTs::ZERO.system_time()),
            (CommitTs::ZERO, Some(epoch))
        );

        // Before 1970, and after the end of time.
        assert_eq!(CommitTs::from(epoch - Duration::from_nanos(1)), CommitTs::ZERO);
        let end = epoch.checked_add(Duration::new(u64::MAX / CommitTs::TICKS_PER_SECOND + 1, 0));
        assert!(end.is_none_or(|end| CommitTs::from(end) == CommitTs::MAX));
        let last = CommitTs::MAX.system_time();
        assert!(last.is_none_or(|last| CommitTs::from(last) == CommitTs::MAX));
    }

    #[test]
    fn spans_end_where_time_does() {
        let (ts, second) = (CommitTs(17_672_256_000_000_000), Duration::from_secs(1));
        assert_eq!(ts.after(second).before(second), ts);
        assert_eq!(ts.before(second), CommitTs(ts.0 - CommitTs::TICKS_PER_SECOND));
        assert_eq!(CommitTs(5).before(Duration::from_nanos(499)), CommitTs(1));
        for span in [second, Duration::MAX] {
            assert_eq!(
                (CommitTs(1).before(span), CommitTs(u64::MAX - 1).after(span)),
                (CommitTs::ZERO, CommitTs::MAX)
            );
        }
    }
}

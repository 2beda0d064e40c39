//! One error type for the whole engine; its [`Kind`] says what to do next.

use crate::ids::CommitTs;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What an operation of the engine returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller can do about an [`Error`].
///
/// Stable: within a major version kinds may be added, none is taken away or told of something else.
/// What a message says may change at any time.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Your input breaks a rule; change it.
    Invalid,
    /// No such table, row or database; [`Error::is_no_table`] says whether it is a table.
    NotFound,
    /// Already there; choose another name or upsert.
    Exists,
    /// The row's ETag moved on; read again and decide. [`Error::current`] has the new one where a
    /// condition on one row failed, and none for a transaction, which may have read many.
    Changed,
    /// Too much at once; retry after a pause.
    Busy,
    /// The answer needs the disk, or takes its time, and the call asked for memory only; ask again
    /// without that.
    WouldBlock,
    /// Bytes on disk disagree with docs/format.md; [`Error::place`] names them. Run `check`.
    Corrupt,
    /// Stored in a way that this build cannot read, as the message says, and no damage;
    /// [`Error::place`] names it. Use a build that has what this one lacks.
    Unsupported,
    /// The disk refused; [`source`](std::error::Error::source) says how.
    Io,
    /// No room on the disk; reads go on, writes resume when there is room.
    NoSpace,
    /// The folder is open already: in another process, or by another handle of this one.
    Locked,
    /// The database was opened read-only.
    ReadOnly,
    /// A write or a sync that failed before has closed the log or the manifest, or the database was
    /// closed. Open it again.
    Closed,
}

/// Why an operation failed. One pointer wide.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    place: Option<(PathBuf, Option<u64>)>,
    current: Option<CommitTs>,
    source: Option<io::Error>,
    is_no_table: bool,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            place: None,
            current: None,
            source: None,
            is_no_table: false,
        }))
    }

    /// Input that breaks a rule.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(Kind::Invalid, message)
    }

    /// There is no table `table`: a name, or a number.
    pub fn no_table(table: impl fmt::Display) -> Error {
        let mut error = Error::new(Kind::NotFound, format!("table {table} does not exist"));
        error.0.is_no_table = true;
        error
    }

    /// What whoever comes after the close is told.
    pub(crate) fn closed() -> Error {
        Error::new(Kind::Closed, "the database is closed")
    }

    /// What whoever writes to the log or the manifest is told after `cause`.
    pub(crate) fn closed_by(what: &str, cause: &Error) -> Error {
        let why = format!("an earlier failed write or sync closed the {what}: {cause}");
        Error::new(Kind::Closed, why)
    }

    /// Bytes of `file` at `offset` that are not what the format says.
    pub fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::new(Kind::Corrupt, what).placed(file, offset)
    }

    /// Bytes of `file` at `offset` that only another build can read.
    pub(crate) fn unsupported(file: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::new(Kind::Unsupported, what).placed(file, offset)
    }

    fn placed(mut self, file: &Path, offset: u64) -> Error {
        self.0.place = Some((file.to_owned(), Some(offset)));
        self
    }

    /// The operating system refused `doing`, which concerns no file.
    pub(crate) fn system(doing: &str, source: io::Error) -> Error {
        let mut error = Error::new(Kind::Io, doing);
        error.0.source = Some(source);
        error
    }

    /// The operating system refused `doing` on `file`: a gerund, as in "reading a table file". A
    /// full disk becomes [`Kind::NoSpace`].
    pub fn io(doing: &str, file: &Path, source: io::Error) -> Error {
        let full =
            matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let mut error = Error::new(if full { Kind::NoSpace } else { Kind::Io }, doing);
        error.0.place = Some((file.to_owned(), None));
        error.0.source = Some(source);
        error
    }

    /// A precondition that failed; `current` is the row's present commit timestamp, if it exists.
    pub fn changed(current: Option<CommitTs>) -> Error {
        Error::changed_since("the row", current)
    }

    /// The same of a row that has a name.
    pub(crate) fn changed_since(row: &str, current: Option<CommitTs>) -> Error {
        let what = format!("{row} has changed since it was read");
        let mut error = Error::new(Kind::Changed, what);
        error.0.current = current;
        error
    }

    /// What the operating system said, where it refused something.
    pub(crate) fn io_cause(&self) -> Option<&io::Error> {
        self.0.source.as_ref()
    }

    /// Whether a file was not there.
    pub(crate) fn is_missing_file(&self) -> bool {
        self.io_cause().is_some_and(|cause| cause.kind() == io::ErrorKind::NotFound)
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message alone, without place and cause.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file concerned and, for corruption and what is unsupported, the offset in it.
    pub fn place(&self) -> Option<(&Path, Option<u64>)> {
        self.0.place.as_ref().map(|(file, offset)| (file.as_path(), *offset))
    }

    /// The present commit timestamp of the row whose precondition failed; `None` for a transaction.
    pub fn current(&self) -> Option<CommitTs> {
        self.0.current
    }

    /// Whether it is a table that is not there, where the kind is [`Kind::NotFound`]: it may be a
    /// row, or a database.
    pub fn is_no_table(&self) -> bool {
        self.0.is_no_table
    }

    /// The same failure for another waiter: a shared sync fails all who waited for it.
    pub fn duplicate(&self) -> Error {
        let inner = &*self.0;
        Error(Box::new(Inner {
            kind: inner.kind,
            message: inner.message.clone(),
            place: inner.place.clone(),
            current: inner.current,
            source: inner.source.as_ref().map(copy_io),
            is_no_table: inner.is_no_table,
        }))
    }
}

fn copy_io(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.place {
            Some((file, Some(offset))) => write!(f, " ({} at offset {offset})", file.display())?,
            Some((file, None)) => write!(f, " ({})", file.display())?,
            None => {}
        }
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

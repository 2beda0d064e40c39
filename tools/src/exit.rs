//! Exit codes, and the error that carries one.
//!
//! The codes are a promise to scripts: `--help` lists them and tests/cli.rs holds them.

use std::fmt;
use std::io;
use std::process::ExitCode;
use tabulith::error::Kind;
use tabulith::inspect;
use tabulith::table::error::TableError;

/// The codes, as `--help` shows them.
pub(crate) const HELP: &str = "Exit codes:
  0    ok
  1    failure
  2    usage: a flag, a file name or a setting is wrong
  3    not found: no such table, file or folder
  4    precondition failed: the row changed since it was read
  5    conflict: it exists already, or another process holds it
  6    not authorized
  7    throttled or unavailable, also after retries; or the disk is full
  8    corruption: bytes on disk disagree with their format, or a file is missing
  130  interrupted";

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All that was asked for was done.
    Ok = 0,
    /// Something went wrong that no other code names.
    Failure = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// The table, row, file or folder does not exist.
    NotFound = 3,
    /// A precondition failed.
    Changed = 4,
    /// It exists already, or something else holds it.
    Conflict = 5,
    /// Credentials are missing, wrong or too weak.
    Auth = 6,
    /// The other side is away or asks for less.
    Unavailable = 7,
    /// Bytes on disk are damaged.
    Corrupt = 8,
    /// The user stopped it.
    Interrupted = 130,
}

impl Exit {
    /// The exit that fits the engine's kind of error.
    pub(crate) fn of_kind(kind: Kind) -> Exit {
        match kind {
            Kind::NotFound => Exit::NotFound,
            Kind::Exists | Kind::Locked => Exit::Conflict,
            Kind::Changed => Exit::Changed,
            Kind::Busy | Kind::WouldBlock | Kind::NoSpace => Exit::Unavailable,
            Kind::Corrupt => Exit::Corrupt,
            _ => Exit::Failure,
        }
    }

    /// The exit that fits an error of the table layer.
    fn of_table(error: &TableError) -> Exit {
        match error {
            TableError::TableNotFound | TableError::EntityNotFound => Exit::NotFound,
            TableError::TableExists | TableError::EntityExists => Exit::Conflict,
            TableError::ConditionFailed { .. } => Exit::Changed,
            TableError::FilterTooComplex => Exit::Usage,
            _ => Exit::Failure,
        }
    }

    /// The exit that fits an answer's HTTP status.
    pub(crate) fn of_status(status: u16) -> Exit {
        match status {
            401 | 403 => Exit::Auth,
            404 => Exit::NotFound,
            409 => Exit::Conflict,
            412 => Exit::Changed,
            408 | 429 | 500..=599 if status != 501 => Exit::Unavailable,
            _ => Exit::Failure,
        }
    }
}

/// The `verdict` on what was found, once it was `told`: it is the same where the reader of that
/// went away before its end (`| head`).
pub(crate) fn verdict<E>(told: Result<(), E>, verdict: Exit) -> anyhow::Result<Exit>
where
    anyhow::Error: From<E>,
{
    match told.map_err(anyhow::Error::from) {
        // Of a stdout that nobody reads.
        Err(error) if of(&error) != Exit::Ok => Err(error),
        _ => Ok(verdict),
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error with its exit code and a message that stands alone.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// A failure that ends the process with `exit` and says `message`.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into() }
    }

    /// A wrong flag, file name or setting.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// What is said of a stdout, or a stderr that is named as a file, whose reader went away (`|
/// head`): it has what it wanted.
#[derive(Debug)]
struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for Unread {}

/// `error` as one of stdout: that its reader went away is no failure, as it is with any other file
/// and with the other side of a connection.
pub(crate) fn of_stdout(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, Unread),
        _ => error,
    }
}

/// The exit of an error: that of the first cause in its chain that has one.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(of_cause).unwrap_or(Exit::Failure)
}

/// An error with its causes on one line, each told once: some repeat their cause in their own text.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some(failure.exit);
    }
    if let Some(engine) = cause.downcast_ref::<tabulith::error::Error>() {
        return of_engine(engine);
    }
    match cause.downcast_ref::<TableError>() {
        Some(TableError::Engine(engine)) => return of_engine(engine),
        Some(table) => return Some(Exit::of_table(table)),
        None => {}
    }
    let error = cause.downcast_ref::<io::Error>()?;
    match error.kind() {
        io::ErrorKind::NotFound => Some(Exit::NotFound),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Exit::Unavailable),
        _ => error.get_ref().is_some_and(|inner| inner.is::<Unread>()).then_some(Exit::Ok),
    }
}

/// What the operating system refused is the next cause, which says more: `None` leaves it to that.
fn of_engine(error: &tabulith::error::Error) -> Option<Exit> {
    if error.kind() != Kind::Io {
        return Some(Exit::of_kind(error.kind()));
    }
    // The manifest no longer names a file that a writer has deleted: only the folder tells the two
    // apart.
    let is_damage = error.place().is_some_and(|(file, _)| inspect::is_missing(file));
    is_damage.then_some(Exit::Corrupt)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn context_keeps_the_exit_of_its_cause() {
        let engine = tabulith::error::Error::new(Kind::Corrupt, "bad block");
        let error = Err::<(), _>(engine).context("opening data").unwrap_err();
        assert_eq!(of(&error), Exit::Corrupt);
        assert_eq!(of(&anyhow::anyhow!("plain")), Exit::Failure);
    }

    #[test]
    fn a_cause_is_told_once_and_its_exit_found() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let engine = tabulith::error::Error::io("listing", std::path::Path::new("d"), missing);
        let error = anyhow::Error::new(engine).context("opening d");
        assert_eq!(told(&error), "opening d: listing (d): entity not found");
        assert_eq!(of(&error), Exit::NotFound);
    }

    /// A file that could not be written, and a server that hung up, were exit code 0 too.
    #[test]
    fn a_broken_pipe_is_quiet_on_stdout_alone() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let exit = |error: io::Error| of(&anyhow::Error::new(error).context("a row"));
        assert_eq!(exit(of_stdout(broken())), Exit::Ok);
        assert_eq!(exit(broken()), Exit::Failure);
        assert_eq!(exit(of_stdout(io::ErrorKind::StorageFull.into())), Exit::Unavailable);
        assert_eq!(verdict(Err(of_stdout(broken())), Exit::Corrupt).unwrap(), Exit::Corrupt);
        assert!(verdict(Err(broken()), Exit::Corrupt).is_err());
    }

    #[test]
    fn a_full_disk_is_one_exit_wherever_it_is_met() {
        for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded] {
            let full = || std::io::Error::from(kind);
            let engine = tabulith::error::Error::io("writing", std::path::Path::new("d"), full());
            assert_eq!(of(&anyhow::Error::new(engine).context("a copy")), Exit::Unavailable);
            assert_eq!(of(&anyhow::Error::new(full()).context("a copy")), Exit::Unavailable);
        }
    }

    #[test]
    fn statuses_have_their_documented_exit() {
        for (status, exit) in [
            (400, Exit::Failure),
            (403, Exit::Auth),
            (404, Exit::NotFound),
            (409, Exit::Conflict),
            (412, Exit::Changed),
            (413, Exit::Failure),
            (501, Exit::Failure),
            (503, Exit::Unavailable),
        ] {
            assert_eq!(Exit::of_status(status), exit, "{status}");
        }
    }

    #[test]
    fn help_lists_every_code() {
        for exit in [
            Exit::Ok,
            Exit::Failure,
            Exit::Usage,
            Exit::NotFound,
            Exit::Changed,
            Exit::Conflict,
            Exit::Auth,
            Exit::Unavailable,
            Exit::Corrupt,
            Exit::Interrupted,
        ] {
            let line = format!("\n  {:<4} ", exit as u8);
            assert!(HELP.contains(&line), "{exit:?} is missing");
        }
    }
}

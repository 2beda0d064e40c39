//! The service's words for refusals of the table layer. Failures of the engine are logged here,
//! and its refusals, each kind once a second.

use crate::error::{
    AS_OF_OUT_OF_RANGE, DIFFERENT_PARTITIONS, DUPLICATE_PROPERTIES, ENTITY_ALREADY_EXISTS,
    ENTITY_TOO_LARGE, INTERNAL_ERROR, INVALID_DUPLICATE_ROW, INVALID_INPUT, INVALID_RESOURCE_NAME,
    NAME_LENGTH, OUT_OF_RANGE_INPUT, OVERLOADED, PROPERTY_NAME_INVALID, PROPERTY_NAME_TOO_LONG,
    PROPERTY_VALUE_TOO_LARGE, REQUEST_BODY_TOO_LARGE, RESOURCE_NOT_FOUND, SECONDARY_IS_READ_ONLY,
    TABLE_ALREADY_EXISTS, TABLE_NOT_FOUND, TOO_MANY_CHANGES, TOO_MANY_PROPERTIES,
    UPDATE_CONDITION_NOT_SATISFIED, WireError, value_out_of_range,
};
use crate::sparing::Sparing;
use std::sync::LazyLock;
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::error::{Error, Kind};
use tabulith::options::Reach;
use tabulith::table::error::{GroupError, TableError, TableResult};
use tabulith::table::name::NameError;
use tabulith::table::value::DateTime;

/// Refusals for want of room or time, of which the log is told once a second.
static REFUSALS: Sparing = Sparing::new();
/// Failures, by what kind they are: who asks for a damaged block, or to write once the log has
/// failed, may do so thousands of times a second.
static DAMAGE: Sparing = Sparing::new();
static CLOSED: Sparing = Sparing::new();
static FAILURES: Sparing = Sparing::new();
static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);

/// For a name that no table can have.
pub fn name_refusal(error: NameError) -> WireError {
    match error {
        NameError::Length => NAME_LENGTH,
        NameError::Characters => INVALID_RESOURCE_NAME,
        NameError::Reserved => INVALID_INPUT,
    }
}

/// For a change set, with the place of the change at fault.
pub fn group_refusal(error: GroupError) -> (usize, WireError) {
    (error.index, refusal(error.error))
}

/// For one operation.
pub fn refusal(error: TableError) -> WireError {
    match error {
        TableError::Engine(error) => engine_failure(&error),
        TableError::TableNotFound => TABLE_NOT_FOUND,
        TableError::MomentNotKept { from, end, .. } => AS_OF_OUT_OF_RANGE.saying(format!(
            "The moment to read as of is not kept: the history begins at {} and ends before {}.",
            DateTime::from(from),
            DateTime::from(end)
        )),
        TableError::TableExists => TABLE_ALREADY_EXISTS,
        TableError::EntityNotFound => RESOURCE_NOT_FOUND,
        TableError::EntityExists => ENTITY_ALREADY_EXISTS,
        TableError::ConditionFailed { .. } => UPDATE_CONDITION_NOT_SATISFIED,
        TableError::KeyInvalid { key, value } => value_out_of_range(key.name(), &value),
        TableError::KeyTooLong { .. } | TableError::PropertyValueTooLarge { .. } => {
            PROPERTY_VALUE_TOO_LARGE
        }
        TableError::PropertyNameInvalid { .. } => PROPERTY_NAME_INVALID,
        TableError::PropertyNameTooLong { .. } => PROPERTY_NAME_TOO_LONG,
        TableError::PropertyTwice { .. } => DUPLICATE_PROPERTIES,
        TableError::PropertyOutOfRange { .. } => OUT_OF_RANGE_INPUT,
        TableError::TooManyProperties { .. } => TOO_MANY_PROPERTIES,
        TableError::EntityTooLarge { .. } => ENTITY_TOO_LARGE,
        TableError::TooManyOperations { .. } => TOO_MANY_CHANGES,
        TableError::GroupTooLarge { .. } => REQUEST_BODY_TOO_LARGE,
        TableError::MixedPartitions => DIFFERENT_PARTITIONS,
        TableError::RowTwice => INVALID_DUPLICATE_ROW,
        TableError::NoOperations
        | TableError::FilterTooComplex
        | TableError::PageTooLong { .. } => INVALID_INPUT,
        other => {
            tracing::error!(error = %other, "a refusal without words of the service");
            INTERNAL_ERROR
        }
    }
}

/// What was reached for; nothing where that was memory alone and only the disk can tell.
pub fn reached<T>(reach: Reach, found: TableResult<T>) -> Result<Option<T>, WireError> {
    match found {
        Err(TableError::Engine(error))
            if reach == Reach::Memory && error.kind() == Kind::WouldBlock =>
        {
            Ok(None)
        }
        found => found.map(Some).map_err(refusal),
    }
}

/// A failure of the engine tells the client nothing of files and places; the log gets those.
fn engine_failure(error: &Error) -> WireError {
    match error.kind() {
        Kind::Busy | Kind::NoSpace => {
            if let Some(unsaid) = REFUSALS.one_more(CLOCK.steady()) {
                tracing::warn!(error = %error, unsaid, "the engine refuses work");
            }
            OVERLOADED
        }
        Kind::ReadOnly => SECONDARY_IS_READ_ONLY,
        kind => {
            let sparing = match kind {
                Kind::Corrupt => &DAMAGE,
                Kind::Closed => &CLOSED,
                _ => &FAILURES,
            };
            if let Some(unsaid) = sparing.one_more(CLOCK.steady()) {
                tracing::error!(error = %error, unsaid, "the engine failed");
            }
            INTERNAL_ERROR
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::io::{self, Write};
    use std::sync::Arc;

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        fn lines_with(&self, text: &str) -> u64 {
            let all = String::from_utf8_lossy(&self.0.lock()).into_owned();
            all.lines().filter(|line| line.contains(text)).count() as u64
        }
    }

    /// One block or one failed log is met by every request, and each made a line.
    #[test]
    fn a_failure_that_repeats_is_told_once_a_second_and_hides_no_other() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        let began = CLOCK.steady();
        let fail = |kind, what: &str| refusal(TableError::Engine(Error::new(kind, what)));
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..1_000 {
                assert_eq!(fail(Kind::Corrupt, "a block is damaged"), INTERNAL_ERROR);
            }
            // Another test may have told one a moment ago.
            while log.lines_with("the log has failed") == 0 {
                assert_eq!(fail(Kind::Closed, "the log has failed"), INTERNAL_ERROR);
            }
        });
        let told = log.lines_with("a block is damaged");
        assert!(told <= (CLOCK.steady() - began).as_secs() + 2, "{told} lines");
    }
}

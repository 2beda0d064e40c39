//! Whether there is no database, rather than half of one.

use tabulith::{Error, Kind};

/// Whether an open found no database: no root, which is the last to be written, or none that is
/// whole.
pub(crate) fn is_no_database(error: &Error) -> bool {
    let name = error.place().and_then(|(file, _)| file.file_name());
    let is_of_root = name.is_some_and(|name| name.to_string_lossy().starts_with("ROOT"));
    error.kind() == Kind::NotFound || (error.kind() == Kind::Corrupt && is_of_root)
}

//! Why a run ends before its steps do.

use tabulith::error::Error;

/// Why a run ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The database returned an error.
    Refused(Error),
    /// The database did what it must not.
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Refused(error)
    }
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Wrong(what)
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Refused(error) => write!(f, "refused: {error:?}"),
            Stop::Wrong(what) => f.write_str(what),
        }
    }
}

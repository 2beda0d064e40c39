//! What can go wrong on purpose, and how it is written: `busy retry-after=2`.

use crate::faults::words::{BadWord, Words};
use crate::operations::Kind;

/// Most seconds that a fault can name: ten minutes.
const SECONDS_MAX: u64 = 600;

/// How long a dropped table's name is held where that is not said: as long as on Azure.
const BEING_DELETED_SECONDS: u64 = 40;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the answer is 503 `ServerBusy`.
    Busy {
        /// Seconds in `Retry-After`.
        retry_after: Option<u64>,
    },
    /// Nothing happens, and the answer is 500 `OperationTimedOut`.
    TimedOut,
    /// It happens, and the connection ends after so many bytes of the answer's body. An answer
    /// without one is lost whole.
    Cut {
        /// The bytes that arrive.
        bytes: usize,
    },
    /// It happens, and the connection ends without an answer.
    Lost,
    /// It happens later.
    Delay {
        /// How much, in milliseconds.
        ms: u64,
    },
    /// The table is dropped, and for a time it answers 409 `TableBeingDeleted`.
    BeingDeleted {
        /// How long.
        seconds: u64,
    },
    /// A page without entities that says to go on where it would have begun.
    EmptyPage,
}

/// The names of all faults.
const NAMES: &str = "busy, timed-out, cut, lost, delay, being-deleted and empty-page";

impl Fault {
    /// Reads a fault that stands alone.
    pub fn parse(text: &str) -> Result<Fault, BadWord> {
        let mut words = Words::of(text)?;
        let fault = Fault::take(&mut words)?;
        words.end().map(|()| fault)
    }

    /// Takes a fault and its own settings out of a text.
    pub fn take(words: &mut Words<'_>) -> Result<Fault, BadWord> {
        Ok(match words.name() {
            "busy" => Fault::Busy { retry_after: words.number("retry-after", 0..=SECONDS_MAX)? },
            "timed-out" => Fault::TimedOut,
            "cut" => {
                let bytes = words.number("bytes", 0..=u64::from(u32::MAX))?.unwrap_or_default();
                Fault::Cut { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) }
            }
            "lost" => Fault::Lost,
            "delay" => match words.number("ms", 0..=SECONDS_MAX * 1_000)? {
                Some(ms) => Fault::Delay { ms },
                None => return Err(BadWord::new("delay", "how long is missing, as in ms=500")),
            },
            "being-deleted" => {
                let seconds = words.number("seconds", 0..=SECONDS_MAX)?;
                Fault::BeingDeleted { seconds: seconds.unwrap_or(BEING_DELETED_SECONDS) }
            }
            "empty-page" => Fault::EmptyPage,
            other => {
                return Err(BadWord::new(other, format_args!("no fault; there are {NAMES}")));
            }
        })
    }

    /// The one operation that can fail like that; none where all of them can.
    pub fn only(self) -> Option<Kind> {
        match self {
            Fault::BeingDeleted { .. } => Some(Kind::DeleteTable),
            Fault::EmptyPage => Some(Kind::Query),
            _ => None,
        }
    }

    /// Whether that operation can fail like that.
    pub fn fits(self, operation: Kind) -> bool {
        self.only().is_none_or(|only| only == operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_text() {
        for (text, fault) in [
            ("busy", Fault::Busy { retry_after: None }),
            (" busy  retry-after=0 ", Fault::Busy { retry_after: Some(0) }),
            ("timed-out", Fault::TimedOut),
            ("cut", Fault::Cut { bytes: 0 }),
            ("cut bytes=4294967295", Fault::Cut { bytes: 4_294_967_295 }),
            ("lost", Fault::Lost),
            ("delay ms=600000", Fault::Delay { ms: 600_000 }),
            ("being-deleted", Fault::BeingDeleted { seconds: 40 }),
            ("being-deleted seconds=1", Fault::BeingDeleted { seconds: 1 }),
            ("empty-page", Fault::EmptyPage),
        ] {
            assert_eq!(Fault::parse(text), Ok(fault), "{text}");
        }
    }

    #[test]
    fn other_texts_have_no_fault() {
        for (text, says) in [
            ("", "``: no fault; there are busy, timed-out, "),
            ("Busy", "`Busy`: no fault"),
            ("busy seconds=1", "`seconds=1`: no such setting; busy has"),
            ("busy retry-after=601", "`retry-after=601`: retry-after is a whole number"),
            ("lost bytes=1", "`bytes=1`: no such setting; lost has"),
            ("cut bytes=4294967296", "`bytes=4294967296`: bytes is a whole number"),
            ("delay", "`delay`: how long is missing"),
            ("delay ms=600001", "`ms=600001`: ms is a whole number from 0 to 600000"),
            ("busy every=2", "`every=2`: no such setting; busy has"),
        ] {
            let error = Fault::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(says), "{text}: {error}");
        }
    }

    #[test]
    fn some_faults_are_for_one_operation() {
        assert!(Fault::Lost.fits(Kind::Query) && Fault::EmptyPage.fits(Kind::Query));
        assert!(!Fault::EmptyPage.fits(Kind::Get));
        assert!(!Fault::BeingDeleted { seconds: 1 }.fits(Kind::CreateTable));
    }
}

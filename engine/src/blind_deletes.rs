//! Whether a delete looks first for the row that it removes.
//!
//! A delete of a row that nobody has is best not written at all: it would cost space and every scan
//! that passes it. But looking costs as much as writing. So where deletes have met their rows
//! [`TRUSTED_AFTER`] times in a row, most are written blind, and the first one looked for in vain
//! makes all of them look again.

use std::sync::atomic::{AtomicU32, Ordering};

/// Deletes that must have met their rows, one after the other.
const TRUSTED_AFTER: u32 = 256;

/// Then one delete in this many still looks.
const LOOKS_EVERY: u32 = 16;

/// What deletes met lately, of all threads of a database.
#[derive(Debug, Default)]
pub(crate) struct BlindDeletes {
    /// Deletes since the last one that met nothing. Threads may overwrite one another's counts:
    /// that only moves the next look.
    met: AtomicU32,
}

impl BlindDeletes {
    /// Whether a row is to be deleted: always where `is_there` is not asked.
    pub(crate) fn deletes<E>(&self, is_there: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        let met = self.met.load(Ordering::Relaxed);
        let looks = met < TRUSTED_AFTER || met.is_multiple_of(LOOKS_EVERY);
        let deletes = !looks || is_there()?;
        let next = if met == u32::MAX { TRUSTED_AFTER } else { met + 1 };
        self.met.store(if deletes { next } else { 0 }, Ordering::Relaxed);
        Ok(deletes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` deletes look, when each that does learns `is_there`.
    fn looks(blind_deletes: &BlindDeletes, count: u32, is_there: bool) -> u32 {
        let mut looks = 0;
        for _ in 0..count {
            let deletes = blind_deletes.deletes(|| {
                looks += 1;
                Ok::<_, ()>(is_there)
            });
            assert!(deletes == Ok(true) || !is_there);
        }
        looks
    }

    #[test]
    fn deletes_that_meet_rows_stop_looking_and_one_in_vain_makes_all_look() {
        let blind_deletes = BlindDeletes::default();
        assert_eq!(looks(&blind_deletes, TRUSTED_AFTER, true), TRUSTED_AFTER);
        assert_eq!(looks(&blind_deletes, 100 * LOOKS_EVERY, true), 100);
        assert_eq!(looks(&blind_deletes, LOOKS_EVERY, false), LOOKS_EVERY);
        assert_eq!(looks(&blind_deletes, TRUSTED_AFTER, true), TRUSTED_AFTER);
    }

    #[test]
    fn the_count_does_not_overflow() {
        let blind_deletes = BlindDeletes { met: AtomicU32::new(u32::MAX) };
        assert_eq!(looks(&blind_deletes, 1 + LOOKS_EVERY, true), 1);
    }

    #[test]
    fn who_cannot_look_fails() {
        let blind_deletes = BlindDeletes::default();
        assert_eq!(blind_deletes.deletes(|| Err("disk")), Err("disk"));
    }
}

//! Moments as counts since 1970, in the units that files of columns have.
//!
//! Promise: a moment comes back as it was, or is refused with its reason; none is rounded.

use tabulith::table::value::DateTime;

/// What moments are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    fn nanos(self) -> i128 {
        match self {
            Unit::Millis => 1_000_000,
            Unit::Micros => 1_000,
            Unit::Nanos => 1,
        }
    }
}

/// Nanoseconds of a tick of a DateTime.
const TICK_NANOS: i128 = 100;

/// The moment that lies so many units after 1970.
pub(crate) fn moment(count: i64, unit: Unit) -> Result<DateTime, String> {
    moment_of_nanos(i128::from(count) * unit.nanos())
}

/// The midnight that lies so many days after 1970.
pub(crate) fn midnight(days: i32) -> Result<DateTime, String> {
    moment_of_nanos(i128::from(days) * 86_400_000_000_000)
}

/// The moment so many nanoseconds into a Julian day.
pub(crate) fn julian(day: u32, nanos: u64) -> Result<DateTime, String> {
    // 1970-01-01 is the Julian day 2,440,588.
    let days = i128::from(day) - 2_440_588;
    moment_of_nanos(days * 86_400_000_000_000 + i128::from(nanos))
}

fn moment_of_nanos(nanos: i128) -> Result<DateTime, String> {
    if nanos % TICK_NANOS != 0 {
        return Err(format!("{nanos} ns after 1970: a DateTime has ticks of 100 ns"));
    }
    let ticks = nanos / TICK_NANOS + i128::from(DateTime::UNIX_EPOCH.0);
    let moment = u64::try_from(ticks).ok().map(DateTime).filter(|moment| *moment <= DateTime::MAX);
    moment
        .ok_or_else(|| format!("{nanos} ns after 1970: a DateTime lies in the years 1601 to 9999"))
}

/// A moment as a count of units after 1970, where that is a whole number that fits.
pub(crate) fn count(moment: DateTime, unit: Unit) -> Option<i64> {
    let ticks = i128::from(moment.0) - i128::from(DateTime::UNIX_EPOCH.0);
    let nanos = ticks * TICK_NANOS;
    (nanos % unit.nanos() == 0).then(|| i64::try_from(nanos / unit.nanos()).ok()).flatten()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn moments_come_back_or_are_refused() {
        for ticks in [0, 1, 10, DateTime::UNIX_EPOCH.0, DateTime::UNIX_EPOCH.0 + 7, DateTime::MAX.0]
        {
            for unit in [Unit::Millis, Unit::Micros, Unit::Nanos] {
                if let Some(count) = count(DateTime(ticks), unit) {
                    assert_eq!(moment(count, unit), Ok(DateTime(ticks)), "{unit:?}");
                }
            }
        }
        assert_eq!(count(DateTime(7), Unit::Micros), None, "finer than a microsecond");
        assert_eq!(count(DateTime(0), Unit::Nanos), None, "before 1677");
        assert!(moment(1, Unit::Nanos).unwrap_err().contains("ticks of 100 ns"));
        assert!(moment(i64::MAX, Unit::Millis).unwrap_err().contains("1601 to 9999"));
        assert!(moment(i64::MIN, Unit::Micros).is_err());
    }

    #[test]
    fn days_are_midnights() {
        assert_eq!(midnight(0), Ok(DateTime::UNIX_EPOCH));
        assert_eq!(midnight(1).unwrap().to_string(), "1970-01-02T00:00:00Z");
        assert_eq!(julian(2_440_589, 500).unwrap().to_string(), "1970-01-02T00:00:00.0000005Z");
        assert!(midnight(i32::MIN).is_err() && julian(u32::MAX, u64::MAX).is_err());
    }
}

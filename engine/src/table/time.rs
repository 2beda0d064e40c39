//! Text of moments: `2021-10-18T17:13:20.2256371Z`, in UTC, the fraction without trailing zeros.
//!
//! Promise: what is printed parses to the same moment.

use crate::ids::CommitTs;
use crate::table::value::DateTime;
use jiff::civil;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use std::fmt;

const TICKS_PER_SECOND: u64 = CommitTs::TICKS_PER_SECOND;
const NANOS_PER_TICK: u64 = 100;
const START: civil::DateTime = civil::DateTime::constant(1601, 1, 1, 0, 0, 0, 0);
const UNIX_EPOCH: civil::DateTime = civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const UNIX_EPOCH_SECONDS: i64 = (DateTime::UNIX_EPOCH.0 / TICKS_PER_SECOND).cast_signed();
/// The widest offset from UTC in use, in minutes; also .NET's bound.
const OFFSET_MINUTES_MAX: i64 = 14 * 60;

impl DateTime {
    /// The commit that has this Timestamp, if it lies after 1970 began.
    pub fn commit(self) -> Option<CommitTs> {
        self.0.checked_sub(DateTime::UNIX_EPOCH.0).map(CommitTs)
    }
}

impl From<CommitTs> for DateTime {
    fn from(ts: CommitTs) -> DateTime {
        DateTime(ts.0.saturating_add(DateTime::UNIX_EPOCH.0)).min(DateTime::MAX)
    }
}

/// `YYYY-MM-DDThh:mm:ss[.f{1,7}]Z`. A moment above [`DateTime::MAX`] prints as that.
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().as_str())
    }
}

/// The text of a moment, in place: a page of entities holds thousands of them.
#[derive(Clone, Copy, Debug)]
pub struct TimeText {
    bytes: [u8; TIME_TEXT_BYTES_MAX],
    len: usize,
}

const TIME_TEXT_BYTES_MAX: usize = "9999-12-31T23:59:59.9999999Z".len();

impl TimeText {
    /// The text.
    pub fn as_str(&self) -> &str {
        // Digits and punctuation are ASCII.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// The last `count` digits of `number`.
    fn push_digits(&mut self, mut number: u64, count: usize) {
        for at in (self.len..self.len + count).rev() {
            self.bytes[at] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.len += count;
    }
}

impl DateTime {
    /// What it prints as.
    pub fn text(self) -> TimeText {
        let (civil, ticks) = to_civil(self);
        let (date, time) = (civil.date(), civil.time());
        let mut text = TimeText { bytes: [0; TIME_TEXT_BYTES_MAX], len: 0 };
        let parts = [
            (i64::from(date.year()), 4, b'-'),
            (date.month().into(), 2, b'-'),
            (date.day().into(), 2, b'T'),
            (time.hour().into(), 2, b':'),
            (time.minute().into(), 2, b':'),
        ];
        for (number, count, behind) in parts {
            text.push_digits(number.unsigned_abs(), count);
            text.push(behind);
        }
        text.push_digits(time.second().unsigned_abs().into(), 2);
        if ticks > 0 {
            text.push(b'.');
            text.push_digits(ticks, 7);
            while text.bytes[text.len - 1] == b'0' {
                text.len -= 1;
            }
        }
        text.push(b'Z');
        text
    }
}

/// The second that `moment` lies in, and the ticks since that second began.
fn to_civil(moment: DateTime) -> (civil::DateTime, u64) {
    let moment = moment.min(DateTime::MAX);
    let seconds = (moment.0 / TICKS_PER_SECOND).cast_signed() - UNIX_EPOCH_SECONDS;
    let civil = match Timestamp::from_second(seconds) {
        Ok(timestamp) => Offset::UTC.to_datetime(timestamp),
        // The library's timestamps end a day before the year 9999 does, in all zones' favour.
        Err(_) => UNIX_EPOCH.saturating_add(SignedDuration::from_secs(seconds)),
    };
    (civil, moment.0 % TICKS_PER_SECOND)
}

/// Why a text is no moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// It is not of the form `YYYY-MM-DDThh:mm[:ss[.f]][Z|±hh:mm]`, or no such day or hour exists.
    Syntax,
    /// It lies before 1601 or after 9999.
    OutOfRange {
        /// The moment as `MM/dd/yyyy HH:mm:ss`, the form that Azure names it in.
        shown: String,
        /// Whether it lies after 9999, else before 1601.
        is_late: bool,
    },
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeError::Syntax => {
                f.write_str("not a moment of the form YYYY-MM-DD[Thh:mm[:ss[.f]]][Z|±hh:mm]")
            }
            TimeError::OutOfRange { shown, .. } => write!(f, "{shown} is out of range"),
        }
    }
}

impl std::error::Error for TimeError {}

/// The moment that `text` names: `YYYY-MM-DD[Thh:mm[:ss[.f{1,…}]]][Z|±hh:mm]`. Without a time it is
/// the day's begin, without a zone it is in UTC; digits below a tick are cut off.
pub fn parse(text: &str) -> Result<DateTime, TimeError> {
    let (local, ticks, offset_minutes) = parse_parts(text).ok_or(TimeError::Syntax)?;
    let offset = SignedDuration::from_mins(offset_minutes);
    // Years before 0000 have no text, but the library has them.
    let utc = local.checked_sub(offset).map_err(|_| out_of_range(local, true))?;
    let seconds = utc.duration_since(START).as_secs();
    let seconds = u64::try_from(seconds).map_err(|_| out_of_range(utc, false))?;
    Ok(DateTime(seconds * TICKS_PER_SECOND + ticks))
}

fn out_of_range(civil: civil::DateTime, is_late: bool) -> TimeError {
    let (date, time) = (civil.date(), civil.time());
    let (year, month, day) = (date.year(), date.month(), date.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let shown = format!("{month:02}/{day:02}/{year:04} {hour:02}:{minute:02}:{second:02}");
    TimeError::OutOfRange { shown, is_late }
}

/// Date and time to the second, ticks within the second, and the offset from UTC in minutes.
fn parse_parts(text: &str) -> Option<(civil::DateTime, u64, i64)> {
    let mut rest = text.as_bytes();
    let year = digits(&mut rest, 4)?;
    expect(&mut rest, b'-')?;
    let month = digits(&mut rest, 2)?;
    expect(&mut rest, b'-')?;
    let day = digits(&mut rest, 2)?;
    let (mut hour, mut minute, mut second, mut ticks) = (0, 0, 0, 0);
    if expect(&mut rest, b'T').is_some() {
        hour = digits(&mut rest, 2)?;
        expect(&mut rest, b':')?;
        minute = digits(&mut rest, 2)?;
        if expect(&mut rest, b':').is_some() {
            second = digits(&mut rest, 2)?;
            if expect(&mut rest, b'.').is_some() {
                ticks = fraction(&mut rest)?;
            }
        }
    }
    let offset_minutes = offset(&mut rest)?;
    let small = |value: i64| i8::try_from(value).ok();
    let year = i16::try_from(year).ok()?;
    let local = civil::DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        0,
    );
    (rest.is_empty()).then_some((local.ok()?, ticks, offset_minutes))
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    head.iter().try_fold(0, |value, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
    })
}

fn expect(rest: &mut &[u8], byte: u8) -> Option<()> {
    let (head, tail) = rest.split_first()?;
    (*head == byte).then(|| *rest = tail)
}

/// One or more digits after the point, as ticks.
fn fraction(rest: &mut &[u8]) -> Option<u64> {
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    let mut scale = TICKS_PER_SECOND;
    let mut ticks = 0;
    for byte in head {
        scale /= 10;
        ticks += scale * u64::from(byte - b'0');
    }
    (len > 0).then_some(ticks)
}

/// `Z`, nothing, or `±hh:mm`, in minutes.
fn offset(rest: &mut &[u8]) -> Option<i64> {
    let sign = match rest.first() {
        None => return Some(0),
        Some(b'Z') => return expect(rest, b'Z').map(|()| 0),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return None,
    };
    *rest = rest.get(1..)?;
    let hours = digits(rest, 2)?;
    expect(rest, b':')?;
    let minutes = digits(rest, 2).filter(|minutes| *minutes < 60)?;
    let total = hours * 60 + minutes;
    (total <= OFFSET_MINUTES_MAX).then_some(sign * total)
}

const _: () = assert!(NANOS_PER_TICK * TICKS_PER_SECOND == 1_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, printed: &str) {
        assert_eq!(parse(text).map(|moment| moment.to_string()), Ok(printed.to_owned()));
    }

    #[test]
    fn forms_that_clients_send() {
        check("2021-10-18T17:13:20.2256371Z", "2021-10-18T17:13:20.2256371Z");
        check("2020-01-01T01:02:00.0000000Z", "2020-01-01T01:02:00Z");
        check("2020-01-01T01:02:03.120Z", "2020-01-01T01:02:03.12Z");
        check("2020-01-01T01:02:03", "2020-01-01T01:02:03Z");
        check("2020-01-01T01:02Z", "2020-01-01T01:02:00Z");
        check("2020-01-01", "2020-01-01T00:00:00Z");
        check("2020-01-01Z", "2020-01-01T00:00:00Z");
        check("2020-01-01+02:00", "2019-12-31T22:00:00Z");
        check("2020-02-29T23:30:00-01:00", "2020-03-01T00:30:00Z");
        check("2020-01-01T01:02:03.5+02:00", "2019-12-31T23:02:03.5Z");
        check("2020-01-01T01:02:03.123456789Z", "2020-01-01T01:02:03.1234567Z");
    }

    #[test]
    fn the_bounds_are_in_and_what_lies_past_them_is_named() {
        assert_eq!(parse("1601-01-01T00:00:00Z"), Ok(DateTime(0)));
        assert_eq!(parse("9999-12-31T23:59:59.9999999Z"), Ok(DateTime::MAX));
        assert_eq!(parse("1970-01-01T00:00:00Z"), Ok(DateTime::UNIX_EPOCH));
        for (text, shown, is_late) in [
            ("1600-12-31T23:59:59.9999999Z", "12/31/1600 23:59:59", false),
            ("0001-01-01T00:00:00Z", "01/01/0001 00:00:00", false),
            ("0000-01-01T00:00:00+14:00", "12/31/-001 10:00:00", false),
            ("1601-01-01T00:00:00+01:00", "12/31/1600 23:00:00", false),
            ("9999-12-31T23:59:59-01:00", "12/31/9999 23:59:59", true),
        ] {
            let shown = shown.to_owned();
            assert_eq!(parse(text), Err(TimeError::OutOfRange { shown, is_late }));
        }
        assert_eq!(DateTime::MAX.to_string(), "9999-12-31T23:59:59.9999999Z");
        assert_eq!(DateTime(0).to_string(), "1601-01-01T00:00:00Z");
        assert_eq!(DateTime(u64::MAX).to_string(), DateTime::MAX.to_string());
        assert_eq!(DateTime::from(CommitTs::MAX), DateTime::MAX);
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2020",
            "2020-01-01T",
            "2020-1-1",
            "2020-13-01T00:00:00Z",
            "2020-02-30T00:00:00Z",
            "2020-01-01T24:00:00Z",
            "2020-01-01T00:00:60Z",
            "2020-01-01T00:00:00.Z",
            "2020-01-01T00:00:00ZZ",
            "2020-01-01T00:00:00+15:00",
            "2020-01-01T00:00:00+1:00",
            "2020-01-01 00:00:00Z",
            "+020-01-01T00:00:00Z",
            "2020-01-01T00:00:00\u{e9}",
        ] {
            assert_eq!(parse(text), Err(TimeError::Syntax), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_moments_parse_back(ticks in 0..=DateTime::MAX.0) {
            prop_assert_eq!(parse(&DateTime(ticks).to_string()), Ok(DateTime(ticks)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[0-9T:Z.+-]{0,40}") {
            let _ = parse(&text);
        }
    }
}

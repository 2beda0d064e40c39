//! Texts of typed values, as they stand in filters, in JSON strings and in nothing else:
//! dates, GUIDs, hex, numbers, percent-encoding.
//!
//! Promise: every function takes any text and never panics.

use tabulith::table::value::DateTime;

/// Why a text is no date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoDate {
    /// It is not written like one.
    Syntax,
    /// It lies before 1601 or after 9999. The text is what the service's error shows.
    OutOfRange(String),
}

/// Reads `YYYY-MM-DDThh:mm[:ss[.f…]][Z|±hh:mm]`. Without a zone the time is UTC; digits of the
/// fraction behind the seventh are dropped.
pub fn date_time(text: &str) -> Result<DateTime, NoDate> {
    let mut rest = Digits(text.as_bytes());
    let civil = civil(&mut rest).ok_or(NoDate::Syntax)?;
    let ticks = rest.fraction().ok_or(NoDate::Syntax)?;
    let offset_minutes = rest.zone().ok_or(NoDate::Syntax)?;
    if !rest.0.is_empty() {
        return Err(NoDate::Syntax);
    }
    let out_of_range = || NoDate::OutOfRange(civil.as_error_text());
    let seconds = civil.seconds_since_1601() - i64::from(offset_minutes) * 60;
    let seconds = u64::try_from(seconds).map_err(|_| out_of_range())?;
    let date = DateTime(seconds * TICKS_PER_SECOND + ticks);
    if date > DateTime::MAX { Err(out_of_range()) } else { Ok(date) }
}

const TICKS_PER_SECOND: u64 = 10_000_000;

struct Civil {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

fn civil(rest: &mut Digits) -> Option<Civil> {
    let year = rest.number(4)?;
    rest.skip(b'-')?;
    let month = rest.number(2)?;
    rest.skip(b'-')?;
    let day = rest.number(2)?;
    rest.skip(b'T').or_else(|| rest.skip(b't'))?;
    let hour = rest.number(2)?;
    rest.skip(b':')?;
    let minute = rest.number(2)?;
    let second = if rest.skip(b':').is_some() { rest.number(2)? } else { 0 };
    let is_date =
        year >= 1 && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 60;
    (is_date && is_time).then_some(Civil {
        year: i64::from(year),
        month,
        day,
        hour,
        minute,
        second,
    })
}

fn days_in(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    }
}

impl Civil {
    fn seconds_since_1601(&self) -> i64 {
        let seconds = self.hour * 3600 + self.minute * 60 + self.second;
        self.days_since_1601() * 86_400 + i64::from(seconds)
    }

    /// Counts in years that begin in March, so that the leap day is a year's last.
    fn days_since_1601(&self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let months_since_march = i64::from((self.month + 9) % 12);
        let leap_days = year / 4 - year / 100 + year / 400;
        let days =
            year * 365 + leap_days + (months_since_march * 153 + 2) / 5 + i64::from(self.day);
        days - DAYS_BEFORE_1601
    }

    fn as_error_text(&self) -> String {
        let Civil { year, month, day, hour, minute, second } = self;
        format!("{month:02}/{day:02}/{year:04} {hour:02}:{minute:02}:{second:02}")
    }
}

/// What `days_since_1601` counts for 1601-01-01 before this is taken off.
const DAYS_BEFORE_1601: i64 = 584_695;

/// What is left of a text that consists of digits and marks.
struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn number(&mut self, digits: usize) -> Option<u32> {
        let (head, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        head.iter().try_fold(0, |number, &byte| Some(number * 10 + digit(byte)?))
    }

    fn skip(&mut self, mark: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[mark])?;
        Some(())
    }

    /// The fraction of a second in ticks; 0 where there is none.
    fn fraction(&mut self) -> Option<u64> {
        if self.skip(b'.').is_none() {
            return Some(0);
        }
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, rest) = self.0.split_at(length);
        self.0 = rest;
        let first_seven = fraction.iter().chain(std::iter::repeat(&b'0')).take(7);
        let ticks = first_seven.fold(0, |ticks, &byte| ticks * 10 + u64::from(byte - b'0'));
        (length > 0).then_some(ticks)
    }

    /// How far the zone lies east of UTC, in minutes.
    fn zone(&mut self) -> Option<i32> {
        let sign = match self.0.first() {
            None => return Some(0),
            Some(b'Z' | b'z') => {
                self.0 = &self.0[1..];
                return Some(0);
            }
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return None,
        };
        self.0 = &self.0[1..];
        let hours = self.number(2)?;
        self.skip(b':')?;
        let minutes = self.number(2)?;
        (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes) as i32)
    }
}

fn digit(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(10)
}

/// Reads `8-4-4-4-12` hex digits.
pub fn guid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    let dashes = [8, 13, 18, 23];
    if bytes.len() != 36 || dashes.iter().any(|&at| bytes[at] != b'-') {
        return None;
    }
    let digits: String = text.split('-').collect();
    if digits.len() != 32 {
        return None;
    }
    hex(&digits)?.try_into().ok()
}

/// Writes `8-4-4-4-12` lower-case hex digits.
pub fn guid_text(guid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in guid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(hex_digit(byte >> 4));
        text.push(hex_digit(byte & 15));
    }
    text
}

fn hex_digit(value: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(value & 15)])
}

/// Reads pairs of hex digits.
pub fn hex(text: &str) -> Option<Vec<u8>> {
    let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(nibble(pair[0])? << 4 | nibble(*pair.get(1)?)?)).collect()
}

/// Reads a decimal number of a filter or of JSON as a double; nothing where it overflows.
pub fn double(text: &str) -> Option<f64> {
    let is_number =
        text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let number = text.parse::<f64>().ok().filter(|number| is_number && number.is_finite())?;
    // The service does not keep the sign of zero.
    Some(if number == 0.0 { 0.0 } else { number })
}

/// Decodes `%XX` once; nothing where that leaves broken escapes or broken UTF-8.
pub fn percent_decoded(text: &str, plus: Plus) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'%' => {
                let (pair, behind) = rest.split_at_checked(2)?;
                rest = behind;
                bytes.extend(hex(std::str::from_utf8(pair).ok()?)?);
            }
            b'+' if plus == Plus::IsBlank => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// What `+` means in an encoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plus {
    /// A blank, as in query strings.
    IsBlank,
    /// Itself, as in paths.
    IsPlus,
}

/// Encodes all but unreserved characters (RFC 3986) and those of `also_plain`.
pub fn percent_encoded(text: &str, also_plain: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + text.len() / 8);
    for byte in text.bytes() {
        let unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        if unreserved || also_plain.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push(hex_digit(byte >> 4).to_ascii_uppercase());
            encoded.push(hex_digit(byte & 15).to_ascii_uppercase());
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_every_sdk() {
        let second = |n: u64| Ok(DateTime(DateTime::UNIX_EPOCH.0 + n * TICKS_PER_SECOND));
        assert_eq!(date_time("1970-01-01T00:00:00Z"), second(0));
        assert_eq!(date_time("1970-01-01T00:00"), second(0));
        assert_eq!(date_time("1970-01-01T00:00:01.0000000Z"), second(1));
        assert_eq!(date_time("1970-01-01T01:00:00.000+01:00"), second(0));
        assert_eq!(date_time("2000-02-29T12:00:00-05:30"), second(951_845_400));
        assert_eq!(date_time("1601-01-01T00:00:00Z"), Ok(DateTime(0)));
        assert_eq!(date_time("1601-01-01T00:00:00.123456789Z"), Ok(DateTime(1_234_567)));
        assert_eq!(date_time("9999-12-31T23:59:59.9999999Z"), Ok(DateTime::MAX));
    }

    #[test]
    fn dates_out_of_range_say_what_they_are() {
        let shown = |text: &str| NoDate::OutOfRange(text.to_owned());
        assert_eq!(date_time("1600-12-31T23:59:59Z"), Err(shown("12/31/1600 23:59:59")));
        assert_eq!(date_time("0001-01-01T00:00:00Z"), Err(shown("01/01/0001 00:00:00")));
        assert_eq!(date_time("9999-12-31T23:59:59-00:01"), Err(shown("12/31/9999 23:59:59")));
    }

    #[test]
    fn texts_that_are_no_dates() {
        for text in [
            "",
            "2000",
            "2000-01-01",
            "2000-13-01T00:00Z",
            "2001-02-29T00:00Z",
            "1900-02-29T00:00Z",
            "2000-01-01T24:00Z",
            "2000-01-01T00:60Z",
            "2000-01-01T00:00:60Z",
            "2000-01-01T00:00:00.Z",
            "2000-01-01T00:00Zx",
            "2000-01-01T00:00+1",
            "0000-01-01T00:00Z",
            "２000-01-01T00:00Z",
            "2000-01-01T00:00+15:00",
            "2000-01-01 00:00",
        ] {
            assert_eq!(date_time(text), Err(NoDate::Syntax), "{text}");
        }
    }

    #[test]
    fn guids_round_trip_in_lower_case() {
        let text = "0D391D16-97f1-4b9a-be68-4cc871f90001";
        assert_eq!(guid_text(&guid(text).expect("a guid")), text.to_ascii_lowercase());
        for text in [
            "",
            "0d391d16",
            "0d391d16-97f1-4b9a-be68-4cc871f9000g",
            "0d391d1697f14b9abe684cc871f900010000",
        ] {
            assert_eq!(guid(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_stay_finite() {
        assert_eq!(double("1e3"), Some(1000.0));
        assert_eq!(double("-0.0").map(f64::to_bits), Some(0));
        for text in ["1e400", "inf", "NaN", "infinity", "", "1e", "0x1"] {
            assert_eq!(double(text), None, "{text}");
        }
    }

    #[test]
    fn percent_encoding_as_recorded() {
        let key = "partition1-ô- -''-%20-%27-pk";
        let encoded = percent_encoded(key, "'");
        assert_eq!(encoded, "partition1-%C3%B4-%20-''-%2520-%2527-pk");
        assert_eq!(percent_decoded(&encoded, Plus::IsPlus).as_deref(), Some(key));
        assert_eq!(percent_decoded("a+b%2B", Plus::IsBlank).as_deref(), Some("a b+"));
        for text in ["%", "%2", "%zz", "%ff", "%é0"] {
            assert_eq!(percent_decoded(text, Plus::IsPlus), None, "{text}");
        }
    }
}

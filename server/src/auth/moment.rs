//! Moments as shared access signatures and stored policies name them.

use tabulith::table::time;
use tabulith::table::value::DateTime;

/// Most digits behind the point: a tick is the seventh.
const FRACTION_DIGITS_MAX: usize = 7;

/// Reads `YYYY-MM-DD`, `YYYY-MM-DDThh:mmZ`, `YYYY-MM-DDThh:mm:ssZ` with up to seven digits behind
/// a point, and the same with an offset for `Z`. Without a zone it is no moment.
pub fn parse(text: &str) -> Option<DateTime> {
    if text.len() == "YYYY-MM-DD".len() {
        return time::parse(&format!("{text}T00:00Z")).ok();
    }
    let (_, clock) = text.split_once('T')?;
    let zoned = clock.contains(['Z', '+', '-']);
    let digits = clock
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.bytes().take_while(u8::is_ascii_digit).count());
    let is_form = zoned && digits <= FRACTION_DIGITS_MAX;
    time::parse(text).ok().filter(|_| is_form)
}

/// A moment with exactly seven digits behind the point, as the service writes those of policies.
pub fn text(moment: DateTime) -> String {
    let ticks = moment.0 % TICKS_PER_SECOND;
    let second = DateTime(moment.0 - ticks).to_string();
    format!("{}.{ticks:07}Z", second.trim_end_matches('Z'))
}

const TICKS_PER_SECOND: u64 = tabulith::ids::CommitTs::TICKS_PER_SECOND;

#[cfg(test)]
mod tests {
    use super::{parse, text};

    #[test]
    fn forms_of_a_moment() {
        let shown = |given: &str| parse(given).map(text);
        for (given, read) in [
            ("2020-10-12", "2020-10-12T00:00:00.0000000Z"),
            ("2020-10-12T01:02Z", "2020-10-12T01:02:00.0000000Z"),
            ("2020-10-12T01:02:03Z", "2020-10-12T01:02:03.0000000Z"),
            ("2020-10-12T01:02:03.4Z", "2020-10-12T01:02:03.4000000Z"),
            ("2020-10-12T01:02:03.1234567Z", "2020-10-12T01:02:03.1234567Z"),
            ("2020-10-12T01:02:03+01:00", "2020-10-12T00:02:03.0000000Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"),
        ] {
            assert_eq!(shown(given).as_deref(), Some(read), "{given}");
            assert_eq!(shown(read).as_deref(), Some(read));
        }
        for given in [
            "",
            "2020",
            "2020-10",
            "2020-13-01",
            "2020-02-30",
            "2020-10-12Z",
            "2020-10-12T01Z",
            "2020-10-12T01:02",
            "2020-10-12T01:02:03",
            "2020-10-12T01:02:03.12345678Z",
            "2020-10-12T01:02:03.Z",
            "2020-10-12 01:02:03Z",
            "2020-10-12T25:02:03Z",
            "2020-10-12T01:02:03 01:00",
            " 2020-10-12",
            "2020-10-12T01:02:03Z ",
            "1600-01-01",
            "20201012",
            "Mon, 12 Oct 2020 01:02:03 GMT",
            "1602464523",
        ] {
            assert_eq!(parse(given), None, "{given}");
        }
    }
}

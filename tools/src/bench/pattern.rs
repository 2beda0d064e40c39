//! Keys described by a pattern: text with parts in braces that time, a counter or chance fill in.

use crate::bench::choice::Zipf;
use anyhow::{Result, bail};
use tabulith::env::rng::Rng;
use tabulith::ids::CommitTs;
use tabulith::table::value::DateTime;

/// When described writes begin: 2026-01-01, in ticks of 100 ns.
const START_TICKS: u64 = 17_672_256_000_000_000;

/// Ticks of a second.
const SECOND: u64 = 10_000_000;

/// A part of a pattern.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Seq,
    Back,
    Date,
    Time,
    Uuid,
    Int(u64),
    Zipf(u64, Zipf),
}

/// A pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

impl Pattern {
    /// Reads one.
    pub(crate) fn parse(text: &str) -> Result<Pattern> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let Some((name, after)) = after.split_once('}') else {
                bail!("the brace in {text} is never closed");
            };
            parts.push(Part::named(name)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Pattern { parts })
    }

    /// The key of a write: its number, at so many writes a second, with chances of its own.
    pub(crate) fn key(&self, number: u64, rate: u32, rng: &mut Rng) -> String {
        let ticks =
            START_TICKS + (u128::from(number) * u128::from(SECOND) / u128::from(rate)) as u64;
        let time = || DateTime::from(CommitTs(ticks)).to_string();
        let mut key = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => key.push_str(text),
                Part::Seq => key.push_str(&format!("{number:010}")),
                Part::Back => key.push_str(&format!("{:010}", 9_999_999_999 - number)),
                Part::Date => key.push_str(time().get(..10).unwrap_or_default()),
                Part::Time => {
                    // A moment's own text leaves out zeros at its end; keys must be of one length.
                    key.push_str(time().get(..19).unwrap_or_default());
                    key.push_str(&format!(".{:03}", ticks % SECOND / (SECOND / 1_000)));
                }
                Part::Uuid => {
                    let bytes = (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64());
                    key.push_str(
                        &uuid::Builder::from_random_bytes(bytes.to_be_bytes())
                            .into_uuid()
                            .to_string(),
                    );
                }
                Part::Int(below) => {
                    key.push_str(&padded(rng.below(*below), *below));
                }
                Part::Zipf(below, zipf) => key.push_str(&padded(zipf.draw(rng), *below)),
            }
        }
        key
    }
}

fn padded(number: u64, below: u64) -> String {
    let digits = below.saturating_sub(1).to_string().len();
    format!("{number:0digits$}")
}

impl Part {
    fn named(name: &str) -> Result<Part> {
        let (name, number) = name.split_once(':').map_or((name, None), |(name, n)| (name, Some(n)));
        let below = || match number.map(str::parse::<u64>) {
            Some(Ok(below)) if (1..=1_000_000_000_000).contains(&below) => Ok(below),
            _ => bail!("{{{name}:N}} needs a number N from 1 to 10^12"),
        };
        Ok(match (name, number) {
            ("seq", None) => Part::Seq,
            ("back", None) => Part::Back,
            ("date", None) => Part::Date,
            ("time", None) => Part::Time,
            ("uuid", None) => Part::Uuid,
            ("int", _) => Part::Int(below()?),
            ("zipf", _) => {
                let below = below()?;
                Part::Zipf(below, Zipf::new(below))
            }
            _ => bail!(
                "{{{name}}} is no part of a pattern: seq, back, date, time, uuid, int:N, zipf:N are"
            ),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn keys(pattern: &str, numbers: &[u64]) -> Vec<String> {
        let mut rng = Rng::seeded(1);
        let pattern = Pattern::parse(pattern).unwrap();
        numbers.iter().map(|number| pattern.key(*number, 1_000, &mut rng)).collect()
    }

    #[test]
    fn parts_are_filled_in() {
        assert_eq!(keys("a{seq}b", &[0, 7]), ["a0000000000b", "a0000000007b"]);
        assert_eq!(keys("{back}", &[0, 1]), ["9999999999", "9999999998"]);
        let day = 86_400_000;
        assert_eq!(keys("{date}", &[0, day - 1, day]), ["2026-01-01", "2026-01-01", "2026-01-02"]);
        let times = ["2026-01-01T00:00:00.000", "2026-01-01T00:00:01.500"];
        assert_eq!(keys("{time}", &[0, 1_500]), times);
        assert!(keys("x{int:100}", &[0; 50]).iter().all(|key| key.len() == 3));
        assert!(keys("{zipf:10}", &[0; 50]).iter().filter(|key| *key == "0").count() > 10);
        let uuids = keys("{uuid}", &[0, 1]);
        assert!(uuids[0].len() == 36 && uuids[0] != uuids[1], "{uuids:?}");
        assert_eq!(keys("plain", &[0]), ["plain"]);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (text, why) in [
            ("{seq", "never closed"),
            ("{nope}", "no part"),
            ("{int}", "needs"),
            ("{int:0}", "needs"),
            ("{seq:3}", "no part"),
        ] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

//! A fault or a rule as text: a name, then settings such as `every=3`, with blanks between them.
//!
//! Promise: what is wrong with such a text is told with the word that is wrong.

use std::fmt;
use std::ops::RangeInclusive;

/// How much of a word is repeated where it is wrong: it may come from outside.
const SHOWN_CHARS_MAX: usize = 40;

/// What a text said, until all of it was taken.
#[derive(Debug)]
pub struct Words<'a> {
    name: &'a str,
    settings: Vec<(&'a str, &'a str)>,
    /// What was asked for: the settings that there are.
    known: Vec<&'static str>,
}

/// A word that is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadWord(String);

impl BadWord {
    /// `word` is wrong for the reason `why`.
    pub fn new(word: &str, why: impl fmt::Display) -> BadWord {
        let shown: String = word.chars().take(SHOWN_CHARS_MAX).collect();
        let dots = if shown.len() < word.len() { "…" } else { "" };
        BadWord(format!("`{shown}{dots}`: {why}"))
    }
}

impl fmt::Display for BadWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'a> Words<'a> {
    /// Takes a text apart.
    pub fn of(text: &'a str) -> Result<Words<'a>, BadWord> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut settings: Vec<(&str, &str)> = Vec::new();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                return Err(BadWord::new(word, "a setting is a name, `=` and a value"));
            };
            if settings.iter().any(|(known, _)| *known == key) {
                return Err(BadWord::new(word, format_args!("{key} is set twice")));
            }
            settings.push((key, value));
        }
        Ok(Words { name, settings, known: Vec::new() })
    }

    /// The first word, or nothing.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Takes the value of a setting.
    pub fn take(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.push(key);
        let at = self.settings.iter().position(|(own, _)| *own == key)?;
        Some(self.settings.remove(at).1)
    }

    /// Takes a whole number within its bounds.
    pub fn number(
        &mut self,
        key: &'static str,
        bounds: RangeInclusive<u64>,
    ) -> Result<Option<u64>, BadWord> {
        let Some(value) = self.take(key) else { return Ok(None) };
        // Digits only: `parse` alone would take a sign.
        let plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse().ok().filter(|number| plain && bounds.contains(number));
        let (least, most) = (bounds.start(), bounds.end());
        number.map(Some).ok_or_else(|| {
            let why = format!("{key} is a whole number from {least} to {most}");
            BadWord::new(&format!("{key}={value}"), why)
        })
    }

    /// Fails where a setting is left that nobody took.
    pub fn end(self) -> Result<(), BadWord> {
        match self.settings.first() {
            None => Ok(()),
            Some((key, value)) => {
                let known = if self.known.is_empty() { "none" } else { &self.known.join(", ") };
                let why = format!("no such setting; {} has {known}", self.name);
                Err(BadWord::new(&format!("{key}={value}"), why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_once_and_none_is_left() {
        let mut words = Words::of("  busy\tretry-after=2  every=3 ").expect("words");
        assert_eq!(words.name(), "busy");
        assert_eq!(words.number("retry-after", 0..=9), Ok(Some(2)));
        let left = words.end().expect_err("every is left").to_string();
        assert_eq!(left, "`every=3`: no such setting; busy has retry-after");
        let none = Words::of("lost a=1").expect("words").end().expect_err("a is left").to_string();
        assert_eq!(none, "`a=1`: no such setting; lost has none");
    }

    #[test]
    fn the_word_that_is_wrong_is_named() {
        for (text, says) in [
            ("busy now", "`now`: a setting is a name, `=` and a value"),
            ("busy every=1 every=2", "`every=2`: every is set twice"),
        ] {
            assert_eq!(Words::of(text).expect_err(text).to_string(), says);
        }
        for value in ["", "-1", "+1", "1.0", "10", "18446744073709551616", "x"] {
            let text = format!("busy every={value}");
            let error = Words::of(&text).expect("words").number("every", 1..=9);
            let says = format!("`every={value}`: every is a whole number from 1 to 9");
            assert_eq!(error.expect_err(&text).to_string(), says);
        }
    }

    #[test]
    fn a_long_word_is_not_repeated_whole() {
        let text = format!("busy {}", "é".repeat(10_000));
        let error = Words::of(&text).expect_err("no setting").to_string();
        assert!(error.starts_with("`éé") && error.chars().count() < 100, "{error}");
    }
}

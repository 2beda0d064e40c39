//! JSON text of one flat object into its members, numbers as they are written.
//!
//! Entities are flat and their numbers are typed by how they are written (`1` or `1.0`), which a
//! general reader has already forgotten. Objects and arrays within the object are read by their
//! grammar, and nothing is kept of them.
//!
//! Promise: time linear in the text, no recursion, no panic.

use crate::limits::JSON_DEPTH_MAX;
use std::borrow::Cow;

/// The value of a member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Boolean(bool),
    /// The number's text, valid by JSON's grammar.
    Number(&'a str),
    String(Cow<'a, str>),
    /// An object or an array.
    Nested,
}

/// A member's name and value.
pub(crate) type Member<'a> = (Cow<'a, str>, Json<'a>);

/// The members of the one object that `text` is, in order, repeated ones included. None where it
/// is no JSON object. Of more than `members_max` members one more is read and no further, so
/// that the caller can tell too many.
pub(crate) fn members(text: &str, members_max: usize) -> Option<Vec<Member<'_>>> {
    let mut reader = Reader { text, at: 0 };
    let mut members = Vec::new();
    reader.mark(b'{')?;
    if reader.mark(b'}').is_none() {
        loop {
            if members.len() > members_max {
                return Some(members);
            }
            let name = reader.string()?;
            reader.mark(b':')?;
            members.push((name, reader.value()?));
            if reader.mark(b',').is_none() {
                reader.mark(b'}')?;
                break;
            }
        }
    }
    reader.skip_blanks();
    (reader.at == text.len()).then_some(members)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn skip_blanks(&mut self) {
        let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.at += self.bytes().iter().take_while(is_blank).count();
    }

    /// Skips blanks and one `mark`.
    fn mark(&mut self, mark: u8) -> Option<()> {
        self.skip_blanks();
        (self.bytes().first() == Some(&mark)).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<Json<'a>> {
        self.skip_blanks();
        match self.bytes().first()? {
            b'{' | b'[' => self.nested(),
            _ => self.scalar(),
        }
    }

    /// An object or an array, with all that is in it.
    fn nested(&mut self) -> Option<Json<'a>> {
        // What closes those that are open.
        let mut open = Vec::new();
        loop {
            let opened =
                if self.mark(b'{').is_some() { Some(b'}') } else { self.mark(b'[').map(|()| b']') };
            match opened {
                Some(_) if open.len() == JSON_DEPTH_MAX => return None,
                Some(close) => {
                    open.push(close);
                    if self.mark(close).is_none() {
                        self.name_within(close)?;
                        continue;
                    }
                    open.pop();
                }
                None => {
                    self.scalar()?;
                }
            }
            // Behind a value: what it ends, and whether another one follows.
            loop {
                let Some(close) = open.last().copied() else { return Some(Json::Nested) };
                if self.mark(b',').is_some() {
                    self.name_within(close)?;
                    break;
                }
                self.mark(close)?;
                open.pop();
            }
        }
    }

    /// The name of a member, where what `close` closes has such.
    fn name_within(&mut self, close: u8) -> Option<()> {
        if close == b'}' {
            self.string()?;
            self.mark(b':')?;
        }
        Some(())
    }

    fn scalar(&mut self) -> Option<Json<'a>> {
        self.skip_blanks();
        match self.bytes().first()? {
            b'"' => self.string().map(Json::String),
            b'-' | b'0'..=b'9' => self.number().map(Json::Number),
            b't' => self.word("true", Json::Boolean(true)),
            b'f' => self.word("false", Json::Boolean(false)),
            b'n' => self.word("null", Json::Null),
            _ => None,
        }
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Option<Json<'a>> {
        self.bytes().starts_with(word.as_bytes()).then(|| {
            self.at += word.len();
            value
        })
    }

    /// `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
    fn number(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.skip_one(b"-");
        match self.digits() {
            0 => return None,
            1 => {}
            _ if self.text[start..].trim_start_matches('-').starts_with('0') => return None,
            _ => {}
        }
        if self.skip_one(b".") && self.digits() == 0 {
            return None;
        }
        if self.skip_one(b"eE") {
            self.skip_one(b"+-");
            if self.digits() == 0 {
                return None;
            }
        }
        Some(&self.text[start..self.at])
    }

    fn skip_one(&mut self, any_of: &[u8]) -> bool {
        let found = self.bytes().first().is_some_and(|byte| any_of.contains(byte));
        self.at += usize::from(found);
        found
    }

    fn digits(&mut self) -> usize {
        let count = self.bytes().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    /// A quoted text; borrowed where nothing in it is escaped.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.mark(b'"')?;
        let plain = self.plain_part()?;
        if self.bytes().first() == Some(&b'"') {
            self.at += 1;
            return Some(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        loop {
            match self.bytes().first()? {
                b'"' => {
                    self.at += 1;
                    return Some(Cow::Owned(text));
                }
                _ => text.push(self.escape()?),
            }
            text.push_str(self.plain_part()?);
        }
    }

    /// Up to the next quote or backslash. Control characters must be escaped.
    fn plain_part(&mut self) -> Option<&'a str> {
        let bytes = self.bytes();
        let length = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))?;
        let part = &self.text[self.at..self.at + length];
        self.at += length;
        (bytes[length] > 0x1f).then_some(part)
    }

    fn escape(&mut self) -> Option<char> {
        let escaped = *self.bytes().get(1)?;
        self.at += 2;
        Some(match escaped {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return None,
        })
    }

    /// `XXXX`, or `XXXX\uXXXX` for a surrogate pair. A surrogate alone is no character.
    fn unicode(&mut self) -> Option<char> {
        let unit = self.hex_unit()?;
        if !(0xd800..0xe000).contains(&unit) {
            return char::from_u32(unit);
        }
        if !self.bytes().starts_with(b"\\u") {
            return None;
        }
        self.at += 2;
        let low = self.hex_unit()?;
        if unit >= 0xdc00 || !(0xdc00..0xe000).contains(&low) {
            return None;
        }
        char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00))
    }

    fn hex_unit(&mut self) -> Option<u32> {
        let digits = self.bytes().get(..4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, &byte| Some(unit * 16 + char::from(byte).to_digit(16)?))
    }
}

#[cfg(test)]
mod tests {
    use super::{JSON_DEPTH_MAX, Json, members};
    use tabulith::env::rng::Rng;

    #[track_caller]
    fn value(text: &str) -> Option<Json<'_>> {
        let (name, value) = members(text, 10)?.pop()?;
        assert_eq!(name, "a");
        Some(value)
    }

    #[test]
    fn numbers_keep_their_text() {
        for number in ["0", "-0", "10", "1.0", "-1.50e+3", "1E9", "123456789012345678901234567890"]
        {
            assert_eq!(value(&format!("{{\"a\":{number}}}")), Some(Json::Number(number)));
        }
        for number in ["01", "-", "1.", ".5", "1e", "+1", "0x1", "1e+", "NaN", "--1", "-01"] {
            assert_eq!(value(&format!("{{\"a\":{number}}}")), None, "{number}");
        }
    }

    #[test]
    fn escapes() {
        let text = r#"{"\u0061":"\"\\\/\b\f\n\r\té\u00e9\ud83d\ude00😀"}"#;
        let expected = "\"\\/\u{8}\u{c}\n\r\téé😀😀";
        assert_eq!(value(text), Some(Json::String(expected.into())));
    }

    #[test]
    fn what_is_no_object() {
        for text in [
            "",
            "{",
            "{}x",
            "[]",
            "null",
            "\"a\"",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":{]}",
            "{\"a\":[1,]}",
            "{\"a\":[1 2]}",
            "{\"a\":{\"b\"}}",
            "{\"a\":{\"b\":1,}}",
            "{\"a\":[{}}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":nul}",
            "{\"a\":truely}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\\ud800x\"}",
            "{\"a\":\"\\udc00\\ud800\"}",
            "{\"a\":\"\\u12\"}",
            "{\"a\":\"",
            "\u{feff}{\"a\":1}",
            "{\"a\":\"\\",
            "{\"a\":\"\\u+123\"}",
        ] {
            assert_eq!(members(text, 10), None, "{text}");
        }
        assert_eq!(members(" {} ", 10), Some(vec![]));
        assert_eq!(members("{\"a\":1,\"b\":2,\"c\":3}", 1).map(|read| read.len()), Some(2));
    }

    #[test]
    fn what_nests_is_passed_over() {
        for text in
            ["{}", "[]", " [ { } ] ", "{\"b\":[1,\"]\",{\"c\":null}],\"d\":{}}", "[[],[[]]]"]
        {
            assert_eq!(value(&format!("{{\"a\":{text}}}")), Some(Json::Nested), "{text}");
        }
        let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(value(&deep(JSON_DEPTH_MAX)), Some(Json::Nested));
        assert_eq!(members(&deep(JSON_DEPTH_MAX + 1), 10), None);
        assert_eq!(members(&deep(1_000_000), 10), None);
    }

    /// serde_json as the oracle, over texts near the border of the grammar.
    #[test]
    fn agrees_with_serde_json() {
        let pieces = [
            "{",
            "}",
            "\"a\"",
            "\"b\"",
            ":",
            ",",
            "1",
            "-",
            "0",
            ".5",
            "e3",
            "true",
            "null",
            " ",
            "\"\\n\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud800\"",
            "\"é\"",
            "\t",
            "\\",
            "\"",
            "[",
            "]",
            "\"c\":",
        ];
        let mut rng = Rng::seeded(11);
        let mut valid = 0;
        for _ in 0..200_000 {
            let middle: String = (0..rng.below(9))
                .map(|_| pieces[rng.below(pieces.len() as u64) as usize])
                .collect();
            let text = format!("{{\"a\":{middle}}}");
            let ours = members(&text, 100);
            let theirs = serde_json::from_str::<serde_json::Map<_, _>>(&text).ok();
            assert_eq!(ours.is_some(), theirs.is_some(), "{text}");
            for (name, value) in ours.into_iter().flatten().rev().take(1) {
                valid += 1;
                let same = match (&value, &theirs.as_ref().expect("both")[&*name]) {
                    (Json::String(a), serde_json::Value::String(b)) => a == b,
                    // serde_json writes the exponent's sign.
                    (Json::Number(a), serde_json::Value::Number(b)) => {
                        *a == b.as_str().replace("e+", "e")
                    }
                    (Json::Boolean(a), serde_json::Value::Bool(b)) => a == b,
                    (Json::Null, serde_json::Value::Null) => true,
                    (Json::Nested, theirs) => theirs.is_object() || theirs.is_array(),
                    _ => false,
                };
                assert!(same, "{text}");
            }
        }
        assert!(valid > 1000, "{valid} texts were valid");
    }
}

//! Lines as a POSIX shell takes them apart: into words, and up to the word under the cursor.
//!
//! Words are the library's. Where a line is not ended yet, as under the cursor, the library has no
//! answer; the scan here gives one, and agrees with the library wherever that has one.

use crate::exit::Failure;
use anyhow::Result;

/// Most bytes of a line, with those that it goes on in. A filter has 32 KiB at most, an entity in
/// words 1 MiB.
pub(crate) const LINE_BYTES_MAX: usize = 2 << 20;

/// The words of a line.
pub(crate) fn words(line: &str) -> Result<Vec<String>> {
    let words = shlex::split(line);
    Ok(words
        .ok_or_else(|| Failure::usage("a quote is open, or the last backslash quotes nothing"))?)
}

/// What stands before the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The words that are ended.
    pub(crate) words: Vec<String>,
    /// Where the word under the cursor begins, with its quote.
    pub(crate) start: usize,
    /// The word under the cursor as far as it is there, without quotes.
    pub(crate) typed: String,
    /// Whether it is being typed: behind a blank it is not begun, and empty.
    begun: bool,
    /// Whether a quote is open.
    open: bool,
}

/// Reads `text` up to its end, where the cursor is.
pub(crate) fn cursor(text: &str) -> Cursor {
    let mut cursor =
        Cursor { words: Vec::new(), start: 0, typed: String::new(), begun: false, open: false };
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => {
                if std::mem::take(&mut cursor.begun) {
                    cursor.words.push(std::mem::take(&mut cursor.typed));
                }
                continue;
            }
            '#' if !cursor.begun => {
                while chars.next_if(|(_, c)| *c != '\n').is_some() {}
                continue;
            }
            _ if !cursor.begun => (cursor.begun, cursor.start) = (true, at),
            _ => {}
        }
        cursor.open = match c {
            '\'' => !single(&mut chars, &mut cursor.typed),
            '"' => !double(&mut chars, &mut cursor.typed),
            '\\' => match chars.next() {
                Some((_, '\n')) => false,
                Some((_, c)) => {
                    cursor.typed.push(c);
                    false
                }
                None => true,
            },
            c => {
                cursor.typed.push(c);
                false
            }
        };
    }
    if !cursor.begun {
        cursor.start = text.len();
    }
    cursor
}

type Chars<'a> = std::iter::Peekable<std::str::CharIndices<'a>>;

/// Reads to the end of single quotes; false where there is none.
fn single(chars: &mut Chars<'_>, word: &mut String) -> bool {
    for (_, c) in chars {
        if c == '\'' {
            return true;
        }
        word.push(c);
    }
    false
}

/// Reads to the end of double quotes; false where there is none.
fn double(chars: &mut Chars<'_>, word: &mut String) -> bool {
    while let Some((_, c)) = chars.next() {
        match c {
            '"' => return true,
            '\\' => match chars.next() {
                Some((_, '\n')) => {}
                Some((_, c @ ('$' | '`' | '"' | '\\'))) => word.push(c),
                Some((_, c)) => word.extend(['\\', c]),
                None => return false,
            },
            c => word.push(c),
        }
    }
    false
}

/// Whether a line goes on in the next one: its last backslash is not quoted by one before it.
pub(crate) fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// Lines of a text, joined where one goes on in the next.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    /// The number of the first line that is held back, and the text so far.
    held: Option<(u64, String)>,
}

impl Joiner {
    /// Takes the line of that number. Gives the whole line with the number of its first once it
    /// ends.
    pub(crate) fn push(&mut self, number: u64, line: &str) -> Result<Option<(u64, String)>> {
        let (first, mut text) = self.held.take().unwrap_or((number, String::new()));
        text.push_str(line);
        if text.len() > LINE_BYTES_MAX {
            let why = format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20);
            return Err(Failure::usage(why).into());
        }
        if !goes_on(&text) {
            return Ok(Some((first, text)));
        }
        text.pop();
        self.held = Some((first, text));
        Ok(None)
    }

    /// What is left at the end of the text.
    pub(crate) fn finish(&mut self) -> Option<(u64, String)> {
        self.held.take()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_scan_agrees_with_the_library_on_every_short_line() {
        const ALPHABET: [char; 7] = ['a', ' ', '\'', '"', '\\', '#', '\n'];
        let mut compared = 0;
        for length in 0..=6_u32 {
            for number in 0..ALPHABET.len().pow(length) {
                let digit = |at: u32| ALPHABET[number / ALPHABET.len().pow(at) % ALPHABET.len()];
                let line: String = (0..length).map(digit).collect();
                let mut cursor = cursor(&line);
                let open = cursor.open;
                if cursor.begun {
                    cursor.words.push(cursor.typed);
                }
                assert_eq!((!open).then_some(cursor.words), shlex::split(&line), "{line:?}");
                compared += 1;
            }
        }
        assert_eq!(compared, 137_257);
    }

    #[test]
    fn the_word_under_the_cursor_begins_at_its_quote() {
        for (text, words, start, typed) in [
            ("", &[][..], 0, ""),
            ("query ", &["query"], 6, ""),
            ("query fl", &["query"], 6, "fl"),
            ("query 'fl", &["query"], 6, "fl"),
            ("query a\\ b", &["query"], 6, "a b"),
            ("query t --filter \"é eq 'x", &["query", "t", "--filter"], 17, "é eq 'x"),
            ("query '' ", &["query", ""], 9, ""),
        ] {
            let cursor = cursor(text);
            assert_eq!(cursor.words, words, "{text}");
            assert_eq!((cursor.start, cursor.typed.as_str()), (start, typed), "{text}");
        }
    }

    #[test]
    fn an_open_quote_is_refused() {
        assert_eq!(words("query t --filter \"a eq 'b'\"").unwrap().last().unwrap(), "a eq 'b'");
        assert_eq!(words("query t # all of it").unwrap(), ["query", "t"]);
        for line in ["query 't", "query \"t", "query t\\"] {
            assert!(words(line).unwrap_err().to_string().contains("quote"), "{line}");
        }
    }

    #[test]
    fn lines_go_on_behind_a_backslash() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.push(1, "a \\").unwrap(), None);
        assert_eq!(joiner.push(2, "b\\").unwrap(), None);
        assert_eq!(joiner.push(3, "c").unwrap(), Some((1, "a bc".to_owned())));
        assert_eq!(joiner.push(4, "d\\\\").unwrap(), Some((4, "d\\\\".to_owned())));
        assert_eq!(joiner.push(5, "e\\").unwrap(), None);
        assert_eq!(joiner.finish(), Some((5, "e".to_owned())));
        assert_eq!(joiner.finish(), None);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut joiner = Joiner::default();
        let piece = format!("{}\\", "x".repeat(LINE_BYTES_MAX / 2));
        assert_eq!(joiner.push(1, &piece).unwrap(), None);
        assert!(joiner.push(2, &piece).unwrap_err().to_string().contains("2 MiB"));
        assert_eq!(joiner.push(3, "z").unwrap(), Some((3, "z".to_owned())));
    }
}

//! Bytes for a terminal: control characters of the data do not reach it.

use std::io::{self, Write};

/// Puts a mark in the place of each control character but tabs and ends of lines, also of those
/// between U+0080 and U+009F, which take two bytes.
pub(crate) struct Harmless<W: Write> {
    out: W,
    /// Whether the first byte of a character of U+0080 to U+00BF is held back.
    held: bool,
}

/// U+FFFD, the mark.
const MARK: &[u8] = "\u{fffd}".as_bytes();

/// The first byte of the characters U+0080 to U+00BF.
const LEAD: u8 = 0xc2;

impl<W: Write> Harmless<W> {
    /// A writer into `out`.
    pub(crate) fn new(out: W) -> Harmless<W> {
        Harmless { out, held: false }
    }
}

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut clean = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            match (std::mem::take(&mut self.held), byte) {
                (true, 0x80..=0x9f) => clean.extend_from_slice(MARK),
                (held, byte) => {
                    clean.extend(held.then_some(LEAD));
                    match byte {
                        b'\n' | b'\t' => clean.push(*byte),
                        0..=0x1f | 0x7f => clean.extend_from_slice(MARK),
                        &LEAD => self.held = true,
                        _ => clean.push(*byte),
                    }
                }
            }
        }
        self.out.write_all(&clean)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_reaches_a_terminal() {
        let text = "a\u{1b}[31m\tb\r\n\u{9b}2J\u{7f}é\u{a0}\u{0}Â";
        for size in 1..=text.len() {
            let mut shown = Vec::new();
            let mut out = Harmless::new(&mut shown);
            text.as_bytes().chunks(size).for_each(|piece| out.write_all(piece).unwrap());
            let shown = String::from_utf8(shown).unwrap();
            assert_eq!(
                shown, "a\u{fffd}[31m\tb\u{fffd}\n\u{fffd}2J\u{fffd}é\u{a0}\u{fffd}Â",
                "{size}"
            );
        }
    }
}

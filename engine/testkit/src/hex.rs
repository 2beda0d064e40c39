//! Bytes as text: sixteen to a line with offset and ASCII, and back from hex digits.

use std::fmt::Write;

/// `bytes` as lines of sixteen: offset, hex, ASCII.
pub fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (i, line) in bytes.chunks(16).enumerate() {
        let mut hex = String::new();
        for (j, byte) in line.iter().enumerate() {
            let gap = if j == 8 { " " } else { "" };
            let _ = write!(hex, "{gap}{byte:02x} ");
        }
        let text: String = line.iter().map(|byte| printable(*byte)).collect();
        let _ = writeln!(out, "{:06x}  {hex:<49} {text}", i * 16);
    }
    out
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}

/// The first place where two strings of bytes differ, shown in both; empty where they are equal.
pub fn difference(found: &[u8], expected: &[u8]) -> String {
    let same = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    if same == found.len() && same == expected.len() {
        return String::new();
    }
    let start = same / 16 * 16;
    let part = |bytes: &[u8]| dump(&bytes[start.min(bytes.len())..(start + 32).min(bytes.len())]);
    format!(
        "differ at {same:#x} (found {} bytes, expected {}); from {start:#x}:\nfound\n{}expected\n{}",
        found.len(),
        expected.len(),
        part(found),
        part(expected)
    )
}

/// The bytes that `text` writes in hex digits; blanks and line breaks between them are skipped.
/// `None` for anything else, or half a byte.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some((high.to_digit(16)? * 16 + low.to_digit(16)?) as u8),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_shows_offset_hex_and_text() {
        let lines = dump(b"PartitionKey \x00\xff!tail");
        assert_eq!(
            lines,
            "000000  50 61 72 74 69 74 69 6f  6e 4b 65 79 20 00 ff 21  PartitionKey ..!\n\
             000010  74 61 69 6c                                       tail\n"
        );
    }

    #[test]
    fn hex_comes_back_and_nonsense_does_not() {
        assert_eq!(parse("0a ff\n00"), Some(vec![10, 255, 0]));
        assert_eq!(parse("0a f"), None);
        assert_eq!(parse("0g"), None);
    }

    #[test]
    fn a_difference_names_its_place() {
        assert_eq!(difference(b"same", b"same"), "");
        let text = difference(&[1; 40], &[[1; 20].as_slice(), &[2; 20]].concat());
        assert!(text.starts_with("differ at 0x14"), "{text}");
        assert!(difference(b"abc", b"ab").contains("found 3 bytes, expected 2"));
    }
}

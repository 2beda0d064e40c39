//! Writes JSON as the service does: no blanks, ASCII only, what is asked for straight into one text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;
use tabulith::table::time::TimeText;

/// Writes JSON without blanks; sets the commas itself.
pub(crate) struct Writer {
    text: String,
    comma_due: bool,
}

impl Writer {
    /// Nothing yet.
    pub(crate) fn new() -> Writer {
        Writer { text: String::with_capacity(1 << 10), comma_due: false }
    }

    /// Bytes written by now.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }

    /// What was written.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.text.into_bytes()
    }

    /// Begins an object.
    pub(crate) fn open(&mut self) {
        self.comma();
        self.text.push('{');
        self.comma_due = false;
    }

    /// Ends an object.
    pub(crate) fn close(&mut self) {
        self.text.push('}');
        self.comma_due = true;
    }

    /// Begins a list that is a member.
    pub(crate) fn open_list(&mut self, name: &str) {
        self.name(name);
        self.text.push('[');
        self.comma_due = false;
    }

    /// Ends it.
    pub(crate) fn close_list(&mut self) {
        self.text.push(']');
        self.comma_due = true;
    }

    fn comma(&mut self) {
        if self.comma_due {
            self.text.push(',');
        }
    }

    /// A member's name; its value must follow.
    pub(crate) fn name(&mut self, name: &str) {
        self.comma();
        escape(&mut self.text, name);
        self.text.push(':');
        self.comma_due = false;
    }

    /// The type of the member of that name.
    pub(crate) fn annotation(&mut self, name: &str, edm_type: &str) {
        self.comma();
        escape(&mut self.text, name);
        // The name's own quote goes behind the suffix.
        self.text.pop();
        self.text.push_str("@odata.type\":\"");
        self.text.push_str(edm_type);
        self.text.push('"');
        self.comma_due = true;
    }

    /// A member whose value is a text.
    pub(crate) fn text_member(&mut self, name: &str, value: &str) {
        self.name(name);
        self.quoted(value);
    }

    /// A member without a value.
    pub(crate) fn null_member(&mut self, name: &str) {
        self.name(name);
        self.plain("null");
    }

    /// A text in quotes, escaped.
    pub(crate) fn quoted(&mut self, text: &str) {
        escape(&mut self.text, text);
        self.comma_due = true;
    }

    /// The ETag of the commit with this Timestamp, its colons encoded and its quotes escaped.
    pub(crate) fn etag_member(&mut self, timestamp: &TimeText) {
        self.name("odata.etag");
        self.text.push_str("\"W/\\\"datetime'");
        for (at, part) in timestamp.as_str().split(':').enumerate() {
            self.text.push_str(if at > 0 { "%3A" } else { "" });
            self.text.push_str(part);
        }
        self.text.push_str("'\\\"\"");
        self.comma_due = true;
    }

    /// Bytes as a text.
    pub(crate) fn base64(&mut self, bytes: &[u8]) {
        self.text.push('"');
        STANDARD.encode_string(bytes, &mut self.text);
        self.text.push('"');
        self.comma_due = true;
    }

    /// The debug form is the shortest that reads back as the same number, and always has a point
    /// or an exponent.
    pub(crate) fn double(&mut self, number: f64) {
        // Writing to a String does not fail. The sum has no negative zero.
        let _ = write!(self.text, "{:?}", number + 0.0);
        self.comma_due = true;
    }

    /// A text in quotes that needs no escapes.
    pub(crate) fn quoted_plain(&mut self, text: &str) {
        self.text.push('"');
        self.text.push_str(text);
        self.text.push('"');
        self.comma_due = true;
    }

    /// A number or a word, as it is.
    pub(crate) fn plain(&mut self, value: &str) {
        self.text.push_str(value);
        self.comma_due = true;
    }
}

/// Appends `text` in quotes. As the service does, whatever is not ASCII is escaped.
fn escape(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = first_to_escape(rest.as_bytes()) {
        let (plain, behind) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = behind.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(other) => other.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(out, "\\u{unit:04x}");
            }),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Where the first byte is that begins a character to be escaped. Most texts have none: they are
/// looked through by pieces, which the compiler turns into a few instructions each.
fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    const PIECE: usize = 32;
    let is_plain = |piece: &[u8]| !piece.iter().fold(false, |any, byte| any | needs_escape(*byte));
    let plain = bytes.chunks_exact(PIECE).take_while(|piece| is_plain(piece)).count() * PIECE;
    let rest = bytes.get(plain..).unwrap_or_default();
    rest.iter().position(|byte| needs_escape(*byte)).map(|at| plain + at)
}

/// Whether a character that begins with `byte` is written as an escape.
fn needs_escape(byte: u8) -> bool {
    !(b' '..0x7f).contains(&byte) || matches!(byte, b'"' | b'\\')
}

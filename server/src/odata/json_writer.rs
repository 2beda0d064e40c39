//! Writes JSON as the service does: no blanks, ASCII only, what is asked for straight into one
//! text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::{self, Write as _};
use std::iter::repeat_n;
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

    /// Begins the list of an answer: its member `value`.
    pub(crate) fn open_values(&mut self) {
        self.name("value");
        self.text.push('[');
        self.comma_due = false;
    }

    /// Ends it.
    pub(crate) fn close_values(&mut self) {
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

    /// A finite double as the service writes it.
    pub(crate) fn double(&mut self, number: f64) {
        write_double(&mut self.text, number);
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

/// Whole numbers below have at most 15 digits.
const SHORT_BELOW: f64 = 1e15;

/// Appends a finite double as .NET's format `R` has it: with 15 digits where those read back as the
/// same number, else with 17, and zeros at their end left out. What is below 0.0001, or has more
/// digits before its point than are counted, has an exponent; everything else a point.
fn write_double(out: &mut String, number: f64) {
    if number.abs() < SHORT_BELOW && number.trunc() == number {
        // Zero has no sign here.
        out.push_str(itoa::Buffer::new().format(number as i64));
        out.push_str(".0");
        return;
    }
    if number < 0.0 {
        out.push('-');
    }
    let mut text = Scientific::default();
    let digits_max = text.set(number.abs());
    let (first, rest, exponent) = text.parts();
    match usize::try_from(exponent) {
        Ok(behind) if behind < digits_max => {
            let (whole, fraction) = rest.split_at(rest.len().min(behind));
            out.push_str(first);
            out.push_str(whole);
            out.extend(repeat_n('0', behind - whole.len()));
            out.push('.');
            out.push_str(if fraction.is_empty() { "0" } else { fraction });
        }
        Err(_) if exponent >= -4 => {
            out.push_str("0.");
            out.extend((exponent..-1).map(|_| '0'));
            out.push_str(first);
            out.push_str(rest);
        }
        _ => {
            out.push_str(first);
            out.push_str(if rest.is_empty() { "" } else { "." });
            out.push_str(rest);
            // Writing to a String does not fail.
            let _ = write!(out, "E{exponent:+03}");
        }
    }
}

/// A positive number as `d.ddde-d`, without memory of its own.
#[derive(Default)]
struct Scientific {
    /// 17 digits, the point, `e`, a sign and three digits of an exponent have room.
    bytes: [u8; 24],
    len: usize,
}

impl Scientific {
    /// Writes `size` with 15 digits or fewer, else with 17; returns which of the two.
    fn set(&mut self, size: f64) -> usize {
        let is_short = if size < f64::MIN_POSITIVE {
            self.write(format_args!("{size:.14e}"));
            self.text().parse() == Ok(size)
        } else {
            // Above the subnormal, no two texts of 15 digits are read as the same number: where one
            // is read as this, the shortest is that one without its zeros.
            self.write(format_args!("{size:e}"));
            self.digits() <= 15
        };
        if is_short {
            return 15;
        }
        // Of 17 digits the shortest is the nearest, or one of two that are as near.
        if self.digits() != 17 {
            self.write(format_args!("{size:.16e}"));
        }
        17
    }

    fn write(&mut self, form: fmt::Arguments<'_>) {
        self.len = 0;
        // There is room for it.
        let _ = self.write_fmt(form);
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    /// How many digits stand before the exponent.
    fn digits(&self) -> usize {
        self.text().bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count()
    }

    /// The first digit, those behind it up to the last that is no zero, and the power of ten.
    fn parts(&self) -> (&str, &str, i32) {
        let (digits, exponent) = self.text().split_once('e').unwrap_or_default();
        let (first, rest) = digits.split_once('.').unwrap_or((digits, ""));
        (first, rest.trim_end_matches('0'), exponent.parse().unwrap_or_default())
    }
}

impl fmt::Write for Scientific {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
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

/// How long a text is in quotes, escaped.
pub(crate) fn quoted_bytes(text: &str) -> usize {
    let at = first_to_escape(text.as_bytes()).unwrap_or(text.len());
    let (plain, rest) = text.split_at(at);
    let escaped = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        ' '..='~' => 1,
        other => "\\u0000".len() * other.len_utf16(),
    };
    "\"\"".len() + plain.len() + rest.chars().map(escaped).sum::<usize>()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::odata::literal;
    use tabulith::env::rng::Rng;

    fn shown(number: f64) -> String {
        let mut out = Writer::new();
        out.double(number);
        String::from_utf8(out.finish()).expect("ASCII")
    }

    #[test]
    fn doubles_as_the_service_writes_them() {
        for (sent, text) in [
            // Recorded.
            ("9223372036854775808000", "9.2233720368547758E+21"),
            ("1.23456789012346e+24", "1.23456789012346E+24"),
            ("1.0", "1.0"),
            ("1.5", "1.5"),
            // By the definition of the format.
            ("0", "0.0"),
            ("-0.0", "0.0"),
            ("-7", "-7.0"),
            ("0.1", "0.1"),
            ("-0.5", "-0.5"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("1234.5678", "1234.5678"),
            ("0.0001", "0.0001"),
            ("0.000123456789012345", "0.000123456789012345"),
            ("0.00001", "1E-05"),
            ("-0.00001234", "-1.234E-05"),
            ("999999999999999", "999999999999999.0"),
            ("1e15", "1E+15"),
            ("-1.5e15", "-1.5E+15"),
            ("123456789012345.6", "123456789012345.59"),
            ("1234567890123456", "1234567890123456.0"),
            ("9007199254740992", "9007199254740992.0"),
            ("12345678901234560", "12345678901234560.0"),
            ("123456789012345680", "1.2345678901234568E+17"),
            ("1e100", "1E+100"),
            ("1.7976931348623157e308", "1.7976931348623157E+308"),
            ("2.2250738585072014e-308", "2.2250738585072014E-308"),
            ("2.225073858507201e-308", "2.2250738585072009E-308"),
            ("5e-324", "4.94065645841247E-324"),
        ] {
            assert_eq!(shown(sent.parse().expect("a number")), text, "{sent}");
        }
    }

    /// The format by its definition, without a thought of cost.
    fn defined(number: f64) -> String {
        let short = format!("{number:.14e}");
        let is_short = short.parse() == Ok(number);
        let (text, most) = if is_short { (short, 15) } else { (format!("{number:.16e}"), 17) };
        let (digits, exponent) = text.split_once('e').expect("an exponent");
        let power: i32 = exponent.parse().expect("a power");
        if (-4..most).contains(&power) {
            let fixed = format!("{number:.*}", usize::try_from(most - 1 - power).expect("few"));
            let (whole, fraction) = fixed.split_once('.').unwrap_or((&fixed, ""));
            let fraction = fraction.trim_end_matches('0');
            return format!("{whole}.{}", if fraction.is_empty() { "0" } else { fraction });
        }
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{digits}E{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
    }

    /// Whether the number lies in the middle between two texts of 17 digits: then either will do.
    fn is_between(number: f64) -> bool {
        let exact = format!("{:.40e}", number.abs());
        let digits = exact.split_once('e').map_or("", |(digits, _)| digits.trim_end_matches('0'));
        digits.len() == "d.".len() + 17 && digits.ends_with('5')
    }

    #[test]
    fn doubles_read_back() {
        let mut rng = Rng::seeded(15);
        let check = |number: f64| {
            let text = shown(number);
            let read = literal::double(&text).map(f64::to_bits);
            assert_eq!(read, Some(number.to_bits()), "{number:e} as {text}");
            assert!(text == defined(number) || is_between(number), "{number:e} as {text}");
        };
        for _ in 0..20_000 {
            let bits = rng.next_u64();
            let any = f64::from_bits(bits);
            if any.is_finite() && any != 0.0 {
                check(any);
            }
            // Subnormal ones, whole ones of up to 19 digits, and prices and the like.
            check(f64::from_bits(bits >> 12 | 1));
            let whole = bits >> 1 >> rng.below(60);
            check(whole as f64);
            check(whole as f64 / 10_f64.powi(rng.below(20) as i32));
        }
        for power in -323..308 {
            for digits in ["1", "9.99999999999999", "9.999999999999999", "1.0000000000000002"] {
                check(format!("{digits}e{power}").parse().expect("a number"));
            }
        }
        let powers_of_two = (0..52).map(|bit| 1 << bit).chain((1..2047).map(|power| power << 52));
        powers_of_two.map(f64::from_bits).for_each(check);
    }
}

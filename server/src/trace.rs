//! The trace that a request belongs to: W3C Trace Context, version 00, read strictly.
//!
//! What does not parse counts for nothing: a client that sends it gets no other answer.

use crate::http::message::Headers;
use std::fmt;

/// A trace, and this server's place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The trace: 32 hexadecimal digits.
    pub id: String,
    /// The span that asked: 16 digits; empty where nobody did.
    pub parent: String,
    /// The span of this request: 16 digits.
    pub span: String,
    /// Whether whoever asked records it.
    pub sampled: bool,
}

const TRACE_DIGITS: usize = 32;
const SPAN_DIGITS: usize = 16;
/// Of version 00: two digits, a trace, a span, two digits, and what is between them.
const BYTES: usize = 2 + 1 + TRACE_DIGITS + 1 + SPAN_DIGITS + 1 + 2;

impl Trace {
    /// The trace that a request names, with a new span; none where it names none, several, or what
    /// is none. `request_id` is a GUID, from which the span is taken.
    pub fn of(headers: &Headers, request_id: &str) -> Option<Trace> {
        let mut all = headers.all("traceparent");
        let text = all.next().filter(|_| all.next().is_none())?;
        let (id, parent, sampled) = parse(text)?;
        let own = own(request_id)?;
        let span = own[..SPAN_DIGITS].to_owned();
        is_id(&span, SPAN_DIGITS).then(|| Trace {
            id: id.to_owned(),
            parent: parent.to_owned(),
            span,
            sampled,
        })
    }

    /// A trace that begins with this request: the digits of its id are its own, so that one is
    /// found by the other.
    pub fn beginning(request_id: &str) -> Option<Trace> {
        let id = own(request_id)?;
        let span = id[..SPAN_DIGITS].to_owned();
        let is_one = is_id(&id, TRACE_DIGITS) && is_id(&span, SPAN_DIGITS);
        is_one.then(|| Trace { id, parent: String::new(), span, sampled: true })
    }
}

/// The digits of a GUID.
fn own(request_id: &str) -> Option<String> {
    let digits = request_id.chars().filter(char::is_ascii_hexdigit);
    let digits: String = digits.map(|digit| digit.to_ascii_lowercase()).collect();
    (digits.len() == TRACE_DIGITS).then_some(digits)
}

/// As the next one down the line would be told.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.id, self.span, u8::from(self.sampled))
    }
}

fn parse(text: &str) -> Option<(&str, &str, bool)> {
    // Of a later version the same fields are known, and others may follow.
    let is_later = text.len() > BYTES && text.as_bytes().get(BYTES) == Some(&b'-');
    let mut fields = text.splitn(5, '-');
    let version = fields.next().filter(|field| is_hex(field, 2) && *field != "ff")?;
    if text.len() != BYTES && (version == "00" || !is_later) {
        return None;
    }
    let id = fields.next().filter(|field| is_id(field, TRACE_DIGITS))?;
    let parent = fields.next().filter(|field| is_id(field, SPAN_DIGITS))?;
    let flags = fields.next().filter(|field| is_hex(field, 2))?;
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some((id, parent, flags & 1 == 1))
}

/// Digits of an id, which is not all zeros.
fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|byte| byte != b'0')
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";
    const REQUEST: &str = "0af76519-16cd-43dd-8448-eb211c80319c";

    fn trace(values: &[&str]) -> Option<Trace> {
        let mut headers = Headers::default();
        for value in values {
            headers.push("TraceParent", value);
        }
        Trace::of(&headers, REQUEST)
    }

    #[test]
    fn a_trace_goes_on_with_a_span_of_its_own() {
        let given = format!("00-{ID}-{PARENT}-01");
        let own = trace(&[&given]).expect("a trace");
        assert_eq!((own.id.as_str(), own.parent.as_str(), own.sampled), (ID, PARENT, true));
        assert_eq!(own.to_string(), format!("00-{ID}-0af7651916cd43dd-01"));
        for later in [format!("01-{ID}-{PARENT}-00"), format!("cc-{ID}-{PARENT}-02-more-of-it")] {
            assert!(!trace(&[&later]).expect("of a later version").sampled, "{later}");
        }
    }

    #[test]
    fn a_trace_that_begins_here_is_found_by_the_requests_id() {
        let own = Trace::beginning(REQUEST).expect("a trace");
        assert_eq!(own.id, REQUEST.replace('-', ""));
        assert_eq!(
            (own.span.as_str(), own.parent.as_str(), own.sampled),
            (&own.id[..16], "", true)
        );
        for none in ["", "0af76519", &REQUEST[1..], "00000000-0000-0000-8448-eb211c80319c"] {
            assert!(Trace::beginning(none).is_none(), "{none}");
        }
    }

    #[test]
    fn what_is_no_trace_counts_for_nothing() {
        let good = format!("00-{ID}-{PARENT}-01");
        assert!(trace(&[]).is_none() && trace(&[&good, &good]).is_none());
        let zeros = |digits| "0".repeat(digits);
        for bad in [
            String::new(),
            "00".to_owned(),
            format!("ff-{ID}-{PARENT}-01"),
            format!("0-{ID}-{PARENT}-01"),
            format!("00-{}-{PARENT}-01", zeros(32)),
            format!("00-{ID}-{}-01", zeros(16)),
            format!("00-{}-{PARENT}-01", ID.to_uppercase()),
            format!("00-{ID}-{PARENT}-1"),
            format!("00-{ID}-{PARENT}-0g"),
            format!("00-{ID}-{PARENT}-01-"),
            format!("00-{ID}-{PARENT}-01-more"),
            format!("01-{ID}-{PARENT}-01x"),
            format!(" 00-{ID}-{PARENT}-01"),
            format!("00-{ID}{PARENT}--01"),
            format!("00-{ID}-{PARENT}-é"),
            format!("00_{ID}_{PARENT}_01"),
        ] {
            assert!(trace(&[&bad]).is_none(), "{bad}");
        }
    }
}

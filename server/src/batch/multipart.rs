//! multipart/mixed bodies into parts, and embedded HTTP requests out of parts.
//!
//! Old and hand-written clients bend RFC 2046, and all of this is taken: bare LF, blank lines too
//! many or too few, a preamble, a missing `--` or line end at the end, `Content-Length` that lies,
//! raw blanks in a request target, headers that go on in the next line. A delimiter is a line of
//! its own or the end of one: the SDK for C++ has none between JSON and the next part, and the
//! service's reader asks for none. What ends in a quote, as texts in JSON do, is no delimiter.
//!
//! Promise: one pass over the body, nothing of it copied.

use memchr::memchr;
use std::borrow::Cow;
use std::ops::Range;

/// A part: its headers and everything behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    headers: &'a [u8],
    /// What stands behind the first blank line, with its line ends.
    pub content: &'a [u8],
}

impl<'a> Part<'a> {
    /// A header of the part.
    pub fn header(&self, name: &str) -> Option<Cow<'a, str>> {
        header(self.headers, name)
    }
}

/// The parts of `body`, at most `parts_max` and one more, so that the caller can tell too many.
/// None where the boundary never stands in it.
pub fn parts<'a>(body: &'a [u8], boundary: &str, parts_max: usize) -> Option<Vec<Part<'a>>> {
    let mut parts = Vec::new();
    let mut open: Option<usize> = None;
    let mut delimited = false;
    let mut at = 0;
    for line in lines(body) {
        let start = at;
        at += line.len();
        let Some((before, delimiter)) = Delimiter::parse(line, boundary) else { continue };
        delimited = true;
        if let Some(from) = open.take() {
            parts.push(split(&body[from..start + before]));
        }
        match delimiter {
            Delimiter::Last => break,
            Delimiter::Next if parts.len() > parts_max => break,
            Delimiter::Next => open = Some(at),
        }
    }
    // Nothing but blanks behind a delimiter is a last one without its two dashes.
    if let Some(from) = open.filter(|from| !body[*from..].trim_ascii().is_empty()) {
        parts.push(split(&body[from..]));
    }
    delimited.then_some(parts)
}

/// The work of reading, counted in bytes, for tests to see that it does not outgrow the body.
pub(crate) mod work {
    #[cfg(test)]
    thread_local! {
        static BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Adds bytes that were looked at.
    pub(super) fn done(bytes: usize) {
        #[cfg(test)]
        BYTES.with(|all| all.set(all.get() + bytes));
        #[cfg(not(test))]
        let _ = bytes;
    }

    /// Bytes that this thread has looked at since it was last asked.
    #[cfg(test)]
    pub(crate) fn since() -> usize {
        BYTES.with(|all| all.replace(0))
    }
}

enum Delimiter {
    Next,
    Last,
}

/// What stands behind the boundary in a last delimiter. The long dash is there where an editor has
/// replaced two short ones.
const LAST: [&[u8]; 2] = [b"--", b"\xe2\x80\x94"];

impl Delimiter {
    /// The delimiter that a line is, or that it ends with, and how many bytes stand before that.
    fn parse(line: &[u8], boundary: &str) -> Option<(usize, Delimiter)> {
        let whole = Delimiter::whole(line, boundary).map(|delimiter| (0, delimiter));
        whole.or_else(|| Delimiter::at_end(line, boundary))
    }

    fn whole(line: &[u8], boundary: &str) -> Option<Delimiter> {
        let rest = line.strip_prefix(b"--")?.strip_prefix(boundary.as_bytes())?.trim_ascii_end();
        if rest.is_empty() {
            return Some(Delimiter::Next);
        }
        LAST.contains(&rest).then_some(Delimiter::Last)
    }

    /// Read from the end, which takes no search. Where nothing stands behind it, not even a line
    /// end, only a last delimiter is one.
    fn at_end(line: &[u8], boundary: &str) -> Option<(usize, Delimiter)> {
        let text = line.trim_ascii_end();
        let before = |text: &[u8]| {
            let before = text.strip_suffix(boundary.as_bytes())?.strip_suffix(b"--")?;
            Some(before.len())
        };
        let last = LAST.iter().find_map(|last| before(text.strip_suffix(*last)?));
        match (last, line.last()) {
            (Some(bytes), _) => Some((bytes, Delimiter::Last)),
            (None, Some(b'\n')) => before(text).map(|bytes| (bytes, Delimiter::Next)),
            _ => None,
        }
    }
}

/// The lines of a text, each with its end. Everything that is looked at here is looked at in lines.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        work::done(line.len());
        (!line.is_empty()).then_some(line)
    })
}

/// Parts headers from content at the first blank line.
fn split(part: &[u8]) -> Part<'_> {
    // A part without headers begins with the blank line itself.
    let mut at = 0;
    for line in lines(part) {
        if line.trim_ascii().is_empty() {
            return Part { headers: &part[..at], content: &part[at + line.len()..] };
        }
        at += line.len();
    }
    Part { headers: part, content: b"" }
}

/// A header's value among lines of `name: value`.
fn header<'a>(headers: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    header_lines(headers).find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Names and values. A line that begins with a blank belongs to the value before it. No line is
/// passed over: one that does not read could be a condition, and without it a change would be made
/// in any case.
fn header_lines(headers: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let mut lines = lines(headers).peekable();
    std::iter::from_fn(move || {
        let line = lines.next()?;
        let at = memchr(b':', line).unwrap_or(line.len());
        let name = String::from_utf8_lossy(line[..at].trim_ascii());
        let mut value =
            String::from_utf8_lossy(line.get(at + 1..).unwrap_or_default().trim_ascii());
        while let Some(more) = lines.next_if(|line| matches!(line.first(), Some(b' ' | b'\t'))) {
            let more = String::from_utf8_lossy(more.trim_ascii());
            if value.is_empty() {
                value = more;
            } else if !more.is_empty() {
                value.to_mut().extend([" ", &*more]);
            }
        }
        Some((name, value))
    })
}

/// An HTTP request that a part holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded<'a> {
    /// The verb.
    pub method: &'a str,
    /// The request target: an absolute URL or a path, with or without the account.
    pub target: &'a str,
    headers: &'a [u8],
    /// The body without the blanks around it.
    pub body: &'a [u8],
}

/// Where a request stands in a body that was read: it need not be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    method: Range<usize>,
    target: Range<usize>,
    headers: Range<usize>,
    body: Range<usize>,
}

impl<'a> Embedded<'a> {
    /// Reads the request of a part; none where its first line is no request line.
    pub fn parse(content: &'a [u8]) -> Option<Embedded<'a>> {
        let content = content.trim_ascii_start();
        let first = lines(content).next().unwrap_or_default();
        let line = std::str::from_utf8(first).ok()?.trim_end();
        // Keys may hold raw blanks: the verb ends at the first, the target at the last.
        let (method, rest) = line.split_once(' ')?;
        let (target, version) = rest.rsplit_once(' ')?;
        let is_http = version.len() == 8 && version.starts_with("HTTP/1.");
        let rest = &content[first.len()..];
        // A request without headers has its blank line right behind the first one.
        let part = split(rest);
        (is_http && !method.is_empty()).then(|| Embedded {
            method,
            target: target.trim(),
            headers: part.headers,
            body: part.content.trim_ascii(),
        })
    }

    /// Where it stands in `whole`, which it was read from.
    pub fn place(&self, whole: &[u8]) -> Place {
        let of = |part: &[u8]| {
            // One without bytes may stand anywhere.
            let is_empty = part.is_empty();
            let from = if is_empty { 0 } else { part.as_ptr().addr() - whole.as_ptr().addr() };
            from..from + part.len()
        };
        Place {
            method: of(self.method.as_bytes()),
            target: of(self.target.as_bytes()),
            headers: of(self.headers),
            body: of(self.body),
        }
    }

    /// The request that stands there in `whole`.
    pub fn at(place: &Place, whole: &'a [u8]) -> Embedded<'a> {
        let part = |place: &Range<usize>| whole.get(place.clone()).unwrap_or_default();
        let text = |place| std::str::from_utf8(part(place)).unwrap_or_default();
        Embedded {
            method: text(&place.method),
            target: text(&place.target),
            headers: part(&place.headers),
            body: part(&place.body),
        }
    }

    /// A header of the request.
    pub fn header(&self, name: &str) -> Option<Cow<'a, str>> {
        header(self.headers, name)
    }

    /// Bytes of all lines of headers.
    pub fn headers_bytes(&self) -> usize {
        self.headers.len()
    }

    /// Every header of the request.
    pub fn headers(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        header_lines(self.headers)
    }

    /// The target as raw path and query: without scheme and authority, which clients behind
    /// proxies and port mappings get wrong.
    pub fn path_and_query(&self) -> &'a str {
        let Some((scheme, rest)) = self.target.split_once("://") else { return self.target };
        if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
            return self.target;
        }
        rest.find(['/', '?']).map_or("", |at| &rest[at..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(body: &str, boundary: &str) -> Option<Vec<String>> {
        let parts = parts(body.as_bytes(), boundary, 100)?;
        Some(parts.iter().map(|part| String::from_utf8_lossy(part.content).into_owned()).collect())
    }

    #[track_caller]
    fn check(body: &str, expected: &[&str]) {
        assert_eq!(contents(body, "b").expect("delimiters"), expected, "{body:?}");
    }

    #[test]
    fn as_rfc_2046_has_it() {
        check("--b\r\nA: 1\r\n\r\none\r\n--b\r\n\r\ntwo\r\n--b--\r\n", &["one\r\n", "two\r\n"]);
    }

    #[test]
    fn as_clients_bend_it() {
        check("--b\nA: 1\n\none\n--b--", &["one\n"]);
        check("preamble\r\n--b\r\n\r\none\r\n--b--\r\nepilogue\r\n--b\r\n\r\nx", &["one\r\n"]);
        check("--b\r\n\r\none", &["one"]);
        check("--b\r\n\r\none\r\n--b", &["one\r\n"]);
        check("--b\r\n\r\none\r\n--b\r\n\r\n", &["one\r\n"]);
        check("--b\r\n\r\none\r\n--b—\r\n", &["one\r\n"]);
        check("--b  \r\n\r\none\r\n--b--  \r\n", &["one\r\n"]);
        check("--b\r\nA: 1\r\n--b--", &[""]);
        check("--b--\r\n", &[]);
    }

    #[test]
    fn lines_delimit_and_ends_of_lines() {
        check(
            "--b\r\n\r\nx --b c\r\n--b\"\r\n --bc\r\n--b-\r\nx--b---\r\n-b\r\n--b--\r\n",
            &["x --b c\r\n--b\"\r\n --bc\r\n--b-\r\nx--b---\r\n-b\r\n"],
        );
        check("--b\n\none--b\n\ntwo --b \t\r\n\nthree--b-- \r\nx", &["one", "two ", "three"]);
        check("--b\n\none---b\n\ntwo----b--", &["one-", "two--"]);
        check("--b\n\none--b--", &["one"]);
        check("--b\n\none--b\u{2014}\n", &["one"]);
        check("--b\n\none--b--b\n\ntwo--b----b--\n", &["one--b", "two--b--"]);
        check("x--b\n\none--b--\n", &["one"]);
        // Without a line end more may have been to come.
        check("--b\n\none--b", &["one--b"]);
        assert_eq!(contents("no delimiter", "b"), None);
        assert_eq!(contents("", "b"), None);
    }

    #[test]
    fn boundaries_of_dashes() {
        let contents = |body: &str, boundary: &str| contents(body, boundary).expect("delimiters");
        assert_eq!(contents("--a--\n\none--a--\n\ntwo\n--a----\n", "a--"), ["one", "two\n"]);
        assert_eq!(contents("----\n\none----\n\ntwo------\n", "--"), ["one", "two"]);
    }

    #[test]
    fn headers_in_any_case() {
        let body = b"--b\r\ncontent-TYPE : x/y; a=b\r\nbad line\r\n\r\n--b--";
        let parts = parts(body, "b", 9).expect("delimiters");
        assert_eq!(parts[0].header("Content-Type").as_deref(), Some("x/y; a=b"));
        assert_eq!(parts[0].header("Content-ID"), None);
    }

    #[test]
    fn headers_over_several_lines() {
        let body = b"--b\r\nContent-Type: x/y;\r\n a=b;\r\n\tc=d\r\nbad line\r\n more\r\nE: f\r\n\r\n--b--";
        let parts = parts(body, "b", 9).expect("delimiters");
        assert_eq!(parts[0].header("Content-Type").as_deref(), Some("x/y; a=b; c=d"));
        assert_eq!(parts[0].header("E").as_deref(), Some("f"));
    }

    #[test]
    fn no_line_of_a_request_is_passed_over() {
        let text = b"PUT /T HTTP/1.1\nIf-Match: *\xa0\nno colon\n : *\n\n{}";
        let request = Embedded::parse(text).expect("a request");
        let headers: Vec<(String, String)> =
            request.headers().map(|(name, value)| (name.into(), value.into())).collect();
        let expected = [("If-Match", "*\u{fffd}"), ("no colon", ": *")];
        assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn too_many_parts_are_not_all_read() {
        let body = "--b\n\nx\n".repeat(1000);
        assert_eq!(parts(body.as_bytes(), "b", 100).expect("delimiters").len(), 101);
    }

    #[test]
    fn requests_as_clients_write_them() {
        let post =
            "POST http://h/a/T HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{\"a\":1}\r\n";
        let request = Embedded::parse(post.as_bytes()).expect("a request");
        assert_eq!((request.method, request.path_and_query()), ("POST", "/a/T"));
        assert_eq!(request.header("content-type").as_deref(), Some("application/json"));
        assert_eq!(request.body, b"{\"a\":1}");
        for text in [
            "\r\nPOST /a/T HTTP/1.1\nA: b\n\n\n{\"a\":1}\n\n",
            "POST /a/T HTTP/1.1\r\n\r\n{\"a\":1}",
            "POST /a/T HTTP/1.1\r\nContent-Length: 99\r\n\r\n\r\n{\"a\":1}\r\n\r\n",
        ] {
            let request = Embedded::parse(text.as_bytes()).expect("a request");
            assert_eq!(
                (request.target, request.body),
                ("/a/T", b"{\"a\":1}".as_slice()),
                "{text:?}"
            );
        }
        let bare = Embedded::parse(b"DELETE https://h HTTP/1.1").expect("a request");
        assert_eq!((bare.path_and_query(), bare.body), ("", b"".as_slice()));
        let blank = Embedded::parse(b"GET /T(PartitionKey='a b',RowKey='') HTTP/1.1\r\n\r\n");
        assert_eq!(blank.expect("a request").target, "/T(PartitionKey='a b',RowKey='')");
        for text in ["", "GET", "GET /", "GET / HTTP/2", "GET / HTTPS", " / HTTP/1.1", "\u{e9}"] {
            assert_eq!(Embedded::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn time_grows_with_the_body_only() {
        // 4 MiB of what looks like a delimiter in every way but the last.
        let body = "--bb\n".repeat(800_000);
        assert_eq!(parts(body.as_bytes(), "b", 100), None);
        assert_eq!(parts(body.as_bytes(), "bb", 100).expect("delimiters").len(), 101);
        // The same in one line.
        let body = "--b".repeat(1_400_000);
        assert_eq!(parts(body.as_bytes(), "b", 100), None);
    }
}

//! Requests and responses as plain values: what the app answers without knowing of sockets.
//!
//! Absent: parsing of HTTP. `net/conn` gets that from a library.

use bytes::Bytes;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// A request's line and headers.
#[derive(Clone, Default)]
pub struct Head {
    /// The verb as sent.
    pub method: String,
    /// The raw path and query as sent, without scheme and authority.
    pub target: String,
    /// The authority of an absolute request target, else the `Host` header, else empty.
    pub authority: String,
    /// Whether it came over TLS.
    pub secure: bool,
    /// The other end of its connection; none where there is no connection.
    pub peer: Option<IpAddr>,
    /// The headers as sent.
    pub headers: Headers,
}

impl Head {
    /// The raw path: the target up to `?`.
    pub fn path(&self) -> &str {
        self.target.split_once('?').map_or(self.target.as_str(), |(path, _)| path)
    }

    /// The raw query: the target behind `?`.
    pub fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}

/// Without the query, which may hold a signature.
impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} at {}: {:?}", self.method, self.path(), self.authority, self.headers)
    }
}

/// A request's body.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// All of it.
    Whole(Bytes),
    /// There was none.
    #[default]
    Empty,
    /// It was longer than the limit and thrown away.
    TooLarge,
}

impl Body {
    /// Its bytes; none where it is not there whole.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Whole(bytes) => bytes,
            Body::Empty | Body::TooLarge => &[],
        }
    }
}

/// A whole request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Line and headers.
    pub head: Head,
    /// The body.
    pub body: Body,
}

/// Header names and values in order. Names compare without case.
#[derive(Clone, Default)]
pub struct Headers {
    /// All names and values, one behind the other.
    text: String,
    /// Where each name begins, where it ends and its value begins, and where that ends.
    places: Vec<(usize, usize, usize)>,
}

impl Headers {
    /// None yet, with room for so many, whose names and values take so many bytes.
    pub(crate) fn with_room(count: usize, bytes: usize) -> Headers {
        Headers { text: String::with_capacity(bytes), places: Vec::with_capacity(count) }
    }

    /// Adds a header behind the others.
    pub fn push(&mut self, name: impl AsRef<str>, value: impl AsRef<str>) {
        self.push_parts(name.as_ref(), [value.as_ref()]);
    }

    /// The same for a value in parts.
    pub(crate) fn push_parts<'a>(&mut self, name: &str, value: impl IntoIterator<Item = &'a str>) {
        let start = self.text.len();
        self.text.push_str(name);
        let middle = self.text.len();
        self.text.extend(value);
        self.places.push((start, middle, self.text.len()));
    }

    /// Bytes that they take.
    #[cfg(test)]
    pub(crate) fn room_bytes(&self) -> usize {
        self.text.capacity() + self.places.capacity() * size_of::<(usize, usize, usize)>()
    }

    /// The first value under `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value under `name`.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Every header.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let text = &self.text;
        self.places.iter().map(|&(start, middle, end)| (&text[start..middle], &text[middle..end]))
    }
}

/// Names only: a value may be a signature.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// A response. Headers that belong to the connection (`Date`, `Content-Length`) are added by it.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Headers in order.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// The body; empty for none.
    pub body: Bytes,
    /// Whether entities were changed: then nothing else may be answered in its place.
    pub is_of_change: bool,
}

impl Response {
    /// A response without headers and body.
    pub fn new(status: u16) -> Response {
        Response { status, ..Response::default() }
    }

    /// Adds a header. A value that could break out of its line loses the characters that do it.
    pub fn header(&mut self, name: &'static str, value: impl Into<Cow<'static, str>>) {
        let mut value = value.into();
        if value.bytes().any(is_line_breaking) {
            value.to_mut().retain(|c| !c.is_ascii() || !is_line_breaking(c as u8));
        }
        self.headers.push((name, value));
    }

    /// The service's name for the error that it tells of, if it does.
    pub fn named_error(&self) -> Option<Cow<'static, str>> {
        let named = self.headers.iter().find(|(own, _)| *own == "x-ms-error-code");
        named.filter(|_| self.status >= 400).map(|(_, code)| code.clone())
    }

    /// The first value under `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| &**value)
    }
}

fn is_line_breaking(byte: u8) -> bool {
    byte < b' ' || byte == 0x7f
}

/// The text on the wire, with LF line ends.
impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HTTP/1.1 {} {}", self.status, reason(self.status))?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {value}")?;
        }
        write!(f, "\n{}", String::from_utf8_lossy(&self.body))
    }
}

/// The reason phrase of a status.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::{Head, Response};

    #[test]
    fn a_header_cannot_start_another() {
        let mut response = Response::new(204);
        response.header("x-ms-client-request-id", "a\r\nSet-Cookie: b\u{7f}é");
        assert_eq!(response.get("X-Ms-Client-Request-Id"), Some("aSet-Cookie: bé"));
    }

    #[test]
    fn values_do_not_show_in_debug() {
        let mut head = Head { target: "/T?sig=secret".to_owned(), ..Head::default() };
        head.headers.push("Authorization", "SharedKey a:secret");
        let shown = format!("{head:?}");
        assert!(shown.contains("Authorization") && !shown.contains("secret"), "{shown}");
    }
}

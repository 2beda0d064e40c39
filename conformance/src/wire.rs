//! HTTP/1.1 over a socket, with or without TLS under it: bytes out as they are, answers in by the
//! letter.
//!
//! An answer that breaks the rules of HTTP (a bad status line, two lengths, a body where there may
//! be none) is an error, however well its meaning could be guessed.

use crate::target::Target;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A stream to an endpoint.
pub trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// Makes streams: plain ones here, those of TLS in [`crate::tls`].
pub trait Connect: Sync {
    /// A new stream to a host and port.
    fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>>;
}

/// Plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

/// Longest wait for bytes of an answer. The service gives up after 30 s itself.
const SILENCE_MAX: Duration = Duration::from_secs(35);

const BODY_BYTES_MAX: usize = 256 << 20;
const LINE_BYTES_MAX: u64 = 1 << 20;
const HEADERS_MAX: usize = 200;

impl Connect for Plain {
    fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(socket(host, port)?))
    }
}

/// A socket that gives up where the other side is silent for too long.
pub(crate) fn socket(host: &str, port: u16) -> io::Result<TcpStream> {
    let socket = TcpStream::connect((host, port))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(SILENCE_MAX))?;
    socket.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(socket)
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers in order, names as they were sent.
    pub headers: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first value of a header, its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Every value of a header.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.headers.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection that opens when it is needed.
pub struct Connection<'a> {
    target: &'a Target,
    connect: &'a dyn Connect,
    /// The stream, and whether it leads to the secondary.
    open: Option<(BufReader<Box<dyn Stream>>, bool)>,
}

impl<'a> Connection<'a> {
    /// A connection to a target, not yet open.
    pub fn new(target: &'a Target, connect: &'a dyn Connect) -> Connection<'a> {
        Connection { target, connect, open: None }
    }

    /// Sends the bytes of one request and reads its answer.
    ///
    /// A connection that the other side closed since the last answer is opened anew, once.
    pub fn exchange(&mut self, sent: &Sent) -> Result<Answer, String> {
        let used = self.open.is_some();
        match self.attempt(sent) {
            Err(Broken::Silent) if used => {
                self.open = None;
                self.attempt(sent)
            }
            other => other,
        }
        .map_err(|broken| {
            self.open = None;
            broken.to_string()
        })
    }

    /// Sends bytes and closes, without waiting for an answer.
    pub fn abandon(&mut self, sent: &Sent) -> Result<(), String> {
        self.open = None;
        let stream = self.stream(sent.secondary).map_err(|error| error.to_string())?;
        let written = stream.get_mut().write_all(&sent.head);
        let written = written.and_then(|()| stream.get_mut().write_all(&sent.body));
        self.open = None;
        written.map_err(|error| error.to_string())
    }

    fn stream(&mut self, secondary: bool) -> io::Result<&mut BufReader<Box<dyn Stream>>> {
        if self.open.as_ref().is_some_and(|(_, other)| *other != secondary) {
            self.open = None;
        }
        if self.open.is_none() {
            let stream = self.connect.connect(&self.target.host(secondary), self.target.port)?;
            self.open = Some((BufReader::new(stream), secondary));
        }
        match &mut self.open {
            Some((stream, _)) => Ok(stream),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn attempt(&mut self, sent: &Sent) -> Result<Answer, Broken> {
        let stream = self.stream(sent.secondary)?;
        // A refusal may come, and the connection end, before all is written: it is read all the
        // same.
        let mut written = stream.get_mut().write_all(&sent.head);
        if sent.waits {
            written?;
            let answer = read(stream, &sent.method)?;
            if answer.status != 100 {
                self.open = None;
                return Ok(answer);
            }
            written = stream.get_mut().write_all(&sent.body);
        } else if written.is_ok() {
            written = stream.get_mut().write_all(&sent.body);
        }
        let mut answer = match (read(stream, &sent.method), written) {
            (Err(_), Err(error)) => return Err(error.into()),
            (answer, _) => answer?,
        };
        while (100..200).contains(&answer.status) {
            answer = read(stream, &sent.method)?;
        }
        let closes = |value: &str| value.to_ascii_lowercase().contains("close");
        if answer.header("Connection").is_some_and(closes) {
            self.open = None;
        }
        Ok(answer)
    }
}

/// A request as bytes.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Its verb: an answer to HEAD has no body.
    pub method: String,
    /// Whether it goes to the secondary endpoint.
    pub secondary: bool,
    /// The request line, the headers and the blank line.
    pub head: Vec<u8>,
    /// What follows.
    pub body: Vec<u8>,
    /// Whether the body waits for `100 Continue`.
    pub waits: bool,
}

enum Broken {
    /// The other side closed without a byte.
    Silent,
    Io(io::Error),
    Rule(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset => Broken::Silent,
            _ => Broken::Io(error),
        }
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Silent => f.write_str("the connection was closed without an answer"),
            Broken::Io(error) => write!(f, "no answer: {error}"),
            Broken::Rule(rule) => write!(f, "the answer is no HTTP: {rule}"),
        }
    }
}

fn rule<T>(text: impl Into<String>) -> Result<T, Broken> {
    Err(Broken::Rule(text.into()))
}

fn read(from: &mut impl BufRead, method: &str) -> Result<Answer, Broken> {
    let status = line(from)?.ok_or(Broken::Silent)?;
    let code = status.strip_prefix("HTTP/1.1 ").and_then(|rest| {
        let (code, rest) = rest.split_at_checked(3)?;
        (rest.is_empty() || rest.starts_with(' ')).then(|| code.parse().ok())?
    });
    let Some(code) = code else { return rule(format!("status line {status:?}")) };
    let headers = headers(from)?;
    let mut answer = Answer { status: code, headers, body: Vec::new() };
    let bodiless = method == "HEAD" || matches!(code, 100..=199 | 204 | 304);
    answer.body = body(from, &answer, bodiless)?;
    Ok(answer)
}

/// Header lines up to the blank one.
fn headers(from: &mut impl BufRead) -> Result<Vec<(String, String)>, Broken> {
    let mut out = Vec::new();
    loop {
        let Some(line) = line(from)? else { return rule("the head ends early") };
        if line.is_empty() {
            return Ok(out);
        }
        let Some((name, value)) = line.split_once(':') else {
            return rule(format!("header line {line:?}"));
        };
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) || out.len() == HEADERS_MAX {
            return rule(format!("header line {line:?}"));
        }
        out.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
}

fn body(from: &mut impl BufRead, answer: &Answer, bodiless: bool) -> Result<Vec<u8>, Broken> {
    let lengths: Vec<_> = answer.all("Content-Length").collect();
    let codings: Vec<_> = answer.all("Transfer-Encoding").collect();
    match (&lengths[..], &codings[..]) {
        (_, [_, ..]) if answer.status == 204 => rule("a 204 has a Transfer-Encoding"),
        _ if bodiless => Ok(Vec::new()),
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => chunks(from),
        ([length], []) => match length.parse::<usize>() {
            Ok(length) if length <= BODY_BYTES_MAX => {
                let mut body = vec![0; length];
                from.read_exact(&mut body)?;
                Ok(body)
            }
            _ => rule(format!("Content-Length {length:?}")),
        },
        ([], []) => {
            let mut body = Vec::new();
            from.take(BODY_BYTES_MAX as u64).read_to_end(&mut body)?;
            Ok(body)
        }
        _ => rule(format!("lengths {lengths:?}, codings {codings:?}")),
    }
}

fn chunks(from: &mut impl BufRead) -> Result<Vec<u8>, Broken> {
    let mut out = Vec::new();
    loop {
        let Some(size) = line(from)? else { return rule("the chunks end early") };
        let digits = size.split(';').next().unwrap_or_default().trim();
        let Ok(size) = usize::from_str_radix(digits, 16) else {
            return rule(format!("chunk size {size:?}"));
        };
        if size > BODY_BYTES_MAX - out.len() {
            return rule("a body without end");
        }
        if size == 0 {
            return match &headers(from)?[..] {
                [] => Ok(out),
                _ => rule("a trailer"),
            };
        }
        let start = out.len();
        out.resize(start + size, 0);
        from.read_exact(&mut out[start..])?;
        if line(from)?.as_deref() != Some("") {
            return rule("a chunk without its end");
        }
    }
}

/// The next line without its CRLF; none at the end.
fn line(from: &mut impl BufRead) -> Result<Option<String>, Broken> {
    let mut out = Vec::new();
    match from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut out) {
        // TLS that ends without its farewell: between two answers that is an end like any other.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && out.is_empty() => {}
        read => drop(read?),
    }
    if out.is_empty() {
        return Ok(None);
    }
    let Some(text) = out.strip_suffix(b"\r\n") else { return rule("a line without CRLF") };
    match std::str::from_utf8(text) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => rule("a head that is no text"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Broken, read};
    use std::io::{self, BufReader, Read};

    fn answer(text: &str) -> Option<Answer> {
        read(&mut text.as_bytes(), "GET").ok()
    }

    #[test]
    fn answers_are_read() {
        let plain = answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y \r\n\r\nabc");
        let plain = plain.expect("an answer");
        assert_eq!(
            (plain.status, plain.header("x"), plain.text().as_str()),
            (200, Some("y"), "ab")
        );
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n";
        assert_eq!(answer(chunked).expect("an answer").text(), "abcd");
    }

    #[test]
    fn what_breaks_the_rules_is_no_answer() {
        for text in [
            "",
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nBad Name: x\r\nContent-Length: 0\r\n\r\n",
        ] {
            assert!(answer(text).is_none(), "{text:?}");
        }
    }

    /// Some bytes, and then the error of TLS that is cut.
    struct Cut(&'static [u8]);

    impl Read for Cut {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.0.read(into)? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                length => Ok(length),
            }
        }
    }

    #[test]
    fn a_stream_that_is_cut_between_answers_is_silent_and_within_one_it_is_broken() {
        let read = |bytes| read(&mut BufReader::new(Cut(bytes)), "GET");
        assert!(matches!(read(b""), Err(Broken::Silent)));
        assert!(matches!(read(b"HTTP/1.1 200"), Err(Broken::Io(_))));
        let body = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab";
        assert!(matches!(read(body), Err(Broken::Io(_))));
    }
}

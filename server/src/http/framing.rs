//! Where the requests of a connection begin and end: HTTP/1 framing, read from the bytes as they
//! pass, in one way only.
//!
//! A server and whatever stands before it must agree on this, or one's body is the other's request.
//! So whatever can be read in two ways is refused, also where RFC 9112 allows a server to choose:
//! `Content-Length` beside `Transfer-Encoding`, either of them twice, codings other than `chunked`,
//! line ends without CR, folded lines, targets that are neither a path nor an address, or hold `#`.
//!
//! Promise: one look at each byte of a head, none at those of a body; memory for one line at most,
//! and only where it comes in pieces. Nothing is changed but the name `Upgrade`, to one that says
//! nothing.
//!
//! Absent: what else a head may not contain (characters of names and values). The HTTP library
//! refuses that, and with it the connection, so nobody acts on it.

use memchr::memchr;

/// Most empty lines before a request. Some clients end a body with one; the library keeps them all
/// until a request comes.
const EMPTY_LINES_MAX: u8 = 8;

/// Most bytes of the line before a chunk, with its extensions.
const CHUNK_LINE_BYTES_MAX: usize = 256;

/// Most bytes of the fields behind the last chunk.
const TRAILER_BYTES_MAX: usize = 8 << 10;

/// Most digits of a chunk's size: 64 bits.
const CHUNK_DIGITS_MAX: usize = 16;

/// Most digits of a length that surely fits into 64 bits.
const LENGTH_DIGITS_MAX: usize = 19;

/// Fields that must not come behind a body: who acts on them has acted already.
const BARRED_TRAILERS: [&str; 17] = [
    "accept",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "host",
    "if-match",
    "if-none-match",
    "prefer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The field by which a client asks for another protocol. None is spoken here, but the library
/// would give up the connection as it is, with all that is on its way.
const UPGRADE: &[u8] = b"upgrade";

/// Beginnings of further such fields.
const BARRED_TRAILER_STARTS: [&str; 4] = ["x-ms-", "x-http-method", "x-forwarded-", "proxy-"];

/// A connection whose bytes are no requests, or could be two different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Bytes of the last piece that came before the line that is refused.
    pub good: usize,
    /// Whether the refused line belongs to a head.
    pub in_head: bool,
}

/// Follows the bytes of one connection.
#[derive(Debug, Default)]
pub struct Framing {
    at: Place,
    /// What has come of the line that is not yet complete.
    line: Vec<u8>,
    head: Seen,
    head_bytes: usize,
    empty_lines: u8,
    trailer_bytes: usize,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// A request line, or an empty line before one.
    #[default]
    Start,
    /// The fields of a head.
    Fields,
    /// A body with a length.
    Body(u64),
    /// The line before a chunk.
    Size,
    /// A chunk.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// The fields behind the last chunk.
    Trailers,
}

/// What the fields of a head have said of its body.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    is_old: bool,
    is_chunked: bool,
    length: Option<u64>,
}

/// A line that is refused.
struct Bad;

impl Framing {
    /// Takes the next piece. After an error nothing more may be given.
    pub fn take(&mut self, bytes: &mut [u8]) -> Result<(), Refused> {
        let mut from = 0;
        while from < bytes.len() {
            let rest = &mut bytes[from..];
            let in_head = self.is_in_head();
            let taken = match self.at {
                Place::Body(left) | Place::Chunk(left) => Ok(self.pass(left, rest.len())),
                _ => self.take_line(rest),
            };
            let taken = taken.map_err(|Bad| Refused { good: from, in_head })?;
            self.head_bytes = if self.is_amid_head() { self.head_bytes + taken } else { 0 };
            from += taken;
        }
        Ok(())
    }

    /// Bytes that have come of a head whose end has not.
    pub fn head_bytes(&self) -> usize {
        self.head_bytes
    }

    /// Whether some of a head has come and the rest has not.
    pub fn is_amid_head(&self) -> bool {
        self.at == Place::Fields || (self.at == Place::Start && !self.line.is_empty())
    }

    /// Whether the next byte belongs to a body.
    pub fn is_in_body(&self) -> bool {
        !self.is_in_head()
    }

    /// Whether a request may begin with the next byte.
    pub fn is_between(&self) -> bool {
        self.at == Place::Start && self.line.is_empty()
    }

    fn is_in_head(&self) -> bool {
        matches!(self.at, Place::Start | Place::Fields)
    }

    /// Passes over what is left of a body or a chunk, or over all that there is of it.
    fn pass(&mut self, left: u64, there: usize) -> usize {
        let passed = usize::try_from(left).map_or(there, |left| left.min(there));
        let left = left - passed as u64;
        self.at = match self.at {
            Place::Body(_) if left == 0 => Place::Start,
            Place::Body(_) => Place::Body(left),
            _ if left == 0 => Place::ChunkEnd,
            _ => Place::Chunk(left),
        };
        passed
    }

    /// Takes a line, or the beginning of one. Gives back how many bytes that was.
    fn take_line(&mut self, bytes: &mut [u8]) -> Result<usize, Bad> {
        if self.at == Place::Fields {
            self.hide_upgrade(bytes);
        }
        let Some(end) = memchr(b'\n', bytes) else {
            if self.line.len() + bytes.len() > self.line_bytes_max() {
                return Err(Bad);
            }
            self.line.extend_from_slice(bytes);
            return self.is_line_possible().then_some(bytes.len()).ok_or(Bad);
        };
        if self.line.is_empty() {
            self.end_line(&bytes[..end])?;
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&bytes[..end]);
            self.end_line(&line)?;
        }
        Ok(end + 1)
    }

    /// Writes over as much as is here of a name that begins with that of [`UPGRADE`], where the
    /// last of it is here.
    fn hide_upgrade(&self, bytes: &mut [u8]) {
        let Some((before, here)) = UPGRADE.split_at_checked(self.line.len()) else { return };
        let Some(bytes) = bytes.get_mut(..here.len()).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        if self.line.eq_ignore_ascii_case(before) && bytes.eq_ignore_ascii_case(here) {
            bytes.fill(b'-');
        }
    }

    /// The library stops reading a head that is too long; the other lines are ours to bound.
    fn line_bytes_max(&self) -> usize {
        match self.at {
            Place::Size => CHUNK_LINE_BYTES_MAX,
            Place::ChunkEnd => 1,
            Place::Trailers => TRAILER_BYTES_MAX,
            _ => usize::MAX,
        }
    }

    /// Whether what has come of a line can still become one that is taken. Of a body the library
    /// acts on parts of lines too, and would end the connection before anybody knows why.
    fn is_line_possible(&self) -> bool {
        let start = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        match self.at {
            Place::Size => chunk_size(start).is_ok(),
            Place::ChunkEnd => start.is_empty(),
            _ => true,
        }
    }

    /// Takes a line without its LF.
    fn end_line(&mut self, line: &[u8]) -> Result<(), Bad> {
        let line = line.strip_suffix(b"\r").ok_or(Bad)?;
        self.at = match self.at {
            Place::Start if line.is_empty() => {
                self.empty_lines += 1;
                (self.empty_lines <= EMPTY_LINES_MAX).then_some(Place::Start).ok_or(Bad)?
            }
            Place::Start => {
                self.empty_lines = 0;
                self.head = Seen { is_old: is_old(line)?, ..Seen::default() };
                Place::Fields
            }
            Place::Fields if line.is_empty() => self.head.body()?,
            Place::Fields => {
                self.head.field(line)?;
                Place::Fields
            }
            Place::Size => match chunk_size(line)? {
                0 => {
                    self.trailer_bytes = 0;
                    Place::Trailers
                }
                size => Place::Chunk(size),
            },
            Place::ChunkEnd if line.is_empty() => Place::Size,
            Place::Trailers if line.is_empty() => Place::Start,
            Place::Trailers => {
                self.trailer_bytes += line.len();
                let is_good = self.trailer_bytes <= TRAILER_BYTES_MAX && is_harmless_trailer(line);
                is_good.then_some(Place::Trailers).ok_or(Bad)?
            }
            Place::ChunkEnd | Place::Body(_) | Place::Chunk(_) => return Err(Bad),
        };
        Ok(())
    }
}

impl Seen {
    /// Takes a field's line. Only two names say where a body ends.
    fn field(&mut self, line: &[u8]) -> Result<(), Bad> {
        let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
        let colon = memchr(b':', line).filter(|_| !is_folded).ok_or(Bad)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_first = self.length.is_none();
            self.length = Some(length(blanks_off(value)).filter(|_| is_first).ok_or(Bad)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_plain = blanks_off(value).eq_ignore_ascii_case(b"chunked");
            if self.is_chunked || self.is_old || !is_plain {
                return Err(Bad);
            }
            self.is_chunked = true;
        }
        Ok(())
    }

    /// What follows the head.
    fn body(&self) -> Result<Place, Bad> {
        match (self.is_chunked, self.length) {
            (true, Some(_)) => Err(Bad),
            (true, None) => Ok(Place::Size),
            (false, None | Some(0)) => Ok(Place::Start),
            (false, Some(length)) => Ok(Place::Body(length)),
        }
    }
}

/// Whether a request line is one of HTTP/1.0. Anything but three words is refused, and a target
/// that is neither a path, an address of ours, nor the `*` of OPTIONS; one with a `#` too, at which
/// the library would cut it.
fn is_old(line: &[u8]) -> Result<bool, Bad> {
    let method = memchr(b' ', line).ok_or(Bad)?;
    let (method, rest) = (&line[..method], &line[method + 1..]);
    let target = memchr(b' ', rest).ok_or(Bad)?;
    let (target, version) = (&rest[..target], &rest[target + 1..]);
    let has_scheme = |scheme: &[u8]| {
        target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let is_target = target.first() == Some(&b'/')
        || has_scheme(b"http://")
        || has_scheme(b"https://")
        || (target == b"*" && method == b"OPTIONS");
    // A tunnel has no place here, whatever its target looks like.
    if !is_target || method == b"CONNECT" || memchr(b'#', target).is_some() {
        return Err(Bad);
    }
    match version {
        b"HTTP/1.1" => Ok(false),
        b"HTTP/1.0" => Ok(true),
        _ => Err(Bad),
    }
}

/// A value without the blanks around it: those of HTTP, and no others.
fn blanks_off(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |last| last + 1);
    &value[start..end]
}

fn length(digits: &[u8]) -> Option<u64> {
    let known = (1..=LENGTH_DIGITS_MAX).contains(&digits.len());
    digits
        .iter()
        .filter(|_| known)
        .try_fold(0, |length: u64, digit| {
            digit.is_ascii_digit().then(|| length * 10 + u64::from(digit - b'0'))
        })
        .filter(|_| known)
}

/// The size of a chunk: digits, and perhaps an extension that means nothing to us.
fn chunk_size(line: &[u8]) -> Result<u64, Bad> {
    let end = memchr(b';', line).unwrap_or(line.len());
    let (digits, extension) = line.split_at(end);
    let known = (1..=CHUNK_DIGITS_MAX).contains(&digits.len())
        && line.len() <= CHUNK_LINE_BYTES_MAX
        && extension.iter().copied().all(is_text);
    let size = digits.iter().try_fold(0, |size: u64, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(size << 4 | u64::from(digit))
    });
    size.filter(|_| known).ok_or(Bad)
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// Whether a field behind a body is one that can be passed over.
fn is_harmless_trailer(line: &[u8]) -> bool {
    let Some(colon) = memchr(b':', line) else { return false };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let name = name.to_ascii_lowercase();
    !name.is_empty()
        && name.as_bytes().iter().all(is_name)
        && value.iter().copied().all(is_text)
        && !BARRED_TRAILERS.contains(&name.as_str())
        && !BARRED_TRAILER_STARTS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{Framing, Refused};

    /// What becomes of the bytes: whether a request may follow, or how many were good.
    fn outcome(pieces: &[&[u8]]) -> Result<bool, Refused> {
        let mut framing = Framing::default();
        for piece in pieces {
            framing.take(&mut piece.to_vec())?;
        }
        Ok(framing.is_between())
    }

    const GOOD: [&str; 12] = [
        "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\n\r\nGET /a HTTP/1.0\r\n\r\n",
        "GET HTTP://a/b HTTP/1.1\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345",
        "POST /a HTTP/1.1\r\ncontent-LENGTH:\t05 \r\n\r\n12\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\r\n0\r\n\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n00a;b=\"c\"\r\n0123456789\r\n0;x\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Checksum: 1\r\n\r\n",
        "GET /a HTTP/1.1\r\nX: Content-Length: 5\r\nContent-Length-X: 7\r\n\r\n",
    ];

    #[test]
    fn good_requests_end_where_they_end_in_any_pieces() {
        for text in GOOD {
            let text = text.as_bytes();
            assert_eq!(outcome(&[text]), Ok(true), "{}", text.escape_ascii());
            for cut in 0..text.len() {
                let pieces = [&text[..cut], &text[cut..]];
                assert_eq!(outcome(&pieces), Ok(true), "{} at {cut}", text.escape_ascii());
            }
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            assert_eq!(outcome(&bytes), Ok(true), "{}", text.escape_ascii());
            let cut = &text[..text.len() - 1];
            assert_eq!(outcome(&[cut]), Ok(false), "{}", cut.escape_ascii());
        }
    }

    /// What is refused, with a bar before the refused line.
    const BAD: [&str; 18] = [
        "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n|\r\nGET /a HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n|\r\n",
        "|GET /a HTTP/1.1\n\r\n",
        "GET /a HTTP/1.1\r\n|A: b\n\r\n",
        "|GET a:80 HTTP/1.1\r\n\r\n",
        "|GET /a#b HTTP/1.1\r\n\r\n",
        "|GET /a?b#c HTTP/1.1\r\n\r\n",
        "|GET /a\r\n\r\n",
        "|CONNECT /a HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\nA: b\r\n| c\r\n\r\n",
        "POST /a HTTP/1.1\r\n|Content-Length: +5\r\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: 5\r\n|Content-Length: 5\r\n\r\n",
        "POST /a HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n|\r\n",
        "POST /a HTTP/1.0\r\n|Transfer-Encoding: chunked\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n|5 \r\n12345\r\n0\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345|6\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n|0;\u{1}\r\n\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n|Host: a\r\n\r\n",
    ];

    #[test]
    fn what_is_refused_is_so_in_any_pieces() {
        for text in BAD {
            let (good, bad) = text.split_once('|').expect("a bar");
            let whole = [good, bad].concat();
            let refused = outcome(&[whole.as_bytes()]).expect_err(text);
            assert_eq!(refused.good, good.len(), "{text:?}");
            for cut in 0..whole.len() {
                let (start, end) = whole.as_bytes().split_at(cut);
                let again = outcome(&[start, end]).expect_err(text);
                assert_eq!(again.in_head, refused.in_head, "{text:?} at {cut}");
                let bytes_before = if again.good == 0 && cut > good.len() { cut } else { 0 };
                assert!(bytes_before + again.good <= cut.max(good.len()), "{text:?} at {cut}");
            }
        }
    }

    #[test]
    fn who_asks_for_another_protocol_is_not_heard_in_any_pieces() {
        let text = "POST /upgrade HTTP/1.1\r\nUpGrade: h2c\r\nA: Upgrade\r\nupgrade:\r\nContent-Length: 9\r\n\r\n\
                    Upgrade: GET /b HTTP/1.1\r\nupgrade\r\n";
        let names = |passed: &[u8]| {
            let text = String::from_utf8(passed.to_vec()).expect("text");
            let names = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
            names.map(str::to_ascii_lowercase).collect::<Vec<_>>()
        };
        for cut in 0..text.len() {
            let mut framing = Framing::default();
            let mut passed = text.as_bytes().to_vec();
            let (first, second) = passed.split_at_mut(cut);
            framing.take(first).expect("good so far");
            let _ = framing.take(second); // The last line has no colon.
            let names = names(&passed);
            assert_eq!(names.len(), 5, "{names:?}");
            assert!(names[0] != "upgrade" && names[2] != "upgrade", "{names:?} at {cut}");
            let others: Vec<_> = [1, 3, 4].iter().map(|at| names[*at].as_str()).collect();
            assert_eq!(others, ["a", "content-length", "upgrade"], "{cut}");
            let (others, own) = (text.as_bytes().iter().zip(&passed), b"-");
            let changed = others.filter(|(sent, passed)| sent != passed && !own.contains(passed));
            assert_eq!(changed.count(), 0);
        }
    }

    #[test]
    fn bytes_of_a_head_are_counted_from_its_beginning_to_its_end() {
        let mut framing = Framing::default();
        let head_bytes = |framing: &mut Framing, piece: &str| {
            framing.take(&mut piece.as_bytes().to_vec()).expect("good so far");
            framing.head_bytes()
        };
        assert_eq!(head_bytes(&mut framing, "\r\nGET /a "), 7);
        assert_eq!(head_bytes(&mut framing, "HTTP/1.1\r\nA: b\r"), 7 + 15);
        assert_eq!(head_bytes(&mut framing, "\n\r\nGET"), 3, "the one before has ended");
        assert_eq!(head_bytes(&mut framing, " / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcP"), 1);
    }

    #[test]
    fn lines_that_never_end() {
        let chunked = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (start, most) in [("1;", 256), ("1\r\nx", 0), ("0\r\na:", 8 << 10)] {
            let mut framing = Framing::default();
            framing.take(&mut chunked.to_vec()).expect("a head");
            framing.take(&mut start.as_bytes().to_vec()).expect("a start");
            let taken = (0..100_000).take_while(|_| framing.take(&mut [b'1']).is_ok()).count();
            assert!(taken <= most, "{start:?}: {taken}");
        }
    }

    #[test]
    fn lines_of_chunks_are_refused_at_the_byte_that_cannot_stand_there() {
        let chunked = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for (good, bad) in [("", "\r"), ("", "-"), ("1", "x"), ("1\r\na", "\n"), ("1\r\na", "b")] {
            let mut framing = Framing::default();
            framing.take(&mut chunked.to_vec()).expect("a head");
            framing.take(&mut good.as_bytes().to_vec()).expect(good);
            framing.take(&mut bad.as_bytes().to_vec()).expect_err(bad);
        }
    }

    #[test]
    fn lengths() {
        let head = |length: &str| {
            let head = format!("POST /a HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            outcome(&[head.as_bytes()]).is_ok()
        };
        for good in ["0", "5", "0005", "9999999999999999999"] {
            assert!(head(good), "{good}");
        }
        for bad in ["", "+5", "-5", "5,5", "5 5", "0x5", "5.0", "18446744073709551616", "\u{b}5"] {
            assert!(!head(bad), "{bad:?}");
        }
    }
}

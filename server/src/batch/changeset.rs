//! The shape of a `$batch`: one change set of up to 100 requests, or one query; and the text that
//! answers it.
//!
//! Layout matters to the last line end: the Java SDK looks at fixed columns, the JS SDK splits at
//! the literal `--changesetresponse_`, and old .NET counts line ends.

use crate::batch::multipart::{Embedded, Part, Place, parts};
use crate::error::{INVALID_INPUT, MEDIA_TYPE_NOT_SUPPORTED, TOO_MANY_CHANGES, WireError};
use crate::http::message::{Response, reason};
use crate::limits::{BOUNDARY_CHARS_MAX, CHANGES_MAX};
use crate::odata::options::{media_parameter, media_type};
use std::borrow::Borrow;

/// What a `$batch` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batch<R> {
    /// Writes that happen together or not at all.
    Changes(Vec<R>),
    /// One read.
    Query(R),
}

impl<R> Batch<R> {
    fn each<'a, T>(&'a self, make: impl Fn(&'a R) -> T) -> Batch<T> {
        match self {
            Batch::Changes(requests) => Batch::Changes(requests.iter().map(make).collect()),
            Batch::Query(request) => Batch::Query(make(request)),
        }
    }
}

/// What a body was read as.
pub type Reading<'a> = Result<Batch<Embedded<'a>>, NoBatch>;

/// The same without the body, for whoever works on that later and elsewhere.
#[derive(Clone, Debug)]
pub struct Outline(Result<Batch<Place>, NoBatch>);

impl Outline {
    /// Of what was read from `body`.
    pub fn of(reading: &Reading<'_>, body: &[u8]) -> Outline {
        let places = |batch: &Batch<Embedded<'_>>| batch.each(|request| request.place(body));
        Outline(reading.as_ref().map(places).map_err(NoBatch::clone))
    }

    /// What was read from `body`.
    pub fn reading<'a>(&self, body: &'a [u8]) -> Reading<'a> {
        let requests = |batch: &Batch<Place>| batch.each(|place| Embedded::at(place, body));
        self.0.as_ref().map(requests).map_err(NoBatch::clone)
    }
}

/// Why a body is no batch, and for which operation that is to be said, if for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoBatch {
    /// The refusal.
    pub error: WireError,
    /// The operation of the change set; none where the whole body is at fault.
    pub index: Option<usize>,
}

fn whole(error: WireError) -> NoBatch {
    NoBatch { error, index: None }
}

fn at(index: usize, error: WireError) -> NoBatch {
    NoBatch { error, index: Some(index) }
}

/// Reads a batch body. `content_type` is the request's own.
pub fn read<'a>(content_type: &str, body: &'a [u8]) -> Reading<'a> {
    let boundary = boundary(content_type).map_err(whole)?;
    let parts = parts(body, boundary, 1).ok_or_else(|| whole(INVALID_INPUT))?;
    // Two change sets would need two answers and could not be one transaction.
    let [part] = parts.as_slice() else { return Err(whole(INVALID_INPUT)) };
    let content_type = part.header("Content-Type").unwrap_or_default();
    if media_type(&content_type) == "application/http" {
        return Embedded::parse(part.content).map(Batch::Query).ok_or_else(|| whole(INVALID_INPUT));
    }
    changes(part, &content_type).map(Batch::Changes)
}

fn changes<'a>(part: &Part<'a>, content_type: &str) -> Result<Vec<Embedded<'a>>, NoBatch> {
    let boundary = boundary(content_type).map_err(|_| whole(INVALID_INPUT))?;
    let parts = parts(part.content, boundary, CHANGES_MAX).unwrap_or_default();
    if parts.len() > CHANGES_MAX {
        return Err(at(CHANGES_MAX - 1, TOO_MANY_CHANGES));
    }
    if parts.is_empty() {
        return Err(whole(INVALID_INPUT));
    }
    let requests = parts.iter().enumerate().map(|(index, part)| {
        let is_http =
            part.header("Content-Type").is_none_or(|t| media_type(&t) == "application/http");
        let request = Embedded::parse(part.content).filter(|_| is_http);
        request.ok_or_else(|| at(index, INVALID_INPUT))
    });
    requests.collect()
}

fn boundary(content_type: &str) -> Result<&str, WireError> {
    if media_type(content_type) != "multipart/mixed" {
        return Err(MEDIA_TYPE_NOT_SUPPORTED);
    }
    let boundary = media_parameter(content_type, "boundary").unwrap_or_default();
    let is_boundary = (1..=BOUNDARY_CHARS_MAX).contains(&boundary.len())
        && boundary.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    if is_boundary { Ok(boundary) } else { Err(INVALID_INPUT) }
}

/// The answer to one request of a batch.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status, headers and body; headers in the order in which they are written.
    pub response: Response,
    /// `Content-ID` of the embedded request, which its answer repeats.
    pub content_id: Option<String>,
}

/// The body that answers a change set: an answer for every change, or one for the change at fault.
/// `bytes` is how long it may be, as far as that is known. `batch` and `changeset` are unique texts
/// for the boundaries.
pub fn changes_answered<A: Borrow<Answer>>(
    answers: impl IntoIterator<Item = A>,
    bytes: usize,
    batch: &str,
    changeset: &str,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes);
    line(&mut out, &["--batchresponse_", batch]);
    line(&mut out, &["Content-Type: multipart/mixed; boundary=changesetresponse_", changeset]);
    line(&mut out, &[]);
    for answer in answers {
        line(&mut out, &["--changesetresponse_", changeset]);
        write_answer(&mut out, answer.borrow());
    }
    line(&mut out, &["--changesetresponse_", changeset, "--"]);
    line(&mut out, &["--batchresponse_", batch, "--"]);
    // Its place is as long as it is.
    out.shrink_to_fit();
    out
}

/// The body that answers a query batch.
pub fn query_answered(answer: &Answer, batch: &str) -> Vec<u8> {
    let mut out = Vec::new();
    line(&mut out, &["--batchresponse_", batch]);
    write_answer(&mut out, answer);
    line(&mut out, &["--batchresponse_", batch, "--"]);
    out
}

fn write_answer(out: &mut Vec<u8>, answer: &Answer) {
    let response = &answer.response;
    line(out, &["Content-Type: application/http"]);
    line(out, &["Content-Transfer-Encoding: binary"]);
    line(out, &[]);
    line(out, &["HTTP/1.1 ", &response.status.to_string(), " ", reason(response.status)]);
    if let Some(content_id) = &answer.content_id {
        line(out, &["Content-ID: ", content_id]);
    }
    for (name, value) in &response.headers {
        line(out, &[name, ": ", value]);
    }
    line(out, &[]);
    out.extend_from_slice(&response.body);
    line(out, &[]);
}

/// Appends one line. Nothing of a client's gets to break it into two.
fn line(out: &mut Vec<u8>, pieces: &[&str]) {
    for piece in pieces {
        for part in piece.split(['\r', '\n']) {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::multipart::work;

    const OUTER: &str = "multipart/mixed; boundary=\"batch_1\"";

    fn change(text: &str) -> String {
        format!(
            "--changeset_1\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\n{text}\r\n"
        )
    }

    fn batch(changes: &str) -> String {
        format!(
            "--batch_1\r\ncontent-type: multipart/mixed; boundary=changeset_1\r\n\r\n\r\n{changes}\
             --changeset_1--\r\n--batch_1--\r\n"
        )
    }

    fn read_count(content_type: &str, body: &str) -> Result<usize, NoBatch> {
        read(content_type, body.as_bytes()).map(|batch| match batch {
            Batch::Changes(changes) => changes.len(),
            Batch::Query(_) => 0,
        })
    }

    #[test]
    fn change_sets_and_queries() {
        let one = change("DELETE /T(PartitionKey='a',RowKey='b') HTTP/1.1\r\nIf-Match: *\r\n\r\n");
        assert_eq!(read_count(OUTER, &batch(&one)), Ok(1));
        assert_eq!(read_count(OUTER, &batch(&one.repeat(100))), Ok(100));
        let query =
            "--batch_1\r\nContent-Type: application/http\r\n\r\nGET /T HTTP/1.1\r\n\r\n--batch_1--";
        assert_eq!(read_count(OUTER, query), Ok(0));
    }

    #[test]
    fn an_outline_gives_back_what_was_read() {
        let one =
            change("PUT http://h/T(PartitionKey='a b',RowKey='ü') HTTP/1.1\r\nA: b\r\n\r\n{}");
        let bare = change("DELETE /T HTTP/1.1");
        let query = "--batch_1\nContent-Type: application/http\n\nGET /T HTTP/1.1\n\n--batch_1--";
        let mut bodies: Vec<String> = nasty(1 << 12).into_iter().map(|(_, body)| body).collect();
        bodies.extend([batch(&(one.clone() + &bare)), batch(&one.repeat(101)), query.to_owned()]);
        for body in bodies {
            let body = body.as_bytes();
            let reading = read(OUTER, body);
            assert_eq!(Outline::of(&reading, body).reading(body), reading);
        }
    }

    #[test]
    fn bodies_that_are_no_batch() {
        let one = change("DELETE /T HTTP/1.1\r\n\r\n");
        let good = batch(&one);
        let refused = |content_type: &str, body: &str, error: WireError, index| {
            assert_eq!(read_count(content_type, body), Err(NoBatch { error, index }), "{body}");
        };
        refused("application/json", &good, MEDIA_TYPE_NOT_SUPPORTED, None);
        refused("multipart/mixed", &good, INVALID_INPUT, None);
        refused(
            &format!("multipart/mixed; boundary={}", "x".repeat(71)),
            &good,
            INVALID_INPUT,
            None,
        );
        refused("multipart/mixed; boundary=other", &good, INVALID_INPUT, None);
        refused(OUTER, "", INVALID_INPUT, None);
        refused(OUTER, &batch(""), INVALID_INPUT, None);
        refused(OUTER, &batch(&one.repeat(101)), TOO_MANY_CHANGES, Some(99));
        refused(OUTER, &batch(&format!("{one}{}", change("nonsense"))), INVALID_INPUT, Some(1));
        let two_sets = good.replace("--batch_1--", &good);
        refused(OUTER, &two_sets, INVALID_INPUT, None);
        let not_http =
            "--batch_1\r\nContent-Type: text/plain\r\n\r\nGET /T HTTP/1.1\r\n\r\n--batch_1--";
        refused(OUTER, not_http, INVALID_INPUT, None);
    }

    #[test]
    fn answers_to_the_byte() {
        let mut created = Response::new(204);
        created.header("X-Content-Type-Options", "nosniff");
        created.header("ETag", "W/\"datetime'2021'\"");
        let mut failed = Response::new(409);
        failed.header("Content-Type", "application/json");
        failed.body = "{\"odata.error\":{}}".into();
        let answers = [
            Answer { response: created, content_id: Some("1\r\n2".to_owned()) },
            Answer { response: failed, content_id: None },
        ];
        let expected = "--batchresponse_B\r\n\
            Content-Type: multipart/mixed; boundary=changesetresponse_C\r\n\r\n\
            --changesetresponse_C\r\n\
            Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
            HTTP/1.1 204 No Content\r\nContent-ID: 12\r\nX-Content-Type-Options: nosniff\r\n\
            ETag: W/\"datetime'2021'\"\r\n\r\n\r\n\
            --changesetresponse_C\r\n\
            Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
            HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n\r\n{\"odata.error\":{}}\r\n\
            --changesetresponse_C--\r\n--batchresponse_B--\r\n";
        let body = changes_answered(&answers, 0, "B", "C");
        assert_eq!(String::from_utf8_lossy(&body), expected);
        let body = query_answered(&answers[1], "B");
        assert!(body.starts_with(b"--batchresponse_B\r\nContent-Type: application/http\r\n"));
        assert!(body.ends_with(b"{\"odata.error\":{}}\r\n--batchresponse_B--\r\n"));
    }

    /// Bodies that look as if each byte might mean something, of about that many bytes.
    fn nasty(bytes: usize) -> Vec<(&'static str, String)> {
        let many = |text: &str| text.repeat(bytes / text.len());
        let outer = "--batch_1\nContent-Type: multipart/mixed; boundary=changeset_1\n\n";
        let inner = "--changeset_1\nContent-Type: application/http\n";
        vec![
            ("delimiters", many("--batch_1\n")),
            ("delimiters within", format!("{outer}{}", many("--changeset_1\n"))),
            ("nearly delimiters", format!("{outer}{}", many("--changeset_12\n"))),
            ("at ends of lines", format!("{outer}{}", many("x--changeset_1\n"))),
            ("nearly at ends of lines", format!("{outer}{}", many("x--changeset_1 x\n"))),
            ("in one line", format!("{outer}{}", many("--changeset_1"))),
            ("blanks behind one", format!("{outer}--changeset_1{}", many(" "))),
            ("dashes", format!("{outer}{}", many("--"))),
            ("line ends", format!("{outer}{}", many("\r\n"))),
            ("one line", format!("{outer}{inner}\nPOST {}", many("x"))),
            ("headers", format!("{outer}{inner}{}", many("A: b\n"))),
            ("folded headers", format!("{outer}{inner}{}", many(" b\n"))),
            ("no headers", format!("{outer}{inner}{}", many(":\n"))),
            (
                "headers of the request",
                format!("{outer}{inner}\nPOST /T HTTP/1.1\n{}", many("A: b\n")),
            ),
            (
                "folded, of the request",
                format!("{outer}{inner}\nPOST /T HTTP/1.1\nA: b\n{}", many(" b\n")),
            ),
            ("changes", format!("{outer}{}", many("--changeset_1\n\nGET /T HTTP/1.1\n\n"))),
            ("a long body", format!("{outer}{inner}\nPOST /T HTTP/1.1\n\n{}", many("\n-"))),
        ]
    }

    /// Bytes that reading looks at, headers of each change included.
    fn work_of(body: &str) -> usize {
        let _ = work::since();
        if let Ok(Batch::Changes(changes)) = read(OUTER, body.as_bytes()) {
            for change in &changes {
                let _ = (change.header("Prefer"), change.headers().count());
            }
        }
        work::since()
    }

    #[test]
    fn work_grows_with_the_body_alone() {
        for (small, large) in nasty(1 << 17).into_iter().zip(nasty(1 << 18)) {
            let (once, twice) = (work_of(&small.1), work_of(&large.1));
            assert!(once <= 8 * small.1.len(), "{}: {once} of {}", small.0, small.1.len());
            assert!(twice <= once * 22 / 10, "{}: {once}, then {twice}", small.0);
        }
    }

    #[test]
    fn cuts_and_noise_are_refused_or_change_nothing_else() {
        let change = |row: usize| {
            change(&format!(
                "PUT /T(PartitionKey='p',RowKey='{row}') HTTP/1.1\r\n\r\n{{\"A\":{row}}}"
            ))
        };
        let body = batch(&(0..3).map(change).collect::<String>());
        let Ok(Batch::Changes(good)) = read(OUTER, body.as_bytes()) else { panic!("a good batch") };
        let mut cases = 0;
        let mut check = |bytes: &[u8], is_cut: bool| {
            cases += 1;
            let Ok(Batch::Changes(changes)) = read(OUTER, bytes) else { return };
            // Noise may look like a delimiter, and part one change in two.
            assert!(changes.len() <= good.len() + usize::from(!is_cut));
            // What is whole before a cut is what it was.
            let whole = changes.len().saturating_sub(1);
            if is_cut {
                assert_eq!(changes[..whole], good[..whole]);
            }
        };
        for at in 0..body.len() {
            check(&body.as_bytes()[..at], true);
            for noise in [
                "\r",
                "\n",
                "\0",
                "-",
                "--",
                " ",
                ":",
                "\u{e9}",
                "--changeset_1\r\n",
                "--batch_1--\r\n",
            ] {
                let (before, behind) = body.as_bytes().split_at(at);
                check(&[before, noise.as_bytes(), behind].concat(), false);
                check(&[before, noise.as_bytes(), &behind[1..]].concat(), false);
            }
        }
        assert!(cases > 5_000, "{cases}");
    }
}

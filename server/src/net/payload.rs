//! Answers as the HTTP library takes them: a body that says its length, keeps its place in memory
//! until it has left, and breaks off where it is told to.

use crate::http::message::Response;
use crate::net::flush::Flushes;
use crate::net::room::Place;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Why a request gets no answer: its connection is of no further use.
#[derive(Debug)]
pub(crate) enum Broken {
    Client(hyper::Error),
    Slow,
    OnPurpose,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Client(error) => write!(f, "the body broke off: {error}"),
            Broken::Slow => f.write_str("the body took too long"),
            Broken::OnPurpose => f.write_str("the fault lab lost the answer"),
        }
    }
}

impl std::error::Error for Broken {}

/// The body of an answer. The library leaves `Content-Length` out of a 204 unless the body seems to
/// have something to say; the service sends `Content-Length: 0`, and clients look for it.
pub(crate) struct Payload {
    data: Option<Bytes>,
    /// What is said of its length.
    length: u64,
    /// Where it breaks off once all that was written has left.
    cut: Option<Flushes>,
}

impl Payload {
    fn new(data: Bytes) -> Payload {
        Payload { length: data.len() as u64, data: Some(data), cut: None }
    }

    /// Has it break off after so many bytes, if it has more.
    pub(crate) fn cut(&mut self, bytes: usize, flushes: Flushes) {
        if let Some(data) = self.data.as_mut().filter(|data| data.len() > bytes) {
            data.truncate(bytes);
            self.cut = Some(flushes);
        }
    }
}

impl hyper::body::Body for Payload {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let data = self.data.take().filter(|data| !data.is_empty());
        match (data, &self.cut) {
            (Some(data), _) => Poll::Ready(Some(Ok(Frame::data(data)))),
            (None, Some(cut)) => cut.poll_flushed(cx).map(|()| Some(Err(Broken::OnPurpose))),
            (None, None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.cut.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(if self.is_end_stream() { 0 } else { self.length })
    }
}

/// The answer as the library takes it.
pub(crate) fn into_hyper(response: Response) -> hyper::Response<Payload> {
    let is_empty = response.body.is_empty();
    let mut out = hyper::Response::new(Payload::new(response.body));
    *out.status_mut() = hyper::StatusCode::from_u16(response.status)
        .unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    out.headers_mut().reserve(response.headers.len() + 2);
    for (name, value) in response.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = match value {
            Cow::Borrowed(text) => HeaderValue::from_str(text),
            Cow::Owned(text) => HeaderValue::from_maybe_shared(Bytes::from(text)),
        };
        if let (Ok(name), Ok(value)) = (name, value) {
            out.headers_mut().append(name, value);
        }
    }
    if is_empty {
        out.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    out
}

/// The bytes in their places, which they give back when the last of them is gone.
pub(crate) fn held(bytes: Bytes, places: Vec<Place>) -> Bytes {
    Bytes::from_owner(Placed { bytes, _places: places })
}

struct Placed {
    bytes: Bytes,
    _places: Vec<Place>,
}

impl AsRef<[u8]> for Placed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

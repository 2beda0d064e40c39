//! One connection: HTTP/1.1 between the socket and the app. The only file that names the HTTP
//! library.
//!
//! A request is admitted by its head before its body is read, so that who may not ask cannot make
//! the server hold or wait for anything. What is in memory is answered on the connection's own
//! task; what may wait for the disk goes to a thread that may; a commit is waited for without one.

use crate::app::App;
use crate::error::INTERNAL_ERROR;
use crate::faults::fault::Fault;
use crate::handle::answer::{Answer, Write};
use crate::handle::call::Call;
use crate::handle::reply;
use crate::http::message::{Body, Head, Response};
use crate::limits::{BODY_BYTES_MAX, BODY_DISCARD_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::net::flush::{Flushes, Watched};
use crate::services::Store;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tabulith::options::Reach;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

/// What the connections of a server share.
pub(crate) struct Shared<S> {
    pub(crate) app: App<S>,
    /// Room for bodies, in units of [`ROOM_UNIT_BYTES`].
    room: Arc<Semaphore>,
}

/// Room for bodies is counted in these: a semaphore counts in 32 bits.
const ROOM_UNIT_BYTES: usize = 1 << 10;

impl<S: Store> Shared<S> {
    pub(crate) fn new(app: App<S>) -> Shared<S> {
        let room = Arc::new(Semaphore::new(app.config().body_bytes_max / ROOM_UNIT_BYTES));
        Shared { app, room }
    }
}

/// Where the requests of a connection come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The other end.
    pub(crate) peer: Option<IpAddr>,
    /// Whether they come over TLS.
    pub(crate) secure: bool,
}

/// Serves a connection until either side ends it; with `watcher`, until the server stops and the
/// request in flight is answered.
pub(crate) async fn serve<S, T>(shared: Arc<Shared<S>>, stream: T, origin: Origin, watcher: Watcher)
where
    S: Store,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = shared.app.config();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(config.head_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let flushes = Flushes::default();
    let stream = Watched::new(stream, flushes.clone());
    let service = service_fn(move |request| {
        let (shared, flushes) = (shared.clone(), flushes.clone());
        async move { respond(&shared, request, origin, flushes).await }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Why a request gets no answer: its connection is of no further use.
#[derive(Debug)]
enum Broken {
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

async fn respond<S: Store>(
    shared: &Arc<Shared<S>>,
    request: hyper::Request<Incoming>,
    origin: Origin,
    flushes: Flushes,
) -> Result<hyper::Response<Payload>, Broken> {
    let (parts, body) = request.into_parts();
    let head = Head { peer: origin.peer, secure: origin.secure, ..head(&parts) };
    let time_max = shared.app.config().body_time_max;
    let mut fault = None;
    let response = match shared.app.receive(&head) {
        Ok(call) => {
            fault = call.fault;
            if let Some(Fault::Delay { ms }) = fault {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            answer(shared, call, body, time_max).await?
        }
        Err(response) => {
            if !expects_continue(&parts) {
                discard(body, time_max).await?;
            }
            response
        }
    };
    tracing::debug!(method = %head.method, path = head.path(), status = response.status);
    match fault {
        Some(Fault::Lost) => Err(Broken::OnPurpose),
        Some(Fault::Cut { .. }) if response.body.is_empty() => Err(Broken::OnPurpose),
        Some(Fault::Cut { bytes }) => {
            let mut out = into_hyper(response);
            out.body_mut().cut(bytes, flushes);
            Ok(out)
        }
        _ => Ok(into_hyper(response)),
    }
}

fn expects_continue(parts: &hyper::http::request::Parts) -> bool {
    parts.headers.contains_key(header::EXPECT)
}

async fn answer<S: Store>(
    shared: &Arc<Shared<S>>,
    call: Arc<Call>,
    body: Incoming,
    time_max: Duration,
) -> Result<Response, Broken> {
    let size = body.size_hint().exact();
    if size == Some(0) {
        return Ok(perform(shared, call, Body::Empty).await);
    }
    // A body of unknown length takes the most that it may become.
    let bytes_max = size.map_or(BODY_BYTES_MAX, |size| usize::try_from(size).unwrap_or(usize::MAX));
    if bytes_max > BODY_BYTES_MAX {
        discard(body, time_max).await?;
        return Ok(perform(shared, call, Body::TooLarge).await);
    }
    let units = u32::try_from(bytes_max.div_ceil(ROOM_UNIT_BYTES)).unwrap_or(u32::MAX);
    let Ok(_room) = shared.room.clone().try_acquire_many_owned(units) else {
        discard(body, time_max).await?;
        return Ok(shared.app.busy(&call));
    };
    let body = within(time_max, collect(body, size)).await?;
    Ok(perform(shared, call, body).await)
}

/// Reads a body whole. One that says nothing of its length may turn out too large.
async fn collect(mut body: Incoming, size: Option<u64>) -> Result<Body, Broken> {
    let capacity = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(ROOM_UNIT_BYTES);
    let mut bytes = Vec::with_capacity(capacity.min(BODY_BYTES_MAX));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Broken::Client)?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > BODY_BYTES_MAX {
            drain(body).await?;
            return Ok(Body::TooLarge);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Body::Whole(bytes.into()))
}

/// Throws a body away, so that the client, who is still sending, will look at the answer.
async fn discard(body: Incoming, time_max: Duration) -> Result<(), Broken> {
    within(time_max, drain(body)).await
}

async fn drain(mut body: Incoming) -> Result<(), Broken> {
    let mut bytes = 0;
    while bytes < BODY_DISCARD_BYTES_MAX {
        match body.frame().await {
            None => break,
            Some(frame) => {
                let frame = frame.map_err(Broken::Client)?;
                bytes += frame.data_ref().map_or(0, Bytes::len);
            }
        }
    }
    Ok(())
}

async fn within<T>(
    time_max: Duration,
    work: impl Future<Output = Result<T, Broken>>,
) -> Result<T, Broken> {
    tokio::time::timeout(time_max, work).await.unwrap_or(Err(Broken::Slow))
}

/// Has the app do the work, where it may be done.
async fn perform<S: Store>(shared: &Arc<Shared<S>>, call: Arc<Call>, body: Body) -> Response {
    if call.is_point_read() {
        match shared.app.perform(&call, &body, Reach::Memory) {
            Answer::NeedsDisk => {}
            answer => return settled(&call, answer).await,
        }
    }
    let (own_shared, own_call) = (shared.clone(), call.clone());
    let work = async {
        let work = move || own_shared.app.perform(&own_call, &body, Reach::Disk);
        match spawn_blocking(work).await {
            Ok(answer) => settled(&call, answer).await,
            Err(error) => {
                tracing::error!(%error, "a request's thread ended without an answer");
                reply::answered(&call, Err(INTERNAL_ERROR))
            }
        }
    };
    in_time(shared, &call, work).await
}

/// The answer, or that the client's time is over. A commit that is under way stands all the same.
async fn in_time<S: Store>(
    shared: &Shared<S>,
    call: &Call,
    work: impl Future<Output = Response>,
) -> Response {
    let time_left = shared.app.time_left(call);
    let answer = tokio::time::timeout(time_left, work).await;
    answer.unwrap_or_else(|_| shared.app.timed_out(call))
}

/// Waits for a commit, without a thread.
async fn settled(call: &Call, answer: Answer) -> Response {
    let later = match answer {
        Answer::Now(response) => return response,
        Answer::Later(later) => later,
        Answer::NeedsDisk => return reply::answered(call, Err(INTERNAL_ERROR)),
    };
    let (done, outcome) = oneshot::channel::<Write>();
    later.notify(Box::new(move |write| {
        // Whoever waited may be gone; the commit stands all the same.
        let _ = done.send(write);
    }));
    match outcome.await {
        Ok(write) => write(),
        Err(_) => reply::answered(call, Err(INTERNAL_ERROR)),
    }
}

fn head(parts: &hyper::http::request::Parts) -> Head {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut head = Head {
        method: parts.method.as_str().to_owned(),
        target: target.to_owned(),
        authority: authority(parts),
        ..Head::default()
    };
    for (name, value) in &parts.headers {
        head.headers.push(name.as_str(), String::from_utf8_lossy(value.as_bytes()));
    }
    head
}

/// That of an absolute target, else of the one `Host`. With two hosts nobody knows which is meant.
fn authority(parts: &hyper::http::request::Parts) -> String {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = hosts.next().filter(|_| hosts.next().is_none());
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    parts.uri.authority().map_or(host, |authority| authority.as_str()).to_owned()
}

/// The body of an answer. The library leaves `Content-Length` out of a 204 unless the body seems to
/// have something to say; the service sends `Content-Length: 0`, and clients look for it.
struct Payload {
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
    fn cut(&mut self, bytes: usize, flushes: Flushes) {
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

fn into_hyper(response: Response) -> hyper::Response<Payload> {
    let is_empty = response.body.is_empty();
    let mut out = hyper::Response::new(Payload::new(response.body));
    *out.status_mut() = hyper::StatusCode::from_u16(response.status)
        .unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &response.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            out.headers_mut().append(name, value);
        }
    }
    if is_empty {
        out.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Shared, in_time, settled};
    use crate::app::App;
    use crate::auth::canonical;
    use crate::auth::shared_key::signature_text;
    use crate::config::{Config, DEVELOPMENT_ACCOUNT, Key};
    use crate::handle::answer::{Answer, Later, Write};
    use crate::http::message::{Head, Response};
    use std::sync::Arc;
    use std::time::Duration;
    use tabulith::db::Db;
    use tabulith::env::clock::ManualClock;
    use tabulith::env::jobs::ByHand;
    use tabulith::table::store::TableStore;
    use tabulith::vfs::mem::SimFs;

    /// A commit of which nobody ever hears.
    struct Never;

    impl Later for Never {
        fn wait(self: Box<Self>) -> Response {
            Response::new(204)
        }

        fn notify(self: Box<Self>, done: Box<dyn FnOnce(Write) + Send>) {
            std::mem::forget(done);
        }
    }

    fn delete() -> Head {
        let mut head = Head {
            method: "DELETE".to_owned(),
            target: format!("/{DEVELOPMENT_ACCOUNT}/T(PartitionKey='',RowKey='')?timeout=7"),
            authority: "127.0.0.1".to_owned(),
            ..Head::default()
        };
        let resource = canonical::resource(DEVELOPMENT_ACCOUNT, head.path(), None);
        let string = canonical::shared_key_lite("soon", &resource);
        let signature = signature_text(&Key::development(), &string);
        head.headers.push("Date", "soon");
        let authorization = format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}");
        head.headers.push("Authorization", authorization);
        head
    }

    #[test]
    fn who_waits_for_a_commit_waits_no_longer_than_asked() {
        let clock = Arc::new(ManualClock::at(1));
        let db = Db::builder().parts(Arc::new(SimFs::new()), clock.clone(), Arc::new(ByHand));
        let tables = Arc::new(TableStore::new(Arc::new(db.open("data").expect("a database"))));
        let config = Config { date_checked: false, ..Config::default() };
        let shared = Shared::new(App::new(config, tables, clock.clone(), 1));
        let call = shared.app.receive(&delete()).expect("admitted");
        let left = shared.app.time_left(&call);
        assert_eq!(left, Duration::from_secs(7));
        clock.advance(left);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let answer = runtime.expect("a runtime").block_on(async {
            in_time(&shared, &call, settled(&call, Answer::Later(Box::new(Never)))).await
        });
        assert_eq!(
            (answer.status, answer.get("x-ms-error-code")),
            (500, Some("OperationTimedOut"))
        );
    }
}

//! One connection: HTTP/1.1 between the socket and the app.
//!
//! A request is admitted by its head before its body is read, so that who may not ask cannot make
//! the server hold or wait for anything.

use crate::error::BAD_BODY;
use crate::faults::fault::Fault;
use crate::handle::call::Call;
use crate::handle::reply;
use crate::http::message::{Body, Head, Response};
use crate::limits::{BODY_DISCARD_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::net::admin::{self, Caller};
use crate::net::flush::{Flushes, Watched};
use crate::net::guard::{Guard, Patience, Verdict};
use crate::net::heads;
use crate::net::payload::{Broken, Payload, into_hyper};
use crate::net::sent::{Collected, Leave, Sent};
use crate::net::shared::Shared;
use crate::net::work::{Answered, perform, received_aside, with_place};
use crate::observe::requests::label;
use crate::observe::spans::{Span, cut};
use crate::operations::Kind;
use crate::services::base::Store;
use crate::testing;
use crate::trace::Trace;
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use std::sync::Arc;
use std::time::Duration;
use tabulith::options::Reach;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_blocking;

/// Serves a connection until either side ends it; with `watcher`, until the server stops and the
/// request in flight is answered.
pub(crate) async fn serve<S, T>(shared: Arc<Shared<S>>, stream: T, caller: Caller, watcher: Watcher)
where
    S: Store,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = shared.app.config();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(config.idle_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let patience = Patience { head: config.head_time_max, answer: config.answer_time_max };
    let flushes = Flushes::default();
    let guard = Guard::new(Watched::new(stream, flushes.clone()), patience, shared.heads.clone());
    let wire = Wire { flushes, verdict: guard.verdict() };
    let service = service_fn(move |request| {
        let (shared, wire) = (shared.clone(), wire.clone());
        // On its own, so that the connection has no memory for a request while there is none.
        async move { Box::pin(respond(&shared, request, caller, wire)).await }
    });
    let connection = builder.serve_connection(TokioIo::new(guard), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// What a request may have to know of its connection's bytes.
#[derive(Clone)]
struct Wire {
    flushes: Flushes,
    verdict: Verdict,
}

async fn respond<S: Store>(
    shared: &Arc<Shared<S>>,
    request: hyper::Request<Incoming>,
    caller: Caller,
    wire: Wire,
) -> Result<hyper::Response<Payload>, Broken> {
    let (parts, body) = request.into_parts();
    let is_asked_for = parts.headers.contains_key(header::EXPECT);
    let head = Head { peer: caller.peer, secure: caller.secure, ..heads::head(parts) };
    let (clock, time_max) = (shared.app.services().clock(), shared.app.config().body_time_max);
    let mut sent = Sent { body, is_asked_for, time_max, clock, waited: Duration::ZERO };
    if let Some(response) = told(shared, &head, caller).await {
        drop(head);
        sent.discard().await?;
        return leaving(response, None, wire);
    }
    let _in_flight = shared.app.requests().begin();
    let began_ticks = shared.spans.as_ref().map(|_| clock.wall_ticks());
    let began = clock.steady();
    let received = match shared.app.receive_within(&head, began, Reach::Memory) {
        Some(received) => received,
        // Apart: only few connections ever have memory for that.
        None => Box::pin(received_aside(shared, &head, began)).await,
    };
    // While a body is awaited there is no more of the head than what will be told of it.
    let head = {
        let whole = head;
        heads::remembered(&whole, is_told_in_detail())
    };
    let call = received.as_ref().ok();
    let fault = call.and_then(|call| call.fault);
    let names = call.filter(|_| shared.spans.is_some()).map_or((None, None), |call| {
        (Some(call.address.account.clone()), call.operation.table().map(cut))
    });
    let kind = call.map(|call| call.operation.kind());
    let response = match received {
        Ok(call) => admitted(shared, &call, &mut sent, &wire.verdict).await?,
        Err(refusal) => refused(refusal, &mut sent, &wire.verdict).await?,
    };
    let took = clock.steady().saturating_sub(began);
    tell(shared, &head, &response, kind, Times { took, waited: sent.waited });
    if let (Some(spans), Some(began_ticks)) = (&shared.spans, began_ticks)
        && let Some(span) = Span::of(&head, &response, names)
    {
        spans.tell(Span { kind, began_ticks, took, ..span });
    }
    leaving(response, fault, wire)
}

/// The answer to a request that was let in, with a place if it needs one.
async fn admitted<S: Store>(
    shared: &Arc<Shared<S>>,
    call: &Arc<Call>,
    sent: &mut Sent<'_>,
    verdict: &Verdict,
) -> Result<Response, Broken> {
    if let Some(Fault::Delay { ms }) = call.fault {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    match answer(shared, call, sent).await {
        // Its body ends in nonsense, and the connection with it.
        Err(Broken::Client(_)) if verdict.is_refused() => Ok(reply::answered(call, Err(BAD_BODY))),
        answer => {
            let (response, places) = answer?;
            Ok(with_place(shared, call, response, places))
        }
    }
}

/// The answer to one that was not, once its body has been thrown away.
async fn refused(
    response: Response,
    sent: &mut Sent<'_>,
    verdict: &Verdict,
) -> Result<Response, Broken> {
    match sent.discard().await {
        Err(Broken::Client(_)) if verdict.is_refused() => Ok(response),
        discarded => discarded.map(|()| response),
    }
}

/// How long a request took, and how much of that its client took for the body.
#[derive(Clone, Copy)]
struct Times {
    took: Duration,
    waited: Duration,
}

/// Counts a request that has been answered, and tells the log of it.
fn tell<S: Store>(
    shared: &Shared<S>,
    head: &Head,
    response: &Response,
    kind: Option<Kind>,
    times: Times,
) {
    let (app, requests) = (&shared.app, shared.app.requests());
    // Whoever sends a body slowly, and need not be let in to do so, makes nothing of the server's
    // slow.
    let own_time = times.took.saturating_sub(times.waited);
    requests.answered(kind, response.status, own_time);
    if let Some(code) = response.named_error() {
        requests.refused(code);
    }
    let slow_time = app.config().slow_time.filter(|_| kind.is_some());
    let mut warning = None;
    if slow_time.is_some_and(|slow| own_time >= slow) {
        requests.slow();
        warning = shared.slow.one_more(app.services().clock().steady());
    }
    log(head, response, kind, (own_time, times.waited), warning);
}

/// An answer as it leaves, or as it is lost on purpose.
fn leaving(
    response: Response,
    fault: Option<Fault>,
    wire: Wire,
) -> Result<hyper::Response<Payload>, Broken> {
    match fault {
        Some(Fault::Lost) => Err(Broken::OnPurpose),
        Some(Fault::Cut { .. }) if response.body.is_empty() => Err(Broken::OnPurpose),
        Some(Fault::Cut { bytes }) => {
            let mut out = into_hyper(response);
            out.body_mut().cut(bytes, wire.flushes);
            Ok(out)
        }
        _ => {
            let mut out = into_hyper(response);
            if wire.verdict.is_placed() {
                out.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(out)
        }
    }
}

/// What an operator is told. At the address for operators there is nothing else.
async fn told<S: Store>(shared: &Arc<Shared<S>>, head: &Head, caller: Caller) -> Option<Response> {
    let admin = shared.admin.as_ref()?;
    if admin.hears(head, caller) {
        // Apart: only few connections ever have memory for that.
        let answer = || Box::pin(admin.answer(head));
        let Some(forks) = admin.forks_for(head) else { return Some(answer().await) };
        let (own_shared, own_head) = (shared.clone(), head.clone());
        let base = admin.tables.base(head, caller);
        let done = spawn_blocking(move || {
            testing::perform(&own_shared.app, &*forks, &own_head, admin::below(&own_head), &base)
        });
        return Some(match done.await {
            Ok(Some((status, value))) => admin::json(status, &value),
            Ok(None) => answer().await,
            Err(_) => admin::plain(500, "it failed\n"),
        });
    }
    caller.admin.then(|| admin::plain(404, "there is nothing but /_/\n"))
}

/// Whether the log is told of each request.
fn is_told_in_detail() -> bool {
    tracing::enabled!(target: "tabulith::request", tracing::Level::DEBUG)
}

/// Tells the log of a request, with the server's time and the client's time for the body. With a
/// `warning`, which says how many slow ones before it had none, those who listen for no more than
/// that are told too. Neither has what may be a secret: no header but ids, no query. The path is
/// for the detailed log alone, as it names entities.
fn log(
    head: &Head,
    response: &Response,
    kind: Option<Kind>,
    (own_time, body_time): (Duration, Duration),
    warning: Option<u64>,
) {
    if warning.is_none() && !is_told_in_detail() {
        return;
    }
    let request_id = response.get("x-ms-request-id").unwrap_or_default();
    let client_request_id = response.get("x-ms-client-request-id");
    let trace = Trace::of(&head.headers, request_id);
    let trace = trace.as_ref();
    let (trace_id, parent_id) = (trace.map(|own| &*own.id), trace.map(|own| &*own.parent));
    let span_id = trace.map(|own| &*own.span);
    let (op, status) = (label(kind), response.status);
    let [ms, body_ms] = [own_time, body_time].map(|time| time.as_secs_f64() * 1e3);
    let error = response.get("x-ms-error-code");
    if let Some(unsaid) = warning {
        tracing::warn!(
            target: "tabulith::request", op, status, ms, body_ms, error, request_id,
            client_request_id, trace_id, span_id, parent_id, unsaid, "slow request"
        );
    }
    tracing::debug!(
        target: "tabulith::request", op, status, ms, body_ms, error, request_id,
        client_request_id, trace_id, span_id, parent_id, method = head.method,
        path = head.path(), "request"
    );
}

async fn answer<S: Store>(
    shared: &Arc<Shared<S>>,
    call: &Arc<Call>,
    sent: &mut Sent<'_>,
) -> Result<Answered, Broken> {
    let size = sent.body.size_hint().exact();
    if size == Some(0) {
        return Ok(perform(shared, call, Body::Empty, Vec::new()).await);
    }
    let size = size.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    let bytes_max = call.body_bytes_max();
    if let Some(size) = size.filter(|size| *size > bytes_max) {
        // Of one that is larger still not even the end would be seen.
        if size <= BODY_DISCARD_BYTES_MAX {
            sent.discard().await?;
        }
        return Ok(perform(shared, call, Body::TooLarge, Vec::new()).await);
    }
    if !call.operation.has_body() {
        // Who may only read could declare bodies without end, and keep others from writing.
        sent.discard().await?;
        return Ok(perform(shared, call, Body::Empty, Vec::new()).await);
    }
    let leave = Leave {
        room: &shared.bodies,
        owner: shared.owner(call),
        only_reads: call.only_reads(),
        bytes_max,
        time: shared.app.time_left(call),
    };
    let mut places = Vec::new();
    let refusal = match sent.collect(size, &leave, &mut places).await? {
        Collected::Whole(body) => return Ok(perform(shared, call, body, places).await),
        Collected::TooLarge => {
            sent.discard().await?;
            return Ok(perform(shared, call, Body::TooLarge, Vec::new()).await);
        }
        Collected::NoRoom => shared.app.busy(call),
        Collected::TooLate => shared.app.timed_out(call),
    };
    sent.discard().await?;
    Ok((refusal, Vec::new()))
}

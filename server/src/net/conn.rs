//! One connection: HTTP/1.1 between the socket and the app.
//!
//! A request is admitted by its head before its body is read, so that who may not ask cannot make
//! the server hold or wait for anything.

use crate::error::BAD_BODY;
use crate::faults::fault::Fault;
use crate::handle::call::Call;
use crate::handle::reply;
use crate::http::message::{Body, Head, Response};
use crate::limits::{BODY_BYTES_MAX, BODY_DISCARD_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX};
use crate::net::admin::{self, Origin};
use crate::net::flush::{Flushes, Watched};
use crate::net::guard::{Guard, Patience, Verdict};
use crate::net::heads;
use crate::net::payload::{Broken, Payload, into_hyper};
use crate::net::sent::Sent;
use crate::net::shared::Shared;
use crate::net::work::{Answered, perform, with_place};
use crate::observe::requests::Kind;
use crate::observe::spans::Span;
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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_blocking;

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
        async move { Box::pin(respond(&shared, request, origin, wire)).await }
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
    origin: Origin,
    wire: Wire,
) -> Result<hyper::Response<Payload>, Broken> {
    let (parts, body) = request.into_parts();
    let is_asked_for = parts.headers.contains_key(header::EXPECT);
    let head = Head { peer: origin.peer, secure: origin.secure, ..heads::head(parts) };
    let (clock, time_max) = (shared.app.services().clock(), shared.app.config().body_time_max);
    let mut sent = Sent { body, is_asked_for, time_max, clock, waited: Duration::ZERO };
    if let Some(response) = told(shared, &head, origin).await {
        drop(head);
        return sent.discard().await.map(|()| into_hyper(response));
    }
    let (requests, began) = (shared.app.requests(), clock.steady());
    let _in_flight = requests.begin();
    let began_ticks = shared.spans.as_ref().map(|_| clock.wall_ticks());
    let (mut fault, mut kind, mut names) = (None, Kind::NONE, (None, None));
    let received = shared.app.receive(&head);
    // While a body is awaited there is no more of the head than what will be told of it.
    let head = {
        let whole = head;
        heads::remembered(&whole, is_told_in_detail())
    };
    let response = match received {
        Ok(call) => {
            if shared.spans.is_some() {
                let table = call.operation.table().map(str::to_owned);
                names = (Some(call.address.account.clone()), table);
            }
            fault = call.fault;
            kind = Kind::of(&call.operation);
            if let Some(Fault::Delay { ms }) = fault {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            match answer(shared, &call, &mut sent).await {
                // Its body ends in nonsense, and the connection with it.
                Err(Broken::Client(_)) if wire.verdict.is_refused() => {
                    reply::answered(&call, Err(BAD_BODY))
                }
                answer => {
                    let (response, places) = answer?;
                    with_place(shared, &call, response, places)
                }
            }
        }
        Err(response) => match sent.discard().await {
            Err(Broken::Client(_)) if wire.verdict.is_refused() => response,
            discarded => discarded.map(|()| response)?,
        },
    };
    let took = clock.steady().saturating_sub(began);
    // Whoever sends a body slowly, and need not be let in to do so, makes nothing of the server's
    // slow.
    let own_time = took.saturating_sub(sent.waited);
    requests.answered(kind, response.status, own_time);
    if let Some(code) = response.named_error() {
        requests.refused(code);
    }
    let slow_time = shared.app.config().slow_time.filter(|_| kind != Kind::NONE);
    let mut warning = None;
    if slow_time.is_some_and(|slow| own_time >= slow) {
        requests.slow();
        warning = shared.slow.one_more(clock.steady());
    }
    log(&head, &response, kind, (own_time, sent.waited), warning);
    if let (Some(spans), Some(began_ticks)) = (&shared.spans, began_ticks)
        && let Some(span) = Span::of(&head, &response, names)
    {
        spans.tell(Span { kind, began_ticks, took, ..span });
    }
    leaving(response, fault, wire)
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
async fn told<S: Store>(shared: &Arc<Shared<S>>, head: &Head, origin: Origin) -> Option<Response> {
    let admin = shared.admin.as_ref()?;
    if admin.hears(head, origin) {
        let Some(forks) = admin.forks_for(head) else { return Some(admin.answer(head)) };
        let (own_shared, own_head) = (shared.clone(), head.clone());
        let base = admin.tables.base(head, origin);
        let done = spawn_blocking(move || {
            testing::perform(&own_shared.app, &*forks, &own_head, admin::below(&own_head), &base)
        });
        return Some(match done.await {
            Ok(Some((status, value))) => admin::json(status, &value),
            Ok(None) => admin.answer(head),
            Err(_) => admin::plain(500, "it failed\n"),
        });
    }
    origin.admin.then(|| admin::plain(404, "there is nothing but /_/\n"))
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
    kind: Kind,
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
    let (op, status) = (kind.name(), response.status);
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
    if let Some(size) = size.filter(|size| *size > BODY_BYTES_MAX) {
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
    let mut places = Vec::new();
    match sent.collect(size, &shared.room, &mut places).await? {
        Some(body) => Ok(perform(shared, call, body, places).await),
        None => {
            sent.discard().await?;
            Ok((shared.app.busy(call), Vec::new()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Shared, serve};
    use crate::app::App;
    use crate::auth::canonical;
    use crate::auth::shared_key::signature_text;
    use crate::batch::changeset;
    use crate::batch::multipart::work;
    use crate::config::{Accounts, Config, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Key};
    use crate::handle::answer::{Answer, Later, Write};
    use crate::handle::call::Call;
    use crate::http::message::{Body, Head, Headers, Request, Response};
    use crate::limits::QUICK_BODY_BYTES_MAX;
    use crate::net::admin::Origin;
    use crate::net::shared::ENTITY_JSON_BYTES_MAX;
    use crate::net::work::{in_time, perform, settled, with_place, written};
    use crate::observe::text::Text;
    use crate::odata::address::entity_path;
    use hyper_util::server::graceful::GracefulShutdown;
    use std::sync::Arc;
    use std::time::Duration;
    use tabulith::db::Db;
    use tabulith::env::clock::{Clock, ManualClock, SystemClock};
    use tabulith::env::jobs::{ByHand, Jobs, Threads};
    use tabulith::table::store::TableStore;
    use tabulith::vfs::mem::SimFs;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Semaphore;

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
        let target = format!("/{DEVELOPMENT_ACCOUNT}/T(PartitionKey='',RowKey='')?timeout=7");
        let authority = "127.0.0.1".to_owned();
        signed(Head { method: "DELETE".to_owned(), target, authority, ..Head::default() })
    }

    fn signed(mut head: Head) -> Head {
        let comp = head.query().split('&').find_map(|option| option.strip_prefix("comp="));
        let resource = canonical::resource(DEVELOPMENT_ACCOUNT, head.path(), comp);
        let string = canonical::shared_key_lite("soon", &resource);
        let signature = signature_text(&Key::development(), &string);
        head.headers.push("Date", "soon");
        let authorization = format!("SharedKeyLite {DEVELOPMENT_ACCOUNT}:{signature}");
        head.headers.push("Authorization", authorization);
        head
    }

    fn shared(clock: &Arc<ManualClock>) -> Shared<Db> {
        shared_with(clock, None)
    }

    fn shared_with(clock: &Arc<ManualClock>, slow_time: Option<Duration>) -> Shared<Db> {
        shared_over(clock.clone(), Arc::new(ByHand), Config { slow_time, ..Config::default() })
    }

    fn shared_over(clock: Arc<dyn Clock>, jobs: Arc<dyn Jobs>, config: Config) -> Shared<Db> {
        let db = Db::builder().parts(Arc::new(SimFs::new()), clock.clone(), jobs);
        let tables = Arc::new(TableStore::new(Arc::new(db.open("data").expect("a database"))));
        let config = Config { date_checked: false, ..config };
        Shared::new(App::new(config, tables, clock, 1))
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().expect("a runtime").block_on(work)
    }

    /// Some clients ask each server that they meet for HTTP/2. The library gives their connections
    /// up as they are, and what still comes would have the answer reset.
    #[test]
    fn who_asks_for_another_protocol_keeps_this_one_to_its_end() {
        let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
        let answer = |more: &str| {
            let (client, server) = tokio::io::duplex(64);
            let origin = Origin { peer: None, secure: false, admin: false };
            let stop = GracefulShutdown::new();
            let head = format!(
                "GET /{DEVELOPMENT_ACCOUNT}/T() HTTP/1.1\r\nHost: h\r\n{more}Connection: close\r\n\r\n"
            );
            let (mut from, mut to) = tokio::io::split(client);
            let ask = async {
                to.write_all(head.as_bytes()).await?;
                to.write_all(&[b'x'; 1000]).await
            };
            let mut answer = String::new();
            let serve = serve(shared.clone(), server, origin, stop.watcher());
            let (asked, answered, ()) =
                run(async { tokio::join!(ask, from.read_to_string(&mut answer), serve) });
            assert!(asked.is_ok() && answered.is_ok(), "{more:?}: {asked:?} {answered:?}");
            answer.len()
        };
        let plain = answer("");
        assert!(plain > 64);
        assert_eq!(answer("Upgrade: h2c\r\n"), plain);
        assert_eq!(answer("uPGRADE:h2c\r\nUpgrade: websocket\r\n"), plain);
    }

    /// What the metrics say once a client has sent a head, waited for two seconds, and sent its
    /// body.
    fn metrics_of_slow_bodies(head: &str, slow_time: Duration, times: usize) -> String {
        let clock = Arc::new(ManualClock::at(1));
        let shared = Arc::new(shared_with(&clock, Some(slow_time)));
        for _ in 0..times {
            let (client, server) = tokio::io::duplex(4096);
            let origin = Origin { peer: None, secure: false, admin: false };
            let stop = GracefulShutdown::new();
            let (mut from, mut to) = tokio::io::split(client);
            let ask = async {
                to.write_all(head.as_bytes()).await.expect("room");
                tokio::time::sleep(Duration::from_millis(1)).await;
                clock.advance(Duration::from_secs(2));
                to.write_all(b"{}").await.expect("room");
            };
            let mut answer = String::new();
            let serve = serve(shared.clone(), server, origin, stop.watcher());
            let (_, answered, ()) =
                run(async { tokio::join!(ask, from.read_to_string(&mut answer), serve) });
            answered.expect("an answer");
        }
        let mut text = Text::default();
        shared.app.requests().write(&mut text);
        text.finish()
    }

    /// A head as it goes over the wire, and that of a body of two bytes.
    fn wire(head: &Head) -> String {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", head.method, head.target);
        for (name, value) in head.headers.iter() {
            text += &format!("{name}: {value}\r\n");
        }
        text + "Content-Length: 2\r\nConnection: close\r\n\r\n"
    }

    #[test]
    fn what_a_client_takes_to_send_a_body_is_not_the_servers_time() {
        let target = format!("/{DEVELOPMENT_ACCOUNT}/T(PartitionKey='',RowKey='')");
        let put = Head { method: "PUT".to_owned(), target, ..Head::default() };
        let refused = wire(&Head { headers: Headers::default(), ..put.clone() });
        let admitted = wire(&signed(put));
        let without_body = wire(&delete());
        for (head, op) in
            [(&refused, "none"), (&admitted, "insert_or_replace"), (&without_body, "delete")]
        {
            let text = metrics_of_slow_bodies(head, Duration::from_secs(1), 1);
            assert!(
                text.contains(&format!("tabulith_request_seconds_sum{{op=\"{op}\"}} 0\n")),
                "{text}"
            );
            assert!(text.contains("tabulith_requests_slow_total 0\n"), "{text}");
        }
        // Who is not let in is never slow; of those who are each is.
        let slow = |head: &str| metrics_of_slow_bodies(head, Duration::ZERO, 3);
        assert!(slow(&refused).contains("tabulith_requests_slow_total 0\n"));
        assert!(slow(&admitted).contains("tabulith_requests_slow_total 3\n"));
    }

    #[test]
    fn who_waits_for_a_commit_waits_no_longer_than_asked() {
        let clock = Arc::new(ManualClock::at(1));
        let shared = shared(&clock);
        let call = shared.app.receive(&delete()).expect("admitted");
        let left = shared.app.time_left(&call);
        assert_eq!(left, Duration::from_secs(7));
        clock.advance(left);
        let answer = run(async {
            let never = settled(&call, Answer::Later(Box::new(Never)));
            in_time(&shared, &call, async { (never.await, Vec::new()) }).await.0
        });
        assert_eq!(
            (answer.status, answer.get("x-ms-error-code")),
            (500, Some("OperationTimedOut"))
        );
    }

    /// A commit that is done, and says which thread writes its answer.
    struct Done;

    impl Later for Done {
        fn wait(self: Box<Self>) -> Response {
            Response::new(204)
        }

        fn notify(self: Box<Self>, done: Box<dyn FnOnce(Write) + Send>) {
            done(Box::new(|| {
                let mut response = Response::new(204);
                response.header("thread", format!("{:?}", std::thread::current().id()));
                response
            }));
        }
    }

    /// The JSON of a hundred entities takes some 100 ms, for which all of a thread's connections
    /// would wait.
    #[test]
    fn the_answer_to_a_large_body_is_not_written_on_the_event_loop() {
        let shared = shared(&Arc::new(ManualClock::at(1)));
        let call = shared.app.receive(&delete()).expect("admitted");
        let own_thread = format!("{:?}", std::thread::current().id());
        let is_written_here = |shared: &Shared<Db>, body_bytes| {
            let later = Answer::Later(Box::new(Done));
            let (answer, _) = run(written(shared, &call, later, Vec::new(), body_bytes));
            answer.get("thread") == Some(own_thread.as_str())
        };
        assert!(is_written_here(&shared, QUICK_BODY_BYTES_MAX));
        assert!(!is_written_here(&shared, QUICK_BODY_BYTES_MAX + 1));
        let without_threads = Shared { has_threads: false, ..shared };
        assert!(is_written_here(&without_threads, QUICK_BODY_BYTES_MAX + 1));
    }

    /// A batch whose one part is that text, admitted.
    fn batch(shared: &Shared<Db>, part: &str) -> (Arc<Call>, Body) {
        let (target, authority) =
            (format!("/{DEVELOPMENT_ACCOUNT}/$batch"), "127.0.0.1".to_owned());
        let head = Head { method: "POST".to_owned(), target, authority, ..Head::default() };
        let mut head = signed(head);
        let body = format!("GET \r\n--b\r\n{part}\r\n--b--\r\n");
        head.headers.push("Content-Type", "multipart/mixed; boundary=b");
        head.headers.push("Content-Length", body.len().to_string());
        (shared.app.receive(&head).expect("admitted"), Body::Whole(body.into()))
    }

    /// It was read for its turns, and once more where it was worked on.
    #[test]
    fn a_batch_is_read_once() {
        let shared = shared(&Arc::new(ManualClock::at(1)));
        let shared = Arc::new(Shared { has_threads: false, ..shared });
        let query = "Content-Type: application/http\r\n\r\nGET /T() HTTP/1.1\r\n\r\n";
        let (call, body) = batch(&shared, &(query.to_owned() + &"x".repeat(10_000)));
        let Body::Whole(bytes) = &body else { panic!("no body") };
        let _ = work::since();
        assert!(changeset::read(&call.content_type, bytes).is_ok());
        let once = work::since();
        let (response, _) = run(perform(&shared, &call, body, Vec::new()));
        assert_eq!(response.status, 202);
        let looked_at = work::since();
        assert!(once > 10_000 && looked_at < once + 1_000, "{looked_at} bytes, not {once}");
    }

    /// Who could else keep others from what he does not do: a query with the text `MERGE` held a
    /// turn to merge while it waited for a page's, and a few hundred merges that waited for theirs
    /// every commit's.
    #[test]
    fn who_waits_for_a_turn_holds_none_that_others_need() {
        let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
        let free =
            || [&shared.merges, &shared.commits, &shared.turns].map(|t| t.available_permits());
        let check = |part: &str, lacking: &Semaphore, held: [usize; 3]| {
            let (call, body) = batch(&shared, part);
            let all = free();
            run(async {
                let others = u32::try_from(lacking.available_permits()).expect("a few");
                let others = lacking.acquire_many(others).await.expect("never closed");
                let left = free();
                let waiting = perform(&shared, &call, body, Vec::new());
                let mut waiting = std::pin::pin!(waiting);
                let soon = Duration::from_secs(1);
                let ended = tokio::time::timeout(soon, waiting.as_mut()).await.is_ok();
                let taken = [0, 1, 2].map(|at| left[at] - free()[at]);
                assert_eq!((ended, taken), (false, held), "{part}");
                drop(others);
                let (response, _) = waiting.await;
                assert_eq!(response.status, 202, "{part}");
            });
            assert_eq!(free(), all, "{part}");
        };
        let query = "Content-Type: application/http\r\n\r\nGET /T() HTTP/1.1\r\nMERGE: PATCH\r\n";
        check(query, &shared.turns, [0, 0, 0]);
        let change_set = |verb: &str| {
            format!(
                "Content-Type: multipart/mixed; boundary=c\r\n\r\nGET \r\n--c\r\n\r\n\
                 {verb} /T(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\r\n{{}}\r\n--c--"
            )
        };
        check(&change_set("MERGE"), &shared.merges, [0, 0, 0]);
        check(&change_set("PUT"), &shared.commits, [0, 0, 0]);
        check(&change_set("PATCH"), &shared.commits, [1, 0, 0]);
    }

    /// A change set of 100 inserts whose answer repeats four times what takes most, the keys.
    fn inserts(shared: &Shared<Db>, partition_key: &str) -> (Arc<Call>, Body) {
        let insert = |row: usize| {
            format!(
                "--c\r\n\r\nPOST /Rows HTTP/1.1\r\nAccept: application/json;odata=fullmetadata\r\n\r\n\
                 {{\"PartitionKey\":\"{partition_key}\",\"RowKey\":\"{}\"}}\r\n",
                row_key(row)
            )
        };
        let parts: String = (0..100).map(insert).collect();
        batch(shared, &format!("Content-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--"))
    }

    fn row_key(row: usize) -> String {
        format!("{row:04}{}", "\u{4e00}".repeat(1020))
    }

    /// They were given without a place, as what they tell has happened, and kept that of their
    /// body: 6.8 MB in one of 1.3, for as long as a client took nothing of them.
    #[test]
    fn answers_to_inserts_have_their_room_before_anything_is_inserted() {
        let keys = ["\u{4e00}", "\u{4e01}"].map(|unit| unit.repeat(1024));
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().expect("a runtime");
        // All of the room, some of it, or too little for what the body's place lacks; none.
        for (answer_bytes_max, statuses) in
            [(64 << 20, [202, 202]), (6 << 20, [202, 503]), (1 << 20, [202, 503]), (0, [503, 503])]
        {
            let config = Config { answer_bytes_max, ..Config::default() };
            let shared =
                Arc::new(shared_over(Arc::new(SystemClock::new()), Arc::new(Threads), config));
            let ask = |method: &str, path: &str, body: &str| {
                let target = format!("/{DEVELOPMENT_ACCOUNT}/{path}");
                let authority = "127.0.0.1".to_owned();
                let head = Head { method: method.to_owned(), target, authority, ..Head::default() };
                let mut head = signed(head);
                head.headers.push("Content-Length", body.len().to_string());
                shared
                    .app
                    .answer(Request { head, body: Body::Whole(body.to_owned().into()) })
                    .status
            };
            assert_eq!(ask("POST", "Tables", "{\"TableName\":\"Rows\"}"), 201);
            let taken_bytes = || shared.room.taken_bytes() + shared.answers.taken_bytes();
            let mut answers = Vec::new();
            for (key, status) in keys.iter().zip(statuses) {
                let (call, body) = inserts(&shared, key);
                let Body::Whole(bytes) = &body else { panic!("no body") };
                let place = shared.room.take(bytes.len()).expect("room");
                let (response, places) =
                    runtime.block_on(perform(&shared, &call, body, vec![place]));
                let response = with_place(&shared, &call, response, places);
                assert_eq!(response.status, status, "{answer_bytes_max}");
                let is_there = ask("GET", &entity_path("Rows", key, &row_key(0)), "") == 200;
                assert_eq!(is_there, status == 202, "{answer_bytes_max}");
                answers.push(response);
                // One that is larger than all of the room is one at a time.
                let bytes = answers.iter().map(|answer| answer.body.len());
                let bytes: usize =
                    bytes.filter(|bytes| *bytes > crate::net::room::SMALL_BYTES_MAX).sum();
                let is_bound = taken_bytes() >= bytes || shared.answers.bytes() == 1 << 20;
                assert!(is_bound, "{bytes} bytes in {}", taken_bytes());
            }
            let bytes = answers.iter().map(|answer| answer.body.len()).max();
            assert_eq!(bytes > Some(6_500_000), statuses != [503, 503], "{bytes:?}");
            drop(answers);
            assert_eq!(taken_bytes(), 0);
        }
    }

    /// Who took nothing of his pages could have all of the room, and pages of all other accounts
    /// were refused.
    #[test]
    fn an_account_leaves_room_for_the_answers_of_others() {
        let answers_that_nobody_takes = |accounts: &str| {
            let accounts = Accounts::parse(accounts).expect("accounts");
            let config = Config { answer_bytes_max: 16 << 20, accounts, ..Config::default() };
            let shared = shared_over(Arc::new(ManualClock::at(1)), Arc::new(ByHand), config);
            let call = shared.app.receive(&delete()).expect("admitted");
            let answer = || {
                let response = Response { body: vec![b'x'; 1 << 20].into(), ..Response::new(200) };
                Some(with_place(&shared, &call, response, Vec::new()))
            };
            let given = std::iter::from_fn(|| answer().filter(|answer| answer.status == 200));
            given.collect::<Vec<_>>().len()
        };
        let own = format!("{DEVELOPMENT_ACCOUNT}:{DEVELOPMENT_KEY}");
        assert_eq!(answers_that_nobody_takes(&own), 8);
        assert_eq!(answers_that_nobody_takes(&format!("{own};another1:YWJj")), 6);
    }

    /// Settings of one account, or tables, change one after the other: 256 who waited for that
    /// could else keep everybody from committing.
    #[test]
    fn changes_of_settings_and_tables_leave_turns_to_other_commits() {
        let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
        for (method, path, body, status) in [
            ("POST", "/Tables", "{\"TableName\":\"Rows\"}", 201),
            ("PUT", "/Rows?comp=acl", "<SignedIdentifiers />", 204),
            ("PUT", "/?restype=service&comp=properties", "<StorageServiceProperties />", 202),
            ("DELETE", "/Tables('Rows')", "", 204),
        ] {
            let (target, authority) = (format!("/{DEVELOPMENT_ACCOUNT}{path}"), "h".to_owned());
            let head = Head { method: method.to_owned(), target, authority, ..Head::default() };
            let mut head = signed(head);
            head.headers.push("Content-Length", body.len().to_string());
            let call = shared.app.receive(&head).expect("admitted");
            run(async {
                let others = shared.serial.acquire_many(16).await.expect("never closed");
                let body = Body::Whole(body.to_owned().into());
                let waiting = perform(&shared, &call, body, Vec::new());
                let mut waiting = std::pin::pin!(waiting);
                let soon = Duration::from_secs(1);
                let ended = tokio::time::timeout(soon, waiting.as_mut()).await.is_ok();
                let taken = 256 - shared.commits.available_permits();
                assert_eq!((ended, taken), (false, 0), "{path}");
                drop(others);
                let (response, _) = waiting.await;
                assert_eq!(response.status, status, "{path}");
            });
            assert_eq!(shared.serial.available_permits(), 16);
        }
    }

    /// Threads that wait for the disk could else hold several GiB of entities and their answers.
    #[test]
    fn reads_that_may_need_the_disk_are_as_many_as_have_room_for_their_answers() {
        let shared = Arc::new(shared(&Arc::new(ManualClock::at(1))));
        let reads_bytes = shared.reads.available_permits() * 2 * ENTITY_JSON_BYTES_MAX;
        assert!(reads_bytes <= shared.app.config().answer_bytes_max, "{reads_bytes} bytes");
        // Whether a request waits while others have all of those turns. It is answered after that.
        let waits = |path: &str, as_of: Option<&str>, turns: &Semaphore| {
            let (target, authority) = (format!("/{DEVELOPMENT_ACCOUNT}{path}"), "h".to_owned());
            let head = Head { method: "GET".to_owned(), target, authority, ..Head::default() };
            let mut head = signed(head);
            if let Some(as_of) = as_of {
                head.headers.push("x-tabulith-as-of", as_of);
            }
            let call = shared.app.receive(&head).expect("admitted");
            run(async {
                let all = u32::try_from(turns.available_permits()).expect("a few");
                let others = turns.acquire_many(all).await.expect("never closed");
                let answer = perform(&shared, &call, Body::Empty, Vec::new());
                let mut answer = std::pin::pin!(answer);
                let soon = Duration::from_secs(1);
                let waits = tokio::time::timeout(soon, answer.as_mut()).await.is_err();
                drop(others);
                if waits {
                    let (response, _) = answer.await;
                    assert!(response.status < 500, "{path}: {}", response.status);
                }
                waits
            })
        };
        let (entity, past) = ("/T(PartitionKey='',RowKey='')", Some("2026-11-22T14:05:00Z"));
        assert!(waits(entity, past, &shared.reads), "the past is on the disk");
        assert!(waits("/Tables", None, &shared.reads));
        assert!(waits("/$metadata", None, &shared.turns), "it may be as large as a page");
        assert!(!waits(entity, None, &shared.reads), "memory says that there is none");
        assert!(!waits("/Tables('T')", None, &shared.reads), "a name is small");
    }
}

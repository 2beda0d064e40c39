//! Calls over HTTP: signed, kept alive, retried while the other side is away or busy.

use crate::client::error::{CallError, Refusal};
use crate::client::sign::{self, Signed};
use crate::connect::{Connection, Credential};
use crate::print;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;
use tabulith::env::clock::{Clock, SystemClock};

/// Longest wait for one answer. The service gives up after 30 s itself.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// Most bytes of an answer: a page of 1,000 rows of 1 MiB, which JSON may write longer.
const ANSWER_BYTES_MAX: usize = 2 << 30;

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// The version of the protocol that requests name: the one most SDKs send.
const SERVICE_VERSION: &str = "2019-02-02";

/// How long a call goes on trying while nobody answers or the service is busy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(pub(crate) Duration);

impl Patience {
    /// For a first call: a wrong address should be told soon.
    pub(crate) const SHORT: Patience = Patience(Duration::from_secs(2));
}

/// One call, before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The verb.
    pub(crate) method: Method,
    /// The path below the account, encoded.
    pub(crate) path: String,
    /// Query parameters, names as they are and values not yet encoded.
    pub(crate) query: Vec<(&'static str, String)>,
    /// Headers beside those that every call has.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// The body's type; empty where there is no body.
    pub(crate) content_type: &'static str,
    /// The body.
    pub(crate) body: Bytes,
}

impl Call {
    /// A call without a body.
    pub(crate) fn get(path: String) -> Call {
        Call {
            method: Method::GET,
            path,
            query: Vec::new(),
            headers: Vec::new(),
            content_type: "",
            body: Bytes::new(),
        }
    }
}

/// An answer with a status of 2xx.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its headers.
    pub(crate) headers: HeaderMap<HeaderValue>,
    /// Its body.
    pub(crate) body: Bytes,
}

/// A client of one account.
pub(crate) struct HttpClient {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    connection: Connection,
    clock: SystemClock,
}

impl HttpClient {
    /// A client that has not connected yet.
    pub(crate) fn new(connection: Connection) -> HttpClient {
        let mut connector = HttpConnector::new();
        // A batch is one write; waiting to fill a packet only delays it.
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(10)));
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        HttpClient { http, connection, clock: SystemClock::new() }
    }

    /// The address that calls go to, with the account.
    pub(crate) fn endpoint(&self) -> &str {
        &self.connection.endpoint
    }

    /// Makes a call, again and again while it fails in a passing way and `patience` lasts.
    pub(crate) async fn call(&self, call: &Call, patience: Patience) -> Result<Answer, CallError> {
        let start = self.clock.steady();
        let mut backoff = BACKOFF_FIRST;
        loop {
            let error = match self.attempt(call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let passing = match &error {
                CallError::Unreachable { .. } => true,
                CallError::Refused(refusal) => refusal.is_passing(),
                CallError::Garbled(_) => false,
            };
            let waited = self.clock.steady().saturating_sub(start);
            if !passing || waited + backoff > patience.0 {
                return Err(error);
            }
            if backoff == BACKOFF_MAX {
                let left = patience.0.saturating_sub(waited).as_secs();
                print::note(&format!("waiting for {}: {left} s left", self.endpoint()));
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    async fn attempt(&self, call: &Call) -> Result<Answer, CallError> {
        let request = self.request(call)?;
        let exchange = async {
            let answer = self.http.request(request).await.map_err(|error| innermost(&error))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            Ok((head, body.map_err(|error| error.to_string())?.to_bytes()))
        };
        let (head, body) = match tokio::time::timeout(ANSWER_TIME_MAX, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(cause)) => return Err(self.unreachable(cause)),
            Err(_) => {
                let seconds = ANSWER_TIME_MAX.as_secs();
                return Err(self.unreachable(format!("no answer within {seconds} s")));
            }
        };
        if !head.status.is_success() {
            return Err(CallError::Refused(Refusal::read(head.status.as_u16(), &body)));
        }
        Ok(Answer { headers: head.headers, body })
    }

    fn unreachable(&self, cause: String) -> CallError {
        CallError::Unreachable { endpoint: self.connection.endpoint.clone(), cause }
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, CallError> {
        let mut target = format!("{}{}", self.connection.endpoint, call.path);
        let mut separator = '?';
        for (name, value) in &call.query {
            target.push_str(&format!("{separator}{name}={}", sign::percent(value)));
            separator = '&';
        }
        if let Credential::Signature(token) = &self.connection.credential {
            target.push_str(&format!("{separator}{token}"));
        }
        let date = self.date();
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(&target)
            .header("x-ms-date", &date)
            .header("x-ms-version", SERVICE_VERSION)
            .header("Accept", "application/json;odata=minimalmetadata")
            .header("DataServiceVersion", "3.0;NetFx")
            .header("MaxDataServiceVersion", "3.0;NetFx");
        if !call.content_type.is_empty() {
            request = request.header("Content-Type", call.content_type);
        }
        for (name, value) in &call.headers {
            request = request.header(*name, *value);
        }
        if let (Credential::Key(key), Some(uri)) = (&self.connection.credential, request.uri_ref())
        {
            let signed = Signed {
                method: call.method.as_str(),
                content_type: call.content_type,
                date: &date,
                path: uri.path(),
            };
            let proof = sign::authorization(&self.connection.account, key, signed);
            request = request.header("Authorization", proof);
        }
        request
            .body(Full::new(call.body.clone()))
            .map_err(|error| CallError::Garbled(format!("no request can be made: {error}")))
    }

    fn date(&self) -> String {
        let seconds = (self.clock.wall_ticks() / 10_000_000).cast_signed();
        let moment = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        printer.timestamp_to_rfc9110_string(&moment).unwrap_or_default()
    }
}

/// The last cause in a chain: the outer ones only say "client error" and "connect error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

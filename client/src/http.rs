//! Calls over HTTP and HTTPS: signed, kept alive, made again while they may still succeed.

use crate::address::percent;
use crate::connection::{Connection, Credential};
use crate::error::{Error, Refusal};
use crate::retry::Retry;
use crate::sign::{Signed, authorization};
use crate::trust::{NoTrust, Trust, disbelief};
use crate::world::{Machine, Waiting, World};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The version of the protocol that requests name: the one most SDKs send.
const SERVICE_VERSION: &str = "2019-02-02";

/// The version that SDKs name with a bearer token; older ones know none.
const BEARER_VERSION: &str = "2020-12-06";

const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// How a client behaves, whatever it talks to.
#[derive(Clone)]
pub struct Options {
    /// When calls are made again.
    pub retry: Retry,
    /// Whose certificates are believed, where the endpoint begins with `https://`.
    pub trust: Trust,
    /// Time and chance.
    pub world: Arc<dyn World>,
    /// Longest wait for one answer. Default: 60 s; the service gives up after 30 s itself.
    pub answer_time_max: Duration,
    /// Most bytes of an answer. Default: 2 GiB, a page of 1,000 entities of 1 MiB, which JSON may
    /// write longer. A larger answer is an error, and is not asked for again.
    pub answer_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            retry: Retry::default(),
            trust: Trust::default(),
            world: Arc::new(Machine::default()),
            answer_time_max: Duration::from_secs(60),
            answer_bytes_max: 2 << 30,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("retry", &self.retry)
            .field("trust", &self.trust)
            .field("answer_time_max", &self.answer_time_max)
            .field("answer_bytes_max", &self.answer_bytes_max)
            .finish_non_exhaustive()
    }
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
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The body's type; empty where there is no body.
    pub(crate) content_type: String,
    /// The body.
    pub(crate) body: Bytes,
    /// Whether it goes to the second region.
    pub(crate) to_secondary: bool,
}

impl Call {
    /// A call without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Call {
        Call {
            method,
            path: path.into(),
            query: Vec::new(),
            headers: Vec::new(),
            content_type: String::new(),
            body: Bytes::new(),
            to_secondary: false,
        }
    }

    /// The call with a query parameter.
    pub(crate) fn query(mut self, name: &'static str, value: impl Into<String>) -> Call {
        self.query.push((name, value.into()));
        self
    }

    /// The call with a header.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Call {
        self.headers.push((name, value.into()));
        self
    }

    /// The call with a body.
    pub(crate) fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Call {
        self.content_type = content_type.to_owned();
        self.body = body.into();
        self
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

impl Answer {
    /// A header's text.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        header(&self.headers, name)
    }

    /// The text of a header that says where the answer goes on. One that is no text is an error:
    /// passed over, it would make the answer end here.
    pub(crate) fn continuation(&self, name: &str) -> Result<Option<String>, Error> {
        let text = self.headers.get(name).map(|value| value.to_str().map(str::to_owned));
        text.transpose().map_err(|_| Error::Garbled(format!("the header {name} is no text")))
    }
}

fn header(headers: &HeaderMap<HeaderValue>, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

type Pool = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

struct Shared {
    pool: Result<Pool, NoTrust>,
    connection: Connection,
    options: Options,
}

/// A client of one account; clones share their connections.
#[derive(Clone)]
pub(crate) struct Http {
    shared: Arc<Shared>,
    retry: Retry,
}

impl Http {
    /// A client that has not connected yet.
    pub(crate) fn new(connection: Connection, options: Options) -> Http {
        let secure = [&connection.endpoint, &connection.secondary]
            .iter()
            .any(|endpoint| endpoint.starts_with("https://"));
        // The machine's list is read only where somebody has to be believed.
        let pool = if secure { pool(&options.trust) } else { pool(&Trust::nobody()) };
        let retry = options.retry;
        Http { shared: Arc::new(Shared { pool, connection, options }), retry }
    }

    /// The same client with another rule for retries.
    pub(crate) fn with_retry(&self, retry: Retry) -> Http {
        Http { shared: self.shared.clone(), retry }
    }

    /// What it talks to.
    pub(crate) fn connection(&self) -> &Connection {
        &self.shared.connection
    }

    /// Makes a call, again and again while it fails in a passing way and the rule allows it. An
    /// error is that of the last attempt, and knows whether any of them may have been done.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, Error> {
        self.call_and(call, Ok).await
    }

    /// As `call`, where only `read` knows whether the answer is a refusal.
    pub(crate) async fn call_and<T>(
        &self,
        call: &Call,
        read: impl Fn(Answer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let world = &self.shared.options.world;
        let start = world.steady();
        let mut earlier_maybe_done = false;
        let mut retry = 0;
        loop {
            let error = match self.attempt(call).await.and_then(&read) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let (passing, asked) = match &error {
                Error::Unreachable { .. } => (true, None),
                Error::Refused(refusal) => (refusal.is_passing(), refusal.retry_after),
                _ => (false, None),
            };
            retry += 1;
            let spent = world.steady().saturating_sub(start);
            let wait =
                if passing { self.retry.wait(retry, spent, asked, world.chance()) } else { None };
            let endpoint = self.endpoint(call);
            let Some(wait) = wait else {
                return Err(if earlier_maybe_done { error.after_loss(endpoint) } else { error });
            };
            earlier_maybe_done |= error.maybe_done();
            world.waiting(&Waiting { endpoint, error: &error, retry, wait, spent });
            world.sleep(wait).await;
        }
    }

    fn endpoint(&self, call: &Call) -> &str {
        let connection = self.connection();
        if call.to_secondary { &connection.secondary } else { &connection.endpoint }
    }

    async fn attempt(&self, call: &Call) -> Result<Answer, Error> {
        let token = self.token(call).await?;
        let request = self.request(call, token.as_deref())?;
        let pool = self.shared.pool.as_ref();
        let pool = pool.map_err(|error| Error::Invalid(error.to_string()))?;
        let unreachable = |cause: String, maybe_done| Error::Unreachable {
            endpoint: self.endpoint(call).to_owned(),
            cause,
            maybe_done,
        };
        let Options { answer_time_max, answer_bytes_max, .. } = self.shared.options;
        let exchange = async {
            let answer = pool.request(request).await.map_err(|error| match disbelief(&error) {
                Some(cause) => {
                    let endpoint = self.endpoint(call).to_owned();
                    Error::Untrusted { endpoint, cause, maybe_done: false }
                }
                None => unreachable(innermost(&error), !error.is_connect()),
            });
            let (head, body) = answer?.into_parts();
            let body = Limited::new(body, answer_bytes_max).collect().await;
            let body = body.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    Error::Garbled(format!("more than {answer_bytes_max} bytes"))
                } else {
                    unreachable(innermost(error.as_ref()), true)
                }
            })?;
            Ok::<_, Error>((head, body.to_bytes()))
        };
        let (head, body) = match tokio::time::timeout(answer_time_max, exchange).await {
            Ok(answer) => answer?,
            Err(_) => {
                let cause = format!("no answer within {} s", answer_time_max.as_secs());
                return Err(unreachable(cause, true));
            }
        };
        if head.status.is_success() {
            return Ok(Answer { headers: head.headers, body });
        }
        let mut refusal = Refusal::read(head.status.as_u16(), &body)
            .or_code(header(&head.headers, "x-ms-error-code"));
        let own = refusal.request_id.take();
        refusal.request_id = header(&head.headers, "x-ms-request-id").or(own);
        refusal.retry_after = retry_after(&head.headers);
        Err(Error::Refused(Box::new(refusal)))
    }

    /// The bearer token for a call, where tokens are what proves who asks.
    async fn token(&self, call: &Call) -> Result<Option<String>, Error> {
        let Credential::Bearer(source) = &self.connection().credential else { return Ok(None) };
        if !self.endpoint(call).starts_with("https://") {
            return Err(Error::Invalid("a bearer token goes over HTTPS only".to_owned()));
        }
        let token = source.token().await;
        token.map(Some).map_err(|error| Error::Invalid(format!("no bearer token: {error}")))
    }

    fn request(&self, call: &Call, token: Option<&str>) -> Result<Request<Full<Bytes>>, Error> {
        let connection = self.connection();
        let mut target = format!("{}{}", self.endpoint(call), call.path);
        let mut separator = '?';
        for (name, value) in &call.query {
            target.push_str(&format!("{separator}{name}={}", percent(value)));
            separator = '&';
        }
        if let Credential::Signature(token) = &connection.credential {
            target.push_str(&format!("{separator}{token}"));
        }
        let date = self.date();
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(&target)
            .header("x-ms-date", &date)
            .header("x-ms-version", if token.is_some() { BEARER_VERSION } else { SERVICE_VERSION })
            .header("x-ms-client-request-id", uuid::Uuid::new_v4().to_string())
            .header("Accept", "application/json;odata=minimalmetadata")
            .header("DataServiceVersion", "3.0;NetFx")
            .header("MaxDataServiceVersion", "3.0;NetFx");
        if !call.content_type.is_empty() {
            request = request.header("Content-Type", &call.content_type);
        }
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let (Credential::Key(key, scheme), Some(uri)) =
            (&connection.credential, request.uri_ref())
        {
            let comp = call.query.iter().find(|(name, _)| *name == "comp");
            let signed = Signed {
                method: call.method.as_str(),
                content_type: &call.content_type,
                date: &date,
                path: uri.path(),
                comp: comp.map_or("", |(_, value)| value),
            };
            let proof = authorization(*scheme, &connection.account, key, signed);
            request = request.header("Authorization", proof);
        }
        // What was refused here has a name or an ETag that no address or header can hold.
        request
            .body(Full::new(call.body.clone()))
            .map_err(|error| Error::Invalid(format!("no request can be made: {error}")))
    }

    fn date(&self) -> String {
        let wall = self.shared.options.world.wall().as_secs();
        let moment = i64::try_from(wall).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        let moment = moment.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        printer.timestamp_to_rfc9110_string(&moment).unwrap_or_default()
    }
}

fn pool(trust: &Trust) -> Result<Pool, NoTrust> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    // A batch is one write; waiting to fill a packet only delays it.
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIME_MAX));
    let connector = HttpsConnector::from((connector, trust.config()?));
    Ok(legacy::Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
}

/// What the service asks for: milliseconds in its own header, or whole seconds. A date is passed
/// over.
fn retry_after(headers: &HeaderMap<HeaderValue>) -> Option<Duration> {
    let number = |name: &str| header(headers, name)?.trim().parse::<u64>().ok();
    let own = number("x-ms-retry-after-ms").or_else(|| number("retry-after-ms"));
    own.map(Duration::from_millis).or_else(|| number("retry-after").map(Duration::from_secs))
}

/// The last cause in a chain: the outer ones only say "client error" and "connect error".
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

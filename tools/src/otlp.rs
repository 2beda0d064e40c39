//! Spans of requests by OTLP over HTTP, in the words of OpenTelemetry's conventions for servers and
//! databases.
//!
//! `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_EXPORTER_OTLP_[TRACES_]ENDPOINT`,
//! `…_HEADERS` and `…_TIMEOUT` mean what they mean elsewhere. Absent: `url.path` and `url.query`,
//! which the conventions ask for, as they name entities and carry signatures; other protocols than
//! http/protobuf.

use crate::exit::Failure;
use crate::print::note;
use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tabulith_client::Trust;
use tabulith_server::observe::requests::label;
use tabulith_server::observe::spans::{Export, Sending, Span};
use tabulith_server::operations::Kind;

/// How long a batch may take, where nothing else is said: what the specification says.
const TIME_MAX: Duration = Duration::from_secs(10);

/// More of an answer means nothing.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Where spans of all kinds go below the address of a collector.
const PATH: &str = "/v1/traces";

/// Verbs that the conventions know; names of spans have no other.
const VERBS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Who sends spans to the collector that a flag or variable names; none where none is named.
pub(crate) fn export(endpoint: Option<&str>) -> Result<Option<Arc<dyn Export>>> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    if variable("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    // The one for traces is taken as it is.
    let own = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let all = endpoint.map(str::to_owned).or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
    let all = all.map(|text| format!("{}{PATH}", text.trim().trim_end_matches('/')));
    // A flag is about this server, a variable about all that run here.
    let url = if endpoint.is_some() { all } else { own.or(all) };
    let Some(url) = url else { return Ok(None) };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(Failure::usage(format!(
            "--otlp-endpoint {url}: http:// or https:// is needed"
        ))
        .into());
    }
    if let Some(other) = variable("OTEL_EXPORTER_OTLP_PROTOCOL").filter(|p| p != "http/protobuf") {
        note(&format!("OTEL_EXPORTER_OTLP_PROTOCOL {other} is not spoken here: http/protobuf is"));
    }
    let time_max = variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
        .or_else(|| variable("OTEL_EXPORTER_OTLP_TIMEOUT"))
        .and_then(|text| text.trim().parse().ok())
        .map_or(TIME_MAX, Duration::from_millis);
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Client::new(time_max, url.starts_with("https://"))?)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&url)
        .with_timeout(time_max)
        .build()
        .with_context(|| format!("--otlp-endpoint {url}"))?;
    exporter.set_resource(&resource());
    let version = env!("CARGO_PKG_VERSION");
    let scope = InstrumentationScope::builder("tabulith").with_version(version).build();
    Ok(Some(Arc::new(Otlp { exporter, scope })))
}

/// What this server is, with what variables say of it.
fn resource() -> Resource {
    let named = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"].iter().any(|name| {
        std::env::var(name)
            .is_ok_and(|text| *name == "OTEL_SERVICE_NAME" || text.contains("service.name="))
    });
    let builder = Resource::builder();
    let builder = if named { builder } else { builder.with_service_name("tabulith") };
    builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build()
}

/// The way to a collector.
#[derive(Debug)]
struct Otlp {
    exporter: SpanExporter,
    scope: InstrumentationScope,
}

impl Export for Otlp {
    fn send(&self, batch: Vec<Span>) -> Sending<'_> {
        Box::pin(async move {
            let batch = batch.into_iter().map(|span| data(span, &self.scope)).collect();
            self.exporter.export(batch).await.map_err(|error| error.to_string())
        })
    }
}

/// A span in OpenTelemetry's words.
fn data(span: Span, scope: &InstrumentationScope) -> SpanData {
    let id = |text: &str| SpanId::from_hex(text).unwrap_or(SpanId::INVALID);
    let trace = TraceId::from_hex(&span.trace.id).unwrap_or(TraceId::INVALID);
    let own = id(&span.trace.span);
    let start_time = UNIX_EPOCH + Duration::from_nanos(span.began_ticks.saturating_mul(100));
    let status = if span.status >= 500 { Status::error("") } else { Status::Unset };
    let verb = if VERBS.contains(&&*span.method) { &*span.method } else { "HTTP" };
    let name = match span.kind.map(Kind::route) {
        Some(route) => format!("{verb} {route}"),
        None => verb.to_owned(),
    };
    SpanData {
        span_context: SpanContext::new(
            trace,
            own,
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        ),
        parent_span_id: id(&span.trace.parent),
        parent_span_is_remote: !span.trace.parent.is_empty(),
        span_kind: SpanKind::Server,
        name: Cow::Owned(name),
        start_time,
        end_time: start_time + span.took,
        attributes: attributes(span),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: scope.clone(),
    }
}

fn attributes(span: Span) -> Vec<KeyValue> {
    let mut all = vec![
        KeyValue::new("http.response.status_code", i64::from(span.status)),
        KeyValue::new("url.scheme", if span.secure { "https" } else { "http" }),
        KeyValue::new("network.protocol.version", "1.1"),
        KeyValue::new("db.system.name", "tabulith"),
        KeyValue::new("db.operation.name", label(span.kind)),
        KeyValue::new("azure.service.request.id", span.request_id),
    ];
    if VERBS.contains(&&*span.method) {
        all.push(KeyValue::new("http.request.method", span.method));
    } else {
        all.push(KeyValue::new("http.request.method", "_OTHER"));
        all.push(KeyValue::new("http.request.method_original", span.method));
    }
    if let Some(route) = span.kind.map(Kind::route) {
        all.push(KeyValue::new("http.route", route));
    }
    let (host, port) = match span.authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<u16>().ok()),
        _ => (&*span.authority, None),
    };
    if !host.is_empty() {
        all.push(KeyValue::new("server.address", host.to_owned()));
    }
    all.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
    all.extend(
        span.peer.map(|peer| KeyValue::new("client.address", peer.to_canonical().to_string())),
    );
    all.extend(span.user_agent.map(|text| KeyValue::new("user_agent.original", text)));
    all.extend(span.account.map(|name| KeyValue::new("db.namespace", name)));
    all.extend(span.table.map(|name| KeyValue::new("db.collection.name", name)));
    if span.status >= 500 {
        let kind = span.error.clone().unwrap_or_else(|| span.status.to_string());
        all.push(KeyValue::new("error.type", kind));
    }
    all.extend(span.error.map(|code| KeyValue::new("db.response.status_code", code)));
    all
}

/// A client of HTTP and HTTPS over what the program has anyway.
#[derive(Debug)]
struct Client {
    client: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    time_max: Duration,
}

impl Client {
    fn new(time_max: Duration, is_secure: bool) -> Result<Client> {
        let trust = if is_secure { Trust::machine() } else { Trust::nobody() };
        let trust = trust.config().map_err(|error| Failure::usage(error.to_string()))?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(time_max));
        let connector = HttpsConnector::from((connector, trust));
        let builder = legacy::Client::builder(TokioExecutor::new());
        let client = builder.clone().pool_timer(TokioTimer::new()).build(connector);
        Ok(Client { client, time_max })
    }
}

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let sending = async {
                let response = self.client.request(request.map(Full::new)).await?;
                let (parts, body) = response.into_parts();
                let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
                Ok(Response::from_parts(parts, body))
            };
            tokio::time::timeout(self.time_max, sending).await?
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tabulith_server::trace::Trace;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn span() -> Span {
        let trace = Trace {
            id: TRACE.to_owned(),
            parent: "00f067aa0ba902b7".to_owned(),
            span: "1112131415161718".to_owned(),
            sampled: true,
        };
        Span {
            trace,
            began_ticks: 17_000_000_000_000_007,
            took: Duration::from_nanos(1_500_300),
            kind: None,
            method: "GET".to_owned(),
            status: 503,
            error: Some("ServerBusy".to_owned()),
            account: Some("shop".to_owned()),
            table: None,
            secure: true,
            authority: "[::1]:10002".to_owned(),
            peer: Some("::ffff:10.1.2.3".parse().unwrap()),
            request_id: "x".to_owned(),
            user_agent: None,
        }
    }

    fn made(span: Span) -> SpanData {
        data(span, &InstrumentationScope::builder("t").build())
    }

    fn says(data: &SpanData, name: &str) -> String {
        let own = data.attributes.iter().find(|own| own.key.as_str() == name);
        own.map(|own| own.value.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_span_has_its_place_in_the_trace_and_in_time() {
        let own = made(span());
        assert_eq!(own.span_context.trace_id().to_string(), TRACE);
        assert_eq!(own.span_context.span_id().to_string(), "1112131415161718");
        assert_eq!(own.parent_span_id.to_string(), "00f067aa0ba902b7");
        assert!(own.parent_span_is_remote && own.span_kind == SpanKind::Server);
        let since = own.start_time.duration_since(UNIX_EPOCH).unwrap();
        assert_eq!(since.as_nanos(), 1_700_000_000_000_000_700);
        let took = own.end_time.duration_since(own.start_time).unwrap();
        assert_eq!(took, Duration::from_nanos(1_500_300));
        let first = Span { trace: Trace { parent: String::new(), ..span().trace }, ..span() };
        let first = made(first);
        assert!(first.parent_span_id == SpanId::INVALID && !first.parent_span_is_remote);
    }

    #[test]
    fn what_fails_here_is_an_error_and_what_is_refused_is_none() {
        let failed = made(span());
        assert_eq!(failed.status, Status::error(""));
        assert_eq!(says(&failed, "error.type"), "ServerBusy");
        assert_eq!(says(&failed, "db.response.status_code"), "ServerBusy");
        let nameless = made(Span { error: None, status: 500, ..span() });
        assert_eq!(says(&nameless, "error.type"), "500");
        let refused = made(Span { status: 404, ..span() });
        assert_eq!((&refused.status, says(&refused, "error.type").as_str()), (&Status::Unset, ""));
    }

    #[test]
    fn both_ends_are_told_as_the_conventions_ask() {
        let own = made(span());
        assert_eq!(says(&own, "client.address"), "10.1.2.3");
        assert_eq!(
            (says(&own, "server.address"), says(&own, "server.port")),
            ("[::1]".to_owned(), "10002".to_owned())
        );
        assert_eq!(says(&own, "url.scheme"), "https");
        let bare = made(Span { authority: "[::1]".to_owned(), ..span() });
        assert_eq!(
            (says(&bare, "server.address").as_str(), says(&bare, "server.port").as_str()),
            ("[::1]", "")
        );
        let odd = made(Span { method: "BREW".to_owned(), ..span() });
        assert_eq!((says(&odd, "http.request.method").as_str(), &*odd.name), ("_OTHER", "HTTP"));
        assert_eq!(says(&odd, "http.request.method_original"), "BREW");
    }
}

//! A client of many connections, each of which sends a request, waits for its answer and sends the
//! next one.

use crate::sample::{Meter, Sample, histogram};
use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tabulith_server::auth::canonical;
use tabulith_server::auth::shared_key::signature_text;
use tabulith_server::config::{DEVELOPMENT_ACCOUNT, Key};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A request before it is signed.
#[derive(Debug)]
pub struct Call {
    /// GET or POST.
    pub method: Method,
    /// What follows the account in the path, with its slash.
    pub path: String,
    /// JSON, or nothing.
    pub body: String,
    /// The only right answer.
    pub expected: StatusCode,
}

/// The connections.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where to.
    pub addr: SocketAddr,
    /// How many.
    pub connections: usize,
    /// The process whose CPU time counts as the server's.
    pub server: u32,
}

impl Client {
    /// Sends for `span` what `next` makes; it gets the connection's number and how many requests
    /// that connection has sent before.
    pub fn run(
        &self,
        span: Duration,
        next: impl Fn(usize, u64) -> Call + Send + Sync + 'static,
    ) -> Result<Sample> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.drive(span, Arc::new(next)))
    }

    async fn drive(
        &self,
        span: Duration,
        next: Arc<impl Fn(usize, u64) -> Call + Send + Sync + 'static>,
    ) -> Result<Sample> {
        let mut connections = Vec::new();
        for _ in 0..self.connections {
            connections.push(connect(self.addr).await?);
        }
        let signer = Arc::new(Signer::now());
        let mut tasks = JoinSet::new();
        let meter = Meter::start(Some(self.server));
        let end = Instant::now() + span;
        for (number, mut connection) in connections.into_iter().enumerate() {
            let (next, signer) = (Arc::clone(&next), Arc::clone(&signer));
            tasks.spawn(async move {
                let (mut sent, mut latency_ns) = (0, histogram()?);
                while Instant::now() < end {
                    let call = next(number, sent);
                    let before = Instant::now();
                    exchange(&mut connection, &signer, call).await?;
                    latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
                    sent += 1;
                }
                anyhow::Ok((sent, latency_ns))
            });
        }
        let (mut ops, mut latency_ns) = (0, histogram()?);
        while let Some(task) = tasks.join_next().await {
            let (sent, took) = task.context("a connection's task panicked")??;
            ops += sent;
            latency_ns.add(took).context("histogram")?;
        }
        Ok(meter.stop(ops, latency_ns))
    }
}

async fn connect(addr: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // A connection that breaks shows as an error of the request that it carried.
    tokio::spawn(async { connection.await.ok() });
    Ok(sender)
}

async fn exchange(
    connection: &mut SendRequest<Full<Bytes>>,
    signer: &Signer,
    call: Call,
) -> Result<()> {
    let expected = call.expected;
    connection.ready().await?;
    let response = connection.send_request(signer.sign(call)?).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    ensure!(status == expected, "{status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}

/// Signs requests of the development account, all with the date at which it was made.
struct Signer {
    key: Key,
    date: String,
}

impl Signer {
    fn now() -> Signer {
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        let date = printer.timestamp_to_rfc9110_string(&jiff::Timestamp::now());
        Signer { key: Key::development(), date: date.unwrap_or_default() }
    }

    fn sign(&self, call: Call) -> Result<Request<Full<Bytes>>> {
        let path = format!("/{DEVELOPMENT_ACCOUNT}{}", call.path);
        let content_type = if call.body.is_empty() { "" } else { "application/json" };
        let resource = canonical::resource(DEVELOPMENT_ACCOUNT, &path, None);
        let method = call.method.as_str();
        let text = canonical::shared_key(method, "", content_type, &self.date, &resource);
        let signature = signature_text(&self.key, &text);
        let mut request = Request::builder()
            .method(call.method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("x-ms-date", &self.date)
            .header("x-ms-version", "2019-02-02")
            .header("accept", "application/json;odata=nometadata")
            .header("prefer", "return-no-content")
            .header("authorization", format!("SharedKey {DEVELOPMENT_ACCOUNT}:{signature}"));
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        request.body(Full::from(call.body)).context("making a request")
    }
}

//! Fills a server with the entities, and learns how its pages follow each other.

use crate::wire::ask::{Ask, Proof, Signer};
use crate::wire::entities::{self, OPERATIONS, READ, WRITTEN};
use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderMap;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: String,
}

impl Answer {
    /// Bytes on the wire, but for chunks' sizes.
    pub fn bytes(&self) -> u64 {
        let headers = self.headers.iter();
        let headers: usize =
            headers.map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        ("HTTP/1.1 200 OK\r\n\r\n".len() + headers + self.body.len()) as u64
    }
}

/// One connection to a server.
#[derive(Debug)]
pub struct Connection {
    runtime: Runtime,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects.
    pub fn open(addr: SocketAddr) -> Result<Connection> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sender = runtime.block_on(async {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            // A connection that breaks shows as an error of the request that it carried.
            tokio::spawn(async { connection.await.ok() });
            anyhow::Ok(sender)
        })?;
        Ok(Connection { runtime, sender })
    }

    /// Asks, and fails unless the answer has this status.
    pub fn ask(&mut self, request: Request<Full<Bytes>>, expected: StatusCode) -> Result<Answer> {
        let sender = &mut self.sender;
        let answer = self.runtime.block_on(async {
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            let body = String::from_utf8(body.to_vec()).context("an answer that is no text")?;
            anyhow::Ok(Answer { status: head.status, headers: head.headers, body })
        })?;
        ensure!(answer.status == expected, "{}: {}", answer.status, answer.body);
        Ok(answer)
    }
}

/// Makes both tables and puts `count` entities into the one that is read.
pub fn fill(addr: SocketAddr, count: u64) -> Result<()> {
    let signer = Signer::now()?;
    let mut connection = Connection::open(addr)?;
    for table in [READ, WRITTEN] {
        let ask = Ask::post("/Tables".to_owned(), format!(r#"{{"TableName":"{table}"}}"#));
        let request = signer.request(&ask, Proof::SharedKey, 0)?;
        connection.ask(request, StatusCode::NO_CONTENT).context("making a table")?;
    }
    for first in (0..count).step_by(OPERATIONS as usize) {
        let ask = transaction(READ, (first..first + OPERATIONS).map(entities::stored));
        let request = signer.request(&ask, Proof::SharedKey, 0)?;
        let answer = connection.ask(request, StatusCode::ACCEPTED).context("filling a table")?;
        all_applied(&answer)?;
    }
    Ok(())
}

/// A transaction that inserts these.
pub fn transaction(table: &str, entities: impl Iterator<Item = String>) -> Ask {
    let account = tabulith_server::config::DEVELOPMENT_ACCOUNT;
    let mut body =
        String::from("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n");
    for entity in entities {
        body.push_str(&format!(
            "--changeset_c\r\n\
             Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             POST http://127.0.0.1/{account}/{table} HTTP/1.1\r\n\
             Content-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\n\
             Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\n\r\n{entity}\r\n"
        ));
    }
    body.push_str("--changeset_c--\r\n--batch_b--\r\n");
    Ask {
        content_type: "multipart/mixed; boundary=batch_b",
        ..Ask::post("/$batch".to_owned(), body)
    }
}

/// Fails unless each operation of a transaction was done.
pub fn all_applied(answer: &Answer) -> Result<()> {
    let done = answer.body.matches("HTTP/1.1 204").count() as u64;
    ensure!(done == OPERATIONS, "{done} of {OPERATIONS} were done: {:.300}", answer.body);
    Ok(())
}

/// The query of each page of the whole table that is read, in order; fails unless they hold `count`
/// entities.
pub fn pages(addr: SocketAddr, count: u64) -> Result<Vec<String>> {
    let signer = Signer::now()?;
    let mut connection = Connection::open(addr)?;
    let (mut queries, mut seen) = (vec![String::new()], 0);
    while let Some(query) = queries.last() {
        let ask = Ask::get(format!("/{READ}()"), query.clone());
        let request = signer.request(&ask, Proof::SharedKey, 0)?;
        let answer = connection.ask(request, StatusCode::OK).context("asking for a page")?;
        seen += answer.body.matches(r#""PartitionKey":"#).count() as u64;
        let token = |name: &str| {
            let value = answer.headers.get(format!("x-ms-continuation-{name}"))?.to_str().ok()?;
            Some(value.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"))
        };
        let Some(pk) = token("NextPartitionKey") else { break };
        let rk = token("NextRowKey").map(|rk| format!("&NextRowKey={rk}")).unwrap_or_default();
        queries.push(format!("NextPartitionKey={pk}{rk}"));
    }
    ensure!(seen == count, "the pages hold {seen} of {count} entities");
    Ok(queries)
}

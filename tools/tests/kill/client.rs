//! A client of the table protocol in one file: HTTP/1.1 over one connection, signed with
//! SharedKeyLite. Uses nothing of the server, so that a mistake cannot be on both sides.
#![allow(dead_code, reason = "shared by tests, each of which uses a part of it")]

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const REPLY_WAIT: Duration = Duration::from_secs(30);

/// One connection to the server.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    key: Vec<u8>,
}

/// What the server answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    /// The value of the header `name`, which is lower-case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub(crate) fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(REPLY_WAIT))?;
        stream.set_nodelay(true)?;
        let key = BASE64.decode(KEY).map_err(io::Error::other)?;
        Ok(Client { stream: BufReader::new(stream), key })
    }

    pub(crate) fn create_table(&mut self, name: &str) -> io::Result<Reply> {
        let body = format!("{{\"TableName\":\"{name}\"}}");
        self.send("POST", "Tables", "", "application/json", &body)
    }

    /// Inserts an entity given as JSON.
    pub(crate) fn insert(&mut self, table: &str, entity: &str) -> io::Result<Reply> {
        self.send("POST", table, "", "application/json", entity)
    }

    /// Sends the insert of an entity given as JSON; [`Client::read_reply`] waits for its answer.
    pub(crate) fn begin_insert(&mut self, table: &str, entity: &str) -> io::Result<()> {
        let text = self.written("POST", table, "application/json", entity);
        self.stream.get_mut().write_all(text.as_bytes())
    }

    /// Whether anything of an answer, or the end, comes within `wait`.
    pub(crate) fn hears_within(&mut self, wait: Duration) -> io::Result<bool> {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(wait))?;
        let heard = stream.peek(&mut [0]);
        stream.set_read_timeout(Some(REPLY_WAIT))?;
        match heard.map_err(|error| (error.kind(), error)) {
            Ok(_) => Ok(true),
            Err((io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _)) => Ok(false),
            Err((_, error)) => Err(error),
        }
    }

    /// Inserts or replaces the entity of two keys, given as JSON.
    pub(crate) fn put(
        &mut self,
        table: &str,
        partition: &str,
        row: &str,
        entity: &str,
    ) -> io::Result<Reply> {
        let resource = format!("{table}(PartitionKey='{partition}',RowKey='{row}')");
        self.send("PUT", &resource, "", "application/json", entity)
    }

    /// Inserts entities given as JSON in one transaction.
    pub(crate) fn insert_batch(&mut self, table: &str, entities: &[String]) -> io::Result<Reply> {
        let mut body = String::from(
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n",
        );
        for entity in entities {
            let _ = write!(
                body,
                "--changeset_c\r\nContent-Type: application/http\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\n\
                 POST /{ACCOUNT}/{table} HTTP/1.1\r\nContent-Type: application/json\r\n\
                 Prefer: return-no-content\r\nDataServiceVersion: 3.0;\r\n\r\n{entity}\r\n"
            );
        }
        body.push_str("--changeset_c--\r\n--batch_b--\r\n");
        self.send("POST", "$batch", "", "multipart/mixed; boundary=batch_b", &body)
    }

    /// Changes the entity of two keys: a verb, the RowKey, and an entity as JSON unless it is
    /// deleted.
    pub(crate) fn change(
        &mut self,
        table: &str,
        partition: &str,
        (verb, row, entity): (&str, &str, &str),
    ) -> io::Result<Reply> {
        let resource = format!("{table}(PartitionKey='{partition}',RowKey='{row}')");
        self.send(verb, &resource, "", "application/json", entity)
    }

    /// Such changes in one transaction.
    pub(crate) fn change_batch(
        &mut self,
        table: &str,
        partition: &str,
        changes: &[(&str, String, String)],
    ) -> io::Result<Reply> {
        let mut body = String::from(
            "--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n",
        );
        for (verb, row, entity) in changes {
            let condition = condition(verb);
            let _ = write!(
                body,
                "--changeset_c\r\nContent-Type: application/http\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\n\
                 {verb} /{ACCOUNT}/{table}(PartitionKey='{partition}',RowKey='{row}') HTTP/1.1\r\n\
                 {condition}Content-Type: application/json\r\nDataServiceVersion: 3.0;\r\n\r\n\
                 {entity}\r\n"
            );
        }
        body.push_str("--changeset_c--\r\n--batch_b--\r\n");
        self.send("POST", "$batch", "", "multipart/mixed; boundary=batch_b", &body)
    }

    /// One page of a table; `query` begins with `?` where it is not empty.
    pub(crate) fn page(&mut self, table: &str, query: &str) -> io::Result<Reply> {
        self.send("GET", &format!("{table}()"), query, "", "")
    }

    /// Every row of a table, in order, page by page.
    pub(crate) fn each_row(&mut self, table: &str, mut each: impl FnMut(&serde_json::Value)) {
        let mut query = String::new();
        loop {
            let reply = self.page(table, &query).expect("a page");
            if reply.status == 503 && reply.header("retry-after").is_some() {
                continue; // No room for the answer now.
            }
            assert_eq!(reply.status, 200, "{}", reply.body);
            let page: serde_json::Value = serde_json::from_str(&reply.body).expect("JSON");
            page["value"].as_array().expect("rows").iter().for_each(&mut each);
            let next = |name: &str| reply.header(name).map(percent_encoded);
            match next("x-ms-continuation-nextpartitionkey") {
                None => return,
                Some(partition) => {
                    let row = next("x-ms-continuation-nextrowkey").unwrap_or_default();
                    query = format!("?NextPartitionKey={partition}&NextRowKey={row}");
                }
            }
        }
    }

    fn send(
        &mut self,
        verb: &str,
        resource: &str,
        query: &str,
        content_type: &str,
        body: &str,
    ) -> io::Result<Reply> {
        let text = self.written_with(verb, resource, query, content_type, body)?;
        self.stream.get_mut().write_all(text.as_bytes())?;
        self.read_reply()
    }

    /// A request as it would be sent.
    pub(crate) fn written(
        &self,
        verb: &str,
        resource: &str,
        content_type: &str,
        body: &str,
    ) -> String {
        self.written_with(verb, resource, "", content_type, body).expect("a signature")
    }

    fn written_with(
        &self,
        verb: &str,
        resource: &str,
        query: &str,
        content_type: &str,
        body: &str,
    ) -> io::Result<String> {
        let path = format!("/{ACCOUNT}/{resource}");
        let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let signature = self.signature(&format!("{date}\n/{ACCOUNT}{path}"))?;
        let condition = condition(verb);
        let head = format!(
            "{verb} {path}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nx-ms-date: {date}\r\n\
             x-ms-version: 2019-02-02\r\n{condition}Authorization: SharedKeyLite {ACCOUNT}:{signature}\r\n\
             Accept: application/json;odata=nometadata\r\nContent-Type: {content_type}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        Ok(head + body)
    }

    fn signature(&self, text: &str) -> io::Result<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).map_err(io::Error::other)?;
        mac.update(text.as_bytes());
        Ok(BASE64.encode(mac.finalize().into_bytes()))
    }

    /// Waits for the answer to what was sent.
    pub(crate) fn read_reply(&mut self) -> io::Result<Reply> {
        let status_line = self.read_line()?;
        let status = status_line.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not HTTP: {status_line}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.to_lowercase(), value.trim().to_owned()));
            }
        }
        let mut reply = Reply { status, headers, body: String::new() };
        let bytes = match reply.header("content-length").and_then(|len| len.parse().ok()) {
            Some(len) => self.read_exact(len)?,
            None if reply.header("transfer-encoding").is_some() => self.read_chunks()?,
            None => Vec::new(),
        };
        reply.body = String::from_utf8(bytes).map_err(io::Error::other)?;
        Ok(reply)
    }

    fn read_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?;
            let len = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            body.extend(self.read_exact(len)?);
            self.read_line()?;
            if len == 0 {
                return Ok(body);
            }
        }
    }

    fn read_exact(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// What is deleted is deleted whatever it is.
fn condition(verb: &str) -> &'static str {
    if verb == "DELETE" { "If-Match: *\r\n" } else { "" }
}

fn percent_encoded(token: &str) -> String {
    token.replace('!', "%21").replace('+', "%2B").replace('/', "%2F")
}

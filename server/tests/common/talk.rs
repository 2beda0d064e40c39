//! Entities as registers, in the words of the protocol: from what is asked to a request, and from
//! an answer to what was said.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use crate::common::date_of;
use tabulith::ids::CommitTs;
use tabulith::table::etag::{ETag, IfMatch};
use tabulith_server::auth::canonical;
use tabulith_server::auth::shared_key::signature_text;
use tabulith_server::config::Key;
use tabulith_testkit::register::{Answer, Ask, Condition};

/// Partitions that the keys of a history lie in.
pub const PARTITIONS: u32 = 2;

/// PartitionKey and RowKey of a key.
pub fn keys(key: u32) -> (String, String) {
    (format!("p{}", key % PARTITIONS), format!("r{}", key / PARTITIONS))
}

/// How requests are signed.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// By the account's key.
    Key(Key),
    /// By a token in the address.
    Token(String),
}

/// Who asks, and for what.
#[derive(Clone, Debug)]
pub struct Speaker {
    pub account: String,
    pub table: String,
    pub credentials: Credentials,
}

impl Speaker {
    /// The request for one thing; `ticks`: what its date says.
    pub fn request(&self, key: u32, ask: Ask, ticks: u64) -> Vec<u8> {
        let (account, table) = (&self.account, &self.table);
        match ask {
            Ask::CreateTable => {
                let body = format!("{{\"TableName\":\"{table}\"}}");
                self.signed("POST", &format!("/{account}/Tables"), &[], &body, ticks)
            }
            Ask::DropTable => {
                let path = format!("/{account}/Tables('{table}')");
                self.signed("DELETE", &path, &[], "", ticks)
            }
            _ => {
                let (method, path, headers, body) = self.parts(key, ask);
                let headers: Vec<_> =
                    headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                self.signed(method, &path, &headers, &body, ticks)
            }
        }
    }

    /// The request for all entities of the table.
    pub fn page(&self, ticks: u64) -> Vec<u8> {
        let path = format!("/{}/{}()", self.account, self.table);
        self.signed("GET", &path, &[("Accept", FULL)], "", ticks)
    }

    /// The request for several changes of one partition, all or none.
    pub fn batch(&self, asks: &[(u32, Ask)], ticks: u64) -> Vec<u8> {
        let mut body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n".to_owned();
        for (key, ask) in asks {
            let (method, path, headers, json) = self.parts(*key, *ask);
            body += "--c\r\nContent-Type: application/http\r\n\
                     Content-Transfer-Encoding: binary\r\n\r\n";
            body += &format!("{method} http://127.0.0.1:10002{path} HTTP/1.1\r\n");
            for (name, value) in headers {
                body += &format!("{name}: {value}\r\n");
            }
            body += &format!("Content-Length: {}\r\n\r\n{json}\r\n", json.len());
        }
        body += "--c--\r\n--b--\r\n";
        let path = format!("/{}/$batch", self.account);
        let headers = [("Content-Type", "multipart/mixed; boundary=b")];
        self.signed("POST", &path, &headers, &body, ticks)
    }

    /// The request that gives the table these stored policies, as XML.
    pub fn set_policies(&self, xml: &str, ticks: u64) -> Vec<u8> {
        let path = format!("/{}/{}?comp=acl", self.account, self.table);
        self.signed("PUT", &path, &[("Content-Type", "application/xml")], xml, ticks)
    }

    #[allow(clippy::type_complexity, reason = "the parts of a request, used once")]
    fn parts(
        &self,
        key: u32,
        ask: Ask,
    ) -> (&'static str, String, Vec<(&'static str, String)>, String) {
        let (pk, rk) = keys(key);
        let table = format!("/{}/{}", self.account, self.table);
        let entity = format!("{table}(PartitionKey='{pk}',RowKey='{rk}')");
        // What is long crosses buffers and pieces of the wire.
        let json = |value: u64| {
            let padding = "x".repeat(if value.is_multiple_of(11) { 3_000 } else { 10 });
            format!(
                "{{\"PartitionKey\":\"{pk}\",\"RowKey\":\"{rk}\",\"V\":\"{value}\",\"P\":\"{padding}\"}}"
            )
        };
        let is = |condition| match condition {
            Condition::Any => "*".to_owned(),
            Condition::Is(etag) => ETag(CommitTs(etag)).to_string(),
        };
        let kind = ("Content-Type", "application/json".to_owned());
        // Every other change lays properties over those that are there: all of them, so that the
        // outcome is the same.
        let put = |value: u64| if value.is_multiple_of(2) { "MERGE" } else { "PUT" };
        match ask {
            Ask::Get => ("GET", entity, vec![("Accept", FULL.to_owned())], String::new()),
            Ask::Insert(value) => {
                let quiet = ("Prefer", "return-no-content".to_owned());
                ("POST", table, vec![kind, quiet], json(value))
            }
            Ask::Put(value) => (put(value), entity, vec![kind], json(value)),
            Ask::Replace(value, condition) => {
                (put(value), entity, vec![kind, ("If-Match", is(condition))], json(value))
            }
            Ask::Delete(condition) => {
                ("DELETE", entity, vec![("If-Match", is(condition))], String::new())
            }
            Ask::CreateTable | Ask::DropTable => unreachable!("not of an entity"),
        }
    }

    fn signed(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        ticks: u64,
    ) -> Vec<u8> {
        let date = date_of(ticks);
        let mut path = path.to_owned();
        let mut text = String::new();
        match &self.credentials {
            Credentials::Key(key) => {
                let (bare, query) = path.split_once('?').unwrap_or((&path, ""));
                let resource =
                    canonical::resource(&self.account, bare, query.strip_prefix("comp="));
                let string = canonical::shared_key_lite(&date, &resource);
                let signature = signature_text(key, &string);
                text += &format!(
                    "x-ms-date: {date}\r\nAuthorization: SharedKeyLite {}:{signature}\r\n",
                    self.account
                );
            }
            Credentials::Token(token) => {
                path += if path.contains('?') { "&" } else { "?" };
                path += token;
            }
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:10002\r\nx-ms-version: 2019-02-02\r\n\
             Content-Length: {}\r\n{text}\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

const FULL: &str = "application/json;odata=fullmetadata";

/// An answer as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub code: String,
    pub etag: Option<u64>,
    pub body: String,
    /// Whether the server will close the connection.
    pub closes: bool,
}

impl Reply {
    /// The answer at the front of `bytes` and how long it is, once all of it is there.
    pub fn read(bytes: &[u8]) -> Option<(Reply, usize)> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let header = |wanted: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
        };
        let length: usize =
            header("content-length").map_or(0, |text| text.parse().expect("a length"));
        let body = bytes.get(end + 4..end + 4 + length)?;
        let status = head[9..12].parse().expect("a status");
        let reply = Reply {
            status,
            code: header("x-ms-error-code").unwrap_or_default().to_owned(),
            etag: header("etag").and_then(etag_of),
            body: String::from_utf8_lossy(body).into_owned(),
            closes: header("connection").is_some_and(|value| value == "close"),
        };
        Some((reply, end + 4 + length))
    }

    /// What it says to `ask`; [`Answer::Unknown`] where the server does not know either.
    pub fn answer(&self, ask: Ask) -> Answer {
        match (self.status, self.code.as_str(), ask) {
            (200, _, Ask::Get) => {
                let entity: serde_json::Value = serde_json::from_str(&self.body).expect("JSON");
                found(&entity)
            }
            (201 | 204, _, Ask::CreateTable | Ask::DropTable | Ask::Delete(_)) => Answer::Done,
            (201 | 204, _, _) => Answer::Written(self.etag.expect("a write has an ETag")),
            (404, "ResourceNotFound", Ask::DropTable) => Answer::NoTable,
            (404, "ResourceNotFound", _) => Answer::Absent,
            (404, "TableNotFound", _) => Answer::NoTable,
            (409, "EntityAlreadyExists" | "TableAlreadyExists", _) => Answer::Exists,
            (412, "UpdateConditionNotSatisfied", _) => Answer::Changed,
            (403 | 503, ..) => Answer::Refused,
            (500, ..) => Answer::Unknown,
            _ => panic!("{ask:?} was answered by {self:?}"),
        }
    }

    /// What a page says of each of `count` keys.
    pub fn page(&self, count: u32) -> Vec<(u32, Answer)> {
        if self.status != 200 {
            return vec![(0, self.answer(Ask::Get))];
        }
        let page: serde_json::Value = serde_json::from_str(&self.body).expect("JSON");
        let rows = page["value"].as_array().expect("a list");
        let row = |key| {
            let (pk, rk) = keys(key);
            rows.iter().find(|row| row["PartitionKey"] == pk && row["RowKey"] == rk)
        };
        (0..count).map(|key| (key, row(key).map_or(Answer::Absent, found))).collect()
    }

    /// What a batch says to each of its changes.
    pub fn batch(&self, asks: &[(u32, Ask)]) -> Vec<Answer> {
        if self.status != 202 {
            return asks.iter().map(|(_, ask)| self.answer(*ask)).collect();
        }
        let parts: Vec<Reply> = self
            .body
            .split("HTTP/1.1 ")
            .skip(1)
            .map(|part| {
                let (head, body) = part.split_once("\r\n\r\n").expect("a head");
                let header = |wanted: &str| {
                    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
                    lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, v)| v)
                };
                let code = body.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next());
                Reply {
                    status: head[..3].parse().expect("a status"),
                    code: code.unwrap_or_default().to_owned(),
                    etag: header("etag").and_then(etag_of),
                    body: body.to_owned(),
                    closes: false,
                }
            })
            .collect();
        match parts.as_slice() {
            [refusal] if refusal.status >= 400 => {
                let value = refusal.body.split("\"value\":\"").nth(1).unwrap_or_default();
                let index: usize =
                    value.split(':').next().and_then(|n| n.parse().ok()).unwrap_or(0);
                let named = refusal.answer(asks[index.min(asks.len() - 1)].1);
                let other = match named {
                    Answer::Unknown | Answer::NoTable => named,
                    _ => Answer::Refused,
                };
                (0..asks.len()).map(|n| if n == index { named } else { other }).collect()
            }
            parts => {
                assert_eq!(parts.len(), asks.len(), "{self:?}");
                parts.iter().zip(asks).map(|(part, (_, ask))| part.answer(*ask)).collect()
            }
        }
    }
}

fn found(entity: &serde_json::Value) -> Answer {
    let value = entity["V"].as_str().and_then(|text| text.parse().ok()).expect("a value");
    let etag = entity["odata.etag"].as_str().and_then(etag_of).expect("an ETag");
    Answer::Found(value, etag)
}

fn etag_of(text: &str) -> Option<u64> {
    match IfMatch::parse(text) {
        Ok(IfMatch::Match(ETag(CommitTs(ticks)))) => Some(ticks),
        _ => None,
    }
}

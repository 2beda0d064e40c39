//! A request of the list as the bytes that are sent: filled in, assembled, signed.

use crate::expand::{Scope, moment, percent};
use crate::multipart;
use crate::row::Ask;
use crate::sas;
use crate::sign::{Signed, signature};
use crate::target::{Key, Target};
use crate::wire::Sent;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt::Write as _;
use uuid::Uuid;

/// The version that requests name where the row says nothing: the one most SDKs send.
const SERVICE_VERSION: &str = "2019-02-02";

/// Bytes of a chunk where a body is sent in chunks.
const CHUNK_BYTES: usize = 1000;

/// The request, ready to be sent.
pub fn sent(ask: &Ask, target: &Target, scope: &Scope) -> Result<Sent, String> {
    let mut draft = Draft::new(ask, target, scope)?;
    let auth = scope.fill(ask.order("auth").unwrap_or("key"))?;
    draft.authorize(&auth, target, scope)?;
    draft.finish(ask, scope)
}

/// A request on its way from the list to bytes.
struct Draft {
    method: String,
    secondary: bool,
    target: String,
    headers: Vec<(String, String)>,
    /// Names that the row leaves out.
    left_out: Vec<String>,
    body: Option<Vec<u8>>,
}

impl Draft {
    fn new(ask: &Ask, target: &Target, scope: &Scope) -> Result<Draft, String> {
        let secondary = ask.order("endpoint") == Some("secondary");
        let path = scope.fill(&ask.target)?;
        let mut draft = Draft {
            method: scope.fill(&ask.method)?,
            secondary,
            target: match path.strip_prefix('=') {
                Some(raw) => raw.to_owned(),
                None => format!("{}{path}", target.prefix(secondary)),
            },
            headers: Vec::new(),
            left_out: Vec::new(),
            body: None,
        };
        for (name, value) in &ask.headers {
            match value {
                Some(value) => {
                    let value = scope.fill(value)?;
                    // A case that has nothing to say sends no header.
                    if !value.is_empty() {
                        draft.headers.push((scope.fill(name)?, value));
                    }
                }
                None => draft.left_out.push(name.clone()),
            }
        }
        draft.add_body(ask, target, scope)?;
        draft.add("Host", || target.authority(secondary));
        draft.add("x-ms-version", || SERVICE_VERSION.to_owned());
        draft.add("Accept", || "application/json;odata=minimalmetadata".to_owned());
        draft.add("DataServiceVersion", || "3.0".to_owned());
        Ok(draft)
    }

    fn add_body(&mut self, ask: &Ask, target: &Target, scope: &Scope) -> Result<(), String> {
        let Some(text) = &ask.body else { return Ok(()) };
        let mut text = scope.fill(text)?;
        if text.is_empty() {
            return Ok(());
        }
        let mut kind = "application/json".to_owned();
        if let Some(form) = ask.order("batch") {
            let boundary = Uuid::new_v4().to_string();
            (text, kind) = multipart::body(form, &target.base(), &text, &boundary);
        }
        if ask.order("lines") == Some("crlf") {
            text = text.replace('\n', "\r\n");
        }
        self.add("Content-Type", || kind);
        self.body = Some(text.into_bytes());
        Ok(())
    }

    /// Adds a header unless the row has it or leaves it out.
    fn add(&mut self, name: &str, value: impl FnOnce() -> String) {
        let left_out = self.left_out.iter().any(|other| other.eq_ignore_ascii_case(name));
        if !left_out && self.header(name).is_none() {
            self.headers.push((name.to_owned(), value()));
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn authorize(&mut self, auth: &str, target: &Target, scope: &Scope) -> Result<(), String> {
        let (scheme, words) = auth.split_once(' ').unwrap_or((auth, ""));
        match scheme {
            "key" | "lite" => self.sign(scheme, words, target)?,
            "sas" | "account" => {
                let query = sas::query(scheme, words, target, scope)?;
                let joint = if self.target.contains('?') { '&' } else { '?' };
                self.target.push(joint);
                self.target.push_str(&query);
            }
            "jwt" => {
                let token = token(words)?;
                self.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
            }
            "header" => self.headers.push(("Authorization".to_owned(), words.to_owned())),
            "none" => {}
            other => return Err(format!("no scheme is called {other}")),
        }
        if !matches!(scheme, "key" | "lite") {
            let date = moment("", RFC1123)?;
            self.add("x-ms-date", || date);
        }
        Ok(())
    }

    fn sign(&mut self, scheme: &str, words: &str, target: &Target) -> Result<(), String> {
        let mut how = How::of(words, target)?;
        let date = moment(&how.at, RFC1123)?;
        let (names, other): (&[&str], _) = match how.with.as_str() {
            "date" => (&["Date"], None),
            "both" => (&["x-ms-date", "Date"], None),
            // Only x-ms-date is right.
            "either" => (&["x-ms-date"], Some("Thu, 01 Jan 2009 00:00:00 GMT")),
            "none" => (&[], None),
            _ => (&["x-ms-date"], None),
        };
        for name in names {
            self.add(name, || date.clone());
        }
        if let Some(other) = other {
            self.add("Date", || other.to_owned());
        }
        let sent_date = self.header("x-ms-date").or(self.header("Date")).unwrap_or_default();
        let path = how.path.take().unwrap_or_else(|| self.target.clone());
        let signed = Signed {
            method: &self.method,
            md5: self.header("Content-MD5").unwrap_or_default(),
            content_type: self.header("Content-Type").unwrap_or_default(),
            date: sent_date,
            account: &how.account,
            target: &path,
        };
        let full = scheme == "key";
        let text = if full { signed.shared_key() } else { signed.shared_key_lite() };
        let mut proof = signature(&how.key, &text);
        if how.bent {
            let first = if proof.starts_with('A') { "B" } else { "A" };
            proof.replace_range(..1, first);
        }
        let word = if full { "SharedKey" } else { "SharedKeyLite" };
        self.headers.push(("Authorization".to_owned(), format!("{word} {}:{proof}", how.account)));
        Ok(())
    }

    fn finish(mut self, ask: &Ask, scope: &Scope) -> Result<Sent, String> {
        let sending = scope.fill(ask.order("send").unwrap_or_default())?;
        let mut body = self.body.take().unwrap_or_default();
        if sending == "chunked" {
            self.add("Transfer-Encoding", || "chunked".to_owned());
            body = chunked(&body);
        } else if !body.is_empty() || matches!(&*self.method, "POST" | "PUT" | "PATCH" | "MERGE") {
            self.add("Content-Length", || body.len().to_string());
        }
        if let Some(kept) = sending.strip_prefix("cut ") {
            body.truncate(kept.parse().map_err(|_| format!("{kept} is no length"))?);
        }
        let waits = self.header("Expect").is_some_and(|value| value == "100-continue");
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            // Writing into a String cannot fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        let Draft { method, secondary, .. } = self;
        Ok(Sent { method, secondary, head: head.into_bytes(), body, waits })
    }
}

const RFC1123: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// How a request is signed with a key.
struct How {
    key: Key,
    account: String,
    at: String,
    with: String,
    path: Option<String>,
    bent: bool,
}

impl How {
    fn of(words: &str, target: &Target) -> Result<How, String> {
        let mut how = How {
            key: target.key.clone(),
            account: target.account.clone(),
            at: String::new(),
            with: "x-ms-date".to_owned(),
            path: None,
            bent: false,
        };
        for word in words.split_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("key", "second") => how.key = target.second_key.clone().unwrap_or(how.key),
                ("key", _) => how.key = Key::of_bytes(vec![7; 64]),
                ("as", account) => account.clone_into(&mut how.account),
                ("at", offset) => offset.clone_into(&mut how.at),
                ("with", headers) => headers.clone_into(&mut how.with),
                ("path", path) => how.path = Some(path.to_owned()),
                ("bent", _) => how.bent = true,
                _ => return Err(format!("{word} says nothing of a signature")),
            }
        }
        Ok(how)
    }
}

/// A bearer token without a signature: `aud=… iss=… nbf=-1h exp=+1h`.
fn token(words: &str) -> Result<String, String> {
    let mut claims = serde_json::Map::new();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("{word} is no claim"))?;
        let value = match name {
            "nbf" | "exp" | "iat" => moment(value, "%s")?.parse::<i64>().unwrap_or(0).into(),
            _ => serde_json::Value::from(value),
        };
        claims.insert(name.to_owned(), value);
    }
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = serde_json::Value::Object(claims).to_string();
    Ok(format!("{}.{}.{}", part("{\"alg\":\"RS256\",\"typ\":\"JWT\"}"), part(&claims), part("x")))
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 64);
    for chunk in body.chunks(CHUNK_BYTES) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// The request as text for people: signatures hidden, long bodies cut.
pub fn shown(sent: &Sent, bytes_max: usize) -> String {
    let head = String::from_utf8_lossy(&sent.head);
    let mut out = String::new();
    for line in head.lines() {
        if line.to_ascii_lowercase().starts_with("authorization:") {
            let scheme = line.split([' ', ':']).find(|word| word.starts_with("Shared"));
            let _ = writeln!(out, "Authorization: {} …", scheme.unwrap_or_default());
        } else if let Some((before, after)) = line.split_once("sig=") {
            let rest = after.find(['&', ' ']).map_or("", |at| &after[at..]);
            let _ = writeln!(out, "{before}sig=…{rest}");
        } else {
            let _ = writeln!(out, "{line}");
        }
    }
    out.push_str(&cut(&String::from_utf8_lossy(&sent.body), bytes_max));
    out
}

/// The start of a text, and how much is left out.
pub fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let kept = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes in all)", &text[..kept], text.len())
}

/// The path of one entity below the account, quotes doubled and all else percent-encoded.
pub fn entity_path(table: &str, partition: &str, row: &str) -> String {
    let key = |key: &str| percent(&key.replace('\'', "''"));
    format!("/{table}(PartitionKey='{}',RowKey='{}')", key(partition), key(row))
}

#[cfg(test)]
mod tests {
    use super::{sent, shown};
    use crate::expand::Scope;
    use crate::row::Ask;
    use crate::target::{Key, Target};

    fn draft(orders: &[(&str, &str)], body: Option<&str>) -> (String, String) {
        let target = Target::new("http://127.0.0.1:1/abc", None, Key::of_bytes(vec![1]));
        let orders = orders.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let ask = Ask {
            method: "POST".to_owned(),
            target: "/T?a='b%27\"".to_owned(),
            orders,
            headers: vec![("Accept".to_owned(), None)],
            body: body.map(str::to_owned),
        };
        let sent = sent(&ask, &target.expect("a target"), &Scope::default()).expect("a request");
        (String::from_utf8_lossy(&sent.head).into_owned(), shown(&sent, 100))
    }

    #[test]
    fn a_request_is_sent_as_it_is_written() {
        let (head, shown) = draft(&[], Some("{}"));
        assert!(head.starts_with("POST /abc/T?a='b%27\" HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Length: 2\r\n") && !head.contains("Accept:"), "{head}");
        assert!(head.contains("\r\nAuthorization: SharedKey abc:"), "{head}");
        assert!(!shown.contains("SharedKey abc:") && shown.ends_with("{}"), "{shown}");
    }

    #[test]
    fn other_ways_of_sending() {
        let (head, shown) = draft(&[("send", "chunked"), ("auth", "none")], Some("{}"));
        assert!(head.contains("Transfer-Encoding: chunked") && !head.contains("Content-Length"));
        assert!(shown.contains("2\r\n{}\r\n0\r\n") && !head.contains("Authorization"), "{shown}");
    }
}

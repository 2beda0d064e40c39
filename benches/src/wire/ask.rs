//! Requests as the text that goes over the wire, with one of the two proofs of who asks.

use crate::wire::entities::{NUMBER, NUMBER_DIGITS};
use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use jiff::{Timestamp, ToSpan as _};
use tabulith_client::{AccountSas, DateTime};
use tabulith_server::auth::canonical;
use tabulith_server::auth::shared_key::signature_text;
use tabulith_server::config::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Key};

/// What proves who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// A header signed with the account's key.
    SharedKey,
    /// An account's shared access signature in the address. A table's would do for ours, but
    /// Azurite refuses transactions with one.
    Sas,
}

impl Proof {
    /// Both.
    pub const ALL: [Proof; 2] = [Proof::SharedKey, Proof::Sas];

    /// As tables show it.
    pub fn name(self) -> &'static str {
        match self {
            Proof::SharedKey => "SharedKey",
            Proof::Sas => "SAS",
        }
    }
}

/// A request before it is signed.
#[derive(Clone, Debug)]
pub struct Ask {
    /// GET or POST.
    pub method: &'static str,
    /// What follows the account's name, with its slash.
    pub path: String,
    /// The query without its question mark; may be empty.
    pub query: String,
    /// The type of the body; empty where there is none.
    pub content_type: &'static str,
    /// What is sent.
    pub body: String,
}

impl Ask {
    /// A GET.
    pub fn get(path: String, query: String) -> Ask {
        Ask { method: "GET", path, query, content_type: "", body: String::new() }
    }

    /// A POST of JSON.
    pub fn post(path: String, body: String) -> Ask {
        let content_type = "application/json";
        Ask { method: "POST", path, query: String::new(), content_type, body }
    }
}

/// Signs requests of the development account, all with the time at which it was made: for a quarter
/// of an hour.
#[derive(Debug)]
pub struct Signer {
    key: Key,
    date: String,
    sas: String,
}

impl Signer {
    /// Signs from now on.
    pub fn now() -> Result<Signer> {
        let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
        let now = Timestamp::now();
        let expiry = now.checked_add(24.hours()).context("tomorrow")?.as_second();
        let expiry = DateTime::from_seconds(expiry).ok().context("tomorrow")?;
        let key = tabulith_client::Key::of_base64(DEVELOPMENT_KEY)?;
        Ok(Signer {
            key: Key::development(),
            date: printer.timestamp_to_rfc9110_string(&now).context("printing the time")?,
            sas: AccountSas::new(expiry).sign(DEVELOPMENT_ACCOUNT, &key)?,
        })
    }

    /// The request line's target and the headers, `Content-Length` among them.
    fn head(&self, ask: &Ask, proof: Proof) -> (String, Vec<(&'static str, String)>) {
        let path = format!("/{DEVELOPMENT_ACCOUNT}{}", ask.path);
        let mut query = ask.query.clone();
        let mut headers = vec![
            ("Host", "127.0.0.1".to_owned()),
            ("x-ms-version", "2019-02-02".to_owned()),
            ("x-ms-date", self.date.clone()),
            ("Accept", "application/json;odata=minimalmetadata".to_owned()),
        ];
        match proof {
            Proof::SharedKey => {
                let resource = canonical::resource(DEVELOPMENT_ACCOUNT, &path, None);
                let text =
                    canonical::shared_key(ask.method, "", ask.content_type, &self.date, &resource);
                let signature = signature_text(&self.key, &text);
                let value = format!("SharedKey {DEVELOPMENT_ACCOUNT}:{signature}");
                headers.push(("Authorization", value));
            }
            Proof::Sas => {
                let between = if query.is_empty() { "" } else { "&" };
                query = format!("{query}{between}{}", self.sas);
            }
        }
        if ask.method == "POST" {
            let numbers = ask.body.matches(NUMBER).count();
            let length = ask.body.len() + numbers * (NUMBER_DIGITS - NUMBER.len_utf8());
            headers.push(("Content-Type", ask.content_type.to_owned()));
            headers.push(("Content-Length", length.to_string()));
            headers.push(("Prefer", "return-no-content".to_owned()));
        }
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        (target, headers)
    }

    /// The whole text, [`NUMBER`] still in it.
    pub fn text(&self, ask: &Ask, proof: Proof) -> String {
        let (target, headers) = self.head(ask, proof);
        let mut text = format!("{} {target} HTTP/1.1\r\n", ask.method);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text + "\r\n" + &ask.body
    }

    /// The same for a client in this program, with `number` in the places of [`NUMBER`].
    pub fn request(&self, ask: &Ask, proof: Proof, number: u64) -> Result<Request<Full<Bytes>>> {
        let (target, headers) = self.head(ask, proof);
        let mut request = Request::builder().method(ask.method).uri(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let number = format!("{number:0NUMBER_DIGITS$}");
        let body = ask.body.replace(NUMBER, &number);
        request.body(Full::from(body)).context("making a request")
    }
}

//! Why a call failed: nobody answered, or not whom we trust; the service refused, the answer made
//! no sense, or there was nothing to send.

use crate::xml;
use serde_json::Value as Json;
use std::time::Duration;

/// A refusal of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The service's code, as `TableNotFound`; the status where it gave none.
    pub code: String,
    /// Its message, without the request's id and time.
    pub message: String,
    /// The service's id of the request, for those who run it.
    pub request_id: Option<String>,
    /// For a transaction: the operation at fault, from 0, where the service says it.
    pub index: Option<usize>,
    /// How long the service wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether what was asked may have been done nevertheless: by this attempt, where the status
    /// leaves it open (408, 500, 502, 504, 520 to 524, and 429 and 503 without the code of a busy
    /// service), or by an earlier one whose outcome nobody knows.
    pub maybe_done: bool,
}

/// The codes of a service that is busy, with the status 503 or 429: it says so before it begins.
const BUSY: [&str; 2] = ["ServerBusy", "TooManyRequests"];

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No answer, also after retries.
    #[error("no answer from {endpoint}: {cause}")]
    Unreachable {
        /// The address that was asked.
        endpoint: String,
        /// What went wrong last.
        cause: String,
        /// Whether the service may have done what was asked nevertheless. False where no
        /// connection came about at all.
        maybe_done: bool,
    },
    /// Who answers is not proven to be whom we asked; nothing was sent there.
    #[error("no trust in {endpoint}: {cause}")]
    Untrusted {
        /// The address that was asked.
        endpoint: String,
        /// What is wrong with the certificate.
        cause: String,
        /// Whether an earlier attempt, to somebody who was trusted, may have been done.
        maybe_done: bool,
    },
    /// The service said no.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(Box<Refusal>),
    /// The answer is not of this protocol, or larger than
    /// [`Options::answer_bytes_max`](crate::http::Options::answer_bytes_max).
    #[error("unexpected answer: {0}")]
    Garbled(String),
    /// The call cannot be made.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// The refusal, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.status)
    }

    /// The service's code of a refusal, as `EntityAlreadyExists`.
    pub fn code(&self) -> Option<&str> {
        self.refusal().map(|refusal| refusal.code.as_str())
    }

    /// Whether the service has no such entity or table.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Whether there is such an entity or table already.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// Whether the entity is no longer the version that was asked for.
    pub fn is_changed_meanwhile(&self) -> bool {
        self.status() == Some(412)
    }

    /// Whether a write may have been done nevertheless, by this attempt or by an earlier one of the
    /// same call: its answer was lost or cannot be read, or leaves it open. Where it is true, a
    /// refusal may be of what the call has done itself: read before you write again. Of a call that
    /// only reads it tells nothing.
    pub fn maybe_done(&self) -> bool {
        match self {
            Error::Unreachable { maybe_done, .. } | Error::Untrusted { maybe_done, .. } => {
                *maybe_done
            }
            Error::Refused(refusal) => refusal.maybe_done,
            Error::Garbled(_) => true,
            Error::Invalid(_) => false,
        }
    }

    /// The same, where an earlier attempt at `endpoint` may have been done.
    pub(crate) fn after_loss(mut self, endpoint: &str) -> Error {
        match &mut self {
            Error::Unreachable { maybe_done, .. } | Error::Untrusted { maybe_done, .. } => {
                *maybe_done = true;
            }
            Error::Refused(refusal) => refusal.maybe_done = true,
            Error::Garbled(_) => {}
            // The call could be made once: what lacks now is a bearer token.
            Error::Invalid(cause) => {
                let (endpoint, cause) = (endpoint.to_owned(), std::mem::take(cause));
                return Error::Unreachable { endpoint, cause, maybe_done: true };
            }
        }
        self
    }
}

impl Refusal {
    /// The refusal that an answer's status and body make; JSON of OData, or XML.
    pub(crate) fn read(status: u16, body: &[u8]) -> Refusal {
        let (code, text) = json_words(body).or_else(|| xml_words(body)).unwrap_or_default();
        let (message, rest) = text.split_once("\nRequestId:").unwrap_or((&text, ""));
        let request_id = rest.split(['\n', '\r']).next().filter(|id| !id.is_empty());
        let (index, message) = match message.split_once(':') {
            Some((index, rest)) if index.parse::<usize>().is_ok() => (index.parse().ok(), rest),
            _ => (None, message),
        };
        let code = if code.is_empty() { format!("HTTP {status}") } else { code };
        Refusal {
            status,
            maybe_done: leaves_open(status, &code),
            code,
            message: message.trim_end().to_owned(),
            request_id: request_id.map(str::to_owned),
            index,
            retry_after: None,
        }
    }

    /// The same with the code that a header names, where the body named none.
    pub(crate) fn or_code(mut self, code: Option<String>) -> Refusal {
        if let (true, Some(code)) = (self.code.starts_with("HTTP "), code) {
            self.maybe_done = leaves_open(self.status, &code);
            self.code = code;
        }
        self
    }

    /// Whether the same call may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 429 | 500 | 502 | 503 | 504 | 520..=524)
    }
}

/// Whether what is refused so may have been done. A service that is busy names its code; without it
/// the status is that of a proxy, whose connection may have broken after it had handed the call on;
/// 520 to 524 are Cloudflare's words for that.
fn leaves_open(status: u16, code: &str) -> bool {
    match status {
        408 | 500 | 502 | 504 | 520..=524 => true,
        429 | 503 => !BUSY.contains(&code),
        _ => false,
    }
}

fn json_words(body: &[u8]) -> Option<(String, String)> {
    let body: Json = serde_json::from_slice(body).ok()?;
    let error = body.get("odata.error")?;
    let text = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or_default().to_owned();
    let message = error.get("message").and_then(|message| message.get("value"));
    Some((text(error.get("code")), text(message)))
}

fn xml_words(body: &[u8]) -> Option<(String, String)> {
    let root = xml::read(body)?;
    let either = |small: &str, large: &str| root.child_text(small).or(root.child_text(large));
    let code = either("code", "Code")?.to_owned();
    Some((code, either("message", "Message").unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_words_are_taken_apart() {
        let body = br#"{"odata.error":{"code":"EntityAlreadyExists","message":{"lang":"en-US","value":"3:The specified entity already exists.\nRequestId:fc61\nTime:2021"}}}"#;
        let refusal = Refusal::read(409, body);
        assert_eq!(refusal.code, "EntityAlreadyExists");
        assert_eq!(refusal.message, "The specified entity already exists.");
        assert_eq!((refusal.index, refusal.request_id.as_deref()), (Some(3), Some("fc61")));
    }

    #[test]
    fn errors_in_xml_are_read_in_both_forms() {
        for body in [
            "<?xml version=\"1.0\"?><m:error xmlns:m=\"x\"><m:code>TableNotFound</m:code><m:message xml:lang=\"en-US\">No table.\nRequestId:7\nTime:1</m:message></m:error>",
            "<Error><Code>TableNotFound</Code><Message>No table.\nRequestId:7\nTime:1</Message></Error>",
        ] {
            let refusal = Refusal::read(404, body.as_bytes());
            assert_eq!(
                (refusal.code.as_str(), refusal.message.as_str()),
                ("TableNotFound", "No table.")
            );
            assert_eq!(refusal.request_id.as_deref(), Some("7"));
        }
    }

    #[test]
    fn a_body_of_another_kind_still_gives_a_refusal() {
        for status in [502, 504, 520, 521, 522, 523, 524] {
            let (refusal, code) = (Refusal::read(status, b"<html>"), format!("HTTP {status}"));
            assert_eq!((&refusal.code, refusal.index), (&code, None));
            assert!(refusal.is_passing() && refusal.maybe_done, "{status}");
        }
        assert!(!Refusal::read(501, b"").is_passing());
    }

    /// Envoy answers so, too, where the connection behind it broke after the call had gone there.
    #[test]
    fn only_the_services_own_code_says_that_it_has_not_begun() {
        for status in [429, 503] {
            for body in ["", "upstream connect error", "<Error><Code>SlowDown</Code></Error>"] {
                assert!(Refusal::read(status, body.as_bytes()).maybe_done, "{status} {body}");
            }
            let bare = || Refusal::read(status, b"");
            for code in BUSY {
                let body = format!("{{\"odata.error\":{{\"code\":\"{code}\"}}}}");
                assert!(!Refusal::read(status, body.as_bytes()).maybe_done, "{status} {body}");
                let named = bare().or_code(Some(code.to_owned()));
                assert_eq!((named.code.as_str(), named.maybe_done), (code, false));
            }
            assert_eq!(bare().or_code(None), bare());
        }
    }

    #[test]
    fn an_earlier_loss_is_kept_by_every_error() {
        let (there, why) = (|| "https://h/a".to_owned(), || "why".to_owned());
        let refused = |status| {
            let refusal = Refusal::read(status, b"").or_code(Some("ServerBusy".to_owned()));
            Error::Refused(Box::new(refusal))
        };
        for (error, alone) in [
            (Error::Unreachable { endpoint: there(), cause: why(), maybe_done: false }, false),
            (Error::Untrusted { endpoint: there(), cause: why(), maybe_done: false }, false),
            (refused(412), false),
            (refused(503), false),
            (refused(500), true),
            (Error::Garbled(why()), true),
        ] {
            assert_eq!(error.maybe_done(), alone, "{error:?}");
            let after = error.clone().after_loss(&there());
            assert!(after.maybe_done(), "{after:?}");
            assert_eq!(after.to_string(), error.to_string());
        }
        let invalid = Error::Invalid(why());
        assert!(!invalid.maybe_done() && invalid.clone().after_loss(&there()).maybe_done());
        let words = invalid.after_loss(&there()).to_string();
        assert_eq!(words, "no answer from https://h/a: why");
    }
}

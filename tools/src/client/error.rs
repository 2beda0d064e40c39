//! Why a call failed: nobody answered, the service refused, or the answer made no sense.

use crate::exit::{Exit, Failure};
use serde_json::Value;

/// A refusal of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The service's code, as `TableNotFound`; the status where it gave none.
    pub(crate) code: String,
    /// Its message, without the request's id and time.
    pub(crate) message: String,
    /// For a batch: the operation at fault, from 0, where the service says it.
    pub(crate) index: Option<usize>,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// No answer, also after retries.
    Unreachable {
        /// Scheme, host and port.
        endpoint: String,
        /// What went wrong last.
        cause: String,
    },
    /// The service said no.
    Refused(Refusal),
    /// The answer is not of this protocol.
    Garbled(String),
}

impl Refusal {
    /// The refusal that an answer's status and body make.
    pub(crate) fn read(status: u16, body: &[u8]) -> Refusal {
        let error: Option<Value> = serde_json::from_slice(body).ok();
        let error = error.as_ref().and_then(|body| body.get("odata.error"));
        let code = error.and_then(|error| error.get("code")).and_then(Value::as_str);
        let message = error
            .and_then(|error| error.get("message"))
            .and_then(|message| message.get("value"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let message = message.split("\nRequestId:").next().unwrap_or_default();
        let (index, message) = match message.split_once(':') {
            Some((index, rest)) if index.parse::<usize>().is_ok() => (index.parse().ok(), rest),
            _ => (None, message),
        };
        Refusal {
            status,
            code: code.map_or_else(|| format!("HTTP {status}"), str::to_owned),
            message: message.to_owned(),
            index,
        }
    }

    /// Whether the same call may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 429 | 500 | 502 | 503 | 504)
    }
}

impl CallError {
    /// The error that ends the process, with its exit code.
    pub(crate) fn into_failure(self, doing: &str) -> Failure {
        match self {
            CallError::Unreachable { endpoint, cause } => Failure::new(
                Exit::Unavailable,
                format!("{doing}: no answer from {endpoint}: {cause}"),
            ),
            CallError::Refused(refusal) => {
                let Refusal { status, code, message, .. } = refusal;
                Failure::new(Exit::of_status(status), format!("{doing}: {code}: {message}"))
            }
            CallError::Garbled(what) => {
                Failure::new(Exit::Failure, format!("{doing}: unexpected answer: {what}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_services_words_are_kept_and_its_ids_dropped() {
        let body = br#"{"odata.error":{"code":"EntityAlreadyExists","message":{"lang":"en-US","value":"3:The specified entity already exists.\nRequestId:fc61\nTime:2021"}}}"#;
        let refusal = Refusal::read(409, body);
        assert_eq!(refusal.code, "EntityAlreadyExists");
        assert_eq!(refusal.message, "The specified entity already exists.");
        assert_eq!(refusal.index, Some(3));
    }

    #[test]
    fn a_body_of_another_kind_still_gives_a_refusal() {
        let refusal = Refusal::read(502, b"<html>");
        assert_eq!((refusal.code.as_str(), refusal.index), ("HTTP 502", None));
        assert!(refusal.is_passing());
    }
}

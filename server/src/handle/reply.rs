//! What every answer carries, and how a refusal is written.

use crate::context::Context;
use crate::error::{AUTHENTICATION_FAILED, BEARER_REFUSED, WireError};
use crate::handle::call::{Call, Prefer};
use crate::http::message::{Head, Response};
use crate::odata::json_out::{self, Form};
use crate::odata::options::{Metadata, Params, front_end_speaks_json, negotiate};

/// How refusals of a request are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorForm {
    /// As JSON, at the level that was asked for.
    Json(Metadata),
    /// As XML.
    Xml,
}

impl ErrorForm {
    /// The form for a request, whatever else is wrong with it.
    pub fn of(head: &Head, params: &Params, error: &WireError) -> ErrorForm {
        if head.method == "OPTIONS" {
            return ErrorForm::Xml;
        }
        let accept = head.headers.get("Accept");
        let negotiated = negotiate(params.get("$format"), accept);
        if is_by_front_end(error) {
            return ErrorForm::of_front_end(front_end_speaks_json(params, accept, &negotiated));
        }
        if params.is_for_settings() {
            return ErrorForm::Xml;
        }
        match negotiated {
            Ok(metadata) => ErrorForm::Json(metadata),
            Err(error) if error.code == "AtomFormatNotSupported" => ErrorForm::Xml,
            Err(_) => ErrorForm::Json(Metadata::Minimal),
        }
    }

    /// The JSON of the front end knows no levels.
    fn of_front_end(speaks_json: bool) -> ErrorForm {
        if speaks_json { ErrorForm::Json(Metadata::Minimal) } else { ErrorForm::Xml }
    }
}

/// Whether a refusal comes from before the service proper, which knows no versions.
pub fn is_by_front_end(error: &WireError) -> bool {
    let is = |own: WireError| (own.status, own.code) == (error.status, error.code);
    is(AUTHENTICATION_FAILED) || is(BEARER_REFUSED)
}

/// Whether a refusal is about who asks. Recorded: such answers are JSON without parameters, and
/// lack the two headers for browsers.
fn is_about_who_asks(status: u16, code: Option<&str>) -> bool {
    status == 401 || code == Some(AUTHENTICATION_FAILED.code)
}

/// An answer with everything that all answers carry. Recorded: those about settings lack the two
/// headers for browsers, too.
pub fn finished(context: &Context, mut response: Response) -> Response {
    let code = response.get("x-ms-error-code");
    if !context.speaks_xml && !is_about_who_asks(response.status, code) {
        response.header("Cache-Control", "no-cache");
        response.header("X-Content-Type-Options", "nosniff");
    }
    response.header("Server", SERVER);
    response.header("x-ms-request-id", context.request_id.clone());
    if !context.version.is_empty() {
        response.header("x-ms-version", context.version.clone());
    }
    if let Some(id) = &context.client_request_id {
        response.header("x-ms-client-request-id", id.clone());
    }
    context.cors.add_to(&mut response);
    response
}

/// JSON of which nothing more is said.
const PLAIN_JSON: &str = "application/json";

/// Probes look for the first token.
const SERVER: &str = concat!("Windows-Azure-Table/1.0 Tabulith/", env!("CARGO_PKG_VERSION"));

/// The answer to an admitted request: what its handler made of it, or the refusal. Who is not let
/// in any more is refused as if they came now.
pub fn answered(call: &Call, result: Result<Response, WireError>) -> Response {
    match result {
        Ok(response) => finished(&call.context, response),
        Err(error) if is_by_front_end(&error) => {
            let form = ErrorForm::of_front_end(call.front_end_speaks_json);
            let context = Context { version: String::new(), ..Context::clone(&call.context) };
            finished(&context, error_response(&context, form, &error))
        }
        Err(error) => finished(&call.context, refused(call, &error)),
    }
}

/// A refusal of an admitted request, without what all answers carry.
pub fn refused(call: &Call, error: &WireError) -> Response {
    let form =
        if call.operation.speaks_xml() { ErrorForm::Xml } else { ErrorForm::Json(call.metadata) };
    let mut response = error_response(&call.context, form, error);
    add_preference_applied(&mut response, call.prefer);
    response
}

/// Says that `Prefer` was heeded, where it was sent.
pub fn add_preference_applied(response: &mut Response, prefer: Option<Prefer>) {
    if let Some(prefer) = prefer {
        response.header("Preference-Applied", prefer.text());
    }
}

/// A refusal, without what all answers carry.
pub fn error_response(context: &Context, form: ErrorForm, error: &WireError) -> Response {
    let mut response = Response::new(error.status);
    response.header("x-ms-error-code", error.code);
    // Whatever refuses it: a request that is to be told a time to wait is told no other.
    let retry_after_s = context.retry_after.filter(|_| error.status == 503).or(error.retry_after_s);
    if let Some(seconds) = retry_after_s {
        response.header("Retry-After", seconds.to_string());
    }
    if error.bare {
        return response;
    }
    let (id, time) = (&context.request_id, context.time_text());
    let message = format!("{}\nRequestId:{id}\nTime:{time}", error.message);
    match form {
        ErrorForm::Json(metadata) => {
            let is_plain = is_about_who_asks(error.status, Some(error.code));
            let content_type = if is_plain { PLAIN_JSON } else { metadata.content_type() };
            response.header("Content-Type", content_type);
            response.body = json_out::error(error.code, &message).into();
        }
        ErrorForm::Xml => {
            response.header("Content-Type", "application/xml");
            response.body = xml_error(error.code, &message).into();
        }
    }
    response
}

fn xml_error(code: &str, message: &str) -> Vec<u8> {
    let message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error \
         xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\
         <m:code>{code}</m:code><m:message xml:lang=\"en-US\">{message}</m:message></m:error>"
    )
    .into_bytes()
}

/// An answer with a body of JSON.
pub fn json(call: &Call, status: u16, body: Vec<u8>) -> Response {
    let mut response = Response::new(status);
    response.header("Content-Type", call.metadata.content_type());
    response.body = body.into();
    response
}

/// An answer with a body of XML.
pub fn xml(status: u16, body: Vec<u8>) -> Response {
    let mut response = Response::new(status);
    response.header("Content-Type", "application/xml");
    response.body = body.into();
    response
}

/// What the JSON of an answer depends on.
pub fn form(call: &Call) -> Form<'_> {
    Form { metadata: call.metadata, base: &call.address.base, account: &call.address.account }
}

//! What the service answers when it refuses: status, code and message, word for word as Azure
//! sends them. SDKs and applications match on these texts, spelling mistakes included.
//!
//! Absent: how an error is written to the wire (`handle/reply`), and which error of the table layer
//! becomes which of these (`refusal`).

use std::borrow::Cow;
use std::fmt;

/// Most UTF-16 units of a message. Escaped, one takes six bytes at most.
const MESSAGE_UNITS_MAX: usize = 1_280;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The status code.
    pub status: u16,
    /// The code that SDKs decide by.
    pub code: &'static str,
    /// The text before `RequestId:`.
    pub message: Cow<'static, str>,
    /// Whether the answer has no body at all, as the service's front end does with some URLs.
    pub bare: bool,
    /// Seconds after which to ask again, where the answer says so.
    pub retry_after_s: Option<u64>,
}

impl WireError {
    const fn fixed(status: u16, code: &'static str, message: &'static str) -> WireError {
        let message = Cow::Borrowed(message);
        WireError { status, code, message, bare: false, retry_after_s: None }
    }

    /// The same refusal in other words, of which no more is kept than there is room for: they may
    /// repeat what was sent, and be kept for as long as a body takes that nobody was let in to
    /// send.
    pub fn saying(self, message: impl Into<Cow<'static, str>>) -> WireError {
        let message = match message.into() {
            Cow::Borrowed(text) => Cow::Borrowed(cut(text, MESSAGE_UNITS_MAX)),
            Cow::Owned(text) => Cow::Owned(cut(&text, MESSAGE_UNITS_MAX).to_owned()),
        };
        WireError { message, ..self }
    }

    /// The same refusal with a body, where nothing but a body can tell it.
    pub fn told(self) -> WireError {
        WireError { bare: false, ..self }
    }

    /// The message as it stands in the answer to one operation of a change set.
    pub fn at_index(self, index: usize) -> WireError {
        let message = format!("{index}:{}", self.message);
        self.saying(message)
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.code, self.message)
    }
}

impl std::error::Error for WireError {}

/// Generic bad input.
pub const INVALID_INPUT: WireError =
    WireError::fixed(400, "InvalidInput", "One of the request inputs is not valid.");

/// A body that is not JSON, or a value that is not of its type.
pub const BAD_BODY: WireError =
    WireError::fixed(400, "InvalidInput", "An error occurred while processing this request.");

/// An address that does not parse.
pub const BAD_ADDRESS: WireError =
    WireError::fixed(400, "InvalidInput", "Bad Request - Error in query syntax.");

/// An address with a control character. The service's front end answers it without a body.
pub const CONTROL_IN_ADDRESS: WireError = WireError {
    status: 400,
    code: "InvalidInput",
    message: Cow::Borrowed("Bad Request - Error in query syntax."),
    bare: true,
    retry_after_s: None,
};

/// A `$filter` that is not a condition.
pub const FILTER_NOT_BOOLEAN: WireError = WireError::fixed(
    400,
    "InvalidInput",
    "The $filter expression must evaluate to a single boolean value.",
);

/// A key in an address with a forbidden character.
pub const OUT_OF_RANGE_INPUT: WireError =
    WireError::fixed(400, "OutOfRangeInput", "One of the request inputs is out of range.");

/// A table name shorter than 3 or longer than 63.
pub const NAME_LENGTH: WireError = WireError::fixed(
    400,
    "OutOfRangeInput",
    "The specified resource name length is not within the permissible limits.",
);

/// A table name with other characters than letters and digits.
pub const INVALID_RESOURCE_NAME: WireError = WireError::fixed(
    400,
    "InvalidResourceName",
    "The specifed resource name contains invalid characters.",
);

/// A key or a table name is missing.
pub const PROPERTIES_NEED_VALUE: WireError = WireError::fixed(
    400,
    "PropertiesNeedValue",
    "The values are not specified for all properties in the entity.",
);

/// A property name that is no identifier.
pub const PROPERTY_NAME_INVALID: WireError =
    WireError::fixed(400, "PropertyNameInvalid", "The property name is invalid.");

/// A property name of more than 255 characters.
pub const PROPERTY_NAME_TOO_LONG: WireError = WireError::fixed(
    400,
    "PropertyNameTooLong",
    "The property name exceeds the maximum allowed length (255).",
);

/// A string, a binary or a key that is too long.
pub const PROPERTY_VALUE_TOO_LARGE: WireError = WireError::fixed(
    400,
    "PropertyValueTooLarge",
    "The property value exceeds the maximum allowed size (64KB). If the property value is a \
     string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.",
);

/// More than 252 custom properties.
pub const TOO_MANY_PROPERTIES: WireError = WireError::fixed(
    400,
    "TooManyProperties",
    "The entity contains more properties than allowed. Each entity can include up to 252 \
     properties to store data. Each entity also has 3 system properties.",
);

/// An entity of more than 1 MiB.
pub const ENTITY_TOO_LARGE: WireError = WireError::fixed(
    400,
    "EntityTooLarge",
    "The entity is larger than the maximum allowed size (1MB).",
);

/// A name twice in one entity.
pub const DUPLICATE_PROPERTIES: WireError = WireError::fixed(
    400,
    "DuplicatePropertiesSpecified",
    "A property is specified more than one time.",
);

/// A row twice in one change set.
pub const INVALID_DUPLICATE_ROW: WireError = WireError::fixed(
    400,
    "InvalidDuplicateRow",
    "The batch request contains multiple changes with same row key. An entity can appear only \
     once in a batch request.",
);

/// Two partitions in one change set.
pub const DIFFERENT_PARTITIONS: WireError = WireError::fixed(
    400,
    "CommandsInBatchActOnDifferentPartitions",
    "All commands in a batch must operate on same entity group.",
);

/// More than 100 operations in one change set.
pub const TOO_MANY_CHANGES: WireError = WireError::fixed(
    400,
    "InvalidInput",
    "The batch request operation exceeds the maximum 100 changes per change set.",
);

/// A header that does not parse.
pub const INVALID_HEADER_VALUE: WireError = WireError::fixed(
    400,
    "InvalidHeaderValue",
    "The value for one of the HTTP headers is not in the correct format.",
);

/// `x-tabulith-as-of` on what does not read tables or entities.
pub const AS_OF_NOT_SUPPORTED: WireError = WireError::fixed(
    400,
    "AsOfNotSupported",
    "The header x-tabulith-as-of goes with requests that read tables or entities only.",
);

/// `x-tabulith-as-of` for a moment that is not kept, or not past. Its message names those that are.
pub const AS_OF_OUT_OF_RANGE: WireError =
    WireError::fixed(400, "AsOfOutOfRange", "The moment to read as of is not kept.");

/// A query parameter that does not parse.
pub const INVALID_QUERY_PARAMETER_VALUE: WireError = WireError::fixed(
    400,
    "InvalidQueryParameterValue",
    "Value for one of the query parameters specified in the request URI is invalid.",
);

/// A header is missing.
pub const MISSING_REQUIRED_HEADER: WireError =
    WireError::fixed(400, "MissingRequiredHeader", "A required HTTP header was not specified.");

/// `If-Match` and `If-None-Match` on one write.
pub const BOTH_CONDITION_HEADERS: WireError = WireError::fixed(
    400,
    "InvalidInput",
    "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please \
     specify either one of the headers or none of them.",
);

/// A verb that nobody knows.
pub const INVALID_HTTP_VERB: WireError = WireError::fixed(
    400,
    "InvalidHttpVerb",
    "The HTTP verb specified was not recognized by the server.",
);

/// `If-None-Match` on a write that leaves an entity, by whichever verb.
pub const IF_NONE_MATCH_ON_PUT: WireError = WireError::fixed(
    400,
    "InvalidInput",
    "If-None-Match HTTP header cannot be specified for PUT operations.",
);

/// `If-None-Match` on a removal.
pub const IF_NONE_MATCH_ON_DELETE: WireError = WireError::fixed(
    400,
    "InvalidInput",
    "If-None-Match HTTP header cannot be specified for DELETE operations.",
);

/// An address below nothing that exists.
pub const INVALID_URI: WireError = WireError::fixed(
    400,
    "InvalidUri",
    "The requested URI does not represent any resource on the server.",
);

/// No `Host`.
pub const HOST_INFORMATION_NOT_PRESENT: WireError = WireError::fixed(
    400,
    "HostInformationNotPresent",
    "The required host information is not present in the request. You must send a non-empty Host \
     header or include the absolute URI in the request line.",
);

/// XML that does not parse, or that says more than the service keeps.
pub const INVALID_XML_DOCUMENT: WireError =
    WireError::fixed(400, "InvalidXmlDocument", "XML specified is not syntactically valid.");

/// A value within a document of XML that is not of its kind.
pub const INVALID_XML_NODE_VALUE: WireError = WireError::fixed(
    400,
    "InvalidXmlNodeValue",
    "The value provided for one of the XML nodes in the request body was not in the correct \
     format.",
);

/// An element of XML that the service does not have.
pub const UNSUPPORTED_XML_NODE: WireError = WireError::fixed(
    400,
    "UnsupportedXmlNode",
    "One of the XML nodes specified in the request body is not supported.",
);

/// An element of XML that is missing.
pub const MISSING_REQUIRED_XML_NODE: WireError = WireError::fixed(
    400,
    "MissingRequiredXmlNode",
    "A required XML node was not specified in the request body.",
);

/// An `Authorization` that does not parse.
pub const INVALID_AUTHENTICATION_INFO: WireError = WireError::fixed(
    400,
    "InvalidAuthenticationInfo",
    "Authentication information is not given in the correct format. Check the value of \
     Authorization header.",
);

/// Verb tunnelling by another verb than POST.
pub const X_METHOD_NOT_USING_POST: WireError = WireError::fixed(
    400,
    "XMethodNotUsingPost",
    "The request uses X-HTTP-Method with an HTTP verb other than POST.",
);

/// Verb tunnelling of a verb that cannot be tunnelled.
pub const X_METHOD_INCORRECT_VALUE: WireError =
    WireError::fixed(400, "XMethodIncorrectValue", "The specified X-HTTP-Method is invalid.");

/// Two tunnelled verbs.
pub const X_METHOD_INCORRECT_COUNT: WireError =
    WireError::fixed(400, "XMethodIncorrectCount", "More than one X-HTTP-Method is specified.");

/// A bearer token that is refused.
pub const BEARER_REFUSED: WireError = WireError::fixed(
    401,
    "InvalidAuthenticationInfo",
    "Server failed to authenticate the request. Please refer to the information in the \
     www-authenticate header.",
);

/// No credentials, where a bearer token would have been one.
pub const NO_AUTHENTICATION_INFORMATION: WireError = WireError::fixed(
    401,
    "NoAuthenticationInformation",
    "Server failed to authenticate the request. Please refer to the information in the \
     www-authenticate header.",
);

/// A signature that does not verify, an unknown account, a date too far away, or no credentials:
/// one answer for all, so that it tells nothing.
pub const AUTHENTICATION_FAILED: WireError = WireError::fixed(
    403,
    "AuthenticationFailed",
    "Server failed to authenticate the request. Make sure the value of Authorization header is \
     formed correctly including the signature.",
);

/// A grant that does not cover the operation.
pub const AUTHORIZATION_FAILURE: WireError = WireError::fixed(
    403,
    "AuthorizationFailure",
    "This request is not authorized to perform this operation.",
);

/// A shared access signature or a token without the permission.
pub const AUTHORIZATION_PERMISSION_MISMATCH: WireError = WireError::fixed(
    403,
    "AuthorizationPermissionMismatch",
    "This request is not authorized to perform this operation using this permission.",
);

/// An account SAS for resources of another kind.
pub const AUTHORIZATION_RESOURCE_TYPE_MISMATCH: WireError = WireError::fixed(
    403,
    "AuthorizationResourceTypeMismatch",
    "This request is not authorized to perform this operation using this resource type.",
);

/// An account SAS for another service than Table.
pub const AUTHORIZATION_SERVICE_MISMATCH: WireError = WireError::fixed(
    403,
    "AuthorizationServiceMismatch",
    "This request is not authorized to perform this operation using this service.",
);

/// A shared access signature for TLS only, without it.
pub const AUTHORIZATION_PROTOCOL_MISMATCH: WireError = WireError::fixed(
    403,
    "AuthorizationProtocolMismatch",
    "This request is not authorized to perform this operation using this protocol.",
);

/// A write to the secondary endpoint.
pub const SECONDARY_IS_READ_ONLY: WireError =
    WireError::fixed(403, "InsufficientAccountPermissions", "Write operations are not allowed.");

/// A browser's question for which no rule of the account's is.
pub const CORS_PREFLIGHT_FAILURE: WireError = WireError::fixed(
    403,
    "CorsPreflightFailure",
    "CORS not enabled or no matching rule found for this request.",
);

/// A missing entity, or a missing table that was to be deleted or shown.
pub const RESOURCE_NOT_FOUND: WireError =
    WireError::fixed(404, "ResourceNotFound", "The specified resource does not exist.");

/// An entity operation on a missing table.
pub const TABLE_NOT_FOUND: WireError =
    WireError::fixed(404, "TableNotFound", "The table specified does not exist.");

/// A verb that the resource does not have.
pub const UNSUPPORTED_HTTP_VERB: WireError = WireError::fixed(
    405,
    "UnsupportedHttpVerb",
    "The resource doesn't support specified Http Verb.",
);

/// A table that is there already.
pub const TABLE_ALREADY_EXISTS: WireError =
    WireError::fixed(409, "TableAlreadyExists", "The table specified already exists.");

/// A table whose end is not yet over.
pub const TABLE_BEING_DELETED: WireError = WireError::fixed(
    409,
    "TableBeingDeleted",
    "The specified table is being deleted. Try operation later.",
);

/// An entity that is there already.
pub const ENTITY_ALREADY_EXISTS: WireError =
    WireError::fixed(409, "EntityAlreadyExists", "The specified entity already exists.");

/// A body of unknown length.
pub const MISSING_CONTENT_LENGTH: WireError = WireError::fixed(
    411,
    "MissingContentLengthHeader",
    "Content-Length HTTP header is not specified.",
);

/// An ETag that is no longer the entity's.
pub const UPDATE_CONDITION_NOT_SATISFIED: WireError = WireError::fixed(
    412,
    "UpdateConditionNotSatisfied",
    "The update condition specified in the request was not satisfied.",
);

/// A body of more than 4 MiB.
pub const REQUEST_BODY_TOO_LARGE: WireError = WireError::fixed(
    413,
    "RequestBodyTooLarge",
    "The request body is too large and exceeds the maximum permissible limit.",
);

/// A media type that is not known here.
pub const MEDIA_TYPE_NOT_SUPPORTED: WireError = WireError::fixed(
    415,
    "MediaTypeNotSupported",
    "None of the provided media types are supported",
);

/// Atom.
pub const ATOM_FORMAT_NOT_SUPPORTED: WireError =
    WireError::fixed(415, "AtomFormatNotSupported", "Atom format is not supported.");

/// The JSON of older versions of OData.
pub const JSON_VERBOSE_FORMAT_NOT_SUPPORTED: WireError =
    WireError::fixed(415, "JsonVerboseFormatNotSupported", "JSON format is not supported.");

/// Our own failure; its cause goes to the log.
pub const INTERNAL_ERROR: WireError = WireError::fixed(
    500,
    "InternalError",
    "Server encountered an internal error. Please try again after some time.",
);

/// An operation that did not end in time. What it was to change may have been changed.
pub const OPERATION_TIMED_OUT: WireError = WireError::fixed(
    500,
    "OperationTimedOut",
    "Operation could not be completed within the permitted time.",
);

/// An operation or an option that the service does not have.
pub const NOT_IMPLEMENTED: WireError = WireError::fixed(
    501,
    "NotImplemented",
    "The requested operation is not implemented on the specified resource.",
);

const BUSY: &str = "The server is currently unable to receive requests. Please retry your request.";

/// Too many requests by a limit of rate, as the service says it.
pub const SERVER_BUSY: WireError = WireError::fixed(503, "ServerBusy", BUSY);

/// This server has no room: in memory, in the database's buffers or on its disk. Nothing has
/// happened; whoever asks again at once makes it worse.
pub const OVERLOADED: WireError = WireError {
    status: 503,
    code: "ServerBusy",
    message: Cow::Borrowed(BUSY),
    bare: false,
    retry_after_s: Some(1),
};

/// More requests of an account than it may send.
pub const ACCOUNT_OVER_LIMIT: WireError =
    WireError::fixed(503, "ServerBusy", "Operations per second is over the account limit.");

/// As much as is repeated of a name, which may be as long as an address: those that are any take
/// 63 units at most.
const NAME_SHOWN_UNITS_MAX: usize = 256;

/// As much as is repeated of a value that is refused: it may be as long as a body.
const SHOWN_UNITS_MAX: usize = 896;

/// As much of a text as fits into so many UTF-16 units.
fn cut(text: &str, units: usize) -> &str {
    let mut left = Some(units);
    let is_beyond = |c: char| {
        left = left.and_then(|left| left.checked_sub(c.len_utf16()));
        left.is_none()
    };
    let end = text.find(is_beyond).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn shown_name(name: &str) -> &str {
    cut(name, NAME_SHOWN_UNITS_MAX)
}

fn shown(value: &str) -> &str {
    cut(value, SHOWN_UNITS_MAX)
}

/// The address gives another number of keys than the resource has.
pub fn key_count(account: &str, table: &str) -> WireError {
    let [account, table] = [account, table].map(shown_name);
    INVALID_INPUT.saying(format!(
        "The number of keys specified in the URI does not match number of key properties for the \
         resource '{account}.{table}'."
    ))
}

/// A key or a property of a body whose value is out of range.
pub fn value_out_of_range(property: &str, value: &str) -> WireError {
    let (property, value) = (shown_name(property), shown(value));
    OUT_OF_RANGE_INPUT
        .saying(format!("The '{property}' parameter of value '{value}' is out of range."))
}

/// A shared access signature for other addresses than the one that asks.
pub fn source_ip_mismatch(address: &str) -> WireError {
    let message = "This request is not authorized to perform this operation using this source IP";
    WireError::fixed(403, "AuthorizationSourceIPMismatch", "")
        .saying(format!("{message} {address}."))
}

/// An `If-Match` that is not one weak ETag.
pub fn bad_etag(value: &str) -> WireError {
    let value = shown(value);
    INVALID_INPUT.saying(format!(
        "The etag value '{value}' specified in one of the request headers is not valid. Please \
         make sure only one etag value is specified and is valid."
    ))
}

/// What is wrong at a place of a `$filter`, as the library says it that the service reads filters
/// with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterFault {
    /// Something stands where the filter could be over.
    Syntax,
    /// A character that begins nothing.
    Character(char),
    /// A text without its second quote.
    Text,
    /// The same behind a word, as in `guid'1`.
    Literal,
    /// No digit where a number needs one.
    Digit,
    /// Nothing to compare or to ask.
    Expression,
    /// A parenthesis that is not closed.
    Parenthesis,
}

impl fmt::Display for FilterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterFault::Syntax => f.write_str("Syntax error"),
            FilterFault::Character(c) => write!(f, "Syntax error: character '{c}' is not valid"),
            FilterFault::Text => f.write_str("There is an unterminated string literal"),
            FilterFault::Literal => f.write_str("There is an unterminated literal"),
            FilterFault::Digit => f.write_str("A digit was expected"),
            FilterFault::Expression => f.write_str("Expression expected"),
            FilterFault::Parenthesis => f.write_str("')' or operator expected"),
        }
    }
}

/// A `$filter` that stops making sense at `position`, in UTF-16 units from 0.
pub fn filter_syntax(fault: FilterFault, position: usize, filter: &str) -> WireError {
    let filter = shown(filter);
    INVALID_INPUT.saying(format!("{fault} at position {position} in '{filter}'."))
}

/// A function in a `$filter` that the protocol does not have.
pub fn unknown_function(name: &str) -> WireError {
    let name = shown_name(name);
    INVALID_INPUT.saying(format!("An unknown function with name '{name}' was found."))
}

/// A literal of a `$filter` that is not of its type, as it is written there.
pub fn filter_literal(edm_type: &str, text: &str, position: usize, filter: &str) -> WireError {
    let (text, filter) = (shown_name(text), shown(filter));
    INVALID_INPUT.saying(format!(
        "Unrecognized '{edm_type}' literal '{text}' at '{position}' in '{filter}'."
    ))
}

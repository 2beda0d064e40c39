//! Bounds of the wire: sizes, counts and times that a request may have.

use std::time::Duration;
use tabulith::table::page;
use tabulith::table::rules::{GROUP_OPERATIONS_MAX, KEY_UNITS_MAX};

/// Most bytes of a request's body, `$batch` included.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// Most bytes of a batch of somebody who may change nothing: it has one query, whose address may be
/// as long as any.
pub const READ_BATCH_BYTES_MAX: usize = TARGET_BYTES_MAX + (16 << 10);

/// Most bytes of a refused body that are read and thrown away, so that the client sees the answer
/// instead of a reset connection.
pub const BODY_DISCARD_BYTES_MAX: usize = 32 << 20;

/// Most bytes of a change that is tried where it came in, before it is given to a thread that may
/// wait: reading more would hold up other connections for longer than the change of threads costs.
pub const QUICK_BODY_BYTES_MAX: usize = 16 << 10;

/// Most bytes of a batch that is read on the task that it came in on, to know whose turn it needs:
/// work goes by lines, of which 4 MiB may have two million. One of 100 ordinary entities is less.
pub const QUICK_BATCH_BYTES_MAX: usize = 128 << 10;

/// Most bytes of a stored entity that is written out where it was asked for: JSON of a MiB takes 25
/// ms, for which other connections would wait.
pub const QUICK_ENTITY_BYTES_MAX: usize = 64 << 10;

/// Room for the request line and all headers of one request; also for the headers of an operation
/// in a batch.
///
/// The HTTP library takes a request target of up to 65,534 bytes; headers come on top.
pub const HEAD_BYTES_MAX: usize = 160 << 10;

/// Most bytes of the request target of an operation in a batch: what the HTTP library takes of
/// others.
pub const TARGET_BYTES_MAX: usize = 65_534;

/// Most bytes of a path that may have been signed in another spelling, and of that one: an
/// entity's has two keys, a unit of which takes three bytes at most, percent-encoded nine; account,
/// table and what stands between take far less than 1 KiB, encoded too.
pub const RESPELLED_PATH_BYTES_MAX: usize = 2 * 9 * KEY_UNITS_MAX + 1024;

/// Most bytes of what is signed beside such a path, which clients fill with a few hundred.
pub const RESPELLED_BESIDE_BYTES_MAX: usize = 2 << 10;

/// Most headers of one request, and of one of an operation in a batch.
pub const HEADERS_MAX: usize = 100;

/// Most bytes of the host that a request names: a name of the DNS with its last point, and a port.
/// It stands in every answer to an insert.
pub const AUTHORITY_BYTES_MAX: usize = 254 + 6;

/// Most bytes of `x-ms-client-request-id`.
pub const CLIENT_REQUEST_ID_BYTES_MAX: usize = 1024;

/// Most operations of one change set.
pub const CHANGES_MAX: usize = GROUP_OPERATIONS_MAX;

/// Most characters of a multipart boundary (RFC 2046, 5.1.1).
pub const BOUNDARY_CHARS_MAX: usize = 70;

/// The rate at which a client has to take an answer in the long run, beyond the time for which it
/// may take nothing of it.
pub const ANSWER_BYTES_A_SECOND_MIN: u64 = 64 << 10;

/// Most comparisons, flags and operators of a `$filter`.
pub const FILTER_NODES_MAX: usize = 2_000;

/// Most parentheses and `not`s of a `$filter` that may be open at once.
pub const FILTER_DEPTH_MAX: usize = 100;

/// Most parameters of a query string, and of one of an operation in a batch. A request has some
/// ten, of which a signature needs most; each is looked for among all.
pub const PARAMETERS_MAX: usize = 128;

/// Most names of a `$select`.
pub const SELECT_NAMES_MAX: usize = 255;

/// Most entities of a page, and the default.
pub const PAGE_ENTITIES_MAX: usize = page::PAGE_ENTITIES_MAX;

/// Most members of an entity's JSON object: a value and an annotation for each property, and room
/// for `odata.` members.
pub const JSON_MEMBERS_MAX: usize = 8_192;

/// Depth of what stands within a body of JSON and is passed over.
pub const JSON_DEPTH_MAX: usize = 100;

/// Most bytes of a document of XML: five policies or five CORS rules need a fifth of that.
pub const XML_BYTES_MAX: usize = 64 << 10;

/// Most elements of a document that may be open at once.
pub const XML_DEPTH_MAX: usize = 8;

/// Most attributes of one element; none of them means anything to the service.
pub const XML_ATTRIBUTES_MAX: usize = 16;

/// How often texts that may change while the server serves are read.
pub const RELOAD_EVERY: Duration = Duration::from_secs(60);

/// Most bytes of a bearer token.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Most bytes of a text of public keys, and of one of accounts.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// Most public keys of a text.
pub const JWKS_KEYS_MAX: usize = 100;

/// Most stored policies of a table.
pub const POLICIES_MAX: usize = 5;

/// Most characters of a stored policy's name.
pub const POLICY_ID_CHARS_MAX: usize = 64;

/// Most rules for browsers of an account.
pub const CORS_RULES_MAX: usize = 5;

/// Most origins of a rule, and most headers of one of its lists that are named in full.
pub const CORS_ENTRIES_MAX: usize = 64;

/// Most headers of one list of a rule that are named by their start.
pub const CORS_PREFIXES_MAX: usize = 2;

/// Most characters of an origin or a header of a rule.
pub const CORS_ENTRY_CHARS_MAX: usize = 256;

/// Most bytes of all texts of an account's rules.
pub const CORS_TEXT_BYTES_MAX: usize = 2 << 10;

/// Days for which logs and metrics may be kept.
pub const RETENTION_DAYS: std::ops::RangeInclusive<u16> = 1..=365;

/// Most tables that `$metadata` describes.
pub const METADATA_TABLES_MAX: usize = 10_000;

/// How far a request's date may lie from the server's clock.
pub const DATE_SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// Time that a request may take in all; also what a client waits that does not say.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Time one query may run before it ends its page.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(5);

/// Rows one query may examine before it ends its page.
pub const QUERY_ROWS_MAX: u64 = 1_000_000;

/// Bytes of rows one query may read before it ends its page.
pub const QUERY_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a page after which it ends at the latest: an entity of the largest size may still have
/// been added.
pub const PAGE_BYTES_MAX: usize = 16 << 20;

/// A page ends at the latest where it is more than this part of the memory for answers, in which it
/// has twice its size.
pub const PAGE_PART: usize = 16;

/// Most bytes of a `$filter`: more than any request line can carry.
pub const FILTER_BYTES_MAX: usize = 64 << 10;

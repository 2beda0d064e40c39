//! `POST /$batch`: a change set that happens as a whole or not at all, or one query.

use crate::auth::verify::Grant;
use crate::batch::changeset::{self, Answer as PartAnswer, Batch, NoBatch, Reading};
use crate::batch::multipart::Embedded;
use crate::context::{Ids, echoed};
use crate::error::{
    DIFFERENT_PARTITIONS, INVALID_INPUT, OVERLOADED, SERVER_BUSY, TABLE_NOT_FOUND, WireError,
};
use crate::handle::answer::{Answer, TakeRoom};
use crate::handle::call::{Call, Prefer};
use crate::handle::reply::{self, ErrorForm};
use crate::handle::{entities, query};
use crate::http::message::{Head, Response};
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX};
use crate::odata::options::{Metadata, Params, negotiate};
use crate::refusal::group_refusal;
use crate::route::Operation;
use crate::services::base::{Services, Store};
use std::borrow::Cow;
use std::sync::Arc;
use tabulith::options::Reach;
use tabulith::table::error::GroupError;
use tabulith::table::write::{Write, WriteOutcome};

/// What the answer to an operation of a change set takes beside its body, its addresses and its
/// `Content-ID`: ten lines, two of them with an id, a moment or a type of content.
const PART_BYTES_MAX: usize = 512;

/// What stands around all of them.
const FRAME_BYTES_MAX: usize = 512;

/// Answers a batch, as its body was read.
pub fn batch<S: Store>(
    services: &Services<S>,
    ids: &Ids,
    call: &Arc<Call>,
    reading: Reading<'_>,
    take_room: TakeRoom<'_>,
) -> Result<Answer, WireError> {
    let boundaries = Boundaries { batch: ids.next(), changeset: ids.next() };
    match reading {
        Ok(Batch::Query(request)) => {
            let response = read(services, call, &request)?;
            Ok(Answer::Now(reply::finished(&call.context, boundaries.query(response))))
        }
        Ok(Batch::Changes(requests)) => {
            Ok(changes(services, call, &requests, boundaries, take_room))
        }
        Err(NoBatch { error, index: None }) => Err(error),
        Err(NoBatch { error, index: Some(index) }) => {
            let failed = Failed { index, manner: None, error };
            Ok(Answer::Now(reply::finished(&call.context, boundaries.failure(call, failed))))
        }
    }
}

/// An operation of a change set.
struct Part {
    call: Call,
    manner: Manner,
}

/// How an operation is answered, whatever it turns out to be.
#[derive(Clone)]
struct Manner {
    metadata: Metadata,
    prefer: Option<Prefer>,
    content_id: Option<String>,
}

impl Manner {
    fn of(head: &Head) -> Manner {
        let params = Params::parse(head.query()).unwrap_or_default();
        let metadata = negotiate(params.get("$format"), head.headers.get("Accept"));
        // Only inserts heed it, and they are the ones that are posted.
        let inserts = head.method == "POST" && head.headers.get("X-HTTP-Method").is_none();
        Manner {
            metadata: metadata.unwrap_or_default(),
            prefer: Prefer::of(head).filter(|_| inserts),
            content_id: echoed(head.headers.get("Content-ID")),
        }
    }
}

/// An operation that was understood: what it is, its permission and what it does.
struct Understood {
    call: Call,
    grant: Grant,
    write: Write,
}

/// The operation at fault. Of one that is no request nobody knows how it wants to be answered.
struct Failed {
    index: usize,
    manner: Option<Manner>,
    error: WireError,
}

fn changes<S: Store>(
    services: &Services<S>,
    call: &Arc<Call>,
    requests: &[Embedded],
    boundaries: Boundaries,
    take_room: TakeRoom<'_>,
) -> Answer {
    let failure = |failed| {
        let response = boundaries.failure(call, failed);
        Answer::Now(reply::finished(&call.context, response))
    };
    let mut parts: Vec<Part> = Vec::with_capacity(requests.len());
    let mut writes = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        let understood = head_of(call, request).map_err(|error| (None, error)).and_then(|head| {
            let understood = understand(services, call, parts.first(), &head, request.body);
            let manner = Manner::of(&head);
            understood.map_err(|error| (Some(manner.clone()), error)).map(|own| (manner, own))
        });
        match understood {
            Ok((manner, Understood { call, grant, write })) => {
                parts.push(Part { call, manner });
                writes.push((grant, write));
            }
            Err((manner, error)) => {
                // Changes are looked at in order: one before this may be at fault in another way.
                let (index, manner, error) = match services.first_fault(&writes) {
                    Some((before, error)) => (before, take(parts, before), error),
                    // The service looks for the table at the first change.
                    None if error == TABLE_NOT_FOUND => (0, take(parts, 0).or(manner), error),
                    None => (index, manner, error),
                };
                return failure(Failed { index, manner, error });
            }
        }
    }
    // A busy server refuses the batch as a whole: clients look for that in the status alone.
    let bytes_max = answer_bytes_max(&parts, &writes);
    if !take_room(bytes_max) {
        return Answer::Now(reply::answered(call, Err(OVERLOADED)));
    }
    if let Some((grant, first)) = writes.first()
        && let Err(error) = services.charge(grant, first.keys().0, writes.len())
    {
        return Answer::Now(reply::answered(call, Err(error)));
    }
    match services.transact(writes) {
        Ok(pending) => Answer::after(call, pending, move |call, outcome| {
            boundaries.outcome(call, parts, bytes_max, outcome)
        }),
        Err((_, error)) if is_busy(&error) => Answer::Now(reply::answered(call, Err(error))),
        Err((index, error)) => failure(Failed { index, manner: take(parts, index), error }),
    }
}

/// How long the answer to a change set will be at most.
fn answer_bytes_max(parts: &[Part], writes: &[(Grant, Write)]) -> usize {
    let of_part = |(part, (_, write)): (&Part, &(Grant, Write))| {
        let content_id_bytes = part.manner.content_id.as_ref().map_or(0, String::len);
        PART_BYTES_MAX + content_id_bytes + entities::changed_bytes_max(&part.call, write)
    };
    FRAME_BYTES_MAX + parts.iter().zip(writes).map(of_part).sum::<usize>()
}

/// Reads one request of a change set, and permits it. Whether its table is there means nothing
/// where it is not that of the `first`.
fn understand<S: Store>(
    services: &Services<S>,
    call: &Call,
    first: Option<&Part>,
    head: &Head,
    body: &[u8],
) -> Result<Understood, WireError> {
    let call = call.part(head)?;
    if !call.operation.is_change() {
        return Err(INVALID_INPUT);
    }
    let grant = call.grant()?.clone();
    let write = entities::write_of(services, &call, body).map_err(|error| {
        let is_elsewhere = first.is_some_and(|first| !is_of_one_table(&first.call, &call));
        if error == TABLE_NOT_FOUND && is_elsewhere { DIFFERENT_PARTITIONS } else { error }
    })?;
    let (partition_key, row_key) = write.keys();
    grant.check_keys(partition_key, row_key)?;
    Ok(Understood { call, grant, write })
}

fn is_of_one_table(one: &Call, other: &Call) -> bool {
    let [one, other] = [one, other].map(|call| call.operation.table().unwrap_or_default());
    one.eq_ignore_ascii_case(other)
}

/// The head of an operation, as short as that of a request of its own must be, and its target as
/// plain.
fn head_of(call: &Call, request: &Embedded) -> Result<Head, WireError> {
    let target_bytes = request.target.len();
    if target_bytes > TARGET_BYTES_MAX || request.headers_bytes() > HEAD_BYTES_MAX {
        return Err(INVALID_INPUT);
    }
    // As of a request of its own: what others read ends there.
    if request.target.contains('#') {
        return Err(INVALID_INPUT);
    }
    let mut head = Head {
        method: request.method.to_owned(),
        target: request.path_and_query().to_owned(),
        authority: String::new(),
        secure: call.address.base.starts_with("https:"),
        ..Head::default()
    };
    for (count, (name, value)) in request.headers().enumerate() {
        // A line that is no header could have been meant for a condition.
        if count == HEADERS_MAX || !is_header_name(&name) {
            return Err(INVALID_INPUT);
        }
        head.headers.push(&name, value);
    }
    Ok(head)
}

/// Whether a text is a token, as names of headers are (RFC 9110, 5.6.2).
fn is_header_name(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

fn take(parts: Vec<Part>, index: usize) -> Option<Manner> {
    parts.into_iter().nth(index).map(|part| part.manner)
}

/// Runs the one query of a batch. Fails where the server is too busy for that.
fn read<S: Store>(
    services: &Services<S>,
    call: &Call,
    request: &Embedded,
) -> Result<Response, WireError> {
    let refused = |error: WireError, metadata| {
        reply::error_response(&call.context, ErrorForm::Json(metadata), &error.told())
    };
    let head = match head_of(call, request) {
        Ok(head) => head,
        Err(error) => return Ok(refused(error, call.metadata)),
    };
    let part = match call.part(&head) {
        Ok(part) => part,
        Err(error) => return Ok(refused(error, Manner::of(&head).metadata)),
    };
    let result = match &part.operation {
        Operation::Get(place) => {
            services.charge_for(part.grant()?, place)?;
            entities::get(services, &part, place, Reach::Disk)
                .and_then(|response| response.ok_or(INVALID_INPUT))
        }
        Operation::Query(table) => query::query(services, &part, table),
        _ => Err(INVALID_INPUT),
    };
    match result {
        Err(error) if is_busy(&error) => Err(error),
        result => Ok(result.unwrap_or_else(|error| reply::refused(&part, &error))),
    }
}

/// Whether the batch as a whole is refused, with a time to wait: clients look for that in the
/// status alone.
fn is_busy(error: &WireError) -> bool {
    error.status == SERVER_BUSY.status
}

/// The two unique texts of an answer.
struct Boundaries {
    batch: String,
    changeset: String,
}

impl Boundaries {
    fn outcome(
        &self,
        call: &Call,
        parts: Vec<Part>,
        bytes_max: usize,
        outcome: Result<Vec<WriteOutcome>, GroupError>,
    ) -> Result<Response, WireError> {
        match outcome {
            Ok(outcomes) => {
                // One after the other: together they are as long as the body once more.
                let answers = parts.into_iter().zip(outcomes).map(|(part, outcome)| PartAnswer {
                    response: change_part(&part.call, entities::changed(&part.call, &outcome)),
                    content_id: part.manner.content_id,
                });
                let (batch, changeset) = (&self.batch, &self.changeset);
                let body = changeset::changes_answered(answers, bytes_max, batch, changeset);
                debug_assert!(body.len() <= bytes_max, "{} bytes, not {bytes_max}", body.len());
                Ok(Response { is_of_change: true, ..self.accepted(body) })
            }
            Err(error) => match group_refusal(error) {
                (_, error) if is_busy(&error) => Err(error),
                (index, error) => {
                    Ok(self.failure(call, Failed { index, manner: take(parts, index), error }))
                }
            },
        }
    }

    fn failure(&self, call: &Call, failed: Failed) -> Response {
        let Failed { index, manner, error } = failed;
        let unknown = Manner { metadata: call.metadata, prefer: None, content_id: None };
        let Manner { metadata, prefer, content_id } = manner.unwrap_or(unknown);
        let form = ErrorForm::Json(metadata);
        let order = failure_headers(&error);
        let mut refused = reply::error_response(&call.context, form, &error.at_index(index).told());
        reply::add_preference_applied(&mut refused, prefer);
        let answer = PartAnswer { response: in_order(refused, order), content_id };
        self.accepted(changeset::changes_answered([answer], 0, &self.batch, &self.changeset))
    }

    fn query(&self, response: Response) -> Response {
        let answer = PartAnswer { response: in_order(response, &QUERY_HEADERS), content_id: None };
        self.accepted(changeset::query_answered(&answer, &self.batch))
    }

    fn accepted(&self, body: Vec<u8>) -> Response {
        let mut response = Response::new(202);
        let boundary = &self.batch;
        response
            .header("Content-Type", format!("multipart/mixed; boundary=batchresponse_{boundary}"));
        response.body = body.into();
        response
    }
}

/// Recorded: what is told of a table that is not there has no `Cache-Control`.
fn failure_headers(error: &WireError) -> &'static HeaderOrder {
    if error.code == TABLE_NOT_FOUND.code { &NO_TABLE_HEADERS } else { &FAILURE_HEADERS }
}

fn change_part(call: &Call, response: Response) -> Response {
    // Recorded: inserts are answered in the newer version of the data service.
    match call.operation {
        Operation::Insert(_) => in_order(response, &INSERT_HEADERS),
        _ => in_order(response, &CHANGE_HEADERS),
    }
}

/// Headers of a part in the order of the service: those with a value always, the others where the
/// response has them.
type HeaderOrder = [(&'static str, Option<&'static str>)];

const INSERT_HEADERS: [(&str, Option<&str>); 8] = [
    ("X-Content-Type-Options", Some("nosniff")),
    ("Cache-Control", Some("no-cache")),
    ("Preference-Applied", None),
    ("DataServiceVersion", Some("3.0;")),
    ("Content-Type", None),
    ("Location", None),
    ("DataServiceId", None),
    ("ETag", None),
];

const CHANGE_HEADERS: [(&str, Option<&str>); 4] = [
    ("X-Content-Type-Options", Some("nosniff")),
    ("Cache-Control", Some("no-cache")),
    ("DataServiceVersion", Some("1.0;")),
    ("ETag", None),
];

const FAILURE_HEADERS: [(&str, Option<&str>); 5] = [
    ("X-Content-Type-Options", Some("nosniff")),
    ("Cache-Control", Some("no-cache")),
    ("Preference-Applied", None),
    ("DataServiceVersion", Some("3.0;")),
    ("Content-Type", None),
];

const NO_TABLE_HEADERS: [(&str, Option<&str>); 4] = [
    ("X-Content-Type-Options", Some("nosniff")),
    ("Preference-Applied", None),
    ("DataServiceVersion", Some("3.0;")),
    ("Content-Type", None),
];

const QUERY_HEADERS: [(&str, Option<&str>); 7] = [
    ("DataServiceVersion", Some("3.0;")),
    ("Content-Type", None),
    ("X-Content-Type-Options", Some("nosniff")),
    ("Cache-Control", Some("no-cache")),
    ("ETag", None),
    ("x-ms-continuation-NextPartitionKey", None),
    ("x-ms-continuation-NextRowKey", None),
];

fn in_order(mut response: Response, order: &HeaderOrder) -> Response {
    let mut given = std::mem::take(&mut response.headers);
    for (name, always) in order {
        // No name stands in an order twice.
        let own = given.iter_mut().find(|(own, _)| own.eq_ignore_ascii_case(name));
        let value = match always {
            Some(value) => Some(Cow::Borrowed(*value)),
            None => own.map(|(_, value)| std::mem::take(value)),
        };
        response.headers.extend(value.map(|value| (*name, value)));
    }
    response
}

//! A request that has been admitted: who asks, for what, in which form. Bodies come later.

use crate::auth::moment;
use crate::auth::verify::{Grant, Principal};
use crate::batch::changeset::{self, Batch, Outline, Reading};
use crate::batch::multipart::Embedded;
use crate::config::Accounts;
use crate::context::Context;
use crate::error::{
    AS_OF_NOT_SUPPORTED, AUTHENTICATION_FAILED, BOTH_CONDITION_HEADERS, IF_NONE_MATCH_ON_DELETE,
    IF_NONE_MATCH_ON_PUT, INVALID_HEADER_VALUE, INVALID_INPUT, MEDIA_TYPE_NOT_SUPPORTED,
    MISSING_CONTENT_LENGTH, WireError, bad_etag,
};
use crate::faults::fault::Fault;
use crate::http::message::Head;
use crate::limits::{BODY_BYTES_MAX, HEADERS_MAX, QUICK_BODY_BYTES_MAX, READ_BATCH_BYTES_MAX};
use crate::odata::address::{Address, Resource, without_repeated_account, without_secondary};
use crate::odata::options::{Metadata, Params, front_end_speaks_json, media_type, negotiate};
use crate::route::{Change, Operation, route, verb};
use std::sync::Arc;
use std::time::Duration;
use tabulith::ids::CommitTs;
use tabulith::table::etag::IfMatch;

/// The header of a request for what was there then.
const AS_OF: &str = "x-tabulith-as-of";

/// An admitted request.
#[derive(Clone, Debug)]
pub struct Call {
    /// What its answer repeats.
    pub context: Arc<Context>,
    /// Where it is addressed to.
    pub address: Address,
    /// Its query options.
    pub params: Params,
    /// What it asks for.
    pub operation: Operation,
    /// The form of its answer.
    pub metadata: Metadata,
    /// How it wants to be answered.
    pub prefer: Option<Prefer>,
    /// Whether it wants to know how its rows were found: our own header `x-tabulith-explain`.
    pub explain: bool,
    /// The moment of the past that it wants to see: our own header `x-tabulith-as-of`.
    pub as_of: Option<CommitTs>,
    /// `Content-Type` as sent, or empty.
    pub content_type: String,
    /// How long it may take.
    pub time_max: Duration,
    /// What is to go wrong with it, on purpose.
    pub fault: Option<Fault>,
    /// Whether it is told in JSON that its sender is not let in any more.
    pub front_end_speaks_json: bool,
    if_match: Result<Option<IfMatch>, WireError>,
    principal: Arc<Principal>,
    grant: Option<Grant>,
}

/// Whether the answer to a new entity or table repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefer {
    /// It does.
    ReturnContent,
    /// It does not.
    ReturnNoContent,
}

impl Prefer {
    /// Reads the header.
    pub fn of(head: &Head) -> Option<Prefer> {
        match head.headers.get("Prefer")?.trim() {
            "return-content" => Some(Prefer::ReturnContent),
            "return-no-content" => Some(Prefer::ReturnNoContent),
            _ => None,
        }
    }

    /// As the answer repeats it.
    pub fn text(self) -> &'static str {
        match self {
            Prefer::ReturnContent => "return-content",
            Prefer::ReturnNoContent => "return-no-content",
        }
    }
}

/// What a request waits for its turn to do, where it may have to wait for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Wait for what was committed up to a moment of the past, to read as of that.
    pub past: Option<CommitTs>,
    /// Make or drop a table, or change settings, which is done by one after the other.
    pub serial: bool,
    /// Merge several entities.
    pub merge: bool,
    /// Make a commit.
    pub commit: bool,
    /// Read a page of entities, or what may be as large.
    pub page: bool,
    /// Read an entity, or what may be as large, which is not in memory.
    pub read: bool,
}

impl Call {
    /// Admits a request of `principal`: verb, resource, permission, and the form of the answer.
    pub fn open(
        head: &Head,
        address: Address,
        params: Params,
        principal: Arc<Principal>,
        context: Arc<Context>,
    ) -> Result<Call, WireError> {
        let operation = route(&verb(head)?, &address, &params, head)?;
        let grant = operation.access().map(|access| principal.authorize(access, operation.table()));
        let grant = grant.transpose()?;
        if let (Some(grant), Operation::Change(place, _)) = (&grant, &operation) {
            grant.check_keys(&place.partition_key, &place.row_key)?;
        }
        let accept = head.headers.get("Accept");
        let negotiated = negotiate(params.get("$format"), accept);
        let front_end_speaks_json = front_end_speaks_json(&params, accept, &negotiated);
        let metadata = match negotiated {
            _ if operation.speaks_xml() || operation == Operation::Metadata => Metadata::default(),
            // Who sends a batch accepts multipart, and says for each part what else.
            Err(_) if operation == Operation::Batch => Metadata::default(),
            negotiated => negotiated?,
        };
        check_headers(head, &operation)?;
        let prefer = Prefer::of(head).filter(|_| operation.heeds_prefer());
        let time_max = params.timeout()?;
        let explain = head.headers.get("x-tabulith-explain").is_some_and(|text| text == "true");
        let as_of = as_of(head, &operation)?;
        let content_type = head.headers.get("Content-Type").unwrap_or_default().to_owned();
        let if_match = if_match(head);
        Ok(Call {
            context,
            address,
            params,
            operation,
            metadata,
            prefer,
            explain,
            as_of,
            content_type,
            time_max,
            fault: None,
            front_end_speaks_json,
            if_match,
            principal,
            grant,
        })
    }

    /// Admits a request within this batch, as its sender's and under the same rules. One that comes
    /// with credentials of its own is refused: they would count for nothing.
    pub fn part(&self, head: &Head) -> Result<Call, WireError> {
        if head.headers.get("Authorization").is_some() {
            return Err(INVALID_INPUT);
        }
        let path = without_account(head.path(), &self.address);
        if is_content_id(path) {
            return Err(INVALID_INPUT);
        }
        let resource = Resource::parse(path, &self.address.account)?;
        let address = Address { resource, ..self.address.clone() };
        let params = Params::parse(head.query())?;
        let principal = self.principal.clone();
        #[cfg(any(bug = "B38", bug = "any"))]
        let principal = principal.whoever_sends_a_batch(); // Planted: may do anything in it.
        let call = Call::open(head, address, params, principal, self.context.clone())?;
        match call.operation {
            Operation::Batch => Err(INVALID_INPUT),
            // A query ends its page a little before the batch would be out of time.
            _ => {
                let mut if_match = call.if_match;
                if tabulith::planted!("B29") {
                    if_match = Ok(Some(IfMatch::Any)); // Planted: a condition in a batch is not looked at.
                }
                Ok(Call { time_max: self.time_max - self.time_max / 8, if_match, ..call })
            }
        }
    }

    /// How long it may still take, at the moment `now` of the steady clock.
    pub fn time_left(&self, now: Duration) -> Duration {
        self.time_max.saturating_sub(now.saturating_sub(self.context.started))
    }

    /// The permission for its operation. Fails for a batch: its parts have their own.
    pub fn grant(&self) -> Result<&Grant, WireError> {
        self.grant.as_ref().ok_or(INVALID_INPUT)
    }

    /// Fails where its sender, by what it has shown, would not be let in any more.
    pub fn check_sender(
        &self,
        accounts: &Accounts,
        now: Option<CommitTs>,
    ) -> Result<(), WireError> {
        if self.principal.is_current(accounts, now) { Ok(()) } else { Err(AUTHENTICATION_FAILED) }
    }

    /// Whether it is a batch of somebody who may change nothing: whatever its parts are, there was
    /// no permission to ask for before its body.
    pub fn only_reads(&self) -> bool {
        self.operation == Operation::Batch && !self.principal.may_change_entities()
    }

    /// Most bytes of its body.
    pub fn body_bytes_max(&self) -> usize {
        if self.only_reads() { READ_BATCH_BYTES_MAX } else { BODY_BYTES_MAX }
    }

    /// Whether it is about one entity and, with a body of that many bytes, may be done without
    /// anything to wait for: what it needs may lie in memory.
    pub fn may_be_quick(&self, body_bytes: usize) -> bool {
        match self.operation {
            // The past is read as if it were on the disk.
            Operation::Get(_) => self.as_of.is_none(),
            Operation::Insert(_) | Operation::Change(..) => body_bytes <= QUICK_BODY_BYTES_MAX,
            _ => false,
        }
    }

    /// The turns that it waits for, with this body, and what a batch was read as to know them.
    pub fn turns(&self, body: &[u8]) -> (Turns, Option<Outline>) {
        if self.operation == Operation::Batch {
            let reading = changeset::read(&self.content_type, body);
            return (turns_of_batch(&reading), Some(Outline::of(&reading, body)));
        }
        (Turns { past: self.as_of, ..turns_of_one(&self.operation) }, None)
    }

    /// The condition in `If-Match`.
    pub fn condition(&self) -> Result<Option<IfMatch>, WireError> {
        self.if_match.clone()
    }
}

/// The turns of what is no batch, but for a moment of the past.
fn turns_of_one(operation: &Operation) -> Turns {
    match operation {
        Operation::Query(_) | Operation::Metadata => Turns { page: true, ..Turns::default() },
        // The latter two are remembered, most of the time.
        Operation::Get(_)
        | Operation::ListTables
        | Operation::GetAcl(_)
        | Operation::GetProperties => Turns { read: true, ..Turns::default() },
        Operation::CreateTable
        | Operation::DeleteTable(_)
        | Operation::SetProperties
        | Operation::SetAcl(_) => Turns { serial: true, commit: true, ..Turns::default() },
        _ => Turns { commit: operation.writes(), ..Turns::default() },
    }
}

/// The turns of a batch by its parts, whatever stands around and in them. One that does not read is
/// refused, and waits for nothing.
fn turns_of_batch(reading: &Reading<'_>) -> Turns {
    match reading {
        Ok(Batch::Query(request)) => {
            Turns { past: past_of(request), page: true, ..Turns::default() }
        }
        Ok(Batch::Changes(changes)) => {
            Turns { merge: changes.iter().any(may_merge), commit: true, ..Turns::default() }
        }
        Err(_) => Turns::default(),
    }
}

/// The moment of the past that the query of a batch asks for, if it does.
fn past_of(request: &Embedded) -> Option<CommitTs> {
    let mut headers = request.headers().take(HEADERS_MAX);
    let (_, text) = headers.find(|(name, _)| name.eq_ignore_ascii_case(AS_OF))?;
    past_moment(&text)
}

/// Whether a request of a change set may be a merge, by its verb or by one that it tunnels.
fn may_merge(request: &Embedded) -> bool {
    let is_merge =
        |verb: &str| ["MERGE", "PATCH"].iter().any(|own| verb.trim().eq_ignore_ascii_case(own));
    // With more headers it is refused.
    let mut headers = request.headers().take(HEADERS_MAX);
    is_merge(request.method)
        || headers
            .any(|(name, value)| name.eq_ignore_ascii_case("X-HTTP-Method") && is_merge(&value))
}

fn if_match(head: &Head) -> Result<Option<IfMatch>, WireError> {
    let tags: Vec<&str> = head.headers.all("If-Match").collect();
    match tags.as_slice() {
        [] => Ok(None),
        [tag] => IfMatch::parse(tag).map(Some).map_err(|_| bad_etag(tag)),
        several => Err(bad_etag(&several.join(","))),
    }
}

/// The moment in `x-tabulith-as-of`.
fn as_of(head: &Head, operation: &Operation) -> Result<Option<CommitTs>, WireError> {
    let mut given = head.headers.all(AS_OF);
    let Some(text) = given.next() else { return Ok(None) };
    if !operation.reads_rows() {
        return Err(AS_OF_NOT_SUPPORTED);
    }
    match (past_moment(text), given.next()) {
        (Some(moment), None) => Ok(Some(moment)),
        _ => Err(INVALID_HEADER_VALUE.saying(
            "The value of x-tabulith-as-of is no moment of the form 2026-11-22T14:05:00Z.",
        )),
    }
}

/// A date and a time with a zone, as in `2026-11-22T14:05:00Z`, to the tick of 100 ns.
fn past_moment(text: &str) -> Option<CommitTs> {
    let moment = moment::parse(text.trim()).filter(|_| text.contains('T'))?;
    // Before 1970 there is no commit.
    Some(moment.commit().unwrap_or(CommitTs::ZERO))
}

fn check_headers(head: &Head, operation: &Operation) -> Result<(), WireError> {
    let header = |name| head.headers.get(name);
    for name in ["DataServiceVersion", "MaxDataServiceVersion"] {
        let version = header(name).map(|value| value.split(';').next().unwrap_or_default().trim());
        // Empty is none: Go's client says so in each part of a batch.
        if version.is_some_and(|version| !matches!(version, "" | "1.0" | "2.0" | "3.0")) {
            return Err(INVALID_HEADER_VALUE);
        }
    }
    if header("Content-Encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(MEDIA_TYPE_NOT_SUPPORTED);
    }
    if let (Operation::Change(_, change), Some(_)) = (operation, header("If-None-Match")) {
        return Err(match change {
            _ if header("If-Match").is_some() => BOTH_CONDITION_HEADERS,
            Change::Delete => IF_NONE_MATCH_ON_DELETE,
            _ => IF_NONE_MATCH_ON_PUT,
        });
    }
    if operation.has_body() && *operation != Operation::Batch && !operation.speaks_xml() {
        let content_type = media_type(header("Content-Type").unwrap_or_default());
        if !matches!(content_type.as_str(), "" | "application/json") {
            return Err(MEDIA_TYPE_NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// Refuses a body of unknown length. Not for requests within a batch, whose bodies end with them.
pub fn check_length(head: &Head, operation: &Operation) -> Result<(), WireError> {
    let known = ["Content-Length", "Transfer-Encoding"];
    let has_length = known.iter().any(|name| head.headers.get(name).is_some());
    if operation.has_body() && !has_length { Err(MISSING_CONTENT_LENGTH) } else { Ok(()) }
}

/// The path of a request within a batch below the account, which it may or may not name.
fn without_account<'a>(path: &'a str, address: &Address) -> &'a str {
    let relative = path.trim_start_matches('/');
    match relative.split_once('/') {
        Some((first, rest)) if without_secondary(first).0 == address.account => {
            if address.secondary { without_repeated_account(rest, &address.account) } else { rest }
        }
        _ => relative,
    }
}

/// Whether a path is `$1` or the like: what another request of the change set has made. The
/// service knows no such names.
fn is_content_id(path: &str) -> bool {
    let name = path.strip_prefix('$').or_else(|| path.strip_prefix("%24")).unwrap_or_default();
    name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Turns =
        Turns { past: None, serial: false, merge: false, commit: false, page: false, read: false };
    const PAGE: Turns = Turns { page: true, ..NONE };
    const COMMIT: Turns = Turns { commit: true, ..NONE };
    const MERGE: Turns = Turns { merge: true, ..COMMIT };

    #[track_caller]
    fn check_turns(body: &str, turns: Turns) {
        let content_type = "multipart/mixed; boundary=b";
        let reading = changeset::read(content_type, body.as_bytes());
        assert_eq!(turns_of_batch(&reading), turns, "{body}");
    }

    fn query(request: &str) -> String {
        format!("--b\r\nContent-Type: application/http\r\n\r\n{request}\r\n\r\n--b--\r\n")
    }

    fn change_set(requests: &[&str]) -> String {
        let part =
            |request: &&str| format!("--c\r\nContent-Type: application/http\r\n\r\n{request}\r\n");
        let parts: String = requests.iter().map(part).collect();
        format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n")
    }

    const PUT: &str = "PUT /T(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\r\n{}";

    /// Policies that nobody has asked for lately are on the disk, and one account may have ten
    /// thousand tables with some.
    #[test]
    fn what_may_have_to_be_read_from_the_disk_waits_for_its_turn() {
        for asks in [Operation::GetAcl("T".to_owned()), Operation::GetProperties] {
            assert_eq!(turns_of_one(&asks), Turns { read: true, ..NONE }, "{asks:?}");
        }
        assert!(turns_of_one(&Operation::SetProperties).commit);
        assert_eq!(turns_of_one(&Operation::GetStats), NONE);
    }

    #[test]
    fn a_query_waits_for_a_page_whatever_its_text() {
        check_turns(&query("GET /T() HTTP/1.1"), PAGE);
        check_turns(&query("GET /T()?$filter=A%20eq%20'MERGE' HTTP/1.1"), PAGE);
        check_turns(&query("GET /T() HTTP/1.1\r\nX-HTTP-Method: MERGE\r\n\r\nPATCH /T"), PAGE);
        let around = format!("MERGE /T HTTP/1.1\r\n{}PATCH /T\r\n", query("GET /T() HTTP/1.1"));
        check_turns(&around, PAGE);
    }

    #[test]
    fn a_query_of_the_past_waits_for_that_first() {
        let past = Some(CommitTs(17_953_563_000_000_000));
        let as_of = |headers: &str| query(&format!("GET /T() HTTP/1.1\r\n{headers}"));
        let header = "x-tabulith-as-of: 2026-11-22T14:05:00Z";
        for header in [header, &header.to_uppercase(), &header.replace(": ", ":")] {
            check_turns(&as_of(header), Turns { past, ..PAGE });
            check_turns(&as_of(&format!("A: b\r\n{header}\r\nC: d")), Turns { past, ..PAGE });
        }
        check_turns(&as_of("x-tabulith-as-of: yesterday"), PAGE);
        check_turns(&as_of("\r\nx-tabulith-as-of: 2026-11-22T14:05:00Z"), PAGE);
    }

    #[test]
    fn a_change_set_waits_for_a_commit_whatever_its_text() {
        let body = change_set(&[PUT]);
        check_turns(&body, COMMIT);
        check_turns(&body.replace("\r\n", "\n"), COMMIT);
        for text in ["GET \r\n", " GET /T() HTTP/1.1\r\n", "MERGE /T HTTP/1.1\r\n", " patch \r\n"] {
            // Before its first part and behind its last; of the body, and of the set.
            check_turns(&format!("{text}{body}"), COMMIT);
            check_turns(&format!("{body}{text}"), COMMIT);
            check_turns(&body.replacen("--c\r\n", &format!("{text}--c\r\n"), 1), COMMIT);
            check_turns(&body.replace("--c--\r\n", &format!("--c--\r\n{text}")), COMMIT);
            // Among its part's headers, and in an entity.
            check_turns(&body.replacen("Content-", &format!("{text}Content-"), 1), COMMIT);
            check_turns(&change_set(&[&format!("{PUT}{text}")]), COMMIT);
        }
        check_turns(&change_set(&["GET /T() HTTP/1.1"]), COMMIT);
    }

    #[test]
    fn a_change_set_with_a_merge_waits_for_both() {
        let tunnelled = |header: &str| format!("POST /T() HTTP/1.1\nA: b\n{header}\n\n{{}}");
        for merge in [
            "MERGE /T() HTTP/1.1",
            "\r\n\r\nPATCH /T() HTTP/1.1\r\n\r\n{}",
            &tunnelled("X-HTTP-Method: MERGE"),
            &tunnelled("x-http-method :pAtCh "),
            &tunnelled("X-HTTP-Method:\n merge"),
            &tunnelled("X-HTTP-Method: PUT\nX-HTTP-Method: MERGE"),
        ] {
            check_turns(&change_set(&[merge]), MERGE);
            check_turns(&change_set(&[PUT, merge, PUT]), MERGE);
            check_turns(&format!("GET \r\n{}", change_set(&[merge])), MERGE);
        }
        check_turns(&change_set(&[&tunnelled("X-HTTP-Method: DELETE\nB: MERGE")]), COMMIT);
        check_turns(&change_set(&[&tunnelled("\nX-HTTP-Method: MERGE")]), COMMIT);
    }

    #[test]
    fn what_is_no_batch_waits_for_nothing() {
        let (get, merge) = (query("GET /T() HTTP/1.1"), change_set(&["MERGE /T() HTTP/1.1"]));
        check_turns("", NONE);
        check_turns("GET /T() HTTP/1.1\r\n\r\nMERGE /T() HTTP/1.1", NONE);
        for body in [&get, &merge] {
            check_turns(&body.replace("--b", "--d"), NONE);
            check_turns(&body.replace("--b--", body), NONE);
            check_turns(&body.replace("Content-Type: ", "Content-Type: text/"), NONE);
        }
        check_turns(&change_set(&["MERGE /T() HTTP/1.1"; 101]), NONE);
    }
}

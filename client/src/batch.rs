//! Transactions: their text, and their answer taken apart.

use crate::address::row_path;
use crate::entity::{Condition, ETag, Entity};
use crate::error::{Error, Refusal};
use crate::json;
use hyper::header::HeaderValue;
use std::io::{BufRead, Write};
use std::ops::Range;

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Inserts an entity that does not exist.
    Insert(Entity),
    /// Replaces all properties of an entity; without a condition it may be missing.
    Replace(Entity, Option<Condition>),
    /// Sets properties of an entity; without a condition it may be missing.
    Merge(Entity, Option<Condition>),
    /// Deletes an entity.
    Delete {
        /// Its PartitionKey.
        partition_key: String,
        /// Its RowKey.
        row_key: String,
        /// What has to hold.
        condition: Condition,
    },
}

/// Operations on up to 100 entities of one partition, done together or not at all.
///
/// ```
/// use tabulith_client::{Condition, Entity, Transaction};
/// let mut transaction = Transaction::new();
/// transaction
///     .insert(Entity::new("tenant-7", "order-1").with("Total", 3.5))
///     .upsert(Entity::new("tenant-7", "latest").with("Order", "order-1"))
///     .delete("tenant-7", "draft-1", Condition::Any);
/// assert_eq!(transaction.operations().len(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction(Vec<Operation>);

impl Transaction {
    /// A transaction without operations.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// Adds an operation.
    pub fn push(&mut self, operation: Operation) -> &mut Transaction {
        self.0.push(operation);
        self
    }

    /// Inserts an entity that does not exist.
    pub fn insert(&mut self, entity: Entity) -> &mut Transaction {
        self.push(Operation::Insert(entity))
    }

    /// Replaces all properties of an entity that exists.
    pub fn replace(&mut self, entity: Entity, condition: impl Into<Condition>) -> &mut Transaction {
        self.push(Operation::Replace(entity, Some(condition.into())))
    }

    /// Sets properties of an entity that exists; the others stay.
    pub fn merge(&mut self, entity: Entity, condition: impl Into<Condition>) -> &mut Transaction {
        self.push(Operation::Merge(entity, Some(condition.into())))
    }

    /// Inserts an entity or replaces it.
    pub fn upsert(&mut self, entity: Entity) -> &mut Transaction {
        self.push(Operation::Replace(entity, None))
    }

    /// Inserts an entity or sets properties of it; the others stay.
    pub fn upsert_merge(&mut self, entity: Entity) -> &mut Transaction {
        self.push(Operation::Merge(entity, None))
    }

    /// Deletes an entity.
    pub fn delete(
        &mut self,
        partition_key: impl Into<String>,
        row_key: impl Into<String>,
        condition: impl Into<Condition>,
    ) -> &mut Transaction {
        let (partition_key, row_key) = (partition_key.into(), row_key.into());
        let condition = condition.into();
        self.push(Operation::Delete { partition_key, row_key, condition })
    }

    /// What it does, in order.
    pub fn operations(&self) -> &[Operation] {
        &self.0
    }

    /// The same, with the entities themselves.
    pub fn into_operations(self) -> Vec<Operation> {
        self.0
    }
}

impl Operation {
    /// The keys of its entity.
    pub fn keys(&self) -> (&str, &str) {
        match self {
            Operation::Insert(entity)
            | Operation::Replace(entity, _)
            | Operation::Merge(entity, _) => (&entity.partition_key, &entity.row_key),
            Operation::Delete { partition_key, row_key, .. } => (partition_key, row_key),
        }
    }

    /// The verb.
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Operation::Insert(_) => "POST",
            Operation::Replace(..) => "PUT",
            Operation::Merge(..) => "PATCH",
            Operation::Delete { .. } => "DELETE",
        }
    }

    /// The path below the account.
    pub(crate) fn path(&self, table: &str) -> String {
        match self {
            Operation::Insert(_) => format!("/{}", crate::address::percent(table)),
            _ => row_path(table, self.keys().0, self.keys().1),
        }
    }

    /// What has to hold, as If-Match says it.
    pub(crate) fn condition(&self) -> Option<&Condition> {
        match self {
            Operation::Insert(_) => None,
            Operation::Replace(_, condition) | Operation::Merge(_, condition) => condition.as_ref(),
            Operation::Delete { condition, .. } => Some(condition),
        }
    }

    /// The entity that it writes.
    pub(crate) fn entity(&self) -> Option<&Entity> {
        match self {
            Operation::Insert(entity)
            | Operation::Replace(entity, _)
            | Operation::Merge(entity, _) => Some(entity),
            Operation::Delete { .. } => None,
        }
    }

    /// Whether it tells whose its transaction is: an insert of an entity with properties. Keys
    /// alone are what anybody would insert.
    pub(crate) fn is_telling(&self) -> bool {
        matches!(self, Operation::Insert(entity) if !entity.properties.is_empty())
    }

    /// Whether `found`, what is there now, is what this operation would leave behind if nobody
    /// has written since. An update that names a version has not been done while that is still
    /// there. Of a merge it is not enough: what it sets may be there without it, and others may
    /// have written beside it.
    pub(crate) fn is_done(&self, found: Option<&Entity>) -> bool {
        let moved_on = match (self.condition(), found) {
            (Some(Condition::Is(old)), Some(found)) => found.etag.as_ref() != Some(old),
            _ => true,
        };
        match (self, found) {
            (Operation::Delete { .. }, found) => found.is_none(),
            (Operation::Insert(wanted) | Operation::Replace(wanted, _), Some(found)) => {
                moved_on && found.is_same(wanted)
            }
            (Operation::Merge(wanted, _), Some(found)) => moved_on && found.holds(wanted),
            (_, None) => false,
        }
    }
}

/// The parts' boundary and the whole body of a `$batch`. `token`: text that no body contains. Fails
/// for an ETag that could be other lines too.
pub(crate) fn body(
    endpoint: &str,
    table: &str,
    operations: &[Operation],
    token: &str,
) -> Result<(String, Vec<u8>), Error> {
    let mut out = Vec::with_capacity(operations.len() << 10);
    let head = format!(
        "--batch_{token}\r\nContent-Type: multipart/mixed; boundary=changeset_{token}\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
    for operation in operations {
        // Writing text into memory cannot fail.
        let _ = write!(
            out,
            "--changeset_{token}\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\n{} {endpoint}{} HTTP/1.1\r\n\
             Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0;\r\n",
            operation.method(),
            operation.path(table),
        );
        if let Some(condition) = operation.condition() {
            let text = condition.text();
            if HeaderValue::from_str(text).is_err() {
                return Err(Error::Invalid(format!("no header can hold the ETag {text:?}")));
            }
            out.extend_from_slice(format!("If-Match: {text}\r\n").as_bytes());
        }
        if matches!(operation, Operation::Insert(_)) {
            out.extend_from_slice(b"Prefer: return-no-content\r\n");
        }
        match operation.entity() {
            Some(entity) => {
                out.extend_from_slice(b"Content-Type: application/json\r\n\r\n");
                json::write_entity(&mut out, entity);
            }
            None => out.extend_from_slice(b"\r\n"),
        }
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--changeset_{token}--\r\n--batch_{token}--\r\n").as_bytes());
    Ok((format!("multipart/mixed; boundary=batch_{token}"), out))
}

/// The ETags that the answer to `count` operations names, or the refusal of one of them.
pub(crate) fn read_answer(
    content_type: &str,
    body: &[u8],
    count: usize,
) -> Result<Vec<Option<ETag>>, Error> {
    let outer = boundary(content_type).ok_or_else(|| garbled("no boundary in its type"))?;
    let mut etags = Vec::with_capacity(count);
    for part in parts(body, &outer) {
        let (headers, content) = split_head(part).ok_or_else(|| garbled("a part has no end"))?;
        let inner = header(headers, "content-type").as_deref().and_then(boundary);
        let answers = match &inner {
            Some(inner) => parts(content, inner),
            None => vec![part],
        };
        for answer in answers {
            etags.push(read_part(answer)?);
        }
    }
    if etags.len() != count {
        return Err(garbled(&format!("{} answers to {count} operations", etags.len())));
    }
    Ok(etags)
}

fn garbled(what: &str) -> Error {
    Error::Garbled(format!("a transaction's: {what}"))
}

/// One operation's answer: headers of the part, then an answer of HTTP.
fn read_part(part: &[u8]) -> Result<Option<ETag>, Error> {
    let (_, http) = split_head(part).ok_or_else(|| garbled("a part has no end"))?;
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(http).map_err(|error| garbled(&error.to_string()))?;
    let httparse::Status::Complete(end) = parsed else { return Err(garbled("a part is cut")) };
    let status = response.code.ok_or_else(|| garbled("a part has no status"))?;
    if !(200..300).contains(&status) {
        let body = http.get(end..).unwrap_or_default();
        return Err(Error::Refused(Box::new(Refusal::read(status, body.trim_ascii()))));
    }
    let etag = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("etag"));
    let etag = etag.and_then(|etag| std::str::from_utf8(etag.value).ok());
    Ok(etag.map(ETag::new))
}

/// The boundary that a Content-Type of multipart/mixed names.
fn boundary(content_type: &str) -> Option<String> {
    let mut parameters = content_type.split(';');
    let media = parameters.next()?.trim();
    if !media.eq_ignore_ascii_case("multipart/mixed") {
        return None;
    }
    let named = parameters.filter_map(|parameter| parameter.split_once('=')).find_map(
        |(name, value)| name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim()),
    )?;
    Some(named.trim_matches('"').to_owned()).filter(|boundary| !boundary.is_empty())
}

/// What stands between the lines of a boundary, without the line's end before the next one.
fn parts<'a>(body: &'a [u8], boundary: &str) -> Vec<&'a [u8]> {
    let (mut parts, mut open, mut at) = (Vec::new(), None::<usize>, 0);
    while at < body.len() {
        let line = line(body.get(at..).unwrap_or_default());
        let length = line.len();
        let line = line.trim_ascii_end();
        let tail = line.strip_prefix(b"--").and_then(|line| line.strip_prefix(boundary.as_bytes()));
        if matches!(tail, Some(b"" | b"--")) {
            if let Some(Range { start, end }) = open.map(|start| start..at) {
                let part = body.get(start..end).unwrap_or_default();
                let part = part.strip_suffix(b"\n").unwrap_or(part);
                parts.push(part.strip_suffix(b"\r").unwrap_or(part));
            }
            open = (tail == Some(b"")).then_some(at + length);
        }
        at += length;
    }
    parts
}

/// The first line of some bytes with its end; all of them where they have none.
fn line(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    // Memory is read without an error, and by words instead of bytes.
    let length = rest.skip_until(b'\n').unwrap_or_default();
    bytes.get(..length).unwrap_or_default()
}

/// Headers, and what stands behind the first empty line.
fn split_head(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    while at < part.len() {
        let line = line(part.get(at..)?).strip_suffix(b"\n")?;
        let next = at + line.len() + 1;
        if line.trim_ascii().is_empty() {
            return Some((part.get(..at)?, part.get(next..)?));
        }
        at = next;
    }
    None
}

fn header(headers: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(headers).ok()?;
    text.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/mixed; boundary=b";
    const PART: &str = "--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\n\
        DataServiceVersion: 1.0;\r\nETag: W/\"datetime'2020-01-01T01%3A02%3A00.5Z'\"\r\n\r\n\r\n";

    fn answer(parts: &str) -> String {
        format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n")
    }

    #[test]
    fn an_answer_names_an_etag_for_each_operation() {
        let deleted = "--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\nDataServiceVersion: 1.0;\r\n\r\n\r\n";
        let text = answer(&[PART, deleted].concat());
        let etag = ETag::new("W/\"datetime'2020-01-01T01%3A02%3A00.5Z'\"");
        let etags = read_answer(TYPE, text.as_bytes(), 2).unwrap();
        assert_eq!(etags, [Some(etag), None]);
        assert!(matches!(read_answer(TYPE, text.as_bytes(), 3), Err(Error::Garbled(_))));
    }

    #[test]
    fn a_refused_operation_is_found() {
        let refused = "--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 400 Bad Request\r\n\
            Content-Type: application/json\r\n\r\n{\"odata.error\":{\"code\":\"EntityTooLarge\",\
            \"message\":{\"lang\":\"en-US\",\"value\":\"7:Too large.\\nRequestId:x\"}}}\r\n";
        let error = read_answer(TYPE, answer(refused).as_bytes(), 100).unwrap_err();
        let refusal = error.refusal().unwrap();
        assert_eq!((refusal.code.as_str(), refusal.index), ("EntityTooLarge", Some(7)));
    }

    #[test]
    fn any_part_of_an_answer_is_an_answer_or_garbled() {
        let text = answer(&[PART, PART].concat());
        for end in 0..text.len() - "--\r\n".len() {
            let cut = &text.as_bytes()[..end];
            match read_answer(TYPE, cut, 2) {
                Ok(_) => assert!(end >= text.len() - "--b--\r\n".len(), "cut at {end}"),
                Err(error) => assert!(matches!(error, Error::Garbled(_)), "{error}"),
            }
        }
        assert!(read_answer("text/html", text.as_bytes(), 2).is_err());
    }

    #[test]
    fn the_text_is_one_change_set() {
        let mut transaction = Transaction::new();
        transaction.insert(Entity::new("p'q", "1")).delete("p'q", "2", Condition::Any);
        let (content_type, body) = body("http://h/a", "T", transaction.operations(), "7").unwrap();
        assert_eq!(boundary(&content_type).as_deref(), Some("batch_7"));
        let text = String::from_utf8(body).unwrap();
        assert!(text.contains("\r\n\r\nPOST http://h/a/T HTTP/1.1\r\n"));
        assert!(
            text.contains("\r\n\r\n{\"PartitionKey\":\"p'q\",\"RowKey\":\"1\"}\r\n--changeset")
        );
        assert!(
            text.contains("DELETE http://h/a/T(PartitionKey='p%27%27q',RowKey='2') HTTP/1.1\r\n")
        );
        assert!(text.contains("If-Match: *\r\n\r\n\r\n--changeset_7--\r\n--batch_7--\r\n"));
    }

    #[test]
    fn a_version_that_is_more_than_one_line_is_refused() {
        for etag in ["W/\"1\"\r\n *", "\r\n\r\n{}", "a\nb", "a\0"] {
            let mut transaction = Transaction::new();
            transaction.delete("p", "r", ETag::new(etag));
            let text = body("http://h/a", "T", transaction.operations(), "7");
            assert!(matches!(text, Err(Error::Invalid(_))), "{etag:?}");
        }
    }
}

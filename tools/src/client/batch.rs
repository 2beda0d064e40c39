//! The text of a `$batch` of insert-or-replace operations, and of its answer.

use crate::client::error::{CallError, Refusal};
use crate::client::sign::row_path;
use crate::json::{self, System};
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::etag::If;

// Bodies are single lines that begin with `{`: no boundary can occur in them.
const BATCH: &str = "batch_of_tabulith";
const CHANGES: &str = "changes_of_tabulith";

/// The Content-Type of [`body`].
pub(crate) const CONTENT_TYPE: &str = "multipart/mixed; boundary=batch_of_tabulith";

/// The body that writes `entities`, all of one partition, in one transaction.
pub(crate) fn body<'a>(
    endpoint: &str,
    table: &str,
    entities: impl Iterator<Item = &'a Entity>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 << 10);
    let head = format!("--{BATCH}\r\nContent-Type: multipart/mixed; boundary={CHANGES}\r\n\r\n");
    out.extend_from_slice(head.as_bytes());
    for entity in entities {
        let path = row_path(table, &entity.partition_key, &entity.row_key);
        let head = format!(
            "--{CHANGES}\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\n\
             PUT {endpoint}{path} HTTP/1.1\r\nContent-Type: application/json\r\n\
             Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0;\r\n\r\n"
        );
        out.extend_from_slice(head.as_bytes());
        json::write_entity(&mut out, entity, System::Keys);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{CHANGES}--\r\n--{BATCH}--\r\n").as_bytes());
    out
}

/// What the answer to a batch of `count` operations says: the newest commit that it names, or the
/// refusal of one operation.
pub(crate) fn read_answer(body: &[u8], count: usize) -> Result<CommitTs, CallError> {
    let text = String::from_utf8_lossy(body);
    let mut newest = CommitTs::ZERO;
    let mut answers = 0;
    for answer in text.split("\nHTTP/1.1 ").skip(1) {
        answers += 1;
        let status = answer.get(..3).and_then(|digits| digits.parse::<u16>().ok());
        let status = status.ok_or_else(|| CallError::Garbled("no status in a part".to_owned()))?;
        if !(200..300).contains(&status) {
            let json = answer.lines().find(|line| line.starts_with('{')).unwrap_or_default();
            return Err(CallError::Refused(Refusal::read(status, json.as_bytes())));
        }
        newest = newest.max(etag_of(answer));
    }
    if answers != count {
        return Err(CallError::Garbled(format!("{answers} answers to {count} operations")));
    }
    Ok(newest)
}

fn etag_of(answer: &str) -> CommitTs {
    let header = answer.lines().take_while(|line| !line.trim().is_empty()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("etag").then(|| value.trim())
    });
    match header.map(If::parse) {
        Some(Ok(If::Match(tag))) => tag.0,
        _ => CommitTs::ZERO,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const PART: &str = "--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No Content\r\n\
        DataServiceVersion: 1.0;\r\nETag: W/\"datetime'2020-01-01T01%3A02%3A00.5Z'\"\r\n\r\n\r\n";

    #[test]
    fn a_batch_that_went_through_names_its_commit() {
        let answer = format!("--b\r\nContent-Type: x\r\n\r\n{PART}{PART}--c--\r\n--b--\r\n");
        let ts = read_answer(answer.as_bytes(), 2).unwrap();
        assert_eq!(
            tabulith::table::value::DateTime::from(ts).to_string(),
            "2020-01-01T01:02:00.5Z"
        );
        assert!(matches!(read_answer(answer.as_bytes(), 3), Err(CallError::Garbled(_))));
    }

    #[test]
    fn a_refused_operation_is_found() {
        let answer = "--b\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\n\
            HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\r\n\
            {\"odata.error\":{\"code\":\"EntityTooLarge\",\"message\":{\"lang\":\"en-US\",\"value\":\"7:Too large.\\nRequestId:x\"}}}\r\n--c--\r\n";
        let Err(CallError::Refused(refusal)) = read_answer(answer.as_bytes(), 100) else {
            panic!("it was refused");
        };
        assert_eq!((refusal.code.as_str(), refusal.index), ("EntityTooLarge", Some(7)));
    }

    #[test]
    fn the_text_is_one_change_set() {
        let entity = Entity {
            partition_key: "p'q".to_owned(),
            row_key: "1".to_owned(),
            ts: CommitTs::ZERO,
            properties: Vec::new(),
        };
        let text = String::from_utf8(body("http://h/a", "T", [&entity].into_iter())).unwrap();
        assert!(
            text.contains(
                "\r\n\r\nPUT http://h/a/T(PartitionKey='p%27%27q',RowKey='1') HTTP/1.1\r\n"
            )
        );
        assert!(text.contains("\r\n\r\n{\"PartitionKey\":\"p'q\",\"RowKey\":\"1\"}\r\n--changes"));
        assert!(text.ends_with("--changes_of_tabulith--\r\n--batch_of_tabulith--\r\n"));
    }
}

//! `$batch` bodies: any bytes are a change set, a query or refused, in time that grows with the
//! body alone; an answer cannot be broken out of.
//!
//! Input: the request's Content-Type up to the first line end, then the body.

use crate::input::text;
use std::borrow::Cow;
use tabulith_server::batch::changeset::{self, Answer, Batch};
use tabulith_server::batch::multipart::{Embedded, parts};
use tabulith_server::http::message::Response;
use tabulith_server::limits::CHANGES_MAX;

/// Reads the input as a batch.
pub fn batch(data: &[u8]) {
    let line_end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (content_type, body) = (text(&data[..line_end]), data.get(line_end + 1..).unwrap_or(&[]));
    match changeset::read(content_type.trim(), body) {
        Ok(Batch::Changes(changes)) => {
            assert!((1..=CHANGES_MAX).contains(&changes.len()), "{} changes", changes.len());
            changes.iter().for_each(|change| look_at(change, body));
            answered(&changes);
        }
        Ok(Batch::Query(query)) => look_at(&query, body),
        Err(refused) => assert!(refused.index.is_none_or(|index| index < CHANGES_MAX)),
    }
    for part in parts(body, "b", 10).unwrap_or_default() {
        assert!(part.header("Content-Type").is_none_or(|value| value.trim_ascii() == &*value));
        if let Some(request) = Embedded::parse(part.content) {
            look_at(&request, body);
        }
    }
}

fn look_at(request: &Embedded<'_>, body: &[u8]) {
    assert!(body.len() >= request.body.len() + request.target.len() + request.method.len());
    assert!(request.target.ends_with(request.path_and_query()), "{:?}", request.target);
    for (name, value) in request.headers() {
        assert!(!name.contains('\n') && !value.contains('\n'), "{name:?}: {value:?}");
    }
}

/// Each answer has one delimiter of its own, whatever the client has put into its request.
fn answered(changes: &[Embedded<'_>]) {
    let answer = |change: &Embedded<'_>| {
        let mut response = Response::new(204);
        response.header("DataServiceId", change.target.to_owned());
        let content_id = change.header("Content-ID").map(Cow::into_owned);
        Answer { response, content_id }
    };
    let answers: Vec<_> = changes.iter().map(answer).collect();
    let out = changeset::changes_answered(&answers, 0, "B", "C");
    let delimiters =
        out.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"--changesetresponse_C"));
    assert_eq!(delimiters.count(), answers.len() + 1, "{}", String::from_utf8_lossy(&out));
}

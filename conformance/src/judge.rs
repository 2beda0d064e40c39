//! What an answer lacks of what the list expects.

use crate::expand::Scope;
use crate::multipart;
use crate::pattern::{Extent, fits};
use crate::row::{Check, Expect};
use crate::wire::Answer;
use regex::Regex;
use serde_json::Value;

/// Each difference, in words; none where the answer is right. Captures go into the scope.
pub fn differences(
    expect: &Expect,
    answer: &Answer,
    crlf: bool,
    scope: &mut Scope,
) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut statuses = Vec::new();
    for status in &expect.status {
        statuses.push(scope.fill(status)?);
    }
    if !statuses.iter().any(|status| one_of(status, &answer.status.to_string())) {
        out.push(format!("status {} instead of {}", answer.status, statuses.join(" or ")));
    }
    let mut judge = Judge { answer, part: None, crlf };
    for check in &expect.checks {
        if let Some(difference) = judge.difference(check, scope)? {
            out.push(difference);
        }
    }
    Ok(out)
}

/// `2xx` stands for every status of success.
fn one_of(expected: &str, status: &str) -> bool {
    match expected.strip_suffix("xx") {
        Some(class) => status.starts_with(class),
        None => expected.split_whitespace().any(|one| one == status),
    }
}

struct Judge<'a> {
    answer: &'a Answer,
    /// The part of a batch that is looked at.
    part: Option<Answer>,
    crlf: bool,
}

impl Judge<'_> {
    fn difference(&mut self, check: &Check, scope: &mut Scope) -> Result<Option<String>, String> {
        let answer = self.part.as_ref().unwrap_or(self.answer);
        let mut whole = |what: &str, pattern: &str, found: Option<String>, otherwise: &str| {
            let Some(found) = found else { return Ok(Some(otherwise.to_owned())) };
            let fit = fits(pattern, &found, Extent::Whole, scope)?;
            let expected = scope.fill(pattern).unwrap_or_else(|_| pattern.to_owned());
            Ok((!fit).then(|| format!("{what}: {found:?} instead of {expected:?}")))
        };
        const NO_ERROR: &str = "the body is no error";
        const NO_PAGE: &str = "the body is no page";
        match check {
            Check::Part(place) => self.enter(&scope.fill(place)?),
            Check::Header(name, value) => {
                let found: Vec<_> = answer.all(name).collect();
                let one = (found.len() == 1).then(|| found.concat());
                whole(name, value, one, &format!("{} headers {name}", found.len()))
            }
            Check::NoHeader(name) => {
                Ok(answer.header(name).map(|value| format!("a header {name}: {value}")))
            }
            Check::Code(code) => whole("code", code, error(answer).map(|(code, _)| code), NO_ERROR),
            Check::Text(text) => whole("text", text, error(answer).map(|(_, text)| text), NO_ERROR),
            Check::Rows(rows) => whole("rows", rows, values(answer, "RowKey"), NO_PAGE),
            Check::Names(names) => whole("names", names, values(answer, "TableName"), NO_PAGE),
            Check::Count(count) => {
                whole("count", count, items(answer).map(|items| items.len().to_string()), NO_PAGE)
            }
            Check::Body(text) => {
                let text = if self.crlf { text.replace('\n', "\r\n") } else { text.clone() };
                let found = answer.text();
                let found = found.trim_start_matches('\u{feff}');
                let found = if self.crlf { found.trim_end_matches("\r\n") } else { found };
                whole("body", &text, Some(found.to_owned()), "")
            }
            Check::Json(pointer, text) => {
                let json = serde_json::from_slice::<Value>(&answer.body).ok();
                let pointer = scope.fill(pointer)?;
                let found = json.as_ref().and_then(|json| json.pointer(&pointer));
                let found = found.map_or("absent".to_owned(), Value::to_string);
                let fit = fits(text, &found, Extent::Whole, scope)?;
                let expected = scope.fill(text).unwrap_or_else(|_| text.clone());
                Ok((!fit).then(|| format!("{pointer} is {found} instead of {expected}")))
            }
            Check::Has(text) => {
                let fit = fits(text, &answer.text(), Extent::Somewhere, scope)?;
                Ok((!fit).then(|| format!("the body lacks {text}")))
            }
            Check::Lacks(text) => {
                let fit = fits(text, &answer.text(), Extent::Somewhere, scope)?;
                Ok(fit.then(|| format!("the body holds {text}")))
            }
            Check::Parts(statuses) => {
                let expected = scope.fill(statuses)?;
                Ok(match multipart::parts(self.answer) {
                    Ok(parts) => {
                        let found: Vec<_> =
                            parts.iter().map(|part| part.status.to_string()).collect();
                        let found = found.join(" ");
                        (found != expected).then(|| format!("parts {found} instead of {expected}"))
                    }
                    Err(why) => Some(format!("the batch cannot be read: {why}")),
                })
            }
        }
    }

    fn enter(&mut self, place: &str) -> Result<Option<String>, String> {
        let place: usize = place.parse().map_err(|_| format!("{place} is no place"))?;
        self.part = None;
        Ok(match multipart::parts(self.answer) {
            Ok(parts) => {
                self.part = parts.get(place).cloned();
                self.part.is_none().then(|| format!("no part {place}"))
            }
            Err(why) => Some(format!("the batch cannot be read: {why}")),
        })
    }
}

fn items(answer: &Answer) -> Option<Vec<Value>> {
    let json: Value = serde_json::from_slice(&answer.body).ok()?;
    json.get("value")?.as_array().cloned()
}

/// A member of every item, blanks between them.
fn values(answer: &Answer, member: &str) -> Option<String> {
    let items = items(answer)?;
    let text = |item: &Value| item.get(member).and_then(Value::as_str).map(str::to_owned);
    let found: Option<Vec<String>> = items.iter().map(text).collect();
    Some(found?.join(" "))
}

/// The code of an error and its text up to the request id, from JSON or XML.
fn error(answer: &Answer) -> Option<(String, String)> {
    let text = answer.text();
    let (code, message) = match serde_json::from_str::<Value>(&text) {
        Ok(json) => {
            let error = json.get("odata.error")?;
            let code = error.get("code")?.as_str()?.to_owned();
            (code, error.pointer("/message/value")?.as_str()?.to_owned())
        }
        Err(_) => (tag(&text, "code")?, tag(&text, "message")?),
    };
    let message = message.split("\nRequestId:").next().unwrap_or_default();
    Some((code, message.to_owned()))
}

/// The text of the first element of this name, in any namespace and case.
fn tag(text: &str, name: &str) -> Option<String> {
    let pattern = format!("(?is)<(?:[a-z]+:)?{name}(?: [^>]*)?>(.*?)</");
    let found = Regex::new(&pattern).ok()?.captures(text)?.get(1)?.as_str().to_owned();
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(found, |text, (from, to)| text.replace(from, to)))
}

#[cfg(test)]
mod tests {
    use super::differences;
    use crate::expand::Scope;
    use crate::parse::blocks;
    use crate::wire::Answer;

    fn judged(expected: &str, status: u16, body: &str) -> Vec<String> {
        let text = format!("== a | R | b\nGET /\n----\n{expected}\n");
        let blocks = blocks("f", &text).expect("a list");
        let expect = blocks[0].steps[0].expect.clone().expect("an answer");
        let headers = vec![("ETag".to_owned(), "e".to_owned())];
        let answer = Answer { status, headers, body: body.as_bytes().to_vec() };
        differences(&expect, &answer, false, &mut Scope::default()).expect("a judgement")
    }

    const ERROR: &str = r#"{"odata.error":{"code":"C","message":{"lang":"en-US","value":"T.\nRequestId:x\nTime:y"}}}"#;

    #[test]
    fn right_answers_have_no_difference() {
        for (expected, status, body) in [
            ("404\ncode: C\ntext: T.\nETag: e\n!X", 404, ERROR),
            (
                "404 400\ncode: C",
                400,
                "<m:error><m:code>C</m:code><m:message xml:lang=\"en\">T\nRequestId:</m:message></m:error>",
            ),
            ("2xx\nrows: a b\ncount: 2", 201, r#"{"value":[{"RowKey":"a"},{"RowKey":"b"}]}"#),
            (
                "200\njson: /D 1.0\njson: /S \"é\"\njson: /X absent",
                200,
                r#"{"D":1.0,"S":"\u00e9"}"#,
            ),
            (
                "200\nhas: ${t<TIME}\nhas: x${t}\n\n${**}",
                200,
                "2020-01-01T00:00:00Zx2020-01-01T00:00:00Z",
            ),
        ] {
            assert_eq!(judged(expected, status, body), [""; 0], "{expected}");
        }
    }

    #[test]
    fn wrong_answers_are_told() {
        for (expected, body) in [
            ("200", ""),
            ("404\ncode: D", ERROR),
            ("404\ntext: T", ERROR),
            ("404\n!ETag", ""),
            ("404\nETag: f", ""),
            ("404\nX: f", ""),
            ("404\nrows: a", ERROR),
            ("404\n\nx", "y"),
            ("404\nhas: z", "y"),
            ("404\nlacks: y", "y"),
            ("404\njson: /a 1", "{\"a\":1.0}"),
            ("404\nparts: 204", "y"),
            ("404\npart: 0", "y"),
            ("404\ncount: 1", "{\"value\":[]}"),
        ] {
            assert_eq!(judged(expected, 404, body).len(), 1, "{expected}");
        }
    }
}

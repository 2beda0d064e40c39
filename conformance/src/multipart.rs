//! Batches: short forms as multipart bodies, and multipart answers as parts, strictly.

use crate::wire::Answer;
use std::fmt::Write as _;

/// A batch body made of its operations in short form, and the Content-Type that goes with it.
///
/// Operations stand between lines of `--`; each is a request line whose target lies below the
/// account, headers, a blank line and a body. `kind` is `changeset` or `query`.
pub fn body(kind: &str, base: &str, operations: &str, boundary: &str) -> (String, String) {
    let (outer, inner) = (format!("batch_{boundary}"), format!("changeset_{boundary}"));
    let mut out = String::new();
    let line = |out: &mut String, text: &str| {
        // Writing into a String cannot fail.
        let _ = write!(out, "{text}\r\n");
    };
    let change = kind == "changeset";
    if change {
        line(&mut out, &format!("--{outer}"));
        line(&mut out, &format!("Content-Type: multipart/mixed; boundary={inner}"));
        line(&mut out, "");
    }
    let around = if change { &inner } else { &outer };
    for operation in operations.split("\n--\n").filter(|text| !text.trim().is_empty()) {
        line(&mut out, &format!("--{around}"));
        line(&mut out, "Content-Type: application/http");
        line(&mut out, "Content-Transfer-Encoding: binary");
        line(&mut out, "");
        one(&mut out, base, operation.trim_start_matches('\n'));
    }
    if change {
        line(&mut out, &format!("--{inner}--"));
    }
    line(&mut out, &format!("--{outer}--"));
    (out, format!("multipart/mixed; boundary={outer}"))
}

fn one(out: &mut String, base: &str, operation: &str) {
    let (head, body) = operation.split_once("\n\n").unwrap_or((operation, ""));
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let (method, target) = first.split_once(' ').unwrap_or((first, "/"));
    let target = match target.strip_prefix('=') {
        Some(target) => target.to_owned(),
        None => format!("{base}{target}"),
    };
    let _ = write!(out, "{method} {target} HTTP/1.1\r\n");
    let mut typed = body.is_empty();
    for line in lines {
        typed |= line.to_ascii_lowercase().starts_with("content-type:");
        let _ = write!(out, "{line}\r\n");
    }
    if !typed {
        out.push_str("Content-Type: application/json\r\n");
    }
    let _ = write!(out, "\r\n{body}\r\n");
}

/// The innermost parts of a multipart answer.
pub fn parts(answer: &Answer) -> Result<Vec<Answer>, String> {
    let kind = answer.header("Content-Type").unwrap_or_default();
    let mut out = Vec::new();
    collect(kind, &answer.text(), &mut out)?;
    Ok(out)
}

fn collect(kind: &str, body: &str, out: &mut Vec<Answer>) -> Result<(), String> {
    let boundary = kind.strip_prefix("multipart/mixed; boundary=");
    let boundary = boundary.ok_or_else(|| format!("Content-Type {kind:?} is no batch's"))?;
    let first = format!("--{boundary}\r\n");
    let mut rest = body.strip_prefix(&first).ok_or("the first line is not the boundary")?;
    let between = format!("\r\n--{boundary}");
    loop {
        let (part, after) = rest.split_once(&between).ok_or("a part has no end")?;
        let (headers, content) = head(part)?;
        match headers.iter().find(|(name, _)| name == "Content-Type") {
            Some((_, kind)) if kind.starts_with("multipart/") => {
                // The inner end and the outer boundary share the line break between them.
                collect(kind, &format!("{content}\r\n"), out)?;
            }
            Some((_, kind)) if kind == "application/http" => out.push(inner(content)?),
            other => return Err(format!("a part has the Content-Type {other:?}")),
        }
        if after == "--\r\n" {
            return Ok(());
        }
        rest = after.strip_prefix("\r\n").ok_or("text stands beside a boundary")?;
    }
}

fn inner(content: &str) -> Result<Answer, String> {
    let (status, rest) = content.split_once("\r\n").ok_or("a part without a status line")?;
    let code = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let status = code.and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| format!("{content:?} has no status"))?;
    let (headers, body) = head(rest)?;
    Ok(Answer { status, headers, body: body.as_bytes().to_vec() })
}

type Headers = Vec<(String, String)>;

fn head(text: &str) -> Result<(Headers, &str), String> {
    let mut headers = Vec::new();
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once("\r\n").ok_or("a part's head has no end")?;
        rest = after;
        if line.is_empty() {
            return Ok((headers, rest));
        }
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("header {line:?}"))?;
        headers.push((name.to_owned(), value.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::{body, parts};
    use crate::wire::Answer;

    #[test]
    fn short_forms_become_parts() {
        let (text, kind) =
            body("changeset", "http://h/a", "POST /T\nA: b\n\n{}\n--\nDELETE /T(1)", "x");
        assert_eq!(kind, "multipart/mixed; boundary=batch_x");
        assert!(text.contains("POST http://h/a/T HTTP/1.1\r\nA: b\r\nContent-Type: application/json\r\n\r\n{}\r\n--changeset_x\r\n"));
        assert!(text.ends_with("\r\n--changeset_x--\r\n--batch_x--\r\n"), "{text}");
        let (text, _) = body("query", "http://h/a", "GET /T()", "x");
        assert!(text.starts_with("--batch_x\r\nContent-Type: application/http\r\n"), "{text}");
    }

    fn answer(text: &str) -> Answer {
        let kind = ("Content-Type".to_owned(), "multipart/mixed; boundary=b".to_owned());
        Answer { status: 202, headers: vec![kind], body: text.replace('\n', "\r\n").into_bytes() }
    }

    #[test]
    fn answers_are_taken_apart() {
        let text = "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: application/http\n\n\
                    HTTP/1.1 204 No Content\nETag: e\n\n\n--c\nContent-Type: application/http\n\n\
                    HTTP/1.1 201 Created\nX: y\n\n{}\n--c--\n--b--\n";
        let found = parts(&answer(text)).expect("parts");
        assert_eq!(found.iter().map(|part| part.status).collect::<Vec<_>>(), [204, 201]);
        assert_eq!((found[0].text().as_str(), found[1].text().as_str()), ("", "{}"));
        assert!(parts(&answer(&text.replace("--b--\n", "--b--"))).is_err());
        assert!(parts(&answer(&format!("\n{text}"))).is_err());
    }
}

//! Operations as requests, and answers as what they say. Written as clients do it, apart from the
//! service.

use crate::common::{FAR, Sas, escaped};
use crate::model::{Shown, name_of, partition_of};
use crate::ops::{Change, Compare, Filter, Policy, Property, Select, Stretch, Verb};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tabulith_server::http::message::Response;

/// A request, of the account's owner unless its address is signed already.
pub(crate) struct Asked {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) is_signed: bool,
}

/// The leave to see a stretch of a table.
pub(crate) fn leave_for(table: usize, stretch: &Stretch) -> Sas {
    let fields = [("spk", "srk", &stretch.from), ("epk", "erk", &stretch.to)];
    fields.iter().fold(Sas::table(&name_of(table)).with("sp", "r"), |sas, (pk, rk, (own, row))| {
        let sas = sas.with(pk, own);
        row.iter().fold(sas, |sas, row| sas.with(rk, row))
    })
}

/// The leave that a stored policy gives.
pub(crate) fn leave_by(table: usize, id: &str) -> Sas {
    Sas::table(&name_of(table)).without("se").with("si", id)
}

/// The path of an entity.
pub(crate) fn entity_path(table: usize, pk: &str, rk: &str) -> String {
    let quoted = |key: &str| escaped(&key.replace('\'', "''"));
    format!("/{}(PartitionKey='{}',RowKey='{}')", name_of(table), quoted(pk), quoted(rk))
}

/// A change; `tag` is what stands in `If-Match`.
pub(crate) fn change(table: usize, pk: &str, change: &Change, tag: Option<String>) -> Asked {
    let mut headers = vec![("Accept", "application/json;odata=minimalmetadata".to_owned())];
    headers.extend(tag.map(|tag| ("If-Match", tag)));
    let (method, path) = match change.verb {
        Verb::Insert | Verb::InsertAndShow => ("POST", format!("/{}", name_of(table))),
        verb => {
            let method = match verb {
                Verb::Replace => "PUT",
                Verb::Merge => "PATCH",
                Verb::Delete => "DELETE",
                _ => "POST",
            };
            (method, entity_path(table, pk, &change.rk))
        }
    };
    match change.verb {
        Verb::Insert => headers.push(("Prefer", "return-no-content".to_owned())),
        Verb::PostMerge => headers.push(("X-HTTP-Method", "MERGE".to_owned())),
        _ => {}
    }
    let mut body = Map::new();
    if matches!(change.verb, Verb::Insert | Verb::InsertAndShow) {
        body.insert("PartitionKey".to_owned(), pk.into());
        body.insert("RowKey".to_owned(), change.rk.clone().into());
    }
    for (name, property) in &change.properties {
        if let Property::Long(_) = property {
            body.insert(format!("{name}@odata.type"), "Edm.Int64".into());
        }
        body.insert(name.clone(), json_of(property));
    }
    let body =
        if change.verb == Verb::Delete { String::new() } else { Value::Object(body).to_string() };
    if !body.is_empty() {
        headers.push(("Content-Type", "application/json".to_owned()));
    }
    Asked { method, path, headers, body, is_signed: false }
}

/// A batch of changes, each with what stands in its `If-Match`.
pub(crate) fn batch(table: usize, pk: &str, changes: &[(&Change, Option<String>)]) -> Asked {
    let mut body = "--batch\r\nContent-Type: multipart/mixed; boundary=changes\r\n\r\n".to_owned();
    for (at, (one, tag)) in changes.iter().enumerate() {
        let asked = change(table, &partition_of(pk, one.astray), one, tag.clone());
        body += "--changes\r\nContent-Type: application/http\r\n\
            Content-Transfer-Encoding: binary\r\n\r\n";
        body += &format!("{} /devstoreaccount1{} HTTP/1.1\r\n", asked.method, asked.path);
        body += &format!("Content-ID: {at}\r\n");
        for (name, value) in &asked.headers {
            body += &format!("{name}: {value}\r\n");
        }
        body += &format!("\r\n{}\r\n", asked.body);
    }
    body += "--changes--\r\n--batch--\r\n";
    let headers = vec![("Content-Type", "multipart/mixed; boundary=batch".to_owned())];
    Asked { method: "POST", path: "/$batch".to_owned(), headers, body, is_signed: false }
}

/// A batch of one part that reads.
pub(crate) fn batch_of(path: &str) -> Asked {
    let body = format!(
        "--batch\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         GET {path} HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\n\r\n\
         --batch--\r\n"
    );
    let headers = vec![("Content-Type", "multipart/mixed; boundary=batch".to_owned())];
    Asked { method: "POST", path: "/$batch".to_owned(), headers, body, is_signed: false }
}

/// Stored policies as a client sends them.
pub(crate) fn policies(policies: &[Policy]) -> String {
    let one = |policy: &Policy| {
        format!(
            "<SignedIdentifier><Id>{}</Id><AccessPolicy><Expiry>{FAR}</Expiry><Permission>{}\
             </Permission></AccessPolicy></SignedIdentifier>",
            xml_text(&policy.id),
            policy.letters
        )
    };
    let all: String = policies.iter().map(one).collect();
    format!("<SignedIdentifiers>{all}</SignedIdentifiers>")
}

/// The same as the service shows them.
pub(crate) fn policies_shown(all: &[Policy]) -> String {
    let head = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
    match all {
        [] => format!("{head}<SignedIdentifiers />"),
        all => format!("{head}{}", policies(all)).replace(FAR, "2099-01-01T00:00:00.0000000Z"),
    }
}

/// Figures by the hour for so many days, of the properties of a service.
pub(crate) fn hour_metrics(days: u16) -> String {
    format!(
        "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true\
         </IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days>\
         </RetentionPolicy></HourMetrics>"
    )
}

fn xml_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn json_of(property: &Property) -> Value {
    match property {
        Property::Int(number) => json!(number),
        Property::Long(number) => json!(number.to_string()),
        Property::Text(text) => json!(text),
        Property::Flag(flag) => json!(flag),
        Property::Halves(halves) => json!(f64::from(*halves) / 2.0),
        Property::Null => Value::Null,
    }
}

/// `$filter` and the like as the query of an address.
pub(crate) fn query(filter: Option<&Filter>, select: &Select, top: Option<u32>) -> String {
    let mut options = Vec::new();
    options.extend(filter.map(|filter| format!("$filter={}", escaped(&filter_text(filter)))));
    if let Select::Some(names) = select {
        options.push(format!("$select={}", escaped(&names.join(","))));
    }
    options.extend(top.map(|top| format!("$top={top}")));
    options.join("&")
}

/// `$filter` for tables whose names compare so with one.
pub(crate) fn name_filter(op: Compare, name: &str) -> String {
    format!("$filter=TableName%20{}%20{}", op_text(op), escaped(&format!("'{name}'")))
}

fn op_text(op: Compare) -> &'static str {
    match op {
        Compare::Eq => "eq",
        Compare::Ne => "ne",
        Compare::Lt => "lt",
        Compare::Le => "le",
        Compare::Gt => "gt",
        Compare::Ge => "ge",
    }
}

fn filter_text(filter: &Filter) -> String {
    match filter {
        Filter::Not(inner) => format!("not ({})", filter_text(inner)),
        Filter::And(left, right) => format!("({}) and ({})", filter_text(left), filter_text(right)),
        Filter::Or(left, right) => format!("({}) or ({})", filter_text(left), filter_text(right)),
        Filter::Compare { name, op, with } => {
            let with = match with {
                Property::Int(number) => number.to_string(),
                Property::Long(number) => format!("{number}L"),
                Property::Text(text) => format!("'{}'", text.replace('\'', "''")),
                Property::Flag(flag) => flag.to_string(),
                Property::Halves(halves) => format!("{:.1}", f64::from(*halves) / 2.0),
                Property::Null => "null".to_owned(),
            };
            format!("{name} {} {with}", op_text(*op))
        }
    }
}

/// The time that an ETag tells.
pub(crate) fn ticks_of_etag(etag: &str) -> Option<u64> {
    let text = etag.strip_prefix("W/\"datetime'")?.strip_suffix("'\"")?.replace("%3A", ":");
    ticks_of(&text)
}

fn ticks_of(text: &str) -> Option<u64> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(moment.as_nanosecond() / 100).ok()
}

/// A status with the code of its refusal, if it has one.
pub(crate) fn refusal(response: &Response) -> (u16, String) {
    (response.status, response.get("x-ms-error-code").unwrap_or_default().to_owned())
}

/// The body as JSON.
pub(crate) fn json(response: &Response) -> Result<Value, String> {
    serde_json::from_slice(&response.body).map_err(|error| error.to_string())
}

/// An entity of an answer with minimal metadata, or with none: then with no ETag.
pub(crate) fn shown(value: &Value, is_bare: bool) -> Result<Shown, String> {
    let all = value.as_object().ok_or("no object")?;
    let text = |name: &str| all.get(name).and_then(Value::as_str).map(str::to_owned);
    let time = text("Timestamp").map(|text| ticks_of(&text).ok_or(format!("no time: {text}")));
    let etag = match (text("odata.etag"), is_bare) {
        (None, true) => 0,
        (Some(etag), false) => ticks_of_etag(&etag).ok_or(format!("no ETag: {etag}"))?,
        (etag, _) => return Err(format!("ETag {etag:?}")),
    };
    let mut shown = Shown {
        keys: (text("PartitionKey"), text("RowKey")),
        time: time.transpose()?,
        etag,
        properties: BTreeMap::new(),
    };
    for (name, value) in all {
        let is_own = ["PartitionKey", "RowKey", "Timestamp"].contains(&name.as_str());
        let is_metadata = name.starts_with("odata.") || name.contains('@');
        if is_metadata && is_bare {
            return Err(format!("{name} where no metadata was asked for"));
        }
        if is_own || is_metadata {
            continue;
        }
        let kind = match is_bare {
            true => (name == "L" && value.is_string()).then_some("Edm.Int64"),
            false => all.get(&format!("{name}@odata.type")).and_then(Value::as_str),
        };
        shown.properties.insert(name.clone(), property_of(value, kind)?);
    }
    Ok(shown)
}

fn property_of(value: &Value, kind: Option<&str>) -> Result<Option<Property>, String> {
    Ok(Some(match (value, kind) {
        (Value::Null, None) => return Ok(None),
        (Value::String(text), Some("Edm.Int64")) => {
            Property::Long(text.parse().map_err(|_| format!("no number: {text}"))?)
        }
        (Value::String(text), None) => Property::Text(text.clone()),
        (Value::Bool(flag), None) => Property::Flag(*flag),
        (Value::Number(number), None) => match number.to_string().contains('.') {
            true => Property::Halves((number.as_f64().unwrap_or(0.0) * 2.0) as i32),
            false => Property::Int(number.as_i64().unwrap_or(0) as i32),
        },
        other => return Err(format!("what is that: {other:?}")),
    }))
}

/// The one part of the answer to a batch that reads, as an answer of its own.
pub(crate) fn part_of(response: &Response) -> Result<Response, String> {
    let text = String::from_utf8_lossy(&response.body).into_owned();
    let (_, rest) = text.split_once("\r\n\r\nHTTP/1.1 ").ok_or(format!("no part: {text}"))?;
    let (head, rest) = rest.split_once("\r\n\r\n").ok_or(format!("no body: {text}"))?;
    let (body, _) = rest.split_once("\r\n--batchresponse_").ok_or(format!("no end: {text}"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').next()?.parse().ok());
    let mut part = Response::new(status.ok_or(format!("no status: {text}"))?);
    if let Some(etag) = lines.find_map(|line| line.strip_prefix("ETag: ")) {
        part.header("ETag", etag.to_owned());
    }
    part.body = body.to_owned().into();
    if let Some(code) = json(&part)?["odata.error"]["code"].as_str() {
        part.header("x-ms-error-code", code.to_owned()); // A part says it in its body alone.
    }
    Ok(part)
}

/// What was answered to one change of a batch.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) status: u16,
    pub(crate) etag: Option<u64>,
    pub(crate) body: String,
}

/// The parts of the answer to a batch.
pub(crate) fn parts(response: &Response) -> Vec<Part> {
    let text = String::from_utf8_lossy(&response.body).into_owned();
    let pieces = text.split("--changesetresponse_").skip(1).filter_map(|piece| {
        let (_, rest) = piece.split_once("\r\n\r\nHTTP/1.1 ")?;
        let (head, body) = rest.split_once("\r\n\r\n")?;
        let etag = head.lines().find_map(|line| line.strip_prefix("ETag: "));
        let status = head.split(' ').next()?.parse().ok()?;
        Some(Part { status, etag: etag.and_then(ticks_of_etag), body: body.trim().to_owned() })
    });
    pieces.collect()
}

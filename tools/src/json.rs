//! Entities as JSON objects: what `query` and `export` print, and what `import` reads of one.
//!
//! Every value whose type plain JSON cannot say has its `name@odata.type` before it, so an exported
//! line imports as what it was.

use crate::edm::{self, EdmType};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value as Json};
use std::fmt;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::time;
use tabulith::table::value::{DateTime, Value};

/// Appends an entity as one line, without the line's end.
pub(crate) fn write_entity(out: &mut Vec<u8>, entity: &Entity) {
    out.extend_from_slice(b"{\"PartitionKey\":");
    write_text(out, &entity.partition_key);
    out.extend_from_slice(b",\"RowKey\":");
    write_text(out, &entity.row_key);
    if entity.ts != CommitTs::ZERO {
        out.extend_from_slice(b",\"Timestamp\":");
        write_text(out, &DateTime::from(entity.ts).to_string());
    }
    for (name, value) in &entity.properties {
        out.push(b',');
        write_property(out, name, value);
    }
    out.push(b'}');
}

fn write_property(out: &mut Vec<u8>, name: &str, value: &Value) {
    let finite = matches!(value, Value::Double(number) if number.is_finite());
    let plain = matches!(value, Value::String(_) | Value::Boolean(_) | Value::Int32(_)) || finite;
    if !plain {
        write_text(out, &format!("{name}@odata.type"));
        out.extend_from_slice(b":\"Edm.");
        out.extend_from_slice(edm::type_of(value).name().as_bytes());
        out.extend_from_slice(b"\",");
    }
    write_text(out, name);
    out.push(b':');
    match value {
        Value::String(text) => write_text(out, text),
        Value::Boolean(_) | Value::Int32(_) => out.extend(edm::text_of(value).bytes()),
        Value::Double(_) if finite => out.extend(edm::text_of(value).bytes()),
        other => write_text(out, &edm::text_of(other)),
    }
}

/// Appends `text` in quotes.
fn write_text(out: &mut Vec<u8>, text: &str) {
    // Writing text into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// An upper bound for what [`write_entity`] appends, and for what the client sends.
pub(crate) fn entity_bytes_max(entity: &Entity) -> usize {
    let properties = entity.properties.iter().map(|(name, value)| {
        // Name twice, `@odata.type`, the type's name, quotes, colons and commas: below 48.
        2 * text_bytes(name) + 48 + value_bytes_max(value)
    });
    let keys = text_bytes(&entity.partition_key) + text_bytes(&entity.row_key);
    keys + 96 + properties.sum::<usize>()
}

fn value_bytes_max(value: &Value) -> usize {
    match value {
        Value::String(text) => text_bytes(text),
        Value::Binary(bytes) => bytes.len().div_ceil(3) * 4,
        // The longest is a Guid; a double's shortest text has at most 24 characters.
        _ => 40,
    }
}

fn text_bytes(text: &str) -> usize {
    text.bytes()
        .map(|b| if b < 0x20 { 6 } else { 1 + usize::from(matches!(b, b'"' | b'\\')) })
        .sum()
}

/// The members of the object that `text` is. One that is given twice is an error, as it is to the
/// server: nobody knows which of the two is meant.
pub(crate) fn members(text: &[u8]) -> serde_json::Result<Map<String, Json>> {
    serde_json::from_slice::<Members>(text).map(|members| members.0)
}

/// What is wrong with a text of one line, and at which of its columns: its line is not the file's.
pub(crate) fn told(error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let place = format!(" at line {} column {column}", error.line());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what} at column {column}"),
        None => text,
    }
}

struct Members(Map<String, Json>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        deserializer.deserialize_map(OnceEach)
    }
}

struct OnceEach;

impl<'de> Visitor<'de> for OnceEach {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
        let mut members = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Json>()? {
            match members.entry(name) {
                Entry::Vacant(place) => {
                    place.insert(value);
                }
                Entry::Occupied(place) => {
                    let name = shortened(place.key());
                    return Err(de::Error::custom(format_args!("`{name}` is given twice")));
                }
            }
        }
        Ok(Members(members))
    }
}

/// Why an object is no entity: a member, and what is wrong with it.
pub(crate) type NoEntity = String;

/// Whether a member says something about the object instead of being a property.
pub(crate) fn is_annotation(name: &str) -> bool {
    name.starts_with("odata.") || name.contains("@odata.")
}

/// Whether a property cannot have that name: keys, and names that the service keeps for itself.
pub(crate) fn is_of_the_service(name: &str) -> bool {
    matches!(name, "PartitionKey" | "RowKey" | "Timestamp") || is_annotation(name)
}

/// The type that the object gives to its member `name`, if it does.
pub(crate) fn annotation(
    members: &Map<String, Json>,
    name: &str,
) -> Result<Option<EdmType>, NoEntity> {
    match members.get(&format!("{name}@odata.type")) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(edm)) if edm.starts_with("Edm.") => match EdmType::by_name(edm) {
            Some(edm) => Ok(Some(edm)),
            None => Err(format!("{name}: no type is called {edm}")),
        },
        Some(_) => Err(format!("{name}@odata.type: not the name of a type")),
    }
}

/// The entity that an object is, as [`write_entity`] writes it, with the commit of its Timestamp;
/// one that no commit has is passed over, as are annotations but types. A null is no property.
pub(crate) fn read_entity(members: &Map<String, Json>) -> Result<Entity, NoEntity> {
    let key = |name: &str| match members.get(name) {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("{name} is no text")),
        None => Err(format!("{name} is missing")),
    };
    let (partition_key, row_key) = (key("PartitionKey")?, key("RowKey")?);
    let mut properties = Vec::with_capacity(members.len());
    for (name, value) in members {
        if is_of_the_service(name) {
            continue;
        }
        let edm = annotation(members, name)?;
        properties.extend(read_value(name, value, edm)?.map(|value| (name.clone(), value)));
    }
    let moment = members.get("Timestamp").and_then(Json::as_str);
    let moment = moment.and_then(|text| time::parse(text).ok());
    let ts = moment.and_then(DateTime::commit).unwrap_or(CommitTs::ZERO);
    Ok(Entity { ts, properties, ..Entity::new(partition_key, row_key) })
}

/// The value of a member; `None` for null. Without an annotation the JSON says the type: a number
/// with a point or an exponent is a double, another one an Int32. No integer and no moment is
/// rounded.
pub(crate) fn read_value(
    name: &str,
    value: &Json,
    annotated: Option<EdmType>,
) -> Result<Option<Value>, NoEntity> {
    let Some(text) = text_of(name, value)? else { return Ok(None) };
    let edm = annotated.unwrap_or(match value {
        Json::Bool(_) => EdmType::Boolean,
        Json::Number(_) if text.contains(['.', 'e', 'E']) => EdmType::Double,
        Json::Number(_) => EdmType::Int32,
        _ => EdmType::String,
    });
    let value = parsed(name, &text, edm)?;
    match edm.rounds(&text) {
        true => Err(format!("{name}: `{}` has more digits than a {edm} holds", shortened(&text))),
        false => Ok(Some(value)),
    }
}

/// The value of a member in the type that somebody asks for, rounded to what that holds; `None` for
/// null.
pub(crate) fn read_as(name: &str, value: &Json, edm: EdmType) -> Result<Option<Value>, NoEntity> {
    text_of(name, value)?.map(|text| parsed(name, &text, edm)).transpose()
}

/// A member as text; `None` for null.
fn text_of(name: &str, value: &Json) -> Result<Option<String>, NoEntity> {
    match value {
        Json::Null => Ok(None),
        Json::String(text) => Ok(Some(text.clone())),
        Json::Bool(yes) => Ok(Some(yes.to_string())),
        Json::Number(number) => Ok(Some(number.to_string())),
        Json::Array(_) | Json::Object(_) => {
            Err(format!("{name}: a property is a single value, not a list or an object"))
        }
    }
}

fn parsed(name: &str, text: &str, edm: EdmType) -> Result<Value, NoEntity> {
    edm.parse(text).ok_or_else(|| format!("{name}: `{}` is no {edm}", shortened(text)))
}

/// `text` short enough for a message.
pub(crate) fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(40).collect();
    short.push('…');
    short
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn entity() -> Entity {
        let values = [
            ("s", Value::String("a\"b\\c\n\u{1}é".to_owned())),
            ("i", Value::Int32(-1)),
            ("l", Value::Int64(i64::MAX)),
            ("d", Value::Double(1.0)),
            ("n", Value::Double(f64::NEG_INFINITY)),
            ("b", Value::Boolean(true)),
            ("t", Value::DateTime(time::parse("2013-01-01T10:00:00.5Z").unwrap())),
            ("g", Value::Guid([7; 16])),
            ("x", Value::Binary(vec![1, 2, 255])),
        ];
        Entity {
            ts: CommitTs(17_000_000_000_000_001),
            properties: values.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            ..Entity::new("p", "r'\"")
        }
    }

    /// The value of a member, by its annotation.
    fn read(members: &Map<String, Json>, name: &str) -> Result<Option<Value>, NoEntity> {
        read_value(name, &members[name], annotation(members, name)?)
    }

    #[test]
    fn every_type_comes_back_as_it_was() {
        let entity = entity();
        let mut line = Vec::new();
        write_entity(&mut line, &entity);
        let members: Map<String, Json> = serde_json::from_slice(&line).unwrap();
        assert_eq!(members["PartitionKey"], "p");
        assert_eq!(members["RowKey"], "r'\"");
        assert_eq!(members["Timestamp"], "2023-11-14T22:13:20.0000001Z");
        for (name, value) in &entity.properties {
            assert_eq!(read(&members, name), Ok(Some(value.clone())));
        }
        assert!(line.len() <= entity_bytes_max(&entity), "{} bytes", line.len());
    }

    /// It was dropped: a copy of JSON lines had none, and `import` took it for no export.
    #[test]
    fn a_timestamp_comes_back_as_it_was() {
        let ts = |timestamp: &str| {
            let text = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"r\"{timestamp}}}");
            read_entity(&members(text.as_bytes()).unwrap()).unwrap().ts
        };
        let at = CommitTs(17_000_000_000_000_001);
        assert_eq!(ts(r#","Timestamp":"2023-11-14T22:13:20.0000001Z""#), at);
        for none in ["", r#","Timestamp":"noon""#, r#","Timestamp":"1969-12-31""#] {
            assert_eq!(ts(none), CommitTs::ZERO, "{none}");
        }
        assert_eq!(ts(r#","Timestamp":7"#), CommitTs::ZERO);
    }

    #[test]
    fn the_text_is_the_protocols() {
        let mut line = Vec::new();
        let mut entity = Entity { ts: CommitTs::ZERO, ..entity() };
        entity.properties.retain(|(name, _)| matches!(name.as_str(), "i" | "l" | "d"));
        write_entity(&mut line, &entity);
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "{\"PartitionKey\":\"p\",\"RowKey\":\"r'\\\"\",\"i\":-1,\
             \"l@odata.type\":\"Edm.Int64\",\"l\":\"9223372036854775807\",\"d\":1.0}"
        );
    }

    /// The last one was taken, and nothing said.
    #[test]
    fn a_member_that_is_given_twice_is_named() {
        let text = br#"{"PartitionKey":"p","RowKey":"r","n":1,"n":2}"#;
        let error = members(text).unwrap_err().to_string();
        assert!(error.starts_with("`n` is given twice at line 1"), "{error}");
        let apart = members(br#" {"n":1,"N":12345678901234567890,"o":{"n":2}} "#).unwrap();
        assert_eq!((apart.len(), apart["N"].to_string().len()), (3, 20));
        assert!(members(b"{\"n\":1}{").is_err() && members(b"null").is_err());
    }

    #[test]
    fn values_that_are_not_their_type_are_named() {
        for (object, reason) in [
            ("{\"a\":3000000000}", "a: `3000000000` is no Int32"),
            ("{\"a@odata.type\":\"Edm.Guid\",\"a\":\"x\"}", "a: `x` is no Guid"),
            ("{\"a@odata.type\":\"Edm.Money\",\"a\":1}", "a: no type is called Edm.Money"),
            ("{\"a\":[1]}", "a: a property is a single value"),
            (
                r#"{"a@odata.type":"Edm.DateTime","a":"2013-01-01T10:00:00.123456789Z"}"#,
                "a: `2013-01-01T10:00:00.123456789Z` has more digits than a DateTime holds",
            ),
            (
                r#"{"a@odata.type":"Edm.Double","a":9007199254740993}"#,
                "a: `9007199254740993` has more digits than a Double holds",
            ),
        ] {
            let members: Map<String, Json> = serde_json::from_str(object).unwrap();
            let error = read(&members, "a").unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}

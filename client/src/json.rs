//! Entities as the JSON that the protocol carries.

use crate::entity::{ETag, Entity};
use crate::value::{DateTime, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value as Json};
use std::io::Write;

/// Appends the body of a write on one line. Timestamp and ETag are the service's and left out.
pub(crate) fn write_entity(out: &mut Vec<u8>, entity: &Entity) {
    out.extend_from_slice(b"{\"PartitionKey\":");
    write_text(out, &entity.partition_key);
    out.extend_from_slice(b",\"RowKey\":");
    write_text(out, &entity.row_key);
    for (name, value) in &entity.properties {
        out.push(b',');
        write_property(out, name, value);
    }
    out.push(b'}');
}

fn write_property(out: &mut Vec<u8>, name: &str, value: &Value) {
    let finite = matches!(value, Value::Double(number) if number.is_finite());
    // Readers that keep numbers as JavaScript does take 1.0 for an Int32 where nothing says its
    // type.
    let broken = matches!(value, Value::Double(number) if finite && number.fract() != 0.0);
    let plain = matches!(value, Value::String(_) | Value::Boolean(_) | Value::Int32(_)) || broken;
    write_text(out, name);
    if !plain {
        // The annotation's name is the property's with more behind it.
        out.pop();
        out.extend_from_slice(b"@odata.type\":\"");
        out.extend_from_slice(value.type_name().as_bytes());
        out.extend_from_slice(b"\",");
        write_text(out, name);
    }
    out.push(b':');
    match value {
        Value::String(text) => write_text(out, text),
        Value::Boolean(yes) => put(out, format_args!("{yes}")),
        Value::Int32(number) => put(out, format_args!("{number}")),
        // `{:?}` is the shortest text that reads back, and never an integer's.
        Value::Double(number) if finite => put(out, format_args!("{number:?}")),
        Value::Double(number) if number.is_nan() => write_text(out, "NaN"),
        Value::Double(number) if *number > 0.0 => write_text(out, "Infinity"),
        Value::Double(_) => write_text(out, "-Infinity"),
        Value::Int64(number) => put(out, format_args!("\"{number}\"")),
        Value::DateTime(moment) => put(out, format_args!("\"{moment}\"")),
        Value::Guid(bytes) => put(out, format_args!("\"{}\"", uuid::Uuid::from_bytes(*bytes))),
        Value::Binary(bytes) => write_text(out, &BASE64.encode(bytes)),
    }
}

/// Appends text that needs no escape.
fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing text into memory cannot fail.
    let _ = out.write_fmt(text);
}

/// Appends `text` in quotes.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // Writing text into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// The entity that an answer's object is, or what is wrong with the object. Members that hold null
/// are left out.
pub(crate) fn read_entity(value: Json) -> Result<Entity, String> {
    let Json::Object(members) = value else { return Err("an entity is no object".to_owned()) };
    let mut entity = Entity::default();
    let types = types(&members)?;
    for (name, value) in members {
        match (name.as_str(), value) {
            (_, Json::Null) => {}
            ("PartitionKey", Json::String(key)) => entity.partition_key = key,
            ("RowKey", Json::String(key)) => entity.row_key = key,
            ("Timestamp", Json::String(text)) => entity.timestamp = text.parse().ok(),
            ("odata.etag", Json::String(text)) => entity.etag = Some(ETag::new(text)),
            ("PartitionKey" | "RowKey" | "Timestamp", _) => {
                return Err(format!("{name} is no text"));
            }
            (annotation, _) if is_annotation(annotation) => {}
            (_, value) => {
                let annotated = types.get(name.as_str()).map(String::as_str);
                let value = read_value(&value, annotated)
                    .ok_or_else(|| format!("{name} is not of its type"))?;
                entity.properties.push((name, value));
            }
        }
    }
    Ok(entity)
}

fn is_annotation(name: &str) -> bool {
    name.starts_with("odata.") || name.contains("@odata.")
}

/// The types that annotations give, by the name of the property.
fn types(members: &Map<String, Json>) -> Result<std::collections::HashMap<String, String>, String> {
    let mut types = std::collections::HashMap::new();
    for (name, value) in members {
        if let Some(property) = name.strip_suffix("@odata.type") {
            let text = value.as_str().ok_or_else(|| format!("{name} is no text"))?;
            types.insert(property.to_owned(), text.to_owned());
        }
    }
    Ok(types)
}

/// A value by its annotation; without one the JSON says the type: a number with a point or an
/// exponent is a double, another one an Int32.
fn read_value(value: &Json, annotated: Option<&str>) -> Option<Value> {
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Number(number) => number.to_string(),
        Json::Bool(yes) => yes.to_string(),
        Json::Null | Json::Array(_) | Json::Object(_) => return None,
    };
    let edm = annotated.unwrap_or(match value {
        Json::Bool(_) => "Edm.Boolean",
        Json::Number(_) if text.contains(['.', 'e', 'E']) => "Edm.Double",
        Json::Number(_) => "Edm.Int32",
        _ => "Edm.String",
    });
    Some(match edm {
        "Edm.String" => Value::String(text),
        "Edm.Boolean" => Value::Boolean(text.parse().ok()?),
        "Edm.Int32" => Value::Int32(text.parse().ok()?),
        "Edm.Int64" => Value::Int64(text.parse().ok()?),
        // Rust's words for what is not finite are other ones, in any case of letters.
        "Edm.Double" => Value::Double(match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => text.parse().ok().filter(|number: &f64| number.is_finite())?,
        }),
        "Edm.DateTime" => Value::DateTime(text.parse::<DateTime>().ok()?),
        "Edm.Guid" => Value::Guid(uuid::Uuid::parse_str(&text).ok()?.into_bytes()),
        "Edm.Binary" => Value::Binary(BASE64.decode(&text).ok()?),
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn written(entity: &Entity) -> String {
        let mut out = Vec::new();
        write_entity(&mut out, entity);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_type_comes_back_as_it_was() {
        let entity = Entity::new("p", "r'\"\\")
            .with("s", "a\"b\\c\n\u{1}é")
            .with("i", -1_i32)
            .with("l", i64::MAX)
            .with("d", 1.0)
            .with("n", f64::NEG_INFINITY)
            .with("b", true)
            .with("t", "2013-01-01T10:00:00.5Z".parse::<DateTime>().unwrap())
            .with("g", [7_u8; 16])
            .with("x", vec![1, 2, 255]);
        let json: Json = serde_json::from_str(&written(&entity)).unwrap();
        assert_eq!(read_entity(json).unwrap(), entity);
    }

    #[test]
    fn the_text_is_the_protocols() {
        let entity =
            Entity::new("p", "r").with("i", -1_i32).with("l", 1_i64).with("d", 1.5).with("w", 1.0);
        assert_eq!(
            written(&entity),
            "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"i\":-1,\
             \"l@odata.type\":\"Edm.Int64\",\"l\":\"1\",\"d\":1.5,\"w@odata.type\":\"Edm.Double\",\"w\":1.0}"
        );
    }

    #[test]
    fn what_the_service_adds_is_told_apart() {
        let text = r#"{"odata.metadata":"x","odata.etag":"W/\"1\"","PartitionKey":"p","RowKey":"",
            "Timestamp":"2021-01-06T01:01:30Z","a":null,"late":"7","late@odata.type":"Edm.Int64"}"#;
        let entity = read_entity(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(entity.etag, Some(ETag::new("W/\"1\"")));
        assert_eq!(entity.timestamp.unwrap().to_string(), "2021-01-06T01:01:30Z");
        assert_eq!(entity.properties, [("late".to_owned(), Value::Int64(7))]);
    }

    #[test]
    fn what_is_no_entity_is_refused() {
        for text in [
            "[]",
            r#"{"PartitionKey":1}"#,
            r#"{"a":3000000000}"#,
            r#"{"a":[1]}"#,
            r#"{"a":"x","a@odata.type":"Edm.Guid"}"#,
            r#"{"a":"x","a@odata.type":"Edm.Money"}"#,
            r#"{"a":"inf","a@odata.type":"Edm.Double"}"#,
        ] {
            assert!(read_entity(serde_json::from_str(text).unwrap()).is_err(), "{text}");
        }
    }
}

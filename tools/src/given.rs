//! One entity as somebody gives it: by flags, NAME=VALUE, or as a JSON object.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the file is the user's")]

use crate::args::entity::EntityText;
use crate::edm::EdmType;
use crate::exit::Failure;
use crate::json;
use anyhow::{Context, Result};
use std::io::{self, Read as _};
use tabulith::table::entity::Entity;
use tabulith::table::rules;

/// Most bytes of a JSON object: an entity of 1 MiB with all that JSON adds to it stays below.
const JSON_BYTES_MAX: u64 = 16 << 20;

/// The entity that the command line gives.
pub(crate) fn entity(text: &EntityText) -> Result<Entity> {
    let entity = match text.json.as_deref() {
        None => of_words(&text.entity)?,
        Some(name) => {
            let mut bytes = Vec::new();
            let read = match name {
                "-" => io::stdin().lock().take(JSON_BYTES_MAX).read_to_end(&mut bytes),
                path => std::fs::File::open(path)
                    .and_then(|file| file.take(JSON_BYTES_MAX).read_to_end(&mut bytes)),
            };
            read.with_context(|| format!("--json {name}"))?;
            of_json(&bytes).map_err(|why| Failure::usage(format!("--json {name}: {why}")))?
        }
    };
    rules::check_entity(&entity).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(entity)
}

/// The entity that NAME=VALUE words say.
fn of_words(words: &[String]) -> Result<Entity> {
    let mut members: Vec<(&str, &str)> = Vec::new();
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| {
            Failure::usage(format!("-e {}: NAME=VALUE is needed", json::shortened(word)))
        })?;
        if members.iter().any(|(known, _)| *known == name) {
            return Err(Failure::usage(format!("-e {name}: given twice")).into());
        }
        members.push((name, value));
    }
    let text = |name: &str| members.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let key = |name: &str| {
        let text = text(name).map(str::to_owned);
        text.ok_or_else(|| Failure::usage(format!("-e {name}=… is missing")))
    };
    let (partition_key, row_key) = (key("PartitionKey")?, key("RowKey")?);
    let mut properties = Vec::new();
    for (name, value) in &members {
        if let Some(of) = name.strip_suffix("@odata.type") {
            if text(of).is_none() {
                return Err(Failure::usage(format!("-e {name}: there is no {of}")).into());
            }
            continue;
        }
        if json::is_of_the_service(name) {
            continue;
        }
        let edm = match text(&format!("{name}@odata.type")) {
            Some(edm) => EdmType::by_name(edm).ok_or_else(|| {
                Failure::usage(format!("-e {name}@odata.type: no type is called {edm}"))
            })?,
            None => suggested(value),
        };
        let value = edm.parse(value).ok_or_else(|| {
            Failure::usage(format!("-e {name}: `{}` is no {edm}", json::shortened(value)))
        })?;
        properties.push(((*name).to_owned(), value));
    }
    Ok(Entity { properties, ..Entity::new(partition_key, row_key) })
}

/// The type that a value's text suggests.
fn suggested(text: &str) -> EdmType {
    let is = |edm: EdmType| edm.parse(text).is_some();
    let digits = text.strip_prefix('-').unwrap_or(text);
    // Text such as a postal code that begins with a zero is no number.
    let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    let number = digits.starts_with(|c: char| c.is_ascii_digit()) && !padded;
    match text {
        "true" | "false" => EdmType::Boolean,
        _ if number && is(EdmType::Int32) => EdmType::Int32,
        _ if number && is(EdmType::Int64) => EdmType::Int64,
        _ if number && text.contains('.') && is(EdmType::Double) => EdmType::Double,
        _ => EdmType::String,
    }
}

fn of_json(bytes: &[u8]) -> Result<Entity, String> {
    let members = json::members(bytes).map_err(|error| error.to_string())?;
    json::read_entity(&members)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::exit::{Exit, of};
    use tabulith::table::value::Value;

    fn words(words: &[&str]) -> Result<Entity> {
        let keys = ["PartitionKey=p=q", "RowKey="];
        of_words(&keys.iter().chain(words).map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_suggest_their_types() {
        let entity = words(&[
            "a=7",
            "b=-2147483649",
            "c=1.5",
            "d=true",
            "e=007",
            "f=2013-01-01T10:00:00Z",
            "g=",
            "h=-",
            "i=1e3",
            "j=9223372036854775808",
            "k=0",
            "l=0.5",
            "m=7e12",
            "n=-1.5e3",
        ]);
        let entity = entity.unwrap();
        assert_eq!((entity.partition_key.as_str(), entity.row_key.as_str()), ("p=q", ""));
        let text = |text: &str| Value::String(text.to_owned());
        let values: Vec<Value> = entity.properties.into_iter().map(|(_, value)| value).collect();
        assert_eq!(
            values,
            [
                Value::Int32(7),
                Value::Int64(-2_147_483_649),
                Value::Double(1.5),
                Value::Boolean(true),
                text("007"),
                text("2013-01-01T10:00:00Z"),
                text(""),
                text("-"),
                text("1e3"),
                text("9223372036854775808"),
                Value::Int32(0),
                Value::Double(0.5),
                text("7e12"),
                Value::Double(-1500.0),
            ]
        );
    }

    #[test]
    fn a_type_that_is_given_counts() {
        let entity = words(&["a@odata.type=Edm.Int64", "a=7", "b=7", "b@odata.type=string"]);
        let values = entity.unwrap().properties;
        assert_eq!(
            values,
            [("a".to_owned(), Value::Int64(7)), ("b".to_owned(), Value::String("7".to_owned()))]
        );
    }

    #[test]
    fn what_is_wrong_with_words_is_named() {
        for (given, because) in [
            (&["a"][..], "-e a: NAME=VALUE"),
            (&["a=1", "a=2"], "-e a: given twice"),
            (&["a=x", "a@odata.type=Edm.Int32"], "-e a: `x` is no Int32"),
            (&["a=x", "a@odata.type=Edm.Money"], "no type is called Edm.Money"),
            (&["b@odata.type=Edm.Int32"], "there is no b"),
        ] {
            let error = words(given).unwrap_err();
            assert_eq!(of(&error), Exit::Usage);
            assert!(error.to_string().contains(because), "{error}");
        }
        let error = of_words(&["PartitionKey=p".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("RowKey=… is missing"), "{error}");
    }

    #[test]
    fn json_is_what_show_prints() {
        let text = br#"{"odata.etag":"W/x","PartitionKey":"p","RowKey":"r","Timestamp":"2020-01-01T00:00:00Z","l@odata.type":"Edm.Int64","l":"5","gone":null}"#;
        let entity = of_json(text).unwrap();
        assert_eq!(entity.properties, [("l".to_owned(), Value::Int64(5))]);
        for (text, because) in [
            ("[]", "expected a map"),
            ("{\"PartitionKey\":\"p\"}", "RowKey is missing"),
            ("{\"PartitionKey\":1,\"RowKey\":\"r\"}", "PartitionKey is no text"),
            (r#"{"PartitionKey":"p","RowKey":"r","n":1,"n":2}"#, "`n` is given twice"),
            ("{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"a\":[1]}", "a: a property is a single"),
        ] {
            let why = of_json(text.as_bytes()).unwrap_err();
            assert!(why.contains(because), "{why}");
        }
    }
}

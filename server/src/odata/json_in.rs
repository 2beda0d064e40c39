//! The JSON of a request into an entity or a table's name: types by annotation, else by how the
//! value is written.
//!
//! | written as                        | without annotation |
//! |-----------------------------------|--------------------|
//! | `"text"`                          | Edm.String         |
//! | `true`, `false`                   | Edm.Boolean        |
//! | number with `.`, `e` or `E`       | Edm.Double         |
//! | other number, within 32 bits      | Edm.Int32          |
//! | other number, beyond them         | Edm.Double         |
//! | `null`                            | no property at all |
//!
//! An annotation, `"name@odata.type"`, may stand before or behind its value.

use crate::error::{
    BAD_BODY, DUPLICATE_PROPERTIES, INVALID_INPUT, PROPERTIES_NEED_VALUE, TOO_MANY_PROPERTIES,
    WireError, value_out_of_range,
};
use crate::limits::JSON_MEMBERS_MAX;
use crate::odata::json_text::{Json, Member, members};
use crate::odata::literal;
use base64::alphabet;
use base64::engine::{Engine as _, GeneralPurpose, GeneralPurposeConfig};
use std::collections::{HashMap, HashSet};
use tabulith::table::entity::Entity;
use tabulith::table::rules::PROPERTIES_MAX;
use tabulith::table::time::{self, TimeError};
use tabulith::table::value::Value;

const TYPE_SUFFIX: &str = "@odata.type";

/// Base64 of an Edm.Binary, read as .NET reads it: bits of the last character that belong to no
/// byte do not count.
static BINARY: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// What a body says of an entity: perhaps not yet its keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// PartitionKey, where the body gives it.
    pub partition_key: Option<String>,
    /// RowKey, where the body gives it.
    pub row_key: Option<String>,
    /// Custom properties in the body's order.
    pub properties: Vec<(String, Value)>,
    /// What is wrong with one of them although it is well written. The service says so only once
    /// it has found the table and the keys good.
    pub fault: Option<WireError>,
    /// Whether a key is given as something else than a text: wrong where the body's keys count.
    pub has_odd_key: bool,
}

impl Draft {
    /// Reads an entity. What is checked is JSON and types; lengths and names are the table
    /// layer's.
    pub fn parse(body: &[u8]) -> Result<Draft, WireError> {
        let members = members_of(body)?;
        let (types, fault) = annotations(&members)?;
        let mut draft = Draft { fault, ..Draft::default() };
        for (name, value) in &members {
            if is_annotation(name) || name == "Timestamp" {
                continue;
            }
            let edm_type = types.get(name.as_ref()).copied();
            match name.as_ref() {
                "PartitionKey" => draft.partition_key = draft.key(value, edm_type),
                "RowKey" => draft.row_key = draft.key(value, edm_type),
                _ => match typed(name, value, edm_type)? {
                    // No more are kept than an entity may have: a batch has a hundred drafts.
                    Typed::Value(_) if draft.properties.len() == PROPERTIES_MAX => {
                        draft.fault.get_or_insert(TOO_MANY_PROPERTIES);
                    }
                    Typed::Value(value) => draft.properties.push((name.to_string(), value)),
                    Typed::Nothing => {}
                    Typed::OutOfRange(error) => {
                        draft.fault.get_or_insert(error);
                    }
                },
            }
        }
        Ok(draft)
    }

    /// A key, where the member is one.
    fn key(&mut self, value: &Json, edm_type: Option<&str>) -> Option<String> {
        match (edm_type, value) {
            (None | Some("Edm.String"), Json::String(text)) => Some(text.to_string()),
            (_, Json::Null) => None,
            _ => {
                self.has_odd_key = true;
                None
            }
        }
    }

    /// The entity under the keys that the body gives.
    pub fn under_own_keys(self) -> Result<Entity, WireError> {
        match (self.partition_key, self.row_key) {
            _ if self.has_odd_key => Err(INVALID_INPUT),
            (Some(partition_key), Some(row_key)) => {
                Ok(Entity { properties: self.properties, ..Entity::new(partition_key, row_key) })
            }
            _ => Err(PROPERTIES_NEED_VALUE),
        }
    }

    /// The entity under the keys of the address, whatever the body says of them.
    pub fn under(self, partition_key: String, row_key: String) -> Entity {
        Entity { properties: self.properties, ..Entity::new(partition_key, row_key) }
    }
}

/// Reads the name out of a table's JSON.
pub fn table_name(body: &[u8]) -> Result<String, WireError> {
    let members = members_of(body)?;
    match members.into_iter().find(|(name, _)| name == "TableName") {
        Some((_, Json::String(name))) => Ok(name.into_owned()),
        Some((_, Json::Null)) | None => Err(PROPERTIES_NEED_VALUE),
        Some(_) => Err(BAD_BODY),
    }
}

fn members_of(body: &[u8]) -> Result<Vec<Member<'_>>, WireError> {
    let text = std::str::from_utf8(body).map_err(|_| BAD_BODY)?;
    let members = members(text, JSON_MEMBERS_MAX).ok_or(BAD_BODY)?;
    if members.len() > JSON_MEMBERS_MAX { Err(TOO_MANY_PROPERTIES) } else { Ok(members) }
}

/// `odata.etag`, `x@odata.type` and their like.
fn is_annotation(name: &str) -> bool {
    name.starts_with("odata.") || name.contains("@odata.")
}

/// Type annotations by property.
type Types<'a> = HashMap<&'a str, &'a str>;

/// The type annotations, and whether a property is given twice.
fn annotations<'a>(members: &'a [Member<'a>]) -> Result<(Types<'a>, Option<WireError>), WireError> {
    let mut types = HashMap::new();
    let mut fault = None;
    let mut seen = HashSet::with_capacity(members.len());
    for (name, value) in members {
        if !seen.insert(name.as_ref()) && !name.starts_with("odata.") {
            fault = Some(DUPLICATE_PROPERTIES);
        }
        if let Some(property) = name.strip_suffix(TYPE_SUFFIX) {
            match value {
                Json::String(edm_type) => types.insert(property, edm_type.as_ref()),
                _ => return Err(BAD_BODY),
            };
        }
    }
    Ok((types, fault))
}

/// What a property's member says.
enum Typed {
    Value(Value),
    /// It is null, and that is as if it were not there.
    Nothing,
    OutOfRange(WireError),
}

fn typed(name: &str, value: &Json, edm_type: Option<&str>) -> Result<Typed, WireError> {
    let typed = match (edm_type, value) {
        (edm_type, Json::Null) => {
            let is_known = edm_type.is_none_or(is_edm_type);
            return if is_known { Ok(Typed::Nothing) } else { Err(BAD_BODY) };
        }
        (None, value) => untyped(value),
        (Some("Edm.DateTime"), Json::String(text)) => match time::parse(text) {
            Ok(moment) => Some(Value::DateTime(moment)),
            Err(TimeError::OutOfRange { shown, .. }) => {
                return Ok(Typed::OutOfRange(value_out_of_range(name, &shown)));
            }
            Err(TimeError::Syntax) => None,
        },
        (Some(edm_type), Json::Boolean(flag)) => {
            (edm_type == "Edm.Boolean").then_some(Value::Boolean(*flag))
        }
        (Some(edm_type), Json::Number(text)) => number(text, edm_type),
        (Some("Edm.Double"), Json::String(text)) => double(text).map(Value::Double),
        (Some(edm_type), Json::String(text)) => from_text(text, edm_type),
        (Some(_), Json::Nested) => None,
    };
    typed.map(Typed::Value).ok_or(BAD_BODY)
}

fn is_edm_type(name: &str) -> bool {
    matches!(
        name,
        "Edm.Binary"
            | "Edm.Boolean"
            | "Edm.DateTime"
            | "Edm.Double"
            | "Edm.Guid"
            | "Edm.Int32"
            | "Edm.Int64"
            | "Edm.String"
    )
}

fn untyped(value: &Json) -> Option<Value> {
    match value {
        Json::String(text) => Some(Value::String(text.to_string())),
        Json::Boolean(flag) => Some(Value::Boolean(*flag)),
        Json::Number(text) if text.contains(['.', 'e', 'E']) => number(text, "Edm.Double"),
        Json::Number(text) => number(text, "Edm.Int32").or_else(|| number(text, "Edm.Double")),
        Json::Null | Json::Nested => None,
    }
}

fn number(text: &str, edm_type: &str) -> Option<Value> {
    match edm_type {
        "Edm.Double" => literal::double(text).map(Value::Double),
        "Edm.Int32" => text.parse().ok().map(Value::Int32),
        "Edm.Int64" => text.parse().ok().map(Value::Int64),
        _ => None,
    }
}

fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => literal::double(text),
    }
}

fn from_text(text: &str, edm_type: &str) -> Option<Value> {
    match edm_type {
        "Edm.String" => Some(Value::String(text.to_owned())),
        "Edm.Boolean" if text.eq_ignore_ascii_case("true") => Some(Value::Boolean(true)),
        "Edm.Boolean" if text.eq_ignore_ascii_case("false") => Some(Value::Boolean(false)),
        "Edm.Guid" => literal::guid_of_any_form(text).map(Value::Guid),
        "Edm.Binary" => {
            let text: String = text.split_ascii_whitespace().collect();
            BINARY.decode(text).ok().map(Value::Binary)
        }
        "Edm.Int32" | "Edm.Int64" => number(text, edm_type),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Result<Option<Value>, WireError> {
        let draft = Draft::parse(format!("{{{json}}}").as_bytes())?;
        match draft.fault {
            Some(fault) => Err(fault),
            None => Ok(draft.properties.into_iter().next().map(|(_, value)| value)),
        }
    }

    #[track_caller]
    fn check(json: &str, expected: Value) {
        assert_eq!(value(json), Ok(Some(expected)), "{json}");
    }

    #[test]
    fn values_without_annotation_are_typed_by_their_text() {
        check(r#""a":"text""#, Value::String("text".to_owned()));
        check(r#""a":"""#, Value::String(String::new()));
        check(r#""a":true"#, Value::Boolean(true));
        check(r#""a":1"#, Value::Int32(1));
        check(r#""a":-2147483648"#, Value::Int32(i32::MIN));
        check(r#""a":1.0"#, Value::Double(1.0));
        check(r#""a":1e+06"#, Value::Double(1e6));
        assert_eq!(value(r#""a":null"#), Ok(None));
        check(r#""a":2147483648"#, Value::Double(2_147_483_648.0));
        check(r#""a":-2147483649"#, Value::Double(-2_147_483_649.0));
        check(r#""a":9223372036854775808000"#, Value::Double(9_223_372_036_854_775_808_000.0));
        assert_eq!(value(&format!(r#""a":1{}"#, "0".repeat(309))), Err(BAD_BODY));
        assert_eq!(value(r#""a":1e400"#), Err(BAD_BODY));
        assert_eq!(value(r#""a":{}"#), Err(BAD_BODY));
        assert_eq!(value(r#""a":[1]"#), Err(BAD_BODY));
    }

    #[test]
    fn annotations_stand_on_either_side() {
        check(r#""a@odata.type":"Edm.Int64","a":"5""#, Value::Int64(5));
        check(r#""a":"5","a@odata.type":"Edm.Int64""#, Value::Int64(5));
    }

    #[test]
    fn every_type_in_every_spelling() {
        let of =
            |edm_type: &str, value: &str| format!(r#""a@odata.type":"{edm_type}","a":{value}"#);
        check(&of("Edm.String", r#""x""#), Value::String("x".to_owned()));
        check(&of("Edm.Boolean", "true"), Value::Boolean(true));
        check(&of("Edm.Boolean", r#""false""#), Value::Boolean(false));
        check(&of("Edm.Boolean", r#""TRUE""#), Value::Boolean(true));
        check(&of("Edm.Int32", "7"), Value::Int32(7));
        check(&of("Edm.Int32", r#""7""#), Value::Int32(7));
        check(&of("Edm.Int64", r#""-9223372036854775808""#), Value::Int64(i64::MIN));
        check(&of("Edm.Int64", "7"), Value::Int64(7));
        check(&of("Edm.Double", "1"), Value::Double(1.0));
        check(&of("Edm.Double", r#""1.5""#), Value::Double(1.5));
        check(&of("Edm.Double", r#""-Infinity""#), Value::Double(f64::NEG_INFINITY));
        check(&of("Edm.Binary", r#""AQID BAU=\n""#), Value::Binary(vec![1, 2, 3, 4, 5]));
        // Bits that no byte has.
        check(&of("Edm.Binary", r#""AQIDBAV=""#), Value::Binary(vec![1, 2, 3, 4, 5]));
        check(&of("Edm.Binary", r#""Qf==""#), Value::Binary(vec![0x41]));
        for guid in [
            "0D391D16-97f1-4b9a-be68-4cc871f90001",
            "0d391d1697f14b9abe684cc871f90001",
            "{0d391d16-97f1-4b9a-be68-4cc871f90001}",
            "(0d391d16-97f1-4b9a-be68-4cc871f90001)",
        ] {
            let bytes = literal::hex("0d391d1697f14b9abe684cc871f90001").expect("hex");
            let bytes = bytes.try_into().expect("16 bytes");
            check(&of("Edm.Guid", &format!("\"{guid}\"")), Value::Guid(bytes));
        }
        check(&of("Edm.DateTime", r#""2020-01-01T01:02:00.0000000Z""#), {
            Value::DateTime(time::parse("2020-01-01T01:02:00Z").expect("a moment"))
        });
        assert!(
            matches!(value(&of("Edm.Double", r#""NaN""#)), Ok(Some(Value::Double(n))) if n.is_nan())
        );
    }

    #[test]
    fn values_that_do_not_fit_their_annotation() {
        for (edm_type, json) in [
            ("Edm.Boolean", r#""yes""#),
            ("Edm.Boolean", "1"),
            ("Edm.Int32", "1.5"),
            ("Edm.Int32", "2147483648"),
            ("Edm.Int64", r#""9223372036854775808""#),
            ("Edm.Int64", r#""5 ""#),
            ("Edm.Int64", "true"),
            ("Edm.Double", r#""inf""#),
            ("Edm.Double", r#""1e999""#),
            ("Edm.Double", "true"),
            ("Edm.Guid", r#""1""#),
            ("Edm.Guid", r#""{0d391d16-97f1-4b9a-be68-4cc871f90001)""#),
            ("Edm.Guid", r#""{0d391d1697f14b9abe684cc871f90001}""#),
            ("Edm.Guid", r#""0d391d1697f14b9abe684cc871f9000g""#),
            ("Edm.Guid", "1"),
            ("Edm.Binary", r#""AQI""#),
            ("Edm.Binary", r#""Qf""#),
            ("Edm.Binary", r#""Qf=""#),
            ("Edm.Binary", r#""Q===""#),
            ("Edm.Binary", r#""Qf==Qf==""#),
            ("Edm.Binary", r#""AQID=""#),
            ("Edm.Binary", r#""_-==""#),
            ("Edm.DateTime", r#""yesterday""#),
            ("Edm.DateTime", "1"),
            ("Edm.String", "1"),
            ("Edm.Nothing", r#""x""#),
            ("Edm.Nothing", "null"),
            ("Collection(Edm.String)", "1"),
        ] {
            assert_eq!(
                value(&format!(r#""a@odata.type":"{edm_type}","a":{json}"#)),
                Err(BAD_BODY),
                "{edm_type} {json}"
            );
        }
        let early = value(r#""When@odata.type":"Edm.DateTime","When":"1600-12-31T23:59:59Z""#);
        assert_eq!(
            early.expect_err("too early").message,
            "The 'When' parameter of value '12/31/1600 23:59:59' is out of range."
        );
    }

    #[test]
    fn keys_are_strings_and_the_service_s_own_members_are_ignored() {
        let draft = Draft::parse(
            br#"{"PartitionKey":"p","PartitionKey@odata.type":"Edm.String","RowKey":"","Timestamp":{"a":[1]},
                "odata.etag":"x","odata.etag":["y"],"etag":"mine","Timestamp@odata.type":"Edm.DateTime"}"#,
        );
        let properties = vec![("etag".to_owned(), Value::String("mine".to_owned()))];
        let entity = draft.and_then(Draft::under_own_keys).expect("an entity");
        assert_eq!((entity.partition_key.as_str(), entity.row_key.as_str()), ("p", ""));
        assert_eq!(entity.properties, properties);
        for key in ["1", "true", "3.14", r#""1","RowKey@odata.type":"Edm.Guid""#] {
            let body = format!(r#"{{"PartitionKey":"p","RowKey":{key}}}"#);
            let draft = Draft::parse(body.as_bytes()).expect("JSON");
            assert_eq!(draft.clone().under_own_keys(), Err(INVALID_INPUT), "{key}");
            // Where the address has the keys, the body's do not count.
            assert_eq!(draft.under("p".to_owned(), "r".to_owned()).row_key, "r", "{key}");
        }
        for body in [r#"{"PartitionKey":"p"}"#, r#"{"PartitionKey":null,"RowKey":"r"}"#, "{}"] {
            let entity = Draft::parse(body.as_bytes()).and_then(Draft::under_own_keys);
            assert_eq!(entity, Err(PROPERTIES_NEED_VALUE), "{body}");
        }
    }

    #[test]
    fn a_property_is_given_once() {
        assert_eq!(value(r#""a":1,"a":2"#), Err(DUPLICATE_PROPERTIES));
        assert_eq!(
            value(r#""a@odata.type":"Edm.Int32","a":2,"a@odata.type":"Edm.Int32""#),
            Err(DUPLICATE_PROPERTIES)
        );
        assert!(value(r#""a":1,"A":2"#).is_ok());
    }

    #[test]
    fn no_more_is_kept_than_an_entity_may_have() {
        let body = |count: usize, more: &str| {
            let all: Vec<_> = (0..count).map(|n| format!("\"p{n}\":{n}")).collect();
            Draft::parse(format!("{{{}{more}}}", all.join(",")).as_bytes()).expect("JSON")
        };
        let most = body(PROPERTIES_MAX, "");
        assert_eq!((most.properties.len(), most.fault), (PROPERTIES_MAX, None));
        let more = body(8_000, "");
        assert_eq!(more.properties.len(), PROPERTIES_MAX);
        assert_eq!(more.fault, Some(TOO_MANY_PROPERTIES));
        assert_eq!(body(8_000, ",\"p1\":1").fault, Some(DUPLICATE_PROPERTIES));
    }

    #[test]
    fn names_of_tables() {
        assert_eq!(table_name(br#"{"TableName":"it","x":1}"#).as_deref(), Ok("it"));
        assert_eq!(table_name(b"{}"), Err(PROPERTIES_NEED_VALUE));
        assert_eq!(table_name(br#"{"TableName":1}"#), Err(BAD_BODY));
        assert_eq!(table_name(b"\xff"), Err(BAD_BODY));
        assert_eq!(table_name(b""), Err(BAD_BODY));
    }
}

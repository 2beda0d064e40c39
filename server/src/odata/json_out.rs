//! Entities, tables and errors as the service writes them in JSON: no blanks, annotations before
//! their values, `odata.` members as the metadata level has them, ASCII only.

use crate::odata::address::{entity_path, table_path};
use crate::odata::literal::guid_text;
use crate::odata::options::{Metadata, Select};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;
use tabulith::table::entity::Entity;
use tabulith::table::etag::ETag;
use tabulith::table::value::{DateTime, Value};

/// What an answer's JSON depends on besides the values in it.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// How much it says about its values.
    pub metadata: Metadata,
    /// What stands before a resource in an absolute URL.
    pub base: &'a str,
    /// The account, for the names of types.
    pub account: &'a str,
}

/// The service: of what there is, only the collection of tables is there by itself.
pub fn service_document(form: Form) -> Vec<u8> {
    let mut out = Writer::new();
    out.open();
    if form.metadata != Metadata::None {
        out.text_member("odata.metadata", &format!("{}/$metadata", form.base));
    }
    out.open_list("value");
    out.open();
    out.text_member("name", "Tables");
    out.text_member("url", "Tables");
    out.close();
    out.close_list();
    out.close();
    out.finish()
}

/// One table.
pub fn table(form: Form, name: &str) -> Vec<u8> {
    let mut out = Writer::new();
    out.open();
    if form.metadata != Metadata::None {
        out.text_member("odata.metadata", &format!("{}/$metadata#Tables/@Element", form.base));
    }
    table_members(&mut out, form, name);
    out.close();
    out.finish()
}

/// Several tables.
pub fn tables<'a>(form: Form, names: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut out = Writer::new();
    out.open();
    if form.metadata != Metadata::None {
        out.text_member("odata.metadata", &format!("{}/$metadata#Tables", form.base));
    }
    out.open_list("value");
    for name in names {
        out.open();
        table_members(&mut out, form, name);
        out.close();
    }
    out.close_list();
    out.close();
    out.finish()
}

fn table_members(out: &mut Writer, form: Form, name: &str) {
    if form.metadata == Metadata::Full {
        let path = table_path(name);
        out.text_member("odata.type", &format!("{}.Tables", form.account));
        out.text_member("odata.id", &format!("{}/{path}", form.base));
        out.text_member("odata.editLink", &path);
    }
    out.text_member("TableName", name);
}

/// One entity of `table`.
pub fn entity(form: Form, table: &str, select: Option<&Select>, entity: &Entity) -> Vec<u8> {
    let mut out = Writer::new();
    out.open();
    if form.metadata != Metadata::None {
        let selected = selected_suffix(select);
        let context = format!("{}/$metadata#{table}/@Element{selected}", form.base);
        out.text_member("odata.metadata", &context);
    }
    entity_members(&mut out, form, table, select, entity);
    out.close();
    out.finish()
}

/// Several entities of `table`.
pub fn entities(form: Form, table: &str, select: Option<&Select>, all: &[Entity]) -> Vec<u8> {
    let mut out = Writer::new();
    out.open();
    if form.metadata != Metadata::None {
        let selected = selected_suffix(select);
        out.text_member("odata.metadata", &format!("{}/$metadata#{table}{selected}", form.base));
    }
    out.open_list("value");
    for entity in all {
        out.open();
        entity_members(&mut out, form, table, select, entity);
        out.close();
    }
    out.close_list();
    out.close();
    out.finish()
}

fn selected_suffix(select: Option<&Select>) -> String {
    select.map_or(String::new(), |select| format!("&$select={}", select.text))
}

fn entity_members(
    out: &mut Writer,
    form: Form,
    table: &str,
    select: Option<&Select>,
    entity: &Entity,
) {
    if form.metadata == Metadata::Full {
        let path = entity_path(table, &entity.partition_key, &entity.row_key);
        out.text_member("odata.type", &format!("{}.{table}", form.account));
        out.text_member("odata.id", &format!("{}/{path}", form.base));
        out.text_member("odata.etag", &ETag(entity.ts).to_string());
        out.text_member("odata.editLink", &path);
    } else if form.metadata == Metadata::Minimal {
        out.text_member("odata.etag", &ETag(entity.ts).to_string());
    }
    let names = select.and_then(|select| select.names.as_deref());
    let is_shown = |name: &str| names.is_none_or(|names| names.iter().any(|own| own == name));
    if is_shown("PartitionKey") {
        out.text_member("PartitionKey", &entity.partition_key);
    }
    if is_shown("RowKey") {
        out.text_member("RowKey", &entity.row_key);
    }
    if is_shown("Timestamp") {
        if form.metadata == Metadata::Full {
            out.text_member("Timestamp@odata.type", "Edm.DateTime");
        }
        out.text_member("Timestamp", &DateTime::from(entity.ts).to_string());
    }
    for (name, value) in entity.properties.iter().filter(|(name, _)| is_shown(name)) {
        property(out, form.metadata, name, value);
    }
    for name in names.into_iter().flatten() {
        let is_key = matches!(name.as_str(), "PartitionKey" | "RowKey" | "Timestamp");
        if !is_key && !entity.properties.iter().any(|(own, _)| own == name) {
            out.null_member(name);
        }
    }
}

fn property(out: &mut Writer, metadata: Metadata, name: &str, value: &Value) {
    let edm_type = match value {
        Value::Binary(_) => Some("Edm.Binary"),
        Value::DateTime(_) => Some("Edm.DateTime"),
        Value::Double(number) if !number.is_finite() => Some("Edm.Double"),
        Value::Guid(_) => Some("Edm.Guid"),
        Value::Int64(_) => Some("Edm.Int64"),
        Value::Boolean(_) | Value::Double(_) | Value::Int32(_) | Value::String(_) => None,
    };
    if let Some(edm_type) = edm_type.filter(|_| metadata != Metadata::None) {
        out.annotation(name, edm_type);
    }
    out.name(name);
    match value {
        Value::Binary(bytes) => out.quoted_plain(STANDARD.encode(bytes)),
        Value::Boolean(flag) => out.plain(flag),
        Value::DateTime(moment) => out.quoted_plain(moment),
        Value::Double(number) if number.is_nan() => out.quoted_plain("NaN"),
        Value::Double(number) if number.is_infinite() => {
            out.quoted_plain(if *number > 0.0 { "Infinity" } else { "-Infinity" });
        }
        // The debug form is the shortest that reads back as the same number, and always has a
        // point or an exponent.
        Value::Double(number) => out.plain(format_args!("{:?}", number + 0.0)),
        Value::Guid(bytes) => out.quoted_plain(guid_text(bytes)),
        Value::Int32(number) => out.plain(number),
        Value::Int64(number) => out.quoted_plain(number),
        Value::String(text) => out.quoted(text),
    }
}

/// An error, in one line and without blanks: SDKs search its text.
pub fn error(code: &str, message: &str) -> Vec<u8> {
    let mut out = Writer::new();
    out.open();
    out.name("odata.error");
    out.open();
    out.text_member("code", code);
    out.name("message");
    out.open();
    out.text_member("lang", "en-US");
    out.text_member("value", message);
    out.close();
    out.close();
    out.close();
    out.finish()
}

/// Writes JSON without blanks; sets the commas itself.
struct Writer {
    text: String,
    comma_due: bool,
}

impl Writer {
    fn new() -> Writer {
        Writer { text: String::with_capacity(1 << 10), comma_due: false }
    }

    fn finish(self) -> Vec<u8> {
        self.text.into_bytes()
    }

    fn open(&mut self) {
        self.comma();
        self.text.push('{');
        self.comma_due = false;
    }

    fn close(&mut self) {
        self.text.push('}');
        self.comma_due = true;
    }

    fn open_list(&mut self, name: &str) {
        self.name(name);
        self.text.push('[');
        self.comma_due = false;
    }

    fn close_list(&mut self) {
        self.text.push(']');
        self.comma_due = true;
    }

    fn comma(&mut self) {
        if self.comma_due {
            self.text.push(',');
        }
    }

    /// A member's name; its value must follow.
    fn name(&mut self, name: &str) {
        self.comma();
        escape(&mut self.text, name);
        self.text.push(':');
        self.comma_due = false;
    }

    fn annotation(&mut self, name: &str, edm_type: &str) {
        self.comma();
        escape(&mut self.text, name);
        // The name's own quote goes behind the suffix.
        self.text.pop();
        self.text.push_str("@odata.type\":\"");
        self.text.push_str(edm_type);
        self.text.push('"');
        self.comma_due = true;
    }

    fn text_member(&mut self, name: &str, value: &str) {
        self.name(name);
        self.quoted(value);
    }

    fn null_member(&mut self, name: &str) {
        self.name(name);
        self.plain("null");
    }

    fn quoted(&mut self, text: &str) {
        escape(&mut self.text, text);
        self.comma_due = true;
    }

    /// A text that needs no escapes.
    fn quoted_plain(&mut self, text: impl std::fmt::Display) {
        self.plain(format_args!("\"{text}\""));
    }

    fn plain(&mut self, value: impl std::fmt::Display) {
        // Writing to a String does not fail.
        let _ = write!(self.text, "{value}");
        self.comma_due = true;
    }
}

/// Appends `text` in quotes. As the service does, whatever is not ASCII is escaped.
fn escape(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(needs_escape) {
        let (plain, behind) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = behind.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\r') => out.push_str("\\r"),
            Some('\t') => out.push_str("\\t"),
            Some(other) => other.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(out, "\\u{unit:04x}");
            }),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Whether a character that begins with `byte` is written as an escape.
fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::odata::json_in::Draft;
    use tabulith::table::time;

    const BASE: &str = "http://127.0.0.1:10002/devstoreaccount1";

    fn form(metadata: Metadata) -> Form<'static> {
        Form { metadata, base: BASE, account: "devstoreaccount1" }
    }

    fn flight() -> Entity {
        let moment = |text: &str| time::parse(text).expect("a moment");
        let properties = [
            ("Bin", Value::Binary(vec![1, 2, 3, 4, 5])),
            ("When", Value::DateTime(moment("2020-01-01T01:02:00.0000000Z"))),
            ("D", Value::Double(1.0)),
            ("N", Value::Double(f64::NAN)),
            ("G", Value::Guid([0xab; 16])),
            ("L", Value::Int64(1)),
            ("I", Value::Int32(1)),
            ("S", Value::String("te\"xt".to_owned())),
            ("B", Value::Boolean(true)),
        ];
        Entity {
            partition_key: "some Partition".to_owned(),
            row_key: "it's".to_owned(),
            ts: moment("2021-10-18T17:13:20.2256371Z").commit().expect("after 1970"),
            properties: properties.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    #[track_caller]
    fn check(json: Vec<u8>, expected: &str) {
        let expected: String = expected.lines().map(str::trim_start).collect();
        assert_eq!(String::from_utf8(json).expect("UTF-8"), expected);
    }

    const VALUES: &str = r#""PartitionKey":"some Partition","RowKey":"it's",
        "Timestamp":"2021-10-18T17:13:20.2256371Z","Bin@odata.type":"Edm.Binary","Bin":"AQIDBAU=",
        "When@odata.type":"Edm.DateTime","When":"2020-01-01T01:02:00Z","D":1.0,
        "N@odata.type":"Edm.Double","N":"NaN","G@odata.type":"Edm.Guid",
        "G":"abababab-abab-abab-abab-abababababab","L@odata.type":"Edm.Int64","L":"1","I":1,
        "S":"te\"xt","B":true"#;

    #[test]
    fn minimal_metadata() {
        let head = r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#T/@Element",
            "odata.etag":"W/\"datetime'2021-10-18T17%3A13%3A20.2256371Z'\"","#;
        check(entity(form(Metadata::Minimal), "T", None, &flight()), &format!("{head}{VALUES}}}"));
    }

    #[test]
    fn no_metadata() {
        check(
            entity(form(Metadata::None), "T", None, &flight()),
            r#"{"PartitionKey":"some Partition","RowKey":"it's","Timestamp":"2021-10-18T17:13:20.2256371Z",
                "Bin":"AQIDBAU=","When":"2020-01-01T01:02:00Z","D":1.0,"N":"NaN",
                "G":"abababab-abab-abab-abab-abababababab","L":"1","I":1,"S":"te\"xt","B":true}"#,
        );
    }

    #[test]
    fn full_metadata_of_a_list() {
        let head = r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#T","value":[
            {"odata.type":"devstoreaccount1.T",
            "odata.id":"http://127.0.0.1:10002/devstoreaccount1/T(PartitionKey='some%20Partition',RowKey='it''s')",
            "odata.etag":"W/\"datetime'2021-10-18T17%3A13%3A20.2256371Z'\"",
            "odata.editLink":"T(PartitionKey='some%20Partition',RowKey='it''s')","#;
        let values = VALUES
            .replace("\"Timestamp\":", "\"Timestamp@odata.type\":\"Edm.DateTime\",\"Timestamp\":");
        check(
            entities(form(Metadata::Full), "T", None, &[flight()]),
            &format!("{head}{values}}}]}}"),
        );
    }

    #[test]
    fn selected_properties_and_those_that_lack() {
        let names = ["I", "xyz", "RowKey"].map(str::to_owned);
        let select = Select { text: "I,xyz,RowKey".to_owned(), names: Some(names.into()) };
        check(
            entities(form(Metadata::Minimal), "T", Some(&select), &[flight()]),
            r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#T&$select=I,xyz,RowKey",
                "value":[{"odata.etag":"W/\"datetime'2021-10-18T17%3A13%3A20.2256371Z'\"","RowKey":"it's","I":1,"xyz":null}]}"#,
        );
    }

    #[test]
    fn tables_at_every_level() {
        let names = || ["abc", "xyz"].into_iter();
        check(
            tables(form(Metadata::None), names()),
            r#"{"value":[{"TableName":"abc"},{"TableName":"xyz"}]}"#,
        );
        check(tables(form(Metadata::None), [].into_iter()), r#"{"value":[]}"#);
        check(
            table(form(Metadata::Minimal), "abc"),
            r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#Tables/@Element","TableName":"abc"}"#,
        );
        check(
            tables(form(Metadata::Full), ["abc"].into_iter()),
            r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#Tables","value":[
                {"odata.type":"devstoreaccount1.Tables",
                "odata.id":"http://127.0.0.1:10002/devstoreaccount1/Tables('abc')",
                "odata.editLink":"Tables('abc')","TableName":"abc"}]}"#,
        );
    }

    #[test]
    fn doubles_are_recognisable() {
        let shown = |number: f64| {
            let mut entity = flight();
            entity.properties = vec![("D".to_owned(), Value::Double(number))];
            let json = super::entity(form(Metadata::None), "T", None, &entity);
            let json = String::from_utf8(json).expect("UTF-8");
            json.split_once("\"D\":").map(|(_, rest)| rest.trim_end_matches('}').to_owned())
        };
        for (number, text) in [
            (3.0, "3.0"),
            (-0.0, "0.0"),
            (0.1, "0.1"),
            (1e300, "1e300"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(shown(number).as_deref(), Some(text));
        }
    }

    #[test]
    fn texts_come_back_as_they_went_in() {
        let awkward: String =
            ('\0'..='\u{ff}').chain(['\u{2028}', '\u{2029}', '名', '😀']).collect();
        let mut sent = flight();
        sent.properties = vec![(awkward.clone(), Value::String(awkward.clone()))];
        let json = entity(form(Metadata::None), "T", None, &sent);
        let draft = Draft::parse(&json).expect("our own JSON");
        assert_eq!(draft.properties, [(awkward.clone(), Value::String(awkward))]);
        assert!(json.iter().all(|byte| (b' '..0x7f).contains(byte)));
    }

    #[test]
    fn errors_are_compact() {
        check(
            error("InvalidInput", "3:no\nRequestId:x"),
            r#"{"odata.error":{"code":"InvalidInput","message":{"lang":"en-US","value":"3:no\nRequestId:x"}}}"#,
        );
    }
}

//! Entities, tables and errors as the service writes them in JSON: no blanks, annotations before
//! their values, `odata.` members as the metadata level has them, ASCII only.

use crate::odata::address::{entity_path, entity_path_bytes_max, table_path};
use crate::odata::json_writer::{Writer, quoted_bytes};
use crate::odata::literal::guid_text;
use crate::odata::options::{Metadata, Select};
use std::convert::Infallible;
use tabulith::error::Error;
use tabulith::ids::CommitTs;
use tabulith::table::entity::Entity;
use tabulith::table::lent::EntityRef;
use tabulith::table::value::{DateTime, ValueRef};

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
    out.open_values();
    out.open();
    out.text_member("name", "Tables");
    out.text_member("url", "Tables");
    out.close();
    out.close_values();
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
    out.open_values();
    for name in names {
        out.open();
        table_members(&mut out, form, name);
        out.close();
    }
    out.close_values();
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

/// One entity of `table`. Fails where what is stored is damaged.
pub fn entity(
    form: Form,
    table: &str,
    select: Option<&Select>,
    entity: &EntityRef<'_>,
) -> Result<Vec<u8>, Error> {
    let keys = (entity.partition_key, entity.row_key);
    single(Shape { form, table, select }, keys, entity.ts, entity.properties())
}

/// The entity of `table` that was just inserted.
pub fn inserted(form: Form, table: &str, entity: &Entity) -> Vec<u8> {
    let keys = (entity.partition_key.as_str(), entity.row_key.as_str());
    let shape = Shape { form, table, select: None };
    match single(shape, keys, entity.ts, lent(entity)) {
        Ok(json) => json,
        Err(never) => match never {},
    }
}

/// What the JSON of one entity has whatever is in it: names, types, a moment twice.
const FRAME_BYTES_MAX: usize = 320;

/// How long the JSON of an entity will be at most, whenever it is inserted.
pub fn inserted_bytes_max(form: Form, table: &str, entity: &Entity) -> usize {
    let keys = (entity.partition_key.as_str(), entity.row_key.as_str());
    let base_bytes = quoted_bytes(form.base) + table.len();
    let addresses_bytes = match form.metadata {
        Metadata::None => 0,
        Metadata::Minimal => base_bytes,
        Metadata::Full => {
            2 * (base_bytes + entity_path_bytes_max(table, keys.0, keys.1)) + form.account.len()
        }
    };
    let properties = entity.properties.iter();
    let properties =
        properties.map(|(name, value)| property_bytes_max(form.metadata, name, value.into()));
    let keys_bytes = quoted_bytes(keys.0) + quoted_bytes(keys.1);
    FRAME_BYTES_MAX + addresses_bytes + keys_bytes + properties.sum::<usize>()
}

fn lent(entity: &Entity) -> impl Iterator<Item = Result<(&str, ValueRef<'_>), Infallible>> {
    let properties = entity.properties.iter();
    properties.map(|(name, value)| Ok((name.as_str(), ValueRef::from(value))))
}

/// How the entities of a table are shown.
#[derive(Clone, Copy)]
struct Shape<'a> {
    form: Form<'a>,
    table: &'a str,
    select: Option<&'a Select>,
}

impl Shape<'_> {
    /// The member of an answer that says what is in it: those entities, or one of them.
    fn context(self, out: &mut Writer, element: &str) {
        let Shape { form, table, select } = self;
        if form.metadata != Metadata::None {
            let selected = select.map(|select| format!("&$select={}", select.text));
            let selected = selected.unwrap_or_default();
            let context = format!("{}/$metadata#{table}{element}{selected}", form.base);
            out.text_member("odata.metadata", &context);
        }
    }
}

fn single<'a, E>(
    shape: Shape,
    keys: (&str, &str),
    ts: CommitTs,
    properties: impl Iterator<Item = Result<(&'a str, ValueRef<'a>), E>>,
) -> Result<Vec<u8>, E> {
    let mut out = Writer::new();
    out.open();
    shape.context(&mut out, "/@Element");
    entity_members(&mut out, shape, keys, ts, properties)?;
    out.close();
    Ok(out.finish())
}

/// A list of entities, written as they come.
pub struct Entities<'a> {
    out: Writer,
    shape: Shape<'a>,
}

impl<'a> Entities<'a> {
    /// A list of entities of `table`, none in it yet.
    pub fn new(form: Form<'a>, table: &'a str, select: Option<&'a Select>) -> Entities<'a> {
        let (mut out, shape) = (Writer::new(), Shape { form, table, select });
        out.open();
        shape.context(&mut out, "");
        out.open_values();
        Entities { out, shape }
    }

    /// Adds an entity. After an error, that what is stored is damaged, the list is of no use.
    pub fn push(&mut self, entity: &EntityRef<'_>) -> Result<(), Error> {
        let keys = (entity.partition_key, entity.row_key);
        self.add(keys, entity.ts, entity.properties())
    }

    fn add<'p, E>(
        &mut self,
        keys: (&str, &str),
        ts: CommitTs,
        properties: impl Iterator<Item = Result<(&'p str, ValueRef<'p>), E>>,
    ) -> Result<(), E> {
        self.out.open();
        entity_members(&mut self.out, self.shape, keys, ts, properties)?;
        self.out.close();
        Ok(())
    }

    /// How long its text is by now.
    pub fn bytes(&self) -> usize {
        self.out.bytes()
    }

    /// The whole list.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.close_values();
        self.out.close();
        self.out.finish()
    }
}

fn entity_members<'a, E>(
    out: &mut Writer,
    shape: Shape,
    (partition_key, row_key): (&str, &str),
    ts: CommitTs,
    properties: impl Iterator<Item = Result<(&'a str, ValueRef<'a>), E>>,
) -> Result<(), E> {
    let Shape { form, table, select } = shape;
    let timestamp = DateTime::from(ts).text();
    if form.metadata == Metadata::Full {
        let path = entity_path(table, partition_key, row_key);
        out.text_member("odata.type", &format!("{}.{table}", form.account));
        out.text_member("odata.id", &format!("{}/{path}", form.base));
        out.etag_member(&timestamp);
        out.text_member("odata.editLink", &path);
    } else if form.metadata == Metadata::Minimal {
        out.etag_member(&timestamp);
    }
    let names = select.and_then(|select| select.names.as_deref());
    let is_shown = |name: &str| names.is_none_or(|names| names.iter().any(|own| own == name));
    if is_shown("PartitionKey") {
        out.text_member("PartitionKey", partition_key);
    }
    if is_shown("RowKey") {
        out.text_member("RowKey", row_key);
    }
    if is_shown("Timestamp") {
        if form.metadata == Metadata::Full {
            out.annotation("Timestamp", "Edm.DateTime");
        }
        out.name("Timestamp");
        out.quoted_plain(timestamp.as_str());
    }
    // Those that are shown as null in the end, because the entity lacks them. Not what can be the
    // name of an annotation alone: it may be there already.
    let is_key = |name: &str| matches!(name, "PartitionKey" | "RowKey" | "Timestamp");
    let can_lack = |name: &&str| !is_key(name) && !name.contains(['.', '@']);
    let mut lacking: Vec<&str> =
        names.into_iter().flatten().map(String::as_str).filter(can_lack).collect();
    for member in properties {
        let (name, value) = member?;
        if is_shown(name) {
            lacking.retain(|lacking| *lacking != name);
            property(out, form.metadata, name, value);
        }
    }
    for name in lacking {
        out.null_member(name);
    }
    Ok(())
}

/// The type of a value that JSON does not show, where answers say anything of their values.
fn announced_type(metadata: Metadata, value: ValueRef<'_>) -> Option<&'static str> {
    match value {
        _ if metadata == Metadata::None => None,
        ValueRef::Binary(_) => Some("Edm.Binary"),
        ValueRef::DateTime(_) => Some("Edm.DateTime"),
        ValueRef::Double(number) if !number.is_finite() => Some("Edm.Double"),
        ValueRef::Guid(_) => Some("Edm.Guid"),
        ValueRef::Int64(_) => Some("Edm.Int64"),
        ValueRef::Boolean(_) | ValueRef::Double(_) | ValueRef::Int32(_) | ValueRef::String(_) => {
            None
        }
    }
}

fn property(out: &mut Writer, metadata: Metadata, name: &str, value: ValueRef<'_>) {
    if let Some(edm_type) = announced_type(metadata, value) {
        out.annotation(name, edm_type);
    }
    out.name(name);
    match value {
        ValueRef::Binary(bytes) => out.base64(bytes),
        ValueRef::Boolean(flag) => out.plain(if flag { "true" } else { "false" }),
        ValueRef::DateTime(moment) => out.quoted_plain(moment.text().as_str()),
        ValueRef::Double(number) if number.is_nan() => out.quoted_plain("NaN"),
        ValueRef::Double(number) if number.is_infinite() => {
            out.quoted_plain(if number > 0.0 { "Infinity" } else { "-Infinity" });
        }
        ValueRef::Double(number) => out.double(number),
        ValueRef::Guid(bytes) => out.quoted_plain(&guid_text(&bytes)),
        ValueRef::Int32(number) => out.plain(itoa::Buffer::new().format(number)),
        ValueRef::Int64(number) => out.quoted_plain(itoa::Buffer::new().format(number)),
        ValueRef::String(text) => out.quoted(text),
    }
}

/// How long a property is at most, with what announces its type.
fn property_bytes_max(metadata: Metadata, name: &str, value: ValueRef<'_>) -> usize {
    let value_bytes = match value {
        ValueRef::Binary(bytes) => 2 + 4 * bytes.len().div_ceil(3),
        ValueRef::Boolean(_) => "false".len(),
        ValueRef::DateTime(_) => "\"9999-12-31T23:59:59.9999999Z\"".len(),
        ValueRef::Double(_) => "-1.7976931348623157E+308".len(),
        ValueRef::Guid(_) => "\"00000000-0000-0000-0000-000000000000\"".len(),
        ValueRef::Int32(_) => "-2147483648".len(),
        ValueRef::Int64(_) => "\"-9223372036854775808\"".len(),
        ValueRef::String(text) => quoted_bytes(text),
    };
    let member_bytes = ",:".len() + quoted_bytes(name);
    let is_announced = announced_type(metadata, value).is_some();
    let type_bytes = member_bytes + "@odata.type\"Edm.DateTime\"".len();
    value_bytes + member_bytes + if is_announced { type_bytes } else { 0 }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::odata::json_in::Draft;
    use tabulith::table::time;
    use tabulith::table::value::Value;

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
            ts: moment("2021-10-18T17:13:20.2256371Z").commit().expect("after 1970"),
            properties: properties.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Entity::new("some Partition", "it's")
        }
    }

    fn keys(entity: &Entity) -> (&str, &str) {
        (&entity.partition_key, &entity.row_key)
    }

    fn entity(form: Form, select: Option<&Select>, entity: &Entity) -> Vec<u8> {
        let shape = Shape { form, table: "T", select };
        single(shape, keys(entity), entity.ts, lent(entity)).expect("whole")
    }

    fn entities(form: Form, select: Option<&Select>, all: &[Entity]) -> Vec<u8> {
        let mut list = Entities::new(form, "T", select);
        for entity in all {
            list.add(keys(entity), entity.ts, lent(entity)).expect("whole");
        }
        list.finish()
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
        check(entity(form(Metadata::Minimal), None, &flight()), &format!("{head}{VALUES}}}"));
    }

    #[test]
    fn no_metadata() {
        check(
            entity(form(Metadata::None), None, &flight()),
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
        check(entities(form(Metadata::Full), None, &[flight()]), &format!("{head}{values}}}]}}"));
    }

    #[test]
    fn selected_properties_and_those_that_lack() {
        let names = ["I", "xyz", "RowKey"].map(str::to_owned);
        let select = Select { text: "I,xyz,RowKey".to_owned(), names: Some(names.into()) };
        check(
            entities(form(Metadata::Minimal), Some(&select), &[flight()]),
            r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#T&$select=I,xyz,RowKey",
                "value":[{"odata.etag":"W/\"datetime'2021-10-18T17%3A13%3A20.2256371Z'\"","RowKey":"it's","I":1,"xyz":null}]}"#,
        );
    }

    #[test]
    fn names_of_annotations_are_shown_once() {
        let names = ["odata.type", "odata.id", "odata.etag", "odata.editLink", "L", "L@odata.type"];
        let select = Select { text: names.join(","), names: Some(names.map(str::to_owned).into()) };
        check(
            entity(form(Metadata::Minimal), Some(&select), &flight()),
            r#"{"odata.metadata":"http://127.0.0.1:10002/devstoreaccount1/$metadata#T/@Element&$select=odata.type,odata.id,odata.etag,odata.editLink,L,L@odata.type",
                "odata.etag":"W/\"datetime'2021-10-18T17%3A13%3A20.2256371Z'\"",
                "L@odata.type":"Edm.Int64","L":"1"}"#,
        );
        let full = entity(form(Metadata::Full), Some(&select), &flight());
        let full = String::from_utf8(full).expect("UTF-8");
        for name in names {
            assert_eq!(full.matches(&format!("\"{name}\":")).count(), 1, "{name} in {full}");
        }
        check(entity(form(Metadata::None), Some(&select), &flight()), r#"{"L":"1"}"#);
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
            let json = super::tests::entity(form(Metadata::None), None, &entity);
            let json = String::from_utf8(json).expect("UTF-8");
            json.split_once("\"D\":").map(|(_, rest)| rest.trim_end_matches('}').to_owned())
        };
        for (number, text) in [
            (3.0, "3.0"),
            (-0.0, "0.0"),
            (0.1, "0.1"),
            (1e300, "1E+300"),
            (5e-324, "4.94065645841247E-324"),
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
        let json = entity(form(Metadata::None), None, &sent);
        let draft = Draft::parse(&json).expect("our own JSON");
        assert_eq!(draft.properties, [(awkward.clone(), Value::String(awkward))]);
        assert!(json.iter().all(|byte| (b' '..0x7f).contains(byte)));
    }

    #[test]
    fn how_long_an_inserted_entity_will_be_is_known_before() {
        let awkward: String = ('\0'..='\u{ff}').chain(['名', '😀']).collect();
        let text = |text: &str| Value::String(text.to_owned());
        let mut awful = flight();
        awful.partition_key = awkward.clone();
        awful.row_key = "名".repeat(1000);
        awful.properties = vec![
            (awkward.clone(), text(&awkward)),
            ("plain".to_owned(), text(&"x".repeat(100))),
            ("late".to_owned(), text(&format!("{}\"", "x".repeat(100)))),
        ];
        let binary = |len: usize| (format!("B{len}"), Value::Binary(vec![7; len]));
        awful.properties.extend((0..5).map(binary));
        let mut longest = flight();
        longest.properties = [
            Value::DateTime(DateTime::from(longest.ts)),
            Value::Double(-f64::MAX),
            Value::Double(-f64::MIN_POSITIVE),
            Value::Double(-1.0 / 8100.0),
            Value::Double(f64::NEG_INFINITY),
            Value::Guid([7; 16]),
            Value::Int32(i32::MIN),
            Value::Int64(i64::MIN),
            Value::Boolean(false),
        ]
        .map(|value| (String::new(), value))
        .into();
        for entity in [flight(), awful, longest] {
            for metadata in [Metadata::None, Metadata::Minimal, Metadata::Full] {
                let json = inserted(form(metadata), "T", &entity);
                let bytes_max = inserted_bytes_max(form(metadata), "T", &entity);
                // Of what has no length of its own, and of each number, little is not there.
                let most = json.len() + FRAME_BYTES_MAX + 24 * entity.properties.len();
                assert!((json.len()..most).contains(&bytes_max), "{bytes_max}, {}", json.len());
            }
        }
    }

    #[test]
    fn errors_are_compact() {
        check(
            error("InvalidInput", "3:no\nRequestId:x"),
            r#"{"odata.error":{"code":"InvalidInput","message":{"lang":"en-US","value":"3:no\nRequestId:x"}}}"#,
        );
    }
}

//! JSON of entities: any body is an entity or refused; the JSON of an entity is JSON, and with full
//! metadata it is the same entity again.

use crate::targets::entity::made;
use serde_json::{Map, Value as Json};
use tabulith::internals::{lend_entity, write_entity};
use tabulith::table::entity::Entity;
use tabulith::table::rules::check_entity;
use tabulith_server::odata::json_in::{Draft, table_name};
use tabulith_server::odata::json_out::{self, Form};
use tabulith_server::odata::options::Metadata;

/// Reads the input as a body, and as a recipe for an entity that is written and read.
pub fn json(data: &[u8]) {
    let draft = Draft::parse(data);
    let _ = table_name(data);
    if draft.is_ok() {
        let whole: Result<Map<String, Json>, _> = serde_json::from_slice(data);
        assert!(whole.is_ok(), "what is read is JSON: {whole:?}");
    }
    let (partition_key, row_key) = ("p\u{1}\"".to_owned(), "r\\".to_owned());
    // With a fault, say a property twice, it becomes no entity.
    if let Some(draft) = draft.ok().filter(|draft| draft.fault.is_none()) {
        written_and_read(&draft.under(partition_key.clone(), row_key.clone()));
    }
    let properties = made(data);
    written_and_read(&Entity { properties, ..Entity::new(partition_key, row_key) });
}

fn written_and_read(entity: &Entity) {
    let bytes = write_entity(&entity.properties);
    let lent = lend_entity(&entity.partition_key, &entity.row_key, entity.ts, &bytes);
    let lent = lent.unwrap_or_else(|error| panic!("{error}: {entity:?}"));
    let form = |metadata| Form { metadata, base: "http://host/account", account: "account" };
    for metadata in [Metadata::None, Metadata::Minimal, Metadata::Full] {
        let body = json_out::entity(form(metadata), "Table", None, &lent);
        let body = body.unwrap_or_else(|error| panic!("{error}: {entity:?}"));
        assert_eq!(body, json_out::inserted(form(metadata), "Table", entity), "{entity:?}");
        let whole: Result<Map<String, Json>, _> = serde_json::from_slice(&body);
        let whole = whole.unwrap_or_else(|error| panic!("{error}: {entity:?}"));
        assert!(whole.len() >= entity.properties.len(), "{entity:?}");
        let mut page = json_out::Entities::new(form(metadata), "Table", None);
        page.push(&lent).unwrap_or_else(|error| panic!("{error}: {entity:?}"));
        assert!(serde_json::from_slice::<Json>(&page.finish()).is_ok(), "{entity:?}");
        // Names that the table layer refuses may look like annotations, or be keys.
        let sound =
            Entity { partition_key: String::new(), row_key: String::new(), ..entity.clone() };
        if check_entity(&sound).is_ok() && metadata == Metadata::Full {
            let read = Draft::parse(&body).unwrap_or_else(|error| panic!("{error:?}: {entity:?}"));
            assert_eq!(read.partition_key.as_ref(), Some(&entity.partition_key));
            assert_eq!(read.row_key.as_ref(), Some(&entity.row_key));
            // Compared as bytes: NaN is not itself.
            let [written, read] = [&entity.properties, &read.properties].map(|all| canonical(all));
            assert_eq!(written, read, "{entity:?}");
        }
    }
}

/// The bytes of properties. The sign and the payload of NaN, and the sign of zero, are not kept.
fn canonical(properties: &[(String, tabulith::Value)]) -> Vec<u8> {
    let properties: Vec<_> = properties
        .iter()
        .map(|(name, value)| match value {
            tabulith::Value::Double(n) if n.is_nan() => (name.clone(), f64::NAN.into()),
            tabulith::Value::Double(n) if *n == 0.0 => (name.clone(), 0.0.into()),
            other => (name.clone(), other.clone()),
        })
        .collect();
    write_entity(&properties)
}

//! Azurite's database of tables, a JSON file: `__azurite_db_table__.json`.
//!
//! It holds one collection for each table, named `ACCOUNT$TABLE`, whose documents keep an entity's
//! properties as they came over the wire, but for Guids, which are base64 of their text. The file
//! is written anew every few seconds while Azurite runs, and holds what it held then.

#![allow(clippy::disallowed_methods, reason = "the file is Azurite's")]

use crate::edm;
use crate::exit::{Exit, Failure};
use crate::json;
use anyhow::{Context, Result, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tabulith::table::entity::Entity;

/// The tables of one account in such a file. Memory: all of it.
#[derive(Debug)]
pub(crate) struct Database {
    account: String,
    tables: BTreeMap<String, Vec<Json>>,
    others: BTreeSet<String>, // Accounts that have tables there.
}

impl Database {
    /// Reads the file.
    pub(crate) fn open(path: &Path, account: &str) -> Result<Database> {
        let named = || format!("{}", path.display());
        let bytes = std::fs::read(path).with_context(named)?;
        let file: Json = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is no database of Azurite's", path.display()))?;
        Database::of(file, account).with_context(named)
    }

    fn of(mut file: Json, account: &str) -> Result<Database> {
        let collections = file.get_mut("collections").and_then(Json::as_array_mut);
        let collections = collections.ok_or_else(|| anyhow!("it has no `collections`"))?;
        let (mut tables, mut others) = (BTreeMap::new(), BTreeSet::new());
        for collection in collections {
            let name = collection.get("name").and_then(Json::as_str).unwrap_or_default();
            let table = match name.split_once('$') {
                Some((owner, table)) if owner == account => table.to_owned(),
                Some((owner, _)) if !owner.is_empty() => {
                    others.insert(owner.to_owned());
                    continue;
                }
                _ => continue, // Azurite's own.
            };
            match collection.get_mut("data").map(Json::take) {
                Some(Json::Array(rows)) => drop(tables.insert(table, rows)),
                _ => bail!("the collection of {table} has no `data`"),
            }
        }
        Ok(Database { account: account.to_owned(), tables, others })
    }

    /// Whose tables.
    pub(crate) fn account(&self) -> &str {
        &self.account
    }

    /// The names of the tables, of which there must be one: another account may have been meant.
    pub(crate) fn tables(&self) -> Result<Vec<String>> {
        if !self.tables.is_empty() {
            return Ok(self.tables.keys().cloned().collect());
        }
        let mut what = format!("Azurite's database has no table of the account {}", self.account);
        if !self.others.is_empty() {
            let others: Vec<_> = self.others.iter().map(String::as_str).collect();
            what += &format!("; there are tables of {}: azurite:FILE#ACCOUNT", others.join(", "));
        }
        Err(Failure::new(Exit::NotFound, what).into())
    }

    /// The rows of a table from the place `from` on, at most `rows` of them, and none behind the
    /// one that has made them `bytes_max`.
    pub(crate) fn rows(
        &self,
        table: &str,
        from: usize,
        rows: usize,
        bytes_max: usize,
    ) -> Result<Vec<Entity>> {
        let all = self.tables.get(table).map(Vec::as_slice).unwrap_or_default();
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (at, row) in all.iter().enumerate().skip(from).take(rows) {
            let named = |why: String| anyhow!("document {at} of the table {table}: {why}");
            let row = entity(row).map_err(named)?;
            bytes += json::entity_bytes_max(&row);
            page.push(row);
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(page)
    }
}

fn entity(document: &Json) -> Result<Entity, String> {
    let properties = document.get("properties").and_then(Json::as_object);
    let mut members: Map<String, Json> = properties.cloned().ok_or("no `properties`")?;
    for name in ["PartitionKey", "RowKey"] {
        if let Some(key) = document.get(name) {
            members.insert(name.to_owned(), key.clone());
        }
    }
    for name in named(&members, "Edm.DateTime") {
        if let Some(Json::String(text)) = members.get_mut(&name) {
            // As the service does with what a client sends; here it stands as it came.
            *text = edm::cut_to_ticks(text);
        }
    }
    for name in named(&members, "Edm.Guid") {
        let Some(Json::String(text)) = members.get_mut(&name) else { continue };
        let decoded = BASE64.decode(&*text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        // Older versions kept the text itself.
        if let Some(plain) = decoded.filter(|plain| plain.len() == 36) {
            *text = plain;
        }
    }
    json::read_entity(&members)
}

/// The members that are said to be of a type.
fn named(members: &Map<String, Json>, edm: &str) -> Vec<String> {
    let of_type = members.iter().filter(|(_, annotation)| annotation.as_str() == Some(edm));
    of_type.filter_map(|(name, _)| name.strip_suffix("@odata.type").map(str::to_owned)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use tabulith::table::value::{DateTime, Value};

    /// What Azurite 3.37.0 wrote for one entity of every type.
    const FILE: &str = r#"{"filename":"x","collections":[
        {"name":"$TABLES_COLLECTION$","data":[{"account":"devstoreaccount1","table":"orders"}]},
        {"name":"devstoreaccount1$orders","data":[{"PartitionKey":"a b","RowKey":"1","properties":{
            "PartitionKey":"a b","RowKey":"1","Total":12.5,"Total@odata.type":"Edm.Double","Paid":true,
            "N":7,"Big":"4294967296","Big@odata.type":"Edm.Int64","Note":"x'y",
            "At":"2013-01-01T10:00:00Z","At@odata.type":"Edm.DateTime",
            "G":"MGQzOTFkMTYtOTdmMS00YjlhLWJlNjgtNGNjODcxZjkwMDAx","G@odata.type":"Edm.Guid",
            "B":"AQID","B@odata.type":"Edm.Binary",
            "Timestamp":"2026-11-22T12:36:33.0336977Z","Timestamp@odata.type":"Edm.DateTime"},
            "eTag":"W/x","$loki":1}]},
        {"name":"other$orders","data":[]},
        {"name":"devstoreaccount1$empty","data":[]}]}"#;

    #[test]
    fn every_type_is_read_as_what_it_was() {
        let database =
            Database::of(serde_json::from_str(FILE).unwrap(), "devstoreaccount1").unwrap();
        assert_eq!(database.tables().unwrap(), ["empty", "orders"]);
        let rows = database.rows("orders", 0, 10, usize::MAX).unwrap();
        assert_eq!((rows[0].partition_key.as_str(), rows[0].row_key.as_str()), ("a b", "1"));
        let value = |name: &str| {
            let found = rows[0].properties.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| value.clone()).unwrap()
        };
        assert_eq!(value("Total"), Value::Double(12.5));
        assert_eq!(value("Big"), Value::Int64(4_294_967_296));
        let guid =
            *uuid::Uuid::parse_str("0d391d16-97f1-4b9a-be68-4cc871f90001").unwrap().as_bytes();
        assert_eq!(value("G"), Value::Guid(guid));
        assert_eq!(value("B"), Value::Binary(vec![1, 2, 3]));
        assert_eq!(rows[0].properties.len(), 8);
        let at = DateTime::from(rows[0].ts).to_string();
        assert_eq!(at, "2026-11-22T12:36:33.0336977Z", "it is written to JSON lines");
        assert!(database.rows("orders", 1, 10, usize::MAX).unwrap().is_empty());
    }

    /// It kept them as Java programs send them.
    #[test]
    fn moments_finer_than_a_tick_are_what_the_service_makes_of_them() {
        let file = FILE.replace("10:00:00Z", "10:00:00.123456789Z");
        let database =
            Database::of(serde_json::from_str(&file).unwrap(), "devstoreaccount1").unwrap();
        let rows = database.rows("orders", 0, 10, usize::MAX).unwrap();
        let at = rows[0].properties.iter().find(|(name, _)| name == "At").unwrap();
        assert_eq!(edm::text_of(&at.1), "2013-01-01T10:00:00.1234567Z");
    }

    /// A thousand documents of 1 MiB were one page.
    #[test]
    fn a_page_of_large_rows_is_short() {
        let row = r#"{"PartitionKey":"p","RowKey":"r","properties":{}}"#;
        let rows = [row; 5].join(",");
        let file = format!(r#"{{"collections":[{{"name":"a$t","data":[{rows}]}}]}}"#);
        let database = Database::of(serde_json::from_str(&file).unwrap(), "a").unwrap();
        let count = |rows: usize, bytes: usize| database.rows("t", 0, rows, bytes).unwrap().len();
        assert_eq!((count(10, usize::MAX), count(10, 150)), (5, 2));
        assert_eq!((count(10, 1), count(1, 150)), (1, 1), "there is one at least");
    }

    #[test]
    fn an_account_without_tables_is_told_from_those_that_have_some() {
        let database = Database::of(serde_json::from_str(FILE).unwrap(), "else").unwrap();
        let error = database.tables().unwrap_err();
        assert_eq!(crate::exit::of(&error), Exit::NotFound);
        assert!(error.to_string().contains("tables of devstoreaccount1, other"), "{error}");
    }

    #[test]
    fn what_is_none_is_said() {
        for (text, because) in [
            ("{}", "no `collections`"),
            (r#"{"collections":[{"name":"a$t"}]}"#, "of t has no `data`"),
        ] {
            let error = Database::of(serde_json::from_str(text).unwrap(), "a").unwrap_err();
            assert!(error.to_string().contains(because), "{error}");
        }
        let text = r#"{"collections":[{"name":"a$t","data":[{"properties":{"PartitionKey":"p","RowKey":"r","x":[1]}}]}]}"#;
        let database = Database::of(serde_json::from_str(text).unwrap(), "a").unwrap();
        let error = database.rows("t", 0, 10, usize::MAX).unwrap_err();
        assert!(error.to_string().contains("document 0 of the table t: x:"), "{error}");
    }
}

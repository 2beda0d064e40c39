//! Records into entities: keys from templates, values by their column's type.

use crate::edm::{self, EdmType};
use crate::exit::Failure;
use crate::import::infer::{self, Column};
use crate::import::rows::{Cells, Record, json_text};
use crate::import::template::Template;
use crate::json;
use anyhow::Result;
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use tabulith::table::entity::Entity;
use tabulith::table::rules;
use tabulith::table::value::Value;

/// What the command line says about all files of an import.
#[derive(Clone, Debug)]
pub(crate) struct Wishes {
    /// Template of the PartitionKey.
    pub(crate) partition_key: Template,
    /// Template of the RowKey.
    pub(crate) row_key: Template,
    /// Types given by hand.
    pub(crate) types: HashMap<String, EdmType>,
    /// Cells that say "no value".
    pub(crate) nulls: Vec<String>,
    /// Columns that are not stored.
    pub(crate) drop: HashSet<String>,
}

/// How the records of one file become entities.
#[derive(Debug)]
pub(crate) struct Recipe {
    wishes: Wishes,
    /// Place of each column of a header.
    places: HashMap<String, usize>,
    /// For each column of a header its name and type, if it is stored.
    stored: Vec<Option<(String, EdmType)>>,
    /// For JSON lines: the number types that numbers of columns were widened to.
    widened: HashMap<String, EdmType>,
}

/// Why a record is no row.
pub(crate) type BadRow = String;

impl Recipe {
    /// The recipe for a file of these columns. `header`: those of a CSV file, in order.
    pub(crate) fn new(wishes: Wishes, columns: &[Column], header: &[String]) -> Result<Recipe> {
        let known: HashSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        // Lines of JSON without a row have no columns, and need none.
        if !known.is_empty() {
            check_wishes(&wishes, &known)?;
        }
        for column in columns {
            if let Some(why) =
                column.barred.as_ref().filter(|_| !wishes.drop.contains(&column.name))
            {
                return Err(Failure::usage(format!(
                    "the column `{}` is {why}, which no property holds; leave it out with --drop",
                    column.name
                ))
                .into());
            }
            if is_stored(&column.name, &wishes) {
                rules::check_property_name(&column.name).map_err(|error| {
                    Failure::usage(format!("{error}; leave the column out with --drop"))
                })?;
            }
        }
        let types: HashMap<&str, EdmType> =
            columns.iter().filter_map(|column| Some((column.name.as_str(), column.edm?))).collect();
        let edm = |name: &String| {
            let given = wishes.types.get(name).or(types.get(name.as_str()));
            given.copied().unwrap_or(EdmType::String)
        };
        let stored = header
            .iter()
            .map(|name| is_stored(name, &wishes).then(|| (name.clone(), edm(name))))
            .collect();
        let widened = |column: &Column| {
            let edm = column.number_type()?;
            matches!(edm, EdmType::Int64 | EdmType::Double).then(|| (column.name.clone(), edm))
        };
        Ok(Recipe {
            places: header.iter().cloned().zip(0..).collect(),
            stored,
            widened: columns.iter().filter_map(widened).collect(),
            wishes,
        })
    }

    /// The keys of a record's row.
    pub(crate) fn keys(&self, record: &Record) -> Result<(String, String), BadRow> {
        let text_of = |name: &str| match &record.cells {
            Cells::Csv(cells) => cells.get(*self.places.get(name)?).map(Cow::Borrowed),
            Cells::Json(members) => json_text(members.get(name)?),
            Cells::Typed(values) => {
                let value = values.get(*self.places.get(name)?)?;
                value.as_ref().map(|value| Cow::Owned(edm::text_of(value)))
            }
        };
        let missing = |name: String| format!("no value for `{name}`, which the keys need");
        let partition_key = self.wishes.partition_key.render(text_of).map_err(missing)?;
        let row_key = self.wishes.row_key.render(text_of).map_err(missing)?;
        Ok((partition_key, row_key))
    }

    /// The row that a record is.
    pub(crate) fn entity(&self, record: &Record) -> Result<Entity, BadRow> {
        let (partition_key, row_key) = self.keys(record)?;
        let properties = match &record.cells {
            Cells::Csv(cells) => self.csv_properties(cells)?,
            Cells::Json(members) => self.json_properties(members)?,
            Cells::Typed(values) => self.typed_properties(values)?,
        };
        let entity = Entity { properties, ..Entity::new(partition_key, row_key) };
        rules::check_entity(&entity).map_err(|error| explained(&entity, &error))?;
        Ok(entity)
    }

    fn csv_properties(&self, cells: &csv::StringRecord) -> Result<Vec<(String, Value)>, BadRow> {
        let mut properties = Vec::with_capacity(cells.len());
        for (text, stored) in cells.iter().zip(&self.stored) {
            let Some((name, edm)) = stored else { continue };
            if infer::is_null(text, &self.wishes.nulls) {
                continue;
            }
            let value = edm.parse(text);
            let value =
                value.ok_or_else(|| format!("{name}: `{}` is no {edm}", json::shortened(text)))?;
            properties.push((name.clone(), value));
        }
        Ok(properties)
    }

    fn typed_properties(&self, values: &[Option<Value>]) -> Result<Vec<(String, Value)>, BadRow> {
        let mut properties = Vec::with_capacity(values.len());
        for (value, stored) in values.iter().zip(&self.stored) {
            let (Some(value), Some((name, edm))) = (value, stored) else { continue };
            if matches!(value, Value::String(text) if self.wishes.nulls.contains(text)) {
                continue;
            }
            if edm::type_of(value) == *edm {
                properties.push((name.clone(), value.clone()));
                continue;
            }
            // A type given by hand: what the value's text is in it.
            let text = edm::text_of(value);
            let value = edm.parse(&text);
            let value =
                value.ok_or_else(|| format!("{name}: `{}` is no {edm}", json::shortened(&text)))?;
            properties.push((name.clone(), value));
        }
        Ok(properties)
    }

    fn json_properties(&self, members: &Map<String, Json>) -> Result<Vec<(String, Value)>, BadRow> {
        let mut properties = Vec::with_capacity(members.len());
        for (name, value) in members {
            if !is_stored(name, &self.wishes) {
                continue;
            }
            if let Json::String(text) = value
                && self.wishes.nulls.contains(text)
            {
                continue;
            }
            let annotated = json::annotation(members, name)?;
            let value = match (self.wishes.types.get(name), annotated) {
                (Some(edm), _) => json::read_as(name, value, *edm)?,
                (None, None) if value.is_number() => {
                    json::read_value(name, value, self.widened.get(name).copied())?
                }
                (None, edm) => json::read_value(name, value, edm)?,
            };
            properties.extend(value.map(|value| (name.clone(), value)));
        }
        Ok(properties)
    }
}

/// The service's members and annotations of an exported row are not properties.
fn is_stored(name: &str, wishes: &Wishes) -> bool {
    !json::is_of_the_service(name) && !wishes.drop.contains(name)
}

fn check_wishes(wishes: &Wishes, known: &HashSet<&str>) -> Result<()> {
    let templates = [("--partition-key", &wishes.partition_key), ("--row-key", &wishes.row_key)];
    let in_templates = templates
        .into_iter()
        .flat_map(|(flag, template)| template.columns().map(move |name| (flag, name)));
    let in_types = wishes.types.keys().map(|name| ("--types", name.as_str()));
    let in_drop = wishes.drop.iter().map(|name| ("--drop", name.as_str()));
    let mut asked = in_templates.chain(in_types).chain(in_drop);
    match asked.find(|(_, name)| !known.contains(name)) {
        None => Ok(()),
        Some((flag, name)) => {
            let mut names: Vec<&str> = known.iter().copied().collect();
            names.sort_unstable();
            let names = names.join(", ");
            Err(Failure::usage(format!("{flag}: no column is called `{name}`; there are {names}"))
                .into())
        }
    }
}

/// A broken rule, with what a person needs to mend it.
fn explained(entity: &Entity, error: &tabulith::table::error::TableError) -> BadRow {
    use tabulith::table::error::TableError;
    match error {
        TableError::KeyInvalid { value, .. } => {
            let barred = value.chars().find(|c| rules::is_barred_from_keys(*c));
            let barred = barred.map(|c| format!("{c:?}")).unwrap_or_default();
            format!("{error}: a key may not hold {barred}; map it with --replace-key-chars")
        }
        TableError::PropertyValueTooLarge { property } => {
            let value = entity.properties.iter().find(|(name, _)| name == property);
            match value {
                Some((_, Value::String(text))) => format!(
                    "{property}: {} characters; a string has at most {}",
                    rules::units(text),
                    rules::STRING_UNITS_MAX
                ),
                Some((_, Value::Binary(bytes))) => format!(
                    "{property}: {} bytes; a binary has at most {}",
                    bytes.len(),
                    rules::BINARY_BYTES_MAX
                ),
                _ => error.to_string(),
            }
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn wishes(partition_key: &str, row_key: &str) -> Wishes {
        Wishes {
            partition_key: Template::parse(partition_key).unwrap(),
            row_key: Template::parse(row_key).unwrap(),
            types: HashMap::new(),
            nulls: vec!["NA".to_owned()],
            drop: HashSet::new(),
        }
    }

    fn column(name: &str, edm: EdmType) -> Column {
        Column { name: name.to_owned(), edm: Some(edm), numbers: None, hint: None, barred: None }
    }

    fn csv_recipe(wishes: Wishes) -> Recipe {
        let columns = [
            column("origin", EdmType::String),
            column("delay", EdmType::Int32),
            column("note", EdmType::String),
        ];
        let header: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        Recipe::new(wishes, &columns, &header).unwrap()
    }

    fn csv(cells: &[&str]) -> Record {
        Record { line: 2, cells: Cells::Csv(csv::StringRecord::from(cells.to_vec())) }
    }

    fn json(text: &str) -> Record {
        Record { line: 1, cells: Cells::Json(serde_json::from_str(text).unwrap()) }
    }

    #[test]
    fn a_csv_record_becomes_a_typed_row() {
        let recipe = csv_recipe(wishes("{origin}", "{delay:04}"));
        let entity = recipe.entity(&csv(&["EWR", "-7", ""])).unwrap();
        assert_eq!((entity.partition_key.as_str(), entity.row_key.as_str()), ("EWR", "-007"));
        let stored = [
            ("origin".to_owned(), Value::String("EWR".to_owned())),
            ("delay".to_owned(), Value::Int32(-7)),
        ];
        assert_eq!(entity.properties, stored);
    }

    #[test]
    fn a_null_is_absent_but_its_text_still_makes_a_key() {
        let recipe = csv_recipe(wishes("{origin}", "{delay}"));
        let entity = recipe.entity(&csv(&["NA", "NA", "x"])).unwrap();
        assert_eq!(entity.partition_key, "NA");
        assert_eq!(entity.properties, [("note".to_owned(), Value::String("x".to_owned()))]);
    }

    #[test]
    fn a_bad_value_or_key_is_explained() {
        let recipe = csv_recipe(wishes("{origin}", "1"));
        let bad = |cells: &[&str]| recipe.entity(&csv(cells)).unwrap_err();
        assert_eq!(bad(&["EWR", "soon", ""]), "delay: `soon` is no Int32");
        let key = bad(&["America/New_York", "1", ""]);
        assert!(key.contains("may not hold '/'") && key.contains("--replace-key-chars"), "{key}");
        let long = bad(&["EWR", "1", &"x".repeat(2 << 20)]);
        assert_eq!(long, "note: 2097152 characters; a string has at most 32768");
    }

    #[test]
    fn an_exported_row_reads_back() {
        let columns = [column("PartitionKey", EdmType::String), column("RowKey", EdmType::String)];
        let recipe = Recipe::new(wishes("{PartitionKey}", "{RowKey}"), &columns, &[]).unwrap();
        let line = r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2020-01-01T00:00:00Z","odata.etag":"x","l@odata.type":"Edm.Int64","l":"5","d":1.0,"n":null}"#;
        let entity = recipe.entity(&json(line)).unwrap();
        assert_eq!((entity.partition_key.as_str(), entity.row_key.as_str()), ("p", "r"));
        let stored = [("l".to_owned(), Value::Int64(5)), ("d".to_owned(), Value::Double(1.0))];
        assert_eq!(entity.properties, stored);
        let keyless = recipe.entity(&json("{\"RowKey\":\"r\"}")).unwrap_err();
        assert!(keyless.contains("no value for `PartitionKey`"), "{keyless}");
    }

    #[test]
    fn json_numbers_take_their_columns_type() {
        let columns = [column("k", EdmType::String), column("n", EdmType::Double)];
        let recipe = Recipe::new(wishes("p", "{k}"), &columns, &[]).unwrap();
        let entity = recipe.entity(&json("{\"k\":\"r\",\"n\":1}")).unwrap();
        assert_eq!(entity.properties[1].1, Value::Double(1.0));
        let numbers = Some(EdmType::Int64);
        let mixed = Column { edm: None, numbers, ..column("n", EdmType::Int64) };
        let recipe = Recipe::new(wishes("p", "1"), &[mixed], &[]).unwrap();
        for (row, value) in [
            ("{\"n\":3000000000}", Value::Int64(3_000_000_000)),
            ("{\"n\":\"x\"}", Value::String("x".to_owned())),
            ("{\"n\":true}", Value::Boolean(true)),
        ] {
            assert_eq!(recipe.entity(&json(row)).unwrap().properties, [("n".to_owned(), value)]);
        }
    }

    /// Digits were cut off without a word, whoever had said the type.
    #[test]
    fn json_is_rounded_only_to_a_type_that_is_asked_for() {
        let columns = [column("at", EdmType::String), column("d", EdmType::Double)];
        let row = json(
            r#"{"at":"2013-01-01T10:00:00.123456789Z","at@odata.type":"Edm.DateTime",
                "d":9007199254740993,"d@odata.type":"Edm.Double"}"#,
        );
        let asked = |asked: &[(&str, EdmType)]| {
            let types = asked.iter().map(|(name, edm)| ((*name).to_owned(), *edm)).collect();
            let wishes = Wishes { types, ..wishes("p", "r") };
            Recipe::new(wishes, &columns, &[]).unwrap().entity(&row)
        };
        let (at, d) = (("at", EdmType::DateTime), ("d", EdmType::Double));
        assert!(asked(&[d]).unwrap_err().starts_with("at: `2013-01-01T10:00:00.123456789Z` has"));
        assert!(asked(&[at]).unwrap_err().starts_with("d: `9007199254740993` has more digits"));
        let entity = asked(&[at, d]).unwrap();
        assert_eq!(edm::text_of(&entity.properties[0].1), "2013-01-01T10:00:00.1234567Z");
        assert_eq!(entity.properties[1].1, Value::Double(9_007_199_254_740_992.0));
    }

    #[test]
    fn a_flag_that_names_no_column_is_refused() {
        let columns = [column("origin", EdmType::String)];
        let header = ["origin".to_owned()];
        let error = Recipe::new(wishes("{orign}", "1"), &columns, &header).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--partition-key: no column is called `orign`; there are origin"
        );
        let spaced = [column("dep time", EdmType::String)];
        let error = Recipe::new(wishes("p", "1"), &spaced, &["dep time".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("--drop"), "{error}");
    }
}

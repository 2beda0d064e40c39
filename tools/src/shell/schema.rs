//! `.schema`: the properties of a table's first rows, with their types. Rows of one table need not
//! have the same ones, so that only rows can tell.

use crate::args::output::Output;
use crate::ask::Ask;
use crate::edm::{self, EdmType};
use crate::import::report::grouped;
use crate::list;
use crate::print::{self, note};
use crate::target::{From, Target};
use anyhow::Result;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use tabulith::table::entity::Entity;

/// Rows that `.schema` looks at.
pub(crate) const SCHEMA_ROWS: usize = 1_000;

/// The first rows of a table.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The rows.
    pub(crate) entities: Vec<Entity>,
    /// Whether there are more.
    more: bool,
}

impl Sample {
    /// Reads at most so many rows.
    pub(crate) async fn read(target: &Target, table: &str, rows: usize) -> Result<Sample> {
        let mut entities = Vec::new();
        let mut from: Option<From> = None;
        loop {
            let ask = Ask { top: rows - entities.len(), ..Ask::rows(None, None) };
            let page = target.page(table, &ask, from.as_ref()).await?;
            entities.extend(page.entities.into_iter().take(rows - entities.len()));
            from = page.next;
            if from.is_none() || entities.len() >= rows {
                return Ok(Sample { entities, more: from.is_some() });
            }
        }
    }

    /// Prints what the rows have.
    pub(crate) fn print(&self, table: &str, form: Output) -> Result<()> {
        let rows = self.entities.len() as u64;
        let items = counted(&self.entities).into_iter().map(|(name, edm, count)| {
            let percent = (count * 1000 / rows.max(1)) as f64 / 10.0;
            Map::from_iter([
                ("property".to_owned(), Json::from(name)),
                ("type".to_owned(), Json::from(format!("Edm.{edm}"))),
                ("rows".to_owned(), Json::from(count)),
                ("percent".to_owned(), Json::from(percent)),
            ])
        });
        list::print(&mut print::out(), form, &items.collect::<Vec<_>>())?;
        note(&match (self.more, rows) {
            (true, _) => format!(
                "a sample: the first {} rows of {table} in the order of their keys; it has more",
                grouped(rows)
            ),
            (false, 0) => format!("{table} has no rows"),
            (false, _) => format!("all {} rows of {table}", grouped(rows)),
        });
        Ok(())
    }
}

/// Properties with each type that they have and how many rows have it so, in the order in which
/// they come.
fn counted(entities: &[Entity]) -> Vec<(String, EdmType, u64)> {
    let mut counted: Vec<(String, EdmType, u64)> = Vec::new();
    let mut places: HashMap<(&str, EdmType), usize> = HashMap::new();
    for (name, value) in entities.iter().flat_map(|entity| &entity.properties) {
        let edm = edm::type_of(value);
        let place = *places.entry((name, edm)).or_insert_with(|| {
            counted.push((name.clone(), edm, 0));
            counted.len() - 1
        });
        counted[place].2 += 1;
    }
    let rows = entities.len() as u64;
    let system = [
        ("PartitionKey", EdmType::String),
        ("RowKey", EdmType::String),
        ("Timestamp", EdmType::DateTime),
    ];
    let system = system.map(|(name, edm)| (name.to_owned(), edm, rows));
    if rows == 0 { Vec::new() } else { system.into_iter().chain(counted).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabulith::table::value::Value;

    #[test]
    fn a_property_of_two_types_is_counted_for_each() {
        let entity = |properties: &[(&str, Value)]| Entity {
            properties: properties
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            ..Entity::new("p", "r")
        };
        let entities = [
            entity(&[("n", Value::Int32(1)), ("s", Value::String("x".to_owned()))]),
            entity(&[("n", Value::Double(1.0))]),
            entity(&[("n", Value::Int32(2))]),
        ];
        let counted = counted(&entities);
        let of = |name: &str| -> Vec<(EdmType, u64)> {
            let own = counted.iter().filter(|(own, _, _)| own == name);
            own.map(|(_, edm, count)| (*edm, *count)).collect()
        };
        assert_eq!(of("n"), [(EdmType::Int32, 2), (EdmType::Double, 1)]);
        assert_eq!(of("s"), [(EdmType::String, 1)]);
        assert_eq!(of("RowKey"), [(EdmType::String, 3)]);
        assert!(super::counted(&[]).is_empty());
    }
}

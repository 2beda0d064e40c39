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

/// What the first rows of a table have.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    rows: u64,
    /// Properties with each type that they have and how many rows have it so, in the order in which
    /// they come.
    properties: Vec<(String, EdmType, u64)>,
    /// Of each type and name its place among `properties`.
    places: HashMap<EdmType, HashMap<String, usize>>,
    /// Whether there are more rows.
    more: bool,
}

impl Sample {
    /// Reads at most so many rows.
    pub(crate) async fn read(target: &Target, table: &str, rows: usize) -> Result<Sample> {
        let mut sample = Sample::default();
        let (mut left, mut from) = (rows, None::<From>);
        loop {
            let ask = Ask { top: left, ..Ask::rows(None, None) };
            let page = target.page(table, &ask, from.as_ref()).await?;
            page.entities.iter().take(left).for_each(|row| sample.add(row));
            left = left.saturating_sub(page.entities.len());
            from = page.next;
            if from.is_none() || left == 0 {
                sample.more = from.is_some();
                return Ok(sample);
            }
        }
    }

    fn add(&mut self, row: &Entity) {
        self.rows += 1;
        for (name, value) in &row.properties {
            let edm = edm::type_of(value);
            let places = self.places.entry(edm).or_default();
            if let Some(place) = places.get(name) {
                self.properties[*place].2 += 1;
            } else {
                places.insert(name.clone(), self.properties.len());
                self.properties.push((name.clone(), edm, 1));
            }
        }
    }

    /// The names of the properties.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(|(name, ..)| name.as_str())
    }

    /// Prints what the rows have.
    pub(crate) fn print(&self, table: &str, form: Output) -> Result<()> {
        let rows = self.rows;
        let items = self.counted().into_iter().map(|(name, edm, count)| {
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

    /// What every row has, and the properties.
    fn counted(&self) -> Vec<(&str, EdmType, u64)> {
        let system = [
            ("PartitionKey", EdmType::String),
            ("RowKey", EdmType::String),
            ("Timestamp", EdmType::DateTime),
        ];
        let system = system.into_iter().map(|(name, edm)| (name, edm, self.rows));
        let own = self.properties.iter().map(|(name, edm, count)| (name.as_str(), *edm, *count));
        if self.rows == 0 { Vec::new() } else { system.chain(own).collect() }
    }
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
        let mut sample = Sample::default();
        assert!(sample.counted().is_empty());
        entities.iter().for_each(|row| sample.add(row));
        assert_eq!(sample.names().collect::<Vec<_>>(), ["n", "s", "n"]);
        let of = |name: &str| -> Vec<(EdmType, u64)> {
            let counted = sample.counted().into_iter();
            let own = counted.filter(|(own, _, _)| *own == name);
            own.map(|(_, edm, count)| (edm, count)).collect()
        };
        assert_eq!(of("n"), [(EdmType::Int32, 2), (EdmType::Double, 1)]);
        assert_eq!(of("s"), [(EdmType::String, 1)]);
        assert_eq!(of("RowKey"), [(EdmType::String, 3)]);
    }
}

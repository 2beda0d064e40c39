//! How far a copy has come, so that the same command goes on where it stopped.
//!
//! Recorded is for each table the last row of the last page that was acknowledged, or that the table is
//! whole. What is recorded may have been lost at the other end since: a table or a row that is not there
//! any more is told before the copy goes on, the rest by the comparison in the end, which reads everything.

#![allow(clippy::disallowed_methods, reason = "the record lies in the user's state folder")]

use crate::ask::Key;
use crate::import::resume::{state_folder, write_whole};
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json, json};
use std::path::PathBuf;

/// How far a table has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Up to this row.
    Row(Key),
    /// Its end.
    End,
}

/// The record of a copy from one place to another.
#[derive(Debug)]
pub(crate) struct Progress {
    path: Option<PathBuf>,
    tables: Map<String, Json>,
}

impl Progress {
    /// The record of the copy that `digest` stands for; an empty one where there is none, or with
    /// `restart`.
    pub(crate) fn of(digest: u128, restart: bool) -> Progress {
        let variable = |name: &str| std::env::var_os(name);
        let folder = state_folder(variable("XDG_STATE_HOME"), variable("HOME"), "copies");
        let path = folder.map(|folder| folder.join(format!("{digest:032x}.json")));
        Progress::at(path, restart)
    }

    fn at(path: Option<PathBuf>, restart: bool) -> Progress {
        let text = path.as_ref().filter(|_| !restart).and_then(|path| std::fs::read(path).ok());
        let tables = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Progress { path, tables }
    }

    /// How far a table has come; what cannot be understood is not far.
    pub(crate) fn reached(&self, table: &str) -> Option<Reached> {
        match self.tables.get(&table.to_lowercase())? {
            Json::String(text) if text == "end" => Some(Reached::End),
            Json::Array(keys) => match keys.as_slice() {
                [Json::String(partition), Json::String(row)] => {
                    Some(Reached::Row(Key { partition: partition.clone(), row: row.clone() }))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Records it.
    pub(crate) fn reach(&mut self, table: &str, reached: &Reached) -> Result<()> {
        let value = match reached {
            Reached::End => json!("end"),
            Reached::Row(key) => json!([key.partition, key.row]),
        };
        self.tables.insert(table.to_lowercase(), value);
        self.save()
    }

    /// Records that a table has come nowhere.
    pub(crate) fn forget(&mut self, table: &str) -> Result<()> {
        self.tables.remove(&table.to_lowercase());
        self.save()
    }

    fn save(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = format!("{:#}\n", Json::Object(self.tables.clone()));
        write_whole(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
    }

    /// Removes the record: the copy is done.
    pub(crate) fn remove(&self) {
        // Left behind it is compared with the table in the next run's end.
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_a_damaged_one_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("1.json");
        let mut progress = Progress::at(Some(path.clone()), false);
        assert_eq!(progress.reached("T"), None);
        let row = Reached::Row(Key { partition: "p\"".to_owned(), row: String::new() });
        progress.reach("Orders", &row).unwrap();
        progress.reach("Whole", &Reached::End).unwrap();
        let again = Progress::at(Some(path.clone()), false);
        assert_eq!(
            (again.reached("orders"), again.reached("whole")),
            (Some(row), Some(Reached::End))
        );
        assert_eq!(Progress::at(Some(path.clone()), true).reached("orders"), None, "restarted");
        progress.forget("WHOLE").unwrap();
        let again = Progress::at(Some(path.clone()), false);
        assert_eq!((again.reached("whole"), again.reached("orders").is_some()), (None, true));
        for text in ["", "{", "[]", "{\"orders\":[1,2]}", "{\"orders\":\"x\"}"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Progress::at(Some(path.clone()), false).reached("orders"), None, "{text}");
        }
        again.remove();
        assert!(!path.exists());
    }
}

//! How far a copy has come, so that the same command goes on where it stopped.
//!
//! Recorded is for each table the last row of the last page that was acknowledged, or that the
//! table is whole, or that all tables of its run are: then only their comparison is to be done.
//! What is recorded may have been lost at the other end since: a table or a row that is not there
//! any more is told before the copy goes on, the rest by the comparison in the end, which reads
//! everything.

#![allow(clippy::disallowed_methods, reason = "the record lies in the user's state folder")]

use crate::ask::Key;
use crate::import::resume::{state_folder, write_whole};
use crate::print::note;
use anyhow::{Context, Result};
use serde_json::{Map, Value as Json, json};
use std::collections::HashSet;
use std::path::PathBuf;

/// How far a table has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Up to this row.
    Row(Key),
    /// Its end.
    End,
    /// Its end, as all tables that were to be copied with it: a copy that does not compare begins
    /// anew.
    All,
}

/// The record of a copy from one place to another.
#[derive(Debug)]
pub(crate) struct Progress {
    path: Option<PathBuf>,
    tables: Map<String, Json>,
}

impl Progress {
    /// The record of the copy that `digest` stands for; an empty one where there is none.
    pub(crate) fn of(digest: u128) -> Progress {
        let variable = |name: &str| std::env::var_os(name);
        let folder = state_folder(variable("XDG_STATE_HOME"), variable("HOME"), "copies");
        let path = folder.map(|folder| folder.join(format!("{digest:032x}.json")));
        Progress::at(path)
    }

    fn at(path: Option<PathBuf>) -> Progress {
        let text = path.as_ref().and_then(|path| std::fs::read(path).ok());
        let tables = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Progress { path, tables }
    }

    /// Of a place that has these tables and no others: what is recorded of others means nothing.
    pub(crate) fn know_only(&mut self, tables: &[String]) {
        let known: HashSet<String> = tables.iter().map(|table| table.to_lowercase()).collect();
        self.tables.retain(|table, _| known.contains(table));
    }

    /// How far a table has come; what cannot be understood is not far.
    pub(crate) fn reached(&self, table: &str) -> Option<Reached> {
        match self.tables.get(&table.to_lowercase())? {
            Json::String(text) if text == "end" => Some(Reached::End),
            Json::String(text) if text == "all" => Some(Reached::All),
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
    pub(crate) fn reach(&mut self, table: &str, reached: &Reached) {
        self.set(table, reached);
        self.try_to_save();
    }

    /// Records that all of these tables are whole.
    pub(crate) fn reach_all(&mut self, tables: &[String]) {
        tables.iter().for_each(|table| self.set(table, &Reached::All));
        self.try_to_save();
    }

    /// What is copied is so without a record: where it cannot be written that is told once, and the
    /// copy goes on.
    fn try_to_save(&mut self) {
        if let Err(error) = self.save() {
            note(&format!("{error:#}: how far the copy comes is not recorded"));
            self.path = None;
        }
    }

    fn set(&mut self, table: &str, reached: &Reached) {
        let value = match reached {
            Reached::End => json!("end"),
            Reached::All => json!("all"),
            Reached::Row(key) => json!([key.partition, key.row]),
        };
        self.tables.insert(table.to_lowercase(), value);
    }

    /// Records that these tables have come nowhere, or are done. A record of no table is removed.
    pub(crate) fn forget(&mut self, tables: &[String]) -> Result<()> {
        tables.iter().for_each(|table| drop(self.tables.remove(&table.to_lowercase())));
        match (&self.path, self.tables.is_empty()) {
            (Some(path), true) => match std::fs::remove_file(path) {
                Err(error) if path.exists() => {
                    Err(error).with_context(|| format!("removing {}", path.display()))
                }
                _removed_or_absent => Ok(()),
            },
            _ => self.save(),
        }
    }

    fn save(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = format!("{:#}\n", Json::Object(self.tables.clone()));
        write_whole(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))
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
        let mut progress = Progress::at(Some(path.clone()));
        assert_eq!(progress.reached("T"), None);
        let row = Reached::Row(Key { partition: "p\"".to_owned(), row: String::new() });
        progress.reach("Orders", &row);
        progress.reach("Whole", &Reached::End);
        let again = Progress::at(Some(path.clone()));
        assert_eq!(
            (again.reached("orders"), again.reached("whole")),
            (Some(row), Some(Reached::End))
        );
        let whole = ["WHOLE".to_owned()];
        progress.reach_all(&whole);
        let again = Progress::at(Some(path.clone()));
        assert_eq!(again.reached("whole"), Some(Reached::All));
        progress.forget(&whole).unwrap();
        let again = Progress::at(Some(path.clone()));
        assert_eq!((again.reached("whole"), again.reached("orders").is_some()), (None, true));
        for text in ["", "{", "[]", "{\"orders\":[1,2]}", "{\"orders\":\"x\"}"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Progress::at(Some(path.clone())).reached("orders"), None, "{text}");
        }
        let both = ["Orders".to_owned(), "none".to_owned()];
        progress.know_only(&both);
        assert!(progress.reached("orders").is_some());
        progress.know_only(&both[1..]);
        assert_eq!(progress.reached("orders"), None);
        progress.forget(&both).unwrap();
        assert!(!path.exists());
        progress.forget(&both).unwrap();
    }
}

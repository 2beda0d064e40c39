//! The places that are copied from and to, and their words on the command line.

use crate::apart::whole;
use crate::args::target::TargetArgs;
use crate::ask::{Ask, Key};
use crate::connect;
use crate::copy::azurite::Database;
use crate::copy::lines::{self, Reader};
use crate::exit::Failure;
use crate::folder::Access;
use crate::remote::Remote;
use crate::target::{From, Target};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tabulith::table::entity::Entity;
use tabulith_client::connection::DEVELOPMENT_ACCOUNT;

/// Rows that are read at a time.
pub(crate) const PAGE_ROWS: usize = 1000;

/// Bytes of files that are held of them, and a row more.
const PAGE_BYTES: usize = 16 << 20;

/// A place with tables.
#[derive(Clone)]
pub(crate) enum Place {
    /// A server, or a data folder.
    Tables(Arc<Target>),
    /// A folder of JSON lines.
    Lines(PathBuf),
    /// Azurite's database.
    Azurite(Arc<Database>, PathBuf),
}

impl Place {
    /// The place that a word means, opened for reading or for writing.
    pub(crate) fn open(
        word: &str,
        access: Access,
        ca: Option<&Path>,
        patience: Duration,
    ) -> Result<Place> {
        let (kind, rest) = word.split_once(':').unwrap_or((word, ""));
        let (path, account) = rest.split_once('#').unwrap_or((rest, DEVELOPMENT_ACCOUNT));
        let target = |args: TargetArgs| {
            let args = TargetArgs { ca: ca.map(Path::to_owned), ..args };
            Ok(Place::Tables(Arc::new(Target::open(&args, access, patience)?)))
        };
        match kind {
            "jsonl" if !rest.is_empty() => Ok(Place::Lines(PathBuf::from(rest))),
            "azurite" if access == Access::Write => {
                Err(Failure::usage("Azurite's database can be read only: write to its server").into())
            }
            "azurite" if !path.is_empty() => {
                let database = Database::open(Path::new(path), account)?;
                Ok(Place::Azurite(Arc::new(database), PathBuf::from(path)))
            }
            "dir" if !path.is_empty() => Ok(Place::Tables(Arc::new(Target::Folder(
                crate::folder::Folder::open(Path::new(path), account, access)?,
            )))),
            "profile" => target(TargetArgs { profile: Some(rest.to_owned()), ..Default::default() }),
            "dev" if word == kind => target(TargetArgs {
                connection_string: Some("UseDevelopmentStorage=true".to_owned()),
                ..Default::default()
            }),
            _ if word.contains(['=', '?']) => {
                let connection = connect::parse(word)?;
                let trust = connect::trust(ca)?;
                let remote = Remote::new(connection, trust, patience);
                Ok(Place::Tables(Arc::new(Target::Server(remote))))
            }
            // A word that is no place may be a mistyped secret: it is not repeated.
            _ => Err(Failure::usage(
                "a place is dev, profile:NAME, dir:PATH, jsonl:DIR, azurite:FILE or a connection string",
            )
            .into()),
        }
    }

    /// Text that is the same for the same place.
    pub(crate) fn identity(&self) -> String {
        match self {
            Place::Tables(target) => target.identity(),
            Place::Lines(dir) => format!("jsonl:{}", whole(dir).display()),
            Place::Azurite(database, path) => {
                format!("azurite:{}#{}", whole(path).display(), database.account())
            }
        }
    }

    /// The names of its tables. A file or a folder without any is an error, and may be the wrong
    /// one.
    pub(crate) async fn tables(&self) -> Result<Vec<String>> {
        match self {
            Place::Tables(target) => {
                let names = target.tables().await?;
                match (&**target, names.is_empty()) {
                    (Target::Folder(folder), true) => Err(folder.nothing().into()),
                    _ => Ok(names),
                }
            }
            Place::Lines(dir) => lines::tables(dir),
            Place::Azurite(database, _) => database.tables(),
        }
    }

    /// Reads a table, of the places that have an order behind `after`.
    pub(crate) fn read(&self, table: &str, after: Option<Key>) -> Result<Reading> {
        let table = table.to_owned();
        Ok(match self {
            Place::Tables(target) => {
                let filter = after
                    .as_ref()
                    .map(|key| format!("PartitionKey ge '{}'", key.partition.replace('\'', "''")));
                let ask = Ask { top: PAGE_ROWS, ..Ask::rows(filter, None) };
                let target = target.clone();
                Reading::Tables { target, table, ask, after, from: None, ended: false }
            }
            Place::Lines(dir) => Reading::Lines(Box::new(Reader::open(dir, &table)?)),
            Place::Azurite(database, _) => {
                Reading::Azurite { database: database.clone(), table, at: 0 }
            }
        })
    }

    /// Whether it is a data folder: only there can a row be given its time.
    pub(crate) fn is_folder(&self) -> bool {
        matches!(self, Place::Tables(target) if matches!(**target, Target::Folder(_)))
    }

    /// Whether a reading can begin behind a key.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self, Place::Tables(_))
    }
}

/// A table being read.
pub(crate) enum Reading {
    /// Page by page, in the order of keys.
    Tables {
        /// Where.
        target: Arc<Target>,
        /// Its name.
        table: String,
        /// What is asked for.
        ask: Ask,
        /// The last row that is not wanted any more.
        after: Option<Key>,
        /// Where the next page begins.
        from: Option<From>,
        /// Whether there is none.
        ended: bool,
    },
    /// Line by line.
    Lines(Box<Reader>),
    /// Document by document.
    Azurite {
        /// Of which database.
        database: Arc<Database>,
        /// Its name.
        table: String,
        /// The next document.
        at: usize,
    },
}

impl Reading {
    /// The next rows; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Vec<Entity>> {
        match self {
            Reading::Tables { target, table, ask, after, from, ended } => {
                let mut rows = Vec::new();
                while rows.is_empty() && !*ended {
                    let page = target.page(table, ask, from.as_ref()).await?;
                    (*ended, *from) = (page.next.is_none(), page.next);
                    rows = page.entities;
                    if let Some(key) = after {
                        rows.retain(|row| is_behind(row, key));
                    }
                }
                Ok(rows)
            }
            Reading::Lines(reader) => reader.next(PAGE_ROWS, PAGE_BYTES),
            Reading::Azurite { database, table, at } => {
                let rows = database.rows(table, *at, PAGE_ROWS, PAGE_BYTES)?;
                *at += rows.len();
                Ok(rows)
            }
        }
    }
}

/// Whether a row comes behind a key, in the service's order: that of UTF-16 units.
fn is_behind(row: &Entity, key: &Key) -> bool {
    let order = |a: &str, b: &str| a.encode_utf16().cmp(b.encode_utf16());
    let by_row = || order(&row.row_key, &key.row);
    order(&row.partition_key, &key.partition).then_with(by_row).is_gt()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_place_is_not_repeated() {
        // What followed `dev` was passed over, and it was written to.
        let of_dev = ["dev:", "dev:c2VjcmV0"];
        let others = ["c2VjcmV0", "dir:", "jsonl:", "azurite:", "folder:x", ""];
        for word in others.into_iter().chain(of_dev) {
            let error = Place::open(word, Access::Read, None, Duration::ZERO).err().unwrap();
            assert_eq!(crate::exit::of(&error), crate::exit::Exit::Usage, "{word}: {error}");
            assert!(!error.to_string().contains("c2VjcmV0"));
        }
    }

    /// Folders of one name below two others had one record, and a new folder another one once it
    /// was there.
    #[cfg(unix)]
    #[test]
    #[allow(clippy::disallowed_methods, reason = "tests")]
    fn a_folder_is_the_same_before_and_after_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let identity = |path: PathBuf| Place::Lines(path).identity();
        let before = identity(link.join("new"));
        std::fs::create_dir(real.join("new")).unwrap();
        for path in [link.join("new"), real.join("new"), real.join("new/"), real.join("./new")] {
            assert_eq!(identity(path), before);
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(identity("not-there".into()), identity(here.join("not-there")));
    }

    #[test]
    fn keys_are_in_the_order_of_utf_16() {
        let key = |partition: &str, row: &str| Key { partition: partition.into(), row: row.into() };
        let row = |partition: &str, row: &str| Entity::new(partition, row);
        assert!(
            is_behind(&row("p", "2"), &key("p", "1")) && is_behind(&row("q", ""), &key("p", "9"))
        );
        assert!(
            !is_behind(&row("p", "1"), &key("p", "1"))
                && !is_behind(&row("o", "9"), &key("p", "1"))
        );
        assert!(is_behind(&row("\u{e000}", ""), &key("\u{10000}", "")), "surrogates come first");
    }
}

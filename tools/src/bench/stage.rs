//! Where a benchmark happens: the folder or server opened, the disk's floor, what the head of a
//! result says.

#![allow(clippy::disallowed_methods, reason = "looks whether the user's folder is empty")]

use crate::args::bench::{LoadArgs, Promise};
use crate::bench::embedded::Embedded;
use crate::bench::endpoint::Endpoint;
use crate::bench::store::Store;
use crate::connect::{self, Place};
use crate::exit::{Exit, Failure};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tabulith::env::clock::{Clock, SystemClock};
use tabulith::ids::CommitTs;
use tabulith::options::Durability;
use tabulith::table::value::DateTime;
use tabulith::vfs::api::Vfs;
use tabulith::vfs::os::OsVfs;
use tabulith_results::floor::{self, Floor};
use tabulith_results::machine::{self, Machine};
use tabulith_results::result::{FORMAT, Run};

/// A place that is measured.
pub(crate) struct Stage {
    place: Place,
    memory: Option<usize>,
    /// What a sync costs there, if it can be known.
    pub(crate) floor: Option<Floor>,
    /// Folder of the data, if this process has it.
    pub(crate) folder: Option<PathBuf>,
    /// What results call it.
    pub(crate) label: String,
}

impl Promise {
    /// In the engine's words.
    pub(crate) fn durability(self) -> Durability {
        match self {
            Promise::Synced => Durability::Synced,
            Promise::Flushed => Durability::Flushed,
            Promise::Buffered => Durability::Buffered,
        }
    }
}

/// Refuses a folder that has something in it; makes one that is not there.
pub(crate) fn empty_folder(dir: &Path) -> Result<()> {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                let text =
                    format!("{} is not empty; name a folder that is, or none", dir.display());
                return Err(Failure::new(Exit::Conflict, text).into());
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            OsVfs.create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        }
        Err(error) => return Err(error).with_context(|| format!("reading {}", dir.display())),
    }
    Ok(())
}

impl Stage {
    /// The place that flags name: an empty folder, or a server.
    pub(crate) fn of(args: &LoadArgs) -> Result<Stage> {
        let place = connect::of_process(&args.target)?;
        let folder = match &place {
            Place::Folder(dir, _) => {
                empty_folder(dir)?;
                Some(dir.clone())
            }
            Place::Server(..) => None,
        };
        let floor = match folder.as_ref().or(args.floor_dir.as_ref()) {
            Some(dir) => Some(floor::measure(&OsVfs, &SystemClock::new(), dir)?),
            None => None,
        };
        let kind = if folder.is_some() { "folder" } else { "endpoint" };
        let label = args.label.clone().unwrap_or_else(|| kind.to_owned());
        Ok(Stage {
            place,
            memory: args.memory.map(|mib| (mib as usize) << 20),
            floor,
            folder,
            label,
        })
    }

    /// Opens it.
    pub(crate) fn open(&self, durability: Promise) -> Result<Box<dyn Store>> {
        Ok(match &self.place {
            Place::Folder(dir, _) => {
                Box::new(Embedded::open(dir, durability.durability(), self.memory)?)
            }
            Place::Server(connection, ca) => {
                Box::new(Endpoint::new((**connection).clone(), connect::trust(ca.as_deref())?))
            }
        })
    }

    /// The head of a result.
    pub(crate) fn head(&self, args: &LoadArgs, command: String, store: &dyn Store) -> Run {
        let stated = if self.folder.is_some() { "" } else { ", as stated" };
        let about = store.about();
        let disk = self.folder.as_ref().or(args.floor_dir.as_ref());
        let now = CommitTs(SystemClock::new().wall_ticks());
        Run {
            format: FORMAT,
            program: format!("tabulith {}", env!("CARGO_PKG_VERSION")),
            commit: machine::commit(),
            optimized: !cfg!(debug_assertions),
            started: DateTime::from(now).to_string(),
            command,
            target: Some(about),
            durability: format!("{}{stated}", args.durability.name()),
            seed: args.seed,
            machine: Machine::here(disk.map(PathBuf::as_path)),
            floor: self.floor.clone(),
            facts: Vec::new(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_has_something_in_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        empty_folder(folder.path()).unwrap();
        let new = folder.path().join("a/b");
        empty_folder(&new).unwrap();
        assert!(new.is_dir());
        let error = empty_folder(folder.path()).unwrap_err();
        assert_eq!(crate::exit::of(&error), Exit::Conflict);
        std::fs::write(folder.path().join("file"), "x").unwrap();
        assert!(empty_folder(&folder.path().join("file")).is_err(), "a file is no folder");
    }
}

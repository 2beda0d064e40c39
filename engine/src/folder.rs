//! A folder: the files in it, whether it may be filled, and that it has no database.

use crate::error::{Error, Kind, Result};
use crate::names::{self, FileName};
use crate::vfs::api::Vfs;
use std::path::Path;

/// The names of the files in `dir`, in any order.
pub(crate) fn list(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<String>> {
    vfs.list(dir).map_err(|error| Error::io("listing a folder", dir, error))
}

/// What the files in `dir` are, in any order; those whose names are none of ours are left out.
pub(crate) fn files(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<FileName>> {
    Ok(list(vfs, dir)?.iter().filter_map(|name| names::parse(name)).collect())
}

/// Makes the names in `dir` durable.
pub(crate) fn sync(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    vfs.sync_dir(dir).map_err(|error| Error::io("syncing a folder", dir, error))
}

/// Makes `dir`, which must be empty or absent.
pub(crate) fn make_empty(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    vfs.create_dir_all(dir).map_err(|error| Error::io("making a folder", dir, error))?;
    match list(vfs, dir)?.is_empty() {
        true => Ok(()),
        false => Err(Error::new(Kind::Exists, format!("{} is not empty", dir.display()))),
    }
}

/// What whoever looks for one in `dir` is told.
pub(crate) fn no_database(dir: &Path) -> Error {
    Error::new(Kind::NotFound, format!("there is no database in {}", dir.display()))
}

//! A folder for data that is not to be kept: it goes when the process ends, and where that was
//! killed, when the next one makes its own.
//!
//! ```text
//! tabulith-UUID      for its owner alone
//!   LOCK             held by whoever uses the folder or removes it
//!   data             the database; copies of it lie beside it
//! ```
//!
//! Promise: a folder that somebody uses stays, and so does one of another user. What begins and
//! what removes take the same lock, and look whether it is still the one at its place; the folder
//! that is lost to the other is begun anew under another name.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "such folders are made and removed around the engine's"
)]

use crate::draft::is_at;
use anyhow::{Context, Result};
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// What the names begin with; a UUID follows.
const PREFIX: &str = "tabulith-";

/// The file whose lock says that a folder is used. A database has one of the same name, so that its
/// folder alone is as good.
const LOCK: &str = "LOCK";

/// Names that are tried.
const NAMES_MAX: u32 = 1_000;

/// Such a folder.
#[derive(Debug)]
pub(crate) struct Fleeting {
    dir: PathBuf,
    /// Where the database is to be.
    pub(crate) data: PathBuf,
    _lock: File,
}

impl Fleeting {
    /// On a disk in memory, where there is one. Those that were left there are removed.
    pub(crate) fn make() -> Result<Fleeting> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        Fleeting::make_in(&parent)
            .with_context(|| format!("making a folder in {}", parent.display()))
    }

    fn make_in(parent: &Path) -> io::Result<Fleeting> {
        remove_left(parent);
        for _ in 0..NAMES_MAX {
            let dir = parent.join(format!("{PREFIX}{}", Uuid::new_v4().simple()));
            make_dir(&dir)?;
            if let Some(lock) = begin(&dir)? {
                return Ok(Fleeting { data: dir.join("data"), dir, _lock: lock });
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Fleeting {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// Takes the lock of a folder that is new; none where somebody took that for one that was left.
fn begin(dir: &Path) -> io::Result<Option<File>> {
    let path = dir.join(LOCK);
    let lock = match File::create_new(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        lock => lock?,
    };
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        // Where there are no locks nobody finds out that a folder was left, and none is removed.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(is_at(&lock, &path).then_some(lock)),
    }
}

/// Removes the folders that nobody uses any more.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_name)
            && entry.metadata().is_ok_and(|found| is_own_dir(&found))
        {
            let (dir, path) = (entry.path(), entry.path().join(LOCK));
            match File::open(&path) {
                Ok(lock) if lock.try_lock().is_ok() && is_at(&lock, &path) => {
                    tracing::info!("removed, as nobody uses it: {}", dir.display());
                    remove(&dir);
                }
                // Killed before it had the lock, or about to take it: only an empty one goes.
                Err(error) if error.kind() == io::ErrorKind::NotFound => drop(fs::remove_dir(&dir)),
                _ => {}
            }
        }
    }
}

fn is_name(name: &str) -> bool {
    let is_digit = |b: u8| b.is_ascii_digit() || matches!(b, b'a'..=b'f');
    name.strip_prefix(PREFIX).is_some_and(|id| id.len() == 32 && id.bytes().all(is_digit))
}

/// Removes a folder whose lock is held.
fn remove(dir: &Path) {
    if let Err(error) = remove_all(dir) {
        tracing::warn!(%error, "the folder stays: {}", dir.display());
    }
}

/// The lock goes last: what a kill leaves of the folder is found by the next one.
fn remove_all(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(dir.join(LOCK))?;
    match fs::remove_dir(dir) {
        // Another start found it empty.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(unix)]
fn make_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn make_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir)
}

/// Whether it is a folder, and no link to one, of the user of this process.
#[cfg(unix)]
fn is_own_dir(found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    found.is_dir() && found.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own_dir(found: &Metadata) -> bool {
    found.is_dir()
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const LEFT: &str = "tabulith-00112233445566778899aabbccddeeff";

    #[test]
    fn what_nobody_uses_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let others = ["tabulith-1", "tabulith-00112233445566778899aabbccddeefg", &LEFT[9..]];
        for name in others {
            fs::create_dir(path(name)).unwrap();
            File::create(path(name).join(LOCK)).unwrap();
        }
        let link = LEFT.replace("00", "ff");
        symlink(path(others[0]), path(&link)).unwrap();
        // As a kill leaves it: with data, copies of them, and a lock that nobody holds.
        fs::create_dir_all(path(LEFT).join("data")).unwrap();
        fs::create_dir_all(path(LEFT).join("data.forks/1")).unwrap();
        for name in [LOCK, "data/LOCK", "data/000001.log", "data.forks/1/LOCK"] {
            fs::write(path(LEFT).join(name), "left").unwrap();
        }
        let empty = LEFT.replace("00", "ee");
        fs::create_dir(path(&empty)).unwrap();
        let first = Fleeting::make_in(parent.path()).unwrap();
        assert!(!path(LEFT).exists() && !path(&empty).exists());
        let mode = first.dir.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{mode:o}");
        // As by another process: its lock is as good as that.
        fs::create_dir(&first.data).unwrap();
        let second = Fleeting::make_in(parent.path()).unwrap();
        assert!(first.data.is_dir() && second.dir != first.dir);
        drop(first);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), others.len() + 2);
        drop(second);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), others.len() + 1);
        assert!(path(&link).is_symlink() && others.iter().all(|name| path(name).is_dir()));
    }

    /// Between the folder and its lock another start may come, which sees one that nobody uses.
    #[test]
    fn a_folder_that_is_being_made_is_made_or_begun_anew() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join(LEFT);
        make_dir(&dir).unwrap();
        remove_left(parent.path());
        assert!(begin(&dir).unwrap().is_none(), "it is gone");
        make_dir(&dir).unwrap();
        let lock = begin(&dir).unwrap();
        remove_left(parent.path());
        assert!(lock.is_some() && dir.join(LOCK).is_file(), "it is held");
        // Killed in the midst of a removal.
        drop(lock);
        fs::create_dir(dir.join("data")).unwrap();
        fs::remove_file(dir.join(LOCK)).unwrap();
        remove_left(parent.path());
        assert!(dir.join("data").is_dir(), "not as `remove_all` leaves it: it may be anything");
    }
}

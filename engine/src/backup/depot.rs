//! The folder that backups lie in: files under their digest, a manifest for each backup, and what a
//! run that was cut has left.
//!
//! ```text
//! files/HASH        a file that backups are of, under its BLAKE3: never changed, shared by all of them
//! 000003.backup     the manifest of backup 3
//! staging/          what a run makes on its way; means nothing once it is over
//! LOCK              whose lock says that a run is under way
//! ```
//!
//! Promise: a manifest is there only once everything that it names is durable, so a run may be cut
//! anywhere: the backups before it are whole, and the next run begins with what is there of its
//! files.

use crate::backup::digest::{self, Digest, Hash};
use crate::backup::format::{Kept, MANIFEST_BYTES_MAX, Manifest};
use crate::blob::format::BlobMeta;
use crate::blob::reader::BlobFile;
use crate::error::{Error, Kind, Result};
use crate::folder;
use crate::ids::FileNo;
use crate::limits::NUMBER_MAX;
use crate::names::{self, Copy, FileKind};
use crate::version::shelf::Shelf;
use crate::vfs::api::{Access, File, LockGuard, Vfs};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes at the end of a file of large values that its mark is taken of.
const TAIL_BYTES: u64 = 64 << 10;

const FILES: &str = "files";
const STAGING: &str = "staging";
/// A file that is on its way to [`FILES`].
const COPYING: &str = "copying.tmp";

/// How files get to where they are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// By hard links where both places share a file system, else as copies.
    #[default]
    Link,
    /// As copies.
    Copy,
}

/// What a run has brought to the folder.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Files that were not there before.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them share their bytes with the source by a hard link.
    pub linked: u64,
}

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Depot {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: PathBuf,
}

/// A file of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: FileKind,
    pub(crate) no: FileNo,
    pub(crate) bytes: u64,
    /// Of a table file its XXH3-64 by the engine's manifest.
    pub(crate) xxh3: Option<u64>,
    /// Of a file of large values how many there are.
    pub(crate) values: u64,
    /// Whether another file of the source may get its number one day.
    pub(crate) is_passing: bool,
}

/// Files that backups of one database have, by what a source says of them.
pub(crate) type Known = BTreeMap<(FileNo, u64, u64), Kept>;

/// One run: what it need not bring, and what it has brought.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) sharing: Sharing,
    /// The database that the known files are of.
    pub(crate) db_id: Option<u128>,
    pub(crate) known: Known,
    /// Lengths of the files that were there when it began. One of the same length may be what a run
    /// left that was cut, or a backup of another database has.
    pub(crate) lengths: BTreeSet<u64>,
    pub(crate) brought: Brought,
}

impl Depot {
    pub(crate) fn files_dir(&self) -> PathBuf {
        self.dir.join(FILES)
    }

    pub(crate) fn staging_dir(&self) -> PathBuf {
        self.dir.join(STAGING)
    }

    pub(crate) fn file(&self, hash: &Hash) -> PathBuf {
        self.files_dir().join(hash.hex())
    }

    pub(crate) fn manifest_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:06}.backup"))
    }

    /// Makes the folder where there is none, keeps other runs out of it, and clears away what one
    /// that was cut has left. A folder of other things is refused, and left as it is.
    pub(crate) fn begin(&self) -> Result<Box<dyn LockGuard>> {
        self.check_ours()?;
        for dir in [self.dir.clone(), self.files_dir(), self.staging_dir()] {
            self.vfs.create_dir_all(&dir).map_err(|e| Error::io("making a folder", &dir, e))?;
        }
        let lock = self.dir.join(names::file_name(FileKind::Lock, FileNo(0)));
        let held = self.vfs.lock(&lock).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let what =
                    format!("another process works on the backups in {}", self.dir.display());
                Error::new(Kind::Locked, what)
            }
            _ => Error::io("locking a folder", &lock, error),
        })?;
        self.remove_those(&self.dir, is_draft)?;
        self.remove_those(&self.files_dir(), |name| name == COPYING)?;
        self.clear_staging()?;
        Ok(held)
    }

    /// Refuses a folder that has no backup, and other things than a run leaves that was cut before
    /// the first one was whole.
    pub(crate) fn check_ours(&self) -> Result<()> {
        let names = self.list_if_any(&self.dir)?;
        let dir = self.dir.display();
        let roots = Copy::BOTH.map(|copy| names::file_name(FileKind::Root(copy), FileNo(0)));
        if names.iter().any(|name| roots.contains(name)) {
            return Err(Error::invalid(format!("{dir} is a database, not a folder of backups")));
        }
        if names.iter().any(|name| number_of(name).is_some()) {
            return Ok(());
        }
        let within = |folder: &str| -> Result<Vec<String>> {
            let names = self.list_if_any(&self.dir.join(folder))?;
            Ok(names.iter().map(|name| format!("{folder}/{name}")).collect())
        };
        let mut all = names;
        if all.iter().all(|name| is_of_a_run(name)) {
            all.extend(within(FILES)?);
            all.extend(within(STAGING)?);
        }
        match all.iter().find(|name| !is_of_a_run(name)) {
            None => Ok(()),
            Some(name) => {
                let what = format!("{dir} is not a folder of backups: it has {name}");
                Err(Error::invalid(what))
            }
        }
    }

    /// Removes what a run has made on its way.
    pub(crate) fn clear_staging(&self) -> Result<()> {
        self.remove_those(&self.staging_dir(), is_staged)
    }

    /// Removes the files of `dir` with such names.
    fn remove_those(&self, dir: &Path, is_one: impl Fn(&str) -> bool) -> Result<()> {
        let names = self.list(dir)?;
        let mut those = names.iter().filter(|name| is_one(name));
        those.try_for_each(|name| self.remove(&dir.join(name)))
    }

    /// The numbers of the backups, oldest first; none, too, where no backup is in the folder.
    ///
    /// Errors: `NotFound` where there is no folder.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>> {
        let names = match self.vfs.list(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let what = format!("there is no folder {}", self.dir.display());
                return Err(Error::new(Kind::NotFound, what));
            }
            names => names.map_err(|e| Error::io("listing a folder", &self.dir, e))?,
        };
        let numbers = names.iter().filter_map(|name| number_of(name));
        Ok(numbers.collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// The same, of which there is one at least.
    ///
    /// Errors: `NotFound` where there is no backup: the folder may be the wrong one.
    pub(crate) fn numbers_of_any(&self) -> Result<Vec<u64>> {
        match self.numbers()? {
            numbers if numbers.is_empty() => {
                let what = format!("there is no backup in {}", self.dir.display());
                Err(Error::new(Kind::NotFound, what))
            }
            numbers => Ok(numbers),
        }
    }

    /// Whether one of these backups is still there; where that cannot be seen, it is. One that is
    /// pruned loses its manifest first, then its files: what one lacks that is there is damage.
    pub(crate) fn has_any(&self, backups: &[u64]) -> bool {
        let there = self.numbers().ok();
        there.is_none_or(|there| backups.iter().any(|number| there.contains(number)))
    }

    /// The manifest of one backup.
    pub(crate) fn manifest(&self, number: u64) -> Result<Manifest> {
        let path = self.manifest_path(number);
        let failed = |error| Error::io("reading a backup's manifest", &path, error);
        let file = self.vfs.open(&path, Access::Read).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        if len > MANIFEST_BYTES_MAX {
            return Err(Error::corrupt(&path, len, "a backup's manifest cannot be so long"));
        }
        let bytes = file.read_vec_at(len as usize, 0).map_err(failed)?;
        let manifest = Manifest::decode(&bytes, &path)?;
        match manifest.number == number {
            true => Ok(manifest),
            false => Err(Error::corrupt(&path, 0, "this is the manifest of another backup")),
        }
    }

    /// Sees to it that the folder has a file of `from`, known from now on. One that is known, or
    /// there by its digest, is not copied; one that is not what the source's manifest says is
    /// refused.
    pub(crate) fn keep(&self, from: &Shelf, wanted: Wanted, run: &mut Run) -> Result<Kept> {
        let Wanted { kind, no, bytes, xxh3, is_passing, .. } = wanted;
        let path = names::path(&from.dir, kind, no);
        let failed = |error| Error::io("reading a file of the database", &path, error);
        let known_by = |mark: u64| run.known.get(&(no, bytes, mark)).filter(|_| !is_passing);
        let there = |kept: &&Kept| self.has(kept, run.sharing);
        if let Some(kept) = xxh3.and_then(known_by).filter(there) {
            return Ok(kept.clone());
        }
        let file = from.open((kind, no), &path).map_err(failed)?;
        let mark = match xxh3 {
            Some(xxh3) => xxh3,
            None => tail_mark(&*file).map_err(failed)?,
        };
        if let Some(kept) = known_by(mark).filter(there) {
            return Ok(kept.clone());
        }
        let mark = if is_passing { 0 } else { mark };
        if kind == FileKind::Blob {
            // No sum of all of it is written down, but its values have their own.
            let meta = BlobMeta { no, bytes, values: wanted.values };
            BlobFile::open(Arc::clone(&file), path.clone(), &meta)?.walk(&mut |_| Ok(()))?;
        }
        // What is made of a log is cleared away at the end, so that nothing shares its bytes then.
        let sharing = if is_passing { Sharing::Link } else { run.sharing };
        let may_be_here = sharing == Sharing::Link || run.lengths.contains(&bytes);
        let (digest, linked) = self.bring(&*file, &path, wanted, (sharing, may_be_here))?;
        let kept = Kept::new(kind, no, mark, digest);
        if let Some(linked) = linked {
            run.brought.files += 1;
            run.brought.bytes += bytes;
            run.brought.linked += u64::from(linked);
        }
        if !is_passing {
            run.known.insert((no, bytes, mark), kept.clone());
        }
        Ok(kept)
    }

    /// Brings a file here, unless one of its digest is here and whole; says whether it came, and by
    /// a link.
    fn bring(
        &self,
        file: &dyn File,
        from: &Path,
        wanted: Wanted,
        (sharing, may_be_here): (Sharing, bool),
    ) -> Result<(Digest, Option<bool>)> {
        if may_be_here {
            let digest = digest::read(file, from, &mut |_, _| Ok(()))?;
            check(&digest, wanted, from)?;
            let to = self.file(&digest.hash);
            if self.is_whole(&to, &digest) && (sharing == Sharing::Link || !self.is_shared(&to)) {
                return Ok((digest, None));
            }
            // Not on another file system, or one without links, nor of a file that has no name any
            // more.
            let temp = self.free_temp();
            if sharing == Sharing::Link && self.vfs.hard_link(from, &temp).is_ok() {
                let was_there = self.take_over(&temp, &digest)?;
                return Ok((digest, (!was_there).then_some(true)));
            }
        }
        let temp = self.free_temp();
        let digest = copy_file(&*self.vfs, file, from, &temp)?;
        check(&digest, wanted, from)?;
        let was_there = self.take_over(&temp, &digest)?;
        Ok((digest, (!was_there).then_some(false)))
    }

    /// Where a file is until it has its name; nothing is there.
    fn free_temp(&self) -> PathBuf {
        let temp = self.files_dir().join(COPYING);
        let _ = self.vfs.remove(&temp);
        temp
    }

    /// Gives the file at `temp` its name in one step; says whether one of that name and length was
    /// there. That may be damaged, or share its bytes; or it is whole and was not to be opened, and
    /// earlier backups need it until its like is in its place.
    fn take_over(&self, temp: &Path, digest: &Digest) -> Result<bool> {
        let (to, was_there) = (self.file(&digest.hash), self.has_bytes(&digest.hash, digest.bytes));
        self.vfs.rename(temp, &to).map_err(|e| Error::io("naming a file", &to, e))?;
        let _ = self.vfs.remove(temp); // Of one file that has both names already, both stay.
        Ok(was_there)
    }

    /// Makes a backup count: from here on it is there whatever happens.
    pub(crate) fn finish(&self, manifest: &Manifest) -> Result<()> {
        folder::sync(&*self.vfs, &self.files_dir())?;
        let temp = names::path(&self.dir, FileKind::Temp, FileNo(manifest.number));
        let path = self.manifest_path(manifest.number);
        let text = manifest.encode();
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(Error::invalid("a backup of so many files has no manifest"));
        }
        let written = self.vfs.create(&temp).and_then(|file| {
            file.write_all_at(text.as_bytes(), 0)?;
            file.sync()
        });
        written.map_err(|e| Error::io("writing a backup's manifest", &temp, e))?;
        self.vfs.rename(&temp, &path).map_err(|e| Error::io("naming a file", &path, e))?;
        folder::sync(&*self.vfs, &self.dir)
    }

    /// Removes the files that none of `needed` is; gives how many there were, and their bytes.
    pub(crate) fn sweep(&self, needed: &BTreeSet<Hash>) -> Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        let dir = self.files_dir();
        for name in self.list(&dir)? {
            if Hash::parse(&name).is_none_or(|hash| needed.contains(&hash)) {
                continue;
            }
            let path = dir.join(&name);
            let len = self.vfs.open(&path, Access::Read).and_then(|file| file.len());
            (files, bytes) = (files + 1, bytes + len.unwrap_or(0));
            self.remove(&path)?;
        }
        Ok((files, bytes))
    }

    pub(crate) fn remove(&self, path: &Path) -> Result<()> {
        self.vfs.remove(path).map_err(|e| Error::io("removing a file", path, e))
    }

    pub(crate) fn list(&self, dir: &Path) -> Result<Vec<String>> {
        folder::list(&*self.vfs, dir)
    }

    /// The same of a folder that may be absent, and has nothing then.
    fn list_if_any(&self, dir: &Path) -> Result<Vec<String>> {
        match self.vfs.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            names => names.map_err(|e| Error::io("listing a folder", dir, e)),
        }
    }

    /// Whether there is such a file, and none that shares its bytes where a copy is asked for.
    fn has(&self, kept: &Kept, sharing: Sharing) -> bool {
        self.has_bytes(&kept.hash, kept.bytes)
            && (sharing == Sharing::Link || !self.is_shared(&self.file(&kept.hash)))
    }

    /// Whether the file may share its bytes with one outside.
    fn is_shared(&self, path: &Path) -> bool {
        self.vfs.has_other_names(path).unwrap_or(true)
    }

    /// The length of each file, those of no backup among them.
    pub(crate) fn lengths(&self) -> Result<BTreeSet<u64>> {
        let (dir, mut lengths) = (self.files_dir(), BTreeSet::new());
        for name in self.list(&dir)? {
            let len = self.vfs.open(&dir.join(name), Access::Read).and_then(|file| file.len());
            lengths.extend(len.ok());
        }
        Ok(lengths)
    }

    /// Whether the file at `path` reads as `digest` says.
    fn is_whole(&self, path: &Path, digest: &Digest) -> bool {
        let Ok(file) = self.vfs.open(path, Access::Read) else { return false };
        let found = digest::read(&*file, path, &mut |_, _| Ok(()));
        found.is_ok_and(|found| found.hash == digest.hash)
    }

    fn has_bytes(&self, hash: &Hash, bytes: u64) -> bool {
        let file = self.vfs.open(&self.file(hash), Access::Read);
        file.and_then(|file| file.len()).is_ok_and(|len| len == bytes)
    }
}

/// Copies a file that is then durable but for its name, and digests it on the way.
pub(crate) fn copy_file(vfs: &dyn Vfs, from: &dyn File, path: &Path, to: &Path) -> Result<Digest> {
    let failed = |error| Error::io("writing a copy", to, error);
    let copy = vfs.create(to).map_err(failed)?;
    let write = &mut |piece: &[u8], at| copy.write_all_at(piece, at).map_err(failed);
    let digest = digest::read(from, path, write)?;
    copy.sync().map_err(failed)?;
    Ok(digest)
}

/// Refuses a file that is not what the source's manifest says.
fn check(digest: &Digest, wanted: Wanted, path: &Path) -> Result<()> {
    let right = digest.bytes == wanted.bytes && wanted.xxh3.is_none_or(|sum| sum == digest.xxh3);
    match right {
        true => Ok(()),
        false => {
            let what = "the file is not what the manifest says of it; `check` tells where";
            Err(Error::corrupt(path, 0, what))
        }
    }
}

fn tail_mark(file: &dyn File) -> io::Result<u64> {
    let bytes = file.len()?;
    let tail = bytes.min(TAIL_BYTES);
    Ok(xxh3_64(&file.read_vec_at(tail as usize, bytes - tail)?))
}

/// The number of the backup whose manifest has this name.
fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".backup")?.parse().ok().filter(|no| *no < NUMBER_MAX)?;
    (format!("{number:06}.backup") == name).then_some(number)
}

/// Whether a run that was cut may have left this, whose name is told from the folder of backups on.
/// Every fresh ext4 disk has lost+found at its top.
fn is_of_a_run(name: &str) -> bool {
    match name.split_once('/') {
        Some((FILES, name)) => name == COPYING || Hash::parse(name).is_some(),
        Some((_, name)) => is_staged(name),
        None => {
            let is_lock = names::parse(name) == Some((FileKind::Lock, FileNo(0)));
            is_lock || is_draft(name) || [FILES, STAGING, "lost+found"].contains(&name)
        }
    }
}

/// Whether this is the name of a manifest that is being written.
fn is_draft(name: &str) -> bool {
    matches!(names::parse(name), Some((FileKind::Temp, _)))
}

/// Whether a file of this name comes from a database's log.
fn is_staged(name: &str) -> bool {
    matches!(names::parse(name), Some((FileKind::Table | FileKind::Blob, _)))
}

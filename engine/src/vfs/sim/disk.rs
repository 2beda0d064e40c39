//! A simulated file system without processes: names, files and the effects of calls on them.
//!
//! A folder's names exist twice, as seen now and as power loss would leave them at worst; the
//! changes between the two wait for a sync of the folder. Folders themselves are durable when made,
//! because [`crate::vfs::api::Vfs::create_dir_all`] promises it.
//!
//! Absent: handles, locks, permissions.

use crate::vfs::sim::inode::{Inode, Stamp, SyncFailure};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The number of a file; its names point to it.
pub(crate) type Ino = u64;
pub(crate) type Names = BTreeMap<Arc<str>, Ino>;

/// The folders by their paths, as text without a slash at the end: paths compared part by part were
/// a tenth of a crash test.
pub(crate) type Folders = BTreeMap<Arc<str>, Arc<Folder>>;

/// A file longer than this comes from a wrong offset.
const FILE_BYTES_MAX: u64 = 16 << 30;

/// All folders and files. A copy shares what neither side changes.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) folders: Folders,
    pub(crate) inodes: BTreeMap<Ino, Arc<Inode>>,
    ino_last: Ino,
    stamp: Stamp,
    lost_names: bool, // Some file may have no name left since the last look at all of them.
}

/// The names in one folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    pub(crate) now: Names,
    pub(crate) durable: Names,
    pub(crate) unsynced: Vec<(Stamp, NameChange)>,
}

/// One change of a folder. It reaches the disk whole, except that a hostile disk may show both
/// names of a rename.
#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    Set { name: Arc<str>, ino: Ino },
    Remove { name: Arc<str> },
    Rename { from: Arc<str>, to: Arc<str>, ino: Ino },
}

impl Disk {
    pub(crate) fn new() -> Disk {
        let roots = ["", "/"].map(|root| (Arc::from(root), Arc::default()));
        Disk {
            folders: roots.into(),
            inodes: BTreeMap::new(),
            ino_last: 0,
            stamp: 0,
            lost_names: false,
        }
    }

    /// The disk after a restart: what it holds is durable.
    pub(crate) fn restarted(&self, folders: Folders) -> Disk {
        Disk { folders, inodes: BTreeMap::new(), ..*self }
    }

    /// How many effects there have been.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        let all = dir.ancestors().map(text).collect::<io::Result<Vec<_>>>()?;
        let missing: Vec<_> =
            all.into_iter().filter(|dir| !self.folders.contains_key(*dir)).collect();
        if missing.iter().any(|dir| self.named(dir).is_some()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        for dir in &missing {
            self.folders.insert((*dir).into(), Arc::default());
        }
        self.stamp += u64::from(!missing.is_empty());
        Ok(())
    }

    pub(crate) fn create(&mut self, file: &Path) -> io::Result<Ino> {
        let (dir, name) = self.free_place(file)?;
        self.ino_last += 1;
        let ino = self.ino_last;
        self.inodes.insert(ino, Arc::default());
        self.change(dir, NameChange::Set { name: name.into(), ino });
        Ok(ino)
    }

    /// The file behind a name.
    pub(crate) fn ino(&self, file: &Path) -> io::Result<Ino> {
        let file = text(file)?;
        match self.named(file) {
            Some(ino) => Ok(ino),
            None if self.folders.contains_key(file) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(self.place(file).err().unwrap_or(io::ErrorKind::NotFound.into())),
        }
    }

    fn named(&self, file: &str) -> Option<Ino> {
        let (dir, name) = split(file);
        self.folders.get(dir)?.now.get(name).copied()
    }

    pub(crate) fn remove(&mut self, file: &Path) -> io::Result<()> {
        self.ino(file)?;
        let (dir, name) = self.place(text(file)?)?;
        self.change(dir, NameChange::Remove { name: name.into() });
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ino = self.ino(from)?;
        let ((dir, from), (to_dir, to_name)) = (self.place(text(from)?)?, self.place(text(to)?)?);
        if dir != to_dir {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "rename to another folder"));
        }
        match self.ino(to) {
            // POSIX: two names of one file both stay.
            Ok(there) if there == ino => self.stamp += 1,
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {
                let (from, to) = (from.into(), to_name.into());
                self.change(dir, NameChange::Rename { from, to, ino });
            }
        }
        Ok(())
    }

    pub(crate) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ino = self.ino(from)?;
        let (dir, name) = self.free_place(to)?;
        self.change(dir, NameChange::Set { name: name.into(), ino });
        Ok(())
    }

    /// How many names a file has.
    pub(crate) fn names_of(&self, ino: Ino) -> usize {
        let names = self.folders.values().flat_map(|folder| folder.now.values());
        names.filter(|other| **other == ino).count()
    }

    pub(crate) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = text(dir)?;
        let files = self.folder(dir)?.now.keys().map(|name| name.to_string());
        let inner = self.folders.keys().map(|inner| split(inner));
        let inner = inner.filter(|(parent, name)| *parent == dir && !name.is_empty());
        Ok(files.chain(inner.map(|(_, name)| name.to_owned())).collect())
    }

    pub(crate) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let dir = text(dir)?;
        self.folder(dir)?;
        self.stamp += 1;
        if let Some(folder) = self.folders.get_mut(dir) {
            let folder = Arc::make_mut(folder);
            let Folder { durable, unsynced, .. } = folder;
            unsynced.drain(..).for_each(|(_, change)| change.apply(durable));
        }
        Ok(())
    }

    pub(crate) fn fail_sync_dir(&mut self, dir: &Path, how: SyncFailure) -> io::Result<()> {
        let dir = text(dir)?;
        self.folder(dir)?;
        self.stamp += 1;
        if let Some(folder) = self.folders.get_mut(dir) {
            let folder = Arc::make_mut(folder);
            match how {
                SyncFailure::MarksClean => folder.unsynced.clear(),
                SyncFailure::Reverts => *folder = Folder::settled(folder.durable.clone()),
                SyncFailure::ShutsDown => {}
            }
            self.lost_names = true;
        }
        Ok(())
    }

    pub(crate) fn file(&self, ino: Ino) -> io::Result<&Inode> {
        self.inodes.get(&ino).map(|inode| &**inode).ok_or_else(gone)
    }

    pub(crate) fn read(&self, ino: Ino, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let cache = &self.file(ino)?.cache;
        if !buf.is_empty() && offset.checked_add(buf.len() as u64).is_none_or(|e| e > cache.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        cache.read(buf, offset);
        Ok(())
    }

    pub(crate) fn write(&mut self, ino: Ino, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let (stamp, inode) = self.effect(ino)?;
        inode.write(stamp, bytes, offset);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, ino: Ino, len: u64) -> io::Result<()> {
        if len > FILE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let (stamp, inode) = self.effect(ino)?;
        inode.set_len(stamp, len);
        Ok(())
    }

    pub(crate) fn sync(&mut self, ino: Ino) -> io::Result<()> {
        self.effect(ino)?.1.sync();
        Ok(())
    }

    pub(crate) fn sync_part(&mut self, ino: Ino, offset: u64, len: u64) -> io::Result<()> {
        self.effect(ino)?.1.sync_part(offset, len);
        Ok(())
    }

    pub(crate) fn fail_sync(&mut self, ino: Ino, how: SyncFailure) -> io::Result<()> {
        self.effect(ino)?.1.fail_sync(how);
        Ok(())
    }

    /// Forgets files that have no name left, before or after a power loss, and are not `open`.
    pub(crate) fn collect(&mut self, open: impl Fn(Ino) -> bool) {
        if !self.lost_names {
            return;
        }
        let mut named: Vec<Ino> = self.folders.values().flat_map(|f| f.inos()).collect();
        named.sort_unstable();
        let mut held = false;
        self.inodes.retain(|ino, _| {
            let has_name = named.binary_search(ino).is_ok();
            held |= !has_name && open(*ino);
            has_name || open(*ino)
        });
        self.lost_names = held || self.folders.values().any(|folder| !folder.unsynced.is_empty());
    }

    fn effect(&mut self, ino: Ino) -> io::Result<(Stamp, &mut Inode)> {
        let inode = self.inodes.get_mut(&ino).ok_or_else(gone)?;
        self.stamp += 1;
        Ok((self.stamp, Arc::make_mut(inode)))
    }

    fn folder(&self, dir: &str) -> io::Result<&Folder> {
        match self.folders.get(dir) {
            Some(folder) => Ok(folder),
            None if self.named(dir).is_some() => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The folder, which must exist, and the name of a file in it.
    fn place<'a>(&self, file: &'a str) -> io::Result<(&'a str, &'a str)> {
        match split(file) {
            (_, "" | "..") => Err(io::ErrorKind::InvalidInput.into()),
            (dir, name) => self.folder(dir).map(|_| (dir, name)),
        }
    }

    /// The same where nothing has that name yet.
    fn free_place<'a>(&self, file: &'a Path) -> io::Result<(&'a str, &'a str)> {
        let file = text(file)?;
        let place = self.place(file)?;
        match self.folders.contains_key(file) || self.named(file).is_some() {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => Ok(place),
        }
    }

    fn change(&mut self, dir: &str, change: NameChange) {
        self.stamp += 1;
        if let Some(folder) = self.folders.get_mut(dir) {
            let folder = Arc::make_mut(folder);
            self.lost_names |= match &change {
                NameChange::Set { name, .. } => folder.now.contains_key(name),
                NameChange::Remove { .. } | NameChange::Rename { .. } => true,
            };
            change.apply(&mut folder.now);
            folder.unsynced.push((self.stamp, change));
        }
    }
}

impl Folder {
    /// A folder whose names are all durable.
    pub(crate) fn settled(names: Names) -> Folder {
        Folder { now: names.clone(), durable: names, unsynced: Vec::new() }
    }

    /// Every file that has a name here, or may have one after a power loss.
    pub(crate) fn inos(&self) -> impl Iterator<Item = Ino> {
        let changed = self.unsynced.iter().filter_map(|(_, change)| change.ino());
        self.now.values().chain(self.durable.values()).copied().chain(changed)
    }
}

impl NameChange {
    pub(crate) fn apply(&self, names: &mut Names) {
        if let NameChange::Rename { from: name, .. } | NameChange::Remove { name } = self {
            names.remove(name);
        }
        self.apply_new_name(names);
    }

    /// Half of a rename: both names are there.
    pub(crate) fn apply_new_name(&self, names: &mut Names) {
        if let NameChange::Rename { to: name, ino, .. } | NameChange::Set { name, ino } = self {
            names.insert(name.clone(), *ino);
        }
    }

    fn ino(&self) -> Option<Ino> {
        match self {
            NameChange::Set { ino, .. } | NameChange::Rename { ino, .. } => Some(*ino),
            NameChange::Remove { .. } => None,
        }
    }
}

/// A path as it stands among those of the folders.
fn text(path: &Path) -> io::Result<&str> {
    let text = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    match text.trim_end_matches('/') {
        "" => Ok(&text[..text.len().min(1)]),
        trimmed => Ok(trimmed),
    }
}

/// The folder that a path lies in, and its name there.
fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => ("", path),
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the simulated file is gone")
}

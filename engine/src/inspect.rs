//! Files of a database folder as text, for people and for golden tests: one door to the `dump` that
//! stands beside each format.

use crate::blob::format::Link;
use crate::blob::reader::BlobFile;
use crate::error::{Error, Result};
use crate::folder;
use crate::ids::{FileNo, SegmentId};
use crate::manifest::load;
use crate::names::{self, FileKind};
use crate::sstable::reader::{BlockCache, TableFile};
use crate::vfs::api::{Access, Vfs};
use crate::vfs::os::OsVfs;
use crate::wal::reader;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

pub use crate::sstable::dump::Depth;

/// What a file of a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A copy of the root, which names the manifest.
    Root,
    /// A copy of the manifest, which names every other file.
    Manifest,
    /// A segment of the log.
    Log,
    /// A sorted table file.
    Table,
    /// A file of large values.
    Blob,
    /// What processes lock.
    Lock,
    /// Something half-made, which the next start removes.
    Leftover,
}

/// A file of a database's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its length.
    pub bytes: u64,
    /// The level of a table file that the manifest names.
    pub level: Option<usize>,
    /// Whether the database needs it; what it does not need goes with the next start.
    pub is_live: bool,
}

/// The files of a folder, by kind and name; those that are none of ours are left out. Reads only;
/// safe beside a process that writes, whose newest files it may not know yet.
///
/// Errors: `Corrupt` where no copy of the manifest can be read; `NotFound`, `Io`.
pub fn files(dir: &Path) -> Result<Vec<FileInfo>> {
    let vfs = OsVfs::new();
    let state = load::load(&vfs, dir)?.map(|loaded| loaded.state).unwrap_or_default();
    let levels: HashMap<FileNo, usize> =
        state.files().map(|(level, meta)| (meta.no, usize::from(level))).collect();
    let names = folder::list(&vfs, dir)?;
    let mut files = Vec::new();
    for name in names {
        let Some((kind, no)) = names::parse(&name) else { continue };
        let path = dir.join(&name);
        let len = vfs.open(&path, Access::Read).and_then(|file| file.len());
        let bytes = match len {
            Ok(bytes) => bytes,
            // Somebody who writes has removed it since.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("opening a file", &path, error)),
        };
        let (kind, is_live) = match kind {
            FileKind::Root(_) => (Kind::Root, true),
            FileKind::Manifest(_) => (Kind::Manifest, true),
            FileKind::Wal => (Kind::Log, SegmentId(no.0) >= state.log_floor.segment),
            FileKind::Table => (Kind::Table, levels.contains_key(&no)),
            FileKind::Blob => (Kind::Blob, state.blobs.contains_key(&no)),
            FileKind::Lock => (Kind::Lock, true),
            FileKind::Spare | FileKind::Temp => (Kind::Leftover, false),
        };
        let level = levels.get(&no).copied().filter(|_| kind == Kind::Table);
        files.push(FileInfo { name, kind, bytes, level, is_live });
    }
    files.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    Ok(files)
}

/// Whether the manifest names the table file or blob file `file`, and the file is not there:
/// damage. No writer causes that, since it drops a file from the manifest before it deletes it.
pub fn is_missing(file: &Path) -> bool {
    let (vfs, dir) = (OsVfs::new(), folder_of(file));
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_gone = |error: std::io::Error| error.kind() == ErrorKind::NotFound;
    let Some((kind, no)) = names::parse(name) else { return false };
    if !vfs.open(file, Access::Read).is_err_and(is_gone) {
        return false;
    }
    let Ok(Some(load::Loaded { state, .. })) = load::load(&vfs, dir) else { return false };
    match kind {
        FileKind::Table => state.files().any(|(_, meta)| meta.no == no),
        FileKind::Blob => state.blobs.contains_key(&no),
        _ => false,
    }
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Gives `line` the text of a file of a database: a log segment, a table file, a blob file, or for
/// any copy of root or manifest the whole manifest. Reads only; safe beside a process that writes.
///
/// Errors: `Invalid` where the name is not one of ours; `Corrupt` where the file cannot be read far
/// enough to tell anything; `Io`.
pub fn dump(file: &Path, depth: Depth, line: &mut dyn FnMut(&str)) -> Result<()> {
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
    let dir = folder_of(file);
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match names::parse(name) {
        Some((FileKind::Wal, no)) => {
            reader::dump(&*vfs, dir, SegmentId(no.0), &mut |text| line(&text))
        }
        Some((FileKind::Table, no)) => dump_table(&vfs, dir, no, depth, line),
        Some((FileKind::Blob, no)) => dump_blob(&vfs, dir, no, depth, line),
        Some((FileKind::Manifest(_) | FileKind::Root(_), _)) => {
            load::dump(&*vfs, dir, &mut |text| line(&text))
        }
        _ => Err(Error::invalid(format!("{} is not a file of a database", file.display()))),
    }
}

fn dump_blob(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    no: FileNo,
    depth: Depth,
    line: &mut dyn FnMut(&str),
) -> Result<()> {
    let path = names::path(dir, FileKind::Blob, no);
    let state = load::load(&**vfs, dir)?.map(|loaded| loaded.state);
    let named = state.and_then(|state| {
        let meta = state.blobs.get(&no).cloned()?;
        Some((meta, state.uses().get(&no).copied()?))
    });
    let (meta, used) = named.ok_or_else(|| {
        Error::invalid(format!("the manifest names no blob file {}", path.display()))
    })?;
    let file =
        vfs.open(&path, Access::Read).map_err(|e| Error::io("opening a blob file", &path, e))?;
    let blob = BlobFile::open(file, path, &meta)?;
    line(&format!("blob file {no} ({})", blob.path().display()));
    line(&format!("values {:>10}  {:>12} bytes", meta.values, meta.value_bytes()));
    line(&format!("live   {:>10}  {:>12} bytes", used.values, used.bytes));
    blob.walk(&mut |link| {
        if depth == Depth::Rows {
            let Link { offset, raw_len, stored_len, codec, checksum, .. } = link;
            line(&format!(
                "value at {offset}: {raw_len} bytes stored as {stored_len} {codec:?}, crc {checksum:08x}"
            ));
        }
        Ok(())
    })
}

fn dump_table(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    no: FileNo,
    depth: Depth,
    line: &mut dyn FnMut(&str),
) -> Result<()> {
    let path = names::path(dir, FileKind::Table, no);
    let state = load::load(&**vfs, dir)?.map(|loaded| loaded.state);
    let meta = state.and_then(|state| {
        let found = state.files().find(|(_, meta)| meta.no == no);
        found.map(|(_, meta)| Arc::clone(meta))
    });
    let meta = meta.ok_or_else(|| {
        Error::invalid(format!("the manifest names no table file {}", path.display()))
    })?;
    let file =
        vfs.open(&path, Access::Read).map_err(|e| Error::io("opening a table file", &path, e))?;
    let table = TableFile::open(file, path, &meta, Arc::new(BlockCache::new(0)))?;
    table.dump(depth, &mut |text| {
        line(text);
        Ok(())
    })
}

//! Files of a database folder as text, for people and for golden tests: one door to the `dump` that
//! stands beside each format.

use crate::blob::format::Link;
use crate::blob::reader::BlobFile;
use crate::error::{Error, Result};
use crate::ids::{FileNo, SegmentId};
use crate::manifest::load;
use crate::names::{self, FileKind};
use crate::sstable::dump::Detail;
use crate::sstable::reader::{BlockCache, TableFile};
use crate::vfs::api::{Access, Vfs};
use crate::vfs::os::OsVfs;
use crate::wal::reader;
use std::path::Path;
use std::sync::Arc;

/// How much of a table file or a blob file is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Its sections and properties.
    Sections,
    /// Also a line per block.
    Blocks,
    /// Also a line per row, or per value.
    Rows,
}

/// Gives `line` the text of a file of a database: a log segment, a table file, a blob file, or for any copy of
/// root or manifest the whole manifest. Reads only; safe beside a process that writes.
///
/// Errors: `Invalid` where the name is not one of ours; `Corrupt` where the file cannot be read far
/// enough to tell anything; `Io`.
pub fn dump(file: &Path, depth: Depth, line: &mut dyn FnMut(&str)) -> Result<()> {
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
    let dir = match file.parent() {
        Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
        Some(dir) => dir,
        None => Path::new("."),
    };
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
        Some((meta, state.uses().ok()?.get(&no).copied()?))
    });
    let (meta, used) = named.ok_or_else(|| {
        Error::invalid(format!("the manifest names no blob file {}", path.display()))
    })?;
    let file = vfs.open(&path, Access::Read).map_err(|e| Error::io("open blob file", &path, e))?;
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
    let file = vfs.open(&path, Access::Read).map_err(|e| Error::io("open table file", &path, e))?;
    let table = TableFile::open(file, path, &meta, Arc::new(BlockCache::new(0)))?;
    let detail = match depth {
        Depth::Sections => Detail::Sections,
        Depth::Blocks => Detail::Blocks,
        Depth::Rows => Detail::Rows,
    };
    table.dump(detail, &mut |text| {
        line(text);
        Ok(())
    })
}

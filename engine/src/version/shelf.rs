//! Where the files of one database lie: what making and opening one takes, and which ones to
//! delete.

use crate::blob::format::BlobMeta;
use crate::blob::reader::BlobFile;
use crate::cache::Cache;
use crate::errands::Errands;
use crate::error::{Error, Result};
use crate::folder;
use crate::ids::FileNo;
use crate::names::{self, FileKind, FileName};
use crate::pool::Pool;
use crate::sstable::builder::TableBuilder;
use crate::sstable::format::{FileMeta, TableOptions};
use crate::sstable::reader::TableFile;
use crate::sync::ArcSwap;
use crate::sync::Mutex;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::vfs::api::{Access, File, Vfs};
use crate::zone::{Declared, Extract};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What making and opening table files and blob files takes, and where the names of files to delete
/// go.
#[derive(Debug)]
pub(crate) struct Shelf {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: PathBuf,
    pub(crate) pool: Arc<Pool>,
    pub(crate) errands: Arc<Errands>,
    /// Table files that are open for a while, as there is no room for all; each at offset 0.
    pub(crate) passing: Cache<TableFile>,
    /// Blob files that are open for a while, as many are; the same way.
    pub(crate) passing_blobs: Cache<BlobFile>,
    /// What the zones of new table files are taken by; nothing until someone knows.
    pub(crate) extract: OnceLock<Arc<dyn Extract>>,
    /// The columns that tables have declared, for new table files.
    pub(crate) declared: ArcSwap<Declared>,
    /// Whether table files are read in place: see [`Advanced::mapped`](crate::options::Advanced).
    pub(crate) mapped: bool,
    /// Files that somebody else may delete before they are read.
    held: Mutex<HashMap<FileName, Arc<dyn File>>>,
    trash: Mutex<Vec<FileName>>,
    /// Files that no Version to come has, and that somebody still reads; and their bytes.
    left_behind: (AtomicUsize, AtomicU64),
}

/// A table file and the blob files beside it, none of them in a Version yet.
#[derive(Clone, Debug)]
pub(crate) struct NewFiles {
    pub(crate) table: FileMeta,
    pub(crate) blobs: Vec<BlobMeta>,
}

impl NewFiles {
    /// Gives them up.
    pub(crate) fn discard(&self, shelf: &Shelf) {
        shelf.give_up([self.table.no], self.blobs.iter().map(|blob| blob.no));
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.table.bytes + self.blobs.iter().map(|blob| blob.bytes).sum::<u64>()
    }
}

impl Shelf {
    pub(crate) fn new(
        vfs: Arc<dyn Vfs>,
        dir: PathBuf,
        pool: Arc<Pool>,
        mapped: bool,
    ) -> Arc<Shelf> {
        let (extract, held, trash) = (OnceLock::new(), Mutex::default(), Mutex::default());
        let (errands, declared) = (Arc::clone(&pool.errands), ArcSwap::default());
        let passing = Cache::undivided(pool.budget.passing());
        let passing_blobs = Cache::undivided(pool.budget.passing_blobs());
        let left_behind = Default::default();
        Arc::new(Shelf {
            vfs,
            dir,
            pool,
            errands,
            passing,
            passing_blobs,
            extract,
            declared,
            mapped,
            held,
            trash,
            left_behind,
        })
    }

    pub(crate) fn table_path(&self, no: FileNo) -> PathBuf {
        names::path(&self.dir, FileKind::Table, no)
    }

    pub(crate) fn blob_path(&self, no: FileNo) -> PathBuf {
        names::path(&self.dir, FileKind::Blob, no)
    }

    /// Makes an empty table file.
    pub(crate) fn create_table_file(
        &self,
        no: FileNo,
        options: &TableOptions,
    ) -> Result<TableBuilder> {
        let path = self.table_path(no);
        let file =
            self.vfs.create(&path).map_err(|e| Error::io("making a table file", &path, e))?;
        let builder = TableBuilder::new(file, &path, no, options.clone());
        Ok(builder.with_zones(self.extract.get().cloned(), self.declared.load_full()))
    }

    /// Makes the names of new files durable.
    pub(crate) fn sync_names(&self) -> Result<()> {
        if crate::planted!("B08") {
            return Ok(()); // Planted: the manifest names files whose names a power loss may take.
        }
        folder::sync(&*self.vfs, &self.dir)
    }

    /// Opens a table file or a blob file, which is at `path`, for reading; one that is held needs
    /// no name.
    pub(crate) fn open(&self, name: FileName, path: &Path) -> io::Result<Arc<dyn File>> {
        let held = self.held.lock().get(&name).cloned();
        held.map_or_else(|| self.vfs.open(path, Access::Read), Ok)
    }

    /// Holds files open from now on, as many as may be open, in place of those that were held;
    /// returns those that have no name any more. What else fails is told to whoever reads the file.
    pub(crate) fn hold(&self, files: impl Iterator<Item = FileName>) -> Vec<FileName> {
        self.held.lock().clear(); // Else twice as many are open.
        let (mut held, mut gone) = (HashMap::new(), Vec::new());
        for name in files.take(self.pool.budget.open_files) {
            match self.vfs.open(&names::path(&self.dir, name.0, name.1), Access::Read) {
                Ok(file) => drop(held.insert(name, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => gone.push(name),
                Err(_) => {}
            }
        }
        *self.held.lock() = held;
        gone
    }

    /// A file of `bytes` is in no Version to come: it stays until its last reader lets go of it.
    pub(crate) fn leave_behind(&self, bytes: u64) {
        self.left_behind.0.fetch_add(1, Ordering::Relaxed);
        self.left_behind.1.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Its last reader has let go of it: it can be deleted.
    pub(crate) fn let_go(&self, kind: FileKind, no: FileNo, bytes: u64) {
        self.left_behind.0.fetch_sub(1, Ordering::Relaxed);
        self.left_behind.1.fetch_sub(bytes, Ordering::Relaxed);
        self.put_trash(kind, no);
    }

    /// How many files there are because somebody still reads them, and their bytes.
    pub(crate) fn left_behind(&self) -> (usize, u64) {
        let (files, bytes) = &self.left_behind;
        (files.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    /// The files that no Version holds any more, each given out once.
    pub(crate) fn take_trash(&self) -> Vec<FileName> {
        std::mem::take(&mut self.trash.lock())
    }

    /// Gives up files that never entered a Version: they can be deleted.
    pub(crate) fn give_up(
        &self,
        tables: impl IntoIterator<Item = FileNo>,
        blobs: impl IntoIterator<Item = FileNo>,
    ) {
        let tables = tables.into_iter().map(|no| (FileKind::Table, no));
        let blobs = blobs.into_iter().map(|no| (FileKind::Blob, no));
        self.trash.lock().extend(tables.chain(blobs));
    }

    /// Puts a file back that could not be deleted, or one that never entered a Version.
    pub(crate) fn put_trash(&self, kind: FileKind, no: FileNo) {
        self.trash.lock().push((kind, no));
    }
}

//! The blob files of a Version: which there are, how much of each is live, and their values.

use crate::blob::format::{BlobMeta, Link, Use, Uses};
use crate::blob::gc;
use crate::blob::reader::BlobFile;
use crate::cache::BlockPlace;
use crate::error::{Error, Kind, Result};
use crate::ids::FileNo;
use crate::names::FileKind;
use crate::options::Reach;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, OnceLock};
use crate::version::shelf::Shelf;
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A blob file of some Version. Opened at its first use, for good where few enough are and for a
/// while otherwise; thrown away when no table file refers to it and the last reader is gone.
pub(crate) struct LiveBlob {
    pub(crate) meta: Arc<BlobMeta>,
    shelf: Arc<Shelf>,
    file: OnceLock<Arc<BlobFile>>,
    dropped: AtomicBool,
    unreadable: Mutex<Option<String>>,
}

impl LiveBlob {
    fn new(meta: &Arc<BlobMeta>, shelf: &Arc<Shelf>) -> Arc<LiveBlob> {
        let (meta, shelf) = (Arc::clone(meta), Arc::clone(shelf));
        let (file, dropped) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(LiveBlob { meta, shelf, file, dropped, unreadable: Mutex::default() })
    }

    /// Takes note of why a merge could not read a value of it, so that merges leave its values
    /// where they are; or that one may try again.
    pub(crate) fn set_unreadable(&self, why: Option<&Error>) {
        *self.unreadable.lock() = why.map(Error::to_string);
    }

    /// Why a merge could not read a value of it.
    pub(crate) fn unreadable(&self) -> Option<String> {
        self.unreadable.lock().clone()
    }

    /// The open file. Cost: the first call opens it; where more files are open than may stay so,
    /// each call may.
    pub(crate) fn file(&self) -> Result<Cow<'_, Arc<BlobFile>>> {
        self.file_if_open().map_or_else(|| self.open(), Ok)
    }

    fn open(&self) -> Result<Cow<'_, Arc<BlobFile>>> {
        let path = self.shelf.blob_path(self.meta.no);
        let file = self.shelf.open((FileKind::Blob, self.meta.no), &path);
        let file = file.map_err(|e| Error::io("opening a blob file", &path, e))?;
        let file = BlobFile::open(file, path, &self.meta)?;
        let file = Arc::new(if self.shelf.mapped { file.in_place() } else { file });
        if !self.shelf.pool.blob_opened() {
            return Ok(Cow::Owned(self.shelf.passing_blobs.insert(self.place(), file, 1)));
        }
        if self.file.set(file).is_err() {
            self.shelf.pool.blob_closed(); // Another thread was first.
        }
        self.file.get().map(Cow::Borrowed).ok_or_else(no_such_blob)
    }

    /// Where the shelf has it while it is open for a while.
    fn place(&self) -> BlockPlace {
        BlockPlace { file: self.meta.no, offset: 0 }
    }

    /// The value, where the cache has it: that takes no open file.
    fn cached(&self, link: &Link) -> Option<Bytes> {
        let place = BlockPlace { file: link.file, offset: link.offset };
        self.shelf.pool.blocks.get_value(place)
    }

    fn file_if_open(&self) -> Option<Cow<'_, Arc<BlobFile>>> {
        let stays = self.file.get().map(Cow::Borrowed);
        stays.or_else(|| self.shelf.passing_blobs.get(self.place()).map(Cow::Owned))
    }
}

impl Drop for LiveBlob {
    fn drop(&mut self) {
        if self.file.get().is_some() {
            self.shelf.pool.blob_closed();
        }
        if self.dropped.load(Ordering::Relaxed) {
            self.shelf.let_go(FileKind::Blob, self.meta.no, self.meta.bytes);
        }
    }
}

impl fmt::Debug for LiveBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blob {}({} bytes)", self.meta.no, self.meta.bytes)
    }
}

/// The blob files that the table files of one Version refer to; what an edit leaves alone is
/// shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blobs(Arc<BTreeMap<FileNo, (Arc<LiveBlob>, Use)>>);

impl Blobs {
    /// Those after an edit that adds `added` and changes what is used of the files `touched` to
    /// what `uses` says. Files that stay keep their open handles; those that nothing refers to any
    /// more are thrown away when their last reader goes.
    pub(crate) fn after(
        &self,
        touched: BTreeSet<FileNo>,
        added: &[Arc<BlobMeta>],
        uses: &Uses,
        shelf: &Arc<Shelf>,
    ) -> Blobs {
        let mut blobs = Arc::clone(&self.0);
        if touched.is_empty() && added.is_empty() {
            return Blobs(blobs);
        }
        let all = Arc::make_mut(&mut blobs);
        all.extend(
            added.iter().map(|meta| (meta.no, (LiveBlob::new(meta, shelf), Use::default()))),
        );
        for no in touched {
            match (uses.get(&no), all.get_mut(&no)) {
                (Some(used), Some((_, of_blob))) => *of_blob = *used,
                (None, Some((blob, _))) => {
                    blob.dropped.store(true, Ordering::Relaxed);
                    shelf.leave_behind(blob.meta.bytes);
                    all.remove(&no);
                }
                (_, None) => {}
            }
        }
        Blobs(blobs)
    }

    /// The value that a reference in a row of one of the Version's files stands for.
    pub(crate) fn value(&self, link: &[u8], reach: Reach) -> Result<Bytes> {
        let (link, blob) = self.find(link)?;
        let file = match blob.file_if_open() {
            Some(file) => file,
            None => match blob.cached(&link) {
                Some(value) => return Ok(value),
                None if reach == Reach::Memory => {
                    return Err(Error::new(Kind::WouldBlock, "the blob file is not open"));
                }
                None => blob.open()?,
            },
        };
        file.value(&link, &*blob.shelf.pool.blocks, reach)
    }

    /// Has the disk begin to read the value that a reference stands for. Who reads it is told what
    /// fails.
    pub(crate) fn begin_value(&self, link: &[u8]) {
        if let Ok((link, blob)) = self.find(link)
            && (blob.file_if_open().is_some() || blob.cached(&link).is_none())
            && let Ok(file) = blob.file()
        {
            file.begin_value(&link, &*blob.shelf.pool.blocks);
        }
    }

    /// A reference, read, and the blob file that it names.
    pub(crate) fn find(&self, link: &[u8]) -> Result<(Link, &LiveBlob)> {
        let link = Link::read(link).ok_or_else(no_such_blob)?;
        let (blob, _) = self.0.get(&link.file).ok_or_else(no_such_blob)?;
        Ok((link, blob))
    }

    /// Every blob file with what is live of it, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<LiveBlob>, Use)> {
        self.0.values().map(|(blob, used)| (blob, *used))
    }

    /// The numbers of those whose live values are to be written anew. None that a merge could
    /// not read: the rest of its values is as safe where it is.
    pub(crate) fn worn(&self, dead_percent: u32) -> Vec<FileNo> {
        let worn = self.iter().filter(|(blob, used)| gc::is_worn(&blob.meta, *used, dead_percent));
        let worn = worn.filter(|(blob, _)| blob.unreadable.lock().is_none());
        worn.map(|(blob, _)| blob.meta.no).collect()
    }
}

/// The block's checksum held and the manifest vouched for the file, so this is not bad luck.
fn no_such_blob() -> Error {
    Error::new(Kind::Corrupt, "a row refers to a blob file that is not there")
}

//! Reads values of a blob file: one by its reference, or all of them to prove the file.
//!
//! Promise: a value is given only if its checksum agrees with the reference that asked for it. Cost
//! of a value: one read of exactly its bytes into the buffer that is given out, unless the cache
//! has it; the file is not looked at otherwise. In a database that is read in place a value that is
//! not compressed is lent from the mapping, and its checksum verified once.

use crate::blob::format::{BlobMeta, FOOTER_LEN, HEAD_LEN, HEADER_LEN, Link, footer, header};
use crate::cache::{BlockPlace, Cache};
use crate::compress::{self, Codec};
use crate::error::{Error, Kind, Result};
use crate::options::Reach;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::vfs::api::File;
use bytes::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of bookkeeping per value, charged to the cache.
const OVERHEAD_BYTES: usize = 160;

/// How far a walk over a blob file has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walked {
    offset: u64,
    values: u64,
}

impl Walked {
    /// Bytes that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

/// An open blob file.
pub(crate) struct BlobFile {
    file: Arc<dyn File>,
    path: PathBuf,
    meta: BlobMeta,
    mapped: Option<Mapped>,
}

/// The mapping of a blob file, which is of the length that the manifest gives it.
struct Mapped {
    bytes: Bytes,
    /// Bytes of a page, some half of a value's.
    page_bytes: u64,
    /// For each page, the value that begins there and whose checksum held last: where it begins in
    /// the page, from 1, and its checksum. Where several begin in one, they take turns.
    proofs: Box<[AtomicU64]>,
}

/// Pages are no smaller: few values that are kept apart from their rows are.
const PAGE_BYTES_MIN: u64 = 4 << 10;

/// Nor larger: a place within one has 31 bits.
const PAGE_BYTES_MAX: u64 = 1 << 30;

impl Mapped {
    fn new(bytes: Bytes, values: u64) -> Mapped {
        let mean = bytes.len() as u64 / values.max(1);
        let page_bytes = (mean / 2 + 1).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX).next_power_of_two();
        let pages = (bytes.len() as u64).div_ceil(page_bytes);
        Mapped { bytes, page_bytes, proofs: (0..pages).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The page of a value, and what is kept of it once it is proved.
    fn proof(&self, link: &Link) -> (Option<&AtomicU64>, u64) {
        let (page, place) = (link.offset / self.page_bytes, link.offset % self.page_bytes);
        (self.proofs.get(page as usize), (place + 1) << 32 | u64::from(link.checksum))
    }

    fn is_proved(&self, link: &Link) -> bool {
        let (page, proof) = self.proof(link);
        page.is_some_and(|page| page.load(Relaxed) == proof)
    }

    fn note_proved(&self, link: &Link) {
        if let (Some(page), proof) = self.proof(link) {
            page.store(proof, Relaxed); // The bytes do not change.
        }
    }
}

impl BlobFile {
    /// Opens the file that the manifest means by `meta`; reads nothing of it yet.
    pub(crate) fn open(file: Arc<dyn File>, path: PathBuf, meta: &BlobMeta) -> Result<BlobFile> {
        let len = file.len().map_err(|e| Error::io("asking a blob file's length", &path, e))?;
        if len != meta.bytes {
            let what = format!("blob file has {len} bytes; the manifest says {}", meta.bytes);
            return Err(Error::corrupt(&path, len.min(meta.bytes), what));
        }
        Ok(BlobFile { file, path, meta: meta.clone(), mapped: None })
    }

    /// The same, read in place where the system maps files.
    pub(crate) fn in_place(self) -> BlobFile {
        // As long as it was when it was opened: the first read behind its end would end the
        // process.
        let whole = self.file.map().ok().filter(|bytes| bytes.len() as u64 == self.meta.bytes);
        let mapped = whole.map(|bytes| Mapped::new(bytes, self.meta.values));
        BlobFile { mapped, ..self }
    }

    /// The value that `link`, which names this file, stands for.
    ///
    /// Errors: [`Kind::WouldBlock`] where `reach` is memory and the cache does not have it, or
    /// where it is read in place and was not read before.
    pub(crate) fn value<B>(&self, link: &Link, cache: &Cache<B>, reach: Reach) -> Result<Bytes> {
        if let Some(mapped) = self.mapped.as_ref().filter(|_| link.codec == Codec::None) {
            return self.lend(mapped, link, reach);
        }
        let place = BlockPlace { file: link.file, offset: link.offset };
        if let Some(value) = cache.get_value(place) {
            return Ok(value);
        }
        if reach == Reach::Memory {
            return Err(Error::new(Kind::WouldBlock, "the value is not in the cache"));
        }
        let value = self.read(link)?;
        cache.insert_value(place, Bytes::clone(&value), value.len() + OVERHEAD_BYTES);
        Ok(value)
    }

    /// The same past the cache.
    pub(crate) fn read(&self, link: &Link) -> Result<Bytes> {
        let stored = self.stored(link)?;
        let raw = link.codec.decompress(stored, link.raw_len as usize);
        raw.map(Bytes::from).map_err(|what| compress::error_at(what, &self.path, link.offset))
    }

    /// Has the disk begin to read what [`BlobFile::value`] will ask it for.
    pub(crate) fn begin_value<B>(&self, link: &Link, cache: &Cache<B>) {
        let is_lent = self.mapped.is_some() && link.codec == Codec::None;
        let place = BlockPlace { file: link.file, offset: link.offset };
        if self.check_bounds(link).is_ok() && (is_lent || cache.get_value(place).is_none()) {
            self.file.begin_read(link.offset + HEAD_LEN, u64::from(link.stored_len));
        }
    }

    /// The value where the mapping has it.
    fn lend(&self, mapped: &Mapped, link: &Link, reach: Reach) -> Result<Bytes> {
        self.check_bounds(link)?;
        let start = (link.offset + HEAD_LEN) as usize;
        let value = start..start + link.stored_len as usize;
        if !mapped.is_proved(link) {
            if reach == Reach::Memory {
                return Err(Error::new(Kind::WouldBlock, "the value was not read before"));
            }
            let stored = mapped.bytes.get(value.clone()).unwrap_or_default();
            if link.checksum_of(stored) != link.checksum {
                return Err(self.corrupt(link.offset, "value's checksum does not agree"));
            }
            mapped.note_proved(link);
        }
        Ok(mapped.bytes.slice(value))
    }

    fn check_bounds(&self, link: &Link) -> Result<()> {
        if link.offset < HEADER_LEN || link.end() > self.meta.bytes.saturating_sub(FOOTER_LEN) {
            return Err(self.corrupt(link.offset, "reference beyond the values of the blob file"));
        }
        Ok(())
    }

    /// The bytes of the value as they are stored, checked.
    pub(crate) fn stored(&self, link: &Link) -> Result<Vec<u8>> {
        self.check_bounds(link)?;
        let stored = self.bytes(link.offset + HEAD_LEN, u64::from(link.stored_len))?;
        if link.checksum_of(&stored) != link.checksum {
            return Err(self.corrupt(link.offset, "value's checksum does not agree"));
        }
        Ok(stored)
    }

    /// Proves that the head of the value that `link` stands for lies there; the value is not read.
    pub(crate) fn check_head(&self, link: &Link) -> Result<()> {
        self.check_bounds(link)?;
        match self.bytes(link.offset, HEAD_LEN)? == link.head() {
            true => Ok(()),
            false => Err(self.corrupt(link.offset, "a row refers to what is no value")),
        }
    }

    /// Reads the whole file and gives `each` value's reference in the order of the file. Of values
    /// whose codec this build lacks it proves no more than their checksums.
    ///
    /// Errors: the first damage, or what `each` returned.
    pub(crate) fn walk(&self, each: &mut dyn FnMut(&Link) -> Result<()>) -> Result<()> {
        self.walk_on(&mut Walked::default(), u64::MAX, each).map(|_| ())
    }

    /// The same from where an earlier call ended, and no further than to the first value behind
    /// `bytes_max` bytes; whether that was all of the file.
    pub(crate) fn walk_on(
        &self,
        walked: &mut Walked,
        bytes_max: u64,
        each: &mut dyn FnMut(&Link) -> Result<()>,
    ) -> Result<bool> {
        if walked.offset == 0 && self.bytes(0, HEADER_LEN)? != header(self.meta.no) {
            return Err(self.corrupt(0, "header is not that of this blob file"));
        }
        let end = HEADER_LEN + self.meta.value_bytes();
        let Walked { offset, values } = walked;
        *offset = (*offset).max(HEADER_LEN);
        let stop = offset.saturating_add(bytes_max);
        while *offset < end {
            if *offset >= stop {
                return Ok(false);
            }
            let head = self.bytes(*offset, HEAD_LEN.min(end - *offset))?;
            let link = Link::of_head(self.meta.no, *offset, &head);
            let link = link.ok_or_else(|| self.corrupt(*offset, "value without a head"))?;
            match link.codec.is_lacking() {
                true => drop(self.stored(&link)?),
                false => drop(self.read(&link)?),
            }
            each(&link)?;
            (*offset, *values) = (link.end(), *values + 1);
        }
        if *values != self.meta.values || self.bytes(end, FOOTER_LEN)? != footer(&self.meta) {
            return Err(self.corrupt(end, "footer does not agree with the values"));
        }
        Ok(true)
    }

    /// An error at `offset` of this file.
    pub(crate) fn corrupt(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(&self.path, offset, what)
    }

    /// The file's path, for errors.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes at `offset`, which must lie in the file as its length says.
    fn bytes(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        match self.file.read_vec_at(len as usize, offset) {
            Ok(bytes) => Ok(bytes),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.corrupt(offset, "blob file ends early"))
            }
            Err(e) => Err(Error::io("reading a blob file", &self.path, e)),
        }
    }
}

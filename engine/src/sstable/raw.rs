//! The bytes of a table file: read, held against their checksums, and parsed section by section or
//! block by block.
//!
//! Absent: caches, and what is kept in memory; see `reader`.

use crate::error::{Error, Result};
use crate::ids::FileNo;
use crate::sstable::block::{Block, Unpack};
use crate::sstable::filter::Filter;
use crate::sstable::format::{FOOTER_LEN, Footer, Props, Stretch, unseal};
use crate::sstable::index::{Handle, Index};
use crate::sstable::piece::Piece;
use crate::sstable::zones::Zones;
use crate::vfs::api::File;
use bytes::Bytes;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A file of rows before anything is known of it but its number.
pub(super) struct RawFile {
    pub(super) file: Arc<dyn File>,
    pub(super) path: PathBuf,
    pub(super) no: FileNo,
    /// Added to every timestamp in the file: that of the ingest whose rows these are, else 0.
    pub(super) ts_base: u64,
}

impl RawFile {
    pub(super) fn len(&self) -> Result<u64> {
        self.file.len().map_err(|e| Error::io("asking a table file's length", &self.path, e))
    }

    /// Footer and properties of a file of `len` bytes.
    pub(super) fn read_ends(&self, len: u64) -> Result<(Footer, Props)> {
        let Some(footer_at) = len.checked_sub(FOOTER_LEN as u64) else {
            return Err(Error::corrupt(&self.path, 0, "table file is shorter than its footer"));
        };
        let bytes = self.read(Stretch { offset: footer_at, len: FOOTER_LEN as u64 })?;
        let footer = Footer::decode(self.no, footer_at, &bytes);
        let footer = footer.map_err(|damage| damage.at(&self.path, footer_at))?;
        let props = self.read_section(footer.props())?;
        let props = Props::decode(&props);
        let props = props.map_err(|damage| damage.at(&self.path, footer.props().offset))?;
        Ok((footer, props))
    }

    pub(super) fn read_index(&self, footer: &Footer) -> Result<Index> {
        let stretch = footer.index();
        let index = Index::parse(&self.read_section(stretch)?, footer.data_len);
        index.map_err(|damage| damage.at(&self.path, stretch.offset))
    }

    pub(super) fn read_filter(&self, stretch: Stretch) -> Result<Option<Filter>> {
        if stretch.len == 0 {
            return Ok(None);
        }
        let filter = Filter::decode(&self.read_section(stretch)?);
        filter.map(Some).map_err(|damage| damage.at(&self.path, stretch.offset))
    }

    pub(super) fn read_zones(&self, stretch: Stretch, blocks: u64) -> Result<Option<Zones>> {
        if stretch.len == 0 {
            return Ok(None);
        }
        let mut zones = Zones::decode(&self.read_section(stretch)?, blocks)
            .map_err(|damage| damage.at(&self.path, stretch.offset))?;
        for (oldest, newest) in &mut zones.times {
            oldest.0 = oldest.0.saturating_add(self.ts_base);
            newest.0 = newest.0.saturating_add(self.ts_base);
        }
        Ok(Some(zones))
    }

    /// The data block at `handle`, from the file.
    pub(super) fn read_block(&self, handle: Handle, unpack: Unpack) -> Result<Block> {
        let mut sealed = Piece::of(handle.len as usize);
        self.read_to(&mut sealed, handle.offset)?;
        self.parse_block(handle, &sealed, unpack)
    }

    /// The data block whose bytes at `handle` are `sealed`.
    pub(super) fn parse_block(
        &self,
        handle: Handle,
        sealed: &[u8],
        unpack: Unpack,
    ) -> Result<Block> {
        let body = unseal(self.no, handle.offset, sealed);
        body.and_then(|body| Block::copy_data(body, unpack))
            .map(|block| block.dated(self.ts_base))
            .map_err(|damage| damage.at(&self.path, handle.offset))
    }

    pub(super) fn read_section(&self, stretch: Stretch) -> Result<Bytes> {
        let sealed = Bytes::from(self.read(stretch)?);
        let body_len = unseal(self.no, stretch.offset, &sealed).map(<[u8]>::len);
        let body_len = body_len.map_err(|damage| damage.at(&self.path, stretch.offset))?;
        Ok(sealed.slice(..body_len))
    }

    /// The bytes of a stretch, which must lie in the file as its footer or length says.
    pub(super) fn read(&self, stretch: Stretch) -> Result<Vec<u8>> {
        let bytes = self.file.read_vec_at(stretch.len as usize, stretch.offset);
        bytes.map_err(|error| self.read_failed(stretch.offset, error))
    }

    /// As [`RawFile::read`], into a buffer that is used again.
    pub(super) fn read_into(&self, stretch: Stretch, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.resize(stretch.len as usize, 0);
        self.read_to(bytes, stretch.offset)
    }

    /// Fills `bytes` from `offset` on.
    pub(super) fn read_to(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|error| self.read_failed(offset, error))
    }

    fn read_failed(&self, offset: u64, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::corrupt(&self.path, offset, "table file ends early")
            }
            _ => Error::io("reading a table file", &self.path, error),
        }
    }
}

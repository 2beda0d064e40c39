//! A table file read in place: its blocks are searched where the mapping has them, past the cache
//! and without a copy.
//!
//! A block is proved, checksum and all, when it is first used or ahead of a long walk; one byte per
//! block remembers that, and what a walk wants to know of it. From then on only its header is read
//! again, to see where the columns lie: 15 ns, where an object per block would cost more than that
//! in cache misses.
//! Blocks whose values are compressed are left to the cache.
//!
//! Promise: bytes that change after their proof give an error or a wrong row, never a panic.

use crate::compress::Codec;
use crate::cursor::{Direction, Found};
use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::options::Reach;
use crate::prefetch;
use crate::sstable::check::{self, Facts};
use crate::sstable::format::{Damage, SUM_LEN, unseal};
use crate::sstable::index::Handle;
use crate::sstable::layout::{Columns, Layout};
use crate::sstable::raw::RawFile;
use crate::sync::atomic::{AtomicU8, Ordering::Relaxed};
use bytes::Bytes;

/// Bytes of a block that are fetched before it is read: its header and columns, for some 16 rows.
const COLUMNS_FETCHED: usize = 384;

/// What is known of a block.
const PROVED: u8 = 1;
const ALL_PUTS: u8 = 2;
const DISTINCT: u8 = 4;
const PACKED: u8 = 8;

/// The mapping of a table file.
pub(super) struct Mapped {
    bytes: Bytes,
    proofs: Box<[AtomicU8]>, // Per block; 0: not proved yet.
    newest: CommitTs,
}

/// A proved block of a mapping.
pub(super) struct InPlace<'a> {
    mapping: &'a Bytes,
    body: &'a [u8],
    start: usize, // Of the body in the mapping.
    pub(super) layout: Layout,
    pub(super) facts: Facts,
}

impl Mapped {
    /// `bytes`: a whole file of `blocks` blocks of data, with no timestamp above `newest`.
    pub(super) fn new(bytes: Bytes, blocks: usize, newest: CommitTs) -> Mapped {
        Mapped { bytes, proofs: (0..blocks).map(|_| AtomicU8::new(0)).collect(), newest }
    }

    /// Bytes of memory it takes beside the mapping.
    pub(super) fn resident_bytes(&self) -> usize {
        self.proofs.len()
    }

    /// The `number`-th block, which lies at `handle`; `None` where its values are compressed.
    ///
    /// Errors: [`Kind::WouldBlock`] where `reach` is memory and the block was never used: it is
    /// probably on the disk alone.
    pub(super) fn block(
        &self,
        raw: &RawFile,
        number: usize,
        handle: Handle,
        reach: Reach,
    ) -> Result<Option<InPlace<'_>>> {
        let Some(slot) = self.proofs.get(number) else { return Ok(None) };
        let mut proof = slot.load(Relaxed);
        if proof == 0 {
            if reach == Reach::Memory {
                return Err(Error::new(Kind::WouldBlock, "the block was not read before"));
            }
            proof =
                self.prove(raw, handle).map_err(|damage| damage.at(&raw.path, handle.offset))?;
            slot.store(proof, Relaxed); // Of bytes that do not change: there is nothing to order.
        }
        if proof & PACKED != 0 {
            return Ok(None);
        }
        let (start, sealed) = self.sealed(handle);
        let body = sealed.split_last_chunk::<SUM_LEN>().map_or(sealed, |(body, _)| body);
        let layout = Layout::read(body).and_then(|layout| match layout.codec {
            Codec::None => Ok(layout),
            _ => Err(Damage("block changed after it was proved")),
        });
        let mut layout = layout.map_err(|damage| damage.at(&raw.path, handle.offset))?;
        layout.date(raw.ts_base);
        let facts = Facts {
            all_puts: proof & ALL_PUTS != 0,
            distinct: proof & DISTINCT != 0,
            max_ts: self.newest,
        };
        Ok(Some(InPlace { mapping: &self.bytes, body, start, layout, facts }))
    }

    /// Whether the `number`-th block is proved.
    pub(super) fn is_proved(&self, number: usize) -> bool {
        self.proofs.get(number).is_none_or(|proof| proof.load(Relaxed) != 0)
    }

    /// The bytes of a block with its checksum, for those that are not read in place.
    pub(super) fn stretch(&self, handle: Handle) -> Option<Bytes> {
        let (start, sealed) = self.sealed(handle);
        (!sealed.is_empty()).then(|| self.bytes.slice(start..start + sealed.len()))
    }

    /// Starts fetching the columns of the block at `handle`, where a walk `begins` there, and of
    /// the one that it comes to next.
    pub(super) fn prefetch(&self, handle: Handle, direction: Direction, begins: bool) {
        let (start, len) = (handle.offset as usize, handle.len as usize);
        let next = match direction {
            Direction::Up => start.saturating_add(len),
            Direction::Down => start.saturating_sub(len), // Most blocks are about as long.
        };
        for at in [Some(next), begins.then_some(start)].into_iter().flatten() {
            let stretch = self.bytes.get(at..).unwrap_or_default();
            if let Some(first) = stretch.first() {
                prefetch::read_from(first, COLUMNS_FETCHED.min(stretch.len()));
            }
        }
    }

    fn sealed(&self, handle: Handle) -> (usize, &[u8]) {
        let start = handle.offset as usize;
        let end = start.saturating_add(handle.len as usize);
        (start, self.bytes.get(start..end).unwrap_or_default())
    }

    fn prove(&self, raw: &RawFile, handle: Handle) -> std::result::Result<u8, Damage> {
        let body = unseal(raw.no, handle.offset, self.sealed(handle).1)?;
        let layout = Layout::read(body)?;
        if layout.codec != Codec::None {
            return Ok(PROVED | PACKED);
        }
        if !layout.fingerprints {
            return Err(Damage("data block without fingerprints"));
        }
        let facts = check::check(&Columns { bytes: &body[..layout.keys_len()], layout: &layout })?;
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        Ok(PROVED | bit(facts.all_puts, ALL_PUTS) | bit(facts.distinct, DISTINCT))
    }
}

impl InPlace<'_> {
    /// The newest version of `key` that is not newer than `at`: see [`Columns::find`].
    pub(super) fn find(
        &self,
        key: &[u8],
        print: u8,
        at: CommitTs,
    ) -> std::result::Result<Option<Found>, Damage> {
        let columns = self.columns();
        let Some(row) = columns.find(key, print, at) else { return Ok(None) };
        let range = columns.value_range(row);
        let (keys_len, values_len) = (self.layout.keys_len(), self.layout.values_len);
        if range.start > range.end || range.end > values_len {
            return Err(Damage("row's value lies outside"));
        }
        let start = self.start + keys_len;
        let value = self.mapping.slice(start + range.start..start + range.end);
        Ok(Some(Found { ts: columns.ts(row), kind: columns.kind(row), value }))
    }

    /// The block's bytes, to be kept.
    pub(super) fn bytes(&self) -> Bytes {
        self.mapping.slice(self.start..self.start + self.body.len())
    }

    fn columns(&self) -> Columns<'_> {
        let bytes = self.body.get(..self.layout.keys_len()).unwrap_or_default();
        Columns { bytes, layout: &self.layout }
    }
}

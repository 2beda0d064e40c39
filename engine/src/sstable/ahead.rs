//! Reading ahead of a walk over a file: a long walk takes few, large reads and leaves in the cache
//! what others use.
//!
//! A walk that finds its third block in a row missing reads 32 KiB at once, then twice as much each
//! time, up to 512 KiB: a short scan reads nothing in vain, a long one costs a call to the system
//! per hundred blocks. Its blocks go to the cache like everybody's until it has missed 1 MiB; from
//! then on only where the cache has room, so that it pushes nothing out.
//!
//! Absent: asking the system to read in the background; it does so by itself for a walk upwards.

use super::block::Block;
use super::format::Stretch;
use super::index::Handle;
use super::reader::TableFile;
use crate::error::Result;
use bytes::Bytes;
use std::sync::Arc;

/// Blocks that a walk misses one after the other before it reads ahead.
const MISSES_BEFORE: u32 = 2;

/// Bytes read at a time: at first, and at most.
const AHEAD_BYTES_MIN: u64 = 32 << 10;
const AHEAD_BYTES_MAX: u64 = 512 << 10;

/// Bytes of missed blocks after which a walk pushes nothing out of the cache any more.
const LONG_WALK_BYTES: u64 = 1 << 20;

/// How a walk has gone so far; passed on from file to file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    misses_in_row: u32,
    ahead_bytes: u64,
    missed_bytes: u64,
}

/// What a walk over one file has read and not yet used.
#[derive(Default)]
pub(crate) struct Ahead {
    pace: Pace,
    /// The block missed last.
    last: Option<Handle>,
    /// Bytes of the file from `offset`.
    bytes: Bytes,
    offset: u64,
}

impl Ahead {
    /// Goes on as a walk over another file went.
    pub(crate) fn at_pace(pace: Pace) -> Ahead {
        Ahead { pace, ..Ahead::default() }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// The block at `handle`, from the cache, from what was read ahead, or from the file.
    pub(crate) fn block(&mut self, file: &TableFile, handle: Handle) -> Result<Arc<Block>> {
        if let Some(block) = file.cached(handle) {
            return Ok(block);
        }
        let sealed = match file.sealed_in_place(handle).or_else(|| self.held(handle)) {
            Some(sealed) => sealed,
            None => self.read(file, handle)?,
        };
        self.last = Some(handle);
        let block = Arc::new(file.raw().parse_block(handle, sealed)?);
        self.pace.missed_bytes += u64::from(handle.len);
        Ok(file.keep(handle, block, self.pace.missed_bytes <= LONG_WALK_BYTES))
    }

    /// The block's bytes, where they were read ahead. Copied, so that a value that is kept does not
    /// keep the whole stretch.
    fn held(&self, handle: Handle) -> Option<Bytes> {
        let start = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(handle.len as usize)?;
        self.bytes.get(start..end).map(Bytes::copy_from_slice)
    }

    /// Reads the block, and what lies beyond it where the walk has come a while.
    fn read(&mut self, file: &TableFile, handle: Handle) -> Result<Bytes> {
        let (start, end) = (handle.offset, handle.offset + u64::from(handle.len));
        let upwards = self.last.is_none_or(|last| last.offset <= start);
        let beside = self.last.is_some_and(|last| {
            let last_end = last.offset + u64::from(last.len);
            // Blocks between the two came from the cache; a few of them do not end a walk.
            start.abs_diff(last_end).min(end.abs_diff(last.offset)) <= AHEAD_BYTES_MIN
        });
        let pace = &mut self.pace;
        pace.misses_in_row = if beside || self.last.is_none() { pace.misses_in_row + 1 } else { 1 };
        if pace.misses_in_row <= MISSES_BEFORE {
            pace.ahead_bytes = 0;
            let stretch = Stretch { offset: start, len: end - start };
            return Ok(Bytes::from(file.raw().read(stretch)?));
        }
        pace.ahead_bytes = (pace.ahead_bytes * 2).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
        let len = pace.ahead_bytes.max(end - start);
        let (from, to) = match upwards {
            true => (start, (start + len).min(file.footer().data_len)),
            false => (end.saturating_sub(len), end),
        };
        match file.raw().read(Stretch { offset: from, len: to - from }) {
            Ok(bytes) => (self.bytes, self.offset) = (Bytes::from(bytes), from),
            // What nobody asked for yet may be at fault.
            Err(_) => {
                let stretch = Stretch { offset: start, len: end - start };
                (self.bytes, self.offset) = (Bytes::from(file.raw().read(stretch)?), start);
            }
        }
        // What was read begins or ends with the block.
        Ok(self.held(handle).unwrap_or_default())
    }
}

//! Reading ahead of a walk over a file: it takes few reads, and a long one leaves in the cache
//! what others use.
//!
//! A walk that misses a block reads 10 KiB from there: the system takes as long to find 2 KiB in
//! its memory as to copy 5 KiB more, and four compressed blocks are 50 rows of 200 bytes. Then it
//! reads twice as much each time, up to 512 KiB. Its blocks go to the cache like everybody's until
//! it has missed 1 MiB; from then on only where the cache has room, so that it pushes nothing out.
//! And from then on a thread loads what lies before it, see `upcoming`. What a walk holds of what
//! it will come to has a share of the memory: where others have all of it, one reads 64 KiB at a
//! time.
//!
//! Absent: asking the system to read in the background; it does so by itself for a walk upwards.

use crate::cursor::Direction;
use crate::error::Result;
use crate::sstable::block::{Block, Unpack};
use crate::sstable::index::{EntryAt, Handle};
use crate::sstable::piece::Piece;
use crate::sstable::reader::{TableFile, Walking};
use crate::sstable::upcoming::{BATCH_BYTES, Upcoming};
use std::sync::Arc;

/// Bytes read at a time: at first, and at most.
const AHEAD_BYTES_MIN: u64 = 10 << 10;
const AHEAD_BYTES_MAX: u64 = 512 << 10;

/// Bytes that a walk reads at a time which has no share of the memory for more.
const AHEAD_BYTES_UNCOUNTED: u64 = 64 << 10;

/// Two misses this far apart or nearer are of one walk: the blocks between them came from the
/// cache.
const BESIDE_BYTES: u64 = 32 << 10;

/// Bytes of missed blocks after which a walk pushes nothing out of the cache any more.
const LONG_WALK_BYTES: u64 = 1 << 20;

/// How a walk has gone so far; passed on from file to file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    ahead_bytes: u64,
    missed_bytes: u64,
}

/// What a walk over one file has read and not yet used.
#[derive(Default)]
pub(crate) struct Ahead {
    pace: Pace,
    /// The block missed last.
    last: Option<Handle>,
    /// Those of the file from `offset`.
    bytes: Piece,
    offset: u64,
    walking: Option<Walking>,
    upcoming: Upcoming,
}

impl Ahead {
    /// Goes on as a walk over another file went.
    pub(crate) fn at_pace(pace: Pace) -> Ahead {
        Ahead { pace, ..Ahead::default() }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// The block of `entry`, which a walk in `direction` has come to: from the cache, from what was
    /// read ahead, or from the file.
    pub(crate) fn block(
        &mut self,
        file: &Arc<TableFile>,
        entry: EntryAt,
        direction: Direction,
        unpack: Unpack,
    ) -> Result<Arc<Block>> {
        let handle = file.index().handle(entry);
        if let Some(block) = self.upcoming.next(file, handle, direction, unpack) {
            self.miss(handle);
            return Ok(block);
        }
        if let Some(block) = file.cached(handle) {
            return Ok(block);
        }
        let block = match file.sealed_in_place(handle) {
            Some(sealed) => file.raw().parse_block(handle, &sealed, unpack)?,
            None => {
                if self.held(handle).is_none() {
                    self.read(file, handle, direction)?;
                    if self.is_long(file) {
                        let held = self.offset..self.offset + self.bytes.len() as u64;
                        self.upcoming.begin(file, entry, direction, &held, unpack);
                    }
                }
                // What was read begins or ends with the block.
                file.raw().parse_block(handle, self.held(handle).unwrap_or_default(), unpack)?
            }
        };
        self.miss(handle);
        let block = Arc::new(block);
        match self.pace.missed_bytes <= LONG_WALK_BYTES {
            true => Ok(file.keep(handle, block)),
            false => Ok(file.keep_in_room(handle, block)),
        }
    }

    fn miss(&mut self, handle: Handle) {
        self.last = Some(handle);
        self.pace.missed_bytes += u64::from(handle.len);
    }

    /// Whether the walk goes on and on, and somebody is there to load for it.
    fn is_long(&self, file: &TableFile) -> bool {
        let Pace { ahead_bytes, missed_bytes } = self.pace;
        let is_long = ahead_bytes == AHEAD_BYTES_MAX && missed_bytes > LONG_WALK_BYTES;
        is_long && file.errands().is_some_and(|errands| errands.is_served())
    }

    /// The block's bytes, where they were read ahead.
    fn held(&self, handle: Handle) -> Option<&[u8]> {
        let start = usize::try_from(handle.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(handle.len as usize)?;
        self.bytes.get(start..end)
    }

    /// Reads the block and what lies beyond it.
    fn read(&mut self, file: &TableFile, handle: Handle, direction: Direction) -> Result<()> {
        let (start, end) = (handle.offset, handle.offset + u64::from(handle.len));
        let goes_on = self.last.is_none_or(|last| {
            let last_end = last.offset + u64::from(last.len);
            start.abs_diff(last_end).min(end.abs_diff(last.offset)) <= BESIDE_BYTES
        });
        let goes_on = goes_on && !self.upcoming.take_wasted();
        let ahead = if goes_on { self.pace.ahead_bytes * 2 } else { 0 };
        self.pace.ahead_bytes = ahead.clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
        if self.pace.ahead_bytes > AHEAD_BYTES_UNCOUNTED && self.walking.is_none() {
            self.walking = file.begin_walk();
            if self.walking.is_none() {
                self.pace.ahead_bytes = AHEAD_BYTES_UNCOUNTED;
            }
        }
        let len = if self.is_long(file) { BATCH_BYTES } else { self.pace.ahead_bytes };
        let len = len.max(end - start);
        let (from, to) = match direction {
            Direction::Up => (start, (start + len).min(file.footer().data_len)),
            Direction::Down => (end.saturating_sub(len), end),
        };
        // What nobody asked for yet may be at fault.
        self.fill(file, from, to).or_else(|_| self.fill(file, start, end))
    }

    fn fill(&mut self, file: &TableFile, from: u64, to: u64) -> Result<()> {
        self.bytes = Piece::default(); // Back before the next is taken: it may be the same one.
        let mut bytes = Piece::of(to.saturating_sub(from) as usize);
        file.raw().read_to(&mut bytes, from)?;
        (self.bytes, self.offset) = (bytes, from);
        Ok(())
    }
}

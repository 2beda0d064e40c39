//! The blocks of a table file that is being written, made by two: whoever writes the file, and the
//! thread of `errands`. Half of what a row costs on its way into a file is the encoding and
//! compressing of its block, which nothing before or behind it has to wait for.
//!
//! The writer gathers rows into blocks, a few blocks into a sheaf, and hands sheaves over; it takes
//! them back in their order and writes them to the file. A sheaf that nobody has begun when there
//! are enough the writer makes itself; while the first is being made it makes the second.
//!
//! Promise: the bytes are those that one thread alone would make. Absent: offsets, checksums, the
//! file.

use crate::compress::{Codec, Compressor};
use crate::errands::{Errand, Errands, Task};
use crate::error::{Error, Kind, Result};
use crate::ids::CommitTs;
use crate::sstable::block_builder::BlockBuilder;
use std::collections::VecDeque;
use std::sync::Arc;

/// A sheaf is handed over with so many blocks, or as soon as they have so many bytes: long enough
/// that handing it over costs little beside making it.
const SHEAF_BLOCKS: usize = 16;
const SHEAF_BYTES: usize = 64 << 10;

/// Sheaves that were handed over and not taken back, at most; fewer where values are large.
const GIVEN_MAX: usize = 16;
const GIVEN_BYTES_MAX: usize = GIVEN_MAX * SHEAF_BYTES;

/// Bytes of memory that a press holds, about: each sheaf as rows and as a block of them.
pub(crate) const PRESS_BYTES: usize = 2 * (GIVEN_BYTES_MAX + 2 * SHEAF_BYTES);

/// Makes the blocks of one file.
pub(super) struct Press {
    errands: Arc<Errands>,
    codec: Codec,
    open: Sheaf,
    given: VecDeque<Arc<Pressing>>,
    labels: VecDeque<Label>, // Of the blocks of `given` and `open` whose separator is known.
    raw_bytes: usize,        // Of the same blocks.
    spare: Vec<Sheaf>,
}

/// What the index says of a block, but for its place.
pub(super) struct Label {
    pub(super) separator: Vec<u8>,
    pub(super) prefix_len: usize,
    pub(super) ts: CommitTs,
    pub(super) plain_rows: u16,
}

/// Some blocks, one behind the other: their rows, and then their bytes.
pub(super) struct Sheaf {
    blocks: Vec<BlockBuilder>, // Those from `len` on are empty.
    len: usize,
    raw_bytes: usize,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    compressor: Compressor,
}

/// A sheaf that was handed over.
struct Pressing(Task<Sheaf, Sheaf>);

impl Press {
    /// `None` where nobody would help.
    pub(super) fn new(errands: &Arc<Errands>, codec: Codec) -> Option<Press> {
        errands.is_served().then(|| Press {
            errands: Arc::clone(errands),
            codec,
            open: Sheaf::new(codec),
            given: VecDeque::new(),
            labels: VecDeque::new(),
            raw_bytes: 0,
            spare: Vec::new(),
        })
    }

    /// Takes the rows of a block; `block` is empty then.
    pub(super) fn add(&mut self, block: &mut BlockBuilder) {
        self.raw_bytes += block.raw_bytes();
        self.open.add(block);
        if self.open.len == SHEAF_BLOCKS || self.open.raw_bytes >= SHEAF_BYTES {
            self.hand_over();
        }
    }

    /// Says of the block that was added last what the index is to say of it. Not later than the
    /// next block is added.
    pub(super) fn label(&mut self, label: Label) {
        self.labels.push_back(label);
    }

    /// The next sheaf, if it is made, or if there are too many that are not. All that is in it was
    /// labelled.
    pub(super) fn next(&mut self) -> Result<Option<Sheaf>> {
        let too_many = self.given.len() >= GIVEN_MAX || self.raw_bytes > GIVEN_BYTES_MAX;
        match self.given.front() {
            Some(first) if too_many || first.0.is_done() => self.take(),
            _ => Ok(None),
        }
    }

    /// The next sheaf, as long as there is one. Nothing is added any more.
    pub(super) fn rest(&mut self) -> Result<Option<Sheaf>> {
        if self.open.len > 0 {
            self.hand_over();
        }
        self.take()
    }

    /// The label of the next block that is taken out of a sheaf.
    pub(super) fn next_label(&mut self) -> Option<Label> {
        self.labels.pop_front()
    }

    /// Takes a sheaf back whose bytes were written, for its memory.
    pub(super) fn recycle(&mut self, mut sheaf: Sheaf) {
        self.raw_bytes -= sheaf.raw_bytes;
        sheaf.clear();
        self.spare.push(sheaf);
    }

    /// Bytes of blocks that were added and not taken out, before compression.
    pub(super) fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    fn hand_over(&mut self) {
        let empty = self.spare.pop().unwrap_or_else(|| Sheaf::new(self.codec));
        let sheaf = std::mem::replace(&mut self.open, empty);
        let pressing = Arc::new(Pressing(Task::new(sheaf)));
        self.given.push_back(Arc::clone(&pressing));
        if !self.errands.give(Arc::clone(&pressing) as Arc<dyn Errand>) {
            pressing.make();
        }
    }

    fn take(&mut self) -> Result<Option<Sheaf>> {
        let Some(first) = self.given.pop_front() else { return Ok(None) };
        first.make();
        if let Some(second) = self.given.front().filter(|_| first.0.is_begun()) {
            second.make();
        }
        let lost = || Error::new(Kind::Closed, "the thread that made blocks of the file ended");
        first.0.take().map(Some).ok_or_else(lost)
    }
}

impl Drop for Press {
    fn drop(&mut self) {
        self.given.iter().for_each(|pressing| pressing.0.give_up());
    }
}

impl Sheaf {
    fn new(codec: Codec) -> Sheaf {
        Sheaf {
            blocks: Vec::new(),
            len: 0,
            raw_bytes: 0,
            bytes: Vec::new(),
            ends: Vec::new(),
            compressor: Compressor::new(codec),
        }
    }

    fn add(&mut self, block: &mut BlockBuilder) {
        if self.len == self.blocks.len() {
            self.blocks.push(BlockBuilder::default());
        }
        self.raw_bytes += block.raw_bytes();
        std::mem::swap(&mut self.blocks[self.len], block);
        self.len += 1;
    }

    fn press(&mut self) {
        for block in &mut self.blocks[..self.len] {
            block.encode(true, Some(&mut self.compressor), &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
    }

    /// The bytes of each block, once they are made.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    fn clear(&mut self) {
        self.blocks[..self.len].iter_mut().for_each(BlockBuilder::clear);
        (self.len, self.raw_bytes) = (0, 0);
        if self.bytes.capacity() > 4 * SHEAF_BYTES {
            self.bytes = Vec::new(); // One large value must not pin its size for good.
        }
        self.bytes.clear();
        self.ends.clear();
    }
}

impl Pressing {
    fn make(&self) {
        self.0.run(|mut sheaf| {
            sheaf.press();
            sheaf
        });
    }
}

impl Errand for Pressing {
    fn run(&self, _scratch: &mut Vec<u8>) {
        self.make();
    }
}

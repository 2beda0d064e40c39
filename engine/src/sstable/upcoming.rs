//! Blocks that a long walk will come to, loaded by whoever is first: the thread of `errands`, or
//! the walk.
//!
//! A walk hands over a few batches of blocks and takes them one after the other. One that nobody
//! has begun it loads itself; while the next is being loaded it loads the one behind, so that two
//! share the work. With a batch it gives back the blocks that it has passed: each makes room for
//! one that is loaded, in memory of the thread that loads. Let go by the walk they would go to the
//! other thread's heap, and the two would wait for it in turn.
//!
//! Promise: a block is loaded once, and the walk waits only for what is being loaded. Absent:
//! errors. A block that cannot be read or is damaged is left out, and the walk meets the error
//! where it comes to it.

use crate::cursor::Direction;
use crate::errands::{Errand, Task};
use crate::sstable::block::{Block, Unpack};
use crate::sstable::format::Stretch;
use crate::sstable::index::{EntryAt, Handle};
use crate::sstable::reader::TableFile;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Stored bytes of a batch: long enough that handing it over costs little beside loading it.
pub(super) const BATCH_BYTES: u64 = 128 << 10;

/// Batches handed over at a time: one being loaded, one that waits, one for the walk.
const BATCHES: usize = 3;

/// What a walk over one file will come to.
#[derive(Default)]
pub(super) struct Upcoming {
    given: VecDeque<Arc<Batch>>,
    loaded: Vec<Loaded>,     // The next one last.
    spent: Vec<Arc<Block>>, // Those that the walk has come to, since the last batch was handed over.
    beyond: Option<EntryAt>, // The first block that is in no batch.
    passed_over: usize,     // Of the last batch, or more.
    is_wasted: bool,
    scratch: Vec<u8>,
}

/// A block and its offset.
type Loaded = (u64, Arc<Block>);

/// Some blocks of one file, one beside the other.
struct Batch {
    file: Arc<TableFile>,
    handles: Vec<Handle>, // Ascending, at least one.
    unpack: Unpack,
    task: Task<Vec<Arc<Block>>, Vec<Loaded>>, // Of blocks that are spent; they come ascending.
}

impl Upcoming {
    /// Begins with the first block that a walk in `direction` from `entry` on comes to outside of
    /// `held`.
    pub(super) fn begin(
        &mut self,
        file: &Arc<TableFile>,
        entry: EntryAt,
        direction: Direction,
        held: &Range<u64>,
        unpack: Unpack,
    ) {
        self.leave();
        let mut at = file.index().step(entry, direction);
        while let Some(entry) = at {
            let Handle { offset, len } = file.index().handle(entry);
            if offset < held.start || held.end < offset + u64::from(len) {
                break;
            }
            at = file.index().step(entry, direction);
        }
        self.beyond = at;
        self.hand_over(file, direction, unpack);
    }

    /// The block at `handle`, which a walk in `direction` has come to, if it is one of those.
    pub(super) fn next(
        &mut self,
        file: &Arc<TableFile>,
        handle: Handle,
        direction: Direction,
        unpack: Unpack,
    ) -> Option<Arc<Block>> {
        loop {
            while let Some((offset, _)) = self.loaded.last() {
                if *offset == handle.offset {
                    let block = self.loaded.pop().map(|(_, block)| block);
                    self.spent.extend(block.clone());
                    return block;
                }
                if !lies_behind(*offset, handle, direction) {
                    return None;
                }
                self.loaded.pop();
                self.passed_over += 1;
            }
            let batch = self.given.front()?;
            if self.passed_over * 2 > batch.handles.len() {
                self.leave();
                self.is_wasted = true;
                return None;
            }
            let (covers, offset) = (batch.covers(handle), batch.stretch().offset);
            if !covers && !lies_behind(offset, handle, direction) {
                return None;
            }
            let batch = self.given.pop_front()?;
            if !covers {
                batch.task.give_up();
                self.passed_over += batch.handles.len();
                continue;
            }
            self.passed_over = 0;
            self.hand_over(file, direction, unpack);
            self.loaded = self.load(&batch);
            if direction == Direction::Up {
                self.loaded.reverse();
            }
        }
    }

    /// Whether the walk ceased to come to most blocks, since this was asked last.
    pub(super) fn take_wasted(&mut self) -> bool {
        std::mem::take(&mut self.is_wasted)
    }

    /// Forgets everything.
    pub(super) fn leave(&mut self) {
        self.given.drain(..).for_each(|batch| batch.task.give_up());
        self.loaded.clear();
        self.spent.clear();
        self.passed_over = 0;
        self.beyond = None;
    }

    /// Hands over as many batches as there may be.
    fn hand_over(&mut self, file: &Arc<TableFile>, direction: Direction, unpack: Unpack) {
        let Some(errands) = file.errands() else { return };
        while self.given.len() < BATCHES {
            let (mut at, mut bytes, mut handles) = (self.beyond, 0, Vec::new());
            while let Some(entry) = at.filter(|_| bytes < BATCH_BYTES) {
                let handle = file.index().handle(entry);
                bytes += u64::from(handle.len);
                handles.push(handle);
                at = file.index().step(entry, direction);
            }
            if direction == Direction::Down {
                handles.reverse();
            }
            if handles.is_empty() {
                return;
            }
            let spent = std::mem::take(&mut self.spent);
            let batch = Arc::new(Batch::new(file, handles, unpack, spent));
            if !errands.give(Arc::clone(&batch) as Arc<dyn Errand>) {
                return;
            }
            self.given.push_back(batch);
            self.beyond = at;
        }
    }

    /// The blocks of the batch that the walk has come to.
    fn load(&mut self, batch: &Batch) -> Vec<Loaded> {
        batch.run(&mut self.scratch);
        if let Some(next) = self.given.front().filter(|_| batch.task.is_begun()) {
            next.run(&mut self.scratch);
        }
        batch.task.take().unwrap_or_default()
    }
}

impl Drop for Upcoming {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether a walk in `direction` that is at `handle` has passed `offset`.
fn lies_behind(offset: u64, handle: Handle, direction: Direction) -> bool {
    match direction {
        Direction::Up => offset < handle.offset,
        Direction::Down => offset > handle.offset,
    }
}

impl Batch {
    fn new(
        file: &Arc<TableFile>,
        handles: Vec<Handle>,
        unpack: Unpack,
        spent: Vec<Arc<Block>>,
    ) -> Batch {
        Batch { file: Arc::clone(file), handles, unpack, task: Task::new(spent) }
    }

    /// The stretch of the file that its blocks fill.
    fn stretch(&self) -> Stretch {
        let offset = self.handles.first().map_or(0, |first| first.offset);
        let end = self.handles.last().map_or(0, |last| last.offset + u64::from(last.len));
        Stretch { offset, len: end - offset }
    }

    /// Whether the block at `handle` is one of its.
    fn covers(&self, handle: Handle) -> bool {
        let Stretch { offset, len } = self.stretch();
        (offset..offset + len).contains(&handle.offset)
    }

    fn load(&self, mut spent: Vec<Arc<Block>>, scratch: &mut Vec<u8>) -> Vec<Loaded> {
        let mut loaded = Vec::with_capacity(self.handles.len());
        let (file, stretch) = (&self.file, self.stretch());
        if file.raw().read_into(stretch, scratch).is_err() {
            return loaded;
        }
        for &handle in &self.handles {
            drop(spent.pop()); // Its memory is what the next one takes.
            let start = (handle.offset - stretch.offset) as usize;
            let sealed = scratch.get(start..start + handle.len as usize).unwrap_or_default();
            let block = file.cached(handle).or_else(|| {
                let block = file.raw().parse_block(handle, sealed, self.unpack).ok()?;
                Some(file.keep_in_room(handle, Arc::new(block)))
            });
            loaded.extend(block.map(|block| (handle.offset, block)));
        }
        loaded
    }
}

impl Errand for Batch {
    fn run(&self, scratch: &mut Vec<u8>) {
        self.task.run(|spent| self.load(spent, scratch));
    }
}

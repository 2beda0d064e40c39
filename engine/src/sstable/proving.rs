//! Blocks in place that a long walk will come to, proved by a second thread.
//!
//! A block in place is proved when it is first used, which takes as long as to look at its rows;
//! where nobody has read a file before, it is half of a walk. Once a walk has proved a megabyte it
//! hands over stretches of what lies before it to the thread of `errands`, and from then on finds
//! most blocks proved. The thread goes through a stretch from the far end towards the walk, so that
//! the two meet at most once in it instead of proving the same blocks side by side.
//!
//! Absent: waiting, and errors. What is not proved when the walk gets there it proves itself, and
//! so meets what cannot be.

use crate::cursor::Direction;
use crate::errands::{Errand, Task};
use crate::sstable::index::EntryAt;
use crate::sstable::reader::TableFile;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that a walk proves by itself before it asks for help.
const LONG_WALK_BYTES: u64 = 1 << 20;

/// Bytes of a stretch: handing it over costs little beside proving it.
const STRETCH_BYTES: u64 = 512 << 10;

/// Stretches handed over at a time.
const STRETCHES: usize = 3;

/// What a walk over one file has handed over.
#[derive(Default)]
pub(super) struct Proving {
    proved_bytes: u64, // By the walk itself, since it began or last asked for help.
    direction: Option<Direction>,
    given: VecDeque<Arc<Stretch>>,
    beyond: Option<EntryAt>, // The first block behind all stretches.
}

/// Some blocks of one file that nobody had proved, in the order of the walk.
struct Stretch {
    file: Arc<TableFile>,
    first: usize, // The number of the block that it begins with.
    blocks: Vec<EntryAt>,
    task: Task<(), ()>,
}

impl Proving {
    /// The walk `begins` in the block or has come to it, and `proves` it itself or found it proved.
    pub(super) fn come_to(
        &mut self,
        file: &Arc<TableFile>,
        entry: EntryAt,
        direction: Direction,
        (begins, proves): (bool, bool),
    ) {
        if begins || proves && self.direction != Some(direction) {
            self.leave();
            self.direction = Some(direction);
        }
        if proves {
            self.proved_bytes += u64::from(file.index().handle(entry).len);
        }
        let asks = match self.given.is_empty() {
            true => proves && self.proved_bytes > LONG_WALK_BYTES,
            false => self.reaches(file.index().ordinal(entry), direction),
        };
        if asks {
            self.proved_bytes = 0;
            self.hand_over(file, entry, direction);
        }
    }

    /// Whether the walk reaches a stretch with the block of this number. That one is not waited for
    /// any more, and those that it has left behind are not wanted.
    fn reaches(&mut self, number: usize, direction: Direction) -> bool {
        let mut reached: Option<Arc<Stretch>> = None;
        while self.given.front().is_some_and(|next| reach(number, next.first, direction)) {
            let behind = std::mem::replace(&mut reached, self.given.pop_front());
            behind.iter().for_each(|behind| behind.task.give_up());
        }
        reached.is_some()
    }

    /// Wants nothing of all that any more.
    fn leave(&mut self) {
        self.given.drain(..).for_each(|stretch| stretch.task.give_up());
        (self.proved_bytes, self.beyond) = (0, None);
    }

    /// Hands over as many stretches as there may be of what lies before the block of `here`, up to
    /// one in which all is proved already.
    fn hand_over(&mut self, file: &Arc<TableFile>, here: EntryAt, direction: Direction) {
        let Some(errands) = file.errands().filter(|errands| errands.is_served()) else { return };
        let (index, number) = (file.index(), file.index().ordinal(here));
        let is_behind = |at: EntryAt| reach(number, index.ordinal(at), direction);
        if self.given.is_empty() && self.beyond.is_none_or(is_behind) {
            self.beyond = index.step(here, direction);
        }
        while self.given.len() < STRETCHES {
            let Some(first) = self.beyond else { return };
            let (mut at, mut bytes, mut blocks) = (Some(first), 0, Vec::new());
            while let Some(entry) = at.filter(|_| bytes < STRETCH_BYTES) {
                bytes += u64::from(index.handle(entry).len);
                blocks.extend((!file.is_proved(entry)).then_some(entry));
                at = index.step(entry, direction);
            }
            if blocks.is_empty() {
                return;
            }
            let (file, first, task) = (Arc::clone(file), index.ordinal(first), Task::new(()));
            let stretch = Arc::new(Stretch { file, first, blocks, task });
            if !errands.give(Arc::clone(&stretch) as Arc<dyn Errand>) {
                return;
            }
            self.given.push_back(stretch);
            self.beyond = at;
        }
    }
}

/// Whether a walk in `direction` that is at block `number` has come as far as block `to`.
fn reach(number: usize, to: usize, direction: Direction) -> bool {
    match direction {
        Direction::Up => number >= to,
        Direction::Down => number <= to,
    }
}

impl Drop for Proving {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Errand for Stretch {
    fn run(&self, _scratch: &mut Vec<u8>) {
        self.task.run(|()| self.blocks.iter().rev().for_each(|entry| self.file.prove(*entry)));
    }
}

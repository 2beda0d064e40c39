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

use super::index::EntryAt;
use super::reader::TableFile;
use crate::cursor::Direction;
use crate::errands::{Errand, Task};
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
    proved_bytes: u64,
    direction: Option<Direction>,
    given: VecDeque<Arc<Stretch>>,
    beyond: Option<EntryAt>, // The first block that is in no stretch.
}

/// Some blocks of one file, in the order of the walk.
struct Stretch {
    file: Arc<TableFile>,
    first: EntryAt,
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
        match self.given.front() {
            Some(next) if next.first == entry => drop(self.given.pop_front()),
            None if proves && self.proved_bytes > LONG_WALK_BYTES => {
                self.beyond = file.index().step(entry, direction);
            }
            _ => return,
        }
        self.hand_over(file, direction);
    }

    /// Wants nothing of all that any more.
    fn leave(&mut self) {
        self.given.drain(..).for_each(|stretch| stretch.task.give_up());
        self.proved_bytes = 0;
    }

    /// Hands over as many stretches as there may be, up to what is proved already.
    fn hand_over(&mut self, file: &Arc<TableFile>, direction: Direction) {
        let Some(errands) = file.errands() else { return };
        while self.given.len() < STRETCHES {
            let Some(first) = self.beyond.filter(|first| !file.is_proved(*first)) else {
                self.proved_bytes = 0;
                return;
            };
            let (mut bytes, mut blocks) = (0, Vec::new());
            while let Some(entry) = self.beyond.filter(|_| bytes < STRETCH_BYTES) {
                bytes += u64::from(file.index().handle(entry).len);
                blocks.push(entry);
                self.beyond = file.index().step(entry, direction);
            }
            let (file, task) = (Arc::clone(file), Task::new(()));
            let stretch = Arc::new(Stretch { file, first, blocks, task });
            if !errands.give(Arc::clone(&stretch) as Arc<dyn Errand>) {
                return;
            }
            self.given.push_back(stretch);
        }
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

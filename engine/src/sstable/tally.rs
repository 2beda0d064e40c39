//! A position in a table file for whoever counts rows: before a block that nobody has read, of
//! which the index knows how many rows it has, or on a version in one that had to be read.
//!
//! Absent: what else there is. Whether the rows of a block may be counted unread depends on other
//! sources too; `iter/count` knows those and says how far.

use crate::cursor::Direction;
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::key::order::TABLE_LEN;
use crate::key::range::KeyRange;
use crate::sstable::ahead::{Ahead, Pace};
use crate::sstable::block::{Block, Unpack};
use crate::sstable::index::{EntryAt, PlainSums};
use crate::sstable::reader::TableFile;
use crate::sstable::zones::Times;
use std::sync::Arc;

/// As few blocks are counted one by one: their sums would cost a pass over the whole index.
const BLOCKS_WALKED: usize = 64;

/// A place in a file up to which all its rows are counted.
pub(crate) struct Tally {
    file: Arc<TableFile>,
    ahead: Ahead,
    at: At,
    /// Of the file, once they were asked for.
    sums: Option<Arc<PlainSums>>,
    /// On a row, its key; before a block, the key that `low` is about.
    key: Vec<u8>,
}

enum At {
    Block(Unread),
    Row(Position),
    End,
}

struct Unread {
    entry: EntryAt,
    /// Where a row may lie first: behind `Tally::key`, or on it.
    behind: bool,
    /// Not before its rows: some of them lie before `Tally::key`.
    cut: bool,
    /// No row of the block lies above.
    last: Vec<u8>,
}

struct Position {
    entry: EntryAt,
    block: Arc<Block>,
    row: usize,
}

/// The least key that a source may have next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Low<'a> {
    pub(crate) key: &'a [u8],
    /// Not `key` itself, only keys above it.
    pub(crate) behind: bool,
}

/// What came of an attempt to pass over blocks unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// As many rows lie in the blocks that were passed.
    Rows(u64),
    /// The block here reaches to the fence or beyond.
    Fence,
    /// The block here cannot be counted unread.
    Unknown,
}

impl Tally {
    /// Stands before the first row of `range`. Cost: a search of the index.
    pub(crate) fn new(file: &Arc<TableFile>, range: &KeyRange, pace: Pace) -> Tally {
        let (file, ahead) = (Arc::clone(file), Ahead::at_pace(pace));
        let entry = file.index().seek(&range.start, CommitTs::MAX);
        let mut tally = Tally { file, ahead, at: At::End, sums: None, key: Vec::new() };
        tally.stand_before(entry);
        if let At::Block(block) = &mut tally.at
            && tally.key < range.start
        {
            (block.behind, block.cut) = (false, true);
            tally.key.clone_from(&range.start);
        }
        tally
    }

    fn stand_before(&mut self, entry: Option<EntryAt>) {
        let index = self.file.index();
        let Some(entry) = entry else {
            self.at = At::End;
            return;
        };
        let before = index.prev(entry);
        self.key = match before {
            Some(before) => index.separator(before).0,
            None => self.file.props().smallest.clone(),
        };
        let mut behind = before.is_some_and(|before| !index.splits_key_after(before));
        let last = match index.next(entry) {
            Some(_) => index.separator(entry).0,
            None => self.file.props().largest.clone(),
        };
        // A block holds rows of one table: behind another one's it begins with the table.
        if let Some(table) = last.get(..TABLE_LEN).filter(|table| *table > self.key.as_slice()) {
            (self.key, behind) = (table.to_vec(), false);
        }
        self.at = At::Block(Unread { entry, behind, cut: false, last });
    }

    /// The least key that it may have next; `None` where it has no more.
    pub(crate) fn low(&self) -> Option<Low<'_>> {
        match &self.at {
            At::Block(block) => Some(Low { key: &self.key, behind: block.behind }),
            At::Row(_) => Some(Low { key: &self.key, behind: false }),
            At::End => None,
        }
    }

    /// Whether it stands on a row, so that its low key is there.
    pub(crate) fn is_on_row(&self) -> bool {
        matches!(self.at, At::Row(_))
    }

    /// No version of the block here is of an earlier or a later commit; of the file, where the
    /// block was not read.
    pub(crate) fn times(&self) -> Times {
        match &self.at {
            At::Row(at) => (at.block.oldest(), at.block.newest()),
            At::Block(_) | At::End => (self.file.oldest(), self.file.newest()),
        }
    }

    /// How the walk has gone so far.
    pub(crate) fn pace(&self) -> Pace {
        self.ahead.pace()
    }

    /// The file.
    pub(crate) fn file(&self) -> &Arc<TableFile> {
        &self.file
    }

    /// Passes over the blocks from here on whose keys all lie below `fence`, as long as their rows
    /// can be counted unread; or be left out unread, where `none_counts`.
    pub(crate) fn pass_blocks(&mut self, fence: &[u8], none_counts: bool) -> Passed {
        let At::Block(block) = &self.at else { return Passed::Unknown };
        if block.last.as_slice() >= fence {
            return Passed::Fence;
        }
        if none_counts {
            self.stand_before(self.first_reaching(fence));
            return Passed::Rows(0);
        }
        let index = self.file.index();
        if block.cut || index.plain_rows(block.entry) == 0 {
            return Passed::Unknown;
        }
        let from = index.ordinal(block.entry);
        let to = self.first_reaching(fence).map_or(index.blocks(), |entry| index.ordinal(entry));
        let (to, rows) = match &self.sums {
            None if to.saturating_sub(from) <= BLOCKS_WALKED => index.plain_run(block.entry, to),
            _ => self.sums.get_or_insert_with(|| self.file.sums()).run(from, to),
        };
        self.stand_before(index.at_ordinal(to));
        Passed::Rows(rows)
    }

    /// The first block that has a key at or above `fence`, as far as the index knows.
    fn first_reaching(&self, fence: &[u8]) -> Option<EntryAt> {
        let within = self.file.props().largest.as_slice() >= fence;
        within.then(|| self.file.index().seek(fence, CommitTs::MAX)).flatten()
    }

    /// Reads the block here and stands on its first row; does nothing on a row.
    pub(crate) fn read_block(&mut self) -> Result<()> {
        let At::Block(Unread { entry, cut, .. }) = self.at else { return Ok(()) };
        let handle = self.file.index().handle(entry);
        let block = match self.file.block_in_place(entry, handle)? {
            Some(block) => block,
            None => self.ahead.block(&self.file, entry, Direction::Up, Unpack::Later)?,
        };
        let row = if cut { block.lower_bound(&self.key, CommitTs::MAX) } else { 0 };
        self.stand_on(Position { entry, block, row });
        Ok(())
    }

    fn stand_on(&mut self, at: Position) {
        if at.row >= at.block.rows() {
            return self.stand_before(self.file.index().next(at.entry));
        }
        self.key.clear();
        at.block.put_key(at.row, &mut self.key);
        self.at = At::Row(at);
    }

    /// The commit and the kind of the version here; `None` where it does not stand on a row.
    pub(crate) fn version(&self) -> Option<(CommitTs, RowKind)> {
        let At::Row(at) = &self.at else { return None };
        Some((at.block.ts(at.row), at.block.kind(at.row)))
    }

    /// What is stored of the version here; nothing where it does not stand on a row.
    pub(crate) fn value(&self) -> Result<&[u8]> {
        let At::Row(at) = &self.at else { return Ok(&[]) };
        let offset = || self.file.index().handle(at.entry).offset;
        at.block.value_ref(at.row).map_err(|damage| damage.at(self.file.path(), offset()))
    }

    /// Leaves the version here, and with it those behind it of its key that are newer than
    /// `down_to`; for the next one in the block, or else the next block that may have one. Reads
    /// nothing: the index knows where a key of many blocks goes on, or ends.
    pub(crate) fn leave_versions(&mut self, down_to: CommitTs) {
        let At::Row(Position { entry, block, row }) = &self.at else { return };
        let row = match block.continues(*row) {
            true => block.lower_bound(&self.key, down_to).max(row + 1),
            false => row + 1,
        };
        if row < block.rows() {
            if let At::Row(at) = std::mem::replace(&mut self.at, At::End) {
                self.stand_on(Position { row, ..at });
            }
            return;
        }
        let index = self.file.index();
        let sought = match index.splits_key_after(*entry) {
            true => index.seek(&self.key, down_to),
            false => None,
        };
        let beyond = sought.filter(|sought| index.ordinal(*sought) > index.ordinal(*entry));
        let next = beyond.or_else(|| index.next(*entry));
        self.stand_before(next);
    }

    /// Passes over the rows from here on in this block that lie below `fence`, where each of them
    /// can be counted; how many.
    pub(crate) fn pass_rows(&mut self, fence: &[u8]) -> u64 {
        let At::Row(at) = &self.at else { return 0 };
        if self.file.index().plain_rows(at.entry) == 0 {
            return 0;
        }
        let (from, rows) = (at.row, at.block.rows());
        let to = match at.block.cmp_key(rows - 1, fence).is_lt() {
            true => rows,
            false => at.block.lower_bound(fence, CommitTs::MAX),
        };
        if to <= from {
            return 0;
        }
        if let At::Row(at) = std::mem::replace(&mut self.at, At::End) {
            self.stand_on(Position { row: to, ..at });
        }
        (to - from) as u64
    }
}

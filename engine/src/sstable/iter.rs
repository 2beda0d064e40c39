//! A position in a table file.
//!
//! Promise: both directions cost the same; a value is decompressed only when it is asked for; the
//! first error stays. With a sieve, a cursor stands on no row of a block that the sieve passes
//! over, as if the file did not have it. No move and no seek leads to the wrong side of where it
//! began, whatever the file holds: blocks that do not follow one another are damage, or who seeks
//! past what he need not see would come by it for ever.

use super::ahead::{Ahead, Pace};
use super::block::{Block, Unpack};
use super::format::Damage;
use super::index::EntryAt;
use super::reader::TableFile;
use super::sieve::{Sieve, Sifted};
use crate::cursor::{Cursor, Direction, Unwanted};
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, RowKind};
use bytes::Bytes;
use std::cmp::Ordering;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// A cursor over a table file's versions.
pub(crate) struct TableCursor {
    file: Arc<TableFile>,
    ahead: Ahead,
    sieve: Option<Sieve>,
    at: Option<Position>,
    error: Option<Error>,
    // The key at `at`; its first `share_len` bytes are those of the whole run.
    key: Vec<u8>,
    share_len: usize,
    left: Vec<u8>, // Kept for the key of the row that a block is left from.
}

struct Position {
    entry: EntryAt,
    block: Arc<Block>,
    row: usize,
    /// Rows of the run that `row` is in; empty where it is not known yet.
    run: Range<usize>,
    prefix_len: usize,
    /// No row of the block passes the filter of the scan.
    ruled_out: bool,
}

impl TableFile {
    /// A cursor for reads, through the cache.
    pub(crate) fn cursor(self: &Arc<Self>) -> TableCursor {
        self.cursor_at_pace(Pace::default())
    }

    /// The same for a walk that comes from another file.
    pub(crate) fn cursor_at_pace(self: &Arc<Self>, pace: Pace) -> TableCursor {
        TableCursor {
            file: Arc::clone(self),
            ahead: Ahead::at_pace(pace),
            sieve: None,
            at: None,
            error: None,
            key: Vec::new(),
            share_len: 0,
            left: Vec::new(),
        }
    }
}

impl TableCursor {
    /// Passes over what `sieve` says.
    pub(crate) fn with_sieve(self, sieve: Option<Sieve>) -> TableCursor {
        TableCursor { sieve, ..self }
    }

    /// How the walk has gone so far.
    pub(crate) fn pace(&self) -> Pace {
        self.ahead.pace()
    }

    /// Above which timestamp the file has no version.
    pub(crate) fn newest(&self) -> CommitTs {
        self.file.newest()
    }

    /// Does `step` unless an earlier one failed, and remembers its failure.
    fn guard(&mut self, step: impl FnOnce(&mut TableCursor) -> Result<()>) -> Result<()> {
        if let Some(error) = &self.error {
            return Err(error.duplicate());
        }
        let done = step(self);
        if let Err(error) = &done {
            self.error = Some(error.duplicate());
            self.at = None;
        }
        done
    }

    fn try_seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        if self.holds_nothing() {
            return Ok(());
        }
        let Some(entry) = self.file.index().seek(key, ts) else {
            self.at = None;
            return Ok(());
        };
        let next = self.file.index().next(entry);
        let from = (key, ts);
        let Some(ruled_out) = self.sift(entry) else {
            return self.enter(next, Direction::Up, from);
        };
        let block = self.load(entry, Direction::Up, true)?;
        let row = block.lower_bound(key, ts);
        if row == block.rows() {
            return self.enter(next, Direction::Up, from);
        }
        self.stand(entry, block, row, ruled_out, Direction::Up);
        Ok(())
    }

    fn try_seek_before(&mut self, key: &[u8]) -> Result<()> {
        if self.holds_nothing() {
            return Ok(());
        }
        let from = (key, CommitTs::MAX);
        let Some(entry) = self.file.index().seek(key, CommitTs::MAX) else {
            return self.enter(Some(self.file.index().last()), Direction::Down, from);
        };
        let before = self.file.index().prev(entry);
        let Some(ruled_out) = self.sift(entry) else {
            return self.enter(before, Direction::Down, from);
        };
        let block = self.load(entry, Direction::Down, true)?;
        match block.lower_bound(key, CommitTs::MAX).checked_sub(1) {
            Some(row) => self.stand(entry, block, row, ruled_out, Direction::Down),
            None => return self.enter(before, Direction::Down, from),
        }
        Ok(())
    }

    fn try_next(&mut self) -> Result<()> {
        let Some(at) = &mut self.at else { return Ok(()) };
        if at.row + 1 < at.block.rows() {
            at.row += 1;
            self.show();
            return Ok(());
        }
        let next = self.file.index().next(at.entry);
        self.leave_block(next, Direction::Up)
    }

    fn try_prev(&mut self) -> Result<()> {
        let Some(at) = &mut self.at else { return Ok(()) };
        if at.row > 0 {
            at.row -= 1;
            self.show();
            return Ok(());
        }
        let prev = self.file.index().prev(at.entry);
        self.leave_block(prev, Direction::Down)
    }

    /// Goes on into a block, from the row here.
    fn leave_block(&mut self, entry: Option<EntryAt>, direction: Direction) -> Result<()> {
        let (mut left, ts) = (mem::take(&mut self.left), self.ts());
        mem::swap(&mut left, &mut self.key);
        let entered = self.enter(entry, direction, (&left, ts));
        self.left = left;
        entered
    }

    /// Goes to the first row in `direction` of the block, or of the next one that is not passed
    /// over; to nowhere without one. That row lies in `direction` of the place `from`.
    fn enter(
        &mut self,
        mut entry: Option<EntryAt>,
        direction: Direction,
        from: (&[u8], CommitTs),
    ) -> Result<()> {
        while let Some(at) = entry {
            let Some(ruled_out) = self.sift(at) else {
                let index = self.file.index();
                entry = match direction {
                    Direction::Up => index.next(at),
                    Direction::Down => index.prev(at),
                };
                continue;
            };
            let block = self.load(at, direction, false)?;
            let (row, wrong) = match direction {
                Direction::Up => (0, Ordering::Less),
                Direction::Down => (block.rows() - 1, Ordering::Greater),
            };
            if block.cmp_row(row, from) == wrong {
                return Err(self.disorder(at));
            }
            self.stand(at, block, row, ruled_out, direction);
            return Ok(());
        }
        self.at = None;
        Ok(())
    }

    fn disorder(&self, entry: EntryAt) -> Error {
        let offset = self.file.index().handle(entry).offset;
        Damage("block's rows are not where its index has them").at(self.file.path(), offset)
    }

    /// Whether no row of the block passes the filter; `None` where the block is passed over.
    fn sift(&mut self, entry: EntryAt) -> Option<bool> {
        let Some(sieve) = &mut self.sieve else { return Some(false) };
        // A block that it stands in was judged when it came there, and is not judged otherwise now.
        if let Some(at) = self.at.as_ref().filter(|at| at.entry == entry) {
            return Some(at.ruled_out);
        }
        match sieve.sift(&self.file, entry) {
            Sifted::Read => Some(false),
            Sifted::KeysOnly => Some(true),
            Sifted::Skip => {
                sieve.count_skipped();
                None
            }
        }
    }

    /// Whether the file holds nothing that the sieve lets through.
    fn holds_nothing(&self) -> bool {
        self.sieve.as_ref().is_some_and(Sieve::skips_all)
    }

    fn stand(
        &mut self,
        entry: EntryAt,
        block: Arc<Block>,
        row: usize,
        ruled_out: bool,
        direction: Direction,
    ) {
        let same_block = self.at.as_ref().is_some_and(|at| at.entry == entry);
        if let Some(sieve) = self.sieve.as_ref().filter(|_| !same_block) {
            sieve.count_read();
        }
        if !same_block {
            block.prefetch_values(row, direction);
        }
        self.at = Some(Position { entry, block, row, run: 0..0, prefix_len: 0, ruled_out });
        self.show();
    }

    /// Makes `key` that of the present row.
    fn show(&mut self) {
        let Some(at) = &mut self.at else { return };
        if at.run.contains(&at.row) {
            self.key.truncate(self.share_len);
        } else {
            self.key.clear();
            let run = at.block.run_of(at.row);
            at.run = at.block.put_run_start(run, &mut self.key);
            at.prefix_len = at.block.prefix_len(run);
            self.share_len = self.key.len();
        }
        at.block.put_suffix(at.row, &mut self.key);
    }

    /// Whether the block at `at` begins between two versions of one key.
    fn begins_within_key(&self, at: &Position) -> bool {
        let index = self.file.index();
        index.prev(at.entry).is_some_and(|before| index.splits_key_after(before))
    }

    /// The block, which a walk in `direction` comes to or `begins` at.
    fn load(&mut self, entry: EntryAt, direction: Direction, begins: bool) -> Result<Arc<Block>> {
        if let Some(at) = self.at.as_ref().filter(|at| at.entry == entry) {
            return Ok(Arc::clone(&at.block));
        }
        let block = self.find_block(entry, direction, begins)?;
        let (index, props) = (self.file.index(), self.file.props());
        let begins_before = || entry == index.first() && block.cmp_key(0, &props.smallest).is_lt();
        let ends_behind =
            || entry == index.last() && block.cmp_key(block.rows() - 1, &props.largest).is_gt();
        if begins_before() || ends_behind() {
            return Err(self.disorder(entry));
        }
        Ok(block)
    }

    fn find_block(
        &mut self,
        entry: EntryAt,
        direction: Direction,
        begins: bool,
    ) -> Result<Arc<Block>> {
        let handle = self.file.index().handle(entry);
        self.file.prefetch(handle, direction, begins);
        if let Some(block) = self.file.block_in_place(entry, handle)? {
            return Ok(block);
        }
        // Whoever asked for values of the last block will do so here.
        let asked = self.at.as_ref().is_some_and(|at| at.block.is_unpacked());
        let unpack = if asked { Unpack::Now } else { Unpack::Later };
        self.ahead.block(&self.file, entry, direction, unpack)
    }
}

impl Cursor for TableCursor {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        self.guard(|cursor| cursor.try_seek(key, ts))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.guard(|cursor| cursor.try_seek_before(key))
    }

    fn next(&mut self) -> Result<()> {
        self.guard(TableCursor::try_next)
    }

    fn prev(&mut self) -> Result<()> {
        self.guard(TableCursor::try_prev)
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        &self.key
    }

    fn ts(&self) -> CommitTs {
        self.at.as_ref().map_or(CommitTs::ZERO, |at| at.block.ts(at.row))
    }

    fn kind(&self) -> RowKind {
        self.at.as_ref().map_or(RowKind::Delete, |at| at.block.kind(at.row))
    }

    fn value(&mut self) -> Result<Bytes> {
        let Some(at) = &self.at else {
            let error = self.error.as_ref().map(Error::duplicate);
            return Err(error.unwrap_or_else(|| Error::new(Kind::Invalid, "no row is here")));
        };
        let (entry, value) = (at.entry, at.block.value(at.row));
        value.map_err(|damage| {
            let offset = self.file.index().handle(entry).offset;
            let error = damage.at(self.file.path(), offset);
            self.error = Some(error.duplicate());
            self.at = None;
            error
        })
    }

    fn value_ref(&self) -> Result<&[u8]> {
        let Some(at) = &self.at else { return Ok(&[]) };
        let offset = || self.file.index().handle(at.entry).offset;
        at.block.value_ref(at.row).map_err(|damage| damage.at(self.file.path(), offset()))
    }

    fn is_ruled_out(&self) -> bool {
        self.at.as_ref().is_some_and(|at| at.ruled_out)
    }

    fn ends_key(&self, direction: Direction) -> bool {
        let Some(at) = &self.at else { return false };
        match direction {
            Direction::Up if at.row + 1 < at.block.rows() => !at.block.continues(at.row),
            Direction::Up => !self.file.index().splits_key_after(at.entry),
            Direction::Down if at.row > 0 => !at.block.continues(at.row - 1),
            Direction::Down => !self.begins_within_key(at),
        }
    }

    fn plain_moves(&self, direction: Direction, seen_at: CommitTs, fence: &[u8]) -> usize {
        let Some(at) = self.at.as_ref().filter(|at| at.block.is_plain(seen_at)) else { return 0 };
        let (block, row, last) = (&at.block, at.row, at.block.rows() - 1);
        match direction {
            Direction::Up if row == last => 0,
            Direction::Up if block.cmp_key(last, fence).is_lt() => last - row,
            Direction::Up => block.lower_bound(fence, CommitTs::MAX).saturating_sub(row + 1),
            Direction::Down if row == 0 => 0,
            Direction::Down if block.cmp_key(0, fence).is_gt() => {
                // A newer version of the first row's key may lie in the block before.
                row - usize::from(self.begins_within_key(at))
            }
            Direction::Down => row.saturating_sub(block.lower_bound(fence, CommitTs::ZERO).max(1)),
        }
    }

    fn plain_from(&self) -> CommitTs {
        self.at.as_ref().map_or(CommitTs::ZERO, |at| at.block.oldest())
    }

    fn move_plainly(&mut self, direction: Direction) {
        let Some(at) = &mut self.at else { return };
        match direction {
            Direction::Up => at.row += 1,
            Direction::Down => at.row -= 1,
        }
        self.show();
    }

    fn pass_plainly(&mut self, moves_max: usize, unwanted: &mut Unwanted<'_>) -> usize {
        let Some(at) = &mut self.at else { return 0 };
        let here = at.row;
        let is_unwanted = |row: usize, unwanted: &mut Unwanted<'_>| {
            // Damage is told by whoever asks for the value.
            at.ruled_out || at.block.value_ref(row).is_ok_and(|v| unwanted(at.block.ts(row), v))
        };
        let passed = (1..=moves_max).take_while(|n| is_unwanted(here + n, unwanted)).count();
        if passed > 0 {
            at.row = here + passed;
            self.show();
        }
        passed
    }
}

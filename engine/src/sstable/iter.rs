//! A position in a table file.
//!
//! Promise: both directions cost the same; a value is decompressed only when it is asked for; the
//! first error stays. With a sieve, a cursor stands on no row of a block that the sieve passes
//! over, as if the file did not have it. No move and no seek leads to the wrong side of where it
//! began, whatever the file holds: blocks that do not follow one another are damage, or who seeks
//! past what need not be seen would come by it for ever.

use crate::cursor::{Cursor, Direction};
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, RowKind};
use crate::sstable::ahead::{Ahead, Pace};
use crate::sstable::block::{Block, Unpack};
use crate::sstable::format::Damage;
use crate::sstable::index::EntryAt;
use crate::sstable::proving::Proving;
use crate::sstable::reader::TableFile;
use crate::sstable::sieve::{Sieve, Sifted};
use crate::sstable::walk::{Terms, Walk, Walked};
use bytes::Bytes;
use std::cmp::Ordering;
use std::mem;
use std::sync::Arc;

/// A cursor over a table file's versions.
pub(crate) struct TableCursor {
    file: Arc<TableFile>,
    ahead: Ahead,
    proving: Proving,
    sieve: Option<Sieve>,
    at: Option<Position>,
    error: Option<Error>,
    spare: Vec<u8>, // Memory for a key, while that of the row that a block is left from is needed.
}

struct Position {
    entry: EntryAt,
    walk: Walk,
}

impl Position {
    fn block(&self) -> &Arc<Block> {
        self.walk.block()
    }
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
            proving: Proving::default(),
            sieve: None,
            at: None,
            error: None,
            spare: Vec::new(),
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
        self.stand(entry, block, row, ruled_out);
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
            Some(row) => self.stand(entry, block, row, ruled_out),
            None => return self.enter(before, Direction::Down, from),
        }
        Ok(())
    }

    fn try_next(&mut self) -> Result<()> {
        let Some(at) = &mut self.at else { return Ok(()) };
        if at.walk.row() + 1 < at.block().rows() {
            at.walk.fetch_values(Direction::Up);
            at.walk.go(Direction::Up, 1);
            return Ok(());
        }
        let next = self.file.index().next(at.entry);
        self.leave_block(next, Direction::Up)
    }

    fn try_prev(&mut self) -> Result<()> {
        let Some(at) = &mut self.at else { return Ok(()) };
        if at.walk.row() > 0 {
            at.walk.fetch_values(Direction::Down);
            at.walk.go(Direction::Down, 1);
            return Ok(());
        }
        let prev = self.file.index().prev(at.entry);
        self.leave_block(prev, Direction::Down)
    }

    /// Goes on into a block, from the row here.
    fn leave_block(&mut self, entry: Option<EntryAt>, direction: Direction) -> Result<()> {
        let ts = self.ts();
        let Some(at) = &mut self.at else { return Ok(()) };
        let left = at.walk.take_key(mem::take(&mut self.spare));
        let entered = self.enter(entry, direction, (&left, ts));
        self.spare = left;
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
                entry = self.file.index().step(at, direction);
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
            self.stand(at, block, row, ruled_out);
            if let Some(at) = &mut self.at {
                at.walk.fetch_values(direction);
            }
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
            return Some(at.walk.is_ruled_out());
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

    fn stand(&mut self, entry: EntryAt, block: Arc<Block>, row: usize, ruled_out: bool) {
        let same_block = self.at.as_ref().is_some_and(|at| at.entry == entry);
        if let Some(sieve) = self.sieve.as_ref().filter(|_| !same_block) {
            sieve.count_read();
        }
        let walk = match self.at.take() {
            Some(at) if same_block => at.walk.moved_to(row),
            Some(left) => Walk::new(block, row, ruled_out, left.walk.into_key()),
            None => Walk::new(block, row, ruled_out, Vec::new()),
        };
        self.at = Some(Position { entry, walk });
    }

    /// Whether the block at `at` begins between two versions of one key.
    fn begins_within_key(&self, at: &Position) -> bool {
        let index = self.file.index();
        index.prev(at.entry).is_some_and(|before| index.splits_key_after(before))
    }

    /// The block, which a walk in `direction` comes to or `begins` at.
    fn load(&mut self, entry: EntryAt, direction: Direction, begins: bool) -> Result<Arc<Block>> {
        if let Some(at) = self.at.as_ref().filter(|at| at.entry == entry) {
            return Ok(Arc::clone(at.block()));
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
        let proves = !self.file.is_proved(entry);
        let in_place = self.file.block_in_place(entry, handle)?;
        self.proving.come_to(&self.file, entry, direction, (begins, proves));
        if let Some(block) = in_place {
            return Ok(block);
        }
        // Whoever asked for values of the last block will do so here.
        let asked = self.at.as_ref().is_some_and(|at| at.block().is_unpacked());
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
        self.at.as_ref().map_or(&[], |at| at.walk.key())
    }

    fn ts(&self) -> CommitTs {
        self.at.as_ref().map_or(CommitTs::ZERO, |at| at.walk.ts())
    }

    fn kind(&self) -> RowKind {
        self.at.as_ref().map_or(RowKind::Delete, |at| at.walk.kind())
    }

    fn value(&mut self) -> Result<Bytes> {
        let Some(at) = &self.at else {
            let error = self.error.as_ref().map(Error::duplicate);
            return Err(error.unwrap_or_else(|| Error::new(Kind::Invalid, "no row is here")));
        };
        at.walk.value().map_err(|damage| {
            let error = self.blame(damage);
            self.error = Some(error.duplicate());
            self.at = None;
            error
        })
    }

    fn value_ref(&self) -> Result<&[u8]> {
        let Some(at) = &self.at else { return Ok(&[]) };
        at.walk.value_ref().map_err(|damage| self.blame(damage))
    }

    fn is_ruled_out(&self) -> bool {
        self.at.as_ref().is_some_and(|at| at.walk.is_ruled_out())
    }

    fn ends_key(&self, direction: Direction) -> bool {
        let Some(at) = &self.at else { return false };
        let (block, row) = (at.block(), at.walk.row());
        match direction {
            Direction::Up if row + 1 < block.rows() => !block.continues(row),
            Direction::Up => !self.file.index().splits_key_after(at.entry),
            Direction::Down if row > 0 => !block.continues(row - 1),
            Direction::Down => !self.begins_within_key(at),
        }
    }
}

impl Walked for TableCursor {
    fn plain_walk(&self, terms: Terms<'_>) -> Option<(&Walk, usize)> {
        let Terms { direction, at: seen_at, fence } = terms;
        let at = self.at.as_ref().filter(|at| at.block().is_plain(seen_at))?;
        let (block, row, last) = (at.block(), at.walk.row(), at.block().rows() - 1);
        let (in_run, mut moves) = at.walk.moves_in_run(direction, fence);
        let in_block = match direction {
            Direction::Up => last - row,
            Direction::Down => row,
        };
        if moves == in_run && moves < in_block {
            moves = match direction {
                Direction::Up if block.cmp_key(last, fence).is_lt() => in_block,
                Direction::Down if block.cmp_key(0, fence).is_gt() => in_block,
                Direction::Up => block.lower_bound(fence, CommitTs::MAX).saturating_sub(row + 1),
                Direction::Down => row.saturating_sub(block.lower_bound(fence, CommitTs::ZERO)),
            };
        }
        if direction == Direction::Down && moves == in_block && moves > 0 {
            // A newer version of the first row's key may lie in the block before.
            moves -= usize::from(self.begins_within_key(at));
        }
        (moves > 0).then_some((&at.walk, moves))
    }

    fn plain_from(&self) -> CommitTs {
        self.at.as_ref().map_or(CommitTs::ZERO, |at| at.block().oldest())
    }

    fn follow(&mut self, direction: Direction, moves: usize) {
        if let Some(at) = &mut self.at {
            at.walk.follow(direction, moves);
        }
    }

    fn blame(&self, damage: Damage) -> Error {
        let offset = self.at.as_ref().map_or(0, |at| self.file.index().handle(at.entry).offset);
        damage.at(self.file.path(), offset)
    }
}

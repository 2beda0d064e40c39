//! One sorted level as a cursor; files are opened as the cursor reaches them. A file in which the
//! scan's filter leaves nothing is as good as absent.

use crate::cursor::{Cursor, Direction};
use crate::error::{Error, Result};
use crate::ids::{CommitTs, RowKind};
use crate::iter::merge::KEY_ABOVE_ALL;
use crate::iter::sifting::Sifting;
use crate::sstable::format::Damage;
use crate::sstable::iter::TableCursor;
use crate::sstable::walk::{Terms, Walk, Walked};
use crate::version::files::Part;
use bytes::Bytes;

/// Files in which one move finds nothing. Of the next one it shows a row, whatever the filter says
/// of it: whoever walks can stop there.
const FILES_PER_MOVE: usize = 4;

/// A cursor over files that are sorted and do not overlap.
pub(crate) struct LevelCursor {
    part: Part,
    at: usize, // The file that `cursor` is over.
    cursor: Option<TableCursor>,
    sifting: Option<Sifting>,
}

impl LevelCursor {
    /// A cursor over the files of `part` that passes over what `sifting` says.
    pub(crate) fn new(part: Part, sifting: Option<Sifting>) -> LevelCursor {
        LevelCursor { part, at: 0, cursor: None, sifting }
    }

    /// Opens file `at`; stands on nothing where there is no such file.
    fn open(&mut self, at: Option<usize>) -> Result<Option<&mut TableCursor>> {
        self.open_after(0, at)
    }

    /// The same after so many files in which the move here found nothing.
    fn open_after(
        &mut self,
        in_vain: usize,
        at: Option<usize>,
    ) -> Result<Option<&mut TableCursor>> {
        let Some((at, file)) = at.and_then(|at| Some((at, self.part.files().get(at)?))) else {
            self.cursor = None;
            return Ok(None);
        };
        if self.cursor.is_none() || self.at != at {
            let pace = self.cursor.take().map(|cursor| cursor.pace()).unwrap_or_default();
            let table = file.table()?;
            let shows = in_vain >= FILES_PER_MOVE;
            let sieve = Sifting::sieve(self.sifting.as_ref(), &table, shows)?;
            self.cursor = Some(table.cursor_at_pace(pace).with_sieve(sieve));
            self.at = at;
        }
        Ok(self.cursor.as_mut())
    }

    /// Goes on upwards while the file here has nothing more.
    fn settle_up(&mut self) -> Result<()> {
        let mut in_vain = 0;
        while self.cursor.is_some() && self.on_row().is_none() {
            let mut at = self.at + 1;
            while self.passes_over(at) {
                at += 1;
            }
            in_vain += 1;
            if let Some(cursor) = self.open_after(in_vain, Some(at))? {
                cursor.seek(&[], CommitTs::MAX)?;
            }
        }
        Ok(())
    }

    /// The same downwards.
    fn settle_down(&mut self) -> Result<()> {
        let mut in_vain = 0;
        while self.cursor.is_some() && self.on_row().is_none() {
            let mut below = self.at.checked_sub(1);
            while let Some(at) = below.filter(|at| self.passes_over(*at)) {
                below = at.checked_sub(1);
            }
            in_vain += 1;
            if let Some(cursor) = self.open_after(in_vain, below)? {
                cursor.seek_before(KEY_ABOVE_ALL)?;
            }
        }
        Ok(())
    }

    /// Whether nothing of file `at` needs to be read.
    fn passes_over(&self, at: usize) -> bool {
        let file = self.part.files().get(at);
        self.sifting.as_ref().zip(file).is_some_and(|(sifting, file)| sifting.passes_over(file))
    }

    fn on_row(&self) -> Option<&TableCursor> {
        self.cursor.as_ref().filter(|cursor| cursor.valid())
    }
}

impl Cursor for LevelCursor {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        let at = self.part.files().partition_point(|file| file.meta.largest.as_slice() < key);
        if let Some(cursor) = self.open(Some(at))? {
            cursor.seek(key, ts)?;
        }
        // All of the last key's versions may be newer than `ts`: the next file has what follows.
        self.settle_up()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let after = self.part.files().partition_point(|file| file.meta.smallest.as_slice() < key);
        if let Some(cursor) = self.open(after.checked_sub(1))? {
            cursor.seek_before(key)?;
        }
        self.settle_down()
    }

    fn next(&mut self) -> Result<()> {
        let Some(cursor) = self.cursor.as_mut() else { return Ok(()) };
        cursor.next()?;
        match cursor.valid() {
            true => Ok(()),
            false => self.settle_up(),
        }
    }

    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = self.cursor.as_mut() else { return Ok(()) };
        cursor.prev()?;
        match cursor.valid() {
            true => Ok(()),
            false => self.settle_down(),
        }
    }

    fn valid(&self) -> bool {
        self.on_row().is_some()
    }

    fn key(&self) -> &[u8] {
        self.on_row().map_or(&[], |cursor| cursor.key())
    }

    fn ts(&self) -> CommitTs {
        self.on_row().map_or(CommitTs::ZERO, |cursor| cursor.ts())
    }

    fn kind(&self) -> RowKind {
        self.on_row().map_or(RowKind::Delete, |cursor| cursor.kind())
    }

    fn value(&mut self) -> Result<Bytes> {
        match self.cursor.as_mut() {
            Some(cursor) => cursor.value(),
            None => Ok(Bytes::new()),
        }
    }

    fn value_ref(&self) -> Result<&[u8]> {
        self.on_row().map_or(Ok(&[]), TableCursor::value_ref)
    }

    fn is_ruled_out(&self) -> bool {
        self.on_row().is_some_and(Cursor::is_ruled_out)
    }

    // No key has versions in two files of a sorted level.
    fn ends_key(&self, direction: Direction) -> bool {
        self.on_row().is_some_and(|cursor| cursor.ends_key(direction))
    }

    fn skip(&mut self, direction: Direction, fence: &[u8], before: CommitTs) -> Result<bool> {
        let from = self.at;
        let (mut at, older) = (Some(from), |at: usize| {
            self.part.files().get(at).is_some_and(|file| file.meta.max_ts < before)
        });
        while let Some(file) = at.filter(|at| older(*at)).and_then(|at| self.part.files().get(at)) {
            let reaches_fence = match direction {
                Direction::Up => file.meta.largest.as_slice() >= fence,
                Direction::Down => file.meta.smallest.as_slice() < fence,
            };
            if reaches_fence {
                break;
            }
            at = match direction {
                Direction::Up => at.map(|at| at + 1),
                Direction::Down => at.and_then(|at| at.checked_sub(1)),
            };
        }
        let is_older = at.is_some_and(older);
        if !is_older && at == Some(from) {
            return Ok(false);
        }
        let Some(cursor) = self.open(at)? else { return Ok(true) };
        match (direction, is_older) {
            (Direction::Up, true) => cursor.seek(fence, CommitTs::MAX)?,
            (Direction::Up, false) => cursor.seek(&[], CommitTs::MAX)?,
            (Direction::Down, true) => cursor.seek_before(fence)?,
            (Direction::Down, false) => cursor.seek_before(KEY_ABOVE_ALL)?,
        }
        match direction {
            Direction::Up => self.settle_up()?,
            Direction::Down => self.settle_down()?,
        }
        Ok(true)
    }
}

impl Walked for LevelCursor {
    fn plain_walk(&self, terms: Terms<'_>) -> Option<(&Walk, usize)> {
        self.on_row()?.plain_walk(terms)
    }

    fn plain_from(&self) -> CommitTs {
        self.on_row().map_or(CommitTs::ZERO, Walked::plain_from)
    }

    fn follow(&mut self, direction: Direction, moves: usize) {
        if let Some(cursor) = &mut self.cursor {
            cursor.follow(direction, moves);
        }
    }

    fn blame(&self, damage: Damage) -> Error {
        self.cursor.as_ref().map_or_else(|| damage.nowhere(), |cursor| cursor.blame(damage))
    }
}

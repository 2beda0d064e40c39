//! One sorted level as a cursor; files are opened as the cursor reaches them.

use crate::cursor::{Cursor, Direction};
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::iter::merge::KEY_ABOVE_ALL;
use crate::sstable::iter::TableCursor;
use crate::version::files::LiveFile;
use bytes::Bytes;
use std::sync::Arc;

/// A cursor over files that are sorted and do not overlap.
pub(crate) struct LevelCursor {
    files: Vec<Arc<LiveFile>>,
    at: usize, // The file that `cursor` is over.
    cursor: Option<TableCursor>,
}

impl LevelCursor {
    /// A cursor over `files`, in key order.
    pub(crate) fn new(files: Vec<Arc<LiveFile>>) -> LevelCursor {
        LevelCursor { files, at: 0, cursor: None }
    }

    /// Opens file `at`; stands on nothing where there is no such file.
    fn open(&mut self, at: Option<usize>) -> Result<Option<&mut TableCursor>> {
        let Some((at, file)) = at.and_then(|at| Some((at, self.files.get(at)?))) else {
            self.cursor = None;
            return Ok(None);
        };
        if self.cursor.is_none() || self.at != at {
            let pace = self.cursor.take().map(|cursor| cursor.pace()).unwrap_or_default();
            self.cursor = Some(file.table()?.cursor_at_pace(pace));
            self.at = at;
        }
        Ok(self.cursor.as_mut())
    }

    fn on_row(&self) -> Option<&TableCursor> {
        self.cursor.as_ref().filter(|cursor| cursor.valid())
    }
}

impl Cursor for LevelCursor {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        let at = self.files.partition_point(|file| file.meta.largest.as_slice() < key);
        if let Some(cursor) = self.open(Some(at))? {
            cursor.seek(key, ts)?;
        }
        // All of the last key's versions may be newer than `ts`: the next file has what follows.
        if self.cursor.is_some()
            && self.on_row().is_none()
            && let Some(cursor) = self.open(Some(at + 1))?
        {
            cursor.seek(&[], CommitTs::MAX)?;
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let after = self.files.partition_point(|file| file.meta.smallest.as_slice() < key);
        if let Some(cursor) = self.open(after.checked_sub(1))? {
            cursor.seek_before(key)?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let Some(cursor) = self.cursor.as_mut() else { return Ok(()) };
        cursor.next()?;
        if !cursor.valid() {
            let at = self.at + 1;
            if let Some(cursor) = self.open(Some(at))? {
                cursor.seek(&[], CommitTs::MAX)?;
            }
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = self.cursor.as_mut() else { return Ok(()) };
        cursor.prev()?;
        if !cursor.valid() {
            let below = self.at.checked_sub(1);
            let end = self.files.get(self.at).map(|file| file.meta.smallest.clone());
            if let Some(cursor) = self.open(below)? {
                cursor.seek_before(&end.unwrap_or_default())?;
            }
        }
        Ok(())
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

    // No key has versions in two files of a sorted level.
    fn ends_key(&self, direction: Direction) -> bool {
        self.on_row().is_some_and(|cursor| cursor.ends_key(direction))
    }

    fn plain_moves(&self, direction: Direction, at: CommitTs, fence: &[u8]) -> usize {
        self.on_row().map_or(0, |cursor| cursor.plain_moves(direction, at, fence))
    }

    fn skip(&mut self, direction: Direction, fence: &[u8], before: CommitTs) -> Result<bool> {
        let from = self.at;
        let (mut at, older) = (Some(from), |at: usize| {
            self.files.get(at).is_some_and(|file| file.meta.max_ts < before)
        });
        while let Some(file) = at.filter(|at| older(*at)).and_then(|at| self.files.get(at)) {
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
        Ok(true)
    }

    fn move_plainly(&mut self, direction: Direction) {
        if let Some(cursor) = &mut self.cursor {
            cursor.move_plainly(direction);
        }
    }
}

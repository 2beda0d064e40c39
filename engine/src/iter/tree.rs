//! A View as one cursor: its memtables, its L0 files and its deeper levels, merged; sources that
//! cannot hold a row of the range are left out.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::ids::{CommitTs, RowKind};
use crate::iter::level::{LevelCursor, Purpose, over_file};
use crate::iter::merge::MergeCursor;
use crate::iter::visible::VisibleCursor;
use crate::key::range::KeyRange;
use crate::limits::LEVELS;
use crate::sstable::iter::TableCursor;
use crate::version::files::LiveFile;
use crate::view::View;
use bytes::Bytes;
use std::sync::Arc;

/// One source of a merge.
pub(crate) enum Source {
    Memory(Box<dyn Cursor + Send>),
    File(TableCursor),
    Level(LevelCursor),
}

/// The rows of `range` that a reader at `at` sees.
pub(crate) type Scan = VisibleCursor<MergeCursor<Source>>;

/// Opens a scan. Cost: opens the L0 files that overlap; reads nothing else yet.
pub(crate) fn scan(view: &View, range: KeyRange, at: CommitTs) -> Result<Scan> {
    let mut sources = Vec::new();
    for table in view.memtables().filter(|table| !table.is_empty()) {
        sources.push(Source::Memory(Arc::clone(table).cursor()));
    }
    let largest = range.end.as_slice(); // Excluded: one file too many at most.
    for file in view.version.overlapping(0, &range.start, largest) {
        sources.push(Source::File(over_file(&file, Purpose::Scan)?));
    }
    for level in 1..LEVELS {
        let files = view.version.overlapping(level, &range.start, largest);
        sources.extend(over_level(files, Purpose::Scan));
    }
    Ok(VisibleCursor::new(MergeCursor::new(sources), at, range))
}

/// A cursor over files of one sorted level.
pub(crate) fn over_level(files: Vec<Arc<LiveFile>>, purpose: Purpose) -> Option<Source> {
    (!files.is_empty()).then(|| Source::Level(LevelCursor::new(files, purpose)))
}

macro_rules! each {
    ($source:expr, $cursor:ident => $call:expr) => {
        match $source {
            Source::Memory($cursor) => $call,
            Source::File($cursor) => $call,
            Source::Level($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    fn seek(&mut self, key: &[u8], ts: CommitTs) -> Result<()> {
        each!(self, cursor => cursor.seek(key, ts))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek_before(key))
    }

    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }

    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }

    fn valid(&self) -> bool {
        each!(self, cursor => cursor.valid())
    }

    fn key(&self) -> &[u8] {
        each!(self, cursor => cursor.key())
    }

    fn ts(&self) -> CommitTs {
        each!(self, cursor => cursor.ts())
    }

    fn kind(&self) -> RowKind {
        each!(self, cursor => cursor.kind())
    }

    fn value(&mut self) -> Result<Bytes> {
        each!(self, cursor => cursor.value())
    }
}

//! A View as one cursor: its memtables, its L0 files and its deeper levels, merged; sources that
//! cannot hold a row of the range are left out.

use crate::cursor::{Cursor, Direction, Found};
use crate::error::{Error, Result};
use crate::ids::{CommitTs, RowKind};
use crate::iter::level::LevelCursor;
use crate::iter::merge::MergeCursor;
use crate::iter::sifting::Sifting;
use crate::iter::visible::VisibleCursor;
use crate::key::range::KeyRange;
use crate::key::{hash, order};
use crate::limits::LEVELS;
use crate::memtable::api::Memtable;
use crate::moment::Moment;
use crate::sstable::format::Damage;
use crate::sstable::iter::TableCursor;
use crate::sstable::walk::{Terms, Walk, Walked};
use crate::version::files::{LiveFile, Part};
use crate::view::View;
use crate::zone::ZoneScan;
use bytes::Bytes;
use std::sync::Arc;

/// One source of a merge.
pub(crate) enum Source {
    /// A memtable, and above which timestamp it has no version.
    Memory(Box<dyn Cursor + Send>, CommitTs),
    File(TableCursor),
    Level(LevelCursor),
}

/// The rows of a range that a reader sees.
pub(crate) type Scan = VisibleCursor<MergeCursor<Source>>;

/// Opens a scan; rows of commits up to `outlived_to` are hidden. Cost: opens the L0 files that
/// overlap, and two files at most of a deeper level; reads nothing else yet.
pub(crate) fn scan(
    view: &View,
    range: KeyRange,
    moment: Moment,
    outlived_to: CommitTs,
) -> Result<Scan> {
    scan_where(view, range, moment, outlived_to, None)
}

/// The same, without blocks that the filter of `zones` rules out. Some rows that do not pass come
/// all the same.
pub(crate) fn scan_where(
    view: &View,
    range: KeyRange,
    moment: Moment,
    outlived_to: CommitTs,
    zones: Option<&Arc<ZoneScan>>,
) -> Result<Scan> {
    let merge = merge(view, &range, zones)?;
    let rows = VisibleCursor::new(merge, view.cover(moment.at), moment, range);
    Ok(rows.without(outlived_to))
}

/// Everything in `view` that may hold versions of rows of `range`, less what `zones` leaves out.
pub(crate) fn merge(
    view: &View,
    range: &KeyRange,
    zones: Option<&Arc<ZoneScan>>,
) -> Result<MergeCursor<Source>> {
    let mut sources = Vec::new();
    for (table, last_ts) in memories(view) {
        sources.push(Source::Memory(Arc::clone(table).cursor(), last_ts));
    }
    let (newest, parts) = files(view, range)?;
    let runs = newest.iter().map(std::slice::from_ref).chain(parts.iter().map(Part::files));
    let mut siftings = Sifting::of_runs(range, zones, runs);
    for file in newest {
        let table = file.table()?;
        let sieve = Sifting::sieve(siftings.next().as_ref(), &table, false)?;
        sources.push(Source::File(table.cursor().with_sieve(sieve)));
    }
    for part in parts {
        sources.push(Source::Level(LevelCursor::new(part, siftings.next())));
    }
    Ok(MergeCursor::new(sources))
}

/// The memtables that hold anything, newest first, and above which timestamp each has no version.
pub(crate) fn memories(view: &View) -> impl Iterator<Item = (&Arc<dyn Memtable>, CommitTs)> {
    let sealed = view.sealed.iter().map(|sealed| (&sealed.table, sealed.last_ts));
    let all = std::iter::once((&view.active, CommitTs::MAX)).chain(sealed);
    all.filter(|(table, _)| !table.is_empty())
}

/// The files that may hold rows of `range`: those of L0, and of each sorted level that has any.
fn files(view: &View, range: &KeyRange) -> Result<(Vec<Arc<LiveFile>>, Vec<Part>)> {
    let largest = range.end.as_slice(); // Excluded: one file too many at most.
    let partition = one_partition(range);
    let holds = |file: &LiveFile| match partition {
        Some(partition) => Ok(file.table()?.may_hold_partition(partition)),
        None => Ok(true),
    };
    let mut newest = Vec::new();
    for file in view.version.overlapping(0, &range.start, largest) {
        if holds(&file)? {
            newest.push(file);
        }
    }
    let mut parts = Vec::with_capacity(LEVELS);
    for level in 1..LEVELS {
        let mut part = view.version.part(level, &range.start, largest);
        // Where more files of a sorted level overlap, the partition fills those in the middle.
        if partition.is_some() {
            part.trim(holds)?;
        }
        if !part.files().is_empty() {
            parts.push(part);
        }
    }
    Ok((newest, parts))
}

/// The same as runs, newest first: each has files that are sorted and do not overlap.
pub(crate) fn runs(view: &View, range: &KeyRange) -> Result<Vec<Vec<Arc<LiveFile>>>> {
    let (newest, parts) = files(view, range)?;
    let newest = newest.into_iter().map(|file| vec![file]);
    Ok(newest.chain(parts.iter().map(|part| part.files().to_vec())).collect())
}

/// The hash of the partition that the whole range lies in, if it lies in one.
fn one_partition(range: &KeyRange) -> Option<u64> {
    let prefix = range.start.get(..order::prefix_len(&range.start)?)?;
    (range.end <= order::partition_end(prefix)).then(|| hash::of_partition(prefix))
}

/// Moves past everything up to `fence`.
fn pass_over(
    cursor: &mut (impl Cursor + ?Sized),
    direction: Direction,
    fence: &[u8],
) -> Result<bool> {
    match direction {
        Direction::Up => cursor.seek(fence, CommitTs::MAX)?,
        Direction::Down => cursor.seek_before(fence)?,
    }
    Ok(true)
}

macro_rules! each {
    ($source:expr, $cursor:ident => $call:expr) => {
        match $source {
            Source::Memory($cursor, _) => $call,
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

    fn value_ref(&self) -> Result<&[u8]> {
        each!(self, cursor => cursor.value_ref())
    }

    fn is_ruled_out(&self) -> bool {
        each!(self, cursor => cursor.is_ruled_out())
    }

    fn ends_key(&self, direction: Direction) -> bool {
        each!(self, cursor => cursor.ends_key(direction))
    }

    fn leave_key(&mut self, scratch: &mut Vec<u8>) -> Result<()> {
        each!(self, cursor => cursor.leave_key(scratch))
    }

    fn pass_newer(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<bool> {
        each!(self, cursor => cursor.pass_newer(at, scratch))
    }

    fn pass_key(&mut self, at: CommitTs, scratch: &mut Vec<u8>) -> Result<Option<Found>> {
        each!(self, cursor => cursor.pass_key(at, scratch))
    }

    fn skip(&mut self, direction: Direction, fence: &[u8], before: CommitTs) -> Result<bool> {
        match self {
            Source::Memory(_, last_ts) if *last_ts >= before => Ok(false),
            Source::Memory(cursor, _) => pass_over(cursor.as_mut(), direction, fence),
            Source::File(cursor) if cursor.newest() >= before => Ok(false),
            Source::File(cursor) => pass_over(cursor, direction, fence),
            Source::Level(cursor) => cursor.skip(direction, fence, before),
        }
    }
}

impl Walked for Source {
    fn plain_walk(&self, terms: Terms<'_>) -> Option<(&Walk, usize)> {
        match self {
            Source::Memory(..) => None,
            Source::File(cursor) => cursor.plain_walk(terms),
            Source::Level(cursor) => cursor.plain_walk(terms),
        }
    }

    fn plain_from(&self) -> CommitTs {
        match self {
            Source::Memory(..) => CommitTs::ZERO,
            Source::File(cursor) => cursor.plain_from(),
            Source::Level(cursor) => cursor.plain_from(),
        }
    }

    fn follow(&mut self, direction: Direction, moves: usize) {
        match self {
            Source::Memory(..) => {}
            Source::File(cursor) => cursor.follow(direction, moves),
            Source::Level(cursor) => cursor.follow(direction, moves),
        }
    }

    fn blame(&self, damage: Damage) -> Error {
        match self {
            Source::Memory(..) => damage.nowhere(),
            Source::File(cursor) => cursor.blame(damage),
            Source::Level(cursor) => cursor.blame(damage),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;
    use crate::chunks::SpareChunks;
    use crate::erasure::live::Cover;
    use crate::erasure::set::{Erasure, Erasures};
    use crate::memtable::table::new_memtable;

    /// To pass one costs what a key costs at least: each source seeks.
    #[test]
    fn a_move_up_passes_so_many_erased_stretches() {
        let table = new_memtable(&SpareChunks::none());
        let letters = b'a'..=b'z';
        for letter in letters.clone() {
            for digit in b'0'..=b'9' {
                table.insert(&[letter, digit], CommitTs(1), RowKind::Put, b"");
            }
        }
        let stretch = |letter: u8| Erasure {
            start: [letter].as_slice().into(),
            end: [letter + 1].as_slice().into(),
            ts: CommitTs(u64::from(letter)),
        };
        let erased = Arc::new(Erasures::of(letters.map(stretch)));
        let moment = Moment::past(CommitTs(1_000));
        let range = KeyRange { start: Vec::new(), end: b"{".to_vec() };
        let merge = MergeCursor::new(vec![Source::Memory(table.cursor(), CommitTs(1))]);
        let cover = Cover::new(std::iter::once(erased), moment.at);
        let mut rows = VisibleCursor::new(merge, cover, moment, range);
        rows.stop_after(3);
        let mut stops = Vec::new();
        while rows.next().unwrap() {
            assert!(rows.is_ruled_out());
            stops.push(rows.key().to_vec());
        }
        // Behind a stop the rest of its own stretch is one more.
        assert_eq!(stops, [b"d0", b"g0", b"j0", b"m0", b"p0", b"s0", b"v0", b"y0"]);
    }
}

//! How many rows of a range a reader sees, mostly from what the index knows: a block that no other
//! source shares a key with is counted unread.
//!
//! Every source has a *low* key, the least that it may have next, and stands either on a row, which
//! is then its low key, or before a block that nobody has read. The lowest source is taken again
//! and again:
//!
//! - A row is settled as a scan would do it: of all versions of its key the newest that the reader
//!   may see, if that is no delete, not erased and not expired.
//! - Blocks that end below what every other source may have are counted as the index does, many in
//!   one step. Where another unread block is in the way, the newer of the two is read: it is of the
//!   smaller level, and its rows are few and far between.
//! - Where a row is in the way, the filter mostly knows that the file does not have its key; then
//!   the block stays unread. Where it may have it, the block is read.
//!
//! So a settled range costs steps by the number of its files; what lies above the deepest level is
//! read, and below it one block for each row that replaces or removes another.

use crate::cursor::Cursor;
use crate::erasure::live::Cover;
use crate::error::Result;
use crate::expiry;
use crate::ids::{CommitTs, RowKind};
use crate::iter::tree::{memories, runs};
use crate::key::hash;
use crate::key::range::KeyRange;
use crate::moment::Moment;
use crate::sstable::ahead::Pace;
use crate::sstable::tally::{Low, Passed, Tally};
use crate::version::files::LiveFile;
use crate::view::View;
use std::sync::Arc;

/// The rows of `range` in `view` that a reader at `moment` sees.
///
/// Cost: opens every file of the range; what it reads, see above. A moment that has newer commits
/// in a file reads all of that file's keys in the range; so does a table's time to live by which
/// some of the file's rows are gone and others are not; of a key with more versions than a block
/// holds, two blocks or three. It hides rows of commits up to `outlived_to`.
pub(crate) fn count(
    view: &View,
    range: &KeyRange,
    moment: Moment,
    outlived_to: CommitTs,
) -> Result<u64> {
    if range.is_empty() {
        return Ok(0);
    }
    let mut sources = Vec::new();
    for (table, _) in memories(view) {
        let mut cursor = Arc::clone(table).cursor();
        cursor.seek(&range.start, CommitTs::MAX)?;
        sources.push(Source::Memory(cursor));
    }
    for files in runs(view, range)? {
        sources.push(Source::Run(Box::new(Run::open(files, range)?)));
    }
    let Moment { at, now } = moment;
    let (cover, end) = (view.cover(at), &range.end);
    let from = match outlived_to {
        CommitTs::ZERO => CommitTs::ZERO, // Hides none.
        CommitTs(ts) => CommitTs(ts.saturating_add(1)),
    };
    let mut count = Count { sources, cover, at, now, from, end, key: Vec::new(), rows: 0 };
    while count.step()? {}
    Ok(count.rows)
}

struct Count<'a> {
    /// Newest first.
    sources: Vec<Source>,
    cover: Cover,
    at: CommitTs,
    now: CommitTs,
    /// What was committed before has outlived its table's time to live.
    from: CommitTs,
    end: &'a [u8],
    key: Vec<u8>, // Used again from step to step.
    rows: u64,
}

enum Source {
    Memory(Box<dyn Cursor + Send>),
    Run(Box<Run>),
}

/// Files that are sorted and do not overlap.
struct Run {
    range: KeyRange,
    files: std::vec::IntoIter<Arc<LiveFile>>,
    /// `None` past the last file, as is the tally.
    here: Option<Arc<LiveFile>>,
    tally: Option<Tally>,
}

impl Count<'_> {
    /// Settles what is lowest; false where nothing is left.
    fn step(&mut self) -> Result<bool> {
        let row = self.lowest(|source| source.is_on_row());
        let block = self.lowest(|source| !source.is_on_row());
        match (row, block) {
            (None, None) => return Ok(false),
            (Some(row), None) => self.take_row(row)?,
            (None, Some(block)) => self.pass_blocks(block, None)?,
            (Some(row), Some(block)) => match self.low(row) < self.low(block) {
                true => self.take_row(row)?,
                false => self.pass_blocks(block, Some(row))?,
            },
        }
        Ok(true)
    }

    /// Which source that `counts` has the lowest low key, of those that have one in the range. Of
    /// equal ones the newest.
    fn lowest(&self, counts: impl Fn(&Source) -> bool) -> Option<usize> {
        let mut lowest: Option<(usize, Low<'_>)> = None;
        for (place, source) in self.sources.iter().enumerate() {
            let Some(low) = source.low().filter(|low| low.key < self.end) else { continue };
            if lowest.is_none_or(|(_, lowest)| low < lowest) && counts(source) {
                lowest = Some((place, low));
            }
        }
        lowest.map(|(place, _)| place)
    }

    fn low(&self, source: usize) -> Option<Low<'_>> {
        self.sources.get(source).and_then(Source::low)
    }

    /// Passes over blocks of the source `block`, the lowest that stands before one, or reads one.
    /// `row`: the lowest that stands on a row.
    fn pass_blocks(&mut self, block: usize, row: Option<usize>) -> Result<()> {
        let (others, rest) = self.sources.split_at_mut(block);
        let Some((Source::Run(here), others_after)) = rest.split_first_mut() else { return Ok(()) };
        let Some(tally) = &mut here.tally else { return Ok(()) };
        let mut fence = self.end;
        let mut in_the_way = None;
        let older = others_after.iter().enumerate().map(|(at, other)| (block + 1 + at, other));
        for (place, other) in others.iter().enumerate().chain(older) {
            // Of equal fences an unread block counts, which says less than a row.
            if let Some(low) = other.low().filter(|low| low.key <= fence && low.key < self.end)
                && (low.key < fence || !other.is_on_row())
            {
                (fence, in_the_way) = (low.key, Some(place));
            }
        }
        let Some(low) = tally.low() else { return Ok(()) };
        let (erased_before, clear_to) = self.cover.hidden_to(low.key, fence);
        let erasure_ends = clear_to < fence;
        let hidden_before = erased_before.max(self.from);
        let file = Arc::clone(tally.file());
        let none_counts = file.newest() < hidden_before;
        let all_count = shows_all(tally, self.at, hidden_before);
        let passed = match none_counts || all_count {
            true => tally.pass_blocks(clear_to, none_counts),
            false => Passed::Unknown,
        };
        match (passed, in_the_way) {
            (Passed::Rows(rows), _) => {
                self.rows += rows;
                here.settle()
            }
            (Passed::Fence, Some(_)) if erasure_ends => here.read_block(),
            (Passed::Fence, Some(other)) if Some(other) == row => {
                let hash = hash::of_row(fence);
                if file.may_hold_row(hash) { here.read_block() } else { self.take_row(other) }
            }
            (Passed::Fence, Some(other)) if other < block => self.read_block(other),
            _ => here.read_block(),
        }
    }

    fn read_block(&mut self, source: usize) -> Result<()> {
        match self.sources.get_mut(source) {
            Some(Source::Run(run)) => run.read_block(),
            _ => Ok(()),
        }
    }

    /// Counts the row at the source `place`, whose key no unread block has; and with it, where that
    /// is known without more ado, the rows that follow it there.
    fn take_row(&mut self, place: usize) -> Result<()> {
        let passed = self.pass_rows(place);
        if passed > 0 {
            self.rows += passed;
            return self.sources[place].settle();
        }
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.low(place).map_or(&[][..], |low| low.key));
        let mut newest: Option<(CommitTs, CommitTs)> = None;
        for source in &mut self.sources {
            while let Some((ts, kind)) = source.version_of(&key)? {
                let is_seen = ts <= self.at;
                if is_seen && newest.is_none_or(|(newest, _)| newest < ts) {
                    newest = Some((ts, source.gone_from(kind)?));
                }
                // What is older than one that is seen counts no more.
                source.leave_versions(if is_seen { CommitTs::ZERO } else { self.at })?;
            }
        }
        if let Some((ts, gone_from)) = newest {
            let shown = self.from <= ts && self.now < gone_from && !self.cover.hides(&key, ts);
            self.rows += u64::from(shown);
        }
        self.key = key;
        Ok(())
    }

    /// Passes over rows of one block that nothing else has a word on; how many.
    fn pass_rows(&mut self, place: usize) -> u64 {
        let (others, rest) = self.sources.split_at_mut(place);
        let Some((Source::Run(here), others_after)) = rest.split_first_mut() else { return 0 };
        let Some(tally) = &mut here.tally else { return 0 };
        let lows = others.iter().chain(others_after.iter()).filter_map(Source::low);
        let fence = lows.map(|low| low.key).min().map_or(self.end, |fence| fence.min(self.end));
        let Some(low) = tally.low().filter(|low| low.key < fence) else { return 0 };
        let (erased_before, clear_to) = self.cover.hidden_to(low.key, fence);
        match shows_all(tally, self.at, erased_before.max(self.from)) {
            true => tally.pass_rows(clear_to),
            false => 0,
        }
    }
}

/// Whether a reader at `at`, for whom versions before `hidden_before` are hidden, sees every
/// version that is the newest of its key: in the block here, or in the file, where the block was
/// not read.
fn shows_all(tally: &Tally, at: CommitTs, hidden_before: CommitTs) -> bool {
    let (oldest, newest) = tally.times();
    newest <= at && hidden_before <= oldest
}

impl Source {
    fn low(&self) -> Option<Low<'_>> {
        match self {
            Source::Memory(cursor) => {
                cursor.valid().then(|| Low { key: cursor.key(), behind: false })
            }
            Source::Run(run) => run.tally.as_ref().and_then(Tally::low),
        }
    }

    fn is_on_row(&self) -> bool {
        match self {
            Source::Memory(_) => true,
            Source::Run(run) => run.tally.as_ref().is_none_or(Tally::is_on_row),
        }
    }

    /// The version here, if it is one of `key`. Reads the block here where `key` may go on in it.
    fn version_of(&mut self, key: &[u8]) -> Result<Option<(CommitTs, RowKind)>> {
        if self.low() != Some(Low { key, behind: false }) {
            return Ok(None);
        }
        match self {
            Source::Memory(cursor) => Ok(Some((cursor.ts(), cursor.kind()))),
            Source::Run(run) => {
                run.read_block()?;
                let tally =
                    run.tally.as_ref().filter(|tally| tally.low().map(|low| low.key) == Some(key));
                Ok(tally.and_then(Tally::version))
            }
        }
    }

    /// From when on the version here, which is of that kind, is no row: always for a delete, never
    /// for one that does not expire. Cost: the first row of a block that may expire decompresses
    /// values.
    fn gone_from(&self, kind: RowKind) -> Result<CommitTs> {
        match (kind, self) {
            (RowKind::Delete, _) => Ok(CommitTs::ZERO),
            (RowKind::Put | RowKind::Link, _) => Ok(CommitTs::MAX),
            (_, Source::Memory(cursor)) => Ok(expiry::of(kind, cursor.value_ref()?)),
            (_, Source::Run(run)) => match &run.tally {
                Some(tally) => Ok(expiry::of(kind, tally.value()?)),
                None => Ok(CommitTs::ZERO),
            },
        }
    }

    /// Leaves the version here, and with it those behind it of its key that are newer than
    /// `down_to`.
    fn leave_versions(&mut self, down_to: CommitTs) -> Result<()> {
        match self {
            Source::Memory(cursor) if down_to == CommitTs::ZERO => {
                cursor.leave_key(&mut Vec::new())
            }
            Source::Memory(cursor) => cursor.pass_newer(down_to, &mut Vec::new()).map(|_| ()),
            Source::Run(run) => {
                run.tally.iter_mut().for_each(|tally| tally.leave_versions(down_to));
                run.settle()
            }
        }
    }

    fn settle(&mut self) -> Result<()> {
        match self {
            Source::Memory(_) => Ok(()),
            Source::Run(run) => run.settle(),
        }
    }
}

impl Run {
    fn open(files: Vec<Arc<LiveFile>>, range: &KeyRange) -> Result<Run> {
        let files = files.into_iter();
        let mut run = Run { range: range.clone(), files, here: None, tally: None };
        run.next_file(Pace::default())?;
        run.settle()?;
        Ok(run)
    }

    fn next_file(&mut self, pace: Pace) -> Result<()> {
        self.here = self.files.next();
        self.tally = match &self.here {
            Some(file) => Some(Tally::new(&*file.table()?, &self.range, pace)),
            None => None,
        };
        Ok(())
    }

    /// Goes on to the next file where this one has nothing more.
    fn settle(&mut self) -> Result<()> {
        while let Some(tally) = self.tally.as_ref().filter(|tally| tally.low().is_none()) {
            let pace = tally.pace();
            self.next_file(pace)?;
        }
        Ok(())
    }

    fn read_block(&mut self) -> Result<()> {
        self.tally.iter_mut().try_for_each(Tally::read_block)?;
        self.settle()
    }
}

//! A Version: which table files exist, level by level, as of one moment. Never changes; a flush or
//! a compaction makes the next one.
//!
//! L0 files may overlap and are searched newest first. Files of a deeper level do not overlap and
//! are sorted by key.

use crate::cache::BlockPlace;
use crate::cursor::Found;
use crate::erasure::set::Erasures;
use crate::error::{Error, Kind, Result};
use crate::ids::{CommitTs, FileNo};
use crate::key::fences::Fences;
use crate::key::range::KeyRange;
use crate::limits::LEVELS;
use crate::manifest::change::Changing;
use crate::manifest::edit::Edit;
use crate::manifest::state::State;
use crate::names::FileKind;
use crate::options::Reach;
use crate::pool::Pool;
use crate::sstable::format::FileMeta;
use crate::sstable::reader::{Books, TableFile};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, OnceLock};
use crate::version::blobs::Blobs;
use crate::version::shelf::Shelf;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Files of one edit that are opened before anybody reads them: half a millisecond each.
const OPENED_EARLY_MAX: usize = 16;

/// Files of L0 beside those over one key: with more of them bounds are looked at before filters.
const BESIDE_MAX: usize = 8;

/// A table file of some Version. Opened when it was made or at its first use, for good where there
/// is room for its index and filters and for a while otherwise; thrown away when the manifest has
/// dropped it and the last reader is gone.
pub(crate) struct LiveFile {
    pub(crate) meta: Arc<FileMeta>,
    shelf: Arc<Shelf>,
    table: OnceLock<Arc<TableFile>>,
    dropped: AtomicBool,
    unreadable: Mutex<Option<String>>,
}

impl LiveFile {
    pub(crate) fn new(meta: Arc<FileMeta>, shelf: Arc<Shelf>) -> Arc<LiveFile> {
        Arc::new(LiveFile {
            meta,
            shelf,
            table: OnceLock::new(),
            dropped: AtomicBool::new(false),
            unreadable: Mutex::default(),
        })
    }

    /// Takes note of why a merge could not read it, or that one may try again.
    pub(crate) fn set_unreadable(&self, why: Option<&Error>) {
        *self.unreadable.lock() = why.map(Error::to_string);
    }

    /// Why a merge could not read it.
    pub(crate) fn unreadable(&self) -> Option<String> {
        self.unreadable.lock().clone()
    }

    /// The open file. Cost: the first call reads footer, index and filters; where memory has no
    /// room for those of all files, each call may.
    pub(crate) fn table(&self) -> Result<Cow<'_, Arc<TableFile>>> {
        self.table_in_memory().map_or_else(|| self.open(), Ok)
    }

    fn open(&self) -> Result<Cow<'_, Arc<TableFile>>> {
        let path = self.shelf.table_path(self.meta.no);
        let file = self.shelf.open((FileKind::Table, self.meta.no), &path);
        let file = file.map_err(|e| Error::io("opening a table file", &path, e))?;
        let table = TableFile::open(file, path, &self.meta, Arc::clone(&self.shelf.pool.blocks))?;
        let table = if self.shelf.mapped { table.in_place() } else { table };
        self.shelf.pool.opened.add(1);
        let books: Arc<dyn Books> = Arc::<Pool>::clone(&self.shelf.pool);
        let table = Arc::new(table.read_ahead_by(&self.shelf.errands).counted_in(books));
        if table.stays() {
            return Ok(Cow::Borrowed(self.table.get_or_init(|| table)));
        }
        let bytes = self.shelf.pool.budget.passing_weight(table.resident_bytes());
        Ok(Cow::Owned(self.shelf.passing.insert(self.place(), table, bytes)))
    }

    /// Opens it before anybody asks, where it may stay open. Whoever reads it is told what fails.
    fn open_early(&self) {
        if self.shelf.pool.may_stay() {
            let _ = self.table();
        }
    }

    /// Where the shelf has it while it is open for a while.
    fn place(&self) -> BlockPlace {
        BlockPlace { file: self.meta.no, offset: 0 }
    }

    /// The open file, where memory has it.
    fn table_in_memory(&self) -> Option<Cow<'_, Arc<TableFile>>> {
        let stays = self.table.get().map(Cow::Borrowed);
        stays.or_else(|| self.shelf.passing.get(self.place()).map(Cow::Owned))
    }

    /// How many blocks it has, where it is open.
    pub(crate) fn blocks_if_open(&self) -> Option<u64> {
        self.table_in_memory().map(|table| table.props().blocks)
    }

    fn overlaps(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.meta.smallest.as_slice() <= largest && smallest <= self.meta.largest.as_slice()
    }

    /// Starts fetching what [`LiveFile::get`] will ask first.
    fn prefetch(&self, row_hash: u64) {
        if let Some(table) = self.table.get() {
            table.prefetch_row(row_hash);
        }
    }

    fn get(&self, key: &[u8], row_hash: u64, at: CommitTs, reach: Reach) -> Result<Option<Found>> {
        // An open file is asked through its filter, which costs less than a look at its bounds.
        if let Some(table) = self.table.get() {
            return table.get(key, row_hash, at, reach);
        }
        if !self.overlaps(key, key) {
            return Ok(None);
        }
        match self.table_in_memory() {
            Some(table) => table.get(key, row_hash, at, reach),
            None if reach == Reach::Memory => {
                Err(Error::new(Kind::WouldBlock, "the file's index is not in memory"))
            }
            None => self.open()?.get(key, row_hash, at, reach),
        }
    }

    fn begin_get(&self, key: &[u8], row_hash: u64, at: CommitTs) -> bool {
        let table = self.overlaps(key, key).then(|| self.table_in_memory()).flatten();
        table.is_some_and(|table| table.begin_get(key, row_hash, at))
    }

    fn may_hold(&self, key: &[u8], row_hash: u64, reach: Reach) -> Result<bool> {
        if !self.overlaps(key, key) {
            return Ok(false);
        }
        match self.table_in_memory() {
            Some(table) => Ok(table.may_hold_row(row_hash)),
            None if reach == Reach::Memory => Ok(true),
            None => Ok(self.open()?.may_hold_row(row_hash)),
        }
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        if self.dropped.load(Ordering::Relaxed) {
            self.shelf.let_go(FileKind::Table, self.meta.no, self.meta.bytes);
        }
    }
}

impl fmt::Debug for LiveFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({} bytes)", self.meta.no, self.meta.bytes)
    }
}

/// The files that may hold one key, newest first: all of L0, and of each sorted level at most one.
pub(crate) struct Candidates<'a> {
    newest: &'a [Arc<LiveFile>],
    sorted: [Option<&'a Arc<LiveFile>>; LEVELS],
    depth: usize, // Of `sorted` so many may have one.
    /// Whether most of L0 lies beside the key: then a look at bounds spares many filters.
    is_wide: bool,
}

impl Candidates<'_> {
    /// The newest version of `key` not newer than `at` in any file. Newer levels hold newer
    /// versions of a key, so the first find is the answer.
    pub(crate) fn get(
        &self,
        key: &[u8],
        row_hash: u64,
        at: CommitTs,
        reach: Reach,
    ) -> Result<Option<Found>> {
        for file in self.files().filter(|file| !self.is_wide || file.overlaps(key, key)) {
            if let Some(found) = file.get(key, row_hash, at, reach)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Has the disk begin to read what [`Candidates::get`] will ask it for first.
    pub(crate) fn begin_get(&self, key: &[u8], row_hash: u64, at: CommitTs) {
        let _ = self.files().find(|file| file.begin_get(key, row_hash, at));
    }

    /// Whether any file may hold a version of `key`, by bounds and filters alone: no block is read.
    pub(crate) fn may_hold(&self, key: &[u8], row_hash: u64, reach: Reach) -> Result<bool> {
        for file in self.files() {
            if file.may_hold(key, row_hash, reach)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn files(&self) -> impl Iterator<Item = &Arc<LiveFile>> {
        self.newest.iter().chain(self.sorted[..self.depth].iter().copied().flatten())
    }
}

/// Neighbouring files of a sorted level. A scan over a database holds thousands of files by this
/// one count: counting each of them would cost more than the scan of fifty rows.
pub(crate) struct Part {
    version: Arc<Version>,
    level: usize,
    range: Range<usize>,
}

impl Part {
    /// The files, in key order.
    pub(crate) fn files(&self) -> &[Arc<LiveFile>] {
        self.version.levels[self.level].get(self.range.clone()).unwrap_or_default()
    }

    /// Leaves out files at its ends that `holds` says hold nothing.
    pub(crate) fn trim(&mut self, mut holds: impl FnMut(&LiveFile) -> Result<bool>) -> Result<()> {
        while let Some(first) = self.files().first().cloned()
            && !holds(&first)?
        {
            self.range.start += 1;
        }
        while let Some(last) = self.files().last().cloned()
            && !holds(&last)?
        {
            self.range.end -= 1;
        }
        Ok(())
    }
}

/// How many of `files` lie over one key at most, whichever that is.
fn most_over_one_key(files: &[Arc<LiveFile>]) -> usize {
    // A file ends behind its last key: where two meet in one, both lie over it.
    let starts = files.iter().map(|file| (file.meta.smallest.as_slice(), false));
    let ends = files.iter().map(|file| (file.meta.largest.as_slice(), true));
    let mut bounds: Vec<_> = starts.chain(ends).collect();
    bounds.sort_unstable();
    let (mut over, mut most) = (0, 0);
    for (_, is_end) in bounds {
        over = if is_end { over - 1 } else { over + 1 };
        most = most.max(over);
    }
    most
}

/// The files of every level, and what hides rows of them.
#[derive(Debug, Default)]
pub(crate) struct Version {
    pub(crate) levels: [Vec<Arc<LiveFile>>; LEVELS],
    /// Durable, each of them: a crash takes none of them back.
    pub(crate) erasures: Arc<Erasures>,
    /// What their rows refer to.
    pub(crate) blobs: Blobs,
    /// The newest commit in any file.
    pub(crate) max_ts: CommitTs,
    fences: [Fences; LEVELS], // Of each file's last key; empty for L0.
    depth: usize,             // Levels down to the deepest that has files.
    l0_runs: usize,
}

impl Version {
    /// The Version that the manifest describes.
    pub(crate) fn of(state: &State, shelf: &Arc<Shelf>) -> Version {
        let live = |meta: &Arc<FileMeta>| LiveFile::new(Arc::clone(meta), Arc::clone(shelf));
        let added: Vec<_> = state.blobs.values().cloned().collect();
        let all = state.blobs.keys().copied().collect();
        let blobs = Blobs::default().after(all, &added, &state.uses(), shelf);
        let levels = state.levels.each_ref().map(|level| level.iter().map(live).collect());
        Version::sorted(levels, Arc::clone(&state.erasures), blobs)
    }

    /// The Version after `edit`, which led to `state`. Files that stay keep their open handles,
    /// also across levels.
    pub(crate) fn after(&self, edit: &Edit, state: &Changing, shelf: &Arc<Shelf>) -> Version {
        let mut levels = self.levels.clone();
        let mut removed = HashMap::new();
        for (level, gone) in edit.removed_by_level() {
            let files = &mut levels[usize::from(level)];
            let taken = files.extract_if(.., |file| gone.contains(&file.meta.no));
            removed.extend(taken.map(|file| (file.meta.no, file)));
        }
        let metas = edit.added.iter().map(|(_, meta)| meta);
        let metas = metas.chain(removed.values().map(|file| &file.meta));
        let touched = metas.flat_map(|meta| meta.blobs.keys().copied()).collect();
        let blobs = self.blobs.after(touched, &edit.blobs, state.uses(), shelf);
        for (level, meta) in &edit.added {
            let moved = removed.remove(&meta.no);
            let new = || LiveFile::new(Arc::clone(meta), Arc::clone(shelf));
            levels[usize::from(*level)].push(moved.unwrap_or_else(new));
        }
        for file in removed.into_values() {
            file.dropped.store(true, Ordering::Relaxed);
            shelf.leave_behind(file.meta.bytes);
        }
        Version::sorted(levels, Arc::clone(&state.state().erasures), blobs)
    }

    fn sorted(
        mut levels: [Vec<Arc<LiveFile>>; LEVELS],
        erasures: Arc<Erasures>,
        blobs: Blobs,
    ) -> Version {
        let mut fences: [Fences; LEVELS] = Default::default();
        levels[0].sort_by_key(|file| std::cmp::Reverse((file.meta.max_ts, file.meta.no)));
        for (level, fences) in levels.iter_mut().zip(&mut fences).skip(1) {
            level.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
            *fences = Fences::of(level.iter().map(|file| file.meta.largest.as_slice()));
        }
        let max_ts = levels.iter().flatten().map(|file| file.meta.max_ts).max().unwrap_or_default();
        let depth = levels.iter().rposition(|level| !level.is_empty()).map_or(0, |last| last + 1);
        let l0_runs = most_over_one_key(&levels[0]);
        Version { levels, erasures, blobs, max_ts, fences, depth, l0_runs }
    }

    /// How many files of L0 lie over one key at most. Files of an ingest lie beside each other.
    pub(crate) fn l0_runs(&self) -> usize {
        self.l0_runs
    }

    /// Opens files that were just made, by level and number: a few of them, since others wait
    /// meanwhile.
    pub(crate) fn open_early(&self, made: &[(u8, FileNo)]) {
        for (level, no) in made.iter().take(OPENED_EARLY_MAX) {
            let files = self.levels.get(usize::from(*level)).into_iter().flatten();
            files.filter(|file| file.meta.no == *no).for_each(|file| file.open_early());
        }
    }

    /// The files that may hold `key`. Starts fetching what their filters will be asked for: one
    /// miss per file, all of them under way before the first is waited for.
    pub(crate) fn candidates(&self, key: &[u8], row_hash: u64) -> Candidates<'_> {
        let (mut sorted, depth) = ([None; LEVELS], self.depth);
        for (level, file) in sorted[..depth].iter_mut().enumerate().skip(1) {
            *file = self.file_up_to(level, key);
            file.iter().for_each(|file| file.prefetch(row_hash));
        }
        let newest = &self.levels[0];
        let is_wide = newest.len() > self.l0_runs + BESIDE_MAX;
        let asked = newest.iter().filter(|file| !is_wide || file.overlaps(key, key));
        asked.for_each(|file| file.prefetch(row_hash));
        Candidates { newest, sorted, depth, is_wide }
    }

    /// The first file of a sorted level that does not end before `key`; nothing for L0.
    fn file_up_to(&self, level: usize, key: &[u8]) -> Option<&Arc<LiveFile>> {
        let (files, fences) = (&self.levels[level], &self.fences[level]);
        if level == 0 || files.is_empty() {
            return None;
        }
        let at = fences.narrow(key);
        // Mostly empty: the fences alone know.
        let below = files[at.clone()].partition_point(|file| file.meta.largest.as_slice() < key);
        files.get(at.start + below)
    }

    /// The files of a sorted level that overlap `smallest..=largest`, without a count of each of
    /// them.
    pub(crate) fn part(self: &Arc<Self>, level: usize, smallest: &[u8], largest: &[u8]) -> Part {
        let files = &self.levels[level];
        let start = files.partition_point(|file| file.meta.largest.as_slice() < smallest);
        let len = files[start..].partition_point(|file| file.meta.smallest.as_slice() <= largest);
        Part { version: Arc::clone(self), level, range: start..start + len }
    }

    /// The files of a level that overlap `smallest..=largest`, in the level's order.
    pub(crate) fn overlapping(
        &self,
        level: usize,
        smallest: &[u8],
        largest: &[u8],
    ) -> Vec<Arc<LiveFile>> {
        let files = &self.levels[level];
        if level == 0 {
            return files.iter().filter(|f| f.overlaps(smallest, largest)).cloned().collect();
        }
        let start = files.partition_point(|file| file.meta.largest.as_slice() < smallest);
        let len = files[start..].partition_point(|file| file.meta.smallest.as_slice() <= largest);
        files[start..start + len].to_vec()
    }

    /// Whether no level below that one has files.
    pub(crate) fn ends_at(&self, level: usize) -> bool {
        self.levels.iter().skip(level + 1).all(Vec::is_empty)
    }

    /// Bytes of a level's files.
    pub(crate) fn bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().map(|file| file.meta.bytes).sum()
    }

    /// Bytes of table files that the rows of `range` take, versions and deletes that are not
    /// reclaimed yet included, and of blob files that these refer to; to within a block at either
    /// end of each file, index and filters by share. Cost: opens the files at the ends of the
    /// range.
    pub(crate) fn bytes_between(&self, range: &KeyRange) -> Result<u64> {
        let mut bytes = 0;
        for (_, file) in self.files() {
            if range.end.as_slice() <= file.meta.smallest.as_slice()
                || !file.overlaps(&range.start, &range.end)
            {
                continue;
            }
            let blobs: u64 = file.meta.blobs.values().map(|used| used.bytes).sum();
            let all = file.meta.bytes + blobs;
            let (part, whole) =
                match range.contains(&file.meta.smallest) && range.contains(&file.meta.largest) {
                    true => (1, 1),
                    false => file.table()?.share_of(&range.start, &range.end),
                };
            bytes += (u128::from(all) * u128::from(part) / u128::from(whole)) as u64;
        }
        Ok(bytes)
    }

    /// All files with their levels, L0 first.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<LiveFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.iter().map(move |f| (level, f)))
    }
}

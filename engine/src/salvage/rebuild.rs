//! The salvage itself: reads every file of a folder as far as it goes, merges what there is by
//! commit timestamp, and writes it as a new database in another folder.
//!
//! Every version of a row keeps the commit that wrote it, so that what was newest stays newest.
//! Deletes and erasures are kept too. Nothing is written to the damaged folder, and nothing runs by
//! itself.
//!
//! Promise: every version in the new folder was written by a commit of the old one. What is
//! missing, or may be, is in the report. Without a manifest the rows of an ingest that never ended
//! are like those of one that did: they are kept, and the report names their files.

use crate::blob::format::{self, BlobMeta, Link};
use crate::blob::reader::BlobFile;
use crate::budget::Budget;
use crate::catalog::{self, Tables};
use crate::codec::Reader;
use crate::env::clock::{Clock, SystemClock};
use crate::erasure::set::Erasures;
use crate::error::{Error, Kind, Result};
use crate::expiry;
use crate::folder;
use crate::ids::{CommitTs, FileNo, RowKind, TableId};
use crate::key::order;
use crate::limits::LEVELS;
use crate::manifest::log::Manifest;
use crate::manifest::state::{State, new_id};
use crate::manifest::survey::{self, Survey};
use crate::names::{self, FileKind};
use crate::options::Options;
use crate::pool::Pool;
use crate::rows::Row;
use crate::salvage::log::{self, Log};
use crate::salvage::merge::Merge;
use crate::salvage::output::Output;
use crate::salvage::report::{Loss, LostValues, Report, What};
use crate::salvage::table::{Rows, Unopened, Version};
use crate::sstable::rescue;
use crate::version::shelf::Shelf;
use crate::vfs::api::{Access, LockGuard, Vfs};
use crate::vfs::os::OsVfs;
use bytes::Bytes;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rebuilds what is readable of the database in `dir` in the folder `target`, which must be empty
/// or absent and must not lie in `dir`.
///
/// Cost: reads every file once and writes what it held; the log's commits are held in memory. All
/// table files are open at once, each with its index and a block.
///
/// Errors: `NotFound` where there is no file of a database; `Exists` for a target that is not
/// empty; `Locked` where a process has the database open; `Io` and `NoSpace` of the target, and
/// `Io` where the process may not have so many files open or so much memory;
/// `Unsupported` where this build lacks the codec of values, which another one would save. What
/// cannot be read of `dir` otherwise is no error: it is in the report.
pub fn salvage(dir: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<Report> {
    let seed = SystemClock::new().wall_ticks();
    salvage_with(Arc::new(OsVfs::new()), dir.as_ref(), target.as_ref(), seed)
}

/// [`salvage`] on another disk. `seed`: for the id of the new database, which numbers its files
/// anew.
pub fn salvage_with(vfs: Arc<dyn Vfs>, dir: &Path, target: &Path, seed: u64) -> Result<Report> {
    // First: whoever has the folder open may change it until then.
    let _lock = lock(&*vfs, dir)?;
    let survey = survey::survey(&*vfs, dir)?;
    prepare(&*vfs, dir, target)?;
    let mut salvage = Salvage::new(Arc::clone(&vfs), dir, survey)?;
    let shelf = Shelf::new(vfs, target.to_owned(), Pool::new(Budget::without_caches()), false);
    let state = salvage.write(&shelf, seed)?;
    shelf.sync_names()?;
    Manifest::start(Arc::clone(&shelf.vfs), target, &state)?;
    Ok(salvage.report)
}

/// Keeps others from changing the folder meanwhile. A folder without a lock has nobody in it.
fn lock(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
    let path = names::path(dir, FileKind::Lock, FileNo(0));
    if !folder::files(vfs, dir)?.contains(&(FileKind::Lock, FileNo(0))) {
        return Ok(None);
    }
    match vfs.lock(&path) {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let what = format!("{} is open in another process", dir.display());
            Err(Error::new(Kind::Locked, what))
        }
        Err(_) => Ok(None), // A disk that can only be read has nobody who writes.
    }
}

fn prepare(vfs: &dyn Vfs, dir: &Path, target: &Path) -> Result<()> {
    if target.starts_with(dir) {
        let what = format!("{} lies in the damaged folder", target.display());
        return Err(Error::invalid(what));
    }
    folder::make_empty(vfs, target)
}

/// What is known of the damaged folder, and what has been found out.
struct Salvage {
    dir: PathBuf,
    survey: Survey,
    tables: Vec<Rows>,
    log: Log,
    erasures: Erasures,
    values: Values,
    lost: LostValues,
    names: Names,
    report: Report,
}

impl Salvage {
    /// Looks at every file.
    fn new(vfs: Arc<dyn Vfs>, dir: &Path, mut survey: Survey) -> Result<Salvage> {
        let mut report = Report::default();
        if survey.state.is_some() {
            report.repaired = std::mem::take(&mut survey.damage);
        }
        let listed = folder::list(&*vfs, dir)?;
        let files = Files::of(&*vfs, dir, &listed);
        let state = survey.state.as_ref();
        let known: BTreeMap<FileNo, _> = match state {
            Some(state) => state.files().map(|(_, meta)| (meta.no, Arc::clone(meta))).collect(),
            None => survey.files.clone(),
        };
        let mut numbers: BTreeSet<FileNo> = known.keys().copied().collect();
        if state.is_none() {
            let current = files.tables.keys().filter(|no| !survey.removed.contains(no));
            numbers.extend(current);
        }
        // An ingest is committed after its file was numbered, and so after all that files numbered
        // before it hold.
        let (mut tables, mut newest) = (Vec::new(), CommitTs::ZERO);
        for no in numbers {
            let meta = known.get(&no).cloned();
            let path = files.tables.get(&no).cloned();
            let path = path.unwrap_or_else(|| names::path(dir, FileKind::Table, no));
            match Rows::open(&*vfs, path, no, meta, CommitTs(newest.0.saturating_add(1))) {
                Ok(rows) => {
                    newest = newest.max(rows.newest().unwrap_or_default());
                    tables.push(rows);
                }
                Err(Unopened::Lost(loss)) => report.losses.push(*loss),
                Err(Unopened::Short(error)) => return Err(error),
            }
        }
        tables.reverse(); // Of two ingests with one guess the later counts.
        report.files = tables.len() as u64;
        let in_files = state.map_or(CommitTs::ZERO, |state| state.last_ts);
        let mut log = log::read(&*vfs, dir, state.map(|state| state.log_floor), in_files)?;
        // Files know of those, and of deletes that the log may have lost since.
        log.versions.retain(|version| version.ts > in_files);
        report.log_commits = log.commits;
        report.losses.append(&mut log.losses);
        report.repaired.append(&mut log.harmless);
        let mut erasures = match state {
            Some(state) => Erasures::clone(&state.erasures),
            None => Erasures::of(survey.erasures.iter().cloned()),
        };
        for erasure in &log.erasures {
            if !erasures.contains(erasure) {
                erasures.insert(erasure.clone());
            }
        }
        let values = Values { vfs, paths: files.blobs, open: BTreeMap::new() };
        let (dir, lost, names) = (dir.to_owned(), LostValues::default(), Names::default());
        Ok(Salvage { dir, survey, tables, log, erasures, values, lost, names, report })
    }

    /// Writes everything to the folder of `shelf`; gives what its manifest is to say.
    fn write(&mut self, shelf: &Shelf, seed: u64) -> Result<State> {
        let options = Options::default();
        let next = Cell::new(1);
        let next_file = || FileNo(next.replace(next.get() + 1));
        let mut output = Output::new(shelf, &options, &next_file);
        let versions = std::mem::take(&mut self.log.versions);
        let mut merge = Merge::new(versions, std::mem::take(&mut self.tables));
        let mut last_ts = self.log.seen_ts.max(self.survey.last_ts);
        let mut key = Vec::new();
        while let Some(version) = merge.next()? {
            last_ts = last_ts.max(version.ts);
            let Some(version) = self.with_value(version)? else { continue };
            if key != version.key {
                key.clone_from(&version.key);
                self.names.look(&version, &self.erasures);
            }
            output.add(&version)?;
        }
        self.report.losses.append(&mut merge.losses);
        self.report.unknown.extend(merge.undated.iter().map(|(file, guess)| {
            format!(
                "when the rows of {} were ingested is not known, but not before commit {guess}: what \
                 other files, the log and deletes of ranges have of later commits is taken for newer; \
                 if the ingest never ended they were never committed",
                file.display()
            )
        }));
        self.report.versions = output.versions;
        self.report.last_ts = last_ts;
        let (files, mut blobs) = output.finish()?;
        last_ts = CommitTs(last_ts.0.saturating_add(1));
        self.say_what_nobody_knows();
        let mut found = Output::new(shelf, &options, &next_file);
        let doubt = self.catalog_in_doubt();
        for version in self.names.found(doubt, last_ts, &mut self.report.unknown) {
            found.add(&version)?;
        }
        let (added, more) = found.finish()?;
        blobs.extend(more);
        let mut state = State::empty(new_id(seed));
        state.levels[LEVELS - 1] = files.into_iter().map(Arc::new).collect();
        state.levels[0] = added.into_iter().map(Arc::new).collect();
        state.erasures = Arc::new(self.erasures.clone());
        state.blobs = blobs.into_iter().map(|blob| (blob.no, Arc::new(blob))).collect();
        state.next_file = next_file();
        (state.last_ts, state.history_floor) = (last_ts, last_ts);
        state.history = self.survey.state.as_ref().map_or(0, |state| state.history);
        Ok(state)
    }

    /// The version with its value where it was in a blob file; `None` where that is lost.
    ///
    /// Errors: `Unsupported` where this build cannot read it.
    fn with_value(&mut self, version: Version) -> Result<Option<Version>> {
        match self.values.resolve(&version) {
            Ok(None) => Ok(Some(version)),
            Ok(Some((kind, value))) => Ok(Some(Version { kind, value, ..version })),
            Err(error) if error.kind() == Kind::Unsupported => Err(error),
            Err(error) => {
                let file = error.place().map_or(self.dir.as_path(), |(file, _)| file).to_owned();
                let losses = &mut self.report.losses;
                self.lost.add(losses, (file, &error), (version.key, version.ts));
                Ok(None)
            }
        }
    }

    /// Whether names of tables may be missing, so that rows without one are not just dropped ones.
    fn catalog_in_doubt(&self) -> bool {
        let prefix = catalog::partition();
        let (from, to) = (prefix.clone(), order::partition_end(&prefix));
        let concerns = |loss: &Loss| {
            loss.keys.0.as_ref().is_none_or(|start| *start <= to)
                && loss.keys.1.as_ref().is_none_or(|end| *end >= from)
        };
        self.survey.state.is_none()
            || self.log.end_is_odd
            || self.names.unreadable > 0
            || self.report.losses.iter().any(concerns)
    }

    fn say_what_nobody_knows(&mut self) {
        let Report { losses, unknown, log_end, .. } = &mut self.report;
        if losses.iter().any(|loss| loss.what != What::Commits) {
            unknown.push(
                "where the newest version of a row was lost, an older one stands in its place; where \
                 that was a delete, the row is back"
                    .to_owned(),
            );
        }
        if self.survey.state.is_none() {
            let named = self.survey.damage.iter().filter_map(|error| error.place()?.0.file_name());
            let named: BTreeSet<_> = named.map(|name| name.to_string_lossy()).collect();
            let which = match named.is_empty() {
                true => String::new(),
                false => format!(" (missing or damaged: {})", Vec::from_iter(named).join(", ")),
            };
            unknown.push(format!(
                "the manifest is lost{which}: a table file that is missing as a whole is not noticed; \
                 one that had been merged into others and not yet deleted is taken for current, so that \
                 rows that were deleted or expired since may be back; ranges that were deleted and not \
                 yet merged away are back where neither the log nor what is left of the manifest tells \
                 of them"
            ));
        }
        if self.log.begins_late {
            unknown.push(
                "the log begins with a segment that is not its first: whether those before it were \
                 still needed is not known; commits that only they had are lost"
                    .to_owned(),
            );
        }
        *log_end = self.log.end;
        if let Some(end) = self.log.end.filter(|_| self.log.end_is_odd) {
            unknown.push(format!(
                "the log ends after commit {end} without saying that it ends there: later commits, if \
                 there were any, are lost"
            ));
        }
        if self.names.unreadable > 0 {
            unknown.push(format!(
                "{} rows of the catalogue of tables are not what this build writes",
                self.names.unreadable
            ));
        }
    }
}

/// Where the files are that rows and values lie in, by the number that they give themselves: a file
/// under a wrong name is still itself.
#[derive(Default)]
struct Files {
    tables: BTreeMap<FileNo, PathBuf>,
    blobs: BTreeMap<FileNo, PathBuf>,
}

impl Files {
    fn of(vfs: &dyn Vfs, dir: &Path, listed: &[String]) -> Files {
        let mut files = Files::default();
        let mut named = Vec::new();
        for name in listed {
            let Some((kind, no)) = names::parse(name) else { continue };
            let path = dir.join(name);
            // One that cannot be opened now goes by its name.
            let file = vfs.open(&path, Access::Read).ok();
            let (own, found) = match kind {
                FileKind::Table => (file.and_then(|f| rescue::number_in(&*f)), &mut files.tables),
                FileKind::Blob => (file.and_then(|f| blob_number_in(&*f)), &mut files.blobs),
                _ => continue,
            };
            match own {
                Some(own) => _ = found.insert(own, path),
                None => named.push((kind, no, path)),
            }
        }
        for (kind, no, path) in named {
            let found = if kind == FileKind::Table { &mut files.tables } else { &mut files.blobs };
            found.entry(no).or_insert(path);
        }
        files
    }
}

fn blob_number_in(file: &dyn crate::vfs::api::File) -> Option<FileNo> {
    let bytes = file.read_vec_at(format::HEADER_LEN as usize, 0).ok()?;
    let no = FileNo(u64::from_le_bytes(*bytes.get(12..)?.first_chunk()?));
    (bytes == format::header(no)).then_some(no)
}

/// Values that lie in blob files.
struct Values {
    vfs: Arc<dyn Vfs>,
    paths: BTreeMap<FileNo, PathBuf>,
    open: BTreeMap<FileNo, BlobFile>,
}

/// Blob files that are open at a time; there may be more than a process may open.
const BLOBS_OPEN_MAX: usize = 64;

impl Values {
    /// What the version holds where that lies in a blob file; `None` where it does not.
    fn resolve(&mut self, version: &Version) -> Result<Option<(RowKind, Bytes)>> {
        if !version.kind.is_link() {
            return Ok(None);
        }
        let (expires, link) = expiry::split(version.kind, &version.value);
        let none = || Error::new(Kind::Corrupt, "a row's reference to a blob file is none");
        let link = Link::read(link).ok_or_else(none)?;
        let value = self.file(link.file)?.read(&link)?;
        let kind = if version.kind.expires() { RowKind::PutUntil } else { RowKind::Put };
        Ok(Some((kind, [expires, &value].concat().into())))
    }

    fn file(&mut self, no: FileNo) -> Result<&BlobFile> {
        if !self.open.contains_key(&no) {
            if self.open.len() == BLOBS_OPEN_MAX {
                self.open.clear();
            }
            let file = match self.open_file(no) {
                Err(error) if error.kind() == Kind::Io => {
                    self.open.clear(); // It may be that this process has too many.
                    self.open_file(no)
                }
                opened => opened,
            };
            self.open.insert(no, file?);
        }
        self.open.get(&no).ok_or_else(|| missing(no))
    }

    fn open_file(&self, no: FileNo) -> Result<BlobFile> {
        let path = self.paths.get(&no).ok_or_else(|| missing(no))?;
        let failed = |error| Error::io("opening a blob file", path, error);
        let file = self.vfs.open(path, Access::Read).map_err(failed)?;
        let bytes = file.len().map_err(failed)?;
        BlobFile::open(file, path.clone(), &BlobMeta { no, bytes, values: 0 })
    }
}

fn missing(no: FileNo) -> Error {
    Error::new(Kind::Corrupt, format!("blob file {no} is missing"))
}

/// Which tables there are, and which have rows.
#[derive(Default)]
struct Names {
    tables: Tables,
    next: u32,
    with_rows: BTreeSet<TableId>,
    unreadable: u64,
}

impl Names {
    /// Looks at the newest version of a row.
    fn look(&mut self, version: &Version, erasures: &Erasures) {
        let erased = erasures.covering(&version.key).and_then(|f| f.oldest_above(version.ts));
        if version.kind == RowKind::Delete || erased.is_some() {
            return;
        }
        let Some(table) = order::table_of(&version.key) else { return };
        if table != TableId::CATALOG {
            self.with_rows.insert(table);
            return;
        }
        let rk = version.key.get(version.prefix_len..).unwrap_or_default();
        if rk == catalog::next_id_key() {
            self.next = Reader::new(&version.value).u32().unwrap_or_default();
        }
        let row = Row::new(version.ts, version.value.clone());
        self.unreadable += u64::from(self.tables.load(rk, row).is_err());
    }

    /// Rows of the catalogue, in order, for tables that have rows and no name any more, if that is
    /// not because they were dropped; and the counter of tables where it may be lost.
    fn found(&self, doubt: bool, ts: CommitTs, told: &mut Vec<String>) -> Vec<Version> {
        let mut rows = BTreeMap::new();
        let nameless = self.with_rows.iter().filter(|id| doubt && !self.tables.is_live(**id));
        for id in nameless {
            let own = format!("table{}", id.0);
            let mut name = format!("salvaged/{own}");
            while self.tables.find(&name).is_some() {
                name.push('x');
            }
            told.push(format!(
                "table {} has rows and no name: it is {name} now; it may be one that was dropped",
                id.0
            ));
            rows.insert(catalog::row_key(&name), catalog::encode(*id, own.as_bytes()));
        }
        let highest = self.with_rows.last().map_or(0, |id| id.0);
        if self.next <= highest {
            let next = TableId(highest.saturating_add(1));
            rows.insert(catalog::next_id_key().to_vec(), catalog::encode_next_id(next));
        }
        let prefix = catalog::partition();
        let version = |(rk, value): (Vec<u8>, Vec<u8>)| Version {
            key: [&prefix[..], &rk].concat(),
            prefix_len: prefix.len(),
            ts,
            kind: RowKind::Put,
            value: value.into(),
        };
        rows.into_iter().map(version).collect()
    }
}
